"""Potential, wind and air pressure do what theory says; `make verify CASE=...` prints the figures."""

import numpy as np
import pytest

import swmodel as sw
from swmodel.defaults import WATER_DENSITY
from swmodel.verification.tides import forces as figures


def test_the_potential_gives_the_equilibrium_tide_to_one_percent():
    assert figures.equilibrium_error() < 0.003


def test_the_wind_sets_the_sea_up():
    assert figures.setup_error() < 3e-8


def test_one_hectopascal_is_one_centimetre():
    assert figures.barometer_cm() == pytest.approx(1e4 / (WATER_DENSITY * 9.81), rel=1e-10)


def test_the_inverse_barometer_keeps_the_sea_at_rest_under_its_pressure():
    """Also at an open side, where it is the elevation outside."""
    grid = sw.CartesianGrid(8, 6, (0.0, 8e4), (0.0, 6e4))
    pressure = 101325.0 + 2000.0 * np.random.default_rng(0).standard_normal(grid.shape)
    outside = sw.inverse_barometer(pressure)
    model = sw.ShallowWater(
        grid, 50.0, forcing=(sw.AirPressure(pressure),), boundaries=(sw.Flather("west", elevation=outside),)
    )
    state = sw.Simulation(model, model.state(eta=outside), sw.RK4(100.0)).run(steps=3)
    assert np.abs(np.asarray(state.eta) - outside).max() < 1e-14 and np.abs(np.asarray(state.u)).max() < 1e-14


def test_a_moving_pressure_raises_proudmans_wave():
    assert figures.proudman_error() < 0.008


def test_a_harmonic_fit_returns_what_went_in_across_a_restart():
    assert figures.harmonic_error() < 1e-13
