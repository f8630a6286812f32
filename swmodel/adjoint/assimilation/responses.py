"""Linear responses of gauges to a change of the initial state, by runs of the linear model.

Waves on the deep sea are linear to a few parts in a thousand. For few parameters, the derivative of the readings can
therefore be computed as a matrix: each forward run of the linear model gives one column. The inner problem of 4D-Var is
then solved directly. The outer loop keeps the nonlinear model; Courtier et al. (1994) call this a simplified linear
model in the inner loop. For a patch of unit sources the columns are Green's functions. They do not depend on the outer
loop, the errors or the background.

Green's functions come from as many sweeps of the transposed model as there are gauges, or runs as there are sources
(linear_model.py).
"""

import contextlib
import dataclasses
from collections.abc import Callable
from typing import Any

import jax
import numpy as np
from numpy.typing import ArrayLike

from ...errors import ConfigError
from ...parallel.communicator import Communicator
from ...runtime.compilation import jit
from ..controls.controls import ControlDict
from ..controls.transforms import Patterns
from ..problem import Problem
from .departures import Departures
from .linear_model import LinearModel, everywhere
from .minimise import Space


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
            found = program(everywhere(parameters[self.name], communicator), self.sources)
            return np.tensordot(np.asarray(next(iter(communicator.tiles(found).values())), float), self.columns, 1)

        return of

    def linearised(self, problem: Problem) -> Callable[[ControlDict, Departures], "Matrix"]:
        """The function from parameters and departures to G that `incremental` takes."""
        slope = jit(problem.communicator.spmd(jax.jacfwd(lambda p, sources: sources.amplitudes(p))))

        def at(parameters, departures):
            counted = departures.per_deviation > 0
            matrix = np.stack([departures.linear(column)[counted] for column in self.columns], axis=1)
            found = slope(everywhere(parameters[self.name], problem.communicator), self.sources)
            found = np.asarray(next(iter(problem.communicator.tiles(found).values())), float)
            return Matrix(matrix @ found, counted, parameters)

        return at


def tangent_columns(
    problem: Problem, progress: Callable[[int, int], object] | None = None
) -> "Callable[[ControlDict, Departures], Matrix]":
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
        columns, units, counted = [], list(_units(parameters)), departures.per_deviation > 0
        here = {name: everywhere(value, problem.communicator) for name, value in parameters.items()}
        for k, unit in enumerate(units):
            unit = {name: everywhere(value, problem.communicator) for name, value in unit.items()}
            change = program(problem.transforms[0].function, here, unit)
            columns.append(departures.linear(linear.readings(change))[counted])
            if progress is not None:
                progress(k + 1, len(units))
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

    def solve(
        self,
        downhill: ControlDict,
        space: Space,
        products: int,
        residual: float,
        progress: Callable[[int, float], object] | None = None,
    ) -> "Dense":
        """The direct solution of the inner problem, with all eigenpairs."""
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


def _units(parameters):
    """The unit vectors: for each number of `parameters`, a dict with 1 for this number and 0 for the others."""
    for name, value in parameters.items():
        for k in range(np.size(value)):
            unit = {n: np.zeros_like(np.asarray(v)) for n, v in parameters.items()}
            unit[name].reshape(-1)[k] = 1.0
            yield unit
