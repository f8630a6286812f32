"""Levees that are narrower than a cell: lines with a height, which faces of the grid carry.

A face between two cells belongs to a levee if the line from one cell's centre to the other's crosses the levee. So any
path from cell to cell through a closed levee crosses one of its faces, whatever the resolution. A levee that ends at
land, or at a side of the domain, holds water back completely. The crest of a face is that of the levee
where the two lines cross, interpolated linearly between the levee's points; where several levees cross, the highest.
"""

import dataclasses
import os
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..errors import ConfigError, DataError
from ..fields.parameters import array_of
from ..runtime.formats import read_csv
from .grid import Grid
from .windows import GridValues

NO_CREST = 1e5  # the depth of a crest on faces without a levee [m]: deeper than any sea, so that it holds nothing back
SHIFT = np.array([1e-6, 1.618e-7])  # of levees, in cells, so that none passes exactly through a centre
COLUMNS = "levee", "x", "y", "crest_m"


@dataclasses.dataclass(frozen=True)
class Levee:
    """A line with a crest, over which water flows only where it is higher.

    Args:
        points: (x, y) of two points or more [m, or degrees on the sphere]. On the sphere two points are joined the
            shorter way round.
        crest: the height of the crest above level 0, that of the water at rest [m], one number or one for each point.
        name: for messages.

    Raises:
        ConfigError: for fewer than two points, values that are not finite, or another number of crests.
    """

    points: tuple
    crest: Any
    name: str = ""

    def __post_init__(self):
        points, crest = array_of(self.points), array_of(self.crest)
        if points is None or points.ndim != 2 or points.shape[1] != 2 or len(points) < 2 or not _finite(points):
            raise ConfigError("Levee: points must be two or more pairs (x, y) of finite numbers.")
        if crest is None or crest.shape not in ((), (len(points),)) or not _finite(crest):
            raise ConfigError(f"Levee: crest must be one finite height [m], or one for each of {len(points)} points.")
        object.__setattr__(self, "points", tuple((float(x), float(y)) for x, y in points))
        object.__setattr__(self, "crest", tuple(float(z) for z in np.broadcast_to(crest, len(points))))


def _finite(values):
    return bool(np.isfinite(values).all())


def read_levees(path: str | os.PathLike, datum: float = 0.0, land_datum: float = 0.0) -> tuple[Levee, ...]:
    """The Levees of a CSV file with the columns levee (a name), x, y and crest_m, and a row for each point.

    The points of a levee are joined in the order of its rows. On the sphere x and y are longitude and latitude
    [degrees].

    Args:
        path: the path of the file.
        datum: the level of the water at rest above the zero of the surveyed depths [m], as of `topography`.
        land_datum: the zero of the crests, which is that of the heights of land, above that of the depths [m].

    Raises:
        DataError: if the file cannot be read, lacks a column, or has a levee with fewer than two points.
    """
    table, points = read_csv(path), {}
    if missing := [name for name in COLUMNS if name not in table.names]:
        raise DataError(
            f"{path} lacks the column {missing[0]}; give {', '.join(COLUMNS)}, separated by commas, with one row for "
            "each point of a levee; on the sphere x and y are its longitude and latitude."
        )
    corners = np.column_stack([table.numbers(name) for name in COLUMNS[1:]])
    if (wrong := ~np.isfinite(corners).all(axis=1)).any():
        line = table.lines[int(np.argmax(wrong))]
        raise DataError(f"{path}, line {line}: x, y and crest_m must be three numbers; give all of them.")
    for name, corner in zip(table.texts("levee"), corners):
        points.setdefault(name, []).append(corner)
    levees = []
    for name, rows in points.items():
        try:
            crests = tuple(row[2] + (land_datum - datum) for row in rows)
            levees.append(Levee(tuple(row[:2] for row in rows), crests, name))
        except ConfigError as error:
            raise DataError(f"{path}, levee {name!r}: {str(error).removeprefix('Levee: ')}") from None
    if not levees:
        raise DataError(f"{path} has no rows; give one for each point of a levee.")
    return tuple(levees)


def check_on_grid(levees: Sequence[Levee], grid: Grid, who: object) -> None:
    """Raise ConfigError for a levee that stands on no face of the grid; `who` begins the message."""
    for number, levee in enumerate(levees, 1):
        if not any(CrestDepths([levee], grid, position).count() for position in "uv"):
            raise ConfigError(
                f"{who}: levee {repr(levee.name) if levee.name else number} crosses no line between two cells' "
                "centres: it lies outside the grid, along its side or within one cell; x and y must be in the grid's "
                f"own coordinates, {'degrees' if grid.spherical else 'metres'}."
            )


class CrestDepths(GridValues):
    """The depth of the levees' crests below level 0 on faces [m], negative above it; NO_CREST on all other faces.

    Args:
        levees: Levees.
        grid: the Grid.
        position: "u" for the east face of each cell, "v" for the north face.
    """

    def __init__(self, levees: Sequence[Levee], grid: Grid, position: str):
        self.levees, self.grid, self.along_x, self.shape = tuple(levees), grid, position == "u", grid.shape

    def block(self, rows: slice, columns: slice) -> np.ndarray:
        crests = np.full((rows.stop - rows.start, columns.stop - columns.start), NO_CREST)
        lines, first = (rows, columns.start) if self.along_x else (columns, rows.start)
        faces = crests if self.along_x else crests.T
        for levee in self.levees:
            for line, face, crest in self._crossings(levee, lines):
                inside = (face >= first) & (face < first + faces.shape[1])
                np.minimum.at(faces, (line[inside], face[inside] - first), -crest[inside])
        return crests

    def count(self) -> int:
        """The number of times that levees cross the line between two cells' centres."""
        lines = slice(0, self.shape[0 if self.along_x else 1])
        return sum(line.size for levee in self.levees for line, _, _ in self._crossings(levee, lines))

    def _crossings(self, levee, lines):
        """(line, face, height of the crest [m]), arrays, of each of the levee's straight parts.

        Lines are those through the centres of the cells of a row, or of a column, counted from `lines.start`; a face
        has the number of the cell before it. Levees are shifted by SHIFT, so that lines of both directions agree on the
        side of a centre on which a levee passes.
        """
        grid, k = self.grid, 0 if self.along_x else 1
        along, across = ((grid.x_centres, grid.y_centres)[i] for i in (k, 1 - k))
        (west, *_, east), (south, *_, north) = grid.x_edges, grid.y_edges
        round_x, round_y = grid.spherical or grid.periodic_x, grid.periodic_y
        lengths = (360.0 if grid.spherical else east - west) * round_x, (north - south) * round_y
        shifts = [n * lengths[1 - k] for n in (-1, 0, 1)] if lengths[1 - k] else [0.0]
        points = np.array(levee.points) + SHIFT * ((east - west) / grid.nx, (north - south) / grid.ny)
        if grid.spherical:
            points[:, 0] = np.unwrap(points[:, 0], period=360.0)
            points[:, 0] -= 360.0 * np.round((points[0, 0] - 0.5 * (west + east)) / 360.0)
        for p, q, low, high in zip(points[:-1], points[1:], levee.crest[:-1], levee.crest[1:]):
            for shift in shifts:
                start, end = p[1 - k] + shift, q[1 - k] + shift
                line = np.flatnonzero((start < across[lines]) != (end < across[lines]))
                if not line.size:
                    continue
                share = (across[lines][line] - start) / (end - start)
                place = p[k] + share * (q[k] - p[k])
                if lengths[k]:  # between the first centre and its next image
                    place = along[0] + np.mod(place - along[0], lengths[k])
                face = np.searchsorted(along, place, side="right") - 1
                is_face = (face >= 0) & (face < along.size - (not (grid.periodic_x, grid.periodic_y)[k]))
                yield line[is_face], face[is_face], (low + share * (high - low))[is_face]
