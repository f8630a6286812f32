"""Many steps of a family of grids in one program, which JAX differentiates in both modes."""

import jax
import jax.numpy as jnp

from ..fields.state import State
from .steps import FamilySystem, outermost_step

__all__ = ["integrate"]


def integrate(dynamics: FamilySystem, states: tuple[State, ...], steps: int) -> tuple[State, ...]:
    """The States of all grids after `steps` steps of the outermost one: differentiable in `dynamics` and `states`.

    Args:
        dynamics: of `family.dynamics(stepper)`.
        states: those to start from, in the order of `family.names`.
        steps: a number of steps, static.
    """
    loops = dynamics.loops()
    level = dynamics.level(loops)
    carries = tuple(
        (loop.pack_state(state, stepper.history(state)), ())
        for loop, state, stepper in zip(loops, states, dynamics.steppers, strict=True)
    )

    def one(carries: tuple, step: jax.Array) -> tuple[tuple, None]:
        return outermost_step(level, carries, step), None

    carries, _ = jax.lax.scan(one, carries, jnp.arange(steps, dtype=jnp.int32))
    return tuple(loop.get_state(packed) for loop, (packed, _) in zip(loops, carries, strict=True))
