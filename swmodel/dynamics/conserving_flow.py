"""Limited fluxes of water and of momentum, of which MomentumConserving makes its steps (conserving.py).

    u' = u - dt { sum of Q (u_side - u) / V' + g (V / V') ddx(eta) } + dt (f v + ...)

V = mean_x(area h) is the volume of water in a face's own cell, and a prime marks values after a step of Euler. Q is the
mean of the limited fluxes F of continuity, so that V' - V is exactly what Q brings. Summed over a flat bottom, V u
changes in a step by the pressure on the walls alone: to rounding where no water falls and no flow spreads, otherwise up
to an error of first order in dt. For where V falls, V' is replaced by V, so that a cell that empties needs no shorter
time step. Where the flow does not contract, V / V' is replaced by 1, so that a front over a dry bed is not held back.
With a half step (half_step.py), what faces reconstruct are level and velocity in the middle of the step, and the
pressure is (V ddx(eta) + V' ddx(eta')) / 2. On faces of cells with no more than a film, where the velocity has no
predictor, it is that of the new level, V' ddx(eta').

    F_u = h_u u - damping sqrt(g h_u) D / 2

h_u is reconstructed from upstream with a limited slope. Where the water covers the bed of both cells, the level eta is
reconstructed, and their mean depth is added. Elsewhere the thickness h is, so that a wedge of water leaves a shore in
finite time. u_side is the velocity upstream of a side, with a limited slope. So the scheme is of second order in space
where the flow is smooth, of first order at fronts. In time, waves have the order of the stepper; V in place of V' adds
an error of first order, in proportion to the square of their height. D damps scales that are not resolved
(half_step.py).

**Contractions conserve the energy head.** Where the flow speeds up towards a higher bed, Q (u_side - u) / V' becomes
the difference of u^2/2. Then g eta + u^2/2 is constant along a steady flow over a step. From one form to the other the
step changes continuously, so that rounding does not choose between them where the velocity or its growth is 0.

On the sphere the momentum's components change with the direction of the axes; this acts as the Coriolis force with f +
u tan(latitude) / a. **Beds finer than the grid** give cells their level and faces their sections (subgrid.py).
**Walls** on faces limit what passes over them (shores.py).
"""

import copy
import functools
from collections.abc import Sequence

import jax.numpy as jnp

from ..fields.field import (
    AbstractField,
    Value,
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
    sum_xy,
    west,
)
from ..fields.state import State
from .clock import Time
from .dissipation import damping_after
from .half_step import HalfStep, damped_difference
from .layer import LayerFlow
from .limiters import (
    both_sides,
    larger,
    limited_difference,
    limited_face,
    smaller,
    upstream,
)
from .shores import Walls, outflow, outflow_share
from .subgrid import Sections
from .system import System

SHALLOW = 1e-3  # bounds quotients by the thickness where no `thin` does [m]
FROUDE = 2e-3  # of a velocity, or its growth, within which one form of the pressure or advection turns into the other


class ConservingFlow(LayerFlow):
    """Derived fields with limited transports, which leave no cell with less than no water."""

    half_step: HalfStep | None = None  # None in a stage of Euler

    def __init__(self, equations: System, state: State, more: Sequence, outside: Sequence, time: Time):
        super().__init__(equations, state, more, outside, time)
        self.thin = equations.film  # the thickness of water that stays where it is [m]; None where the shore is fixed
        self.depth = equations.depth_at(time.begun)  # eta is raised with the sea floor at the end of the step
        self.h = self.thickness(self.eta)
        self.walls = Walls.of(self)
        self.sections = None if equations.subgrid is None else Sections(self)
        if self.sections is not None:  # stored, since many faces read it
            self.eta = equations.evaluation.finish_stage(self.level_of(self.h))

    def with_half_step(self) -> "ConservingFlow":
        """The same flow for a step of one stage."""
        flow = copy.copy(self)
        flow.half_step = HalfStep(self)  # whose terms may read its transports
        return flow

    def thickness(self, eta: AbstractField) -> AbstractField:
        """H + eta in cells that may be wet, 0 on land [m], a Field at h."""
        h = (self.depth + eta) * self.geometry.wet
        return h if self.thin is None else h.map(lambda x: larger(x, 0.0))

    def level_of(self, h: AbstractField) -> AbstractField:
        """The level of water of this thickness [m], a Field at h; 0 on land."""
        return self.equations.subgrid.level(h, self.depth) * self.geometry.wet

    def load(self, level: AbstractField) -> AbstractField:
        """max(level, -H) - max(0, -H), the thickness that an elevation adds to the water at rest [m], Fields at h."""
        if self.thin is None:
            return level
        bed = -self.depth
        return (pointwise(larger, level, bed) - bed.map(lambda x: larger(x, 0.0))) * self.geometry.wet

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
        leaving = (2.0 * self.time.dt) * outflow(*self.fluxes)
        mixing = self.covered * pointwise(lambda v, out: (v > out).astype(v.dtype), self.volume, leaving)
        faces = g.wet_u * west(mixing) * east(mixing), g.wet_v * south(mixing) * north(mixing)
        return self.walls.overflown(faces)

    @functools.cached_property
    def sloping_faces(self) -> tuple[AbstractField, AbstractField]:
        """The share of a slope that concentrations on faces contain, Fields at u and v [1].

        In a step of one stage it is 1 - |u| dt / dx on mixing faces, the mean over what passes along one axis.
        """
        if self.half_step is None:
            return self.mixing_faces
        g, dt = self.geometry, self.time.dt
        both = zip(self.mixing_faces, (self.u * g.per_dx["u"], self.v * g.per_dy["v"]))
        return tuple(on * rate.map(lambda r: larger(1.0 - dt * jnp.abs(r), 0.0)) for on, rate in both)

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
    def slip(self) -> AbstractField:
        """The factor of a velocity difference across corners [1], which is 0 at a moving shore: it slips freely."""
        if self.thin is None:
            return self.geometry.slip
        dry = sum_xy(self.geometry.wet - self.covered)
        return pointwise(lambda dry, slip: jnp.where(dry > 0, 0.0, slip), dry, self.geometry.slip)

    @functools.cached_property
    def fluxes(self) -> tuple[AbstractField, AbstractField]:
        """The limited volume fluxes through whole faces [m3 s-1], Fields at u and v."""
        g = self.geometry
        u, v = self.u, self.v
        if self.half_step is not None:
            u, v = u + self.half_step.gain["u"], v + self.half_step.gain["v"]
        flux_x, flux_y = self._flux(X, u) * g.dy["u"], self._flux(Y, v) * g.dx["v"]
        if self.thin is None:
            return flux_x, flux_y
        share = outflow_share(self.volume, flux_x, flux_y, self.time.dt)
        return tuple(f * upstream(f, axis.low(share), axis.high(share)) for axis, f in ((X, flux_x), (Y, flux_y)))

    @functools.cached_property
    def _transports(self):
        g = self.geometry
        return self.fluxes[0] / g.dy["u"], self.fluxes[1] / g.dx["v"]

    @functools.cached_property
    def _carried(self):
        """d eta/dt by the transports [m s-1], a Field at h."""
        return -(difference_x(self.fluxes[0]) + difference_y(self.fluxes[1])) * self.geometry.per_area_h

    @functools.cached_property
    def water_added(self) -> Value:
        """The rate at which terms raise eta [m s-1], a Field at h; 0.0 without such terms.

        Where shores move, terms take no more water from a cell than it holds. Dry cells may be given some.
        """
        added = self.equations.with_sources(0.0, self, self.time)
        if self.thin is None or not isinstance(added, AbstractField):
            return added
        left = self.h.map(lambda h: h / self.time.dt) + self._carried
        return pointwise(larger, added, -left)

    @functools.cached_property
    def rate(self) -> AbstractField:
        """d eta/dt [m s-1], a Field at h."""
        return self._carried + self.water_added

    def _flux(self, axis, velocity):
        """The flux per unit width through the faces across an axis [m2 s-1], before outflow is limited."""
        momentum, depth, wet = self.equations.momentum, self.depth, self.geometry.wet
        joined = axis.low(wet) * axis.high(wet)
        bed = pointwise(smaller, axis.low(depth), axis.high(depth))  # the depth of the higher one
        bed = self.walls.highest(axis, bed if self.sections is None else self.sections.deepest(axis))
        step = self._where_connected(axis, axis.difference(self.eta) * joined, bed)
        low, high = both_sides(axis, self.eta, step, momentum.limiter)
        rise = 0.0 if self.half_step is None else self.half_step.rise_upstream(axis, velocity)
        h_face, deep = upstream(velocity, low, high) + axis.mean(depth) + rise, joined
        if self.thin is not None:
            water = pointwise(smaller, axis.low(self.eta), axis.high(self.eta)) + bed  # over the higher bed
            h_face = self._at_shores(axis, velocity, h_face, water, joined, rise)
            ledge = axis.difference(depth).map(jnp.abs) + self.thin
            ledge = ledge if self.sections is None else self.sections.ledge(axis, ledge)
            deep = pointwise(lambda h, on: jnp.where(h > 0, on, 0.0), water - ledge, joined)
        level, wave_depth = upstream(velocity, low, high) + rise, None
        if self.sections is not None:
            h_face, wave_depth = self.sections.of_water(axis, level, h_face)
        h_face, flux = self.walls.limited(axis, velocity, h_face, level)
        if momentum.damping == 0:
            return flux
        on = axis.low(axis.low(joined)) * deep * axis.high(axis.high(joined))
        held = (h_face if wave_depth is None else wave_depth).map(lambda h: larger(h, self.thin or SHALLOW))
        speed = held.map(lambda h: jnp.sqrt(self.gravity * h))
        speed = speed if wave_depth is None else speed * (h_face / held)
        return flux - (0.5 * momentum.damping) * speed * on * damped_difference(axis, step, high - low, held)

    def _where_connected(self, axis, step, bed):
        """A difference on faces; 0 where the water of neither cell lies over the bed of both."""
        if self.thin is None:
            return step
        over = pointwise(larger, axis.low(self.eta), axis.high(self.eta)) + bed
        return pointwise(lambda h, step: jnp.where(h > self.thin, step, 0.0), over, step)

    def _at_shores(self, axis, velocity, from_level, water, joined, rise):
        """The thickness at faces, from the level where water covers both beds, else from the thickness upstream."""
        step = axis.difference(self.h) * joined
        from_thickness = limited_face(axis, self.h, step, velocity, self.equations.momentum.limiter) + rise
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
        rotation = self.coriolis(*self.fluxes) if self.rotates else (0.0, 0.0)  # [m2 s-2]
        thickness, held = self.on_faces(self.h), self.on_faces(after)
        explicit, *_ = self.split_terms
        least, new = self.thin or SHALLOW, []
        level = self.eta + dt * self.rate if self.sections is None else self.level_of(after)  # at the end of the step
        for k, (name, axis, across, flux, cross) in enumerate(
            (("u", X, Y, *self.fluxes), ("v", Y, X, *self.fluxes[::-1]))
        ):
            velocity, per_d, area = self.state[name], (g.per_dx["u"], g.per_dy["v"])[k], (g.area_u, g.area_v)[k]
            most = pointwise(larger, thickness[k], held[k])
            per_h = most.map(lambda h: 1.0 / larger(h, least))
            carried, whole = self._carried_along(axis, name, flux, per_h, area, per_d)
            carried = carried + self._carried_across(axis, across, name, cross) * (per_h / area)
            if self.sections is not None:
                carried, whole = self.sections.advected(axis, carried, whole)
            push = axis.difference(self.eta) * pointwise(larger, thickness[k] * per_h, whole)
            if self.half_step is not None:
                later = axis.difference(level) * pointwise(larger, held[k] * per_h, whole)
                push = later + (0.5 * self.half_step.covered_faces[k]) * (push - later)
            rate = rotation[k] * per_d - carried - self.gravity * push * per_d
            moved = velocity + dt * (rate + explicit[k])
            moved = self._given_by_wet_cells(axis, moved, after) * (g.wet_u, g.wet_v)[k]
            moved = moved if self.sections is None else self.sections.given(axis, moved, level)
            moved = self.walls.given(axis, moved, level)
            damping = damping_after(self, k, moved, dt)
            new.append((moved, None if damping is None else 1.0 + dt * damping))
        return new

    def _carried_along(self, axis, name, flux, per_h, area, per_d):
        """(the advection of a component along itself, u du/dx [m s-2]; 1, less where it contracts [1])."""
        velocity, through = self.state[name], axis.mean(flux)  # at cell centres
        step = axis.difference(velocity)
        from_low = self._beyond_low_face(axis, step, through)
        from_high = from_low - step  # u_side less the velocity on the high face
        growth = axis.high(from_low) - axis.low(from_high)
        if self.half_step is not None:  # a separate sum is exactly 0 where both sides have the face's own velocity
            gain = self.half_step.gain_upstream(axis, name, through)
            growth = growth + (axis.high(gain) - axis.low(gain))
            from_low, from_high = from_low + gain, from_high + gain
        advected = (axis.high(through * from_low) - axis.low(through * from_high)) * (per_h / area)
        head = (velocity + 0.5 * (axis.high(from_low) + axis.low(from_high))) * growth * per_d
        rising = self.walls.rising(axis, velocity * axis.difference(self.equations.depth))
        per_square = per_h / (FROUDE * FROUDE * self.gravity)  # [s2 m-2]
        spreading = growth.map(lambda du: larger(du, 0.0))
        contracting = growth - spreading
        faster = pointwise(lambda rise, x: jnp.where(rise < 0, x, 0.0), rising, velocity.map(jnp.abs) * spreading)
        share = (faster * per_square).map(lambda x: smaller(x, 1.0))
        return advected + share * (head - advected), 1.0 - contracting * contracting * per_square

    def _carried_across(self, axis, across, name, cross):
        """The sum of Q (u_side - u) over the two sides that lie across the component's own direction [m4 s-2]."""
        wet = self.geometry.wet_u if name == "u" else self.geometry.wet_v
        through = axis.mean(cross)  # at corners
        step = across.difference(self.state[name]) * (across.low(wet) * across.high(wet))
        from_low = self._beyond_low_face(across, step, through)
        if self.half_step is not None:
            from_low = from_low + self.half_step.gain_upstream(across, name, through)
        return across.high(through * from_low) - across.low(through * (from_low - step))

    def _beyond_low_face(self, axis, step, through):
        """u_side less the velocity on the low one of the two faces around a side [m s-1], at the start of the step.

        Args:
            axis: from one face to the other.
            step: the velocity's difference between both faces [m s-1].
            through: the flux through the side [m3 s-1], which comes from one of them.
        """
        half = limited_difference(axis, step, through, self.equations.momentum.limiter)
        return upstream(through, half, step - half)

    @property
    def rotates(self) -> bool:
        """Whether there is a Coriolis force, or a sphere, on which the axes turn."""
        return self.geometry.tile.rotates or isinstance(self.geometry.dx["u"], AbstractField)

    def coriolis(self, along_x: AbstractField, along_y: AbstractField) -> tuple[AbstractField, AbstractField]:
        """(dx_u du/dt, dy_v dv/dt) [m2 s-2] of the Coriolis force and of the metric term u tan(latitude) / a.

        Args:
            along_x, along_y: the volume fluxes [m3 s-1], Fields at u and v.
        """
        e, g = self.equations, self.geometry
        f = g.f
        if isinstance(g.dx["u"], AbstractField):
            f = f - mean_y(self.u) * difference_y(g.dx["u"]) * g.per_area_q
        form = e.momentum if e.coriolis_form is None else e.coriolis_form
        return form.vorticity_flux(self.per_h_q * f, along_x, along_y)

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
        return self._per_h(X, self.geometry.wet_u)

    @functools.cached_property
    def per_h_v(self) -> AbstractField:
        """1 / h_v at v on faces between cells that may be wet, 0 on the others [m-1]."""
        return self._per_h(Y, self.geometry.wet_v)

    @functools.cached_property
    def per_h_of_wind(self) -> tuple[AbstractField, AbstractField]:
        """(1 / h_u, 1 / h_v) [m-1] with `wind_depth` where there is less water, Fields at u and v."""
        if self.thin is None:
            return self.per_h_u, self.per_h_v
        g, least = self.geometry, max(self.equations.shore.wind_depth, self.thin)
        return self._per_h(X, g.wet_u, least), self._per_h(Y, g.wet_v, least)

    def _per_h(self, axis, wet, least=None):
        """1 / the thickness on faces that drags and the wind act on [m-1], bounded by `least`, or by `thin`."""
        least, h = self.thin if least is None else least, axis.mean(self.h)
        h = h if self.sections is None else self.sections.resisting(axis, h)
        return wet / (h + (1.0 - wet)) if least is None else wet * h.map(lambda x: 1.0 / larger(x, least))
