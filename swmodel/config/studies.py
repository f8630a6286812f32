"""From the sections [adjoint] and [inversion] to a Problem: cost, controls, steps, and their checks.

`adjoint_line` and `inversion_line` check a study without a time step. That of an inversion omits results that take a
run of the model, or long: the values of a twin, correlations, and the sea surface above faults.
"""

import math
from collections.abc import Mapping
from typing import Any

from ..adjoint.assimilation.priors import Setting, joined
from ..adjoint.controls.transforms import Transformed
from ..adjoint.core.schedules import Nested
from ..adjoint.costs.costs import Cost, tile_cost
from ..adjoint.costs.readers import grids_of, on_outermost
from ..adjoint.problem import Problem
from ..errors import ConfigError
from ..fields.parameters import Number
from ..fields.state import State
from ..models.shallow_water import ShallowWater
from ..nests.family import Family
from ..output.products.gauges import Gauges
from ..runtime import memory
from ..stepping.explicit import TimeStepper
from ..units import duration
from . import Draft, Experiment
from .adjoint import Adjoint, known_controls
from .assembly import Assembly
from .inversion import Inversion
from .observed import check_places, check_withheld, placed, truth_of
from .scenario import Run

EXAMPLES = {
    "adjoint": """\
    [adjoint]
    controls = ["initial.eta"]
    [adjoint.cost]
    type = "gauge_elevation"      # or gauge_maximum, section_transport, box_energy, misfit, harmonic_misfit
    gauges = "NAME"               # of [output.gauges.positions]""",
    "inversion": """\
    [inversion.observations]
    type = "gauges"
    window = ["15 minute", "2 hour"]
    [[inversion.controls]]
    type = "unit_sources"         # or faults, field, number, balanced
    x = [141, 145.5]
    y = [35, 41]
    spacing = 0.5
    deviation = "2 m\"""",
    "green": """\
    [green.sources]
    type = "unit_sources"
    x = [141, 145.5]
    y = [35, 41]
    spacing = 0.5
    deviation = "2 m\"""",
}


NOT_OF_MEMBERS = {"adjoint": "has no adjoint of its own", "inversion": "cannot be inverted", "green": "has no bank"}


def section_of(draft: Draft, name: str, verify: bool = False) -> Any:
    """The section [adjoint], [inversion] or [green].

    Args:
        draft: the Draft of the experiment.
        name: of the section.
        verify: whether a missing [adjoint] is the final energy with respect to all controls.

    Raises:
        ConfigError: with every mistake of the file; for an ensemble; with an example, if the section is missing.
    """
    draft.experiment()
    section = draft.sections.get(name)
    if draft.sections.get("ensemble") is not None:
        raise ConfigError(f"{draft.file}: an [ensemble] {NOT_OF_MEMBERS[name]}; take that section out.")
    if section is None and verify:
        return Adjoint.read({"cost": {"type": "box_energy"}, "controls": known_controls(draft.sections)})
    if section is None:
        raise ConfigError(f"{draft.file}: the section [{name}] is missing; add one, such as\n{EXAMPLES[name]}")
    if name == "inversion" and section.method == "auto" and draft.sections.get("nest"):
        return section.replaced(method="incremental")  # the linear model of nests has no records of forcing
    return section


def steps_of(section: Adjoint | Inversion, run: Run, dt: float) -> tuple[int, int]:
    """(number of the first step after the spin-up, number of steps of `dt` [s] after it) of a study."""
    if (steps := getattr(section, "steps", None)) is not None:
        return 0, steps
    first = math.ceil(getattr(section, "spin_up", 0.0) / dt - 1e-6)
    return first, max(math.ceil((section.until or run.until) / dt - 1e-6) - first, 1)  # windows lie in the run


def problem_on_tile(
    made: Assembly,
    section: Adjoint,
    experiment: Experiment,
    cost: Cost,
    model: ShallowWater | Family,
    state: Any,
    dt: float,
    steps: int,
) -> Problem | None:
    """The adjoint.Problem of a cost; None if there are mistakes, which are added to the Assembly `made`."""
    if made.attempt(("adjoint", "cost"), tile_cost, cost, model, dt, 0, steps) is None:
        return None
    given = section, cost, model, state, experiment.stepper.stepper(dt), steps
    return made.attempt(("adjoint",), problem_of, *given)


def adjoint_line(made: Assembly, model: ShallowWater | Family, state: Any, dt: float) -> str | None:
    """A summary of [adjoint] in words; None if it has mistakes, which are added to the Assembly `made`."""
    from ..adjoint.verification import units_of

    experiment, section = made.experiment(), made.section("adjoint")
    _, steps = steps_of(section, experiment.run, dt)
    cost = made.attempt(("adjoint", "cost"), section.cost.build, made.surroundings)
    if cost is None:
        return None
    problem = problem_on_tile(made, section, experiment, cost, model, state, dt, steps)
    if problem is None:
        return None
    if not _is_covered(made, "adjoint", problem.models, steps * dt, dt):
        return None
    if made.attempt(("adjoint", "amplitude"), amplitudes_of, section, units_of(problem)) is None:
        return None
    what = f"{cost.title()} [{cost.units}]"
    return f"{what}\nby {', '.join(section.controls)}, over {length_line(steps, dt)}"


def inversion_line(made: Assembly, model: ShallowWater | Family, state: Any, dt: float) -> str | None:
    """A summary of [inversion] in words; None if it has mistakes, which are added to the Assembly `made`."""
    experiment, section = made.experiment(), section_of(made.draft, "inversion")
    (first, steps), before = steps_of(section, experiment.run, dt), len(made.mistakes)
    _is_covered(made, "inversion", grids_of(model), (first + steps) * dt, dt)
    unknowns = check_controls(section, made, model, state, dt)
    path = ("inversion", "observations")
    in_water = check_places(section, made, model)
    given = section, made.output, experiment.run.start, model, dt, (first + steps) * dt
    found = made.attempt(path, placed, *given) if in_water else None
    if found is not None:
        groups, twin = found
        for k, group in enumerate(groups):
            cost = group.table.misfit(group.records, experiment.run.start)
            made.attempt((*path, k), tile_cost, cost, model, dt, first, steps)
        made.attempt(("inversion", "withhold"), check_withheld, section, groups)
        if twin:
            truth = ("inversion", "twin", "truth")
            made.attempt(truth, lambda: truth_of(section, made, records=1))
    if found is None or len(made.mistakes) > before:
        return None
    observed = "\nand ".join(group.summary() for group in found[0])
    return f"{unknowns:,} unknowns by '{section.chosen}' from {observed}\nover {length_line(steps, dt)}"


def green_line(made: Assembly, model: ShallowWater, state: State, dt: float) -> str | None:
    """A summary of [green] in words; None if it has mistakes, which are added to the Assembly `made`."""
    experiment, section = made.experiment(), made.section("green")
    prior = made.attempt(("green", "sources"), section.sources.build, made.surroundings)
    count = prior and made.attempt(("green", "sources"), prior.unknowns, Setting(model, state, dt))
    points = dict(experiment.output.gauges.positions)
    points |= {} if section.candidates is None else section.candidates.places(model)
    if count is None or made.attempt(("output", "gauges", "positions"), Gauges.at, points, model) is None:
        return None
    until = section.until or experiment.run.until
    return f"{len(points):,} points from {count:,} sources, over {duration(until)}"


def _is_covered(made, name, models, end, dt):
    """Whether records of forcing reach the end [s] of the study `name`, which may be after that of [run]."""
    before = len(made.mistakes)
    for model in models:
        made.attempt((name,), model.check_records, end, dt)
        made.attempt((name,), model.check_files, end)
    return len(made.mistakes) == before


def least_steps(cost: Cost, dt: float) -> int:
    """The number of steps of `dt` [s] after which a run has reached the last time of a cost."""
    return max(math.ceil(cost.last_time() / dt - 1e-6), 1)


def length_line(steps: int, dt: float) -> str:
    """The length of a run of `steps` steps of `dt` [s], in words."""
    return f"{steps:,} steps of {dt:.6g} s, {duration(steps * dt)} of model time"


def problem_of(
    section: Adjoint, cost: Cost, model: ShallowWater | Family, state: Any, stepper: TimeStepper, steps: int
) -> Problem:
    """The Problem of an [adjoint] section; collective.

    Args:
        section: the section [adjoint].
        cost: the Cost, from its section.

    Raises:
        ConfigError: for places without water, times outside the run, or controls that the model does not have.
    """
    if section.memory is not None:
        memory.require(section.memory, "memory: the given size", "give less, or leave it out")
    return Problem(model, stepper, state, steps, cost, section.controls, checkpoints=Nested(memory=section.memory))


def amplitudes_of(section: Adjoint, units: Mapping[str, str]) -> dict[str, float]:
    """{control: amplitude} in the `units` {control: text} of each.

    Raises:
        ConfigError: for amplitudes of another dimension, or that are not positive; all of them at once.
    """
    found, mistakes = {}, []
    for name, value in section.amplitude.items():
        unit = "" if "/" in units[name] or units[name] == "1" else units[name]
        try:
            found[name] = Number(units=unit, above=0.0).read(value)
        except ValueError as error:
            mistakes.append(f"amplitude of {name!r}: {error}")
    if mistakes:
        raise ConfigError(mistakes)
    return found


# -- controls ----------------------------------------------------------------------------------------------------------


def transformed_of(
    section: Inversion, made: Assembly, model: ShallowWater | Family, state: Any, dt: float
) -> Transformed:
    """The Transformed of all controls of [inversion], which are those of the outermost grid; collective.

    Raises:
        ConfigError: for a control that cannot be made; the message has its number.
    """
    model, state = on_outermost(model, state)
    setting, found = Setting(model, state, dt), {}
    for k, control in enumerate(section.controls):
        prior = made.attempt(("inversion", "controls", k), control.build, made.surroundings)
        if prior is None:
            continue
        transform = made.attempt(("inversion", "controls", k), prior.transform, setting)
        if transform is not None:
            label = prior.label()
            found[f"{label}_{k}" if label in found else label] = prior, transform
    made.experiment()
    return joined(found, model)


def check_controls(
    section: Inversion, made: Assembly, model: ShallowWater | Family, state: Any, dt: float
) -> int | None:
    """The number of unknowns of the controls of [inversion]; their mistakes are collected in `made`.

    Correlations and the sea surface above faults, which take long, are not computed.
    """
    setting, numbers = Setting(*on_outermost(model, state), dt), []
    for k, control in enumerate(section.controls):
        prior = made.attempt(("inversion", "controls", k), control.build, made.surroundings)
        numbers.append(prior and made.attempt(("inversion", "controls", k), prior.unknowns, setting))
    return None if None in numbers else sum(numbers)
