"""Potential, wind and air pressure do what theory says; `make verify CASE=...` prints the figures."""

import pytest

from . import measures_forcing as figures


def test_the_potential_gives_the_equilibrium_tide_to_one_percent():
    assert figures.equilibrium_error() < 0.01


def test_the_wind_sets_the_sea_up():
    assert figures.setup_error() < 1e-3


def test_one_hectopascal_is_one_centimetre():
    assert figures.barometer_cm() == pytest.approx(0.995, abs=1e-3)


def test_a_moving_pressure_raises_proudmans_wave():
    assert figures.proudman_error() < 0.02


def test_a_harmonic_fit_returns_what_went_in_across_a_restart():
    assert figures.harmonic_error() < 1e-6
