"""The vorticity flux: the Coriolis force, with its parameter f [s-1] at corners, and rotational advection. Both rotate
the velocity and do no work.

    du/dt = + q V,   dv/dt = - q U,   q = (f + zeta) / h,   U = h_u u,  V = h_v v

on a C-grid, with q at corners. Each scheme takes q and the volume fluxes through whole cell sides, u h_u dy and
v h_v dx [m3 s-1]. It returns accelerations times the distance of the adjacent centres, dx_u du/dt and dy_v dv/dt.

    EnergyConserving     mean_y(q mean_x(V)),      -mean_x(q mean_y(U))       Sadourny (1975)
    EnstrophyConserving  mean_y(q) mean_xy(V),     -mean_x(q) mean_xy(U)      Sadourny (1975)
    ArakawaLamb          twelve values of q a face                            Arakawa & Lamb (1981)

The flux is linear in q, so that the Coriolis force (q = f / h) may have another form than rotational advection
(q = zeta / h). Two different forms together conserve energy if each of them does. Potential enstrophy is conserved only
where both have the same form, and on a plane or a sphere without coasts, where the slip sets zeta.

References: Sadourny (1975), doi:10.1175/1520-0469(1975)032<0680:TDOFDM>2.0.CO;2; Arakawa & Lamb (1981),
doi:10.1175/1520-0493(1981)109<0018:APEAEC>2.0.CO;2.
"""

import abc
import dataclasses
from typing import TYPE_CHECKING, ClassVar, TypeAlias

import jax
import numpy as np

from ..defaults import EARTH_ROTATION
from ..fields.field import AbstractField, east, mean_x, mean_xy, mean_y, north, south, west
from ..fields.parameters import parameter
from ..fields.parts import Named
from ..fields.state import pytree
from ..grids.grid import Grid

if TYPE_CHECKING:
    from .system import System

Numbers: TypeAlias = float | np.ndarray | jax.Array

__all__ = [
    "ArakawaLamb",
    "BetaPlane",
    "Coriolis",
    "EARTH_ROTATION",
    "EnergyConserving",
    "EnstrophyConserving",
    "FPlane",
    "RotatingSphere",
    "VorticityFlux",
]


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

    @abc.abstractmethod
    def at_y(self, y: Numbers) -> Numbers:
        """f [s-1] at y, in the units of the grid's coordinate and also beyond the grid: an array or a number.

        On Cartesian grids y may be an array of JAX.
        """

    def at(self, grid: Grid, rows: np.ndarray) -> np.ndarray:
        """f [s-1] at the corners north of `rows` of a grid, () or (rows, 1).

        Raises:
            ValueError: where the grid is spherical and f is for Cartesian ones, or the other way round.
        """
        if self.spherical is not None and self.spherical != grid.spherical:
            fitting = "RotatingSphere() there" if grid.spherical else "FPlane or BetaPlane there"
            raise ValueError(f"{type(self).__name__} was given with a {type(grid).__name__}; use {fitting}.")
        return np.asarray(self.at_y(_corner_y(grid, rows)))


@pytree
class FPlane(Coriolis):
    """f = f0 everywhere."""

    f0: float = parameter(None, "s-1", doc="f everywhere")

    uniform = True

    def at_y(self, y: Numbers) -> Numbers:
        return self.f0


@pytree
class BetaPlane(Coriolis):
    """f = f0 + beta (y - y0), on a Cartesian grid."""

    f0: float = parameter(None, "s-1", doc="f at y = y0")
    beta: float = parameter(None, "m-1 s-1", doc="df/dy")
    y0: float = parameter(None, "m", default=0.0, doc="where f = f0")

    spherical = False

    def at_y(self, y: Numbers) -> Numbers:
        return self.f0 + self.beta * (y - self.y0)


@pytree
class RotatingSphere(Coriolis):
    """f = 2 Omega sin(latitude), on a spherical grid."""

    rate: float = parameter(None, "s-1", default=EARTH_ROTATION, doc="of the rotation: f = 2 rate sin(latitude)")

    spherical = True

    def at_y(self, y: Numbers) -> Numbers:
        return 2.0 * self.rate * np.sin(np.deg2rad(np.clip(y, -90.0, 90.0)))


SADOURNY = "Sadourny (1975), doi:10.1175/1520-0469(1975)032<0680:TDOFDM>2.0.CO;2"


class VorticityFlux(Named, abc.ABC):
    """A discrete form of the vorticity flux.

    Attributes:
        references: the literature that files of a run cite for it, or None.
        conserves_momentum: whether it steps the momentum of whole stages (conserving.py) in place of giving tendencies.
        has_kinks: whether it chooses among branches by the flow, so that perturbed runs may take others.
        wave_damping: the rate at which it damps the shortest waves, over that of an upwind scheme [1].
    """

    references: ClassVar[str | None] = None
    conserves_momentum: ClassVar[bool] = False
    has_kinks: ClassVar[bool] = False
    wave_damping: ClassVar[float] = 0.0

    def prepare(self, system: "System") -> "System":
        """A prepared System whose stages and LayerFlow are those of this form: the same one unless it steps its own."""
        return system

    @abc.abstractmethod
    def vorticity_flux(
        self, q: AbstractField, U: AbstractField, V: AbstractField
    ) -> tuple[AbstractField, AbstractField]:
        """(dx_u du/dt, dy_v dv/dt) [m2 s-2], Fields at u and v.

        Args:
            q: potential vorticity at corners [m-1 s-1], or the part of it that is due to rotation or to the flow.
            U, V: volume transports through whole cell sides [m3 s-1], Fields at u and v.
        """


@dataclasses.dataclass(frozen=True)
class EnergyConserving(VorticityFlux):
    """Conserves total energy; potential enstrophy may grow. The default. Sadourny (1975)."""

    references = SADOURNY

    def vorticity_flux(
        self, q: AbstractField, U: AbstractField, V: AbstractField
    ) -> tuple[AbstractField, AbstractField]:
        return mean_y(q * mean_x(V)), -mean_x(q * mean_y(U))


DEFAULT = EnergyConserving()


@dataclasses.dataclass(frozen=True)
class EnstrophyConserving(VorticityFlux):
    """Conserves potential enstrophy; total energy may change. Sadourny (1975)."""

    references = SADOURNY

    def vorticity_flux(
        self, q: AbstractField, U: AbstractField, V: AbstractField
    ) -> tuple[AbstractField, AbstractField]:
        return mean_y(q) * mean_xy(V), -mean_x(q) * mean_xy(U)


@dataclasses.dataclass(frozen=True)
class ArakawaLamb(VorticityFlux):
    """Conserves total energy and potential enstrophy, in divergent flow too. Arakawa & Lamb (1981)."""

    references = "Arakawa and Lamb (1981), doi:10.1175/1520-0493(1981)109<0018:APEAEC>2.0.CO;2"

    def vorticity_flux(
        self, q: AbstractField, U: AbstractField, V: AbstractField
    ) -> tuple[AbstractField, AbstractField]:
        rising = north(east(q)) + south(west(q))  # along the diagonal from south-west to north-east
        falling = north(west(q)) + south(east(q))
        near, far = (2.0 * rising + falling) / 24.0, (rising + 2.0 * falling) / 24.0
        tilt_u = (north(east(q)) - south(west(q)) + north(west(q)) - south(east(q))) / 24.0
        tilt_v = (south(west(q)) - north(east(q)) + north(west(q)) - south(east(q))) / 24.0
        flux_u = (
            east(near * north(V) + far * south(V))
            + west(near * south(V) + far * north(V))
            + west(tilt_u * west(U))
            - east(tilt_u * east(U))
        )
        flux_v = (
            -south(near * west(U) + far * east(U))
            - north(near * east(U) + far * west(U))
            + south(tilt_v * south(V))
            - north(tilt_v * north(V))
        )
        return flux_u, flux_v
