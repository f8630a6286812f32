"""A run that is killed and resumed ends with the same bits, and no kill loses a file."""

import shutil

import numpy as np
import pytest

from . import branches, harness, kills


@pytest.mark.verify
def test_a_run_that_was_killed_ends_as_one_that_nobody_disturbed(tmp_path, monkeypatch):
    monkeypatch.setattr(kills, "RANKS", 1)
    tally = kills.kills(1, tmp_path, seconds=300.0, seed=3, steps=600)
    assert tally.kills == 1 and not tally.lost, tally.lost


@pytest.mark.verify
def test_two_ranks_killed_twice_end_as_a_run_that_nobody_disturbed(tmp_path):
    tally = kills.kills(2, tmp_path, seconds=300.0, seed=3, steps=1200)
    assert tally.kills == 2 and not tally.lost, tally.lost


@pytest.mark.verify
def test_lost_and_changed_files_are_noticed(tmp_path, monkeypatch):
    """That what this counts can fail: a restart that is half there, a changed record, a file that is gone."""
    case = harness.write_case(tmp_path, until="600 s", fields="60 s", restart="300 s")
    ended = harness.straight("run", case, "-q")
    assert ended.status == 0, ended.text
    output = tmp_path / "output"
    expected = harness.contents(output)
    assert not harness.differences(output, expected) and not harness.unreadable(output, harness.OUTPUTS)
    with harness.netCDF4.Dataset(output / "gauges.nc", "a") as series:
        series["eta"][0, 7] = np.nextafter(series["eta"][0, 7], 1, dtype="f4")
    assert harness.differences(output, expected) == ["gauges.nc: eta"]
    with open(output / "restart.nc", "r+b") as file:
        file.truncate(5000)
    (output / "maxima.nc").unlink()
    gone, damaged = harness.unreadable(output, harness.OUTPUTS)
    assert gone == "maxima.nc is gone" and damaged.startswith("restart.nc cannot be read")


# -- branches ----------------------------------------------------------------------------------------------------------


@pytest.mark.verify
def test_branches_leave_the_run_and_one_that_cuts_it_would_be_counted(tmp_path):
    case = branches.prepared(tmp_path)
    place = tmp_path / "branch of 10 min"
    shutil.copytree(tmp_path / "output", place / "output")
    for where, refused in ((None, True), ("set", False)):
        assert branches.resumed(case, place, "first.nc", "stepper.dt=7.5", where, 15) == (refused, [])
    shutil.copy(place / "branch" / "fields.nc", place / "output" / "fields.nc")
    assert branches.records(place / "output") != branches.records(tmp_path / "output")
