"""The departures d = (H - y) / s of 4D-Var: what a model's readings differ from observations by, over their errors.

On the host, as functions of readings (steps, gauges), with the transposes of their derivatives. Those of maxima are not
linear: `about` gives them the point at which they are differentiated.
"""

import copy
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from ...parallel.communicator import Communicator
from ..costs.marks import SquaresOfMaxima
from ..costs.misfits import SumOfMisfits
from ..costs.tile_costs import SquaresOfSums

__all__ = ["Departures", "DeparturesOfMaxima", "DeparturesOfParts", "DeparturesOfSums", "departures_of"]


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

    def about(self, readings: ArrayLike) -> "Departures":
        """The departures whose `linear` and `transposed` are those of the derivative at `readings`."""
        return self

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


class DeparturesOfMaxima(DeparturesOfSums):
    """The departures d (1, marks) of a SquaresOfMaxima; their derivative reads the steps of the maxima."""

    steps: np.ndarray  # numbers of the rows of the maxima (1, marks), of departures about readings
    slopes: np.ndarray  # 1 / s_k (1, marks), 0 on land that stays dry

    def __init__(self, cost: Any, communicator: Communicator, kept: Sequence[bool] | np.ndarray | None = None):
        super().__init__(cost, communicator, kept)
        self.ground = np.asarray(next(iter(communicator.tiles(cost.ground).values())), float)

    def about(self, readings: ArrayLike) -> "DeparturesOfMaxima":
        found = copy.copy(self)
        found.steps = np.argmax(self._counted(readings), axis=0)[None]
        found.slopes = np.where(self.compared(readings) > self.ground, self.per_deviation, 0.0)
        return found

    def of(self, readings: ArrayLike) -> np.ndarray:
        return (self.compared(readings) - self.observed) * self.per_deviation

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

    def about(self, readings: ArrayLike) -> "DeparturesOfParts":
        found = copy.copy(self)
        found.parts = [part.about(own) for part, own in self._each(readings)]
        return found

    def of(self, readings: ArrayLike) -> np.ndarray:
        return self._joined(part.of(own) for part, own in self._each(readings))

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
    made = {SquaresOfSums: DeparturesOfSums, SquaresOfMaxima: DeparturesOfMaxima}.get(type(cost), Departures)
    return made(cost, communicator, kept)
