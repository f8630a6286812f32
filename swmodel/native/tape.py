"""Rooms for the states of many steps, filled one after the other without a copy more than that.

XLA copies an array before a step writes over it if it is stored somewhere in the same step, for it does not know which of
both comes first; and it fills new rooms with zeros. On a CPU with a compiler these operations do neither: `store` hands on
what it has stored. Elsewhere they are what they look like in JAX.
"""
import functools

import jax
import jax.numpy as jnp
from jax.extend.core import Primitive
from jax.interpreters import ad, batching, mlir

from .library import AFTER, STORE, VACANT, usable

__all__ = ["after", "store", "vacant"]


def vacant(shape, dtype):
    """An array of this shape with nothing in it: read no place that was not stored in."""
    return vacant_array.bind(shape=tuple(shape), dtype=jnp.dtype(dtype))


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


def after(arrays, seen):
    """The same arrays, to be written over once `seen`, a pytree, has been made of them: use these from there on."""
    arrays, witnesses = list(arrays), [x for x in jax.tree.leaves(seen) if hasattr(x, "dtype")]
    return later.bind(*arrays, *witnesses, count=len(arrays)) if witnesses else arrays


def _plain(index, *operands):
    rooms, arrays = operands[: len(operands) // 2], operands[len(operands) // 2 :]
    put = [jax.lax.dynamic_update_index_in_dim(room, x, index, 0) for room, x in zip(rooms, arrays)]
    return [*put, *arrays]


def _on_cpu(index, *operands):
    if not usable():
        return _plain(index, *operands)
    like = [jax.ShapeDtypeStruct(x.shape, x.dtype) for x in operands]
    call = jax.ffi.ffi_call(STORE, like, input_output_aliases={k + 1: k for k in range(len(like))})
    return call(index, *operands)


def _vacant_on_cpu(*, shape, dtype):
    return jax.ffi.ffi_call(VACANT, jax.ShapeDtypeStruct(shape, dtype))() if usable() else jnp.zeros(shape, dtype)


def _tangents(primals, tangents):
    rooms_and_arrays = [ad.instantiate_zeros(t) for t in tangents[1:]]
    results = stored.bind(*primals)
    real = [jnp.issubdtype(x.dtype, jnp.floating) for x in results]
    kept = [t for t, on in zip(rooms_and_arrays, real) if on]
    slopes = iter(stored.bind(primals[0], *kept)) if kept else iter(())
    return results, [next(slopes) if on else ad.Zero(jax.typeof(x).to_tangent_aval()) for x, on in zip(results, real)]


def _batch(operands, axes):
    return jax.vmap(_plain, axes)(*operands), [0] * (len(operands) - 1)


stored = Primitive("store")
stored.multiple_results = True
stored.def_impl(lambda *operands: jax.jit(stored.bind)(*operands))
stored.def_abstract_eval(lambda index, *operands: [jax.core.ShapedArray(x.shape, x.dtype) for x in operands])
ad.primitive_jvps[stored] = _tangents
batching.primitive_batchers[stored] = _batch
mlir.register_lowering(stored, mlir.lower_fun(_plain, multiple_results=True))
mlir.register_lowering(stored, mlir.lower_fun(_on_cpu, multiple_results=True), platform="cpu")

def _later_on_cpu(*operands, count):
    arrays = operands[:count]
    if not usable():
        return arrays
    like = [jax.ShapeDtypeStruct(x.shape, x.dtype) for x in arrays]
    return jax.ffi.ffi_call(AFTER, like, input_output_aliases={k: k for k in range(count)})(*operands)


def _later_tangents(primals, tangents, count):
    return later.bind(*primals, count=count), list(tangents[:count])


def _later_batch(operands, axes, count):
    return later.bind(*operands, count=count), list(axes[:count])


later = Primitive("after")
later.multiple_results = True
later.def_impl(lambda *operands, count: list(operands[:count]))
later.def_abstract_eval(lambda *operands, count: [jax.core.ShapedArray(x.shape, x.dtype) for x in operands[:count]])
ad.primitive_jvps[later] = _later_tangents
batching.primitive_batchers[later] = _later_batch
mlir.register_lowering(later, mlir.lower_fun(lambda *operands, count: operands[:count], multiple_results=True))
mlir.register_lowering(later, mlir.lower_fun(_later_on_cpu, multiple_results=True), platform="cpu")

vacant_array = Primitive("vacant")
vacant_array.def_impl(lambda **parameters: jax.jit(functools.partial(vacant_array.bind, **parameters))())
vacant_array.def_abstract_eval(lambda *, shape, dtype: jax.core.ShapedArray(shape, dtype))
mlir.register_lowering(vacant_array, mlir.lower_fun(jnp.zeros, multiple_results=False))
mlir.register_lowering(vacant_array, mlir.lower_fun(_vacant_on_cpu, multiple_results=False), platform="cpu")
