"""The rotating shallow-water equations on one tile: the sum of their terms.

    du/dt   = + q V - ddx(g eta + K) + F_u        q = (f + zeta) / h_q,   K = (u^2 + v^2) / 2
    dv/dt   = - q U - ddy(g eta + K) + F_v        U = h_u u,   V = h_v v,   h = H + eta
    deta/dt = - ddx(U) - ddy(V)

linear mode: h = H, zeta = K = 0. Discrete forms: momentum.py (q V), transport.py (U, K, divergence), forcing.py,
dissipation.py and boundaries.py (F). A sea floor that moves raises eta and lowers H by the same amount.

`Dynamics` is the argument of a compiled program: arrays of the tile and nothing derived. `Dynamics.prepare` runs once
at its start and gives `Equations`, with halos filled, which steppers ask for tendencies.
"""

import dataclasses
import functools
import operator
from typing import Any

import jax
import jax.numpy as jnp

from ..fields.field import AbstractField, Field
from ..fields.operators import difference_x, difference_y, mean_x, mean_y, sum_xy
from ..fields.pytrees import pytree, replace, static
from ..grids.geometry import Geometry, TileGeometry, safe_inverse
from ..parallel.halo import beyond_open_sides, exchange
from .clock import as_time
from .cores import FiniteDifferences
from .replicated import entered
from .terms import Window, Windows, as_field, value_at
from .transport import divergence, kinetic_energy, transports

__all__ = ["Coverage", "State", "Dynamics", "Equations", "Flow", "ArrayEngine", "like"]


def as_tile_field(x, position):
    """A tile array as a Field without halo; a Field as it is."""
    return x if isinstance(x, AbstractField) else Field(x, position, (0, 0, 0, 0))


def like(state, new):
    """`new`, a State of Fields, as `state` holds them: arrays of the tile's own cells if those are arrays."""
    return new if isinstance(state.u, AbstractField) else new.map(lambda field: field.interior)


@pytree
class State:
    """What is stepped: one tile's interior, (ny, nx) each, in SI units.

    Attributes:
        u: velocity along x on east faces [m s-1].
        v: velocity along y on north faces [m s-1].
        eta: elevation of the surface at cell centres [m].
    """

    u: jax.Array
    v: jax.Array
    eta: jax.Array

    def map(self, function, *others):
        """`function` of u, of v and of eta; what they hold may be arrays or Fields."""
        return State(*(function(*(getattr(s, name) for s in (self, *others))) for name in ("u", "v", "eta")))

    def __add__(self, other):
        return self.map(operator.add, other)

    def __rmul__(self, factor):
        return self.map(lambda x: factor * x)


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
        engine: "fused" or "arrays"; see integration.
        water: an elliptic.Domain without its tile, for schemes that solve equations; else None.
        flat: whether the depth was one number everywhere when the model was made.
        core: what computes tendencies; see cores.
        dt: the time step [s] in double precision, where terms ask for the time; else None.
        first: number of the step from which `integrate` starts; None where a loop numbers its own steps.
        covers: a Coverage, where the forcing is that of a whole run; None where it is that of one interval between
            records.

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


class ArrayEngine:
    """How Fields get their halos, and when what was computed becomes arrays; this one leaves the latter to XLA.

    `kernels.FusedEngine` is the other. Both have `fill(equations, fields, time)`, which gives u, v, eta and what else
    there is enough halo for one evaluation of all terms, `computed(tendency)`, which gets every tendency that steppers
    ask for, and `settle(tree)`, which ends a stage where a stepper knows what is needed after it.
    """

    def fill(self, equations, fields, time):
        tile, u = equations.geometry.tile, fields[0]
        if min(min(f.halo) for f in fields) < equations.reach:
            arrays = exchange([f.interior for f in fields], tile.halo, tile.sides, equations.communicator)
            fields = [Field(a, f.position, (tile.halo,) * 4) for a, f in zip(arrays, fields)]
        elif equations.opens:
            shared = min(min(f.halo) for f in fields)
            fields = [beyond_open_sides(f.crop((shared,) * 4), tile.sides) for f in fields]
        u, v, eta, *more = fields
        return [*equations.opened(u, v, more[0] if more else eta, time), eta, *more]

    def settle(self, tree):
        return tree

    def computed(self, tendency):
        return tendency


@pytree
class Equations:
    """The terms with their halos filled.

    Attributes:
        reach: halo that one evaluation of all terms uses up; the tile's own may be several times as wide.
        engine: an ArrayEngine, or another with its methods.
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
    engine: Any = static(default=ArrayEngine())
    water: Any = None
    flat: bool = static(default=False)
    core: Any = FiniteDifferences()
    dt: float | None = static(default=None)

    def tendency(self, state, time):
        """d state/dt, as the core computes it."""
        return self.engine.computed(self.core.tendency(self, state, as_time(time)))

    def differences(self, state, time):
        """d state/dt: all terms, from one halo exchange. A State of arrays gives arrays, one of Fields gives Fields."""
        flow = self.flow(state.u, state.v, state.eta, time)
        u, v = self.acceleration(flow, flow.eta, time)
        return like(state, State(u, v, self.continuity(flow, time)))

    def flow(self, u, v, eta, time, *more):
        """A Flow of tile arrays or Fields, whose halos are filled in one exchange where they have run out.

        Fields in `more` are sent along, as flow.more; the first of them is the elevation that open sides see, where
        that is another than eta.
        """
        positions = ("u", "v", "h") + ("h",) * len(more)
        fields = [as_tile_field(x, position) for x, position in zip((u, v, eta, *more), positions)]
        time = as_time(time)
        u, v, eta, *more = self.engine.fill(self, fields, time)
        return self.core.flow(Flow(self, u, v, eta, time, more))

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


class Flow:
    """One stage's fields and the intermediate ones that the terms share, made when first asked for."""

    def __init__(self, equations, u, v, eta, time, more=()):
        self.equations, self.geometry, self.gravity = equations, equations.geometry, equations.gravity
        self.u, self.v, self.eta, self.time, self.more = u, v, eta, time, more
        depth = equations.depth_at(time)
        self.h = depth if equations.linear else depth + eta * equations.geometry.wet

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
