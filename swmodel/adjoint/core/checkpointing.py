"""The adjoint of many steps: which states are stored, and which segments are run again.

Let a run be x_{k+1} = M(x_k, c), where c are the arrays of the equations, and let r_k be what a cost reads after step
k. The adjoint takes the steps in reverse order:

    x*_k = (dM/dx)^T x*_{k+1} + (dr/dx)^T r*_k,   c* += (dM/dc)^T x*_{k+1} + ...

For each step, the innermost segments store only the arrays of x_k that its adjoint reads, once each. Tracing the step
finds these arrays. The sum c* includes only those arrays of c that depend on the parameters. Outer levels of segments
store x at the start of each segment, and run a segment again before its adjoint. With levels of l_0, l_1, ... parts,
sum(l) stored states suffice for prod(l) steps (Griewank & Walther 2008, chapter 12).

The equations are prepared once before the forward steps and once before the adjoint, never within a step. The loops
take any number of steps up to their capacity, so that intervals of all lengths share one program.
"""

import math
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.core
import jax.numpy as jnp
from jax.custom_derivatives import SymbolicZero
from jax.extend.core import ClosedJaxpr

from ...dynamics.clock import Time
from ...dynamics.system import System
from ...errors import ConfigError
from ...fields.state import State, pytree, remembered, static
from ...stencils import evaluate, merged, needed
from ...stepping.explicit import TimeStepper
from ...stepping.loop import check_covered, each_interval, step_loop
from ...stepping.steps import History, run_steps
from ..costs.tile_costs import TileCost
from .leaves import Floats, Rows, buffers_for, perturbed, push_row, read_row, set_row


@pytree
class Span:
    """`count` steps, of which the first has the number `first` on the model's clock."""

    first: Any
    count: Any

    def part(self, k: Any, length: int) -> "Span":
        """Part k when the span is cut into parts of this length. The last part may be shorter; later ones are empty."""
        start = k * length
        return Span(self.first + start, jnp.clip(self.count - start, 0, length))

    def parts(self, length: int) -> jax.Array:
        """The number of parts of this length."""
        return (self.count + length - 1) // length


class Readings:
    """What a cost reads along a run of a step loop, and how it is accumulated; a cost of None reads nothing."""

    def __init__(self, cost: TileCost | None, loop: Any, state: Any):
        self.cost: Any = cost
        self.equations, self.dtype = loop.equations, jax.tree.leaves(state)[0].dtype
        self.count = 0
        if cost is not None and cost.read is not None:
            (self.count,) = jax.eval_shape(self._share, state, jnp.int32(0)).shape

    def _share(self, state, step):
        """This tile's share of the readings after step number `step`."""
        share = self.cost.read(state, self.equations, Time(step + 1))
        return share.astype(self.dtype)

    def monitor(self, step: Any, get_state: Callable[[], Any], monitored: Any) -> Any:
        """`_share` of the newest state: the `monitor` of a step loop of single steps."""
        return self._share(get_state(), step) if self.count else monitored

    def accumulate(self, acc: Any, shares: jax.Array, span: Span) -> Any:
        """`acc` after the first span.count rows of `shares` (n, count), which are summed over tiles."""
        if not self.count:
            return acc
        readings = self.equations.communicator.sum(shares)
        update = self.cost.update

        def some():
            def body(acc, row):
                k, reading = row
                new = update(acc, reading[None], span.first + 1 + k)
                return jax.tree.map(lambda a, b: jnp.where(k < span.count, b, a), acc, new), None

            rows = jnp.arange(len(readings), dtype=jnp.int32)
            known = jnp.where(rows[:, None] < span.count, readings, readings[:1])  # the others may have no derivative
            return jax.lax.scan(body, acc, (rows, known))[0]

        return jax.lax.cond(span.count == len(readings), lambda: update(acc, readings, span.first + 1), some)


def advance(loop: Any, readings: Readings, carry: Any, acc: Any, span: Span, rows: int) -> tuple[Any, Any]:
    """(carry, acc) of a step loop after a Span; readings are accumulated `rows` steps at a time."""
    if not readings.count:
        return run_steps(loop, carry, span.count, first=span.first)[0], acc

    def block(k, both):
        carry, acc = both
        part = span.part(k, rows)

        def monitor(step, get_state, shares):
            share = readings.monitor(step, get_state, shares)
            return jax.lax.dynamic_update_index_in_dim(shares, share, step - part.first, 0)

        nothing = jnp.zeros((rows, readings.count), readings.dtype)
        carry, shares = run_steps(loop, carry, part.count, monitor, nothing, part.first)
        return carry, readings.accumulate(acc, shares, part)

    return jax.lax.fori_loop(0, span.parts(rows), block, (carry, acc))


class Tape:
    """A run of steps within a traced program: recorded forwards, and differentiated in reverse from these records.

    Args:
        make: `make(params) -> (dynamics, stepper)`.
        params: a pytree of float arrays. The run is differentiated with respect to these and to its first carry.
        cost: a TileCost, or None.
        carry: of step_loop(dynamics, stepper), or a pytree of its shapes.
        lengths: number of parts at each level, innermost (steps) first; their product bounds the number of steps.
        traces: what Tapes with the same `make` have traced, so that a step is traced once for all of them.
    """

    def __init__(
        self,
        make: Callable[[Any], tuple[System, TimeStepper]],
        params: Any,
        cost: TileCost | None,
        carry: Any,
        lengths: Sequence[int],
        traces: dict[Any, Any] | None = None,
    ):
        self.lengths, self.cost, traces = tuple(lengths), cost, {} if traces is None else traces
        self.dynamics, self.stepper = make(params)
        self.carry = Floats(carry)
        self.loop = step_loop(self.dynamics, self.stepper)
        self.state = jax.eval_shape(self.loop.get_state, carry)
        arguments = self.dynamics, self.stepper, cost
        prepare, step = remembered(traces, {"step": arguments, "carry": carry}, lambda: self._traced(*arguments))
        self.jaxpr, self.touched = step[0].jaxpr, [False]

        def constants(params):
            """(the constants of a step that depend on the parameters, its other constants)."""
            values = jax.core.eval_jaxpr(prepare.jaxpr, prepare.consts, *jax.tree.leaves((*make(params), cost)))
            self.touched = perturbed(values)
            pairs = list(zip(values, self.touched))
            return [c for c, moves in pairs if moves], [c for c, moves in pairs if not moves]

        self.moved, self._back, self.others = jax.vjp(constants, params, has_aux=True)
        leaves, share = self.carry.leaves, self.jaxpr.outvars[-1].aval
        number, share = jax.ShapeDtypeStruct((), jnp.int32), jax.ShapeDtypeStruct(share.shape, share.dtype)
        operands = self.moved, self.others, leaves, number, self.carry.floats(leaves), share
        self.pulled = remembered(traces, {"pull": arguments, "carry": carry}, lambda: self._traced_pull(*operands))
        first, (_, read) = len(self.moved) + len(self.others), needed(self.pulled.jaxpr)
        self.rows = Rows(self.jaxpr, [v in read for v in self.pulled.jaxpr.invars[first : first + len(leaves)]])

    def _traced(self, dynamics, stepper, cost):
        """(a jaxpr of what a step reads besides its carry, [the jaxpr of the step]); they hold no values."""
        step = []

        def prepare(dynamics, stepper, cost):
            loop = step_loop(dynamics, stepper)
            readings = Readings(cost, loop, self.state)

            def one(leaves, k):
                nothing = jnp.zeros(readings.count, readings.dtype)
                carry, share = loop.steps(self.carry.tree(leaves), k, 1, readings.monitor, nothing)
                return jax.tree.leaves(carry), share

            closed = jax.make_jaxpr(one)(self.carry.leaves, jax.ShapeDtypeStruct((), jnp.int32))
            step.append(closed)
            return closed.consts

        return jax.make_jaxpr(prepare)(dynamics, stepper, cost), step

    def _step(self, moved, others, leaves, k):
        """(leaves of the carry, share of readings) after step number k."""
        *leaves, share = jax.core.eval_jaxpr(self.jaxpr, self._constants(moved, others), *leaves, k)
        return leaves, share

    def _constants(self, moved, others):
        """The constants of the jaxpr of a step, where `moved` are those that depend on the parameters."""
        moved, others = iter(moved), iter(others)
        return [next(moved if moves else others) for moves in self.touched]

    def _pull(self, moved, others, leaves, k, bars, share_bar):
        """Cotangents of (moved constants, float leaves of the carry) from those after the step."""

        def floats_after(moved, floats):
            new, share = self._step(moved, others, self.carry.merged(leaves, floats), k)
            return self.carry.floats(new), share

        return jax.vjp(floats_after, moved, self.carry.floats(leaves))[1]((bars, share_bar))

    def _traced_pull(self, *operands):
        """The jaxpr of `_pull`; cotangents of the carry replace those after the step."""
        closed, own = jax.make_jaxpr(self._pull)(*operands), len(self.moved)
        first = own + len(self.others) + len(self.carry.leaves) + 1
        passed_on = {own + k: first + k for k in range(sum(self.carry.real))}
        return ClosedJaxpr(merged(closed.jaxpr, passed_on), closed.consts)

    # -- forwards -----------------------------------------------------------------------------------------------------

    def record(self, carry: Any, acc: Any, span: Span, level: int = -1) -> tuple[Any, Any, Any]:
        """(carry and acc after the Span, the records that `sweep` needs)."""
        level = level % len(self.lengths)
        if level == 0:
            return self._record_steps(carry, acc, span)
        length = math.prod(self.lengths[:level])
        readings = Readings(self.cost, self.loop, self.state)

        def part(k, everything):
            carry, acc, starts = everything
            starts, (carry, acc) = push_row(starts, (carry, acc), k)
            return *advance(self.loop, readings, carry, acc, span.part(k, length), self.lengths[0]), starts

        everything = carry, acc, buffers_for((carry, acc), self.lengths[level])
        return jax.lax.fori_loop(0, span.parts(length), part, everything)

    def _record_steps(self, carry, acc, span):
        most = self.lengths[0]
        readings = Readings(self.cost, self.loop, self.state)
        kept, start = self.rows.allocate(jax.tree.leaves(carry), most)

        def one(k, everything):
            leaves, kept, shares = everything
            constants = self._constants(self.moved, self.others)
            kept, leaves, (share,) = self.rows.store(kept, k, constants, leaves, span.first + k)
            return leaves, kept, set_row(shares, share, k)

        everything = start, kept, jnp.zeros((most, readings.count), readings.dtype)
        leaves, kept, shares = jax.lax.fori_loop(0, span.count, one, everything)
        carry = self.carry.tree(self.rows.filled(leaves, kept, span.count))
        return carry, readings.accumulate(acc, shares, span), (kept, shares, acc)

    # -- backwards ----------------------------------------------------------------------------------------------------

    def sweep(self, stored: Any, span: Span, bars: tuple[Any, Any]) -> tuple[Any, ...]:
        """Cotangents of (params, float leaves of the carry, acc) before the Span.

        Args:
            stored: the records that `record` returned.
            span: the same Span.
            bars: cotangents of (float leaves of the carry, acc) after the Span.
        """
        moved = [jnp.zeros(c.shape, c.dtype) for c in self.moved]
        moved, *others = self._sweep(len(self.lengths) - 1, stored, span, (moved, *bars))
        return self._back(moved)[0], *others

    def _sweep(self, level, stored, span, bars):
        if level == 0:
            return self._sweep_steps(stored, span, bars)
        length = math.prod(self.lengths[:level])

        def part(j, bars):
            k = span.parts(length) - 1 - j
            within = span.part(k, length)
            carry, acc = read_row(stored, k)
            *_, inner = self.record(carry, acc, within, level - 1)
            return self._sweep(level - 1, inner, within, bars)

        return jax.lax.fori_loop(0, span.parts(length), part, bars)

    def _sweep_steps(self, stored, span, bars):
        kept, shares, acc = stored
        moved, carry, acc_bar = bars
        readings = Readings(self.cost, self.loop, self.state)
        summed_up = jax.vjp(lambda acc, shares: readings.accumulate(acc, shares, span), acc, shares)[1]
        acc_bar, shares_bar = summed_up(acc_bar)

        def one(j, bars):
            k = span.count - 1 - j
            leaves, number = self.rows.leaves(kept, k, self.carry.leaves), span.first + k
            share_bar = jax.lax.dynamic_index_in_dim(shares_bar, k, 0, keepdims=False)
            found = evaluate(self.pulled, [*self.moved, *self.others, *leaves, number, *bars[1], share_bar])
            return [old + new for old, new in zip(bars[0], found)], found[len(bars[0]) :]

        moved, carry = jax.lax.fori_loop(0, span.count, one, (moved, carry))
        return moved, carry, acc_bar


def even_lengths(steps: int, levels: int) -> tuple[int, ...]:
    """About equal numbers of parts at each level, innermost first; their product is `steps` or slightly more."""
    lengths = []
    for level in range(levels, 0, -1):
        lengths.append(max(math.ceil(round(steps ** (1 / level), 9)), 1))
        steps = -(-steps // lengths[-1])
    return tuple(lengths)


def integrate(
    dynamics: System,
    stepper: TimeStepper,
    state: State,
    steps: int,
    history: History | None = None,
    lengths: Sequence[int] | None = None,
) -> tuple[State, History]:
    """The same as `sw.integrate`, but it stores few states when JAX differentiates it in reverse mode.

    It serves costs of your own under jax.grad or jax.vjp, in one program. A custom VJP has no forward mode (jax.jvp
    refuses it). Take tangents of `sw.integrate`, and Hessian products as the jvp of a gradient of this function.

    Args:
        dynamics, stepper, state, steps, history: as for `sw.integrate`.
        lengths: number of parts at each level, innermost (steps) first. Their product is `steps` or more; two levels
            of about sqrt(steps) unless given. Each interval between forcing records is cut by itself.

    Returns:
        (state, history) after the last step.
    """
    check_covered("adjoint.integrate", dynamics, stepper, steps)
    if lengths and math.prod(lengths) < steps:
        raise ConfigError(
            f"integrate: lengths = {tuple(lengths)} hold {math.prod(lengths)} steps, and the run has {steps}; "
            "give longer ones."
        )
    history = stepper.history(state) if history is None else history

    def run(here, carry, count):
        return _few_states(here, stepper, carry, count, tuple(lengths or even_lengths(count, 2)))

    ends = step_loop(dynamics.interval(0), stepper, prepared=False)
    end = each_interval(dynamics, steps, ends.pack_state(state, history), run)
    return ends.unpack_state(end)


def _few_states(dynamics, stepper, carry, steps, lengths):
    """The carry after `steps` steps in one interval between forcing records; see `integrate`."""
    leaves, structure = jax.tree.flatten((dynamics, stepper))

    def span(leaves):  # made in each trace, since JAX's custom rules must not close over values of another trace
        return Span(structure.unflatten(leaves)[0].first, jnp.int32(steps))

    def tape(leaves, touched, carry):
        def make(params):
            params = iter(params)
            return structure.unflatten([next(params) if t else x for x, t in zip(leaves, touched)])

        return Tape(make, [x for x, t in zip(leaves, touched) if t], None, carry, lengths)

    @jax.custom_vjp
    def run(leaves, carry):
        loop = step_loop(*structure.unflatten(leaves))
        return run_steps(loop, carry, steps, first=span(leaves).first)[0]

    def forward(leaves, carry):
        touched = tuple(bool(x.perturbed) for x in leaves)
        leaves, carry = jax.tree.map(lambda x: x.value, (leaves, carry), is_leaf=lambda x: hasattr(x, "perturbed"))
        end, _, stored = tape(leaves, touched, carry).record(carry, (), span(leaves))
        arrays, structure = jax.tree.flatten(carry)
        shapes = tuple(jax.ShapeDtypeStruct(jnp.shape(x), jnp.result_type(x)) for x in arrays)
        return end, (leaves, Static((touched, shapes, structure)), stored)

    def backward(kept, bars):
        leaves, known, stored = kept
        touched, arrays, structure = known.value
        carry = structure.unflatten(arrays)
        shapes = Floats(carry)
        bars = shapes.floats(jax.tree.leaves(bars, is_leaf=_is_zero))
        bars = [jnp.zeros(bar.shape, bar.dtype) if _is_zero(bar) else bar for bar in bars]
        params, carry_bar, _ = tape(leaves, touched, carry).sweep(stored, span(leaves), (bars, ()))
        params, carry_bar = iter(params), iter(carry_bar)
        of_leaves = [next(params) if t else None for t in touched]
        return of_leaves, shapes.tree([next(carry_bar) if real else None for real in shapes.real])

    run.defvjp(forward, backward, symbolic_zeros=True)
    return run(leaves, carry)


def _is_zero(x):
    return isinstance(x, SymbolicZero)


@pytree
class Static:
    """A value that is static structure of a pytree."""

    value: Any = static()
