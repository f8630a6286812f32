"""The departures d = (H - y) / s of 4D-Var: what a model's readings differ from observations by, over their errors.

On the host, as functions of readings (steps, gauges), with the transposes of their derivatives. Those of maxima are not
linear: `about` gives them the point at which they are differentiated.

Responses of gauges to a change of the initial state are linear, by runs of the linear model. Waves on the deep sea are
linear to a few parts in a thousand. For few parameters, the derivative of the readings can therefore be computed as a
matrix: each forward run of the linear model gives one column. The inner problem of 4D-Var is then solved directly. The
outer loop keeps the nonlinear model; Courtier et al. (1994) call this a simplified linear model in the inner loop. For
a patch of unit sources the columns are Green's functions. They do not depend on the outer loop, the errors or the
background.

Green's functions come from as many sweeps of the transposed model as there are gauges, or runs as there are sources
(linear_model.py).
"""

import contextlib
import copy
import dataclasses
from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import jax
import numpy as np
from numpy.typing import ArrayLike

from ...errors import ConfigError
from ...parallel.communicator import Communicator
from ...runtime.compilation import jit
from ..controls.controls import ControlDict
from ..controls.transforms import Patterns
from ..costs.marks import SquaresOfMaxima
from ..costs.misfits import SumOfMisfits
from ..costs.tile_costs import AtInstants, Squares, SquaresOfSums
from ..problem import Problem
from .linear_model import LinearModel, entered
from .minimise import unit_vectors


class Departures:
    """The departures d (steps, M, gauges) of Squares as a function of readings (steps, gauges), on the host.

    Args:
        cost: the TileCost, as one tile has it; every rank holds all of its tables.
        kept: for each gauge, whether it counts; all count unless given.
    """

    tables: ClassVar[tuple[str, ...]] = "share", "observed", "per_deviation"
    share: np.ndarray
    observed: np.ndarray
    per_deviation: np.ndarray

    def __init__(self, cost: Any, kept: Sequence[bool] | np.ndarray | None = None):
        for name in self.tables:
            setattr(self, name, np.asarray(getattr(cost, name), float))
        if kept is not None:
            self.per_deviation = self.per_deviation * np.asarray(kept, float)

    def of(self, readings: ArrayLike) -> np.ndarray:
        """d; 0 where there is no observation."""
        return self.scaled(self.compared(readings)) - self.observed * self.per_deviation

    def about(self, readings: ArrayLike) -> "Departures":
        """The departures whose `linear` and `transposed` are those of the derivative at `readings`."""
        return self

    def linear(self, readings: ArrayLike) -> np.ndarray:
        """The part of d that is linear in the readings."""
        return self.scaled(self.compared(readings))

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
        now = np.asarray(compared, float)
        before = np.concatenate([np.zeros_like(now[:1]), now[:-1]])
        return ((1.0 - self.share) * before[:, None] + self.share * now[:, None]) * self.per_deviation


class DeparturesOfSums(Departures):
    """The departures d (M, gauges) of a SquaresOfSums, such as those of harmonic constants."""

    tables = "weights", "observed", "per_deviation"
    weights: np.ndarray

    def transposed(self, d: np.ndarray) -> np.ndarray:
        return self.weights @ (d * self.per_deviation)

    def compared(self, readings: ArrayLike) -> np.ndarray:
        """The weighted sums (M, gauges) of readings (steps, gauges)."""
        return self.weights.T @ np.asarray(readings, float)

    def scaled(self, compared: ArrayLike) -> np.ndarray:
        return np.asarray(compared, float) * self.per_deviation


class DeparturesOfMaxima(DeparturesOfSums):
    """The departures d (1, marks) of a SquaresOfMaxima; their derivative reads the steps of the maxima."""

    tables = "weights", "observed", "per_deviation", "ground"
    ground: np.ndarray
    steps: np.ndarray  # numbers of the rows of the maxima (1, marks), of departures about readings
    slopes: np.ndarray  # 1 / s_k (1, marks), 0 on land that stays dry

    def about(self, readings: ArrayLike) -> "DeparturesOfMaxima":
        found = copy.copy(self)
        found.steps = np.argmax(self._counted(readings), axis=0)[None]
        found.slopes = np.where(self.compared(readings) > self.ground, self.per_deviation, 0.0)
        return found

    def linear(self, readings: ArrayLike) -> np.ndarray:
        return np.take_along_axis(np.asarray(readings, float), self.steps, axis=0) * self.slopes

    def transposed(self, d: np.ndarray) -> np.ndarray:
        readings = np.zeros((len(self.weights), d.shape[1]))
        np.put_along_axis(readings, self.steps, d * self.slopes, axis=0)
        return readings

    def compared(self, readings: ArrayLike) -> np.ndarray:
        """The maxima (1, marks) of readings (steps, marks)."""
        return np.max(self._counted(readings), axis=0, keepdims=True)

    def _counted(self, readings):
        return np.where(self.weights > 0, np.asarray(readings, float), -np.inf)


class DeparturesOfInstants(Departures):
    """The departures d (steps, 1, gauges) of AtInstants, one of each reading."""

    def __init__(self, cost: Any, kept: Sequence[bool] | np.ndarray | None = None):
        tables = np.zeros((3, cost.steps, 1, len(cost.step)))
        rows = [getattr(cost, name) for name in self.tables]
        tables[:, np.asarray(cost.step), 0, np.arange(len(cost.step))] = rows
        super().__init__(dataclasses.replace(cost, **dict(zip(self.tables, tables))), kept)


class DeparturesOfParts(Departures):
    """The departures d (n,) of a SumOfMisfits: those of all its parts, one after the other."""

    def __init__(self, cost: Any, kept: Sequence[bool] | np.ndarray | None = None):
        self.ends = cost.ends
        each = [None] * len(cost.parts) if kept is None else np.split(np.asarray(kept, float), self.ends)
        self.parts = [KINDS[type(part)](part, some) for part, some in zip(cost.parts, each)]
        self.per_deviation, self.observed = (
            self._joined(getattr(part, name) for part in self.parts) for name in ("per_deviation", "observed")
        )

    def about(self, readings: ArrayLike) -> "DeparturesOfParts":
        found = copy.copy(self)
        found.parts = [part.about(own) for part, own in self._each(readings)]
        return found

    def linear(self, readings: ArrayLike) -> np.ndarray:
        return self._joined(part.linear(own) for part, own in self._each(readings))

    def transposed(self, d: np.ndarray) -> np.ndarray:
        ends = np.cumsum([part.per_deviation.size for part in self.parts])[:-1]
        each = zip(self.parts, np.split(np.asarray(d, float), ends))
        return np.concatenate([part.transposed(own.reshape(part.per_deviation.shape)) for part, own in each], axis=1)

    def compared(self, readings: ArrayLike) -> np.ndarray:
        """What each part compares, side by side; below the rows of a part that has fewer are zeros."""
        found = [part.compared(own) for part, own in self._each(readings)]
        rows = max(len(own) for own in found)
        return np.concatenate([np.pad(own, ((0, rows - len(own)), (0, 0))) for own in found], axis=1)

    def scaled(self, compared: ArrayLike) -> np.ndarray:
        each = self._each(compared)
        return self._joined(part.scaled(own[: len(part.per_deviation)]) for part, own in each)  # without padding

    def _each(self, readings):
        """Each part with its columns of the readings."""
        return zip(self.parts, np.split(np.asarray(readings, float), self.ends, axis=1))

    @staticmethod
    def _joined(arrays):
        return np.concatenate([np.ravel(array) for array in arrays])


KINDS: dict[type, type[Departures]] = {
    Squares: Departures,
    SquaresOfSums: DeparturesOfSums,
    SquaresOfMaxima: DeparturesOfMaxima,
    AtInstants: DeparturesOfInstants,
    SumOfMisfits: DeparturesOfParts,
}


def departures_of(cost: Any, communicator: Communicator, kept: Sequence[bool] | np.ndarray | None = None) -> Departures:
    """The departures of the TileCost of a misfit; `kept` as for Departures. Raises ConfigError for another cost."""
    if type(cost) not in KINDS:
        raise ConfigError(f"a {type(cost).__name__} compares no observations with readings; give a misfit.")
    return KINDS[type(cost)](communicator.one_tile(cost), kept)


@dataclasses.dataclass(frozen=True)
class Green:
    """Green's functions of a sum of patterns, such as a patch of unit sources.

    Attributes:
        columns: readings for 1 m of each source, (k, steps, gauges).
        sources: the Patterns.
        name: the name of their parameters.
    """

    columns: np.ndarray
    sources: Patterns
    name: str

    @staticmethod
    def of(problem: Problem, progress: Callable[[int, int], object] | None = None) -> "Green":
        """Green's functions by a run of the linear model for each source, or a sweep for each gauge if this is less.

        Runs take the place of sweeps that do not give the readings of a run, as the model changes with time.
        `progress(done, all)` is called after each.

        Raises:
            ConfigError: if the problem's controls are not those of one patch of unit sources.
        """
        name, sources, target = only_patch(problem)
        linear = LinearModel(problem)
        if linear.count * linear.cost_of_sweep() < sources.count:
            with contextlib.suppress(ConfigError):
                return Green(linear.swept(sources, target, progress=progress), sources, name)
        return Green(linear.run_each(sources, target, progress=progress), sources, name)

    @staticmethod
    def made(problem: Problem, columns: ArrayLike) -> "Green":
        """Green's functions with the `columns` of an earlier run."""
        name, sources, _ = only_patch(problem)
        return Green(np.asarray(columns), sources, name)

    def readings(self, communicator: Communicator) -> Callable[[ControlDict], np.ndarray]:
        """F of the linear model as a function from parameters to readings (steps, gauges), without further runs."""
        program = jit(communicator.spmd(lambda p, sources: sources.amplitudes(p)))

        def of(parameters):
            found = program(entered(parameters[self.name], communicator), self.sources)
            return np.tensordot(np.asarray(communicator.one_tile(found), float), self.columns, 1)

        return of

    def linearised(self, problem: Problem) -> Callable[[ControlDict, Departures], "Matrix"]:
        """The function from parameters and departures to G that `incremental` takes."""
        slope = jit(problem.communicator.spmd(jax.jacfwd(lambda p, sources: sources.amplitudes(p))))

        def at(parameters, departures):
            counted = departures.per_deviation > 0
            matrix = np.stack([departures.linear(column)[counted] for column in self.columns], axis=1)
            found = slope(entered(parameters[self.name], problem.communicator), self.sources)
            found = np.asarray(problem.communicator.one_tile(found), float)
            return Matrix(matrix @ found, counted, parameters)

        return at


def tangent_columns(problem: Problem) -> "Callable[[ControlDict, Departures], Matrix]":
    """The function from parameters and departures to G that `incremental` takes, by a run of the linear model for each.

    Raises:
        ConfigError: if a parameter is a field.
    """
    fields = [name for name, value in problem.values.items() if np.ndim(value) > 1]
    if fields or len(problem.transforms) != 1:
        raise ConfigError(
            f"linear responses are runs for every number of the parameters, and {', '.join(fields) or 'there'} "
            f"{'is a field' if len(fields) == 1 else 'are fields' if fields else 'is none'}; use the method "
            "'incremental'."
        )
    linear = LinearModel(problem)
    program = jit(problem.communicator.spmd(lambda f, p, dp: jax.jvp(f, (p,), (dp,))[1]))

    def at(parameters, departures):
        columns, counted, communicator = [], departures.per_deviation > 0, problem.communicator
        here = entered(parameters, communicator)
        for unit in unit_vectors(parameters):
            change = program(problem.transforms[0].function, here, entered(unit, communicator))
            columns.append(departures.linear(linear.readings(change))[counted])
        return Matrix(np.stack(columns, axis=1), counted, parameters)

    return at


class Matrix:
    """G as a matrix (observations that count, numbers of all parameters in the order of the dict)."""

    def __init__(self, matrix: np.ndarray, counted: np.ndarray, like: ControlDict):
        self.matrix, self.counted, self.like = matrix, counted, like

    def transposed(self, d: np.ndarray) -> ControlDict:
        return self._parameters(self.matrix.T @ d[self.counted])

    def product(self, direction: ControlDict) -> ControlDict:
        return self._parameters(self.matrix.T @ (self.matrix @ _vector(direction, self.like)))

    def solve(self, downhill: ControlDict, *_: Any) -> "Dense":
        """The direct solution of the inner problem, with all eigenpairs; the other arguments are those of Tangent."""
        values, vectors = np.linalg.eigh(self.matrix.T @ self.matrix)
        return Dense(np.maximum(values, 0.0), vectors, _vector(downhill, self.like), self)

    def _parameters(self, vector):
        ends = np.cumsum([np.size(value) for value in self.like.values()])[:-1]
        return {
            name: np.asarray(part.reshape(np.shape(value)), np.asarray(value).dtype)
            for (name, value), part in zip(self.like.items(), np.split(vector, ends))
        }


@dataclasses.dataclass(frozen=True)
class Dense:
    """The same as a Lanczos basis, but with all eigenpairs of a matrix.

    Attributes:
        values, vectors: all eigenpairs of G* G, ascending.
        downhill: b.
        matrix: the Matrix.
    """

    values: np.ndarray
    vectors: np.ndarray
    downhill: np.ndarray
    matrix: Matrix
    products = 0
    residual = 0.0

    def solution(self) -> ControlDict:
        return self.matrix._parameters(self.vectors @ ((self.vectors.T @ self.downhill) / (1.0 + self.values)))

    def eigenpairs(self, tolerance: float | None = None) -> tuple[np.ndarray, list[ControlDict]]:
        """(eigenvalues, eigenvectors), largest first."""
        return self.values[::-1], [self.matrix._parameters(vector) for vector in self.vectors.T[::-1]]


def only_patch(problem: Problem) -> tuple[str, Any, str]:
    """(parameter, Patterns, control) of a problem whose only control is a sum of patterns."""
    functions: list[Any] = [transform.function for transform in problem.transforms]
    parts = functions[0].parts if len(functions) == 1 else {}
    if len(parts) != 1 or not isinstance(next(iter(parts.values())), Patterns):
        raise ConfigError(
            "Green's functions are those of one patch of unit sources, and the controls are others; "
            "use the method 'linear' or 'incremental'."
        )
    (name, sources), (target,) = *parts.items(), functions[0].targets
    return name, sources, target


def _vector(parameters, like):
    return np.concatenate([np.ravel(np.asarray(parameters[name], float)) for name in like])
