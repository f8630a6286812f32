"""The time and memory of a gradient, measured on a tile, for `swmodel plan`."""

import math
import time
from collections.abc import Callable

from ..fields.state import State
from ..models.shallow_water import ShallowWater
from ..parallel import SerialCommunicator
from ..parallel.communicator import Communicator
from ..performance.planning import Gradient
from ..performance.timing import OneOfMany, Program
from ..stepping.explicit import TimeStepper
from .core.schedules import Needs, StoreAll, best_lengths
from .costs.costs import BoxEnergy
from .problem import Problem

MOST_CELLS = 2**16  # the largest tile on which a gradient is measured
MOST_OF_EQUATION = 2**20  # the same of implicit steps, whose equations are those of the whole grid up to this size
STEPS = 16
REPEATS = 3


def measure_gradient(
    make: Callable[[Communicator], tuple[ShallowWater, State]],
    shape: tuple[int, int],
    stepper: TimeStepper,
    steps: int,
) -> Gradient:
    """The time and memory of the gradient of the final energy by the initial elevation, a typical gradient.

    Args:
        make: `make(communicator)` gives (ShallowWater, State) of the whole grid on that communicator.
        shape: (ny, nx) of the grid.
        stepper: a TimeStepper; an implicit one makes a given number of rounds (performance.timing.with_rounds).
        steps: the number of steps that the planned gradient differentiates.
    """
    most = MOST_OF_EQUATION if stepper.has_solver else MOST_CELLS
    cut = math.ceil(math.sqrt(math.prod(shape) / most))
    model, state = make(SerialCommunicator() if cut == 1 else OneOfMany((cut, cut)))
    forward = Program(model, state, stepper, STEPS).measure(REPEATS)
    problem = Problem(model, stepper, state, STEPS, BoxEnergy(), ["initial.eta"], checkpoints=StoreAll())
    taken = []
    for _ in range(1 + REPEATS):
        since = time.perf_counter()
        problem.value_and_gradient()
        taken.append((time.perf_counter() - since) / STEPS)
    cells = math.prod(model.decomposition.tile(0).shape)
    needs = problem.needs
    per_cell = Needs(*(x / cells for x in (needs.base, needs.step, needs.point)))
    return Gradient(max(min(taken[1:]) / forward, 2.0), steps, lambda n, memory: segments(per_cell, n, steps, memory))


def segments(per_cell: Needs, cells: int, steps: int, memory: float) -> tuple[int, float]:
    """(levels of segments, bytes) of a gradient on a tile: the fewest levels that fit, or the one that needs least.

    Args:
        per_cell: the Needs of a cell.
        cells: the number of cells of the tile.
        steps: the number of steps of the run.
        memory: the available memory [bytes].
    """
    needs = Needs(*(cells * x for x in (per_cell.base, per_cell.step, per_cell.point)))
    sizes = [needs.bytes(lengths, 1) for lengths in best_lengths(needs, steps)]
    fitting = [level for level, size in enumerate(sizes) if size <= memory]
    level = fitting[0] if fitting else sizes.index(min(sizes))
    return level + 1, sizes[level]
