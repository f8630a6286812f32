"""Loops of one step that add arrays to their results, and that overwrite what they replace."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from swmodel.fields.field import mean_x
from swmodel.stencils import merged
from swmodel.stencils.expressions import Layout, Source, stored
from swmodel.stencils.native import why_not
from swmodel.stencils.stencil import fused_loop, run

LAYOUT = Layout((6, 9), 2)


def loop(x, halo=3):
    """Means of neighbours along x, up to a margin of halo - 1 around the tile: by default all of the ghosts."""
    source = stored(Source(x, LAYOUT.origin, (halo,) * 4, x.dtype), "h")
    (result,), _ = run([mean_x(mean_x(source))], LAYOUT)
    return result


def tile(seed):
    """An array of the layout, 0 outside of the tile's cells."""
    return LAYOUT.with_border(jnp.asarray(np.random.default_rng(seed).standard_normal(LAYOUT.shape)))


def two_sums(x, y, z):
    """x and y are passed on as y and z: each result is the sum of a loop's and of an array."""
    return y + loop(x), z + loop(x * 2.0), loop(y)


def added(function):
    """`function`, whose sums are those of cotangents."""
    closed = jax.make_jaxpr(function)(*map(tile, range(3)))
    add_any = jax.make_jaxpr(lambda x: jax.vjp(lambda x: (x, x), x)[1]((x, x)))(1.0).eqns[-1].primitive
    equations = [e.replace(primitive=add_any, params={}) if e.primitive.name == "add" else e for e in closed.eqns]
    return closed.jaxpr.replace(eqns=equations)


def loops(jaxpr):
    return [equation for equation in jaxpr.eqns if equation.primitive is fused_loop]


@pytest.mark.skipif(why_not() is not None, reason="no compiler")
def test_loops_add_and_overwrite_arrays_and_have_the_same_results():
    jaxpr = added(two_sums)
    found = merged(jaxpr, {0: 0, 1: 1, 2: 2})
    assert [e.primitive.name for e in found.eqns].count("add_any") == 0 < len(loops(jaxpr)) == len(loops(found))
    arrays = [*map(tile, range(3))]
    before, after = (jax.jit(lambda *x, j=j: jax.core.eval_jaxpr(j, [], *x))(*arrays) for j in (jaxpr, found))
    for a, b in zip(before, after, strict=True):
        np.testing.assert_array_equal(a, b)


def beyond_the_margin(x, y, z):
    return y + loop(x, halo=2), y, z


def read_elsewhere(x, y, z):
    result = loop(x)
    return result + y, loop(y), result


def of_more_cells(x, y, z):
    return loop(x) + loop(y, halo=2), y, z


@pytest.mark.parametrize("function", (beyond_the_margin, read_elsewhere, of_more_cells))
def test_sums_stay_where_a_loop_cannot_make_them(function):
    """The array may have values beyond the loop's margin, or the loop's result is needed itself."""
    names = [e.primitive.name for e in merged(added(function), {0: 0, 1: 1}).eqns]
    assert names.count("add_any") == 1
