"""From an experiment file with [adjoint] to a Problem: cost, controls and checkpoints."""

from __future__ import annotations

import dataclasses
import datetime
import math
from collections.abc import Mapping
from typing import TYPE_CHECKING

from ...adjoint.costs.harmonics import HarmonicMisfit
from ...errors import ConfigError
from ...runtime import budget
from ...simulation.progress import duration
from ..adjoint import known_controls
from ..parts import part_of
from ..quantities import QuantityError, quantity

if TYPE_CHECKING:
    from ...adjoint import Problem
    from ...adjoint.costs.costs import Cost
    from ...fields.state import State
    from ...models.shallow_water import ShallowWater
    from ...stepping.explicit import TimeStepper
    from .. import Draft
    from ..adjoint import Adjoint
    from ..scenario import Output, Run

__all__ = [
    "amplitudes_of",
    "cost_of",
    "least_steps",
    "length_line",
    "problem_of",
    "section_of",
    "steps_of",
]

EXAMPLE = """\
    [adjoint]
    controls = ["initial.eta"]
    [adjoint.cost]
    type = "gauge_elevation"      # or gauge_maximum, section_transport, box_energy, misfit, harmonic_misfit
    gauges = "NAME"               # of [output.gauges.positions]"""


def section_of(draft: Draft, verify: bool) -> Adjoint:
    """The section [adjoint]; if `verify` and it is missing, the final energy with respect to all controls.

    Raises:
        ConfigError: with an example, if the section is missing and `verify` is false.
    """
    section = draft.sections.get("adjoint")
    if section is not None:
        return section
    if not verify:
        raise ConfigError(f"{draft.file}: the section [adjoint] is missing; add one, such as\n{EXAMPLE}")
    from ..adjoint import Adjoint

    return Adjoint.model_validate({"cost": {"type": "box_energy"}, "controls": known_controls(draft.sections)})


def steps_of(section: Adjoint, run: Run, dt: float) -> int:
    """The number of steps of `dt` [s] that are differentiated."""
    if section.steps is not None:
        return section.steps
    return max(math.ceil((section.until or run.until) / dt - 1e-6), 1)  # so that windows within it lie in the run


def least_steps(cost: Cost, dt: float) -> int:
    """The number of steps of `dt` [s] after which a run has reached the last time of a cost."""
    return max(math.ceil(cost.last_time() / dt - 1e-6), 1)


def length_line(steps: int, dt: float) -> str:
    """The length of a run of `steps` steps of `dt` [s], in words."""
    return f"{steps:,} steps of {dt:.6g} s, {duration(steps * dt)} of model time"


def problem_of(
    section: Adjoint, cost: Cost, model: ShallowWater, state: State, stepper: TimeStepper, steps: int
) -> Problem:
    """The Problem of an [adjoint] section; collective.

    Args:
        section: the section [adjoint].
        cost: the Cost, from `cost_of`.

    Raises:
        ConfigError: for places without water, times outside the run, or controls that the model does not have.
    """
    from ...adjoint import Nested, Problem

    if section.memory is not None:
        budget.require(section.memory, "memory: the given size", "give less, or leave it out")
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
            found[name] = quantity(value, unit)
            if not found[name] > 0:
                mistakes.append(f"amplitude of {name!r}: must be greater than 0, got {value!r}")
        except QuantityError as error:
            mistakes.append(f"amplitude of {name!r}: {error}")
    if mistakes:
        raise ConfigError(mistakes)
    return found


# -- costs -------------------------------------------------------------------------------------------------------------


def cost_of(section: Adjoint, output: Output, start: datetime.datetime | None = None) -> Cost:
    """The Cost of an [adjoint] section.

    Args:
        section: the section [adjoint].
        output: the section [output], which has the positions of gauges.
        start: date and time of the start of the run, to which phase lags of tides and dates refer.
    """
    cost = part_of(section.cost, output, start)
    return dataclasses.replace(cost, start=start) if isinstance(cost, HarmonicMisfit) else cost
