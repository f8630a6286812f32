"""Self-attraction and loading by spherical harmonics: the transform, its factors, and when it is computed."""

import functools

import numpy as np
import pytest

import swmodel as sw
from swmodel.defaults import GRAVITY, WATER_DENSITY
from swmodel.errors import ConfigError
from swmodel.forcing.loading import harmonics_of, load_factor
from swmodel.runtime.compilation import jit

GLOBE = sw.SphericalGrid(24, 16, (-180.0, 180.0), (-78.0, 82.0))
DEPTH = np.where(np.random.default_rng(2).random(GLOBE.shape) < 0.15, 0.0, 3000.0)


def ocean(grid=GLOBE, depth=DEPTH, degree=8, every=900.0, **options):
    return sw.ShallowWater(
        grid, depth, coriolis=sw.RotatingSphere(), forcing=sw.SelfAttractionLoading(degree, every), **options
    )


def convolved(model, eta):
    return np.asarray(_convolved(model.dynamics(sw.ForwardBackward(300.0)), eta, model.communicator))


@functools.partial(jit, static_argnums=2)
def _convolved(dynamics, eta, communicator):
    return dynamics.terms[0].convolved(eta, communicator)


def test_harmonics_are_orthonormal_on_the_sphere():
    nodes, weights = np.polynomial.legendre.leggauss(40)
    found = harmonics_of(30, np.arcsin(nodes))
    for m in (0, 1, 2, 15, 30):
        products = np.einsum("jn,j,jk->nk", found[m], weights, found[m]) * np.pi * (2.0 if m == 0 else 1.0)
        np.testing.assert_allclose(products, np.diag(np.arange(31) >= m), atol=1e-13)


@pytest.mark.parametrize(
    "n, h, k",
    [
        (17, -1.8255646, -5.4804452e-2),
        (30, -2.287208, -4.0392105e-2),
        (110, -3.017371, -1.302239e-2),
        (150, -3.21685, -9.6034635e-3),
    ],
)
def test_love_numbers_between_those_of_the_table_are_right_to_two_thousandths(n, h, k):
    """Degrees of the paper that the table leaves out."""
    exact = 3 * 1025.0 / 5517.0 / (2 * n + 1) * (1 + k - h)
    assert load_factor(n, 1025.0) == pytest.approx(exact, rel=2e-3)


@pytest.mark.parametrize("n, m", [(1, 0), (3, 2), (6, 5)])
def test_a_spherical_harmonic_is_multiplied_by_its_factor(n, m):
    grid = sw.SphericalGrid(48, 60, (-180.0, 180.0), (-90.0, 90.0))
    x, y = np.deg2rad(grid.x_centres), np.deg2rad(grid.y_centres)
    eta = harmonics_of(n, y)[m, :, n][:, None] * np.sin(m * x + 0.3 + (m == 0))
    found = convolved(ocean(grid, 3000.0), eta)
    np.testing.assert_allclose(found, (load_factor(n) - load_factor(8)) * eta, atol=2e-3 * np.abs(eta).max())


def test_the_convolution_is_symmetric_in_the_product_weighted_by_areas():
    model, random = ocean(), np.random.default_rng(0)
    a, b = random.standard_normal((2, *GLOBE.shape))
    area = GLOBE.metrics(np.arange(GLOBE.ny))["area_h"]
    one, other = np.sum(area * a * convolved(model, b)), np.sum(area * b * convolved(model, a))
    assert one == pytest.approx(other, rel=1e-12)


@pytest.mark.verify
def test_the_error_of_computing_it_rarely_is_of_second_order():
    """The elevation in the middle of the interval is extrapolated."""
    bump = lambda x, y: np.exp(-((x / 40.0) ** 2) - (y / 30.0) ** 2)  # noqa: E731
    ends = {}
    for every in (0.0, 1200.0, 2400.0):
        model = ocean(depth=200.0, degree=3, every=every, linear=True, engine="arrays")
        ends[every] = np.asarray(sw.Simulation(model, model.state(eta=bump), sw.RK4(150.0)).run(steps=64).eta)
    errors = [np.abs(ends[every] - ends[0.0]).max() for every in (1200.0, 2400.0)]
    assert 3.0 < errors[1] / errors[0] < 6.0 and errors[1] < 1e-3


def test_a_run_that_is_resumed_between_two_evaluations_is_the_same_bit_for_bit(tmp_path):
    bump = lambda x, y: np.exp(-((x / 40.0) ** 2) - (y / 30.0) ** 2)  # noqa: E731

    def simulation():
        model = ocean(engine="arrays")
        return sw.Simulation(model, model.state(eta=bump), sw.ForwardBackward(250.0))

    whole, first, second = simulation(), simulation(), simulation()
    whole.run(steps=7)
    first.restart(tmp_path / "restart.nc", every=4 * 250.0)
    first.run(steps=4)
    second.resume(tmp_path / "restart.nc")
    second.run(steps=3)
    assert np.abs(np.asarray(whole.state.self_attraction)).max() > 1e-3
    for name, x in whole.state:
        np.testing.assert_array_equal(np.asarray(x), np.asarray(second.state[name]))


def test_an_ocean_in_balance_with_the_air_pressure_is_no_load():
    """Its elevation is the inverse barometer of the mean pressure over the sea, and it stays at rest."""
    pressure = lambda x, y: 1e5 - 3000.0 * np.exp(-((x / 40.0) ** 2) - (y / 30.0) ** 2)  # noqa: E731
    here, area = pressure(*GLOBE.coordinates("h")), GLOBE.metrics(np.arange(GLOBE.ny))["area_h"] * (DEPTH > 0)
    balanced = -(here - np.sum(here * area) / np.sum(area)) / (WATER_DENSITY * GRAVITY)
    forcing = (sw.AirPressure(pressure), sw.SelfAttractionLoading(8))
    model = sw.ShallowWater(GLOBE, DEPTH, coriolis=sw.RotatingSphere(), forcing=forcing, engine="arrays")
    state = sw.Simulation(model, model.state(eta=balanced), sw.ForwardBackward(250.0)).run(steps=8)
    assert np.abs(balanced).max() > 0.2
    assert max(np.abs(x).max() for x in (state.u, state.v, state.self_attraction + 0.0)) < 1e-9


def test_what_cannot_be_is_refused():
    plane = sw.CartesianGrid(24, 16, (0.0, 1e6), (0.0, 1e6), "x")
    part = sw.SphericalGrid(24, 16, (0.0, 90.0), (0.0, 60.0))
    for grid, what in ((plane, "the grid is a plane"), (part, "the grid is a part of it")):
        with pytest.raises(ConfigError, match=rf"{what}; use SelfAttraction\(fraction\)"):
            sw.ShallowWater(grid, 100.0, forcing=sw.SelfAttractionLoading(8))
    with pytest.raises(ConfigError, match="degree = 12 is more than a grid of 24 cells along x resolves; give 11"):
        ocean(degree=12)
    with pytest.raises(ConfigError, match="degree = 201 is greater than 200"):
        sw.SelfAttractionLoading(201)
    with pytest.raises(ConfigError, match="SelfAttractionLoading steps self_attraction, which needs"):
        ocean().ready_for(sw.SemiImplicit(600.0))
