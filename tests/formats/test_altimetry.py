"""Levels of altimeters are read as CMEMS, AVISO and PO.DAAC write them, for misfits and inversions."""

import datetime

import netCDF4
import numpy as np
import pytest

import swmodel as sw
from swmodel.adjoint.costs.records import TrackMisfit, read_tracks, track_records
from swmodel.cli.checks import file_lines
from swmodel.config.assembly import assemble
from swmodel.config.experiment import read_text
from swmodel.errors import ConfigError
from swmodel.observed.folder import read_gauge
from tests.formats import example

START = datetime.datetime(2024, 3, 1)
N = 12
LON, LAT = 355.0 + 0.1 * np.arange(N), 47.0 + 0.25 * np.arange(N)  # from -5 degrees to the north-east
SECONDS = 3600.0 + np.arange(N)


def packed(data, name, dims, values, units="m", **attrs):
    """A variable in whole numbers of 0.1 mm, as altimeter files have it; NaN is missing."""
    variable = data.createVariable(name, "i4", dims, fill_value=2147483647)
    variable.setncatts({"scale_factor": 1e-4, "units": units, **attrs})
    variable[:] = np.ma.fix_invalid(values, fill_value=0.0)


def write_cmems(path, units="m"):
    """SEALEVEL_EUR_PHY_L3_MY_008_061: a day of a satellite, over time."""
    with netCDF4.Dataset(path, "w") as data:
        data.createDimension("time", N)
        time = data.createVariable("time", "f8", ("time",))
        days = (START - datetime.datetime(1950, 1, 1)).days
        time.setncatts({"units": "days since 1950-01-01 00:00:00", "calendar": "gregorian"})
        time[:] = days + SECONDS / 86400.0
        for name, values, unit in (("longitude", LON, "degrees_east"), ("latitude", LAT, "degrees_north")):
            axis = data.createVariable(name, "i4", ("time",))
            axis.setncatts({"scale_factor": 1e-6, "units": unit})
            axis[:] = values
        level = 0.01 * np.arange(N)
        level[3] = np.nan
        packed(data, "sla_unfiltered", ("time",), level, units)
        packed(data, "sla_filtered", ("time",), np.full(N, 0.05), units)
        packed(data, "ocean_tide", ("time",), np.full(N, 1.5))
        packed(data, "dac", ("time",), np.full(N, -0.2))
    return path


def write_swath(path, level="ssha_unfiltered", flag="quality_flag", bad=3):
    """A swath of SWOT: lines along the track, pixels across it."""
    shape, dims = (N, 5), ("num_lines", "num_pixels")
    with netCDF4.Dataset(path, "w") as data:
        for name, size in zip(dims, shape):
            data.createDimension(name, size)
        time = data.createVariable("time", "f8", ("num_lines",), fill_value=9.969209968386869e36)
        time.setncatts({"units": "seconds since 2000-01-01 00:00:00.0", "calendar": "gregorian"})
        time[:] = (START - datetime.datetime(2000, 1, 1)).total_seconds() + SECONDS
        for name, values, unit in (
            ("longitude", LON[:, None] + 0.02 * np.arange(5), "degrees_east"),
            ("latitude", LAT[:, None] - 0.01 * np.arange(5), "degrees_north"),
        ):
            axis = data.createVariable(name, "f8", dims)
            axis.units, axis[:] = unit, values
        packed(data, level, dims, 0.01 * np.add.outer(np.arange(N), np.arange(5)))
        packed(data, "ocean_tide", dims, np.full(shape, 1.5))
        if flag:
            good = np.zeros(shape, int)
            good[:bad, 0] = 5
            data.createVariable(flag, "u4", dims)[:] = good
    return path


def test_tracks_of_cmems_have_their_values_and_what_was_subtracted_comes_back(tmp_path):
    path = write_cmems(tmp_path / "dt_europe_s3a_phy_l3_20240301.dat")
    found = read_tracks(path, 0.03, START)
    kept = np.arange(N) != 3
    np.testing.assert_allclose(found.x, LON[kept], atol=1e-6)
    np.testing.assert_allclose(found.time, SECONDS[kept], atol=1e-4)
    np.testing.assert_allclose(found.value, 0.01 * np.arange(N)[kept], atol=1e-9)
    assert "without dac and ocean_tide, which the file has" in found.remarks[0] and "11 samples" in found.remarks[0]
    whole = read_tracks(path, 0.03, START, "sla_filtered", ("ocean_tide", "dac"), 3)
    np.testing.assert_allclose(whole.value, 1.35, atol=1e-9)
    assert whole.x.size == 4 and "sla_filtered + ocean_tide + dac in m" in whole.remarks[0]


@pytest.mark.parametrize(
    "level, flag", [("ssha_unfiltered", "quality_flag"), ("ssha_karin", "ssha_karin_qual"), ("ssha", "")]
)
def test_swaths_of_swot_lose_samples_of_bad_quality(tmp_path, level, flag):
    found = read_tracks(write_swath(tmp_path / "swath.nc", level, flag), 0.02, START)
    assert found.value.size == 5 * N - (3 if flag else 0) and found.deviation[0] == 0.02
    np.testing.assert_allclose(found.value[-1], 0.01 * (N - 1 + 4), atol=1e-9)
    assert ("3 samples left out by" in found.remarks[0]) == bool(flag)
    thinned = read_tracks(tmp_path / "swath.nc", 0.02, START, thin=2)
    assert thinned.value.size == 6 * 3 - (2 if flag else 0)


def sea():
    grid = sw.SphericalGrid(12, 8, (-6.0, -3.0), (46.0, 48.0))
    return sw.ShallowWater(grid, 50.0, dtype="float64", communicator="serial", engine="arrays")


def test_samples_beyond_the_grid_or_the_run_do_not_count(tmp_path):
    files = [write_cmems(tmp_path / "s3a.nc"), write_swath(tmp_path / "swot.nc")]
    tracks, model = read_tracks(files, 0.03, START), sea()
    inside = (tracks.y <= 48.0) & (tracks.time <= 3604.0)
    records = track_records(tracks, model, 3604.0)
    assert sum(record.value.size for record in records.values()) == inside.sum() < tracks.x.size
    assert TrackMisfit(tracks).on_tile(model, 100.0, 0, 36).count == (inside & (tracks.time <= 3600.0)).sum()
    with pytest.raises(ConfigError, match="none of the points of the tracks has a value in water"):
        track_records(tracks, model, 3500.0)


EXPERIMENT = """
run = {until = "2 h", start = 2024-03-01}
grid = {type = "spherical", nx = 12, ny = 8, longitude = [-6, -3], latitude = [46, 48]}
bathymetry = {type = "flat", depth = 50}
stepper = {type = "forward_backward", dt = 100}
adjoint.cost = {type = "track_misfit", file = "s3a_*.nc", deviation = "3 cm", add = ["ocean_tide"], thin = 2}
adjoint.controls = ["initial.eta"]
inversion.controls = [{type = "field", name = "initial.eta", deviation = 0.1, length = "50 km"}]
inversion.observations = {type = "tracks", file = ["s3a_1.nc", "swath.nc"], deviation = "3 cm"}
"""


def test_costs_and_inversions_of_a_file_take_them_and_check_tells_what_was_assumed(tmp_path):
    write_cmems(tmp_path / "s3a_1.nc"), write_swath(tmp_path / "swath.nc")
    made = assemble(read_text(EXPERIMENT, tmp_path / "tracks.toml", tmp_path))
    assert made.sentences() == []
    (line,) = [text for name, text in file_lines(made.experiment(), made.grid) if name == "tracks"]
    assert "sla_unfiltered + ocean_tide in m, above the mean sea surface" in line
    assert "1 of 2 samples along each direction" in line
    assert "swath.nc: levels ssha, as of SWOT, level 3; ssha_unfiltered in m" in line


@example("altimeter tracks of CMEMS, level 3")
def cmems(folder):
    test_tracks_of_cmems_have_their_values_and_what_was_subtracted_comes_back(folder)
    path = write_cmems(folder / "feet.nc", "feet")
    yield lambda: read_tracks(path, 0.03, START), "sla_unfiltered in .* is in 'feet'"
    write_cmems(folder / "right.nc")
    yield lambda: read_tracks(folder / "right.nc", 0.03, START, add=("lwe",)), "has no variable 'lwe'"
    yield lambda: read_tracks(folder / "right.nc", 0.03), "has dates, and the run has none"
    yield lambda: read_tracks(folder / "right.nc", None, START), "has no errors of its levels"


@example("ssha, swaths of SWOT of levels 2 and 3")
def swot(folder):
    for level, flag in (("ssha_unfiltered", "quality_flag"), ("ssha_karin", "ssha_karin_qual")):
        test_swaths_of_swot_lose_samples_of_bad_quality(folder, level, flag)
    path = write_swath(folder / "bad.nc", bad=N)
    yield lambda: read_tracks(path, 0.02, START, "ssha_filtered"), "SWOT, level 3, has no variable 'ssha_filtered'"
    yield lambda: read_gauge(path, START), "is a file of levels ssha, as of SWOT, level 3, and not levels of"
