"""Open sides that keep values from step to step: their state in both engines, in restarts, and beside land."""

import jax
import numpy as np
import pytest

import swmodel as sw
from swmodel.errors import ConfigError
from swmodel.verification import tides
from tests.selection import now

GRID = sw.CartesianGrid(9, 8, (0.0, 9e4), (0.0, 8e4))
DEPTH = np.where(np.random.default_rng(2).random(GRID.shape) < 0.12, 0.0, 500.0)
TIDE = sw.Tide({"M2": (0.5, 30.0)}, ramp=600.0)
SIDES = {
    "chapman": (sw.ChapmanFlather(("west", "south"), incoming=TIDE), sw.ChapmanFlather("north", elevation=0.1)),
    "radiation": (sw.RadiationNudging(("west", "south", "east"), incoming=TIDE, inward=600.0), sw.Flather("north")),
}


def bump(x, y):
    return np.exp(-((x - 5e4) ** 2 + (y - 4e4) ** 2) / 2e8)


def simulation(kind, stepper, engine="arrays"):
    model = sw.ShallowWater(GRID, DEPTH, coriolis=sw.FPlane(1e-4), boundaries=SIDES[kind], engine=engine)
    return sw.Simulation(model, model.state(eta=bump), stepper)


@pytest.mark.verify
@pytest.mark.parametrize("kind, stepper", [("chapman", sw.ForwardBackward(50.0)), ("radiation", sw.AB2(20.0))])
def test_the_memory_of_sides_is_in_the_cells_beside_them_alone(kind, stepper):
    """parallel/test_parts.py compares both engines."""
    end = simulation(kind, stepper, "fused").run(steps=30)
    beside = {"x": np.zeros(GRID.shape, bool), "y": np.zeros(GRID.shape, bool)}
    beside["x"][:, [0, -1]] = beside["y"][[0, -1]] = True
    for name in end.others:
        values, kept = np.asarray(end[name]), (DEPTH > 0) & beside[name[-1]]
        assert np.abs(values[kept]).max() > 1e-4 and not values[~kept].any()


@pytest.mark.parametrize("kind", now(list(SIDES), "radiation"))
def test_a_resumed_run_is_the_same_bit_for_bit(kind, tmp_path):
    whole, first, second = (simulation(kind, sw.ForwardBackward(50.0)) for _ in range(3))
    whole.run(steps=7)
    first.restart(tmp_path / "restart.nc", every=4 * 50.0)
    first.run(steps=4)
    second.resume(tmp_path / "restart.nc")
    second.run(steps=3)
    for name, values in whole.state:
        np.testing.assert_array_equal(np.asarray(second.state[name]), np.asarray(values))


def test_derivatives_are_finite_where_the_water_is_at_rest_in_single_precision():
    """The squares of differences that divide are 0 there, and their inverse is squared in a derivative."""
    sides = sw.RadiationNudging(("west", "south"), incoming=TIDE, inward=600.0), SIDES["radiation"][1]
    model = sw.ShallowWater(GRID, 500.0, boundaries=sides, engine="arrays", dtype="float32")
    stepper, rest = sw.AB2(20.0), model.at_rest()
    dynamics = model.dynamics(stepper, steps=3)

    def level(eta):
        return sw.integrate(dynamics, stepper, rest.replace(eta=eta), 3)[0].eta[4, 4]

    assert np.isfinite(np.asarray(jax.jit(jax.grad(level))(rest.eta))).all()


def test_schemes_that_cannot_carry_what_a_side_keeps_refuse_it():
    model = simulation("chapman", sw.RK4(50.0)).model
    with pytest.raises(ConfigError, match="SemiImplicit: ChapmanFlather steps outer_elevation_x, which needs"):
        model.ready_for(sw.SemiImplicit(600.0))
    with pytest.raises(ConfigError, match="inward = 0.0 is not positive"):
        sw.RadiationNudging(inward=0.0)


@pytest.mark.verify
def test_a_gravity_wave_enters_whole_and_a_pulse_leaves():
    """With the marks of `swmodel verify open_side_chapman_flather open_side_radiation_nudging` and others."""
    assert tides.entered("sponge_with_currents") > 0.95 > 0.7 > tides.entered("sponge_and_flather")
    assert tides.entered("chapman_flather") == pytest.approx(1.0, abs=0.01)
    assert tides.returned("chapman_flather") < 0.04
    assert tides.returned("radiation_nudging") < 0.13
