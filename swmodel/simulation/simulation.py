"""A run: a model, its present state, a stepper, and the files that `run` writes meanwhile (driver.py)."""

import datetime
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, cast

import jax
import jax.numpy as jnp
import numpy as np

from ..dynamics.system import System
from ..dynamics.transported import Passage
from ..errors import ConfigError
from ..fields.parameters import MOST, check_arguments, in_utc
from ..fields.state import State, pytree
from ..models.display import as_html, as_text, has_all_tiles, map_of_elevation, rows_of_grid, rows_of_model
from ..models.engine import arrays_if_loops_fail
from ..models.ensemble import Ensemble
from ..models.parts import check_origins, first_date
from ..models.shallow_water import ShallowWater
from ..output.products.base import Reader, Sample, Watcher
from ..output.resuming import restored
from ..output.running import Run
from ..output.schedule import Output
from ..parallel.communicator import Communicator
from ..stepping.explicit import TimeStepper
from ..stepping.loop import Members, engine_of, pack_state, unpack_state
from ..stepping.stability import check_time_step
from ..stepping.steps import History, start_history
from ..units import duration
from .driver import Driver, Pace
from .outputs import RULES, SECONDS, STEPS, Outputs
from .program import Carry, Health, fastest_stages, read_once

if TYPE_CHECKING:
    from ..nests.family import Family

T = TypeVar("T")


@pytree
class Shown:
    """A watcher that returns the State as files hold it."""

    def of(self, sample: Sample) -> State:
        return sample.shown


class Simulation(Outputs):
    """A model, a state and a stepper, and what to write while they run.

    Args:
        model: a ShallowWater, or an Ensemble of them.
        state: a State of this rank's tile, from `model.at_rest()` or `model.state(...)`; for an Ensemble, its
            `initial`.
        stepper: a TimeStepper.
        start: the date and time of step 0 (a datetime, UTC); that of the model's tides unless given.
        config: the experiment as text, written to every file.
        title: the title of the run, written to every file and shown in figures.
        overwrite: whether results of an earlier run may be lost. Unless given, a new run replaces files, and a resumed
            run cuts no records that it does not compute again.
        stages_per_exchange: the number of stages of the stepper between two exchanges of halos. The halo is this many
            times as wide, and neighbouring tiles compute it redundantly. "auto" measures which number is fastest.

    Raises:
        ConfigError: if the time step is over the model's limit, naming the limit and where it is set, and if `start`
            is not that of the model's tides.
    """

    def __init__(
        self,
        model: ShallowWater | Ensemble,
        state: State,
        stepper: TimeStepper,
        start: datetime.datetime | None = None,
        config: str = "",
        title: str = "Shallow-water model output",
        overwrite: bool | None = None,
        stages_per_exchange: int | str = 1,
    ) -> None:
        check_arguments("Simulation", RULES, locals())
        model.check_state("Simulation", state)
        stepper.check()
        self.model, self.start, self.config, self._overwrite = model, _start_of(model, start), config, overwrite
        self.title, self.dt = title, float(stepper.dt)
        self.scheme = stepper
        self.stepper = cast(
            TimeStepper,
            model.communicator.place(lambda rank: jax.tree.map(lambda x: np.asarray(x, model.dtype), stepper)),
        )
        self.step = 0
        self._packed: Any = None
        self._counted: Sequence[Passage] = ()  # along borders of nests
        self._unpacked: Any = (state, self.start_history(state))
        self.halo = model.halo(self.stepper)
        self.outputs, self.pace = [], Pace()
        self.nest, self.has_nests = "", False  # the name of a nested grid; whether a NestedSimulation steps it
        self.facts: dict[str, str | float] = {}  # entries of a restart's fingerprint that the model does not have
        self.outermost: ShallowWater | Ensemble = model  # of a family of grids
        self.boxes: dict[str, tuple] = {}  # of nests in this grid, ((west, east), (south, north)), for maps
        self.box: tuple | None = None  # of a nested grid, around which its frame lies
        self.resumed_at = self.resumed_step = self.resumed_from = None
        self.resumed_alike, self.resumed_without = False, ()  # nothing has changed; outputs that begin anew
        check_time_step(model, stepper, state)
        self.stages, self._knows_engine, self._why_arrays = 1, False, None
        self.stages = fastest_stages(self) if stages_per_exchange == "auto" else int(stages_per_exchange)

    def __repr__(self) -> str:
        return as_text("Simulation", self._rows())

    def _repr_html_(self) -> str:
        image, high = map_of_elevation(self.model, self.state) if has_all_tiles(self.model) else ("", 0.0)
        rows = self._rows() + [row for row in rows_of_model(self.model) if row[0] != "grid"]
        return as_html("Simulation", rows, image, f"elevation, {-high:.3g} to {high:.3g} m")

    def _rows(self):
        date = "" if self.start is None else f" after {self.start:%Y-%m-%d %H:%M:%S} UTC"
        files = ", ".join(str(output.path) for output in self.outputs) or "none"
        rows = rows_of_grid(self.model.grid)[:1]
        time = f"{duration(self.time)}{date}, step {self.step}"
        return [
            *rows,
            ("time", time),
            ("stepper", f"{type(self.scheme).__name__}, dt = {self.dt:g} s"),
            ("files", files),
        ]

    @property
    def overwrite(self) -> bool:
        """Whether results of an earlier run may be lost."""
        return self.resumed_from is None if self._overwrite is None else self._overwrite

    @overwrite.setter
    def overwrite(self, overwrite: bool) -> None:
        self._overwrite = overwrite

    @property
    def time(self) -> float:
        """Model time [s]: steps times dt."""
        return self.step * self.dt

    @property
    def engine(self) -> tuple[str, str | None]:
        """("fused" or "arrays", the reason for arrays or None): how the steps of this run are computed."""
        engine, why = engine_of(self.outline(), self.stepper)
        return engine, self._why_arrays or why

    @property
    def communicator(self) -> Communicator:
        """The model's Communicator."""
        return self.model.communicator

    @property
    def state(self) -> State:
        """The present State of this rank's tile; assigning another State replaces it."""
        return self._current()[0]

    @state.setter
    def state(self, state: State) -> None:
        self.set(state, self.history)

    @property
    def history(self) -> History:
        """The tendencies or states of earlier steps that the stepper reads; an empty tuple for one-step schemes."""
        return self._current()[1]

    def _current(self):
        if self._unpacked is None:
            self._unpacked = unpack_state(self._dynamics(), self.stepper, self._packed)
        return self._unpacked

    def packed(self) -> tuple[System | Members, tuple[State, History]]:
        """(the System of the last step, the carry of the step loop), which the next chunk of steps overwrites."""
        dynamics = self._dynamics()
        if self._packed is None:
            self._packed = pack_state(dynamics, self.stepper, self._unpacked)
        return dynamics, self._packed

    def read(self, watcher: Reader[T]) -> T:
        """What `watcher.of(sample)` returns for the Sample of the present State, on every tile; collective."""
        return read_once(self._dynamics(), self.stepper, (self.state, jnp.int32(self.step)), watcher)

    def shown(self) -> State:
        """The present State as files hold it: tracers as concentration instead of content; collective."""
        return self.read(Shown())

    def set(self, state: State, history: History) -> None:
        """Continue from another State and the stepper's history that belongs to it."""
        self._packed, self._unpacked = None, (state, history)

    def _dynamics(self, ahead=False):
        """The System of the step that led to the present state, or of the next one if `ahead`.

        Rates jump at records of forcing; what is read there does not depend on whether the run continues.
        """
        if not self._knows_engine:
            self.outline()
        step = self.step if ahead else max(self.step - 1, 0)
        return self.model.interval(self.halo, step, self.dt, self.stages)

    def outline(self) -> System | Members:
        """The System of the present step, with an uplift of which only the shape is known.

        The first call compiles the loops.
        """
        at = self.halo, self.step, self.dt, self.stages
        if not self._knows_engine:
            self._knows_engine = True
            self._why_arrays = arrays_if_loops_fail(self.model, self.model.outline(*at), self.stepper)
        return self.model.outline(*at)

    def watched(self) -> dict[str, Output]:
        """{key: output} of the outputs that have a watcher."""
        return {str(k): output for k, output in enumerate(self.outputs) if output.watcher is not None}

    def monitors(self) -> tuple[Health, dict[str, Watcher]]:
        """(Health, {key: watcher}) of this run."""
        watchers = {key: output.watcher for key, output in self.watched().items() if output.watcher is not None}
        return Health.of(self.model, self.dt), watchers

    def start_history(self, state: State) -> History:
        """The stepper's history before its first step from `state`."""
        history = self.communicator.spmd(lambda stepper, state: start_history(stepper, state, self._counted))
        return history(self.stepper, state)

    def belong_to(self, family: "Family", name: str) -> None:
        """Let this run be that of the grid `name` of a Family, before its first step."""
        self.nest, self.boxes, self.outermost = name, family.boxes_in(name), family.outer
        self.has_nests, self.box = bool(family.nests), family.box_of(name) if name else None
        if name:
            self.facts["nest.two_way"] = str(family.nests[name].two_way)
        else:
            self.facts.update({f"nest.{each}.start": nest.start for each, nest in family.nests.items()})
        model = self.model.models[0] if isinstance(self.model, Ensemble) else self.model
        self._counted = [passage for passage, _ in model.system.counted]
        self.set(self.state, self.start_history(self.state))

    def resume(self, path: str | Path, force: str | tuple = ()) -> str:
        """Continue from the restart file `path`, written on any number of ranks: bit for bit on the same ranks and dt.

        The restart must be of a run with this model's coast, depth, precision and physics. Another stepper or time step
        starts its history anew, and so does other physics; the returned message states it. Products start anew, with a
        warning, if the restart does not hold them or holds those of other samples.

        Args:
            path: the path of the restart.
            force: what may differ from the run that wrote it: "all", or some of "coast", "depth", "precision" and
                "physics" or of the names in the message of the refusal, as ("depth", "coriolis.f0").

        Returns:
            str: what was resumed, and what was not.

        Raises:
            DataError: if there is no such restart, it is damaged, of another grid, or of a run that differs in
                something that `force` does not name; the message lists the differences and their sizes.
        """
        return restored(self, path, force)

    # -- running ------------------------------------------------------------------------------------------------------

    def run(
        self, until: float | None = None, steps: int | None = None, progress: Callable[..., object] | bool | None = None
    ) -> State:
        """Step until `until` [s] of model time, or for `steps` steps. A further call continues the run and its files.

        Args:
            until: model time [s]; the run ends at the nearest step.
            steps: instead of `until`.
            progress: called on the root between chunks as progress(step, last_step, model_seconds, wall_seconds); True
                shows a bar. The run first waits until its files are complete up to this step, so that the function can
                read them. It does not wait if the function has the attribute `reads_files = False`; such a function
                must not use netCDF4.

        Returns:
            The State at the end.

        Raises:
            BlowUp: when the run is no longer finite, runs dry or passes the CFL limit; files keep what they had.
            Interrupted: on SIGINT or SIGTERM, after a restart was written.
        """
        check_arguments("Simulation.run", {"until": SECONDS, "steps": STEPS}, locals())
        if self.has_nests:
            raise ConfigError("Simulation.run: this is one of several nested grids; call NestedSimulation.run instead.")
        last = self.last_step(until, steps)
        for _, model, _ in self.model.each(self.state):
            model.check_records(last * self.dt, self.dt)
        Driver(self).run(last, progress)
        return self.state

    def last_step(self, until: float | None, steps: int | None) -> int:
        """The step at which a run for `until` [s] of model time or for `steps` steps ends."""
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
                f"the run is at {self.time:g} s already, and cannot end at {until:g} s; give a later time."
            )
        return last

    def next_system(self) -> System | Members:
        """The System of the next steps; the present State is not kept, as they overwrite it."""
        dynamics, self._unpacked = self._dynamics(ahead=True), None
        return dynamics

    def read_ahead(self, last: int, submit: Callable) -> None:
        """Start reading the records of the next interval, by an Executor's `submit`, in a run to step `last`."""
        record = self.model.next_record(self.step, self.dt)
        if record is not None and record < last:
            self.model.read_ahead(self.step, self.dt, submit)

    def until_next(self, last: int, run: Run) -> int:
        """The number of steps until something is due in a run to step `last`, with the files of `run`."""
        events = [last, run.next_step(self), self.model.next_record(self.step, self.dt)]
        return min(event for event in events if event is not None and event > self.step) - self.step

    def take(self, carry: Carry, count: int) -> None:
        """Continue from the Carry after `count` more steps."""
        self.step += count
        self._packed = carry.packed
        for key, output in self.watched().items():
            output.arrays = carry.watched[key]


def _start_of(model, start):
    """The date and time of step 0; raises ConfigError if it is not that of the model's parts."""
    for dated in model.dated[:1]:
        dated.check("Simulation", start)
    check_origins(model.origins, None if start is None else in_utc(start), "the run")
    return first_date(model.start if start is None else start, model)
