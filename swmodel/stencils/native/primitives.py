"""Operations that are native calls on CPUs with a compiler, and JAX's own elsewhere."""

import functools
from collections.abc import Callable, Sequence

import jax
import jax.numpy as jnp
from jax.core import ShapedArray
from jax.extend.core import Primitive
from jax.interpreters import ad, batching, mlir

from .library import usable

__all__ = ["PLAIN", "declare", "declare_linear", "in_place"]

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
