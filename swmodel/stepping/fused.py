"""Steps by fused loops: their arrays, when halos are refreshed, and which arrays are overwritten.

The stepper and the physics are traced with Expressions, once in a program. Each stage becomes one loop, whose results
are stored in arrays with halos. Arrays that no later stage reads are overwritten, so that the loop over steps copies
nothing.
"""

import functools
import math
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar, cast

import jax
import jax.core
import jax.numpy as jnp
import numpy as np

from ..dynamics.clock import Time
from ..dynamics.near_sides import without_normal_flow
from ..dynamics.stages import Fields, Filled, StageEvaluation, mark_numbers, renewed_if_due
from ..dynamics.system import System, declared_fields
from ..dynamics.transported import with_counted, without_counted
from ..fields.field import AbstractField, Count, Field, Value, pointwise
from ..fields.state import State, each_state, fields_of, replace, states_of
from ..grids.geometry import Geometry
from ..parallel.halo import beyond_open_sides, refresh, without_open_faces, without_padding
from ..stencils.compiled import compile_loops
from ..stencils.expressions import Expression, Layout, Source, Strips, lift, path_names, stored
from ..stencils.graph import Unsupported
from ..stencils.native import depends_on
from ..stencils.native.library import CompileError
from ..stencils.stencil import run
from .steps import Carry, History, Monitor, StepLoop, Tree, no_monitor, one_step, start_history, without_invariants

if TYPE_CHECKING:
    from .explicit import TimeStepper

T = TypeVar("T")

SMALL = 16_384  # bytes of an array, up to which copies in each step cost less than compiling a longer program
NEVER_WET = -32768.0  # the depth that marks cells which are land for the whole run, where shores move [m]
POLE = "rows round a pole are averaged over all ranks, for which there are no loops"


class NotCompiled(str):
    """Why a loop of a step could not be compiled, which may differ from rank to rank."""


class FusedEvaluation(StageEvaluation):
    """Fields of Expressions: fused loops compute what a stage stores.

    Args:
        dynamics: a System.
        stepper: a TimeStepper.
        interpret: whether GPUs' loops run in Pallas's interpreter.

    Attributes:
        in_order: whether loops compute row after row, as on CPUs, so that they may overwrite their operands.
        layout: of all arrays, which have halos.
        group: number of steps that share one exchange of halos.
        arrays: the prepared System on arrays, which apply the conditions on open boundaries.
        reads_flow: whether any of them reads velocities.
        opens_newest: whether these conditions set the velocities of the newest State in a sum of States.
    """

    def __init__(self, dynamics: "System", stepper: "TimeStepper", interpret: bool = False):
        self.ghosts, self.sides, self.communicator = dynamics.tile.halo, dynamics.tile.sides, dynamics.communicator
        self.layout = Layout(tuple(dynamics.tile.shape), self.ghosts)
        shared = self.ghosts // ((dynamics.reach or self.ghosts) * stepper.stages)
        self.group = 1 if stepper.is_implicit else shared or 1
        self.sharers, self._tendencies = len(self.communicator.ranks), []
        self.interpret, self.in_order = interpret, jax.default_backend() == "cpu" and not interpret
        self.arrays: Any = None
        self.reads_flow = any(x.closes_volume or x.memory or x.reads_flow() for x in dynamics.open_boundaries)
        mixes = stepper.history_kind == "states" and self.group == 1
        self.opens_newest = bool(dynamics.open_boundaries) and mixes and not self.reads_flow

    def stored(self, array: jax.Array, position: str, halo: int, name: str = "") -> Expression:
        """An array in `layout`, with values in `halo` cells around the tile, as an Expression at `position`."""
        source = Source(array, self.layout.origin, (halo,) * 4, array.dtype, prognostic=True, name=name)
        return stored(source, position)

    def refresh(self, sources: list) -> None:
        """Fill the halos of Sources by one exchange."""
        arrays = refresh([s.array for s in sources], self.ghosts, self.sides, self.communicator, self.layout.border)
        for source, array in zip(sources, arrays):
            source.array, source.halo = array, (self.ghosts,) * 4

    def _field(self, source, position):
        return Field(source.array, position, self.layout.border)

    def register_tendency(self, tendency: State) -> State:
        """`tendency`, a State. The loop that stores fields computed from it stores it too."""
        self._tendencies += [x for x in fields_of(tendency) if x.plain is None]
        return tendency

    def exchange(self, system: System, state: State, more: Fields, outside: Fields, newest: bool) -> Filled:
        self._store({id(field): field for field in (*fields_of(state), *outside, *more)}.values())
        moving: Any = [*fields_of(without_counted(system, state) if system.counted else state), *outside, *more]
        sources = dict.fromkeys(source for field in moving for source in field.sources)
        short = [source for source in sources if min(source.halo) < system.reach]
        if self.reads_flow:  # next to other sides; both engines have zeros on open faces that are not set yet
            self.close_sides([state], beyond=False)
        if short:
            self.refresh(short)
        if not system.open_boundaries or newest:
            return state, more, outside
        flow = [state[name] for u, v, _ in system.names_of_layers for name in (u, v)]
        at_sides = cast(list[Expression], [*flow, *outside, *(state[name] for name in system.boundary_names)])
        mixed = [x for x in at_sides if x.plain is None]
        stored = dict(zip(map(id, mixed), self.finish_stage(mixed) if mixed else ()))
        state, outside = state.map(lambda f: stored.get(id(f), f)), [stored.get(id(x), x) for x in outside]
        if self.group > 1 or not short:  # ghosts beyond open sides hold results of the loop: fill them again
            loose = [state.u, state.v, *outside, *(state[name] for name in state.others)]
            for source, position in {source: f.position for f in loose for source in f.sources}.items():
                source.array = beyond_open_sides(self._field(source, position), self.sides).data
        return state, more, outside

    def on_arrays(self, system: System, fields: Fields) -> tuple[System, Sequence[Field]]:
        return self.arrays, [self._field(cast(Expression, f).plain, f.position) for f in fields]

    def put(self, fields: Fields, arrays: Sequence[Field]) -> Fields:
        for field, array in zip(cast(Any, fields), arrays):
            field.plain.array = array.data
        return fields

    def close_sides(self, states: list[State], beyond: bool = True) -> None:
        """Set velocities that are stored to zero on the faces of open sides, and beyond them if `beyond` is true."""
        for position in ("u", "v"):
            fields = [x for state in states for name, x in state if state.positions[name] == position]
            sources = [source for x in fields if (source := x.plain) is not None]
            if sources:
                opened = [self._field(source, position) for source in sources]
                for source, field in zip(sources, without_normal_flow(opened, self.sides, beyond)):
                    source.array = field.data

    def renew(self, equations: "System", number: int, state: State, time: Time) -> State:
        ends = self.layout.own, self.layout.with_border
        arrays = state.map(lambda x: x.plain.array)
        new = renewed_if_due(self.arrays, self.arrays.terms[number], arrays, time, ends)
        return state.replace(**{name: self.stored(x, "h", 0, state[name].plain.name) for name, x in new.items()})

    def _store(self, fields):
        """Store those of `fields` that were computed from neighbours, and the tendencies that they were computed from.

        This ends a stage of a Runge-Kutta scheme, even if its stepper does not call `finish_stage`. Expressions that
        contain these fields and tendencies load them from then on.
        """
        shifted = [field for field in fields if not field.pointwise]
        if shifted:
            known = {id(x): x for x in [*shifted, *(x for x in self._tendencies if x.plain is None)]}
            for expression, now in zip(known.values(), self.finish_stage(list(known.values()))):
                expression.become(now.plain)

    def finish_stage(
        self, tree: T, over: Sequence[Source] = (), strips: Mapping[str, Strips] = MappingProxyType({})
    ) -> T:
        """A pytree of Fields, with those that are not stored yet computed by one loop.

        Args:
            tree: of Fields.
            over: Sources whose arrays the loop may overwrite, unless `tree` has them; that of the same name first.
            strips: {name: Strips} of the fields that are computed there alone.
        """
        self._tendencies = []
        leaves, structure = jax.tree.flatten(tree, is_leaf=lambda x: isinstance(x, Expression))
        new = [x for x in leaves if isinstance(x, Expression) and x.plain is None]
        held = {id(x.plain) for x in leaves if isinstance(x, Expression) and x.plain is not None}
        free = [source for source in over if id(source) not in held]
        every = _names(tree) if over else [f"stage.{name}" for name in path_names(tree)]
        named = {id(x): name for x, name in zip(leaves, every)}
        names = [named[id(x)] for x in new]
        own = [next((source for source in free if source.name == name), None) for name in names]
        others = (source for source in free if source not in own)
        spare = (None if name in strips else x or next(others, None) for name, x in zip(names, own))
        written_over = [getattr(source, "array", None) for source in spare]
        options = self.interpret, self.sharers, names, [strips.get(name) for name in names]
        arrays, margin = run(new, self.layout, written_over, *options) if new else ([], 0)
        made = {id(x): self.stored(a, x.position, margin, name) for x, a, name in zip(new, arrays, names)}
        return jax.tree.unflatten(structure, [made.get(id(x), x) for x in leaves])

    def refreshed(self, equations: "System", fields: Fields) -> Fields:
        new: Any = self.finish_stage(tuple(fields))
        self.refresh([x.plain for x in new])
        return new

    def repeat(self, equations: "System", body: Callable, fields: Fields, numbers: range) -> Fields:
        new: Any = self.finish_stage(tuple(fields))
        positions = [x.position for x in new]

        def stored(arrays):
            return [self.stored(x, at, 0, f"field {k}") for k, (x, at) in enumerate(zip(arrays, positions))]

        def several(first, count, arrays):
            own: Any = stored(arrays)
            self.refresh([x.plain for x in own[:2]])
            each = own
            for k in range(count):
                each = body(first + k, *each)
            return [x.plain.array for x in self.finish_stage(tuple(each), [x.plain for x in own])]

        # of more than 4 the source would be long, and kernels of GPUs compute again what neighbours have
        arrays, group = [x.plain.array for x in new], min(self.ghosts, 4) if self.in_order else 1
        whole, rest = divmod(len(numbers), group)
        arrays = jax.lax.fori_loop(0, whole, lambda k, x: several(numbers.start + group * k, group, x), arrays)
        return stored(several(numbers.stop - rest, rest, arrays) if rest else arrays)

    def tile_values(self, field: Value) -> jax.Array:
        return self.layout.own(cast(Any, self.finish_stage(field)).plain.array)

    def with_ghosts(self, equations: "System", x: jax.Array) -> AbstractField:
        return self.refreshed(equations, [self.stored(self.layout.with_border(x), "h", 0, "solution")])[0]


class FusedStepLoop(StepLoop):
    """The step loop by fused loops; its carry is (state, history) in arrays with halos, which the steps overwrite.

    Args:
        dynamics: a System.
        stepper: a TimeStepper.
        prepared: False skips the preparation that only `steps` needs.
    """

    name = "fused"
    interpret: ClassVar[bool] = False

    @classmethod
    def compiles(cls) -> bool:
        return jax.default_backend() == "cpu" and not cls.interpret

    @classmethod
    def obstacle(cls, dynamics: "System", stepper: "TimeStepper") -> str | None:
        """A phrase that explains why these steps do not run in fused loops; None where they do.

        A step is traced for it and, on CPUs, its loops are compiled. The result is a NotCompiled if that fails.
        """
        if dynamics.tile.pole is not None:
            return POLE
        if (why := stepper.obstacle_to_loops(dynamics)) is not None:
            return why

        def one(dynamics, stepper, first):
            loop = cls(dynamics, stepper)
            state = dynamics.zeros()
            return loop.counted_step(loop.start(state), first)

        try:
            closed = jax.make_jaxpr(one)(dynamics, stepper, jnp.int32(0))
            if cls.compiles():
                compile_loops(closed.jaxpr)
        except Unsupported as error:
            return f"there is no loop for {error}"
        except CompileError as error:
            return NotCompiled(error)
        return None

    def __init__(self, dynamics: "System", stepper: "TimeStepper", prepared: bool = True):
        self.stepper, self.counted = stepper, [x for x, _ in dynamics.counted]
        self.history = functools.partial(start_history, stepper, counted=self.counted)
        self.evaluation = FusedEvaluation(dynamics, stepper, self.interpret)
        self.layout, self.group = self.evaluation.layout, self.evaluation.group
        self.origin = self.layout.origin
        # where loops cannot overwrite their operands, steps alternate between two sets of arrays
        size, in_order = math.prod(self.layout.padded) * dynamics.depth.dtype.itemsize, self.evaluation.in_order
        cycle = 1 if in_order and size <= SMALL else stepper.buffer_cycle
        self.period = self.group * cycle * (1 if in_order else 2)
        if prepared:
            self.stepper = mark_numbers(stepper, dynamics.communicator)
            self.equations = self.evaluation.arrays = stepper.system(dynamics)
            self.stepper = self.stepper.prepare(self.equations)
            self._expressions = self._lifted()

    def _lifted(self):
        def lifted(tree, name):
            leaves, structure = jax.tree.flatten(tree, is_leaf=lambda x: isinstance(x, Field))
            names = (f"{name}.{path}".rstrip(".") for path in path_names(tree))
            return jax.tree.unflatten(structure, [lift(x, name=n) for x, n in zip(leaves, names)])

        arrays, depth, lowest = self.equations, self.equations.depth, 0.0
        if arrays.film is not None:  # depths may be negative, so that permanent land gets the depth NEVER_WET
            lowest = NEVER_WET
            depth = pointwise(lambda depth, wet: jnp.where(wet > 0, depth, lowest), depth, arrays.geometry.wet)
        depth = self._aligned(depth)
        wet = depth.map(lambda depth: (depth > lowest).astype(depth.dtype))  # cheaper than reading another array
        geometry = Geometry.derive(arrays.tile, arrays.side.factor, arrays.communicator, lift, wet)
        new = {name: lifted(getattr(arrays, name), name) for name, _ in declared_fields("lifted")}
        return replace(arrays, geometry=geometry, depth=depth, evaluation=self.evaluation, **new)

    def _aligned(self, field):
        """The Expression that loads a Field, with its array in the layout of results."""
        data = self.layout.with_border(field.data, field.halo)
        return stored(Source(data, self.layout.origin, field.halo, data.dtype, name="depth"), field.position)

    def pack_state(self, state: State, history: History) -> Carry:
        wide = jax.tree.map(lambda x: self.layout.with_border(x) if jnp.ndim(x) == 2 else x, (state, history))
        state, history = self._sources(*wide)
        self.evaluation.refresh([e.plain for e in fields_of((state, history))])
        if self.evaluation.opens_newest:
            self.evaluation.close_sides(states_of(history))
        return self._arrays(state, history)

    def unpack_state(self, carry: Carry) -> tuple[State, History]:
        history = jax.tree.map(lambda x: self.layout.own(x) if jnp.ndim(x) >= 2 else x, carry[1])
        return self.get_state(carry), history

    def get_state(self, carry: Carry) -> State:
        """The State of the tile's own cells, with zeros on open faces as on arrays."""
        sides, state = self.evaluation.sides, carry[0]

        def own(x, position):
            return without_open_faces(without_padding(self.layout.own(x), sides), position, sides)

        return state.map(own, state.positions)

    def steps(
        self, carry: Carry, first: Count, count: int, monitor: Monitor = no_monitor, monitored: Tree = ()
    ) -> tuple[Carry, Any]:
        state, history = self._sources(*carry)
        for k in range(count):
            state, history = self._step(state, history, first + k, refreshes=k % self.group == 0)
            now = self._arrays(state, None)
            monitored = monitor(first + k, functools.partial(self.get_state, now), monitored)
            if monitor is not no_monitor:
                plain = [e.plain for e in fields_of(state)]
                for source, array in zip(plain, depends_on([source.array for source in plain], monitored)):
                    source.array = array
        return self._arrays(state, history), monitored

    def counted_step(self, carry: Carry, step: Count) -> tuple[Carry, dict[str, jax.Array]]:
        if not self.counted:
            return super().counted_step(carry, step)
        (state, history), dtype = self._sources(*carry), carry[0].eta.dtype
        flow, zero = state.names, np.zeros((), dtype)
        begun = with_counted(state, self.counted, lambda at: Expression(at, lambda trace: zero, dtype))
        state, history = self._step(begun, history, step, refreshes=True)
        passed, _ = self._arrays(state.only([x.name for x in self.counted]), None)
        return self._arrays(state.only(flow), history), dict(passed)

    def _step(self, state, history, step, refreshes):
        """(state, history) after a step, stored in arrays; of what is counted, the cells of its strips."""
        old = [e.plain for e in fields_of((state, history)) if e.plain is not None]
        if self.group > 1 and refreshes:
            self.evaluation.refresh(old)
        state, history = one_step(self._expressions, self.stepper, state, history, step)
        strips = {passage.name: each for passage, each in self.equations.counted}
        state, history = self.evaluation.finish_stage((state, history), old, strips)
        if self.evaluation.opens_newest:
            self.evaluation.close_sides(states_of((without_counted(self.equations, state), history))[:2])
        return state, history

    def traced_steps(self, carry: Carry, monitor: Monitor, monitored: Tree) -> Callable:
        if self.group > 1 or self.period == 1:  # of a group, the first step alone refreshes halos
            return super().traced_steps(carry, monitor, monitored)
        one = without_invariants(
            lambda carry, first, monitored: self.steps(carry, first, 1, monitor, monitored),
            carry,
            jnp.int32(0),
            monitored,
        )

        def steps(carry, first, count, monitored):
            for k in range(count):
                carry, monitored = one(carry, first + k, monitored)
            return carry, monitored

        return steps

    def _sources(self, state, history):
        """Arrays as Expressions. Of the carry, only earlier states in the history have halos that are still filled."""
        filled = self.evaluation.ghosts if self.stepper.history_kind == "states" and self.group == 1 else 0
        pair = self._sourced(state, 0), each_state(lambda earlier: self._sourced(earlier, filled), history)
        leaves = jax.tree.leaves(pair, is_leaf=lambda x: isinstance(x, Expression))
        for e, name in zip(leaves, _names(pair)):
            if isinstance(e, Expression):
                e.plain.name = name  # pyright: ignore[reportOptionalMemberAccess]
        return pair

    def _sourced(self, state, halo):
        return state.map(lambda array, position: self.evaluation.stored(array, position, halo), state.positions)

    @staticmethod
    def _arrays(state, history):
        def array(x):  # every Expression is stored by now
            return x.plain.array if isinstance(x, Expression) else x  # pyright: ignore[reportOptionalMemberAccess]

        return jax.tree.map(array, (state, history))


class InterpretedStepLoop(FusedStepLoop):
    """The loops that GPUs run, in Pallas's interpreter, to test them anywhere."""

    name = "interpreted"
    interpret = True


def _names(tree):
    """The names of the leaves of (state, history) in reports on loops."""
    parts, groups = (name.partition(".") for name in path_names(tree)), {"0": "", "1": "history."}
    return [groups.get(first, f"{first}.") + rest if rest else f"field {first}" for first, _, rest in parts]
