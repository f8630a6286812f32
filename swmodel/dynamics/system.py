"""The rotating shallow-water equations, declared once: what they consist of, and the sum of their terms.

    du/dt   = + q V - ddx(g eta + K) + F_u        q = (f + zeta) / h_q,   K = (u^2 + v^2) / 2
    dv/dt   = - q U - ddy(g eta + K) + F_v        U = h_u u,   V = h_v v,   h = H + eta
    deta/dt = - ddx(U) - ddy(V)

and, of each variable s that the flow transports, ds/dt = its own rate (transported.py).

In the linear mode h = H and zeta = K = 0. Discrete forms: layer.py (q V, U, K, divergence),
forcing.py, dissipation.py and boundaries.py (F). Uplift of the sea floor raises eta and lowers H by the same amount.

A System has four forms. Its fields are the same in all of them, and what their values are follows from `Kind`:

    described   ShallowWater.system   the depth of the whole grid, time records as Series
    on tiles    model.dynamics(...)   arrays of a tile, two records of each Series; the argument of programs
    prepared    system.prepare()      Fields with halos, once at the start of a program; it computes tendencies
    in a loop   stepping/fused.py     Expressions, of which loops are compiled
"""

import dataclasses
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, ClassVar, TypeVar

import jax
import jax.numpy as jnp

from ..fields.field import AbstractField, Count, Field, Value, X, Y, difference_x, difference_y, pointwise
from ..fields.parameters import Flag, Number, Part
from ..fields.state import State, as_tile_field, like, pytree, replace
from ..fields.variables import PROGNOSTIC, Variable, names_in_layer, of_layer
from ..grids.geometry import Geometry, TileGeometry
from ..stencils.expressions import Strips
from .clock import Coverage, Time, as_time
from .cores import FiniteDifferences, check_has_tendencies
from .dissipation import FreeSlip
from .layer import DEFAULT as DEFAULT_FORM
from .layer import LayerFlow, divergence
from .layers import Layers
from .near_sides import SideModes, edges_of
from .shores import FIXED, Shore
from .stages import (
    FACES,
    MAP,
    NUMBER,
    OTHER,
    PARTS,
    STATIC,
    TABLES,
    TILE,
    ArrayEvaluation,
    Exchange,
    Fields,
    Filled,
    StageEvaluation,
    declare,
    euler_stage,
)
from .terms import Series, Term, TiledPart, TimeVarying, Windows, value_at
from .transported import Passage, Transported, converted_state

__all__ = ["System", "declared_fields"]

T = TypeVar("T")
SHALLOWEST = 1e-6  # the least depth of water where the shore is fixed [m]
_FORM = Part(("vorticity_flux",), "EnergyConserving()")


@pytree
class System:
    """Shallow-water equations; as the argument of a program, every array in it can be differentiated.

    Attributes:
        depth: H at rest, positive down, 0 on land [m] (ny, nx).
        gravity: [m s-2].
        coriolis: the Coriolis, or None; on tiles it is part of `tile`.
        momentum, coriolis_form: forms of the vorticity flux (layer.py). coriolis_form is None where `momentum`
            has that of the Coriolis force too.
        linear: whether advection and the elevation's share of the thickness are left out.
        side: FreeSlip or NoSlip, along coasts and walls.
        core: the Discretisation that computes tendencies (cores.py).
        wetting: a WettingDrying, or None where the shore is fixed.
        terms: forcing and dissipation, in the order in which they are added.
        open_boundaries: the OpenBoundary conditions.
        tracers: further prognostic variables, a tuple of Transported.
        counted: ((Passage, Strips of the tile), ...) that nests compare; a step computes those that its State holds.
        layers: the Layers, or None for one layer.
        uplift: None, or the sea floor's cumulative uplift [m] (ny, nx), in time records.
        crests: None, or the depths of crests on faces [m], a pair of arrays at u and v (ny + 2 halo, nx + 2 halo).
        subgrid: None, or the Subgrid, the tables of cells whose beds are finer than the grid.
        tile: the TileGeometry.
        elliptic_domain: an elliptic.Domain without its tile, for implicit schemes; None for the others.
        flat: whether the depth was uniform when the model was made.
        first: the number of the step from which `integrate` starts; None where a loop is given the number of each step.
        covers: a Coverage, if the forcing is that of a whole run; None if it is that of one interval between records.
        dt: the time step [s] in double precision, where terms read the time; else None.
        reach: the halo that one evaluation of all terms needs [cells]; None where it is the tile's own. In a wider halo
            several stages are computed without a message between them.
        communicator: the Communicator.
        step_loop: the class of StepLoop (stepping/steps.py) that executes the steps if it has all of their operations.
            Otherwise they are executed on arrays.
        geometry: of a prepared System, the Geometry of the tile, with its halos.
        modes_at_sides: of a prepared System of layers with open sides, {side: SideModes}.
        rigid_lid: of a prepared System, whether eta is the pressure on a rigid lid, and no part of the thickness.
        edges: of a prepared System with open sides that have memory, {"x" or "y": (low, high)}, Fields, 1 next to them.
        evaluation: the StageEvaluation, which fills halos and stores the results of stages.

    Leaves of fewer than two dimensions are the same on every rank. `prepare` applies `communicator.replicated` to them
    once (stages.py), so that their gradients are summed over all ranks.
    """

    depth: Any = declare(MAP, units="m")
    gravity: Any = declare(
        NUMBER, units="m s-2", argument=Number(None, "m s-2", minimum=0.0), label="gravity", recorded="value"
    )
    coriolis: Any = declare(
        OTHER,
        argument=Part(("at", "at_y"), "FPlane(f0=1e-4)", optional=True),
        label="Coriolis",
        shared="kind of Coriolis force",
        recorded="part",
    )
    momentum: Any = declare(
        STATIC, DEFAULT_FORM, argument=_FORM, label="momentum", shared="momentum scheme", recorded="text"
    )
    coriolis_form: Any = declare(
        STATIC,
        argument=dataclasses.replace(_FORM, optional=True),
        label="Coriolis form",
        shared="form of the Coriolis force",
        recorded="text",
    )
    linear: bool = declare(
        STATIC, False, argument=Flag(), label="linear", shared="mode (linear or not)", recorded="value"
    )
    side: Any = declare(
        STATIC, FreeSlip(), argument=Part(("factor",), "NoSlip()"), shared="slip at walls", recorded="text"
    )
    core: Any = declare(
        NUMBER,
        FiniteDifferences(),
        argument=Part(("on_tile", "tendency"), "PseudoSpectral()"),
        shared="core",
        recorded="part",
    )
    wetting: Any = declare(
        STATIC,
        argument=Part(("thin",), "WettingDrying()", optional=True),
        label="shores",
        shared="wetting and drying",
        recorded="part",
    )
    terms: tuple = declare(
        PARTS, (), label="terms", shared="set of forcings, drags and viscosities", recorded="parts", lifted=True
    )
    open_boundaries: tuple = declare(PARTS, (), label="open sides", shared="set of open sides", recorded="parts")
    tracers: tuple = declare(
        PARTS,
        (),
        argument=Part(("variable", "rate"), "a Transported", several=True),
        label="tracers",
        shared="set of tracers",
        recorded="parts",
        lifted=True,
    )
    layers: Layers | None = declare(
        NUMBER,
        argument=Part(("potentials", "excess"), "Layers(thickness, densities)", optional=True),
        label="layers",
        shared="set of layers",
        recorded="part",
    )
    uplift: Any = declare(MAP, units="m", shared="source", recorded="parts", lifted=True)
    crests: Any = declare(FACES, units="m", lifted=True)
    subgrid: Any = declare(TABLES, units="m", lifted=True)
    tile: TileGeometry = declare(TILE)
    elliptic_domain: Any = declare(OTHER)
    counted: tuple[tuple[Passage, Strips], ...] = declare(STATIC, ())
    flat: bool = declare(STATIC, False)
    first: Any = declare(NUMBER)
    covers: Coverage | None = declare(STATIC)
    dt: float | None = declare(STATIC)
    reach: int | None = declare(STATIC)
    communicator: Any = declare(STATIC)
    step_loop: Any = declare(STATIC)
    geometry: Geometry = declare(OTHER)
    modes_at_sides: dict[str, SideModes] = declare(OTHER)
    rigid_lid: bool = declare(STATIC, False)
    edges: Any = declare(OTHER, lifted=True)
    evaluation: StageEvaluation = declare(STATIC, ArrayEvaluation())

    # -- from one form to the next -------------------------------------------------------------------------------------

    def _each(self, step: str, *arguments: object) -> "System":
        """This System with the function `step` of each field's Kind, such as "prepare", applied to its value."""
        new = {}
        for field in FIELDS:
            function, value = getattr(field.metadata["kind"], step), getattr(self, field.name)
            if function is not None and value is not None:
                new[field.name] = function(value, *arguments)
        return replace(self, **new)

    def bind(self, windows_of: Callable, kind: type = Series) -> "System":
        """This System with each `kind` of time records x in its fields and parts replaced by `windows_of(x)`."""
        return self._each("bind", windows_of, kind)

    def series(self) -> dict[tuple[str, ...], Series]:
        """The Series in its fields and parts, by their place, such as ("terms", "0", "x") or ("uplift",)."""
        found = {}
        for field in FIELDS:
            value: Any = getattr(self, field.name)
            if isinstance(value, Series):
                found[field.name,] = value
            elif field.metadata["kind"] is PARTS:
                for k, part in enumerate(value):
                    found |= {(field.name, str(k), *name.split(".")): x for name, x in part.series().items()}
        return found

    def interval(self, number: Count) -> "System":
        """This System with the forcing of interval number `number` (which may be traced) of those it covers."""
        if self.covers is None:
            return self
        return replace(self.bind(lambda windows: windows.window(number), Windows), covers=None)

    def prepare(self) -> "System":
        """The prepared form, with the halos filled of everything that does not change in the program; collective.

        Raises:
            ValueError: for a System with several intervals between forcing records, and one that is prepared already.
        """
        if self.geometry is not None:
            raise ValueError(
                "System.prepare: this one is prepared already; a second time its gradients would be too large by the "
                "number of ranks. Give that of model.dynamics(stepper)."
            )
        if self.covers is not None:
            raise ValueError(
                f"System.prepare: this one holds {len(self.covers.intervals)} intervals between forcing records, and "
                "a program steps through one; prepare dynamics.interval(number)."
            )
        return (self if self.communicator.size == 1 else self._each("mark", self.communicator))._prepared()

    def _prepared(self):
        reach = self.reach or self.tile.halo
        exchange = Exchange(self.tile, self.communicator, wide=self.tile.halo > reach)
        geometry = Geometry.derive(self.tile, self.side.factor, self.communicator)
        new = self._each("prepare", exchange, geometry.wet)
        within = lambda value: value.within(new.terms, self.gravity)  # noqa: E731
        depth = new.depth
        if self.film is None:  # where shores are fixed, a control below 0 counts as SHALLOWEST, not as land
            depth = pointwise(jnp.maximum, depth, SHALLOWEST * geometry.wet)
        new = replace(
            new,
            depth=depth,
            geometry=geometry,
            reach=reach,
            terms=tuple(term.bound(within, TimeVarying) for term in new.terms),
            open_boundaries=tuple(x.within(new.terms, self.gravity) for x in new.open_boundaries),
            edges=edges_of(self.tile, self.depth.dtype) if any(x.memory for x in self.open_boundaries) else None,
        )
        if self.layers is not None and self.open_boundaries:
            new = replace(new, modes_at_sides=SideModes.of_sides(new, self.tile.sides.open_sides))
        new = self.momentum.prepare(new)
        return replace(new, core=self.core.prepare(new))

    # -- variables -----------------------------------------------------------------------------------------------------

    @property
    def variables(self) -> tuple[Variable, ...]:
        """The Variables of a State: u, v and eta of all layers, and those of tracers, of terms and of open sides."""
        kept = [row for part in (*self.terms, *self.open_boundaries) for row in part.state_variables()]
        shared = {row.name: row for row in kept}.values()  # several sides of a kind keep their values in one variable
        layers = (of_layer(row, k) for k in range(self.layer_count) for row in PROGNOSTIC)
        return (*layers, *(row for row, *_ in self.contents), *shared)

    @property
    def contents(self) -> list[tuple[Variable, Transported, int]]:
        """[(its row, the tracer, the number of its layer)] of each tracer in each of its layers."""
        return [
            (x.variable if name == x.variable.name else of_layer(x.variable, layer), x, layer)
            for x in self.tracers
            for name, layer in x.in_layers(self.layer_count).items()
        ]

    @property
    def parts(self) -> tuple[TiledPart, ...]:
        """Its terms, conditions on open sides and transported variables."""
        return (*self.terms, *self.open_boundaries, *self.tracers)

    @property
    def names_of_layers(self) -> list[tuple[str, str, str]]:
        """The names of u, v and eta of each layer."""
        return [names_in_layer(k) for k in range(self.layer_count)]

    @property
    def layer_count(self) -> int:
        """The number of layers that move."""
        return 1 if self.layers is None else self.layers.count

    def zeros(self) -> State:
        """A State of one tile's arrays of zeros, with every prognostic variable."""
        rows, (shape, dtype) = self.variables, (self.depth.shape, self.depth.dtype)
        return State.of({row.name: jnp.zeros(shape, dtype) for row in rows}, {row.name: row.position for row in rows})

    @property
    def constant_names(self) -> tuple[str, ...]:
        """The names of the variables that are constant between two calls of `renewed`."""
        return tuple(row.name for term in self.terms for row in term.state_variables())

    @property
    def boundary_names(self) -> tuple[str, ...]:
        """The names of the variables of open sides."""
        return tuple({row.name: 0 for one in self.open_boundaries for row in one.state_variables()})

    @property
    def shore(self) -> Shore:
        """Where water meets land: fixed, or the WettingDrying."""
        return self.wetting or FIXED

    @property
    def film(self) -> float | None:
        """The thickness of water that stays where it is [m]; None where the shore is fixed."""
        return self.shore.thin

    # -- a step --------------------------------------------------------------------------------------------------------

    layer_flow: ClassVar[type[LayerFlow]] = LayerFlow
    euler = euler_stage

    def tendency(self, state: State, time: Time | Count) -> State:
        """d state/dt, as the core computes it, at a Time or a number of steps after step 0."""
        return self.evaluation.register_tendency(self.core.tendency(self, state, self._timed(time)))

    def _timed(self, time):
        """A Time with the length of a step, where this System has it."""
        time = time if isinstance(time, Time) else as_time(time)
        if time.dt is not None or self.dt is None:
            return time
        return replace(time, dt=jnp.asarray(self.dt, self.depth.dtype), exact_dt=self.dt)

    def renewed(self, state: State, time: Time | Count) -> State:
        """The State with the variables of terms recomputed that are due in the step beginning at a Time."""
        time = self._timed(time)
        for number, term in enumerate(self.terms):
            if type(term).renewed is not Term.renewed:
                state = self.evaluation.renew(self, number, state, time)
        return state

    def differences(self, state: State, time: Time) -> State:
        """d state/dt by finite differences, all terms from one halo exchange; of arrays or Fields, as `state` is."""
        flow = self.flow(state, time)
        rates = self.accelerations(flow, [layer.eta for layer in flow.layers], time)
        return like(state, state.replace(**rates, **self.level_rates(flow, time), **self.transported(flow, time)))

    def flow(
        self,
        state: State,
        time: Time | Count,
        more: Sequence[Value] = (),
        outside: Sequence[Value] | None = None,
        newest: tuple[jax.Array, State] | None = None,
    ) -> LayerFlow:
        """The LayerFlow of a State of tile arrays or Fields. If their halos are used up, one exchange fills them.

        Args:
            state: the State.
            time: a Time, or a number of steps since step 0.
            more: further arrays at h, or Fields, that are exchanged in the same messages and become flow.more.
            outside: eta of each layer at the beginning of the step, for the condition on open sides; it becomes
                flow.outside. It is that of `state` unless given.
            newest: (weight, State) where `state` is a weighted sum of the State at the beginning of the step and of
                earlier ones.
        """
        time = self._timed(time)
        fields, more = state.map(as_tile_field, state.positions), [as_tile_field(x, "h") for x in more]
        outside = None if outside is None else [as_tile_field(x, "h") for x in outside]
        filled, more, outside = self.fill_halos(fields, time, more, outside, newest)
        return self.core.flow(self.layer_flow(self, filled, more, outside, time))

    def fill_halos(
        self,
        state: State,
        time: Time,
        more: Fields = (),
        outside: Fields | None = None,
        newest: tuple[jax.Array, State] | None = None,
    ) -> Filled:
        """(state, more, outside) with halos filled for one evaluation of all terms, open boundaries applied.

        One exchange at most fills the halos of all Fields. Then the conditions on open sides set u, v and, where they
        give it, the elevation beyond the sides; last come the rates of the variables that open sides keep.

        Args:
            state: a State of Fields.
            time: the Time of the stage.
            more: further Fields that are exchanged along with the state.
            outside: eta of each layer that open boundaries use, Fields at h; those of `state` by default.
            newest: (weight, State) where `state` is a weighted sum of this State and of earlier ones; else None.
        """
        engine, is_own, layers = self.evaluation, outside is None, self.names_of_layers
        newest = newest if engine.opens_newest else None
        outside = [state[eta] for *_, eta in layers] if outside is None else outside
        state, more, outside = engine.exchange(self, state, more, outside, newest is not None)
        if not self.open_boundaries:
            return state, more, outside
        (weight, opened), kept = ((None, state), self.boundary_names) if newest is None else (newest, ())
        names, n = [*(name for pair in layers for name in pair[:2]), *kept], len(layers)
        fields = [*(opened[name] for name in names), *outside]
        system, arrays = engine.on_arrays(self, fields)
        memory, eta_time = dict(zip(kept, arrays[2 * n : -n])), time if is_own else time.begun
        velocities, levels = list(zip(arrays[: 2 * n : 2], arrays[1 : 2 * n : 2])), arrays[-n:]
        velocities, levels = system.apply_open_boundaries(velocities, levels, time, eta_time, memory, weight)
        for condition in self.open_boundaries if kept else ():
            if condition.memory:
                memory = condition.fill_rates(memory, *velocities[0], levels[0], system, time, eta_time)
        fields = engine.put(fields, [*(x for pair in velocities for x in pair), *memory.values(), *levels])
        outside = fields[-n:]
        if newest is not None:
            return state, more, outside
        new = dict(zip(names, fields[:-n])) | (dict(zip((eta for *_, eta in layers), outside)) if is_own else {})
        return state.replace(**new), more, outside

    def apply_open_boundaries(
        self,
        velocities: Sequence[tuple[Field, Field]],
        levels: Sequence[Field],
        time: Time,
        eta_time: Time | None = None,
        memory: dict[str, Field] | None = None,
        share: jax.Array | None = None,
    ) -> tuple[list[tuple[Field, Field]], list[Field]]:
        """([(u, v)], [eta]) of each layer, Fields with halo; conditions set u and v on open faces and beyond them.

        Use these eta in place of the argument: their arrays are the same, and their cotangents are added up in place.

        Conditions that close a volume budget are applied last, since in corners they read the flow through the other
        side.

        Args:
            velocities, levels: (u, v) and eta of each layer, Fields with halo.
            time: the Time of the stage.
            eta_time: the Time of eta; `time` unless given.
            memory: {name: Field} of the variables of open sides.
            share: u and v are set to the velocities of the conditions divided by this number, if it is given.
        """
        for condition in sorted(self.open_boundaries, key=lambda condition: condition.closes_volume):
            each = zip(velocities, levels)
            options = self, time, eta_time or time, memory, share
            filled = [condition.fill(u, v, eta, *options, k, levels) for k, ((u, v), eta) in enumerate(each)]
            velocities, levels = [(u, v) for u, v, _ in filled], [eta for *_, eta in filled]
        return list(velocities), list(levels)

    def _rate_at_sides(self, field, axis):
        """The rates in the ghost cells beyond the sides of an axis, at the cells next to these; 0 elsewhere."""
        low, high = self.edges[axis]
        take = X if axis == "x" else Y
        return (low * take.low(take.low(field)) + high * take.high(take.high(field))) * self.geometry.wet

    def level_rates(self, flow: LayerFlow, time: Time) -> dict[str, AbstractField]:
        """{"eta": d eta/dt [m s-1], a Field at h}, of all layers."""
        rates = self.sums([-divergence(layer.U, layer.V, self.geometry) for layer in flow.layers])
        return {layer.names[2]: self.with_sources(x, layer, time) for layer, x in zip(flow.layers, rates)}

    def sums(self, rates: Sequence) -> Sequence:
        """d eta_k/dt of each layer, from the rates of its thickness [m s-1]."""
        return rates if self.layers is None else self.layers.sums(rates)

    def accelerations(self, flow: LayerFlow, levels: Sequence[AbstractField], time: Time) -> dict[str, AbstractField]:
        """{"u": du/dt, "v": dv/dt [m s-2], Fields at u and v}, of all layers, with the pressure of `levels`.

        Args:
            flow: the LayerFlow of the top layer.
            levels: eta of each layer [m], Fields at h.
            time: the Time.
        """
        rates: dict[str, AbstractField] = {}
        for layer, head in zip(flow.layers, self.potentials(levels)):
            rates |= zip(layer.names[:2], self.acceleration(layer, head, time))
        return rates

    def potentials(self, levels: Sequence[AbstractField]) -> list[AbstractField]:
        """The pressure over density, M [m2 s-2], of each layer, from eta [m] of each, Fields at h."""
        if self.layers is None:
            return [self.gravity * levels[0]]
        return self.layers.potentials(self.level_gravities, levels)

    @property
    def level_gravities(self) -> Sequence[jax.Array] | jax.Array:
        """The gravity, or reduced gravity, of each layer's eta [m s-2]."""
        return [self.gravity] if self.layers is None else self.layers.gravities(self.gravity)

    def columns(self, depth: Value, fields: Any) -> list[tuple[Any, Any]]:
        """[(thickness at rest, what is above that) [m]] of each layer, from the depth [m] and each eta by name."""
        levels = [fields[eta] for *_, eta in self.names_of_layers]
        levels = [0.0 * levels[0], *levels[1:]] if self.rigid_lid else levels
        return list(zip(self.at_rest(depth), self.excess(levels)))

    def at_rest(self, depth: Value) -> list[Any]:
        """The thickness at rest [m] of each layer, of the depth; Fields at h, and 0 on land, of a prepared System."""
        if self.layers is None:
            return [depth]
        rest = self.layers.rest(depth)
        return rest if self.geometry is None else [x * self.geometry.wet for x in rest]

    def excess(self, levels: Sequence) -> Sequence:
        """What the thickness of each layer is above that at rest [m], from eta [m] of each; likewise of their rates."""
        return levels if self.layers is None else self.layers.excess(levels)

    def continuity(self, flow: LayerFlow, time: Time) -> AbstractField:
        """d eta/dt [m s-1], a Field at h."""
        return self.with_sources(-divergence(flow.U, flow.V, self.geometry), flow, time)

    def with_sources(self, rate: T, flow: LayerFlow, time: Time) -> T | AbstractField:
        """`rate` of a layer's eta [m s-1], a Field at h, plus the sources that terms add to the continuity equation."""
        for term in self.terms:
            if term.changes_elevation and term.acts_on(flow.layer, self.layer_count):
                rate = rate + term.at(time).continuity(flow, time)
        return rate

    def transported(self, flow: LayerFlow, time: Time) -> dict[str, AbstractField]:
        """{name: d value/dt} of the variables of tracers, of terms and of open sides, and of what is counted."""
        kept = {name: 0.0 * flow.state[name] for name in self.constant_names}
        kept |= {name: self._rate_at_sides(flow.state[name], name[-1]) for name in self.boundary_names}
        rates: dict[str, Any] = {
            row.name: tracer.at(time).rate(flow.layers[layer], flow.state[row.name], time)
            for row, tracer, layer in self.contents
        }
        rates |= {x.name: x.rate(flow, time) for x, _ in self.counted if x.name in flow.state.names}
        return rates | kept

    def shown(self, state: State, time: Time | Count) -> State:
        """A State of tile arrays as files hold it, with the concentration c of transported variables in place of h c.

        Args:
            state: the State that is stepped.
            time: the Time of the state.
        """
        return converted_state("shown", self, state, self.depth_at(as_time(time)))

    def stored(self, state: State, time: Time | Count) -> State:
        """The inverse of `shown`."""
        return converted_state("stored", self, state, self.depth_at(as_time(time)))

    def acceleration(self, flow: LayerFlow, head: AbstractField, time: Time) -> tuple[AbstractField, AbstractField]:
        """(du/dt, dv/dt) [m s-2] of one layer, Fields at u and v; zero on faces without flow.

        Args:
            flow: the LayerFlow of the layer.
            head: the pressure over density, as g eta [m2 s-2], a Field at h.
            time: the Time.

        Raises:
            ConfigError: for a core whose tendency has no parts.
        """
        self.core.check_parts()
        check_has_tendencies(self.momentum)
        g = self.geometry
        flux_u, flux_v = self.vorticity_flux(flow)
        head = head if self.linear else head + flow.kinetic_energy
        u = (flux_u - difference_x(head)) * g.per_dx["u"]
        v = (flux_v - difference_y(head)) * g.per_dy["v"]
        for term in self.terms:
            if term.acts_on(flow.layer, self.layer_count):
                along_x, along_y = term.at(time)(flow, time)
                u, v = u + along_x, v + along_y
        return u * g.wet_u, v * g.wet_v

    def vorticity_flux(self, flow: LayerFlow) -> tuple[AbstractField, AbstractField]:
        """(dx_u du/dt, dy_v dv/dt) [m2 s-2] of the Coriolis force and rotational advection, Fields at u and v."""
        U, V = flow.U * self.geometry.dy["u"], flow.V * self.geometry.dx["v"]
        if self.coriolis_form is None:
            return self.momentum.vorticity_flux(flow.q, U, V)
        u, v = self.coriolis_form.vorticity_flux(flow.per_h_q * self.geometry.f, U, V)
        if self.linear:
            return u, v
        more_u, more_v = self.momentum.vorticity_flux(flow.per_h_q * flow.vorticity, U, V)
        return u + more_u, v + more_v

    def depth_at(self, time: Time) -> AbstractField:
        """H less the sea floor's uplift up to a Time [m], a Field at h."""
        return self.depth if self.uplift is None else self.depth - value_at(self.uplift, time)

    def uplift_during(self, time: Time) -> AbstractField:
        """The uplift of the sea floor, and of eta with it, in the step that begins at a Time [m], a Field at h."""
        return self.uplift.at(time + 1.0) - self.uplift.at(time)


FIELDS = dataclasses.fields(System)  # pyright: ignore[reportArgumentType]


def declared_fields(what: str) -> Iterator[tuple[str, Mapping]]:
    """(name, metadata) of the fields that declare `what`: "argument", "label", "shared", "recorded" or "lifted"."""
    return ((field.name, field.metadata) for field in FIELDS if field.metadata[what])
