"""Many steps inside one compiled program. Knows nothing of outputs or adjoints.

`march` runs a carry on; `integrate` is the function of a state that studies differentiate, in both modes: through fused
loops, which have derivatives on CPUs, or through the same steps on arrays.
"""
import functools

import jax
import jax.numpy as jnp

from .compilation import jit
from .kernels import POLE, FusedEngine
from .marching import ArrayMarch, one_step, unwatched
from .members import Members, first_member, per_member
from .native import usable

__all__ = [
    "begin", "differentiable_march_of", "engine_of", "integrate", "march", "march_of", "on_tiles", "one_step",
    "reached", "scan_steps",
]  # fmt: skip


def march_of(dynamics, stepper, prepared=True):
    """The march that dynamics.engine asks for: "fused" loops, where they have all that the physics needs, or "arrays".

    "interpreted" are the GPU's loops in Pallas's interpreter, to test them anywhere. Where not `prepared`, it has no
    `steps`, and is made in less time.
    """
    return (FusedEngine if _fuses(dynamics, stepper) else ArrayMarch)(dynamics, stepper, prepared)


def differentiable_march_of(dynamics, stepper):
    """The march whose `steps` JAX differentiates, in both modes: fused loops on CPUs, arrays elsewhere."""
    return march_of(dynamics, stepper) if _loops_have_derivatives(dynamics) else ArrayMarch(dynamics, stepper)


def _loops_have_derivatives(dynamics):
    return dynamics.engine == "fused" and jax.default_backend() == "cpu"


_KNOWN = {}  # what was found out, by a trace of the step
MOST_KNOWN = 64


def _fuses(dynamics, stepper):
    return obstacle(dynamics, stepper) is None


def obstacle(dynamics, stepper):
    """Why the steps of one member do not run in fused loops, in words; None where they do. Inside spmd."""
    if dynamics.engine == "arrays":
        return _why_arrays(dynamics)
    if stepper.solves:
        return f"{type(stepper).__name__} solves an equation at each step, for which there are no loops"
    leaves, structure = jax.tree.flatten((dynamics, stepper))
    key = structure, tuple((jnp.shape(x), jnp.result_type(x)) for x in leaves)
    if key not in _KNOWN:
        while len(_KNOWN) >= MOST_KNOWN:
            _KNOWN.pop(next(iter(_KNOWN)))
        _KNOWN[key] = FusedEngine.obstacle(dynamics, stepper)
    return _KNOWN[key]


def _why_arrays(dynamics):
    if not dynamics.core.halos:
        return f"{type(dynamics.core).__name__} has no loops of differences"
    if dynamics.tile.pole is not None:
        return POLE
    if jax.default_backend() != "cpu":
        return "on this device XLA fuses operations"
    return "engine = 'arrays' was chosen" if usable() else "no C++ compiler works here"


def engine_of(dynamics, stepper) -> tuple[str, str | None]:
    """What steps of these run as, "fused" or "arrays", and why not as fused loops; collective.

    Args:
        dynamics: a Dynamics, or the Members of an ensemble, as programs take them.
        stepper: a TimeStepper, likewise.
    """
    one, found = getattr(dynamics, "dynamics", dynamics), []

    def look(dynamics, stepper):
        found.append(obstacle(dynamics, stepper))
        return jnp.zeros((), jnp.int32)

    if isinstance(dynamics, Members):  # their numbers have one more axis, which does not change what runs
        one = first_member(dynamics)
    jax.eval_shape(dynamics.communicator.spmd(look), one, stepper)
    return ("fused" if found[0] is None else "arrays"), found[0]


def on_tiles(function, **options):
    """The program of a function of (dynamics, stepper, what all members have, ...), on every tile."""

    def program(dynamics, *arguments):
        return dynamics.communicator.spmd(per_member(function, at=1))(dynamics, *arguments)

    return jit(program, **options)


@on_tiles
def begin(dynamics, stepper, both):
    """(state, history) as a march keeps them, in arrays of their own: loops overwrite theirs."""
    return march_of(dynamics, stepper, prepared=False).start(*jax.tree.map(jnp.copy, both))


@on_tiles
def reached(dynamics, stepper, marched):
    """(state, history) of what a march has kept."""
    way = march_of(dynamics, stepper, prepared=False)
    return way.state(marched), way.history(marched)


def march(way, carry, count, watch=unwatched, seen=()):
    """`count` steps of a march `way`; any number of them, static or not.

    Args:
        way: an ArrayMarch or FusedEngine.
        carry: its carry.
        count: of steps.
        watch: `watch(step, see, seen) -> seen` after each step; `step` counts from 0, and `see()` is the State: whoever
            looks now and then only (under lax.cond) calls it there, so that it is not made for nothing.
        seen: what it starts with.

    Returns:
        (carry, seen).
    """

    def some(start, length):
        return lambda k, both: way.steps(both[0], start + k * length, length, watch, both[1])

    count = jnp.asarray(count, jnp.int32)
    whole = count // way.period
    both = jax.lax.fori_loop(0, whole, some(jnp.int32(0), way.period), (carry, seen))
    rest = whole * way.period
    return both if way.period == 1 else jax.lax.fori_loop(0, count - rest, some(rest, 1), both)


def integrate(dynamics, stepper, state, steps, history=None):
    """`steps` time steps: differentiable in `dynamics`, `stepper.dt` and `state`, in both modes.

    Args:
        dynamics: a Dynamics; its windows must cover the steps.
        stepper: a TimeStepper.
        state: the State to start from.
        steps: a number of steps, static.
        history: the stepper's, to go on with; a fresh one by default.

    Returns:
        (state, history) after the last step.
    """
    history = stepper.history(state) if history is None else history
    run = functools.partial(_scanned, differentiable_march_of, steps=steps)
    if _loops_have_derivatives(dynamics) or not _fuses(dynamics, stepper):
        return run(dynamics, stepper, state, history)

    values = jax.custom_jvp(functools.partial(_scanned, march_of, steps=steps))
    values.defjvp(lambda primals, tangents: jax.jvp(run, primals, tangents))
    return values(dynamics, stepper, state, history)


def _scanned(way_of, dynamics, stepper, state, history, steps):
    way = way_of(dynamics, stepper)
    carry = scan_steps(way, way.start(state, history), steps)
    return way.state(carry), way.history(carry)


def scan_steps(way, carry, steps):
    """What `march` does, for a static number of `steps`, under lax.scan, which JAX can differentiate."""
    groups, rest = divmod(steps, way.period)
    starts = jnp.arange(groups, dtype=jnp.int32) * way.period
    carry, _ = jax.lax.scan(lambda carry, first: way.steps(carry, first, way.period), carry, starts)
    for step in range(steps - rest, steps):
        carry, _ = way.steps(carry, jnp.int32(step), 1)
    return carry
