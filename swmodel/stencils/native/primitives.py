"""Operations that are native calls on CPUs with a compiler, and JAX's own elsewhere: blocks, slots and orders.

`move` copies blocks of an array to other places, with axes in another order, in one pass over memory.

    Block(source, target, sizes, source_strides, target_strides)      counted in elements; source None: zeros
    move(x, shape, blocks)                                            a new array made of these blocks of x

XLA on a CPU transposes an array element by element, along whole rows of one array and columns of the other. It pads and
crops in passes of their own. This call works on tiles, and fills whole cache lines in each.

`push_slot`, `read_slot` and `empty` handle arrays of slots, one slot a step, that are filled one after the other
without an extra copy. If a step both stores an array and overwrites it, XLA on a CPU copies the array first, as the
order of the two is not determined. XLA also fills new arrays with zeros, and copies with one thread. With a C++
compiler the operations here avoid all of that: `push_slot` returns the arrays that it has copied, and later operations
use these. `depends_on` and `together` determine orders.
"""

import dataclasses
import functools
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import ShapedArray
from jax.extend.core import Primitive
from jax.interpreters import ad, batching, mlir
from numpy.typing import DTypeLike

from ...fields.field import Count
from .library import AXES, DEPENDS_ON, EMPTY, MOVE, PUSH_SLOT, READ_SLOT, MovedBlock, numbers, usable


@dataclasses.dataclass(frozen=True)
class Block:
    """Elements at source + sum i s to target + sum i t, 0 <= i < sizes; up to 4 axes."""

    source: Any  # an int, or None for zeros
    target: int
    sizes: tuple
    source_strides: tuple
    target_strides: tuple

    def back(self) -> "Block":
        """The block that goes the other way."""
        return Block(self.target, self.source, self.sizes, self.target_strides, self.source_strides)

    def padded(self) -> MovedBlock:
        """The MovedBlock of the runtime, with axes of one element in front."""
        missing = AXES - len(self.sizes)
        sizes, source, target = (
            (filler,) * missing + tuple(given)
            for filler, given in ((1, self.sizes), (0, self.source_strides), (0, self.target_strides))
        )
        return MovedBlock(-1 if self.source is None else self.source, self.target, sizes, source, target)


def movable(dtype: DTypeLike) -> bool:
    """Whether the runtime can move arrays of this type, on CPUs."""
    return np.dtype(dtype).itemsize in (4, 8, 16) and usable()


def move(x: jax.Array, shape: Sequence[int], blocks: Sequence[Block]) -> jax.Array:
    """An array of `shape` made of blocks of x; values outside all blocks are undefined. On CPUs, where `movable`."""
    flat = np.array([n for block in blocks for n in numbers(block.padded())], np.int64)
    return jax.ffi.ffi_call(MOVE, jax.ShapeDtypeStruct(shape, x.dtype))(x, blocks=flat)


PLAIN = set()  # names of operations that run as JAX's own, for the measurements of benchmarks/native_parts.py


def declare(
    name: str,
    plain: Callable,
    native: Callable,
    shapes: Callable,
    tangents: Callable | None = None,
    batch: Callable | None = None,
    transposed: Callable | None = None,
) -> Primitive:
    """A Primitive with several results.

    Args:
        plain: the operation in JAX: `plain(*operands, **parameters) -> list`.
        native: the same by a call of the runtime.
        shapes: `shapes(*operands, **parameters)`, the ShapedArrays of the results.
        tangents, batch, transposed: JAX's rules; `tangents` and `batch` get the primitive first.
    """
    primitive = Primitive(name)
    primitive.multiple_results = True

    @functools.cache
    def compiled(parameters):
        return jax.jit(functools.partial(primitive.bind, **dict(parameters)))

    def on_cpu(*operands, **parameters):
        return (native if name not in PLAIN and usable() else plain)(*operands, **parameters)

    primitive.def_impl(lambda *operands, **parameters: compiled(tuple(sorted(parameters.items())))(*operands))
    primitive.def_abstract_eval(shapes)
    if tangents is not None:
        ad.primitive_jvps[primitive] = functools.partial(tangents, primitive)
    if batch is not None:
        batching.primitive_batchers[primitive] = functools.partial(batch, primitive)
    if transposed is not None:
        ad.primitive_transposes[primitive] = transposed
    mlir.register_lowering(primitive, mlir.lower_fun(plain, multiple_results=True))
    mlir.register_lowering(primitive, mlir.lower_fun(on_cpu, multiple_results=True), platform="cpu")
    return primitive


def declare_linear(
    name: str, plain: Callable, native: Callable, member_axes: tuple[int, int], back: Callable | None = None
) -> Callable[..., jax.Array]:
    """A function of one array, linear in it, and of options: `plain(x, **options)`, on CPUs `native(x, **options)`.

    Args:
        member_axes: the axis of ensemble members in the operand, and in the result.
        back: its transpose, back(cotangent, shape of the operand, **options); that of `plain` unless given.
    """

    def shapes(x, **options):
        y = jax.eval_shape(lambda x: plain(x, **options), x)
        return [ShapedArray(y.shape, y.dtype)]

    def tangents(primitive, primals, slopes, **options):
        return primitive.bind(*primals, **options), primitive.bind(ad.instantiate_zeros(slopes[0]), **options)

    def batch(primitive, operands, axes, **options):
        return primitive.bind(jnp.moveaxis(operands[0], axes[0], member_axes[0]), **options), [member_axes[1]]

    def transposed(cotangents, x, **options):
        cotangent = ad.instantiate_zeros(cotangents[0])
        if back is not None:
            return [back(cotangent, x.aval.shape, **options)]
        return jax.linear_transpose(lambda x: plain(x, **options), x.aval)(cotangent)

    primitive = declare(
        name,
        lambda x, **options: [plain(x, **options)],
        lambda x, **options: [native(x, **options)],
        shapes,
        tangents,
        batch,
        transposed,
    )
    return lambda x, **options: primitive.bind(x, **options)[0]


def declare_pair(
    names: tuple[str, str],
    plainly: tuple[Callable, Callable],
    targets: tuple[str, str],
    value_shape: Callable,
    plan: Callable,
) -> tuple[Any, Any]:
    """The Primitives of two operations in place, each other's transpose: one writes values, the other one takes them.

        write(fixed, *arrays, *values, groups=...) -> arrays        take(fixed, *arrays, groups=...) -> arrays, values

    The arrays are (..., ny, nx), the values of each group (..., *value_shape(group)).

    Args:
        names: of both.
        plainly: both in JAX.
        targets: the calls of the runtime.
        value_shape: `value_shape(group)`, the axes of a group's values after that of members.
        plan: `plan(groups)`, the integers that describe them to the runtime.
    """

    def written_natively(fixed, *operands, groups):
        return in_place(
            targets[0], (fixed, *operands), 1, len(operands) - len(groups), plan=np.asarray(plan(groups), np.int64)
        )

    def taken_natively(fixed, *arrays, groups):
        values = [jax.ShapeDtypeStruct(x.shape, x.dtype) for x in taken_shapes(fixed, *arrays, groups=groups)]
        return in_place(
            targets[1], (fixed, *arrays), 1, len(arrays), values[len(arrays) :], plan=np.asarray(plan(groups), np.int64)
        )

    def written_shapes(fixed, *operands, groups):
        return [ShapedArray(x.shape, x.dtype) for x in operands[: len(operands) - len(groups)]]

    def taken_shapes(fixed, *arrays, groups):
        lead, dtype = arrays[0].shape[:-2], arrays[0].dtype
        values = [ShapedArray((*lead, *value_shape(group)), dtype) for group in groups]
        return [*(ShapedArray(x.shape, dtype) for x in arrays), *values]

    def written_back(cotangents, fixed, *operands, groups):
        found = take.bind(fixed, *map(ad.instantiate_zeros, cotangents), groups=groups)
        return [None, *(x if ad.is_undefined_primal(operand) else None for x, operand in zip(found, operands))]

    def taken_back(cotangents, fixed, *arrays, groups):
        return [None, *write.bind(fixed, *map(ad.instantiate_zeros, cotangents), groups=groups)]

    write = declare(
        names[0], plainly[0], written_natively, written_shapes, _tangents_of_pair, _batch_of_pair, written_back
    )
    take = declare(names[1], plainly[1], taken_natively, taken_shapes, _tangents_of_pair, _batch_of_pair, taken_back)
    return write, take


def _tangents_of_pair(primitive, primals, tangents, **parameters):
    """All are linear in all but what is fixed."""
    slopes = [ad.instantiate_zeros(t) for t in tangents[1:]]
    return primitive.bind(*primals, **parameters), primitive.bind(primals[0], *slopes, **parameters)


def _batch_of_pair(primitive, operands, axes, **parameters):
    """Members come first, and go through the same call; all have the same places and weights."""
    if axes[0] is not None:
        raise NotImplementedError(f"{primitive.name}: every member has its own places or weights; give all the same.")
    members = next(x.shape[axis] for x, axis in zip(operands, axes) if axis is not None)
    moved = [
        jnp.broadcast_to(x, (members, *x.shape)) if axis is None else jnp.moveaxis(x, axis, 0)
        for x, axis in zip(operands[1:], axes[1:])
    ]
    found = primitive.bind(operands[0], *moved, **parameters)
    return found, [0] * len(found)


def in_place(
    target: str, operands: Sequence, first: int, count: int, more: Sequence = (), **options: Any
) -> Sequence[jax.Array]:
    """Call `target`. Its results overwrite `count` operands from number `first` on; `more` are new arrays."""
    like = [jax.ShapeDtypeStruct(x.shape, x.dtype) for x in operands[first : first + count]]
    aliases = {first + k: k for k in range(count)}
    return jax.ffi.ffi_call(target, [*like, *more], input_output_aliases=aliases)(*operands, **options)


def empty(shape: Sequence[int], dtype: DTypeLike, depends: Sequence[jax.Array] = ()) -> jax.Array:
    """An array with undefined values; only values that were stored in it may be read.

    Args:
        shape, dtype: of the array.
        depends: arrays that are computed in each iteration of the loop that contains this call, different ones for each
            call. Without them XLA would use one array for all calls, and copy it in each iteration.
    """
    return empty_array.bind(*depends, shape=tuple(shape), dtype=jnp.dtype(dtype))[0]


def push_slot(
    slots: Sequence[jax.Array], arrays: Sequence[jax.Array], index: Count
) -> tuple[list[jax.Array], list[jax.Array]]:
    """(`slots` with the arrays in slot number `index`, the same arrays). Use both results in place of the arguments.

    Args:
        slots: list of (number of slots, *shape).
        arrays: list of (*shape).
        index: an int32 number.
    """
    if not arrays:
        return [], []
    found = pushed.bind(jnp.asarray(index, jnp.int32), *slots, *arrays)
    return found[: len(slots)], found[len(slots) :]


def read_slot(slots: Sequence[jax.Array], index: Count) -> list[jax.Array]:
    """The arrays in slot number `index` of `slots`, a list of (number of slots, *shape)."""
    return slot_read.bind(jnp.asarray(index, jnp.int32), *slots) if slots else []


def depends_on(arrays: Sequence[jax.Array], results: object) -> Sequence[jax.Array]:
    """The same arrays, which are overwritten only after `results`, a pytree, were computed. Use them as `arrays`."""
    arrays, others = list(arrays), [x for x in jax.tree.leaves(results) if hasattr(x, "dtype")]
    return dependent.bind(*arrays, *others, count=len(arrays)) if others else arrays


def together(arrays: Sequence[jax.Array]) -> Sequence[jax.Array]:
    """The same arrays, none of which is overwritten before all are computed. Use them in place of the arguments.

    XLA computes a small result of a large array again for each of its readers, and copies the array for the later ones.
    """
    return dependent.bind(*arrays, count=len(arrays))


# -- push_slot --------------------------------------------------------------------------------------------------------


def _push_plainly(index, *operands):
    slots, arrays = operands[: len(operands) // 2], operands[len(operands) // 2 :]
    put = [jax.lax.dynamic_update_index_in_dim(slot, x, index, 0) for slot, x in zip(slots, arrays)]
    return [*put, *arrays]


def _push_natively(*operands):
    return in_place(PUSH_SLOT, operands, 1, len(operands) - 1)


def _push_shapes(index, *operands):
    return [ShapedArray(x.shape, x.dtype) for x in operands]


def _push_tangents(primitive, primals, tangents):
    tangents_of_all = [ad.instantiate_zeros(t) for t in tangents[1:]]
    results = primitive.bind(*primals)
    real = [jnp.issubdtype(x.dtype, jnp.floating) for x in results]
    kept = [t for t, on in zip(tangents_of_all, real) if on]
    slopes = iter(primitive.bind(primals[0], *kept)) if kept else iter(())
    return results, [next(slopes) if on else ad.Zero(jax.typeof(x).to_tangent_aval()) for x, on in zip(results, real)]


def _push_batch(primitive, operands, axes):
    return jax.vmap(_push_plainly, axes)(*operands), [0] * (len(operands) - 1)


pushed = declare("push_slot", _push_plainly, _push_natively, _push_shapes, _push_tangents, _push_batch)


# -- read_slot --------------------------------------------------------------------------------------------------------


def _read_plainly(index, *slots):
    return [jax.lax.dynamic_index_in_dim(slot, index, 0, keepdims=False) for slot in slots]


def _read_natively(*operands):
    return jax.ffi.ffi_call(READ_SLOT, [jax.ShapeDtypeStruct(x.shape[1:], x.dtype) for x in operands[1:]])(*operands)


def _read_shapes(index, *slots):
    return [ShapedArray(x.shape[1:], x.dtype) for x in slots]


def _read_tangents(primitive, primals, tangents):
    results, moving = primitive.bind(*primals), [type(t) is not ad.Zero for t in tangents[1:]]
    slopes = iter(primitive.bind(primals[0], *(t for t, on in zip(tangents[1:], moving) if on)) if any(moving) else ())
    zeros = (ad.Zero(jax.typeof(x).to_tangent_aval()) for x in results)
    return results, [next(slopes) if on else zero for on, zero in zip(moving, zeros)]


def _read_batch(primitive, operands, axes):
    return jax.vmap(_read_plainly, axes)(*operands), [0] * (len(operands) - 1)


slot_read = declare("read_slot", _read_plainly, _read_natively, _read_shapes, _read_tangents, _read_batch)


# -- depends_on -------------------------------------------------------------------------------------------------------


def _depends_plainly(*operands, count):
    return list(operands[:count])


def _depends_natively(*operands, count):
    return in_place(DEPENDS_ON, operands, 0, count)


def _depends_shapes(*operands, count):
    return [ShapedArray(x.shape, x.dtype) for x in operands[:count]]


def _depends_tangents(primitive, primals, tangents, count):
    return primitive.bind(*primals, count=count), list(tangents[:count])


def _depends_batch(primitive, operands, axes, count):
    return primitive.bind(*operands, count=count), list(axes[:count])


dependent = declare(
    "depends_on", _depends_plainly, _depends_natively, _depends_shapes, _depends_tangents, _depends_batch
)


# -- empty ------------------------------------------------------------------------------------------------------------


def _empty_tangents(primitive, primals, tangents, **parameters):
    results = primitive.bind(*primals, **parameters)
    return results, [ad.Zero(jax.typeof(x).to_tangent_aval()) for x in results]


empty_array = declare(
    "empty",
    lambda *depends, shape, dtype: [jnp.zeros(shape, dtype)],
    lambda *depends, shape, dtype: jax.ffi.ffi_call(EMPTY, [jax.ShapeDtypeStruct(shape, dtype)])(*depends),
    lambda *depends, shape, dtype: [ShapedArray(shape, dtype)],
    _empty_tangents,
    lambda primitive, depends, axes, **parameters: (primitive.bind(*depends, **parameters), [None]),
)
