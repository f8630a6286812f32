"""A cost that reads random sums of every state, and the dot products of tangents and adjoints of these readings."""

import copy
import functools
import math
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ...dynamics.clock import Time
from ...dynamics.system import System
from ...fields.pytrees import pytree
from ...fields.state import State
from ...models.shallow_water import ShallowWater
from ...nests.family import Family
from ..costs.costs import tile_cost
from ..costs.tile_costs import Cost, TileCost
from ..problem import Problem, dot

__all__ = ["DOT_PRODUCT", "PROBES", "DotProducts", "Probe", "dot_products", "with_cost"]

DOT_PRODUCT = 1e-12  # the largest error of a dot product by rounding alone
PROBES = 2  # numbers that are read of every state


@pytree
class Probe(TileCost):
    """A cost that reads a few random dimensionless sums over each state; J is the sum of all readings.

    Attributes:
        weights: a State of weights (n, ny, nx); of nested grids a tuple of them.
    """

    reads_families = True

    weights: Any

    @staticmethod
    def of(model: ShallowWater | Family, seed: int = 0, number: int = PROBES) -> "Probe":
        """A Probe of `number` sums, the same on any number of ranks; velocities are scaled by those of 1 m waves."""
        if isinstance(model, Family):
            return Probe(tuple(Probe.of(one, seed, number).weights for one in model.models.values()))
        random = np.random.default_rng(seed)
        cells = math.sqrt(model.sea_floor.wet_cells)
        speed = math.sqrt(model.gravity / model.sea_floor.typical_depth)  # of the water per metre of elevation [s-1]
        positions = {row.name: row.position for row in model.variables}

        def scaled(position):
            scale = 1.0 if position == "h" else speed
            return lambda x, mask: x * (mask / scale) / cells

        weights = {
            name: model.domain.noise(random, scaled(position), model.sea_floor.mask(position), (number,))
            for name, position in positions.items()
        }
        return Probe(State.of(weights, positions))

    def read(self, state: State, equations: System, time: Time) -> jax.Array:
        leaves = zip(jax.tree.leaves(self.weights), jax.tree.leaves(state), strict=True)
        return functools.reduce(jnp.add, [jnp.sum(weights * x[None], axis=(1, 2)) for weights, x in leaves])

    def start(self) -> jax.Array:
        return jnp.zeros((), jax.tree.leaves(self.weights)[0].dtype)

    def update(self, acc: Any, readings: jax.Array, first_step: Any) -> jax.Array:
        return acc + jnp.sum(readings)

    def value(self, acc: Any, final: Any) -> jax.Array:
        return acc


def with_cost(problem: Problem, cost: Cost) -> Problem:
    """The same Problem with another cost."""
    other = copy.copy(problem)
    other.__dict__.pop("_count", None)  # of the other cost's readings
    other.cost = tile_cost(cost, problem.stepped, problem.dt, problem.first_step, problem.steps)
    return other


class DotProducts:
    """The dot products of a problem whose cost is a Probe, for each control.

    Args:
        probe: the Problem.
        directions: the Directions of its controls.
        seed: of the weights y of the readings.
        report: called with a few words before each run of the model.

    Attributes:
        errors: {control: |<M x, y> - <x, M* y>| / (|M x| |y|)}.
    """

    def __init__(
        self, probe: Problem, directions: Any, seed: int = 0, report: Callable[[str], Any] = lambda what: None
    ):
        self._probe, self._values = probe, directions.values
        self._y = np.random.default_rng(seed).standard_normal((probe.steps, PROBES))
        report("adjoint of the probe")
        back = probe.observed_adjoint(self._values, self._y)
        self._images = {}
        for name in directions.names:
            report(f"dot product of {name}")
            x = directions.along(name, smooth=False)
            self._images[name] = x, probe.observed_tangent(self._values, x)[1]
        self.errors = {name: self._error(name, self._y, back) for name in self._images}

    def _error(self, name: str, y: np.ndarray, back: Any) -> float:
        x, forward = self._images[name]
        size = float(np.linalg.norm(forward * (y != 0)) * np.linalg.norm(y))
        difference = abs(float(np.sum(forward * y)) - dot(x, back, self._probe.communicator))
        return difference / size if size > 0 else difference

    def agreed_steps(self, report: Callable[[str], Any] = lambda what: None) -> dict[str, int]:
        """{control: n} of the controls whose error is larger than that of rounding.

        n is the largest half, quarter, ... of the steps over whose readings it is that of rounding, and the control has
        an effect; 0 if there is none.
        """
        left, found, count = {name for name, e in self.errors.items() if not e <= DOT_PRODUCT}, {}, self._probe.steps
        while left and (count := count // 2):
            report(f"dot products over {count} steps")
            y = np.where(np.arange(len(self._y))[:, None] < count, self._y, 0.0)
            back = self._probe.observed_adjoint(self._values, y)
            for name in sorted(left):
                effect = np.any(self._images[name][1][:count])
                if effect and self._error(name, y, back) <= DOT_PRODUCT:
                    found[name] = count
            left -= found.keys()
        return found | dict.fromkeys(left, 0)


def dot_products(
    probe: Problem, directions: Any, seed: int = 0, report: Callable[[str], Any] = lambda what: None
) -> dict[str, float]:
    """The `errors` of DotProducts."""
    return DotProducts(probe, directions, seed, report).errors
