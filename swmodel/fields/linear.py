"""A linear function and its transpose, declared together as two JAX primitives.

Every linear operation of the model (C-grid differences and means, communication) is declared by `linear_pair`. From the
two functions JAX derives the tangent (the function itself), the adjoint (the other one), and both again for second
derivatives. A transpose written by hand is in gather form. The one that JAX would derive from slices scatters into
padded copies, and a message cannot be differentiated in any other way.
"""

import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax.core import ShapedArray
from jax.extend.core import Primitive
from jax.interpreters import ad, batching, mlir

NO_EFFECTS: frozenset = frozenset()


def linear_pair(
    name: str, function: Callable, transpose: Callable, effects: Callable | None = None, transposed: str | None = None
) -> tuple[Callable[..., Any], Callable[..., Any]]:
    """Declare `function` and `transpose`, linear in their one array operand, as each other's adjoint.

    The inner product <x, y> is the sum of x y, also for complex numbers: a transpose is JAX's, without conjugation.

    Args:
        name: of the primitive in a printed jaxpr.
        function: `function(x, **parameters) -> y`; may have any number of leading (batch) axes on x.
        transpose: `transpose(y, **parameters) -> x`, with <function(x), y> = <x, transpose(y)>.
        effects: `effects(**parameters)` gives the JAX effects of a call (the ordered one of MPI); none unless given.
        transposed: the name of the transpose there; `name` and "_transposed" unless given.

    Returns:
        Two callables with the signatures of `function` and `transpose`. Parameters are static and hashable.
    """
    forward = _declare(name, function, effects)
    backward = _declare(transposed or f"{name}_transposed", transpose, effects)
    _link(forward, backward)
    _link(backward, forward)
    return _caller(forward, function), _caller(backward, transpose)


def plain_primitive(name: str, function: Callable, effects: Callable | None = None) -> Callable[..., Any]:
    """Declare `function` of one array as a primitive without a derivative: its operand must have no tangent."""
    return _caller(_declare(name, function, effects), function)


def _caller(primitive, function):
    return functools.wraps(function)(functools.partial(primitive.bind))


def _declare(name, function, effects):
    primitive = Primitive(name)

    @functools.cache
    def compiled(parameters):
        return jax.jit(lambda x: primitive.bind(x, **dict(parameters)))

    def implementation(x, **parameters):
        return compiled(tuple(sorted(parameters.items())))(x)

    @functools.cache  # a step has hundreds of calls, of few shapes; tracing each took a sixth of a gradient's tracing
    def result(shape, dtype, parameters):
        return jax.eval_shape(functools.partial(function, **dict(parameters)), jax.ShapeDtypeStruct(shape, dtype))

    def abstract(x, **parameters):
        out = result(x.shape, x.dtype, tuple(sorted(parameters.items())))
        return ShapedArray(out.shape, out.dtype), effects(**parameters) if effects else NO_EFFECTS

    def batch(operands, axes, **parameters):
        (x,), (axis,) = operands, axes
        return primitive.bind(jnp.moveaxis(x, axis, 0), **parameters), 0

    primitive.def_impl(implementation)
    primitive.def_effectful_abstract_eval(abstract)
    mlir.register_lowering(primitive, mlir.lower_fun(function, multiple_results=False))
    batching.primitive_batchers[primitive] = batch
    return primitive


def _link(primitive, transposed):
    def transpose_rule(cotangent, operand, **parameters):
        # A symbolic zero must still be sent: the neighbour waits for the message.
        return [transposed.bind(ad.instantiate_zeros(cotangent), **parameters)]

    ad.deflinear2(primitive, transpose_rule)
    ad.primitive_transposes[primitive] = transpose_rule
