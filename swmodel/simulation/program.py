"""The compiled program of a run: a number of steps, between which watchers and Health see the state.

The number of steps in the next call of the compiled program (a chunk).
"""

import collections
import contextlib
import dataclasses
import functools
import math
import operator
import statistics
import time as clock
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar, cast

import jax
import jax.numpy as jnp

from ..defaults import LONGEST_CHUNK
from ..dynamics.clock import Time
from ..dynamics.system import System
from ..errors import TileError
from ..fields.field import Count
from ..fields.state import State, pytree
from ..output.products.base import Arrays, Reader, Sample, Watcher
from ..stepping.explicit import TimeStepper
from ..stepping.loop import is_native, on_tiles, pack_state, step_loop
from ..stepping.steps import History, Monitor, StepLoop, no_monitor, steps_of
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
Packed: TypeAlias = tuple[State, History]
Monitored: TypeAlias = tuple[Assessment, dict[str, Arrays], jax.Array, State | tuple]
"""(health, watched) of a Carry, the number of the step whose state is kept, and this state."""
FEW = 8  # steps between samples of watchers that are called between parts of a chunk
CHECK = 24  # steps, or whole periods near that, after which Health checks the state; twice as many ahead of a sample


@pytree
class Carry:
    """The carry of the compiled program.

    Attributes:
        packed: the carry of the step loop (stepping/loop.py).
        health: the arrays of Health.
        watched: {key: arrays} of the watchers of the run's outputs (output/schedule.py).
    """

    packed: Packed
    health: Assessment
    watched: dict[str, Arrays]


def start_carry(simulation: "Simulation", packed: Packed, watched: bool = True) -> Carry:
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
    monitors: tuple[Health, dict[str, Watcher]],
    first: jax.Array,
    count: jax.Array,
) -> Carry:
    """Make `count` steps from step number `first` on, on every tile; one program serves every count.

    Args:
        dynamics, stepper: the model's equations on this rank's tile, and the stepper.
        carry: the Carry, whose buffers are donated and overwritten.
        monitors: (Health, {key: watcher}).
        first: the number of steps so far.
        count: the number of steps to make.

    Returns:
        Carry: the Carry after the steps; Health has checked the last state.
    """
    loop = step_loop(dynamics, stepper)
    interval = interval_of_parts([(1, watcher) for watcher in monitors[1].values()], loop.period)
    watch = Watch(loop, dynamics, *monitors, first, loop.period, interval=interval)
    start = watch.start(carry)
    run = steps_of(loop, carry.packed, watch.within, start[1])
    return in_parts(lambda carries, *at: (run(carries[0], *at),), (watch,), (start,), first, count)[0]


@dataclasses.dataclass(frozen=True)
class Watch:
    """What a run computes from the states of a grid: within the loop over steps, or between parts of a chunk.

    XLA compiles what is within the loop for each step of its period. So watchers with samples far enough apart and
    Health see the state between parts of a chunk. A part has whole periods of steps, except at the end of the chunk,
    since other steps copy all buffers. One of its states, at the next sample or else the last, is kept for what follows
    the part.

    Attributes:
        loop: the StepLoop.
        dynamics: its System, before it is prepared.
        health: the Health.
        watchers: {key: watcher}.
        first: the number of steps of this grid before the chunk.
        period: of the outermost grid's steps.
        total: the number of steps of this grid in one of the outermost grid.
        interval: the `interval_of_parts`.
    """

    loop: StepLoop
    dynamics: System
    health: Health
    watchers: dict[str, Watcher]
    first: jax.Array
    period: int
    total: int = 1
    interval: int = 0

    @property
    def between(self) -> list[str]:
        """The keys of the watchers that are called between parts."""
        steps = self.interval * self.total
        return [key for key, watcher in self.watchers.items() if steps and watcher.every % steps == 0]

    @property
    def within(self) -> Monitor:
        """The Monitor of the loop over steps: the other watchers, and the state to keep."""
        others = [key for key in self.watchers if key not in self.between]
        checked = [watcher.every for key in others if (watcher := self.watchers[key]).is_checked]

        def monitor(k, get_state, monitored):
            step, (fault, watched, target, state) = k + 1, monitored
            if checked:
                due = functools.reduce(operator.or_, [step % every == 0 for every in checked])
                fault = jax.lax.cond(due, lambda: self._assessed(fault, get_state, step), lambda: fault)
            watched = watched | self._updated(others, watched, get_state, step)
            if self.period > 1:
                once = (step == target).astype(jnp.int32)  # a loop, since a GPU copies what a branch passes through
                state = jax.lax.fori_loop(0, once, lambda k, old: get_state(), state)
            return fault, watched, target, state

        return monitor if others or self.period > 1 else no_monitor

    def start(self, carry: Carry) -> tuple[Packed, Monitored]:
        """(carry of the step loop, carry of the Monitor) before the first step of a chunk."""
        state: Any = ()
        if self.period > 1:
            shapes = jax.eval_shape(self.loop.get_state, carry.packed)
            state = jax.tree.map(lambda x: jnp.zeros(x.shape, x.dtype), shapes)
        return carry.packed, (carry.health, carry.watched, jnp.int32(0), state)

    def until(self, target: jax.Array, carries: tuple[Packed, Monitored]) -> tuple[Packed, Monitored]:
        """The carries of a part after which the state of step number `target` of the outermost grid is looked at."""
        packed, (fault, watched, _, state) = carries
        return packed, (fault, watched, target * self.total, state)

    def after_part(self, carries: tuple[Packed, Monitored]) -> tuple[Packed, Monitored]:
        """The carries after a part, with Health and the watchers called with its state."""
        packed, (fault, watched, step, state) = carries

        def get_state():
            return state if self.period > 1 else self.loop.get_state(packed)

        fault = self._assessed(fault, get_state, step)
        return packed, (fault, watched | self._updated(self.between, watched, get_state, step), step, state)

    def _assessed(self, fault, get_state, step):
        uplift = self.loop.equations.uplift
        rise = (lambda: None) if uplift is None else lambda: uplift.at(Time(step)).interior
        return self.health.assess(fault, get_state, self.dynamics, rise, step)

    def _updated(self, keys, watched, get_state, step):
        def make_sample(dt=None):
            return sample_of(self.loop.equations, get_state(), step, dt)

        row = step - 1 - self.first
        return {key: self.watchers[key].update(watched[key], make_sample, step, row) for key in keys}


def interval_of_parts(watchers: Sequence[tuple[int, Watcher]], period: int) -> int:
    """The largest interval whose multiples are all samples of some watchers [steps of the outermost grid]; 0 for none.

    It is long enough that no part of a chunk has two of its multiples, and as many watchers as possible share it.

    Args:
        watchers: (number of steps of its grid in one of the outermost grid, watcher).
        period: the period of the loop.
    """
    interval = 0
    for total, watcher in watchers:
        every, rest = divmod(watcher.every, total)
        common = math.gcd(every, interval)
        if not rest and every > 1 and common >= max(FEW, period):
            interval = common
    return interval


def in_parts(
    run: Callable[..., tuple], watches: Sequence[Watch], carries: tuple, first: jax.Array, count: jax.Array
) -> tuple[Carry, ...]:
    """The Carries of all grids after `count` steps of the outermost one, from its step number `first` on.

    Args:
        run: `run(carries, first, count)` makes steps of the outermost grid.
        watches: the Watch of each grid.
        carries: its `start` of each grid.
        first, count: steps.
    """
    period, end = watches[0].period, first + count
    most = max(CHECK // period, 1) * period
    interval = watches[0].interval

    def part(at):
        step, carries = at
        due = jnp.minimum((step // interval + 1) * interval, end) if interval else end
        target = jnp.where(due < step + 2 * most, due, step + most)
        whole = -(-(target - step) // period) * period
        length = jnp.where(step + whole < end, whole, target - step)  # so that the last state is checked, too
        begun = tuple(watch.until(target, each) for watch, each in zip(watches, carries, strict=True))
        done = run(begun, step, length)
        return step + length, tuple(watch.after_part(each) for watch, each in zip(watches, done, strict=True))

    _, done = jax.lax.while_loop(lambda at: at[0] < end, part, (first, carries))
    return tuple(Carry(packed, fault, watched) for packed, (fault, watched, *_) in done)


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
