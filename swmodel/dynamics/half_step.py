"""The predictor of a step of one stage: what level and velocity change by in half a step, by centred differences.

    eta_half - eta = - dt/2 div(mean(h) u)
    u_half - u     =   dt/2 (f v - u ddx(u) - v ddy(u) - g ddx(eta)),    likewise v

What flows through a face during a step are the mean values of the step. Reconstructed from values in the middle of the
step, fluxes are of second order in time, as in the scheme of Hancock (van Leer 1984, doi:10.1137/0905001). Without the
predictor, a step that reads the level first and pushes the velocity by the new one (Mesinger and Arakawa 1976) would
amplify the waves that run against a current, at the rate c u dt k^2 / 2, and inertial oscillations, at f^2 dt / 2.

Where a cell has no more than a film of water, there is no predictor on its faces. The level changes by no more than
half of the thickness.
"""

import functools
from typing import Any

from ..fields.field import AbstractField
from ..fields.operators import X, Y, pointwise
from .tracers.advection import upstream
from .tracers.limiters import larger, smaller
from .transport import divergence

__all__ = ["HalfStep"]


class HalfStep:
    """The changes of a flow in the first half of a step.

    Args:
        flow: the ConservingFlow at the beginning of the step.
    """

    def __init__(self, flow: Any):
        self.flow = flow

    @functools.cached_property
    def of_level(self) -> AbstractField:
        """eta_half - eta [m], a Field at h."""
        flow = self.flow
        x, y = flow.on_faces(flow.h)
        rise = (-0.5 * flow.time.dt) * divergence(x * flow.u, y * flow.v, flow.geometry)
        return pointwise(lambda rise, h: larger(smaller(rise, 0.5 * h), -0.5 * h), rise, flow.h)

    def of_level_upstream(self, axis: Any, velocity: AbstractField) -> AbstractField:
        """eta_half - eta in the cell from which the water comes to a face [m], a Field at the faces across an axis."""
        return upstream(velocity, axis.low(self.of_level), axis.high(self.of_level))

    @functools.cached_property
    def of_velocity(self) -> dict[str, AbstractField]:
        """{"u" or "v": the change of that component [m s-1], a Field on its faces}."""
        flow, g = self.flow, self.flow.geometry
        rotation = flow.coriolis(*flow.fluxes) if flow.rotates else (0.0, 0.0)
        u = self._change("u", X, Y, flow.v, (g.per_dx["u"], g.per_dy["u"]), rotation[0])
        return {"u": u, "v": self._change("v", Y, X, flow.u, (g.per_dy["v"], g.per_dx["v"]), rotation[1])}

    def _change(self, name, axis, across, other, per_d, rotation):
        """The change of one component in half a step; `other` is the other component."""
        flow, velocity = self.flow, self.flow.state[name]
        wet = flow.geometry.wet_u if name == "u" else flow.geometry.wet_v
        along = velocity * axis.mean(axis.difference(velocity))
        slope = across.mean(across.difference(velocity) * (across.low(wet) * across.high(wet)))
        push = rotation - flow.gravity * axis.difference(flow.eta)
        rate = (push - along) * per_d[0] - axis.mean(across.mean(other)) * slope * per_d[1]
        return (0.5 * flow.time.dt) * rate * (axis.low(flow.covered) * axis.high(flow.covered))

    @functools.cached_property
    def of_fluxes(self) -> tuple[AbstractField, AbstractField]:
        """The changes of the volume fluxes through whole faces that belong to `of_velocity` [m3 s-1]."""
        flow, g = self.flow, self.flow.geometry
        x, y = flow.on_faces(flow.h)
        return x * g.dy["u"] * self.of_velocity["u"], y * g.dx["v"] * self.of_velocity["v"]
