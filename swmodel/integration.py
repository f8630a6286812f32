"""A stepper, many times, inside one compiled program. Knows nothing of outputs or adjoints."""
import jax
import jax.numpy as jnp

from .pytrees import replace

__all__ = ["one_step", "integrate"]


def one_step(equations, stepper, state, history, step):
    """(state, history) one time step later; the sea floor's rise over the step lifts the surface with it."""
    state, history = stepper.step(equations, state, history, step)
    if equations.uplift is not None:
        state = replace(state, eta=state.eta + equations.uplift_during(step))
    return state, history


def integrate(dynamics, stepper, state, steps, history=None):
    """`steps` time steps under lax.scan: differentiable in `dynamics`, `stepper.dt` and `state`, in both modes.

    Args:
        dynamics: a Dynamics; its windows must cover the steps.
        stepper: a TimeStepper.
        state: the State to start from.
        steps: a number of steps, static.
        history: the stepper's, to go on with; a fresh one by default.

    Returns:
        (state, history) after the last step.
    """
    equations = dynamics.prepare()
    history = stepper.history(state) if history is None else history

    def body(carry, step):
        return one_step(equations, stepper, *carry, step), None

    numbers = jnp.arange(steps, dtype=state.eta.dtype)
    (state, history), _ = jax.lax.scan(body, (state, history), numbers)
    return state, history
