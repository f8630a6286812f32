"""The cells near an open side: what conditions read there is what the whole tile has."""

import jax.numpy as jnp
import numpy as np
import pytest

from swmodel.dynamics import near_sides
from swmodel.errors import ConfigError
from swmodel.fields.field import Field
from swmodel.parallel.halo import EAST, NORTH, SOUTH, WEST

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
