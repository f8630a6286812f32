"""Arrays in the form of files: with the shape of their C-grid position, and the fill value where there is no water."""

from collections.abc import Mapping, Sequence
from typing import Any

import netCDF4
import numpy as np

from ..fields.variables import Variable
from ..grids.grid import Grid
from . import definitions, metadata

__all__ = ["checked_shape", "define_static", "dry_points", "fill_dry", "variable_name", "with_low_faces"]


def define_static(
    dataset: netCDF4.Dataset,
    grid: Grid,
    static: Mapping[str | Variable, np.ndarray],
    members: metadata.MemberValues | None = None,
) -> None:
    """Write the land mask, and fields that are constant in time, one for all members of an ensemble or one for each."""
    for name, array in static.items():
        if name == "wet":
            definitions.define_wet(dataset, checked_shape("wet", array, grid.shape))
            continue
        row, each = metadata.variable_of(name), members if np.ndim(array) > 2 else None
        array = checked_shape(row.name, array, metadata.of_members(each)[1] + metadata.shape(grid, row.position))
        variable = definitions.define_field(dataset, row, grid, array.dtype, members=each)
        variable[:] = fill_dry(array, dry_points(static, grid, row.position), array.dtype)


def variable_name(key: str | Variable) -> str:
    """The name of a row of the variable table; a name is returned as it is."""
    return key if isinstance(key, str) else key.name


def checked_shape(name: str, array: Any, shape: Sequence[int]) -> np.ndarray:
    """`array` as a NumPy array.

    Raises:
        ValueError: if its shape is not `shape`.
    """
    array = np.asarray(array)
    if array.shape != tuple(shape):
        raise ValueError(f"{name} has shape {array.shape}, and the file needs {tuple(shape)}.")
    return array


def dry_points(static: Mapping[Any, np.ndarray], grid: Grid, position: str) -> np.ndarray | bool:
    """True at the points of the C-grid position that touch no wet cell; False if `static` has no land mask "wet"."""
    if "wet" not in static:
        return False
    return ~metadata.reach_of_water(checked_shape("wet", static["wet"], grid.shape), grid, position)


def fill_dry(array: np.ndarray, dry: np.ndarray | bool, dtype: Any) -> np.ndarray:
    """`array` in `dtype`, with netCDF's fill value where `dry` is true."""
    with np.errstate(over="ignore"):
        filled = np.array(array, dtype)
    np.copyto(filled, np.asarray(metadata.fill_value(dtype), dtype), where=dry)  # less than half the time of np.where
    return filled


def with_low_faces(values: np.ndarray, grid: Grid, position: str) -> np.ndarray:
    """A global array (..., ny, nx) with NaN on the added low faces of directions that are not periodic."""
    pad = [(0, 0)] * values.ndim
    if position == "u" and not grid.periodic_x:
        pad[-1] = (1, 0)
    if position == "v" and not grid.periodic_y:
        pad[-2] = (1, 0)
    return np.pad(values, pad, constant_values=np.nan)
