"""The kinds of transforms along one axis: Fourier of complex or real numbers, cosine and sine of types 1 to 4.

A kind is hashable, and transforms along the last axis of an array. Its modes are numbered from 0. The phase of mode i
grows by `phase(i, n)` radians from one point to the next. So the wavenumber is phase / spacing, and the second
difference of neighbours has the eigenvalue 2 cos(phase) - 2.

Discrete cosine and sine transforms of types I to IV along the last axis, each by one fast Fourier transform.

    type   dct: X_k =                                        dst: X_k =
    1      x_0 + (-1)^k x_(n-1) + 2 sum_(0<j<n-1) x_j        2 sum x_j sin(pi (j + 1) (k + 1) / (n + 1))
             cos(pi j k / (n - 1))
    2      2 sum x_j cos(pi k (2 j + 1) / 2n)                2 sum x_j sin(pi (k + 1) (2 j + 1) / 2n)
    3      x_0 + 2 sum_(j>0) x_j cos(pi j (2 k + 1) / 2n)    (-1)^k x_(n-1) + 2 sum_(j<n-1) x_j
                                                               sin(pi (j + 1) (2 k + 1) / 2n)
    4      2 sum x_j cos(pi (2 j + 1) (2 k + 1) / 4n)        2 sum x_j sin(pi (2 j + 1) (2 k + 1) / 4n)

as in scipy.fft without normalisation; idct and idst are their inverses. Types 2 and 3 take a real transform of length n
(Makhoul 1980, doi:10.1109/TASSP.1980.1163351), and type 4 a complex one of length n / 2 (of 2n if n is odd). Type 1
takes a real one over the period of its even or odd continuation, 2 (n - 1) or 2 (n + 1), because shorter ones lose
digits as n grows. The sine transforms 2 to 4 are the cosine ones with alternating signs and reversed order. Real and
imaginary parts of complex numbers are transformed separately.
"""

import abc
import dataclasses
from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from numpy.typing import DTypeLike

TYPES = (1, 2, 3, 4)
UNDONE_BY = {1: 1, 2: 3, 3: 2, 4: 4}


def dct(x: jax.typing.ArrayLike, type: int = 2) -> jax.Array:
    """The cosine transform of x, (..., n), along the last axis."""
    x = jnp.asarray(x)
    return _by_parts(_COSINE[_checked("dct", x, type)], x)


def dst(x: jax.typing.ArrayLike, type: int = 2) -> jax.Array:
    """The sine transform of x, (..., n), along the last axis."""
    x = jnp.asarray(x)
    return _by_parts(_SINE[_checked("dst", x, type)], x)


def idct(x: jax.typing.ArrayLike, type: int = 2) -> jax.Array:
    """The inverse of `dct` of this type."""
    return dct(x, UNDONE_BY.get(type, type)) / period("dct", type, jnp.shape(x)[-1])


def idst(x: jax.typing.ArrayLike, type: int = 2) -> jax.Array:
    """The inverse of `dst` of this type."""
    return dst(x, UNDONE_BY.get(type, type)) / period("dst", type, jnp.shape(x)[-1])


def period(name: str, type: int, n: int) -> int:
    """The period of the continuation of n points, in points; a transform times its inverse multiplies by it."""
    return 2 * (n + {"dct": -1, "dst": 1}[name] * (type == 1))


def _checked(name, x, type):
    if type not in TYPES:
        raise ValueError(f"{name}: type = {type!r} is unknown; use 1, 2, 3 or 4.")
    least = 2 if (name, type) == ("dct", 1) else 1
    if x.ndim < 1 or x.shape[-1] < least:
        raise ValueError(f"{name}: type {type} needs {least} or more points, got an array of shape {x.shape}.")
    if not jnp.issubdtype(x.dtype, jnp.inexact):
        raise ValueError(f"{name}: got {x.dtype} numbers; give real or complex floating-point ones.")
    return type


def _by_parts(transform, x):
    if not jnp.issubdtype(x.dtype, jnp.complexfloating):
        return transform(x)
    real, imaginary = transform(jnp.stack([x.real, x.imag]))
    return lax.complex(real, imaginary)


def _rotations(angles, dtype):
    """exp(-i angles) as complex numbers of the precision of `dtype`, for angles in float64 [rad]."""
    return np.exp(-1j * np.asarray(angles)).astype(np.result_type(dtype, np.complex64))


def _scaled(x, factors):
    """x times one factor a point."""
    return x.astype(factors.dtype) * factors.reshape((1,) * (x.ndim - 1) + (-1,))


def _alternating(x):
    """x with alternating signs."""
    return _scaled(x, (1 - 2 * (np.arange(x.shape[-1]) % 2)).astype(x.dtype))


def _reversed(x):
    return lax.rev(x, (x.ndim - 1,))


def _interleaved(even, odd):
    """The points 0, 2, ... and 1, 3, ... put together."""
    zero, lead, n = jnp.zeros((), even.dtype), [(0, 0, 0)] * (even.ndim - 1), even.shape[-1] + odd.shape[-1]
    first = lax.pad(even, zero, [*lead, (0, 1 - n % 2, 1)])
    return first if n == 1 else first + lax.pad(odd, zero, [*lead, (1, n % 2, 1)])


def _cosine_1(x):
    extended = jnp.concatenate([x, _reversed(x[..., 1:-1])], axis=-1)
    return jnp.fft.rfft(extended).real


def _cosine_2(x):
    n = x.shape[-1]
    spectrum = jnp.fft.rfft(jnp.concatenate([x[..., ::2], _reversed(x[..., 1::2])], axis=-1))
    turned = _scaled(spectrum, _rotations(np.pi * np.arange(n // 2 + 1) / (2 * n), x.dtype))
    return 2 * jnp.concatenate([turned.real, -_reversed(turned.imag[..., 1 : (n + 1) // 2])], axis=-1)


def _cosine_3(x):
    n = x.shape[-1]
    mirrored = jnp.pad(_reversed(x)[..., : n // 2], [(0, 0)] * (x.ndim - 1) + [(1, 0)])
    turned = lax.complex(x[..., : n // 2 + 1] if n > 1 else x, -mirrored)
    turns = _rotations(-np.pi * np.arange(n // 2 + 1) / (2 * n), x.dtype)
    points = n * jnp.fft.irfft(_scaled(turned, turns), n=n)
    return _interleaved(points[..., : (n + 1) // 2], _reversed(points[..., (n + 1) // 2 :]))


def _cosine_4(x):
    n = x.shape[-1]
    if n % 2:
        k = np.arange(n)
        spectrum = jnp.fft.fft(_scaled(x, _rotations(np.pi * k / (2 * n), x.dtype)), n=2 * n)[..., :n]
        return 2 * _scaled(spectrum, _rotations(np.pi * (2 * k + 1) / (4 * n), x.dtype)).real
    turns = _rotations(np.pi * (4 * np.arange(n // 2) + 1) / (4 * n), x.dtype)
    spectrum = jnp.fft.fft(_scaled(lax.complex(x[..., ::2], _reversed(x)[..., ::2]), turns))
    turned = 2 * _scaled(spectrum, _rotations(np.pi * np.arange(n // 2) / n, x.dtype))
    return _interleaved(turned.real, -_reversed(turned.imag))


def _sine_1(x):
    lead, n = [(0, 0)] * (x.ndim - 1), x.shape[-1]
    extended = jnp.concatenate([jnp.pad(x, [*lead, (1, 1)]), -_reversed(x)], axis=-1)
    return -jnp.fft.rfft(extended).imag[..., 1 : n + 1]


_COSINE = {1: _cosine_1, 2: _cosine_2, 3: _cosine_3, 4: _cosine_4}
_SINE = {
    1: _sine_1,
    2: lambda x: _reversed(_cosine_2(_alternating(x))),
    3: lambda x: _alternating(_cosine_3(_reversed(x))),
    4: lambda x: _alternating(_cosine_4(_reversed(x))),
}


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
