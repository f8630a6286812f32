"""The predictor of a step of one stage: level and velocity in the middle of the step, by centred differences.

    eta_half = eta - dt/2 div(h u)
    u_half   = [u + dt/2 (f v - u ddx(u) - v ddy(u) - g ddx(eta))] / (1 + r dt/2),     likewise v

r is the rate of friction, with the speed at half of the step; on the sphere f has the metric term, too. A flux in the
middle of a step is its mean over the step, to second order, as in the scheme of Hancock (van Leer 1984,
doi:10.1137/0905001).

On faces of cells with no more than a film of water, and of open sides, the velocity is unchanged. In half a step the
level changes by at most half of the thickness, and the velocity by at most dx / (2 dt).

The damping of scales that the grid does not resolve, by sixth differences of the level.

With d = eta_high - eta_low, the difference across a face, and h_u, the thickness of the water there,

    D = (1 - s) D6 + s J,     s = min(1, (d / (0.015 h_u))^2)
    D6 = the one of d and (second difference of second difference of d) / 16 that is nearer to 0; 0 where signs differ

J is the difference of the levels that are reconstructed from both sides with limited slopes. Where the second one of D6
is taken, a wave of wavenumber k decays at the rate c [2 sin(k dx / 2)]^6 / (64 dx): by 1e-3 in a path of one wavelength
of 16 cells. The shortest wave, of 2 cells, has D6 = d, which is the damping of an upwind scheme. D6 has the sign of d,
so that damping only takes potential energy, and makes no new maximum (Xue 2000,
doi:10.1175/1520-0493(2000)128<2853:HOMNDA>2.0.CO;2; Knievel et al. 2007, doi:10.1175/2007MWR2100.1). At a single jump
of the level it is 3/8 of it, too little for a bore: there, where the level changes by more than 1.5 % of the depth from
cell to cell, s is 1. Where both branches of D6 are 0, as at rest, the derivative is that of sixth differences.
"""

import functools
from typing import TYPE_CHECKING

from ..fields.field import AbstractField, Axis, X, Y, pointwise
from .dissipation import damping_after
from .layer import divergence
from .limiters import larger, smaller, upstream

if TYPE_CHECKING:
    from .conserving_flow import ConservingFlow

__all__ = ["HalfStep", "damped_difference"]


class HalfStep:
    """A flow in the middle of a step.

    Args:
        flow: the ConservingFlow at the beginning of the step.
    """

    def __init__(self, flow: "ConservingFlow"):
        self.flow = flow

    @functools.cached_property
    def _transports(self):
        """h u and h v with the mean thickness on faces [m2 s-1], Fields at u and v."""
        flow = self.flow
        x, y = flow.on_faces(flow.h)
        if flow.sections is not None:
            x, y = flow.sections.upstream(X, flow.u, x), flow.sections.upstream(Y, flow.v, y)
        return flow.walls.limited(X, flow.u, x)[1], flow.walls.limited(Y, flow.v, y)[1]

    @functools.cached_property
    def rise(self) -> AbstractField:
        """eta_half - eta [m], a Field at h."""
        rise = (-0.5 * self.flow.time.dt) * divergence(*self._transports, self.flow.geometry)
        rise = pointwise(lambda rise, h: _within(rise, 0.5 * h), rise, self.flow.h)
        return rise if self.flow.sections is None else self.flow.level_of(self.flow.h + rise) - self.flow.eta

    def rise_upstream(self, axis: Axis, velocity: AbstractField) -> AbstractField:
        """eta_half - eta in the cell from which the water comes to a face [m], a Field at the faces across an axis."""
        return upstream(velocity, axis.low(self.rise), axis.high(self.rise))

    @functools.cached_property
    def covered_faces(self) -> tuple[AbstractField, AbstractField]:
        """1 on faces between two cells with more than a film of water, Fields at u and v; else 0."""
        g, covered = self.flow.geometry, self.flow.covered
        faces = tuple(wet * axis.low(covered) * axis.high(covered) for axis, wet in ((X, g.wet_u), (Y, g.wet_v)))
        return self.flow.walls.overflown(faces)

    @functools.cached_property
    def gain(self) -> dict[str, AbstractField]:
        """{"u": u_half - u, "v": v_half - v} [m s-1], Fields at u and v."""
        flow, g = self.flow, self.flow.geometry
        rotation = (0.0, 0.0)
        if flow.rotates:
            x, y = self._transports
            rotation = flow.coriolis(x * g.dy["u"], y * g.dx["v"])
        u = self._gain("u", X, Y, (g.per_dx["u"], g.per_dy["u"]), rotation[0])
        return {"u": u, "v": self._gain("v", Y, X, (g.per_dy["v"], g.per_dx["v"]), rotation[1])}

    def gain_upstream(self, axis: Axis, name: str, through: AbstractField) -> AbstractField:
        """The gain of a component on the face from which the flux `through` a side comes [m s-1], a Field there."""
        return upstream(through, axis.low(self.gain[name]), axis.high(self.gain[name]))

    def _gain(self, name, axis, across, per_d, rotation):
        """The change of one component in half a step."""
        flow, half = self.flow, 0.5 * self.flow.time.dt
        k, velocity, other = (0, flow.u, flow.v) if name == "u" else (1, flow.v, flow.u)
        wet, length = ((flow.geometry.wet_u, flow.geometry.dx["u"]), (flow.geometry.wet_v, flow.geometry.dy["v"]))[k]
        along = velocity * axis.mean(axis.difference(velocity))
        slope = across.mean(across.difference(velocity) * (across.low(wet) * across.high(wet)))
        if flow.sections is not None:
            along, slope = (flow.sections.advecting(axis) * x for x in (along, slope))
        push = rotation - flow.gravity * axis.difference(flow.eta)
        rate = (push - along) * per_d[0] - axis.mean(across.mean(other)) * slope * per_d[1]
        damping = damping_after(flow, k, velocity + half * rate, half)
        if damping is not None:
            rate = (rate - damping * velocity) / (1.0 + half * damping)
        cells = (half * rate * (half * per_d[0])).map(lambda x: _within(x, 0.25))  # displacement in half a step
        return cells * (self.covered_faces[k] * (length / half))


def _within(x, limit):
    """x, held between -limit and limit."""
    return larger(smaller(x, limit), -limit)


STEEP = 0.015  # of s in the module docstring


def damped_difference(axis: Axis, step: AbstractField, jump: AbstractField, h: AbstractField) -> AbstractField:
    """D of the module docstring [m].

    Args:
        axis: that the faces lie across.
        step: d, the difference of the level across faces [m].
        jump: J, that of the levels reconstructed from both sides [m].
        h: h_u, the thickness of the water on faces, above 0 [m].
    """
    smooth = _unresolved(axis, step)
    return smooth + pointwise(_steepness, step, h) * (jump - smooth)


def _steepness(difference, h):
    """s of the module docstring: 1 where a difference of the level is STEEP h or more."""
    steep = (STEEP * h) * (STEEP * h)
    return smaller(difference * difference, steep) / steep


def _unresolved(axis, step):
    """D6 of the module docstring: the part of a difference across faces that belongs to the shortest waves."""
    curvature = axis.low(axis.low(step)) + axis.high(axis.high(step)) - 2.0 * step
    fourth = axis.low(axis.low(curvature)) + axis.high(axis.high(curvature)) - 2.0 * curvature
    return pointwise(_limited, 0.0625 * fourth, step)


def _limited(x, difference):
    """x, held between 0 and a difference."""
    return smaller(larger(x, smaller(difference, 0.0)), larger(difference, 0.0))
