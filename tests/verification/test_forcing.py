"""Potential, wind, air pressure and tides do what theory says; `make verify CASE=...` prints the figures."""

import numpy as np
import pytest

import swmodel as sw
from swmodel.config import read
from swmodel.config.assembly import assemble, model_of
from swmodel.defaults import WATER_DENSITY
from swmodel.runtime import paths
from swmodel.units import hour
from swmodel.verification import channels
from swmodel.verification import tides as figures
from swmodel.verification.gyres import transport_error
from swmodel.verification.suite import all_cases

from . import measures_global_tide
from .cases import take_steps


def test_the_potential_gives_the_equilibrium_tide_to_one_percent():
    assert figures.equilibrium_error() < 0.003


def test_the_wind_sets_the_sea_up():
    assert figures.setup_error() < 3e-8


@pytest.mark.verify
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
    state, _ = take_steps(model, sw.AB2(100.0), model.state(eta=outside), 3)
    assert np.abs(np.asarray(state.eta) - outside).max() < 1e-14 and np.abs(np.asarray(state.u)).max() < 1e-14


@pytest.mark.verify
def test_a_moving_pressure_raises_proudmans_wave():
    assert figures.proudman_error() < 0.008


def test_a_harmonic_fit_returns_what_went_in_across_a_restart():
    assert figures.harmonic_error() < 1e-13


@pytest.mark.verify
@pytest.mark.parametrize("drag, under_eye, lowest", [("garratt", 0.13, -0.88), (1e-8, 0.54, -0.16)])
def test_the_flat_basins_storm_leaves_a_trough_where_its_wind_makes_the_water_circle(drag, under_eye, lowest):
    """And by its pressure alone raises the level under the eye, as the head of flat_basin.toml has it."""
    file = paths.experiments() / "storm_in_a_basin" / "flat_basin.toml"
    made = assemble(read(file, [f"forcing.0.drag={drag}", "model.precision=float64"]))
    model, stepper = model_of(made, "serial"), made.section("stepper").stepper(240.0)
    eta = model.gather(sw.Simulation(model, model.at_rest(), stepper).run(until=18 * hour).eta)
    eye = np.argmin(np.abs(model.grid.y_centres - 27.4)), np.argmin(np.abs(model.grid.x_centres + 92.0))
    assert eta[eye] == pytest.approx(under_eye, abs=0.01) and eta.min() == pytest.approx(lowest, abs=0.01)


# -- tides through open sides, and of the world ocean ------------------------------------------------------------------


@pytest.mark.verify
def test_a_quarter_wave_channel_converges_at_second_order_and_is_right_to_a_thousandth_from_an_experiment_file():
    marks = all_cases()["tidal_channel"].measure((40, 80)).values
    assert marks["channel_order"] == pytest.approx(2.0, abs=0.25) and marks["channel_error"] < 1e-3


def test_a_kelvin_wave_enters_and_leaves_whole():
    assert channels.kelvin_error() < 0.012


@pytest.mark.verify
def test_the_amphidrome_lies_within_one_cell_of_taylors():
    assert channels.amphidrome_cells() < 0.6


@pytest.mark.verify
def test_the_potential_alone_raises_the_tide_of_oceanic_islands():
    found = measures_global_tide.measure().values
    assert found["global_m2_error_30"] < 16.0
    assert 2.0 < found["global_m2_terawatts"] < 2.85


# -- a gyre ------------------------------------------------------------------------------------------------------------


@pytest.mark.verify
def test_the_western_boundary_transport_is_within_five_percent_of_munks():
    """128 x 128 cells, as the experiment has."""
    assert abs(transport_error(128)) < 0.05
