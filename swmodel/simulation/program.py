"""The compiled program of a run: a number of steps, between which watchers and Health see the state."""

import contextlib
import dataclasses
import functools
import math
import operator
import time as clock
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar, cast

import jax
import jax.numpy as jnp
import numpy as np

from ..defaults import LEAST_THICKNESS
from ..dynamics.clock import Time
from ..dynamics.system import System
from ..errors import TileError
from ..fields.field import Count
from ..fields.state import State, pytree, static
from ..fields.variables import in_layer
from ..models.ensemble import Ensemble
from ..models.shallow_water import ShallowWater
from ..output.products.base import Arrays, Reader, Sample, Watcher
from ..stepping.explicit import TimeStepper
from ..stepping.loop import is_native, on_tiles, pack_state, step_loop
from ..stepping.steps import History, Monitor, StepLoop, no_monitor, steps_of

if TYPE_CHECKING:
    from .simulation import Simulation

T = TypeVar("T")
Assessment: TypeAlias = tuple[jax.Array, ...]
"""The arrays of Health.start."""
GetState: TypeAlias = Callable[[], State]
GetUplift: TypeAlias = Callable[[], jax.Array | None]
Packed: TypeAlias = tuple[State, History]
Monitored: TypeAlias = tuple[Assessment, dict[str, Arrays], jax.Array, State | tuple]
"""(health, watched) of a Carry, the number of the step whose state is kept, and this state."""
FEW = 8  # steps between samples of watchers that are called between parts of a chunk
CHECK = 24  # steps, or whole periods near that, after which Health checks the state; twice as many ahead of a sample


@pytree
class Health:
    """A check of the state, which takes a fifth of a step or less; `in_parts` has the steps at which it is made.

    Attributes:
        dt_per_dx, dt_per_dy: dt over the sides of the cells at u and v [s m-1].
        linear: whether the model is linear.
        least: the smallest thickness with which a run continues [m].
    """

    dt_per_dx: Any
    dt_per_dy: Any
    linear: bool = static()
    least: float = static(default=LEAST_THICKNESS)

    @staticmethod
    def of(model: ShallowWater | Ensemble, dt: float) -> "Health":
        """The Health of a model's tiles for steps of `dt` [s]."""

        def make(rank):
            box = model.decomposition.box(rank)
            metrics = model.grid.metrics(np.arange(box.j0, box.j1))
            share = model.core.zonal_share(model.grid.y_centres[box.j0 : box.j1, None])
            per_x, per_y = (dt / np.maximum(metrics[name], 1e-30) for name in ("dx_u", "dy_v"))
            per_x, per_y = (np.asarray(x, model.dtype) for x in (per_x * share, per_y))
            return Health(per_x, per_y, model.linear, model.least_thickness)

        return model.communicator.place(make)

    @staticmethod
    def start() -> Assessment:
        """(first invalid step or -1, flat index of layer and cell, h [m] and CFL number there), each of shape (1,)."""
        return jnp.full(1, -1, jnp.int32), jnp.zeros(1, jnp.int32), jnp.zeros(1), jnp.zeros(1)

    def assess(
        self, carry: Assessment, get_state: GetState, dynamics: System, uplift: GetUplift, step: jax.Array
    ) -> Assessment:
        """The arrays of `start` after a check of the State; the first invalid step is kept.

        Args:
            carry: the arrays so far.
            get_state: returns the State. It is called a second time to locate an invalid cell, because an array that is
                passed to that branch would be copied in each check.
            dynamics: the System on tiles, of which H at rest is 0 on land that is never wet.
            uplift: returns the rise of the sea floor [m], or None.
            step: the number of the step.
        """

        def cell_values():
            state, rise = get_state(), uplift()
            layers, count = dynamics.layers, dynamics.layer_count
            bottom = dynamics.depth - (0.0 if rise is None else rise)
            u, v, eta = ([state[in_layer(name, k)] for k in range(count)] for name in ("u", "v", "eta"))
            heights, excess = ([bottom], eta) if layers is None else (layers.rest(bottom), layers.excess(eta))
            thickness = [jnp.where(dynamics.depth != 0, a + b, jnp.inf) for a, b in zip(heights, excess)]
            courant = [jnp.abs(a) * self.dt_per_dx + jnp.abs(b) * self.dt_per_dy for a, b in zip(u, v)]
            finite = [jnp.isfinite(sum((state[name] for name in state.others), x + state.eta)) for x in courant]
            joined = (x[0] if count == 1 else jnp.stack(x) for x in (finite, thickness, courant))
            valid, thickness, courant = joined
            if not self.linear:  # a linear model's amplitudes are arbitrary
                valid = valid & (thickness >= self.least) & (courant <= 1.0)
            return valid, thickness, courant

        def is_valid():  # XLA vectorises sums along columns and shares them among threads, but not logical operations
            valid, _, courant = cell_values()
            return jnp.all(jnp.sum(jnp.where(valid, 0.0, 1.0).astype(courant.dtype), axis=-2) == 0.0)

        def diagnosis():
            valid, thickness, courant = cell_values()
            place = jnp.argmin(valid.reshape(-1))[None].astype(jnp.int32)
            values = (x.reshape(-1)[place].astype(old.dtype) for x, old in zip((thickness, courant), carry[2:]))
            return jnp.full_like(carry[0], step), place, *values

        # The cell is located only in an invalid state, since that takes ten times as long as the check.
        return jax.lax.cond(~is_valid() & (carry[0][0] < 0), diagnosis, lambda: carry)


def invalid_cells(simulation: "Simulation", health: Assessment) -> list[tuple]:
    """[(step, member, layer, row, column, thickness, CFL number)] of the first invalid cell of each tile and member.

    Args:
        simulation: the Simulation.
        health: the arrays of Health after a chunk of steps.
    """
    found, layers = [], simulation.model.layer_count
    for rank, arrays in simulation.communicator.tiles(health).items():
        box = simulation.model.decomposition.box(rank)
        for member, (step, place, thickness, courant) in enumerate(zip(*(np.ravel(x).tolist() for x in arrays))):
            layer, row, column = (int(x) for x in np.unravel_index(place, (layers, *box.shape)))
            found += [(step, member, layer, box.j0 + row, box.i0 + column, thickness, courant)] if step >= 0 else []
    return found


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
    place, batch = simulation.communicator.place, simulation.model.batch
    health = jax.tree.map(lambda x: jnp.broadcast_to(x, (*batch, *x.shape)), Health.start())
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

    def steps(watches, starts):
        run = steps_of(loop, carry.packed, watches[0].within, starts[0][1])
        return lambda carries, *at: (run(carries[0], *at),)

    return in_parts([(loop, dynamics, carry, monitors, 1)], loop.period, steps, first, count)[0]


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
    total: int
    interval: int

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


Grid: TypeAlias = tuple[StepLoop, System, Carry, tuple[Health, dict[str, Watcher]], int]
"""A grid of a run; the number is that of its steps in one of the outermost grid."""


def in_parts(
    grids: Sequence[Grid], period: int, steps: Callable[..., Callable], first: jax.Array, count: jax.Array
) -> tuple[Carry, ...]:
    """The Carries of all grids after `count` steps of the outermost one, from its step number `first` on.

    Args:
        grids: a single one, or those of a family, the outermost first.
        period: of the outermost grid's steps.
        steps: `steps(watches, starts)` gives `run(carries, first, count)`, which makes steps of the outermost grid;
            of each grid there are a Watch and its `start`.
        first, count: steps.
    """
    interval = interval_of_parts([(total, x) for *_, (_, watchers), total in grids for x in watchers.values()], period)
    watches = [
        Watch(loop, system, *monitors, first * total, period, total, interval)
        for loop, system, _, monitors, total in grids
    ]
    starts = tuple(watch.start(grid[2]) for watch, grid in zip(watches, grids, strict=True))
    run, end = steps(watches, starts), first + count
    most = max(CHECK // period, 1) * period

    def part(at):
        step, carries = at
        due = jnp.minimum((step // interval + 1) * interval, end) if interval else end
        target = jnp.where(due < step + 2 * most, due, step + most)
        whole = -(-(target - step) // period) * period
        length = jnp.where(step + whole < end, whole, target - step)  # so that the last state is checked, too
        begun = tuple(watch.until(target, each) for watch, each in zip(watches, carries, strict=True))
        done = run(begun, step, length)
        return step + length, tuple(watch.after_part(each) for watch, each in zip(watches, done, strict=True))

    _, done = jax.lax.while_loop(lambda at: at[0] < end, part, (first, starts))
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
    if model.batch or model.communicator.name == "sharded" or start is None:
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
