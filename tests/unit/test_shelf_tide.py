"""The scores of experiments/northwest_europe are what their formulas say, and its files are those of `swmodel new`."""

import csv

import numpy as np
import pytest

from tests.verification.experiments import FOLDER, module_of

xr = pytest.importorskip("xarray")


def file_with(path, gauges):
    """A file of `swmodel invert` with (name, used, observed, background, analysis, spread, error) of each gauge."""
    rows = {
        key: []
        for key in ("gauge", "x", "y", "used", "part", "observed", "background", "analysis", "error", "analysis_spread")
    }
    for name, used, *waves, spread, error in gauges:
        for k, part in enumerate(("A cos g", "A sin g")):
            values = [wave.real if k == 0 else -wave.imag for wave in waves]
            for key, value in zip(rows, (name, 0.0, 50.0, used, part, *values, error, spread)):
                rows[key].append(value)
    xr.Dataset({f"observation_{key}": ("observation", values) for key, values in rows.items()}).to_netcdf(path)


def test_errors_are_distances_in_the_complex_plane_and_shares_those_of_the_amplitude(tmp_path):
    wave = 2.0 * np.exp(-1j * np.deg2rad(70.0))
    gauges = [("a", 1, wave, 0.5 * wave, wave + 0.1, 0.0, 0.1)]
    gauges += [(f"{k}", 0, wave, 1j * wave, wave + 0.1j * (k + 1), 0.1, 0.1) for k in range(3)]
    file_with(tmp_path / "inversion.nc", gauges)
    found = module_of("northwest_europe", "score").scores(tmp_path / "inversion.nc")
    assert found["gauges_used"] == 1 and found["gauges_left_out"] == 3
    assert found["error_used_first_guess"] == pytest.approx(100.0) and found["share_used_first_guess"] == pytest.approx(
        50
    )
    assert found["error_left_out_first_guess"] == pytest.approx(200 * 2**0.5)
    assert found["error_left_out_analysis"] == pytest.approx(20.0)
    assert found["share_left_out_analysis"] == pytest.approx(10.0)
    # the expected error is (0.02 + 0.02)^1/2 = 0.2 m, and the errors are 0.1, 0.2 and 0.3 m
    assert found["within_1_left_out"] == pytest.approx(200 / 3) and found["within_2_left_out"] == pytest.approx(100.0)


def test_gauges_in_rivers_are_left_out_and_not_at_sea(tmp_path):
    wave = 1.0 + 0.5j
    gauges = [("a", 1, wave, wave, wave, 0.0, 0.1), ("b", 0, wave, wave, wave + 0.1, 0.0, 0.1)]
    file_with(tmp_path / "inversion.nc", [*gauges, ("Belum", 0, wave, wave, wave + 0.5, 0.0, 0.1)])
    found = module_of("northwest_europe", "score").scores(tmp_path / "inversion.nc")
    assert found["gauges_left_out"] == 2 and found["gauges_at_sea"] == 1
    assert found["error_at_sea_analysis"] == pytest.approx(10.0)
    with open(FOLDER / "northwest_europe" / "gauges.csv", encoding="utf-8") as file:
        assert set(module_of("northwest_europe", "score").RIVERS) <= {row["name"] for row in csv.DictReader(file)}


def test_every_second_gauge_by_name_is_left_out():
    with open(FOLDER / "northwest_europe" / "gauges.csv", encoding="utf-8") as file:
        used = [row["used"] for row in csv.DictReader(file)]
    assert used == [("1", "0")[k % 2] for k in range(len(used))] and len(used) > 80
