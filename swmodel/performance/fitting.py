"""Compute and Machine from timings made here: of the basin, or of an experiment's own physics."""

import math
from collections.abc import Callable, Sequence

import numpy as np

from ..errors import ConfigError
from ..fields.state import State
from ..models.shallow_water import ShallowWater
from ..parallel import SerialCommunicator
from ..parallel.communicator import Communicator
from ..parallel.decomposition import TileError
from ..stepping.explicit import TimeStepper
from .cases import OneOfMany
from .machine import fit_link, measure_link
from .prediction import Compute, Machine, fit_compute, signature
from .timing import Program, batch_of

__all__ = ["measure_compute", "measure_links"]

MOST_CELLS = 4e6  # of a tile that is timed: beyond the cache, the cost of a cell is one
CUTS = (8, 4, 2, 1)  # of the largest tile, in each direction: the sizes to fit


def measure_compute(
    make: Callable[[Communicator], tuple[ShallowWater, State]],
    shape: tuple[int, int],
    stepper: TimeStepper,
    cuts: Sequence[int] = CUTS,
    repeats: int = 5,
    share: float = 1.0,
) -> Compute:
    """The Compute of the program that `make` describes, from tiles of several sizes, with all cores of this process.

    Args:
        make: `make(communicator)` gives (ShallowWater, State) of the whole grid on that communicator.
        shape: (ny, nx) of the grid.
        stepper: a TimeStepper.
        cuts: into how many parts the largest tile is cut along each direction, for each of the sizes.
        repeats: timings of each.
        share: of a second that a timing takes, about.
    """
    least = max(1, math.ceil(math.sqrt(np.prod(shape) / MOST_CELLS)))
    cells, seconds, of = [], [], ""
    for cut in cuts:
        try:
            model, state = make(OneOfMany((least * cut,) * 2) if least * cut > 1 else SerialCommunicator())
            steps = max(int(share * batch_of(np.prod(shape) / (least * cut) ** 2)), 8)
            program = Program(model, state, stepper, steps)
        except TileError:  # thinner than the halo
            continue
        cells.append(np.prod(model.decomposition.tile(0).shape))
        seconds.append(program.measure(repeats))
        of = signature(model, stepper)
    if not cells:
        raise ConfigError(f"a grid of {shape[1]} x {shape[0]} cells is too small to be timed; use a larger one.")
    return fit_compute(cells, seconds, of)


def measure_links(communicator: Communicator, hosts: int, repeats: int = 5) -> tuple[list[int], list[float], Machine]:
    """(sizes, seconds, Machine with the Link between these ranks): of one machine, or between several. Collective."""
    sizes, seconds = measure_link(communicator, repeats=repeats)
    link = fit_link(sizes, seconds)
    return sizes, seconds, Machine(network=link) if hosts > 1 else Machine(shared=link)
