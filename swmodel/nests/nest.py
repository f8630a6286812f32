"""A nest: a box of a grid's cells, each divided into ratio x ratio cells, and a frame of such cells around it.

+-------------------+
| frame             |     The frame holds values of the outer grid, in place of open sides. It is as wide as the
|   +-----------+   |     cells that one step of the nest reads, so that what is computed in the box depends on
|   | box       |   |     the outer grid's values alone, whatever the equations and the stepper.
|   +-----------+   |
+-------------------+
"""

import dataclasses
import itertools
import re
from collections.abc import Iterable, Mapping
from typing import Any, TypeAlias

import numpy as np

from ..errors import ConfigError
from ..fields.parameters import COORDINATES, Flag, Number, Pair, Text, check_fields, declared, refuse
from ..grids.grid import CIRCLE, Grid, limits_on, turned
from ..grids.windows import GridValues

__all__ = ["Nest", "Place", "Rectangle", "finest"]

Rectangle: TypeAlias = tuple[tuple[int, int], tuple[int, int]]  # global (row, column) of the first cell, and the shape
LEAST = 4  # cells of the outer grid along a side of a box


@dataclasses.dataclass(frozen=True)
class Place:
    """The cells of a nest's box in the grid around it.

    Attributes:
        rows, columns: (first, last + 1) cells of the box in the outer grid.
        ratio: the number of the nest's cells along a side of an outer one.
        frame: the width of the frame, in cells of the outer grid.
        turn: the number of the outer grid's columns if it goes round the Earth, else 0. Columns of boxes across its
            seam are numbered on beyond it: i and i + turn are one column.
    """

    rows: tuple[int, int]
    columns: tuple[int, int]
    ratio: int
    frame: int
    turn: int = 0

    @property
    def width(self) -> int:
        """The width of the frame, in cells of the nest."""
        return self.frame * self.ratio

    @property
    def corner(self) -> tuple[int, int]:
        """(row, column) of the outer grid's first cell in the frame."""
        return self.rows[0] - self.frame, self.columns[0] - self.frame

    @property
    def shape(self) -> tuple[int, int]:
        """(rows, columns) of the outer grid's cells in box and frame."""
        rows, columns = (high - low + 2 * self.frame for low, high in (self.rows, self.columns))
        return rows, columns

    @property
    def nest_shape(self) -> tuple[int, int]:
        """(rows, columns) of the nest's cells in box and frame."""
        return self.shape[0] * self.ratio, self.shape[1] * self.ratio

    @property
    def nest_box(self) -> tuple[tuple[int, int], tuple[int, int]]:
        """(first, last + 1) rows and columns of the nest's cells in the box."""
        rows, columns = ((self.width, n - self.width) for n in self.nest_shape)
        return rows, columns

    def of_outer(self, values: GridValues, rectangle: Rectangle | None = None) -> np.ndarray:
        """(rows, columns) of the outer grid's values in box and frame, or in another rectangle."""
        (j, i), (ny, nx) = rectangle or (self.corner, self.shape)
        rows, turn = slice(j, j + ny), self.turn
        if not turn:
            return values.block(rows, slice(i, i + nx))
        ends = [i, *range(turn * (i // turn + 1), i + nx, turn), i + nx]
        pieces = [values.block(rows, slice(a % turn, a % turn + b - a)) for a, b in itertools.pairwise(ends)]
        return np.concatenate(pieces, axis=1)

    def has(self, cell: tuple[int, int]) -> bool:
        """Whether the box has the outer grid's cell (row, column)."""
        row, column = cell[0] - self.rows[0], cell[1] - self.columns[0]
        column = column % self.turn if self.turn else column
        return 0 <= row < self.rows[1] - self.rows[0] and 0 <= column < self.columns[1] - self.columns[0]

    @property
    def covered(self) -> np.ndarray:
        """(rows, columns) bool: the outer grid's cells in the box."""
        inside = np.zeros(self.shape, bool)
        inside[self.frame : -self.frame, self.frame : -self.frame] = True
        return inside

    def grid(self, outer: Grid) -> Grid:
        """The nest's Grid, of box and frame."""
        (j, i), (ny, nx) = self.corner, self.shape
        x, y = self._x(outer, i, i + nx), (float(outer.y_edges[j]), float(outer.y_edges[j + ny]))
        names = ("longitude", "latitude") if outer.spherical else ("x", "y")
        sizes = {"nx": nx * self.ratio, "ny": ny * self.ratio, "periodic": ""}
        found = dataclasses.replace(outer, **sizes, **dict(zip(names, (x, y))))  # pyright: ignore[reportArgumentType]
        return found.with_longitudes_of(outer) if outer.spherical else found

    def box(self, outer: Grid) -> tuple[tuple[float, float], tuple[float, float]]:
        """((west, east), (south, north)) of the box, in the grid's coordinates."""
        y = outer.y_edges[list(self.rows)]
        return self._x(outer, *self.columns), (float(y[0]), float(y[1]))

    def _x(self, outer, *columns):
        """x of the western ends of outer columns, which may lie beyond the ends of the grid."""
        n = self.turn or outer.nx
        turns = [(i - (i == n)) // n for i in columns]
        return tuple(float(outer.x_edges[i - k * n]) + CIRCLE * k for i, k in zip(columns, turns, strict=True))

    def is_apart_from(self, other: "Place") -> bool:
        """Whether a cell of the outer grid lies between both boxes."""
        (a, b), (c, d) = self.columns, other.columns
        turn = self.turn
        above_or_below = self.rows[1] < other.rows[0] or other.rows[1] < self.rows[0]
        return above_or_below or ((b - a < (c - a) % turn and d - c < (a - c) % turn) if turn else (b < c or d < a))


@dataclasses.dataclass(frozen=True)
class Nest:
    """A finer grid in a box of another one.

    Args:
        name: of the nest, in files and messages.
        x, y: (low, high) of the box, in the grid's coordinates [m, or degrees of longitude and latitude, which may
            differ from the grid's by 360]. Its sides move to the nearest faces of the grid around it.
        ratio: the number of cells along a side of an outer cell, 2 to 10.
        steps: the number of the nest's time steps in one of the outer grid; `ratio` unless given, or what the nest's
            own limit needs after `Family.fit_steps`.
        two_way: whether the nest changes the outer grid: its means replace the outer elevation and velocity in the
            box, and the volume that passed the border is that of the nest on both sides.
        start: model time from which on the nest is stepped [s]; it then starts from the outer grid's elevation and
            velocity. Before that it costs nothing.
        blend: outer cells along the border, inside the box, over which the nest's depth passes to that of the outer
            grid, which it has in the frame; 0 leaves it as it is.
        depth: of the sea floor in the nest, as of ShallowWater; the outer one's, interpolated, unless given.
        inside: the name of the nest that contains this one; the outermost grid unless given.
        options: arguments of ShallowWater that differ from those of the outermost grid, such as `side`.

    Raises:
        ValueError: for a ratio that is not a whole number from 2 to 10, an empty box, or fewer than one step.
    """

    name: str = declared(Text(), doc="of the nest, in files and messages")
    x: tuple[float, float] = declared(Pair(COORDINATES, ascending=True), doc="(west, east) sides of the box")
    y: tuple[float, float] = declared(Pair(COORDINATES, ascending=True), doc="(south, north) sides of the box")
    ratio: int = declared(
        Number(minimum=2, maximum=10, whole=True), default=3, doc="cells along a side of an outer cell"
    )
    steps: int | None = declared(
        Number(minimum=1, whole=True, optional=True), default=None, doc="time steps in one of the outer grid"
    )
    two_way: bool = declared(Flag(), default=True, doc="whether the nest changes the outer grid")
    start: float = declared(Number(units="s", minimum=0.0), default=0.0, doc="model time from which it is stepped")
    blend: int = declared(
        Number(minimum=0, whole=True),
        default=3,
        doc="outer cells inside the border over which its depth passes to the outer one",
    )
    depth: Any = None
    inside: str | None = None
    options: Mapping[str, Any] = dataclasses.field(default_factory=dict)

    def __post_init__(self):
        check_fields(self)
        if not re.fullmatch(r"[A-Za-z]\w*", self.name):
            refuse("Nest", "name", self.name, "is not a name", "a letter, then letters, digits and underscores")
        if not isinstance(self.options, Mapping):
            remedy = 'arguments of ShallowWater, as {"side": sw.NoSlip()}'
            refuse("Nest", "options", self.options, "is not a dict", remedy)

    @property
    def substeps(self) -> int:
        """The number of time steps in one of the outer grid."""
        return self.ratio if self.steps is None else int(self.steps)

    def place(self, outer: Grid, least: int, margin: int = 0) -> Place:
        """Where the nest lies in a grid.

        Args:
            outer: the grid.
            least: the least width of the frame, in cells of the nest.
            margin: the width of the grid's own frame, if it is one of a nest: its values there are those of a third
                grid, and end a step with errors.

        Raises:
            ConfigError: for a box outside of the grid, too near to its sides, or of fewer than 4 outer cells.
        """
        frame = -(-least // self.ratio)
        turn = outer.nx if outer.spherical and outer.periodic_x else 0
        ranges, x = [], self.x if turn else limits_on(self.x, outer, f"the nest {self.name!r}")
        for axis, limits, edges in (("y", self.y, outer.y_edges), ("x", x, outer.x_edges)):
            n, low, high = len(edges) - 1, edges[0], edges[-1]
            begin, end = edges[margin], edges[n - margin]
            first, last = (int(round((value - low) / (high - low) * n)) for value in limits)
            span = f"the nest {self.name!r} reaches from {limits[0]:g} to {limits[1]:g} along {axis}"
            if turn and axis == "x":
                if last - first + 2 * (frame + 1) > n:
                    raise ConfigError(
                        f"{span}, and must leave {2 * (frame + 1)} cells of the outer grid's circle; shrink it."
                    )
                first, last = first % n, first % n + last - first
            elif first - frame - 1 < margin or last + frame + 1 > n - margin:
                what = f"box of {self.inside!r}" if margin else "outer grid"
                raise ConfigError(
                    f"{span}, and must keep {frame + 1} cells away from the ends of the {what}, at {begin:g} and "
                    f"{end:g}; move or shrink it."
                )
            if last - first < LEAST:
                raise ConfigError(
                    f"{span}, which is {last - first} cells of the outer grid, and a nest needs {LEAST}; make the box "
                    "wider, or the outer grid finer."
                )
            ranges.append((first, last))
        return Place(ranges[0], ranges[1], int(self.ratio), frame, turn)

    def place_among(self, outer: Grid, least: int, others: Mapping[str, tuple["Nest", Place]]) -> Place:
        """`place` in the box of the nest around it, apart from the other nests there.

        Args:
            outer: the grid.
            least: the least width of the frame, in cells of the nest.
            others: {name: (Nest, Place)} of all nests before it.

        Raises:
            ConfigError: as `place`, and for nests without an outer cell between them.
        """
        place = self.place(outer, least, others[self.inside][1].width if self.inside else 0)
        for name, other in ((name, where) for name, (nest, where) in others.items() if nest.inside == self.inside):
            if not place.is_apart_from(other):
                raise ConfigError(
                    f"the nests {name!r} and {self.name!r} overlap, or lie next to each other; leave a cell of the "
                    "outer grid between their boxes."
                )
        return place


def finest(points: Iterable[tuple[float, float]], outer: Grid, nests: Iterable[tuple[Nest, Place, Grid]]) -> str:
    """The name of the finest grid that holds some points, "" for the outermost one.

    Args:
        points: (x, y) of each, in the grid's coordinates.
        outer: the outermost Grid.
        nests: (Nest, Place, the Grid around it), one inside another after it.
    """
    x, y = np.array(list(points), float).T
    x, name = outer.turned(x), ""
    for nest, place, around in nests:
        (west, east), (south, north) = place.box(around)
        if outer.spherical:
            x = turned(x, 0.5 * (west + east))
        if (nest.inside or "") == name and np.all((west <= x) & (x <= east) & (south <= y) & (y <= north)):
            name = nest.name
    return name
