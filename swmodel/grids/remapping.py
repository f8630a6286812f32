"""Linear maps from the grid of a file to the model's grid, and the part of the file that each of them needs.

Every map is separable, Z_model = W_y Z W_x^T, with sparse matrices W whose rows sum to one:

    average      W_ji = |cell_j intersected with data cell_i| / |cell_j|, in longitude and in sin(latitude), the
                 measure of area on the sphere: the integral over the domain is kept exactly
    interpolate  the two weights of linear interpolation at the model's points, hence bilinear

A data cell reaches half-way to the next node. Longitudes may follow any convention, cross the date line or Greenwich.
All arithmetic is done on the host in float64, and only the box that is needed is read.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from ..errors import ConfigError, DataError
from ..runtime.signals import LOCK
from .axes import label
from .grid import Grid, at_both_ends, turned_together

if TYPE_CHECKING:
    import xarray as xr
    from scipy.sparse import csr_array

    from .stored import StoredField

ROWS_AT_ONCE = 2**22  # values of a file held in memory at a time


def cell_edges(nodes: np.ndarray) -> np.ndarray:
    """Edges (n + 1,) of the data cells around ascending nodes (n,): half-way between them, mirrored at the ends."""
    middle = 0.5 * (nodes[1:] + nodes[:-1])
    return np.concatenate([[2 * nodes[0] - middle[0]], middle, [2 * nodes[-1] - middle[-1]]])


def overlap_weights(source: np.ndarray, target: np.ndarray) -> Any:
    """Sparse (cells of target, cells of source): the share of each target cell that lies in each source cell.

    Both are given by their ascending edges; the outermost source cells are stretched to the ends of the target.
    """
    from scipy.sparse import csr_array  # takes half a second, for which runs without such files need not wait

    source = source.copy()
    source[0], source[-1] = min(source[0], target[0]), max(source[-1], target[-1])
    edges = np.unique(np.concatenate([source, target]))
    edges = edges[(edges >= target[0]) & (edges <= target[-1])]
    middle = 0.5 * (edges[1:] + edges[:-1])
    row, column = (np.maximum(np.searchsorted(side, middle) - 1, 0) for side in (target, source))  # for equal edges
    share = np.diff(edges) / np.diff(target)[row]
    return csr_array((share, (row, column)), shape=(target.size - 1, source.size - 1))


def linear_weights(nodes: np.ndarray, points: np.ndarray) -> Any:
    """Sparse (points, nodes) of linear interpolation; a point beyond the outermost node takes its value."""
    from scipy.sparse import csr_array

    low = np.clip(np.searchsorted(nodes, points, side="right") - 1, 0, nodes.size - 2)
    share = np.clip((points - nodes[low]) / (nodes[low + 1] - nodes[low]), 0.0, 1.0)
    row = np.arange(points.size)
    return csr_array(
        (np.concatenate([1 - share, share]), (np.concatenate([row, row]), np.concatenate([low, low + 1]))),
        shape=(points.size, nodes.size),
    )


@dataclasses.dataclass(frozen=True)
class Remapping:
    """The rows and columns of a field that are needed, their coordinates, and the weights that map them to the grid."""

    rows: slice
    columns: tuple  # of slices: two or more where the box crosses the seam of the file
    y: np.ndarray  # (n rows,)
    x: np.ndarray  # (n columns,), unrolled to the grid's longitudes
    to_y: csr_array  # (ny, n rows)
    to_x: csr_array  # (nx, n columns)

    def inside(self, rows: slice, columns: slice) -> np.ndarray:
        """Whether cells (rows, columns) of the grid lie in the file, of a Remapping that may be `partial`."""
        return np.outer(*(np.asarray(w[part].sum(axis=1)) > 0 for w, part in ((self.to_y, rows), (self.to_x, columns))))

    def part(self, rows: slice, columns: slice) -> Remapping:
        """The Remapping to some rows and columns of the grid, which reads only the nodes that these need."""
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

    def groups(self, part: Remapping) -> Iterator[tuple[slice, slice]]:
        """Groups of about ROWS_AT_ONCE values of the rows of a `part`: of the field, and counted from the part's first.

        The groups are the same for every part, so that sums do not depend on how the grid is cut.
        """
        step, rows = max(ROWS_AT_ONCE // self.x.size, 1), part.rows
        for start in range(self.rows.start, self.rows.stop, step):
            first, last = max(start, rows.start), min(start + step, rows.stop)
            if first < last:
                yield slice(first, last), slice(first - rows.start, last - rows.start)

    def read(self, field: xr.DataArray | StoredField, rows: slice | None = None) -> np.ndarray:
        """The box (n rows, n columns) of a 2-D field as float64, or only some of its rows."""
        y, x = (str(name) for name in field.dims)
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


def remapping(
    field: xr.DataArray | StoredField, grid: Grid, method: str, position: str = "h", partial: bool = False
) -> Remapping:
    """The Remapping of `field`, a result of `rectilinear`, to `grid`.

    Args:
        method: "average" over the cells (position "h" only) or "interpolate" to the points at `position`.
        partial: whether the field may cover a part of the grid; cells that are not wholly within it have no weights.

    Raises:
        DataError: if the field is on another kind of axes than the grid, or does not cover it.
    """
    if method not in ("average", "interpolate"):
        raise ConfigError(f"method = {method!r} is not a way to regrid; use 'average' or 'interpolate'.")
    _check_axes(field, grid)
    (y_name, x_name), spherical = (str(name) for name in field.dims[-2:]), grid.spherical
    y, x = field[y_name].values, field[x_name].values
    row_index, y = _surround(y, *grid.y_edges[[0, -1]], is_longitude=False, partial=partial)
    column_index, x = _surround(x, *grid.x_edges[[0, -1]], is_longitude=spherical, partial=partial)
    if row_index is None or column_index is None or y is None or x is None:
        raise DataError(_not_covered(field, grid))
    if method == "average":
        measure = (lambda phi: np.sin(np.deg2rad(np.clip(phi, -90.0, 90.0)))) if spherical else (lambda y: y)
        to_y = overlap_weights(measure(cell_edges(y)), measure(grid.y_edges))
        to_x = overlap_weights(cell_edges(x), grid.x_edges)
    else:
        at_x, at_y = grid.coordinates(position)
        to_y, to_x = linear_weights(y, at_y[:, 0]), linear_weights(x, at_x[0])
    if partial:
        if spherical and not is_circle(field[x_name].values):
            _refuse_split(field, grid)
        to_y, to_x = _within(to_y, y, grid.y_edges), _within(to_x, x, grid.x_edges)
        if not (to_y.nnz and to_x.nnz):
            raise DataError(_not_covered(field, grid))
    return Remapping(slice(int(row_index[0]), int(row_index[-1]) + 1), runs_of(column_index), y, x, to_y, to_x)


def runs_of(places: np.ndarray) -> tuple[slice, ...]:
    """The slices of places that follow one another."""
    runs = np.split(places, np.flatnonzero(np.diff(places) != 1) + 1)
    return tuple(slice(int(run[0]), int(run[-1]) + 1) for run in runs)


def _refuse_split(field, grid):
    """Raise DataError for longitudes that lie at both ends of the grid, of which one would be left out."""
    west, east = grid.x_edges[[0, -1]]
    low, high = turned_together(field[field.dims[-1]].values, west, east)[[0, -1]]
    if at_both_ends(low, high, west, east, spare=1e-6):
        raise DataError(
            f"{label(field)} reaches across the ends of the grid's longitudes, {west:g} and {east:g}; begin the grid "
            "at another meridian, or cut the file in two there."
        )


def is_circle(longitudes: np.ndarray) -> bool:
    """Whether ascending longitudes go round the Earth."""
    return longitudes[0] + 360.0 - longitudes[-1] <= 1.5 * np.median(np.diff(longitudes))


def _within(weights, nodes, edges):
    """The weights of the grid's cells that lie within the data cells around `nodes`; others have none."""
    from scipy.sparse import diags_array

    data, spare = cell_edges(nodes)[[0, -1]], 1e-6 * np.diff(edges).min()
    inside = (edges[:-1] >= data[0] - spare) & (edges[1:] <= data[1] + spare)
    within = (diags_array(inside.astype(float)) @ weights).tocsr()
    within.eliminate_zeros()
    return within


def _surround(nodes, low, high, is_longitude, partial=False):
    """(indices, coordinates) of the nodes on and around [low, high], or (None, None) if they do not reach its ends.

    The outermost node may lie up to one spacing inside: a file whose nodes stop at 179.9 covers a domain to 180.
    """
    index = np.arange(nodes.size)
    if is_longitude and is_circle(nodes):
        circles = np.arange(np.floor((low - nodes[0]) / 360.0) - 1, np.floor((high - nodes[0]) / 360.0) + 2)
        index = np.tile(index, circles.size)
        nodes = (nodes + 360.0 * circles[:, None]).ravel()
    elif is_longitude:
        nodes = turned_together(nodes, low, high)
    spare = 1 + 1e-6
    if not partial and (
        low < nodes[0] - spare * (nodes[1] - nodes[0]) or high > nodes[-1] + spare * (nodes[-1] - nodes[-2])
    ):
        return None, None
    first = min(max(np.searchsorted(nodes, low, side="right") - 2, 0), nodes.size - 2)
    last = max(np.searchsorted(nodes, high, side="left") + 2, 2)
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


def filled(values: np.ndarray, plan: Any, spherical: bool) -> np.ndarray:
    """`values` on the plan's nodes with missing ones taken from the nearest valid node."""
    import scipy.spatial  # takes a twentieth of a second, for which few runs need to wait

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
