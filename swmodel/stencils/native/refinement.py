"""From the cells of a grid to cells that are a whole number of times smaller, and back.

    interpolate(x, ...)             the values of cells at smaller ones
    block_sums(arrays, ...)         (the arrays, weighted sums over the smaller cells in each larger one)

Interpolation is linear. At a distance a of x_i, in cells, the value is (1 - |a|) x_i + |a| x_{i-1 or i+1}, and constant
beyond the outermost cells. XLA computes the indices of neighbours anew for each value, and takes several times as long.
Sums over blocks of 3 x 3 cells are strided slices for XLA, for which it makes several passes over the arrays.
"""

import dataclasses
import functools
import math
from collections.abc import Sequence
from typing import Any, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np

from .library import ADD_TO_BLOCKS, BLOCK_SUMS, INTERPOLATE
from .primitives import declare_linear, declare_pair

Shape: TypeAlias = tuple[int, int]
Box: TypeAlias = tuple[Shape, Shape, Shape]
"""(rows, columns) of a box of old cells, the first of its new ones that is computed, the (rows, columns) of these."""


def interpolate(x: jax.Array, ratio: int, fields: Sequence[tuple[tuple[bool, bool], Sequence[Box]]]) -> jax.Array:
    """Values in cells that are `ratio` times smaller, (..., new cells): those of each field, box after box.

    Args:
        x: floats (..., n, old cells): the rows of each box one after the other.
        ratio: the number of new cells along a side of an old one.
        fields: for each of the n fields whether its values lie on faces along y, and along x, of old and new cells,
            those at their high ends, instead of at their centres; and its Boxes, whose old cells are those of all.
    """
    return interpolated(x, ratio=ratio, fields=tuple((tuple(faces), tuple(boxes)) for faces, boxes in fields))


def _plainly(x, *, ratio, fields):
    found = []
    for k, (faces, boxes) in enumerate(fields):
        begin = 0
        for old, first, new in boxes:
            end = begin + math.prod(old)
            y = x[..., k, begin:end].reshape(*x.shape[:-2], *old)
            for axis, *of_axis in zip((-2, -1), old, faces, first, new, strict=True):
                y = _along(y, axis, *_points(ratio, *of_axis))
            found.append(y.reshape(*x.shape[:-2], -1))
            begin = end
    return jnp.concatenate(found, axis=-1)


def _points(ratio, n, on_face, first, count):
    """(cells, their neighbours, the weights of these) of `count` new cells along an axis of n old ones."""
    k = np.arange(first, first + count)
    at = (k % ratio + 1.0) / ratio - 1.0 if on_face else (k % ratio + 0.5) / ratio - 0.5
    cell = k // ratio
    return cell, np.clip(cell + np.where(at < 0, -1, 1), 0, n - 1), np.abs(at)


def _along(x, axis, cell, following, weight):
    weight = jnp.asarray(weight, x.dtype).reshape((1,) * (x.ndim - 2) + ((-1, 1) if axis == -2 else (1, -1)))
    return (1 - weight) * jnp.take(x, cell, axis) + weight * jnp.take(x, following, axis)


def _old_shape(y, fields):
    return (*y.shape[:-1], len(fields), sum(math.prod(old) for old, *_ in fields[0][1]))


def _gathered_plainly(y, **options):
    x = jax.ShapeDtypeStruct(_old_shape(y, options["fields"]), y.dtype)
    return jax.linear_transpose(lambda x: _plainly(x, **options), x)(y)[0]


def _natively(x, *, ratio, fields, back):
    plan = [back, ratio, len(fields), len(fields[0][1])]
    plan += [n for faces, boxes in fields for n in (*faces, *(n for box in boxes for pair in box for n in pair))]
    new = sum(math.prod(box[2]) for _, boxes in fields for box in boxes)
    result = jax.ShapeDtypeStruct(_old_shape(x, fields) if back else (*x.shape[:-2], new), x.dtype)
    return jax.ffi.ffi_call(INTERPOLATE, result)(x, plan=np.array(plan, np.int64))


interpolated: Any = declare_linear(
    "interpolate",
    _plainly,
    functools.partial(_natively, back=False),
    (0, 0),
    lambda y, shape, **options: gathered(y, **options),
)
gathered: Any = declare_linear(
    "interpolate_back",
    _gathered_plainly,
    functools.partial(_natively, back=True),
    (0, 0),
    lambda x, shape, **options: interpolated(x, **options),
)


# -- sums over blocks: what is fixed are the weights (m, rows, columns), and the only group is a Blocks ----------------


@dataclasses.dataclass(frozen=True)
class Blocks:
    """Blocks of cells in a box, and what is summed over each.

    Attributes:
        corner: (row, column) of the box's first cell in the arrays.
        shape: (rows, columns) of the box.
        ratio: the number of cells along a side of a block.
        lead: (rows, columns) of the first block that lie before the box.
        planes: for each array the number of its weights, and whether the sum is that of the last row of a block alone,
            and of the last column.
    """

    corner: Shape
    shape: Shape
    ratio: int
    lead: Shape
    planes: tuple[tuple[int, tuple[bool, bool]], ...]

    def moved(self, origin: Shape) -> "Blocks":
        """The same Blocks of arrays whose cell `origin` (row, column) was their first one."""
        row, column = self.corner
        return dataclasses.replace(self, corner=(row + origin[0], column + origin[1]))

    @property
    def count(self) -> Shape:
        """(rows, columns) of blocks, those that lie in the box in part included."""
        down, across = (-(-(before + n) // self.ratio) for before, n in zip(self.lead, self.shape, strict=True))
        return down, across


def block_sums(arrays: Sequence[jax.Array], weights: jax.Array, blocks: Blocks) -> tuple[list[jax.Array], jax.Array]:
    """(the arrays, sums of weights times their cells over each of the Blocks, (..., n, *blocks.count)).

    Use the arrays that are returned in place of the arguments, as of `read`.

    Args:
        arrays: list of n arrays (..., ny, nx), of one type.
        weights: (m, *blocks.shape), constants.
        blocks: the Blocks.
    """
    *found, sums = summed.bind(jax.lax.stop_gradient(weights), *arrays, groups=(blocks,))
    return found, sums


def _sums_plainly(weights, *arrays, groups):
    (blocks,) = groups
    (j, i), (rows, columns), sums = blocks.corner, blocks.shape, []
    for array, (number, last) in zip(arrays, blocks.planes, strict=True):
        x = array[..., j : j + rows, i : i + columns]
        x = jnp.broadcast_to(weights[number], x.shape) * x
        margins = [(before, -(before + n) % blocks.ratio) for before, n in zip(blocks.lead, blocks.shape, strict=True)]
        x = jnp.pad(x, [(0, 0)] * (x.ndim - 2) + margins)
        x = x.reshape(*x.shape[:-2], blocks.count[0], blocks.ratio, blocks.count[1], blocks.ratio)
        for axis, only in zip((-3, -1), last, strict=True):
            x = jax.lax.slice_in_dim(x, (blocks.ratio - 1) * only, blocks.ratio, axis=axis + x.ndim)
        sums.append(x.sum((-3, -1)))
    return jax.lax.optimization_barrier([*arrays, jnp.stack(sums, axis=-3)])


def _spread_plainly(weights, *operands, groups):
    *arrays, sums = operands
    like = [jax.ShapeDtypeStruct(x.shape, x.dtype) for x in arrays]
    back = jax.linear_transpose(lambda *arrays: _sums_plainly(weights, *arrays, groups=groups)[-1], *like)
    return [x + y for x, y in zip(arrays, back(sums), strict=True)]


def _plan_of_blocks(groups):
    (blocks,) = groups
    return [*blocks.corner, blocks.ratio, *blocks.lead, *(n for number, last in blocks.planes for n in (number, *last))]


sums_added, summed = declare_pair(
    ("add_to_blocks", "block_sums"),
    (_spread_plainly, _sums_plainly),
    (ADD_TO_BLOCKS, BLOCK_SUMS),
    lambda blocks: (len(blocks.planes), *blocks.count),
    _plan_of_blocks,
)
