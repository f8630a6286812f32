"""Where the results of a fused loop lie in their arrays: with ghosts around a tile, or the cells of strips alone."""

import dataclasses
from collections.abc import Sequence
from typing import TypeAlias

import jax
import jax.numpy as jnp

from .schedule import whole_vectors

Strips: TypeAlias = tuple[tuple[tuple[int, int], tuple[int, int]], ...]
"""Strips of a tile: of each the (row, column) of its first cell, and the number of (rows, columns)."""


def cells(strips: Sequence) -> int:
    """The number of cells of Strips."""
    return sum(rows * columns for _, (rows, columns) in strips)


def cells_of(array: jax.Array, strips: Strips) -> jax.Array:
    """The cells of strips of a tile's array (..., my, mx), one strip after the other, (..., cells)."""
    parts = [array[..., j : j + rows, i : i + columns] for (j, i), (rows, columns) in strips]
    return jnp.concatenate([x.reshape(*x.shape[:-2], -1) for x in parts], axis=-1)


@dataclasses.dataclass(frozen=True)
class Layout:
    """The layout of a loop's results.

    The tile's first column lies at a multiple of the vector length, so that rows are padded beyond their ghosts.

    Attributes:
        shape: (rows, columns) of the tile.
        ghosts: the number of ghost cells around it in every result.
        members: the number of ensemble members, or None.
    """

    shape: tuple
    ghosts: int
    members: int | None = None

    @property
    def border(self) -> tuple[int, int, int, int]:
        """Elements of an array (west, east, south, north) of the tile: ghosts and padding."""
        west, columns = whole_vectors(self.ghosts), self.shape[1]
        return west, whole_vectors(columns + self.ghosts) - columns, self.ghosts, self.ghosts

    @property
    def origin(self) -> tuple[int, int]:
        """(row, column) of the tile's cell (0, 0) in an array."""
        return self.ghosts, self.border[0]

    def result_shape(self, strips: Strips | None) -> tuple[int, ...]:
        """The shape of a result: that of `padded`, or of the cells of strips, one strip after the other."""
        if strips is None:
            return self.padded
        return (cells(strips),) if self.members is None else (self.members, cells(strips))

    def own(self, array: jax.Array) -> jax.Array:
        """The tile's own cells of an array."""
        west, east, south, north = self.border
        return array[..., south : array.shape[-2] - north, west : array.shape[-1] - east]

    def with_border(self, array: jax.Array, halo: Sequence[int] = (0, 0, 0, 0)) -> jax.Array:
        """An array of the tile and `halo` cells around it, padded with zeros to the whole border."""
        west, east, south, north = (border - have for border, have in zip(self.border, halo))
        return jnp.pad(array, [(0, 0)] * (array.ndim - 2) + [(south, north), (west, east)])

    @property
    def padded(self) -> tuple[int, ...]:
        west, east, south, north = self.border
        whole = self.shape[0] + south + north, self.shape[1] + west + east
        return whole if self.members is None else (self.members, *whole)
