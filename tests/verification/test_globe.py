"""The cases on the sphere: their starts are those of the papers, and a coarse bell crosses the poles."""

import numpy as np
import pytest

from swmodel.verification import mountain, sphere
from swmodel.verification.mountain import Harmonics, Spectral, advance
from swmodel.verification.sphere import DAY, OMEGA, RADIUS, G


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
    model, state = sphere.balanced_jet(144)
    grid, eta, u = model.grid, np.asarray(state.eta)[:, 0], np.asarray(state.u)[:, 0]
    phi = np.deg2rad(grid.y_edges[1:-1])
    speed = 0.5 * (u[1:] + u[:-1])
    slope = np.diff(eta) / (RADIUS * np.deg2rad(grid.y_centres[1] - grid.y_centres[0]))
    wanted = -speed * (2 * OMEGA * np.sin(phi) + speed * np.tan(phi) / RADIUS) / G
    np.testing.assert_allclose(slope, wanted, atol=0.03 * np.abs(wanted).max())
    area = grid.metrics(np.arange(grid.ny))["area_h"][:, 0]
    assert abs(np.sum(area * eta) / np.sum(area)) < 1.0 and sphere.speed(np.pi / 4) == pytest.approx(80.0)


@pytest.mark.parametrize("largest", [5, 11])
def test_the_spectral_solver_keeps_a_steady_flow_across_the_poles(largest):
    """Test 2 of Williamson et al. (1992) at 45 degrees to the axis: harmonics of degree 1 and 2 hold it exactly."""
    u0, mean, harmonics = 2 * np.pi * RADIUS / (12 * DAY), 2.94e4 / G, Harmonics(largest)

    def along(longitude, latitude):
        """The sine of the latitude of the flow's own axis."""
        x, y = np.deg2rad(longitude), np.deg2rad(latitude)
        return (np.sin(y) - np.cos(x) * np.cos(y)) * np.sqrt(0.5)

    equations = Spectral(harmonics, coriolis=lambda x, y: 2 * OMEGA * along(x, y))
    level = lambda x, y: mean - (RADIUS * OMEGA * u0 + u0**2 / 2) / G * along(x, y) ** 2  # noqa: E731
    start = equations.start(lambda x, y: 2 * u0 / RADIUS * along(x, y), level)
    final = advance(equations, start, 5 * DAY, 1800.0)
    np.testing.assert_allclose(final[..., 2], start[..., 2], atol=1e-11 * mean)
    np.testing.assert_allclose(final[..., 0], start[..., 0], atol=1e-11 * u0 / RADIUS)
    longitude, latitude = np.array([0.0, 70.0, 350.0]), np.array([-80.0, 0.0, 35.0])
    wanted = level(longitude, latitude[:, None])
    np.testing.assert_allclose(harmonics.at(final[..., 2], longitude, latitude), wanted, rtol=1e-11)


def test_a_wave_that_repeats_needs_only_its_multiples():
    """The Rossby-Haurwitz wave after a day: all wavenumbers, and the multiples of 4."""
    surfaces = []
    for repeats in (1, 4):
        harmonics = Harmonics(20, repeats)
        equations = Spectral(harmonics)
        start = equations.start(mountain.wave_vorticity, lambda x, y: mountain.H6 + mountain.wave_level(x, y))
        final = advance(equations, start, DAY, 900.0)
        surfaces.append(harmonics.at(final[..., 2], np.arange(0.0, 360.0, 50.0), np.array([-50.0, 10.0])))
        assert np.abs(final[..., 2] - start[..., 2]).max() > 10.0
    np.testing.assert_allclose(*surfaces, rtol=1e-12)


def test_the_error_of_a_bell_over_the_poles_is_about_that_along_the_equator():
    over, along = (sphere._error(24, alpha)[0] for alpha in (0.5 * np.pi, 0.0))
    assert 0.7 < over / along < 1.5
