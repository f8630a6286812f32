"""Checkpoint schedules: which states of the forward run a gradient stores, and which steps it runs again.

    StoreAll     stores every step: fastest, with memory in proportion to the number of steps n
    Nested       segments within segments: 2 n^(1/2) states for two forward runs, 3 n^(1/3) for three
    Revolve      the fewest forward steps for a given number of states: Griewank & Walther (2000),
                 doi:10.1145/347837.347846, by the package checkpoint-schedules
    Tiered       the same with states on the device, in the host's memory, and on disk

Each schedule cuts a run into units (runs.py) and differentiates it unit by unit.

Memory of a gradient or a Hessian product on a rank, and the levels of segments that fit into a budget.

With l_0, l_1, ... parts at each level of a Tape, and p points held on the host,

    bytes = base + K l_0 + P (l_1 + l_2 + ... + p)

K are the bytes that are stored for a step, and P those of a point. The base consists of the model's arrays, the
cotangents, the stepper's history before the first step, and the temporaries of the compiled adjoint program. The
temporaries are those that XLA reports for a small Tape. In a Hessian product every array has a tangent, which counts
too.
"""

import abc
import contextlib
import dataclasses
import math
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np

from ...errors import ConfigError
from ...models.parts import intervals
from .checkpointing import even_lengths
from .leaves import Tiers
from .programs import Programs
from .runs import Plan, Run, Unit, units

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
    def bytes(self, needs: "Needs", units: list[Unit], lengths: tuple[int, ...], points: int) -> float:
        """The bytes that a rank needs under a plan, apart from states on disk and in the host's memory."""

    @abc.abstractmethod
    def differentiate(self, run: Run) -> None:
        """Make the forward and the reverse pass of a Run."""


def _intervals(problem):
    return intervals(lambda step: problem.stepped.next_record(step, problem.dt), problem.first_step, problem.steps)


@dataclasses.dataclass(frozen=True)
class StoreAll(Checkpoints):
    """Store, for every step, the arrays that its adjoint reads."""

    def plan(self, problem: Any, products: bool = False) -> Plan:
        found = units(_intervals(problem), LONGEST)
        return found, (max(unit.count for unit in found),), 1

    def bytes(self, needs: "Needs", units: list[Unit], lengths: tuple[int, ...], points: int) -> float:
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

    def bytes(self, needs: "Needs", units: list[Unit], lengths: tuple[int, ...], points: int) -> float:
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

    states: int  # on the device
    on_host: int
    on_disk: int
    folder: Any
    steps: int

    def plan(self, problem: Any, products: bool = False) -> Plan:
        return units(_intervals(problem), self.steps), (self.steps,), 1

    def bytes(self, needs: "Needs", units: list[Unit], lengths: tuple[int, ...], points: int) -> float:
        return needs.bytes(lengths, min(self.states, len(units)))

    def differentiate(self, run: Run) -> None:
        with contextlib.closing(Tiers(run.problem.communicator, run.copy, self.states, self.folder)) as tiers:
            follow(self._schedule(len(run.units)), run, tiers)

    def _schedule(self, number: int) -> Iterator:
        """The actions of a multistage binomial schedule for `number` units."""
        in_memory, most = self.states + self.on_host, max(number - 1, 1)
        in_memory, on_disk = min(in_memory, most), min(self.on_disk, max(most - in_memory, 0))
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

    def forward_steps(self, problem: Any) -> int:
        """The number of steps that the schedule runs without storing them: its cost, on top of the stored steps."""
        parts = problem.plan[0]
        actions = [action for action in self._schedule(len(parts)) if type(action).__name__ == "Forward"]
        again = [parts[action.n0 : action.n1] for action in actions if not action.write_adj_deps]
        return sum(part.count for each in again for part in each)


@dataclasses.dataclass(frozen=True)
class Revolve(_Scheduled):
    """Binomial checkpointing: the fewest forward steps for a given number of stored states.

    Args:
        states: number of states stored at once, 1 or more.
        steps: number of steps in a unit; while a unit is differentiated, each of its steps is stored.
    """

    states: int
    steps: int = 1

    on_host: ClassVar = 0
    on_disk: ClassVar = 0
    folder: ClassVar = None


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


TRIAL = (2, 2)
MOST_LEVELS = 8


@dataclasses.dataclass(frozen=True)
class Needs:
    """Bytes on the rank that needs most: the `base`, for each stored `step`, and for each `point`."""

    base: float
    step: float
    point: float

    @staticmethod
    def of(run: Any) -> "Needs":
        """The Needs of a Run, found by compiling the adjoint of a Tape of lengths TRIAL, with the Run's tangents."""
        sizes, pairs = run.problem.communicator, run.slopes is not None
        programs = Programs(sizes, run.problem.controls, TRIAL, pairs)
        fixed, params = run.fixed(0), run.params(0)
        carry, acc = run.shapes_at_start()
        *_, starts = jax.eval_shape(programs.record, fixed, params, carry, acc)
        _, bars, lasting, _ = jax.eval_shape(programs.finish, fixed, params, carry, acc)
        plain = carry.value if pairs else carry
        pull = programs.pull.lower(fixed | {"carry": plain}, params, starts, bars, lasting).compile()

        def stored(steps):
            record = Programs(sizes, run.problem.controls, (steps,), pairs).record
            return _bytes(jax.eval_shape(record, fixed, params, carry, acc)[-1], sizes)

        step, point = stored(2) - stored(1), _bytes((carry, acc), sizes)
        held = _bytes((fixed, params, bars, lasting), sizes)
        base = held + pull.memory_analysis().temp_size_in_bytes - TRIAL[0] * step
        return Needs(*np.asarray(sizes.host_maximum(np.array([base, step, point]))))

    def bytes(self, lengths: Sequence[int], points: int) -> float:
        """The sum for these numbers of parts at each level, and of points on the host."""
        return self.base + self.step * lengths[0] + self.point * (sum(lengths[1:]) + points)


def _bytes(tree, communicator):
    """The bytes of the arrays of a pytree on one rank."""
    shared = len(communicator.ranks)
    leaves = [(np.shape(x), jnp.result_type(x)) for x in jax.tree.leaves(tree)]  # some are plain numbers
    return sum(int(np.prod(shape)) * dtype.itemsize / (shared if shape else 1) for shape, dtype in leaves)


def lengths_within(needs: "Needs", steps: int, units: int, memory: float) -> tuple[tuple[int, ...], int]:
    """(lengths, number of points on the host) with the fewest levels that fit into `memory` bytes.

    Args:
        needs: a Needs.
        steps: number of steps of the longest unit.
        units: number of units.
        memory: the budget [bytes].

    Raises:
        ConfigError: if no number of levels fits; the message names the least budget that is enough.
    """
    held = [units] + ([math.isqrt(units - 1) + 1] if units > 4 else [])
    choices = [(lengths, points) for lengths in best_lengths(needs, steps) for points in held]
    for lengths, points in choices:
        if needs.bytes(lengths, points_held(points, units)) <= memory:
            return lengths, points
    least = min(needs.bytes(lengths, points_held(points, units)) for lengths, points in choices)
    raise ConfigError(
        f"memory = {memory:.4g} bytes is too little for {steps} steps of this model; give {least * 1.01:.4g} bytes or "
        "more, use more ranks, or, in Python, Tiered(...), which keeps states on disk."
    )


def points_held(points: int, units: int) -> int:
    """The number of points on the host at once, if each of its levels holds `points`."""
    return points if points >= units else 2 * points


def best_lengths(needs: "Needs", steps: int) -> list[tuple[int, ...]]:
    """The lengths that need the least memory, for one level, two levels and so on."""
    found = [(steps,)]
    for levels in range(2, MOST_LEVELS + 1):
        share = (steps * needs.step / needs.point) ** (1 / levels)  # of each outer level, which is P share = K l_0
        outer = max(math.floor(share), 1)
        candidates = []
        for number in (outer, outer + 1):
            inner = -(-steps // number ** (levels - 1))
            candidates.append((inner, *[number] * (levels - 1)))
        candidates.append(even_lengths(steps, levels))
        found.append(min(candidates, key=lambda lengths: needs.bytes(lengths, 0)))
    return found
