"""A V-cycle of geometric multigrid over the tiles of all ranks, with land, as a preconditioner.

Each grid has half the cells of the finer one in each direction, tile by tile. A coarse cell consists of two by two
cells; if a tile has an odd number of cells along an axis, the first one stays alone. So coarse tiles are those of a
coarse grid cut by the same rule (decomposition.py), for any number of ranks, with the same halo exchange. The flux
through a coarse face is that through its two fine ones, over the distance between coarse centres. The loss of a coarse
cell is the sum of its fine cells' losses. Corrections are interpolated linearly towards neighbours that are connected
by water. Restriction is the transpose of that, so that the cycle is symmetric. The smoother is two damped Jacobi sweeps
with Chebyshev weights for the upper eigenvalues, in reverse order after the correction. The coarsest grid is gathered,
and solved directly by its eigenvectors, without the constant where that is free.

On more ranks than the coarsest grid has cells, tiles would shrink to one cell each while the grid is still large. A
grid of at most GATHERED cells is then gathered on the root, and coarsened further as one tile. So the eigenvalue
problem never has more than `coarsest` unknowns, and the coarse grids send no messages.

All arrays are in float32 by default: the cycle need only approximate the inverse, and half the bytes move.
Briggs, Henson & McCormick 2000, doi:10.1137/1.9780898719505; Tatebe 1993, NASA CP-3224 (as a preconditioner).
"""

import dataclasses
import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ..fields.state import pytree, replace, static
from ..grids.geometry import safe_inverse
from ..parallel import SerialCommunicator
from ..parallel.halo import Sides, exchange
from .krylov import Preconditioner
from .operator import Coefficients, Domain, Stencil, fluxes, materialized, widened


@pytree
class Level:
    """The operator A on one of the grids, on a tile.

    Attributes:
        across_x, across_y, loss: those of a Stencil (operator.py).
        inverse: 1 / -A's diagonal; 0 on land and in padding.
        widths: (x, y) of the cells in cells of the finest grid, (my, mx) each.
        shape: of the whole grid.
    """

    across_x: jax.Array
    across_y: jax.Array
    loss: Any
    inverse: Any
    widths: tuple
    sides: Sides
    communicator: Any = static()
    shape: tuple = static()

    def wide(self, x: jax.Array) -> jax.Array:
        return widened(x, self.sides, self.communicator)

    def residual(self, r: jax.Array, wide: jax.Array) -> jax.Array:
        """The residual r + A x of -A x = r, for x with one ghost cell on each side, `wide`."""
        return r + fluxes(self.across_x, self.across_y, self.loss, wide)

    def smooth(self, weight: jax.Array, r: jax.Array, wide: jax.Array) -> jax.Array:
        """x after a damped Jacobi sweep, with one ghost cell on each side."""
        return self.wide(wide[1:-1, 1:-1] + weight * self.inverse * self.residual(r, wide))


@pytree
class Transfer:
    """Interpolation from the next coarser grid to a grid, and restriction, its transpose.

    Attributes:
        weights: in the western of two fine cells, the weight of the coarse neighbour to the west; in the others those
            to the east, south and north; four arrays (my, mx) on the coarse grid.
        water: 1 in the fine grid's own wet cells, 0 elsewhere.
        odd: (rows, columns) that are added before the fine tile's first ones, each 0 or 1.
    """

    weights: tuple
    water: jax.Array
    sides: Sides
    communicator: Any = static()
    odd: tuple = static()

    def interpolate(self, x: jax.Array) -> jax.Array:
        """Coarse values (my, mx), interpolated to the fine grid (2 my - odd, 2 mx - odd)."""
        wide = widened(x, self.sides, self.communicator)
        x, (west, east, south, north) = wide[1:-1, 1:-1], self.weights
        around = wide[1:-1, :-2], wide[1:-1, 2:], wide[:-2, 1:-1], wide[2:, 1:-1]
        dx = [weight * (neighbour - x) for weight, neighbour in zip((west, east), around[:2])]
        dy = [weight * (neighbour - x) for weight, neighbour in zip((south, north), around[2:])]
        four = x[:, None, :, None] + jnp.stack(dy, axis=1)[..., None] + jnp.stack(dx, axis=-1)[:, None]
        return self.water * four.reshape(2 * x.shape[0], 2 * x.shape[1])[self.odd[0] :, self.odd[1] :]

    def restrict(self, r: jax.Array) -> jax.Array:
        """The transpose of `interpolate`: each fine value is added to the coarse values it was interpolated from."""
        r = materialized(jnp.pad(self.water * r, [(k, 0) for k in self.odd]), self.sides)
        four = [[r[j::2, i::2] for i in (0, 1)] for j in (0, 1)]
        parts = four[0][0] + four[1][0], four[0][1] + four[1][1], four[0][0] + four[0][1], four[1][0] + four[1][1]
        given = [weight * part for weight, part in zip(self.weights, parts)]
        from_east, from_west, from_north, from_south = (widened(g, self.sides, self.communicator) for g in given)
        kept = parts[0] + parts[1] - sum(given)
        return materialized(
            kept + from_east[1:-1, 2:] + from_west[1:-1, :-2] + from_north[2:, 1:-1] + from_south[:-2, 1:-1], self.sides
        )


@pytree
class Gathering:
    """Marks the step from a grid on tiles to the same grid as one tile, on the root."""


GATHERED = 2**14  # cells, up to which a cycle on one core is faster than the messages of the coarser grids


@dataclasses.dataclass(frozen=True)
class Multigrid(Preconditioner):
    """The preconditioner by one V-cycle.

    Args:
        weights: of the Jacobi sweeps before the correction [1].
        precision: "float32" or "float64", of the cycle.
        coarsest: the largest number of cells of a grid that is solved directly.
    """

    weights: tuple = (1.5, 0.57)
    precision: str = "float32"
    coarsest: int = 200

    def prepare(self, domain: Domain, coefficients: Coefficients, stencil: Stencil) -> tuple:
        finest = _in_memory(_finest(domain, stencil, jnp.dtype(self.precision)), stencil.sides)
        grids, transfers = [finest], []
        while np.prod(grids[-1].shape) > self.coarsest:
            last, size = grids[-1], int(np.prod(grids[-1].shape))
            many = last.communicator.size > self.coarsest
            if many and (size <= GATHERED or last.communicator.size == size):
                coarse, transfer = _gathered(last)
            else:
                coarse, transfer = _in_memory(_coarser(last), last.sides)
            grids.append(coarse)
            transfers.append(transfer)
        return tuple(grids), tuple(transfers), _direct_inverse(grids[-1])

    def apply(self, prepared: tuple, r: jax.Array) -> jax.Array:
        grids, transfers, inverse = prepared
        z = self._cycle(grids, transfers, inverse, r.astype(grids[0].inverse.dtype))
        return z.astype(r.dtype)

    def _cycle(self, grids, transfers, inverse, r):
        grid = grids[0]
        if not transfers:
            whole = grid.communicator.gather(r, grid.shape)
            solved = (inverse @ whole.ravel()).reshape(grid.shape)
            return grid.communicator.scatter(solved)
        if isinstance(transfers[0], Gathering):
            whole = grid.communicator.gather(r, grid.shape)
            return grid.communicator.scatter(self._cycle(grids[1:], transfers[1:], inverse, whole))
        first, *more = (jnp.asarray(w, r.dtype) for w in self.weights)
        z = grid.wide(first * grid.inverse * r)
        for weight in more:
            z = grid.smooth(weight, r, z)
        below = self._cycle(grids[1:], transfers[1:], inverse, transfers[0].restrict(grid.residual(r, z)))
        z = grid.wide(z[1:-1, 1:-1] + transfers[0].interpolate(below))
        for weight in (*more[::-1], first):
            z = grid.smooth(weight, r, z)
        return z[1:-1, 1:-1]


# -- the grids --------------------------------------------------------------------------------------------------------


def _in_memory(grid, sides):
    """The same grid, with each array that stencils read computed once: see `materialized`."""
    return jax.tree.map(lambda x: materialized(x, sides) if jnp.ndim(x) == 2 else x, grid)


def _finest(domain, stencil, dtype):
    def cast(x) -> Any:
        return None if x is None else x.astype(dtype)

    ones = jnp.ones(stencil.area.shape, dtype)
    sides = jax.tree.map(cast, stencil.sides)
    return Level(
        cast(stencil.across_x),
        cast(stencil.across_y),
        cast(stencil.loss),
        cast(safe_inverse(stencil.diagonal)),
        (ones, ones),
        sides,
        domain.communicator,
        domain.grid.shape,
    )


def _coarser(grid):
    """(the next Level, the Transfer to it)."""
    odd = tuple(n % 2 for n in grid.inverse.shape)
    cells = lambda x: jnp.pad(x, [(k, 0) for k in odd])  # noqa: E731
    # faces, where the low one of the tile is repeated beyond cells that were added
    across_x, across_y = _distances(grid, multiply=True)
    across_x = jnp.pad(jnp.pad(across_x, ((odd[0], 0), (0, 0))), ((0, 0), (odd[1], 0)), mode="edge")
    across_y = jnp.pad(jnp.pad(across_y, ((0, 0), (odd[1], 0))), ((odd[0], 0), (0, 0)), mode="edge")
    across_x, across_y = across_x[::2, ::2] + across_x[1::2, ::2], across_y[::2, ::2] + across_y[::2, 1::2]
    wide, high = map(cells, grid.widths)
    parts_x, parts_y = (wide[1::2, ::2], wide[1::2, 1::2]), (high[::2, 1::2], high[1::2, 1::2])
    loss = None if grid.loss is None else _four(cells(grid.loss))
    coarse = Level(
        across_x,
        across_y,
        loss,
        None,
        (sum(parts_x), sum(parts_y)),
        _coarse_sides(grid.sides, odd),
        grid.communicator,
        _coarse_shape(grid),
    )
    across_x, across_y = _distances(coarse, multiply=False)
    total = across_x[:, 1:] + across_x[:, :-1] + across_y[1:] + across_y[:-1]
    total = total if loss is None else total + loss
    water = (_four(cells(grid.inverse)) > 0).astype(total.dtype)
    coarse = replace(coarse, across_x=across_x, across_y=across_y, inverse=water * safe_inverse(total))
    weights = _weights(coarse, parts_x, parts_y)
    water = (grid.inverse > 0).astype(total.dtype)
    return coarse, Transfer(weights, water, coarse.sides, grid.communicator, odd)


def _gathered(grid):
    """(the same grid as one tile, a Gathering); other ranks than the root have zeros."""
    whole = functools.partial(grid.communicator.gather, shape=grid.shape)
    one = SerialCommunicator()
    # faces west and south of the first cells lie at walls, or are those east and north of the last ones
    low_x, low_y = (axis in grid.sides.periodic for axis in "xy")
    east, north, inverse, wide, high = map(whole, (grid.across_x[:, 1:], grid.across_y[1:], grid.inverse, *grid.widths))
    west, south = east[:, -1:] if low_x else 0.0 * east[:, :1], north[-1:] if low_y else 0.0 * north[:1]
    linked = jnp.array([low_x, low_x, low_y, low_y], grid.sides.linked.dtype)
    sides = Sides(linked, jnp.zeros_like(linked), grid.sides.periodic)
    level = Level(
        jnp.concatenate([west, east], axis=1),
        jnp.concatenate([south, north]),
        None if grid.loss is None else whole(grid.loss),
        inverse,
        (wide, high),
        sides,
        one,
        grid.shape,
    )
    return level, Gathering()


def _four(x):
    return x[::2, ::2] + x[1::2, ::2] + x[::2, 1::2] + x[1::2, 1::2]


def _coarse_shape(grid):
    parts = grid.communicator.decomposition(grid.shape)
    along = [
        [parts.tile(k * grid.communicator.layout[1]).shape[0] for k in range(grid.communicator.layout[0])],
        [parts.tile(k).shape[1] for k in range(grid.communicator.layout[1])],
    ]
    return tuple(sum(-(-n // 2) for n in tiles) for tiles in along)


def _coarse_sides(sides, odd):
    """A tile stays padded where its padding and an odd number of cells make a pair."""
    uneven = "".join(axis for axis in sides.uneven if odd["yx".index(axis)])
    if not uneven:
        return replace(sides, pad=None, uneven="")
    return replace(sides, pad=sides.pad * jnp.asarray(odd, sides.pad.dtype), uneven=uneven)


def _spans(grid):
    """Distances between the centres of neighbours, at faces along x and along y."""
    wide, high = exchange(list(grid.widths), 1, grid.sides, grid.communicator)
    return 0.5 * (wide[1:-1, 1:] + wide[1:-1, :-1]), 0.5 * (high[1:, 1:-1] + high[:-1, 1:-1])


def _distances(grid, multiply):
    """across_x and across_y times these distances, or over them."""
    spans = _spans(grid)
    if multiply:
        return tuple(across * span for across, span in zip((grid.across_x, grid.across_y), spans))
    return tuple(across * safe_inverse(span) for across, span in zip((grid.across_x, grid.across_y), spans))


def _weights(coarse, parts_x, parts_y):
    """Half the other part's width over the distance to the neighbour, where water leads there."""
    spans = _spans(coarse)
    per_x, per_y = (
        (across > 0).astype(span.dtype) * 0.5 * safe_inverse(span)
        for across, span in zip((coarse.across_x, coarse.across_y), spans)
    )
    (west, east), (south, north) = parts_x, parts_y
    return east * per_x[:, :-1], west * per_x[:, 1:], north * per_y[:-1], south * per_y[1:]


def _direct_inverse(grid):
    """The (pseudo-)inverse of -A on the whole coarsest grid; on the root alone, which solves there."""
    (ny, nx), dtype = grid.shape, grid.inverse.dtype
    fields = [grid.across_x[:, 1:], grid.across_y[1:], grid.loss, (grid.inverse > 0).astype(dtype)]
    fields = [jnp.zeros_like(grid.inverse) if x is None else x for x in fields]
    east, north, loss, water = grid.communicator.gather(jnp.stack(fields), grid.shape).astype(float)
    number = np.arange(ny * nx).reshape(ny, nx)
    matrix = jnp.diag((water * loss).ravel())
    for across, neighbour in ((east, np.roll(number, -1, axis=1)), (north, np.roll(number, -1, axis=0))):
        here, there, flow = number.ravel(), neighbour.ravel(), across.ravel()
        for row, column, sign in ((here, here, 1), (there, there, 1), (here, there, -1), (there, here, -1)):
            matrix = matrix.at[row, column].add(sign * flow)
    values, vectors = jnp.linalg.eigh(matrix)
    kept = values > 1e-5 * jnp.max(values)
    per_value = jnp.where(kept, 1.0 / jnp.where(kept, values, 1.0), 0.0)
    return ((vectors * per_value[None]) @ vectors.T).astype(dtype)
