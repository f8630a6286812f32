"""Fields of an outer grid on the cells of a nest, and the depth of a nest in it."""

import logging
from typing import Any

import numpy as np

from ..dynamics.domain import Domain, floor_of
from ..dynamics.shores import Shore
from ..errors import ConfigError
from ..grids.remapping import linear_weights
from .nest import Nest, Place

__all__ = [
    "blended",
    "conserving",
    "depth_of",
    "difference",
    "interpolated",
    "interpolated_of",
    "warn_of_difference",
    "weights_of",
]


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


DIFFERENT = 0.3  # the relative difference of depths with which noise grows
BESIDE = 2  # outer cells inside the border, whose depths are compared


def depth_of(nest: Nest, place: Place, outer: Any, domain: Domain, shore: Shore) -> tuple[np.ndarray, np.ndarray]:
    """(depth [m], wet), arrays on the nest's grid; land of the outer grid is land in the frame.

    So water that leaves the box through the border enters a cell of the outer grid that can take it.

    Args:
        nest, place: the nest, and where it lies.
        outer: the ShallowWater around it.
        domain: the Domain of its grid.
        shore: its Shore.
    """
    if outer.sea_floor.bed is not None or getattr(nest.depth, "bed", None) is not None:
        raise ConfigError("nested grids have cells with even beds alone; leave subgrid of bathymetries out.")
    each, outer_wet = np.ones((place.ratio, place.ratio)), place.of_outer(outer.sea_floor.wet)
    if nest.depth is None:
        depth = _interpolated(outer.sea_floor, place, outer.film is None)
        wet = np.kron(outer_wet, each) > 0
    else:
        floor = floor_of(nest.depth, domain, shore)
        depth, wet = np.asarray(floor.depth), np.asarray(floor.wet)
    frame = np.kron(~place.covered & ~outer_wet, each) > 0
    return depth, wet & ~frame


def blended(nest: Nest, place: Place, floor: Any, depth: np.ndarray, wet: np.ndarray) -> np.ndarray:
    """The depth [m] that passes from that of the outer grid, in the frame, to the nest's own over `nest.blend` cells.

    The outer depth has its exact mean in each outer cell. So in a cell with the weight w the water at rest has the
    volume w V + (1 - w) V_o of both grids' water, and where a cell is land in one of the grids nothing is changed.
    """
    if not nest.blend:
        return depth
    outer, sea = (place.of_outer(x) for x in (floor.depth, floor.wet))
    (ny, nx), ratio = place.shape, place.ratio
    inside = [np.minimum(k, n - 1 - k) - place.frame for k, n in ((np.arange(ny), ny), (np.arange(nx), nx))]
    weight = np.clip(np.minimum(inside[0][:, None], inside[1]) / nest.blend, 0.0, 1.0)
    both = np.kron(np.where(sea & (weight < 1), 1.0, 0.0), np.ones((ratio, ratio))) > 0
    weight = np.kron(weight, np.ones((ratio, ratio)))
    mixed = weight * depth + (1.0 - weight) * conserving(np.asarray(outer, float), sea, ratio)
    return np.where(both & wet, mixed, depth)


def difference(place: Place, floor: Any, depth: np.ndarray, wet: np.ndarray) -> float:
    """The largest relative difference of the nest's depths, means over outer cells, along the border, and the outer
    ones."""
    (ny, nx), ratio, edge = place.shape, place.ratio, place.frame + BESIDE
    outer = place.of_outer(floor.depth)
    blocks = (ny, ratio, nx, ratio)
    mean, sea = depth.reshape(blocks).mean(axis=(1, 3)), wet.reshape(blocks).all(axis=(1, 3)) & (outer > 0)
    sea[edge:-edge, edge:-edge] = False
    return float(np.max(np.abs(mean - outer) / np.where(sea, outer, 1.0), where=sea, initial=0.0))


def warn_of_difference(name: str, largest: float) -> None:
    """Say that the depths of a two-way nest differ from the outer ones along its border (docs/guide/nests.md)."""
    if largest > DIFFERENT:
        logging.getLogger("swmodel").warning(
            "the depth of the nest %r differs from that of the outer grid along its border by up to %.0f %%, and "
            "disturbances may grow there: let it approach the outer depth by `blend`, or leave it out",
            name,
            100 * largest,
        )


def _interpolated(floor, place, fixed):
    """The outer depth [m], bilinear between the centres of wet cells where the shore is `fixed`, else of all cells."""
    depth, wet = place.of_outer(floor.depth), place.of_outer(floor.wet).astype(float)
    return interpolated_of(wet if fixed else np.ones_like(wet), depth, place.ratio)
