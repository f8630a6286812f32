"""Tables of x, y and elevation with or without a line of names, as xyz files and the topography of GeoClaw of type 1.

The points are those of a grid, in any order; points of the grid that are not in the table are missing.
"""

import re

import numpy as np

from ...errors import DataError
from .raster import Raster, axis_words

SAME = 1e-4  # of a spacing, within which two coordinates are one


def read(path: str, words: str, spherical: bool | None = None) -> Raster:
    """The Raster of a table of three columns, which is read at once.

    Raises:
        DataError: for lines without three numbers, or points that are not those of a grid.
    """
    x, y, z = columns_of(path, words, 3)
    (columns, at_x), (rows, at_y) = on_axes(path, x), on_axes(path, y)
    if columns.size * rows.size > 4 * z.size:
        raise DataError(
            f"{path} is {words} with {z.size:,} points that are not those of a grid; grid them first, as gmt "
            "surface or gdal_grid do."
        )
    values = np.full((rows.size, columns.size), np.nan)
    values[at_y, at_x] = z
    units = "degrees" if np.abs(y).max() <= 90.0 and np.abs(x).max() <= 720.0 else "m"
    assumed = (
        f"{path} was read as {words}: elevation in m, positive up, at {axis_words(columns, rows, units)}; "
        f"{int(np.isnan(values).sum()):,} of them are not in the table."
    )
    return Raster(path, columns, rows, units, lambda window: values[tuple(window)], assumed)


def columns_of(path: str, words: str, count: int) -> np.ndarray:
    """The columns (count, n) of a table below its comments and names; raises DataError for lines of other numbers."""
    with open(path, encoding="utf-8-sig", errors="replace") as file:
        above, first = next((k, line) for k, line in enumerate(file) if not re.match(r"[#\"a-zA-Z]", line))
    delimiter = "," if "," in first else None
    try:
        table = np.loadtxt(path, delimiter=delimiter, ndmin=2, encoding="utf-8-sig", skiprows=above)
        if table.shape[1] != count:
            raise ValueError(f"there are {table.shape[1]}")
    except ValueError as error:
        number = {3: "three", 4: "four"}[count]
        raise DataError(
            f"{path} is {words}, and not all its lines have {number} numbers ({error}); correct it."
        ) from None
    return table.T


def on_axes(path: str, points: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(the evenly spaced coordinates of points (n,), the place of each point among them); raises DataError."""
    levels = np.unique(points)
    steps = np.diff(levels)
    if not steps.size:
        raise DataError(f"{path} has one coordinate only, {levels[0]:g}, along an axis; a grid has two or more.")
    step = float(np.median(steps[steps > SAME * steps.max()]))
    count = int(round((levels[-1] - levels[0]) / step)) + 1
    places = np.round((points - levels[0]) / step).astype(int)
    if np.abs(levels[0] + step * places - points).max() > 0.05 * step or count > 100 * levels.size:
        raise DataError(
            f"{path} has coordinates that are not evenly spaced; grid its points first, as gmt surface does."
        )
    return levels[0] + (levels[-1] - levels[0]) / (count - 1) * np.arange(count), places
