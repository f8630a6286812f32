"""Rooms for the states of many steps, filled one after the other without a copy more than that.

XLA copies an array before a step writes over it if it is stored somewhere in the same step, for it does not know which
of both comes first; it fills new rooms with zeros; and it copies with one thread. On a CPU with a compiler these
operations do nothing of that: `store` hands on what it has stored. Elsewhere they are what they look like in JAX.
"""

import jax
import jax.numpy as jnp
from jax.interpreters import ad

from .library import AFTER, FETCH, STORE, VACANT
from .primitives import declare, in_place

__all__ = ["after", "fetch", "store", "vacant"]


def vacant(shape, dtype, seen=()):
    """An array of this shape with nothing in it: read no place that was not stored in.

    Args:
        shape, dtype: of the array.
        seen: arrays made anew in each turn of a loop in which this is called, other ones for each call: or XLA would
            take the same array for all of them, and copy it in each turn.
    """
    return vacant_array.bind(*seen, shape=tuple(shape), dtype=jnp.dtype(dtype))[0]


def store(rooms, arrays, index):
    """(rooms with arrays in slot number `index`, the same arrays); use these from there on.

    Args:
        rooms: list of (slots, *shape).
        arrays: list of (*shape).
        index: an int32 number.
    """
    if not arrays:
        return [], []
    found = stored.bind(jnp.asarray(index, jnp.int32), *rooms, *arrays)
    return found[: len(rooms)], found[len(rooms) :]


def fetch(rooms, index):
    """The arrays in slot number `index` of rooms, a list of (slots, *shape)."""
    return fetched.bind(jnp.asarray(index, jnp.int32), *rooms) if rooms else []


def after(arrays, seen):
    """The same arrays, to be written over once `seen`, a pytree, has been made of them: use these from there on."""
    arrays, witnesses = list(arrays), [x for x in jax.tree.leaves(seen) if hasattr(x, "dtype")]
    return later.bind(*arrays, *witnesses, count=len(arrays)) if witnesses else arrays


# -- store ------------------------------------------------------------------------------------------------------------


def _store_plainly(index, *operands):
    rooms, arrays = operands[: len(operands) // 2], operands[len(operands) // 2 :]
    put = [jax.lax.dynamic_update_index_in_dim(room, x, index, 0) for room, x in zip(rooms, arrays)]
    return [*put, *arrays]


def _store_natively(*operands):
    return in_place(STORE, operands, 1, len(operands) - 1)


def _store_shapes(index, *operands):
    return [jax.core.ShapedArray(x.shape, x.dtype) for x in operands]


def _store_tangents(primitive, primals, tangents):
    rooms_and_arrays = [ad.instantiate_zeros(t) for t in tangents[1:]]
    results = primitive.bind(*primals)
    real = [jnp.issubdtype(x.dtype, jnp.floating) for x in results]
    kept = [t for t, on in zip(rooms_and_arrays, real) if on]
    slopes = iter(primitive.bind(primals[0], *kept)) if kept else iter(())
    return results, [next(slopes) if on else ad.Zero(jax.typeof(x).to_tangent_aval()) for x, on in zip(results, real)]


def _store_batch(primitive, operands, axes):
    return jax.vmap(_store_plainly, axes)(*operands), [0] * (len(operands) - 1)


stored = declare("store", _store_plainly, _store_natively, _store_shapes, _store_tangents, _store_batch)


# -- fetch ------------------------------------------------------------------------------------------------------------


def _fetch_plainly(index, *rooms):
    return [jax.lax.dynamic_index_in_dim(room, index, 0, keepdims=False) for room in rooms]


def _fetch_natively(*operands):
    return jax.ffi.ffi_call(FETCH, [jax.ShapeDtypeStruct(x.shape[1:], x.dtype) for x in operands[1:]])(*operands)


def _fetch_shapes(index, *rooms):
    return [jax.core.ShapedArray(x.shape[1:], x.dtype) for x in rooms]


def _fetch_tangents(primitive, primals, tangents):
    results, moving = primitive.bind(*primals), [type(t) is not ad.Zero for t in tangents[1:]]
    slopes = iter(primitive.bind(primals[0], *(t for t, on in zip(tangents[1:], moving) if on)) if any(moving) else ())
    zeros = (ad.Zero(jax.typeof(x).to_tangent_aval()) for x in results)
    return results, [next(slopes) if on else zero for on, zero in zip(moving, zeros)]


def _fetch_batch(primitive, operands, axes):
    return jax.vmap(_fetch_plainly, axes)(*operands), [0] * (len(operands) - 1)


fetched = declare("fetch", _fetch_plainly, _fetch_natively, _fetch_shapes, _fetch_tangents, _fetch_batch)


# -- after ------------------------------------------------------------------------------------------------------------


def _after_plainly(*operands, count):
    return list(operands[:count])


def _after_natively(*operands, count):
    return in_place(AFTER, operands, 0, count)


def _after_shapes(*operands, count):
    return [jax.core.ShapedArray(x.shape, x.dtype) for x in operands[:count]]


def _after_tangents(primitive, primals, tangents, count):
    return primitive.bind(*primals, count=count), list(tangents[:count])


def _after_batch(primitive, operands, axes, count):
    return primitive.bind(*operands, count=count), list(axes[:count])


later = declare("after", _after_plainly, _after_natively, _after_shapes, _after_tangents, _after_batch)


# -- vacant -----------------------------------------------------------------------------------------------------------


def _vacant_tangents(primitive, primals, tangents, **parameters):
    results = primitive.bind(*primals, **parameters)
    return results, [ad.Zero(jax.typeof(x).to_tangent_aval()) for x in results]


vacant_array = declare(
    "vacant",
    lambda *seen, shape, dtype: [jnp.zeros(shape, dtype)],
    lambda *seen, shape, dtype: jax.ffi.ffi_call(VACANT, [jax.ShapeDtypeStruct(shape, dtype)])(*seen),
    lambda *seen, shape, dtype: [jax.core.ShapedArray(shape, dtype)],
    _vacant_tangents,
    lambda primitive, seen, axes, **parameters: (primitive.bind(*seen, **parameters), [None]),
)
