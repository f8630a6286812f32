"""The cases on the sphere: their starts are those of the papers, and a coarse bell crosses the poles."""

import numpy as np
import pytest

from swmodel.verification.sphere import advection, jet, mountain
from swmodel.verification.sphere.globe import OMEGA, RADIUS, G, weighted_l2


def test_the_rossby_haurwitz_wave_is_that_of_its_streamfunction():
    """u and v of psi = - a^2 w sin(phi) + a^2 K cos^4(phi) sin(phi) cos(4 lambda), by differences of it."""
    model, state = mountain.rossby_haurwitz(144)
    grid = model.grid

    def psi(longitude, latitude):
        x, y = np.deg2rad(longitude), np.deg2rad(latitude)
        return RADIUS**2 * mountain.K6 * (np.cos(y) ** 4 * np.sin(y) * np.cos(4 * x) - np.sin(y))

    corners, metrics = psi(grid.x_edges[None, :], grid.y_edges[:, None]), grid.metrics(np.arange(grid.ny))
    u = -np.diff(corners, axis=0)[:, 1:] / metrics["dy_u"]
    v = np.diff(corners, axis=1)[1:-1] / metrics["dx_v"][:-1]
    np.testing.assert_allclose(state.u, u, atol=2e-3 * np.abs(u).max())
    np.testing.assert_allclose(state.v[:-1], v, atol=4e-3 * np.abs(v).max())
    assert 8000 + float(state.eta.max()) == pytest.approx(10550, abs=15)  # figure 6a of the paper: contours to 10500


def test_the_jet_is_in_geostrophic_balance_and_its_mean_height_is_that_of_the_paper():
    model, state = jet.balanced_jet(144)
    grid, eta, u = model.grid, np.asarray(state.eta)[:, 0], np.asarray(state.u)[:, 0]
    phi = np.deg2rad(grid.y_edges[1:-1])
    speed = 0.5 * (u[1:] + u[:-1])
    slope = np.diff(eta) / (RADIUS * np.deg2rad(grid.y_centres[1] - grid.y_centres[0]))
    wanted = -speed * (2 * OMEGA * np.sin(phi) + speed * np.tan(phi) / RADIUS) / G
    np.testing.assert_allclose(slope, wanted, atol=0.03 * np.abs(wanted).max())
    area = grid.metrics(np.arange(grid.ny))["area_h"][:, 0]
    assert abs(np.sum(area * eta) / np.sum(area)) < 1.0 and jet.speed(np.pi / 4) == pytest.approx(80.0)


def test_means_over_coarser_cells_keep_the_integral():
    model, _ = mountain.over_mountain(24)
    values = np.random.default_rng(0).standard_normal(model.grid.shape)
    coarse = mountain.coarsened(values, 8)
    area = model.grid.metrics(np.arange(12))["area_h"] * np.ones((12, 24))
    large = area.reshape(4, 3, 8, 3).sum(axis=(1, 3))
    assert np.sum(large * coarse) == pytest.approx(np.sum(area * values), rel=1e-10)
    assert weighted_l2(model, values, values) == 0.0


def test_the_error_of_a_bell_over_the_poles_is_about_that_along_the_equator():
    over, along = (advection._error(24, alpha)[0] for alpha in (0.5 * np.pi, 0.0))
    assert 0.7 < over / along < 1.5
