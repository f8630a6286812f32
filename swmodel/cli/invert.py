"""`swmodel invert`: the controls with which the model comes closest to observations, and their uncertainty."""

import dataclasses
import hashlib
import json
import os
import time as clock
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ..adjoint.assimilation.assimilation import Rules
from ..adjoint.assimilation.inversion import Inversion, Restart
from ..adjoint.assimilation.observations import OVER_TIME
from ..adjoint.assimilation.restarts import Identity
from ..adjoint.assimilation.result import Columns, Result
from ..adjoint.core.schedules import Nested
from ..adjoint.costs.harmonics import HarmonicConstants
from ..adjoint.costs.marks import Mark, dry
from ..adjoint.problem import Problem
from ..config import Override, read
from ..config.assembly import Assembly
from ..config.expressions import Expression
from ..config.inversion import Inversion as Section
from ..config.observed import Observed, check_withheld, misfit_to, observed
from ..config.reading import Section as SectionOfFile
from ..config.studies import section_of, steps_of, transformed_of
from ..errors import ConfigError
from ..fields.parts import code_of
from ..models.shallow_water import ShallowWater
from ..output import remove_figures
from ..output.fingerprint import describe
from ..output.resuming import allowed_names
from ..output.studies import Estimate
from ..runtime.paths import check_apart
from ..runtime.signals import PROCESS
from ..units import duration
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
    sections = {name: name for name in ("initial", "stepper", "grid")}
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


# -- tables ------------------------------------------------------------------------------------------------------------


def gauge_table(result: Result) -> str:
    """A table of the misfits before and after, and of withheld gauges; below, the meaning of the columns."""
    kinds = result.observations.all_kinds
    tables = [_tide_table(result)] if "harmonics" in kinds else []
    if set(kinds) & set(OVER_TIME):
        tables.append(_series_table(result))
    if lines := _dry_marks(result):
        tables.append(lines)
    return "\n".join([*tables, f"misfit_reduction={result.reduction:.1f} %"])


def _dry_marks(result):
    """The line of high-water marks that no water reached in the run of the analysis; "" if there are none."""
    highest = result.readings["analysis"][0]
    marks = {k: one for k, one in enumerate(result.observations.records.items()) if isinstance(one[1], Mark)}
    return facts.dry_line(dry(dict(marks.values()), [highest[k] for k in marks]))


def _series_table(result):
    """The table of all observations but harmonic constants, and the meaning of its columns."""
    found = {role: result.scores(role, OVER_TIME) for role in result.readings}
    apart, records = result.observations.withheld, result.observations.records
    units = {name: record.units for name, record in records.items()}
    compared = "analysis" if apart else "withheld"
    heads = _HEADS if apart or compared in found else _HEADS[:5]
    if one_unit := set(units.values()) == {"m"}:
        heads = tuple(head if head in ("", "explained") or "misfit" in head else f"{head} [m]" for head in heads)
    rows: list[tuple[str, ...]] = [heads]
    expected = result.expected_errors(compared, OVER_TIME) if compared in result.spread else {}
    for name in found["analysis"]:
        used = found["analysis"][name] if name not in apart else None
        other = found[compared][name] if compared in found and (name in apart or not apart) else None
        cells = (
            found["background"][name].misfit,
            *_few_of(used),
            *_few_of(other),
            *((np.nan, np.nan) if other is None else (other.error, expected.get(name, np.nan))),
        )
        label = name if one_unit else f"{name} [{units.get(name, 'm')}]"
        rows.append((label, *(_cell(x, signed) for x, signed in zip(cells, _SIGNED)))[: len(heads)])
    before, after = result.misfits(OVER_TIME)
    rows.append(("all used" if apart else "all", _cell(before), _cell(after), *[""] * (len(heads) - 3)))
    meaning = _MEANING if len(heads) > 5 else _MEANING.partition("\nWithheld")[0]
    meaning += "" if one_unit else "\nThe bias and the error are in the unit that is behind the name."
    return f"{facts.columns(rows)}\n{meaning}"


_HEADS = (
    "", "misfit before", "after", "explained", "bias", "withheld: misfit", "explained", "bias", "error", "expected",
)  # fmt: skip
_SIGNED = (False, False, False, True, False, False, True, False, False)
_MEANING = (
    "Misfit: mean((model - observed)^2) / var(observed); before: of the first guess.\n"
    "Explained: 1 - var(observed - model) / var(observed), without the bias, which is the mean of model - observed.\n"
    "Withheld: compared, and not used; the error, r.m.s.(model - observed), is expected to be that of the spread and "
    "of the observations together."
)


def _few_of(score):
    return (np.nan,) * 3 if score is None else (score.misfit, score.explained, score.bias)


def _cell(value, signed=False):
    return "-" if not np.isfinite(value) else f"{value:+.3f}" if signed else f"{value:.3f}"


_MEANING_OF_TIDES = (
    "Error: |A exp(-i g) - A' exp(-i g')|, the distance of the model's constant from the observed one.\n"
    "Withheld: compared, and not used. Within: the share of gauges with an error of at most the expected one, from the "
    "spread and the observation error together, and of at most twice that."
)
_HEADS_OF_TIDES = (
    "",
    "",
    "observed [m]",
    "[deg]",
    "before [m]",
    "[deg]",
    "after [m]",
    "[deg]",
    "error before",
    "after",
    "expected",
)


def _tide_table(result):
    """A table of the constants of each gauge, and a summary of those that are used and those that are withheld."""
    rows: list[tuple[str, ...]] = [_HEADS_OF_TIDES]
    summary: dict[bool, list] = {True: [], False: []}
    for name, constituent, used, waves, expected in _constants(result):
        observed, before, after = waves
        errors = [abs(wave - observed) for wave in (before, after)]
        summary[used].append((*errors, abs(observed), expected))
        cells = [text for wave in waves for text in (f"{abs(wave):.3f}", f"{-np.rad2deg(np.angle(wave)) % 360.0:.0f}")]
        kind = constituent + ("" if used else " withheld")
        rows.append((name[:24], kind, *cells, *(f"{e:.3f}" for e in errors), _cell(expected)))
    words = {True: "used", False: "withheld"}
    lines = [_summary_line(words[used], np.array(parts)) for used, parts in summary.items() if parts]
    return "\n".join([facts.columns(rows, 2), *lines, _MEANING_OF_TIDES])


def _constants(result):
    """Yield (gauge, constituent, whether it is used, (observed, before, after) as A exp(-i g), expected error)."""
    role = "analysis"
    for k, (name, record) in enumerate(result.observations.records.items()):
        if not isinstance(record, HarmonicConstants):
            continue
        for c, constituent in enumerate(record.names):
            pair = slice(2 * c, 2 * c + 2)
            found = [record.numbers[pair], *(result.readings[of][pair, k] for of in ("background", role))]
            if not np.isfinite(found[0]).all():
                continue
            away = result.spread[role][pair, k] if role in result.spread else np.full(2, np.nan)
            expected = float(np.sqrt(np.sum(away**2) + 2 * record.deviation**2))
            waves = tuple(complex(x, -y) for x, y in found)
            yield name, constituent, name not in result.observations.withheld, waves, expected


def _summary_line(what, numbers):
    before, after, size, expected = numbers.T
    within = ""
    if not np.isnan(expected).all():
        once, twice = np.mean(after <= expected), np.mean(after <= 2 * expected)
        within = f"; within the expected error {once:.0%}, twice that {twice:.0%}"
    return (
        f"{len(numbers)} {what}: median error {np.median(before):.3f} m before and {np.median(after):.3f} m after, "
        f"of the amplitude {np.median(before / size):.1%} and {np.median(after / size):.1%}, "
        f"r.m.s. {np.sqrt(np.mean(before**2)):.3f} and {np.sqrt(np.mean(after**2)):.3f} m{within}"
    )


def control_line(model: ShallowWater, name: str, estimate: Estimate) -> str:
    """A line on a control: the range of its change, or its value; in a twin experiment, its error, too."""
    units, roles = estimate.units, estimate.roles
    analysis, background = roles["analysis"], roles["background"]
    if np.ndim(analysis) < 1:
        return f"{name} = {float(analysis):.4g} {units} (before: {float(background):.4g})"
    change, wet = analysis - background, np.ones(np.shape(analysis), bool)
    text = f"{name}: changed by {change.min():.3g} to {change.max():.3g} {units}"
    if np.ndim(analysis) > 1:
        grid, wet = model.grid, model.wet
        row, column = np.unravel_index(np.argmax(np.where(wet, change, -np.inf)), change.shape)
        text += f", most at ({grid.x_centres[column]:.6g}, {grid.y_centres[row]:.6g})"
    if "truth" in roles:
        before, after = (
            np.sqrt(np.mean((roles[role] - roles["truth"])[wet] ** 2)) for role in ("background", "analysis")
        )
        text += f"; r.m.s. distance from the twin's truth {before:.3g} {units} before and {after:.3g} after"
    return text


def fault_lines(table: Columns) -> Iterator[str]:
    """A line for each estimated parameter of the faults: its values before and after."""
    for name in (name.removesuffix("_analysis") for name in table if name.endswith("_analysis")):
        units, _, after = table[f"{name}_analysis"]
        before = table[f"{name}_background"][2]
        if not np.array_equal(before, after):
            yield f"{name} of the faults: {_few(after)} {units} (before: {_few(before)})"


def _few(numbers, most=6):
    return ", ".join(f"{x:.4g}" for x in numbers[:most]) + ", ..." * (len(numbers) > most)
