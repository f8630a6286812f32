"""The cells near an open side: what conditions read there is what the whole tile has."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import swmodel as sw
from swmodel.dynamics import near_sides
from swmodel.dynamics.clock import Time
from swmodel.dynamics.jacobi import modes_of
from swmodel.dynamics.vertical_modes import modes
from swmodel.errors import ConfigError
from swmodel.fields.field import Field
from swmodel.parallel.halo import EAST, NORTH, SOUTH, WEST
from swmodel.runtime.compilation import jit

HALO = (5, 3, 2, 4)  # west, east, south, north


def flow():
    """(u, v, eta) of a tile of 9 x 7 cells."""
    numbers = np.random.default_rng(1).standard_normal((3, 7 + 6, 9 + 8))
    return [Field(jnp.asarray(x), position, HALO) for x, position in zip(numbers, ("u", "v", "h"))]


@pytest.mark.parametrize("side", [WEST, EAST, SOUTH, NORTH])
def test_windows_hold_the_cells_and_velocities_of_the_tile(side):
    whole, near = near_sides.windows(flow(), side)
    for given, same, part in zip(flow(), whole, near):
        np.testing.assert_array_equal(same.data, given.data)
        assert part.data.size < given.data.size
        inside = near_sides.cells_inside(part, side)
        np.testing.assert_array_equal(inside.data, near_sides.cells_inside(given, side).data)
    found = near_sides.next_velocity(side, near)
    np.testing.assert_array_equal(found.data, near_sides.next_velocity(side, whole).data)
    np.testing.assert_array_equal(found.data, near_sides.normal_velocity(side, *near[:2], 1).data)
    for k in range(near_sides.INSIDE):
        found = near_sides.normal_velocity(side, *near[:2], k)
        np.testing.assert_array_equal(found.data, near_sides.normal_velocity(side, *whole[:2], k).data)


@pytest.mark.parametrize("k", [-1, 4])
def test_a_velocity_too_far_inside_is_one_sentence(k):
    with pytest.raises(ConfigError, match=rf"reads the velocity {k} cells inside its side; read 0 to 3\."):
        near_sides.normal_velocity(WEST, *flow()[:2], k)


@functools.partial(jit, static_argnums=2)
def passing(dynamics, state, side, velocity):
    """What passes a side of a sea at rest where both velocities are `velocity` everywhere [m s-1]."""
    equations = dynamics.prepare()
    flow = equations.flow(state, Time(0, dt=0.01, exact_dt=0.01)).state
    flow = [flow[name].map(jnp.zeros_like) + (velocity if name != "eta" else 0.0) for name in ("u", "v", "eta")]
    column = near_sides.cells_inside(equations.depth, side)
    return near_sides.passing_velocity(side, column, flow, equations, None).data


@pytest.mark.parametrize("side", [WEST, EAST, SOUTH, NORTH])
def test_what_passes_is_the_transport_of_the_next_faces_within_bounds(side):
    """Of a steady transport between two depths; outflow is bounded by waves, inflow by the velocity inside."""
    grid = sw.CartesianGrid(6, 6, (0.0, 6.0), (0.0, 6.0))
    out = -1.0 if side in (WEST, SOUTH) else 1.0
    place = {WEST: np.s_[:, 0], EAST: np.s_[:, -1], SOUTH: np.s_[0], NORTH: np.s_[-1]}[side]
    for at_side, velocity, expected in (
        (2.0, 0.2, 0.2 * 3.0 / 2.0),
        (8.0, 0.2, 0.2 * 6.0 / 8.0),
        (8.0, -0.2, -0.2 * 6.0 / 8.0),
        (2.0, -0.2, -0.2),
        (0.01, 0.2, np.sqrt(9.81 * 0.01)),
    ):
        depth = np.full((6, 6), 4.0)
        depth[place] = at_side
        model = sw.ShallowWater(grid, depth, communicator="serial", boundaries=sw.Flather(), least_thickness=0.0)
        found = passing(model.dynamics(sw.AB2(0.01)), model.at_rest(), side, out * velocity)
        np.testing.assert_allclose(np.asarray(found).ravel()[2:-2], expected, rtol=1e-6)


@pytest.mark.parametrize("side, longer", [(SOUTH, -1), (NORTH, 1)])
def test_what_passes_a_side_of_the_sphere_is_the_volume_through_faces_of_other_lengths(side, longer):
    grid = sw.SphericalGrid(6, 6, (0.0, 6.0), (40.0, 46.0))
    model = sw.ShallowWater(grid, 4.0, communicator="serial", boundaries=sw.Flather(), least_thickness=0.0)
    found = np.asarray(passing(model.dynamics(sw.AB2(0.01)), model.at_rest(), side, 0.2 * longer)).ravel()[2:-2]
    inner, outer = np.cos(np.deg2rad({SOUTH: (41.0, 40.0), NORTH: (45.0, 46.0)}[side]))
    np.testing.assert_allclose(found, 0.2 * inner / outer, rtol=1e-6)


WEAK = {
    "three layers": [9.81, 1e-2, 1e-5],
    "two weak interfaces": [9.81, 1e-5, 1e-5],
    "six layers": [9.81, 1e-2, 3e-3, 1e-3, 1e-4, 1e-5],
}


@pytest.mark.parametrize("deep_at_rest", (False, True))
@pytest.mark.parametrize("gravities", WEAK.values(), ids=WEAK)
def test_modes_of_weak_stratification_have_their_digits_in_single_precision(gravities, deep_at_rest):
    gravities = np.array(gravities)[:: -1 if deep_at_rest else 1]
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

    gradients = jit(jax.grad(cost, (0, 1)))(gravities, thickness)
    curved = jit(lambda g, h: jax.jvp(jax.grad(cost, 1), (g, h), (0.0 * g, jnp.ones_like(h)))[1])(gravities, thickness)
    for k, size in ((0, 1e-6), (1, 1e-4)):
        along = np.random.default_rng(k).uniform(0.5, 1.0, (gravities, thickness)[k].shape)
        ends = [[gravities, thickness] for _ in range(2)]
        ends[0][k], ends[1][k] = ends[0][k] - size * along, ends[1][k] + size * along
        before, after = (cost(*end) for end in ends)
        assert float(jnp.sum(gradients[k] * along)) == pytest.approx(float(after - before) / (2 * size), rel=1e-6)
    ends = [jax.grad(cost, 1)(gravities, thickness + size) for size in (-1e-3, 1e-3)]
    np.testing.assert_allclose(curved, (ends[1] - ends[0]) / 2e-3, rtol=1e-5)
