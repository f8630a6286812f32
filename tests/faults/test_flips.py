"""Damaged restarts: no flipped bit gets into a run, wherever it is, and none crashes the reader."""

import pytest

from swmodel.grids.grid import CartesianGrid
from swmodel.output import restart
from swmodel.output.restart import write_restart

from . import flips


@pytest.fixture
def path(tmp_path):
    import numpy as np

    grid, rng = CartesianGrid(24, 16, (0.0, 1.0), (0.0, 1.0)), np.random.default_rng(0)
    arrays = {name: rng.standard_normal(grid.shape) for name in ("state_u", "state_v", "state_eta", "history_0")}
    scalars = {"step": 1234, "dt": 15.0, "stepper": "AB2", "history_count": 2}
    write_restart(tmp_path / "restart.nc", grid, arrays, scalars, {"config": "[run]\n" * 50, "title": "A bump"})
    return tmp_path / "restart.nc"


def test_sixty_flipped_bits_are_noticed_or_change_nothing(path):
    found = flips.measure(path, 60)
    assert not found["wrong"], found["wrong"]
    assert found["flips"] == found["noticed"] + found["harmless"] == 60 and 10 < found["in_data"] < 50
    assert found["noticed"] >= found["in_data"]


def test_a_restart_without_a_checksum_would_be_caught_here(path, monkeypatch):
    """That what this counts can fail: flips in the data go unnoticed by a reader that compares no checksums."""
    monkeypatch.setattr(restart, "_checksum", lambda *arguments: restart.netCDF4.Dataset(path).checksum)
    expected, whole = flips.taken(restart.read_restart(path)), path.read_bytes()
    begin, end = flips.regions_of(whole, restart.read_restart(path))[0]
    broken = bytearray(whole)
    broken[(begin + end) // 2] ^= 4
    damaged = path.with_name("damaged.nc")
    damaged.write_bytes(broken)
    assert flips.judged(damaged, expected) == (flips.UNNOTICED, "the content differs")
