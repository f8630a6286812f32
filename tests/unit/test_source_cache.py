"""The motion of a tsunami source is computed once for the same faults, grid, depths and options, and kept on disk."""

import types

import numpy as np
import pytest
import xarray as xr

import swmodel as sw
from swmodel import sources
from swmodel.cli.starting import model_and_state
from swmodel.config import read
from swmodel.config.assembly import assemble
from swmodel.errors import ConfigError
from swmodel.grids.bathymetry import from_depth
from swmodel.grids.topography import topography
from swmodel.runtime import cache
from swmodel.sources import motion_cache as build
from swmodel.sources.fault import Plane

GRID = sw.CartesianGrid(nx=12, ny=10, x=(0.0, 120e3), y=(0.0, 100e3))
SECTION = types.SimpleNamespace(horizontal=True, kajiura=True, every="auto")


def source(slip=2.0):
    place = {"longitude": 60e3, "latitude": 50e3, "depth": 10e3, "length": 30e3, "width": 20e3}
    fault = sources.Fault(**place, strike=10.0, dip=20.0, rake=90.0, slip=slip, onset=0.0, rise_time=30.0)
    return sources.Source([fault], projection=Plane())


def motion(section=SECTION, grid=GRID, depth=3000.0, slip=2.0):
    return build.motion_of(section, grid, from_depth(depth, grid), source(slip), 24)


@pytest.mark.verify
def test_the_summary_counts_no_uplift_of_dry_land_that_may_be_flooded():
    """The volumes of a source under a shore are those of a land that is never wet."""
    depth = lambda x, y: 3000.0 - 0.05 * x + 0 * y  # noqa: E731
    section = types.SimpleNamespace(**vars(SECTION) | {"horizontal": False})
    floors = from_depth(depth, GRID), topography(depth, GRID)
    volumes = [build.motion_of(section, GRID, floor, source(), 24)[1] for floor in floors]
    assert (volumes[0].lifted, volumes[0].lowered) == (volumes[1].lifted, volumes[1].lowered)
    assert volumes[0].lifted < build.motion_of(section, GRID, from_depth(3000.0, GRID), source(), 24)[1].lifted


@pytest.fixture
def count(tmp_path, monkeypatch):
    """How often a motion was computed, in a list."""
    calls, computed = [], build._computed
    monkeypatch.setattr(cache, "folder", lambda: tmp_path)
    monkeypatch.setattr(build, "_computed", lambda *a: calls.append(1) or computed(*a))
    return calls


def test_the_second_time_it_is_read_with_the_same_bits(count):
    first, summary = motion()
    again, same = motion()
    assert len(count) == 1 and summary == same
    np.testing.assert_array_equal(first.uplift, again.uplift)
    np.testing.assert_array_equal(first.times, again.times)
    assert again.uplift.dtype == first.uplift.dtype and np.abs(first.uplift).max() > 0.1


@pytest.mark.verify
def test_whatever_it_depends_on_makes_another(count):
    motion()
    other = sw.CartesianGrid(nx=12, ny=10, x=(0.0, 121e3), y=(0.0, 100e3))
    for changed in (
        {"slip": 2.5},
        {"depth": 3001.0},
        {"grid": other},
        {"section": types.SimpleNamespace(horizontal=False, kajiura=True, every="auto")},
        {"section": types.SimpleNamespace(horizontal=True, kajiura=False, every="auto")},
        {"section": types.SimpleNamespace(horizontal=True, kajiura=True, every=10.0)},
    ):
        before = len(count)
        motion(**changed)
        assert len(count) == before + 1, changed


def test_a_source_that_does_not_slip_leaves_the_sea_at_rest(count):
    for every in ("auto", 10.0):
        found, summary = motion(types.SimpleNamespace(horizontal=True, kajiura=True, every=every), slip=0.0)
        assert len(found.times) == 1 and not np.any(found.uplift)
        assert "moment magnitude    none, nothing slips" in str(summary)


def test_more_records_than_the_memory_holds_are_refused(count):
    section = types.SimpleNamespace(horizontal=True, kajiura=True, every=1e-12)
    with pytest.raises(ConfigError, match=r"the motion of the source, 30,000,000,000,001 records of 12 x 10 cells"):
        build.motion_of(section, GRID, from_depth(3000.0, GRID), source(2.0), 24)
    assert not count


def test_a_damaged_file_is_computed_again(count, tmp_path):
    first, _ = motion()
    (path,) = tmp_path.glob("*.motion")
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)
    again, _ = motion()
    assert len(count) == 2
    np.testing.assert_array_equal(first.uplift, again.uplift)


def test_a_folder_that_has_gone_or_takes_no_lock_does_not_matter(count, tmp_path, monkeypatch):
    monkeypatch.setattr(cache, "folder", lambda: tmp_path / "gone")
    found, _ = motion()
    assert len(count) == 1 and np.abs(found.uplift).max() > 0.1


def test_a_full_disk_does_not_matter(count, monkeypatch):
    def full(*arguments, **options):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(cache, "keep", full)
    found, _ = motion()
    assert np.abs(found.uplift).max() > 0.1


OVER_A_LAKE = """\
grid = {type = "cartesian", nx = 14, ny = 12, x = ["0 km", "140 km"], y = ["0 km", "120 km"]}
bathymetry = {type = "file", file = "depth.nc", fill_lakes = true}
stepper = {type = "ab2", dt = "10 s"}
run = {until = "1 min"}
[source]
horizontal = true
kajiura = true

[[source.faults]]
longitude = 60e3
latitude = 50e3
depth = "10 km"
length = "30 km"
width = "20 km"
strike = 10.0
dip = 20.0
rake = 90.0
slip = "2 m"
rise_time = "30 s"
"""


def test_of_a_large_grid_with_lakes_it_waits_for_the_survey_by_all_ranks_and_is_the_same(count, tmp_path, monkeypatch):
    x, y = np.meshgrid(np.arange(5e3, 140e3, 10e3), np.arange(5e3, 120e3, 10e3))
    height = np.where((x > 90e3) & (x < 130e3) & (y > 40e3) & (y < 80e3), 10.0, -3000.0)
    height[5:7, 10] = -500.0  # a lake on an island near the fault
    depth = xr.DataArray(height, dims=("y", "x"), coords={"y": y[:, 0], "x": x[0]}, attrs={"units": "m"}, name="z")
    depth.to_netcdf(tmp_path / "depth.nc")
    file = tmp_path / "lake.toml"
    file.write_text(OVER_A_LAKE)

    def model_and_summary():
        made = assemble(read(file))
        before = len(count)
        model = model_and_state(made, made.experiment(), "serial", None, "arrays")[0]
        assert "filled" in " ".join(model.sea_floor.report)
        return model, str(made.summary), len(count) - before

    whole, summary, computed_late = model_and_summary()
    assert computed_late and "displaced volume" in summary
    cache.folder().joinpath("kept").mkdir()
    monkeypatch.setattr(cache, "folder", lambda: tmp_path / "kept")
    monkeypatch.setattr("swmodel.config.sections.LARGEST_WHOLE_GRID", 100)
    windows, of_windows, computed_late = model_and_summary()
    assert computed_late and of_windows == summary
    np.testing.assert_array_equal(windows.uplift.times, whole.uplift.times)
    for one, other in zip(windows.uplift.values[0], whole.uplift.values[0], strict=True):
        np.testing.assert_array_equal(one, other)


def test_a_motion_for_which_there_is_no_memory_is_a_mistake_of_the_source(tmp_path):
    """A thread would compute it, when the model is made."""
    depth = xr.DataArray(np.full((12, 14), -3e3), dims=("y", "x"), attrs={"units": "m"}, name="z")
    depth.assign_coords(y=np.arange(5e3, 120e3, 10e3), x=np.arange(5e3, 140e3, 10e3)).to_netcdf(tmp_path / "depth.nc")
    file = tmp_path / "sea.toml"
    file.write_text(OVER_A_LAKE.replace("[source]", '[source]\nevery = "1e-7 s"'))
    made = assemble(read(file))
    with pytest.raises(ConfigError, match=r"sea.toml:\d+: source: the motion .* 30\d,\d+,\d+ records .*memory"):
        model_and_state(made, made.experiment(), "serial", None, "arrays")
