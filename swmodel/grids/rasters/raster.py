"""A field on evenly spaced points, from any format, with the attributes of a `stored.StoredDataset`."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

ELEVATION = "elevation"


@dataclasses.dataclass(frozen=True)
class Variable:
    """A variable: its `dims`, `shape`, `dtype` and `attrs`; `of(window)` gives values, NaN where they are missing."""

    name: str
    dims: tuple[str, ...]
    shape: tuple[int, ...]
    of: Callable[[Sequence[Any]], np.ndarray]
    attrs: Mapping[str, Any]
    dtype = np.dtype(float)
    sign = 1.0

    @property
    def ndim(self) -> int:
        return len(self.dims)

    @property
    def values(self) -> np.ndarray:
        return self.read((slice(None),) * self.ndim)

    def with_attrs(self, **changes: Any) -> Variable:
        """The variable with other attributes; `scale_factor` and `add_offset` are the packing of its values."""
        return dataclasses.replace(self, attrs={**self.attrs, **changes})

    def read(self, window: Sequence[Any]) -> np.ndarray:
        """The values of a window, which has a slice or a number for each dimension."""
        factor, offset = self.attrs.get("scale_factor", 1.0), self.attrs.get("add_offset", 0.0)
        values = np.asarray(self.of(window), float)
        return values if factor == 1.0 and offset == 0.0 else factor * values + offset


class Raster:
    """An elevation on evenly spaced points.

    Args:
        path: of the file.
        x, y: of its points (nx,), (ny,), [degrees] or [m].
        units: of these, "degrees" or "m"; "" if the file does not say.
        read: `read(window)` gives values [m], positive up, for slices of rows and columns; NaN where they are missing.
        assumed: a sentence on how the file was read.

    Attributes:
        variables, data_vars, dims, encoding: as of a StoredDataset.
    """

    def __init__(
        self,
        path: str,
        x: np.ndarray,
        y: np.ndarray,
        units: str,
        read: Callable[[Sequence[Any]], np.ndarray],
        assumed: str,
    ):
        attrs = {"units": "m", "assumed": assumed}
        self.encoding, self.dims = {"source": path}, ("y", "x")
        self.data_vars = {ELEVATION: Variable(ELEVATION, self.dims, (y.size, x.size), read, attrs)}
        axes = {name: _axis(name, values, units) for name, values in (("y", y), ("x", x))}
        self.variables = {**self.data_vars, **axes}

    def __getitem__(self, name: str) -> Variable:
        return self.variables[name]

    def __contains__(self, name: object) -> bool:
        return name in self.variables


def _axis(name, values, units):
    east_or_north = {"x": "degrees_east", "y": "degrees_north"}[name]
    attrs = {"axis": name.upper(), "units": east_or_north if units == "degrees" else units}
    return Variable(name, (name,), values.shape, functools.partial(_part, values), attrs)


def _part(values, window):
    return values[tuple(window)]


def axis_words(x: np.ndarray, y: np.ndarray, units: str) -> str:
    """The ranges of the axes, for the sentence on what was assumed."""
    names = ("longitude", "latitude") if units == "degrees" else ("x", "y")
    unit = {"degrees": " degrees", "m": " m"}.get(units, "")
    ranges = (f"{name} {values.min():.10g} to {values.max():.10g}" for name, values in zip(names, (x, y)))
    return f"{' and '.join(ranges)}{unit}, {x.size:,} x {y.size:,} points"
