"""Smagorinsky's and Leith's viscosities are their formulas; their derivatives pass Taylor and dot-product tests."""

import numpy as np
import pytest

import swmodel as sw
from swmodel.stepping.stability import limits
from tests.verification.test_dissipation import accelerations

from .cases import plane

N, SPACING = 6, 1e4


def shear_flow():
    """(u of a row, doubly periodic grid); u depends on y alone, with square cells."""
    grid = sw.CartesianGrid(N, N, (0.0, N * SPACING), (0.0, N * SPACING), "xy")
    return np.random.default_rng(4).standard_normal(N), grid


def viscosities(u):
    """(nu of Smagorinsky, nu of Leith) in the rows of cells for C = 2 and 3, from the formulas."""
    shear = (np.roll(u, -1) - u) / SPACING  # at the corners north of each row: du/dy = - zeta
    strain = np.sqrt(0.5 * (shear**2 + np.roll(shear, 1) ** 2))
    gradient = np.abs(shear - np.roll(shear, 1)) / SPACING
    return (2 / np.pi) ** 2 * SPACING**2 * strain, (3 / np.pi) ** 3 * SPACING**3 * gradient


def test_the_forces_in_a_shear_flow_are_those_of_the_formulas():
    u, grid = shear_flow()
    terms = sw.Smagorinsky(2.0), sw.Leith(3.0), sw.BiharmonicSmagorinsky(2.0), sw.BiharmonicLeith(3.0)
    model = sw.ShallowWater(grid, 100.0, dissipation=terms)
    each, _ = accelerations(model.interval(3, 0, 1.0), model.state(u=lambda x, y: u[np.int_(y // SPACING)] + 0 * x))
    second = lambda x: (np.roll(x, -1) - 2 * x + np.roll(x, 1)) / SPACING**2  # noqa: E731
    shear = (np.roll(u, -1) - u) / SPACING
    expected = []
    for nu in viscosities(u):
        stress = 0.5 * (nu + np.roll(nu, -1)) * shear
        expected.append((stress - np.roll(stress, 1)) / SPACING)
    for nu in viscosities(u):
        expected.append(-second(nu * SPACING**2 / 8 * second(u)))
    for term, (along_x, along_y), wanted in zip(terms, each, expected, strict=True):
        scale = np.abs(wanted).max()
        np.testing.assert_allclose(
            along_x, np.broadcast_to(wanted[:, None], grid.shape), atol=1e-6 * scale, err_msg=type(term).__name__
        )
        np.testing.assert_allclose(along_y, 0.0, atol=1e-6 * scale)


@pytest.mark.parametrize("kind", (sw.Smagorinsky, sw.BiharmonicSmagorinsky, sw.Leith, sw.BiharmonicLeith))
def test_a_viscosity_of_a_state_at_rest_is_none_and_limits_no_step(kind):
    grid = plane(7, 6)
    model = sw.ShallowWater(grid, 100.0, dissipation=(kind(3.0),))
    rest = {limit.name: limit.dt for limit in limits(model, sw.RK4(1.0), model.at_rest())}
    moving = {limit.name: limit.dt for limit in limits(model, sw.RK4(1.0), model.state(u=5.0))}
    name, *_ = moving.keys() - rest.keys() or [None]
    assert name is not None or min(moving.values()) < min(rest.values())
    each, _ = accelerations(model.interval(3, 0, 1.0), model.at_rest())
    assert not any(np.any(x) for x in each[0])
