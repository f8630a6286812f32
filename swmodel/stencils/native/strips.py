"""Strips of large arrays, in place: they are pasted, cut out, read and added.

    paste(arrays, strips, places)   the arrays with these strips at these places; for each place a stack, one an array
    cut(arrays, places, shapes)     (the arrays with zeros there, what was there): each other's transpose
    read(arrays, places, shapes)    (the arrays, copies of strips)
    add(arrays, strips, places)     the arrays plus strips at these places: each other's transpose
    read_cells, write_cells         read and paste with all strips of an array in one row

XLA on a CPU fuses two updates of one array into a loop that copies all of it to change two rows. These calls change the
rows alone: without them a step with open boundaries takes 1.7 times as long (docs/developers/benchmarks.md).
"""

import functools
import itertools
import math
from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np

from .library import ADD, CUT, PASTE, READ, StripOfStack, numbers
from .primitives import declare_pair

Shape = tuple[int, int]


def paste(arrays: Sequence[jax.Array], strips: Sequence[jax.Array], places: Sequence[tuple]) -> list[jax.Array]:
    """The arrays with strips in them.

    Args:
        arrays: list of n arrays (..., ny, nx), of one shape and type.
        strips: for each place (..., n, rows, columns).
        places: (row, column) of each first cell, numbers or traced ones.

    Returns:
        A list of arrays. Where strips overlap, the later one is written last.
    """
    return _write(pasted, arrays, strips, places)


def cut(
    arrays: Sequence[jax.Array], places: Sequence[tuple], shapes: Sequence[Shape]
) -> tuple[list[jax.Array], list[jax.Array]]:
    """(the arrays with zeros in strips of `shapes` at `places`, for each place the stack of strips that were there).

    A cell of several strips belongs to the last one, and is 0 in the others.
    """
    return _take(cut_out, arrays, places, shapes)


def read(
    arrays: Sequence[jax.Array], places: Sequence[tuple], shapes: Sequence[Shape]
) -> tuple[list[jax.Array], list[jax.Array]]:
    """(the arrays, for each place the copies of the strips of `shapes` there, (..., n, rows, columns)).

    Use the arrays that are returned in place of the arguments. The cotangents of the strips are then added to that of
    the array in place. The transpose of a slice is an array of zeros around the strip, and a sum of two whole arrays.
    """
    return _take(strips_read, arrays, places, shapes)


def add(arrays: Sequence[jax.Array], strips: Sequence[jax.Array], places: Sequence[tuple]) -> list[jax.Array]:
    """The arrays plus strips at places; the arguments are those of `paste`."""
    return _write(strips_added, arrays, strips, places)


def write_cells(
    arrays: Sequence[jax.Array], values: jax.Array, places: Sequence[tuple], shapes: Sequence[Shape]
) -> list[jax.Array]:
    """`paste` of strips whose cells follow each other in `values`, (..., n, cells)."""
    return pasted.bind(_as_array(places), *arrays, values, groups=(tuple(shapes),))


def read_cells(
    arrays: Sequence[jax.Array], places: Sequence[tuple], shapes: Sequence[Shape]
) -> tuple[list[jax.Array], jax.Array]:
    """`read` whose strips follow each other in one array (..., n, cells)."""
    *found, values = strips_read.bind(_as_array(places), *arrays, groups=(tuple(shapes),))
    return found, values


def _write(primitive, arrays, strips, places):
    flat = [x.reshape(*x.shape[:-2], -1) for x in strips]
    return primitive.bind(_as_array(places), *arrays, *flat, groups=tuple((x.shape[-2:],) for x in strips))


def _take(primitive, arrays, places, shapes):
    found = primitive.bind(_as_array(places), *arrays, groups=tuple((tuple(shape),) for shape in shapes))
    strips = found[len(arrays) :]
    return found[: len(arrays)], [x.reshape(*x.shape[:-1], *shape) for x, shape in zip(strips, shapes, strict=True)]


def _as_array(places):
    if all(isinstance(n, (int, np.integer)) for place in places for n in place):
        return jnp.asarray(np.asarray(places, np.int32).reshape(-1, 2))
    return jnp.stack([jnp.stack([jnp.asarray(n, jnp.int32) for n in place]) for place in places])


# -- strips: what is fixed are the places (n, 2), and a group is the shapes of its strips ------------------------------


def _starts(places, k, ndim):
    return (*[jnp.int32(0)] * (ndim - 2), places[k, 0], places[k, 1])


def _pieces(groups):
    """(number of the group, first cell in its values, shape) of each strip."""
    for number, shapes in enumerate(groups):
        first = 0
        for shape in shapes:
            yield number, first, shape
            first += shape[0] * shape[1]


def _strip_of(values, first, shape):
    """The stack (..., n, rows, columns) in values (..., n, cells)."""
    return values[..., first : first + shape[0] * shape[1]].reshape(*values.shape[:-1], *shape)


def _pairs(arrays, strips):
    """Each array with its strip."""
    return zip(arrays, jnp.moveaxis(strips, -3, 0), strict=True)


def _sliced(arrays, places, k, shape):
    """The strips at place number k."""
    strips = [jax.lax.dynamic_slice(a, _starts(places, k, a.ndim), (*a.shape[:-2], *shape)) for a in arrays]
    return jnp.stack(strips, axis=-3)


def _put(arrays, strips, places, k):
    return [jax.lax.dynamic_update_slice(a, x, _starts(places, k, a.ndim)) for a, x in _pairs(arrays, strips)]


def _joined(strips, groups):
    """The values (..., n, cells) of each group, of its strips (..., n, rows, columns)."""
    flat = iter([x.reshape(*x.shape[:-2], -1) for x in strips])
    return [jnp.concatenate(list(itertools.islice(flat, len(shapes))), -1) for shapes in groups]


def _paste_plainly(places, *operands, groups):
    arrays, values = operands[: -len(groups)], operands[-len(groups) :]
    for k, (number, first, shape) in enumerate(_pieces(groups)):
        arrays = _put(arrays, _strip_of(values[number], first, shape), places, k)
    return arrays


def _add_plainly(places, *operands, groups):
    arrays, values = operands[: -len(groups)], operands[-len(groups) :]
    for k, (number, first, shape) in enumerate(_pieces(groups)):
        sums = _strip_of(values[number], first, shape) + _sliced(arrays, places, k, shape)
        arrays = _put(arrays, sums, places, k)
    return arrays


def _cut_plainly(places, *arrays, groups):
    strips = []
    for k, (_, _, shape) in reversed(list(enumerate(_pieces(groups)))):
        strips[:0] = [_sliced(arrays, places, k, shape)]
        arrays = _put(arrays, jnp.zeros_like(strips[0]), places, k)
    return [*arrays, *_joined(strips, groups)]


def _read_plainly(places, *arrays, groups):
    strips = [_sliced(arrays, places, k, shape) for k, (_, _, shape) in enumerate(_pieces(groups))]
    values = _joined(strips, groups)
    return jax.lax.optimization_barrier([*arrays, *values])  # else XLA copies an array that is overwritten afterwards


def _plan_of_strips(groups):
    return [n for number, first, shape in _pieces(groups) for n in numbers(StripOfStack(number, first, *shape))]


_pair = functools.partial(
    declare_pair, value_shape=lambda shapes: (sum(math.prod(shape) for shape in shapes),), plan=_plan_of_strips
)
pasted, cut_out = _pair(("paste", "cut"), (_paste_plainly, _cut_plainly), (PASTE, CUT))
strips_added, strips_read = _pair(("add_strips", "read_strips"), (_add_plainly, _read_plainly), (ADD, READ))
