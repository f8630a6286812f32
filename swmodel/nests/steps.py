"""Steps of a grid with the steps of its nests in one program, which JAX differentiates in both modes.

before = the outer values along the border
a step of the outer grid
after = the same values
fill the nest's frame with `before`
for each step of the nest:  make the step (with its own nests), fill its frame between `before` and `after`
give back means and fluxes, if the nest is two-way
"""

import dataclasses
import functools
import math
from collections.abc import Callable
from typing import Any, cast

import jax
import jax.numpy as jnp

from ..dynamics.clock import Time, as_time
from ..fields.field import Count
from ..fields.state import State, pytree, replace, static
from ..grids.geometry import TileGeometry
from ..parallel.communicator import Communicator
from ..stepping.explicit import TimeStepper
from ..stepping.loop import SAME, Members, is_native, step_loop
from ..stepping.steps import Carry, Monitor, StepLoop, Tree, no_monitor, scan_steps, without_invariants
from .border import Border, OuterValues

__all__ = ["FamilyLoop", "FamilySystem", "Level", "family_system", "integrate", "steps_of_family"]


@dataclasses.dataclass(frozen=True)
class Level:
    """A grid in a program.

    Attributes:
        number: its number in the list of carries.
        loop: its StepLoop.
        monitor: a Monitor, called after each of its steps.
        nests: ((Border, steps, Level), ...) of the nests in it.
        advance: `advance(carry, step)` makes a step of this grid alone, as `StepLoop.counted_step`.
    """

    number: int
    loop: StepLoop
    monitor: Monitor
    nests: tuple[tuple[Border, int, "Level"], ...] = ()
    advance: Any = None

    @property
    def period(self) -> int:
        """The number of steps after which the buffers of this grid and of all nests are in their first roles again.

        In a loop over single steps XLA copies them all in each step. It is 1 around nests in nests, whose program would
        be long: there the outer grids are copied.
        """
        if any(nest.nests for *_, nest in self.nests):
            return 1
        periods = [nest.period // math.gcd(nest.period, steps) for _, steps, nest in self.nests]
        return math.lcm(self.loop.period if self.loop.compiles() else 1, *periods)

    def traced(self, carries: tuple) -> "Level":
        """This Level, each of whose grids is traced once for all of its steps."""
        packed, _ = carries[self.number]
        nests = tuple((border, steps, nest.traced(carries)) for border, steps, nest in self.nests)
        advance = without_invariants(self.loop.counted_step, packed, jnp.int32(0))
        return dataclasses.replace(self, nests=nests, advance=advance)


def family_step(
    level: Level, carries: tuple, step: Count, fill: Callable[[Carry], Carry] = lambda packed: packed
) -> tuple[tuple, dict[str, jax.Array]]:
    """(the carries after step number `step` of a level and those of its nests in the same time, what is counted).

    What is counted is that of the level's own grid, of `StepLoop.counted_step`.

    Args:
        level: a Level, `traced`.
        carries: ((carry of the step loop, carry of the monitor), ...) of all levels.
        step: number of the step.
        fill: gives the level's own frame, in which a step leaves errors, the values at its end.
    """
    loop, (packed, monitored), before = level.loop, carries[level.number], []
    for border, *_ in level.nests:
        packed, outer = border.outer_values(loop, packed, step)
        before.append(outer)
    packed, passed = level.advance(packed, step)
    for (border, steps, nest), begun in zip(level.nests, before, strict=True):
        packed, after = border.outer_values(loop, packed, step + 1, passed)
        carries, of_nest = _nest_steps(border, steps, nest, carries, step * steps, (begun, after))
        if border.two_way:
            inner, watched = carries[nest.number]
            inner = nest.loop, inner, (step + 1) * steps
            packed, inner = border.give_back((loop, packed, step + 1), inner, after, cast(jax.Array, of_nest))
            carries = _with(carries, nest.number, (inner, watched))
    packed = fill(packed)
    if level.monitor is not no_monitor:
        monitored = level.monitor(step, functools.partial(loop.get_state, packed), monitored)
        monitored, packed = loop.after(monitored, packed)
    return _with(carries, level.number, (packed, monitored)), passed


def _nest_steps(
    border: Border, steps: int, nest: Level, carries: tuple, first: Count, outer: tuple[OuterValues, OuterValues]
) -> tuple[tuple, jax.Array | tuple[()]]:
    """(the carries after the `steps` of a nest, whose first one has the number `first`; what passed its border)."""
    begin, end = border.in_frame(*outer)

    def filled(packed: Carry, k: Count) -> Carry:
        flow = begin + jnp.asarray(k, begin.dtype) / steps * (end - begin)
        return border.fill_frame(nest.loop, packed, flow, first + k)

    def one(k: Count, both: tuple) -> tuple:
        carries, sums = both
        carries, passed = family_step(nest, carries, first + k, lambda packed: filled(packed, k + 1))
        return carries, jax.tree.map(jnp.add, sums, border.passed(nest.loop, passed))

    packed, monitored = carries[nest.number]
    carries = _with(carries, nest.number, (filled(packed, 0), monitored))
    return _in_groups(one, nest.period, (carries, border.nothing_passed()), steps)


def _in_groups(one: Callable, period: int, carries: tuple, count: Count) -> tuple:
    """`fori_loop(0, count, one, carries)`, of which an iteration makes a period of steps."""

    def group(k: Count, carries: tuple) -> tuple:
        for each in range(period):
            carries = one(k * period + each, carries)
        return carries

    whole = count // period
    carries = (
        group(0, carries) if isinstance(count, int) and whole == 1 else jax.lax.fori_loop(0, whole, group, carries)
    )
    if isinstance(count, int):
        for k in range(whole * period, count):
            carries = one(k, carries)
        return carries
    return carries if period == 1 else jax.lax.fori_loop(whole * period, count, one, carries)


@pytree
class FamilySystem:
    """The equations of a family of grids on one rank, as programs take them.

    Attributes:
        systems: the System of each grid, the outermost first.
        steppers: their TimeSteppers.
        borders: the Border of each grid but the first.
        inside: for each grid but the first, the number of the grid around it.
        steps: for each grid but the first, the number of its steps in one of the grid around it.
    """

    systems: tuple
    steppers: tuple
    borders: tuple
    inside: tuple[int, ...] = static()
    steps: tuple[int, ...] = static()

    @property
    def total_steps(self) -> list[int]:
        """The number of steps of each grid in one of the outermost grid."""
        found = [1]
        for outer, steps in zip(self.inside, self.steps, strict=True):
            found.append(found[outer] * steps)
        return found

    def loops(self) -> list[StepLoop]:
        """The StepLoop of each grid."""
        return [step_loop(system, stepper) for system, stepper in zip(self.systems, self.steppers, strict=True)]

    def level(self, loops: list[StepLoop], monitors: list[Monitor] | None = None, number: int = 0) -> Level:
        """The Level of grid `number`, with the nests in it."""
        nests = tuple(
            (self.borders[k], self.steps[k], self.level(loops, monitors, k + 1))
            for k, outer in enumerate(self.inside)
            if outer == number
        )
        return Level(number, loops[number], no_monitor if monitors is None else monitors[number], nests)

    @property
    def is_native(self) -> bool:
        """Whether native loops execute the steps of all grids; collective."""
        return all(map(is_native, self.systems, self.steppers))

    # -- as a System, of which a problem makes steps -------------------------------------------------------------------

    @property
    def communicator(self) -> Communicator:
        return self.systems[0].communicator

    @property
    def tile(self) -> TileGeometry:
        """The tile of the outermost grid."""
        return self.systems[0].tile

    @property
    def step_loop(self) -> type[StepLoop]:
        return FamilyLoop

    def prepare(self) -> "FamilySystem":
        """The prepared form; collective."""
        pairs = zip(self.steppers, self.systems, strict=True)
        return replace(self, systems=tuple(stepper.system(system) for stepper, system in pairs))

    def shown(self, states: tuple[State, ...], time: Any) -> tuple[State, ...]:
        """The States as files hold them, with concentrations of tracers; `time` is that of the outermost grid."""
        return self._each("shown", states, time)

    def stored(self, states: tuple[State, ...], time: Any) -> tuple[State, ...]:
        """The inverse of `shown`."""
        return self._each("stored", states, time)

    def _each(self, how, states, time):
        steps = [as_time(time).step * total for total in self.total_steps]
        pairs = zip(self.systems, states, steps, strict=True)
        return tuple(getattr(system, how)(state, Time(step)) for system, state, step in pairs)


def family_system(systems: tuple, *others: Any) -> FamilySystem | Members:
    """The FamilySystem of Systems and its `others`; of the Members of an ensemble on each grid, the Members of it."""
    if not all(isinstance(system, Members) for system in systems):
        return FamilySystem(systems, *others)
    whole = FamilySystem(tuple(members.dynamics for members in systems), *others)
    kinds = tuple(kind for members in systems for kind in members.kinds)
    return Members(whole, kinds + (SAME,) * (len(jax.tree.leaves(whole)) - len(kinds)))


class FamilyLoop(StepLoop):
    """Steps of the outermost grid with those of its nests, as one StepLoop: its state is a tuple of States.

    Args:
        dynamics: a FamilySystem.
        stepper: the outermost grid's TimeStepper; `dynamics` has those of all grids.
        prepared: False skips the preparation that only `steps` needs.
    """

    name = "family"

    def __init__(self, dynamics: Any, stepper: TimeStepper, prepared: bool = True):
        pairs = zip(dynamics.systems, dynamics.steppers, strict=True)
        self.loops, self.stepper = [step_loop(system, own, prepared) for system, own in pairs], stepper
        self.level = dynamics.level(self.loops)
        self.period = self.level.period
        if prepared:
            self.equations = replace(dynamics, systems=tuple(loop.equations for loop in self.loops))

    @classmethod
    def compiles(cls) -> bool:
        return True

    def start(self, state: Any) -> Any:
        return tuple(loop.start(each) for loop, each in zip(self.loops, state, strict=True))

    def pack_state(self, state: Any, history: Any) -> Any:
        return tuple(loop.pack_state(*both) for loop, *both in zip(self.loops, state, history, strict=True))

    def unpack_state(self, carry: Any) -> Any:
        return tuple(zip(*(loop.unpack_state(each) for loop, each in zip(self.loops, carry, strict=True))))

    def get_state(self, carry: Any) -> Any:
        return tuple(loop.get_state(each) for loop, each in zip(self.loops, carry, strict=True))

    def steps(
        self, carry: Any, first: Count, count: int, monitor: Monitor = no_monitor, monitored: Tree = ()
    ) -> tuple[Any, Any]:
        carries = tuple((each, ()) for each in carry)
        level = self.level.traced(carries)
        for k in range(count):
            carries, _ = family_step(level, carries, first + k)
            carry = tuple(each for each, _ in carries)
            if monitor is not no_monitor:
                monitored = monitor(first + k, functools.partial(self.get_state, carry), monitored)
                for number, loop in enumerate(self.loops):
                    monitored, each = loop.after(monitored, carry[number])
                    carry = _with(carry, number, each)
                carries = tuple((each, ()) for each in carry)
        return carry, monitored


def steps_of_family(level: Level, carries: tuple) -> Callable[[tuple, Count, Count], tuple]:
    """`run(carries, first, count)` makes steps of the outermost Level from such carries, which all levels have."""
    traced = level.traced(carries)

    def run(carries, first, count):
        return _in_groups(lambda k, each: family_step(traced, each, first + k)[0], level.period, carries, count)

    return run


def _with(carries: tuple, number: int, new: Any) -> tuple:
    return (*carries[:number], new, *carries[number + 1 :])


def integrate(dynamics: FamilySystem, states: tuple[State, ...], steps: int) -> tuple[State, ...]:
    """The States of all grids after `steps` steps of the outermost one: differentiable in `dynamics` and `states`.

    Args:
        dynamics: of `family.dynamics(stepper)`.
        states: those to start from, in the order of `family.names`.
        steps: a number of steps, static.
    """
    loop = FamilyLoop(dynamics, dynamics.steppers[0])
    return loop.get_state(scan_steps(loop, loop.start(states), steps))
