"""Restarts as arrays in memory, for tests."""

import dataclasses
from collections.abc import Mapping
from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike

from swmodel.grids.grid import Grid
from swmodel.output.metadata import Attribute
from swmodel.output.restart import Layout, Restart, open_restart, storable, write_restart_parts


def write_restart(
    path: str | Path,
    grid: Grid,
    arrays: Mapping[str, ArrayLike],
    scalars: Mapping[str, bool | int | float | str],
    attributes: Mapping[str, Attribute] | None = None,
) -> None:
    """Write a restart; an older file of that name stays until the new one is complete and on disk.

    Args:
        path: the path of the file.
        grid: the Grid.
        arrays: {name: global array} of numbers or bools, (..., ny, nx) or any other shape.
        scalars: {name: bool, int, float or str}.
        attributes: {name: text or number}; None and "" are left out.

    Raises:
        SwmodelError: if the file cannot be written; the older one is unchanged.
        ValueError: for a name or a value that a netCDF file cannot hold.
    """
    arrays = {name: storable(name, array) for name, array in arrays.items()}
    layout = {name: Layout(array.shape, array.dtype) for name, array in arrays.items()}
    parts = ((name, ..., arrays[name]) for name in sorted(arrays))
    write_restart_parts(path, grid, layout, parts, scalars, attributes)


def read_restart(path: str | Path, grid: Grid | None = None) -> Restart:
    """Read a whole restart into memory, if it is small; `open_restart` reads large ones by windows.

    Args:
        path: the path of the file.
        grid: the Grid on which the run continues, or None to accept any grid.

    Raises:
        DataError: if there is no such file, it is damaged, newer than this swmodel, or of another grid.
    """
    restart = open_restart(path, grid)
    return dataclasses.replace(restart, arrays={name: np.asarray(array) for name, array in restart.arrays.items()})
