"""`swmodel invert`: the controls with which the model comes closest to observations, and their uncertainty."""

import dataclasses
import hashlib
import json
import os
import time as clock
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ..adjoint import Inversion, Nested, Problem, Restart, Rules
from ..adjoint.assimilation.restarts import Identity
from ..config import Override, read
from ..config.assembly import Assembly
from ..config.expressions import Expression
from ..config.inversion import Inversion as Section
from ..config.observed import Observed, check_withheld, misfit_to, observed
from ..config.reading import Section as SectionOfFile
from ..config.studies import section_of, steps_of, transformed_of
from ..errors import ConfigError
from ..fields.methods import code_of
from ..output import remove_figures
from ..output.fingerprint import describe
from ..output.resuming import allowed_names
from ..runtime.paths import check_apart
from ..runtime.signals import PROCESS
from ..simulation.progress import duration
from . import facts, logs, starting
from .options import Inverted
from .runs import explained_by


@dataclasses.dataclass
class Study:
    """The data of the command: the Assembly, the section, the Observed and the Inversion of it; the output folder."""

    made: Assembly
    section: Section
    observed: Observed
    inversion: Inversion
    folder: Path

    @property
    def problem(self) -> Problem:
        return self.inversion.problem


def invert_experiment(file: str, overrides: Sequence[str | Override], options: Inverted) -> None:
    """Invert the observations of an experiment file."""
    draft = read(file, overrides)
    section = section_of(draft, "inversion")
    if options.withhold is not None:
        section = section.replaced(withhold=options.withhold)
    begun = clock.perf_counter()
    study = _study(draft, section, options)
    path, restart = study.folder / section.file, study.folder / section.restart
    study.problem.communicator.from_root(lambda: _remove_old_files(study, path, restart, options))
    _announce(study)
    with PROCESS.ending_with(lambda name: _after_signal(name, study.inversion, restart, options.resume)):
        result = study.inversion.run(leave_one_out=section.withhold is True)
    with PROCESS.ending_with(lambda name: f"{name} stopped the command when the inversion was complete."):
        if study.problem.communicator.is_root:
            _conclude(study, result, path, clock.perf_counter() - begun, options)


def _after_signal(name, inversion, restart, resumed):
    """The sentence that is printed when a signal ends the inversion."""
    if not inversion.has_stored:
        return f"{name} stopped the inversion before its first loop ended. Start again with: {PROCESS.command()}"
    command = PROCESS.command() + ("" if resumed else " --resume")
    return f"{name} stopped the inversion. {restart} holds the result so far; continue with: {command}"


def _remove_old_files(study, path, restart, options):
    """Remove the files of an earlier inversion at once, unless it is resumed, so that later ones are of this one."""
    check_apart(starting.files_of_studies(None, study.section, study.folder), starting.inputs_of(study.made.draft))
    if options.resume and not restart.exists():
        raise ConfigError(f"there is no {restart} from which to resume an inversion; start it without --resume.")
    there = next((file for file in (path, restart) if os.path.exists(os.path.realpath(file))), None)
    if there is not None and not (options.overwrite or options.resume):
        raise ConfigError(
            f"{there} exists already; add --overwrite or --resume, or choose another folder with --output DIR."
        )
    starting.prepare_paths([path], overwrite=True)
    for file in () if options.resume else (restart, path):
        file.unlink(missing_ok=True)
    remove_figures(path)


def _study(draft, section, options):
    """The Study of a draft, on this rank; collective."""
    command = starting.start_command(draft, options, nested=True)
    made, experiment = command.made, command.experiment
    model, state, dt = starting.model_state_and_step(made, experiment, *command.where)
    stepper = experiment.stepper.stepper(dt)
    first_step, steps = steps_of(section, experiment.run, dt)
    given = section, made, command.process, model, state, stepper, steps, first_step
    observations = made.require(("inversion", "observations"), observed, *given)
    made.attempt(("inversion", "withhold"), check_withheld, section, observations.groups)
    transformed = transformed_of(section, made, model, observations.state, dt)
    cost, checkpoints = misfit_to(observations.weighed, experiment.run.start), Nested(memory=section.memory)
    given = model, stepper, observations.state, steps, cost, [transformed], first_step, checkpoints
    problem = made.require(("inversion", "observations"), Problem, *given)
    inversion = Inversion(
        problem,
        observations.observations,
        section.chosen,
        Rules(section.loops, section.products, section.residual, section.decrease),
        members=section.members,
        uncertainty=section.uncertainty,
        truth=observations.truth,
        restart=_restart(command.folder, section, made, observations, problem, options),
    )
    return Study(made, section, observations, inversion, command.folder)


def _restart(folder, section, made, observations, problem, options):
    """The Restart of an inversion, with the names of what may differ from an earlier one."""
    overrides = made.draft.overrides
    force = (*allowed_names(options.force), *explained_by(overrides), *named_by(overrides))
    identity = identity_of(section, made, observations, problem)
    return Restart(folder / section.restart, identity, options.resume, force)


def identity_of(section: Section, made: Assembly, observations: Observed, problem: Problem) -> Identity:
    """The Identity of an inversion, from its section, the Assembly, the Observed and the Problem; collective."""
    entries = starting.fingerprint_of_grids(problem.stepped, problem.first_step, problem.dt, problem.steps)
    entries |= {"stepper": describe(problem.stepper), "length": problem.dt * problem.steps, "method": section.chosen}
    entries |= described("initial", made.experiment().initial)
    if section.spin_up:
        entries["initial.spin_up"] = section.spin_up
    if observations.truth is not None and section.twin is not None and section.twin.spin_up:
        entries["initial.spin_up"] = section.twin.spin_up
    for k, table in enumerate(section.observations):
        if table.type == "marks":
            entries |= {f"observations.{k}.{key}": describe(getattr(table, key)) for key in ("window", "reach")}
    for k, control in enumerate(section.controls):
        entries |= described(f"controls.{k}", control)
        if code := code_of(control.part):
            entries[f"controls.{k}.code"] = code
    return Identity(entries, observations.records, tuple(observations.withheld))


def described(name: str, section: Iterable[tuple[str, Any]] | None) -> dict[str, Any]:
    """{name of a key: value} of a section, for a fingerprint; the value of a file is the hash of its bytes."""
    found = {}
    for key, value in section or ():
        if isinstance(value, Path):
            value = {"file": hashlib.sha256(value.read_bytes()).hexdigest()}
        elif not isinstance(value, bool | int | float | str | None):
            value = json.dumps(value, default=_plain)
        if value is not None:
            found[f"{name}.{key}"] = value
    return found


def _plain(part):
    """A part of a section in the types of JSON."""
    if isinstance(part, SectionOfFile):
        return dict(part)
    return {"text": part.text} if isinstance(part, Expression) else str(part)


def named_by(overrides: Sequence[Override]) -> list[str]:
    """The entries that may differ from the inversion that wrote a restart, since `--set` changes them.

    Those of `explained_by` are left out.
    """
    sections = {name: name for name in ("initial", "stepper", "nest", "grid")}
    sections |= {"run": "length", "output": "observations"}
    keys = {"controls": "controls", "until": "length", "method": "method"}
    names = []
    for section, *rest in (o.path for o in overrides if o.option.startswith("--set ")):
        if section == "inversion":
            names.append(keys.get(str(rest[0]) if rest else "", "observations"))
        elif section in sections:
            names.append(sections[section])
    return names


def _announce(study):
    problem, section = study.problem, study.section
    cells, parameters = int(np.prod(problem.model.grid.shape)), problem.transforms[0].parameters.values()
    numbers = sum(np.size(value) if np.ndim(value) < 2 else cells for value in parameters)
    withheld = study.observed.withheld
    lines = [
        ("estimated", f"{', '.join(control.name for control in problem.controls)}: {numbers:,} unknowns"),
        ("observations", "\n".join(group.summary() for group in study.observed.groups)),
        *([("withheld", f"{', '.join(withheld)}: compared, and not used")] if withheld else []),
        ("method", section.chosen),
        *starting.study_lines(study.made, problem),
    ]
    logs.LOGGER.info("%s", facts.table(lines))


def _conclude(study, result, path, took, options):
    """Write the file, print the results, and draw them if `--plot` is given; on the root."""
    from .inverted import control_line, fault_lines, gauge_table

    say = logs.LOGGER.info
    result.write(path, study.made.experiment().run.start, starting.attributes_of(study.made, study.problem))
    say("ended after %s: %s", duration(took), result.reason)
    say("%s", gauge_table(result))
    say("%s", result.consistency.line_after())
    if warning := result.consistency.warning_after():
        logs.LOGGER.warning("%s", warning)
    for name, estimate in result.controls.items():
        say("%s", control_line(result.problem.model, name, estimate))
    for line in fault_lines(result.parameter_tables().get("fault", {})):
        say("%s", line)
    if np.isfinite(result.posterior.signal):
        signal = result.posterior.signal
        say("the observations determine %.1f independent numbers (degrees of freedom for signal)", signal)
    starting.show_file(path, options.plot)
