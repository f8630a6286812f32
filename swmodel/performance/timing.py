"""A compiled run of steps, and what it costs: seconds a step, compilation, memory, messages.

Times are wall-clock, from a barrier of all ranks to the end of the last one, with the program compiled and warm.
"""
import dataclasses
import statistics
import time
from typing import Any

import jax
import jax.numpy as jnp

from ..compilation import jit
from ..integration import integrate
from ..parallel.traffic import traffic

__all__ = ["Program", "Memory", "batch_of"]

BATCH_CELLS = 2e8  # cell-steps of one timing: about a second on two cores


def batch_of(cells):
    """How many steps of so many cells one timing takes."""
    return int(min(max(BATCH_CELLS / cells, 8), 512))


@dataclasses.dataclass(frozen=True)
class Memory:
    """Of a compiled program on one rank [bytes]: what it is given, returns, shares between both, and needs beside."""

    arguments: int
    results: int
    shared: int
    temporary: int
    tile: int  # one array of the tile

    @property
    def peak(self):
        return self.arguments + self.results - self.shared + self.temporary

    @property
    def arrays(self):
        """The peak, in arrays of the tile's size."""
        return self.peak / self.tile


class Program:
    """`steps` time steps of a model as one compiled program, which keeps the state it has reached.

    Args:
        model: a ShallowWater.
        state: the State to start from.
        stepper: a TimeStepper.
        steps: in one call.
    """

    def __init__(self, model, state, stepper, steps):
        self.model, self.steps = model, steps
        self.stepper = jax.tree.map(lambda x: jnp.asarray(x, model.dtype), stepper)
        self.dynamics = model.dynamics(model.halo(stepper), 0, stepper.dt)
        # The program gives its buffers back for the next call: it must not take those that the caller holds.
        self._carry = jax.tree.map(jnp.copy, (state, self.stepper.history(state)))
        self._compiled = None
        self.compile_seconds = self.compile()

    @property
    def communicator(self):
        return self.model.communicator

    def _function(self, steps):
        def run(dynamics, stepper, state, history):
            return integrate(dynamics, stepper, state, steps, history)

        return getattr(self.communicator, "spmd", lambda function: function)(run)

    def compile(self):
        """Trace and compile the program; returns the seconds it took."""
        begin = time.perf_counter()
        program = jit(self._function(self.steps), donate_argnums=(2, 3))
        self._compiled = program.lower(self.dynamics, self.stepper, *self._carry).compile()
        return time.perf_counter() - begin

    def run(self, calls=1):
        """Seconds a step, over `calls` calls; collective."""
        jax.block_until_ready(self._carry)
        self.communicator.barrier()
        begin = time.perf_counter()
        for _ in range(calls):
            self._carry = self._compiled(self.dynamics, self.stepper, *self._carry)
        jax.block_until_ready(self._carry)
        self.communicator.barrier()
        return (time.perf_counter() - begin) / (calls * self.steps)

    def measure(self, repeats=5):
        """Seconds a step, the median of `repeats` timings after one to warm up."""
        self.run()
        return statistics.median(self.run() for _ in range(repeats))

    @property
    def state(self):
        return self._carry[0]

    def memory(self):
        """The Memory of the compiled program on one device."""
        found = self._compiled.memory_analysis()
        sizes = [found.argument_size_in_bytes, found.output_size_in_bytes, found.alias_size_in_bytes]
        rows, columns = self.model.tile.shape
        return Memory(*sizes, found.temp_size_in_bytes, rows * columns * self.model.dtype.itemsize)

    def traffic(self):
        """(messages, bytes, reductions) that this rank sends a step: what twice as many steps send more, a step."""
        count = 12  # a multiple of all numbers of stages that one exchange may serve
        once, twice = (self._traffic(n).total for n in (count, 2 * count))
        return tuple((b - a) / count for a, b in zip(dataclasses.astuple(once), dataclasses.astuple(twice)))

    def _traffic(self, steps) -> Any:
        return traffic(self._function(steps), self.dynamics, self.stepper, *self._carry)
