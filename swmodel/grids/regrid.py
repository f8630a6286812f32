"""From the grid of a file onto the model's: gridded fields on longitude-latitude (or x-y) axes.

Every map here is separable, Z_model = W_y Z W_x^T with sparse W whose rows sum to one:

    average      W_ji = |cell_j intersected with data cell_i| / |cell_j|, in longitude and in sin(latitude), the
                 measure of area on the sphere: the integral over the domain is kept exactly
    interpolate  the two weights of linear interpolation at the model's points, hence bilinear

A data cell reaches half-way to the next node. Longitudes may follow any convention, cross the date line or Greenwich.
Everything is host arithmetic in float64, and only the box that is needed is read.
"""

import dataclasses
import datetime
import os
import pathlib
from collections.abc import Sequence
from typing import Any

import cftime
import numpy as np
import scipy.sparse
import scipy.spatial
import xarray as xr

from ..errors import ConfigError, DataError
from ..fields.parameters import in_utc
from ..runtime.netcdf import LOCK
from .grid import POSITIONS, Grid
from .windows import GridRecords, GridValues

__all__ = ["Records", "field_records", "filled", "read_field_onto"]

DAY = 86400.0  # [s]
YEAR = 365.25 * DAY  # [s], the cycle of a climatology
MONTH_DAYS = (31, 28.25, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)

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
    """The netCDF file at `path` (or an OPeNDAP address), its values as stored, nothing read yet."""
    if "://" not in str(path) and not pathlib.Path(path).is_file():
        raise DataError(f"there is no file {path} (looked from {pathlib.Path.cwd()}); check the path.")
    try:
        return xr.open_dataset(path, decode_cf=False)
    except (ValueError, OSError) as error:
        raise DataError(f"{path} cannot be opened as netCDF; give a netCDF file.") from error


def decode(dataset: xr.Dataset) -> xr.Dataset:
    """Apply the packing and missing values of `dataset` lazily, and leave its times as numbers."""
    return xr.decode_cf(dataset, decode_times=False, decode_timedelta=False)


# --- axes ---------------------------------------------------------------------------------------------------------


def _has_axis(letter):
    """What marks the x or y axis of a file, the surest first: (variable's name, its attributes) -> bool."""
    return (
        lambda name, attrs: attrs.get("standard_name") == _GEOGRAPHIC[letter],
        lambda name, attrs: str(attrs.get("units", "")).lower() in _DEGREES[letter],
        lambda name, attrs: attrs.get("standard_name") == f"projection_{letter}_coordinate",
        lambda name, attrs: str(attrs.get("axis", attrs.get("cartesian_axis", ""))).lower() == letter,
        lambda name, attrs: name.lower() in (*_GEOGRAPHIC_NAMES[letter], letter),
    )


def find_axis(dataset: xr.Dataset, dims: Sequence, letter: str) -> Any:
    """The name of the variable of `dataset` along x or y for a field with dimensions `dims`, or None."""
    near = {name: v for name, v in dataset.variables.items() if set(v.dims) <= set(dims)}
    sure, likely = _has_axis(letter)[:3], _has_axis(letter)[3:]
    for rules, ndim in ((sure, 1), (sure, 2), (likely, 1), (likely, 2)):  # true positions go before axes of indices
        for rule in rules:
            found = [name for name, v in near.items() if v.ndim == ndim and rule(name, v.attrs)]
            if found:
                return found[0]
    return None


def _axis_units(name, attrs, letter):
    """ "degrees", "m", or "" if the file does not say."""
    units = str(attrs.get("units", "")).lower()
    names = name.lower(), str(attrs.get("long_name", "")).lower(), attrs.get("standard_name")
    if units.startswith("degree") or names[0] in _GEOGRAPHIC_NAMES[letter] or _GEOGRAPHIC[letter] in names[1:]:
        return "degrees"
    return "m" if units in ("m", "metre", "metres", "meter", "meters", "km") else ""


def _one_dimensional(coordinate):
    """(dimension, values) of an axis; a two-dimensional one must vary along one dimension only."""
    values = np.asarray(coordinate.values, dtype=np.float64)
    if str(coordinate.attrs.get("units", "")).lower() == "km":
        values = 1000.0 * values
    if values.ndim == 1:
        return coordinate.dims[0], values
    for axis in (0, 1):
        if np.ptp(values, axis=axis).max() <= 1e-6 * np.ptp(values):
            return coordinate.dims[1 - axis], values.take(0, axis=axis)
    raise DataError(
        f"{coordinate.name} varies along both {coordinate.dims[0]} and {coordinate.dims[1]}: the file's grid is "
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


def rectilinear(dataset: xr.Dataset, name: str) -> xr.DataArray:
    """Variable `name` of `dataset`, lazily, as (..., lat, lon) with both axes ascending.

    A file in metres, or one whose x and y say nothing and do not fit the Earth, comes as (..., y, x).
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
    times = {k: v.variable for k, v in field.coords.items() if not {x_dim, y_dim} & set(v.dims) and v.dims == (k,)}
    field = field.drop_vars(list(field.coords)).isel({y_dim: by_y, x_dim: by_x})
    field = field.rename({y_dim: names[0], x_dim: names[1]}).transpose(..., *names)
    axes = {name: (name, values, {"units": units}) for name, values in zip(names, (y, x))}
    field = field.assign_coords({**times, **axes})
    field.encoding = {"source": dataset.encoding.get("source")}
    return field


# --- weights --------------------------------------------------------------------------------------------------------


def cell_edges(nodes: np.ndarray) -> np.ndarray:
    """Edges (n + 1,) of the data cells around ascending nodes (n,): half-way between them, mirrored at the ends."""
    middle = 0.5 * (nodes[1:] + nodes[:-1])
    return np.concatenate([[2 * nodes[0] - middle[0]], middle, [2 * nodes[-1] - middle[-1]]])


def overlap_weights(source: np.ndarray, target: np.ndarray) -> Any:
    """Sparse (cells of target, cells of source): the share of each target cell that lies in each source cell.

    Both are given by their ascending edges; the outermost source cells are stretched to the ends of the target.
    """
    source = source.copy()
    source[0], source[-1] = min(source[0], target[0]), max(source[-1], target[-1])
    edges = np.unique(np.concatenate([source, target]))
    edges = edges[(edges >= target[0]) & (edges <= target[-1])]
    middle = 0.5 * (edges[1:] + edges[:-1])
    row, column = np.searchsorted(target, middle) - 1, np.searchsorted(source, middle) - 1
    share = np.diff(edges) / np.diff(target)[row]
    return scipy.sparse.csr_array((share, (row, column)), shape=(target.size - 1, source.size - 1))


def linear_weights(nodes: np.ndarray, points: np.ndarray) -> Any:
    """Sparse (points, nodes) of linear interpolation; a point beyond the outermost node takes its value."""
    low = np.clip(np.searchsorted(nodes, points, side="right") - 1, 0, nodes.size - 2)
    share = np.clip((points - nodes[low]) / (nodes[low + 1] - nodes[low]), 0.0, 1.0)
    row = np.arange(points.size)
    return scipy.sparse.csr_array(
        (np.concatenate([1 - share, share]), (np.concatenate([row, row]), np.concatenate([low, low + 1]))),
        shape=(points.size, nodes.size),
    )


@dataclasses.dataclass(frozen=True)
class Remapping:
    """Which rows and columns of a field are needed, where they lie, and the weights that take them to the grid."""

    rows: slice
    columns: tuple  # of slices: two or more where the box crosses the seam of the file
    y: np.ndarray  # (n rows,)
    x: np.ndarray  # (n columns,), unrolled to the grid's longitudes
    to_y: scipy.sparse.csr_array  # (ny, n rows)
    to_x: scipy.sparse.csr_array  # (nx, n columns)

    def part(self, rows: slice, columns: slice) -> "Remapping":
        """The Remapping to some rows and columns of the grid, which reads no more of the field than these need."""
        to_y, j0, j1 = _needed(self.to_y, rows)
        to_x, i0, i1 = _needed(self.to_x, columns)
        start, kept = 0, []
        for run in self.columns:  # numbers of columns of the field, of which i0:i1 count those that were kept
            stop = start + run.stop - run.start
            first, last = max(start, i0), min(stop, i1)
            if first < last:
                kept.append(slice(run.start + first - start, run.start + last - start))
            start = stop
        rows = slice(self.rows.start + j0, self.rows.start + j1)
        return Remapping(rows, tuple(kept), self.y[j0:j1], self.x[i0:i1], to_y, to_x)

    def read(self, field: xr.DataArray, rows: slice | None = None) -> np.ndarray:
        """The box (n rows, n columns) of a 2-D field as float64, or only some of its rows."""
        y, x = field.dims
        with LOCK:
            pieces = [field.isel({y: rows or self.rows, x: columns}).values for columns in self.columns]
        return np.concatenate(pieces, axis=1).astype(np.float64)

    def __call__(self, values: np.ndarray, rows: slice = slice(None)) -> np.ndarray:
        """W_y Z W_x^T, (ny, nx), of a box of values or the contribution of some of its rows."""
        return self.to_y[:, rows] @ np.ascontiguousarray((self.to_x @ np.ascontiguousarray(values.T)).T)


def _needed(weights, targets):
    """(the weights of some targets, on the sources that they need; the first of these, and the one after the last)."""
    part = weights[targets]
    first, last = (int(part.indices.min()), int(part.indices.max()) + 1) if part.nnz else (0, 1)
    return part[:, first:last], first, last


def remapping(field: xr.DataArray, grid: Grid, method: str, position: str = "h") -> Remapping:
    """Plan how `field`, as `rectilinear` gives it, goes onto `grid`.

    Args:
        method: "average" over the cells (position "h" only) or "interpolate" to the points at `position`.

    Raises:
        DataError: if the field is on another kind of axes than the grid, or does not cover it.
    """
    if method not in ("average", "interpolate"):
        raise ConfigError(f"method = {method!r} is not a way to regrid; use 'average' or 'interpolate'.")
    _check_axes(field, grid)
    (y_name, x_name), spherical = field.dims[-2:], grid.spherical
    y, x = field[y_name].values, field[x_name].values
    row_index, y = _surround(y, *grid.y_edges[[0, -1]], is_longitude=False)
    column_index, x = _surround(x, *grid.x_edges[[0, -1]], is_longitude=spherical)
    if row_index is None or column_index is None or y is None or x is None:
        raise DataError(_not_covered(field, grid))
    if method == "average":
        measure = (lambda phi: np.sin(np.deg2rad(np.clip(phi, -90.0, 90.0)))) if spherical else (lambda y: y)
        to_y = overlap_weights(measure(cell_edges(y)), measure(grid.y_edges))
        to_x = overlap_weights(cell_edges(x), grid.x_edges)
    else:
        at_x, at_y = grid.coordinates(position)
        to_y, to_x = linear_weights(y, at_y[:, 0]), linear_weights(x, at_x[0])
    breaks = np.flatnonzero(np.diff(column_index) != 1) + 1
    columns = tuple(slice(int(run[0]), int(run[-1]) + 1) for run in np.split(column_index, breaks))
    return Remapping(slice(int(row_index[0]), int(row_index[-1]) + 1), columns, y, x, to_y, to_x)


def _surround(nodes, low, high, is_longitude):
    """(indices, coordinates) of the nodes on and around [low, high], or (None, None) if they do not reach its ends.

    The outermost node may lie up to one spacing inside: a file whose nodes stop at 179.9 covers a domain to 180.
    """
    index = np.arange(nodes.size)
    if is_longitude and nodes[0] + 360.0 - nodes[-1] <= 1.5 * np.median(np.diff(nodes)):
        circles = np.arange(np.floor((low - nodes[0]) / 360.0) - 1, np.floor((high - nodes[0]) / 360.0) + 2)
        index = np.tile(index, circles.size)
        nodes = (nodes + 360.0 * circles[:, None]).ravel()
    elif is_longitude:
        nodes = nodes + 360.0 * np.round((low + high - nodes[0] - nodes[-1]) / 720.0)
    spare = 1 + 1e-6
    if low < nodes[0] - spare * (nodes[1] - nodes[0]) or high > nodes[-1] + spare * (nodes[-1] - nodes[-2]):
        return None, None
    first = max(np.searchsorted(nodes, low, side="right") - 2, 0)
    last = np.searchsorted(nodes, high, side="left") + 2
    return index[first:last], nodes[first:last]


def _check_axes(field, grid):
    kind = field[field.dims[-1]].attrs.get("units", "")
    if grid.spherical and field.dims[-1] != "lon":
        raise DataError(
            f"{label(field)} lies on x and y, not on longitudes and latitudes, which a SphericalGrid needs; "
            "give a file with longitudes, or use a CartesianGrid."
        )
    if not grid.spherical and kind == "degrees":
        raise DataError(
            f"{label(field)} lies on longitudes and latitudes, and the grid is Cartesian; use a SphericalGrid, "
            "or project the file to x and y in metres first."
        )


def label(field: xr.DataArray) -> str:
    """What to call a field in a message: its file, or its name."""
    return str(field.encoding.get("source") or field.name or "the field")


def _not_covered(field, grid):
    def ranges(x, y):
        if grid.spherical:
            return f"longitude {x[0]:.2f} to {x[-1]:.2f}, latitude {y[0]:.2f} to {y[-1]:.2f}"
        return f"x {x[0]:g} to {x[-1]:g} m, y {y[0]:g} to {y[-1]:g} m"

    y, x = (field[dim].values for dim in field.dims[-2:])
    return (
        f"{label(field)} covers {ranges(x, y)} and the grid needs {ranges(grid.x_edges, grid.y_edges)}; "
        "take a smaller domain or a file that covers it."
    )


# --- records in time ------------------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class Records:
    """Fields at given times, linear in between; cyclic ones begin again after `cycle`.

    A linear course through mid-month means does not quite keep the monthly means (Killworth 1996,
    doi:10.1175/1520-0485(1996)026<0136:TIOFFI>2.0.CO;2).
    """

    times: np.ndarray  # (nt,) ascending [s] since the start of the run
    values: np.ndarray | GridRecords  # (nt, ny, nx)
    cycle: float | None = None  # [s]

    def bracket(self, time: float) -> tuple[int, int, float]:
        """(i, j, weight): the field at `time` [s] is (1 - weight) values[i] + weight values[j]."""
        n = self.times.size
        if n == 1:
            return 0, 0, 0.0
        if self.cycle is not None:
            phase = (time - self.times[0]) % self.cycle
            i = int(np.searchsorted(self.times - self.times[0], phase, side="right")) - 1
            j = (i + 1) % n
            return i, j, float((phase - self.times[i] + self.times[0]) / ((self.times[j] - self.times[i]) % self.cycle))
        if not self.times[0] <= time <= self.times[-1]:
            raise DataError(
                f"Records.bracket: no record for {time:g} s, they go from {self.times[0]:g} to {self.times[-1]:g} s "
                "since the start of the run; shorten the run or give a longer file."
            )
        i = min(int(np.searchsorted(self.times, time, side="right")) - 1, n - 2)
        return i, i + 1, float((time - self.times[i]) / (self.times[i + 1] - self.times[i]))

    def at(self, time: float) -> Any:
        """The field (ny, nx) at `time` [s]."""
        i, j, weight = self.bracket(time)
        values: Any = self.values
        return (1 - weight) * values[i] + weight * values[j]


def read_field_onto(
    source: Any,
    variable: Any,
    grid: Grid,
    position: str = "h",
    start: datetime.datetime | None = None,
    window: tuple[float, float] | None = None,
) -> Any:
    """Read a gridded field, steady or in time records, and interpolate it bilinearly to the points of the grid.

    Missing values take the nearest valid one first (by great-circle distance on the sphere).

    Args:
        source: path of a netCDF file, or an xarray Dataset or DataArray.
        variable: its name in the source (a DataArray needs none).
        position: "h", "u", "v" or "q", the points of the C-grid.
        start: datetime at which the run starts; times count from there. Without it they count from the first
            record, and a climatology from 1 January.
        window: (first, last) time [s] of the run: only the records around it are read.

    Returns:
        Records: values (nt, ny, nx) in the source's units. Twelve months of a climatology lie at mid-month and are
        cyclic with 365.25 days; a field without time is one record.

    Raises:
        DataError: if the variable, its axes or its times cannot be understood, or do not cover grid and window.
    """
    if position not in POSITIONS:
        raise ConfigError(f"position = {position!r} is not on the C-grid; use one of {', '.join(POSITIONS)}.")
    if isinstance(source, xr.DataArray):
        variable = str(source.name or "field")
        source = source.to_dataset(name=variable)
    if not isinstance(source, xr.Dataset):
        with decode(open_raw(source)) as dataset:
            return read_field_onto(dataset, variable, grid, position, start, window)
    found = field_records(source, variable, grid, position, start, window)
    return dataclasses.replace(found, values=np.asarray(found.values))


def field_records(
    source: Any, variable: str, grid: Grid, position: str = "h", start: Any = None, window: Any = None
) -> Records:
    """Records as of `read_field_onto`, in GridRecords, of which only the windows that are asked for are read.

    Missing values take the nearest valid one of the whole field, which is then read as a whole, a record at a time.

    Args:
        source: path of a netCDF file, or an xarray Dataset.
        variable, grid, position, start, window: as of `read_field_onto`.
    """
    if not isinstance(source, xr.Dataset):
        source = decode(open_raw(source))  # xarray opens the file again when values are read
    field = rectilinear(source, variable)
    field = field.squeeze([dim for dim in field.dims[1:-2] if field.sizes[dim] == 1])
    plan = remapping(field, grid, "interpolate", position)
    times, cycle = _times(field, start)
    field = field.expand_dims("record") if field.ndim == 2 else field
    kept = slice(None) if window is None or cycle is not None else _around(times, window)
    values = GridRecords([_FieldValues(record, plan, grid) for record in field[kept]])
    return Records(times[kept], values, cycle)


class _FieldValues(GridValues):
    """One record of a field, interpolated to the points of a grid."""

    def __init__(self, field, plan, grid):
        self.field, self.plan, self.spherical, self.shape = field, plan, grid.spherical, grid.shape

    def block(self, rows, columns):
        part = self.plan.part(rows, columns)
        values = part.read(self.field)
        if np.isfinite(values).all():
            return part(values)
        whole = filled(self.plan.read(self.field), self.plan, self.spherical)
        j, i = np.searchsorted(self.plan.y, part.y[0]), np.searchsorted(self.plan.x, part.x[0])
        return part(whole[j : j + part.y.size, i : i + part.x.size])


def _times(field, start):
    """(times [s] since `start`, cycle [s] or None) of the records of a field (time, y, x) or (y, x)."""
    if field.ndim == 2:
        return np.zeros(1), None
    if field.ndim > 3:
        raise DataError(f"{field.name} has dimensions {field.dims}; select one level first, down to (time, y, x).")
    start = None if start is None else in_utc(start)
    name = field.dims[0]
    time = field.coords[name] if name in field.coords else None
    attrs = {} if time is None else time.attrs
    said, months = {"climatology", "modulo"} & set(attrs), name.lower().startswith("mon")
    if field.shape[0] == 12 and (said or (months and not _dated(time))):
        since_january = 0.0 if start is None else (start - datetime.datetime(start.year, 1, 1)).total_seconds()
        return DAY * (np.cumsum(MONTH_DAYS) - 0.5 * np.array(MONTH_DAYS)) - since_january, YEAR
    if time is None:
        raise DataError(f"{field.name} has {field.shape[0]} records along {name} without times; add a time axis.")
    times = _seconds(time, start)
    if not (np.diff(times) > 0).all():
        raise DataError(f"the times of {field.name} do not ascend; sort the file along {name}.")
    return times, None


def _dated(time):
    """Whether a time axis (a DataArray, or None where there is none) holds dates, which belong to one year."""
    if time is None:
        return False
    units = str(time.attrs.get("units", ""))
    return np.issubdtype(time.dtype, np.datetime64) or time.dtype == object or " since " in units


def _seconds(time, start):
    """Seconds since `start` (or since the first record) of a time axis, in its own calendar."""
    values, units = time.values, str(time.attrs.get("units", ""))
    if np.issubdtype(values.dtype, np.datetime64):
        return (values - (values[0] if start is None else np.datetime64(start))) / np.timedelta64(1, "s")
    if values.dtype != object and " since " in units:
        try:
            values = cftime.num2date(values, units, time.attrs.get("calendar", "standard"))
        except ValueError as error:
            raise DataError(f"the times of {time.name} are in {units!r}, which cannot be read: {error}.") from error
    elif values.dtype != object:
        if units.lower() not in ("s", "sec", "second", "seconds"):
            raise DataError(f"the times of {time.name} have units {units!r}; give 'seconds since ...' (CF) or 's'.")
        return values.astype(np.float64)
    origin = values[0]
    if start is not None:
        origin = cftime.datetime(*start.timetuple()[:6], start.microsecond, calendar=values[0].calendar)
    return np.array([(value - origin).total_seconds() for value in values])


def _around(times, window):
    if times.size > 1 and not (times[0] <= window[0] and window[1] <= times[-1]):
        raise DataError(
            f"the records go from {times[0]:g} to {times[-1]:g} s since the start of the run, which needs "
            f"{window[0]:g} to {window[1]:g} s; change the start or give a file that covers the run."
        )
    first = np.searchsorted(times, window[0], side="right") - 1
    return slice(max(int(first), 0), int(np.searchsorted(times, window[1])) + 1)


def filled(values: np.ndarray, plan: Any, spherical: bool) -> np.ndarray:
    """`values` on the plan's nodes with missing ones taken from the nearest valid node."""
    missing = ~np.isfinite(values)
    if not missing.any():
        return values
    if missing.all():
        raise DataError("the field has no valid value in the domain; check its missing values.")
    x, y = np.broadcast_arrays(plan.x, plan.y[:, None])
    points = np.stack([x, y], axis=-1)
    if spherical:
        x, y = np.deg2rad(x), np.deg2rad(y)
        points = np.stack([np.cos(y) * np.cos(x), np.cos(y) * np.sin(x), np.sin(y)], axis=-1)
    _, nearest = scipy.spatial.KDTree(points[~missing]).query(points[missing])
    values = values.copy()
    values[missing] = values[~missing][nearest]
    return values
