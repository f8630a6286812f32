"""Checkpoint schedules: which states of the forward run a gradient stores, and which steps it runs again.

    StoreAll     stores every step: fastest, with memory in proportion to the number of steps n
    Nested       segments within segments: 2 n^(1/2) states for two forward runs, 3 n^(1/3) for three
    Revolve      the fewest forward steps for a given number of states: Griewank & Walther (2000),
                 doi:10.1145/347837.347846, by the package checkpoint-schedules
    Tiered       the same with states on the device, in the host's memory, and on disk

Each schedule cuts a run into units (runs.py) and differentiates it unit by unit.
"""

import abc
import contextlib
import dataclasses
import math
from collections.abc import Iterable, Iterator
from typing import Any

import jax

from ...errors import ConfigError
from .checkpointing import even_lengths
from .memory import Needs, lengths_within, points_held
from .runs import Plan, Run, Unit, intervals, units
from .storage import Tiers

__all__ = ["Checkpoints", "StoreAll", "Nested", "Revolve", "Tiered"]

LONGEST = 128  # most steps of a unit if every step is stored
LARGE = 1 << 26  # [bytes] of stored steps from which on waiting for their end costs little


class Checkpoints(abc.ABC):
    """A schedule of forward and adjoint steps."""

    @abc.abstractmethod
    def plan(self, problem: Any, products: bool = False) -> Plan:
        """The Plan of a run: its Units, the lengths of a Tape within a unit, and the number of points on the host.

        Args:
            problem: the Problem.
            products: whether the plan is for Hessian products, which need more memory than gradients.
        """

    @abc.abstractmethod
    def bytes(self, needs: Needs, units: list[Unit], lengths: tuple[int, ...], points: int) -> float:
        """The bytes that a rank needs under a plan, apart from states on disk and in the host's memory."""

    @abc.abstractmethod
    def differentiate(self, run: Run) -> None:
        """Make the forward and the reverse pass of a Run."""


def _intervals(problem):
    return intervals(problem.stepped, problem.first_step, problem.steps, problem.dt)


@dataclasses.dataclass(frozen=True)
class StoreAll(Checkpoints):
    """Store, for every step, the arrays that its adjoint reads."""

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
        memory: bytes that a rank may use, such as 2e9; the fewest levels that fit are taken. Without it there are
            two levels, each with the square root of the number of steps.
        lengths: instead, the number of parts at each level, innermost (steps) first.
    """

    memory: float | None = None
    lengths: tuple = ()

    def plan(self, problem: Any, products: bool = False) -> Plan:
        parts = _intervals(problem)
        longest = max(count for _, count in parts)
        if self.memory is not None:
            needs = problem.needs_of_products if products else problem.needs
            lengths, points = lengths_within(needs, longest, len(parts), self.memory)
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
        """Differentiate units first, ..., last - 1 in reverse; each level holds at most `most` points at once."""
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
            points.append(run.forward(a, b, run.copy(points[-1])))
        for a, b in reversed(list(zip(edges[:-1], edges[1:]))):
            self._back(run, a, b, points.pop(), most)


class _Scheduled(Checkpoints):
    """The host follows a schedule of the package checkpoint-schedules, unit by unit."""

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
        """The number of steps that the schedule runs without storing them: its cost, on top of the stored steps."""
        parts = problem.plan[0]
        return sum(
            sum(part.count for part in parts[action.n0 : action.n1])
            for action in self._schedule(len(parts))
            if type(action).__name__ == "Forward" and not action.write_adj_deps
        )


@dataclasses.dataclass(frozen=True)
class Revolve(_Scheduled):
    """Binomial checkpointing: the fewest forward steps for a given number of stored states.

    Args:
        states: number of states stored at once, 1 or more.
        steps: number of steps in a unit; while a unit is differentiated, each of its steps is stored.
    """

    states: int
    steps: int = 1

    def _states(self):
        return self.states, 0

    def _tiers(self, run):
        return Tiers(run.problem.communicator, run.copy, self.states)


@dataclasses.dataclass(frozen=True)
class Tiered(_Scheduled):
    """Binomial checkpointing with states on the device, in the host's memory and on disk.

    Args:
        states: number of states stored on the device.
        on_disk: number of further states in a file.
        on_host: number of further states in the host's memory, if the device has its own memory.
        steps: number of steps in a unit; while a unit is differentiated, each of its steps is stored.
        folder: folder of the file, on a disk of this host; the system's folder for temporary files unless given.
            The file is gone when the run ends, however it ends.
    """

    states: int
    on_disk: int
    on_host: int = 0
    steps: int = 1
    folder: Any = None

    def _states(self):
        return self.states + self.on_host, self.on_disk

    def _tiers(self, run):
        return Tiers(run.problem.communicator, run.copy, self.states, self.folder)


def binomial(number: int, in_memory: int, on_disk: int = 0) -> Iterator:
    """The actions of a multistage binomial schedule for `number` units."""
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


def follow(schedule: Iterable, run: Run, tiers: Tiers) -> None:
    """Carry out the actions of a schedule."""
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
                run.wait()  # else the steps of two units would be in memory at once
        elif isinstance(action, cs.EndReverse):
            return
