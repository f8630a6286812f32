"""From an experiment file with [adjoint] to a Problem: cost, controls, and how much memory to take."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np

from ...errors import ConfigError
from ...runtime import budget
from ...simulation.progress import duration
from ..adjoint import gauge_places, known_controls
from ..parts import PartSection, arguments_of
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
    "amplitudes_of", "cost_of", "described", "least_steps", "length_line", "problem_of", "section_of",
    "steps_of",
]  # fmt: skip

EXAMPLE = """\
    [adjoint]
    controls = ["initial.eta"]
    [adjoint.cost]
    type = "gauge_elevation"      # or gauge_maximum, section_transport, box_energy, misfit
    gauges = "NAME"               # of [output.gauges.positions]"""


def section_of(draft: Draft, verify: bool) -> Adjoint:
    """The section [adjoint]; to verify a file without one, the energy at the end in everything there is.

    Raises:
        ConfigError: with an example, if it is missing and not only to be verified.
    """
    section = draft.sections.get("adjoint")
    if section is not None:
        return section
    if not verify:
        raise ConfigError(f"{draft.file}: the section [adjoint] is missing; add one, such as\n{EXAMPLE}")
    from ..adjoint import Adjoint

    return Adjoint.model_validate({"cost": {"type": "box_energy"}, "controls": known_controls(draft.sections)})


def steps_of(section: Adjoint, run: Run, dt: float) -> int:
    """How many steps of `dt` [s] are differentiated."""
    if section.steps is not None:
        return section.steps
    return max(round((run.until if section.until is None else section.until) / dt), 1)


def least_steps(section: Adjoint, run: Run, dt: float) -> int:
    """How many steps the times of the cost need."""
    last = [v for v in (getattr(section.cost, "time", None), getattr(section.cost, "window", None)) if v is not None]
    if not last:
        return steps_of(section, run, dt) if section.cost.type == "misfit" else 1
    windows = last[0].values() if isinstance(last[0], dict) else last
    return math.ceil(max(w[1] if isinstance(w, tuple) else w for w in windows) / dt - 1e-6)


def length_line(steps: int, dt: float) -> str:
    """So many steps of `dt` [s], in words."""
    return f"{steps:,} steps of {dt:.6g} s, {duration(steps * dt)} of model time"


def problem_of(
    section: Adjoint, cost: Cost, model: ShallowWater, state: State, stepper: TimeStepper, steps: int
) -> Problem:
    """The Problem of an [adjoint] section; collective.

    Args:
        section: [adjoint].
        cost: what `cost_of` made.

    Raises:
        ConfigError: for places without water, times outside the run, controls that the model has not.
    """
    from ...adjoint import Nested, Problem

    if section.memory is not None:
        budget.require(section.memory, "memory: what is given", "give less, or leave it out")
    return Problem(model, stepper, state, steps, cost, section.controls, checkpoints=Nested(memory=section.memory))


def amplitudes_of(section: Adjoint, units: Mapping[str, str]) -> dict[str, float]:
    """{control: amplitude} in the `units` {control: text} of each.

    Raises:
        ConfigError: for an amplitude of another dimension, or none at all; all of them at once.
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


def cost_of(section: Adjoint, output: Output) -> Cost:
    """The Cost of an [adjoint] section; `output` is where gauges have their places."""
    from ...adjoint.costs import costs

    cost: Any = section.cost
    places = _places(section, output)
    if isinstance(cost, PartSection):
        return cost.part(**arguments_of(cost))
    times: dict[str, Any] = {"time": getattr(cost, "time", None), "window": getattr(cost, "window", None)}
    if cost.type == "gauge_elevation":
        return costs.GaugeElevation(places, **times)
    if cost.type == "gauge_maximum":
        return costs.GaugeMaximum(places, cost.window, cost.power)
    if cost.type == "section_transport":
        return costs.SectionTransport(tuple(cost.start), tuple(cost.end), **times)
    if cost.type == "box_energy":
        return costs.BoxEnergy(cost.x, cost.y, **times)
    return costs.Misfit(_records(cost, output, places))


def _places(section, output):
    """{name: (x, y)} of the gauges that the cost names; all there are unless it does."""
    if not hasattr(section.cost, "gauges"):
        return {}
    known = gauge_places(section, output)
    names = section.cost.gauges or section.cost.positions or known
    return {name: tuple(map(float, known[name])) for name in names}


def _records(cost, output, places):
    """{name: Record} of a misfit; its window and standard deviation are its own unless the file gives others."""
    from ...adjoint.costs.records import records_in

    folder = cost.observations if cost.observations is not None else output.gauges.observations
    made = {}
    for name, record in records_in(folder, places, cost.gauges).items():
        window, deviation = (v.get(name) if isinstance(v, dict) else v for v in (cost.window, cost.deviation))
        record = dataclasses.replace(record, window=window)
        own = np.std(record.counted()[1]) if record.counted()[1].size else 1.0
        made[name] = dataclasses.replace(record, deviation=deviation or float(own) or 1.0)
    return made


def described(section: Adjoint, output: Output) -> SimpleNamespace:
    """What J is: a name in words, and {name: (x, y)} of the places that it looks at."""
    cost: Any = section.cost
    places = _places(section, output)
    where = f"at {', '.join(places)}"
    words = {
        "gauge_elevation": lambda: f"elevation {where}",
        "gauge_maximum": lambda: f"maximum elevation {where}",
        "section_transport": lambda: f"transport through ({_pair(cost.start)}) to ({_pair(cost.end)})",
        "box_energy": lambda: "energy" if cost.x is None and cost.y is None else "energy in a box",
        "misfit": lambda: f"misfit to observations {where}",
    }
    name = words[cost.type]() if cost.type in words else cost.type
    return SimpleNamespace(name=name + _when(cost), places=places)


def _pair(place):
    return f"{place[0]:g}, {place[1]:g}"


def _when(cost):
    window = getattr(cost, "window", None)
    if isinstance(window, tuple):
        return f" from {duration(window[0])} to {duration(window[1])}"
    if getattr(cost, "time", None) is not None:
        return f" after {duration(cost.time)}"
    return " at the end" if hasattr(cost, "time") else ""
