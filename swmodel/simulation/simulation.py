"""A run: compiled chunks of steps, and between them output, progress, signals, safety and restarts.

A chunk ends at the next step at which something is due (output, a forcing record, the end), and after about a second.
Whatever ranks must agree on (a signal, a blow-up, how long the next chunk is) is settled between chunks in one
reduction on the host; within a chunk no rank leaves early.
"""

import contextlib
import dataclasses
import functools
import shlex
import time as clock
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Self

import jax
import jax.numpy as jnp
import numpy as np

from ..defaults import MAXIMA_THRESHOLD
from ..diagnostics.spectra import Spectra
from ..dynamics.clock import Time
from ..errors import BlowUp, ConfigError, Interrupted, TileError
from ..fields.parameters import MOST, FileName, Flag, Moment, Names, Number, Part, Places, Stages, Text, check_arguments
from ..fields.pytrees import pytree
from ..fields.state import State
from ..output.running import Run
from ..output.schedule import FieldOutput, GaugeOutput, MaximaOutput, RestartOutput
from ..output.spectra import SpectraOutput
from ..parallel.communicator import Communicator
from ..runtime import budget
from ..runtime.signals import GRACE, PROCESS, WRITING, SignalWatch
from ..stepping import stability
from ..stepping.loop import (
    arrays_if_loops_fail,
    engine_of,
    on_tiles,
    pack_state,
    run_steps,
    shown,
    step_loop,
    unpack_state,
)
from .monitors import LEAST_THICKNESS, Gauges, Health, Maxima

__all__ = ["Simulation"]

SECONDS_PER_CHUNK = 1.0
LONGEST_CHUNK = 4096  # steps; also the length of the buffer that gauges fill


@pytree
class Carry:
    """The carry of the compiled program: that of the step loop, and those of the monitors of every step."""

    packed: Any
    maxima: Any
    series: Any
    health: Any


@functools.partial(on_tiles, donate_argnums=(2,))
def advance(dynamics, stepper, carry, monitors, first, count):
    """`count` steps from step number `first` on, on every tile. One program for every count."""
    loop = step_loop(dynamics, stepper)
    maxima, gauges, health = monitors
    uplift = loop.equations.uplift

    def as_shown(state, step):
        return loop.equations.shown(state, Time(step), stepper.rigid_lid)

    def uplift_at(step):
        return None if uplift is None else uplift.at(Time(step)).interior

    def monitor(k, get_state, monitored):
        step, (highest, series, illness) = k + 1, monitored
        return (
            None if maxima is None else maxima.update(highest, get_state(), step),
            None if gauges is None else gauges.update(series, as_shown(get_state(), step), k - first),
            health.update(illness, get_state, dynamics.depth, lambda: uplift_at(step), step),
        )

    monitored = carry.maxima, carry.series, carry.health
    packed, (highest, series, illness) = run_steps(loop, carry.packed, count, monitor, monitored, first)
    illness = health.look(illness, loop.get_state(packed), dynamics.depth, uplift_at(first + count), first + count)
    return Carry(packed, highest, series, illness)


def fastest(simulation, stages=(1, 2, 3, 4, 6, 8), steps=24):
    """The number of stages per exchange, of `stages`, that makes `steps` steps in the least time,
    measured on all ranks."""
    model, seconds = simulation.model, {}
    monitors = (None, None, Health.of(model, simulation.dt))
    simulation._dynamics()  # compiles the loops, or chooses arrays on all ranks
    for count in stages if model.communicator.size > 1 else stages[:1]:
        with contextlib.suppress(TileError):  # tiles are too thin for that
            dynamics = model.interval(simulation.halo, simulation.step, simulation.dt, count)
            packed = pack_state(dynamics, simulation.stepper, (simulation.state, simulation.history))
            for _ in range(3):  # the first one compiles
                carry = simulation._carry(monitors, jax.tree.map(jnp.copy, packed))
                model.communicator.barrier()
                since = clock.perf_counter()
                arguments = jnp.int32(simulation.step), jnp.int32(steps)
                jax.block_until_ready(advance(dynamics, simulation.stepper, carry, monitors, *arguments))
                took = model.communicator.host_maximum(clock.perf_counter() - since)
                seconds[count] = min(took, seconds.get(count, took))
    return min(seconds, key=lambda count: seconds[count])


STEPS = Number(None, "steps", minimum=0, whole=True, optional=True)
SECONDS = Number(None, "s", optional=True)
EVERY = Number(None, "s", above=0.0, optional=True)
_RULES = {
    "model": Part(("dynamics", "at_rest"), "ShallowWater(grid, depth)"),
    "state": Part(("names", "map"), "model.at_rest()"),
    "stepper": Part(("step", "check", "history"), "RK4(dt=60.0)"),
    "start": Moment(),
    "title": Text(),
    "config": Text(),
    "overwrite": Flag(),
    "stages_per_exchange": Stages(),
}


class Simulation:
    """A model, a state and a stepper, and what to write while they run.

    Args:
        model: a ShallowWater, or an Ensemble of them.
        state: a State of this rank's tile, from `model.at_rest()` or `model.state(...)`; of an Ensemble its `initial`.
        stepper: a TimeStepper.
        start: the date and time of step 0 (a datetime, UTC), or None.
        config: the experiment as text, kept in every file.
        title: of the run, kept in every file and shown in figures.
        overwrite: whether files of an earlier run may be replaced.
        stages_per_exchange: how many stages of the stepper one exchange of halos shall do for, by a halo so many times
            as wide, computed again on every tile that sees it; "auto" measures which number is fastest here.

    Raises:
        ConfigError: if the time step is over the model's limit, naming the limit and where it is set.
    """

    def __init__(
        self, model, state, stepper, start=None, config="", title="Shallow-water model output", overwrite=True,
        stages_per_exchange=1,
    ):  # fmt: skip
        check_arguments("Simulation", _RULES, locals())
        model.check_state("Simulation", state)
        stepper.check()
        self.model, self.start, self.config, self.overwrite = model, start, config, overwrite
        self.title, self.dt = title, float(stepper.dt)
        self.scheme = stepper
        self.stepper = model.communicator.place(
            lambda rank: jax.tree.map(lambda x: np.asarray(x, model.dtype), stepper)
        )
        self.step = 0
        self._packed, self._reached = None, (state, self.start_history(state))
        self.halo = model.halo(self.stepper)
        self._outputs, self._maxima, self._gauges = [], None, None
        self._maxima_carry = None
        self.resumed_at = self.resumed_step = self.resumed_from = None
        self._check_time_step()
        self.stages, self._knows_engine, self._why_arrays = 1, False, None
        self.stages = fastest(self) if stages_per_exchange == "auto" else stages_per_exchange

    @property
    def time(self) -> float:
        """Model time [s]: steps times dt."""
        return self.step * self.dt

    @property
    def engine(self) -> tuple[str, str | None]:
        """("fused" or "arrays", why not fused): what the steps of this run really run as."""
        engine, why = engine_of(self._dynamics(), self.stepper)
        return engine, self._why_arrays or why

    @property
    def communicator(self) -> Communicator:
        """The model's Communicator."""
        return self.model.communicator

    @property
    def state(self) -> State:
        """The present State of this rank's tile; assigning another State replaces it."""
        return self._now()[0]

    @state.setter
    def state(self, state: State) -> None:
        self.set(state, self.history)

    @property
    def history(self) -> Any:
        """What the stepper keeps of earlier steps."""
        return self._now()[1]

    def _now(self):
        if self._reached is None:
            self._reached = unpack_state(self._dynamics(), self.stepper, self._packed)
        return self._reached

    def shown(self) -> State:
        """The present State as files show it: tracers as concentration instead of content."""
        if not self.model.tracers:
            return self.state
        return shown(self._dynamics(), self.stepper, (self.state, jnp.int32(self.step)))

    def set(self, state: State, history: Any) -> None:
        """Continue from another State and the stepper's history that belongs to it."""
        self._packed, self._reached = None, (state, history)

    def _dynamics(self):
        dynamics = self.model.interval(self.halo, self.step, self.dt, self.stages)
        if self._knows_engine:
            return dynamics
        self._knows_engine = True
        self._why_arrays = arrays_if_loops_fail(self.model, dynamics, self.stepper)
        return self._dynamics()

    def start_history(self, state: State) -> Any:
        """The stepper's history before its first step from `state`."""
        return self.communicator.spmd(lambda stepper, state: stepper.history(state))(self.stepper, state)

    def _check_time_step(self):
        tightest = stability.limits(self.model, self.scheme, self.state)[:1]
        if tightest and self.dt > tightest[0].dt:
            raise ConfigError(
                f"the time step of {self.dt:g} s is over the limit of {type(self.scheme).__name__}: {tightest[0]}; "
                f"use {0.9 * tightest[0].dt:.3g} s or less."
            )

    # -- what to write ------------------------------------------------------------------------------------------------

    def write(self, path: str | Path, variables: Sequence[str] = ("eta", "u", "v"), every: float | None = None) -> Self:
        """Write snapshots of `variables` to the netCDF file `path`, at the start and every `every` seconds."""
        check_arguments("Simulation.write", {"path": FileName(), "variables": Names(), "every": EVERY}, locals())
        self._outputs.append(FieldOutput(path, tuple(variables), self._interval(every, path), self.model))
        return self

    def gauges(
        self, path: str | Path, points: Mapping[str, tuple[float, float]], *, variables: Sequence[str] = ("eta",),
        windows: Mapping[str, tuple[float, float]] | None = None, threshold: float = 0.01,
        arrival_fraction: float = 0.2,
    ) -> Self:  # fmt: skip
        """Write the elevation at `points`, {name: (x, y)}, at every step; bilinear over the wet cells around them.

        Args:
            path: the path of the netCDF file, which also holds the last three arguments for the scoring of the series.
            variables: names of the variables at cell centres to write, instead of the elevation alone.
            windows: {name: (first, last) [s]}: the times by which a gauge is scored; the whole run unless given.
            threshold: a gauge that stays below it [m] has no arrival.
            arrival_fraction: of the maximum in the window, at which a wave has arrived.
        """
        rules = {"path": FileName(), "points": Places(), "variables": Names()}
        check_arguments("Simulation.gauges", rules, locals())
        self._once(GaugeOutput, path, "gauges")
        needed = budget.of_gauges(len(points) * len(variables), self.model.dtype.itemsize, self.model.members or 1)
        budget.require(needed, f"Simulation.gauges: the series of {len(points):,} gauges", "give fewer")
        self._gauges = Gauges.at(points, self.model, tuple(variables))
        rules = {"windows": dict(windows or {}), "threshold": threshold, "arrival_fraction": arrival_fraction}
        self._outputs.append(GaugeOutput(path, dict(points), self._gauges, **rules))
        return self

    def maxima(self, path: str | Path, threshold: float = MAXIMA_THRESHOLD) -> Self:
        """Write the maximum elevation and the first time at which |eta| passes `threshold` [m], of every step."""
        rules = {"path": FileName(), "threshold": Number(None, "m", above=0.0)}
        check_arguments("Simulation.maxima", rules, locals())
        self._once(MaximaOutput, path, "maxima")
        if self.scheme.rigid_lid:
            raise ConfigError(f"{path}: under a rigid lid nothing rises, and there are no maxima; leave it out.")
        self._maxima = Maxima(self.model.scatter(threshold))
        self._maxima_carry = self._maxima.start(self.state)
        self._outputs.append(MaximaOutput(path, threshold))
        return self

    def spectra(self, path: str | Path, every: float | None = None, transfers: bool = True) -> Self:
        """Write spectra of energy and enstrophy, and transfers, to `path`, at the start and every `every` seconds."""
        rules = {"path": FileName(), "every": EVERY, "transfers": Flag()}
        check_arguments("Simulation.spectra", rules, locals())
        spectra = Spectra(self.model, transfers, self.scheme.rigid_lid)
        self._outputs.append(SpectraOutput(path, spectra, self._interval(every, path)))
        return self

    def restart(self, path: str | Path, every: float | None = None) -> Self:
        """Write a restart to `path`, `every` so many seconds, at the end, and when a signal asks for one."""
        check_arguments("Simulation.restart", {"path": FileName(), "every": EVERY}, locals())
        self._outputs.append(RestartOutput(path, self._interval(every, path)))
        return self

    def _once(self, kind, path, what):
        for output in self._outputs:
            if isinstance(output, kind):
                raise ConfigError(f"{path}: {what} are written to {output.path} already; ask for all of them at once.")

    def _interval(self, every, path):
        if every is not None and not every >= 0.999 * self.dt:
            raise ConfigError(
                f"{path} is to be written every {every:g} s, and a step takes {self.dt:g} s; write less often."
            )
        return every

    def resume(self, path: str | Path, force: str | tuple = ()) -> str:
        """Continue from the restart file `path`, written on any number of ranks: bit for bit on the same ranks and dt.

        The restart must be of a run with this model's coast, depth, precision and physics. Another stepper or time step
        starts its history anew, and so does other physics; the returned message says so.

        Args:
            path: of the restart.
            force: what may differ from the run that wrote it: "all", or some of "coast", "depth", "precision" and
                "physics" or of the names in the message of the refusal, as ("depth", "coriolis.f0").

        Returns:
            str: what was resumed, and what was not.

        Raises:
            DataError: if there is no such restart, it is damaged, of another grid, or of a run that differs in
                something that `force` does not name; it says in what, and by how much.
        """
        from ..output.resuming import restored

        message = restored(self, path, force)
        self._check_time_step()
        return message

    # -- running ------------------------------------------------------------------------------------------------------

    def run(
        self, until: float | None = None, steps: int | None = None, progress: Callable[..., Any] | bool | None = None
    ) -> State:
        """Step until `until` [s] of model time, or for `steps` steps; again to go on, with the same files.

        Args:
            until: model time [s]; the run ends at the nearest step.
            steps: instead of `until`.
            progress: called on the root between chunks as progress(step, last_step, model_seconds, wall_seconds); True
                shows a bar.

        Returns:
            The State at the end.

        Raises:
            BlowUp: when the run is no longer finite, runs dry or passes the CFL limit; files keep what they had.
            Interrupted: on SIGINT or SIGTERM, after a restart was written.
        """
        check_arguments("Simulation.run", {"until": SECONDS, "steps": STEPS}, locals())
        if steps is not None and until is None:
            last = self.step + int(steps)
        elif until is not None and steps is None:
            last = round(until / self.dt)
        else:
            raise ConfigError("run: give one of until, in seconds of model time, and steps.")
        if last > MOST:
            raise ConfigError(f"run: the run would end at step {last:,}, and steps are counted to {MOST:,} at most.")
        if last < self.step:
            raise ConfigError(
                f"the run is at {self.time:g} s already, and was asked to end at {until:g} s; give a later time."
            )
        report = _progress(progress, self)
        began, runs = self.step, []

        def kept(name):
            return f"{name} stopped the run {self._computed(began)}. {self._way_on(*runs)}"

        with (
            SignalWatch() as signals, PROCESS.kept(kept), PROCESS.orderly(GRACE),
            Run.opened(self, self._outputs) as run,
        ):  # fmt: skip
            runs.append(run)
            self._loop(last, signals, run, report)
            PROCESS.allow(WRITING)
            run.finish(self)
        return self.state

    def _computed(self, began):
        """How far the run is, where a chunk of steps does not end in time."""
        if self.step == began:
            return "before its first steps were computed"
        return f"after step {self.step} ({self.time:g} s), as the next steps took more than {GRACE:g} s"

    def _loop(self, last, signals, run, report):
        monitors = (self._maxima, self._gauges, Health.of(self.model, self.dt))
        if self._packed is None:
            self._packed = pack_state(self._dynamics(), self.stepper, self._reached)
        carry = self._carry(monitors, self._packed)
        pace, began = Pace(), clock.perf_counter()
        run.due(self)
        run.settle(self)
        report(self.step, last, self.time, 0.0)
        while self.step < last:
            count = min(self._until_next(last, run), pace.steps)
            dynamics, self._reached = self._dynamics(), None
            carry = advance(dynamics, self.stepper, carry, monitors, jnp.int32(self.step), jnp.int32(count))
            jax.block_until_ready(carry)
            self.step += count
            self._packed, self._maxima_carry = carry.packed, carry.maxima
            self._check_solved(run)  # what its solver left may be why a run is unwell
            self._check_health(carry.health, run)
            run.chunk(self, carry.series, count)
            run.due(self)
            run.settle(self)
            request, pace.steps = self._agree(signals.take(), pace.measure(count))
            report(self.step, last, self.time, clock.perf_counter() - began)
            if request:
                self._obey(request, run)

    def _carry(self, monitors, packed):
        """A Carry that may be overwritten: it has a copy of the maxima, which the caller holds."""
        maxima, gauges, health = monitors
        place = self.communicator.place

        def started(arrays):
            members = self.model.members
            return arrays if members is None else jax.tree.map(lambda x: jnp.stack([x] * members), arrays)

        series = None if gauges is None else place(lambda rank: started(gauges.start(LONGEST_CHUNK, self.model.dtype)))
        extremes = jax.tree.map(jnp.copy, self._maxima_carry)
        return Carry(packed, extremes, series, place(lambda rank: started(health.start())))

    def _until_next(self, last, run):
        events = [last, run.next_step(self), self.model.next_record(self.step, self.dt)]
        return min(event for event in events if event is not None and event > self.step) - self.step

    def _agree(self, request, steps):
        """(the most urgent signal of any rank, the root's choice of the next chunk's length), on every rank."""
        mine = steps if self.communicator.is_root else 0
        request, steps = self.communicator.host_maximum(np.array([float(request), float(mine)]))
        return int(request), int(steps)

    def _obey(self, request, run):
        signal, ends = SignalWatch.meaning(request)
        if ends:
            PROCESS.take_over()
        run.write_restart(self)
        if ends:
            message = f"{signal.name} stopped the run at step {self.step} ({self.time:g} s). {self._way_on(run)}"
            raise Interrupted(message, signal)

    def _way_on(self, run=None):
        """Where to go on from after a signal: this run's newest restart, the one it came from, or the beginning."""
        hint = "No restart was written." if run is None else run.restart_hint()
        if hint.startswith("The newest"):
            return hint
        if self.resumed_from is not None:
            again = f"swmodel resume {shlex.quote(str(self.resumed_from))}"
            return f"{hint} Go on again from the one that this run began with: {again}"
        return hint if PROCESS.again is None else f"{hint} Start again with: {PROCESS.again(overwrite=True)}"

    def _check_health(self, health, run):
        """Raise BlowUp, with the place, on every rank alike if any rank's tile is unwell."""
        ill = []
        for rank, found in self.communicator.tiles(health).items():
            box = self.model.decomposition.box(rank)
            for member, (step, place, thickness, courant) in enumerate(zip(*(np.ravel(x).tolist() for x in found))):
                row, column = divmod(place, box.shape[1])
                ill += [(step, member, box.j0 + row, box.i0 + column, thickness, courant)] if step >= 0 else []
        if not self.communicator.agree(bool(ill)):
            return
        everyone = sum(self.communicator.host_gather(ill), [])
        raise BlowUp(_diagnosis(*min(everyone, key=lambda found: found[:4]), self, run))

    def _check_solved(self, run):
        """Raise BlowUp, on every rank alike, if an implicit scheme's equation was not solved at some step so far."""
        if self.scheme.is_implicit and (told := self.scheme.complaint(self._packed[1], self.communicator)):
            raise BlowUp(f"The run stopped at step {self.step} ({self.time:g} s): {told}. {run.restart_hint()}")


def _diagnosis(step, member, row, column, thickness, courant, simulation, run):
    x, y = simulation.model.grid.x_centres[column], simulation.model.grid.y_centres[row]
    whose = "" if simulation.model.members is None else f" of {simulation.model.name(member)}"
    when = f"stopped at step {step} ({step * simulation.dt:g} s): in the cell at ({x:.6g}, {y:.6g}){whose} "
    if not (np.isfinite(thickness) and np.isfinite(courant)):
        what, remedy = "the elevation is not finite", "use a shorter time step, or more viscosity or drag"
    elif courant > 1.0:
        what = f"the flow crosses {courant:.3g} cells a step"
        remedy = "use a shorter time step, or more viscosity or drag"
    elif thickness < LEAST_THICKNESS:
        what = f"the water is {thickness:.2f} m deep, and less than 1 m cannot be computed without wetting and drying"
        remedy = "raise the minimum depth of the bathymetry, or make the cell land"
    else:
        what, remedy = "a tracer is not finite", "use a shorter time step, or more diffusion"
    return f"The run {when}{what}; {remedy}. {run.restart_hint()}"


@dataclasses.dataclass
class Pace:
    """How many steps take about SECONDS_PER_CHUNK."""

    steps: int = 8
    since: float = dataclasses.field(default_factory=clock.perf_counter)
    warm: bool = False

    def measure(self, count):
        """The length of the next chunk after one of `count` steps; the first one holds the compilation."""
        now = clock.perf_counter()
        took, self.since = now - self.since, now
        if not self.warm:
            self.warm = True
            return self.steps
        wanted = count * SECONDS_PER_CHUNK / max(took, 1e-6)
        return int(np.clip(wanted, max(self.steps // 4, 1), min(self.steps * 4, LONGEST_CHUNK)))


def _progress(progress, simulation):
    if not simulation.communicator.is_root or progress in (None, False):
        return lambda *arguments: None
    if progress is True:
        from .progress import ProgressBar

        return ProgressBar()
    return progress
