"""Sensitivity maps: gradients gathered from all tiles, with units, and a check by the nonlinear model.

    sensitivities(problem, gradient)     {name: Sensitivity}: global arrays on the root
    forward_check(problem, J, gradient)  the nonlinear model's response to a perturbation d, and <g, d>

A value of a map is the change of the cost per unit of the control in that cell alone. Divided by the cell's area, it
is a density, which does not depend on the grid.
"""

import dataclasses
from typing import Any

import jax
import numpy as np

from .controls.controls import ControlDict
from .problem import Problem, dot, largest
from .verification import units_of


@dataclasses.dataclass(frozen=True, eq=False)
class Sensitivity:
    """dJ/dc of one control.

    Attributes:
        control: the name of the control.
        position: "h", "u", "v" (on the C-grid), or "scalar".
        units: units of the cost per unit of the control, as UDUNITS reads them.
        value: (ny, nx), or a number or vector. For time records it is their sum: the same change at all times.
        records: (n, ny, nx) or (n,) in the model's precision, for each time record that is a control, or None.
        times: times of these records [s], (n,).
        moments: times of the values of a vector, such as the points of a track, since the start [s] (n,), or None.
    """

    control: str
    position: str
    units: str
    value: np.ndarray
    records: np.ndarray | None = None
    times: np.ndarray | None = None
    moments: np.ndarray | None = None


def per(cost: str, control: str) -> str:
    """Units of the cost per units of the control, such as "m per (N m-2)"."""
    if control in ("1", ""):
        return cost
    return f"{cost} per ({control})" if " " in control else f"{cost} per {control}"


def sensitivities(problem: Problem, gradient: ControlDict, units: str = "1") -> dict[str, Sensitivity]:
    """{control: Sensitivity} on the root, {} on other ranks; collective.

    Args:
        problem: the Problem.
        gradient: the gradient that its value_and_gradient returns.
        units: units of the cost.
    """
    controls, of = {c.name: c for c in problem.controls}, units_of(problem)
    found: dict[str, Sensitivity] = {}
    for name, value in gradient.items():
        control = controls.get(name)
        records = times = None
        if isinstance(value, dict) and control is not None:
            records = np.array([_gathered(problem, x) for x in value.values()])
            times = np.asarray(control.series.times, float)[list(value)]
            gathered = records.sum(axis=0, dtype=float)
        else:
            gathered = np.asarray(_gathered(problem, value), float)
        if problem.communicator.is_root:
            position = "scalar" if np.ndim(gathered) < 2 else "h" if control is None else control.position
            moments = np.array(control.times) if control is not None and control.times else None
            found[name] = Sensitivity(name, position, per(units, of[name]), gathered, records, times, moments)
    return found


def _gathered(problem: Problem, value: Any) -> np.ndarray:
    """A tile array as a global one on the root (NaN elsewhere); a number or vector as it is."""
    if np.ndim(value) < 2:
        return np.asarray(value)
    whole = problem.model.gather(value)
    return np.asarray(np.nan if whole is None else whole, problem.model.dtype)


@dataclasses.dataclass(frozen=True)
class Check:
    """The change of the cost under a perturbation d with the pattern of a map and the maximum `amplitude`.

    Attributes:
        control: the name of the control.
        units: units of the control and of `amplitude`.
        predicted: the linear prediction <g, d>.
        found: J(x + d) - J(x) of the nonlinear model.
    """

    control: str
    units: str
    amplitude: float
    predicted: float
    found: float

    @property
    def error(self) -> float:
        """The error of the prediction, relative to the change of the nonlinear model."""
        return abs(self.predicted - self.found) / abs(self.found) if self.found else float("inf")


def forward_check(problem: Problem, J: float, gradient: ControlDict, name: str, amplitude: float) -> Check:
    """The Check of one control, by one run of the model; collective.

    Args:
        problem: the Problem.
        J, gradient: value and gradient at the problem's own values.
        name: the name of the control.
        amplitude: the largest perturbation, in the units of the control.
    """
    direction = pattern(problem, gradient[name], amplitude)
    values = problem.values
    moved = jax.tree.map(lambda x, d: x + d, values[name], direction)
    predicted = dot({name: gradient[name]}, {name: direction}, problem.communicator)
    return Check(name, units_of(problem)[name], amplitude, predicted, problem.value(values | {name: moved}) - J)


def pattern(problem: Problem, gradient: Any, amplitude: float) -> Any:
    """A perturbation with the pattern of a gradient (for time records, of their sum); 0 if the gradient is 0."""
    total: Any = sum(gradient.values()) if isinstance(gradient, dict) else gradient
    most = largest(total, problem.communicator)
    made = total * np.asarray(amplitude / most if most > 0 else 0.0, total.dtype)
    return {k: made for k in gradient} if isinstance(gradient, dict) else made
