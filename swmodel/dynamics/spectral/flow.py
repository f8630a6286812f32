"""The products of the pseudo-spectral core, and the derived fields computed from its series.

A product is (values at centres, the position "h", "u" or "v" of its series, True), as Modes.forward takes it.
"""

import functools
from typing import cast

from ...fields.field import Field, Value
from ...fields.state import State
from ...parallel.halo import exchange
from ..layer import LayerFlow

__all__ = ["SpectralFlow", "flux", "kinetic", "vorticity_flux"]


def vorticity_flux(vorticity: Value, u: Value, v: Value) -> tuple[tuple, tuple]:
    """vorticity v and - vorticity u [m s-2], for f, zeta or f + zeta at centres [s-1]."""
    return (vorticity * v, "u", True), (-vorticity * u, "v", True)


def flux(thickness: Value, u: Value, v: Value) -> tuple[tuple, tuple]:
    """h u and h v [m2 s-1]."""
    return (thickness * u, "u", True), (thickness * v, "v", True)


def kinetic(u: Value, v: Value) -> tuple:
    """(u^2 + v^2) / 2 [m2 s-2]."""
    return 0.5 * (u * u + v * v), "h", True


class SpectralFlow(LayerFlow):
    """LayerFlow whose vorticity, kinetic energy and transports are computed from series."""

    @functools.cached_property
    def modes(self) -> list:
        """The modes of u, v and eta."""
        return self.equations.core.to_modes(State(*(x.interior for x in (self.u, self.v, self.eta))))

    @functools.cached_property
    def centred(self) -> tuple:
        """u, v, zeta and eta at centres; zeta and eta are 0.0 in the linear mode."""
        return self.equations.core.at_centres(self.equations, self.modes)

    @functools.cached_property
    def fluxes(self) -> list:
        """The modes of h u and h v. Minus their divergence is the tendency of eta."""
        u, v, _, eta = self.centred
        thickness = cast(Field, self.equations.depth_at(self.time)).interior + eta
        return self.equations.core.block.forward(*flux(thickness, u, v))

    def _with_halos(self, *fields):
        """Fields with halos, at the points of the C-grid, of pairs (modes, position)."""
        tile = self.geometry.tile
        arrays = self.equations.core.block.inverse(*((x, name, False) for x, name in fields))
        arrays = exchange(arrays, tile.halo, tile.sides, self.equations.communicator)
        return tuple(Field(x, name, (tile.halo,) * 4) for x, (_, name) in zip(arrays, fields))

    @functools.cached_property
    def _transports(self):
        return self._with_halos(*zip(self.fluxes, "uv"))

    @functools.cached_property
    def vorticity(self) -> Field:
        """zeta at corners [s-1]; zero at walls, which are free-slip."""
        block, (u, v, _) = self.equations.core.block, self.modes
        return self._with_halos((block.ddx(v, "v") - block.ddy(u, "u"), "q"))[0]

    @functools.cached_property
    def kinetic_energy(self) -> Field:
        """K = (u^2 + v^2) / 2 at cell centres [m2 s-2]."""
        u, v, *_ = self.centred
        return Field(kinetic(u, v)[0], "h", (0, 0, 0, 0))
