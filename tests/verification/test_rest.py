"""What is in balance stays: a lake at rest over any bottom, and geostrophic flow."""

import numpy as np
import pytest

import swmodel as sw

from .cases import FORMS, NAMED, globe, norm, plane, rough, take_steps, tendency, uniform

GRIDS = {"closed": plane(), "poles": globe()}


@pytest.mark.parametrize(
    "grid, momentum", [(GRIDS["closed"], FORMS[0]), (GRIDS["poles"], FORMS[1]), (GRIDS["poles"], FORMS[2])]
)
def test_a_lake_at_rest_stays_at_rest_over_a_rough_bottom_with_islands(grid, momentum):
    f = sw.RotatingSphere() if grid.spherical else sw.FPlane(1e-4)
    model = sw.ShallowWater(
        grid,
        rough(grid),
        coriolis=f,
        momentum=momentum,
        side=sw.NoSlip(),
        dissipation=(sw.Laplacian(1e3), sw.QuadraticDrag(2.5e-3)),
    )
    rates = tendency(model, model.state(eta=0.37))
    assert all((np.asarray(x) == 0).all() for x in (rates.u, rates.v, rates.eta))


def test_a_lake_at_rest_over_polar_land_stays_at_rest_for_a_hundred_steps():
    depth = rough(globe())
    depth[0], depth[-1, 3:7] = 0.0, 0.0
    model = sw.ShallowWater(globe(), depth, coriolis=sw.RotatingSphere())
    level = model.state(eta=-0.2)
    state, _ = take_steps(model, sw.ForwardBackward(60.0), level, 100)
    assert (state.u == 0).all() and (state.v == 0).all() and (state.eta == level.eta).all()


@pytest.mark.parametrize(**NAMED)
def test_geostrophic_flow_stays_steady(momentum):
    """u = - dpsi/dy, v = dpsi/dx of any psi at the corners balances eta = (f / g) mean_xy(psi) exactly."""
    f, g, grid = 1e-4, 9.81, plane(periodic="xy")
    psi = uniform(grid.shape, 3, -1e3, 1e3)
    east, north = (lambda a: np.roll(a, 1, axis=1)), (lambda a: np.roll(a, 1, axis=0))
    mean = (psi + east(psi) + north(psi) + east(north(psi))) / 4
    model = sw.ShallowWater(grid, 1000.0, gravity=g, coriolis=sw.FPlane(f), momentum=momentum, linear=True)
    balanced = model.state(u=-(psi - north(psi)) / 1e4, v=(psi - east(psi)) / 1e4, eta=f / g * mean)
    rates = tendency(model, balanced)
    assert np.abs(rates.u).max() < 1e-13 * f * norm(balanced.u) * 10
    assert np.abs(rates.v).max() < 1e-13 * f * norm(balanced.v) * 10
    assert np.abs(rates.eta).max() < 1e-12 * 1000.0 * norm(balanced.u) / 1e4


def test_a_nonlinear_jet_in_balance_is_the_same_after_a_day():
    f, g, depth, dy, grid = 1e-4, 9.81, 50.0, 1e4, plane(periodic="x")
    u = 2.0 * np.sin(np.pi * grid.y_centres / 1e5) ** 2
    eta = np.zeros(grid.ny)
    for j in range(grid.ny - 1):
        eta[j + 1] = eta[j]
        for _ in range(60):  # f dy u / g is small: the iteration contracts
            h = depth + eta[j : j + 2]
            q = (f - (u[j + 1] - u[j]) / dy) / h.mean()
            slope = q * (h * u[j : j + 2]).mean() * dy + (u[j + 1] ** 2 - u[j] ** 2) / 2
            eta[j + 1] = eta[j] - slope / g
    model = sw.ShallowWater(grid, depth, coriolis=sw.FPlane(f))
    start = model.state(u=np.tile(u[:, None], grid.nx), eta=np.tile(eta[:, None], grid.nx))
    state, _ = take_steps(model, sw.RK4(120.0), start, 720)
    assert np.ptp(eta) > 0.1
    assert np.abs(state.v).max() < 1e-9
    np.testing.assert_allclose(state.u, start.u, atol=1e-9)
    np.testing.assert_allclose(state.eta, start.eta, atol=1e-9)
