"""Operations that are native calls on CPUs with a compiler, and JAX's own elsewhere.

Copies blocks of an array to other places, with axes in another order, in one pass over memory.

    Block(source, target, sizes, source_strides, target_strides)      counted in elements; source None: zeros
    move(x, shape, blocks)                                            a new array made of these blocks of x

XLA on a CPU transposes an array element by element, along whole rows of one array and columns of the other. It pads
and crops in passes of their own. This call works on tiles, and fills whole cache lines in each.
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

from ..abi import AXES, MovedBlock, numbers
from .library import MOVE, usable


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


def in_place(target: str, operands: Sequence, first: int, count: int, more: Sequence = ()) -> Sequence[jax.Array]:
    """Call `target`. Its results overwrite `count` operands from number `first` on; `more` are new arrays."""
    like = [jax.ShapeDtypeStruct(x.shape, x.dtype) for x in operands[first : first + count]]
    aliases = {first + k: k for k in range(count)}
    return jax.ffi.ffi_call(target, [*like, *more], input_output_aliases=aliases)(*operands)
