"""Transforms from parameters to controls: the unknowns of an inversion, scaled by their background errors.

Each transform is a function x(p) of standard parameters p, whose background is 0 and whose background error is 1:

    Around        x = b + s p                  a field or number with uncorrelated errors
    Around(b, U)  x = b + U p                  a field or series with correlated errors (diffusion.py, Correlated)
    Positive      x = b exp(U p)               a positive field or number with errors of its logarithm
    Between       x = low + (high - low) / (1 + exp(-p0 - U p)),  b at p = 0
    Repeated      {record: b_record + U p}     time records with one change for all
    Balanced      eta = b + U p, and u, v in geostrophic balance with the change of eta

seafloor.py has the transforms of the sea surface above an earthquake. priors.py has the priors that make transforms.

`joined({name: (control, transform)}, model)` is the Transformed that a Problem takes: p[name] determines the control.
Transforms are pytrees, so that their arrays, this tile's part, are arguments of compiled programs. Numbers that every
rank holds are replicated before the transform is called (controls.py).
"""

import abc
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import ArrayLike

from ...errors import ConfigError
from ...fields.field import Field, difference_x, difference_y, mean_xy
from ...fields.parts import Named
from ...fields.state import State, pytree, static
from ...grids.windows import Stored
from ...models.shallow_water import ShallowWater
from ...parallel.halo import exchange, without_padding
from .controls import Transformed


class Transform(Named, abc.ABC):
    """A differentiable function of standard parameters p; subclasses are pytrees (`pytree`)."""

    @abc.abstractmethod
    def __call__(self, p: jax.Array) -> jax.Array | dict[str, jax.Array]:
        """This tile's values of the control, or {control: values} of several."""

    @abc.abstractmethod
    def zero(self, model: ShallowWater) -> Any:
        """The background p = 0, as a Problem takes it: a number, a vector, or a tile array."""

    def variance(self, p: jax.Array) -> jax.Array | None:
        """The variance of the background error of the values, for small changes about p; None if it is not known."""
        return None

    def table(self, p: np.ndarray) -> tuple[str, dict[str, tuple[str, str, np.ndarray]]] | None:
        """(name, {column: (units, what it is, values)}) of what p means, for files; None if p needs no description.

        The units of places are parameters.COORDINATES.
        """
        return None


class Patterns(Transform):
    """x = sum_k a_k(p) phi_k of given patterns phi_k."""

    @property
    @abc.abstractmethod
    def count(self) -> int:
        """The number of patterns."""

    @abc.abstractmethod
    def amplitudes(self, p: jax.Array) -> jax.Array:
        """The coefficients a (count,)."""

    @abc.abstractmethod
    def field(self, a: jax.Array) -> jax.Array:
        """sum_k a_k phi_k on this tile."""

    def __call__(self, p: jax.Array) -> jax.Array:
        return self.field(self.amplitudes(p))


@pytree
class Joined:
    """The function {parameter: value} -> {control: value} that applies one transform to each parameter.

    Attributes:
        parts: {name of the parameter: transform}.
        targets: the name of the control that each transform gives, in the order of the sorted names; None if it gives
            a dict of several controls.
    """

    parts: dict
    targets: tuple = static()

    def __call__(self, parameters: dict[str, jax.Array]) -> dict[str, jax.Array]:
        return self._of_parts(parameters, lambda part, p: part(p))

    def variance(self, parameters: dict[str, jax.Array]) -> dict[str, jax.Array]:
        """{control: variance of its background error} for small changes about `parameters`, of parts that have it."""
        return self._of_parts(parameters, lambda part, p: part.variance(p))

    def _of_parts(self, parameters, function):
        found = {}
        for (name, part), target in zip(sorted(self.parts.items()), self.targets):
            value = function(part, parameters[name])
            if value is not None:
                found |= value if target is None else {target: value}
        return found


@pytree
class Correlated:
    """U p = s B p, the errors of a few numbers whose correlations are B B^T.

    Attributes:
        root: B (n, n), the same on every rank.
        deviation: s, in the units of the numbers.
    """

    root: Any
    deviation: Any

    @staticmethod
    def in_time(model: ShallowWater, times: ArrayLike, length: float, deviation: float) -> "Correlated":
        """Errors at times [s] (n,) with the correlations exp(-t^2 / 2 length^2), for a length [s], 0 of none."""
        times = np.asarray(times, float)
        root = correlation_root(np.abs(times[:, None] - times), length)
        placed = model.communicator.place(lambda rank: np.asarray(root, model.dtype))
        return Correlated(placed, np.asarray(deviation, model.dtype))

    def __call__(self, p: jax.Array) -> jax.Array:
        return self.deviation * (self.root @ p)


def correlation_root(distances: np.ndarray, length: float) -> np.ndarray:
    """The symmetric square root of exp(-r^2 / 2 length^2)."""
    if length == 0:
        return np.eye(len(distances))
    values, vectors = np.linalg.eigh(np.exp(-0.5 * (distances / length) ** 2))
    return (vectors * np.sqrt(np.maximum(values, 0.0))) @ vectors.T


def _deviation(spread):
    """The standard deviation of U p at every point, for p with errors of 1."""
    return spread.deviation if callable(spread) else spread


def joined(transforms: dict[str, tuple[str | None, Any]], model: ShallowWater) -> Transformed:
    """The Transformed of {parameter: (control or None, transform)} at the background, where all parameters are zero.

    The method `zero(model)` of a transform returns its parameters at the background.
    """
    parts = {name: transform for name, (_, transform) in transforms.items()}
    targets = tuple(transforms[name][0] for name in sorted(parts))
    zeros = {name: part.zero(model) for name, part in parts.items()}
    return Transformed(zeros, Joined(parts, targets), dict.fromkeys(parts, "1"))


class _OfOne(Transform):
    """A transform of one number, series or field, whose errors U p are `spread`: a number or array s, or a function."""

    background: Any
    spread: Any

    def deviation_of(self, p: jax.Array) -> Any:
        return self.spread(p) if callable(self.spread) else self.spread * p

    def zero(self, model: ShallowWater) -> Any:
        """The background p = 0, as a Problem takes it."""
        if isinstance(self.spread, Correlated):
            root = model.communicator.one_tile(self.spread.root)
            return np.zeros(np.shape(root)[0], model.dtype)
        field = callable(self.spread) or any(jnp.ndim(x) == 2 for x in jax.tree.leaves((self.background, self.spread)))
        return _zeros(model) if field else np.zeros((), model.dtype)


@pytree
class Around(_OfOne):
    """x = background + U p."""

    background: Any
    spread: Any

    def __call__(self, p: jax.Array) -> jax.Array:
        return self.background + self.deviation_of(p)

    def variance(self, p: jax.Array) -> jax.Array:
        return jnp.zeros_like(self.background) + _deviation(self.spread) ** 2


@pytree
class Positive(_OfOne):
    """x = background exp(U p), where `spread` is the relative error."""

    background: Any
    spread: Any

    def __call__(self, p: jax.Array) -> jax.Array:
        return self.background * jnp.exp(self.deviation_of(p))

    def variance(self, p: jax.Array) -> jax.Array:
        return (self(p) * _deviation(self.spread)) ** 2


@pytree
class Between(_OfOne):
    """x between `low` and `high`, with the background at p = 0; `spread` is the error in the background's units."""

    background: Any
    spread: Any
    low: Any
    high: Any

    def __call__(self, p: jax.Array) -> jax.Array:
        share = (self.background - self.low) / (self.high - self.low)
        at = jnp.log(share / (1.0 - share)) + self.deviation_of(p) / self._slope(self.background)
        return self.low + (self.high - self.low) * jax.nn.sigmoid(at)

    def _slope(self, x):
        """dx / d(argument of the logistic function)."""
        return (x - self.low) * (self.high - x) / (self.high - self.low)

    def variance(self, p: jax.Array) -> jax.Array:
        return (self._slope(self(p)) / self._slope(self.background) * _deviation(self.spread)) ** 2


@pytree
class Repeated(_OfOne):
    """The same change in every record of a series {record: background}: {record: background + U p}."""

    background: dict
    spread: Any

    def __call__(self, p: jax.Array) -> dict[int, jax.Array]:
        change = self.deviation_of(p)
        return {record: background + change for record, background in self.background.items()}

    def variance(self, p: jax.Array) -> dict[int, jax.Array]:
        return {k: jnp.zeros_like(b) + _deviation(self.spread) ** 2 for k, b in self.background.items()}


@pytree
class Balanced(Transform):
    """eta = b + U p, and velocities in geostrophic balance with its change: f u = - g d(eta)/dy, f v = + g d(eta)/dx.

    The gradient along a face is the mean of the gradients at the four surrounding faces of the other direction. There
    is no gradient across coasts.

    Attributes:
        eta, u, v: the background.
        spread: U, a Smooth at "h".
        balance_u, balance_v: g / (f d) at wet faces [s-1], where d is the distance between the values of eta; else 0.
        wet_u, wet_v: 1 at wet faces, else 0.
    """

    eta: Any
    u: Any
    v: Any
    spread: Any
    balance_u: Any
    balance_v: Any
    wet_u: Any
    wet_v: Any

    @staticmethod
    def of(model: ShallowWater, state: State, spread: Callable[[jax.Array], jax.Array]) -> "Balanced":
        """The transform around a State, with errors `spread` of the elevation [m].

        Raises:
            ConfigError: if the Coriolis parameter is zero somewhere on the grid.
        """
        grid = model.grid
        rows = np.arange(grid.ny)
        at_v, below = (np.zeros(1) if model.coriolis is None else model.coriolis.at(grid, k) for k in (rows, rows - 1))
        at_u = 0.5 * (at_v + below)  # f is known at corners, which lie in the rows of v
        if min(np.min(np.abs(at_u)), np.min(np.abs(at_v))) < 1e-6:
            raise ConfigError(
                "Balanced: the Coriolis parameter vanishes on this grid, and no flow can balance the elevation there; "
                "give initial.eta, initial.u and initial.v controls of their own."
            )
        metrics = grid.metrics(rows)
        faces = {p: model.sea_floor.mask(p).map(lambda mask: mask.astype(float)) for p in "uv"}
        cut = model.domain.cut

        def over(p, metric):
            at = Stored({"u": at_u, "v": at_v}[p] * metric, grid.shape)
            return cut(faces[p].map(lambda mask, at: mask * model.gravity / at, at))

        balance = over("u", metrics["dy_u"]), over("v", metrics["dx_v"])
        return Balanced(state.eta, state.u, state.v, spread, *balance, cut(faces["u"]), cut(faces["v"]))

    def __call__(self, p: jax.Array) -> dict[str, jax.Array]:
        change = self.spread(p)
        sides, communicator = self.spread.sides, self.spread.communicator
        arrays = exchange([change, self.wet_u, self.wet_v], 1, sides, communicator)
        eta, wet_u, wet_v = (Field(a, at, (1,) * 4) for a, at in zip(arrays, "huv"))
        u = -mean_xy(wet_v * difference_y(eta)).interior * self.balance_u
        v = mean_xy(wet_u * difference_x(eta)).interior * self.balance_v
        u, v = (without_padding(x, sides) for x in (u, v))
        return {"initial.eta": self.eta + change, "initial.u": self.u + u, "initial.v": self.v + v}

    def variance(self, p: jax.Array) -> dict[str, jax.Array]:
        return {"initial.eta": self.spread.deviation**2}

    def zero(self, model: ShallowWater) -> jax.Array:
        return _zeros(model)


def _zeros(model):
    """Tile arrays of zeros."""
    return model.domain.cut(Stored(0.0, model.grid.shape))
