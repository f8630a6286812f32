"""Limits of the time step: those of the literature, where they are set, and that runs live below and die above them."""

import dataclasses
from typing import Any

import numpy as np
import pytest

import swmodel as sw
from swmodel.config.assembly import dividing_step
from swmodel.errors import ConfigError
from swmodel.stepping.stability import of_step
from tests.selection import later, now
from tests.verification.cases import take_steps

STEPPERS = (sw.AB2(1.0), sw.AB3(1.0), sw.SSPRK3(1.0), sw.RK4(1.0), sw.ForwardBackward(1.0))
EACH = pytest.mark.parametrize("stepper", STEPPERS, ids=lambda s: type(s).__name__)


def plane(nx=8, ny=6, periodic=""):
    return sw.CartesianGrid(nx, ny, (0.0, nx * 1e4), (0.0, ny * 1e4), periodic)


def linear_sea(gravity=9.81, drag=0.0):
    """A model of one form, for which each stepper is compiled once."""
    drag = sw.LinearDrag(drag)
    return sw.ShallowWater(plane(6, 4, "xy"), 1000.0, gravity=gravity, dissipation=(drag,), linear=True)


def limit_of(model, stepper, name, state=None):
    return next(limit for limit in sw.limits(model, stepper, state) if limit.name == name)


@pytest.mark.parametrize(
    "kind, axis, interval",
    [
        (sw.RK4, "imaginary", 2.828),
        (sw.RK4, "real", 2.785),
        (sw.SSPRK3, "imaginary", 1.732),
        (sw.SSPRK3, "real", 2.512),
        (sw.AB3, "imaginary", 0.723),
        (sw.AB3, "real", 6 / 11),
        (sw.ForwardBackward, "wave", 1.780),
    ],
)
def test_intervals_are_those_of_the_literature(kind, axis, interval):
    """Durran (2010), Numerical Methods for Fluid Dynamics; Shchepetkin & McWilliams (2005) for forward-backward."""
    assert abs(kind(1.0).stable_interval(axis) - interval) < 2e-3


@EACH
def test_the_amplification_is_that_of_the_exponential_for_small_steps(stepper):
    damping = 0.1 * 1e-4 if isinstance(stepper, sw.AB2) else 0.0
    assert stepper.amplification(1e-2j) == pytest.approx(1.0 - damping, abs=1e-7)
    assert stepper.amplification(-0.1) == pytest.approx(np.exp(-0.1), rel=3e-3)


@pytest.mark.parametrize(
    "stepper",
    [later(sw.AB2(1.0)), sw.AB3(1.0), later(sw.SSPRK3(1.0)), later(sw.RK4(1.0))],
    ids=lambda s: type(s).__name__,
)
def test_the_amplification_found_from_a_step_is_that_of_the_formula(stepper):
    z = np.array([0.0, 0.3j, 0.7j, 1.5j, 2.9j, -0.2, -1.0, -2.6, 0.4 + 0.1j])
    np.testing.assert_allclose(of_step(stepper, z), [stepper.amplification(each) for each in z], rtol=0, atol=1e-7)


class Heun(sw.RK4):
    """A scheme of second order that inherits the formulas of another one."""

    def step(self, equations, state, history, time):
        first = equations.tendency(state, time)
        second = equations.tendency(state + self.dt * first, time + 1.0)
        return state + (0.5 * self.dt) * (first + second), history


def test_a_scheme_that_inherits_a_formula_for_another_step_gets_the_limits_of_its_own():
    assert sw.RK4(1.0).stable_interval("real") == pytest.approx(2.785, abs=2e-3)
    assert Heun(1.0).stable_interval("real") == pytest.approx(2.0, abs=2e-3)
    assert Heun(1.0).stable_interval("wave") < 0.01  # it grows by z^4 / 8 a step


class Parted(sw.TimeStepper):
    dt: Any = sw.time_step()

    def step(self, equations, state, history, time):
        equations.flow(state, time)
        return state, history


def test_a_scheme_whose_limits_cannot_be_found_says_what_to_give():
    with pytest.raises(ConfigError, match=r"Parted: its limits .* 'flow' .*a method amplification\(z\)"):
        sw.limits(sw.ShallowWater(plane(6, 4, "xy"), 1000.0), Parted(1.0))


def growth(model, stepper, dt, state):
    """How much larger the root of (9.81 eta^2 + 1000 (u^2 + v^2)) is after 81 steps than after 80."""
    after = [take_steps(model, dataclasses.replace(stepper, dt=dt), state, steps)[0] for steps in (80, 81)]
    energies = [np.sum(9.81 * x.eta**2 + 1000.0 * (x.u**2 + x.v**2)) for x in after]
    return np.sqrt(energies[1] / energies[0])


@EACH
def test_waves_of_the_grid_live_below_the_limit_and_grow_above_by_the_formula(stepper):
    model = linear_sea()
    j, i = np.indices(model.grid.shape)
    checkers = model.state(eta=(-1.0) ** (i + j))
    longest = limit_of(model, stepper, "gravity waves").dt
    below = take_steps(model, dataclasses.replace(stepper, dt=0.98 * longest), checkers, 2000)[0]
    assert np.abs(below.eta).max() < 2.0
    wanted = stepper.wave_amplification(1.1 * stepper.stable_interval("wave"))
    assert growth(model, stepper, 1.1 * longest, checkers) == pytest.approx(wanted, rel=1e-12) and wanted > 1.01


@pytest.mark.parametrize("stepper", now(STEPPERS, STEPPERS[0], STEPPERS[-1]), ids=lambda s: type(s).__name__)
def test_a_drag_is_borne_below_its_limit_and_not_above(stepper):
    model = linear_sea(gravity=1e-9, drag=1e-3)
    longest = limit_of(model, stepper, "LinearDrag").dt
    below = take_steps(model, dataclasses.replace(stepper, dt=0.98 * longest), model.state(u=1.0), 600)[0]
    assert np.abs(below.u).max() < 1.0
    wanted = stepper.amplification(-1.1 * stepper.stable_interval("real"))
    assert growth(model, stepper, 1.1 * longest, model.state(u=1.0)) == pytest.approx(wanted, rel=1e-12)
    assert wanted > 1.01


@pytest.mark.parametrize(
    "kind, viscosity, side",
    (
        (sw.Laplacian, 1e4, sw.FreeSlip()),
        (sw.Biharmonic, 1e11, sw.NoSlip()),
        later(sw.Laplacian, 1e4, sw.NoSlip()),
        later(sw.Biharmonic, 1e11, sw.FreeSlip()),
    ),
)
def test_viscosity_is_borne_at_its_limit_over_the_roughest_bottom(kind, viscosity, side):
    """A face of 20 m between corners of 2500 m decays a hundred times as fast as over a flat bottom."""
    rng, grid = np.random.default_rng(0), plane(10, 9)
    depth = np.where(rng.random(grid.shape) < 0.5, 20.0, 5000.0) * (rng.random(grid.shape) > 0.1)
    model = sw.ShallowWater(grid, depth, gravity=1e-12, dissipation=(kind(viscosity),), side=side)
    flat = sw.ShallowWater(grid, 1000.0, gravity=1e-12, dissipation=(kind(viscosity),), side=sw.FreeSlip())
    longest = limit_of(model, sw.RK4(1.0), kind.__name__).dt
    start = model.state(*(1e-3 * rng.standard_normal(grid.shape) for _ in "uv"))
    for frac in (1.0, 0.2):
        state, _ = take_steps(model, sw.RK4(frac * longest), start, 300)
        assert np.abs(state.u).max() < 5e-3
    power = 1 if kind is sw.Laplacian else 2
    wanted = sw.RK4(1.0).stable_interval("real") / (viscosity * (8 / 1e8) ** power)
    assert limit_of(flat, sw.RK4(1.0), kind.__name__).dt == pytest.approx(wanted, rel=1e-9)


def test_the_limit_of_waves_is_that_of_the_deepest_water_and_says_where():
    depth = np.full((6, 8), 100.0)
    depth[4, 2] = 900.0
    model = sw.ShallowWater(plane(), depth, gravity=10.0)
    limit = limit_of(model, sw.RK4(1.0), "gravity waves")
    assert limit.dt == pytest.approx(sw.RK4(1.0).stable_interval("wave") / (2 * np.sqrt(9000.0) * np.sqrt(2e-8)))
    assert limit.place == (2.5e4, 4.5e4) and str(limit).endswith("at (25000, 45000)")


def test_land_sets_no_limit():
    depth = np.full((6, 8), 100.0)
    depth[4, 2] = -9000.0
    model, sea = sw.ShallowWater(plane(), depth), sw.ShallowWater(plane(), 100.0)
    assert limit_of(model, sw.AB2(1.0), "gravity waves").dt == limit_of(sea, sw.AB2(1.0), "gravity waves").dt


def test_rotation_flow_and_drag_set_theirs():
    drags = (sw.LinearDrag(1e-4), sw.QuadraticDrag(1e-2), sw.ManningDrag(0.05))
    model = sw.ShallowWater(plane(), 50.0, gravity=9.81, coriolis=sw.FPlane(-2e-4), dissipation=drags)
    state, stepper = model.state(u=3.0, v=4.0), sw.RK4(1.0)
    turning, damping = (sw.RK4(1.0).stable_interval(axis) for axis in ("imaginary", "real"))
    wanted = {
        "Coriolis force": turning / 2e-4,
        "advection": turning / (7 / 1e4),
        "LinearDrag": damping / 1e-4,
        "QuadraticDrag": damping / (1e-2 * 5 / 50),
        "ManningDrag": damping / (9.81 * 0.05**2 * 5 / 50 ** (4 / 3)),
    }
    for name, dt in wanted.items():
        assert limit_of(model, stepper, name, state).dt == pytest.approx(dt, rel=1e-6), name
    assert not [limit for limit in sw.limits(model, stepper) if limit.name in ("advection", "QuadraticDrag")]


def test_limits_come_tightest_first_and_add_up():
    model = sw.ShallowWater(plane(), 50.0, coriolis=sw.FPlane(1e-4), dissipation=(sw.LinearDrag(1e-3),))
    found = sw.limits(model, sw.AB3(1.0))
    assert [limit.dt for limit in found] == sorted(limit.dt for limit in found)
    assert sw.largest_time_step(found) == pytest.approx(1 / sum(1 / limit.dt for limit in found))
    assert sw.largest_time_step(model, sw.AB3(1.0)) == sw.largest_time_step(found)
    for tracers, alone in (((), []), ((sw.Tracer("dye", diffusivity=10.0),), ["dye"])):  # which adds up with no other
        still = sw.ShallowWater(plane(), 50.0, tracers=tracers)
        limits = sw.limits(still, sw.SemiImplicit(10.0))
        assert len(limits) == len(alone) and all(limit.alone for limit in limits)
        assert sw.largest_time_step(limits) == min([np.inf, *(limit.dt for limit in limits)])


def test_cells_that_shrink_to_a_pole_set_the_limit_there():
    grid = sw.SphericalGrid(36, 18, (0.0, 360.0), (-90.0, 90.0))
    limit = limit_of(sw.ShallowWater(grid, 4000.0), sw.RK4(1.0), "gravity waves")
    assert abs(limit.place[1]) == 85.0
    assert sw.RK4(1.0).wave_amplification(1.0) == sw.RK4(1.0).amplification(1j)


def test_an_amplification_of_ones_own_must_give_a_factor_for_each_number():
    class Scalar(sw.TimeStepper):
        dt: Any = sw.time_step()

        def step(self, equations, state, history, time):
            return state + self.dt * equations.tendency(state, time), history

        def amplification(self, z):
            return 1.0

    with pytest.raises(ConfigError, match="a factor for each number of an array"):
        Scalar(dt=1.0).stable_interval("real")


@pytest.mark.parametrize(
    "wanted, most, intervals, dt",
    [
        (11.8, 12.4, [300.0, 3600.0], 300 / 26),  # many steps fit: the next shorter one costs little
        (11.8, 12.4, [60.0, 3600.0], 12.0),  # 10 s would be a sixth shorter
        (11.8, 11.9, [60.0, 3600.0], 10.0),  # 12 s is too long
        (11.8, 12.4, [7.0], 7.0),  # a step an interval, and none is longer
        (60.0, 63.0, [60.0], 60.0),
        (11.8, 12.4, [60.0, 61.0], 11.8),  # no common divisor
    ],
)
def test_an_automatic_step_fits_into_the_intervals_of_output(wanted, most, intervals, dt):
    assert dividing_step(wanted, most, intervals) == pytest.approx(dt, rel=1e-12)
