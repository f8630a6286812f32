"""The horizontal axes of a file: their variables and units, in any spelling, and fields on them in ascending order.

Files of any convention are accepted: longitudes from -180 or from 0, latitudes from either pole, dimensions in any
order. Axes are identified by CF attributes, else by usual names. A rotated or curvilinear grid raises DataError.

Importing xarray takes a second, so that it is imported when it opens a file. Its objects are recognised without it.
"""

from __future__ import annotations

import dataclasses
import os
import pathlib
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from ..errors import DataError
from ..runtime.formats import check_format
from ..units import conversion
from .rasters import as_xarray, open_raster

if TYPE_CHECKING:
    import xarray as xr
    from typing_extensions import TypeIs

    from .stored import StoredDataset

Gridded: TypeAlias = "str | os.PathLike | xr.DataArray"  # a file, or what was read from one

_DEGREES = {
    "x": "degrees_east degree_east degrees_e degree_e degreese degreee".split(),
    "y": "degrees_north degree_north degrees_n degree_n degreesn degreen".split(),
}
_GEOGRAPHIC_NAMES = {
    "x": ("lon", "longitude", "nav_lon", "long", "lons", "longitudes"),
    "y": ("lat", "latitude", "nav_lat", "lats", "latitudes"),
}
_GEOGRAPHIC = {"x": "longitude", "y": "latitude"}


def open_raw(path: str | os.PathLike) -> xr.Dataset:
    """The netCDF file at `path` (or an OPeNDAP address), with values as stored and none read yet; or a raster."""
    import xarray as xr

    check_file(path)
    if (raster := open_raster(path)) is not None:
        return as_xarray(raster)
    try:
        dataset = xr.open_dataset(path, decode_cf=False)
    except (ValueError, OSError) as error:
        is_netcdf = check_format(path, ("netcdf",), "a netCDF file, or another one of docs/guide/files.md", "grid")
        what = "is a netCDF file that is damaged or cut off; copy it again" if is_netcdf else "cannot be opened"
        raise DataError(f"{path} {what}.") from error
    if not dataset.variables:
        check_format(path, ("netcdf",), "one with variables outside of groups")
    return dataset


def check_file(path: str | os.PathLike) -> None:
    """Raise DataError if `path` is neither a file nor an OPeNDAP address."""
    if "://" not in str(path) and not pathlib.Path(path).is_file():
        raise DataError(f"there is no file {path} (looked from {pathlib.Path.cwd()}); check the path.")


def is_data_array(x: object) -> TypeIs[xr.DataArray]:
    """Whether x is an xarray.DataArray, of which there is none before xarray was imported."""
    xarray = sys.modules.get("xarray")
    return xarray is not None and isinstance(x, xarray.DataArray)


def is_dataset(x: object) -> TypeIs[xr.Dataset]:
    """Whether x is an xarray.Dataset."""
    xarray = sys.modules.get("xarray")
    return xarray is not None and isinstance(x, xarray.Dataset)


def decode(dataset: xr.Dataset) -> xr.Dataset:
    """Apply the packing and missing values of `dataset` lazily, and leave its times as numbers."""
    import xarray as xr

    return xr.decode_cf(dataset, decode_times=False, decode_timedelta=False)


def label(field: Any) -> str:
    """The name of a field in messages: its file, or its own name."""
    return str(field.encoding.get("source") or field.name or "the field")


def named(field: Any) -> str:
    """The name of a DataArray, with that of its file, for messages."""
    source = field.encoding.get("source")
    return str(field.name) if source is None else f"{field.name} in {source}"


def _has_axis(letter):
    """Rules that identify the x or y axis of a file, the most reliable first: (name, attributes) -> bool."""
    return (
        lambda name, attrs: attrs.get("standard_name") == _GEOGRAPHIC[letter],
        lambda name, attrs: str(attrs.get("units", "")).lower() in _DEGREES[letter],
        lambda name, attrs: attrs.get("standard_name") == f"projection_{letter}_coordinate",
        lambda name, attrs: str(attrs.get("axis", attrs.get("cartesian_axis", ""))).lower() == letter,
        lambda name, attrs: name.lower() in (*_GEOGRAPHIC_NAMES[letter], letter),
    )


def find_axis(dataset: xr.Dataset | StoredDataset, dims: Sequence, letter: str) -> Any:
    """The name of the variable of `dataset` along x or y for a field with dimensions `dims`, or None."""
    near = {name: v for name, v in dataset.variables.items() if set(v.dims) <= set(dims)}
    sure, likely = _has_axis(letter)[:3], _has_axis(letter)[3:]
    for rules, ndim in ((sure, 1), (sure, 2), (likely, 1), (likely, 2)):  # true positions go before axes of indices
        for rule in rules:
            names = [name for name, v in near.items() if v.ndim == ndim and rule(name, v.attrs)]
            if names:
                return names[0]
    return None


def _axis_units(name, attrs, letter):
    """ "degrees", "m", or "" if the file does not give units."""
    units = str(attrs.get("units", "")).lower()
    names = name.lower(), str(attrs.get("long_name", "")).lower(), attrs.get("standard_name")
    if (
        units.startswith("degree")
        or conversion(units, "degree")
        or names[0] in _GEOGRAPHIC_NAMES[letter]
        or _GEOGRAPHIC[letter] in names[1:]
    ):
        return "degrees"
    return "m" if conversion(units, "m") else ""


def _one_dimensional(coordinate):
    """(dimension, values) of an axis, in metres or degrees.

    Raises:
        DataError: for a two-dimensional axis that varies along both dimensions.
    """
    values = np.asarray(coordinate.values, dtype=np.float64)
    units = str(coordinate.attrs.get("units", "")).lower()
    values = (conversion(units, "degree") or conversion(units, "m") or 1.0) * values
    if values.ndim == 1:
        return coordinate.dims[0], values
    for axis in (0, 1):
        if np.ptp(values, axis=axis).max() <= 1e-6 * np.ptp(values):
            return coordinate.dims[1 - axis], values.take(0, axis=axis)
    raise DataError(
        f"{named(coordinate)} varies along both {coordinate.dims[0]} and {coordinate.dims[1]}: the file's grid is "
        "rotated or curvilinear; put it on longitude-latitude axes first (gmt surface, cdo remapbil)."
    )


def _ascending(values, is_longitude):
    """(indexer, values) that make an axis ascend; longitudes are unrolled and lose repeated points."""
    if is_longitude:  # steps of more than 180 degrees become seams, so that what ascends now has no gap
        values = np.unwrap(values, period=360.0)
    if (np.diff(values) < 0).all():
        return slice(None, None, -1), values[::-1]
    if (np.diff(values) > 0).all():
        last = np.searchsorted(values, values[0] + 360.0 - 1e-6) if is_longitude else values.size
        return slice(0, int(last)), values[:last]
    if not is_longitude:
        raise DataError("the latitudes (or y) neither ascend nor descend; sort the file along them.")
    circle, order = np.unique(np.round(values % 360.0, 9), return_index=True)
    start = (np.argmax(np.diff(circle, append=circle[0] + 360.0)) + 1) % circle.size
    circle = np.unwrap(np.roll(circle, -start), period=360.0)
    return np.roll(order, -start), circle


@dataclasses.dataclass(frozen=True)
class Axis:
    """A horizontal axis of a field.

    Attributes:
        dim: the dimension of the file.
        kept: the places along `dim` that make the axis ascend, a slice or an array.
        values: the coordinates at these places, ascending.
        attrs: {"units": "degrees", "m", or "" if the file does not give them}.
    """

    dim: str
    kept: Any
    values: np.ndarray
    attrs: dict[str, str]

    def every(self, n: int) -> Axis:
        """The axis with every n-th point alone; raises DataError if fewer than two are left."""
        if n == 1:
            return self
        places, values = self.index(slice(None))[::n], self.values[::n]
        if values.size < 2:
            raise DataError(f"of {self.values.size} points along {self.dim}, coarsen = {n} leaves one; give less.")
        return dataclasses.replace(self, kept=places, values=values)

    def index(self, part: slice) -> np.ndarray:
        """The places along `dim` of a part of the axis."""
        places = np.arange(self.values.size) if isinstance(self.kept, slice) else self.kept
        if isinstance(self.kept, slice) and self.kept.step == -1:
            places = places[::-1]
        return places[part]


def horizontal_axes(dataset: xr.Dataset | StoredDataset, name: str) -> dict[str, Axis]:
    """{"lat": Axis, "lon": Axis} of variable `name`; "y" and "x" in metres, or without units if they cannot be degrees.

    Raises:
        DataError: if there is no such variable or axis, or an axis is not of a rectilinear grid.
    """
    if name not in dataset.data_vars:
        raise DataError(
            f"{dataset.encoding.get('source', 'the data')} has no variable {name!r}; "
            f"it has {', '.join(map(str, dataset.data_vars))}."
        )
    field, axes, units = dataset[name], {}, ""
    for letter in "yx":
        axis = find_axis(dataset, field.dims, letter)
        if axis is None:
            raise DataError(
                f"{name} {field.dims} has no {_GEOGRAPHIC[letter]}: none of {', '.join(map(str, dataset.variables))} "
                "has its standard_name, units, axis or name; add such a coordinate to the file."
            )
        axes[letter] = _one_dimensional(dataset[axis])
        units = units or _axis_units(axis, dataset[axis].attrs, letter)
    for dim, values in axes.values():
        if values.size < 2 or not np.isfinite(values).all():
            raise DataError(f"{name} needs two or more finite points along {dim}, and has {values}.")
    on_earth = np.abs(axes["y"][1]).max() <= 90.0 + 1e-6 and np.abs(axes["x"][1]).max() <= 720.0
    names = ("lat", "lon") if units == "degrees" or (not units and on_earth) else ("y", "x")
    (y_dim, y), (x_dim, x) = axes["y"], axes["x"]
    by_y, y = _ascending(y, is_longitude=False)
    by_x, x = _ascending(x, is_longitude=names[1] == "lon")
    return {names[0]: Axis(y_dim, by_y, y, {"units": units}), names[1]: Axis(x_dim, by_x, x, {"units": units})}


def rectilinear(dataset: xr.Dataset, name: str) -> xr.DataArray:
    """Variable `name` of `dataset`, lazily, as (..., lat, lon) with both axes ascending.

    A file in metres, or one without units whose x and y cannot be degrees, is returned as (..., y, x).
    """
    axes = horizontal_axes(dataset, name)
    field, own = dataset[name], {axis.dim for axis in axes.values()}
    times = {k: v.variable for k, v in field.coords.items() if not own & set(v.dims) and v.dims == (k,)}
    field = field.drop_vars(list(field.coords)).isel({axis.dim: axis.kept for axis in axes.values()})
    field = field.rename({axis.dim: new for new, axis in axes.items()}).transpose(..., *axes)
    field = field.assign_coords({**times, **{new: (new, axis.values, axis.attrs) for new, axis in axes.items()}})
    field.encoding = {"source": dataset.encoding.get("source")}
    return field
