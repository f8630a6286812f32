"""The scores of experiments/global_tide are what their formulas say."""

import csv
import datetime

import numpy as np
import pytest

from swmodel.forcing.constituents import nodal
from tests.verification.experiments import FOLDER, module_of

xr = pytest.importorskip("xarray")
score = module_of("global_tide", "score")


def grid(step=5.0):
    return np.arange(-180 + step / 2, 180, step), np.arange(-90 + step / 2, 90, step)


def test_a_tide_a_quarter_period_behind_the_potential_takes_the_power_of_the_integral():
    lon, lat = grid(1.0)
    east, north = np.deg2rad(lon), np.deg2rad(lat)[:, None]
    tide = 0.5 * np.cos(north) ** 2 * np.exp(2j * east) * np.exp(-0.5j * np.pi)
    # rho g omega / 2 x 0.242334 x 0.693 x 0.5 x the integral of cos^4 over the sphere, 2 pi a^2 x 16/15
    area = 2 * np.pi * 6.371e6**2 * 16 / 15
    expected = 1025 * 9.81 * np.pi / 44714.16 * 0.242334 * 0.693 * 0.5 * area / 1e12
    assert score.terawatts(lon, lat, tide) == pytest.approx(expected, rel=1e-3)
    assert score.terawatts(lon, lat, tide * np.exp(0.5j * np.pi)) == pytest.approx(0.0, abs=1e-9 * expected)


def test_gauges_take_the_nearest_wet_cell_across_the_date_line_or_none():
    lon, lat = grid(0.5)
    tide = np.full((lat.size, lon.size), np.nan + 0j)
    tide[180, 0] = 2.0 - 1.0j  # at (-179.75, 0.25)
    found = score.at_gauges(lon, lat, tide, np.array([179.9, 170.0]), np.array([0.2, 0.2]))
    assert found[0] == 2.0 - 1.0j
    assert np.isnan(found[1])


def test_islands_in_deep_water_are_open_ocean_and_harbours_of_continents_are_not():
    longitude, latitude = np.array([-177.36, -14.4, -74.0, 4.1]), np.array([28.21, -7.93, 40.7, 52.0])
    found = score.in_open_ocean(longitude, latitude, score.HERE / "etopo5_global_15min.nc")
    assert found.tolist() == [True, True, False, False]  # Midway, Ascension; New York, Hook of Holland


def test_drags_take_the_power_of_their_laws(tmp_path):
    """A current to the east alone, the same everywhere, over a floor of one roughness."""
    lon, lat = grid(2.0)
    size = (lat.size, lon.size)
    fields = {"u_amplitude_M2": (("yh", "xq"), np.full(size, 0.2)), "u_phase_M2": (("yh", "xq"), np.full(size, 70.0))}
    fields |= {f"v_{part}_M2": (("yq", "xh"), np.zeros((lat.size + 1, lon.size))) for part in ("amplitude", "phase")}
    rough = np.broadcast_to(np.where(np.arange(lon.size) % 2, 0.0, 200.0), size)  # 100 m half-way between the nodes
    floor = {"roughness": (("lat", "lon"), rough), "buoyancy": (("lat", "lon"), np.full(size, 1e-3))}
    axes = {"lon": ("lon", lon + 1.0, {"units": "degrees_east"}), "lat": ("lat", lat, {"units": "degrees_north"})}
    xr.Dataset(floor, axes).to_netcdf(tmp_path / "bottom.nc")

    def found_with(config):
        file = tmp_path / f"harmonics_{len(config)}.nc"
        xr.Dataset(fields, {"xh": lon, "yh": lat}, {"config": config}).to_netcdf(file)
        return score.dissipation(file, tmp_path / "bottom.nc")

    config = (score.HERE / "global_tide.toml").read_text().replace("8.98e-4", "1e-3")
    dated, found = found_with(config), found_with(config.replace("start = 2024-01-01T00:00:00Z\n", ""))
    area = 4 * np.pi * 6.371e6**2 / 1e12
    assert found["m2_wave_drag_terawatts"] == pytest.approx(1025 * 0.5 * 1e-3 * 100**2 * 1e-3 * 0.02 * area, rel=1e-3)
    assert found["m2_friction_terawatts"] == pytest.approx(1025 * 2.5e-3 * 0.2**3 * 4 / (3 * np.pi) * area, rel=1e-2)
    factor = nodal("M2", datetime.datetime(2024, 1, 1), None)[0]  # of the amplitudes in the run
    assert dated["m2_friction_terawatts"] == pytest.approx(factor * found["m2_friction_terawatts"]) and factor < 0.97
    assert dated["m2_wave_drag_terawatts"] == pytest.approx(found["m2_wave_drag_terawatts"])


def test_a_tide_with_smaller_lags_leads():
    observed = np.array([0.5, 1.0j, -0.3])
    assert score.phase_lead(observed * np.exp(1j * np.deg2rad(6.0)), observed) == pytest.approx(6.0)


# -- tides of shelves --------------------------------------------------------------------------------------------------


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
