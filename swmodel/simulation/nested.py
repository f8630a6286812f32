"""A run of nested grids: a Simulation of each grid for its files, and one compiled program for the steps of all.

What is due (files, restarts, records of forcing) ends a chunk of steps. It must fall on a step of the outermost grid,
since the nests' steps in between belong to one program.
"""

import contextlib
import functools
import time as clock
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp

from ..errors import BlowUp, ConfigError
from ..fields.parameters import check_arguments
from ..fields.state import State
from ..nests.family import Family
from ..nests.steps import FamilySystem, outermost_step
from ..output.running import Run
from ..runtime.compilation import jit
from ..runtime.signals import PROCESS, WRITING
from .arguments import SECONDS, STEPS
from .pace import LONGEST_CHUNK
from .program import finished_carry, monitor_of, start_carry
from .progress import reporter
from .simulation import Simulation
from .stopping import how_to_continue, progress_clause, stoppable

__all__ = ["NestedSimulation"]


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

    def __init__(self, family: Family, states: Mapping[str, State], stepper: Any, **options: Any):
        self.family, self.simulations = family, {}
        steppers = family.steppers(stepper)
        if options.get("stages_per_exchange", 1) != 1:
            raise ConfigError("NestedSimulation: nests exchange halos at every stage; leave stages_per_exchange out.")
        for name, model in family.models.items():
            try:
                self.simulations[name] = Simulation(model, states[name], steppers[name], **options)
            except ConfigError as error:
                if not name:
                    raise
                raise ConfigError(
                    f"in the nest {name!r}, with {family.total_steps(name)} of its steps in one of the outermost grid: "
                    f"{error}"
                ) from None
        family.check_frames(steppers)
        self._borders = family.borders()

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
        """{name: the present State} of each grid."""
        return {name: simulation.state for name, simulation in self.simulations.items()}

    def resume(self, paths: Mapping[str, str | Path], force: str | tuple = ()) -> list[str]:
        """Continue from restart files, {name: path} of each grid; the messages of Simulation.resume.

        Raises:
            ConfigError: if a grid has no restart, or they are of different times.
        """
        if missing := set(self.simulations) - set(paths):
            raise ConfigError(f"NestedSimulation.resume: the grid {min(missing)!r} has no restart; name one of each.")
        messages = [simulation.resume(paths[name], force) for name, simulation in self.simulations.items()]
        for name, simulation in self.simulations.items():
            if simulation.step != self.outer.step * self.family.total_steps(name):
                raise ConfigError(
                    f"NestedSimulation.resume: {paths[name]} is of {simulation.time:g} s, and {paths['']} of "
                    f"{self.time:g} s; name restarts of one time."
                )
        return messages

    def run(
        self, until: float | None = None, steps: int | None = None, progress: Callable[..., Any] | bool | None = None
    ) -> dict[str, State]:
        """Step until `until` [s] of model time, or for `steps` steps of the outermost grid; as Simulation.run.

        Returns:
            {name: State} at the end.

        Raises:
            ConfigError: for a file or a record of forcing that is due between two steps of the outermost grid.
            BlowUp, Interrupted: as of Simulation.run.
        """
        check_arguments("NestedSimulation.run", {"until": SECONDS, "steps": STEPS}, locals())
        outer, last = self.outer, self.outer._last_step(until, steps)
        for name, simulation in self.simulations.items():
            simulation.model.check_records(last * outer.dt, simulation.dt)
            self._check_due(name, simulation, last)
        report, _ = reporter(progress, outer.communicator.is_root)
        began, runs = outer.step, []

        def kept(signal):
            return f"{signal} stopped the run {progress_clause(outer, began)}. {how_to_continue(outer, *runs[:1])}"

        with stoppable(kept) as (signals, reader), contextlib.ExitStack() as stack:
            for name, simulation in self.simulations.items():
                end = last * self.family.total_steps(name)
                runs.append(stack.enter_context(Run.opened(simulation, simulation.outputs, end)))
            self._loop(last, signals, runs, report, reader.submit)
            PROCESS.allow(WRITING)
            for simulation, run in zip(self.simulations.values(), runs, strict=True):
                run.finish(simulation)
        return self.states

    def _check_due(self, name, simulation, last):
        """Raise ConfigError if something is due between two steps of the outermost grid."""
        total = self.family.total_steps(name)
        for output in simulation.outputs:
            if output.every is None or output.is_written_by_chunk:
                continue
            steps = output.every / self.outer.dt
            if total > 1 and abs(steps - round(steps)) > 1e-6 * steps:
                raise ConfigError(
                    f"{output.path} of the nest {name!r} is to be written every {output.every:g} s, which is no "
                    f"multiple of the outermost grid's time step of {self.outer.dt:g} s; choose one that is."
                )
        record = simulation.model.next_record(simulation.step, simulation.dt)
        while record is not None and record < last * total:
            if record % total:
                raise ConfigError(
                    f"a forcing of the nest {name!r} has a record at {record * simulation.dt:g} s, which is no "
                    f"multiple of the outermost grid's time step of {self.outer.dt:g} s; choose one that divides it."
                )
            record = simulation.model.next_record(record, simulation.dt)

    def _loop(self, last, signals, runs, report, submit):
        outer, each = self.outer, list(zip(self.simulations.items(), runs, strict=True))
        monitors = tuple(simulation.monitors() for simulation in self.simulations.values())
        carries = tuple(start_carry(one, one.packed()[1]) for one in self.simulations.values())
        began = clock.perf_counter()
        for (_, simulation), run in each:
            run.due(simulation)
            run.settle(simulation)
        report(outer.step, last, outer.time, 0.0)
        while outer.step < last:
            count = min(self._until_next(name, one, last, run) for (name, one), run in each)
            count = min(count, outer._pace.steps)
            for simulation in self.simulations.values():
                simulation.model.read_ahead(simulation.step, simulation.dt, submit)
            dynamics = self._dynamics()
            for simulation in self.simulations.values():
                simulation._unpacked = None
            since = clock.perf_counter()
            carries = advance_family(dynamics, carries, monitors, jnp.int32(outer.step), jnp.int32(count))
            jax.block_until_ready(carries)
            took = clock.perf_counter() - since
            self._take(carries, count, each)
            request, outer._pace.steps = outer._agree(signals.take(), outer._pace.measure(count, took))
            if request:
                for (_, simulation), run in each[1:]:
                    run.write_restart(simulation)
                    run.wait()
                outer._handle(request, runs[0])
            report(outer.step, last, outer.time, clock.perf_counter() - began)
            for run in runs:
                run.wait()

    def _take(self, carries, count, each):
        """Let each Simulation take its Carry after `count` steps of the outermost grid, and write what is due."""
        for (name, simulation), carry in zip(self.simulations.items(), carries, strict=True):
            simulation.step += count * self.family.total_steps(name)
            simulation._packed = carry.packed
            for key, output in simulation.watched().items():
                output.arrays = carry.watched[key]
        for ((name, simulation), run), carry in zip(each, carries, strict=True):
            steps = count * self.family.total_steps(name)
            try:
                simulation._check_health(carry, steps, run)
            except BlowUp as error:
                raise (BlowUp(f"In the nest {name!r}: {error}") if name else error) from None
            run.chunk(simulation, steps, simulation.step)
            run.due(simulation, after_chunk=True)
            run.settle(simulation)

    def _dynamics(self) -> FamilySystem:
        systems = [simulation._dynamics() for simulation in self.simulations.values()]
        return self.family.system(systems, [x.stepper for x in self.simulations.values()], self._borders)

    def _until_next(self, name, simulation, last, run):
        """The number of the outermost grid's steps until something is due on a grid."""
        total = self.family.total_steps(name)
        count = min(simulation._until_next(last * total, run), LONGEST_CHUNK) // total
        if count < 1:
            raise ConfigError(
                f"the files of the nest {name!r} are written too often for its {total} steps in one of the outermost "
                "grid; write less often."
            )
        return count


@functools.partial(jit, donate_argnums=(1,))
def advance_family(
    dynamics: FamilySystem, carries: tuple, monitors: tuple, first: jax.Array, count: jax.Array
) -> tuple:
    """The Carries of all grids after `count` steps of the outermost one, from its step number `first` on."""
    loops, totals = dynamics.loops(), dynamics.total_steps
    watches = [
        monitor_of(loop, system, each, first * total)
        for loop, system, each, total in zip(loops, dynamics.systems, monitors, totals, strict=True)
    ]
    level = dynamics.level(loops, watches)
    start = tuple((carry.packed, (carry.health, carry.watched)) for carry in carries)
    done = jax.lax.fori_loop(first, first + count, lambda k, now: outermost_step(level, now, k), start)
    return tuple(
        finished_carry(loop, system, each, now[0], now[1], (first + count) * total)
        for loop, system, each, now, total in zip(loops, dynamics.systems, monitors, done, totals, strict=True)
    )
