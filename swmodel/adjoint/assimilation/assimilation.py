"""Strong-constraint 4D-Var: the controls for which a run best fits the observations and the background.

    J(p) = 1/2 |p - b|^2 + 1/2 |d(p)|^2,   d(p) = (H M(x(p)) - y) / s,

Here M is the nonlinear model, H reads the gauges, and y are the observations with errors s. The controls x(p) are
functions of standard parameters p, whose background b has errors of 1 (transforms.py). `FourDVar` is J with its
gradient, for `minimise`. `incremental` solves the sequence of quadratic problems of Courtier et al. (1994),
doi:10.1002/qj.49712051912. Each outer loop runs M at p_k, and an inner loop solves

    (1 + G* G) q = b - p_k - G* d(p_k),   p_{k+1} = p_k + a q,

where G is the derivative of d: the exact tangent and adjoint (`Tangent`), or, for few parameters, a matrix whose
columns are runs of the linear model (responses.py). The step a is 1, and is halved until J falls.
"""

import dataclasses
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from ...parallel.communicator import Communicator
from ..controls.controls import ControlDict
from ..costs.misfits import SumOfMisfits
from ..costs.tile_costs import SquaresOfSums
from ..problem import Problem
from .minimise import Lanczos, Space, lanczos

__all__ = [
    "Analysis",
    "Departures",
    "DeparturesOfParts",
    "DeparturesOfSums",
    "FourDVar",
    "Loop",
    "Rules",
    "Tangent",
    "departures_of",
    "incremental",
    "resumed",
]


class Departures:
    """The departures d as a function of readings (steps, gauges), on the host; every rank holds all of them.

    Args:
        cost: the TileCost of a Misfit.
        communicator: the model's Communicator.
        kept: for each gauge, whether it counts; all count unless given.
    """

    def __init__(self, cost: Any, communicator: Communicator, kept: Sequence[bool] | np.ndarray | None = None):
        tables = next(iter(communicator.tiles((cost.share, cost.observed, cost.per_deviation)).values()))
        self.share, self.observed, per_deviation = (np.asarray(table, float) for table in tables)
        self.per_deviation = per_deviation if kept is None else per_deviation * np.asarray(kept, float)

    def of(self, readings: ArrayLike) -> np.ndarray:
        """d (steps, M, gauges); 0 where there is no observation."""
        return self.linear(readings) - self.observed * self.per_deviation

    def linear(self, readings: ArrayLike) -> np.ndarray:
        """The part of d that is linear in the readings."""
        now = np.asarray(readings, float)
        before = np.concatenate([np.zeros_like(now[:1]), now[:-1]])
        return ((1.0 - self.share) * before[:, None] + self.share * now[:, None]) * self.per_deviation

    def transposed(self, d: np.ndarray) -> np.ndarray:
        """The transpose of `linear`."""
        d = d * self.per_deviation
        readings = np.sum(self.share * d, axis=1)
        readings[:-1] += np.sum((1.0 - self.share) * d, axis=1)[1:]
        return readings

    def compared(self, readings: ArrayLike) -> np.ndarray:
        """The quantities from which observations are interpolated: the readings themselves."""
        return np.asarray(readings, float)

    def scaled(self, compared: ArrayLike) -> np.ndarray:
        """Differences of what `compared` returns, over the errors of the observations."""
        return self.linear(compared)

    def by_gauge(self, readings: ArrayLike) -> np.ndarray:
        """The sum of d^2 for each gauge, (gauges,)."""
        return np.sum(self.of(readings) ** 2, axis=(0, 1))


class DeparturesOfSums(Departures):
    """The departures d (M, gauges) of a SquaresOfSums, such as those of harmonic constants."""

    def __init__(self, cost: Any, communicator: Communicator, kept: Sequence[bool] | np.ndarray | None = None):
        tables = next(iter(communicator.tiles((cost.weights, cost.observed, cost.per_deviation)).values()))
        self.weights, self.observed, per_deviation = (np.asarray(table, float) for table in tables)
        self.per_deviation = per_deviation if kept is None else per_deviation * np.asarray(kept, float)

    def linear(self, readings: ArrayLike) -> np.ndarray:
        return self.compared(readings) * self.per_deviation

    def transposed(self, d: np.ndarray) -> np.ndarray:
        return self.weights @ (d * self.per_deviation)

    def compared(self, readings: ArrayLike) -> np.ndarray:
        """The weighted sums (M, gauges) of readings (steps, gauges)."""
        return self.weights.T @ np.asarray(readings, float)

    def scaled(self, compared: ArrayLike) -> np.ndarray:
        return np.asarray(compared, float) * self.per_deviation

    def by_gauge(self, readings: ArrayLike) -> np.ndarray:
        return np.sum(self.of(readings) ** 2, axis=0)


class DeparturesOfParts(Departures):
    """The departures d (n,) of a SumOfMisfits: those of all its parts, one after the other."""

    def __init__(self, cost: Any, communicator: Communicator, kept: Sequence[bool] | np.ndarray | None = None):
        self.ends = cost.ends
        each = [None] * len(cost.parts) if kept is None else np.split(np.asarray(kept, float), self.ends)
        self.parts = [departures_of(part, communicator, some) for part, some in zip(cost.parts, each)]
        self.shapes = [part.per_deviation.shape for part in self.parts]
        self.per_deviation, self.observed = (
            np.concatenate([getattr(part, name).ravel() for part in self.parts])
            for name in ("per_deviation", "observed")
        )

    def linear(self, readings: ArrayLike) -> np.ndarray:
        return self._joined(part.linear(own) for part, own in self._each(readings))

    def transposed(self, d: np.ndarray) -> np.ndarray:
        ends = np.cumsum([math.prod(shape) for shape in self.shapes])[:-1]
        own = (part.reshape(shape) for part, shape in zip(np.split(np.asarray(d, float), ends), self.shapes))
        return np.concatenate([part.transposed(x) for part, x in zip(self.parts, own)], axis=1)

    def compared(self, readings: ArrayLike) -> np.ndarray:
        """What each part compares, side by side; below the rows of a part that has fewer are zeros."""
        found = [part.compared(own) for part, own in self._each(readings)]
        rows = max(len(own) for own in found)
        return np.concatenate([np.pad(own, ((0, rows - len(own)), (0, 0))) for own in found], axis=1)

    def scaled(self, compared: ArrayLike) -> np.ndarray:
        return self._joined(
            part.scaled(own[: len(part.per_deviation)])
            for part, own in self._each(compared)  # without padding
        )

    def by_gauge(self, readings: ArrayLike) -> np.ndarray:
        return np.concatenate([part.by_gauge(own) for part, own in self._each(readings)])

    def _each(self, readings):
        """Each part with its columns of the readings."""
        return zip(self.parts, np.split(np.asarray(readings, float), self.ends, axis=1))

    @staticmethod
    def _joined(arrays):
        return np.concatenate([np.ravel(array) for array in arrays])


def departures_of(cost: Any, communicator: Communicator, kept: Sequence[bool] | np.ndarray | None = None) -> Departures:
    """The departures of the TileCost of a misfit; arguments as for Departures."""
    if isinstance(cost, SumOfMisfits):
        return DeparturesOfParts(cost, communicator, kept)
    made = DeparturesOfSums if isinstance(cost, SquaresOfSums) else Departures
    return made(cost, communicator, kept)


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

    def solve(
        self,
        downhill: ControlDict,
        space: Space,
        products: int,
        residual: float,
        progress: Callable[[int, float], object] | None = None,
    ) -> Lanczos:
        """The Lanczos basis from `downhill`, from which the solution of the inner problem follows."""
        return lanczos(self.product, downhill, space, products, residual, progress)


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
    linearised: Callable[[ControlDict], Any] | None = None,
    progress: Callable[[Analysis], object] | None = None,
    inner: Callable[[int, float], object] | None = None,
) -> Analysis:
    """The minimum of J by outer and inner loops.

    Args:
        variational: a FourDVar.
        departures: a Departures.
        rules: Rules.
        start: parameters, or an Analysis from which to continue; the background unless given.
        linearised: `linearised(parameters)` returns G, an object like Tangent; the exact Tangent unless given.
        progress: called after every outer loop with an Analysis.
        inner: called after every product of an inner loop, as inner(products, residual).

    Returns:
        Analysis.
    """
    problem, space = variational.problem, variational.space
    linearised = linearised or (lambda parameters: Tangent(problem, departures, parameters))
    now = start if isinstance(start, Analysis) else None
    if now is None:
        now = _evaluated(variational, departures, variational.background if start is None else start, 0)
    while True:
        now = dataclasses.replace(now, reason=rules.reason(now.history))
        if progress is not None:
            progress(now)
        if now.reason is not None:
            return now
        G = linearised(now.parameters)
        uphill = space.add(variational.from_background(now.parameters), 1.0, G.transposed(departures.of(now.readings)))
        downhill = space.scale(-1.0, uphill)
        if space.norm(downhill) == 0.0:
            return dataclasses.replace(now, reason="the gradient is zero")
        basis = G.solve(downhill, space, rules.products, rules.residual, inner)
        found = _stepped(variational, departures, now, basis)
        if found is None:
            return dataclasses.replace(now, basis=basis, reason="no step along the inner loop's solution lowers J")
        now = found


def resumed(variational: FourDVar, departures: Departures, parameters: ControlDict, rows: Sequence) -> Analysis:
    """The Analysis to continue from, by stored parameters and rows (number, J, misfit, background, products)."""
    now = _evaluated(variational, departures, parameters, int(rows[-1][0]))
    history = [
        Loop(int(number), float(value), float(misfit), float(background), int(products))
        for number, value, misfit, background, products in rows[:-1]
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
        found = _evaluated(
            variational,
            departures,
            variational.space.add(now.parameters, step, toward),
            now.history[-1].number + 1,
            products=basis.products,
            residual=basis.residual,
            step=step,
        )
        if found.history[-1].value < now.history[-1].value:
            return dataclasses.replace(found, history=(*now.history, *found.history), basis=basis)
        step *= 0.5
    return None
