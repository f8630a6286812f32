"""The operator of elliptic equations on the C-grid, (div c grad - lambda) phi = b at cell centres.

Integrated over a cell, with sums over its faces between wet cells:

    sum over faces  c length / distance (phi_neighbour - phi)  -  lambda area phi  =  area b

The flux through walls and coasts is 0 (Neumann). At sides that are named in `dirichlet`, phi vanishes on the wall
itself, half a cell away. In this integrated form the operator A is symmetric, and -A has no negative eigenvalue. So the
transpose of a solution is one more solution, and derivatives in the coefficients follow from
A dphi = d(area b) - dA phi.

Without lambda and Dirichlet sides the constant of each water body is free. The mean of b over the area of the body is
then removed, and phi has the mean 0 there. The two projections are each other's transpose, so that the solution remains
self-adjoint.
"""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.core import ShapedArray
from jax.extend.core import Primitive
from jax.interpreters import batching, mlir
from numpy.typing import DTypeLike

from ..errors import SwmodelError
from ..fields.state import pytree, replace, static
from ..grids.geometry import TileGeometry, safe_inverse
from ..grids.grid import Grid
from ..grids.water import label_bodies
from ..grids.windows import GridValues, Stored, grid_values
from ..parallel.communicator import Communicator
from ..parallel.halo import SIDES, Sides, exchange, refresh, without_padding


class EllipticError(SwmodelError, ValueError):
    """Raised for an equation that has no solution, or that a solver cannot solve."""


@pytree
class Domain:
    """The domain of an equation: one tile's share of a grid and its water.

    Attributes:
        tile: the TileGeometry; None until it is set.
        basin: the number of the water body of each cell, from 1; None where there is a single one.
        grid: the whole Grid.
        touches: for each water body whether it touches the west, east, south and north side of the grid.
        masked: whether some cell of the grid is land.
    """

    tile: Any
    basin: Any
    grid: Any = static()
    communicator: Any = static()
    touches: tuple = static()
    masked: bool = static()

    @staticmethod
    def of(
        grid: Grid,
        communicator: Communicator,
        wet: GridValues | np.ndarray | None = None,
        dtype: DTypeLike | None = None,
    ) -> "Domain":
        """The Domain of a grid with water where `wet`, (ny, nx) or GridValues, is true; everywhere unless given."""
        dtype = np.dtype(dtype or jax.dtypes.canonicalize_dtype(float))
        wet = Stored(True, grid.shape) if wet is None else wet if isinstance(wet, GridValues) else np.asarray(wet, bool)
        if wet.shape != grid.shape or (isinstance(wet, np.ndarray) and not wet.any()):
            raise EllipticError(
                f"elliptic: wet has shape {wet.shape} and {np.count_nonzero(wet)} wet cells, on a grid of "
                f"{grid.shape}; give one value a cell, some of them true."
            )
        tile = TileGeometry.build(grid, wet, None, 1, (), communicator, dtype)
        return replace(Domain.without_tile(grid, communicator, wet), tile=tile)

    @staticmethod
    def without_tile(grid: Grid, communicator: Communicator, wet: GridValues | np.ndarray) -> "Domain":
        """The Domain of a grid with water where `wet` is true, GridValues or an array; collective.

        Its `tile` is None, and has to be set.
        """
        water = label_bodies(grid_values(wet, grid), grid, communicator)
        parts = communicator.decomposition(grid.shape)

        def padded(rank):
            return np.pad(water.tiles[rank], [(n, 0) for n in parts.padding(rank)])

        touches = tuple(tuple(map(bool, sides)) for sides in water.touches)
        basin = communicator.place(padded) if water.count > 1 else None
        dry = any((numbers == 0).any() for numbers in water.tiles.values())
        return Domain(None, basin, grid, communicator, touches, communicator.agree(dry))

    def free(self, coefficients: "Coefficients") -> tuple[bool, ...]:
        """For each water body whether a constant can be added to a solution there."""
        held = [SIDES.index(side) for side in coefficients.dirichlet]
        return tuple(coefficients.screening is None and not any(body[k] for k in held) for body in self.touches)

    @staticmethod
    def of_model(model: Any) -> "Domain":
        """The Domain of a ShallowWater's grid and water."""
        return Domain.of(model.grid, model.communicator, model.sea_floor.wet, model.dtype)


@pytree
class Coefficients:
    """c and lambda of (div c grad - lambda) phi = b.

    Attributes:
        c: positive: a number; a tile array at cell centres, whose mean over two cells is that of a face; or a pair of
            tile arrays on east and on north faces.
        screening: lambda, None or positive: a number or a tile array at cell centres [c's units m-2].
        dirichlet: the sides ("west", "east", "south", "north") on which phi vanishes.

    Apply `communicator.replicated` to numbers that are differentiated.
    """

    c: Any
    screening: Any = None
    dirichlet: tuple = static(default=())


@pytree
class Stencil:
    """The symmetric operator A on a tile.

    Attributes:
        across_x: c length / distance of the faces west and east of cells, (my, mx + 1); 0 at coasts and walls.
        across_y: that of the faces south and north, (my + 1, mx).
        loss: lambda area, and c length / distance of Dirichlet sides, (my, mx); None where there is neither.
        area: of the tile's own wet cells [m2], 0 in others, (my, mx).
        basin: that of the Domain.
        free: for each water body whether a constant can be added to a solution there.
    """

    across_x: jax.Array
    across_y: jax.Array
    loss: Any
    area: jax.Array
    sides: Sides
    basin: Any
    communicator: Any = static()
    free: tuple = static()

    def apply(self, x: jax.Array) -> jax.Array:
        """A x of a tile array; communicates."""
        (wide,) = exchange([x], 1, self.sides, self.communicator)
        return self._of_wide(wide)

    def apply_in_loop(self, x: jax.Array) -> jax.Array:
        """A x like `apply`, faster, and without derivatives, for iterations."""
        return materialized(self._of_wide(widened(x, self.sides, self.communicator)), self.sides)

    def _of_wide(self, wide):
        return without_padding(fluxes(self.across_x, self.across_y, self.loss, wide), self.sides)

    @property
    def diagonal(self) -> jax.Array:
        """The diagonal of -A, (my, mx); 0 on land."""
        east, north = self.across_x, self.across_y
        total = east[:, 1:] + east[:, :-1] + north[1:] + north[:-1]
        return without_padding(total if self.loss is None else total + self.loss, self.sides)

    def centred(self, x: jax.Array) -> jax.Array:
        """x without its mean over each water body."""
        return x - self._means(self.area * x) if any(self.free) else x

    def balanced(self, r: jax.Array) -> jax.Array:
        """r, an integral over cells, minus the share of each water body's total: the transpose of `centred`."""
        return r - self.area * self._means(r) if any(self.free) else r

    def _means(self, r):
        """The total of r in each water body over its area, in the cells of the body; 0 where no constant is free."""
        mean = self.communicator.replicated(self.totals(r)) / self.totals(self.area) * np.asarray(self.free, r.dtype)
        water = (self.area > 0).astype(r.dtype)
        return water * mean[0] if self.basin is None else water * mean[jnp.maximum(self.basin - 1, 0)]

    def totals(self, r: jax.Array) -> jax.Array:
        """The sums of r over the water bodies, on every rank."""
        if self.basin is None:
            return self.communicator.sum(jnp.sum(r).reshape(1))
        sums = jax.ops.segment_sum(r.ravel(), jnp.maximum(self.basin.ravel() - 1, 0), len(self.free))
        return self.communicator.sum(sums)


def fluxes(across_x: jax.Array, across_y: jax.Array, loss: jax.Array | None, wide: jax.Array) -> jax.Array:
    """The net flux into each cell, from values with one ghost cell on each side."""
    x, y = wide[1:-1], wide[:, 1:-1]
    in_x, in_y = across_x * (x[:, 1:] - x[:, :-1]), across_y * (y[1:] - y[:-1])
    total = (in_x[:, 1:] - in_x[:, :-1]) + (in_y[1:] - in_y[:-1])
    return total if loss is None else total - loss * wide[1:-1, 1:-1]


def widened(x: jax.Array, sides: Sides, communicator: Communicator) -> jax.Array:
    """x with one ghost cell on each side, as an array in memory. It has no derivatives."""
    padded = lax.dynamic_update_slice(jnp.zeros((x.shape[0] + 2, x.shape[1] + 2), x.dtype), x, (1, 1))
    (wide,) = refresh([padded], 1, sides, communicator)
    return materialized(wide, sides)


def materialized(x: jax.Array, sides: Sides) -> jax.Array:
    """x as an array in memory.

    XLA on CPUs would fuse x into every stencil that reads it, and compute it again for each neighbour. The carry of a
    while loop is computed once, even if the loop makes no iteration, and XLA cannot prove that it makes none. On a GPU
    the host would read the loop's condition at each use, and there a barrier is enough.
    """
    return _materialized.bind(x, sides.linked)


def _in_loop(x, linked):
    never = (linked[0] < 0).astype(int)
    return lax.while_loop(lambda loop: loop[0] < never, lambda loop: (loop[0] + 1, -loop[1]), (0, x))[1]


def _behind_barrier(x, linked):
    return lax.optimization_barrier(x)


def _batched(operands, axes):
    x, linked = (y if at is None else jnp.moveaxis(y, at, 0) for y, at in zip(operands, axes))
    return _materialized.bind(x, linked if axes[1] is None else linked[0]), None if axes[0] is None else 0


_materialized = Primitive("materialized")
_materialized.def_impl(jax.jit(_materialized.bind))
_materialized.def_abstract_eval(lambda x, linked: ShapedArray(x.shape, x.dtype))
batching.primitive_batchers[_materialized] = _batched
mlir.register_lowering(_materialized, mlir.lower_fun(_behind_barrier, multiple_results=False))
mlir.register_lowering(_materialized, mlir.lower_fun(_in_loop, multiple_results=False), platform="cpu")


# -- assembling -------------------------------------------------------------------------------------------------------


def assemble(domain: Domain, coefficients: Coefficients) -> Stencil:
    """The Stencil of an equation."""
    tile, (rows, columns) = domain.tile, domain.tile.shape
    h, dtype = tile.halo, tile.metrics["area_h"].dtype
    sides = replace(tile.sides, open_sides=(), open=jnp.zeros_like(tile.sides.open))
    own, edges = slice(h, h + rows), slice(h - 1, h + rows)
    c_x, c_y = _on_faces(coefficients.c, sides, domain.communicator, dtype)
    open_x = tile.wet_u[own, h - 1 : h + columns].astype(dtype)
    open_y = tile.wet_v[edges, h : h + columns].astype(dtype)
    at = lambda name, where: m if jnp.ndim(m := tile.metrics[name]) == 0 else m[where]  # noqa: E731
    across_x = c_x * open_x * (at("dy_u", own) * safe_inverse(at("dx_u", own)))
    across_y = c_y * open_y * (at("dx_v", edges) * safe_inverse(at("dy_v", edges)))
    wet = without_padding(tile.wet[own, h : h + columns].astype(dtype), sides)
    area = wet * at("area_h", own)
    loss = None if coefficients.screening is None else jnp.asarray(coefficients.screening, dtype) * area
    for side in coefficients.dirichlet:
        along_x = side in ("west", "east")
        faces, length = (c_x, at("dy_h", own)) if along_x else (c_y, at("dx_v", edges))
        c = _along_wall(coefficients.c, faces, side, dtype)
        lost = wet * _through_wall(side, sides, tile.shape, c, length, at("dx_h" if along_x else "dy_h", own))
        loss = lost if loss is None else loss + lost
    across_x, across_y = _repeated(across_x, sides, "x"), _repeated(across_y, sides, "y")
    free = domain.free(coefficients)
    return Stencil(across_x, across_y, loss, area, sides, domain.basin, domain.communicator, free)


def _on_faces(c, sides, communicator, dtype):
    """c on the faces along x, (my, mx + 1), and along y, (my + 1, mx); numbers stay numbers."""
    if isinstance(c, (tuple, list)):
        x, y = exchange([jnp.asarray(a, dtype) for a in c], 1, sides, communicator)
        return x[1:-1, :-1], y[:-1, 1:-1]
    c = jnp.asarray(c, dtype)
    if c.ndim == 0:
        return c, c
    (wide,) = exchange([c], 1, sides, communicator)
    return 0.5 * (wide[1:-1, 1:] + wide[1:-1, :-1]), 0.5 * (wide[1:, 1:-1] + wide[:-1, 1:-1])


def _along_wall(c, c_faces, side, dtype):
    """c between the cells along a side of the domain and the wall, a line of values.

    It is that of the cells. With a pair on faces it is that of the wall's face; in the west and south, where arrays
    have no such face, it is that of the cells' other face.
    """
    low, axis = side in ("west", "south"), 1 if side in ("west", "east") else 0
    if isinstance(c, (tuple, list)):
        return lax.slice_in_dim(c_faces, 1, 2, axis=axis) if low else lax.slice_in_dim(c_faces, -1, None, axis=axis)
    c = jnp.asarray(c, dtype)
    if c.ndim == 0:
        return c
    return lax.slice_in_dim(c, 0, 1, axis=axis) if low else lax.slice_in_dim(c, -1, None, axis=axis)


def _through_wall(side, sides, shape, c, length, distance):
    """c length / distance from the cells along a side of the domain to the wall."""
    k = SIDES.index(side)
    low, axis = side in ("west", "south"), 1 if side in ("west", "east") else 0
    edge = jnp.arange(shape[axis]) == (0 if low else shape[axis] - 1)
    wall = edge.astype(c.dtype) * (1.0 - sides.linked[k]).astype(c.dtype)
    if axis == 0 and jnp.ndim(length):  # a column of faces
        length = length[:-1] if low else length[1:]
    return 2.0 * c * (wall[None] if axis else wall[:, None]) * length / distance


def _repeated(across, sides, axis):
    """`across` with the value at the low side of the first cell repeated beyond its padding, for coarser grids."""
    padded, place = sides.padded(axis), {"y": 0, "x": 1}[axis]
    if padded is None:
        return across
    first, second = (lax.slice_in_dim(across, k, k + 1, axis=place) for k in (0, 1))
    rest = lax.slice_in_dim(across, 1, None, axis=place)
    return jnp.concatenate([jnp.where(padded, second, first), rest], axis=place)
