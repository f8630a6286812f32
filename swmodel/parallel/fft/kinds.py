"""The kinds of transforms along one axis: Fourier of complex or real numbers, cosine and sine of types 1 to 4.

A kind is hashable, and transforms along the last axis of an array. Its modes are numbered from 0. The phase of mode i
grows by `phase(i, n)` radians from one point to the next. So the wavenumber is phase / spacing, and the second
difference of neighbours has the eigenvalue 2 cos(phase) - 2.
"""

import abc
import dataclasses
from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import DTypeLike

from .trigonometric import TYPES, dct, dst, idct, idst, period

__all__ = ["Kind", "Fourier", "RealFourier", "Cosine", "Sine", "Unchanged"]


class Kind(abc.ABC):
    """The interface of all kinds."""

    takes = "real or complex"

    @abc.abstractmethod
    def forward(self, x: jax.Array) -> jax.Array:
        """(..., n) points to (..., modes(n))."""

    @abc.abstractmethod
    def inverse(self, x: jax.Array, n: int) -> jax.Array:
        """(..., modes(n)) to (..., n) points."""

    @abc.abstractmethod
    def phase(self, i: jax.Array, n: int) -> jax.Array:
        """Phase difference [rad] of neighbouring points in the modes with numbers i (floats); signed for Fourier."""

    @abc.abstractmethod
    def weight(self, i: jax.Array, n: int) -> jax.Array:
        """w with sum |x|^2 = sum w |X|^2 over n points and all modes (Parseval)."""

    def modes(self, n: int) -> int:
        return n

    def dtype(self, dtype: DTypeLike) -> np.dtype:
        """The type of the modes of points of `dtype`."""
        return np.dtype(dtype)


@dataclasses.dataclass(frozen=True)
class Fourier(Kind):
    """X_k = sum x_j exp(-2 pi i j k / n); modes as numpy.fft orders them."""

    def forward(self, x: jax.Array) -> jax.Array:
        return jnp.fft.fft(x)

    def inverse(self, x: jax.Array, n: int) -> jax.Array:
        return jnp.fft.ifft(x)

    def phase(self, i: jax.Array, n: int) -> jax.Array:
        return 2 * np.pi / n * jnp.where(2 * i < n, i, i - n)

    def weight(self, i: jax.Array, n: int) -> jax.Array:
        return jnp.full_like(i, 1.0 / n)

    def dtype(self, dtype: DTypeLike) -> np.dtype:
        return np.result_type(dtype, np.complex64)


@dataclasses.dataclass(frozen=True)
class RealFourier(Kind):
    """As Fourier, of real points; of each pair of conjugate modes the first is kept, n // 2 + 1 in all."""

    takes = "real"

    def forward(self, x: jax.Array) -> jax.Array:
        return jnp.fft.rfft(x)

    def inverse(self, x: jax.Array, n: int) -> jax.Array:
        return jnp.fft.irfft(x, n=n)

    def modes(self, n: int) -> int:
        return n // 2 + 1

    def phase(self, i: jax.Array, n: int) -> jax.Array:
        return 2 * np.pi / n * i

    def weight(self, i: jax.Array, n: int) -> jax.Array:
        return jnp.where((i == 0) | (2 * i == n), 1.0 / n, 2.0 / n)

    def dtype(self, dtype: DTypeLike) -> np.dtype:
        return np.result_type(dtype, np.complex64)


@dataclasses.dataclass(frozen=True)
class _Trigonometric(Kind):
    type: int = 2
    name: ClassVar[str]

    def __post_init__(self):
        if self.type not in TYPES:
            raise ValueError(f"{type(self).__name__}: type = {self.type!r} is unknown; use 1, 2, 3 or 4.")

    def weight(self, i: jax.Array, n: int) -> jax.Array:
        if self.type in (1, 3) and not (self.type == 1 and self.name == "dst"):
            raise ValueError(
                f"{type(self).__name__}({self.type}) does not conserve the sum of squares, since the first or last "
                "point has half weight; use type 2 or 4."
            )
        constant = {"dct": i == 0, "dst": i == n - 1}[self.name] & (self.type == 2)
        return jnp.where(constant, 0.5, 1.0) / period(self.name, self.type, n)


class Cosine(_Trigonometric):
    """Even about both ends (Neumann), of points at both ends (type 1) or half a spacing inside them (2); even about the
    first end and odd about the last, of points from the first end on (3) or half a spacing inside (4)."""

    name = "dct"

    def forward(self, x: jax.Array) -> jax.Array:
        return dct(x, self.type)

    def inverse(self, x: jax.Array, n: int) -> jax.Array:
        return idct(x, self.type)

    def phase(self, i: jax.Array, n: int) -> jax.Array:
        return np.pi * (i + 0.5 * (self.type > 2)) / (n - (self.type == 1))


class Sine(_Trigonometric):
    """Odd about both ends (Dirichlet), of points between both ends (type 1) or half a spacing inside them (2); odd
    about the first end and even about the last, of points up to the last end (3) or half a spacing inside (4)."""

    name = "dst"

    def forward(self, x: jax.Array) -> jax.Array:
        return dst(x, self.type)

    def inverse(self, x: jax.Array, n: int) -> jax.Array:
        return idst(x, self.type)

    def phase(self, i: jax.Array, n: int) -> jax.Array:
        return np.pi * (i + (0.5 if self.type > 2 else 1.0)) / (n + (self.type == 1))


@dataclasses.dataclass(frozen=True)
class Unchanged(Kind):
    """No transform: the axis is made whole, for whatever else needs it so; its "modes" are its points."""

    def forward(self, x: jax.Array) -> jax.Array:
        return x

    def inverse(self, x: jax.Array, n: int) -> jax.Array:
        return x

    def phase(self, i: jax.Array, n: int) -> jax.Array:
        return jnp.zeros_like(i)

    def weight(self, i: jax.Array, n: int) -> jax.Array:
        return jnp.ones_like(i)
