"""A compiled run of steps, and its cost: seconds a step, compilation, memory, messages.

Times are wall-clock, from a barrier of all ranks to the end of the last one, with the program compiled and warm.
"""

import dataclasses
import math
import statistics
import time
from typing import Any

import jax
import numpy as np

from ..fields.state import State
from ..models.shallow_water import ShallowWater
from ..parallel.communicator import Communicator
from ..parallel.traffic import Traffic, traffic
from ..runtime.compilation import jit
from ..stepping.explicit import TimeStepper
from ..stepping.loop import pack_state, step_loop, unpack_state
from ..stepping.steps import scan_steps

BATCH_CELLS = 4e8  # cell-steps of one timing: about a second on two cores, which is a chunk of a run
FOREVER = 240_000  # the largest number of steps of one timing
MANY = 24  # steps, a multiple of the numbers of steps that share one message


def batch_of(cells: float) -> int:
    """The number of steps of one timing on a grid of so many cells."""
    return int(min(max(BATCH_CELLS / cells, 8), 2048))


@dataclasses.dataclass(frozen=True)
class Memory:
    """The memory of a compiled program on one rank [bytes].

    Attributes:
        arguments, results: those of the program.
        shared: results that overwrite arguments.
        temporary: further memory while it runs.
        tile: the size of one array of the tile.
    """

    arguments: int
    results: int
    shared: int
    temporary: int
    tile: int

    @property
    def peak(self) -> int:
        return self.arguments + self.results - self.shared + self.temporary

    @property
    def arrays(self) -> float:
        """The peak, in arrays of the tile's size."""
        return self.peak / self.tile


class Program:
    """`steps` time steps of a model as one compiled program, which keeps the state it has reached.

    Args:
        model: a ShallowWater.
        state: the State to start from.
        stepper: a TimeStepper.
        steps: in one call.
        compiled: False only traces it, to count its messages.
    """

    def __init__(self, model: ShallowWater, state: State, stepper: TimeStepper, steps: int, compiled: bool = True):
        self.model, self.steps = model, steps
        place, spmd = self.communicator.place, self.communicator.spmd
        self.stepper = place(lambda rank: jax.tree.map(lambda x: np.asarray(x, model.dtype), stepper))
        scheme: Any = stepper  # every time stepper has a time step, dt
        self.dynamics = model.interval(model.halo(stepper), 0, scheme.dt)
        history = spmd(lambda stepper, state: stepper.history(state))(self.stepper, state)
        self._numbers = sum(leaf.size for leaf in jax.tree.leaves((state, history)) if leaf.ndim >= 2)
        self._cells = math.prod(state.eta.shape[-2:])
        start = self.dynamics, self.stepper, (state, history)
        self._carry = pack_state(*start) if compiled else jax.eval_shape(pack_state, *start)
        self.compile_seconds = self.compile() if compiled else None

    @property
    def communicator(self) -> Communicator:
        return self.model.communicator

    def compile(self) -> float:
        """Trace and compile the program; returns the seconds it took."""
        since = time.perf_counter()
        program = jit(self._program(self.steps), donate_argnums=2)
        self._compiled = program.lower(*self._arguments()).compile()
        seconds = time.perf_counter() - since
        # A program that is compiled ahead of time does not return the token that keeps messages in order.
        self._call = program if self.communicator.effects else self._compiled
        return seconds

    def run(self, calls: int = 1) -> float:
        """Seconds a step, over `calls` calls; collective."""
        jax.block_until_ready(self._carry)
        self.communicator.barrier()
        since = time.perf_counter()
        for _ in range(calls):
            self._carry = self._call(*self._arguments())
        jax.block_until_ready(self._carry)
        self.communicator.barrier()
        return (time.perf_counter() - since) / (calls * self.steps)

    def measure(self, repeats: int = 5) -> float:
        """Seconds a step, the median of `repeats` timings after one to warm up."""
        self.run()
        return statistics.median(self.run() for _ in range(repeats))

    @property
    def state(self) -> State:
        """The State it has reached."""
        return unpack_state(*self._arguments())[0]

    def bytes_moved(self, cells: float) -> float:
        """The least that a step of so many cells moves: each array of state and history read and written once."""
        return 2 * self._numbers / self._cells * self.model.dtype.itemsize * cells

    def memory(self) -> Memory:
        """The Memory of the compiled program on one device."""
        found = self._compiled.memory_analysis()
        rows, columns = self.model.decomposition.tile(0).shape
        return Memory(
            arguments=found.argument_size_in_bytes,
            results=found.output_size_in_bytes,
            shared=found.alias_size_in_bytes,
            temporary=found.temp_size_in_bytes,
            tile=rows * columns * self.model.dtype.itemsize,
        )

    def traffic(self) -> tuple[float, float, float]:
        """(messages, bytes, reductions) of a rank in a step: the difference of 2 n and n steps, over n."""
        once, twice = (traffic(self._program(n * MANY), *self._arguments()) for n in (1, 2))
        if twice.open_loops:
            raise RuntimeError(f"the program has {twice.open_loops} loops of unknown length that send messages.")
        pairs = zip(dataclasses.astuple(once.total), dataclasses.astuple(twice.total))
        return tuple((b - a) / MANY for a, b in pairs)

    def traffic_by_verb(self) -> Traffic:
        """The mean Traffic of a step, without the messages that a program sends once."""
        return traffic(self._program(FOREVER), *self._arguments()) * (1 / FOREVER)

    def _program(self, number):
        """The function of so many steps, on every tile."""

        def steps(dynamics, stepper, carry):
            return scan_steps(step_loop(dynamics, stepper), carry, number)

        return self.communicator.spmd(steps)

    def _arguments(self):
        return self.dynamics, self.stepper, self._carry
