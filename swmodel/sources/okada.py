"""Displacement of the surface of an elastic half-space by slip on a buried rectangle.

Okada (1985), Bull. Seismol. Soc. Am. 75, 1135-1154, doi:10.1785/BSSA0750041135. The rectangle is length x width [m];
x runs along strike, y to the left of it on the surface, z up, and the plane dips to the right of the strike. With

    eta = y cos(dip) + top sin(dip), q = y sin(dip) - top cos(dip)     (y from the surface projection of the upper edge)

each displacement is Chinnery's double difference (his eq. 24) of f(xi, eta) over xi = x, x - length and
eta + width, eta, with f from his eqs 25 (strike-slip), 26 (dip-slip), 27 (tensile), 28 (I1 .. I5).

His formulas divide by cos(dip), R + xi, q and xi, each of which may vanish where the displacement is smooth. Here they
are written so that nothing vanishes below the surface, which keeps values and derivatives right in float32 too. A
function of (xi, q) alone cancels in the difference over eta, one of (eta, q) alone in that over xi; up to those, with
c = cos(dip), s = sin(dip), A = R + eta, B = R + d~, tau = q + eta c / (1 + s), D = (1 + s) A - c q,

    atan(xi eta / (q R))  ->  -atan2(xi q, eta A + q^2)
    1 / (R (R + xi))      ->  sigma / (R (R + sigma xi)), sigma = +-1
    I5 (lambda + mu)/mu   ->  -(2 / c) atan(c xi / D)

and ln(B / A) = 2 atanh(u), u = -c tau / (A + B), takes 1 / c out of I1 .. I4. For dip = 90 they are his eqs 29.
"""

from collections.abc import Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax.typing import ArrayLike

_SMALL = 0.25  # argument below which a power series replaces the closed form
_TERMS = 15  # 0.25 ** 30 < 1e-18


class Rectangle(NamedTuple):
    """The slipping rectangle: length, width, depth of its upper edge below the surface [m], dip [degrees], 0 to 90."""

    length: ArrayLike
    width: ArrayLike
    top: ArrayLike
    dip: ArrayLike


class _Corner(NamedTuple):
    """The terms that the formulas share at one (xi, eta): Okada's R, tilde y, tilde d, and the replacements above."""

    xi: jnp.ndarray
    eta: jnp.ndarray
    q: jnp.ndarray
    y: jnp.ndarray
    d: jnp.ndarray
    R: jnp.ndarray
    A: jnp.ndarray
    inverse_R_xi: jnp.ndarray
    angle: jnp.ndarray


@jax.jit
def surface_displacement(
    x: ArrayLike, y: ArrayLike, rectangle: Rectangle, slip: Sequence[ArrayLike], poisson_ratio: ArrayLike = 0.25
) -> tuple[jax.Array, jax.Array, jax.Array]:
    """Displacement of the surface at points (x, y).

    Args:
        x: along strike from the corner of the upper edge at which the strike begins [m].
        y: horizontally to the left of the strike (up dip) from the upper edge [m]; an array of x's shape.
        rectangle: Rectangle.
        slip: (strike-slip, positive left-lateral; dip-slip, positive for thrusts; opening) [m].
        poisson_ratio: of the half-space.

    Returns:
        (ux, uy, uz) [m] along x, y and up, in the shape and type of x. On the trace of a rectangle that reaches the
        surface, where the displacement jumps, it is that of the upper (hanging) side.
    """
    x, y = jnp.asarray(x), jnp.asarray(y)
    length, width, top, dip = (jnp.asarray(value, x.dtype) for value in rectangle)
    c, s = jnp.cos(jnp.deg2rad(dip)), jnp.sin(jnp.deg2rad(dip))
    alpha = 1 - 2 * jnp.asarray(poisson_ratio, x.dtype)  # mu / (lambda + mu)
    hair = jax.lax.stop_gradient(length + width) * (1e-10 if x.dtype == jnp.float64 else 1e-6)
    near = y * y + top * top < hair * hair  # where no formula may meet R = 0: moved to the hanging side by a hair
    y, top = jnp.where(near, -hair, y), jnp.where(near, 0, top)
    eta, q = y * c + top * s, y * s - top * c
    sigma = jnp.where(x > length / 2, 1, -1).astype(x.dtype)
    zero = jnp.zeros_like(length)

    @jax.checkpoint  # four corners' intermediate results at once are what a derivative would keep
    def add(total, one):
        sign, along, down = one
        corner = _corner(x - along, eta + down, q, y + down * c, top + down * s, sigma, hair)
        return tuple(u + sign * f for u, f in zip(total, _eqs_25_to_27(corner, c, s, alpha, slip))), None

    corners = (
        jnp.array([1, -1, -1, 1], x.dtype),
        jnp.stack([zero, length, zero, length]),
        jnp.stack([width, width, zero, zero]),
    )
    (ux, uy, uz), _ = jax.lax.scan(add, (jnp.zeros_like(x),) * 3, corners)
    return ux, uy, uz


def _corner(xi, eta, q, y, d, sigma, hair):
    R = jnp.sqrt(xi * xi + eta * eta + q * q)
    from_xi = _sum_with_root(sigma * xi, R, eta * eta + q * q)
    A = _sum_with_root(eta, R, xi * xi + q * q + hair * hair)  # 0 only on a fault that lies in the surface
    angle = -jnp.arctan2(xi * q, eta * A + q * q)
    return _Corner(xi, eta, q, y, d, R, A, sigma / (R * from_xi), angle)


def _sum_with_root(a, R, rest):
    """a + R, with R^2 = a^2 + rest, without the cancellation for a < 0."""
    size = jnp.where(a >= 0, a, -a)  # not abs, whose derivative at 0 is 0
    return jnp.where(a >= 0, R + size, rest / (R + size))


def _eqs_25_to_27(k, c, s, alpha, slip):
    strike_slip, dip_slip, opening = (jnp.asarray(value, k.R.dtype) / (2 * jnp.pi) for value in slip)
    I1, I2, I3, I4, I5 = (alpha * value for value in _eq_28(k, c, s))
    q_R_eta = k.q / (k.R * k.A)
    q_R_xi = k.q * k.inverse_R_xi
    ux = (
        -strike_slip * (k.xi * q_R_eta + k.angle + I1 * s)
        - dip_slip * (k.q / k.R - I3 * s * c)
        + opening * (k.q * q_R_eta - I3 * s * s)
    )
    uy = (
        -strike_slip * (k.y * q_R_eta + k.q * c / k.A + I2 * s)
        - dip_slip * (k.y * q_R_xi + c * k.angle - I1 * s * c)
        + opening * (-k.d * q_R_xi - s * (k.xi * q_R_eta - k.angle) - I1 * s * s)
    )
    uz = (
        -strike_slip * (k.d * q_R_eta + k.q * s / k.A + I4 * s)
        - dip_slip * (k.d * q_R_xi + s * k.angle - I5 * s * c)
        + opening * (k.y * q_R_xi + c * (k.xi * q_R_eta - k.angle) - I5 * s * s)
    )
    return ux, uy, uz


def _eq_28(k, c, s):
    """I1 .. I5 over mu / (lambda + mu), regular for every dip."""
    A, B, log_A = k.A, k.R + k.d, jnp.log(k.A)
    tau = k.q + k.eta * c / (1 + s)
    u = -c * tau / (A + B)
    atanh_1, atanh_3 = _odd_quotients(u, (jnp.log(B) - log_A) / 2, 1)  # atanh(u)
    D = (1 + s) * A - c * k.q
    x = c * k.xi / D
    atan_1, atan_3 = _odd_quotients(x, jnp.arctan(x), -1)
    I3 = (k.eta / B - log_A) / (1 + s) + s * tau**2 / (B * (A + B)) + 2 * s * tau**2 * u * atanh_3 / (A + B) ** 2
    I4 = c * log_A / (1 + s) - 2 * tau * atanh_1 / (A + B)
    I5 = -2 * k.xi / D * atan_1
    I1 = k.xi / D * ((k.q * (1 - 2 * s) - c * (A + 2 * s * k.eta) / (1 + s)) / B + 2 * s * c * (k.xi / D) ** 2 * atan_3)
    return I1, -log_A - I3, I3, I4, I5


def _odd_quotients(u, f, sign):
    """f / u and (f / u - 1) / u^2 for f = u + sign u^3 / 3 + u^5 / 5 + ..., by the series where u is small."""
    small = jnp.abs(u) < _SMALL
    safe = jnp.where(small, 1, u)
    square = jnp.where(small, u * u, 0) * sign
    tail = jnp.zeros_like(u)
    for n in range(_TERMS, 0, -1):
        tail = tail * square + 1 / (2 * n + 1)
    first = jnp.where(small, 1 + square * tail, f / safe)
    return first, jnp.where(small, sign * tail, (f / safe - 1) / (safe * safe))
