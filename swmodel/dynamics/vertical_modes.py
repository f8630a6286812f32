"""The vertical modes of layers over a flat bottom, without JAX's own functions, so that figures can use them, too.

    eta = L h',   M = L^T diag(g) eta

h'_k [m] is the thickness of layer k above that at rest, eta_k the elevation of its interface, M_k its potential
(layers.py). L sums layers: those from k to the lowest or, over a deep layer at rest, from the top to k.
"""

import numpy as np

__all__ = ["modes", "summation"]


def summation(count: int, deep_at_rest: bool) -> np.ndarray:
    """L of so many layers (count, count)."""
    lower = np.tri(count)
    return lower if deep_at_rest else lower.T


def modes(
    gravities: np.ndarray, thickness: np.ndarray, deep_at_rest: bool = False, under_rigid_lid: bool = False
) -> tuple[np.ndarray, np.ndarray]:
    """(celerities [m s-1], fastest first (..., n); velocities of the modes by layer, (..., layer, mode)).

    M = A h' with A = L^T diag(g) L. With du/dt = -dM/dx, dh/dt = -H du/dx, the squared celerities are the eigenvalues
    of A diag(H), which is similar to a symmetric matrix. The velocities phi are such that phi^T diag(H) phi = 1.

    A rigid lid keeps sum_k h'_k = 0. Mode 0, in which all layers move alike, then has no waves, and the celerity NaN;
    the others are those of A within the space that is orthogonal to it.

    Args:
        gravities: g_j [m s-2], (n,).
        thickness: H_k at rest [m], (..., n).
        deep_at_rest: whether eta is summed from the top.
        under_rigid_lid: whether the first interface is fixed.
    """
    count = thickness.shape[-1]
    summed = summation(count, deep_at_rest)
    root = np.sqrt(thickness)
    pressure = np.broadcast_to(summed.T @ np.diag(gravities) @ summed, (*thickness.shape, count))
    matrix = root[..., :, None] * pressure * root[..., None, :]
    if under_rigid_lid:
        alike = root / np.sqrt(thickness.sum(-1, keepdims=True))
        alike = alike[..., :, None] * alike[..., None, :]  # the projection on mode 0
        others = np.eye(count) - alike
        largest = np.trace(matrix, axis1=-2, axis2=-1)[..., None, None]  # keeps mode 0 the first
        matrix = others @ matrix @ others + largest * alike
    squared, vectors = np.linalg.eigh(matrix)
    celerities = np.sqrt(np.maximum(squared[..., ::-1], 0.0))
    if under_rigid_lid:
        celerities = np.where(np.arange(count) == 0, np.nan, celerities)
    return celerities, vectors[..., ::-1] / root[..., :, None]
