"""The step loop of a run, the run inside one compiled program that JAX differentiates, and the fused loops of a step.

`step_loop` chooses the StepLoop of a run. `integrate` is a function of model, time step and state that JAX
differentiates in both modes. `loops_of_steps` and `loops_of_adjoint` find fused loops by tracing, without compiling or
running anything.
"""

import dataclasses
import functools
import itertools
import logging
import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import jax
import jax.core
import jax.numpy as jnp
import numpy as np

from ..dynamics.clock import Time
from ..dynamics.terms import holds_windows
from ..fields.field import Count
from ..fields.parameters import Number, Part, check_arguments
from ..fields.state import State, remembered, replace
from ..runtime.compilation import jit
from ..stencils.compiled import Access, Cost, cost, loop_title, loops_in, reads, types_of
from ..stencils.native import usable
from ..stencils.native.library import CompileError
from .fused import POLE, NotCompiled
from .members import Members, first_member, per_member
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


@dataclasses.dataclass(frozen=True)
class Loop:
    """One fused loop of a time step.

    Attributes:
        graph: the Graph of its operations.
        dtypes: element types, (of the arrays that it reads, of its results).
        over: for each result the name of the array that it overwrites, or None.
        margin: the number of cells around the tile that it computes, too.
        members: the number of ensemble members that one call computes.
    """

    graph: Any
    dtypes: tuple
    over: tuple
    margin: int
    members: int

    @property
    def title(self) -> str:
        """The names of its results."""
        return loop_title(self.graph)

    @property
    def reads(self) -> list[Access]:
        """The arrays that it reads."""
        return reads(self.graph)

    @property
    def cost(self) -> Cost:
        """Operations and bytes for each cell."""
        return cost(self.graph, self.dtypes)


@on_tiles
def _steps(dynamics, stepper, start):
    loop = step_loop(dynamics, stepper)
    return loop.steps(loop.pack_state(*start), 0, loop.period)[0]


def loops_of_steps(dynamics: "System", stepper: "TimeStepper", start: tuple[State, History]) -> tuple[list[Loop], int]:
    """(the fused loops of some steps, in order; the number of these steps); no loops where steps run on arrays.

    The number of steps is that after which buffers are back in their first roles. Collective.

    Args:
        dynamics: a System, or the Members of an ensemble, as programs take them.
        stepper: a TimeStepper, likewise.
        start: (state, history).
    """
    closed, period = jax.make_jaxpr(_steps)(dynamics, stepper, start), []
    one = getattr(dynamics, "dynamics", dynamics)
    jax.eval_shape(
        one.communicator.spmd(lambda d, s: period.append(step_loop(d, s, prepared=False).period)), one, stepper
    )
    return [_loop(equation) for equation in loops_in(closed.jaxpr)], period[0]


def loops_of_adjoint(dynamics: "System", stepper: "TimeStepper", state: State, steps: int) -> list[Loop]:
    """The fused loops with which the adjoint of some steps goes back through them, in the order of their execution.

    They compute what they need of the steps again, from the states before them. Collective.

    Args:
        dynamics: a System, as programs take it.
        stepper: a TimeStepper, likewise.
        state: the State at the beginning.
        steps: their number.
    """

    def end(state):
        return integrate(dynamics, stepper, state, steps)[0]

    def gradient(state):
        final, back = jax.vjp(end, state)
        return back(final)

    forward, both = (loops_in(jax.make_jaxpr(program)(state).jaxpr) for program in (end, gradient))
    return [_loop(equation) for equation in list(both)[len(list(forward)) :]]


def _loop(equation):
    parameters = equation.params
    graph, layout = parameters["graph"], parameters["layout"]
    names = {k: access.name for k, access in zip(graph.reads(), reads(graph))}
    return Loop(
        graph,
        types_of(equation),
        tuple(None if k is None else names.get(k, "another array") for k in parameters["aliases"]),
        parameters["margin"],
        layout.members or 1,
    )
