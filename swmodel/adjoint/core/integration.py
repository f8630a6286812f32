"""`integrate` with few stored states, for costs of one's own under jax.grad."""

import math
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jax.custom_derivatives import SymbolicZero

from ...dynamics.system import System
from ...errors import ConfigError
from ...fields.state import State, pytree, static
from ...stepping.explicit import TimeStepper
from ...stepping.loop import check_covered, each_interval, step_loop
from ...stepping.steps import History, run_steps
from .checkpointing import Span, Tape, even_lengths
from .leaves import Floats


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
        return Span(jax.tree.unflatten(structure, leaves)[0].first, jnp.int32(steps))

    def tape(leaves, touched, carry):
        def make(params):
            params = iter(params)
            return jax.tree.unflatten(structure, [next(params) if t else x for x, t in zip(leaves, touched)])

        return Tape(make, [x for x, t in zip(leaves, touched) if t], None, carry, lengths)

    @jax.custom_vjp
    def run(leaves, carry):
        loop = step_loop(*jax.tree.unflatten(structure, leaves))
        first: Any = span(leaves).first
        return run_steps(loop, carry, steps, first=first)[0]

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
