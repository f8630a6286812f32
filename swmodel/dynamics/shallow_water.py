"""The rotating shallow-water equations on one tile: the sum of their terms.

    du/dt   = + q V - ddx(g eta + K) + F_u        q = (f + zeta) / h_q,   K = (u^2 + v^2) / 2
    dv/dt   = - q U - ddy(g eta + K) + F_v        U = h_u u,   V = h_v v,   h = H + eta
    deta/dt = - ddx(U) - ddy(V)

and, of each variable s that the flow transports, ds/dt = its own rate (transported.py).

In the linear mode h = H and zeta = K = 0. Discrete forms: momentum.py (q V), transport.py (U, K, divergence),
forcing.py, dissipation.py and boundaries.py (F). Uplift of the sea floor raises eta and lowers H by the same amount.

`Dynamics` is the argument of a compiled program; it holds arrays of the tile and no derived quantities.
`Dynamics.prepare` runs once at the start of the program and returns `Equations`, with halos filled, which compute the
tendencies for time steppers.
"""

import dataclasses
import functools
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ..fields.field import AbstractField, Field
from ..fields.operators import X, Y, difference_x, difference_y, mean_x, mean_y, pointwise, sum_xy
from ..fields.pytrees import pytree, replace, static
from ..fields.state import State, as_tile_field, like
from ..fields.variables import PROGNOSTIC, Variable
from ..grids.geometry import Geometry, TileGeometry, safe_inverse
from ..parallel.halo import EAST, NORTH, SOUTH, WEST
from .clock import Time, as_time
from .cores import FiniteDifferences, check_has_tendencies
from .ghosts import Exchange
from .replicated import mark_replicated
from .stages import ArrayEvaluation
from .terms import TimeVarying, Windows, value_at
from .transport import divergence, kinetic_energy, transports

__all__ = ["Coverage", "DerivedFields", "Dynamics", "Equations"]

SHALLOWEST = 1e-6  # the least depth of water where the shore is fixed [m]


@dataclasses.dataclass(frozen=True)
class Coverage:
    """The steps that the forcing in Dynamics covers; static.

    Attributes:
        intervals: the numbers of steps from each record to the next.
        dt: the length of a step [s].
    """

    intervals: tuple
    dt: float

    @property
    def steps(self) -> int:
        """The number of steps in all intervals."""
        return sum(self.intervals)


@pytree
class Dynamics:
    """All arguments of a compiled step, by tile; every array leaf can be differentiated.

    Attributes:
        depth: H at rest, positive down, 0 on land [m] (ny, nx).
        gravity: [m s-2].
        tile: the TileGeometry.
        terms: forcing and dissipation, in the order in which they are added.
        open_boundaries: the OpenBoundary conditions.
        uplift: None, or a Window of the sea floor's cumulative uplift [m] (ny, nx).
        reach: the halo that one evaluation of all terms needs [cells]; None where it is the tile's own. In a wider halo
            several stages are computed without a message between them.
        step_loop: the class of StepLoop (stepping/base.py) that executes the steps if it has all of their operations.
            Otherwise they are executed on arrays.
        elliptic_domain: an elliptic.Domain without its tile, for implicit schemes; None for the others.
        flat: whether the depth was uniform when the model was made.
        core: the Discretisation that computes tendencies (cores.py).
        dt: the time step [s] in double precision, where terms read the time; else None.
        first: the number of the step from which `integrate` starts; None where a loop is given the number of each step.
        covers: a Coverage, if the forcing is that of a whole run; None if it is that of one interval between records.
        tracers: further prognostic variables, a tuple of Transported.
        wetting: a WettingDrying, or None.
        crests: None, or the depths of the crests of levees on faces [m], a pair of arrays at u and v with the tile's
            halo, (ny + 2 halo, nx + 2 halo).

    Leaves of fewer than two dimensions are the same on every rank. `prepare` applies `communicator.replicated` to them
    once (replicated.py), so that their gradients are summed over all ranks.
    """

    depth: jax.Array
    gravity: jax.Array
    tile: TileGeometry
    terms: tuple
    open_boundaries: tuple
    uplift: Any
    momentum: Any = static()
    linear: bool = static()
    slip: float = static()
    coriolis_form: Any = static(default=None, kw_only=True)
    communicator: Any = static()
    reach: int | None = static(default=None)
    step_loop: Any = static(kw_only=True)
    elliptic_domain: Any = None
    flat: bool = static(default=False)
    core: Any = FiniteDifferences()
    dt: float | None = static(default=None)
    first: Any = None
    covers: Any = static(default=None)
    tracers: tuple = ()
    wetting: Any = static(default=None)
    crests: Any = None

    def zeros(self) -> State:
        """A State of one tile's arrays of zeros, with every prognostic variable."""
        return zeros(further_variables(self), self.depth.shape, self.depth.dtype)

    def prepare(self) -> "Equations":
        """The Equations, with the halos filled of everything that does not change in the program; collective.

        Raises:
            ValueError: for Dynamics that hold several intervals between forcing records, and for numbers to which
                `communicator.replicated` has been applied already.
        """
        if self.covers is not None:
            raise ValueError(
                f"Dynamics.prepare: these Dynamics hold {len(self.covers.intervals)} intervals between forcing "
                "records, and Equations are those of one; prepare dynamics.interval(number)."
            )
        return mark_replicated(self)._prepared()

    def interval(self, number: Any) -> "Dynamics":
        """These Dynamics with the forcing of interval number `number` (which may be traced) of those they cover."""
        if self.covers is None:
            return self
        window = lambda windows: windows.window(number)  # noqa: E731
        return replace(
            self,
            terms=tuple(term.bound(window, Windows) for term in self.terms),
            open_boundaries=tuple(condition.bound(window, Windows) for condition in self.open_boundaries),
            uplift=None if self.uplift is None else window(self.uplift),
            tracers=tuple(tracer.bound(window, Windows) for tracer in self.tracers),
            covers=None,
        )

    def _prepared(self):
        reach = self.reach or self.tile.halo
        ghosts = Exchange(self.tile, self.communicator, wide=self.tile.halo > reach)
        geometry = Geometry.derive(self.tile, self.slip, self.communicator)
        terms = tuple(term.prepare(ghosts) for term in self.terms)
        within = lambda value: value.within(terms, self.gravity)  # noqa: E731
        equations = Equations(
            geometry=geometry,
            depth=self._water_depth(ghosts, geometry.wet),
            gravity=self.gravity,
            terms=tuple(term.bound(within, TimeVarying) for term in terms),
            open_boundaries=tuple(x.prepare(ghosts).within(terms, self.gravity) for x in self.open_boundaries),
            uplift=None if self.uplift is None else self.uplift.map(lambda b: ghosts.parameter(b) * geometry.wet),
            momentum=self.momentum,
            coriolis_form=self.coriolis_form,
            linear=self.linear,
            communicator=self.communicator,
            reach=reach,
            elliptic_domain=self.elliptic_domain,
            flat=self.flat,
            dt=self.dt,
            tracers=tuple(tracer.prepare(ghosts) for tracer in self.tracers),
            wetting=self.wetting,
            crests=None if self.crests is None else tuple(map(ghosts.padded, self.crests, "uv")),
            boundary_names=tuple({row.name: 0 for one in self.open_boundaries for row in one.state_variables()}),
            edges=_edges(self.tile, self.depth.dtype) if any(x.memory for x in self.open_boundaries) else None,
        )
        return replace(equations, core=self.core.prepare(equations))

    def _water_depth(self, ghosts, wet):
        """H with its halo, 0 on land. Where shores are fixed, a control below 0 counts as SHALLOWEST, not as land."""
        depth = ghosts.parameter(self.depth) * wet
        return depth if self.wetting is not None else pointwise(jnp.maximum, depth, SHALLOWEST * wet)


@pytree
class Equations:
    """The discrete equations on one tile, with the halos of all parameters filled.

    Attributes are those of Dynamics, with arrays as Fields at h that have halos, and:
        geometry: the Geometry, with its halos.
        reach: the halo that one evaluation of all terms uses up; the tile's own may be several times as wide.
        evaluation: the StageEvaluation, which fills halos and stores the results of stages.
        boundary_names: the names of the prognostic variables of open sides.
        edges: {"x" or "y": (low, high)}, Fields that are 1 at the cells next to the open sides of that axis, else 0.
    """

    geometry: Geometry
    depth: Field
    gravity: jax.Array
    terms: tuple
    open_boundaries: tuple
    uplift: Any
    momentum: Any = static()
    linear: bool = static()
    communicator: Any = static()
    reach: int = static()
    coriolis_form: Any = static(default=None, kw_only=True)
    evaluation: Any = static(default=ArrayEvaluation())
    elliptic_domain: Any = None
    flat: bool = static(default=False)
    core: Any = FiniteDifferences()
    dt: float | None = static(default=None)
    tracers: tuple = ()
    wetting: Any = static(default=None)
    crests: Any = None
    boundary_names: tuple[str, ...] = static(default=())
    edges: Any = None

    def euler(self, start: State, now: State, weight: Any, dt: Any, time: Any) -> State:
        """(1 - weight) start + weight (now + dt d now/dt), a State of arrays or Fields, as `now` is (stages.py).

        Args:
            start: the State at the beginning of the time step.
            now: the State of this stage.
            weight: of the new State [1].
            dt: the time step [s].
            time: the Time of the stage.
        """
        return self.momentum.euler(self, start, now, weight, dt, as_time(time))

    def forward_backward(self, state: State, dt: Any, time: Any) -> State:
        """The State after a step of one stage (conserving.py); the model has MomentumConserving.

        Args:
            state: the State at the beginning of the step, of arrays or Fields.
            dt: the time step [s].
            time: the Time at the beginning of the step.
        """
        return self.momentum.forward_backward(self, state, dt, as_time(time))

    def tendency(self, state: State, time: Any) -> State:
        """d state/dt, as the core computes it, at a Time or a number of steps after step 0."""
        return self.evaluation.register_tendency(self.core.tendency(self, state, self._timed(time)))

    def _timed(self, time):
        """A Time with the length of a step, where these Equations have it."""
        time = as_time(time)
        if time.dt is not None or self.dt is None:
            return time
        return replace(time, dt=jnp.asarray(self.dt, self.depth.dtype), exact_dt=self.dt)

    @property
    def constant_names(self) -> tuple[str, ...]:
        """The names of the variables that are constant between two calls of `renewed`."""
        return tuple(row.name for term in self.terms for row in term.state_variables())

    def renewed(self, state: State, time: Any) -> State:
        """The State with the variables of terms recomputed that are due in the step beginning at a Time."""
        time = self._timed(time)
        for number, term in enumerate(self.terms):
            if term.state_variables():
                state = self.evaluation.renew(self, number, state, time)
        return state

    def differences(self, state: State, time: Any) -> State:
        """d state/dt by finite differences, all terms from one halo exchange; of arrays or Fields, as `state` is."""
        flow = self.flow(state, time)
        u, v = self.acceleration(flow, flow.eta, time)
        return like(state, state.replace(u=u, v=v, eta=self.continuity(flow, time), **self.transported(flow, time)))

    def flow(
        self, state: State, time: Any, more: Sequence = (), outside: Any = None, newest: Any = None
    ) -> "DerivedFields":
        """The DerivedFields of a State of tile arrays or Fields. If their halos are used up, one exchange fills them.

        Args:
            state: the State.
            time: a Time, or a number of steps since step 0.
            more: further arrays at h, or Fields, that are exchanged in the same messages and become flow.more.
            outside: the elevation at the beginning of the step, for the condition on open sides; it becomes
                flow.outside. It is state.eta unless given.
            newest: (weight, State) where `state` is a weighted sum of the State at the beginning of the step and of
                earlier ones.
        """
        time = self._timed(time)
        fields, more = state.map(as_tile_field, state.positions), [as_tile_field(x, "h") for x in more]
        outside = None if outside is None else as_tile_field(outside, "h")
        filled, more, outside = self.evaluation.fill_halos(self, fields, time, more, outside, newest)
        return self.core.flow(DerivedFields(self, filled, more, outside, time))

    def apply_open_boundaries(
        self,
        u: Any,
        v: Any,
        eta: Any,
        time: Time,
        eta_time: Time | None = None,
        memory: Any = None,
        share: Any = None,
    ) -> tuple[Any, Any, Any]:
        """(u, v, eta), Fields with halo; u and v are set on open faces and beyond them by the open boundary conditions.

        Use this eta in place of the argument: its array is the same, and its cotangents are added up in place.

        Conditions that close a volume budget are applied last, since in corners they read the flow through the other
        side.

        Args:
            u, v, eta: Fields with halo.
            time: the Time of the stage.
            eta_time: the Time of eta; `time` unless given.
            memory: {name: Field} of the variables of open sides.
            share: u and v are set to the velocities of the conditions divided by this number, if it is given.
        """
        for condition in sorted(self.open_boundaries, key=lambda condition: condition.closes_volume):
            u, v, eta = condition.fill(u, v, eta, self, time, eta_time or time, memory, share)
        return u, v, eta

    def boundary_rates(self, memory: Any, u: Any, v: Any, eta: Any, time: Time, eta_time: Time) -> Any:
        """`memory`, {name: Field} of open sides' variables, with their rates in the ghost cells beyond the sides."""
        for condition in self.open_boundaries:
            if condition.memory:
                memory = condition.fill_rates(memory, u, v, eta, self, time, eta_time)
        return memory

    def _rate_at_sides(self, field, axis):
        """The rates in the ghost cells beyond the sides of an axis, at the cells next to these; 0 elsewhere."""
        low, high = self.edges[axis]
        take = X if axis == "x" else Y
        return (low * take.low(take.low(field)) + high * take.high(take.high(field))) * self.geometry.wet

    def continuity(self, flow: "DerivedFields", time: Any) -> AbstractField:
        """d eta/dt [m s-1], a Field at h."""
        return self.with_sources(-divergence(flow.U, flow.V, self.geometry), flow, time)

    def with_sources(self, rate: Any, flow: "DerivedFields", time: Any) -> Any:
        """`rate` of eta [m s-1], a Field at h, plus the sources that terms add to the continuity equation."""
        for term in self.terms:
            if term.changes_elevation:
                rate = rate + term.at(time).continuity(flow, time)
        return rate

    def transported(self, flow: "DerivedFields", time: Any) -> dict[str, AbstractField]:
        """{name: d value/dt, a Field at h} of the variables of tracers, of terms and of open sides."""
        kept = {name: 0.0 * flow.state[name] for name in self.constant_names}
        kept |= {name: self._rate_at_sides(flow.state[name], name[-1]) for name in self.boundary_names}
        return {x.name: x.at(time).rate(flow, flow.state[x.name], time) for x in self.tracers} | kept

    def shown(self, state: State, time: Any, rigid_lid: bool = False) -> State:
        """A State of tile arrays as files hold it, with the concentration c of transported variables in place of h c.

        Args:
            state: the State that is stepped.
            time: the Time of the state.
            rigid_lid: whether eta is the pressure on a rigid lid, which is not part of the thickness.
        """
        return self._converted("shown", state, time, rigid_lid)

    def stored(self, state: State, time: Any, rigid_lid: bool = False) -> State:
        """The inverse of `shown`."""
        return self._converted("stored", state, time, rigid_lid)

    def _converted(self, how, state, time, rigid_lid):
        if not self.tracers:
            return state
        column = self.depth_at(as_time(time)).interior
        column = column if rigid_lid else column + state.eta * self.geometry.wet.interior
        return state.replace(**{x.name: getattr(x, how)(state[x.name], column) for x in self.tracers})

    def acceleration(self, flow: "DerivedFields", eta: Any, time: Any) -> tuple[AbstractField, AbstractField]:
        """(du/dt, dv/dt) [m s-2], Fields at u and v, with the pressure of `eta`; zero on faces without flow.

        Raises:
            ConfigError: for a core whose tendency has no parts.
        """
        self.core.check_parts()
        check_has_tendencies(self.momentum)
        g = self.geometry
        flux_u, flux_v = self.vorticity_flux(flow)
        head = self.gravity * eta if self.linear else self.gravity * eta + flow.kinetic_energy
        u = (flux_u - difference_x(head)) * g.per_dx["u"]
        v = (flux_v - difference_y(head)) * g.per_dy["v"]
        for term in self.terms:
            along_x, along_y = term.at(time)(flow, time)
            u, v = u + along_x, v + along_y
        return u * g.wet_u, v * g.wet_v

    def split_terms(self, flow: "DerivedFields", time: Any) -> tuple[tuple, tuple, tuple]:
        """The accelerations and the damping rates of the terms.

        Returns:
            ((du/dt, dv/dt) of terms without `damping` [m s-2], (rate at u, rate at v) of those with it [s-1], the rates
            per speed [m-1] of those that have them instead): Fields or numbers; None in place of a rate where no term
            damps.
        """
        along, damping, per_speed = (0.0, 0.0), (None, None), (None, None)
        for term in self.terms:
            term = term.at(time)
            if (rates := term.damping_per_speed(flow, time)) is not None:
                per_speed = _added(per_speed, rates)
            elif (rates := term.damping(flow, time)) is not None:
                damping = _added(damping, rates)
            else:
                along = tuple(a + b for a, b in zip(along, term(flow, time)))
        return along, damping, per_speed

    def vorticity_flux(self, flow: "DerivedFields") -> tuple[AbstractField, AbstractField]:
        """(dx_u du/dt, dy_v dv/dt) [m2 s-2] of the Coriolis force and rotational advection, Fields at u and v."""
        U, V = flow.U * self.geometry.dy["u"], flow.V * self.geometry.dx["v"]
        if self.coriolis_form is None:
            return self.momentum.vorticity_flux(flow.q, U, V)
        u, v = self.coriolis_form.vorticity_flux(flow.per_h_q * self.geometry.f, U, V)
        if self.linear:
            return u, v
        more_u, more_v = self.momentum.vorticity_flux(flow.per_h_q * flow.vorticity, U, V)
        return u + more_u, v + more_v

    def depth_at(self, time: Time) -> Any:
        """H less the sea floor's uplift up to a Time [m], a Field at h."""
        return self.depth if self.uplift is None else self.depth - value_at(self.uplift, time)

    def uplift_during(self, time: Time) -> AbstractField:
        """The uplift of the sea floor, and of eta with it, in the step that begins at a Time [m], a Field at h."""
        return self.uplift.at(time + 1.0) - self.uplift.at(time)


def _added(sums, rates):
    """The sums of rates at u and at v, of which the first ones may be None."""
    return tuple(b if a is None else a + b for a, b in zip(sums, rates))


def _edges(tile, dtype):
    """{axis: (low, high)}: Fields of the cells next to the open sides, 1 there and 0 elsewhere."""
    (ny, nx), halo = tile.shape, tile.halo
    found = {}
    for axis, n, sides in (("x", nx, (WEST, EAST)), ("y", ny, (SOUTH, NORTH))):
        pair = []
        for side, at in zip(sides, (halo, halo + n - 1)):
            line = (np.arange(n + 2 * halo) == at).astype(dtype)
            line = line[None, :] if axis == "x" else line[:, None]
            cells = np.broadcast_to(line, (ny + 2 * halo, nx + 2 * halo))
            pair.append(Field(tile.sides.open[side] * jnp.asarray(cells), "h", (halo,) * 4))
        found[axis] = tuple(pair)
    return found


def further_variables(parts: Any) -> tuple[Variable, ...]:
    """The Variables of a State other than u, v and eta: those of tracers, of terms and of open sides.

    Args:
        parts: an object with `tracers`, `terms` and `open_boundaries`, such as a model or Dynamics.
    """
    kept = [row for part in (*parts.terms, *parts.open_boundaries) for row in part.state_variables()]
    shared = {row.name: row for row in kept}.values()  # several sides of a kind keep their values in one variable
    return (*(tracer.variable for tracer in parts.tracers), *shared)


def zeros(further: tuple[Variable, ...], shape: tuple, dtype: Any) -> State:
    """A State of arrays of zeros: u, v, eta and further variables."""
    rows = (*PROGNOSTIC, *further)
    return State.of({row.name: jnp.zeros(shape, dtype) for row in rows}, {row.name: row.position for row in rows})


class DerivedFields:
    """The fields of one stage, and the derived fields that terms share. Each is computed when it is first used.

    Attributes:
        equations: the Equations; `geometry` and `gravity` are theirs.
        state: the State of Fields with halos; `u`, `v` and `eta` are its own.
        time: the Time of the stage.
        h: thickness in the equations [m], a Field at h: H + eta, or H in the linear mode.
        more: further Fields that were exchanged in the same messages.
        outside: the elevation that open boundary conditions read [m], a Field at h.
        level: the elevation whose pressure gradient accelerates the flow [m], a Field at h; eta, unless the stepper
            sets another one.
    """

    def __init__(self, equations: Equations, state: State, more: Sequence, outside: Any, time: Time):
        self.equations, self.geometry, self.gravity = equations, equations.geometry, equations.gravity
        self.state, self.more, self.outside, self.time = state, more, outside, time
        self.u, self.v, self.eta = state.u, state.v, state.eta
        self.level = self.eta
        depth = equations.depth_at(time)
        self.h = depth if equations.linear else depth + self.eta * equations.geometry.wet

    def with_transports(self, U: Any, V: Any, state: State, time: Time, water_added: Any) -> "DerivedFields":
        """DerivedFields of another State, with the transports of a whole time step and the water that terms add."""
        flow = DerivedFields(self.equations, state, (), state.eta, time)
        vars(flow).update(_transports=(U, V), water_added=water_added)
        return flow

    @functools.cached_property
    def column(self) -> AbstractField:
        """H + eta, also in the linear mode [m], a Field at h.

        With uplift, H is the depth at the beginning of the step, because eta is raised at the end of the step.
        """
        e = self.equations
        if e.uplift is None and not e.linear:
            return self.h
        return e.depth_at(replace(self.time, fraction=0.0 * self.time.fraction)) + self.eta * self.geometry.wet

    @property
    def covered(self) -> AbstractField:
        """1 in cells that hold water which tracers and fluxes can enter, a Field at h; else 0."""
        return self.geometry.wet

    @property
    def mixing_faces(self) -> tuple[AbstractField, AbstractField]:
        """1 on faces where concentrations are reconstructed with a slope and diffuse, Fields at u and v; else 0."""
        return self.geometry.wet_u, self.geometry.wet_v

    @property
    def sloping_faces(self) -> tuple[AbstractField, AbstractField]:
        """The share of a slope that concentrations on faces contain, Fields at u and v [1]."""
        return self.mixing_faces

    @functools.cached_property
    def water_added(self) -> Any:
        """The rate at which terms such as sponges raise eta [m s-1], a Field at h; 0.0 without such terms."""
        return self.equations.with_sources(0.0, self, self.time)

    def shown(self, name: str) -> Any:
        """A field of the State as files hold it."""
        found = [tracer for tracer in self.equations.tracers if tracer.name == name]
        return found[0].shown(self.state[name], self.column) if found else self.state[name]

    @functools.cached_property
    def _transports(self):
        return transports(self.h, self.u, self.v)

    @property
    def U(self) -> AbstractField:
        """The volume transport per unit width h_u u [m2 s-1], a Field at u."""
        return self._transports[0]

    @property
    def V(self) -> AbstractField:
        """The volume transport per unit width h_v v [m2 s-1], a Field at v."""
        return self._transports[1]

    @functools.cached_property
    def _wet_volume(self):
        """The volume of water in the wet ones of the four cells around a corner [m3]; 1 where all four are land."""
        volume = sum_xy(self.geometry.area_h * self.h) + self.geometry.dry_q
        return self.geometry.at_poles(volume, self.equations.communicator)

    @functools.cached_property
    def h_q(self) -> AbstractField:
        """Thickness at corners: the area-weighted mean over wet cells [m]."""
        return self._wet_volume * safe_inverse(self.geometry.wet_area_q)

    @property
    def slip(self) -> AbstractField:
        """The factor of a velocity difference across corners [1]: 1 at sea, 0 or 2 at coasts (free or no slip)."""
        return self.geometry.slip

    @functools.cached_property
    def vorticity(self) -> AbstractField:
        """zeta = dv/dx - du/dy at corners [s-1]: the circulation around the corner's cell, divided by its area."""
        g = self.geometry
        circulation = difference_x(self.v * g.dy["v"]) - difference_y(self.u * g.dx["u"])
        return g.at_poles(circulation * self.slip, self.equations.communicator) * g.per_area_q

    @functools.cached_property
    def q(self) -> AbstractField:
        """Potential vorticity (f + zeta) / h_q at corners [m-1 s-1]; f / h_q in the linear mode."""
        absolute = self.geometry.f if self.equations.linear else self.geometry.f + self.vorticity
        return absolute * self.per_h_q

    @functools.cached_property
    def per_h_q(self) -> AbstractField:
        """1 / h_q at corners, 0 where all four cells are land [m-1]."""
        return self.geometry.wet_area_q / self._wet_volume

    @functools.cached_property
    def kinetic_energy(self) -> AbstractField:
        """K = (u^2 + v^2) / 2 at cell centres [m2 s-2]."""
        return kinetic_energy(self.u, self.v, self.geometry)

    def load(self, level: AbstractField) -> AbstractField:
        """The thickness of the water that an elevation adds to that at rest [m], Fields at h."""
        return level

    @property
    def per_h_of_wind(self) -> tuple[AbstractField, AbstractField]:
        """(1 / h_u, 1 / h_v) [m-1] by which a stress on the surface moves the water, Fields at u and v."""
        return self.per_h_u, self.per_h_v

    @functools.cached_property
    def per_h_u(self) -> AbstractField:
        """1 / h_u at u on faces between wet cells, 0 on the others [m-1]."""
        wet = self.geometry.wet_u
        return wet / (mean_x(self.h) + (1.0 - wet))

    @functools.cached_property
    def per_h_v(self) -> AbstractField:
        """1 / h_v at v on faces between wet cells, 0 on the others [m-1]."""
        wet = self.geometry.wet_v
        return wet / (mean_y(self.h) + (1.0 - wet))
