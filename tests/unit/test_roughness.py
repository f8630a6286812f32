"""The roughness of a sea floor: planes have none, waves have theirs, and rows may be read a few at a time."""

import importlib.util
from pathlib import Path

import numpy as np
import pytest
import xarray as xr

import swmodel as sw
from swmodel.errors import ConfigError
from swmodel.grids import roughness
from swmodel.grids.roughness import deviation_from_plane


def globe(depth, nx=72, ny=30):
    """Elevations round the globe on nodes every 5 degrees, of a function of longitude and latitude."""
    x, y = np.arange(nx) * 360.0 / nx, np.linspace(-72.5, 72.5, ny)
    values = -np.broadcast_to(depth(x, y[:, None]), (ny, nx))
    axes = {"lat": ("lat", y, {"units": "degrees_north"}), "lon": ("lon", x, {"units": "degrees_east"})}
    return xr.DataArray(values.copy(), dims=("lat", "lon"), coords=axes, name="elevation", attrs={"units": "m"})


def test_the_deviation_is_that_of_a_least_squares_fit_of_a_plane():
    depth = np.random.default_rng(1).uniform(1000.0, 5000.0, (9, 11))
    found = deviation_from_plane(depth, 2)
    assert found.shape == (5, 7)
    j, i = np.mgrid[0:5, 0:5]
    plane = np.stack([np.ones(25), i.ravel(), j.ravel()], axis=1)
    window = depth[2:7, 3:8].ravel()
    rest = window - plane @ np.linalg.lstsq(plane, window, rcond=None)[0]
    assert found[2, 3] == pytest.approx(np.sqrt(np.mean(rest**2)), rel=1e-12)
    j, i = np.mgrid[0:9, 0:11]
    assert np.abs(deviation_from_plane(4000.0 + 30.0 * i - 7.0 * j, 2)).max() < 1e-4


def test_windows_go_round_the_globe_and_rows_may_be_read_a_few_at_a_time(monkeypatch):
    made = globe(lambda x, y: 4000.0 + 500.0 * np.sin(np.deg2rad(3 * x)) * np.cos(np.deg2rad(5 * y)))
    whole = sw.rough_bottom(made)
    turned = sw.rough_bottom(made.roll(lon=30).assign_coords(lon=made.lon))
    np.testing.assert_allclose(turned.roughness.values, np.roll(whole.roughness.values, 30, 1), rtol=1e-12)
    monkeypatch.setattr(roughness, "VALUES_AT_ONCE", 4 * 72)
    np.testing.assert_array_equal(sw.rough_bottom(made).roughness.values, whole.roughness.values)
    assert whole.roughness.attrs["units"] == "m" and whole.buoyancy.attrs["units"] == "s-1"


def test_shallow_water_has_no_drag_and_the_buoyancy_decays_with_the_depth():
    found = sw.rough_bottom(globe(lambda x, y: np.where(x < 180.0, 400.0, 2600.0 + 0.0 * y) + 0.0 * y))
    assert not found.roughness.values[:, :36].any() and not found.buoyancy.values[:, :36].any()
    np.testing.assert_allclose(found.buoyancy.values[:, 40], 5.24e-3 * np.exp(-2.0))
    with pytest.raises(ConfigError, match="reach = 0 is not a number of nodes"):
        sw.rough_bottom(globe(lambda x, y: 4000.0 + 0.0 * x * y), reach=0)


def test_the_map_of_the_global_tide_is_made_by_it(tmp_path, monkeypatch, capsys):
    """bottom.py writes the file that the experiment has."""
    folder = Path(sw.__file__).parents[1] / "experiments" / "global_tide"
    spec = importlib.util.spec_from_file_location("bottom", folder / "bottom.py")
    bottom = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(bottom)
    monkeypatch.setattr(bottom, "HERE", tmp_path)
    bottom.main(folder / "etopo5_global_15min.nc")
    with xr.open_dataset(tmp_path / "bottom.nc") as made, xr.open_dataset(folder / "bottom.nc") as kept:
        for name in ("roughness", "buoyancy"):
            np.testing.assert_array_equal(made[name].values, kept[name].values)
    assert "roughness_median_atlantic" in capsys.readouterr().out
