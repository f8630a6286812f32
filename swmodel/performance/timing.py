"""Timed steps: waves in a closed basin of variable depth on a beta-plane, with Laplacian viscosity.

The physics is that of the mpi4jax demo, whose depth is uniform. Amplitudes are such that every term matters, and the
water is nowhere at rest: denormal numbers would take a hundred times as long.

The first rank of many that runs alone has wrong numbers (OneOfMany), with which conjugate gradients would take any
number of iterations. Implicit steps are therefore timed with the number that the whole grid, or a coarser one, needs.

A compiled run of steps has a cost: seconds a step, compilation, memory, messages. Times are wall-clock, from a barrier
of all ranks to the end of the last one, with the program compiled and warm.
"""

import dataclasses
import math
import statistics
import time
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ..dynamics.dissipation import Laplacian
from ..elliptic.base import Plan, Report, Solver
from ..elliptic.operator import Coefficients, Stencil
from ..fields.parts import snake_case
from ..fields.state import State, replace
from ..grids.geometry import BetaPlane
from ..grids.grid import CartesianGrid
from ..models.shallow_water import ShallowWater
from ..parallel import LoneTile
from ..parallel.communicator import Communicator
from ..parallel.traffic import Traffic, traffic
from ..runtime.compilation import jit
from ..stepping.explicit import AB2, AB3, RK4, SSPRK3, TimeStepper
from ..stepping.forward_backward import ForwardBackward, ForwardBackwardHancock
from ..stepping.loop import pack_state, step_loop, unpack_state
from ..stepping.steps import scan_steps

SPACING = 5000.0  # of the cells [m]
TIME_STEP = 2.0  # [s], for every stepper
VISCOSITY = 1000.0  # [m2 s-1]
F0, BETA = 1e-4, 4e-12  # [s-1], [m-1 s-1]
EXPLICIT = (AB2, AB3, RK4, SSPRK3, ForwardBackward, ForwardBackwardHancock)
STEPPERS = {snake_case(cls.__name__): cls for cls in EXPLICIT}


def stepper_named(name: str) -> TimeStepper:
    """The stepper of that name, with the time step of the benchmarks."""
    if name not in STEPPERS:
        raise ValueError(f"stepper = {name!r} is unknown; give one of {', '.join(STEPPERS)}.")
    return STEPPERS[name](TIME_STEP)


def basin(
    nx: int,
    ny: int,
    precision: str = "float32",
    communicator: str | Communicator = "auto",
    layout: tuple[int, int] | None = None,
    *,
    engine: str = "auto",
    dissipation: tuple = (),
    **parts: Any,
) -> tuple[ShallowWater, State]:
    """(ShallowWater, State of this tile) of the basin with nx x ny cells.

    Args:
        nx, ny: cells along x and y.
        precision, communicator, layout, engine: of the ShallowWater.
        dissipation, parts: further arguments of the ShallowWater, which the benchmarks' step does not have otherwise.
    """
    length, width = SPACING * nx, SPACING * ny

    def waves(function_x, m, function_y, n):
        return lambda x, y: function_x(m * np.pi * x / length) * function_y(n * np.pi * y / width)

    def scaled(factor, wave):
        return lambda x, y: factor * wave(x, y)

    depth = waves(np.cos, 3, np.cos, 2)
    model = ShallowWater(
        CartesianGrid(nx, ny, (0.0, length), (0.0, width)),
        lambda x, y: 4000.0 + 1000.0 * depth(x, y),  # [m]
        coriolis=BetaPlane(F0, BETA),
        dissipation=(Laplacian(VISCOSITY), *dissipation),
        communicator=communicator,
        engine=engine,
        layout=layout,
        dtype=precision,
        **parts,
    )
    fast = scaled(5.0, waves(np.sin, 2, np.cos, 11))
    state = model.state(
        u=fast,
        v=scaled(3.0, waves(np.cos, 13, np.sin, 2)),
        eta=scaled(10.0, waves(np.cos, 7, np.cos, 3)),
        **({} if model.layers is None else {"u_2": fast, "v_2": scaled(3.0, waves(np.cos, 13, np.sin, 2))}),
    )
    return model, state


class OneOfMany(LoneTile):
    """The first rank of `layout` = (py, px), that runs alone: what it sends comes back to it, all else gathers zeros.

    Its numbers are wrong, and its time is that of a rank which never waits: what a tile's arithmetic and the packing of
    its messages cost, and which messages it would send.
    """

    def __init__(self, layout: Sequence[int]):
        self.layout, self.size = tuple(layout), layout[0] * layout[1]


TRIED = 4  # steps whose iterations are counted


@dataclasses.dataclass(frozen=True)
class Counted(Solver):
    """Another solver, that reports its iterations as the residual of an equation which it did not solve."""

    of: Any

    def plan(self, domain: Any, coefficients: Coefficients) -> Plan:
        return self.of.plan(domain, coefficients)

    def prepare(self, domain: Any, coefficients: Coefficients, stencil: Stencil) -> object:
        return self.of.prepare(domain, coefficients, stencil)

    def invert(self, plan: Plan, r: jax.Array) -> tuple[jax.Array, Report]:
        return self.of.invert(plan, r)

    def solve_and_report(self, plan: Plan, b: jax.Array) -> tuple[jax.Array, Report]:
        phi, report = self.of.solve_and_report(plan, b)
        return phi, Report(report.iterations, report.iterations.astype(phi.dtype), jnp.zeros((), bool))


def solver_of(model: ShallowWater, stepper: TimeStepper) -> Any:
    """The elliptic.Solver of an implicit stepper for a model: its own, or the one that it chooses."""
    found = []

    def look(dynamics, stepper):
        found.append(stepper.prepare(stepper.system(dynamics)).surface.solver)
        return jnp.zeros(())

    scheme: Any = stepper
    jax.eval_shape(model.communicator.spmd(look), model.interval(model.halo(stepper), 0, scheme.dt), stepper)
    return found[0]


def iterations_of(model: ShallowWater, state: State, stepper: TimeStepper) -> int:
    """The most iterations that a step from `state` takes; 0 of a solver that is direct.

    Water at rest with nothing to move it takes none, and gets waves of one wavelength along each direction.
    """
    if not stepper.has_solver:
        return 0
    scheme: Any = replace(stepper, solver=Counted(solver_of(model, stepper)))
    dynamics = model.interval(model.halo(scheme), 0, scheme.dt)

    def steps(dynamics, stepper, carry):
        return scan_steps(step_loop(dynamics, stepper), carry, TRIED)

    for start in (state, _with_waves(state)):
        carry = pack_state(dynamics, scheme, (start, scheme.history(start)))
        carry = jax.jit(model.communicator.spmd(steps))(dynamics, scheme, carry)
        _, history = unpack_state(dynamics, scheme, carry)
        if (count := int(history.residual)) > 0:
            return count
    return 0


def with_rounds(model: ShallowWater, stepper: TimeStepper, iterations: int) -> TimeStepper:
    """The stepper with a solver that takes so many iterations, whatever its equation; unchanged without iterations."""
    if not iterations:
        return stepper
    return replace(stepper, solver=solver_of(model, stepper).with_iterations(iterations))


def _with_waves(state):
    rows, columns = (jnp.arange(n) / n for n in state.eta.shape[-2:])
    wave = jnp.cos(2 * jnp.pi * rows)[:, None] * jnp.cos(2 * jnp.pi * columns)[None, :]
    return state.replace(eta=state.eta + 0.01 * wave.astype(state.eta.dtype))


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
