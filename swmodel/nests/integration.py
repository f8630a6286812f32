"""Many steps of a family of grids in one program, which JAX differentiates in both modes."""

from ..fields.state import State
from ..stepping.loop import scan_steps
from .steps import FamilyLoop, FamilySystem

__all__ = ["integrate"]


def integrate(dynamics: FamilySystem, states: tuple[State, ...], steps: int) -> tuple[State, ...]:
    """The States of all grids after `steps` steps of the outermost one: differentiable in `dynamics` and `states`.

    Args:
        dynamics: of `family.dynamics(stepper)`.
        states: those to start from, in the order of `family.names`.
        steps: a number of steps, static.
    """
    loop = FamilyLoop(dynamics, dynamics.steppers[0])
    return loop.get_state(scan_steps(loop, loop.start(states), steps))
