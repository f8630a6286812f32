"""The vertical modes of layers by Jacobi's rotations, in which weak stratification keeps its digits.

With T = diag(sqrt H) L^T diag(sqrt g) the squared speeds of modes (vertical_modes.py) are the eigenvalues of T T^T, so
that the speeds are the singular values of T = U diag(c) W^T. Its columns have the sizes of sqrt g, which differ by
orders of magnitude: an eigenvalue solver loses all that is small against g H, in single precision modes slower than 1 %
of the fastest one. One-sided rotations, which make two columns orthogonal at a time, find each singular value to the
relative precision of the numbers (Demmel and Veselic 1992, doi:10.1137/0613074).

With X = U^T diag(dH / H) U / 2 and Y = W^T diag(dg / g) W / 2 the derivatives are

    dc_i = c_i (X_ii + Y_ii),   dU = U K,   K_ij = [(c_i^2 + c_j^2) X_ij + 2 c_i c_j Y_ij] / (c_j^2 - c_i^2)

and those of W have X and Y exchanged.
"""

import itertools

import jax
import jax.numpy as jnp
from jax import lax

from .vertical_modes import summation

SLOWEST = 1e-6  # [m s-1]
ROUNDING = 1e4  # [m s-1], times that of 1: for pressures of 10 m2 s-2 it is 1 mm/s of the velocity
SWEEPS = 10  # over all pairs of columns; the angles fall quadratically, and three layers take four


@jax.custom_jvp
def graded_modes(
    gravities: jax.Array, thickness: jax.Array, in_order: jax.Array
) -> tuple[jax.Array, jax.Array, jax.Array]:
    """(celerities [m s-1] (..., n), fastest first; U (..., layer, mode); W (..., interface, mode)).

    Args:
        gravities: g_j above 0 [m s-2], (n,).
        thickness: H_k at rest [m], (..., n).
        in_order: L (n, n), the `summation` of layers.
    """
    count = thickness.shape[-1]
    matrix = jnp.einsum("...k,jk,j->...kj", jnp.sqrt(thickness), in_order, jnp.sqrt(gravities))
    turns = jnp.broadcast_to(jnp.eye(count, dtype=matrix.dtype), matrix.shape)
    columns = tuple(jnp.concatenate([matrix, turns], axis=-2)[..., k] for k in range(count))

    def sweep(_, columns):
        columns = list(columns)
        for i, j in itertools.combinations(range(count), 2):
            columns[i], columns[j] = _orthogonal(columns[i], columns[j], count)
        return tuple(columns)

    both = jnp.stack(lax.fori_loop(0, SWEEPS, sweep, columns), axis=-1)
    scaled, turns = both[..., :count, :], both[..., count:, :]
    celerities = jnp.sqrt(jnp.sum(scaled * scaled, axis=-2))
    left, order = scaled / celerities[..., None, :], jnp.argsort(-celerities, axis=-1)
    sorted_left, sorted_turns = (jnp.take_along_axis(x, order[..., None, :], -1) for x in (left, turns))
    return jnp.take_along_axis(celerities, order, -1), sorted_left, sorted_turns


def _orthogonal(a, b, count):
    """Two columns, turned so that their first `count` rows are orthogonal."""
    p, q = a[..., :count], b[..., :count]
    product = jnp.sum(p * q, axis=-1, keepdims=True)
    apart = jnp.sum(q * q, axis=-1, keepdims=True) - jnp.sum(p * p, axis=-1, keepdims=True)
    ratio = apart / (2.0 * jnp.where(product == 0, 1.0, product))
    tangent = jnp.where(ratio < 0, -1.0, 1.0) / (jnp.abs(ratio) + jnp.sqrt(1.0 + ratio * ratio))
    tangent = jnp.where(product == 0, 0.0, tangent)
    cosine = 1.0 / jnp.sqrt(1.0 + tangent * tangent)
    sine = tangent * cosine
    return cosine * a - sine * b, sine * a + cosine * b


@graded_modes.defjvp
def _derivatives(primals, tangents):
    gravities, thickness, in_order = primals
    celerities, left, right = found = graded_modes(*primals)
    x = 0.5 * jnp.einsum("...ki,...k,...kj->...ij", left, tangents[1] / thickness, left)
    y = 0.5 * jnp.einsum("...ki,k,...kj->...ij", right, tangents[0] / gravities, right)
    low, high = celerities[..., :, None], celerities[..., None, :]
    apart = (high - low) * (high + low)
    apart = jnp.where(apart == 0, jnp.inf, apart)
    squares, products = (low * low + high * high) / apart, 2.0 * low * high / apart
    change = celerities * jnp.diagonal(x + y, axis1=-2, axis2=-1)
    return found, (change, left @ (squares * x + products * y), right @ (squares * y + products * x))


def modes_of(gravities: jax.Array, thickness: jax.Array, deep_at_rest: bool) -> tuple[jax.Array, jax.Array]:
    """The result of `vertical_modes.modes` for its arguments, with derivatives.

    Layers of one density have modes without a speed, and get one with which rounding of the pressure moves no water.
    """
    slowest = max(SLOWEST, ROUNDING * float(jnp.finfo(thickness.dtype).eps))
    least = slowest**2 / lax.stop_gradient(jnp.max(thickness))
    in_order = jnp.asarray(summation(thickness.shape[-1], deep_at_rest), thickness.dtype)
    celerities, left, _ = graded_modes(jnp.maximum(gravities, least), thickness, in_order)
    return jnp.maximum(celerities, slowest), left / jnp.sqrt(thickness)[..., :, None]
