"""A run of nested grids: a Simulation of each grid for its files, and one compiled program for the steps of all.

What is due (files, restarts, records of forcing) ends a chunk of steps. It must fall on a step of the outermost grid,
since the nests' steps in between belong to one program. Records of forcing in nests are moved there. A nest that starts
later is in the programs from then on.

Restarts of all grids must be of one time. Those of nests are written first, and keep the ones that they replace until
that of the outermost grid is written: whenever a run is killed, there are restarts of its time.
"""

import contextlib
import functools
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import jax

from ..errors import ConfigError, DataError
from ..fields.parameters import Part, check_arguments, in_utc
from ..fields.parts import of_part
from ..fields.state import State
from ..models.checks import check_calendars
from ..models.parts import check_origins, first_date
from ..nests.family import Family
from ..nests.members import member_states_from_outer
from ..nests.parts import in_nest
from ..nests.steps import FamilySystem, steps_of_family
from ..output import earlier
from ..output.products.base import Uplift
from ..output.products.drifters import DrifterOutput
from ..output.running import RestartOutput, last_time, remove_replaced, restore_earlier
from ..runtime.compilation import jit
from ..runtime.paths import remove
from ..stepping.explicit import TimeStepper
from ..stepping.loop import Members, per_member
from .driver import Driver
from .outputs import SECONDS, STEPS
from .program import Carry, in_parts
from .simulation import Simulation

RULES = {
    "family": Part(("models", "borders"), "Family(grid, depth, nests)"),
    "stepper": Part(("step", "check", "history"), "ForwardBackward(dt=4.0)"),
}


class NestedSimulation:
    """A family of grids, their states and a stepper; `simulation[name]` is the Simulation of a grid, with its files.

        simulation = sw.NestedSimulation(family, family.states(eta=bump), sw.ForwardBackward(dt=5.0))
        simulation[""].write("sea.nc", every=600.0)
        simulation["harbour"].write("harbour.nc", every=60.0)
        simulation.run(until=2 * hour)

    Args:
        family: a Family.
        states: {name: State} of each grid, from `family.states(...)`.
        stepper: the TimeStepper of the outermost grid; that of a nest has its time step.
        options: further arguments of each Simulation, such as `start` and `overwrite`.

    Raises:
        ConfigError: for a time step over the limit of a grid, and for steppers that nests do not have.
    """

    def __init__(self, family: Family, states: Mapping[str, State], stepper: TimeStepper, **options: Any):
        check_arguments("NestedSimulation", RULES, locals())
        family.check_state("NestedSimulation", states)
        self.family, self.simulations = family, {}
        options["start"] = _start_of(family, options.get("start"))
        steppers = family.steppers(stepper)
        if options.get("stages_per_exchange", 1) != 1:
            raise ConfigError("NestedSimulation: nests exchange halos at every stage; leave stages_per_exchange out.")
        for k, (name, model) in enumerate(family.models.items()):
            model.round_records(family.total_steps(name))
            with of_part(f"nest.{k - 1}") if name else contextlib.nullcontext():
                try:
                    own: dict[str, Any] = dict(options)
                    if name and "title" in options:
                        own["title"] = f"{options['title']}, nest {name}"
                    self.simulations[name] = Simulation(model, states[name], steppers[name], **own)
                except ConfigError as error:
                    if not name:
                        raise
                    raise ConfigError(
                        f"in the nest {name!r}, with {family.total_steps(name)} of its steps in one of the outermost "
                        f"grid: {error}"
                    ) from None
            self.simulations[name].belong_to(family, name)
            self.simulations[name].start = first_date(options["start"], *family.models.values())
        family.check_frames(steppers)
        self.borders = dict(zip(family.nests, family.borders, strict=True))
        self._started = {name for name in self.simulations if self.start_of(name) == 0}

    def __getitem__(self, name: str) -> Simulation:
        """The Simulation of a grid; that of the outermost one has the name ""."""
        if name not in self.simulations:
            known = ", ".join(repr(one) for one in self.simulations)
            raise KeyError(f"there is no grid {name!r}; the grids are {known}, the outermost one first.")
        return self.simulations[name]

    @property
    def outer(self) -> Simulation:
        """The Simulation of the outermost grid."""
        return self.simulations[""]

    @property
    def time(self) -> float:
        """Model time [s]."""
        return self.outer.time

    @property
    def states(self) -> dict[str, State]:
        """{name: the present State} of each grid that has started."""
        return {name: simulation.state for name, simulation in self.simulations.items() if name in self._started}

    def start_of(self, name: str) -> int:
        """The step of the outermost grid at which a grid starts: not before the grid around it."""
        return self.family.first_step(name, self.outer.dt)

    def resume(self, paths: Mapping[str, str | Path], force: str | tuple = ()) -> list[str]:
        """Continue from restart files, {name: path} of each grid that had started; the messages of Simulation.resume.

        Raises:
            ConfigError: if a grid has no restart, for names of other grids, and for restarts of different times.
        """
        if not isinstance(paths, Mapping):
            raise ConfigError(
                f"NestedSimulation.resume: paths = {str(paths)!r} is not a dict of one restart for each grid; give "
                '{"": "sea.nc", "harbour": "harbour.nc"}.'
            )
        if unknown := [name for name in paths if name not in self.simulations]:
            known = ", ".join(repr(one) for one in self.simulations)
            raise ConfigError(f"NestedSimulation.resume: there is no grid {unknown[0]!r}; the grids are {known}.")
        if "" not in paths:
            raise ConfigError("NestedSimulation.resume: the outermost grid, '', has no restart; name one of each.")
        messages = [self.outer.resume(paths[""], force)]
        self._started = {name for name in self.simulations if not name or self.start_of(name) < self.outer.step}
        for name in self.family.nests:
            if name not in self._started:
                continue
            if name not in paths:
                raise ConfigError(
                    f"NestedSimulation.resume: the grid {name!r} has no restart, and {paths['']} is of "
                    f"{self.time:g} s, after its start; name one of each, or let it start at {self.time:g} s or later."
                )
            simulation, path = self.simulations[name], Path(paths[name])
            self.outer.communicator.from_root(functools.partial(restore_earlier, path, self.time))
            messages.append(f"{name}: {simulation.resume(path, force)}")
            if simulation.step != self.outer.step * self.family.total_steps(name):
                raise ConfigError(
                    f"NestedSimulation.resume: {paths[name]} is of {simulation.time:g} s, and {paths['']} of "
                    f"{self.time:g} s; name restarts of one time."
                )
        return messages

    def run(
        self, until: float | None = None, steps: int | None = None, progress: Callable[..., object] | bool | None = None
    ) -> dict[str, State]:
        """Step until `until` [s] of model time, or for `steps` steps of the outermost grid; as Simulation.run.

        Returns:
            {name: State} at the end, of the grids that have started.

        Raises:
            ConfigError: for a file that is due between two steps of the outermost grid.
            DataError: for files that exist and may not be overwritten, also those of nests that start later.
            BlowUp, Interrupted: as of Simulation.run.
        """
        check_arguments("NestedSimulation.run", {"until": SECONDS, "steps": STEPS}, locals())
        outer, last = self.outer, self.outer.last_step(until, steps)
        for simulation in self.simulations.values():
            simulation.model.check_records(last * outer.dt, simulation.dt)
        self._check_times()
        self.check_due()
        outer.communicator.from_root(lambda: self._check_later_files(last))
        _Driver(self).run(last, progress)
        return self.states

    def _check_times(self):
        """Raise ConfigError for a grid at another time, as after Simulation.resume of one grid alone."""
        for name in self._started:
            if (simulation := self.simulations[name]).step != self.outer.step * self.family.total_steps(name):
                raise ConfigError(
                    f"NestedSimulation.run: the nest {name!r} is at {simulation.time:g} s, and the outermost grid at "
                    f"{self.time:g} s; continue all grids together by NestedSimulation.resume."
                )

    def _check_later_files(self, last):
        """Remove the files of an earlier run that nests replace which start later, or raise DataError; on the root.

        A resumed run that was killed after a nest had started, and before its first restart, computes them again.
        """
        outer = self.outer
        for name, simulation in self.simulations.items():
            if name in self._started:
                continue
            if outer.overwrite and outer.resumed_from is None:
                remove_replaced([output for output in simulation.outputs if output.path.exists()])
            for output in simulation.outputs if self.start_of(name) < last and not outer.overwrite else ():
                again = outer.resumed_alike and last_time(output.path) < (last + 0.5) * outer.dt
                if output.path.exists() and not again:
                    raise DataError(
                        f"{output.path} exists already, and would be lost when the nest {name!r} starts; give another "
                        "name, or replace it with --overwrite (in Python: overwrite=True)."
                    )

    def check_due(self) -> None:
        """Raise ConfigError if a file of a nest is due between two steps of the outermost grid, or has drifters."""
        for name, simulation in self.simulations.items():
            for output in simulation.outputs if name else ():
                if isinstance(output, DrifterOutput):
                    raise ConfigError(
                        f"{output.path} of the nest {name!r} has drifters, which nests do not move; let the outermost "
                        "grid have them."
                    )
            for output in simulation.outputs if self.family.total_steps(name) > 1 else ():
                if output.every is None or output.is_written_by_chunk:
                    continue
                steps = output.every / self.outer.dt
                if abs(steps - round(steps)) > 1e-6 * steps:
                    raise ConfigError(
                        f"{output.path} of the nest {name!r} is to be written every {output.every:g} s, which is no "
                        f"multiple of the outermost grid's time step of {self.outer.dt:g} s; choose one that is."
                    )

    def start(self, name: str) -> None:
        """Let a nest continue from the State of the grid around it, unless it has started."""
        if name in self._started:
            return
        around, simulation = self.family.nests[name].inside or "", self.simulations[name]
        models, state = self.family.models, self.simulations[around].state
        simulation.step = self.outer.step * self.family.total_steps(name)
        if self.outer.resumed_from is not None:
            simulation.overwrite = True  # `_check_later_files` has examined what exists
        uplifts = self.simulations[around].read(Uplift()), simulation.read(Uplift())
        state = member_states_from_outer(self.borders[name], models[around], models[name], state, uplifts)
        simulation.set(state, simulation.start_history(state))
        self._started.add(name)


def _start_of(family, start):
    """The date and time of step 0 of all grids, which each Simulation compares with the dates of its parts."""
    models = family.models.items()
    origins = {f"{key}{in_nest(name)}": date for name, model in models for key, date in model.origins.items()}
    dates = [start, *(model.start for _, model in models)]
    start = next((date for date in dates if date is not None), None)
    check_origins(origins, None if start is None else in_utc(start), "the run")
    check_calendars(*family.models.values())
    return start


class _Driver(Driver):
    """The Driver of a NestedSimulation, whose grids may start one after another."""

    def __init__(self, nested: NestedSimulation):
        super().__init__(nested.outer)
        self.nested, self.family = nested, nested.family

    def begin(self, last: int, stack: contextlib.ExitStack) -> None:
        simulations = self.nested.simulations
        for name, simulation in simulations.items():
            if name in self.grids or self.nested.start_of(name) > self.outer.step:
                continue
            self.nested.start(name)
            for output in simulation.outputs if name else ():
                if isinstance(output, RestartOutput):
                    output.keeps_earlier = True
            self.start(name, simulation, self.family.total_steps(name), last, stack)
        self.grids = {name: self.grids[name] for name in simulations if name in self.grids}  # in the family's order

    def steps(self) -> Callable[[jax.Array, jax.Array], tuple[Carry, ...]]:
        grids = self.grids.values()
        systems = [grid.simulation.next_system() for grid in grids]
        borders = tuple(self.nested.borders[name] for name in self.grids if name)
        dynamics = self.family.system(systems, [grid.simulation.stepper for grid in grids], borders, tuple(self.grids))
        carries, monitors = tuple(grid.carry for grid in grids), tuple(grid.monitors for grid in grids)
        return functools.partial(advance_family, dynamics, carries, monitors)

    def until_due(self, last: int) -> Iterator[int]:
        yield from super().until_due(last)
        yield from (self.nested.start_of(x) - self.outer.step for x in self.nested.simulations if x not in self.grids)

    def _finish(self):
        super()._finish()
        outputs = [output for grid in self.grids.values() for output in grid.run.outputs]
        earlier_ones = [earlier(output.path) for output in outputs if isinstance(output, RestartOutput)]
        self.outer.communicator.from_root(lambda: [remove(path) for path in earlier_ones])  # all are of one time now

    def between(self, last: int, stack: contextlib.ExitStack) -> None:
        self.wait()
        if self.outer.step < last:
            self.begin(last, stack)


def _is_native(dynamics, *_):
    return isinstance(dynamics, FamilySystem) and dynamics.is_native


@functools.partial(jit, donate_argnums=(1,), light=_is_native)
def advance_family(
    dynamics: FamilySystem | Members, carries: tuple, monitors: tuple, first: jax.Array, count: jax.Array
) -> tuple:
    """The Carries of all grids after `count` steps of the outermost one, from its step number `first` on."""
    advanced = per_member(_advanced, at=0) if isinstance(dynamics, Members) else _advanced
    return advanced(dynamics, carries, monitors, first, count)


def _advanced(dynamics, carries, monitors, first, count):
    loops = dynamics.loops()
    grids = list(zip(loops, dynamics.systems, carries, monitors, dynamics.total_steps, strict=True))

    def steps(watches, starts):
        return steps_of_family(dynamics.level(loops, [watch.within for watch in watches]), starts)

    return in_parts(grids, dynamics.level(loops).period, steps, first, count)
