"""`swmodel invert`: the controls with which the model comes closest to observations, and how sure they are."""

import dataclasses
import time as clock
from pathlib import Path

import numpy as np

from ..config import read
from ..config.build.adjoint import length_line
from ..config.build.experiment import stepper_of
from ..config.build.inversion import check_withheld, observed, section_of, steps_of, transformed_of
from ..config.dump import dump
from ..errors import ConfigError
from ..output.collisions import check_apart
from ..runtime.signals import PROCESS
from . import facts, logs
from .inverted import conclude
from .inverting import Inversion
from .starting import begin, inputs_of, make_room, started_with_step, tiles_line

__all__ = ["Options", "invert_experiment"]

FREE = {  # keys that may change between an inversion and its going on
    "run": ("title", "communicator", "layout", "devices", "engine", "stages_per_exchange"),
    "inversion": (
        "loops",
        "products",
        "residual",
        "decrease",
        "uncertainty",
        "withhold",
        "members",
        "memory",
        "file",
        "restart",
    ),
}


@dataclasses.dataclass(frozen=True)
class Options:
    """What the command line asks for beside the experiment."""

    folder: str | None = None
    overwrite: bool = False
    resume: bool = False
    withhold: bool | None = None
    plot: bool = False
    debug: bool = False
    quiet: bool = False
    hosts: tuple = (None, None, None)


@dataclasses.dataclass
class Study:
    """What a command works on."""

    made: object
    section: object
    observed: object
    problem: object
    transformed: object
    folder: Path

    @property
    def communicator(self):
        return self.problem.communicator

    @property
    def about(self):
        """What must be the same for a restart to be this inversion's: not how long it goes on, or where."""
        raw = {name: section for name, section in self.made.draft.raw.items() if name != "output"}
        for name, keys in FREE.items():
            raw[name] = {key: value for key, value in raw[name].items() if key not in keys}
        return dump(raw)

    @property
    def targets(self):
        """Names of the controls that are looked for."""
        return [control.name for control in self.problem.controls]


def invert_experiment(file, overrides, options):
    """Invert the observations of an experiment file."""
    draft = read(file, overrides)
    draft.experiment()
    section = section_of(draft)
    if draft.sections.get("ensemble") is not None:
        raise ConfigError(f"{draft.file}: an [ensemble] cannot be inverted; take that section out.")
    if options.withhold is not None:
        section = section.model_copy(update={"withhold": options.withhold})
    begun = clock.perf_counter()
    study = _study(draft, section, options)
    path, restart = study.folder / section.file, study.folder / section.restart
    study.communicator.from_root(lambda: _make_room(path, restart, study.made.draft, options))
    _announce(study)
    inversion = Inversion(study, options)
    with PROCESS.kept(inversion.after_signal):
        result = inversion.run()
    with PROCESS.kept(lambda name: f"{name} stopped the command when the inversion was complete."):
        if study.communicator.is_root:
            conclude(study, result, path, clock.perf_counter() - begun, options)


def _make_room(path, restart, draft, options):
    """Files of an earlier inversion go at once, unless it is resumed: what stands there afterwards is of this one."""
    check_apart([("inversion.file", path), ("inversion.restart", restart)], inputs_of(draft))
    if options.resume and not restart.exists():
        raise ConfigError(f"there is no {restart} from which to resume an inversion; start it without --resume.")
    there = next((file for file in (path, restart) if file.exists()), None)
    if there is not None and not (options.overwrite or options.resume):
        raise ConfigError(
            f"{there} exists already; add --overwrite or --resume, or choose another folder with --output DIR."
        )
    make_room([path], overwrite=True)
    for file in () if options.resume else (restart, path):
        file.unlink(missing_ok=True)


def _study(draft, section, options):
    """The problem of a draft, on this rank; collective."""
    from ..adjoint import Misfit, Nested, Problem

    begun = begin(draft, options)
    made, experiment = begun.made, begun.experiment
    model, state, dt = started_with_step(begun)
    stepper = stepper_of(experiment.stepper, dt)
    steps = steps_of(section, experiment.run, dt)
    given = section, made, begun.process, model, state, stepper, steps
    told = made.attempt(("inversion", "observations"), observed, *given)
    made.experiment()
    made.attempt(("inversion", "withhold"), check_withheld, section, told.records)
    transformed = transformed_of(section, made, model, told.state, dt)
    checkpoints = Nested(memory=section.memory)
    problem = made.attempt(
        ("inversion", "observations"), Problem, model, stepper, told.state, steps, Misfit(told.weighed), [transformed],
        0, checkpoints,
    )  # fmt: skip
    made.experiment()
    return Study(made, section, told, problem, transformed, begun.folder)


def _announce(study):
    problem, section = study.problem, study.section
    count = sum(record.counted()[0].size for record in study.observed.records.values())
    cells, parameters = int(np.prod(problem.model.grid.shape)), study.transformed.parameters.values()
    numbers = sum(np.size(value) if np.ndim(value) < 2 else cells for value in parameters)
    kind = {"gauges": "gauges", "tracks": "places"}[section.observations.type]
    withheld = study.observed.withheld
    lines = [
        ("looked for", f"{', '.join(study.targets)}: {numbers:,} unknowns"),
        ("observations", f"{count:,} at {len(study.observed.records):,} {kind}, of {study.observed.source}"),
        *([("withheld", f"{', '.join(withheld)}: compared, and not used")] if withheld else []),
        ("method", section.chosen),
        ("grid", facts.grid_line(study.made.grid)),
        ("run", length_line(problem.steps, problem.dt)),
        tiles_line(problem.model),
    ]
    logs.LOGGER.info("%s", facts.table(lines))
