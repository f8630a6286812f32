"""Full disks, quotas, read-only folders, lost files: a run ends with one sentence and keeps its newest restart."""

import re

import pytest

from . import files


@pytest.mark.parametrize("kind", ["full disk", "quota", "read-only folder", "removed file", "file cut short"])
def test_a_run_that_cannot_write_ends_with_one_sentence_and_keeps_the_restart(kind, tmp_path):
    tally = files.files(1, tmp_path, kinds=(kind,), ranks=(1,))
    if kind in tally.skipped:
        pytest.skip(tally.skipped[kind])
    assert tally.files == 1 and not tally.wrong, tally.wrong


def test_a_run_that_goes_on_over_a_full_disk_would_be_counted(tmp_path, monkeypatch):
    """That what this counts can fail."""
    monkeypatch.setattr(files, "PATIENCE", 6.0)
    monkeypatch.setattr(files, "QUOTA", 1 << 40)
    tally = files.files(1, tmp_path, kinds=("quota",))
    assert re.search("it had not ended after 6 s", tally.wrong[0])
