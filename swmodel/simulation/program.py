"""The compiled program of a run: a number of steps, after each of which watchers and Health see the state.

The number of steps in the next call of the compiled program (a chunk).
"""

import collections
import contextlib
import functools
import statistics
import time as clock
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, TypeVar, cast

import jax
import jax.numpy as jnp

from ..dynamics.clock import Time
from ..dynamics.system import System
from ..errors import TileError
from ..fields.field import Count
from ..fields.state import State, pytree
from ..output.products.base import Arrays, Reader, Sample
from ..output.products.gauges import LONGEST_CHUNK
from ..stepping.explicit import TimeStepper
from ..stepping.loop import is_native, on_tiles, pack_state, step_loop
from ..stepping.steps import History, Monitor, StepLoop, run_steps
from .stopping import Assessment, Health

if TYPE_CHECKING:
    from .simulation import Simulation

LEAST_SECONDS, MOST_SECONDS = 1.0, 5.0  # of the steps of a chunk; a run responds to signals between chunks
SHARE = 0.2  # of a chunk's time that its fixed cost may take, if MOST_SECONDS suffice for that


class Pace:
    """The number of steps that take about LEAST_SECONDS, or longer if a chunk has a cost c that no step adds to.

    The time of a chunk of n steps is c + n s. Two chunks of which one has at least twice as many steps give c. When
    none of the recent ones has, the next one has twice as many, or half as many after a long one: one chunk that was
    slow for another reason would otherwise be mistaken for a step's time for ever, and chunks stay short. The step's
    time s is the median over recent chunks. The steps of a chunk take c (1 - SHARE) / SHARE, and so the fixed cost
    about SHARE of the time, within LEAST_SECONDS to MOST_SECONDS and up to LONGEST_CHUNK steps.

    The time of output does not count, nor does the first chunk, during which the program is compiled. Neither slow
    output nor one slow chunk therefore shortens the next ones.
    """

    def __init__(self) -> None:
        self.steps, self._warm = 8, False
        self._fixed = 0.0  # [s], c
        self._recent: collections.deque[tuple[int, float]] = collections.deque(maxlen=5)

    def measure(self, count: int, seconds: float) -> int:
        """The length of the next chunk [steps] after one of `count` steps that took `seconds`."""
        if not self._warm:
            self._warm = True
            return self.steps
        self._recent.append((count, seconds))
        (fewest, short), (most, long) = min(self._recent), max(self._recent)
        if unlike := most >= 2 * fewest:
            fixed = short - (long - short) / (most - fewest) * fewest
            self._fixed = min(max(fixed, 0.0), *(took for _, took in self._recent))
        step = statistics.median((took - self._fixed) / n for n, took in self._recent)
        wanted = min(max(LEAST_SECONDS, self._fixed * (1.0 - SHARE) / SHARE), MOST_SECONDS) / max(step, 1e-9)
        if not unlike and seconds < 2.0 * LEAST_SECONDS:
            wanted = max(wanted, 2.0 * count)
        elif not unlike:
            wanted = min(wanted, count // 2 or 2)
        return max(int(min(wanted, self.steps * 4, LONGEST_CHUNK)), 1)


T = TypeVar("T")


@pytree
class Carry:
    """The carry of the compiled program.

    Attributes:
        packed: the carry of the step loop (stepping/loop.py).
        health: the arrays of Health.
        watched: {key: arrays} of the watchers of the run's outputs (output/schedule.py).
    """

    packed: tuple[State, History]
    health: Assessment
    watched: dict[str, Arrays]


def start_carry(simulation: "Simulation", packed: tuple[State, History], watched: bool = True) -> Carry:
    """A Carry that may be overwritten, for the carry `packed` of the step loop; its watchers' arrays if `watched`."""
    place, members = simulation.communicator.place, simulation.model.members
    health = jax.tree.map(lambda x: x if members is None else jnp.stack([x] * members), Health.start())
    outputs = simulation.watched() if watched else {}
    arrays: dict[str, Any] = {key: output.start_arrays(simulation, packed) for key, output in outputs.items()}
    return Carry(packed, cast(Assessment, place(lambda rank: health)), arrays)


@functools.partial(on_tiles, donate_argnums=(2,), light=is_native)
def advance(
    dynamics: System,
    stepper: TimeStepper,
    carry: Carry,
    monitors: tuple[Health, dict],
    first: jax.Array,
    count: jax.Array,
) -> Carry:
    """Make `count` steps from step number `first` on, on every tile; one program serves every count.

    Args:
        dynamics, stepper: the model's equations on this rank's tile, and the stepper.
        carry: the Carry, whose buffers are donated and overwritten.
        monitors: (Health, {key: watcher}), which see the state after every step.
        first: the number of steps so far.
        count: the number of steps to make.

    Returns:
        Carry: the Carry after the steps; Health has checked the last state.
    """
    loop = step_loop(dynamics, stepper)
    monitor = monitor_of(loop, dynamics, monitors, first)
    packed, monitored = run_steps(loop, carry.packed, count, monitor, (carry.health, carry.watched), first)
    return finished_carry(loop, dynamics, monitors, packed, monitored, first + count)


def monitor_of(loop: StepLoop, dynamics: System, monitors: tuple[Health, dict], first: jax.Array) -> Monitor:
    """The Monitor of a chunk from step number `first` on; its carry is that of Health and of the watchers."""
    health, watchers = monitors

    def monitor(k, get_state, monitored):
        step, (fault, watched) = k + 1, monitored

        def make_sample(dt=None):
            return sample_of(loop.equations, get_state(), step, dt)

        fault = health.update(fault, get_state, dynamics, lambda: _uplift(loop, step), step)
        return fault, {key: watchers[key].update(x, make_sample, step, k - first) for key, x in watched.items()}

    return monitor


def finished_carry(
    loop: StepLoop,
    dynamics: System,
    monitors: tuple[Health, dict],
    packed: tuple[State, History],
    monitored: tuple[Assessment, dict[str, Arrays]],
    last: jax.Array,
) -> Carry:
    """The Carry after a chunk whose last step has the number `last`; Health has checked its last state."""
    fault, watched = monitored
    fault = monitors[0].finish(fault, lambda: loop.get_state(packed), dynamics, lambda: _uplift(loop, last), last)
    return Carry(packed, fault, watched)


def _uplift(loop, step):
    uplift = loop.equations.uplift
    return None if uplift is None else uplift.at(Time(step)).interior


def sample_of(equations: System, state: State, step: Count, dt: float | None = None) -> Sample:
    """The Sample of a State after a number of steps; its time has seconds if `dt` [s] is given."""
    dtype = state.eta.dtype
    time = Time(step) if dt is None else Time(step, jnp.zeros((), dtype), jnp.asarray(dt, dtype), dt)
    return Sample(equations, state, time)


@on_tiles
def read_once(dynamics: System, stepper: TimeStepper, at: tuple[State, jax.Array], watcher: Reader[T]) -> T:
    """What `watcher.of(sample)` returns for `at`, (State, number of its step), on every tile."""
    state, step = at
    return watcher.of(sample_of(stepper.system(dynamics), state, step))


def compile_ahead(simulation: "Simulation") -> None:
    """Compile the programs of the first steps and snapshots before the uplift of a moving sea floor is known.

    JAX keeps them for the calls that follow. Ranks begin with different ones, and load what another rank has compiled
    (runtime/compilation.py). Nothing is done for ensembles and several devices, whose arguments have other forms.
    """
    model, start = simulation.model, simulation._unpacked
    if model.members is not None or model.communicator.name == "sharded" or start is None:
        return
    dynamics, stepper, monitors = simulation.outline(), simulation.stepper, simulation.monitors()
    pack = pack_state.lower(dynamics, stepper, start)
    packed = jax.tree.map(lambda x: jax.ShapeDtypeStruct(x.shape, x.dtype), pack.out_info)
    carry, number = start_carry(simulation, packed), jnp.int32(0)
    found = [pack, *(one for output in simulation.outputs for one in output.lowered(simulation, dynamics, packed))]
    found.append(advance.lower(dynamics, stepper, carry, monitors, number, number))
    for lowered in found[:: -1 if model.communicator.rank % 2 else 1]:
        lowered.compile()


def fastest_stages(simulation: "Simulation", stages: Sequence[int] = (1, 2, 3, 4, 6, 8), steps: int = 24) -> int:
    """The number of stages per exchange, among `stages`, with which `steps` steps take the least time on all ranks."""
    model, seconds = simulation.model, {}
    monitors = (Health.of(model, simulation.dt), {})
    simulation._dynamics()  # compiles the loops, or chooses arrays on all ranks
    for count in stages if model.communicator.size > 1 else stages[:1]:
        with contextlib.suppress(TileError):  # the tiles are thinner than the halo that `count` stages need
            dynamics = model.interval(simulation.halo, simulation.step, simulation.dt, count)
            packed = pack_state(dynamics, simulation.stepper, (simulation.state, simulation.history))
            for _ in range(3):  # the first one compiles
                carry = start_carry(simulation, jax.tree.map(jnp.copy, packed), watched=False)
                model.communicator.barrier()
                since = clock.perf_counter()
                arguments = jnp.int32(simulation.step), jnp.int32(steps)
                jax.block_until_ready(advance(dynamics, simulation.stepper, carry, monitors, *arguments))
                took = model.communicator.host_maximum(clock.perf_counter() - since)
                seconds[count] = min(took, seconds.get(count, took))
    return min(seconds, key=lambda count: seconds[count])
