"""Boxes of cells between grids that are cut into tiles in different ways.

`collect` gives every rank whole boxes, of which each holds a part. Each rank then takes what it needs of them. It is
linear, and its transpose sums the cotangents of all ranks and gives each rank its part of the sum.
"""

import dataclasses
import functools
import math
from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np

from .communicator import Communicator
from .decomposition import Tile


@dataclasses.dataclass(frozen=True)
class Part:
    """The cells of a box that lie in a tile.

    Attributes:
        box: (rows, columns) of the box.
        within: (row, column) of the first of these cells in the box.
        at: the same in the tile.
        shape: (rows, columns) of these cells; both are 0 where box and tile have none in common.
    """

    box: tuple[int, int]
    within: tuple[int, int]
    at: tuple[int, int]
    shape: tuple[int, int]

    @staticmethod
    def of(corner: tuple[int, int], box: tuple[int, int], tile: Tile) -> "Part":
        """The Part of a box of this shape, whose first cell has the global (row, column) `corner`."""
        ranges = (tile.j0, tile.j1), (tile.i0, tile.i1)
        low = [max(first, begin) for first, (begin, _) in zip(corner, ranges, strict=True)]
        high = [min(first + n, end) for first, n, (_, end) in zip(corner, box, ranges, strict=True)]
        if any(a >= b for a, b in zip(low, high, strict=True)):
            return Part(box, (0, 0), (0, 0), (0, 0))
        within, at = ((low[0] - j, low[1] - i) for j, i in (corner, (tile.j0, tile.i0)))
        return Part(box, within, at, (high[0] - low[0], high[1] - low[1]))

    @staticmethod
    def all_of(corner: tuple[int, int], box: tuple[int, int], tile: Tile, turn: int = 0) -> "list[Part]":
        """The Parts of a box of a grid whose columns are the same again after `turn`, 0 for never; one or more.

        The numbers of the box's columns may go on beyond the grid at either end.
        """
        (j, i), n = corner, box[1]
        turns = range(-(i // turn), -((i + n - 1) // turn) - 1, -1) if turn else (0,)
        found = [Part.of((j, i + k * turn), box, tile) for k in turns]
        return [part for part in found if 0 not in part.shape] or found[:1]

    @property
    def slices(self) -> tuple[slice, slice]:
        """Its rows and columns in the tile."""
        return _slices(self.at, self.shape)

    @property
    def box_slices(self) -> tuple[slice, slice]:
        """Its rows and columns in the box."""
        return _slices(self.within, self.shape)


def _slices(first, shape):
    return slice(first[0], first[0] + shape[0]), slice(first[1], first[1] + shape[1])


def joined(parts: Sequence[tuple[Part, jax.Array]]) -> tuple[Part, jax.Array]:
    """(a Part, its values) of the values (n, *part.shape) in several Parts of one box, 0 elsewhere in it."""
    if len(parts) == 1:
        return parts[0]
    box = parts[0][0].box
    return Part(box, (0, 0), (0, 0), box), functools.reduce(jnp.add, (_padded(part, x) for part, x in parts))


def _padded(part, x):
    """The values (n, *part.shape) in the whole box (n, *part.box), 0 elsewhere."""
    margins = [(a, n - m - a) for a, n, m in zip(part.within, part.box, part.shape, strict=True)]
    return jnp.pad(x, [(0, 0), *margins])


def collect(parts: Sequence[tuple[Part, jax.Array]], communicator: Communicator) -> list[jax.Array]:
    """The whole boxes (n, *part.box) on every rank, by one sum over all ranks.

    Args:
        parts: (Part, (n, *part.shape) values) of this rank for each box.
        communicator: the Communicator.
    """
    if communicator.size == 1:
        return [x for _, x in parts]
    flat = [_padded(part, x).ravel() for part, x in parts]
    whole = communicator.replicated(communicator.sum(jnp.concatenate(flat)))
    shapes = [(x.shape[0], *part.box) for part, x in parts]
    ends = np.cumsum([math.prod(shape) for shape in shapes])
    return [x.reshape(shape) for x, shape in zip(jnp.split(whole, ends[:-1]), shapes, strict=True)]
