"""Boxes of cells between grids that are cut into tiles in different ways.

`collect` gives every rank the values in whole boxes, of which each holds a part. Each rank then takes what it needs of
them. It is linear, and its transpose sums the cotangents of all ranks and gives each rank its part of the sum.
"""

import dataclasses
import functools
import math
from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np

from ..stencils.expressions import Strips
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


@dataclasses.dataclass(frozen=True)
class Boxes:
    """Boxes of a grid's cells, and the Parts of them in a tile.

    Values of n fields in boxes are arrays (..., n, cells): the rows of a box one after the other, box after box. Those
    in the tile are likewise the rows of each Part.

    Attributes:
        parts: the Parts of each box, one or more.
    """

    parts: tuple[tuple[Part, ...], ...]

    @property
    def here(self) -> list[Part]:
        """All Parts in the tile."""
        return [part for parts in self.parts for part in parts]

    @property
    def strips(self) -> Strips:
        """The Strips of the tile that the Parts are."""
        return tuple((part.at, part.shape) for part in self.here)

    @property
    def are_here(self) -> bool:
        """Whether the tile has each box as one Part."""
        return all(len(parts) == 1 and parts[0].shape == parts[0].box for parts in self.parts)

    def whole(self, x: jax.Array) -> jax.Array:
        """The values in the boxes of values in the tile, 0 elsewhere."""
        if self.are_here:
            return x
        boxes, begin = [], 0
        for parts in self.parts:
            pieces = []
            for part in parts:
                end = begin + math.prod(part.shape)
                margins = [(a, n - m - a) for a, n, m in zip(part.within, part.box, part.shape, strict=True)]
                piece = x[..., begin:end].reshape(*x.shape[:-1], *part.shape)
                pieces.append(jnp.pad(piece, [(0, 0)] * (x.ndim - 1) + margins))
                begin = end
            boxes.append(functools.reduce(jnp.add, pieces).reshape(*x.shape[:-1], -1))
        return jnp.concatenate(boxes, axis=-1)

    def of_tile(self, x: jax.Array) -> jax.Array:
        """The values in the tile of values in the whole boxes."""
        if self.are_here:
            return x
        pieces, begin = [], 0
        for parts in self.parts:
            end = begin + math.prod(parts[0].box)
            box = x[..., begin:end].reshape(*x.shape[:-1], *parts[0].box)
            pieces += [box[(..., *part.box_slices)].reshape(*x.shape[:-1], -1) for part in parts]
            begin = end
        return jnp.concatenate(pieces, axis=-1)


def collect(values: Sequence[tuple[Boxes, jax.Array]], communicator: Communicator) -> list[jax.Array]:
    """The values (n, cells) in whole boxes on every rank, by one sum over all ranks.

    Args:
        values: (Boxes, the values in this rank's tile) of each set of boxes.
        communicator: the Communicator.
    """
    own = [boxes.whole(x) for boxes, x in values]
    if communicator.size == 1:
        return own
    whole = communicator.replicated(communicator.sum(jnp.concatenate([x.ravel() for x in own])))
    ends = np.cumsum([x.size for x in own])
    return [x.reshape(each.shape) for x, each in zip(jnp.split(whole, ends[:-1]), own, strict=True)]
