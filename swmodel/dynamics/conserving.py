"""The form of the momentum equation that conserves momentum, for bores, dam breaks and, with wetting, shores.

    d(h u)/dt + div(h u (u, v)) = - g h d eta/dx + f h v + h F_u,     d eta/dt = - div(h u, h v)

The scheme steps the velocity u on the C-grid's faces. Each face has a control volume V = mean_x(area h) [m3], through
whose sides flow the volume fluxes Q [m3 s-1] (Stelling and Duinmeijer 2003, doi:10.1002/fld.537):

    V' u' = V u - dt sum of Q (u_side - u)  ->  u' = u - dt { [Q (u_side - u)] / V' + g (V / V') ddx(eta) } + ...

A prime marks values after the Euler step. Q is the mean of the limited fluxes F of continuity, so that V' - V is
exactly what Q brings. Summed over a flat bottom, V u changes in a step by the pressure on the walls alone, to rounding.
Where V falls, V' is replaced by V, so that a cell that empties needs no shorter time step. Where the flow
spreads, V / V' is replaced by 1, so that a front over a dry bed is not held back.

    F_u = h_u u - damping sqrt(g h_u) D / 2

h_u is reconstructed from upstream with a limited slope. Where the water covers the bed of both cells, the level eta is
reconstructed, and their mean depth is added. Elsewhere the thickness h is, so that a wedge of water leaves a shore in
finite time. u_side is the velocity upstream of a side, with a limited slope. So the scheme is of second order where the
flow is smooth, of first order at fronts.

**Unresolved scales are damped by sixth differences.** With d = eta_high - eta_low, the difference across a face,

    D = (1 - s) D6 + s J,     s = min(1, (d / (0.015 h_u))^2)
    D6 = the one of d and (second difference of second difference of d) / 16 that is nearer to 0; 0 where signs differ

J is the difference of the levels that are reconstructed from both sides with limited slopes. Where the second one of D6
is taken, a wave of wavenumber k decays at the rate c [2 sin(k dx / 2)]^6 / (64 dx): by 1e-3 in a path of one wavelength
of 16 cells. The shortest wave, of 2 cells, has D6 = d, which is the damping of an upwind scheme. D6 has the sign of d,
so that damping only takes potential energy, and makes no new maximum (Xue 2000,
doi:10.1175/1520-0493(2000)128<2853:HOMNDA>2.0.CO;2; Knievel et al. 2007, doi:10.1175/2007MWR2100.1). At a single jump
of the level it is 3/8 of it, too little for a bore: there, where the level changes by more than 1.5 % of the depth from
cell to cell, s is 1. Where both branches of D6 are 0, as at rest, the derivative is that of sixth differences.

**Contractions conserve the energy head.** Where the flow speeds up towards a higher bed, Q (u_side - u) / V' becomes
the difference of u^2/2. Then g eta + u^2/2 is constant along a steady flow over a step.

**SSPRK3.** Each stage is a step of Euler of length dt. The stages are combined in momentum, not in velocity:

    u = [(1 - w) V_start u_start + w V' u'] / [(1 - w) V_start + w V']

On the sphere the momentum's components change with the direction of the axes; this acts as the Coriolis force with
f + u tan(latitude) / a.
"""

import dataclasses
import functools
from typing import Any, ClassVar

import jax.numpy as jnp

from ..errors import ConfigError
from ..fields.field import AbstractField
from ..fields.operators import (
    X,
    Y,
    difference_x,
    difference_y,
    east,
    mean_x,
    mean_y,
    north,
    pointwise,
    south,
    west,
)
from ..fields.state import State, as_tile_field, like
from .momentum import EnergyConserving
from .shallow_water import DerivedFields
from .tracers.advection import limited_difference, limited_face, upstream
from .tracers.limiters import Limiter, MonotonizedCentral, larger, smaller
from .wetting import limited_outflow, outflow, outflow_share

__all__ = ["ConservingFlow", "MomentumConserving"]

STEEP = 0.015  # of s in the module docstring
SHALLOW = 1e-3  # bounds quotients by the thickness where no `thin` does [m]


@dataclasses.dataclass(frozen=True)
class MomentumConserving(EnergyConserving):
    """Conserves momentum across bores, and damps scales that the grid does not resolve. Stelling and Duinmeijer (2003).

    It needs SSPRK3, and wetting and drying needs this form. The Coriolis force has the energy-conserving form
    unless the model has another `coriolis_form`.

    Args:
        limiter: the Limiter of the slopes of level, thickness and velocity.
        damping: 1 damps unresolved scales as an upwind scheme does; 0 leaves the damping out [1].
    """

    limiter: Limiter = MonotonizedCentral()
    damping: float = 1.0

    references = "Stelling and Duinmeijer (2003), doi:10.1002/fld.537"
    conserves_momentum: ClassVar[bool] = True

    def __post_init__(self):
        if not isinstance(self.limiter, Limiter):
            raise ConfigError(
                f"MomentumConserving: limiter = {self.limiter!r} is not a limiter; give one, as MonotonizedCentral()."
            )
        if isinstance(self.damping, bool) or not isinstance(self.damping, (int, float)) or not 0 <= self.damping <= 1:
            raise ConfigError(f"MomentumConserving: damping = {self.damping!r} is not a number; give one from 0 to 1.")

    def flow(self, flow: DerivedFields) -> "ConservingFlow":
        """The derived fields whose transports are those of this form."""
        return ConservingFlow(flow.equations, flow.state, flow.more, flow.outside, flow.time)

    def euler(self, equations: Any, start: State, now: State, weight: Any, dt: Any, time: Any) -> State:
        """(1 - weight) start + weight (now + dt d now/dt), combined in momentum, of arrays or Fields as `now` is.

        Args:
            equations: the Equations.
            start: the State at the beginning of the time step.
            now: the State of this stage.
            weight: of the new State [1].
            dt: the time step [s].
            time: the Time of the stage.
        """
        flow = equations.flow(now, time, more=[start.eta])
        state, first = flow.state, start.map(as_tile_field, start.positions)
        rates = {"eta": flow.rate, **equations.transported(flow, time)}
        new = {name: first[name] + weight * ((state[name] - first[name]) + dt * rates[name]) for name in rates}
        before, after = flow.on_faces(flow.thickness(flow.more[0])), flow.h + dt * flow.rate
        parts = zip("uv", before, flow.on_faces(after), flow.velocities(after))
        for name, earlier, held, (moved, resistance) in parts:
            old, fresh = (1.0 - weight) * flow.moving(earlier), weight * flow.moving(held)
            momentum, carrier = old * first[name], old + fresh
            if resistance is not None:  # one quotient for friction and for the momentum over the water
                momentum, carrier = momentum * resistance, carrier * resistance
            new[name] = pointwise(_quotient, momentum + fresh * moved, carrier)
        return like(now, state.replace(**new))


class ConservingFlow(DerivedFields):
    """Derived fields with limited transports, which leave no cell with less than no water."""

    def __init__(self, equations: Any, state: State, more: Any, outside: Any, time: Any):
        super().__init__(equations, state, more, outside, time)
        self.depth = equations.depth_at(time.begun)  # eta is raised with the sea floor at the end of the step
        self.h = self.thickness(self.eta)

    @property
    def thin(self) -> Any:
        """The thickness of water that stays where it is [m]; None without wetting and drying."""
        return None if self.equations.wetting is None else self.equations.wetting.thin

    def thickness(self, eta: AbstractField) -> AbstractField:
        """H + eta in cells that may be wet, 0 on land [m], a Field at h."""
        h = (self.depth + eta) * self.geometry.wet
        return h if self.thin is None else h.map(lambda x: larger(x, 0.0))

    @property
    def column(self) -> AbstractField:
        """The thickness to which contents of columns belong [m], a Field at h."""
        return self.h

    @functools.cached_property
    def covered(self) -> AbstractField:
        """1 in cells with more than a film of water, a Field at h; else 0."""
        if self.thin is None:
            return self.geometry.wet
        return self.h.map(lambda h: (h > self.thin).astype(h.dtype))

    @functools.cached_property
    def mixing_faces(self) -> tuple[AbstractField, AbstractField]:
        """1 on faces between covered cells of which at most half the water leaves in a step, Fields at u and v.

        On other faces the flow carries the concentration of the cell upstream. So a cell that empties gives no more
        than it has, and the undefined concentration of a dry cell is not read.
        """
        g = self.geometry
        if self.thin is None:
            return g.wet_u, g.wet_v
        leaving = (2.0 * self.time.dt) * outflow(*self._fluxes)
        mixing = self.covered * pointwise(lambda v, out: (v > out).astype(v.dtype), self.volume, leaving)
        return g.wet_u * west(mixing) * east(mixing), g.wet_v * south(mixing) * north(mixing)

    def on_faces(self, h: AbstractField) -> tuple[AbstractField, AbstractField]:
        """The mean thickness of water in the cells of u and of v [m], Fields there, of the thickness at h."""
        g = self.geometry
        volume = g.area_h * h
        return mean_x(volume) / g.area_u, mean_y(volume) / g.area_v

    def moving(self, h: AbstractField) -> AbstractField:
        """The thickness on faces that carries momentum [m]: without half of what is thin, which is left by rounding."""
        return h if self.thin is None else (h - 0.5 * self.thin).map(lambda h: larger(h, 0.0))

    @functools.cached_property
    def volume(self) -> AbstractField:
        """The volume of water in each cell [m3], a Field at h."""
        return self.geometry.area_h * self.h

    @functools.cached_property
    def _fluxes(self):
        """The volume fluxes through whole faces [m3 s-1], Fields at u and v."""
        g = self.geometry
        flux_x, flux_y = self._flux(X, self.u) * g.dy["u"], self._flux(Y, self.v) * g.dx["v"]
        if self.thin is None:
            return flux_x, flux_y
        share = outflow_share(self.volume, flux_x, flux_y, self.time.dt)
        return limited_outflow(flux_x, west(share), east(share)), limited_outflow(flux_y, south(share), north(share))

    @functools.cached_property
    def _transports(self):
        g = self.geometry
        return self._fluxes[0] / g.dy["u"], self._fluxes[1] / g.dx["v"]

    @functools.cached_property
    def _carried(self):
        """d eta/dt by the transports [m s-1], a Field at h."""
        return -(difference_x(self._fluxes[0]) + difference_y(self._fluxes[1])) * self.geometry.per_area_h

    @functools.cached_property
    def water_added(self) -> Any:
        """The rate at which terms raise eta [m s-1], a Field at h; 0.0 without such terms.

        With wetting and drying, terms take no more water from a cell than it holds, and give none to a dry cell.
        """
        added = self.equations.with_sources(0.0, self, self.time)
        if self.thin is None or not isinstance(added, AbstractField):
            return added
        left = self.h.map(lambda h: h / self.time.dt) + self._carried
        added = added * self.h.map(lambda h: (h > self.thin).astype(h.dtype))
        return pointwise(larger, added, -left)

    @property
    def rate(self) -> AbstractField:
        """d eta/dt [m s-1], a Field at h."""
        return self._carried + self.water_added

    def _flux(self, axis, velocity):
        """The flux per unit width through the faces across an axis [m2 s-1], before outflow is limited."""
        momentum, depth, wet = self.equations.momentum, self.depth, self.geometry.wet
        joined = axis.low(wet) * axis.high(wet)
        bed = pointwise(smaller, axis.low(depth), axis.high(depth))  # the depth of the higher one
        step = self._where_connected(axis, axis.difference(self.eta) * joined, bed)
        low, high = _both_sides(axis, self.eta, step, momentum.limiter)
        h_face, deep = upstream(velocity, low, high) + axis.mean(depth), joined
        if self.thin is not None:
            water = pointwise(smaller, axis.low(self.eta), axis.high(self.eta)) + bed  # over the higher bed
            h_face = self._at_shores(axis, velocity, h_face, water, joined)
            rise = axis.difference(depth).map(jnp.abs) + self.thin
            deep = pointwise(lambda h, on: jnp.where(h > 0, on, 0.0), water - rise, joined)
        flux = h_face * velocity
        if momentum.damping == 0:
            return flux
        on = axis.low(axis.low(joined)) * deep * axis.high(axis.high(joined))
        speed = h_face.map(lambda h: jnp.sqrt(self.gravity * larger(h, self.thin or SHALLOW)))
        return flux - (0.5 * momentum.damping) * speed * on * self._damped(axis, step, high - low, h_face)

    def _damped(self, axis, step, jump, h_face):
        """D of the module docstring [m] from d, J and h_u."""
        smooth = _unresolved(axis, step)
        steep = pointwise(_steepness, step, h_face.map(lambda h: larger(h, self.thin or SHALLOW)))
        return smooth + steep * (jump - smooth)

    def _where_connected(self, axis, step, bed):
        """A difference on faces; 0 where the water of neither cell lies over the bed of both."""
        if self.thin is None:
            return step
        over = pointwise(larger, axis.low(self.eta), axis.high(self.eta)) + bed
        return pointwise(lambda h, step: jnp.where(h > self.thin, step, 0.0), over, step)

    def _at_shores(self, axis, velocity, from_level, water, joined):
        """The thickness at faces, from the level where water covers both beds, else from the thickness upstream."""
        step = axis.difference(self.h) * joined
        from_thickness = limited_face(axis, self.h, step, velocity, self.equations.momentum.limiter)
        over = water.map(lambda h: larger(h, 0.0))
        change = pointwise(smaller, from_level - from_thickness, over)
        change = pointwise(larger, change, -over)
        return (from_thickness + change).map(lambda h: larger(h, 0.0))

    # -- momentum -----------------------------------------------------------------------------------------------------

    def velocities(self, after: AbstractField) -> list[tuple[AbstractField, AbstractField | None]]:
        """For u and v (the velocity after a step of Euler [m s-1], what friction divides it by [1] or None).

        Args:
            after: the thickness of the water after the step [m], a Field at h.
        """
        g, dt = self.geometry, self.time.dt
        rotation, thickness, held = self._coriolis(), self.on_faces(self.h), self.on_faces(after)
        explicit, damping = self.equations.split_terms(self, self.time)
        least, new = self.thin or SHALLOW, []
        for k, (name, axis, across, flux, cross) in enumerate(
            (("u", X, Y, *self._fluxes), ("v", Y, X, *self._fluxes[::-1]))
        ):
            velocity, per_d, area = self.state[name], (g.per_dx["u"], g.per_dy["v"])[k], (g.area_u, g.area_v)[k]
            most = pointwise(larger, thickness[k], held[k])
            per_h = most.map(lambda h: 1.0 / larger(h, least))
            carried, growth = self._carried_along(axis, velocity, flux, per_h / area, per_d)
            carried = carried + self._carried_across(axis, across, velocity, cross, name) * (per_h / area)
            filled = pointwise(lambda du, share: jnp.where(du > 0, 1.0, share), growth, thickness[k] * per_h)  # V / V'
            rate = rotation[k] * per_d - carried - self.gravity * axis.difference(self.eta) * per_d * filled
            moved = velocity + dt * (rate + explicit[k])
            moved = self._given_by_wet_cells(axis, moved, after) * (g.wet_u, g.wet_v)[k]
            new.append((moved, None if damping[k] is None else 1.0 + dt * damping[k]))
        return new

    def _carried_along(self, axis, velocity, flux, per_volume, per_d):
        """(the advection of a component along itself, u du/dx [m s-2]; u_side ahead less that behind [m s-1])."""
        through = axis.mean(flux)  # at cell centres
        step = axis.difference(velocity)
        half = limited_difference(axis, step, through, self.equations.momentum.limiter)
        from_low = upstream(through, half, step - half)  # u_side less the velocity on the low face
        from_high = from_low - step  # and less that on the high one
        ahead, behind = axis.high(from_low), axis.low(from_high)
        growth = ahead - behind
        advected = (axis.high(through * from_low) - axis.low(through * from_high)) * per_volume
        head = (velocity + 0.5 * (ahead + behind)) * growth * per_d
        rising = velocity * axis.difference(self.equations.depth)
        contracts = pointwise(lambda rise, du: jnp.where(rise < 0, du, 0.0), rising, growth)
        return upstream(contracts, head, advected), growth

    def _carried_across(self, axis, across, velocity, cross, name):
        """The sum of Q (u_side - u) over the two sides that lie across the component's own direction [m4 s-2]."""
        wet = self.geometry.wet_u if name == "u" else self.geometry.wet_v
        through = axis.mean(cross)  # at corners
        step = across.difference(velocity) * (across.low(wet) * across.high(wet))
        half = limited_difference(across, step, through, self.equations.momentum.limiter)
        from_low = upstream(through, half, step - half)
        return across.high(through * from_low) - across.low(through * (from_low - step))

    def _coriolis(self):
        """(dx_u du/dt, dy_v dv/dt) [m2 s-2] of the Coriolis force and of the metric term u tan(latitude) / a."""
        e, g = self.equations, self.geometry
        f = g.f
        if isinstance(g.dx["u"], AbstractField):
            f = f - mean_y(self.u) * difference_y(g.dx["u"]) * g.per_area_q
        form = e.momentum if e.coriolis_form is None else e.coriolis_form
        U, V = self._fluxes
        return form.vorticity_flux(self.per_h_q * f, U, V)

    def _given_by_wet_cells(self, axis, velocity, after):
        """`velocity` where the cell that the water comes from is wet, else 0."""
        if self.thin is None:
            return velocity
        given = upstream(velocity, axis.low(after), axis.high(after))
        return pointwise(lambda h, u: jnp.where(h > self.thin, u, 0.0), given, velocity)

    @functools.cached_property
    def per_h_q(self) -> AbstractField:
        """1 / h_q at corners, 0 where all four cells are land [m-1]."""
        if self.thin is None:
            return super().per_h_q
        g = self.geometry
        return g.wet_area_q / pointwise(larger, self._wet_volume, self.thin * g.wet_area_q + g.dry_q)

    @functools.cached_property
    def per_h_u(self) -> AbstractField:
        """1 / h_u at u on faces between cells that may be wet, 0 on the others [m-1]."""
        return self._per_h(mean_x(self.h), self.geometry.wet_u)

    @functools.cached_property
    def per_h_v(self) -> AbstractField:
        """1 / h_v at v on faces between cells that may be wet, 0 on the others [m-1]."""
        return self._per_h(mean_y(self.h), self.geometry.wet_v)

    def _per_h(self, h, wet):
        if self.thin is None:
            return wet / (h + (1.0 - wet))
        return wet * h.map(lambda x: 1.0 / larger(x, self.thin))


def _both_sides(axis, x, step, limiter):
    """The values on a face reconstructed from its low and its high side."""
    if limiter.symmetric:  # a cell has one slope
        half = pointwise(limiter.half, axis.low(step), axis.high(step))
        return axis.low(x) + axis.low(half), axis.high(x) - axis.high(half)
    low = axis.low(x) + pointwise(limiter.half, axis.low(axis.low(step)), step)
    return low, axis.high(x) - pointwise(limiter.half, axis.high(axis.high(step)), step)


def _steepness(difference, h):
    """s of the module docstring: 1 where a difference of the level is STEEP h or more."""
    steep = (STEEP * h) * (STEEP * h)
    return smaller(difference * difference, steep) / steep


def _unresolved(axis, step):
    """D of the module docstring: the part of a difference across faces that belongs to the shortest waves."""
    curvature = axis.low(axis.low(step)) + axis.high(axis.high(step)) - 2.0 * step
    fourth = axis.low(axis.low(curvature)) + axis.high(axis.high(curvature)) - 2.0 * curvature
    return pointwise(_limited, 0.0625 * fourth, step)


def _limited(x, difference):
    """x, held between 0 and a difference."""
    return smaller(larger(x, smaller(difference, 0.0)), larger(difference, 0.0))


def _quotient(momentum, carrier):
    """momentum / carrier; 0 where both are, with a finite derivative there."""
    return momentum / jnp.where(carrier > 0, carrier, 1.0)
