"""The vertical modes of layers over a flat bottom, without JAX's own functions, so that figures can use them, too.

    eta = L h',   M = L^T diag(g) eta

h'_k [m] is the thickness of layer k above that at rest, eta_k the elevation of its interface, M_k its potential
(layers.py). L sums layers: those from k to the lowest or, over a deep layer at rest, from the top to k.
"""

from types import ModuleType
from typing import TYPE_CHECKING, TypeVar

import numpy as np

if TYPE_CHECKING:
    import jax

__all__ = ["modes", "summation"]

ArrayT = TypeVar("ArrayT", np.ndarray, "jax.Array")


def summation(count: int, deep_at_rest: bool, like: ArrayT, xp: ModuleType = np) -> ArrayT:
    """L of so many layers (count, count), in the precision of `like`."""
    lower = xp.tri(count, dtype=like.dtype)
    return lower if deep_at_rest else lower.T


def modes(
    gravities: ArrayT,
    thickness: ArrayT,
    deep_at_rest: bool = False,
    slowest: float = 0.0,
    xp: ModuleType = np,
    under_rigid_lid: bool = False,
) -> tuple[ArrayT, ArrayT]:
    """(celerities [m s-1], fastest first (..., n); velocities of the modes by layer, (..., layer, mode)).

    M = A h' with A = L^T diag(g) L. With du/dt = -dM/dx, dh/dt = -H du/dx, the squared celerities are the eigenvalues
    of A diag(H), which is similar to a symmetric matrix. The velocities phi are such that phi^T diag(H) phi = 1.

    A rigid lid keeps sum_k h'_k = 0. Mode 0, in which all layers move alike, then has no waves, and the celerity NaN;
    the others are those of A within the space that is orthogonal to it.

    Args:
        gravities: g_j [m s-2], (n,).
        thickness: H_k at rest [m], (..., n).
        deep_at_rest: whether eta is summed from the top.
        slowest: the least squared celerity [m2 s-2].
        xp: numpy, or jax.numpy.
        under_rigid_lid: whether the first interface is fixed.
    """
    count = thickness.shape[-1]
    summed = summation(count, deep_at_rest, thickness, xp)
    root = xp.sqrt(thickness)
    pressure = xp.broadcast_to(summed.T @ xp.diag(gravities) @ summed, (*thickness.shape, count))
    matrix = root[..., :, None] * pressure * root[..., None, :]
    if under_rigid_lid:
        alike = root / xp.sqrt(thickness.sum(-1, keepdims=True))
        alike = alike[..., :, None] * alike[..., None, :]  # the projection on mode 0
        others = xp.eye(count) - alike
        largest = xp.trace(matrix, axis1=-2, axis2=-1)[..., None, None]  # keeps mode 0 the first
        matrix = others @ matrix @ others + largest * alike
    squared, vectors = xp.linalg.eigh(matrix)
    celerities = xp.sqrt(xp.maximum(squared[..., ::-1], slowest))
    if under_rigid_lid:
        celerities = xp.where(xp.arange(count) == 0, xp.nan, celerities)
    return celerities, vectors[..., ::-1] / root[..., :, None]
