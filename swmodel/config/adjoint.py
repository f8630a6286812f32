"""The section [adjoint]: the cost, the controls, and the length of the run that is differentiated.

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
from typing import Annotated, Any

from pydantic import AfterValidator, BeforeValidator, model_validator

from ..fields.variables import PROGNOSTIC, in_layer
from .costs import CostSection
from .mistakes import Mistake, nearest
from .quantities import QuantityError
from .scenario import OutputFile
from .sections import Count, Names, PositiveSeconds, Section
from .variables import PARTS, layer_count, transported_controls

__all__ = ["Adjoint", "control_mistakes", "known_controls", "time_mistakes"]

BYTES = {"B": 1.0, "kB": 1e3, "MB": 1e6, "GB": 1e9, "TB": 1e12, "KiB": 2.0**10, "MiB": 2.0**20, "GiB": 2.0**30}


def _memory(value):
    if isinstance(value, str):
        match = re.fullmatch(r"\s*([\d.]+(?:[eE][+-]?\d+)?)\s*([A-Za-z]+)\s*", value)
        if match is None or match[2] not in BYTES:
            raise QuantityError(f"expected a size of memory, as in '2 GB', got {value!r}")
        value = float(match[1]) * BYTES[match[2]]
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not value > 0:
        raise QuantityError(f"expected a size of memory, as in '2 GB', got {value!r}")
    return float(value)


Memory = Annotated[float, BeforeValidator(_memory)]  # [bytes]


def _distinct(names):
    for name in names:
        if names.count(name) > 1:
            raise ValueError(f"{name!r} is named twice; name each control once")
    return names


class Adjoint(Section):
    """What `swmodel adjoint` differentiates."""

    cost: CostSection  # the number J to differentiate
    controls: Annotated[Names, AfterValidator(_distinct)]  # the inputs with respect to which it is differentiated
    steps: Count | None = None  # length of the run, in steps
    until: PositiveSeconds | None = None  # that of [run] unless given
    amplitude: dict[str, float | str] = {}  # of each control, for --verify: the size of a realistic error
    memory: Memory | None = None  # [bytes] per rank, for states that are kept
    file: OutputFile = "sensitivity.nc"  # netCDF file to write

    @model_validator(mode="after")
    def _one_length(self):
        if self.steps is not None and self.until is not None:
            raise ValueError("steps and until exclude one another; give one of them")
        for name in self.amplitude:
            if name not in self.controls:
                raise ValueError(f"amplitude: {name!r} is not a control; {nearest(name, self.controls)}")
        return self


# -- between sections --------------------------------------------------------------------------------------------------


def known_controls(sections: Mapping[str, Any]) -> list[str]:
    """The names of all controls of the model that the valid `sections` of an experiment describe."""
    stepped = [in_layer(row.name, k) for k in range(layer_count(sections)) for row in PROGNOSTIC]
    names, layers = [*(f"initial.{name}" for name in stepped), "depth", "gravity"], sections.get("layers")
    if layers is not None:
        names += [f"layers.{key}" for key in layers.controls() if getattr(layers, key) is not None]
    for kind in ("forcing", "dissipation", "boundary"):
        for k, term in enumerate(sections.get(kind, ())):
            names += [f"{kind}.{k}.{name}" for name in term.controls()]
    names += transported_controls(sections)
    return names + ["uplift"] * (sections.get("source") is not None)


def control_mistakes(sections: Mapping[str, Any]) -> Iterator[Mistake]:
    """Mistakes of control names; none are looked for if the sections of terms have mistakes."""
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
