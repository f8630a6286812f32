"""Elevations in formats other than netCDF: a reader for each, which gives its files as netCDF files appear.

A `Raster` has the attributes of a `stored.StoredDataset` with one variable, so that axes, signs, masks and windows are
those of every other file. `READERS` names the reader of each format of `runtime/formats.py`. What a reader assumed, of
units, sign, datum and nodes, is a sentence in the attribute "assumed" of its variable, which `swmodel check` prints.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TYPE_CHECKING

from ...runtime.formats import format_of
from .raster import Raster

if TYPE_CHECKING:
    import xarray as xr

__all__ = ["READERS", "Raster", "as_xarray", "open_raster"]


def _ascii_grid(path: str, words: str, spherical: bool | None) -> Raster:
    from .ascii_grid import read

    return read(path, words)


def _columns(path: str, words: str, spherical: bool | None) -> Raster:
    from .columns import read

    return read(path, words)


def _by_gdal(path: str, words: str, spherical: bool | None) -> Raster:
    from .gdal import read

    return read(path, words, spherical)


READERS: dict[str, Callable[[str, str, bool | None], Raster]] = {
    "ascii_grid": _ascii_grid,
    "xyz": _columns,
    "tiff": _by_gdal,
    "surfer": _by_gdal,
}  # by name of a Format


def open_raster(path: str | os.PathLike, spherical: bool | None = None) -> Raster | None:
    """The Raster at `path`, None for a file of another format.

    Args:
        path: of the file.
        spherical: whether longitudes and latitudes are needed: a projected file that names its projection is
            transformed to them, a window at a time. None takes the axes of the file.

    Raises:
        DataError: for a file that is damaged, not in metres, or whose reader is not installed.
    """
    try:
        form = format_of(path)
    except OSError:
        return None
    reader = READERS.get(form.name)
    return None if reader is None else reader(os.fspath(path), form.words, spherical)


def as_xarray(raster: Raster) -> xr.Dataset:
    """A Raster as an xarray.Dataset, whose values are read."""
    import xarray as xr

    variables = {name: (one.dims, one.values, dict(one.attrs)) for name, one in raster.variables.items()}
    dataset = xr.Dataset(variables)
    dataset.encoding.update(raster.encoding)
    return dataset.set_coords([name for name in raster.variables if name not in raster.data_vars])
