"""Vertical modes at open sides, by rotations of Jacobi, in either precision."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from swmodel.dynamics.layers import modes_of
from swmodel.dynamics.vertical_modes import modes
from swmodel.runtime.compilation import jit
from tests.selection import now

WEAK = {
    "three layers": [9.81, 1e-2, 1e-5],
    "two weak interfaces": [9.81, 1e-5, 1e-5],
    "six layers": [9.81, 1e-2, 3e-3, 1e-3, 1e-4, 1e-5],
}


@pytest.mark.parametrize(
    "name, deep_at_rest",
    now(
        [(name, deep) for name in WEAK for deep in (False, True)],
        ("six layers", False),
        ("two weak interfaces", True),
    ),
)
def test_modes_of_weak_stratification_have_their_digits_in_single_precision(name, deep_at_rest):
    gravities = np.array(WEAK[name])[:: -1 if deep_at_rest else 1]
    thickness = np.random.default_rng(2).uniform(50.0, 1500.0, (20, gravities.size))
    wanted, shapes = modes(gravities, thickness, deep_at_rest)
    found, others = modes_of(jnp.asarray(gravities, "float32"), jnp.asarray(thickness, "float32"), deep_at_rest)
    assert found.dtype == others.dtype == jnp.float32
    np.testing.assert_allclose(found, wanted, rtol=2e-6)
    alike = np.einsum("ckm,ck,ckn->cmn", shapes, thickness, np.asarray(others, float))
    np.testing.assert_allclose(np.abs(alike), np.broadcast_to(np.eye(gravities.size), alike.shape), atol=1e-5)


def test_modes_have_the_derivatives_of_their_differences():
    gravities, thickness = jnp.asarray([9.81, 0.02, 0.01]), jnp.asarray([[100.0, 200.0, 700.0], [50.0, 300.0, 900.0]])

    def cost(gravities, thickness):
        celerities, shapes = modes_of(gravities, thickness, False)
        return jnp.sum(jnp.sin(celerities)) + jnp.sum(shapes[..., 0, :] * shapes[..., 1, :] * celerities)

    both = jit(jax.value_and_grad(cost, (0, 1)))
    gradients = both(gravities, thickness)[1]
    curved = jit(lambda g, h: jax.jvp(jax.grad(cost, 1), (g, h), (0.0 * g, jnp.ones_like(h)))[1])(gravities, thickness)
    for k, size in ((0, 1e-6), (1, 1e-4)):
        along = np.random.default_rng(k).uniform(0.5, 1.0, (gravities, thickness)[k].shape)
        ends = [[gravities, thickness] for _ in range(2)]
        ends[0][k], ends[1][k] = ends[0][k] - size * along, ends[1][k] + size * along
        before, after = (both(*end)[0] for end in ends)
        assert float(np.sum(gradients[k] * along)) == pytest.approx(float(after - before) / (2 * size), rel=1e-6)
    ends = [both(gravities, thickness + size)[1][1] for size in (-1e-3, 1e-3)]
    np.testing.assert_allclose(curved, (ends[1] - ends[0]) / 2e-3, rtol=1e-5)
