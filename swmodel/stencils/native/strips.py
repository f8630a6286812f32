"""Strips of large arrays, in place: they are pasted, cut out, read and added.

    paste(arrays, strips, places)   the arrays with these strips at these places; for each place a stack, one an array
    cut(arrays, places, shapes)     (the arrays with zeros there, what was there): each other's transpose
    read(arrays, places, shapes)    (the arrays, copies of strips)
    add(arrays, strips, places)     the arrays plus strips at these places: each other's transpose
    read_cells, write_cells         read and paste with all strips in one row

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

from .library import ADD, CUT, PASTE, READ, StripOfArray, numbers
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
    arrays: Sequence[jax.Array], values: jax.Array, strips: Sequence[Sequence[tuple[tuple, Shape]]]
) -> list[jax.Array]:
    """`paste` of other strips into each of the arrays.

    Args:
        arrays: as of `paste`.
        values: (..., cells) of all strips, one after the other.
        strips: (place, shape) of each of an array's strips, for each array.
    """
    places = [place for of_array in strips for place, _ in of_array]
    group = tuple((k, tuple(shape)) for k, of_array in enumerate(strips) for _, shape in of_array)
    return pasted.bind(_as_array(places), *arrays, values, groups=(group,))


def read_cells(arrays: Sequence[jax.Array], strips: Sequence[tuple[tuple, Shape]]) -> tuple[list[jax.Array], jax.Array]:
    """`read` whose strips, (place, shape) of each, follow each other in one array (..., n, cells)."""
    n, group = len(arrays), tuple((k, tuple(shape)) for k in range(len(arrays)) for _, shape in strips)
    *found, values = strips_read.bind(_as_array([place for place, _ in strips] * n), *arrays, groups=(group,))
    return found, values.reshape(*values.shape[:-1], n, -1)


def _write(primitive, arrays, strips, places):
    flat = [x.reshape(*x.shape[:-3], -1) for x in strips]
    groups = _stacks(len(arrays), [x.shape[-2:] for x in strips])
    return primitive.bind(_repeated(places, len(arrays)), *arrays, *flat, groups=groups)


def _take(primitive, arrays, places, shapes):
    n = len(arrays)
    found = primitive.bind(_repeated(places, n), *arrays, groups=_stacks(n, shapes))
    return found[:n], [x.reshape(*x.shape[:-1], n, *s) for x, s in zip(found[n:], shapes, strict=True)]


def _stacks(n, shapes):
    """For each place a group, with a strip of this shape of each of n arrays."""
    return tuple(tuple((k, tuple(shape)) for k in range(n)) for shape in shapes)


def _repeated(places, n):
    """The places, each n times."""
    return _as_array([place for place in places for _ in range(n)])


def _as_array(places):
    if all(isinstance(n, (int, np.integer)) for place in places for n in place):
        return jnp.asarray(np.asarray(places, np.int32).reshape(-1, 2))
    return jnp.stack([jnp.stack([jnp.asarray(n, jnp.int32) for n in place]) for place in places])


# -- strips: what is fixed are the places (n, 2), and a group is (number of its array, shape) of each strip ------------


def _pieces(groups):
    """(number of the group, number of the array, first cell in the group's values, shape) of each strip."""
    for number, group in enumerate(groups):
        first = 0
        for array, shape in group:
            yield number, array, first, shape
            first += math.prod(shape)


def _strip_of(values, first, shape):
    return values[..., first : first + math.prod(shape)].reshape(*values.shape[:-1], *shape)


def _start(places, k, x):
    return (*[jnp.int32(0)] * (x.ndim - 2), places[k, 0], places[k, 1])


def _sliced(x, places, k, shape):
    """The strip at place number k."""
    return jax.lax.dynamic_slice(x, _start(places, k, x), (*x.shape[:-2], *shape))


def _put(x, strip, places, k):
    return jax.lax.dynamic_update_slice(x, strip, _start(places, k, x))


def _joined(strips, groups):
    """The values (..., cells) of each group, of its strips (..., rows, columns)."""
    flat = iter([x.reshape(*x.shape[:-2], -1) for x in strips])
    return [jnp.concatenate(list(itertools.islice(flat, len(group))), -1) for group in groups]


def _paste_plainly(places, *operands, groups):
    arrays, values = list(operands[: -len(groups)]), operands[-len(groups) :]
    for k, (number, n, first, shape) in enumerate(_pieces(groups)):
        arrays[n] = _put(arrays[n], _strip_of(values[number], first, shape), places, k)
    return arrays


def _add_plainly(places, *operands, groups):
    arrays, values = list(operands[: -len(groups)]), operands[-len(groups) :]
    for k, (number, n, first, shape) in enumerate(_pieces(groups)):
        sums = _strip_of(values[number], first, shape) + _sliced(arrays[n], places, k, shape)
        arrays[n] = _put(arrays[n], sums, places, k)
    return arrays


def _cut_plainly(places, *arrays, groups):
    arrays, strips = list(arrays), []
    for k, (_, n, _, shape) in reversed(list(enumerate(_pieces(groups)))):
        strips.insert(0, _sliced(arrays[n], places, k, shape))
        arrays[n] = _put(arrays[n], jnp.zeros_like(strips[0]), places, k)
    return [*arrays, *_joined(strips, groups)]


def _read_plainly(places, *arrays, groups):
    strips = [_sliced(arrays[n], places, k, shape) for k, (_, n, _, shape) in enumerate(_pieces(groups))]
    values = _joined(strips, groups)
    return jax.lax.optimization_barrier([*arrays, *values])  # else XLA copies an array that is overwritten afterwards


def _plan_of_strips(groups):
    strips = (StripOfArray(array, number, first, *shape) for number, array, first, shape in _pieces(groups))
    return [n for strip in strips for n in numbers(strip)]


_pair = functools.partial(
    declare_pair, value_shape=lambda group: (sum(math.prod(shape) for _, shape in group),), plan=_plan_of_strips
)
pasted, cut_out = _pair(("paste", "cut"), (_paste_plainly, _cut_plainly), (PASTE, CUT))
strips_added, strips_read = _pair(("add_strips", "read_strips"), (_add_plainly, _read_plainly), (ADD, READ))
