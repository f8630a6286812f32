"""A run that is resumed with other settings loses nothing, and what this counts can fail."""

import shutil

import pytest

from . import branches


@pytest.mark.verify
def test_branches_leave_the_run_and_one_that_cuts_it_would_be_counted(tmp_path):
    case = branches.prepared(tmp_path)
    place = tmp_path / "branch of 10 min"
    shutil.copytree(tmp_path / "output", place / "output")
    for where, refused in ((None, True), ("set", False)):
        assert branches.resumed(case, place, "first.nc", "stepper.dt=7.5", where, 15) == (refused, [])
    shutil.copy(place / "branch" / "fields.nc", place / "output" / "fields.nc")
    assert branches.records(place / "output") != branches.records(tmp_path / "output")
