"""Uplift by many faults: exact in cells near each fault, and interpolated from a lattice of points elsewhere.

A fault's displacement is smooth away from it. So it is evaluated at every cell of a block around the fault only, and at
the nodes of a lattice of every `spacing`-th cell everywhere; the nodes of all faults are added up before they are
interpolated to the cells, by cubic polynomials in x and y:

    uplift = I sum_i s_i U_i(nodes) + sum_i s_i (U_i(cells) - I U_i(nodes))   in the block of fault i

The block reaches REACH nodes beyond a fault, where the error of I is below 3 (spacing / distance)^4 of what that fault
lifts, about 2e-3. n faults on N cells need about n (N / spacing^2 + (2 REACH spacing)^2) points in place of n N.
"""

import dataclasses
import math

import jax
import jax.numpy as jnp
import numpy as np

__all__ = ["LEAST", "Lattice", "cubic_weights"]

REACH = 6  # nodes from a fault to the end of its block
LEAST = 10**9  # points, of all faults in all cells, from which a lattice is used


def cubic_weights(count: int, spacing: int) -> np.ndarray:
    """(count, count / spacing + 3): from nodes at cells -spacing, 0, spacing, ... to the cells 0, 1, ..., count - 1."""
    cells = np.arange(count)
    t = cells % spacing / spacing
    at = [t + 1, t, t - 1, t - 2]  # distances from the four nodes around
    factors = zip((-1 / 6, 1 / 2, -1 / 2, 1 / 6), range(4))
    weights = [factor * np.prod([x for m, x in enumerate(at) if m != k], axis=0) for factor, k in factors]
    matrix = np.zeros((count, count // spacing + 3))
    for k, column in enumerate(weights):
        matrix[cells, cells // spacing + k] = column
    return matrix


@dataclasses.dataclass(frozen=True)
class Lattice:
    """The nodes of a patch of cells.

    Attributes:
        spacing: cells from one node to the next.
        shape: of the patch.
        block: rows and columns of the cells around a fault's reference point, multiples of the spacing.
    """

    spacing: int
    shape: tuple[int, int]
    block: tuple[int, int]

    @classmethod
    def of(cls, shape: tuple[int, int], reach: tuple[int, int], faults: int) -> "Lattice | None":
        """The Lattice of a patch with so many faults that reach so many cells; None where it would save little."""
        cells = math.prod(shape)
        spacing = int((cells / (2 * REACH) ** 2) ** 0.25)
        if spacing < 3 or faults * cells < LEAST:
            return None
        rows, columns = (spacing * (math.ceil(size / spacing) + 2 * REACH + 1) for size in reach)
        lattice = cls(spacing, shape, (rows, columns))
        return lattice if 2 * lattice.points < cells else None

    @property
    def points(self) -> int:
        """At which the displacement by one fault is evaluated, apart from those of refined cells."""
        nodes = (math.prod(n // self.spacing + 3 for n in shape) for shape in (self.padded, self.block))
        return sum(nodes) + math.prod(self.block)

    @property
    def padded(self) -> tuple[int, int]:
        """The shape of the patch, with cells beyond it up to a multiple of the spacing."""
        rows, columns = (self.spacing * math.ceil(max(n, b) / self.spacing) for n, b in zip(self.shape, self.block))
        return rows, columns

    def corner(self, corner: tuple[float | jax.Array, float | jax.Array]) -> tuple[jax.Array, jax.Array]:
        """The corner of a block at a node, for one near it."""
        row, column = (
            jnp.clip((k + self.spacing // 2) // self.spacing, 0, (n - b) // self.spacing) * self.spacing
            for k, n, b in zip(corner, self.padded, self.block)
        )
        return row, column

    def to_cells(self, values: jax.Array, shape: tuple[int, int]) -> jax.Array:
        """Values (..., ny, nx) in cells from those at nodes of them (..., ny / spacing + 3, nx / spacing + 3)."""
        to_y, to_x = (jnp.asarray(cubic_weights(n, self.spacing), values.dtype) for n in shape)
        return jnp.einsum("ji,...ik,lk->...jl", to_y, values, to_x)
