"""Fields of files that are read by windows, without xarray, whose import takes a second of a run's start.

A `StoredDataset` has the attributes of an xarray.Dataset that `axes` and `elevation` use, and a `StoredField` those of
a 2-D xarray.DataArray that `remapping` uses. Fill values and packing are decoded as xarray does, to the same types and
bits. NetCDF files that need more than that, such as unsigned integers in signed ones, are left to xarray.
"""

from __future__ import annotations

import dataclasses
import functools
import os
import types
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from ..runtime.signals import LOCK

if TYPE_CHECKING:
    from .coast import LandMask

FILLS, PACKING = ("_FillValue", "missing_value"), ("scale_factor", "add_offset")
OF_XARRAY = ("_Unsigned", "dtype")  # attributes by which xarray changes the type of values


@dataclasses.dataclass(frozen=True)
class Variable:
    """A variable of a file.

    Attributes:
        name, dims, shape, attrs: as of an xarray.Variable.
        dtype: of the stored values.
        stored: `stored(window)` gives them, for a slice or a number for each dimension.
    """

    name: str
    dims: tuple[str, ...]
    shape: tuple[int, ...]
    dtype: Any
    attrs: Mapping[str, Any]
    stored: Callable[[Sequence[Any]], np.ndarray]

    @property
    def ndim(self) -> int:
        return len(self.dims)

    def with_attrs(self, **changes: Any) -> Variable:
        """The variable with other attributes; `scale_factor` and `add_offset` are the packing of its values."""
        return dataclasses.replace(self, attrs={**self.attrs, **changes})

    @property
    def values(self) -> np.ndarray:
        """All values, decoded."""
        return self.read((slice(None),) * self.ndim)

    def read(self, window: Sequence[Any]) -> np.ndarray:
        """The decoded values of a window."""
        return _decoded(self.stored(window), self.attrs)


class StoredDataset:
    """Variables of a file, with values as numbers, of which none is read yet.

    Args:
        variables: the Variables.
        path: of the file.

    Attributes:
        variables: {name: Variable}.
        data_vars: those that are not the coordinates of a dimension.
        encoding: {"source": the path}.
    """

    def __init__(self, variables: Sequence[Variable], path: str | os.PathLike):
        self.encoding = {"source": str(path)}
        self.variables = {one.name: one for one in variables}
        self.data_vars = {one.name: one for one in variables if one.dims != (one.name,)}

    def __getitem__(self, name: str) -> Variable:
        return self.variables[name]

    def __contains__(self, name: object) -> bool:
        return name in self.variables


def open_stored(path: str | os.PathLike) -> StoredDataset | None:
    """The netCDF file at `path`, which is open only while values are read; None for one that is left to xarray."""
    where = os.path.abspath(path)
    try:
        with LOCK, _opened(path) as file:
            dims, variables = tuple(file.dimensions), []
            for name, one in file.variables.items():
                attrs = {key: one.getncattr(key) for key in one.ncattrs()}
                read = functools.partial(_stored, where, name)
                variables.append(Variable(name, tuple(one.dimensions), tuple(one.shape), one.dtype, attrs, read))
    except (OSError, AttributeError):
        return None
    if not variables or "xysize" in dims or not all(map(_is_decoded_here, variables)):
        return None
    return StoredDataset(variables, path)


def _opened(path):
    """The netCDF4.Dataset of a file, whose values are not decoded."""
    import netCDF4

    file = netCDF4.Dataset(os.fspath(path))
    file.set_auto_maskandscale(False)
    file.set_auto_chartostring(False)
    return file


def _stored(path: str, name: str, window: Sequence[Any]) -> np.ndarray:
    """The stored numbers of a window of a variable of a netCDF file."""
    with LOCK, _opened(path) as file:
        stored = np.asarray(file[name][tuple(window)])
    return stored.astype(stored.dtype.newbyteorder("="), copy=False)


def _is_decoded_here(variable: Variable) -> bool:
    """Whether the values are those that xarray would give; text is never read."""
    if not isinstance(variable.dtype, np.dtype) or variable.dtype.kind not in "iuf":
        return True
    numbers = [np.asarray(variable.attrs.get(key, 0.0)) for key in (*FILLS, *PACKING)]
    plain = all(value.ndim == 0 and value.dtype.kind in "iuf" for value in numbers)
    return plain and all(value.dtype.kind == "f" for value in numbers[2:]) and not variable.attrs.keys() & {*OF_XARRAY}


def _decoded(stored: np.ndarray, attrs: Mapping[str, Any]) -> np.ndarray:
    """Stored numbers without packing, and with NaN in the place of missing values."""
    given = [attrs[key] for key in FILLS if key in attrs]
    fills = [fill for fill in given if not np.isnan(fill)]
    packing = {key: attrs[key] for key in PACKING if key in attrs}
    if fills:
        dtype = stored.dtype if stored.dtype.kind == "f" else np.dtype(f"f{4 if stored.dtype.itemsize <= 2 else 8}")
        dtype = _type_of_packed(stored.dtype, packing) if packing else dtype
        missing, stored = np.zeros(stored.shape, bool), np.array(stored, dtype)
        for fill in fills:
            missing |= stored == fill
        stored[missing] = np.nan
    if packing:
        stored = stored.astype(stored.dtype if given else _type_of_packed(stored.dtype, packing))
        stored *= packing.get("scale_factor", 1)
        stored += packing.get("add_offset", 0)
    return stored


def _type_of_packed(dtype, packing):
    """The type of packed numbers, by that of their factor and offset."""
    types = [np.dtype(type(value)) for value in packing.values()]
    if len(types) == 2 and types[0] == types[1] and types[0] in (np.float32, np.float64):
        return np.dtype(np.float64) if dtype.kind in "iu" and dtype.itemsize == 4 else types[0]
    return np.dtype(np.float64) if "add_offset" in packing else types[0]


class StoredField:
    """A 2-D field (y, x) of a file, both axes ascending, of which windows are read.

    Args:
        variable: the Variable. Its dimensions of length 1 other than the axes are left out.
        axes: {name of an axis of the field: its axes.Axis}, y before x.
        attrs: of the field.
        dataset: the StoredDataset.
        mask: the LandMask of the file, on whose land values are missing; None if it has none.
    """

    name = "elevation"
    ndim = 2

    def __init__(
        self,
        variable: Variable,
        axes: Mapping[str, Any],
        attrs: Mapping,
        dataset: StoredDataset,
        mask: LandMask | None = None,
    ):
        self._variable, self._axes, self.attrs = variable, dict(axes), dict(attrs)
        self._mask, self._water = mask, None if mask is None else dataset[mask.name]
        self.dims, self.encoding = tuple(axes), dict(dataset.encoding)
        self.shape = tuple(axis.values.size for axis in axes.values())

    def __getitem__(self, name: str) -> Any:
        """The axis of that name, with `values` and `attrs`."""
        return self._axes[name]

    def isel(self, window: Mapping[str, slice]) -> types.SimpleNamespace:
        """A window {name of an axis: a slice of it}, of which `values` has been read."""
        return types.SimpleNamespace(values=self.read(window))

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

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        """Do nothing: unlike that of an xarray.DataArray, the file is not open."""


def _step(places):
    """The step along a dimension with which all places are read."""
    return int(np.gcd.reduce(np.diff(places))) or 1 if places.size > 1 else 1
