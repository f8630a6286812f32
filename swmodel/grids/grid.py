"""Grids: positions of the cells, lengths of their sides, and periodic directions.

Arakawa C-grid, arrays [y, x]: cell (j, i) holds eta at its centre ("h"), u on its east face, v on its north face and
vorticity on its north-east corner ("q"). Metric factors are columns (rows, 1), or numbers where they do not vary, so
that a Cartesian grid stores no columns. All of this is host arithmetic in float64.
"""

import abc
import dataclasses
from typing import Any, ClassVar, Self

import numpy as np

from ..defaults import EARTH_RADIUS
from ..fields.parameters import Choice, Number, Pair, check_fields, declared
from .turns import CIRCLE, turned

POSITIONS = ("h", "u", "v", "q")
CELLS = Number(minimum=1, whole=True)


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

    def metrics(self, rows: np.ndarray) -> dict[str, Any]:
        rows = np.asarray(rows)[:, None]
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
