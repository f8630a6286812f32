"""The monitors of every step: gauges, maxima and arrivals, and the validity of the state."""

from types import SimpleNamespace

import jax.numpy as jnp
import numpy as np
import pytest
import xarray as xr

import swmodel as sw
from swmodel.dynamics.clock import Time
from swmodel.errors import ConfigError
from swmodel.fields.state import replaced
from swmodel.output.products.base import Sample
from swmodel.output.products.extremes import Maxima
from swmodel.output.products.gauges import Gauges, depth_at
from swmodel.output.schedule import nearest_steps
from swmodel.parallel import Decomposition, SerialCommunicator
from swmodel.runtime.compilation import jit
from swmodel.simulation.program import Health
from tests.selection import later

pytestmark = pytest.mark.usefixtures("large_tiles")

PLANE = sw.CartesianGrid(8, 6, (0.0, 8e4), (0.0, 6e4))


def read(model, points, function):
    return readings(Gauges.at(points, model), function(*model.grid.coordinates("h")) * model.wet)


@jit
def readings(gauges, eta):
    return gauges.read(eta)


def test_gauges_are_exact_for_linear_elevations():
    model = sw.ShallowWater(PLANE, 100.0)
    rng = np.random.default_rng(0)
    points = {str(k): (x, y) for k, (x, y) in enumerate(zip(rng.uniform(5e3, 7.5e4, 20), rng.uniform(5e3, 5.5e4, 20)))}
    plane = lambda x, y: 1.0 + 3e-5 * x - 2e-5 * y  # noqa: E731
    np.testing.assert_allclose(read(model, points, plane), [plane(*p) for p in points.values()], rtol=1e-12)


def test_gauges_between_the_last_centre_and_the_wall_take_the_last_centre():
    model = sw.ShallowWater(PLANE, 100.0)
    np.testing.assert_allclose(read(model, {"corner": (0.0, 0.0)}, lambda x, y: x + y), 1e4)
    np.testing.assert_allclose(read(model, {"corner": (8e4, 6e4)}, lambda x, y: x + y), 13e4)


def test_gauges_see_wet_cells_alone():
    depth = np.full((6, 8), 100.0)
    depth[2, 3] = 0.0
    model = sw.ShallowWater(PLANE, depth)
    np.testing.assert_allclose(read(model, {"coast": (3.9e4, 2.9e4)}, lambda x, y: 2.0 + 0 * (x + y)), 2.0, rtol=1e-14)
    shares = {(2, 4): 0.4 * 0.6, (3, 3): 0.6 * 0.4, (3, 4): 0.4 * 0.4}  # the rest is land
    eta = np.random.default_rng(1).random((6, 8))
    found = read(model, {"coast": (3.9e4, 2.9e4)}, lambda x, y: eta)
    np.testing.assert_allclose(found, sum(w * eta[c] for c, w in shares.items()) / sum(shares.values()), rtol=1e-12)


def test_gauges_beside_a_moving_shore_take_the_cells_on_their_side_of_it():
    """The level of a sea at rest is 0, and land is dry: the height of the bed next to the water was averaged in."""
    slope = lambda x, y: 50.0 - x / 800.0  # the shore lies between the cells at 3.5e4 and 4.5e4 m  # noqa: E731
    model = sw.ShallowWater(PLANE, slope, momentum=sw.MomentumConserving(), wetting=sw.WettingDrying(1e-3))
    points = {"sea": (3.9e4, 2.9e4), "land": (4.1e4, 2.9e4), "hill": (5.2e4, 2.9e4)}
    level = readings(Gauges.at(points, model), model.at_rest().eta)
    np.testing.assert_allclose(level, [0.0, 6.25, 15.0], rtol=1e-6)
    np.testing.assert_allclose(depth_at(points, model), [6.25, -6.25, -15.0], rtol=1e-6)


@pytest.mark.parametrize("longitude", (179.5, -180.0, 180.0, -179.5, 539.5))
def test_gauges_find_their_place_across_the_date_line(longitude):
    grid = sw.SphericalGrid(20, 6, (170.0, 190.0), (0.0, 6.0))
    found = read(sw.ShallowWater(grid, 100.0), {"g": (longitude, 2.0)}, lambda x, y: x + 0 * y)
    np.testing.assert_allclose(found, 170.0 + (longitude - 170.0) % 360.0, rtol=1e-13)


def test_gauges_lie_between_the_last_and_the_first_cell_of_a_turn():
    grid = sw.SphericalGrid(12, 6, (-180.0, 180.0), (0.0, 6.0))
    model = sw.ShallowWater(grid, 100.0)
    eta = np.zeros((6, 12))
    eta[:, 0], eta[:, -1] = 1.0, 3.0
    found = read(model, {"seam": (180.0, 3.0), "west": (-172.5, 3.0), "east": (172.5, 3.0)}, lambda x, y: eta)
    np.testing.assert_allclose(found, [2.0, 1.5, 2.5], rtol=1e-12)


def test_every_tile_has_its_share_of_a_gauge():
    """The sum over the tiles is the elevation, and a tile without the gauge has weights of zero."""
    whole = sw.ShallowWater(PLANE, 100.0)
    points = {"a": (4.1e4, 3.2e4), "b": (6.9e4, 0.2e4)}
    eta, total = np.random.default_rng(2).random((6, 8)), 0.0
    for rank in range(6):
        part = sw.ShallowWater(PLANE, 100.0, communicator=SerialCommunicator())
        part.communicator.rank, part.decomposition = rank, Decomposition((6, 8), (2, 3))
        tile = part.tile
        total = total + np.asarray(readings(Gauges.at(points, part), eta[tile.slices]))
    np.testing.assert_allclose(total, readings(Gauges.at(points, whole), eta), rtol=1e-14)


def test_all_gauges_that_cannot_be_are_named_at_once():
    depth = np.full((6, 8), 100.0)
    depth[:3, :3] = 0.0
    with pytest.raises(ConfigError) as raised:
        Gauges.at({"inland": (1e4, 1e4), "sea": (5e4, 5e4), "far": (9e4, 1e4)}, sw.ShallowWater(PLANE, depth))
    first, second = raised.value.mistakes
    assert "'inland'" in first and "no water around it" in first
    assert "'far'" in second and "outside the grid, which spans 0 to 80000" in second


@pytest.mark.parametrize("sides", [later(()), ("west", "north")])
def test_gauges_read_velocities_averaged_to_centres_and_have_their_own_interval(tmp_path, sides):
    """At a wall the velocity on the face is zero; at an open side that of the face inside counts alone.

    13 s are 2.6 steps. Records are those of the nearest steps to 13 and 26 s, and no interval of whole steps.
    """
    model = sw.ShallowWater(
        sw.CartesianGrid(6, 5, (0.0, 6e3), (0.0, 5e3)), 50.0, boundaries=tuple(sw.Flather(side) for side in sides)
    )
    rng = np.random.default_rng(4)
    state = model.state(u=0.1 * rng.standard_normal((5, 6)), v=0.1 * rng.standard_normal((5, 6)))
    points = (500.0, 500.0), (2500.0, 2500.0), (3000.0, 2500.0), (2500.0, 4500.0)
    places = dict(zip(("corner", "middle", "between", "top"), points))
    made = sw.Simulation(model, state, sw.AB2(5.0))
    made.gauges(tmp_path / "gauges.nc", places, variables=("u", "eta", "v"), every=13.0)
    states = [made.state, *(made.run(steps=1) for _ in range(7))]
    with xr.open_dataset(tmp_path / "gauges.nc", decode_times=False) as found:
        np.testing.assert_allclose(found.time, [0.0, 15.0, 25.0])
        u, v, units = found.u.values, found.v.values, found.u.units
    assert units == "m s-1"
    for k, state in enumerate(states[step] for step in (0, 3, 5)):
        along_x, along_y = np.asarray(state.u), np.asarray(state.v)
        centred = lambda j, i, x=along_x: 0.5 * (x[j, i] + (x[j, i - 1] if i else 0.0))  # noqa: E731
        west = along_x[0, 0] if "west" in sides else centred(0, 0)
        np.testing.assert_allclose(u[:2, k], [west, centred(2, 2)], rtol=1e-6)
        np.testing.assert_allclose(u[2, k], 0.5 * (centred(2, 2) + centred(2, 3)), rtol=1e-6)
        north = along_y[3, 2] if "north" in sides else 0.5 * along_y[3, 2]
        np.testing.assert_allclose(v[[0, 1, 3], k], [0.5 * along_y[0, 0], along_y[1:3, 2].mean(), north], rtol=1e-6)


def test_records_at_an_interval_of_no_whole_steps_do_not_drift():
    """Gauges every 130 s with steps of 60 s were 120 s apart: after 20 days by 1.5 days."""
    steps, (every, dt) = np.arange(30000), (130.0, 60.0)
    (due,) = np.nonzero(nearest_steps(steps, every, dt))
    assert np.abs(due * dt - every * np.arange(due.size)).max() <= dt / 2
    assert nearest_steps(steps, 40.0, dt).all()


def made(thin, moving=False):
    """Maxima with wetting and drying."""
    return replaced(Maxima(0.1), {"thin": thin, "moving": moving})


def sample(state, step, depth=None, lifted=None):
    """The Sample of a State over a bed that has risen."""
    equations = SimpleNamespace(
        depth=SimpleNamespace(interior=depth),
        uplift=None if lifted is None else SimpleNamespace(at=lambda time: SimpleNamespace(interior=lifted)),
        subgrid=None,
        shown=lambda state, time: state,
    )
    return Sample(equations, state, Time(step))


def found_by(maxima, series, begin=0, *bed):
    """What maxima have found in the elevations of one step after another; `bed` as in `sample`."""
    ny, nx = np.shape(series[0])
    model = sw.ShallowWater(sw.CartesianGrid(nx, ny, (0, nx), (0, ny)), 1.0)

    @jit
    def found(first, *others):
        carry = maxima.start(first, begin, *bed[:1])
        for step, state in enumerate(others, start=begin + 1):
            carry = maxima.add(carry, sample(state, step, *bed))
        return carry

    return found(*(model.state(eta=np.array(eta)) for eta in series))


def test_maxima_and_arrivals_count_the_first_state_and_every_step():
    series = [[[0.0, 0.3], [0.0, 0.05]], [[-0.2, 0.2], [0.0, 0.1]], [[0.5, 0.1], [0.0, 0.11]]]
    carry = found_by(Maxima(0.1), series)
    np.testing.assert_allclose(carry["maximum"], np.max(series, axis=0))
    np.testing.assert_array_equal(carry["arrival"], [[1, 0], [-1, 2]])


def test_land_that_was_flooded_below_the_threshold_keeps_its_highest_level():
    """Cells with the bed at 1 m: under 5 cm of water and dry again, under a film alone, and under 20 cm."""
    carry = found_by(made(0.001), ([[1.0, 1.0, 1.0]], [[1.05, 1.0009, 1.2]], [[1.0, 1.0, 1.0]]), 0, -jnp.ones((1, 3)))
    np.testing.assert_allclose(carry["maximum"], [[1.05, 1.0, 1.2]])
    np.testing.assert_array_equal(carry["arrival"], [[-2, -1, 1]])


def test_over_a_bed_that_moves_the_largest_thickness_is_found_and_land_that_rises_has_none():
    """Cells with the bed at 1 m that rises by 2 m: dry, and under 20 cm in the first step alone."""
    series, depth = ([[1.0, 1.0]], [[3.0, 3.2]], [[3.0, 3.0]]), -jnp.ones((1, 2))
    carry = found_by(made(0.001, True), series, 0, depth, jnp.full((1, 2), 2.0))
    np.testing.assert_allclose(carry["thickness"], [[0.0, 0.2]], atol=1e-12)
    assert "thickness" not in found_by(made(0.001), series[:1], 0, depth)


def test_the_maximum_is_of_the_elevation_and_the_arrival_of_its_size():
    """Where the sea only falls its highest level is the first one, below zero or not; a trough arrives as a crest
    does."""
    series = [[[0.0, -0.05, 0.02]], [[-0.3, -0.2, -0.09]], [[-0.4, -0.3, -0.1001]]]
    for some, maximum, arrival in ((series, series[0], [[8, 8, 9]]), (series[1:2], series[1], [[7, 7, -1]])):
        carry = found_by(Maxima(0.1), some, 7)
        np.testing.assert_array_equal(carry["maximum"], maximum)
        np.testing.assert_array_equal(carry["arrival"], arrival)


def tiles(model):
    return model.interval(1, 0, 1.0)


@jit
def assessed(monitor, carry, dynamics, state, rise, step):
    return monitor.assess(carry, lambda: state, dynamics, lambda: rise, step)


def health(model, dt=1.0, **fields):
    monitor = Health.of(model, dt)
    state = model.at_rest().replace(**{name: jnp.asarray(x) for name, x in fields.items()})  # NaN, too
    found = assessed(monitor, monitor.start(), tiles(model), state, None, jnp.int32(20))
    return [np.asarray(x).item() for x in found]


def at(row, column, value):
    field = np.zeros((6, 8))
    field[row, column] = value
    return field


@pytest.mark.parametrize(
    "fields, thickness, courant",
    [
        ({"eta": at(2, 3, -9.5)}, 0.5, 0.0),
        ({"u": at(2, 3, 1.2e4)}, 10.0, 1.2),
        ({"v": at(2, 3, -1.2e4)}, 10.0, 1.2),
        ({"u": at(2, 3, 6e3), "v": at(2, 3, 6e3)}, 10.0, 1.2),
        ({"eta": at(2, 3, np.nan)}, np.nan, 0.0),
        ({"u": at(2, 3, np.inf)}, 10.0, np.inf),
    ],
)
def test_an_invalid_state_is_found_with_its_step_and_cell(fields, thickness, courant):
    step, place, h, cfl = health(sw.ShallowWater(PLANE, 10.0), **fields)
    assert (step, place) == (20, 2 * 8 + 3)
    np.testing.assert_allclose([h, cfl], [thickness, courant], rtol=1e-12)


def test_a_valid_state_passes_and_land_is_never_too_thin():
    depth = np.full((6, 8), 10.0)
    depth[2, 3] = 0.0
    assert health(sw.ShallowWater(PLANE, depth), u=at(1, 1, 9e3), eta=at(4, 4, -8.9))[0] == -1


def test_thickness_and_speed_of_a_linear_model_are_not_checked():
    model = sw.ShallowWater(PLANE, 10.0, linear=True)
    assert health(model, u=at(1, 1, 9e9), eta=at(4, 4, -80.0))[0] == -1
    assert health(model, eta=at(4, 4, np.nan))[0] == 20


def test_the_first_invalid_step_is_reported():
    model = sw.ShallowWater(PLANE, 10.0)
    monitor = Health.of(model, 1.0)
    carry = monitor.start()
    for step, fields in ((20, {}), (40, {"eta": at(1, 2, -9.8)}), (60, {"u": at(0, 0, 9e9)})):
        carry = assessed(monitor, carry, tiles(model), model.state(**fields), None, jnp.int32(step))
    assert [x.item() for x in carry[:2]] == [40, 10]


def test_a_sea_floor_that_rises_thins_the_water():
    model = sw.ShallowWater(PLANE, 10.0)
    monitor = Health.of(model, 1.0)
    rise = jnp.asarray(at(1, 2, 9.5))
    carry = assessed(monitor, monitor.start(), tiles(model), model.at_rest(), rise, jnp.int32(10))
    assert carry[0].item() == 10 and carry[2].item() == pytest.approx(0.5)
