"""Long runs: memory is taken once and does not grow with the number of records, and mass is kept."""

import tracemalloc

import netCDF4
import numpy as np
import pytest

from swmodel.grids.grid import CartesianGrid
from swmodel.output.netcdf import GaugeFile
from swmodel.output.records import FieldFile

from . import endurance


@pytest.mark.verify
def test_memory_does_not_grow_in_twenty_thousand_steps_with_every_output(tmp_path):
    found = endurance.measure(tmp_path, steps=20_000, cells=40, timeout=300)
    assert found["steps"] == 20_000 and len(found["samples"]) > 20
    assert abs(found["growth"]) < 0.01, found["samples"]
    assert found["mass"] < 1e-14 and found["rise"] > 0.1
    with netCDF4.Dataset(tmp_path / "fields.nc") as fields, netCDF4.Dataset(tmp_path / "gauges.nc") as gauges:
        assert fields["time"].size == 1001 and gauges["time"].size == 20_001


def test_a_file_remembers_none_of_the_records_it_has_written(tmp_path):
    grid = CartesianGrid(4, 4, (0.0, 1.0), (0.0, 1.0))
    with GaugeFile(tmp_path / "gauges.nc", {"a": (0.5, 0.5)}, grid) as file:
        blocks = (4096.0 * k + np.arange(4096.0) for k in range(150))
        file.append(next(blocks), np.zeros((4096, 1)))
        tracemalloc.start()
        try:
            for times in blocks:
                file.append(times, np.zeros((times.size, 1)))
            kept, _ = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
    assert kept < 300_000  # of 610,000 times of 8 bytes
    with netCDF4.Dataset(tmp_path / "gauges.nc") as series:
        np.testing.assert_array_equal(series["time"][:], np.arange(150 * 4096.0))


def test_the_library_keeps_no_more_than_two_records_in_its_caches(tmp_path):
    """New and continued files: netCDF's own caches hold 64 MB of each variable."""
    grid = CartesianGrid(50, 40, (0.0, 1.0), (0.0, 1.0))
    fields = {"eta": np.zeros((40, 50)), "u": np.zeros((40, 51))}
    for seconds, append in ((0.0, False), (1.0, True)):
        with FieldFile(tmp_path / "fields.nc", grid, tuple(fields), append=append) as file:
            file.append(seconds, fields)
            for name, array in fields.items():
                assert file._dataset[name].get_var_chunk_cache()[0] == 2 * array.size * 4
