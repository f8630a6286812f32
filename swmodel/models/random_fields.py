"""Random fields with Gaussian statistics, for ensembles and background covariances, and the filter that they come from.

White noise w of unit variance, smoothed by a symmetric filter G with G(k)^2 proportional to the spectrum of

    <f(x) f(y)> = sigma^2 exp(-|x - y|^2 / 2 L^2),      so that G(k) ~ exp(-k^2 L^2 / 4),

is a field f = sigma G w whose covariance is sigma^2 G G'. The noise of a point depends on the seed and the point alone,
so that fields are the same on any number of ranks, to the rounding of transforms. The kinds of transforms determine the
boundary conditions: fields are periodic, or even or odd about walls, where the covariance with a point's mirror images
is added or subtracted. The variance is sigma^2 everywhere on a torus, and in the mean between walls. Everything is
linear in the noise.
"""

import dataclasses
import math
import numbers
import operator
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer
from numpy.typing import DTypeLike

from ..fields.parameters import refuse
from ..parallel import fft

__all__ = ["GaussianCovariance", "filtered", "white_noise"]


def white_noise(seed: int, plan: fft.Plan, dtype: DTypeLike = float) -> jax.Array:
    """Tile arrays of independent standard normal numbers, one for each point of a plan's field, on any ranks.

    Each row (plane) of the first axis has a generator of its own. A process draws the rows that its tiles need.

    Raises:
        ValueError: for a seed that is not a whole number from 0 on.
    """
    try:
        number = operator.index(seed)
    except TypeError:
        number = -1
    if number < 0:
        raise ValueError(f"white_noise: seed = {seed!r} is not a whole number from 0 on; give one, as 1.")
    _check_plan("white_noise", plan)
    row = lambda j: np.random.default_rng((number, j)).standard_normal(plan.shape[1:])  # noqa: E731
    parts = plan.communicator.decomposition(plan.shape[:2])

    def make(rank):
        box, tile = parts.box(rank), parts.tile(rank)
        rows, columns = box.shape
        noise = np.zeros((rows, columns, *plan.shape[2:]), dtype)
        pad_rows, pad_columns = tile.j0 - box.j0, tile.i0 - box.i0
        for j in range(tile.j0, tile.j1):
            noise[pad_rows + j - tile.j0, pad_columns:] = row(j)[tile.i0 : tile.i1]
        return noise

    return plan.communicator.place(make)


def _check_plan(who, plan):
    if not isinstance(plan, fft.Plan):
        refuse(who, "plan", plan, "is not a plan of transforms", "one, as fft.Plan(communicator, (ny, nx))")


def filtered(
    plan: fft.Plan,
    x: jax.Array,
    response: Callable[[jax.Array], jax.Array],
    spacing: float | Sequence[float] | None = None,
) -> jax.Array:
    """x with each mode multiplied by `response(|k|^2)`; inside `communicator.spmd`.

    Args:
        plan: an fft.Plan of the field.
        x: a tile of it.
        response: of the squared wavenumber, to numbers.
        spacing: between points along each axis.
    """
    modes = plan.forward(x)
    return plan.inverse(modes * response(plan.waves(spacing, x.real.dtype).squared).astype(modes.dtype))


@dataclasses.dataclass(frozen=True)
class GaussianCovariance:
    """sigma^2 exp(-r^2 / 2 L^2) between points r apart, as an operator and its square root.

    Args:
        plan: an fft.Plan of the fields, of kinds that keep a sum of squares.
        spacing: between points along each axis, in its order [m].
        length: L [m].
        deviation: sigma [the field's units].

    Raises:
        ValueError: for a length, deviation or spacing that is not positive, or a kind that conserves no sum of squares.
    """

    plan: Any
    spacing: tuple
    length: float
    deviation: float = 1.0

    def __post_init__(self):
        _check_plan("GaussianCovariance", self.plan)
        for name in ("length", "deviation"):
            value: Any = getattr(self, name)
            if isinstance(value, Tracer):
                continue
            is_number = isinstance(value, (numbers.Real, jax.Array))
            if not is_number or not 0 < value < math.inf:  # pyright: ignore[reportOperatorIssue]
                raise ValueError(f"GaussianCovariance: {name} = {value!r} is not positive; give a positive number.")
        object.__setattr__(self, "spacing", self.plan.spacing(self.spacing))
        for kind, n in zip(self.plan.kinds, self.plan.shape):
            kind.weight(np.arange(kind.modes(n)), n)  # or it keeps no sum of squares

    def root(self, noise: jax.Array) -> jax.Array:
        """A field with this covariance of white noise, tile arrays; inside `communicator.spmd`. It is self-adjoint."""
        return filtered(self.plan, noise, lambda k2: self._scale() * jnp.exp(-0.25 * self.length**2 * k2), self.spacing)

    def apply(self, x: jax.Array) -> jax.Array:
        """The covariance times x."""
        return self.root(self.root(x))

    def sample(self, seed: int, dtype: DTypeLike = float) -> jax.Array:
        """A random field, placed tile arrays, the same on any number of ranks. It is called on the host."""
        return jax.jit(self.plan.communicator.spmd(self.root))(white_noise(seed, self.plan, dtype))

    def _scale(self):
        """sigma over the root mean square of G on the grid's modes, so that variances are exact in the mean."""
        total = 1.0
        for kind, n, step in zip(self.plan.kinds, self.plan.shape, self.spacing):
            i = jnp.arange(kind.modes(n), dtype=float)
            power = jnp.exp(-0.5 * (self.length * kind.phase(i, n) / step) ** 2)
            pairs = jnp.where((i == 0) | (2 * i == n), 1.0, 2.0) if isinstance(kind, fft.RealFourier) else 1.0
            total = total * jnp.sum(power * pairs) / n
        return self.deviation / jnp.sqrt(total)
