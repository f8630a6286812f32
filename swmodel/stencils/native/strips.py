"""Parts of large arrays: strips that are pasted, cut out, read and added in place, and planes at smaller cells.

    paste(arrays, strips, places)   the arrays with these strips at these places; for each place a stack, one an array
    cut(arrays, places, shapes)     (the arrays with zeros there, what was there): each other's transpose
    read(arrays, places, shapes)    (the arrays, copies of strips)
    add(arrays, strips, places)     the arrays plus strips at these places: each other's transpose
    interpolate(planes, ...)        their values at cells that are a whole number of times smaller along both axes

XLA on a CPU fuses two updates of one array into a loop that copies all of it to change two rows. These calls change the
rows alone: without them a step with open boundaries takes 1.7 times as long (docs/developers/benchmarks.md).

Interpolation is linear. At a distance a of x_i, in cells, the value is (1 - |a|) x_i + |a| x_{i-1 or i+1}, and constant
beyond the outermost cells. XLA computes the indices of neighbours anew for each value, and takes several times as long.
"""

import functools
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import ShapedArray
from jax.interpreters import ad

from .library import ADD, CUT, INTERPOLATE, PASTE, READ
from .primitives import declare, declare_linear, in_place


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
    arrays: Sequence[jax.Array], places: Sequence[tuple], shapes: Sequence[tuple[int, int]]
) -> tuple[list[jax.Array], list[jax.Array]]:
    """(the arrays with zeros in strips of `shapes` at `places`, for each place the stack of strips that were there).

    A cell of several strips belongs to the last one, and is 0 in the others.
    """
    return _take(cut_out, arrays, places, shapes)


def read(
    arrays: Sequence[jax.Array], places: Sequence[tuple], shapes: Sequence[tuple[int, int]]
) -> tuple[list[jax.Array], list[jax.Array]]:
    """(the arrays, for each place the copies of the strips of `shapes` there, (..., n, rows, columns)).

    Use the arrays that are returned in place of the arguments. The cotangents of the strips are then added to that of
    the array in place. The transpose of a slice is an array of zeros around the strip, and a sum of two whole arrays.
    """
    return _take(strips_read, arrays, places, shapes)


def add(arrays: Sequence[jax.Array], strips: Sequence[jax.Array], places: Sequence[tuple]) -> list[jax.Array]:
    """The arrays plus strips at places; the arguments are those of `paste`."""
    return _write(strips_added, arrays, strips, places)


def _write(primitive, arrays, strips, places):
    return primitive.bind(_as_array(places), *arrays, *strips, count=len(arrays))


def _take(primitive, arrays, places, shapes):
    found = primitive.bind(_as_array(places), *arrays, shapes=tuple(map(tuple, shapes)))
    return found[: len(arrays)], found[len(arrays) :]


def _as_array(places):
    if all(isinstance(n, (int, np.integer)) for place in places for n in place):
        return jnp.asarray(np.asarray(places, np.int32))
    return jnp.stack([jnp.stack([jnp.asarray(n, jnp.int32) for n in place]) for place in places])


def _starts(places, k, ndim):
    return (*[jnp.int32(0)] * (ndim - 2), places[k, 0], places[k, 1])


def _paste_plainly(places, *operands, count):
    arrays = operands[:count]
    for k, strips in enumerate(operands[count:]):
        arrays = [jax.lax.dynamic_update_slice(a, x, _starts(places, k, a.ndim)) for a, x in _pairs(arrays, strips)]
    return arrays


def _pairs(arrays, strips):
    """Each array with its strip."""
    return zip(arrays, jnp.moveaxis(strips, -3, 0), strict=True)


def _sliced(arrays, places, k, shape):
    """The strips at place number k."""
    strips = [jax.lax.dynamic_slice(a, _starts(places, k, a.ndim), (*a.shape[:-2], *shape)) for a in arrays]
    return jnp.stack(strips, axis=-3)


def _cut_plainly(places, *arrays, shapes):
    stacks = []
    for k, shape in reversed(list(enumerate(shapes))):
        stacks[:0] = [_sliced(arrays, places, k, shape)]
        zeros = jnp.zeros(stacks[0].shape, stacks[0].dtype)
        arrays = [jax.lax.dynamic_update_slice(a, x, _starts(places, k, a.ndim)) for a, x in _pairs(arrays, zeros)]
    return [*arrays, *stacks]


def _read_plainly(places, *arrays, shapes):
    strips = [_sliced(arrays, places, k, shape) for k, shape in enumerate(shapes)]
    return jax.lax.optimization_barrier([*arrays, *strips])  # else XLA copies an array that is overwritten afterwards


def _add_plainly(places, *operands, count):
    arrays = operands[:count]
    for k, strips in enumerate(operands[count:]):
        sums = strips + _sliced(arrays, places, k, strips.shape[-2:])
        arrays = [jax.lax.dynamic_update_slice(a, x, _starts(places, k, a.ndim)) for a, x in _pairs(arrays, sums)]
    return arrays


def _written_natively(target, *operands, count):
    return in_place(target, operands, 1, count)


def _taken_natively(target, *operands, shapes):
    strips = [jax.ShapeDtypeStruct(x.shape, x.dtype) for x in _taken_shapes(*operands, shapes=shapes)]
    return in_place(target, operands, 1, len(operands) - 1, strips[len(operands) - 1 :])


def _written_shapes(places, *operands, count):
    return [ShapedArray(x.shape, x.dtype) for x in operands[:count]]


def _taken_shapes(places, *arrays, shapes):
    lead, dtype = (*arrays[0].shape[:-2], len(arrays)), arrays[0].dtype
    return [*(ShapedArray(x.shape, dtype) for x in arrays), *(ShapedArray((*lead, *shape), dtype) for shape in shapes)]


def _tangents(primitive, primals, tangents, **parameters):
    """All are linear in all but the places."""
    slopes = [ad.instantiate_zeros(t) for t in tangents[1:]]
    return primitive.bind(*primals, **parameters), primitive.bind(primals[0], *slopes, **parameters)


def _batch(primitive, operands, axes, **parameters):
    """Members come first, and go through the same call."""
    if axes[0] is not None:
        raise NotImplementedError("paste, cut: every member has its own places; give all the same.")
    members = next(x.shape[axis] for x, axis in zip(operands, axes) if axis is not None)
    moved = [
        jnp.broadcast_to(x, (members, *x.shape)) if axis is None else jnp.moveaxis(x, axis, 0)
        for x, axis in zip(operands[1:], axes[1:])
    ]
    found = primitive.bind(operands[0], *moved, **parameters)
    return found, [0] * len(found)


def _written_back(take, cotangents, places, *operands, count):
    shapes = tuple((x.aval if ad.is_undefined_primal(x) else x).shape[-2:] for x in operands[count:])
    found = take.bind(places, *map(ad.instantiate_zeros, cotangents), shapes=shapes)
    return [None, *(x if ad.is_undefined_primal(operand) else None for x, operand in zip(found, operands))]


def _taken_back(write, cotangents, places, *arrays, shapes):
    return [None, *write.bind(places, *map(ad.instantiate_zeros, cotangents), count=len(arrays))]


def _declared_pair(names, plainly, targets):
    """The Primitives of two operations that are each other's transpose: one writes strips, the other one takes them."""
    write = declare(
        names[0],
        plainly[0],
        functools.partial(_written_natively, targets[0]),
        _written_shapes,
        _tangents,
        _batch,
        lambda *operands, **parameters: _written_back(take, *operands, **parameters),
    )
    take = declare(
        names[1],
        plainly[1],
        functools.partial(_taken_natively, targets[1]),
        _taken_shapes,
        _tangents,
        _batch,
        functools.partial(_taken_back, write),
    )
    return write, take


pasted, cut_out = _declared_pair(("paste", "cut"), (_paste_plainly, _cut_plainly), (PASTE, CUT))
strips_added, strips_read = _declared_pair(("add_strips", "read_strips"), (_add_plainly, _read_plainly), (ADD, READ))


def interpolate(x: jax.Array, ratio: int, faces: Sequence[tuple[bool, bool]], cells: tuple[slice, slice]) -> jax.Array:
    """Values of planes x (n, rows, columns) in cells that are `ratio` times smaller, (n, *cells).

    Args:
        x: floats.
        ratio: the number of new cells along a side of an old one.
        faces: for each plane whether its values lie on faces along y, and along x, of old and new cells, those at their
            high ends, instead of at their centres.
        cells: the rows and columns of new cells that are returned.
    """
    first, shape = (tuple(each) for each in zip(*((along.start, along.stop - along.start) for along in cells)))
    return interpolated(x, ratio=ratio, faces=tuple(map(tuple, faces)), first=first, old=x.shape[-2:], new=shape)


def _plainly(x, *, ratio, faces, first, old, new):
    planes = []
    for k, of_plane in enumerate(faces):
        y = x[..., k, :, :]
        for axis, *of_axis in zip((-2, -1), old, of_plane, first, new, strict=True):
            y = _along(y, axis, *_points(ratio, *of_axis))
        planes.append(y)
    return jnp.stack(planes, axis=-3)


def _points(ratio, n, on_face, first, count):
    """(cells, their neighbours, the weights of these) of `count` new cells along an axis of n old ones."""
    k = np.arange(first, first + count)
    at = (k % ratio + 1.0) / ratio - 1.0 if on_face else (k % ratio + 0.5) / ratio - 0.5
    cell = k // ratio
    return cell, np.clip(cell + np.where(at < 0, -1, 1), 0, n - 1), np.abs(at)


def _along(x, axis, cell, following, weight):
    weight = jnp.asarray(weight, x.dtype).reshape((1,) * (x.ndim - 2) + ((-1, 1) if axis == -2 else (1, -1)))
    return (1 - weight) * jnp.take(x, cell, axis) + weight * jnp.take(x, following, axis)


def _gathered_plainly(y, **options):
    x = jax.ShapeDtypeStruct((*y.shape[:-2], *options["old"]), y.dtype)
    return jax.linear_transpose(lambda x: _plainly(x, **options), x)(y)[0]


def _natively(x, *, ratio, faces, first, old, new, back):
    plan = np.array([back, ratio, *first, *(on for of_plane in faces for on in of_plane)], np.int64)
    result = jax.ShapeDtypeStruct((*x.shape[:-2], *(old if back else new)), x.dtype)
    return jax.ffi.ffi_call(INTERPOLATE, result)(x, plan=plan)


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
