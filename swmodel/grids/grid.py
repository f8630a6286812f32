"""Grids: positions of the cells, lengths of their sides, and periodic directions.

Arakawa C-grid, arrays [y, x]: cell (j, i) holds eta at its centre ("h"), u on its east face, v on its north face and
vorticity on its north-east corner ("q"). Metric factors are columns (rows, 1), or numbers where they do not vary, so
that a Cartesian grid stores no columns. All of this is host arithmetic in float64.
"""

import abc
import dataclasses
from collections.abc import Sequence
from typing import Any, ClassVar, Self

import numpy as np

from ..defaults import EARTH_RADIUS
from ..errors import ConfigError
from ..fields.parameters import Choice, Number, Pair, check_fields, declared

POSITIONS = ("h", "u", "v", "q")
CELLS = Number(minimum=1, whole=True)
CIRCLE = 360.0  # [degrees]


def turned(x: Any, middle: float, turn: float = CIRCLE) -> Any:
    """Coordinates, moved by whole turns to at most half a turn from `middle`; as they are where the turn is 0."""
    return x - turn * np.round((x - middle) / turn) if turn else x


class Grid(abc.ABC):
    """The base class of grids: numbers of cells, edges and centres, periodic directions, and metrics of any rows.

    Attributes:
        nx, ny: the numbers of cells.
        periodic: "", "x", "y" or "xy".
        spherical: whether coordinates are longitude and latitude.
    """

    nx: int
    ny: int
    periodic: str
    spherical: ClassVar[bool] = False

    @property
    def shape(self) -> tuple[int, int]:
        """(ny, nx), the shape of every array on the grid."""
        return self.ny, self.nx

    @property
    def periodic_x(self) -> bool:
        """Whether the grid is periodic along x."""
        return "x" in self.periodic

    @property
    def periodic_y(self) -> bool:
        """Whether the grid is periodic along y."""
        return "y" in self.periodic

    @property
    @abc.abstractmethod
    def _limits(self) -> tuple[tuple[float, float], tuple[float, float]]:
        """((x0, x1), (y0, y1)) in the grid's own coordinates."""

    @property
    def x_edges(self) -> np.ndarray:
        """(nx + 1,) west and east ends of the cells [m, or degrees on the sphere]."""
        return _edges(*self._limits[0], self.nx)

    @property
    def y_edges(self) -> np.ndarray:
        """(ny + 1,) south and north ends of the cells, likewise."""
        return _edges(*self._limits[1], self.ny)

    @property
    def x_centres(self) -> np.ndarray:
        """(nx,) centres of the cells along x [m, or degrees on the sphere]."""
        return 0.5 * (self.x_edges[1:] + self.x_edges[:-1])

    @property
    def y_centres(self) -> np.ndarray:
        """(ny,) centres of the cells along y, likewise."""
        return 0.5 * (self.y_edges[1:] + self.y_edges[:-1])

    def known(self, x: np.ndarray) -> np.ndarray:
        """x as functions of the coordinates get it: longitudes of a nest are those of the outermost grid."""
        return x

    def turned(self, x: Any) -> Any:
        """Longitudes, turned by whole circles to those of the grid; x of a plane as it is."""
        return turned(x, 0.5 * (self.x_edges[0] + self.x_edges[-1])) if self.spherical else x

    def coordinates(
        self, position: str, rows: slice = slice(None), columns: slice = slice(None)
    ) -> tuple[np.ndarray, np.ndarray]:
        """(x (1, nx), y (ny, 1)) of the points at `position`, or of some rows and columns: metres, or degrees."""
        (x_limits, y_limits), (i0, i1, _), (j0, j1, _) = self._limits, columns.indices(self.nx), rows.indices(self.ny)
        x, y = _edges(*x_limits, self.nx, i0, i1), _edges(*y_limits, self.ny, j0, j1)
        x = x[1:] if position in "uq" else 0.5 * (x[1:] + x[:-1])
        y = y[1:] if position in "vq" else 0.5 * (y[1:] + y[:-1])
        return x[None, :], y[:, None]

    @abc.abstractmethod
    def metrics(self, rows: np.ndarray) -> dict[str, Any]:
        """Sides and areas of the cells in `rows` (global row numbers, also beyond the domain).

        Returns:
            dict: "dx_h", ..., "dy_q" [m] and "area_h" [m2], each a column (rows, 1) or a number.
        """

    @property
    def area_h(self) -> np.ndarray:
        """Areas of the cells [m2], (ny, 1)."""
        return np.broadcast_to(self.metrics(np.arange(self.ny))["area_h"], (self.ny, 1)).copy()

    @property
    def poles(self) -> tuple[bool, bool]:
        """(south, north): whether the first and last row of corners is a pole."""
        return False, False


def _edges(low, high, n, first=0, last=None):
    """Edges number `first` to `last` of n equal cells from `low` to `high`."""
    return low + (high - low) * (np.arange(first, (n if last is None else last) + 1) / n)


@dataclasses.dataclass(frozen=True)
class CartesianGrid(Grid):
    """A plane of nx x ny equal rectangles.

    Args:
        nx, ny: cells along x and y.
        x, y: the ends of the domain, (low, high) [m].
        periodic: "", "x", "y" or "xy"; a direction that is not periodic ends at walls (or open sides, if the model
            has them).

    Raises:
        ValueError: for no cells, an empty range, or an unknown direction.
    """

    nx: int = declared(CELLS, doc="cells along x")
    ny: int = declared(CELLS, doc="cells along y")
    x: tuple[float, float] = declared(Pair("m", ascending=True), doc="(west, east) edges")
    y: tuple[float, float] = declared(Pair("m", ascending=True), doc="(south, north) edges")
    periodic: str = declared(Choice(("", "x", "y", "xy")), default="", doc="directions that are periodic")

    def __post_init__(self):
        check_fields(self)
        object.__setattr__(self, "x", tuple(map(float, self.x)))
        object.__setattr__(self, "y", tuple(map(float, self.y)))

    @property
    def _limits(self) -> tuple[tuple[float, float], tuple[float, float]]:
        return self.x, self.y

    def metrics(self, rows: np.ndarray) -> dict[str, Any]:
        dx, dy = (self.x[1] - self.x[0]) / self.nx, (self.y[1] - self.y[0]) / self.ny
        sides = {f"dx_{p}": dx for p in POSITIONS} | {f"dy_{p}": dy for p in POSITIONS}
        return sides | {"area_h": dx * dy}


@dataclasses.dataclass(frozen=True)
class SphericalGrid(Grid):
    """Longitude-latitude cells on a sphere; a side at +-90 degrees is a pole.

    Areas are exact, a^2 dlambda (sin phi_n - sin phi_s); sides are a cos(phi) dlambda and a dphi.

    Args:
        nx, ny: cells along longitude and latitude.
        longitude, latitude: (low, high) [degrees]; longitude may cross the date line, as (170, 190).
        periodic: "" or "x"; "x" needs 360 degrees of longitude, and is the default there.
        radius: of the sphere [m].

    Raises:
        ValueError: for no cells, an empty range, latitudes beyond the poles, or an impossible topology.
    """

    nx: int = declared(CELLS, doc="cells along longitude")
    ny: int = declared(CELLS, doc="cells along latitude")
    longitude: tuple[float, float] = declared(Pair("degree", ascending=True), doc="(west, east) edges")
    latitude: tuple[float, float] = declared(Pair("degree", ascending=True), doc="(south, north) edges")
    periodic: str | None = declared(
        Choice(("", "x", None)), default=None, doc='"x" where 360 degrees are covered, unless given'
    )
    radius: float = declared(Number(None, "m", above=0.0), default=EARTH_RADIUS, doc="of the sphere")

    spherical = True
    first_longitude: ClassVar[float | None] = None  # of the outermost grid, in a nest across its seam

    def with_longitudes_of(self, outer: "SphericalGrid") -> Self:
        """This grid, a nest in another one, at which functions of the coordinates get that one's longitudes."""
        first = outer.longitude[0] if outer.first_longitude is None else outer.first_longitude
        inside = first <= self.longitude[0] and self.longitude[1] <= first + CIRCLE
        if not inside and (outer.periodic_x or outer.first_longitude is not None):
            object.__setattr__(self, "first_longitude", first)
        return self

    def known(self, x: np.ndarray) -> np.ndarray:
        if self.first_longitude is None:
            return x
        return x - CIRCLE * (np.ceil((x - self.first_longitude) / CIRCLE) - 1.0)

    def __post_init__(self):
        check_fields(self)
        object.__setattr__(self, "longitude", tuple(map(float, self.longitude)))
        object.__setattr__(self, "latitude", tuple(map(float, self.latitude)))
        whole_circle = np.isclose(self.longitude[1] - self.longitude[0], 360.0, rtol=1e-12)
        if self.periodic is None:
            object.__setattr__(self, "periodic", "x" if whole_circle else "")
        if self.longitude[1] - self.longitude[0] > 360.0 * (1 + 1e-12):
            raise ValueError(f"SphericalGrid: longitude = {self.longitude} spans more than 360 degrees.")
        if abs(self.latitude[0]) > 90 or abs(self.latitude[1]) > 90:
            raise ValueError(f"SphericalGrid: latitude = {self.latitude} goes beyond a pole; stay within -90 to 90.")
        if self.periodic_x and not whole_circle:
            raise ValueError(
                f"SphericalGrid: longitude = {self.longitude} spans less than 360 degrees and cannot be periodic; "
                "leave periodic out."
            )

    @property
    def _limits(self) -> tuple[tuple[float, float], tuple[float, float]]:
        return self.longitude, self.latitude

    @property
    def poles(self) -> tuple[bool, bool]:
        south, north = (bool(np.isclose(abs(phi), 90.0, atol=1e-9)) for phi in self.latitude)
        return south, north

    @property
    def _rows_between_poles(self) -> tuple[float, float]:
        """The first and last row with a length; ghost rows behind a wall that reach a pole have the metrics of these.

        Rows of a grid that ends at a pole are all allowed there.
        """
        step = (self.latitude[1] - self.latitude[0]) / self.ny
        ghosts = [
            np.inf if at_pole else np.ceil((90.0 - phi) / step - 1e-6) - 1
            for phi, at_pole in zip((-self.latitude[0], self.latitude[1]), self.poles, strict=True)
        ]
        return -ghosts[0], self.ny - 1 + ghosts[1]

    def metrics(self, rows: np.ndarray) -> dict[str, Any]:
        rows = np.clip(rows, *self._rows_between_poles)[:, None]
        step_x = np.deg2rad(self.longitude[1] - self.longitude[0]) / self.nx
        step_y = np.deg2rad(self.latitude[1] - self.latitude[0]) / self.ny
        south = np.deg2rad(self.latitude[0])

        def phi(edge):
            return np.clip(south + edge * step_y, -np.pi / 2, np.pi / 2)

        across_centre = self.radius * np.cos(phi(rows + 0.5)) * step_x
        across_edge = self.radius * np.maximum(np.cos(phi(rows + 1)), 0.0) * step_x
        across_edge = np.where(across_edge < 1e-9 * self.radius * step_x, 0.0, across_edge)
        sides = {f"dx_{p}": across_centre if p in "hu" else across_edge for p in POSITIONS}
        sides |= {f"dy_{p}": self.radius * step_y for p in POSITIONS}
        return sides | {"area_h": self.radius**2 * step_x * (np.sin(phi(rows + 1)) - np.sin(phi(rows)))}


# -- whole turns: of 360 degrees of longitude, or of the length of a periodic direction; a grid may be a Mesh, too ----


def turns_of(grid: Grid) -> tuple[float, float]:
    """The lengths along x and y after which places are the same again, in the grid's coordinates; 0 for none."""
    (west, east), (south, north) = grid.x_edges[[0, -1]], grid.y_edges[[0, -1]]
    return CIRCLE if grid.spherical else (east - west) * grid.periodic_x, (north - south) * grid.periodic_y


def turned_together(longitudes: np.ndarray, low: float, high: float) -> np.ndarray:
    """Ascending longitudes, moved by the same whole circles to lie as near as they can to the middle of [low, high]."""
    return longitudes + CIRCLE * np.round((low + high - longitudes[0] - longitudes[-1]) / (2 * CIRCLE))


def at_both_ends(low: float, high: float, west: float, east: float, spare: float = 0.0) -> bool:
    """Whether a range of longitudes near [west, east] enters it by more than `spare` from the other side, too."""
    return low + CIRCLE < east - spare or high - CIRCLE > west + spare


def limits_on(limits: Sequence[float], grid: Grid, who: str) -> tuple[float, float]:
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


def corners(start: Sequence[float], end: Sequence[float], grid: Grid) -> tuple[tuple[int, int], tuple[int, int]] | None:
    """((i, j), (i, j)), the corners of cells nearest to the ends (x, y) of a section; None if it leaves the grid.

    Numbers count edges, from 0, and go on across the seam of a periodic direction: there i and i + nx are one corner.
    Longitudes are angles, so that a section round the Earth goes the shorter way, unless its ends are a whole circle
    apart. On a plane it goes from one coordinate to the other.
    """
    edges, periodic = (grid.x_edges, grid.y_edges), (grid.periodic_x, grid.periodic_y)
    numbers = [
        _numbers(*ends, *axis, grid.spherical and k == 0)
        for k, (ends, axis) in enumerate(zip(zip(start, end), zip(edges, turns_of(grid), periodic)))
    ]
    along_x, along_y = numbers
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
