"""Every linear piece and its declared transpose are each other's adjoint, however JAX takes them."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from swmodel.fields import field as operators
from swmodel.fields.linear import linear_pair, plain_primitive
from swmodel.parallel import SerialCommunicator

SHAPE = (3, 5, 6)
PAIRS = {
    "low": lambda x, axis: jax.lax.slice_in_dim(x, 0, x.shape[axis] - 1, axis=x.ndim + axis),
    "high": lambda x, axis: jax.lax.slice_in_dim(x, 1, x.shape[axis], axis=x.ndim + axis),
    "difference": lambda x, axis: jnp.diff(x, axis=axis),
    "pair_sum": lambda x, axis: PAIRS["low"](x, axis) + PAIRS["high"](x, axis),
}
EACH = pytest.mark.parametrize("name", PAIRS)
AXES = pytest.mark.parametrize("axis", (-1, -2))


def random(shape, seed=0):
    return jnp.asarray(np.random.default_rng(seed).standard_normal(shape))


def assert_adjoint(function, x, seed=1):
    """<function(x), y> = <x, transpose(y)>, and the tangent is the function itself."""
    y = random(jax.eval_shape(function, x).shape, seed)
    out, pull = jax.vjp(function, x)
    (back,) = pull(y)
    scale = float(jnp.linalg.norm(out.ravel()) * jnp.linalg.norm(y.ravel()))
    assert abs(float(np.vdot(out, y) - np.vdot(x, back))) < 1e-14 * scale
    (transposed,) = jax.linear_transpose(function, x)(y)
    np.testing.assert_array_equal(transposed, back)
    value, tangent = jax.jvp(function, (x,), (2.0 * x,))
    np.testing.assert_array_equal(value, out)
    np.testing.assert_allclose(tangent, 2.0 * out, rtol=1e-15)


@EACH
@AXES
def test_operators_are_what_their_names_say_and_adjoint_to_their_transposes(name, axis):
    function = lambda x: getattr(operators, name)(x, axis=axis)  # noqa: E731
    x = random(SHAPE)
    np.testing.assert_array_equal(function(x), PAIRS[name](x, axis))
    assert_adjoint(function, x)


def test_a_wrong_transpose_would_be_found():
    twice, _ = linear_pair("wrong_for_this_test", lambda x: 2.0 * x, lambda y: 3.0 * y)
    with pytest.raises(AssertionError):
        assert_adjoint(twice, random((4,)))


def test_a_transpose_of_complex_numbers_is_not_conjugated():
    turn, _ = linear_pair("turn_for_this_test", lambda x: 1j * x, lambda y: 1j * y)
    x, y = (jax.lax.complex(random((4,), k), random((4,), k + 2)) for k in (0, 1))
    (back,) = jax.linear_transpose(turn, x)(y)
    np.testing.assert_allclose(jnp.sum(turn(x) * y), jnp.sum(x * back), rtol=1e-15)
    (plain,) = jax.linear_transpose(lambda x: 1j * x, x)(y)
    np.testing.assert_array_equal(back, plain)


def test_a_primitive_without_derivative_batches_and_refuses_tangents():
    largest = plain_primitive("largest_for_this_test", lambda x, *, axis: jnp.max(x, axis=axis))
    x = random((3, 5))
    np.testing.assert_array_equal(jax.vmap(lambda x: largest(x, axis=-1), 1)(x), jnp.max(x, axis=0))
    assert jax.jit(jax.grad(lambda x: x[0] * largest(jax.lax.stop_gradient(x), axis=-1)))(x[0])[1] == 0.0
    with pytest.raises(NotImplementedError, match="largest_for_this_test"):
        jax.grad(lambda x: largest(x, axis=-1))(x[0])


def test_one_rank_alone_sends_nothing():
    alone, x = SerialCommunicator(), random((1, 5))
    verbs = (
        lambda x: alone.shift(x, "x", 1),
        lambda x: alone.all_to_all(x, "y"),
        alone.sum,
        alone.replicated,
        alone.broadcast,
        lambda x: alone.gather(x, (1, 5)),
        alone.scatter,
    )
    for verb in verbs:
        assert not jax.make_jaxpr(verb)(x).eqns
        assert_adjoint(verb, x)


def test_an_operation_is_traced_once_for_each_shape_however_often_it_is_called():
    shapes = []

    def double(x):
        shapes.append(x.shape)
        return 2.0 * x

    doubled, _ = linear_pair("counted_double", double, double)
    jax.make_jaxpr(lambda x, y: (doubled(doubled(x)), doubled(doubled(y))))(jnp.ones(3), jnp.ones((2, 3)))
    assert shapes == [(3,), (2, 3)]
