"""Terms: what changes in time, what a sea floor does that moves, and how each term reads what the user wrote."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import swmodel as sw
from swmodel.dynamics.clock import Time
from swmodel.dynamics.sponge import SpongeProfile
from swmodel.dynamics.terms import Series
from swmodel.runtime.compilation import jit
from swmodel.stepping.steps import one_step
from tests.selection import now

NX, NY = 8, 6
GRID = sw.CartesianGrid(NX, NY, (0.0, NX * 1e4), (0.0, NY * 1e4))
ISLAND = np.where(np.random.default_rng(0).random((NY, NX)) < 0.2, 0.0, 500.0)


class Records:
    def __init__(self, times, values, cycle=None):
        self.times, self.values, self.cycle = times, values, cycle


def follow(series, first, last, dt):
    """The value at every step from `first` to `last`, window by window as a run would take them."""
    values, step = [], first
    while step <= last:
        window, end = series.window(step, dt, float), series.next_step(step, dt)
        stop = last + 1 if end is None else min(end, last + 1)
        assert stop > step
        values += [float(window.at(float(k))) for k in range(step, stop)]
        step = stop
    return np.array(values)


def test_records_are_linear_between_and_held_at_the_ends():
    series = Series(np.array([20.0, 60.0, 70.0]), np.array([1.0, 5.0, 2.0]))
    steps = np.arange(13)
    expected = np.interp(10.0 * steps, [20, 60, 70], [1, 5, 2])
    np.testing.assert_allclose(follow(series, 0, 12, 10.0), expected, rtol=1e-14)


@pytest.mark.parametrize("dtype", (np.float32, np.float64))
def test_values_do_not_depend_on_where_the_windows_of_a_run_begin(dtype):
    """Bit for bit: else a run would depend on its outputs, and on how fast the machine is."""
    series = Series(np.array([0.0, 970.0]), np.random.default_rng(1).random(2))
    whole = series.window(0, 10.0, dtype)
    for start in (1, 13, 60):
        part = series.window(start, 10.0, dtype)
        for k in (0.0, 0.5, 7.0):
            assert float(part.at(dtype(start + k))) == float(whole.at(dtype(start + k)))


def test_records_off_the_steps_take_the_nearest():
    series = Series(np.array([4.0, 26.0]), np.array([0.0, 3.0]))
    np.testing.assert_allclose(follow(series, 0, 4, 10.0), [0.0, 1.0, 2.0, 3.0, 3.0])


def test_a_burst_of_records_within_a_step_takes_one_step_and_loses_nothing():
    series = Series(np.arange(0.0, 4.5, 0.5), np.linspace(0.0, 8.0, 9))
    np.testing.assert_allclose(follow(series, 0, 3, 10.0), [0.0, 8.0, 8.0, 8.0])
    later = Series(np.append(np.arange(100.0, 104.0), 200.0), np.array([0.0, 1.0, 2.0, 3.0, 30.0]))
    np.testing.assert_allclose(follow(later, 9, 20, 10.0)[[0, 1, 2, -1]], [0.0, 0.0, 3.0, 30.0])


def test_a_window_ends_where_the_model_says_that_a_run_of_steps_must():
    along_x = Records([0.0, 100.0], np.zeros((2, NY, NX)), cycle=150.0)
    wind = sw.WindStress(x=along_x, y=Records([30.0, 70.0], np.zeros((2, NY, NX))))
    model = sw.ShallowWater(GRID, 500.0, forcing=(wind,))
    ends, step = [], 0
    while step < 40:
        step = model.next_record(step, 10.0)
        ends.append(step)
    assert ends == [3, 7, 10, 15, 25, 30, 40]


@pytest.mark.parametrize(
    "records, sentence",
    [
        (Records([0.0, 1.0], np.zeros((2, NY, NX + 1))), "WindStress.x has shape"),
        (Records([0.0, 0.0], np.zeros((2, NY, NX))), "give one increasing time each"),
        (Records([0.0, 1.0, 2.0], np.zeros((2, NY, NX))), "2 records at times"),
        (np.zeros((NX, NY)), "WindStress.x has shape"),
    ],
)
def test_records_that_do_not_fit_are_refused(records, sentence):
    with pytest.raises(ValueError, match=sentence):
        sw.ShallowWater(GRID, 500.0, forcing=(sw.WindStress(x=records),))


# -- a sea floor that moves -------------------------------------------------------------------------------------------


@jit
def rise(dynamics, stepper, state, first, last):
    equations = dynamics.prepare()
    body = lambda k, c: one_step(equations, stepper, *c, k)  # noqa: E731
    state, _ = jax.lax.fori_loop(first, last, body, (state, stepper.history(state)))
    return state, equations.depth_at(Time(last)).interior


def risen(times, uplift, stepper, steps):
    """(eta, the depth) after `steps` of a motionless ocean (no gravity), stepping from record to record."""
    model = sw.ShallowWater(GRID, ISLAND, gravity=0.0, source=sw.BottomMotion(times, uplift))
    state, step, dt = model.at_rest(), 0, float(stepper.dt)
    stepper = jax.tree.map(jnp.asarray, stepper)
    while step < steps:
        end = min(model.next_record(step, dt) or steps, steps)
        state, depth = rise(model.interval(2, step, dt), stepper, state, jnp.int32(step), jnp.int32(end))
        step = end
    return np.asarray(state.eta), np.asarray(depth), model.wet


UPLIFT = np.random.default_rng(4).standard_normal(GRID.shape)


@pytest.mark.parametrize(
    "times, shares",
    [
        ((0.0, 100.0), (0.0, 1.0)),
        ((0.0, 3.0), (0.0, 1.0)),  # faster than a step
        ((33.0, 34.0, 35.5), (0.0, 0.4, 1.0)),  # within a step, off its ends
        ((7.0, 95.0), (0.0, 1.0)),
        ((0.0,), (1.0,)),  # at once
        ((20.0, 40.0), (0.5, 1.0)),
    ],
)
def test_the_surface_rises_by_exactly_the_uplift_and_the_depth_falls_by_it(times, shares):
    eta, depth, wet = risen(times, np.multiply.outer(shares, UPLIFT), sw.AB2(10.0), 12)
    np.testing.assert_allclose(eta, UPLIFT * wet, rtol=0, atol=1e-14)
    np.testing.assert_allclose(depth, (ISLAND - UPLIFT) * wet, rtol=0, atol=1e-12)
    assert (eta[~wet] == 0).all()


@pytest.mark.parametrize(
    "stepper", now([sw.AB3(10.0), sw.RK4(10.0), sw.ForwardBackward(10.0)], sw.AB3(10.0)), ids=lambda s: type(s).__name__
)
def test_every_stepper_lifts_the_surface_alike(stepper):
    eta, _, wet = risen((0.0, 50.0, 100.0), np.multiply.outer((0.0, 0.8, 1.0), UPLIFT), stepper, 12)
    np.testing.assert_allclose(eta, UPLIFT * wet, rtol=0, atol=1e-13)


def test_the_water_that_waves_carry_is_the_volume_of_the_uplift():
    model = sw.ShallowWater(GRID, ISLAND, source=sw.BottomMotion((0.0, 30.0), np.stack([0 * UPLIFT, UPLIFT])))
    state, stepper = model.at_rest(), jax.tree.map(jnp.asarray, sw.SSPRK3(10.0))
    for step, last in ((0, 3), (3, 63)):
        state, _ = rise(model.interval(2, step, 10.0), stepper, state, jnp.int32(step), jnp.int32(last))
    assert np.abs(state.u).max() > 1e-3
    assert abs(np.sum(state.eta) - np.sum(UPLIFT * model.wet)) < 1e-12 * np.abs(UPLIFT).sum()


@pytest.mark.parametrize("times", ((0.0, 0.0), (5.0, 1.0), (-1.0, 2.0)))
def test_motion_that_does_not_go_forward_from_the_start_is_refused(times):
    with pytest.raises(ValueError, match="do not increase from 0 on"):
        sw.ShallowWater(GRID, 500.0, source=sw.BottomMotion(times, np.zeros((2, NY, NX))))
    with pytest.raises(ValueError, match=r"it must be \(times, ny, nx\)"):
        sw.ShallowWater(GRID, 500.0, source=sw.BottomMotion((0.0, 1.0), np.zeros((2, NX, NY))))


# -- open sides and layers --------------------------------------------------------------------------------------------


def test_a_sponge_draws_water_at_rest_towards_its_currents():
    sponge = sw.Sponge("west", width=3e4, rate=1e-3, velocity_x=0.5, velocity_y=-0.2)
    model = sw.ShallowWater(GRID, 500.0, boundaries=(sponge,), communicator="serial", engine="arrays")
    state = sw.Simulation(model, model.at_rest(), sw.AB2(1.0)).run(steps=1)
    u, v = np.asarray(state.u), np.asarray(state.v)
    rate = 1e-3 * np.asarray(SpongeProfile(GRID, ("west",), 3e4))
    np.testing.assert_allclose(u[2, 0], 0.5 * 0.5 * (rate[2, 0] + rate[2, 1]), rtol=0.01)
    np.testing.assert_allclose(v[2, 0], -0.2 * rate[2, 0], rtol=0.01)


def test_a_sponge_is_strongest_at_its_sides_and_ends_at_its_width():
    profile = np.asarray(SpongeProfile(GRID, ("west", "north"), 3e4))
    np.testing.assert_allclose(profile[0], np.clip(1 - (np.arange(NX) + 0.5) / 3, 0, 1) ** 3, rtol=1e-12)
    np.testing.assert_allclose(profile[::-1, -1], np.clip(1 - (np.arange(NY) + 0.5) / 3, 0, 1) ** 3, rtol=1e-12)
    assert profile[-1, 0] == profile.max() and profile[0, -1] == 0


def test_sides_and_combinations_that_make_no_sense_are_refused():
    periodic = sw.CartesianGrid(NX, NY, (0.0, 1.0), (0.0, 1.0), "x")
    with pytest.raises(ValueError, match="the west side cannot be open, the grid is periodic there"):
        sw.ShallowWater(periodic, 1.0, boundaries=(sw.Flather("west"),))
    with pytest.raises(ValueError, match="Clamped: the west side is open already, by Flather; give it one condition"):
        sw.ShallowWater(GRID, 1.0, boundaries=(sw.Flather("west"), sw.Clamped("west", 0.0)))
    with pytest.raises(ValueError, match="are not among west, east, south, north"):
        sw.Flather(("left",))
    with pytest.raises(ValueError, match="QuadraticDrag is not linear, and linear=True"):
        sw.ShallowWater(GRID, 1.0, linear=True, dissipation=(sw.QuadraticDrag(1e-3),))
    with pytest.raises(ValueError, match="rate cannot be time records"):
        sw.ShallowWater(GRID, 1.0, boundaries=(sw.Sponge("west", 1e4, rate=Records([0.0], np.zeros(1))),))


@pytest.mark.parametrize(
    "depth, sentence", ((0.0, "nowhere positive"), (np.nan, "a finite number"), (np.ones((3, 4)), "depth has shape"))
)
def test_depths_that_are_no_ocean_are_refused(depth, sentence):
    with pytest.raises(ValueError, match=sentence):
        sw.ShallowWater(GRID, depth)


def test_land_at_an_open_side_stays_dry():
    depth = np.full(GRID.shape, 500.0)
    depth[2, -1] = 0.0
    model = sw.ShallowWater(GRID, depth, boundaries=(sw.Flather("east", velocity=1.0),), side=sw.NoSlip())
    u = jit(lambda d: d.prepare().flow(d.zeros(), 0.0).u.interior)(model.interval(1, 0, 1.0))
    np.testing.assert_array_equal(u[:, -1], np.where(np.arange(NY) == 2, 0.0, 1.0))


@pytest.mark.parametrize("as_array", [False, True])
def test_wind_along_each_axis_is_taken_at_the_faces_that_it_pushes(as_array):
    """From rest, a step of Euler: u = dt tau_x / (rho h) at u points, v = dt tau_y / (rho h) at v points."""
    stress = lambda x, y: 0.1 * jnp.sin(x / 1e4) + 0.2 * jnp.cos(y / 2e4)  # noqa: E731
    at = {p: np.broadcast_to(stress(*GRID.coordinates(p)), GRID.shape) for p in "uv"}
    wind = sw.WindStress(*at.values()) if as_array else sw.WindStress(stress, stress)
    model = sw.ShallowWater(GRID, 500.0, forcing=(wind,), communicator="serial", engine="arrays")
    state = sw.Simulation(model, model.at_rest(), sw.AB2(10.0)).run(steps=1)
    for position, found in (("u", state.u), ("v", state.v)):
        wanted = 10.0 * at[position] / (1025.0 * 500.0) * model.faces(position)
        np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-12)
