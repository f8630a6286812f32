"""The section [adjoint]: which number of the run is differentiated, with respect to what, and over how long a run.

[adjoint]
controls = ["initial.eta", "depth"]
until = "1 hour"

[adjoint.cost]
type = "gauge_elevation"
gauges = "21418"
time = "1 hour"
"""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeAlias

from pydantic import AfterValidator, BeforeValidator, Field, model_validator

from ..fields.variables import PROGNOSTIC
from .mistakes import Mistake, nearest
from .parts import chosen_from
from .quantities import QuantityError
from .scenario import Output, OutputFile
from .sections import (
    AnyCoordinate,
    Count,
    Number,
    Place,
    PositiveMetres,
    PositiveSeconds,
    RangeOfSeconds,
    Section,
    existing_folder,
)
from .variables import PARTS, transported_controls

__all__ = ["Adjoint", "control_mistakes", "gauge_mistakes", "gauge_places", "known_controls", "time_mistakes"]

BYTES = {"B": 1.0, "kB": 1e3, "MB": 1e6, "GB": 1e9, "TB": 1e12, "KiB": 2.0**10, "MiB": 2.0**20, "GiB": 2.0**30}
ALWAYS = (*(f"initial.{row.name}" for row in PROGNOSTIC), "depth", "gravity")


def _memory(value):
    if isinstance(value, str):
        match = re.fullmatch(r"\s*([\d.]+(?:[eE][+-]?\d+)?)\s*([A-Za-z]+)\s*", value)
        if match is None or match[2] not in BYTES:
            raise QuantityError(f"expected a size of memory, as in '2 GB', got {value!r}")
        value = float(match[1]) * BYTES[match[2]]
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not value > 0:
        raise QuantityError(f"expected a size of memory, as in '2 GB', got {value!r}")
    return float(value)


def _names(value):
    """One name or several; gauges are often called by a number."""
    value = value if isinstance(value, (list, tuple)) else (value,)
    return tuple(str(name) if type(name) is int else name for name in value)


Names = Annotated[tuple[str, ...], BeforeValidator(_names), Field(min_length=1)]
Coordinates = tuple[AnyCoordinate, AnyCoordinate]
Folder = Annotated[Path, BeforeValidator(existing_folder)]


class _Timed(Section):
    time: PositiveSeconds | None = None
    window: RangeOfSeconds | None = None

    @model_validator(mode="after")
    def _one_of_them(self):
        if self.time is not None and self.window is not None:
            raise ValueError("time and window exclude one another; give one of them, or neither for the end of the run")
        return self


class GaugeElevation(_Timed):
    """Elevation at gauges, at a time, in the mean over a window, or at the end."""

    type: Literal["gauge_elevation"]
    gauges: Names | None = None  # of [output.gauges.positions]; all of them unless given
    positions: dict[str, Place] = {}


class GaugeMaximum(Section):
    """The maximum at gauges, as an L_p norm over time."""

    type: Literal["gauge_maximum"]
    gauges: Names | None = None
    positions: dict[str, Place] = {}
    window: RangeOfSeconds | None = None
    power: Annotated[Number, Field(ge=2)] = 16.0


class SectionTransport(_Timed):
    """Volume transport through a section along a grid line."""

    type: Literal["section_transport"]
    start: Place
    end: Place


class BoxEnergy(_Timed):
    """Energy in a box; the whole domain unless given."""

    type: Literal["box_energy"]
    x: Coordinates | None = None
    y: Coordinates | None = None


class Misfit(Section):
    """Squared differences to observed gauge records, over their standard deviations."""

    type: Literal["misfit"]
    gauges: Names | None = None  # all that have a record unless given
    positions: dict[str, Place] = {}
    observations: Folder | None = None  # of NAME.csv (time_s, elevation_m); that of [output.gauges] unless given
    deviation: PositiveMetres | dict[str, PositiveMetres] | None = None  # that of each record unless given
    window: RangeOfSeconds | dict[str, RangeOfSeconds] | None = None


class ArrivalTime(Section):
    """Has no derivative: it is a step number."""

    type: Literal["arrival_time"]

    @model_validator(mode="before")
    @classmethod
    def _refused(cls, value):
        raise ValueError(
            "the arrival time counts steps and has no derivative; use 'gauge_maximum', or 'misfit' to a record"
        )


COSTS = (GaugeElevation, GaugeMaximum, SectionTransport, BoxEnergy, Misfit, ArrivalTime)
if TYPE_CHECKING:  # the alternatives are only known when the program runs
    Cost: TypeAlias = Any
else:
    Cost = chosen_from(COSTS)


def _distinct(names):
    for name in names:
        if names.count(name) > 1:
            raise ValueError(f"{name!r} is named twice; name each control once")
    return names


class Adjoint(Section):
    """What `swmodel adjoint` differentiates."""

    cost: Cost
    controls: Annotated[Names, AfterValidator(_distinct)]
    steps: Count | None = None
    until: PositiveSeconds | None = None  # that of [run] unless given
    amplitude: dict[str, float | str] = {}  # of each control, for --verify: how much it may be wrong
    memory: Annotated[float, BeforeValidator(_memory)] | None = None  # [bytes] per rank, for states that are kept
    file: OutputFile = "sensitivity.nc"

    @model_validator(mode="after")
    def _one_length(self):
        if self.steps is not None and self.until is not None:
            raise ValueError("steps and until exclude one another; give one of them")
        for name in self.amplitude:
            if name not in self.controls:
                raise ValueError(f"amplitude: {name!r} is no control; {nearest(name, self.controls)}")
        return self


# -- between sections --------------------------------------------------------------------------------------------------


def known_controls(sections: Mapping[str, Any]) -> list[str]:
    """Every control that the valid `sections` of an experiment have."""
    names = list(ALWAYS)
    for kind in ("forcing", "dissipation", "boundary"):
        for k, term in enumerate(sections.get(kind, ())):
            names += [f"{kind}.{k}.{name}" for name in term.controls()]
    names += transported_controls(sections)
    return names + ["uplift"] * (sections.get("source") is not None)


def control_mistakes(sections: Mapping[str, Any]) -> Iterator[Mistake]:
    """Mistakes of control names; of a file with mistakes in the terms themselves, none."""
    adjoint = sections.get("adjoint")
    if adjoint is None or any(sections.get(kind) is None for kind in PARTS):
        return
    known = known_controls(sections)
    for k, name in enumerate(adjoint.controls):
        if name == "uplift" and name not in known:
            text = "there is no uplift without a [source]; add one, or use 'initial.eta'"
            yield Mistake(("adjoint", "controls", k), text)
        elif name not in known:
            yield Mistake(("adjoint", "controls", k), f"there is no control {name!r}; {nearest(name, known)}")


def gauge_mistakes(sections: Mapping[str, Any]) -> Iterator[Mistake]:
    """Mistakes of the gauges that a cost names."""
    adjoint, output = sections.get("adjoint"), sections.get("output")
    if adjoint is None or output is None:
        return
    cost: Any = adjoint.cost
    if not hasattr(cost, "gauges"):
        return
    placed = gauge_places(adjoint, output)
    for name in cost.gauges or ():
        if name not in placed:
            yield Mistake(("adjoint", "cost", "gauges"), f"there is no gauge {name!r}; {nearest(name, placed)}")
    if not placed:
        text = "no gauge has a place; name them in [adjoint.cost.positions] or [output.gauges.positions]"
        yield Mistake(("adjoint", "cost"), text)
    if cost.type == "misfit":
        if cost.observations is None and (output.gauges is None or output.gauges.observations is None):
            text = "observations is missing: give a folder of NAME.csv with columns time_s and elevation_m"
            yield Mistake(("adjoint", "cost"), text)
        for key in ("deviation", "window"):
            given = getattr(cost, key)
            for name in given if isinstance(given, dict) else ():
                if name not in placed:
                    path = ("adjoint", "cost", key, name)
                    yield Mistake(path, f"there is no gauge {name!r}; {nearest(name, placed)}")


def time_mistakes(sections: Mapping[str, Any]) -> Iterator[Mistake]:
    """Mistakes of the times of a cost: those after the run's end."""
    adjoint, run = sections.get("adjoint"), sections.get("run")
    if adjoint is None or run is None or adjoint.steps is not None:
        return
    end = run.until if adjoint.until is None else adjoint.until
    whose = "[run]" if adjoint.until is None else "[adjoint]"
    for key in ("time", "window"):
        given = getattr(adjoint.cost, key, None)
        for name, value in given.items() if isinstance(given, dict) else [(None, given)]:
            last = value[1] if isinstance(value, tuple) else value
            if last is not None and last > end * (1 + 1e-9):
                path = ("adjoint", "cost", key) if name is None else ("adjoint", "cost", key, name)
                text = f"{last:g} s is after the end of the run, at {end:g} s; change it, or until in {whose}"
                yield Mistake(path, text)


def gauge_places(adjoint: Adjoint, output: Output) -> dict[str, tuple[float, float]]:
    """{name: (x, y)} of the gauges that the cost may name: its own, and those that are written."""
    written = {} if output.gauges is None else output.gauges.positions
    return {**written, **getattr(adjoint.cost, "positions", {})}
