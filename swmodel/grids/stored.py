"""Fields of netCDF files that are read by windows, without xarray, whose import takes a second of a run's start.

A `StoredDataset` has the attributes of an xarray.Dataset that `axes` and `elevation` use, and a `StoredField` those of
a 2-D xarray.DataArray that `remapping` uses. Fill values and packing are decoded as xarray does, to the same types and
bits. Files that need more than that, such as unsigned integers in signed ones, are left to xarray.
"""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Mapping, Sequence
from typing import Any, Self

import netCDF4
import numpy as np

from ..runtime.signals import LOCK
from .coast import LandMask
from .rasters.raster import Raster, Variable

FILLS, PACKING = ("_FillValue", "missing_value"), ("scale_factor", "add_offset")
OF_XARRAY = ("_Unsigned", "dtype")  # attributes by which xarray changes the type of values


def open_stored(path: str | os.PathLike) -> StoredDataset | None:
    """The netCDF file at `path`, of which no value is read yet; None for a file that is left to xarray."""
    try:
        with LOCK, _opened(path) as file:
            dataset = StoredDataset(file, path)
    except (OSError, AttributeError):
        return None
    if (
        not dataset.variables
        or "xysize" in dataset.dims
        or not all(variable.is_decoded_here for variable in dataset.variables.values())
    ):
        return None
    return dataset


def _opened(path):
    """The netCDF4.Dataset of a file, whose values are not decoded."""
    file = netCDF4.Dataset(os.fspath(path))
    file.set_auto_maskandscale(False)
    file.set_auto_chartostring(False)
    return file


class StoredDataset:
    """The variables of a netCDF file, with values as numbers. The file is open only while values are read from it.

    Args:
        file: the netCDF4.Dataset, which is not kept.
        path: of the file.

    Attributes:
        variables: {name: StoredVariable}.
        data_vars: those that are not the coordinates of a dimension.
        dims: the names of the dimensions.
        encoding: {"source": the path}.
    """

    def __init__(self, file: Any, path: str | os.PathLike):
        self.encoding, self.dims = {"source": str(path)}, tuple(file.dimensions)
        where = os.path.abspath(path)
        self.variables = {name: StoredVariable.of(where, name, variable) for name, variable in file.variables.items()}
        self.data_vars = {name: one for name, one in self.variables.items() if one.dims != (name,)}

    def __getitem__(self, name: str) -> StoredVariable:
        return self.variables[name]

    def __contains__(self, name: object) -> bool:
        return name in self.variables


@dataclasses.dataclass(frozen=True)
class StoredVariable:
    """A variable of a file: its `name`, `dims`, `shape`, stored `dtype` and `attrs`; and its `values`, decoded."""

    path: str
    name: str
    dims: tuple[str, ...]
    shape: tuple[int, ...]
    dtype: Any
    attrs: Mapping[str, Any]

    @classmethod
    def of(cls, path: str, name: str, variable: Any) -> Self:
        """That of a netCDF4.Variable, which is not kept."""
        attrs = {key: variable.getncattr(key) for key in variable.ncattrs()}
        return cls(path, name, tuple(variable.dimensions), tuple(variable.shape), variable.dtype, attrs)

    @property
    def ndim(self) -> int:
        return len(self.dims)

    @property
    def is_decoded_here(self) -> bool:
        """Whether `values` are those that xarray would give; text is never read."""
        if not isinstance(self.dtype, np.dtype) or self.dtype.kind not in "iuf":
            return True
        found = [np.asarray(self.attrs.get(key, 0.0)) for key in (*FILLS, *PACKING)]
        plain = all(value.ndim == 0 and value.dtype.kind in "iuf" for value in found)
        return plain and all(value.dtype.kind == "f" for value in found[2:]) and not self.attrs.keys() & {*OF_XARRAY}

    def with_attrs(self, **changes: Any) -> StoredVariable:
        """The variable with other attributes."""
        return dataclasses.replace(self, attrs={**self.attrs, **changes})

    @property
    def values(self) -> np.ndarray:
        return self.read((slice(None),) * self.ndim)

    def read(self, window: Sequence[Any]) -> np.ndarray:
        """The decoded values of a window, which has a slice or a number for each dimension."""
        with LOCK, _opened(self.path) as file:
            stored = np.asarray(file[self.name][tuple(window)])
        return _decoded(stored.astype(stored.dtype.newbyteorder("="), copy=False), self.attrs)


def _decoded(stored: np.ndarray, attrs: Mapping[str, Any]) -> np.ndarray:
    """Stored numbers without packing, and with NaN in the place of missing values."""
    given = [attrs[key] for key in FILLS if key in attrs]
    fills = [fill for fill in given if not np.isnan(fill)]
    packing = {key: attrs[key] for key in PACKING if key in attrs}
    if fills:
        dtype = _type_of_packed(stored.dtype, packing) if packing else _type_with_missing(stored.dtype)
        missing, stored = np.zeros(stored.shape, bool), np.array(stored, dtype)
        for fill in fills:
            missing |= stored == fill
        stored[missing] = np.nan
    if packing:
        stored = stored.astype(stored.dtype if given else _type_of_packed(stored.dtype, packing))
        stored *= packing.get("scale_factor", 1)
        stored += packing.get("add_offset", 0)
    return stored


def _type_with_missing(dtype):
    """The type of numbers that may be missing and are not packed."""
    if dtype.kind == "f":
        return dtype
    return np.dtype(np.float32 if dtype.itemsize <= 2 else np.float64)


def _type_of_packed(dtype, packing):
    """The type of packed numbers, by that of their factor and offset."""
    types = [np.dtype(type(value)) for value in packing.values()]
    if len(types) == 2 and types[0] == types[1] and types[0] in (np.float32, np.float64):
        return np.dtype(np.float64) if dtype.kind in "iu" and dtype.itemsize == 4 else types[0]
    return np.dtype(np.float64) if "add_offset" in packing else types[0]


class StoredField:
    """A 2-D field (y, x) of a file, both axes ascending, of which windows are read.

    Args:
        variable: the StoredVariable. Its dimensions of length 1 other than the axes are left out.
        axes: {name of an axis of the field: its axes.Axis}, y before x.
        attrs: of the field.
        dataset: the StoredDataset.
        mask: the LandMask of the file, on whose land values are missing; None if it has none.
    """

    name = "elevation"
    ndim = 2

    def __init__(
        self,
        variable: StoredVariable | Variable,
        axes: Mapping[str, Any],
        attrs: Mapping,
        dataset: StoredDataset | Raster,
        mask: LandMask | None = None,
    ):
        self._variable, self._axes, self.attrs = variable, dict(axes), dict(attrs)
        self._mask, self._water = mask, None if mask is None else dataset[mask.name]
        self.dims, self.encoding = tuple(axes), dict(dataset.encoding)
        self.shape = tuple(axis.values.size for axis in axes.values())

    def __getitem__(self, name: str) -> Any:
        """The axis of that name, with `values` and `attrs`."""
        return self._axes[name]

    def isel(self, window: Mapping[str, slice]) -> StoredWindow:
        """A window: {name of an axis: a slice of it}."""
        return StoredWindow(self, window)

    def read(self, window: Mapping[str, slice]) -> np.ndarray:
        """The values (rows, columns) of a window."""
        values = self._read(self._variable, window)
        if self._mask is None:
            return values
        return np.where(self._mask.is_water(self._read(self._water, window)), values, np.nan)

    def _read(self, variable, window):
        kept = {axis.dim: axis.index(window.get(name, slice(None))) for name, axis in self._axes.items()}
        lows = {dim: int(index.min()) if index.size else 0 for dim, index in kept.items()}
        steps = {dim: _step(index) for dim, index in kept.items()}
        boxes = {dim: slice(lows[dim], int(index.max(initial=-1)) + 1, steps[dim]) for dim, index in kept.items()}
        values = variable.read([boxes.get(dim, 0) for dim in variable.dims])
        y, x = (axis.dim for axis in self._axes.values())
        order = [dim for dim in variable.dims if dim in kept]
        values = values if order == [y, x] else values.T
        rows, columns = ((kept[dim] - lows[dim]) // steps[dim] for dim in (y, x))
        return values[rows][:, columns]

    def close(self) -> None:
        """Do nothing: unlike that of an xarray.DataArray, the file is not open."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()


def _step(places):
    """The step along a dimension with which all places are read."""
    return int(np.gcd.reduce(np.diff(places))) or 1 if places.size > 1 else 1


class StoredWindow:
    """A window of a StoredField; `values` reads it."""

    def __init__(self, field: StoredField, window: Mapping[str, slice]):
        self._field, self._window = field, window

    @property
    def values(self) -> np.ndarray:
        return self._field.read(self._window)
