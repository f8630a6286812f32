"""Beds that are finer than the grid: topography of ratio x ratio fine cells in each cell, and its tables.

Of the n = ratio^2 fine cells of a cell, with depths d (positive down), those below the level hold water. With d_m, the
mean depth of the m deepest ones, and f_m = m / n, the water in the cell, over the cell's area, is convex in the level:

    h(eta) = mean of max(eta + d, 0) = max(0, max over m of f_m (eta + d_m))

Its inverse is the lowest of the lines eta = h / f_m - d_m. The table of a cell is d_m less the mean depth of the cell.
Up to LINES fine cells it has all m, and is exact. Of more, it has LINES of them, whose shares f_m are a geometric
series: it then holds a little less water than the fine bed.

Between two cells lie `ratio` fine faces, each with the depth of the shallower one of its two fine cells. Their table is
sorted, the deepest first, less the depth of the shallower one of both cells' means.

References: Casulli (2009), doi:10.1002/fld.1896; Volp et al. (2013), doi:10.1002/wrcr.20332.
"""

import dataclasses
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from ..fields.parameters import Number
from .grid import Grid
from .windows import Blocks, GridValues, cached

LINES = 20  # of the table of a cell
RATIO = Number(minimum=2, maximum=16, whole=True)  # of fine cells along the side of a cell


def line_shares(ratio: int) -> tuple[float, ...]:
    """f_m of the lines in the table of a cell, ascending; the last one is 1."""
    count = ratio * ratio
    chosen = np.unique(np.round(np.geomspace(1, count, LINES))) if count > LINES else np.arange(1, count + 1)
    return tuple(float(m) / count for m in chosen)


def finer(grid: Grid, ratio: int) -> Grid:
    """The grid of the fine cells.

    Raises:
        ConfigError: for a ratio that RATIO does not allow.
    """
    RATIO.check("topography", "subgrid", ratio)
    return dataclasses.replace(grid, nx=grid.nx * int(ratio), ny=grid.ny * int(ratio))  # type: ignore[type-var]


class Tables(NamedTuple):
    """The tables of a tile, each array (my, mx) [m] (module docstring).

    Attributes:
        cells: d_m less the mean depth of each cell, for the shares but the last, whose value is 0.
        along_x, along_y: of the fine faces at u and v, the deepest first.
        uneven: 1 at u, and at v, between two cells of which one has an uneven bed, else 0.
    """

    cells: tuple[np.ndarray, ...]
    along_x: tuple[np.ndarray, ...]
    along_y: tuple[np.ndarray, ...]
    uneven: tuple[np.ndarray, np.ndarray]


class FineBed:
    """The depths of the fine cells [m], positive down, negative on land.

    Args:
        depth: GridValues (ny ratio, nx ratio).
        ratio: the number of fine cells along the side of a cell.
    """

    def __init__(self, depth: GridValues, ratio: int):
        self.depth, self.ratio = cached(depth, 8), ratio

    def of_cells(self, function: Callable) -> GridValues:
        """`function` of the fine depths (rows, ratio, columns, ratio) of cells, such as their mean, (ny, nx)."""
        r = self.ratio

        def block(rows, columns):
            shape = rows.stop - rows.start, r, columns.stop - columns.start, r
            fine = self.depth.block(*(slice(part.start * r, part.stop * r) for part in (rows, columns)))
            return np.asarray(function(np.reshape(fine, shape)))

        return Blocks(block, (self.depth.shape[0] // r, self.depth.shape[1] // r))

    @property
    def deepest(self) -> GridValues:
        """The depth of the deepest fine cell of each cell [m]."""
        return self.of_cells(lambda depth: depth.max(axis=(1, 3)))

    @property
    def marks(self) -> GridValues:
        """A number for each cell that another bed does not have: a mean of its fine depths with uneven weights [m]."""
        weights = 1.0 + np.arange(self.ratio**2.0).reshape(1, self.ratio, 1, self.ratio) / self.ratio**2
        return self.of_cells(lambda depth: (weights * depth).mean(axis=(1, 3)))

    def level_of(self, h: float) -> GridValues:
        """The level [m] of the water h [m] in each cell, by its table."""
        lines = line_shares(self.ratio)

        def level(depth):
            beds = depth.transpose(1, 3, 0, 2).reshape(-1, depth.shape[0], depth.shape[2])
            return np.min([h / f - d for f, d in zip(lines, _of_deepest(beds, lines))], axis=0)

        return self.of_cells(level)

    def tables(self, cut: Callable, level_bed: np.ndarray) -> Tables:
        """The Tables of a tile.

        Args:
            cut: `cut(values)` cuts GridValues (ny, nx) to the tile.
            level_bed: where cells count as even, bool (my, mx).
        """
        numbers = range(self.ratio)
        beds = np.array(
            [[cut(self.of_cells(lambda d, j=j, i=i: d[:, j, :, i])) for i in numbers] for j in numbers], float
        )
        mean = beds.mean(axis=(0, 1))
        beds = np.where(level_bed, mean, beds)
        shares = line_shares(self.ratio)[:-1]
        cells = tuple(d - mean for d in _of_deepest(beds.reshape(-1, *mean.shape), shares))
        uneven = (beds != beds[:1, :1]).any(axis=(0, 1))
        east, north = (_beyond(beds, axis) for axis in (-1, -2))
        along_x = _sills(beds[:, -1], east[:, 0], mean, _beyond(mean, -1))
        along_y = _sills(beds[-1], north[0], mean, _beyond(mean, -2))
        between_x, between_y = (np.asarray(uneven | _beyond(uneven, axis), float) for axis in (-1, -2))
        return Tables(cells, along_x, along_y, (between_x, between_y))


def _of_deepest(beds, shares):
    """d_m of the shares f_m of fine depths (n, ...)."""
    deepest = -np.sort(-beds, axis=0)
    return [deepest[: round(share * len(deepest))].mean(axis=0) for share in shares]


def _beyond(values, axis):
    """The values of the next cells along an axis; the last cells' own beyond the tile."""
    return np.take(values, np.minimum(np.arange(1, values.shape[axis] + 1), values.shape[axis] - 1), axis)


def _sills(low, high, mean_low, mean_high):
    """The sorted depths of fine faces between two fine cells, less that of the shallower mean, (ratio, my, mx)."""
    return tuple(-np.sort(-np.minimum(low, high), axis=0) - np.minimum(mean_low, mean_high))
