"""The vorticity flux: the Coriolis force and rotational advection, which rotate the velocity and do no work.

    du/dt = + q V,   dv/dt = - q U,   q = (f + zeta) / h,   U = h_u u,  V = h_v v

on a C-grid, with q at corners. Each scheme takes q and the volume fluxes through whole cell sides, u h_u dy and
v h_v dx [m3 s-1]. It returns accelerations times the distance of the adjacent centres, dx_u du/dt and dy_v dv/dt.

    EnergyConserving     mean_y(q mean_x(V)),      -mean_x(q mean_y(U))       Sadourny (1975)
    EnstrophyConserving  mean_y(q) mean_xy(V),     -mean_x(q) mean_xy(U)      Sadourny (1975)
    ArakawaLamb          twelve values of q a face                            Arakawa & Lamb (1981)

The flux is linear in q, so that the Coriolis force (q = f / h) may have another form than rotational advection
(q = zeta / h). Two different forms together conserve energy if each of them does. Potential enstrophy is conserved only
where both have the same form.

References: Sadourny (1975), doi:10.1175/1520-0469(1975)032<0680:TDOFDM>2.0.CO;2; Arakawa & Lamb (1981),
doi:10.1175/1520-0493(1981)109<0018:APEAEC>2.0.CO;2.
"""

import abc
import dataclasses
from typing import TYPE_CHECKING, ClassVar

from ..fields.field import AbstractField, east, mean_x, mean_xy, mean_y, north, south, west
from ..fields.methods import Named

if TYPE_CHECKING:
    from .system import System

__all__ = ["ArakawaLamb", "EnergyConserving", "EnstrophyConserving", "VorticityFlux"]

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
