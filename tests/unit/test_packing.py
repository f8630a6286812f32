"""Packing for transforms: native passes do what slices, pads and transposes do, and are each other's transposes."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from swmodel.parallel.fft import packing
from swmodel.stencils.native.primitives import movable
from tests.selection import later

# (shape, ranks, block, type); the last leaves a rank nothing
SHAPES = [((6, 9), 2, 5, np.float32), ((2, 70, 41), 3, 14, complex), ((4, 3, 7), 3, 4, float)]
needs_compiler = pytest.mark.skipif(not movable(float), reason="no C++ compiler")


def numbers(shape, dtype=float, seed=0):
    random = np.random.default_rng((seed, *shape))
    x = random.standard_normal(shape)
    return jnp.asarray(x + 1j * random.standard_normal(shape) if np.dtype(dtype).kind == "c" else x, dtype)


def operations(shape, ranks, block, across):
    """(native, plain, shape of the operand, options) of the four."""
    whole = packing._split_shape(shape, ranks, block, across)
    rows = tuple(shape[-3 if across else -2] - (k > 0) for k in range(ranks))
    joined = (*whole[1:-1], sum(rows))
    return [
        (packing._split, packing._split_plainly, shape, {"ranks": ranks, "block": block, "across": across}),
        (packing._split_back, packing._split_back_plainly, whole, {"width": shape[-1], "across": across}),
        (packing._join, packing._join_plainly, whole, {"rows": rows}),
        (packing._join_back, packing._join_back_plainly, joined, {"rows": rows}),
    ]


@needs_compiler
@pytest.mark.parametrize("shape, ranks, block, dtype", SHAPES, ids=str)
def test_a_native_pass_is_what_slices_and_transposes_make(shape, ranks, block, dtype):
    for across in (False, True)[: len(shape) - 1]:
        for native, plain, operand, options in operations(shape, ranks, block, across):
            x = numbers(operand, dtype)
            np.testing.assert_array_equal(native(x, **options), plain(x, **options))


@needs_compiler
def test_large_arrays_go_past_the_cache_unchanged():
    x = numbers((1030, 513), complex)
    for native, plain, operand, options in operations(x.shape, 2, 257, False):
        x = numbers(operand, complex)
        assert x.nbytes > 1 << 23
        np.testing.assert_array_equal(native(x, **options), plain(x, **options))


@pytest.mark.parametrize("across", (later(False), True), ids=("rows", "across"))
def test_each_is_the_others_transpose_alone_and_of_many_members(across):
    for native, plain, operand, options in operations((2, 5, 7), 3, 3, across):
        x, slope = numbers(operand), numbers(operand, seed=1)
        pack = lambda x: native(x, **options)  # noqa: B023, E731
        y, change = jax.jvp(pack, (x,), (slope,))
        np.testing.assert_array_equal(change, plain(slope, **options))
        cotangent = numbers(y.shape, seed=2)
        (back,) = jax.vjp(pack, x)[1](cotangent)
        np.testing.assert_allclose(jnp.vdot(cotangent, y), jnp.vdot(back, x), rtol=1e-13)
        members = jnp.stack([x, slope], axis=1)
        together = jax.vmap(pack, in_axes=1)(members)
        np.testing.assert_array_equal(together, jnp.stack([pack(x), pack(slope)]))
