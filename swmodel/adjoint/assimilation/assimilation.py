"""Strong-constraint 4D-Var: the controls for which a run best fits the observations and the background.

    J(p) = 1/2 |p - b|^2 + 1/2 |d(p)|^2,   d(p) = (H M(x(p)) - y) / s,

Here M is the nonlinear model, H reads the gauges, and y are the observations with errors s. The controls x(p) are
functions of standard parameters p, whose background b has errors of 1 (transforms.py). `FourDVar` is J with its
gradient, for `minimise`. `incremental` solves the sequence of quadratic problems of Courtier et al. (1994),
doi:10.1002/qj.49712051912. Each outer loop runs M at p_k, and an inner loop solves

    (1 + G* G) q = b - p_k - G* d(p_k),   p_{k+1} = p_k + a q,

where G is the derivative of d: the exact tangent and adjoint (`Tangent`), or, for few parameters, a matrix whose
columns are runs of the linear model (departures.py). The step a is 1, and is halved until J falls.
"""

import dataclasses
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..controls.controls import ControlDict
from ..problem import Problem
from .departures import Departures
from .minimise import Lanczos, Progress, Space, lanczos


class FourDVar:
    """J = 1/2 |p - b|^2 + 1/2 |d(p)|^2 as a function of the parameters p.

    Args:
        problem: a Problem whose cost is a Misfit, with Transformed controls whose parameters have errors of 1.
        background: b, a dict like problem.values; problem.values unless given.
    """

    def __init__(self, problem: Problem, background: ControlDict | None = None):
        self.problem, self.space = problem, Space(problem.communicator)
        self.background = problem.values if background is None else background

    def from_background(self, parameters: ControlDict) -> ControlDict:
        """p - b."""
        return self.space.add(parameters, -1.0, self.background)

    def value(self, parameters: ControlDict) -> float:
        """J."""
        return self.problem.value(parameters) + 0.5 * self._square(parameters)

    def value_and_gradient(self, parameters: ControlDict) -> tuple[float, ControlDict]:
        """(J, dJ/dp)."""
        value, gradient = self.problem.value_and_gradient(parameters)
        return value + 0.5 * self._square(parameters), self.space.add(gradient, 1.0, self.from_background(parameters))

    def hessian_product(self, parameters: ControlDict, direction: ControlDict) -> ControlDict:
        """The exact Hessian of J, with second derivatives of the model, times a direction."""
        return self.space.add(self.problem.hessian_product(parameters, direction), 1.0, direction)

    def _square(self, parameters):
        difference = self.from_background(parameters)
        return self.space.dot(difference, difference)


class Tangent:
    """G of a Problem at given parameters, by its exact tangent and adjoint."""

    def __init__(self, problem: Problem, departures: Departures, parameters: ControlDict):
        self.problem, self.departures, self.parameters = problem, departures, parameters

    def transposed(self, d: np.ndarray) -> ControlDict:
        """G* d, a dict of parameters."""
        return self.problem.observed_adjoint(self.parameters, self.departures.transposed(d))

    def product(self, direction: ControlDict) -> ControlDict:
        """G* G times a dict of parameters, by one tangent and one adjoint run."""
        _, readings = self.problem.observed_tangent(self.parameters, direction)
        return self.transposed(self.departures.linear(readings))

    def solve(self, downhill: ControlDict, space: Space, rules: "Rules", progress: Progress | None = None) -> Lanczos:
        """The Lanczos basis from `downhill`, from which the solution of the inner problem follows."""
        return lanczos(self.product, downhill, space, rules.products, rules.residual, progress)


@dataclasses.dataclass(frozen=True)
class Loop:
    """One line of the history of `incremental`: J and its parts after an outer loop, and statistics of the inner loop.

    Attributes:
        number: number of outer loops so far.
        value, misfit, background: J = misfit + background, each half a sum of squares.
        products: number of products with G* G in the inner loop.
        residual: |b - A x| / |b| at the end of the inner loop.
        step: a.
    """

    number: int
    value: float
    misfit: float
    background: float
    products: int = 0
    residual: float = 0.0
    step: float = 0.0


@dataclasses.dataclass(frozen=True)
class Analysis:
    """The result of `incremental`.

    Attributes:
        parameters: p.
        readings: the model's readings at p, (steps, gauges).
        history: a Loop for the start and for each outer loop.
        basis: the basis of the last inner loop, whose eigenpairs posterior.py uses; None if there was no inner loop.
        reason: why the iteration ended; None while it continues.
    """

    parameters: dict
    readings: np.ndarray
    history: tuple
    basis: Any = None
    reason: str | None = None


@dataclasses.dataclass(frozen=True)
class Rules:
    """Stopping criteria of `incremental`.

    Args:
        loops: largest number of outer loops.
        products: largest number of products with G* G in an inner loop.
        residual: relative residual at which an inner loop ends.
        decrease: the iteration ends when an outer loop lowers J by less than this share.
    """

    loops: int = 3
    products: int = 40
    residual: float = 1e-3
    decrease: float = 1e-3

    def reason(self, history: Sequence[Loop]) -> str | None:
        """Why to stop after the Loops `history`, or None."""
        if len(history) > 1 and history[-2].value - history[-1].value <= self.decrease * history[-1].value:
            return f"the last outer loop lowered J by less than {self.decrease:g} of it"
        return f"{self.loops} outer loop{'s' * (self.loops > 1)} made" if history[-1].number >= self.loops else None


def incremental(
    variational: FourDVar,
    departures: Departures,
    rules: Rules = Rules(),
    start: ControlDict | Analysis | None = None,
    linearised: Callable[[ControlDict, Departures], Any] | None = None,
    progress: Callable[[Analysis], object] | None = None,
    inner: Progress | None = None,
) -> Analysis:
    """The minimum of J by outer and inner loops.

    Args:
        variational: a FourDVar.
        departures: a Departures.
        rules: Rules.
        start: parameters, or an Analysis from which to continue; the background unless given.
        linearised: `linearised(parameters, departures)` returns G, an object like Tangent, of the departures about the
            readings there; the exact Tangent unless given.
        progress: called after every outer loop with an Analysis.
        inner: called after every product of an inner loop, as inner(products, residual).

    Returns:
        Analysis.
    """
    problem, space = variational.problem, variational.space
    linearised = linearised or (lambda parameters, about: Tangent(problem, about, parameters))
    now = start if isinstance(start, Analysis) else None
    if now is None:
        now = _evaluated(variational, departures, variational.background if start is None else start, 0)
    while True:
        now = dataclasses.replace(now, reason=rules.reason(now.history))
        if progress is not None:
            progress(now)
        if now.reason is not None:
            return now
        G = linearised(now.parameters, departures.about(now.readings))
        uphill = space.add(variational.from_background(now.parameters), 1.0, G.transposed(departures.of(now.readings)))
        downhill = space.scale(-1.0, uphill)
        if space.norm(downhill) == 0.0:
            return dataclasses.replace(now, reason="the gradient is zero")
        basis = G.solve(downhill, space, rules, inner)
        found = _stepped(variational, departures, now, basis)
        if found is None:
            return dataclasses.replace(now, basis=basis, reason="no step along the inner loop's solution lowers J")
        now = found


def resumed(variational: FourDVar, departures: Departures, parameters: ControlDict, rows: Sequence) -> Analysis:
    """The Analysis to continue from, by stored parameters and rows (number, J, misfit, background, products)."""
    now = _evaluated(variational, departures, parameters, int(rows[-1][0]))
    history = [
        Loop(int(number), float(J), float(misfit), float(background), int(products))
        for number, J, misfit, background, products in rows[:-1]
    ]
    return dataclasses.replace(now, history=(*history, *now.history))


def _evaluated(variational, departures, parameters, number, **inner):
    """The Analysis at given parameters, by a run of the model; a misfit that is not finite counts as infinite."""
    readings = np.asarray(variational.problem.observed(parameters))
    misfit = 0.5 * float(np.sum(departures.of(readings) ** 2))
    misfit = variational.space.communicator.host_broadcast(misfit if math.isfinite(misfit) else math.inf)
    difference = variational.from_background(parameters)
    background = 0.5 * variational.space.dot(difference, difference)
    return Analysis(parameters, readings, (Loop(number, misfit + background, misfit, background, **inner),))


def _stepped(variational, departures, now, basis, halvings=5):
    """The Analysis after the inner loop's step, or half of it, a quarter, ...; None if no such step lowers J."""
    step, toward = 1.0, basis.solution()
    for _ in range(halvings):
        there, number = variational.space.add(now.parameters, step, toward), now.history[-1].number + 1
        inner = {"products": basis.products, "residual": basis.residual, "step": step}
        found = _evaluated(variational, departures, there, number, **inner)
        if found.history[-1].value < now.history[-1].value:
            return dataclasses.replace(found, history=(*now.history, *found.history), basis=basis)
        step *= 0.5
    return None
