"""Kajiura's filter: modes, volumes, long waves, his Green function; and the sea surface over faults."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from swmodel.errors import ConfigError
from swmodel.fields.state import replace
from swmodel.grids.grid import CartesianGrid, SphericalGrid
from swmodel.sources import Fault, SeaSurface, Source, region_around
from swmodel.sources.fault import AzimuthalEqualArea
from swmodel.sources.kajiura import KajiuraFilter
from swmodel.sources.motion import depth_gradient, slip_history, uplift
from swmodel.sources.regions import patch_of
from tests.selection import later

PERIODIC = CartesianGrid(32, 24, (0.0, 160e3), (0.0, 120e3), periodic="xy")
CLOSED = CartesianGrid(32, 24, (0.0, 160e3), (0.0, 120e3))
OCEAN = SphericalGrid(60, 48, (140.0, 145.0), (36.0, 40.0))


@jax.jit
def smoothed(kajiura, field):
    """The field after the filter, in one program for all filters of a shape."""
    return kajiura(field)


def filter_of(*arguments, **options):
    return functools.partial(smoothed, KajiuraFilter.of(*arguments, **options))


def varied_depth(grid, seed=0):
    """Depths from land to 8 km."""
    x, y = np.meshgrid(np.linspace(0, 1, grid.nx), np.linspace(0, 1, grid.ny))
    return 8000 * x * (1 + 0.2 * np.sin(6 * y)) - 600 + 300 * np.random.default_rng(seed).normal(size=grid.shape)


@pytest.mark.parametrize("m, n", [(0, 0), (1, 0), (0, 1), (3, 2), (7, 5), (15, 11)])
def test_a_fourier_mode_is_damped_by_exactly_one_over_cosh_k_H(m, n):
    x, y = PERIODIC.coordinates("h")
    k, l = 2 * np.pi * m / 160e3, 2 * np.pi * n / 120e3
    mode = np.cos(k * x + l * y + 0.3)
    smooth = filter_of(PERIODIC, np.full(PERIODIC.shape, 6000.0))(jnp.asarray(mode))
    np.testing.assert_allclose(smooth, mode / np.cosh(np.hypot(k, l) * 6000.0), atol=1e-14)


@pytest.mark.parametrize("m, n", [(0, 0), (1, 0), (4, 3), (31, 23)])
def test_between_walls_a_standing_mode_is_damped_as_exactly(m, n):
    x, y = CLOSED.coordinates("h")
    k, l = np.pi * m / 160e3, np.pi * n / 120e3
    mode = np.cos(k * x) * np.cos(l * y)
    smooth = filter_of(CLOSED, np.full(CLOSED.shape, 6000.0))(jnp.asarray(mode))
    np.testing.assert_allclose(smooth, mode / np.cosh(np.hypot(k, l) * 6000.0), atol=1e-14)


@pytest.mark.parametrize("region", [None, (141.0, 144.0, 36.5, 39.0)])
def test_volume_is_conserved_over_any_depths_on_the_sphere(region):
    field = np.random.default_rng(1).normal(size=OCEAN.shape)
    smooth = np.asarray(filter_of(OCEAN, varied_depth(OCEAN), region)(jnp.asarray(field)))
    assert np.abs(smooth - field).max() > 0.5
    assert abs(np.sum(OCEAN.area_h * (smooth - field))) < 1e-12 * np.sum(OCEAN.area_h * np.abs(field))


@pytest.mark.parametrize("grid", [later(PERIODIC), CLOSED, OCEAN])
def test_a_uniform_uplift_is_kept_over_any_depths(grid):
    smooth = filter_of(grid, varied_depth(grid))(jnp.ones(grid.shape))
    np.testing.assert_allclose(smooth, 1.0, atol=1e-13)


def test_long_waves_change_by_the_divergence_of_half_the_squared_depth_times_their_slope():
    """The limit |k| H << 1 of an impulsive potential flow over a sea floor of any shape; classes are 50 m apart."""
    grid = CartesianGrid(256, 4, (0.0, 2000e3), (0.0, 30e3), periodic="xy")
    x, _ = grid.coordinates("h")
    k = 2 * np.pi / 1000e3
    depth = 3000.0 + 1000.0 * np.sin(k / 2 * x) + np.zeros(grid.shape)
    wave = np.cos(k * x) + np.zeros(grid.shape)
    slope, curvature = -k * np.sin(k * x), -k * k * np.cos(k * x)
    want = depth**2 / 2 * curvature + depth * 500.0 * k * np.cos(k / 2 * x) * slope
    gain = np.asarray(filter_of(grid, depth, tolerance=1e-6)(jnp.asarray(wave))) - wave
    np.testing.assert_allclose(gain, want, atol=1e-2 * np.abs(want).max())
    assert np.abs(gain).max() < 1e-3


def test_land_keeps_its_uplift_and_no_water_crosses_the_coast():
    depth = np.where(np.arange(32) < 16, -100.0, 5000.0) * np.ones((24, 1))
    field = np.random.default_rng(6).normal(size=PERIODIC.shape)
    smooth = np.asarray(filter_of(PERIODIC, depth)(jnp.asarray(field)))
    np.testing.assert_array_equal(smooth[:, :16], field[:, :16])
    np.testing.assert_allclose(smooth[:, 16:].sum(), field[:, 16:].sum(), rtol=1e-12)
    assert np.abs(smooth - field)[:, 16:].max() > 1.0


def test_outside_its_region_the_surface_follows_the_floor():
    field = np.random.default_rng(2).normal(size=OCEAN.shape)
    depth = np.full(OCEAN.shape, 5000.0)
    smooth = np.asarray(filter_of(OCEAN, depth, (141.0, 144.0, 36.5, 39.0))(jnp.asarray(field)))
    x, y = OCEAN.coordinates("h")
    outside = (x < 141) | (x > 144) | (y < 36.5) | (y > 39)
    np.testing.assert_array_equal(smooth[outside], field[outside])
    whole = np.asarray(filter_of(OCEAN, depth)(jnp.asarray(field)))
    centre = (abs(x - 142.5) < 0.7) & (abs(y - 37.75) < 0.6)
    np.testing.assert_allclose(smooth[centre], whole[centre], atol=0.02)


def test_far_from_a_step_in_depth_each_side_is_smoothed_in_its_own_depth():
    grid = CartesianGrid(64, 24, (0.0, 320e3), (0.0, 120e3), periodic="xy")
    depth = np.where(np.arange(64) < 32, 3000.0, 6000.0) * np.ones((24, 1))
    smooth = filter_of(grid, depth)
    for column, own in ((16, 3000.0), (48, 6000.0)):
        point = jnp.zeros(grid.shape).at[12, column].set(1.0)
        alone = filter_of(grid, np.full(grid.shape, own))(point)
        np.testing.assert_allclose(smooth(point), alone, atol=2e-4)


def test_degrees_of_longitude_have_their_length_at_every_latitude():
    """A mode along a parallel, narrow as a cell, against 1 / cosh(k H) with its own cos(latitude)."""
    grid = SphericalGrid(48, 96, (140.0, 144.0), (20.0, 60.0), periodic="")
    x, y = grid.coordinates("h")
    n = 12 * np.pi / np.deg2rad(4.0)
    mode = np.cos(n * np.deg2rad(x - 140.0)) + 0 * y
    smooth = np.asarray(filter_of(grid, np.full(grid.shape, 4000.0))(jnp.asarray(mode)))
    want = mode / np.cosh(n / (6.371e6 * np.cos(np.deg2rad(y))) * 4000.0)
    np.testing.assert_allclose(smooth[5:-5], want[5:-5], atol=2e-3)


def test_a_point_source_makes_the_green_function_of_kajiura():
    """G(r) = 1 / (pi H^2) sum (-1)^n (2n + 1) / ((2n + 1)^2 + (r / H)^2)^(3/2) (Glimsdal et al. 2013, eq. 3)."""
    grid = CartesianGrid(256, 256, (-40e3, 40e3), (-40e3, 40e3), periodic="xy")
    x, y = grid.coordinates("h")
    depth, centre = 4000.0, (128, 128)
    r = np.hypot(x - grid.x_centres[128], y - grid.y_centres[128]) / depth
    near = r < 5
    distances, which = np.unique(r[near], return_inverse=True)
    n = np.arange(4000)[:, None]
    terms = (-1.0) ** n * (2 * n + 1) / ((2 * n + 1) ** 2 + distances**2) ** 1.5
    series = terms[:-1].sum(0) + terms[-1] / 2  # alternating terms: the mean of the last two partial sums
    point = jnp.zeros(grid.shape).at[centre].set(1 / grid.area_h[0, 0])
    smooth = filter_of(grid, np.full(grid.shape, depth))(point)
    np.testing.assert_allclose(np.asarray(smooth)[near], series[which] / (np.pi * depth**2), atol=1e-4 / depth**2)


def test_the_filter_is_linear_and_differentiable_and_takes_records():
    rng = np.random.default_rng(3)
    a, b = (jnp.asarray(rng.normal(size=OCEAN.shape)) for _ in range(2))
    smooth = filter_of(OCEAN, varied_depth(OCEAN))
    np.testing.assert_allclose(smooth(2 * a - b), 2 * smooth(a) - smooth(b), atol=1e-13)

    @jax.jit
    def products(a, b):
        value, pull_back = jax.vjp(smooth, a)
        return value, jnp.vdot(b, jax.jvp(smooth, (a,), (a,))[1]), jnp.vdot(pull_back(b)[0], a)

    value, forward, backward = products(a, b)
    np.testing.assert_allclose(forward, backward, rtol=1e-12)
    np.testing.assert_allclose(smooth(jnp.stack([a, b])), np.stack([value, smooth(b)]), atol=1e-14)


def test_float32_stays_float32():
    field = jnp.asarray(np.random.default_rng(4).normal(size=OCEAN.shape), jnp.float32)
    smooth = filter_of(OCEAN, varied_depth(OCEAN))
    assert smooth(field).dtype == jnp.float32
    np.testing.assert_allclose(smooth(field), smooth(field.astype(jnp.float64)), atol=1e-5)


def test_depths_of_another_grid_and_a_region_without_cells_are_refused():
    with pytest.raises(ConfigError, match=r"depth has the shape \(3, 4\), but the grid \(48, 60\)"):
        KajiuraFilter.of(OCEAN, np.ones((3, 4)))
    with pytest.raises(ConfigError, match="x = .* holds no cell of the grid, which spans 140.0"):
        KajiuraFilter.of(OCEAN, np.ones(OCEAN.shape), (200.0, 210.0, 36.0, 40.0))


def test_a_region_may_have_longitudes_of_the_other_convention():
    here, turned = (patch_of(OCEAN, (141.0 + turn, 144.0 + turn, 36.5, 39.0)) for turn in (0.0, -360.0))
    assert turned[:2] == here[:2] and np.array_equal(turned[2], here[2])


# -- the sea surface over faults --------------------------------------------------------------------------------------

THRUST = Source(
    [
        Fault(143.0, 38.2, 2e3, 80e3, 40e3, 195.0, 10.0, 85.0, 6.0, rise_time=20.0, reference="top_corner"),
        Fault(142.5, 38.0, 9e3, 80e3, 40e3, 195.0, 12.0, 85.0, 3.0, onset=15.0, rise_time=30.0, reference="top_corner"),
    ]
)


@pytest.mark.verify
def test_the_surface_is_the_mean_over_cells_of_the_uplift():
    fine = SphericalGrid(300, 240, OCEAN.longitude, OCEAN.latitude)
    depth = np.clip(varied_depth(OCEAN), 10.0, None)
    gradient = tuple(part.repeat(5, 0).repeat(5, 1) for part in depth_gradient(OCEAN, depth))
    want = np.asarray(jax.jit(uplift)(THRUST, *fine.coordinates("h"), gradient)).reshape(48, 5, 60, 5).mean((1, 3))
    surface = SeaSurface.of(OCEAN, depth, refinement=5, kajiura=False)
    np.testing.assert_allclose(jax.jit(surface.elevation)(THRUST), want, atol=1e-12)
    vertical = SeaSurface.of(OCEAN, depth, refinement=1, horizontal=False, kajiura=False)
    np.testing.assert_allclose(
        jax.jit(vertical.elevation)(THRUST), jax.jit(uplift)(THRUST, *OCEAN.coordinates("h")), atol=1e-12
    )


@pytest.mark.verify
@pytest.mark.parametrize("turn", [0.0, later(-360.0)])
def test_far_from_the_faults_the_centre_of_a_cell_is_as_good_as_its_mean(turn):
    grid = SphericalGrid(120, 110, (136.0 + turn, 150.0 + turn), (31.0, 44.0))
    x, y = grid.coordinates("h")
    depth = 4000.0 + 2000.0 * np.sin(x) * np.cos(2 * y)
    every = SeaSurface.of(grid, depth, kajiura=False)
    some = SeaSurface.of(grid, depth, kajiura=False, around=THRUST)
    none = SeaSurface.of(grid, depth, kajiura=False, refinement=1)
    assert some.near is not None and some.near[0] < 60 and some.near[1] < 60
    want = np.asarray(jax.jit(every.elevation)(THRUST))
    np.testing.assert_allclose(jax.jit(some.elevation)(THRUST), want, atol=1e-4 * want.max())
    assert abs(np.asarray(jax.jit(none.elevation)(THRUST)) - want).max() > 0.02 * want.max()  # near them it is not


@pytest.mark.parametrize("tolerance", [later(1e-2), 1e-4])
def test_the_nodes_of_the_filter_keep_its_tolerance(tolerance):
    """Over a flat bottom of any depth the filter is 1 / cosh(|k| H); between nodes, to the tolerance."""
    x, y = PERIODIC.coordinates("h")
    depths = np.linspace(0.0, 7000.0, PERIODIC.nx)[None].repeat(PERIODIC.ny, 0)
    exact, found = (KajiuraFilter.of(PERIODIC, depths, tolerance=t) for t in (1e-9, tolerance))
    assert found.nodes[0].size < exact.nodes[0].size and found.nodes[0][0] == 0.0
    noise = jnp.asarray(np.random.default_rng(2).normal(size=PERIODIC.shape))
    off = np.asarray(smoothed(found, noise) - smoothed(exact, noise))
    assert np.abs(np.fft.fft2(off)).max() / np.abs(np.fft.fft2(noise)).max() < tolerance


@pytest.fixture(scope="module")
def over_thrusts():
    """(depths, the surface over them, the program of slips that gives its elevation and the slopes of a sum of it)."""
    depth = np.clip(varied_depth(OCEAN), 10.0, None)
    surface = SeaSurface.of(OCEAN, depth, refinement=2)

    @jax.jit
    def program(slip, weights):
        of = lambda slip: surface.elevation(replace(THRUST, faults=replace(THRUST.faults, slip=slip)))  # noqa: E731
        elevation, pull_back = jax.vjp(of, slip)
        return elevation, pull_back(weights)[0]

    return depth, surface, program


def test_its_records_are_those_of_the_slip_so_far_and_the_smoothed_mean_of_the_uplift_over_cells(over_thrusts):
    depth, surface, program = over_thrusts
    times, fields = surface.records(THRUST, np.array([0.0, 15.0, 45.0]))
    for field, slips in zip(fields, slip_history(THRUST, times)[1]):
        np.testing.assert_allclose(field, program(slips[:, None], field)[0], atol=1e-12)
    fine = SphericalGrid(120, 96, OCEAN.longitude, OCEAN.latitude)
    gradient = tuple(part.repeat(2, 0).repeat(2, 1) for part in depth_gradient(OCEAN, depth))
    floor = np.asarray(uplift(THRUST, *fine.coordinates("h"), gradient)).reshape(48, 2, 60, 2).mean((1, 3))
    np.testing.assert_allclose(fields[-1], filter_of(OCEAN, depth)(jnp.asarray(floor)), atol=1e-12)


@pytest.mark.verify
def test_a_region_around_the_faults_gives_the_surface_there_and_none_beyond():
    grid = SphericalGrid(90, 80, (134.0, 152.0), (30.0, 46.0))
    depth = np.full(grid.shape, 5000.0)
    region = region_around(THRUST, grid, reach=300e3)
    west, east, south, north = 141.8, 143.0, 37.3, 38.3  # between these lie the rectangles; 300 km are 2.7 degrees
    assert region == pytest.approx((west - 3.5, east + 3.5, south - 2.7, north + 2.7), abs=0.3)
    whole = np.asarray(jax.jit(SeaSurface.of(grid, depth).elevation)(THRUST))
    part = np.asarray(jax.jit(SeaSurface.of(grid, depth, region).elevation)(THRUST))
    x, y = grid.coordinates("h")
    near = (abs(x - 142.6) < 3) & (abs(y - 37.9) < 2.5)
    far = (x < region[0]) | (x > region[1]) | (y < region[2]) | (y > region[3])
    np.testing.assert_allclose(part[near], whole[near], atol=1e-3 * whole.max())
    assert (part[far] == 0).all()
    np.testing.assert_allclose(part, whole, atol=0.02 * whole.max())
    with pytest.raises(ConfigError, match="no cell of the grid is near the faults"):
        region_around(THRUST, SphericalGrid(10, 10, (0, 10), (0, 10)))


@pytest.mark.parametrize("reference", ["centroid", later("top_corner")])
def test_the_region_of_a_fault_of_any_length_leaves_out_a_thousandth_of_its_slip(reference):
    """Beyond the region, and where its taper begins, Okada's uplift on the whole sphere is within the accuracy."""
    grid = SphericalGrid(150, 120, (100.0, 200.0), (-10.0, 70.0))
    x, y = grid.coordinates("h")
    fault = Fault(longitude=150.0, latitude=30.0, depth=25e3, length=0, width=0, strike=0, dip=0, rake=0, slip=10.0)
    for length, width, strike, dip, rake in (
        (1200e3, 150e3, 10.0, 12.0, 90.0),
        (600e3, 100e3, 120.0, 30.0, 60.0),
        (200e3, 25e3, 45.0, 90.0, 0.0),
        (100e3, 40e3, -70.0, 80.0, -90.0),
    ):
        one = dict(length=length, width=width, strike=strike, dip=dip, rake=rake, reference=reference)
        source = Source([replace(fault, **one)])
        floor = np.abs(np.asarray(uplift(source, x, y)))
        rows, columns, taper = patch_of(grid, region_around(source, grid))
        missing = floor.copy()
        missing[rows, columns] *= 1 - taper
        assert 0.0 < missing.max() <= 1.1e-3 * 10.0, one
        assert floor.max() > 0.1 and taper.size < 0.8 * floor.size
        if length > 1000e3:  # beyond an end most of the fault is further away: the region ends near the limit
            needed = np.ptp(np.nonzero(floor > 1e-3 * 10.0)[0])
            assert needed < rows.stop - rows.start < 1.2 * needed


def test_positions_are_the_inverse_of_distances_on_the_map():
    earth, (east, north) = AzimuthalEqualArea(), np.random.default_rng(3).normal(size=(2, 40)) * 2e6
    for at in ((170.0, 60.0), (-30.0, 0.0)):
        np.testing.assert_allclose(earth.local(*earth.position(east, north, at), at), (east, north), atol=1e-6)


def test_the_surface_is_differentiable_in_the_slip(over_thrusts):
    weights, slip = jnp.asarray(np.random.default_rng(5).normal(size=OCEAN.shape)), jnp.asarray(THRUST.faults.slip)
    elevation, gradient = over_thrusts[2](slip, weights)
    np.testing.assert_allclose(np.vdot(gradient, slip), np.vdot(weights, elevation), rtol=1e-12)
