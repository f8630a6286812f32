"""What SemiImplicit, RigidLid and SplitExplicit have in common, and the steps of the first two (semi_implicit.py)."""

import abc
import functools
import itertools
import operator
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias, cast

import jax
import jax.numpy as jnp
import numpy as np

from .. import elliptic
from ..defaults import AB2_EPSILON, THETA
from ..dynamics.clock import Time
from ..dynamics.layer import divergence
from ..dynamics.limiters import larger
from ..fields.field import AbstractField, Scalar, Value, mean_x, mean_y, pointwise
from ..fields.state import State, as_tile_field, like, pytree, replace
from ..fields.variables import PROGNOSTIC, in_layer, layer_of, names_in_layer
from ..parallel.communicator import Communicator
from .explicit import AB2, Past, TimeStepper
from .stability import interval_of_interfaces
from .steps import History
from .surface import Surface

if TYPE_CHECKING:
    from ..dynamics.layer import LayerFlow
    from ..dynamics.system import System

LEVEL = "level"  # the elevation, which is extrapolated as the tendencies are
Velocities: TypeAlias = tuple[AbstractField, AbstractField]  # (u, v) of a layer
X_TRANSPORT, Y_TRANSPORT = "transport_x", "transport_y"  # the explicit part of the transports


@pytree
class Solved:
    """The history of a scheme that solves an equation at each step.

    Attributes:
        past: a Past of the explicit part's tendencies of u, v and eta.
        residual: the largest residual of solvers that did not converge, over the right-hand side [1]; 0 if all did.
        failed: the number of the first step in which one did not, 0 if all did.
        transported: a State of the step before, with the transported variables and the fields that their rates need;
            () without such variables.
    """

    past: Past
    residual: jax.Array
    failed: jax.Array
    transported: Any = ()


class Implicit(TimeStepper):
    """The base class of SemiImplicit, RigidLid and SplitExplicit."""

    order = 2
    is_implicit = True
    has_solver = True
    remedy = f"epsilon = {AB2_EPSILON:g}"

    def stable_interval(self, axis: str) -> float:
        """The interval of the explicit part, which is AB2's; implicit waves set no limit.

        Args:
            axis: as of every scheme, or "internal" (waves of the interfaces between layers).
        """
        if axis == "internal":
            theta = THETA if self.rigid_lid else self.theta  # pyright: ignore[reportAttributeAccessIssue]
            return interval_of_interfaces(float(theta), float(self.epsilon))  # pyright: ignore[reportAttributeAccessIssue]
        return np.inf if axis == "wave" else AB2(1.0, float(self.epsilon)).stable_interval(axis)  # pyright: ignore[reportAttributeAccessIssue]

    def history(self, state: State) -> History:
        layers = _layers_of(state)
        rows = {name: state[name] for names in layers for name in names}
        moving = [eta for *_, eta in layers][self.rigid_lid :]
        rows |= {in_layer(LEVEL, layer_of(eta)[1]): state[eta] for eta in moving}
        others = {name: state[name] for name in state.names if name not in rows}
        transported = ()
        if others:
            surface = {}
            for k, (u, v, eta) in enumerate(layers):
                transports = {} if self.rigid_lid else {X_TRANSPORT: state[u], Y_TRANSPORT: state[v]}
                surface |= {in_layer(name, k): x for name, x in transports.items()}
                surface |= {eta: state[eta]} if eta in moving else {}
            transported = jax.tree.map(jnp.zeros_like, state_of(surface | others))
        return Solved(
            Past.empty(state_of(rows), 1), jnp.zeros((), state.eta.dtype), jnp.zeros((), jnp.int32), transported
        )

    def obstacle_to_loops(self, dynamics: "System") -> str | None:
        if dynamics.open_boundaries:
            return f"{type(self).__name__} has no loops for the outflow through open sides"
        if len(dynamics.variables) > len(PROGNOSTIC) * dynamics.layer_count:
            return f"{type(self).__name__} has no loops for variables other than u, v and eta"
        return None

    def check(self) -> None:
        super().check()
        if self.has_solver and self.solver is not None:  # pyright: ignore[reportAttributeAccessIssue]
            elliptic.check_solver(self.solver, type(self).__name__)  # pyright: ignore[reportAttributeAccessIssue]

    def iterations_on(self, finer: float, count: float, solver: "elliptic.Solver") -> float:
        """The iterations of the solver on a grid that is `finer` by a factor than one where it took `count`."""
        return count

    def step(self, equations: "System", state: State, history: Solved, time: Time) -> tuple[State, Solved]:
        return self.prepare(equations).step(equations, state, history, time)

    @abc.abstractmethod
    def prepare(self, equations: "System") -> "Implicit": ...

    def complaint(self, history: Solved, communicator: Communicator) -> tuple[int, str] | None:
        """(the first step, a message) of a solver that did not converge in the steps so far, or None; collective."""
        tiles = communicator.tiles((history.residual, history.failed)).values()
        left, steps = (np.concatenate([np.ravel(x) for x in each]) for each in zip(*tiles))
        first = float(min((step for step in steps if step), default=np.inf))
        residual, step = communicator.host_maximum(np.array([left.max(), -first]))
        if residual == 0:
            return None
        return int(-step), (
            f"the equation of the surface was not solved, and the residual is {residual:.1e} of its right-hand side; "
            "allow its solver more iterations, a larger tolerance or another preconditioner, or use a shorter time step"
        )


def _layers_of(state):
    """[the names of u, v and eta] of each layer of a State."""
    count = sum(layer_of(name)[0] == "eta" for name in state.names)
    return [names_in_layer(k) for k in range(count)]


def state_of(values: Mapping[str, Value]) -> State:
    """A State of u, v, eta and others of all layers."""
    places = {row.name: row.position for row in PROGNOSTIC} | {X_TRANSPORT: "u", Y_TRANSPORT: "v"}
    return State.of(values, {name: places.get(layer_of(name)[0], "h") for name in values})


# -- steps with the elliptic equation prepared -------------------------------------------------------------------------


class PlannedStep(Implicit):
    """The steps of a scheme, with the elliptic equation prepared once for all of them."""

    def prepare(self, equations: "System") -> "PlannedStep":
        return self

    def explicit(self, equations: "System", flow: "LayerFlow", more: Sequence[AbstractField] | None) -> State:
        """E, a State of Fields at u, v and h.

        Args:
            equations: the System, prepared.
            flow: LayerFlow.
            more: h - R [m] of each layer, Fields at h; None where it is 0.
        """
        e, rows, levels = equations, {}, {}
        rates: Sequence[AbstractField] = [0.0 * layer.eta for layer in flow.layers]
        if more is not None:
            each = zip(more, flow.layers)
            rates = e.sums([-divergence(mean_x(x) * layer.u, mean_y(x) * layer.v, e.geometry) for x, layer in each])
        for layer, head, rate in zip(flow.layers, self.explicit_heads(e, flow), rates):
            u, v, eta = layer.names
            rows |= zip((u, v), e.acceleration(layer, head, flow.time))
            moves = not e.rigid_lid or layer.layer > 0
            rows[eta] = e.with_sources(rate, layer, flow.time) if moves else rate
            levels |= {in_layer(LEVEL, layer.layer): layer.eta} if moves else {}
        return e.evaluation.register_tendency(state_of(rows | levels))

    def explicit_heads(self, equations: "System", flow: "LayerFlow") -> Iterable[AbstractField]:
        """The pressure over density [m2 s-2] of each layer that is explicit, Fields at h: that of the interfaces."""
        below = zip(equations.level_gravities[1:], flow.layers[1:])
        return itertools.accumulate([0.0 * flow.eta, *(g * layer.eta for g, layer in below)])

    def depths(self, flow: "LayerFlow", slope: State) -> list[AbstractField]:
        """The thickness of each layer in the middle of the step [m], Fields at h, from `extrapolated` levels."""
        names = [in_layer(LEVEL, layer.layer) for layer in flow.layers]
        rises = [slope[x] - a.eta if x in slope.names else 0.0 * a.eta for x, a in zip(names, flow.layers)]
        rises = flow.equations.excess(rises)
        return [layer.h + x * flow.geometry.wet for layer, x in zip(flow.layers, rises)]

    def extrapolated(self, now: State, old: State, count: jax.Array) -> State:
        """AB2's mean of a State of Fields now and of one a step ago, which has no weight if `count` is 0."""
        older = jnp.where(count > 0, 0.5 + self.epsilon, 0.0)  # pyright: ignore[reportAttributeAccessIssue]

        def mean(new, old):
            return new + older.astype(new.dtype) * (new - as_tile_field(old, new.position))

        return now.map(mean, old)

    def transported(
        self,
        flow: "LayerFlow",
        transports: Sequence[tuple[AbstractField, AbstractField]],
        now: State,
        old: State,
        count: jax.Array,
        water_added: Sequence[Value] = (),
    ) -> dict[str, AbstractField]:
        """{name: the variable a step later} of what the flow transports, Fields.

        Args:
            flow: the LayerFlow at the beginning of the step.
            transports: (U, V) of the whole step [m2 s-1], of each layer.
            now, old: States of Fields with halo, with eta and what is transported, now and a step ago.
            count: of steps so far.
            water_added: by terms in the whole step [m s-1], to each layer; 0 unless given.
        """
        middle = self.extrapolated(now, old, count)
        middle = flow.state.replace(**{name: middle[name] for name in flow.state.names if name in middle.names})
        at = flow.time + 0.5
        water_added = water_added or [0.0] * len(transports)
        rates = flow.equations.transported(flow.with_transports(transports, middle, at, water_added), at)
        return {name: flow.state[name] + self.dt * rate for name, rate in rates.items()}

    def next_history(
        self, state: State, now: State, history: Solved, left: jax.Array, transported: State | None, time: Time
    ) -> Solved:
        """The history after a step from `time` with the explicit tendency `now` and the residual `left`."""
        past, residual = history.past.push(like(state, now)), jnp.maximum(history.residual, left)
        failed = jnp.where((left > 0) & (history.failed == 0), time.step + 1, history.failed).astype(jnp.int32)
        return Solved(past, residual, failed, () if transported is None else like(state, transported))


class SurfaceStep(PlannedStep):
    """The steps of a free surface."""

    def middle_depths(self, flow: "LayerFlow", slope: State, surface: Surface) -> list[AbstractField]:
        """R of each layer where it is the thickness in the middle of the step, and at least h / 2; else none."""
        if not surface.follows_level:
            return []
        depths = self.depths(flow, slope)  # the level may fall fast
        return [pointwise(larger, h, 0.5 * layer.h) for h, layer in zip(depths, flow.layers)]

    def carried(
        self,
        equations: "System",
        flow: "LayerFlow",
        slope: State,
        transports: Sequence[tuple[AbstractField, AbstractField]],
        history: Solved,
        surface: Surface,
    ) -> tuple[dict[str, AbstractField], State]:
        """({name: what is transported, a step later}, the State that the next step needs).

        Args:
            equations: the System, prepared.
            flow: the LayerFlow at the beginning of the step.
            slope: of u, v and eta of all layers, without what the surface does.
            transports: (R u, R v) of the whole step [m2 s-1], of each layer.
            history: at the beginning of the step.
            surface: that of the step.
        """
        more = surface.explicit_depths(equations, flow) or [0.0 * layer.h for layer in flow.layers]
        names, values = history.transported.names, dict(flow.state)
        for k, (layer, x) in enumerate(zip(flow.layers, more)):
            values[in_layer(X_TRANSPORT, k)] = mean_x(x) * layer.u
            values[in_layer(Y_TRANSPORT, k)] = mean_y(x) * layer.v
        now = State.of({name: values[name] for name in names}, history.transported.positions)
        values = iter(flow.more)
        old = now.map(lambda _: next(values))
        explicit = self.extrapolated(now, old, history.past.count)
        pairs = [(explicit[in_layer(X_TRANSPORT, k)], explicit[in_layer(Y_TRANSPORT, k)]) for k in range(len(more))]
        whole = [tuple(a + b for a, b in zip(*each)) for each in zip(pairs, transports)]
        added = []
        if equations.open_boundaries or any(term.changes_elevation for term in equations.terms):
            out = equations.sums([divergence(U, V, equations.geometry) for U, V in pairs])
            added = equations.excess([slope[layer.names[2]] + x for layer, x in zip(flow.layers, out)])
        return self.transported(flow, cast(Any, whole), now, old, history.past.count, added), now


@pytree
class FreeSurfaceStep(SurfaceStep):
    """The step of SemiImplicit; the attributes are its own, and the Surface."""

    dt: Any
    theta: Any
    epsilon: Any
    surface: Surface

    def step(self, equations: "System", state: State, history: Solved, time: Time) -> tuple[State, Solved]:
        e, dt, theta, surface = equations, self.dt, self.theta, self.surface
        flow = e.flow(state, time, fields_before(history.transported))
        now = self.explicit(e, flow, surface.explicit_depths(e, flow))
        slope = self.extrapolated(now, history.past.values[0], history.past.count)
        velocities = [surface.pushed(e, u, v, dt, e.gravity * flow.eta) for u, v in moved(flow, slope, dt)]
        depths = self.middle_depths(flow, slope, surface)
        filled, depths, _ = e.fill_halos(with_velocities(flow, velocities), time + 1.0, depths)
        velocities, eta = velocities_of(filled), filled.eta
        surface = replace(surface, depths=depths or None)
        before = surface.outflow(e, [(layer.u, layer.v) for layer in flow.layers])
        changes = [dt * slope[layer.names[2]] - (dt * (1.0 - theta)) * out for layer, out in zip(flow.layers, before)]
        rhs = changes[0] - (dt * theta) * surface.outflow(e, velocities)[0]
        rhs, changes, values = e.evaluation.finish_stage((rhs, changes, depths))
        if values:
            total = functools.reduce(operator.add, values)
            surface = surface.over(e, depths, e.evaluation.tile_values(total))
        delta, left = surface.solve(e, rhs)
        velocities = [surface.pushed(e, u, v, theta * dt, e.gravity * delta) for u, v in velocities]
        if e.open_boundaries:
            levels = [eta + delta, *(filled[eta] for *_, eta in e.names_of_layers[1:])]
            velocities, _ = e.apply_open_boundaries(cast(Any, velocities), cast(Any, levels), time + 1.0)
        new = named(flow, velocities)
        for layer, change, out in zip(flow.layers, changes, surface.outflow(e, velocities)):
            new[layer.names[2]] = layer.eta + change - (dt * theta) * out
        others, transported = {}, None
        if history.transported:
            first = surface.transports(e, [(layer.u, layer.v) for layer in flow.layers])
            pairs = zip(first, surface.transports(e, velocities))
            transports = [tuple((1.0 - theta) * a + theta * b for a, b in zip(*each)) for each in pairs]
            others, transported = self.carried(e, flow, slope, cast(Any, transports), history, surface)
        return like(state, state.replace(**new, **others)), self.next_history(
            state, now, history, left, transported, time
        )


@pytree
class RigidLidStep(PlannedStep):
    """The step of RigidLid; the attributes are its own, and the Surface."""

    dt: Any
    epsilon: Any
    surface: Surface

    def step(self, equations: "System", state: State, history: Solved, time: Time) -> tuple[State, Solved]:
        e, dt, layered = equations, self.dt, equations.layers is not None
        flow = e.flow(state.replace(eta=0.0 * state.eta), time, [state.eta, *fields_before(history.transported)])
        eta, *old = flow.more
        now = self.explicit(e, flow, None)
        slope = self.extrapolated(now, history.past.values[0], history.past.count)
        velocities = [self.surface.pushed(e, u, v, dt, e.gravity * eta) for u, v in moved(flow, slope, dt)]
        depths = self.depths(flow, slope) if layered else []
        filled, depths, _ = e.fill_halos(with_velocities(flow, velocities).replace(eta=eta), time + 1.0, depths)
        velocities, eta, surface = velocities_of(filled), filled.eta, replace(self.surface, depths=depths or None)
        # u at the start may have a divergence
        share = jnp.where(history.past.count > 0, 1.0 - THETA if layered else 0.5, 0.0).astype(flow.u.dtype)
        first = [(layer.u, layer.v) for layer in flow.layers]
        # the unknown is g dt delta: div (R grad (g dt delta)) = div R u*
        rhs = -surface.outflow(e, velocities)[0]
        if layered:
            before = surface.outflow(e, first)
            rhs = rhs - (share / (1.0 - share)) * before[0]
        delta, left = surface.solve(e, rhs)
        delta = delta / (e.gravity * dt)
        velocities = [surface.pushed(e, u, v, dt, e.gravity * delta) for u, v in velocities]
        new = named(flow, velocities) | {"eta": eta + delta}
        if layered:
            for layer, a, b in list(zip(flow.layers, before, surface.outflow(e, velocities)))[1:]:
                new[layer.names[2]] = layer.eta + dt * slope[layer.names[2]] - dt * (share * a + (1.0 - share) * b)
        others, kept = {}, None
        if history.transported:
            pairs = zip(surface.transports(e, first), surface.transports(e, velocities))
            transports = [tuple(share * a + (1.0 - share) * b for a, b in zip(*each)) for each in pairs]
            others, kept = self._others(flow, old, transports, history)
        new = like(state, state.replace(**new, **others))
        return new, self.next_history(state, now, history, left, kept, time)

    def _others(self, flow, old, transports, history):
        """({name: what is transported, a step later}, the State that the next step needs)."""
        names, values = history.transported.names, iter(old)
        now = State.of({name: flow.state[name] for name in names}, history.transported.positions)
        old = now.map(lambda _: next(values))
        return self.transported(flow, transports, now, old, history.past.count), now


def moved(flow: "LayerFlow", slope: State, dt: Scalar) -> list[Velocities]:
    """[(u, v)] of each layer after a step of the explicit part."""
    return [(a.u + dt * slope[a.names[0]], a.v + dt * slope[a.names[1]]) for a in flow.layers]


def named(flow: "LayerFlow", velocities: Iterable[tuple[Value, Value]]) -> dict[str, Value]:
    """{name: u or v} of each layer."""
    return {name: x for layer, pair in zip(flow.layers, velocities) for name, x in zip(layer.names, pair)}


def with_velocities(flow: "LayerFlow", velocities: Iterable[tuple[Value, Value]]) -> State:
    """A State of these velocities, and eta of each layer."""
    return state_of(named(flow, velocities) | {layer.names[2]: layer.eta for layer in flow.layers})


def velocities_of(state: State) -> list[Velocities]:
    """[(u, v)] of each layer of a State."""
    pairs = [(state[in_layer("u", k)], state[in_layer("v", k)]) for k in range(len(state.names) // 3)]
    return cast(list[Velocities], pairs)


def fields_before(transported: State | tuple[()]) -> list[AbstractField]:
    """The fields of a State a step ago, in order; none of ()."""
    return [as_tile_field(x, transported.positions[name]) for name, x in transported] if transported else []
