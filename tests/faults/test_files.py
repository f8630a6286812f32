"""Full disks, quotas, read-only folders, lost files: a run ends with one sentence and keeps its newest restart."""

import re

import pytest

from swmodel.runtime import launch

from . import files

pytestmark = pytest.mark.verify
needs_mpi = pytest.mark.skipif(not launch.mpi_installed(), reason="MPI is not installed")


@pytest.mark.parametrize(
    ("kind", "ranks"),
    [
        *((kind, 1) for kind in ("full disk", "quota", "read-only folder")),
        *((kind, 1) for kind in ("removed file", "file cut short", "folder of stores moved away")),
        pytest.param("removed file", 2, marks=needs_mpi),
        pytest.param("file cut short", 2, marks=needs_mpi),
    ],
)
def test_a_run_that_cannot_write_ends_with_one_sentence_on_every_rank_and_keeps_the_restart(kind, ranks, tmp_path):
    tally = files.files(1, tmp_path, kinds=(kind,), ranks=(ranks,))
    if kind in tally.skipped:
        pytest.skip(tally.skipped[kind])
    assert tally.files == 1 and not tally.wrong, tally.wrong


def test_a_run_that_goes_on_over_a_full_disk_would_be_counted(tmp_path, monkeypatch):
    """That what this counts can fail."""
    monkeypatch.setattr(files, "PATIENCE", 6.0)
    monkeypatch.setattr(files, "QUOTA", 1 << 40)
    tally = files.files(1, tmp_path, kinds=("quota",))
    assert re.search("it had not ended after 6 s", tally.wrong[0])
