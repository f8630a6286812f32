"""One forward and one reverse pass through a run, unit by unit, in the order that a checkpoint schedule chooses.

A unit is a number of steps within one interval between forcing records, and one call of a compiled program. A point is
(carry, acc) between two units: the carry of a differentiable step loop and the accumulator of the cost, or Pairs of
these. `forward` and `record` donate the arrays of the point that they receive, so that it cannot be used again.

Programs that are compiled when they are first called are compiled one after another: each by one rank, while the others
wait. `compile_ahead` traces all of them first. Then ranks begin with different ones, and load what another rank has
compiled (runtime/compilation.py). Shapes are enough for it, so that a thread may compute the motion of a source
meanwhile.
"""

import dataclasses
from collections.abc import Iterable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ...errors import SwmodelError
from ...stencils.compiled import loops_compiled_meanwhile
from ..controls.controls import ControlDict
from ..costs.tile_costs import TileCost
from .checkpointing import Span
from .programs import Pair, Programs, paired, parted


@dataclasses.dataclass(frozen=True)
class Unit:
    """`count` steps from step number `first` on; `window` is the step at which their interval of the forcing begins."""

    first: int
    count: int
    window: int


Point = tuple[Any, Any]
"""(carry, acc) between two units."""

Plan = tuple[list[Unit], tuple[int, ...], int]
"""(the Units of a run, the number of parts at each level of a Tape, how many points the host holds)."""


def units(parts: Iterable[tuple[int, int]], most: int) -> list[Unit]:
    """The Units into which intervals are cut, of about equal length and at most `most` steps each."""
    found = []
    for first, count in parts:
        number = -(-count // most)
        edges = [first + count * k // number for k in range(number + 1)]
        found += [Unit(a, b - a, first) for a, b in zip(edges, edges[1:])]
    return found


class Run:
    """One forward and one reverse pass with given values of the controls.

    Args:
        problem: a Problem.
        values: {name: value} of its controls.
        slopes: their tangents, of the same structure; None computes no tangents.
        cost: a TileCost.
        plan: a Plan; the problem's own unless given.

    Attributes:
        units: of the run.
        J: the cost, once `finish` has been called.
    """

    def __init__(
        self, problem: Any, values: ControlDict, slopes: ControlDict | None, cost: TileCost, plan: Plan | None = None
    ):
        self.problem, self.values, self.slopes, self.cost = problem, values, slopes, cost
        self.units, lengths, self.points = plan or problem.plan
        key = tuple(lengths), slopes is not None
        if key not in problem.programs:  # each kind is built once
            arguments = problem.communicator, problem.controls, lengths, slopes is not None, problem.has_contents
            problem.programs[key] = Programs(*arguments)
        self.programs: Programs = problem.programs[key]
        self.J: Any = None
        self._carry: Any = None
        self._gradient = [{} for _ in range(1 if slopes is None else 2)]

    # -- called by checkpoint schedules --------------------------------------------------------------------------------

    def start(self) -> "Point":
        """The first point."""
        return self.programs.start(self.fixed_at_start(), self.controls_at_start())

    def shapes_at_start(self) -> "Point":
        """The shapes of the first point; nothing is computed."""
        return jax.eval_shape(self.programs.start, self.fixed_at_start(), self.controls_at_start())

    def copy(self, point: Point) -> "Point":
        """A copy of a point; one of the two may then be donated."""
        return self.programs.copy(*point)

    def forward(self, first: int, last: int, point: Point) -> "Point":
        """The point after units first, ..., last - 1. Consecutive units of one interval take one call of a program."""
        while first < last:
            parts = [unit for unit in self.units[first:last] if unit.window == self.units[first].window]
            steps = sum(part.count for part in parts)
            point = self.programs.forward(self.fixed(first, steps), self.params(first), *point)
            first += len(parts)
        return point

    def to_end(self) -> "Point":
        """The last point."""
        point = self.forward(0, len(self.units), self.start())
        self.check_convergence(point)
        return point

    def record(self, unit: int, point: Point) -> tuple[Point, Any]:
        """(the point after a unit, the records that `pull` needs)."""
        carry, acc, stored = self.programs.record(self.fixed(unit), self.params(unit), *point)
        return (carry, acc), stored

    def finish(self, point: Point) -> None:
        """Compute J and the cotangents after the last unit."""
        self.check_convergence(point)
        last = len(self.units) - 1
        self._carry = point[0] if self.slopes is None else point[0].value
        found = self.programs.finish(self.fixed(last, at_end=True), self.params(last), *point)
        self.J, self._bars, self._lasting, passing = found
        self._collect(last, passing)

    def pull(self, unit: int, stored: Any) -> None:
        """Compute the cotangents before a unit from those after it."""
        fixed = self.fixed(unit) | {"carry": self._carry}
        found = self.programs.pull(fixed, self.params(unit), stored, self._bars, self._lasting)
        self._bars, self._lasting, passing = found
        self._collect(unit, passing)

    def wait(self) -> None:
        """Block until the device has finished, so that the memory of the last unit is free."""
        jax.block_until_ready(self._bars)

    def check_convergence(self, point: Point) -> None:
        """Raise SwmodelError if an implicit stepper's solver did not converge in a step up to this point."""
        problem = self.problem
        if not problem.stepper.has_solver:
            return
        _, history = point[0].value if isinstance(point[0], Pair) else point[0]
        if complaint := problem.scheme.complaint(history, problem.communicator):
            raise SwmodelError(f"Problem: in the run to step {problem.first_step + problem.steps} {complaint[1]}.")

    # -- results ------------------------------------------------------------------------------------------------------

    def evaluate(self, point: Point) -> jax.Array:
        """J of the last point."""
        last = len(self.units) - 1
        return self.programs.evaluate(self.fixed(last, at_end=True), self.params(last), *point)[0]

    def gradient(self) -> list[dict[str, Any]]:
        """[the cotangents of all controls], followed by their tangents if the Run has tangents."""
        fixed = self.fixed_at_start() | {"carry": self._carry}
        (at_start,) = self.programs.to_start(fixed, self.controls_at_start(), self._bars)
        for total, *more in zip(self._gradient, parted(at_start), parted(self._lasting)):
            for name, bar in (item for part in more for item in part.items()):
                total[name] = total[name] + bar if name in total else bar
            for control in self.programs.of_dynamics:
                if control.records:  # the cotangents of those that lie outside the run are zero
                    found, given = total.get(control.name, {}), self.values[control.name]
                    total[control.name] = {k: found.get(k, jnp.zeros_like(x)) for k, x in given.items()}
        return self._gradient

    # -- arguments of programs ----------------------------------------------------------------------------------------

    def _both(self, choose):
        """`choose(values)`, as a Pair with `choose(slopes)` if the Run has tangents."""
        return paired(choose(self.values), None if self.slopes is None else choose(self.slopes))

    def controls_at_start(self) -> Any:
        """{name: value} of the controls on which the first state depends, or a Pair of these."""
        return self._both(lambda values: {c.name: values[c.name] for c in self.programs.at_start})

    def params(self, unit: int) -> Any:
        """{name: value} of the controls of the dynamics during a unit, or a Pair of these."""
        return self._both(lambda values: {c.name: self._value(c, values, unit) for c in self.programs.of_dynamics})

    def _value(self, control, values, unit):
        """A control's value, or (first, second) of a window's records; the model has those that are not controls."""
        value, share = values[control.name], 0 if values is self.slopes else 1
        if not control.records:
            return value
        of_model = lambda k: control.of_record(k, self.problem.model.dtype) * share  # noqa: E731
        return tuple(value[k] if k in value else of_model(k) for k in self._window(control, unit))

    def _window(self, control, unit):
        return control.window_records(self.units[unit].window, self.problem.dt)

    def _collect(self, unit, passing):
        """Add the cotangents of a window's two records to the sums for these records."""
        for total, bars in zip(self._gradient, parted(passing)):
            for control in self.programs.of_dynamics:
                if control.records:
                    sums = total.setdefault(control.name, {})
                    for number, bar in zip(self._window(control, unit), bars[control.name]):
                        sums[number] = sums[number] + bar if number in sums else bar

    def fixed(self, unit: int, steps: int | None = None, at_end: bool = False) -> dict[str, Any]:
        """The arguments without derivatives, for the `steps` steps of a unit (all unless given) or for its end."""
        problem, here = self.problem, self.units[unit]
        count = here.count if steps is None else steps
        span = Span(np.int32(here.first + (count if at_end else 0)), np.int32(count))
        return {"dynamics": self._dynamics(here.window), "stepper": problem.stepper, "cost": self.cost, "span": span}

    def _dynamics(self, window):
        return self.problem.dynamics(window)

    def fixed_at_start(self) -> dict[str, Any]:
        """`fixed` of the first unit, with the first state."""
        return self.fixed(0) | {"state": self.problem.state, "masks": self.problem.masks}


# -- programs that all ranks compile together before the first of them runs --------------------------------------------


def compile_ahead(problem: Any) -> None:
    """Compile the loops and the programs of a Problem's gradient; collective. JAX keeps them for the calls that follow.

    Nothing is done with transforms and on several devices, whose arguments have other forms.
    """
    if problem.transforms or problem.communicator.name == "sharded":
        return
    run, order = _Outlined(problem), -1 if problem.communicator.rank % 2 else 1
    traced = _traced(run)
    native = problem.outline(problem.first_step).step_loop.compiles()
    jaxprs = [program.jaxpr.jaxpr for program in traced] if native else []
    with loops_compiled_meanwhile(jaxprs, order):
        for lowered in [program.lower() for program in traced][::order]:
            lowered.compile()


def _traced(run):
    """The traced programs of a gradient, in the order of their calls."""
    programs, fixed, params = run.programs, run.fixed(0), run.params(0)
    begin = run.fixed_at_start(), run.controls_at_start()
    start = programs.start.trace(*begin)
    point = _shapes(start)
    record = programs.record.trace(fixed, params, *point)
    finish = programs.finish.trace(fixed, params, *point)
    _, bars, lasting, _ = _shapes(finish)
    carry = {"carry": point[0]}
    pull = programs.pull.trace(fixed | carry, params, _shapes(record)[-1], bars, lasting)
    found = [start, programs.copy.trace(*point), record, finish, pull]
    found.append(programs.to_start.trace(begin[0] | carry, begin[1], bars))
    if len(run.units) > 1:  # a schedule runs over all units but the last before it differentiates them
        found.insert(2, programs.forward.trace(fixed, params, *point))
    return found


def _shapes(traced):
    return jax.tree.map(lambda x: jax.ShapeDtypeStruct(x.shape, x.dtype), traced.out_info)


class _Outlined(Run):
    """A Run whose time records, and the uplift of its System, are shapes."""

    def __init__(self, problem):
        values = {control.name: _outlined(problem, control) for control in problem.own_controls}
        super().__init__(problem, values, None, problem.cost)

    def _dynamics(self, window):
        return self.problem.outline(window)

    def _value(self, control, values, unit):
        value = values[control.name]
        return (next(iter(value.values())),) * 2 if control.records else value


def _outlined(problem, control):
    """The value of a control as programs take it, with shapes in the place of time records."""
    held = control.get(problem.outline(problem.first_step), problem.shown if control.of_state else None)
    if control.records:
        return dict.fromkeys(control.records, jax.ShapeDtypeStruct(held.first.shape, problem.model.dtype))
    return problem.to_program(jnp.asarray(held, problem.model.dtype))
