"""Places that differ by whole turns: of 360 degrees of longitude, or of the length of a periodic direction.

A `grid` here may be the Mesh of a file, too.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ..errors import ConfigError

if TYPE_CHECKING:
    from .grid import Grid

CIRCLE = 360.0  # [degrees]


def turns_of(grid: "Grid") -> tuple[float, float]:
    """The lengths along x and y after which places are the same again, in the grid's coordinates; 0 for none."""
    (west, east), (south, north) = grid.x_edges[[0, -1]], grid.y_edges[[0, -1]]
    return CIRCLE if grid.spherical else (east - west) * grid.periodic_x, (north - south) * grid.periodic_y


def turned(x: Any, middle: float, turn: float = CIRCLE) -> Any:
    """Coordinates, moved by whole turns to at most half a turn from `middle`; as they are where the turn is 0."""
    return x - turn * np.round((x - middle) / turn) if turn else x


def turned_together(longitudes: np.ndarray, low: float, high: float) -> np.ndarray:
    """Ascending longitudes, moved by the same whole circles to lie as near as they can to the middle of [low, high]."""
    return longitudes + CIRCLE * np.round((low + high - longitudes[0] - longitudes[-1]) / (2 * CIRCLE))


def at_both_ends(low: float, high: float, west: float, east: float, spare: float = 0.0) -> bool:
    """Whether a range of longitudes near [west, east] enters it by more than `spare` from the other side, too."""
    return low + CIRCLE < east - spare or high - CIRCLE > west + spare


def limits_on(limits: Sequence[float], grid: "Grid", who: str) -> tuple[float, float]:
    """(low, high) along x: longitudes are moved by whole circles to those of the grid, and a whole circle is all of it.

    Raises:
        ConfigError: for longitudes at both ends of the grid, which are two ranges of its cells; `who` gave them.
    """
    (low, high), (west, east) = limits, grid.x_edges[[0, -1]]
    if grid.spherical and high - low >= CIRCLE:
        return float(west), float(east)
    if grid.spherical:
        low, high = turned_together(np.array([low, high]), west, east)
        if at_both_ends(low, high, west, east):
            raise ConfigError(
                f"{who} reaches across the ends of the grid's longitudes, {west:g} and {east:g}; take one side, or "
                "begin the grid at another meridian."
            )
    return float(low), float(high)


def corners(
    start: Sequence[float], end: Sequence[float], grid: "Grid"
) -> tuple[tuple[int, int], tuple[int, int]] | None:
    """((i, j), (i, j)), the corners of cells nearest to the ends (x, y) of a section; None if it leaves the grid.

    Numbers count edges, from 0, and go on across the seam of a periodic direction: there i and i + nx are one corner.
    Longitudes are angles, so that a section round the Earth goes the shorter way, unless its ends are a whole circle
    apart. On a plane it goes from one coordinate to the other.
    """
    edges, periodic = (grid.x_edges, grid.y_edges), (grid.periodic_x, grid.periodic_y)
    found = [
        _numbers(*ends, *axis, grid.spherical and k == 0)
        for k, (ends, axis) in enumerate(zip(zip(start, end), zip(edges, turns_of(grid), periodic)))
    ]
    along_x, along_y = found
    if along_x is None or along_y is None:
        return None
    return (along_x[0], along_y[0]), (along_x[1], along_y[1])


def _numbers(start, end, edges, turn, periodic, is_angle):
    """The numbers of the edges nearest to two coordinates along one direction; None outside of the grid."""
    (low, high), spare = edges[[0, -1]], 1e-9 * turn
    first, last = (turned(x, 0.5 * (low + high), turn) for x in (start, end))
    if periodic:
        is_whole = abs(abs(end - start) - turn) <= spare
        way = turned(end - start, 0.0, turn * (is_angle and not is_whole))
        last = first + way
        inside = low - spare <= first <= high + spare and abs(way) <= turn + spare
    else:
        inside = low - spare <= min(first, last) and max(first, last) <= high + spare
    if not inside:
        return None
    return tuple(int(np.rint((x - low) / (high - low) * (len(edges) - 1))) for x in (first, last))
