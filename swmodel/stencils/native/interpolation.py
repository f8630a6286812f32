"""Linear interpolation of planes to cells that are a whole number of times smaller along both axes.

    value at a distance a of x_i, in cells:    (1 - |a|) x_i + |a| x_{i-1 or i+1}

Beyond the outermost cells values are constant. XLA computes the indices of neighbours anew for each value, and takes
several times as long as this call.
"""

import functools
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from .library import INTERPOLATE
from .primitives import declare_linear


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
