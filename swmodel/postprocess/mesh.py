"""Positions, sides and areas of the cells of a file, and their coordinates on a map."""

import dataclasses
import functools
from typing import Any

import numpy as np

from ..defaults import EARTH_RADIUS
from ..grids.grid import Grid, turned

METRES_UP_TO = 5e3  # [m], the extent of a domain from which on its maps have kilometres


@dataclasses.dataclass(frozen=True, eq=False)
class Mesh:
    """The positions of the cells in the file's coordinates: metres, or degrees of longitude and latitude.

    Attributes:
        x, y: centres, (nx,) and (ny,).
        width, height: of a cell, in the same units.
        radius: of the sphere [m].
    """

    x: np.ndarray
    y: np.ndarray
    width: float
    height: float
    spherical: bool
    periodic_x: bool
    periodic_y: bool
    radius: float = EARTH_RADIUS

    @property
    def extent(self) -> tuple[float, float, float, float]:
        """(west, east, south, north)."""
        return self.x_edges[0], self.x_edges[-1], self.y_edges[0], self.y_edges[-1]

    @property
    def unit(self) -> str:
        """The unit of the coordinates on a map: degrees, metres up to METRES_UP_TO, or kilometres."""
        west, east, south, north = self.extent
        return "°" if self.spherical else "m" if max(east - west, north - south) < METRES_UP_TO else "km"

    @property
    def scale(self) -> float:
        """The factor of the coordinates on a map: 1e-3 where metres are shown as km, else 1."""
        return 1e-3 if self.unit == "km" else 1.0

    @property
    def frame(self) -> tuple[float, ...]:
        """(west, east, south, north) in the coordinates on a map."""
        return tuple(edge * self.scale for edge in self.extent)

    @property
    def centres(self) -> tuple[np.ndarray, np.ndarray]:
        """(x, y) of the centres on a map, (nx,) and (ny,)."""
        return self.x * self.scale, self.y * self.scale

    def turned(self, x: Any) -> Any:
        """Longitudes, turned by whole circles to those of the file; x of a plane as it is."""
        return turned(x, 0.5 * (self.extent[0] + self.extent[1])) if self.spherical else x

    @property
    def aspect(self) -> float:
        """The ratio of the drawn lengths of a unit of y and of x: 1 / cos(middle latitude) on the sphere."""
        middle = 0.5 * (self.extent[2] + self.extent[3])
        return 1 / np.cos(np.deg2rad(np.clip(middle, -80, 80))) if self.spherical else 1.0

    @property
    def shape(self) -> float:
        """Height over width of the drawn map."""
        west, east, south, north = self.extent
        return self.aspect * (north - south) / (east - west)

    @functools.cached_property
    def x_edges(self) -> np.ndarray:
        return np.append(self.x - self.width / 2, self.x[-1] + self.width / 2)

    @functools.cached_property
    def y_edges(self) -> np.ndarray:
        return np.append(self.y - self.height / 2, self.y[-1] + self.height / 2)

    @functools.cached_property
    def area(self) -> np.ndarray:
        """Areas of the cells [m2], (ny, 1); exact on the sphere: a^2 dlambda (sin phi_n - sin phi_s)."""
        if not self.spherical:
            return np.full((self.y.size, 1), self.width * self.height)
        phi = np.deg2rad(np.clip(self.y_edges, -90, 90))
        return self.radius**2 * np.deg2rad(self.width) * np.diff(np.sin(phi))[:, None]

    def dx(self, y: np.ndarray | float) -> np.ndarray:
        """Lengths [m] of the cells' sides along x at the coordinates `y`, (len(y), 1)."""
        if not self.spherical:
            return np.full((np.size(y), 1), self.width)
        return self.radius * np.deg2rad(self.width) * np.cos(np.deg2rad(np.atleast_1d(y)))[:, None]

    @property
    def dy(self) -> float:
        """Length [m] of the cells' sides along y."""
        return self.radius * np.deg2rad(self.height) if self.spherical else self.height


def mesh_on(grid: Grid) -> Mesh:
    """The Mesh of the cells of a Grid."""
    width, height = (float(edges[1] - edges[0]) for edges in (grid.x_edges, grid.y_edges))
    return Mesh(grid.x_centres, grid.y_centres, width, height, grid.spherical, grid.periodic_x, grid.periodic_y)
