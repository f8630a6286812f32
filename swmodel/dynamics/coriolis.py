"""The Coriolis parameter f [s-1] at the corners of the cells."""

import abc
import dataclasses
from typing import ClassVar

import numpy as np

from ..defaults import EARTH_ROTATION
from ..fields.methods import Named
from ..fields.parameters import check_fields, parameter
from ..grids.grid import Grid

__all__ = ["Coriolis", "FPlane", "BetaPlane", "RotatingSphere", "EARTH_ROTATION"]


def _corner_y(grid, rows):
    low, high = grid._limits[1]
    return low + (np.asarray(rows)[:, None] + 1.0) * (high - low) / grid.ny


class Coriolis(Named, abc.ABC):
    """The Coriolis parameter as a function of position.

    Attributes:
        uniform: whether it is the same everywhere.
        spherical: True if it is defined on spherical grids only, False if on Cartesian ones only, None if on both.
    """

    uniform: ClassVar[bool] = False
    spherical: ClassVar[bool | None] = None

    def __post_init__(self):
        check_fields(self)

    @abc.abstractmethod
    def at(self, grid: Grid, rows: np.ndarray) -> np.ndarray | float:
        """f [s-1] at the corners north of `rows` of a grid, a number or (rows, 1).

        Raises:
            ValueError: where the grid is spherical and f is for Cartesian ones, or the other way round.
        """


@dataclasses.dataclass(frozen=True)
class FPlane(Coriolis):
    """f = f0 everywhere."""

    f0: float = parameter(None, "s-1", doc="f everywhere")

    uniform = True

    def at(self, grid: Grid, rows: np.ndarray) -> np.ndarray | float:
        return np.float64(self.f0)


@dataclasses.dataclass(frozen=True)
class BetaPlane(Coriolis):
    """f = f0 + beta (y - y0), on a Cartesian grid."""

    f0: float = parameter(None, "s-1", doc="f at y = y0")
    beta: float = parameter(None, "m-1 s-1", doc="df/dy")
    y0: float = parameter(None, "m", default=0.0, doc="where f = f0")

    spherical = False

    def at(self, grid: Grid, rows: np.ndarray) -> np.ndarray | float:
        if grid.spherical:
            raise ValueError("BetaPlane was given with a SphericalGrid; use RotatingSphere() there.")
        return self.f0 + self.beta * (_corner_y(grid, rows) - self.y0)


@dataclasses.dataclass(frozen=True)
class RotatingSphere(Coriolis):
    """f = 2 Omega sin(latitude), on a spherical grid."""

    rate: float = parameter(None, "s-1", default=EARTH_ROTATION, doc="of the rotation: f = 2 rate sin(latitude)")

    spherical = True

    def at(self, grid: Grid, rows: np.ndarray) -> np.ndarray | float:
        if not grid.spherical:
            raise ValueError("RotatingSphere was given with a CartesianGrid; use FPlane or BetaPlane there.")
        return 2.0 * self.rate * np.sin(np.deg2rad(np.clip(_corner_y(grid, rows), -90.0, 90.0)))
