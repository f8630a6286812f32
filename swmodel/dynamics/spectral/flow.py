"""What the pseudo-spectral core multiplies at centres, and the flow that its series make.

Products are (values, what they become, whether they lie at centres), as Series' modes take them.
"""

import functools

from ...fields.field import Field
from ...fields.state import State
from ...parallel.halo import exchange
from ..shallow_water import Flow
from ..terms import as_field

__all__ = ["SpectralFlow", "flux", "kinetic", "turned"]


def turned(vorticity, u, v):
    """zeta v and - zeta u."""
    return (vorticity * v, "u", True), (-vorticity * u, "v", True)


def flux(thickness, u, v):
    """h u and h v."""
    return (thickness * u, "u", True), (thickness * v, "v", True)


def kinetic(u, v):
    """(u^2 + v^2) / 2."""
    return 0.5 * (u * u + v * v), "h", True


class SpectralFlow(Flow):
    """A Flow whose vorticity, kinetic energy and transports are those of the series."""

    @functools.cached_property
    def modes(self):
        """Those of u, v and eta."""
        return self.equations.core.to_modes(State(*(x.interior for x in (self.u, self.v, self.eta))))

    @functools.cached_property
    def centred(self):
        """u, v, zeta and eta at centres; 0.0 for zeta and eta in the linear mode."""
        return self.equations.core.at_centres(self.equations, self.modes)

    @functools.cached_property
    def fluxes(self):
        """Modes of h u and h v, minus whose divergence is how eta changes."""
        u, v, _, eta = self.centred
        thickness = self.equations.depth_at(self.time).interior + eta
        return self.equations.core.held.of(*flux(thickness, u, v))

    def _with_halos(self, *fields):
        """Fields with halos of (modes, name), at the C-grid's points."""
        tile = self.geometry.tile
        arrays = self.equations.core.held.points(*((x, name, False) for x, name in fields))
        arrays = exchange(arrays, tile.halo, tile.sides, self.equations.communicator)
        return tuple(Field(x, name, (tile.halo,) * 4) for x, (_, name) in zip(arrays, fields))

    @functools.cached_property
    def _transports(self):
        return self._with_halos(*zip(self.fluxes, "uv"))

    @functools.cached_property
    def vorticity(self):
        """zeta at corners [s-1]; zero at walls, which are free-slip."""
        held, (u, v, _) = self.equations.core.held, self.modes
        return self._with_halos((held.ddx(v, "v") - held.ddy(u, "u"), "q"))[0]

    @functools.cached_property
    def kinetic_energy(self):
        u, v, *_ = self.centred
        return as_field(kinetic(u, v)[0], "h")
