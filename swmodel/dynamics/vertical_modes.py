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
    gravities: ArrayT, thickness: ArrayT, deep_at_rest: bool = False, slowest: float = 0.0, xp: ModuleType = np
) -> tuple[ArrayT, ArrayT]:
    """(celerities [m s-1], fastest first (..., n); velocities of the modes by layer, (..., layer, mode)).

    M = A h' with A = L^T diag(g) L. With du/dt = -dM/dx, dh/dt = -H du/dx, the squared celerities are the eigenvalues
    of A diag(H), which is similar to a symmetric matrix. The velocities phi are such that phi^T diag(H) phi = 1.

    Args:
        gravities: g_j [m s-2], (n,).
        thickness: H_k at rest [m], (..., n).
        deep_at_rest: whether eta is summed from the top.
        slowest: the least squared celerity [m2 s-2].
        xp: numpy, or jax.numpy.
    """
    count = thickness.shape[-1]
    summed = summation(count, deep_at_rest, thickness, xp)
    root = xp.sqrt(thickness)
    pressure = xp.broadcast_to(summed.T @ xp.diag(gravities) @ summed, (*thickness.shape, count))
    squared, vectors = xp.linalg.eigh(root[..., :, None] * pressure * root[..., None, :])
    return xp.sqrt(xp.maximum(squared[..., ::-1], slowest)), vectors[..., ::-1] / root[..., :, None]
