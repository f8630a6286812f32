"""What a gradient keeps of the forward run, and what it runs again.

    StoreAll     every step: the fastest, memory in proportion to the number of steps
    Nested       segments within segments: 2 n^(1/2) states for twice the forward run, 3 n^(1/3) for three times
    Revolve      the least forward steps for so many states, on the host: Griewank & Walther (2000),
                 doi:10.1145/347837.347846, by the package checkpoint-schedules
    Tiered       states on the device, in the host's memory, and on its disk

Each cuts a run into units (runs.py), and differentiates it unit by unit.
"""

import abc
import contextlib
import dataclasses
import math
from typing import Any

import jax

from ...errors import ConfigError
from .checkpointing import even_lengths
from .memory import Needs, fitting, points_held
from .runs import Plan, Run, Unit, intervals, units
from .storage import Tiers

__all__ = ["Checkpoints", "StoreAll", "Nested", "Revolve", "Tiered"]

LONGEST = 128  # steps that are stored in one array, where all are
LARGE = 1 << 26  # [bytes] of stored steps, for the end of which to wait costs little


class Checkpoints(abc.ABC):
    """An arrangement of forward and backward steps."""

    @abc.abstractmethod
    def plan(self, problem: Any, products: bool = False) -> Plan:
        """(the Units of a run, the lengths of Tape within a unit, how many points the host is to hold).

        Args:
            problem: the Problem.
            products: of Hessian products in place of gradients.
        """

    @abc.abstractmethod
    def bytes(self, needs: Needs, units: list[Unit], lengths: tuple[int, ...], points: int) -> float:
        """How many bytes a rank holds with memory.Needs and a plan; states on disk and on the host count as none."""

    @abc.abstractmethod
    def differentiate(self, run: Run) -> None:
        """Take a Run forwards and back."""


def _intervals(problem):
    return intervals(problem.model, problem.first_step, problem.steps, problem.dt)


@dataclasses.dataclass(frozen=True)
class StoreAll(Checkpoints):
    """Keep what the backward pass reads of every step."""

    def plan(self, problem: Any, products: bool = False) -> Plan:
        found = units(_intervals(problem), LONGEST)
        return found, (max(unit.count for unit in found),), 1

    def bytes(self, needs: Needs, units: list[Unit], lengths: tuple[int, ...], points: int) -> float:
        return needs.bytes((lengths[0] * len(units),), 1)

    def differentiate(self, run: Run) -> None:
        point, tapes = run.start(), []
        for unit in range(len(run.units)):
            point, stored = run.record(unit, point)
            tapes.append(stored)
        run.finish(point)
        for unit in reversed(range(len(run.units))):
            run.pull(unit, tapes.pop())


@dataclasses.dataclass(frozen=True)
class Nested(Checkpoints):
    """Segments within segments, in one compiled program for each interval between forcing records.

    Args:
        memory: bytes a rank may use for it, e.g. 2e9: the fewest levels that fit are taken. Without it there are two
            levels of the square root of the number of steps each.
        lengths: instead, the number of parts at each level, innermost (steps) first.
    """

    memory: float | None = None
    lengths: tuple = ()

    def plan(self, problem: Any, products: bool = False) -> Plan:
        parts = _intervals(problem)
        longest = max(count for _, count in parts)
        if self.memory is not None:
            needs = problem.needs_of_products if products else problem.needs
            lengths, points = fitting(needs, longest, len(parts), self.memory)
            return units(parts, longest), lengths, points
        lengths = tuple(self.lengths) or even_lengths(longest, 2)
        found = units(parts, math.prod(lengths))
        few = 2 * math.isqrt(problem.steps) + 2
        return found, lengths, len(found) if len(found) <= few else math.isqrt(len(found) - 1) + 1

    def bytes(self, needs: Needs, units: list[Unit], lengths: tuple[int, ...], points: int) -> float:
        return needs.bytes(lengths, points_held(points, len(units)))

    def differentiate(self, run: Run) -> None:
        self._back(run, 0, len(run.units), run.start(), run.points)

    def _back(self, run, first, last, point, most):
        """Pull back units first, ..., last - 1, keeping `most` points at once of each level."""
        if last - first == 1:
            point, stored = run.record(first, point)
            if run.J is None:
                run.finish(point)
            run.pull(first, stored)
            return
        groups = min(most, last - first)
        edges = [first + (last - first) * k // groups for k in range(groups + 1)]
        points = [point]
        for a, b in zip(edges[:-2], edges[1:-1]):
            points.append(run.forward(a, b, run.own(points[-1])))
        for a, b in reversed(list(zip(edges[:-1], edges[1:]))):
            self._back(run, a, b, points.pop(), most)


class _Scheduled(Checkpoints):
    """What a schedule of the package checkpoint-schedules says, unit after unit, from the host."""

    states: int
    steps: int = 1

    @abc.abstractmethod
    def _states(self) -> tuple[int, int]:
        """(states kept in memory, states kept on disk)."""

    @abc.abstractmethod
    def _tiers(self, run: Run) -> Tiers:
        """Where they are kept."""

    def plan(self, problem: Any, products: bool = False) -> Plan:
        return units(_intervals(problem), self.steps), (self.steps,), 1

    def bytes(self, needs: Needs, units: list[Unit], lengths: tuple[int, ...], points: int) -> float:
        return needs.bytes(lengths, min(self.states, len(units)))

    def differentiate(self, run: Run) -> None:
        with contextlib.closing(self._tiers(run)) as tiers:
            follow(self._schedule(len(run.units)), run, tiers)

    def _schedule(self, number):
        (in_memory, on_disk), most = self._states(), max(number - 1, 1)
        return binomial(number, min(in_memory, most), min(on_disk, max(most - in_memory, 0)))

    def forward_steps(self, problem: Any) -> int:
        """How many steps are run without being stored, on top of those that are: what the schedule costs."""
        parts = problem.plan[0]
        return sum(
            sum(part.count for part in parts[action.n0 : action.n1])
            for action in self._schedule(len(parts))
            if type(action).__name__ == "Forward" and not action.write_adj_deps
        )


@dataclasses.dataclass(frozen=True)
class Revolve(_Scheduled):
    """Binomial checkpointing: of all schedules with so many states the one with the fewest forward steps.

    Args:
        states: how many are kept at once, 1 or more.
        steps: at a time, whose states are stored one by one, and which are pulled back together.
    """

    states: int
    steps: int = 1

    def _states(self):
        return self.states, 0

    def _tiers(self, run):
        return Tiers(run.problem.communicator, run.own, self.states)


@dataclasses.dataclass(frozen=True)
class Tiered(_Scheduled):
    """Binomial checkpointing with states on the device, in the host's memory and on disk.

    Args:
        states: how many are kept on the device.
        on_disk: how many more in a file.
        on_host: how many more in the host's memory, where that is another than the device's.
        steps: at a time, whose states are stored one by one, and which are pulled back together.
        folder: for the file, on a disk of this host; the system's for temporary files unless given. Nothing is left of
            it, however a run ends.
    """

    states: int
    on_disk: int
    on_host: int = 0
    steps: int = 1
    folder: Any = None

    def _states(self):
        return self.states + self.on_host, self.on_disk

    def _tiers(self, run):
        return Tiers(run.problem.communicator, run.own, self.states, self.folder)


def binomial(number: int, in_memory: int, on_disk: int = 0) -> Any:
    """The actions of a multistage binomial schedule for so many units."""
    if in_memory + on_disk < 1:
        raise ConfigError("checkpoints: no state is kept, so that nothing can be run again; keep one or more.")
    try:
        from checkpoint_schedules import MultistageCheckpointSchedule
    except ImportError as error:
        raise ConfigError(
            "Revolve and Tiered follow schedules of the package checkpoint-schedules, which is not installed; "
            "pip install 'swmodel[adjoint]', or use Nested."
        ) from error
    return MultistageCheckpointSchedule(number, in_memory, on_disk)


def follow(schedule: Any, run: Run, tiers: Tiers) -> None:
    """Do what a schedule says."""
    import checkpoint_schedules as cs

    point: Any = run.start()
    stored = None
    for action in schedule:
        if isinstance(action, cs.Forward):
            if action.write_ics:
                tiers.keep(action.n0, point, action.storage == cs.StorageType.DISK)
            if action.write_adj_deps:
                point, stored = run.record(action.n0, point)
            else:
                point = run.forward(action.n0, action.n1, point)
        elif isinstance(action, (cs.Copy, cs.Move)):
            point = tiers.get(action.n, last=isinstance(action, cs.Move))
        elif isinstance(action, cs.EndForward):
            run.finish(point)
        elif isinstance(action, cs.Reverse):
            run.pull(action.n0, stored)
            large = sum(x.nbytes for x in jax.tree.leaves(stored)) > LARGE
            point = stored = None
            if large:
                run.wait()  # or the next unit's steps would be stored beside these
        elif isinstance(action, cs.EndReverse):
            return
