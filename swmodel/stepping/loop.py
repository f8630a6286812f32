"""The step loop of a run, the run inside one compiled program that JAX differentiates, and many members in one program.

`step_loop` chooses the StepLoop of a run. `integrate` is a function of model, time step and state that JAX
differentiates in both modes.

What differs between the members of an ensemble has one more axis, in front, over which JAX's vmap maps. A tile's arrays
of shape (ny, nx) become (members, ny, nx), with any communicator; one message carries all members. Values that are the
same in all members are stored, and computed, once.
"""

import functools
import itertools
import logging
import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import jax
import jax.core
import jax.numpy as jnp
import numpy as np

from ..dynamics.clock import Time
from ..dynamics.terms import holds_windows
from ..fields.field import Count
from ..fields.parameters import Number, Part, check_arguments
from ..fields.state import State, pytree, remembered, replace, static
from ..parallel.communicator import Communicator
from ..runtime.compilation import jit
from ..stencils.native import usable
from ..stencils.native.library import CompileError
from .fused import POLE, NotCompiled
from .steps import ArrayStepLoop, Carry, History, StepLoop, scan_steps

if TYPE_CHECKING:
    from ..dynamics.system import System
    from .explicit import TimeStepper


def step_loop(dynamics: "System", stepper: "TimeStepper", prepared: bool = True) -> StepLoop:
    """A StepLoop of the class `dynamics.step_loop`, where this has all operations of the step; else one on arrays.

    Args:
        dynamics: a System.
        stepper: a TimeStepper.
        prepared: False skips the preparation that only `steps` needs, which takes less time.

    Raises:
        CompileError: if a loop cannot be compiled and there are several processes.
    """
    kind = dynamics.step_loop
    if kind is not ArrayStepLoop and not _is_possible(dynamics, stepper):
        kind = ArrayStepLoop
    return kind(dynamics, stepper, prepared)


T = TypeVar("T")  # a carry of steps, and of what is computed along with them
_OBSTACLES = {}  # {(structure, shapes and types of dynamics and stepper): result of `obstacle`}


def _is_possible(dynamics, stepper):
    """Whether a loop of the class `dynamics.step_loop` can execute the steps.

    A single process falls back on arrays where the compiler fails; several processes raise CompileError.
    """
    why = obstacle(dynamics, stepper)
    if isinstance(why, NotCompiled):
        if dynamics.communicator.size > len(dynamics.communicator.ranks):
            raise CompileError(why)
        warn_of_arrays(why)
    return why is None


@functools.cache
def warn_of_arrays(why: str) -> None:
    """Say once why steps run on arrays."""
    logging.getLogger("swmodel").warning("steps run on arrays, several times slower than in fused loops: %s", why)


def obstacle(dynamics: "System", stepper: "TimeStepper") -> str | None:
    """A phrase that explains why the steps of one member do not run in fused loops; None where they do. Inside spmd."""
    if dynamics.step_loop is ArrayStepLoop:
        return _why_arrays(dynamics)
    return remembered(_OBSTACLES, (dynamics, stepper), lambda: dynamics.step_loop.obstacle(dynamics, stepper))


def _why_arrays(dynamics):
    if not dynamics.core.halos:
        return f"{type(dynamics.core).__name__} has no loops of differences"
    if dynamics.tile.pole is not None:
        return POLE
    chosen = usable() or jax.default_backend() != "cpu"  # kernels of GPUs need no C++ compiler
    return "engine = 'arrays' was chosen" if chosen else "no C++ compiler works here"


def engine_of(dynamics: "System | Members", stepper: "TimeStepper") -> tuple[str, str | None]:
    """(the engine of these steps, "fused" or "arrays"; the obstacle to fused loops, or None); collective.

    Args:
        dynamics: a System, or the Members of an ensemble, as programs take them.
        stepper: a TimeStepper, likewise.
    """
    one: Any = getattr(dynamics, "dynamics", dynamics)
    found = []

    def look(dynamics, stepper):
        found.append(obstacle(dynamics, stepper))
        return jnp.zeros((), jnp.int32)

    if isinstance(dynamics, Members):  # their numbers have one more axis, which does not change what runs
        one = first_member(dynamics)
    jax.eval_shape(dynamics.communicator.spmd(look), one, stepper)
    return (one.step_loop if found[0] is None else ArrayStepLoop).name, found[0]


_NATIVE = {}  # {(structure, shapes and types of dynamics and stepper): result of `is_native`}


def is_native(dynamics: "System | Members", stepper: "TimeStepper", *_: object) -> bool:
    """Whether loops that XLA does not compile do all of the work of these steps; collective.

    Args:
        dynamics: a System, or the Members of an ensemble, as programs take them.
        stepper: a TimeStepper, likewise.
    """
    one: Any = getattr(dynamics, "dynamics", dynamics)
    if stepper.is_implicit or not one.step_loop.compiles():
        return False
    return remembered(_NATIVE, (dynamics, stepper), lambda: engine_of(dynamics, stepper)[1] is None)


def on_tiles(function: Callable, **options: Any) -> Callable:
    """The compiled program of a function of (dynamics, stepper, arrays of all members, ...), on every tile."""

    def program(dynamics, *arguments):
        return on_each_tile(dynamics, function)(dynamics, *arguments)

    return jit(program, **options)


def on_each_tile(dynamics: "System | Members", function: Callable, at: int = 1) -> Callable:
    """A function of (System, ...) as one of `dynamics`, on every tile and of all members; `at` as of `per_member`."""
    return dynamics.communicator.spmd(per_member(function, at) if isinstance(dynamics, Members) else function)


@on_tiles
def pack_state(dynamics: "System", stepper: "TimeStepper", start: tuple[State, History]) -> Carry:
    """The carry of the step loop for `start`, (state, history), in new arrays, which its steps overwrite."""
    return step_loop(dynamics, stepper, prepared=False).pack_state(*jax.tree.map(jnp.copy, start))


@on_tiles
def unpack_state(dynamics: "System", stepper: "TimeStepper", carry: Carry) -> tuple[State, History]:
    """(state, history) in a carry of the step loop."""
    return step_loop(dynamics, stepper, prepared=False).unpack_state(carry)


@on_tiles
def shown(dynamics: "System", stepper: "TimeStepper", at: tuple[State, Count]) -> State:
    """The State in `at`, (State, number of its step), as files show it: of tracers the concentration."""
    state, step = at
    return stepper.system(dynamics).shown(state, Time(step))


_RULES = {
    "dynamics": Part(("covers", "interval"), "model.dynamics(stepper, steps=100)"),
    "stepper": Part(("history", "dt"), "AB2(dt=60.0)"),
    "state": Part(("names", "eta"), "model.at_rest()"),
    "steps": Number(None, "steps", minimum=0, whole=True),
}


def integrate(
    dynamics: "System", stepper: "TimeStepper", state: State, steps: int, history: History | None = None
) -> tuple[State, History]:
    """`steps` time steps: differentiable in `dynamics`, `stepper.dt` and `state`, in both modes.

    The result is that of a Simulation: forcing follows its records through the whole run.

    Args:
        dynamics: of `model.dynamics(stepper, step, steps)`, for the same stepper; from `step` on.
        stepper: a TimeStepper.
        state: the State to start from.
        steps: a number of steps, static.
        history: the stepper's history, to continue a run; an empty one by default.

    Returns:
        (state, history) after the last step.

    Raises:
        ValueError: for wrong arguments, and where the records in `dynamics` end before the last step, or belong to
            another time step.
    """
    check_arguments("integrate", _RULES, locals())
    steps = int(steps)
    check_covered("integrate", dynamics, stepper, steps)
    history = stepper.history(state) if history is None else history
    ends = step_loop(dynamics.interval(0), stepper, prepared=False)

    def run(here, carry, count):
        return scan_steps(step_loop(here, stepper), carry, count, here.first)

    return ends.unpack_state(each_interval(dynamics, steps, ends.pack_state(state, history), run))


def check_covered(who: str, dynamics: "System", stepper: "TimeStepper", steps: int) -> None:
    """Raise ValueError for a System whose forcing records do not cover a run of `steps` steps, or not with this dt."""
    covers = dynamics.covers
    if dynamics.first is None or (
        covers is None and holds_windows((dynamics.terms, dynamics.open_boundaries, dynamics.uplift))
    ):
        raise ValueError(
            f"{who}: this System holds records of one interval of the forcing, and a run of {steps} steps may need "
            f"more; make it by model.dynamics(stepper, step=0, steps={steps})."
        )
    if covers is None:
        return
    if steps > covers.steps:
        raise ValueError(
            f"{who}: this System holds the records of {covers.steps} steps, and the run has {steps}; make it by "
            f"model.dynamics(stepper, step=0, steps={steps})."
        )
    dt = stepper.dt
    if not isinstance(dt, jax.core.Tracer) and abs(float(dt) - covers.dt) > 1e-6 * covers.dt:
        raise ValueError(
            f"{who}: the records in this System are cut for steps of {covers.dt:g} s, and the stepper's dt is "
            f"{float(dt):g} s; make both of one stepper: model.dynamics(stepper, step=0, steps={steps})."
        )


def each_interval(dynamics: "System", steps: int, carry: T, run: Callable[["System", T, int], T]) -> T:
    """`steps` steps, by `carry = run(dynamics, carry, count)` for each interval between forcing records in turn.

    The System passed to `run` are those of the interval, with the number of its first step. Consecutive intervals of
    the same length share one program, under lax.scan.
    """
    begin = 0
    for count, intervals in _alike(dynamics.covers, steps):

        def one(carry, place, count=count):
            interval, start = place
            here = replace(dynamics.interval(interval), first=dynamics.first + start)
            return run(here, carry, count), None

        starts = begin + count * np.arange(len(intervals), dtype=np.int32)
        if len(intervals) == 1:
            carry, _ = one(carry, (intervals[0], starts[0]))
        else:
            carry, _ = jax.lax.scan(one, carry, (jnp.asarray(intervals, jnp.int32), jnp.asarray(starts)))
        begin += count * len(intervals)
    return carry


MOST_PROGRAMS = 8  # the largest number of programs that one run is compiled to, one for each length of intervals


def _alike(covers, steps):
    """[(number of steps, consecutive intervals of this length)] that make up `steps` steps.

    Where this would take more than MOST_PROGRAMS programs, intervals are cut into parts of a common length.
    """
    parts, left = [], steps
    for number, length in enumerate((steps,) if covers is None else covers.intervals):
        parts.append((min(length, left), number))
        left -= parts[-1][0]
    parts = [part for part in parts if part[0]]
    if len(_grouped(parts)) > MOST_PROGRAMS:
        common = math.gcd(*(length for length, _ in parts))
        parts = [(common, number) for length, number in parts for _ in range(length // common)]
    return _grouped(parts)


def _grouped(parts):
    groups = itertools.groupby(parts, key=lambda part: part[0])
    return [(length, [number for _, number in group]) for length, group in groups]


# -- the members of an ensemble ---------------------------------------------------------------------------------------


SAME, FIELD, NUMBER = 0, 1, 2


@pytree
class Members:
    """The System of all members.

    Attributes:
        dynamics: a System, in which leaves that differ have the members in front.
        kinds: of its leaves: SAME in all members, a FIELD of each, or a NUMBER of each, in an array (members, 1).
    """

    dynamics: Any
    kinds: tuple = static()

    @property
    def communicator(self) -> Communicator:
        return self.dynamics.communicator


def stacked(communicator: Communicator, trees: Sequence[T], kinds: Sequence[int]) -> T:
    """One pytree of many of the same structure, with leaves of a kind other than SAME stacked along a first axis.

    Numbers become arrays (members, 1), because a vector (members,) could be mistaken for one along a tile.
    """
    leaves = [jax.tree.leaves(tree) for tree in trees]
    differ = [k for k, kind in enumerate(kinds) if kind != SAME]
    columns = [[jnp.asarray(member[k]) for member in leaves] for k in differ]
    new = dict(zip(differ, _joined(communicator, tuple(kinds[k] for k in differ), columns)))
    return jax.tree.unflatten(jax.tree.structure(trees[0]), [new.get(k, x) for k, x in enumerate(leaves[0])])


@functools.partial(jit, static_argnums=(0, 1))
def _joined(communicator, kinds, columns):
    def join(columns):
        whole = [jnp.stack(column) for column in columns]
        return [x[:, None] if kind == NUMBER else x for kind, x in zip(kinds, whole)]

    return communicator.spmd(join)(columns) if columns else []


def first_member(members: Members) -> "System":
    """Shapes of the System of one member, for traces that need no values."""
    leaves, structure = jax.tree.flatten(members.dynamics)
    first = {SAME: lambda x: x, FIELD: lambda x: x[0], NUMBER: lambda x: x[0, 0]}

    def cut(leaves):
        return [first[kind](x) for x, kind in zip(leaves, members.kinds)]

    return jax.tree.unflatten(structure, jax.eval_shape(members.communicator.spmd(cut), leaves))


def per_member(function: Callable, at: int) -> Callable:
    """`function(dynamics, *arguments)` with Members for its dynamics.

    Args:
        function: of one System and arrays of one member.
        at: the number of the argument after the dynamics that holds all members. Its arrays have the members as first
            axis, and its numbers belong to all of them. The same holds for the results.
    """

    def of_all(dynamics, *arguments):
        leaves, structure = jax.tree.flatten(dynamics.dynamics)
        leaves = [x[:, 0] if kind == NUMBER else x for x, kind in zip(leaves, dynamics.kinds)]
        axes = jax.tree.unflatten(structure, [None if kind == SAME else 0 for kind in dynamics.kinds])
        held = [None] * len(arguments)
        held[at] = jax.tree.map(lambda x: 0 if jnp.ndim(x) else None, arguments[at])
        results = jax.vmap(function, in_axes=(axes, *held))(jax.tree.unflatten(structure, leaves), *arguments)
        return jax.tree.map(lambda x: x[0] if x.ndim == 1 else x, results)

    return of_all
