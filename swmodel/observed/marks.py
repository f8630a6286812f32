"""High-water marks: heights that water has reached at places, from a table.

The columns are `x` and `y`, or `longitude` and `latitude`, and a height. `elevation_m` is the level above the zero of
the run's levels, and `depth_m` the depth of the flow above the ground. `name` and `deviation_m` may be columns, too.
Rows without a height do not count. Where a table has both pairs of coordinates, the grid decides.
"""

import dataclasses
from collections.abc import Callable
from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike

from ..errors import DataError
from ..grids.observed_tables import AXES, ELEVATION, LARGEST, kind_of_places, read_table, stand_for_gaps, table_names

DEPTH, DEVIATION = "depth_m", "deviation_m"


@dataclasses.dataclass(frozen=True, eq=False)
class MarkTable:
    """The marks of a table that have a height; arrays are (n,).

    Attributes:
        names: of the marks; their numbers where the table names none.
        spherical: whether x and y are longitudes and latitudes.
        x, y: the places.
        height: the level or the depth [m].
        deviation: standard deviation of the errors [m]; NaN where the table has none.
        of_depth: whether heights are depths above the ground.
        left_out: the number of rows without a height.
    """

    names: tuple[str, ...]
    spherical: bool
    x: np.ndarray
    y: np.ndarray
    height: np.ndarray
    deviation: np.ndarray
    of_depth: bool
    left_out: int


def read_marks(path: str | Path, spherical: bool | None = None) -> MarkTable:
    """The marks of a table, CSV or netCDF.

    Args:
        spherical: whether the grid is; None where it is not known.

    Raises:
        DataError: if the table cannot be read, lacks a column, has both heights, other coordinates than the grid, a
            place or a height that cannot be, or names a mark twice.
    """
    head = table_names(path)
    if DEPTH in head and ELEVATION in head:
        raise DataError(f"{path} has both {ELEVATION} and {DEPTH}; leave one of them out.")
    kind_of_table = kind_of_places(path, spherical)
    kind = bool(spherical) if kind_of_table is None else kind_of_table
    axes = AXES[kind]
    height = DEPTH if DEPTH in head else ELEVATION
    texts, own = (["name"] if "name" in head else []), ([DEVIATION] if DEVIATION in head else [])
    columns = read_table(path, (*axes, height, *own), texts)
    known = np.isfinite(columns[height])
    names = columns["name"] if texts else [f"{k}" for k in range(1, known.size + 1)]
    if twice := [name for k, name in enumerate(names) if name in names[:k]]:
        raise DataError(f"{path} has two marks named {twice[0]!r}; give each a name of its own.")
    deviation = columns[DEVIATION] if own else np.full(known.size, np.nan)
    x, y, heights, errors = (values[known] for values in (*(columns[name] for name in (*axes, height)), deviation))
    named = tuple(name for name, counts in zip(names, known) if counts)
    wrong = ~np.isfinite(x + y) | (np.abs(y) > (90.0 if kind else np.inf))
    wrong |= stand_for_gaps(np.abs(heights), LARGEST[ELEVATION]) | ((heights < 0) & (height == DEPTH))
    if wrong.any():
        k = int(np.argmax(wrong))
        raise DataError(
            f"{path}: the mark {named[k]!r} at ({x[k]:g}, {y[k]:g}) with {height} = {heights[k]:g} cannot be; check "
            "place and height, or leave the height empty."
        )
    return MarkTable(named, kind, x, y, heights, errors, height == DEPTH, int(np.count_nonzero(~known)))


def nearest_cell(
    row: float, column: float, shape: tuple[int, ...], reach: int, counts: Callable[[np.ndarray, np.ndarray], ArrayLike]
) -> tuple[int, int] | None:
    """(j, i) of the nearest cell that counts to fractional indices, within `reach` cells; None without one.

    A place outside of the grid has none.

    Args:
        shape: (ny, nx) of the grid.
        counts: `counts(rows, columns)`, whether cells count.
    """
    if not all(-0.5 - 1e-9 <= at <= n - 0.5 + 1e-9 for at, n in zip((row, column), shape)):
        return None
    centre = int(np.rint(row)), int(np.rint(column))
    j, i = (np.arange(max(at - reach, 0), min(at + reach + 1, n)) for at, n in zip(centre, shape))
    rows, columns = (part.ravel() for part in np.meshgrid(j, i, indexing="ij"))
    if not (some := np.asarray(counts(rows, columns), bool)).any():
        return None
    k = int(np.argmin(np.where(some, np.hypot(rows - row, columns - column), np.inf)))
    return int(rows[k]), int(columns[k])
