"""Tides through open sides are those of the known solutions; `make verify CASE=...` prints the figures."""

import pytest

from . import measures_tides as figures


def test_a_quarter_wave_channel_converges_at_second_order():
    assert figures.channel_order() == pytest.approx(2.0, abs=0.25)


def test_a_channel_from_an_experiment_file_is_right_to_a_thousandth():
    assert figures.channel_error() < 1e-3


def test_a_kelvin_wave_enters_and_leaves_whole():
    assert figures.kelvin_error() < 0.012


def test_the_amphidrome_lies_within_one_cell_of_taylors():
    assert figures.amphidrome_cells() < 0.6
