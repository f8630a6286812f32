"""Elevations in formats other than netCDF: a reader for each, which gives its files as netCDF files appear.

A `Raster` has the attributes of a `stored.StoredDataset` with one variable, so that axes, signs, masks and windows are
those of every other file. `READERS` names the reader of each format of `runtime/formats.py`. What a reader assumed, of
units, sign, datum and nodes, is a sentence in the attribute "assumed" of its variable, which `swmodel check` prints.
"""

from __future__ import annotations

import importlib
import os
from typing import TYPE_CHECKING

from ...runtime.formats import format_of
from .raster import Raster

if TYPE_CHECKING:
    import xarray as xr

__all__ = ["READERS", "Raster", "as_xarray", "open_raster"]


READERS = {  # {format of runtime/formats.py: module of this folder, with a function `read`}
    "ascii_grid": "ascii_grid",
    "xyz": "columns",
    "tiff": "gdal",
    "surfer": "gdal",
}


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
    if form.name not in READERS:
        return None
    module = importlib.import_module(f".{READERS[form.name]}", __name__)
    return module.read(os.fspath(path), form.words, spherical)


def as_xarray(raster: Raster) -> xr.Dataset:
    """A Raster as an xarray.Dataset, whose values are read."""
    import xarray as xr

    variables = {name: (one.dims, one.values, dict(one.attrs)) for name, one in raster.variables.items()}
    dataset = xr.Dataset(variables)
    dataset.encoding.update(raster.encoding)
    return dataset.set_coords([name for name in raster.variables if name not in raster.data_vars])
