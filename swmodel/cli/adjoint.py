"""`swmodel adjoint`: the sensitivity of a cost to controls, as maps; with --verify, a table of tests of derivatives."""

from __future__ import annotations

import dataclasses
import itertools
import math
import time as clock
from collections.abc import Container, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ..adjoint.assimilation.departures import departures_of
from ..adjoint.costs.costs import Cost
from ..adjoint.costs.marks import MarkMisfit, dry, marks_in_water
from ..adjoint.costs.readers import outermost
from ..config import Experiment, Override, read, studies
from ..config.adjoint import Adjoint
from ..config.assembly import Assembly
from ..errors import BlowUp, ConfigError, SwmodelError
from ..fields.parameters import quantity_of_option
from ..models.parts import first_date
from ..output import remove_figures
from ..output.metadata import references
from ..output.studies import write_sensitivities
from ..runtime import memory
from ..runtime.paths import check_apart
from ..units import duration
from . import facts, logs, starting
from .facts import columns
from .options import Sensitivity

if TYPE_CHECKING:
    from ..adjoint.verification import Verdict


def verdict_table(verdicts: Sequence[Verdict]) -> str:
    """A row for each control."""
    heads = ("control", "amplitude", "dot product", "rate", "second", "nonlinear by", "")
    rows: list[tuple[str, ...]] = [heads]
    for v in verdicts:
        share = {math.inf: "no effect"}.get(v.nonlinearity, f"{100 * v.nonlinearity:.3g} %")
        share = "blows up" if math.isnan(v.nonlinearity) else share
        size = f"{v.amplitude:.3g} {v.units}".removesuffix(" 1")
        second = "-" if v.taylor.second is None else f"{v.taylor.rate_second:.3f}"
        ok = "ok" if not v.agreed else f"ok over {v.agreed} steps"
        verdict = "WRONG" if not v.passed else ok if v.judged_by_rate else f"{ok} by the dot product"
        rows.append((v.control, size, f"{v.dot_product:.1e}", f"{v.taylor.rate:.3f}", second, share, verdict))
    return columns(rows, len(heads))


def warn_of(verdicts: Sequence[Verdict], given: Container[str]) -> None:
    """Log warnings about derivatives that hold for small changes or in part; `given` has controls with an amplitude."""
    from ..adjoint.verification import NONLINEARITY

    if parted := [v.control for v in verdicts if v.passed and v.agreed]:
        logs.LOGGER.warning(
            "%s: the dot product is that of rounding over the first steps alone. Where branches of a kink meet, "
            "rounding decides which one the tangent and the adjoint take; from there on they are not compared.",
            ", ".join(parted),
        )
    unjudged = [v.control for v in verdicts if v.passed and not v.judged_by_rate]
    if unjudged:
        logs.LOGGER.warning(
            "%s: the rates do not judge the derivative, because the scheme has kinks (limiters, sides upstream, wet "
            "and dry cells) that perturbed runs cross; the dot product does.",
            ", ".join(unjudged),
        )
    for v in verdicts:
        name = v.control
        whose = "the amplitude given" if v.control in given else "the usual amplitude"
        amplitude = f"at {whose} of {v.amplitude:.3g} {v.units}"
        if math.isnan(v.nonlinearity):
            logs.LOGGER.warning("%s: %s the nonlinear model does not stay finite; give a smaller one.", name, amplitude)
        elif math.isinf(v.nonlinearity):
            logs.LOGGER.warning("%s: changes nothing in this run.", name)
        elif v.nonlinearity > NONLINEARITY:
            logs.LOGGER.warning(
                "%s: %s the nonlinear model's perturbations differ from the tangent-linear one's by %.0f %%, more than "
                "%.0f %%: the derivative does not hold for changes of this size, only for smaller ones.",
                name,
                amplitude,
                100 * v.nonlinearity,
                100 * NONLINEARITY,
            )


class VerificationFailed(SwmodelError):
    """A derivative is wrong."""


@dataclasses.dataclass
class Study:
    """The data of a sensitivity study."""

    made: Assembly
    experiment: Experiment
    section: Adjoint
    cost: Cost
    problem: Any  # a Problem
    folder: Path

    @property
    def is_root(self) -> bool:
        return self.problem.communicator.is_root


def adjoint_experiment(file: str, overrides: Sequence[str | Override], options: Sensitivity) -> None:
    """Differentiate the cost of an experiment file, or verify the derivatives."""
    if options.verify:
        overrides = [*overrides, Override("--verify", ("model", "precision"), "float64")]
    draft = read(file, overrides)
    section = studies.section_of(draft, "adjoint", options.verify)
    section = _with_length(section, options)
    study = _study(draft, section, options)
    if options.verify:
        verify(study, options)
    else:
        compute_maps(study, options)


def _with_length(section, options):
    """The section with the length of the run from `--steps` or `--until`."""
    if options.steps is not None and options.until is not None:
        raise ConfigError("--steps and --until exclude one another; give one of them.")
    if options.until is not None:
        until = quantity_of_option("--until", options.until, "s")
        section = section.replaced(steps=None, until=until)
    return section if options.steps is None else section.replaced(steps=options.steps, until=None)


def _study(draft, section, options):
    """The problem of a draft, on this rank; collective."""
    command = starting.start_command(draft, options, nested=True)
    made, experiment = command.made, command.experiment
    cost = made.require(("adjoint", "cost"), section.cost.build, made.surroundings)
    model, state, dt = starting.model_state_and_step(made, experiment, *command.where)
    steps, state = _length_and_start(experiment, section, cost, model, state, dt, options)
    problem: Any = studies.problem_on_tile(made, section, experiment, cost, model, state, dt, steps)
    made.experiment()  # raises the mistakes if there is no problem
    return Study(made, experiment, section, cost, problem, command.folder)


def _length_and_start(experiment, section, cost, model, state, dt, options):
    """(number of steps, first State) of the section; for --verify a state in motion and, unless given, other steps."""
    from ..adjoint.examination import crossing_steps, moving_state

    _, steps = studies.steps_of(section, experiment.run, dt)
    if options.verify:
        state = moving_state(model, state, options.seed)
        if section.steps is None and options.until is None:
            steps = max(crossing_steps(outermost(model), dt), studies.least_steps(cost, dt))
    return steps, state


def _memory_lines(study, verified):
    """The predicted use of a memory budget; no line without a budget."""
    if study.section.memory is None:
        return []
    products, made, need = {"a gradient": False}, study.made, study.problem.bytes_needed
    if verified:
        products["a Hessian product"] = True
    found = {what: made.attempt(("adjoint", "memory"), need, of_products) for what, of_products in products.items()}
    made.experiment()
    needs = [f"{memory.size(number)} for {what}" for what, number in found.items()]
    return [("memory", f"about {', '.join(needs)}, of {memory.size(study.section.memory)} that a rank may use")]


def _announce(study, verified=False):
    problem = study.problem
    lines = [
        ("cost", f"{study.cost.title()} [{study.cost.units}]"),
        ("controls", ", ".join(study.section.controls)),
        *starting.study_lines(study.made, problem),
        *_memory_lines(study, verified),
    ]
    logs.LOGGER.info("%s", facts.table(lines))


def _announcer(number):
    """A function that logs which of `number` tasks begins; a number, or words."""
    tasks = itertools.count(1)
    return lambda what: logs.LOGGER.info("%d of %s: %s", next(tasks), number, what)


# -- maps --------------------------------------------------------------------------------------------------------------


def compute_maps(study: Study, options: Sensitivity) -> None:
    """Write the sensitivities, and check each map with the nonlinear model."""
    from ..adjoint.core.runs import compile_ahead
    from ..adjoint.sensitivity import forward_check, sensitivities
    from ..adjoint.verification import default_amplitudes, units_of

    problem, path = study.problem, study.folder / study.section.file
    problem.communicator.from_root(lambda: _remove_old_file(study, path, options))
    amplitudes = study.made.require(("adjoint", "amplitude"), studies.amplitudes_of, study.section, units_of(problem))
    _announce(study)
    announce = _announcer(1 + options.check * len(study.section.controls))
    begun = clock.perf_counter()
    announce("gradient")
    compile_ahead(problem)
    J, gradient = problem.value_and_gradient()
    if not math.isfinite(problem.communicator.host_broadcast(float(J))):
        raise BlowUp(
            f"the cost is {float(J):g}, since the run does not stay finite, and has no derivative; find out where it "
            "blows up with `swmodel run`, and use a shorter time step or a run that stays finite."
        )
    took, checks = clock.perf_counter() - begun, []
    if options.check:
        usual = default_amplitudes(problem)
        for name in study.section.controls:
            announce(f"forward check of {name}")
            checks.append((name, forward_check(problem, J, gradient, name, amplitudes.get(name, usual[name]))))
    units, without = study.cost.units, _dry_line(study)
    found = sensitivities(problem, gradient, units)
    if study.is_root:
        _write(study, path, found, J, units)
        name = study.cost.title()
        logs.LOGGER.info("%s = %.6g %s, differentiated in %s", name, J, units, duration(took))
        if without:
            logs.LOGGER.info("%s", without)
        _report(study, found, units, checks)
        starting.show_file(path, options.plot)


def _dry_line(study):
    """The line of high-water marks that no water reached, by one more run; "" where none can be; collective."""
    if not isinstance(study.cost, MarkMisfit):
        return ""
    marks, _ = marks_in_water(study.cost.marks, study.problem.stepped, study.cost.reach)
    if all(np.isneginf(mark.ground) for mark in marks.values()):
        return ""
    highest = departures_of(study.problem.cost, study.problem.communicator).compared(study.problem.observed())
    return facts.dry_line(dry(marks, highest[0]))


def _remove_old_file(study, path, options):
    """Remove the file of an earlier study at once, so that a file that exists afterwards is of this study."""
    check_apart(starting.files_of_studies(study.section, None, study.folder), starting.inputs_of(study.made.draft))
    starting.prepare_paths([path], options.overwrite)
    path.unlink(missing_ok=True)
    remove_figures(path)


def _write(study, path, found, J, units):
    problem, made = study.problem, study.made
    attributes = {
        "computed_in": str(study.problem.model.dtype),
        "references": references(study.problem.model, study.problem.stepper),
        **starting.attributes_of(made, problem),
    }
    cost = study.cost
    described = {"name": cost.title(), "value": J, "units": units, "places": cost.locations()}
    write_sensitivities(
        path,
        made.grid,
        found,
        cost=described,
        seconds=problem.steps * problem.dt,
        start=first_date(study.experiment.run.start, problem.model),
        attributes=attributes,
        static={"depth": problem.model.depth, "wet": problem.model.wet},
    )


def _report(study, found, units, checks):
    """Print the largest values of the maps, and the results of the forward checks."""
    say = logs.LOGGER.info
    for name, one in found.items():
        if one.position != "scalar":
            row, column = np.unravel_index(np.argmax(np.abs(one.value)), one.value.shape)
            x, y = (axis[row, column] for axis in np.broadcast_arrays(*study.made.grid.coordinates(one.position)))
            say("%s: strongest in the cell at (%.6g, %.6g): %+.3g %s", name, x, y, one.value[row, column], one.units)
        else:
            say("%s: %s %s", name, np.array2string(one.value, precision=4), one.units)
    for name, check in checks:
        if not math.isfinite(check.found):
            what = f"at {check.amplitude:.3g} {check.units} the nonlinear model does not stay finite"
            logs.LOGGER.warning("forward check of %s: %s; give a smaller amplitude.", name, what)
            continue
        say(
            "forward check of %s: with the pattern of the map, %.3g %s at most, the change is %+.4g %s in the "
            "nonlinear model and %+.4g in the linear prediction (%.1f %% off)",
            name,
            check.amplitude,
            check.units,
            check.found,
            units,
            check.predicted,
            100 * check.error,
        )


# -- verification ------------------------------------------------------------------------------------------------------


def verify(study: Study, options: Sensitivity) -> None:
    """Print the results of the tests.

    Raises:
        VerificationFailed: if a derivative is wrong.
    """
    from ..adjoint import verification

    problem = study.problem
    has_second = all(map(verification.has_second_rates, problem.models))
    units = verification.units_of(problem)
    amplitudes = study.made.require(("adjoint", "amplitude"), studies.amplitudes_of, study.section, units)
    _announce(study, verified=True)
    announce = _announcer(f"about {verification.runs_of(len(study.section.controls), second=has_second)}")
    verdicts = verification.verify(problem, amplitudes, options.seed, report=announce)
    if study.is_root:
        print(verdict_table(verdicts))
        warn_of(verdicts, amplitudes)
    judged = [v for v in verdicts if v.judged_by_rate]
    dot_product = np.max([v.dot_product for v in verdicts])  # np.max propagates NaN
    print(f"dot_product={dot_product:.3g}", flush=True)
    if judged:
        rate, second = np.min([(v.taylor.rate, v.taylor.rate_second) for v in judged], axis=0)
        print(f"taylor_rate={rate:.4g}" + (f"\ntaylor_rate_second={second:.4g}" if has_second else ""), flush=True)
    failed = [v.control for v in verdicts if not v.passed]
    if failed:
        _terms(study)
        raise VerificationFailed(
            f"the derivatives in {', '.join(failed)} are wrong: the dot product must be at most "
            f"{verification.DOT_PRODUCT:g}, the rates at least {verification.RATE:g} and {verification.RATE_SECOND:g}."
        )


def _terms(study):
    """Print the dot product of each term, to find the wrong one; collective."""
    from ..adjoint.examination import term_by_term

    problem = study.problem
    state = problem.state[0] if study.made.nests else problem.state
    found = term_by_term(problem.model, problem.stepper, state)
    width = max(map(len, found)) + 2
    if study.is_root:
        print("dot product, term by term:")
        for name, value in found.items():
            print(f"  {name:<{width}}{value:.1e}")
