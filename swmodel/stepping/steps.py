"""One time step, the abstract step loop, and the loop on arrays.

    state, history --pack_state--> carry --steps--> carry --unpack_state--> state, history

A stepper makes one step from the tendencies of the equations. The step loop decides where its results are stored: in
arrays that XLA allocates (ArrayStepLoop), or in buffers with halos that fused loops overwrite (FusedStepLoop,
fused.py). `step_loop` in loop.py chooses between them; nothing else depends on the choice. `run_steps` and `scan_steps`
make any number of steps of a loop.
"""

import abc
import functools
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, TypeAlias, TypeVar, cast

import jax
import jax.core
import jax.numpy as jnp
from jax.extend.core import Jaxpr, Literal, Var

from ..dynamics.clock import Time
from ..dynamics.exchanges import Exchange, with_exchanges
from ..dynamics.stages import mark_numbers
from ..dynamics.transported import Passage, with_counted
from ..dynamics.waters import WaterSource, with_waters
from ..fields.field import AbstractField, Count, Field, pointwise
from ..fields.state import State, each_state, fields_of
from ..parallel.halo import exchange, without_open_faces, without_padding
from ..stencils.expressions import Strips, cells_of
from ..stencils.native import Blocks, block_sums, read_cells, together, write_cells

if TYPE_CHECKING:
    from ..dynamics.system import System
    from .explicit import TimeStepper

T = TypeVar("T")

History: TypeAlias = object
"""The history of a stepper: a pytree of tile arrays of its own, which nothing else looks into."""

Tree: TypeAlias = object
"""A pytree, such as what a monitor carries along."""

Carry: TypeAlias = tuple[State, History]
"""State and history in the layout of a step loop."""

Monitor = Callable[[Any, Callable[[], State], Any], Any]
"""`monitor(step, get_state, carry) -> carry`, called after each step.

`step` is the number of that step and `get_state()` the State after it. `carry` is the monitor's own: what its last call
returned. A monitor that needs the state in few steps calls `get_state` under lax.cond, so that only then it is made.
"""


def no_monitor(step: Count, get_state: Callable[[], State], carry: Tree) -> Tree:
    """The Monitor that returns its carry unchanged."""
    return carry


class StepLoop(abc.ABC):
    """Time steps of one stepper over the System of a tile, inside spmd.

    Attributes:
        name: of the kind of loop, for reports.
        equations: the prepared System on arrays, for monitors and costs; not set if `prepared` is False.
        stepper: the TimeStepper, prepared.
        history: `history(state)`, the TimeStepper's before the first step.
        counted: the Passages that `counted_step` computes along borders of nests.
        period: the number of steps after which halos and buffers are in their first configuration again. `steps`
            should make this number of steps in one call.
        origin: (row, column) of the tile's cell (0, 0) in the arrays of a carry.
    """

    name: ClassVar[str]

    equations: Any
    stepper: Any
    history: "Callable[[State], History]"
    counted: Sequence[Passage] = ()
    period: int = 1
    origin: tuple[int, int] = (0, 0)

    @abc.abstractmethod
    def __init__(self, dynamics: "System", stepper: "TimeStepper", prepared: bool = True):
        """The loop of a TimeStepper over a System.

        Args:
            dynamics: a System.
            stepper: a TimeStepper.
            prepared: False skips the preparation that only `steps` needs, such as filling the halos of parameters.
        """

    @classmethod
    def obstacle(cls, dynamics: "System", stepper: "TimeStepper") -> str | None:
        """A phrase that explains why these steps cannot run in this kind of loop; None where they can. Inside spmd."""
        return None

    @classmethod
    def compiles(cls) -> bool:
        """Whether a compiler other than XLA makes programs of the loops on this machine's devices."""
        return False

    @abc.abstractmethod
    def pack_state(self, state: State, history: History) -> Carry:
        """The carry of a State and the stepper's history, both of the tile's own cells (ny, nx)."""

    def start(self, state: State) -> Carry:
        """The carry of a run that begins with a State."""
        return self.pack_state(state, self.history(state))

    @abc.abstractmethod
    def unpack_state(self, carry: Carry) -> tuple[State, History]:
        """(state, history) in a carry: the inverse of `pack_state`."""

    @abc.abstractmethod
    def get_state(self, carry: Carry) -> State:
        """The State in a carry: the first result of `unpack_state`."""

    def read(self, carry: Carry, names: Sequence[str], strips: Strips) -> tuple[Carry, jax.Array]:
        """(the carry to use from then on, copies (n, cells) of n fields in Strips of the tile), between two steps."""
        arrays, values = read_cells([carry[0][name] for name in names], self._in_arrays(strips))
        return self._with_fields(carry, names, arrays), values

    def write(self, carry: Carry, strips: Mapping[str, Strips], values: jax.Array) -> Carry:
        """The carry with `values` (cells,) in Strips of fields of its State, field after field; they are 0 on land."""
        places = map(self._in_arrays, strips.values())
        arrays = write_cells([carry[0][name] for name in strips], values, [*places])
        return self._with_fields(carry, strips, arrays)

    def sums(self, carry: Carry, names: Sequence[str], weights: jax.Array, blocks: Blocks) -> tuple[Carry, jax.Array]:
        """(the carry, weighted sums (n, rows, columns) of n fields over Blocks of the tile's cells), as `read`."""
        arrays, sums = block_sums([carry[0][name] for name in names], weights, blocks.moved(self.origin))
        return self._with_fields(carry, names, arrays), sums

    def after(self, results: T, carry: Carry) -> tuple[T, Carry]:
        """(`results`, a pytree that was computed from a carry; this carry, whose State is overwritten afterwards)."""
        state = carry[0]
        leaves, structure = jax.tree.flatten(results)
        arrays = together([*leaves, *(x for _, x in state)])
        carry = self._with_fields(carry, state.names, arrays[len(leaves) :])
        return structure.unflatten(arrays[: len(leaves)]), carry

    def _in_arrays(self, strips):
        return [((row + self.origin[0], column + self.origin[1]), shape) for (row, column), shape in strips]

    @staticmethod
    def _with_fields(carry, names, arrays):
        return carry[0].replace(**dict(zip(names, arrays, strict=True))), carry[1]

    @abc.abstractmethod
    def steps(
        self, carry: Carry, first: Count, count: int, monitor: Monitor = no_monitor, monitored: Tree = ()
    ) -> tuple[Carry, Any]:
        """Make `count` steps.

        Args:
            carry: from `pack_state` or an earlier call.
            first: number of the first step, counted from step 0 of the model; it may be traced.
            count: of steps; static, and `period` or less.
            monitor: a Monitor, which is called after each step.
            monitored: the carry of the monitor before the first step.

        Returns:
            (carry, monitored) after the last step.
        """

    def counted_step(self, carry: Carry, step: Count) -> tuple[Carry, dict[str, jax.Array]]:
        """(the carry after a step, {name: the cells of its strips, (cells,)} of each Passage that is counted in it)."""
        return self.steps(carry, step, 1)[0], {}

    def traced_steps(self, carry: Carry, monitor: Monitor, monitored: Tree) -> Callable:
        """`steps(carry, first, count, monitored)` for such carries, which a loop may trace once for all counts."""
        return lambda carry, first, count, monitored: self.steps(carry, first, count, monitor, monitored)


def start_history(stepper: "TimeStepper", state: State, counted: Sequence[Passage] = ()) -> History:
    """The history of a stepper before its first step from a State; tendencies of what is counted belong to it."""
    if counted and stepper.history_kind == "tendencies":
        state = with_counted(state, counted, lambda position: jnp.zeros_like(state.eta))
    return stepper.history(state)


def one_step(
    equations: "System", stepper: "TimeStepper", state: State, history: History, step: Count
) -> tuple[State, History]:
    """(state, history) after step number `step` of the model.

    The rise of the sea floor during the step is added to the surface at its end, a splitting of first order in dt
    (sources/motion.py). Then comes the water of rain, rivers and the like (dynamics/waters.py). It passes gates,
    culverts and pumps (dynamics/exchanges.py) at the beginning of the step.
    """
    dtype = state.eta.dtype
    time = Time(jnp.asarray(step, jnp.int32), jnp.zeros((), dtype), jnp.asarray(stepper.dt, dtype), equations.dt)
    state = equations.renewed(state, time)
    if any(isinstance(term, Exchange) for term in equations.terms):
        state = with_exchanges(equations, state, time)
    state, history = stepper.step(equations, state, history, time)
    state = equations.core.finished(equations, state)
    if equations.uplift is not None:
        rise = equations.uplift_during(time)
        eta = state.eta + (rise if isinstance(state.eta, AbstractField) else cast(Field, rise).interior)
        if equations.film is not None:  # rounded, a dry bed may rise by more than its depth falls
            bed = -(equations.depth_at(time + 1.0) * equations.geometry.wet)  # 0 on land that never falls under water
            eta = (
                pointwise(jnp.maximum, eta, bed)
                if isinstance(eta, AbstractField)
                else jnp.maximum(eta, cast(Field, bed).interior)
            )
        state = state.replace(eta=eta)
    if any(isinstance(term, WaterSource) for term in equations.terms):
        state = with_waters(equations, state, time)
    return state, history


class ArrayStepLoop(StepLoop):
    """The step loop on tile arrays; its carry is (state, history).

    Where the halo is several times as wide as one stage needs, as many stages share one exchange.

    Args:
        dynamics: a System.
        stepper: a TimeStepper.
        prepared: False skips the preparation that only `steps` needs.
    """

    name = "arrays"

    def __init__(self, dynamics: "System", stepper: "TimeStepper", prepared: bool = True):
        self.sides, self.counted = dynamics.tile.sides, [x for x, _ in dynamics.counted]
        self.history = functools.partial(start_history, stepper, counted=self.counted)
        if not prepared:
            return
        self.equations = stepper.system(dynamics)
        self.stepper = mark_numbers(stepper, dynamics.communicator).prepare(self.equations)
        shared = 1 if stepper.is_implicit else dynamics.tile.halo // (self.equations.reach * stepper.stages)
        self.period = shared or 1
        self.wide = dynamics.tile.halo >= 2 * self.equations.reach

    def pack_state(self, state: State, history: History) -> Carry:
        """The carry; what `state` has on open faces is dropped, since it is no part of a State."""
        if not self.sides.open_sides:
            return state, history
        return state.map(lambda x, position: without_open_faces(x, position, self.sides), state.positions), history

    def unpack_state(self, carry: Carry) -> tuple[State, History]:
        return carry

    def get_state(self, carry: Carry) -> State:
        return carry[0]

    def steps(
        self, carry: Carry, first: Count, count: int, monitor: Monitor = no_monitor, monitored: Tree = ()
    ) -> tuple[Carry, Any]:
        if self.period == 1:
            for k in range(count):
                state, history = self._widened(carry)
                carry = self._own(one_step(self.equations, self.stepper, state, history, first + k))
                monitored = monitor(first + k, functools.partial(self.get_state, carry), monitored)
            return carry, monitored

        def body(k, carries):
            (state, history), monitored = carries
            new = one_step(self.equations, self.stepper, state, history, first + k)
            get_state = functools.partial(self._own, new[0])
            return each_state(self._filled_up, new), monitor(first + k, get_state, monitored)

        # If this loop were unrolled, XLA would recompute each step for every neighbour that the next step reads.
        carry, monitored = jax.lax.fori_loop(0, count, body, (self._widened(carry), monitored))
        return self._own(carry), monitored

    def counted_step(self, carry: Carry, step: Count) -> tuple[Carry, dict[str, jax.Array]]:
        equations, (state, history) = self.equations, self._widened(carry)
        flow, eta = state.names, state.eta

        def zero(position):
            return Field(jnp.zeros_like(eta.data), position, eta.halo) if self.wide else jnp.zeros_like(eta)

        begun = with_counted(state, self.counted, zero)
        state, history = self._own(one_step(equations, self.stepper, begun, history, step))
        passed = {x.name: cells_of(state[x.name], strips) for x, strips in equations.counted}
        return (state.only(flow), history), passed

    def _widened(self, carry: Carry) -> Carry:
        """All States of a carry as Fields with the whole halo filled, by one exchange.

        The carry is unchanged where a single stage uses up the halo.
        """
        if not self.wide:
            return carry
        tile = self.equations.geometry.tile
        arrays = fields_of(carry)
        wide = iter(exchange(arrays, tile.halo, tile.sides, self.equations.communicator))
        return each_state(lambda s: s.map(lambda _, at: Field(next(wide), at, (tile.halo,) * 4), s.positions), carry)

    def _filled_up(self, state):
        """A State of Fields padded with zeros to the full halo, which a step has used up. No later step reads them."""
        halo = self.equations.geometry.tile.halo

        def fill(field):
            west, east, south, north = (halo - n for n in field.halo)
            return Field(jnp.pad(field.data, ((south, north), (west, east))), field.position, (halo,) * 4)

        return state.map(fill)

    def _own(self, tree):
        """States as arrays of the tile's own cells; padding is zero, so that sums leave it out."""
        sides = self.equations.geometry.tile.sides

        def own(x):
            x = x.interior if isinstance(x, Field) else x
            return without_padding(x, sides) if sides.uneven else x

        return each_state(lambda state: state.map(own), tree)


def run_steps(
    loop: StepLoop, carry: Carry, count: Count, monitor: Monitor = no_monitor, monitored: Tree = (), first: Count = 0
) -> tuple[Carry, Any]:
    """(carry, monitored) after `count` steps from step number `first` of the model on; both may be traced.

    `monitor` is called after each step, first with `monitored`.
    """
    return steps_of(loop, carry, monitor, monitored)((carry, monitored), first, count)


def steps_of(loop: StepLoop, carry: Carry, monitor: Monitor = no_monitor, monitored: Tree = ()) -> Callable:
    """`run((carry, monitored), first, count)`, which makes the steps of `run_steps` from any such carries."""
    steps = loop.traced_steps(carry, monitor, monitored)

    def some(start, length):
        return lambda k, carries: steps(carries[0], start + k * length, length, carries[1])

    def run(carries, first, count):
        count, first = jnp.asarray(count, jnp.int32), jnp.asarray(first, jnp.int32)
        whole = count // loop.period
        carries = jax.lax.fori_loop(0, whole, some(first, loop.period), carries)
        rest = whole * loop.period
        return carries if loop.period == 1 else jax.lax.fori_loop(0, count - rest, some(first + rest, 1), carries)

    return run


def scan_steps(loop: StepLoop, carry: Carry, steps: int, first: Count = 0) -> Carry:
    """The carry of `run_steps`, for a static number of `steps`, under lax.scan, which JAX can differentiate."""
    groups, rest = divmod(steps, loop.period)
    first = jnp.asarray(first, jnp.int32)
    starts = first + jnp.arange(groups, dtype=jnp.int32) * loop.period
    several = without_invariants(lambda carry, start: loop.steps(carry, start, loop.period), carry, first)
    carry, _ = jax.lax.scan(several, carry, starts)
    for step in range(steps - rest, steps):
        carry, _ = loop.steps(carry, first + step, 1)
    return carry


# -- what does not change between steps --------------------------------------------------------------------------------


def without_invariants(function: Callable[..., T], *arguments: object) -> Callable[..., T]:
    """`function`, whose numbers and columns that do not depend on its arguments are computed now, and not in its calls.

    A step computes a few numbers from its time step, the metrics and the parameters. On a CPU they take no time. On a
    GPU each is a kernel of its own, and a step over a small tile is as long as its kernels are many. Arrays of a whole
    tile stay in the function, since they would need memory during the whole loop.

    Args:
        function: of pytrees of arrays; it is traced once.
        arguments: arrays, or their shapes, with which it will be called.
    """
    closed, shapes = jax.make_jaxpr(function, return_shape=True)(*arguments)
    jaxpr, structure = closed.jaxpr, jax.tree.structure(shapes)
    before, within = _split(jaxpr)
    read = [v for e in within for v in e.invars] + list(jaxpr.outvars)
    read = list(dict.fromkeys(v for v in read if not isinstance(v, Literal)))
    results = {v for e in before for v in e.outvars}
    hoisted = [v for v in read if v in results]
    values = jax.core.eval_jaxpr(jaxpr.replace(invars=[], outvars=hoisted, eqns=before), closed.consts)
    constants = [v for v in jaxpr.constvars if v in read]
    rest = jaxpr.replace(constvars=[*constants, *hoisted], eqns=within)
    value_of = dict(zip(jaxpr.constvars, closed.consts))
    consts = [*(value_of[v] for v in constants), *values]

    def call(*arguments: object) -> T:
        return structure.unflatten(jax.core.eval_jaxpr(rest, consts, *jax.tree.leaves(arguments)))

    return call


def _split(jaxpr: Jaxpr) -> tuple[list, list]:
    """(the equations that compute numbers or columns from constants alone, the others)."""
    varying: set[Var] = set(jaxpr.invars)
    before, within = [], []
    for equation in jaxpr.eqns:
        depends = any(v in varying for v in equation.invars if not isinstance(v, Literal))
        is_array = any(sum(n > 1 for n in getattr(v.aval, "shape", ())) > 1 for v in equation.outvars)
        if depends or is_array or equation.effects:
            varying.update(equation.outvars)
            within.append(equation)
        else:
            before.append(equation)
    return before, within
