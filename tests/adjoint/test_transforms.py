"""Control transforms: covariances are what they claim, transposes are transposes, and parameters mean what they say."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import swmodel as sw
from swmodel import sources
from swmodel.adjoint.assimilation.diffusion import Smooth
from swmodel.adjoint.controls.seafloor import FaultSource, UnitFaults, UnitSources
from swmodel.adjoint.controls.transforms import Around, Balanced, Between, Correlated, Positive, joined
from swmodel.errors import ConfigError
from swmodel.parallel import Decomposition, OneTileCommunicator, make_communicator
from swmodel.sources.fault import AzimuthalEqualArea

NX, NY = 18, 15
ISLANDS = np.where(np.random.default_rng(2).random((NY, NX)) < 0.06, 0.0, 4000.0)


@functools.cache
def ocean(kind="plane", islands=True):
    """A small model: 1e4 m cells on a plane, or a degree on the sphere."""
    grid = {
        "plane": lambda: sw.CartesianGrid(NX, NY, (0.0, 1e4 * NX), (0.0, 1e4 * NY)),
        "channel": lambda: sw.CartesianGrid(NX, NY, (0.0, 1e4 * NX), (0.0, 1e4 * NY), "x"),
        "sphere": lambda: sw.SphericalGrid(NX, NY, (138.0, 147.0), (33.0, 40.5)),
    }[kind]()
    coriolis = sw.RotatingSphere() if kind == "sphere" else sw.FPlane(1e-4)
    return sw.ShallowWater(grid, ISLANDS if islands else 4000.0, coriolis=coriolis, communicator="serial")


def matrix(operator):
    """Of a linear function of fields, (points, points)."""
    units = jnp.eye(NX * NY).reshape(-1, NY, NX)
    return np.asarray(jax.jit(jax.vmap(operator))(units)).reshape(NX * NY, -1).T


@pytest.mark.parametrize("kind, position", [("plane", "h"), ("channel", "u"), ("sphere", "v")])
def test_the_covariance_of_smooth_fields_has_the_variance_that_was_asked_for(kind, position):
    model = ocean(kind)
    length = 1.2e5 if kind == "sphere" else 2e4
    U = matrix(Smooth.of(model, position, length, deviation=2.0))
    variance, wet = np.diag(U @ U.T), (model.wet if position == "h" else model.faces(position)).ravel()
    assert np.allclose(variance[wet], 4.0, rtol=1e-3)  # combs of points see each other at 4e-6 of that
    assert np.all(variance[~wet] == 0.0)


def test_far_from_coasts_the_correlation_is_gaussian():
    U = matrix(Smooth.of(ocean("channel", islands=False), "h", 2.5e4))
    B = U @ U.T
    row = B.reshape(NY, NX, NY, NX)[7, 3, 7, 3:9]
    assert np.allclose(row, np.exp(-0.5 * (np.arange(6) / 2.5) ** 2), atol=0.02)


def test_nothing_is_correlated_across_land():
    depth = np.full((NY, NX), 1000.0)
    depth[:, 8] = 0.0
    wall = sw.ShallowWater(ocean().grid, depth, communicator="serial")
    east = np.asarray(Smooth.of(wall, "h", 3e4)(jnp.zeros((NY, NX)).at[7, 6].set(1.0)))[:, 9:]
    assert np.all(east == 0.0)


def test_the_transpose_of_the_square_root_is_exact():
    U = Smooth.of(ocean("sphere"), "u", 1e5)
    x, y = (jnp.asarray(np.random.default_rng(k).standard_normal((NY, NX))) for k in (0, 1))
    (back,) = jax.linear_transpose(U, x)(y)
    assert float(np.vdot(U(x), y)) == pytest.approx(float(np.vdot(x, back)), rel=1e-13)


def test_random_fields_find_nearly_the_same_normalisation():
    probed, sampled = (Smooth.of(ocean(), "h", 2e4, samples=n).amplitude for n in (None, 300))
    ratio = np.asarray(sampled)[ocean().wet] / np.asarray(probed)[ocean().wet]
    assert np.sqrt(np.mean((ratio - 1.0) ** 2)) < 1.5 * np.sqrt(2 / 300) / 2  # that of a deviation is half a variance's


@pytest.mark.parametrize(
    "arguments, sentence",
    [
        (("q", 2e4), "give 'h', 'u' or 'v'"),
        (("h", 0.0), "give a positive one"),
        (("h", 1e3), "less than half a cell"),
        (("h", 1e10), "more than twice the domain"),
    ],
)
def test_lengths_and_positions_that_cannot_be_are_refused(arguments, sentence):
    with pytest.raises(ConfigError, match=sentence):
        Smooth.of(ocean(), *arguments)


def test_positive_and_bounded_controls_keep_their_limits_and_begin_at_the_background():
    p = jnp.linspace(-40.0, 40.0, 81)
    positive = Positive(jnp.full(81, 0.025), 0.3)
    between = Between(jnp.full(81, 20.0), 5.0, 0.0, 90.0)
    slope_at = jax.grad(lambda x: between(jnp.full(81, x))[40])
    above, inside, slope = jax.jit(lambda p: (positive(p), between(p), slope_at(p[40])))(p)
    assert np.min(above) > 0 and float(above[40]) == pytest.approx(0.025)
    assert 0.0 <= np.min(inside) and np.max(inside) <= 90.0
    assert float(inside[40]) == pytest.approx(20.0)
    assert float(slope) == pytest.approx(5.0)  # the error that was asked for


@pytest.mark.parametrize(
    "transform",
    [Around(jnp.asarray(3.0), 0.5), Positive(jnp.asarray(0.02), 0.4), Between(jnp.asarray(20.0), 5.0, 0.0, 90.0)],
    ids=["around", "positive", "between"],
)
def test_the_variance_told_is_the_square_of_the_slope(transform):
    at = jnp.asarray(0.7)
    variance, slope = jax.jit(lambda at: (transform.variance(at), jax.grad(transform)(at)))(at)
    assert float(variance) == pytest.approx(float(slope) ** 2, rel=1e-12)


# -- unit sources ------------------------------------------------------------------------------------------------------


def test_unit_sources_add_up_to_one_and_stay_off_land():
    model = ocean("sphere")
    patch = UnitSources.on(model, (139.5, 145.5), (34.5, 39.0), 1.0)
    field = np.asarray(patch.field(jnp.ones(len(patch.cells))))
    x, y = model.grid.coordinates("h")
    inside = (x > 140.6) & (x < 144.4) & (y > 35.6) & (y < 37.9)
    assert np.allclose(field[inside & model.wet], 1.0) and np.all(field[~model.wet] == 0.0)


@pytest.mark.parametrize(
    ("grid", "x", "y", "count"),
    [
        (sw.SphericalGrid(36, 6, (0.0, 360.0), (-30.0, 30.0)), (340.0, 380.0), (-10.0, 10.0), 6),
        (sw.SphericalGrid(36, 6, (0.0, 360.0), (-30.0, 30.0)), (-20.0, 20.0), (-10.0, 10.0), 6),
        (sw.SphericalGrid(36, 6, (0.0, 360.0), (-30.0, 30.0)), (-180.0, 180.0), (-10.0, 10.0), 36),
        (sw.SphericalGrid(8, 6, (180.0, 260.0), (-30.0, 30.0)), (-160.0, -120.0), (-10.0, 10.0), 6),
        (sw.CartesianGrid(36, 36, (0.0, 360.0), (0.0, 360.0), "xy"), (-20.0, 20.0), (340.0, 360.0), 6),
    ],
    ids=("beyond the seam", "before it", "round the Earth", "the other convention", "a plane"),
)
def test_unit_sources_across_a_seam_are_whole_and_each_there_once(grid, x, y, count):
    model = sw.ShallowWater(grid, 4000.0, communicator="serial")
    length = 0.0 if grid.spherical else 20.0
    patch = UnitSources.on(model, x, y, 20.0, length=length)
    assert patch.count == count and len(set(patch.centres)) == count
    assert min(c[0] for c in patch.centres) >= grid.x_edges[0] and max(c[0] for c in patch.centres) <= grid.x_edges[-1]
    sources = [np.asarray(patch.field(one)).sum() for one in np.eye(count)]
    np.testing.assert_allclose(sources, 4.0, rtol=1e-6)  # cos^2 on cells half as wide adds up to 2 in each direction
    if length:  # the neighbours across the seam are as close as others
        covariance = np.asarray(patch.root @ patch.root.T)
        np.testing.assert_allclose(covariance[0, 1:3], np.exp([-0.5, -2.0]), atol=1e-5)


def test_coefficients_have_the_covariance_that_was_asked_for():
    patch = UnitSources.on(ocean("sphere"), (140.0, 145.0), (35.0, 39.0), 1.0, deviation=2.0, length=1.5e5)
    root, places = np.asarray(patch.root), np.deg2rad(patch.centres)
    i, j = 0, 7
    half = (
        np.sin((places[i, 1] - places[j, 1]) / 2) ** 2
        + np.cos(places[i, 1]) * np.cos(places[j, 1]) * np.sin((places[i, 0] - places[j, 0]) / 2) ** 2
    )
    distance = 2 * 6.371e6 * np.arcsin(np.sqrt(half))
    assert (root @ root.T)[i, j] == pytest.approx(4.0 * np.exp(-0.5 * (distance / 1.5e5) ** 2), abs=1e-8)


def test_uplift_alone_is_never_negative_and_follows_the_parameters_above_the_bend():
    patch = UnitSources.on(ocean("sphere"), (140.0, 145.0), (35.0, 39.0), 1.0, deviation=2.0, bend=0.1)
    p = jnp.asarray(np.random.default_rng(0).standard_normal(len(patch.cells)))
    a = np.asarray(patch.amplitudes(p))
    assert np.all(a >= 0.0)
    assert np.allclose(a[np.asarray(p) > 0.5], 2.0 * np.asarray(p)[np.asarray(p) > 0.5], atol=1e-4)


def test_sources_that_the_grid_cannot_tell_apart_or_on_land_are_refused():
    with pytest.raises(ConfigError, match="two cells or more"):
        UnitSources.on(ocean("sphere"), (140.0, 145.0), (35.0, 39.0), 0.7)
    with pytest.raises(ConfigError, match="holds no water of the grid"):
        UnitSources.on(ocean("sphere"), (10.0, 15.0), (35.0, 39.0), 1.0)


# -- faults ------------------------------------------------------------------------------------------------------------


@functools.cache
def fault_source():
    model = ocean("sphere")
    fault = sources.Fault(142.5, 37.0, 2e4, 2e5, 8e4, 200.0, 12.0, 90.0, 10.0)
    source = sources.Source([fault], projection=AzimuthalEqualArea(model.grid.radius))
    surface = sources.SeaSurface.of(model.grid, model.depth, refinement=1, horizontal=False, kajiura=False)
    spreads = {"slip": 0.5, "depth": 0.2, "strike": 10.0, "longitude": 0.3}
    return FaultSource.of(model, surface, source, spreads), surface, source


def test_faults_at_their_background_make_the_published_surface_and_slip_stays_positive():
    found, surface, source = fault_source()
    assert np.allclose(found(jnp.zeros(4)), surface.elevation(source), atol=1e-12)
    assert float(found.faults(jnp.full(4, -30.0)).faults.slip.min()) > 0.0


def test_the_gradient_in_fault_parameters_is_that_of_differences():
    found = fault_source()[0]
    cost = jax.jit(jax.value_and_grad(lambda p: jnp.sum(found(p) ** 2)))
    at, along = jnp.asarray([0.1, -0.2, 0.3, 0.1]), jnp.asarray([0.4, -0.3, 0.2, 0.5])
    slope, (above, below) = float(cost(at)[1] @ along), (float(cost(at + h * along)[0]) for h in (1e-6, -1e-6))
    assert slope == pytest.approx((above - below) / 2e-6, rel=1e-6)


@pytest.mark.parametrize("layout", [(2, 3), pytest.param((4, 1), marks=pytest.mark.verify)])
def test_a_tile_holds_its_window_of_the_patch_above_faults_and_no_more(layout):
    """A tile of many cannot gather, and one of several devices has padding, where it is zero."""
    grid, source = ocean("sphere").grid, fault_source()[2]
    spreads, p = {"slip": 0.5, "depth": 0.2, "strike": 10.0, "longitude": 0.3}, jnp.asarray([0.1, -0.2, 0.3, 0.1])
    region = (140.0, 144.5, 34.5, 39.0)
    near = sources.SeaSurface.of(grid, ISLANDS, region, refinement=1, horizontal=False, kajiura=False)

    def of(communicator):
        return FaultSource.of(sw.ShallowWater(grid, ISLANDS, communicator=communicator), near, source, spreads)

    alone = of("serial")
    expected = np.asarray(near.elevation(alone.faults(p)))
    assert near.window.shape < expected.shape and np.count_nonzero(expected) > 20
    np.testing.assert_array_equal(alone(p), expected)
    parts = Decomposition(expected.shape, layout)
    for rank in range(parts.size):
        np.testing.assert_array_equal(of(OneTileCommunicator(layout, rank))(p), parts.cut(expected, rank))
    devices = make_communicator("sharded", expected.shape, layout)
    found = jax.jit(devices.spmd(lambda source, p: source(p)))(of(devices), devices.place(lambda rank: p))
    parts = devices.decomposition(expected.shape)
    for rank, tile in devices.tiles(found).items():
        np.testing.assert_allclose(tile, parts.cut(expected, rank), rtol=0, atol=1e-14)


def test_unit_faults_add_up_to_the_surface_of_their_slips_on_each_tile():
    grid, given = ocean("sphere").grid, fault_source()[2]
    places = ((142.0, 36.5, 3.0), (142.5, 37.0, 1.0), (143.0, 37.5, 0.0))
    faults = [sources.Fault(x, y, 2e4, 1e5, 5e4, 200.0, 12.0, 90.0, slip) for x, y, slip in places]
    several = sources.Source(faults, projection=given.projection)
    near = sources.SeaSurface.of(grid, ISLANDS, (140.0, 144.5, 34.5, 39.0), refinement=1, kajiura=False)

    def of(communicator):
        return UnitFaults.on(sw.ShallowWater(grid, ISLANDS, communicator=communicator), near, several, 2.0, 5e4)

    expected = np.asarray(near.elevation(several))
    alone, slips = of("serial"), jnp.asarray([3.0, 1.0, 0.0])
    np.testing.assert_allclose(alone.tops, 2e4 - 2.5e4 * np.sin(np.deg2rad(12.0)))
    assert alone.count == 3 and alone.centres[2] == (143.0, 37.5) and np.count_nonzero(expected) > 20
    np.testing.assert_allclose(alone.field(slips), expected, rtol=0, atol=1e-12)
    parts = Decomposition(expected.shape, (2, 3))
    for rank in range(parts.size):
        tile = of(OneTileCommunicator((2, 3), rank)).field(slips)
        np.testing.assert_allclose(tile, parts.cut(expected, rank), rtol=0, atol=1e-12)
    assert np.allclose(np.diag(alone.root @ alone.root.T), 4.0)
    assert alone.table(np.zeros(3))[1]["amplitude"][1] == "slip of the fault"


def test_a_number_that_no_fault_has_is_refused():
    with pytest.raises(ConfigError, match="magnitude cannot be a parameter of a fault; give some of longitude"):
        FaultSource.of(ocean("sphere"), fault_source()[1], fault_source()[2], {"magnitude": 1.0})


# -- several controls --------------------------------------------------------------------------------------------------


def test_a_balanced_change_is_geostrophic():
    model = ocean("channel", islands=False)
    balanced = Balanced.of(model, model.at_rest(), Smooth.of(model, "h", 3e4))
    found = balanced(jnp.asarray(np.random.default_rng(0).standard_normal((NY, NX))))
    eta, u, v = (np.asarray(found[f"initial.{name}"]) for name in ("eta", "u", "v"))
    slope_y = (eta[2:] - eta[:-2]) / 2e4
    at_u = 0.5 * (slope_y + np.roll(slope_y, -1, 1))
    slope_x = (np.roll(eta, -1, 1) - np.roll(eta, 1, 1)) / 2e4
    at_v = 0.5 * (slope_x[:-1] + slope_x[1:])
    assert np.allclose(u[1:-1], -model.gravity / 1e-4 * at_u) and np.allclose(v[:-1], model.gravity / 1e-4 * at_v)


def test_no_flow_balances_an_elevation_where_nothing_turns():
    still = sw.ShallowWater(ocean().grid, 100.0, communicator="serial")
    with pytest.raises(ConfigError, match="Coriolis parameter vanishes"):
        Balanced.of(still, still.at_rest(), Smooth.of(still, "h", 3e4))


@pytest.mark.parametrize("length", [0.0, 900.0])
def test_errors_of_a_series_have_the_covariance_that_was_asked_for(length):
    """U U^T = s^2 exp(-t^2 / 2 length^2) at times that are unevenly apart."""
    model = sw.ShallowWater(sw.CartesianGrid(4, 3, (0.0, 4e3), (0.0, 3e3)), 50.0, communicator="serial")
    times = np.array([0.0, 600.0, 900.0, 3600.0])
    spread = Correlated.in_time(model, times, length, 0.2)
    root = np.asarray(jax.jacobian(spread)(jnp.zeros(4, model.dtype)))
    apart = np.abs(times[:, None] - times)
    expected = 0.04 * (np.exp(-0.5 * (apart / length) ** 2) if length else np.eye(4))
    np.testing.assert_allclose(root @ root.T, expected, atol=1e-8)


def test_joined_transforms_give_each_control_its_own():
    model = ocean("sphere")
    patch = UnitSources.on(model, (140.0, 145.0), (35.0, 39.0), 1.0)
    depth = Positive(jnp.asarray(model.depth), Smooth.of(model, "h", 1e5, 0.1))
    found = joined({"patch": ("initial.eta", patch), "floor": ("depth", depth)}, model)
    assert np.shape(found.parameters["floor"]) == (NY, NX)
    assert np.shape(found.parameters["patch"]) == (len(patch.cells),)
    values = found.function({"patch": jnp.ones(len(patch.cells)), "floor": jnp.zeros((NY, NX))})
    assert set(values) == {"initial.eta", "depth"} and np.allclose(values["depth"], model.depth)
    assert float(values["initial.eta"].max()) == pytest.approx(1.0)


@pytest.mark.verify
def test_on_devices_of_one_process_fields_are_the_same():
    alone = ocean("sphere")
    many = sw.ShallowWater(
        alone.grid, ISLANDS, coriolis=sw.RotatingSphere(), communicator="sharded", layout=(2, 3), engine="arrays"
    )
    p, numbers = np.random.default_rng(0).standard_normal((NY, NX)), np.linspace(-1.0, 1.0, 30)
    smooth, patch = (
        [make(model) for model in (alone, many)]
        for make in (
            lambda model: Smooth.of(model, "h", 1e5, 0.5),
            lambda model: UnitSources.on(model, (139.0, 145.0), (34.0, 39.0), 1.0, 1.0, 1e5, 0.2),
        )
    )
    numbers = numbers[: len(patch[0].cells)]
    numbers = np.pad(numbers, (0, len(patch[0].cells) - numbers.size))

    def both(smooth, patch, p, numbers):
        return smooth(p), patch(numbers)

    right = jax.jit(both)(smooth[0], patch[0], jnp.asarray(p), jnp.asarray(numbers))
    communicator = many.communicator
    given = many.scatter(p), communicator.place(lambda rank: numbers)
    found = jax.jit(communicator.spmd(both))(smooth[1], patch[1], *given)
    for ours, theirs in zip(found, right):
        assert np.allclose(many.gather(ours), theirs, rtol=0, atol=1e-12)
