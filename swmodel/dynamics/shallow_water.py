"""The rotating shallow-water equations on one tile: the sum of their terms.

    du/dt   = + q V - ddx(g eta + K) + F_u        q = (f + zeta) / h_q,   K = (u^2 + v^2) / 2
    dv/dt   = - q U - ddy(g eta + K) + F_v        U = h_u u,   V = h_v v,   h = H + eta
    deta/dt = - ddx(U) - ddy(V)

and, of each variable s that the flow transports, ds/dt = its own rate (transported.py).

linear mode: h = H, zeta = K = 0. Discrete forms: momentum.py (q V), transport.py (U, K, divergence), forcing.py,
dissipation.py and boundaries.py (F). A sea floor that moves raises eta and lowers H by the same amount.

`Dynamics` is the argument of a compiled program: arrays of the tile and nothing derived. `Dynamics.prepare` runs once
at its start and gives `Equations`, with halos filled, which steppers ask for tendencies.
"""

import dataclasses
import functools
from typing import Any

import jax
import jax.numpy as jnp

from ..fields.field import Field
from ..fields.operators import difference_x, difference_y, mean_x, mean_y, sum_xy
from ..fields.pytrees import pytree, replace, static
from ..fields.state import State, as_tile_field, like
from ..fields.variables import PROGNOSTIC
from ..grids.geometry import Geometry, TileGeometry, safe_inverse
from ..parallel.halo import exchange
from .clock import as_time
from .cores import FiniteDifferences
from .replicated import entered
from .stages import ArrayEvaluation
from .terms import Window, Windows, as_field, value_at
from .transport import divergence, kinetic_energy, transports

__all__ = ["Coverage", "Dynamics", "Equations", "Flow"]


@dataclasses.dataclass(frozen=True)
class Coverage:
    """The steps that the forcing in Dynamics is for; static.

    Attributes:
        intervals: how many steps there are from one record to the next, in order.
        dt: of a step [s].
    """

    intervals: tuple
    dt: float

    @property
    def steps(self) -> int:
        return sum(self.intervals)


@pytree
class Dynamics:
    """All that a compiled step needs, by tile; every array leaf is an argument and can be differentiated.

    Attributes:
        depth: H at rest, positive down, 0 on land [m] (ny, nx).
        gravity: [m s-2].
        tile: the TileGeometry.
        terms: forcing and dissipation, in the order in which they are added.
        opens: the OpenBoundary conditions.
        uplift: None, or a Window of the sea floor's cumulative uplift [m] (ny, nx).
        reach: halo that one evaluation of all terms needs; None where it is the tile's own. A wider one lets several
            stages go without a message.
        engine: "fused", "arrays" or "interpreted"; stepping.loop.step_loop chooses the step loop by it.
        water: an elliptic.Domain without its tile, for schemes that solve equations; else None.
        flat: whether the depth was one number everywhere when the model was made.
        core: what computes tendencies; see cores.
        dt: the time step [s] in double precision, where terms ask for the time; else None.
        first: number of the step from which `integrate` starts; None where a loop numbers its own steps.
        covers: a Coverage, where the forcing is that of a whole run; None where it is that of one interval between
            records.
        tracers: what else is stepped: a tuple of Transported.

    What has fewer than two dimensions is the same on every rank, and stays so here: `prepare` lets it enter distributed
    arithmetic (replicated.py), once, so that its gradient is that of all ranks together.
    """

    depth: jax.Array
    gravity: jax.Array
    tile: TileGeometry
    terms: tuple
    opens: tuple
    uplift: Any
    momentum: Any = static()
    linear: bool = static()
    slip: float = static()
    coriolis_form: Any = static(default=None, kw_only=True)
    communicator: Any = static()
    reach: int | None = static(default=None)
    engine: str = static(default="arrays")
    water: Any = None
    flat: bool = static(default=False)
    core: Any = FiniteDifferences()
    dt: float | None = static(default=None)
    first: Any = None
    covers: Any = static(default=None)
    tracers: tuple = ()

    def zeros(self):
        """A State of one tile's arrays of zeros, with every field that is stepped."""
        return zeros(self.tracers, self.depth.shape, self.depth.dtype)

    def prepare(self):
        """Fill the halos of everything that does not change during a run; collective.

        Raises:
            ValueError: for Dynamics that hold several intervals between forcing records.
        """
        if self.covers is not None:
            raise ValueError(
                f"Dynamics.prepare: these Dynamics hold {len(self.covers.intervals)} intervals between forcing "
                "records, and Equations are those of one; prepare dynamics.interval(number)."
            )
        return entered(self)._prepared()

    def interval(self, number):
        """These Dynamics in interval number `number` (which may be traced) of those that they cover."""
        if self.covers is None:
            return self
        window = lambda windows: windows.window(number)  # noqa: E731
        return replace(
            self,
            terms=tuple(term.bound(window, Windows) for term in self.terms),
            opens=tuple(condition.bound(window, Windows) for condition in self.opens),
            uplift=None if self.uplift is None else window(self.uplift),
            tracers=tuple(tracer.bound(window, Windows) for tracer in self.tracers),
            covers=None,
        )

    def _prepared(self):
        reach = self.reach or self.tile.halo
        ghosts = Exchange(self.tile, self.communicator, wide=self.tile.halo > reach)
        geometry = Geometry.derive(self.tile, self.slip, self.communicator)
        equations = Equations(
            geometry=geometry,
            depth=ghosts.parameter(self.depth) * geometry.wet,
            gravity=self.gravity,
            terms=tuple(term.prepare(ghosts) for term in self.terms),
            opens=tuple(condition.prepare(ghosts) for condition in self.opens),
            uplift=None if self.uplift is None else self.uplift.map(lambda b: ghosts.parameter(b) * geometry.wet),
            momentum=self.momentum,
            coriolis_form=self.coriolis_form,
            linear=self.linear,
            communicator=self.communicator,
            reach=reach,
            water=self.water,
            flat=self.flat,
            dt=self.dt,
            tracers=tuple(tracer.prepare(ghosts) for tracer in self.tracers),
        )
        return replace(equations, core=self.core.prepare(equations))


class Exchange:
    """Fills the halos of parameters; outside the domain they continue as at its edge.

    `wide` says that stages are to be computed in a part of the halo too.
    """

    def __init__(self, tile, communicator, wide=False):
        self.tile, self.communicator, self.wide = tile, communicator, wide
        every = tuple(side for side, axis in zip(("west", "east", "south", "north"), "xxyy")
                      if axis not in tile.sides.periodic)  # fmt: skip
        self.sides = replace(tile.sides, open=1.0 - tile.sides.linked, opens=every)

    def pointwise(self, x, position):
        """A parameter that is needed where it lies, and nowhere beside."""
        return self.parameter(x, position) if self.wide else as_field(x, position)

    def parameter(self, x, position="h"):
        """A number as it is; a tile array at `position` as a Field with halo; a Window with both records so."""
        if isinstance(x, Window):
            return x.map(lambda record: self.parameter(record, position))
        if jnp.ndim(x) < 2:
            return x
        (padded,) = exchange([x], self.tile.halo, self.sides, self.communicator)
        return Field(padded, position, (self.tile.halo,) * 4)


@pytree
class Equations:
    """The terms with their halos filled.

    Attributes:
        reach: halo that one evaluation of all terms uses up; the tile's own may be several times as wide.
        evaluation: the StageEvaluation, which fills halos and stores what stages have computed.
        tracers: what else is stepped: a tuple of Transported.
    """

    geometry: Geometry
    depth: Field
    gravity: jax.Array
    terms: tuple
    opens: tuple
    uplift: Any
    momentum: Any = static()
    linear: bool = static()
    communicator: Any = static()
    reach: int = static()
    coriolis_form: Any = static(default=None, kw_only=True)
    evaluation: Any = static(default=ArrayEvaluation())
    water: Any = None
    flat: bool = static(default=False)
    core: Any = FiniteDifferences()
    dt: float | None = static(default=None)
    tracers: tuple = ()

    def tendency(self, state, time):
        """d state/dt, as the core computes it."""
        return self.evaluation.register_tendency(self.core.tendency(self, state, as_time(time)))

    def differences(self, state, time):
        """d state/dt: all terms, from one halo exchange. A State of arrays gives arrays, one of Fields gives Fields."""
        flow = self.flow(state, time)
        u, v = self.acceleration(flow, flow.eta, time)
        return like(state, state.replace(u=u, v=v, eta=self.continuity(flow, time), **self.transported(flow, time)))

    def flow(self, state, time, more=(), outside=None):
        """The Flow of a State of tile arrays or Fields, whose halos are filled in one exchange where they have run out.

        Args:
            state: the State.
            time: a Time, or a number of steps since step 0.
            more: further arrays at h, or Fields, that are sent along, as flow.more.
            outside: the elevation that open sides see, as flow.outside; state.eta unless given.
        """
        time = as_time(time)
        fields, more = state.map(as_tile_field, state.positions), [as_tile_field(x, "h") for x in more]
        outside = None if outside is None else as_tile_field(outside, "h")
        return self.core.flow(Flow(self, *self.evaluation.fill_halos(self, fields, time, more, outside), time))

    def opened(self, u, v, eta, time):
        """u and v (Fields with halo) with the conditions on open faces, and beyond them, that eta gives."""
        for condition in self.opens:
            u, v = condition.fill(u, v, eta, self, time)
        return u, v

    def continuity(self, flow, time):
        """d eta/dt [m s-1], a Field at h."""
        return self.with_sources(-divergence(flow.U, flow.V, self.geometry), flow, time)

    def with_sources(self, rate, flow, time):
        """`rate` of eta [m s-1], a Field at h, and what terms add to it."""
        for term in self.terms:
            if term.changes_elevation:
                rate = rate + term.at(time).continuity(flow, time)
        return rate

    def transported(self, flow, time):
        """{name: d value/dt, a Field at h} of the variables that the flow transports."""
        return {x.name: x.at(time).rate(flow, flow.state[x.name], time) for x in self.tracers}

    def shown(self, state, time, rigid_lid=False):
        """A State of tile arrays as files show it: of what is transported, the concentration and not the content.

        Args:
            state: as it is stepped.
            time: the Time of the state.
            rigid_lid: whether eta is the pressure on a lid, and no part of the thickness.
        """
        return self._converted("shown", state, time, rigid_lid)

    def stored(self, state, time, rigid_lid=False):
        """The inverse of `shown`."""
        return self._converted("stored", state, time, rigid_lid)

    def _converted(self, how, state, time, rigid_lid):
        if not self.tracers:
            return state
        column = self.depth_at(as_time(time)).interior
        column = column if rigid_lid else column + state.eta * self.geometry.wet.interior
        return state.replace(**{x.name: getattr(x, how)(state[x.name], column) for x in self.tracers})

    def acceleration(self, flow, eta, time):
        """(du/dt, dv/dt) [m s-2], Fields at u and v, under the pressure of `eta`; zero on faces that cannot move."""
        self.core.check_parts()
        g = self.geometry
        turn_u, turn_v = self.vorticity_flux(flow)
        head = self.gravity * eta if self.linear else self.gravity * eta + flow.kinetic_energy
        u = (turn_u - difference_x(head)) * g.per_dx["u"]
        v = (turn_v - difference_y(head)) * g.per_dy["v"]
        for term in self.terms:
            along_x, along_y = term.at(time)(flow, time)
            u, v = u + along_x, v + along_y
        return u * g.wet_u, v * g.wet_v

    def vorticity_flux(self, flow):
        """(dx_u du/dt, dy_v dv/dt) of the Coriolis force and rotational advection, Fields at u and v."""
        U, V = flow.U * self.geometry.dy["u"], flow.V * self.geometry.dx["v"]
        if self.coriolis_form is None:
            return self.momentum.vorticity_flux(flow.q, U, V)
        u, v = self.coriolis_form.vorticity_flux(flow.per_h_q * self.geometry.f, U, V)
        if self.linear:
            return u, v
        more_u, more_v = self.momentum.vorticity_flux(flow.per_h_q * flow.vorticity, U, V)
        return u + more_u, v + more_v

    def depth_at(self, time):
        """H with the sea floor's uplift so far [m], a Field at h."""
        return self.depth if self.uplift is None else self.depth - value_at(self.uplift, time)

    def uplift_during(self, time):
        """How much the sea floor, and eta with it, rises in the step that begins at a Time [m], a Field at h."""
        return self.uplift.at(time + 1.0) - self.uplift.at(time)


def zeros(tracers, shape, dtype):
    """A State of arrays of zeros: u, v, eta and what is transported."""
    rows = (*PROGNOSTIC, *(tracer.variable for tracer in tracers))
    return State.of({row.name: jnp.zeros(shape, dtype) for row in rows}, {row.name: row.position for row in rows})


class Flow:
    """One stage's fields and the intermediate ones that the terms share, made when first asked for.

    Attributes:
        state: the State of Fields with halos; u, v and eta are its own.
        h: thickness in the equations [m], a Field at h: H + eta, or H in the linear mode.
        more: further Fields that were sent along.
        outside: the elevation that open sides see.
    """

    def __init__(self, equations, state, more, outside, time):
        self.equations, self.geometry, self.gravity = equations, equations.geometry, equations.gravity
        self.state, self.more, self.outside, self.time = state, more, outside, time
        self.u, self.v, self.eta = state.u, state.v, state.eta
        depth = equations.depth_at(time)
        self.h = depth if equations.linear else depth + self.eta * equations.geometry.wet

    def with_transports(self, U, V, state, time, water_added):
        """A Flow of another State, whose transports and water added by terms are those of a time step as a whole."""
        flow = Flow(self.equations, state, (), state.eta, time)
        vars(flow).update(_transports=(U, V), water_added=water_added)
        return flow

    @functools.cached_property
    def column(self):
        """H + eta, also in the linear mode [m], a Field at h.

        Of a sea floor that moves, H is that at the beginning of the step: the step raises eta at its end.
        """
        e = self.equations
        if e.uplift is None and not e.linear:
            return self.h
        return e.depth_at(replace(self.time, fraction=0.0 * self.time.fraction)) + self.eta * self.geometry.wet

    @functools.cached_property
    def water_added(self):
        """What terms such as sponges add to the water [m s-1], a Field at h; 0.0 without such terms."""
        return self.equations.with_sources(0.0, self, self.time)

    def shown(self, name):
        """A field of the State as files show it."""
        found = [tracer for tracer in self.equations.tracers if tracer.name == name]
        return found[0].shown(self.state[name], self.column) if found else self.state[name]

    @functools.cached_property
    def _transports(self):
        return transports(self.h, self.u, self.v)

    @property
    def U(self):
        return self._transports[0]

    @property
    def V(self):
        return self._transports[1]

    @functools.cached_property
    def _wet_volume(self):
        """The water round a corner, in its four wet cells [m3]; 1 where all four are land, whose h is 0."""
        volume = sum_xy(self.geometry.area_h * self.h) + self.geometry.dry_q
        return self.geometry.at_poles(volume, self.equations.communicator)

    @functools.cached_property
    def h_q(self):
        """Thickness at corners: the area-weighted mean over wet cells [m]."""
        return self._wet_volume * safe_inverse(self.geometry.wet_area_q)

    @functools.cached_property
    def vorticity(self):
        """zeta = dv/dx - du/dy at corners [s-1]: the circulation round them over their area."""
        g = self.geometry
        circulation = difference_x(self.v * g.dy["v"]) - difference_y(self.u * g.dx["u"])
        return g.at_poles(circulation * g.slip, self.equations.communicator) * g.per_area_q

    @functools.cached_property
    def q(self):
        """Potential vorticity at corners [m-1 s-1]; planetary alone in the linear mode."""
        absolute = self.geometry.f if self.equations.linear else self.geometry.f + self.vorticity
        return absolute * self.per_h_q

    @functools.cached_property
    def per_h_q(self):
        """1 / h_q at corners, 0 where all four cells are land [m-1]."""
        return self.geometry.wet_area_q / self._wet_volume

    @functools.cached_property
    def kinetic_energy(self):
        return kinetic_energy(self.u, self.v, self.geometry)

    @functools.cached_property
    def per_h_u(self):
        """1 / h_u on faces that move, 0 on the others [m-1]."""
        moving = self.geometry.wet_u
        return moving / (mean_x(self.h) + (1.0 - moving))

    @functools.cached_property
    def per_h_v(self):
        moving = self.geometry.wet_v
        return moving / (mean_y(self.h) + (1.0 - moving))
