"""The scores of experiments/global_tide are what their formulas say."""

import datetime

import numpy as np
import pytest

from swmodel.forcing.constituents import nodal
from tests.verification.experiments import module_of

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
