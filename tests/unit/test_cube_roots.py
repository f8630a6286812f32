"""Cube roots in fused loops: the loops' own, since a call would keep them from being vectorised."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from swmodel.fields.field import Field
from swmodel.stencils.expressions import Layout, lift
from swmodel.stencils.native import usable
from swmodel.stencils.stencil import run

NY, NX = 40, 50

pytestmark = pytest.mark.skipif(not usable(), reason="no C++ compiler works here")


def roots(values):
    """(cube roots, their derivatives) of an array (NY, NX), by loops."""

    def loop(x):
        (array,), _ = run([lift(Field(x, "h", (0,) * 4)).map(jnp.cbrt)], Layout((NY, NX), 0))
        return Layout((NY, NX), 0).own(array)

    return [np.asarray(x) for x in jax.jvp(loop, (jnp.asarray(values),), (jnp.ones_like(values),))]


def numbers(dtype):
    """Normal numbers of all magnitudes and both signs, spread over the logarithm, and their exact cube roots."""
    limits = np.finfo(dtype)
    least, most = np.log(float(limits.tiny)) + 1.0, np.log(float(limits.max)) - 1.0
    values = np.exp(np.linspace(least, most, NY * NX)).astype(dtype)
    values[::2] *= -1
    return values.reshape(NY, NX), np.cbrt(values.astype(np.longdouble)).reshape(NY, NX)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_cube_roots_and_their_derivatives_are_exact_to_two_units_of_the_last_place(dtype):
    values, exact = numbers(dtype)
    found, slopes = roots(values)
    assert found.dtype == dtype
    assert np.max(np.abs(found - exact) / np.spacing(np.abs(exact).astype(dtype))) < 2.0
    moderate = np.abs(values) < 1e30  # beyond, the square of a derivative in single precision is no normal number
    expected = (1 / (3 * exact**2))[moderate]
    assert np.max(np.abs(slopes[moderate] / expected - 1)) < 8 * np.finfo(dtype).eps


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_zeros_infinities_and_nan_are_their_own_cube_roots(dtype):
    values = np.resize(np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 1.0, -8.0], dtype), (NY, NX))
    expected = np.resize(np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 1.0, -2.0], dtype), (NY, NX))
    found, _ = roots(values)
    np.testing.assert_allclose(found, expected, rtol=4 * np.finfo(dtype).eps)
    np.testing.assert_array_equal(np.signbit(found[expected == 0]), np.signbit(expected[expected == 0]))
