"""Fields of an outer grid on the cells of a nest."""

import numpy as np

from ..grids.remapping import linear_weights

__all__ = ["conserving", "interpolated", "interpolated_of", "weights_of"]


def weights_of(cells: np.ndarray, n: int, ratio: int, faces: bool = False) -> np.ndarray:
    """(len(cells), n): weights of linear interpolation between n outer cells to the centres of a nest's cells.

    With `faces` they are those between the outer cells' eastern or northern faces, to such faces of the nest.
    """
    at = (cells + 1.0) / ratio - 1.0 if faces else (cells + 0.5) / ratio - 0.5
    return linear_weights(np.arange(float(n)), at).toarray()


def interpolated(values: np.ndarray, ratio: int) -> np.ndarray:
    """(ny ratio, nx ratio) values, bilinear between the centres of (ny, nx) cells."""
    rows, columns = (weights_of(np.arange(n * ratio), n, ratio) for n in values.shape)
    return rows @ values @ columns.T


def interpolated_of(wet: np.ndarray, values: np.ndarray, ratio: int) -> np.ndarray:
    """`interpolated` values of the wet cells alone, by their weights; 0 far from all of them.

    Args:
        wet: (ny, nx), 1 in wet cells and 0 elsewhere.
        values: (ny, nx), at cell centres.
        ratio: the number of the nest's cells along a side of a cell.
    """
    total, weight = (interpolated(x, ratio) for x in (wet * values, wet))
    return np.where(weight > 0, total, 0.0) / np.where(weight > 0, weight, 1.0)


def conserving(values: np.ndarray, wet: np.ndarray, ratio: int) -> np.ndarray:
    """(ny ratio, nx ratio) values whose mean over each of the (ny, nx) cells is that of the cell.

    They are linear in a cell, with the smaller one of the differences to its neighbours on either side (minmod), or
    none where these have other signs or a neighbour is not wet. So positive values stay positive.

    Args:
        values: (ny, nx), at cell centres.
        wet: (ny, nx) bool.
        ratio: the number of the nest's cells along a side of a cell.
    """
    offsets = (np.arange(ratio) + 0.5) / ratio - 0.5
    rise = [_limited(values, wet, axis) for axis in (0, 1)]
    fine = values[:, None, :, None] + np.zeros((1, ratio, 1, ratio))
    fine = fine + rise[0][:, None, :, None] * offsets[None, :, None, None]
    fine = fine + rise[1][:, None, :, None] * offsets[None, None, None, :]
    return fine.reshape(values.shape[0] * ratio, values.shape[1] * ratio)


def _limited(values, wet, axis):
    """The limited difference per cell along an axis; 0 in the outermost cells."""
    x, sea = np.moveaxis(values, axis, 0), np.moveaxis(wet, axis, 0)
    low, high = x[1:-1] - x[:-2], x[2:] - x[1:-1]
    rise = np.zeros_like(x)
    both = (low * high > 0) & sea[:-2] & sea[1:-1] & sea[2:]
    rise[1:-1] = np.where(both, np.where(np.abs(low) < np.abs(high), low, high), 0.0)
    return np.moveaxis(rise, 0, axis)
