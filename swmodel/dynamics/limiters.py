"""Slope limiters: how far the value at a face may lie from that of the cell upstream.

    c_face = c_upstream + L(a, b) / 2

a is the difference between the cell upstream and the one further upstream, b the difference across the face. All have
L = 0 where a and b differ in sign, at extrema, and |L| <= s min(|a|, |b|) elsewhere, with s the limiter's `steepness`:
Sweby's region (1984), doi:10.1137/0721062. For a = b each gives a, which makes the scheme of second order where the
field is smooth.

    MinMod              the smaller of a and b; s = 1
    VanLeer             2 a b / (a + b), the harmonic mean; smooth except where a b = 0; s = 2
    MonotonizedCentral  the smallest of 2 a, 2 b and (a + b) / 2; s = 2
    Koren               the smallest of 2 a, 2 b and (a + 2 b) / 3, of third order in one dimension; s = 2
    Superbee            the steepest in the region: it keeps fronts sharp, and steepens smooth slopes to fronts; s = 2

A limiter has a kink where it changes from one branch to another. Derivatives are those of the branch that is taken.
"""

import abc
import dataclasses

import jax
import jax.numpy as jnp

from ..fields.field import AbstractField, Axis, Scalar, pointwise
from ..fields.parts import Named

__all__ = [
    "Limiter",
    "MinMod",
    "VanLeer",
    "MonotonizedCentral",
    "Koren",
    "Superbee",
    "both_sides",
    "larger",
    "limited_difference",
    "limited_face",
    "smaller",
    "upstream",
]


@dataclasses.dataclass(frozen=True)
class Limiter(Named, abc.ABC):
    """A function L(a, b) of two differences, arrays of one shape.

    Attributes:
        steepness: the least s for which |L(a, b)| <= s min(|a|, |b|) [1].
        symmetric: whether L(a, b) = L(b, a), so that a cell has one slope.
        references: the literature that files of a run cite for it.
    """

    steepness = 2.0
    symmetric = True
    references = "Sweby (1984), doi:10.1137/0721062"

    @abc.abstractmethod
    def __call__(self, a: jax.Array, b: jax.Array) -> jax.Array: ...

    def half(self, a: jax.Array, b: jax.Array) -> jax.Array:
        """L(a, b) / 2, how far the value at the face lies from that of the cell."""
        return 0.5 * self(a, b)


def larger(x: jax.Array, y: Scalar) -> jax.Array:
    """The larger one; x where they are equal or not numbers. The derivative is that of the one taken."""
    return jnp.where(y > x, y, x)


def smaller(x: jax.Array, y: Scalar) -> jax.Array:
    """The smaller one; x where they are equal or not numbers. The derivative is that of the one taken."""
    return jnp.where(y < x, y, x)


def _smallest(first, *others):
    """The number of smallest magnitude, where all have the same sign; 0 where their signs differ."""
    low, high = first, first
    for x in others:
        low, high = jnp.minimum(low, x), jnp.maximum(high, x)
    return jnp.maximum(low, 0.0) + jnp.minimum(high, 0.0)


@dataclasses.dataclass(frozen=True)
class MinMod(Limiter):
    """The smaller difference."""

    steepness = 1.0

    def __call__(self, a: jax.Array, b: jax.Array) -> jax.Array:
        return _smallest(a, b)


@dataclasses.dataclass(frozen=True)
class VanLeer(Limiter):
    """The harmonic mean; van Leer (1974), doi:10.1016/0021-9991(74)90019-9."""

    references = "van Leer (1974), doi:10.1016/0021-9991(74)90019-9"

    def __call__(self, a: jax.Array, b: jax.Array) -> jax.Array:
        product = a * b
        total = jnp.where(product > 0, a + b, 1.0)
        return jnp.where(product > 0, 2.0 * product / total, 0.0)


@dataclasses.dataclass(frozen=True)
class MonotonizedCentral(Limiter):
    """The mean, limited; van Leer (1977), doi:10.1016/0021-9991(77)90095-X."""

    references = "van Leer (1977), doi:10.1016/0021-9991(77)90095-X"

    def __call__(self, a: jax.Array, b: jax.Array) -> jax.Array:
        return 2.0 * self.half(a, b)

    def half(self, a: jax.Array, b: jax.Array) -> jax.Array:
        """L(a, b) / 2: (a + b) / 4, held between 0 and the one of a and b that is nearer to it."""
        lowest, highest = smaller(larger(a, b), 0.0), larger(smaller(a, b), 0.0)
        return smaller(larger(0.25 * (a + b), lowest), highest)


@dataclasses.dataclass(frozen=True)
class Koren(Limiter):
    """The third-order upwind-biased slope, limited; Koren (1993)."""

    symmetric = False
    references = "Koren (1993), A robust upwind discretization method for advection, diffusion and source terms"

    def __call__(self, a: jax.Array, b: jax.Array) -> jax.Array:
        return _smallest((a + 2.0 * b) / 3.0, 2.0 * a, 2.0 * b)


@dataclasses.dataclass(frozen=True)
class Superbee(Limiter):
    """The upper edge of the region; Roe (1985)."""

    references = "Roe (1985), Some contributions to the modelling of discontinuous flows"

    def __call__(self, a: jax.Array, b: jax.Array) -> jax.Array:
        one, other = _smallest(2.0 * a, b), _smallest(a, 2.0 * b)
        return jnp.where(jnp.abs(one) > jnp.abs(other), one, other)


def upstream(transport: AbstractField, low: AbstractField, high: AbstractField) -> AbstractField:
    """`low` on faces where the flow goes towards +x or +y, else `high`; derivatives are those of the one taken."""
    from_low = pointwise(lambda flow, x: jnp.where(flow > 0, x, jnp.zeros_like(x)), transport, low)
    return from_low + pointwise(lambda flow, x: jnp.where(flow > 0, jnp.zeros_like(x), x), transport, high)


def limited_difference(axis: Axis, step: AbstractField, transport: AbstractField, limiter: Limiter) -> AbstractField:
    """L(a, b) / 2 on faces: b is `step`, the difference across the face, and a that across the next face upstream."""
    behind = upstream(transport, axis.low(axis.low(step)), axis.high(axis.high(step)))
    return pointwise(limiter.half, behind, step)


def limited_face(
    axis: Axis, c: AbstractField, step: AbstractField, transport: AbstractField, limiter: Limiter
) -> AbstractField:
    """The value upstream of faces, with a limited slope; `step` is the difference of c across them."""
    half = limited_difference(axis, step, transport, limiter)
    return upstream(transport, axis.low(c) + half, axis.high(c) - half)


def both_sides(
    axis: Axis, x: AbstractField, step: AbstractField, limiter: Limiter
) -> tuple[AbstractField, AbstractField]:
    """The values on a face reconstructed from its low and its high side."""
    if limiter.symmetric:  # a cell has one slope
        half = pointwise(limiter.half, axis.low(step), axis.high(step))
        return axis.low(x) + axis.low(half), axis.high(x) - axis.high(half)
    low = axis.low(x) + pointwise(limiter.half, axis.low(axis.low(step)), step)
    return low, axis.high(x) - pointwise(limiter.half, axis.high(axis.high(step)), step)
