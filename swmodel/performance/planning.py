"""Time, memory and messages of a run and of its gradient on any number of ranks, for `swmodel plan`.

    run         steps (compute + exchange)
    gradient    steps ((ratio + recomputed) compute + (2 + recomputed) exchange)

`ratio` is the time of a gradient that stores every step, over that of the steps, measured on a tile; `recomputed` is
how often steps are computed again, once for each level of segments but the first. Messages are counted in the program
that a rank of so many would run, on a tile of the same shape if it has at most MOST_TRACED cells; of larger tiles, on a
smaller one, with bytes in proportion to the edges. Collectives with the root take a message for each doubling of ranks.
"""

import dataclasses
import math
from collections.abc import Callable
from typing import Any

from ..fields.state import State
from ..models.shallow_water import ShallowWater
from ..parallel.communicator import Communicator
from ..parallel.decomposition import best_layout
from ..parallel.traffic import Count, Traffic
from ..stepping.explicit import TimeStepper
from .prediction import Compute, Machine, predict
from .timing import OneOfMany, Program

MOST_TRACED = 2**16  # cells of a tile whose messages are counted
ROOTED = ("broadcast", "gather", "scatter")  # verbs whose messages a tree of ranks carries


@dataclasses.dataclass(frozen=True)
class Gradient:
    """What a gradient costs.

    Attributes:
        ratio: time of a gradient that stores every step, over that of the steps.
        steps: that are differentiated.
        segments: `segments(cells, memory)` gives (levels, bytes) of a tile of so many cells, in so many bytes at most.
    """

    ratio: float
    steps: int
    segments: Callable[[int, float], tuple[int, float]]


@dataclasses.dataclass(frozen=True)
class Subject:
    """What is planned.

    Attributes:
        make: `make(communicator)` gives (ShallowWater, State).
        shape: (ny, nx) of the grid.
        stepper: the TimeStepper.
        steps: of the run.
        halo: of the tiles.
        iterations: of the stepper's solver; 0 where it has none.
        compute: the Compute of a step.
        memory: function of a tile's cells: bytes on a rank.
        gradient: a Gradient, or None.
        layout: (py, px), or None for the best.
    """

    make: Callable[[Communicator], tuple[ShallowWater, State]]
    shape: tuple[int, int]
    stepper: TimeStepper
    steps: int
    halo: int
    iterations: int
    compute: Compute
    memory: Callable[[int], float]
    gradient: Gradient | None = None
    layout: tuple[int, int] | None = None


@dataclasses.dataclass(frozen=True)
class Row:
    """A number of ranks: what each has, needs, and sends in a step [bytes, s]; gradients are None unless requested.

    Attributes:
        levels: of segments in which the gradient's steps are stored; 1 stores all of them.
    """

    ranks: int
    machines: int
    layout: tuple[int, int]
    tile: tuple[int, int]
    compute: float
    exchange: float
    memory: float
    messages: float
    size: float
    run: float
    gradient: float | None = None
    gradient_memory: float | None = None
    levels: int = 1

    @property
    def step(self) -> float:
        return self.compute + self.exchange


class Plan:
    """Rows of a Subject on a Machine.

    Args:
        subject: a Subject.
        machine: a Machine with the links that ranks use.
        per_machine: ranks on each machine; see `predict`.
        available: bytes that a rank has for a gradient; those of this machine's cores unless given.
    """

    def __init__(self, subject: Subject, machine: Machine, per_machine: int | None = None, available: float = math.inf):
        self.subject, self.machine, self.per_machine, self.available = subject, machine, per_machine, available
        self._traced: dict[tuple, tuple[Traffic, tuple[int, int]]] = {}

    def row(self, ranks: int) -> Row:
        """The Row of so many ranks; raises TileError if the grid cannot be cut into as many tiles."""
        subject = self.subject
        layout = subject.layout or best_layout(subject.shape, ranks, subject.halo)
        tile = tuple(-(-n // parts) for n, parts in zip(subject.shape, layout))
        messages, size, reductions = self._sent(layout, tile) if ranks > 1 else (0.0, 0.0, 0.0)
        cells = math.prod(tile)
        found = predict(
            self.machine, subject.compute, cells * ranks, ranks, (messages, size, reductions), self.per_machine
        )
        row = Row(
            ranks,
            found.machines,
            layout,
            (tile[0], tile[1]),
            found.compute,
            found.exchange,
            subject.memory(cells),
            messages + reductions,
            size,
            subject.steps * found.seconds,
        )
        if (gradient := subject.gradient) is None:
            return row
        levels, memory = gradient.segments(cells, max(self.available - row.memory, 0.0))
        seconds = (gradient.ratio + levels - 1) * row.compute + (levels + 1) * row.exchange
        return dataclasses.replace(
            row, gradient=gradient.steps * seconds, gradient_memory=row.memory + memory, levels=levels
        )

    def _sent(self, layout, tile):
        """(messages, bytes, reductions) of a step."""
        # A layout with cuts in the same directions, whose tiles have at most about MOST_TRACED cells
        factor, ways = max(1.0, math.prod(tile) / MOST_TRACED), sum(parts > 1 for parts in layout)
        fine = tuple(parts * math.ceil(factor ** (1 / ways)) if parts > 1 else 1 for parts in layout)
        # messages of transforms and of the root depend on the number of ranks, those to neighbours do not
        kind = fine if self.subject.stepper.has_solver else tuple(min(n, 3) for n in layout)
        if kind not in self._traced:
            model, state = self.subject.make(OneOfMany(fine))
            stepper: Any = self.subject.stepper
            found = Program(model, state, stepper, 1, compiled=False).traffic_by_verb()
            self._traced[kind] = found, model.decomposition.tile(0).shape
        traffic, shape = self._traced[kind]
        total = tree(traffic.with_rounds(max(self.subject.iterations, 1)), math.prod(fine), math.prod(layout))
        along = [x for x, parts in zip(tile[::-1], layout) if parts > 1]  # a cut along y has the length of a row
        traced = [x for x, parts in zip(shape[::-1], layout) if parts > 1]
        return total.messages, total.bytes * sum(along) / sum(traced), total.reductions


def tree(traffic: Traffic, traced: int, ranks: int) -> Count:
    """The Count of a Traffic in which the root's messages go along a tree of `ranks` ranks, not to one after another.

    Args:
        traffic: as traced, with a root of `traced` ranks.
    """
    total = traffic.by_verb
    rounds = math.ceil(math.log2(max(ranks, 2)))
    found = sum((count for verb, count in total.items() if verb not in ROOTED), Traffic({}).total)
    for verb in ROOTED:
        count = total.get(verb, Traffic({}).total)
        collectives = count.messages / max(traced - 1, 1)
        found += dataclasses.replace(
            count, messages=collectives * rounds, bytes=count.bytes * (ranks - 1) / max(traced - 1, 1)
        )
    return found
