"""Checks of the studies [adjoint] and [inversion] without a time step, for `swmodel check`.

Costs, controls and observations are made by the same functions as for a study. A check of an inversion omits results
that take a run of the model, or long: the values of a twin, correlations, and the sea surface above faults.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from . import inversion as build_inversion
from . import observed as build_observed
from .adjoint import amplitudes_of, cost_of, length_line, problem_of, steps_of
from .steppers import stepper_of

if TYPE_CHECKING:
    from ...adjoint import Problem
    from ...adjoint.costs.costs import Cost
    from ...fields.state import State
    from ...models.shallow_water import ShallowWater
    from .. import Experiment
    from ..adjoint import Adjoint
    from .experiment import Assembly

__all__ = ["adjoint_line", "inversion_line", "problem_on_tile"]


def problem_on_tile(
    made: Assembly,
    section: Adjoint,
    experiment: Experiment,
    cost: Cost,
    model: ShallowWater,
    state: State,
    dt: float,
    steps: int,
) -> Problem | None:
    """The adjoint.Problem of a cost; None if there are mistakes, which are added to the Assembly `made`."""
    on_tile = made.attempt(("adjoint", "cost"), cost.on_tile, model, dt, 0, steps)
    if on_tile is None:
        return None
    given = section, on_tile, model, state, stepper_of(experiment.stepper, dt), steps
    return made.attempt(("adjoint",), problem_of, *given)


def adjoint_line(made: Assembly, model: ShallowWater, state: State, dt: float) -> str | None:
    """A summary of [adjoint] in words; None if it has mistakes, which are added to the Assembly `made`."""
    from ...adjoint.verification.verification import units_of

    experiment, section = made.experiment(), made.section("adjoint")
    steps = steps_of(section, experiment.run, dt)
    cost = made.attempt(("adjoint", "cost"), cost_of, section, experiment.output, experiment.run.start)
    if cost is None:
        return None
    problem = problem_on_tile(made, section, experiment, cost, model, state, dt, steps)
    if problem is None:
        return None
    if not _is_covered(made, "adjoint", model, steps * dt, dt):
        return None
    if made.attempt(("adjoint", "amplitude"), amplitudes_of, section, units_of(problem)) is None:
        return None
    what = f"{cost.title()} [{cost.units}]"
    return f"{what}\nby {', '.join(section.controls)}, over {length_line(steps, dt)}"


def inversion_line(made: Assembly, model: ShallowWater, state: State, dt: float) -> str | None:
    """A summary of [inversion] in words; None if it has mistakes, which are added to the Assembly `made`."""
    experiment, section = made.experiment(), made.section("inversion")
    (first, steps), before = build_inversion.steps_of(section, experiment.run, dt), len(made.mistakes)
    _is_covered(made, "inversion", model, (first + steps) * dt, dt)
    unknowns = build_inversion.check_controls(section, made, model, state, dt)
    path = ("inversion", "observations")
    in_water = build_observed.check_places(section, made, model)
    given = section, experiment, model, dt, (first + steps) * dt
    found = made.attempt(path, build_observed.placed, *given) if in_water else None
    if found is not None:
        groups, twin = found
        for k, group in enumerate(groups):
            cost = group.cost(experiment.run.start)
            made.attempt((*path, k), cost.on_tile, model, dt, first, steps)
        made.attempt(("inversion", "withhold"), build_observed.check_withheld, section, groups)
        if twin:
            truth = ("inversion", "twin", "truth")
            made.attempt(truth, lambda: build_observed.truth_of(section, made, records=1))
    if found is None or len(made.mistakes) > before:
        return None
    observed = "\nand ".join(group.summary() for group in found[0])
    return f"{unknowns:,} unknowns by '{section.chosen}' from {observed}\nover {length_line(steps, dt)}"


def _is_covered(made, name, model, end, dt):
    """Whether records of forcing reach the end [s] of the study `name`, which may be after that of [run]."""
    before = len(made.mistakes)
    for check in (lambda: model.check_records(end, dt), lambda: model.check_files(end)):
        made.attempt((name,), check)
    return len(made.mistakes) == before
