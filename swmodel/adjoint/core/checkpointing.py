"""Steps that are pulled back: what is stored on the way, and run again from there.

A run of steps x_{k+1} = M(x_k, c), with c what the equations are made of, is pulled back step by step, last first:

    x*_k = (dM/dx)^T x*_{k+1} + (dr/dx)^T r*_k,   c* += (dM/dc)^T x*_{k+1} + ...,

r_k what a cost reads after the step. The innermost segments store, of every step, the arrays of x_k that this reads,
which the traced program of a step tells, each one once, however many later steps remember it; and c* is summed up for
those arrays of c alone that depend on what is asked for. Levels of segments around them store x at their starts only,
and run a segment again before they pull it back: with levels of l_0, l_1, ... parts, sum(l) states serve prod(l) steps
(Griewank & Walther 2008, chapter 12).

Equations are made once, before the first and before the last step, never within; the loops take any number of steps up
to their capacity, so that intervals of all lengths share one program.
"""

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.core
import jax.numpy as jnp
from jax.custom_derivatives import SymbolicZero

from ...dynamics.clock import Time
from ...dynamics.shallow_water import Dynamics
from ...errors import ConfigError
from ...fields.pytrees import pytree, static
from ...fields.state import State
from ...stencils import evaluate
from ...stepping.base import no_monitor
from ...stepping.explicit import TimeStepper
from ...stepping.loop import check_covered, differentiable_step_loop, each_interval, run_steps, step_loop
from ..costs.tile_costs import TileCost
from .leaves import Floats, Rows, inputs_read, keep, perturbed, put, room, taken

__all__ = ["Tape", "Span", "advance", "even_lengths", "integrate"]


@pytree
class Span:
    """`count` steps, from number `first` of the model on."""

    first: jax.Array
    count: jax.Array

    def part(self, k: Any, length: int) -> "Span":
        """Part number k of parts of this length; the last may be shorter, and those behind it have no step."""
        start = k * length
        return Span(self.first + start, jnp.clip(self.count - start, 0, length))

    def parts(self, length: int) -> jax.Array:
        return (self.count + length - 1) // length


class Readings:
    """What a cost reads along a run of a step loop, and how it is summed up; a cost of None reads nothing."""

    def __init__(self, cost: TileCost | None, loop: Any, state: State):
        self.cost, self.equations, self.dtype = cost, loop.equations, state.eta.dtype
        self.count = 0
        if cost is not None and cost.read is not None:
            (self.count,) = jax.eval_shape(self._share, state, jnp.int32(0)).shape

    def _share(self, state, step):
        """This tile's share of what is read after step number `step`."""
        share = self.cost.read(state, self.equations, Time(step + 1))
        return share.astype(self.dtype)

    def monitor(self, step: Any, get_state: Callable[[], State], monitored: Any) -> Any:
        """`_share` of the newest state: the Monitor of a single step."""
        return self._share(get_state(), step) if self.count else monitored

    def nothing(self) -> jax.Array:
        return jnp.zeros(self.count, self.dtype)

    def accumulate(self, acc: Any, shares: jax.Array, span: Span) -> Any:
        """`acc` after the first span.count rows of `shares` (n, count)."""
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
    """(carry, acc) of a step loop after a Span; readings are summed up `rows` steps at a time."""
    if not readings.count:
        return _steps(loop, carry, span)[0], acc

    def block(k, both):
        carry, acc = both
        part = span.part(k, rows)

        def monitor(step, get_state, shares):
            share = readings.monitor(step, get_state, shares)
            return jax.lax.dynamic_update_index_in_dim(shares, share, step - part.first, 0)

        carry, shares = _steps(loop, carry, part, monitor, jnp.zeros((rows, readings.count), readings.dtype))
        return carry, readings.accumulate(acc, shares, part)

    return jax.lax.fori_loop(0, span.parts(rows), block, (carry, acc))


def _steps(loop, carry, span, monitor=no_monitor, monitored=()):
    return run_steps(loop, carry, span.count, monitor, monitored, span.first)


class Tape:
    """A run of steps within a traced program: recorded forwards, pulled back from its records.

    Args:
        make: `make(params) -> (dynamics, stepper)`.
        params: a pytree of float arrays, in which the run is differentiated beside its start.
        cost: a TileCost, or None.
        carry: of differentiable_step_loop(dynamics, stepper), or a pytree of its shapes.
        lengths: parts at each level, innermost (steps) first; their product is the most steps that it takes.
        fast: makes the step loop of segments that are run, and not pulled back.
    """

    def __init__(
        self,
        make: Callable[[Any], tuple[Dynamics, TimeStepper]],
        params: Any,
        cost: TileCost | None,
        carry: Any,
        lengths: Sequence[int],
        fast: Callable = step_loop,
    ):
        self.lengths, self.cost, self._fast = tuple(lengths), cost, fast
        self.dynamics, self.stepper = make(params)
        self.carry = Floats(carry)
        self.loop = differentiable_step_loop(self.dynamics, self.stepper)
        self.state = jax.eval_shape(self.loop.get_state, carry)
        made = jax.vjp(lambda params: self._traced(*make(params)), params, has_aux=True)
        self.moved, self._back, self.others = made
        leaves, share = self.carry.leaves, self.jaxpr.outvars[-1].aval
        number, share = jax.ShapeDtypeStruct((), jnp.int32), jax.ShapeDtypeStruct(share.shape, share.dtype)
        pull = functools.partial(self._pull, self.moved)
        self.pulled = jax.make_jaxpr(pull)(leaves, number, self.carry.floats(leaves), share)
        steps = slice(len(leaves))
        read = inputs_read(self.pulled)[steps]
        self.rows = Rows(self.jaxpr.invars[steps], self.jaxpr.outvars[steps], read)

    def _traced(self, dynamics, stepper):
        """(those arrays a step is made of that depend on what is differentiated, the others); traces the step."""
        loop = differentiable_step_loop(dynamics, stepper)
        readings = Readings(self.cost, loop, self.state)

        def step(leaves, k):
            carry, share = loop.steps(self.carry.tree(leaves), k, 1, readings.monitor, readings.nothing())
            return jax.tree.leaves(carry), share

        closed = jax.make_jaxpr(step)(self.carry.leaves, jax.ShapeDtypeStruct((), jnp.int32))
        self.jaxpr, self.touched = closed.jaxpr, perturbed(closed.consts)
        pairs = list(zip(closed.consts, self.touched))
        return [c for c, moves in pairs if moves], [c for c, moves in pairs if not moves]

    def _step(self, moved, leaves, k):
        """(leaves of the carry, share of readings) after step number k."""
        *leaves, share = jax.core.eval_jaxpr(self.jaxpr, self._constants(moved), *leaves, k)
        return leaves, share

    def _constants(self, moved):
        """Of the jaxpr of a step, with those that depend on what is differentiated as given."""
        moved, others = iter(moved), iter(self.others)
        return [next(moved if moves else others) for moves in self.touched]

    def _pull(self, moved, leaves, k, bars, share_bar):
        """Cotangents of (moved constants, float leaves of the carry) from those after the step."""

        def floats_after(moved, floats):
            new, share = self._step(moved, self.carry.merged(leaves, floats), k)
            return self.carry.floats(new), share

        return jax.vjp(floats_after, moved, self.carry.floats(leaves))[1]((bars, share_bar))

    # -- forwards -----------------------------------------------------------------------------------------------------

    @functools.cached_property
    def fast(self) -> "Swift":
        return Swift(self._fast(self.dynamics, self.stepper), self.loop)

    def record(self, carry: Any, acc: Any, span: Span, level: int = -1) -> tuple[Any, Any, Any]:
        """(carry and acc after the Span, what `sweep` needs)."""
        level = level % len(self.lengths)
        if level == 0:
            return self._record_steps(carry, acc, span)
        length, loop = math.prod(self.lengths[:level]), self.fast
        readings = Readings(self.cost, loop, self.state)

        def part(k, everything):
            carry, acc, starts = everything
            starts, (same, acc) = keep(starts, (loop.out(carry), acc), k)
            carry = same if loop.alike else carry
            return *advance(loop, readings, carry, acc, span.part(k, length), self.lengths[0]), starts

        everything = loop.into(carry), acc, room((carry, acc), self.lengths[level])
        carry, acc, starts = jax.lax.fori_loop(0, span.parts(length), part, everything)
        return loop.out(carry), acc, starts

    def _record_steps(self, carry, acc, span):
        most = self.lengths[0]
        readings = Readings(self.cost, self.loop, self.state)
        kept, start = self.rows.begin(jax.tree.leaves(carry), most)

        def one(k, everything):
            leaves, kept, shares = everything
            arguments = *leaves, span.first + k
            kept, (*leaves, share) = self.rows.keep(kept, k, self.jaxpr, self._constants(self.moved), arguments)
            return leaves, kept, put(shares, share, k)

        everything = start, kept, jnp.zeros((most, readings.count), readings.dtype)
        leaves, kept, shares = jax.lax.fori_loop(0, span.count, one, everything)
        return self.carry.tree(leaves), readings.accumulate(acc, shares, span), (kept, shares, acc)

    # -- backwards ----------------------------------------------------------------------------------------------------

    def sweep(self, stored: Any, span: Span, bars: tuple[Any, Any]) -> tuple[Any, ...]:
        """Cotangents of (params, float leaves of the carry, acc) before the Span.

        Args:
            stored: what `record` gave.
            span: as there.
            bars: cotangents of (float leaves of the carry, acc) after it.
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
            *_, inner = self.record(*taken(stored, k), within, level - 1)
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
            found = evaluate(self.pulled, [*leaves, number, *bars[1], share_bar])
            return [old + new for old, new in zip(bars[0], found)], found[len(bars[0]) :]

        moved, carry = jax.lax.fori_loop(0, span.count, one, (moved, carry))
        return moved, carry, acc_bar


class Swift:
    """A step loop that starts from, and ends with, carries of another one."""

    def __init__(self, loop: Any, other: Any):
        self.loop, self.other, self.alike = loop, other, type(loop) is type(other)
        self.equations, self.period, self.steps = loop.equations, loop.period, loop.steps

    def into(self, carry: Any) -> Any:
        return carry if self.alike else self.loop.pack_state(*self.other.unpack_state(carry))

    def out(self, carry: Any) -> Any:
        return carry if self.alike else self.other.pack_state(*self.loop.unpack_state(carry))


def integrate(
    dynamics: Dynamics,
    stepper: TimeStepper,
    state: State,
    steps: int,
    history: Any = None,
    lengths: Sequence[int] | None = None,
) -> tuple[State, Any]:
    """`integration.integrate`, which keeps few states when JAX differentiates it in reverse mode.

    For costs of one's own under jax.grad or jax.vjp, in one program. A custom VJP has no forward mode (jax.jvp refuses
    it): tangents are those of integration.integrate, and Hessian products the jvp of a gradient of this.

    Args:
        dynamics, stepper, state, steps, history: as there.
        lengths: parts at each level, innermost (steps) first, whose product is `steps` or more; two levels of about
            sqrt(steps) unless given. Each interval between forcing records has levels of its own, of these lengths or
            its own.

    Returns:
        (state, history) after the last step.
    """
    check_covered("adjoint.integrate", dynamics, stepper, steps)
    if lengths and math.prod(lengths) < steps:
        raise ConfigError(
            f"integrate: lengths = {tuple(lengths)} hold {math.prod(lengths)} steps, and {steps} are asked for; "
            "give longer ones."
        )
    history = stepper.history(state) if history is None else history

    def run(here, carry, count):
        return _few_states(here, stepper, carry, count, tuple(lengths or even_lengths(count, 2)))

    ends = differentiable_step_loop(dynamics.interval(0), stepper, prepared=False)
    end = each_interval(dynamics, steps, ends.pack_state(state, history), run)
    return ends.unpack_state(end)


def _few_states(dynamics, stepper, carry, steps, lengths):
    """The carry after `steps` steps in one interval between forcing records; `integrate` says how."""
    leaves, structure = jax.tree.flatten((dynamics, stepper))

    def span(leaves):  # made anew in each trace: JAX's custom rules may close over nothing that another trace made
        return Span(jax.tree.unflatten(structure, leaves)[0].first, jnp.int32(steps))

    def tape(leaves, touched, carry):
        def make(params):
            params = iter(params)
            return jax.tree.unflatten(structure, [next(params) if t else x for x, t in zip(leaves, touched)])

        return Tape(make, [x for x, t in zip(leaves, touched) if t], None, carry, lengths)

    @jax.custom_vjp
    def run(leaves, carry):
        loop = differentiable_step_loop(*jax.tree.unflatten(structure, leaves))
        loop = Swift(step_loop(*jax.tree.unflatten(structure, leaves)), loop)
        return loop.out(run_steps(loop, loop.into(carry), steps, first=span(leaves).first)[0])

    def forward(leaves, carry):
        touched = Touched(tuple(bool(x.perturbed) for x in leaves))
        leaves, carry = jax.tree.map(lambda x: x.value, (leaves, carry), is_leaf=lambda x: hasattr(x, "perturbed"))
        end, _, stored = tape(leaves, touched.flags, carry).record(carry, (), span(leaves))
        return end, (leaves, touched, jax.tree.map(Shape.of, carry), stored)

    def backward(kept, bars):
        leaves, touched, carry, stored = kept
        carry = jax.tree.map(lambda x: x.like, carry, is_leaf=lambda x: isinstance(x, Shape))
        shapes = Floats(carry)
        bars = shapes.floats(jax.tree.leaves(bars, is_leaf=_is_zero))
        bars = [jnp.zeros(bar.shape, bar.dtype) if _is_zero(bar) else bar for bar in bars]
        params, carry_bar, _ = tape(leaves, touched.flags, carry).sweep(stored, span(leaves), (bars, ()))
        params, carry_bar = iter(params), iter(carry_bar)
        of_leaves = [next(params) if t else None for t in touched.flags]
        return of_leaves, shapes.tree([next(carry_bar) if real else None for real in shapes.real])

    run.defvjp(forward, backward, symbolic_zeros=True)
    return run(leaves, carry)


def _is_zero(x):
    return isinstance(x, SymbolicZero)


@pytree
class Shape:
    """Of an array; structure, no data."""

    shape: tuple = static()
    dtype: str = static()

    @staticmethod
    def of(x: Any) -> "Shape":
        return Shape(jnp.shape(x), str(jnp.result_type(x)))

    @property
    def like(self) -> jax.ShapeDtypeStruct:
        return jax.ShapeDtypeStruct(self.shape, self.dtype)


@pytree
class Touched:
    """Which leaves are differentiated; structure, no data."""

    flags: tuple = static()


def even_lengths(steps: int, levels: int) -> tuple[int, ...]:
    """Parts at each level, all about as many, whose product is `steps` or little more; innermost first."""
    lengths = []
    for level in range(levels, 0, -1):
        lengths.append(max(math.ceil(round(steps ** (1 / level), 9)), 1))
        steps = -(-steps // lengths[-1])
    return tuple(lengths)
