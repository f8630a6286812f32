"""One forward and one reverse pass through a run, unit by unit, in the order that a checkpoint schedule chooses.

A unit is a number of steps within one interval between forcing records, and one call of a compiled program. A point is
(carry, acc) between two units: the carry of a differentiable step loop and the accumulator of the cost, or Pairs of
these. `forward` and `record` donate the arrays of the point that they receive, so that it cannot be used again.

Storage for points of a run: on the device, in the host's memory, or in an unnamed temporary file.

The operating system removes such a file when its last process ends, so that even a killed run leaves nothing behind.
"""

import dataclasses
import tempfile
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ...errors import DataError, SwmodelError
from ...parallel.communicator import Communicator
from ..controls.controls import ControlDict
from ..costs.tile_costs import TileCost
from .checkpointing import Span
from .programs import Pair, Programs


class Tiers:
    """Copies of points by number; the arrays that `get` returns may be donated.

    Args:
        communicator: the model's.
        copy: `copy(point)` returns a copy of a point.
        on_device: number of points that stay on the device; further ones go to the host's memory.
        folder: folder of the file; the system's folder for temporary files unless given.
    """

    def __init__(
        self,
        communicator: Communicator,
        copy: Callable[[Any], Any],
        on_device: int,
        folder: str | Path | None = None,
    ):
        self.communicator, self.copy, self.on_device, self.folder = communicator, copy, on_device, folder
        self.device, self.host = {}, {}
        self.file: Slots | None = None

    def keep(self, number: int, point: Any, on_disk: bool = False) -> None:
        """Store a copy of a point."""
        if on_disk:
            self.file = self.file or Slots(self.folder)
            self.file.write(number, self._to_host(point))
        elif len(self.device) < self.on_device:
            self.device[number] = self.copy(point)
        else:
            self.host[number] = jax.tree.map(np.array, self._to_host(point))

    def get(self, number: int, last: bool = False) -> "Point":
        """The point with this number; with `last` it is removed."""
        if number in self.device:
            return self.device.pop(number) if last else self.copy(self.device[number])
        if number in self.host:
            return self._to_device(self.host.pop(number) if last else self.host[number])
        if self.file is None:
            raise KeyError(number)
        return self._to_device(self.file.read(number, last))

    def close(self) -> None:
        """Release all points and the file."""
        self.device, self.host = {}, {}
        if self.file is not None:
            self.file.close()

    def _to_host(self, point):
        return {rank: jax.tree.map(np.asarray, tile) for rank, tile in self.communicator.tiles(point).items()}

    def _to_device(self, tiles):
        return self.copy(self.communicator.place(lambda rank: tiles[rank]))  # a device may use the host's memory


class Slots:
    """An unnamed file with one slot for each pytree; all pytrees have the same structure and shapes."""

    def __init__(self, folder: str | Path | None = None):
        try:
            self.file = tempfile.TemporaryFile(dir=folder, prefix="swmodel-")
        except OSError as error:
            raise DataError(
                f"checkpoints cannot be written to {folder or tempfile.gettempdir()} ({error.strerror}); "
                "name another folder."
            ) from error
        self.slots, self.free, self.structure = {}, [], None
        self.shapes: list[tuple[tuple[int, ...], Any]] = []

    def write(self, number: int, tree: object) -> None:
        """Write a pytree of host arrays; raises DataError if the disk is full."""
        leaves, self.structure = jax.tree.flatten(tree)
        self.shapes = [(x.shape, x.dtype) for x in leaves]
        slot = self.free.pop() if self.free else len(self.slots)
        try:
            self.file.seek(slot * sum(x.nbytes for x in leaves))
            for x in leaves:
                self.file.write(np.ascontiguousarray(x).reshape(-1).view(np.uint8).data)
            self.file.flush()
        except OSError as error:
            raise DataError(
                f"checkpoint {len(self.slots) + 1} could not be written ({error.strerror}); keep fewer on disk, "
                "or name a folder with more free space."
            ) from error
        self.slots[number] = slot

    def read(self, number: int, last: bool) -> Any:
        """The pytree with this number; with `last` its slot becomes free."""
        slot = self.slots.pop(number) if last else self.slots[number]
        arrays = [np.empty(shape, dtype) for shape, dtype in self.shapes]
        self.file.seek(slot * sum(x.nbytes for x in arrays))
        for x in arrays:
            self.file.readinto(x.reshape(-1).view(np.uint8).data)
        if last:
            self.free.append(slot)
        return jax.tree.unflatten(self.structure, arrays)

    def close(self) -> None:
        """Close the file, which removes it."""
        self.file.close()


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
        self,
        problem: Any,
        values: ControlDict,
        slopes: ControlDict | None,
        cost: TileCost,
        plan: Plan | None = None,
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
            raise SwmodelError(f"Problem: in the run to step {problem.first_step + problem.steps} {complaint}.")

    # -- results ------------------------------------------------------------------------------------------------------

    def evaluate(self, point: Point) -> jax.Array:
        """J of the last point."""
        last = len(self.units) - 1
        return self.programs.evaluate(self.fixed(last, at_end=True), self.params(last), *point)[0]

    def gradient(self) -> list[dict[str, Any]]:
        """[the cotangents of all controls], followed by their tangents if the Run has tangents."""
        fixed = self.fixed_at_start() | {"carry": self._carry}
        (at_start,) = self.programs.to_start(fixed, self.controls_at_start(), self._bars)
        for total, *more in zip(self._gradient, self._parts(at_start), self._parts(self._lasting)):
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
        if self.slopes is None:
            return choose(self.values)
        return Pair(choose(self.values), jax.tree.leaves(choose(self.slopes, of_slopes=True)))

    @staticmethod
    def _parts(x):
        return [x.value, x.slopes] if isinstance(x, Pair) else [x]

    def controls_at_start(self) -> Any:
        """{name: value} of the controls on which the first state depends, or a Pair of these."""
        return self._both(lambda values, of_slopes=False: {c.name: values[c.name] for c in self.programs.at_start})

    def params(self, unit: int) -> Any:
        """{name: value} of the controls of the dynamics during a unit, or a Pair of these."""

        def choose(values, of_slopes=False):
            return {c.name: self._value(c, values, unit, of_slopes) for c in self.programs.of_dynamics}

        return self._both(choose)

    def _value(self, control, values, unit, of_slopes):
        """A control's value, or (first, second) of a window's records; the model has those that are not controls."""
        value = values[control.name]
        if not control.records:
            return value
        numbers = self._window(control, unit)
        others = (k for k in numbers if k not in value)
        others = {k: control.of_record(k, self.problem.model.dtype) for k in others}
        return tuple(value[k] if k in value else others[k] * (0 if of_slopes else 1) for k in numbers)

    def _window(self, control, unit):
        return control.window_records(self.units[unit].window, self.problem.dt)

    def _collect(self, unit, passing):
        """Add the cotangents of a window's two records to the sums for these records."""
        for total, bars in zip(self._gradient, self._parts(passing)):
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
        return {
            "dynamics": self._dynamics(here.window),
            "stepper": problem.stepper,
            "cost": self.cost,
            "span": span,
        }

    def _dynamics(self, window):
        return self.problem.dynamics(window)

    def fixed_at_start(self) -> dict[str, Any]:
        """`fixed` of the first unit, with the first state."""
        return self.fixed(0) | {"state": self.problem.state, "masks": self.problem.masks}
