"""Many tiles in one process: without programs, or with programs that vmap maps over all tiles."""

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from swmodel.parallel import OneTileCommunicator, SerialCommunicator

MESH = ("y", "x")


class AllTiles(OneTileCommunicator):
    """All tiles of a layout in one process, without a program that runs on them."""

    def __init__(self, layout):
        super().__init__(layout, 0)

    @property
    def ranks(self):
        return tuple(range(self.size))


class StackedCommunicator(AllTiles):
    """A mesh of `layout` = (py, px) tiles of one shape; leaves of what it places have the axes (py, px) in front."""

    name = "stacked"

    def place(self, make):
        leaves = [make(rank) for rank in self.ranks]
        return jax.tree.map(
            lambda *parts: jnp.stack([jnp.asarray(p) for p in parts]).reshape(*self.layout, *np.shape(parts[0])),
            *leaves,
        )

    def placed_shape(self, shape):
        return self.layout + self.tile_shape(shape)

    def spmd(self, function):
        return jax.vmap(jax.vmap(function, axis_name="x"), axis_name="y")

    def tiles(self, tree):
        return {k: jax.tree.map(lambda x, k=k: x[divmod(k, self.layout[1])], tree) for k in (0,)}

    def shift(self, x, axis, direction):
        n = self.along(axis)
        return lax.ppermute(x, axis, [(k, (k + direction) % n) for k in range(n)])

    def sum(self, x, axis=None, ordered=False):
        return lax.psum(x, MESH if axis is None else axis)

    def maximum(self, x):
        return lax.pmax(lax.stop_gradient(x), MESH)

    def replicated(self, x, axis=None):
        return x

    def broadcast(self, x):
        return x

    def gather(self, tile, shape):
        """On every tile, so that what follows is computed once for all."""
        rows = lax.all_gather(lax.all_gather(tile, "x"), "y")  # (py, px, ..., my, mx)
        rows = jnp.moveaxis(rows, (0, 1), (-4, -2))
        return rows.reshape(*tile.shape[:-2], *shape)

    def scatter(self, whole):
        my, mx = self.tile_shape(whole.shape[-2:])
        part = lax.dynamic_slice_in_dim(whole, lax.axis_index("y") * my, my, axis=-2)
        return lax.dynamic_slice_in_dim(part, lax.axis_index("x") * mx, mx, axis=-1)


class Pretended(SerialCommunicator):
    """A mesh of 1 x 2 ranks, for which programs are only traced."""

    size, layout = 2, (1, 2)

    def _gather(self, x, shape):
        return jnp.zeros(x.shape[:-2] + shape, x.dtype)

    def _scatter(self, x, shape):
        return x[..., : self.tile_shape(shape)[0], : self.tile_shape(shape)[1]]
