"""Tides through open sides are those of the known solutions; `make verify CASE=...` prints the figures."""

import pytest

from swmodel.verification import channels as figures
from swmodel.verification.suite import all_cases


@pytest.fixture(scope="module")
def channel():
    """The marks of the tidal channel."""
    return all_cases()["tidal_channel"].measure((40, 80)).values


@pytest.mark.verify
def test_a_quarter_wave_channel_converges_at_second_order(channel):
    assert channel["channel_order"] == pytest.approx(2.0, abs=0.25)


@pytest.mark.verify
def test_a_channel_from_an_experiment_file_is_right_to_a_thousandth(channel):
    assert channel["channel_error"] < 1e-3


def test_a_kelvin_wave_enters_and_leaves_whole():
    assert figures.kelvin_error() < 0.012


@pytest.mark.verify
def test_the_amphidrome_lies_within_one_cell_of_taylors():
    assert figures.amphidrome_cells() < 0.6
