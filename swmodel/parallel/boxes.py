"""Boxes of cells between grids that are cut into tiles in different ways.

`collect` gives every rank the whole box, of which each holds a part; `spread` gives each rank the cells of the box that
lie in its tile. They are each other's transposes: what `spread` returns is distributed, what `collect` returns is
replicated. A box has as many values as the coarse grid has cells in it, and each rank receives all of them.
"""

import jax
import jax.numpy as jnp
import numpy as np

from .communicator import Communicator

__all__ = ["collect", "place_of_tile", "spread"]


def place_of_tile(first: tuple[int, int], corner: tuple[int, int], tile: tuple[int, int], box: tuple[int, int]):
    """Where a tile lies in a box with a margin of the size of a tile: (row, column), int32.

    Args:
        first: global (row, column) of the tile's first cell.
        corner: global (row, column) of the first cell of the box.
        tile, box: their shapes. A tile outside of the box lies in the margin.
    """
    return np.array(
        [np.clip(f - c + t, 0, b + t) for f, c, t, b in zip(first, corner, tile, box, strict=True)], np.int32
    )


def collect(x: jax.Array, place: jax.Array, box: tuple[int, int], communicator: Communicator) -> jax.Array:
    """The box (n, *box), the sum of the parts of all ranks, on every rank.

    Args:
        x: (n, my, mx) of this rank's tile.
        place: where the tile lies, of `place_of_tile`.
        box: (rows, columns).
        communicator: the Communicator.
    """
    (n, my, mx), (rows, columns) = x.shape, box
    if communicator.size == 1:  # the tile is the whole grid, which holds the box
        return jax.lax.dynamic_slice(x, (jnp.int32(0), my - place[0], mx - place[1]), (n, rows, columns))
    wide = jnp.zeros((n, rows + 2 * my, columns + 2 * mx), x.dtype)
    wide = jax.lax.dynamic_update_slice(wide, x, (jnp.int32(0), place[0], place[1]))
    return communicator.sum(wide[:, my : my + rows, mx : mx + columns])


def spread(x: jax.Array, place: jax.Array, tile: tuple[int, int], communicator: Communicator) -> jax.Array:
    """The cells (n, *tile) of this rank's tile, of a box that every rank holds; 0 outside of the box.

    Args:
        x: (n, rows, columns), the same on every rank.
        place: where the tile lies, of `place_of_tile`.
        tile: (my, mx).
        communicator: the Communicator.
    """
    my, mx = tile
    if communicator.size == 1:
        start = jnp.int32(0), my - place[0], mx - place[1]
        return jax.lax.dynamic_update_slice(jnp.zeros((x.shape[0], my, mx), x.dtype), x, start)
    wide = jnp.pad(communicator.replicated(x), ((0, 0), (my, my), (mx, mx)))
    return jax.lax.dynamic_slice(wide, (jnp.int32(0), place[0], place[1]), (x.shape[0], my, mx))
