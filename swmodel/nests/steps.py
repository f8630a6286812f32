"""A step of a grid with the steps of its nests, in one program.

before = the outer values in the box
a step of the outer grid
after = the same values
for each step of the nest:  fill its frame between `before` and `after`, make the step (with its own nests)
give back means and fluxes, if the nest is two-way
"""

import dataclasses
import functools
from typing import Any

import jax
import jax.numpy as jnp

from ..dynamics.carried import CARRIED
from ..fields.field import Count
from ..fields.pytrees import pytree, static
from ..stepping.loop import step_loop
from ..stepping.steps import Monitor, StepLoop, no_monitor
from .border import Border

__all__ = ["FamilySystem", "Level", "outermost_step"]


@dataclasses.dataclass(frozen=True)
class Level:
    """A grid in a program.

    Attributes:
        number: its number in the list of carries.
        loop: its StepLoop.
        monitor: a Monitor, called after each of its steps.
        nests: ((Border, steps, Level), ...) of the nests in it.
    """

    number: int
    loop: StepLoop
    monitor: Monitor
    nests: tuple[tuple[Border, int, "Level"], ...] = ()


def family_step(level: Level, carries: tuple, step: Count) -> tuple:
    """The carries after step number `step` of a level, and after the steps of its nests in the same time.

    Args:
        level: a Level.
        carries: ((carry of the step loop, carry of the monitor), ...) of all levels.
        step: number of the step.
    """
    loop, (packed, monitored) = level.loop, carries[level.number]
    before = [border.outer_values(loop, packed, step) for border, *_ in level.nests]
    packed, _ = loop.steps(packed, step, 1)
    for (border, steps, nest), begun in zip(level.nests, before, strict=True):
        after = border.outer_values(loop, packed, step + 1)
        carries = _nest_steps(border, steps, nest, carries, step * steps, (begun, after))
        if border.two_way:
            inner = border.inner_values(nest.loop, carries[nest.number][0], (step + 1) * steps)
            packed = border.give_back(loop, packed, step + 1, inner, begun, after)
    monitored = level.monitor(step, functools.partial(loop.get_state, packed), monitored)
    return _with(carries, level.number, (packed, monitored))


def _nest_steps(border: Border, steps: int, nest: Level, carries: tuple, first: Count, outer: tuple) -> tuple:
    """The carries after the `steps` of a nest, whose first one has the number `first`."""
    before, after = (border.communicator.replicated(x) for x in outer)
    if border.two_way:
        packed, monitored = carries[nest.number]
        carries = _with(carries, nest.number, (without_volumes(nest.loop, packed), monitored))

    def one(k: Any, carries: tuple) -> tuple:
        share = jnp.asarray(k, before.dtype) / steps
        packed, monitored = carries[nest.number]
        packed = border.fill_frame(nest.loop, packed, before + share * (after - before), first + k)
        return family_step(nest, _with(carries, nest.number, (packed, monitored)), first + k)

    return jax.lax.fori_loop(0, steps, one, carries)


def without_volumes(loop: StepLoop, packed: Any) -> Any:
    """A carry whose volumes that the flow carried through faces are 0."""
    ny, nx = loop.equations.depth.interior.shape
    whole = slice(0, ny), slice(0, nx)
    for row in CARRIED.values():
        packed = loop.change(packed, row.name, whole, jnp.zeros_like)
    return packed


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


def outermost_step(level: Level, carries: tuple, step: Count) -> tuple:
    """`family_step` of the outermost grid, whose volumes carried through faces are first set to 0."""
    packed, monitored = carries[level.number]
    if any(border.two_way for border, *_ in level.nests):
        packed = without_volumes(level.loop, packed)
    return family_step(level, _with(carries, level.number, (packed, monitored)), step)


def _with(carries: tuple, number: int, new: Any) -> tuple:
    return (*carries[:number], new, *carries[number + 1 :])
