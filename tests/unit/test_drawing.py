"""The process that draws the figures of a run: what it answers, and that it ends when the run does."""

import os
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("matplotlib")

import swmodel as sw  # noqa: E402
from swmodel.errors import SwmodelError  # noqa: E402
from swmodel.runtime.drawing import Drawing  # noqa: E402

PATIENCE = 60.0  # [s]


def runs(process):
    """Whether there is a process of this number; one that has ended may wait for its parent to take notice."""
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def test_figures_are_drawn_by_a_process_that_is_no_rank_at_the_priority_of_the_run(tmp_path, monkeypatch):
    for name in ("OMPI_COMM_WORLD_RANK", "PMIX_RANK", "OMPI_MCA_btl"):
        monkeypatch.setenv(name, "0")
    model = sw.ShallowWater(sw.CartesianGrid(12, 10, (0.0, 1.2e5), (0.0, 1e5)), 500.0)
    hump = model.state(eta=lambda x, y: np.exp(-((x - 6e4) ** 2 + (y - 5e4) ** 2) / 4e8))
    with Drawing() as drawing:
        sw.Simulation(model, hump, sw.AB2(10.0)).write(tmp_path / "fields.nc", ("eta",), every=20.0).run(steps=4)
        number = drawing._process.pid
        names = Path(f"/proc/{number}/environ").read_bytes()
        assert b"OMPI_" not in names and b"PMIX_" not in names
        (figure,) = drawing.draw([tmp_path / "fields.nc"])
        assert figure.parent == tmp_path and figure.stat().st_size > 5000
        assert os.getpriority(os.PRIO_PROCESS, number) == os.getpriority(os.PRIO_PROCESS, 0)
    assert not Path(f"/proc/{number}").exists()


def test_a_figure_that_cannot_be_drawn_is_one_sentence(tmp_path):
    with Drawing() as drawing, pytest.raises(SwmodelError, match="nowhere.nc"):
        drawing.draw([tmp_path / "nowhere.nc"])


STARVED = """
import builtins, os, threading, time
imported = builtins.__import__

def slow(name, *arguments, **options):
    if name == "xarray" and threading.current_thread() is not threading.main_thread():
        with open({path!r}, "w") as file:
            file.write(str(os.getpriority(os.PRIO_PROCESS, 0)))
        time.sleep(600)
    return imported(name, *arguments, **options)

builtins.__import__ = slow
"""


def test_figures_do_not_wait_for_imports_that_get_no_time_beside_other_programs(tmp_path, monkeypatch):
    (tmp_path / "sitecustomize.py").write_text(STARVED.format(path=str(tmp_path / "priority")))
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    with Drawing() as drawing:
        until = time.monotonic() + PATIENCE
        while not (tmp_path / "priority").exists() and time.monotonic() < until:
            time.sleep(0.05)
        with pytest.raises(SwmodelError, match="nowhere.nc"):  # its answer, after PATIENCE of drawing.py
            drawing.draw([tmp_path / "nowhere.nc"])
    assert (tmp_path / "priority").read_text() == "19"


def test_a_process_that_was_killed_is_one_sentence(tmp_path):
    with Drawing() as drawing:
        os.kill(drawing._process.pid, signal.SIGKILL)
        with pytest.raises(SwmodelError, match="ended with status -9 before .* files of the run are complete"):
            drawing.draw([tmp_path / "fields.nc"])


def test_a_run_that_is_killed_leaves_no_process_behind():
    code = """
        import os, signal
        from swmodel.runtime.drawing import Drawing
        print(Drawing()._process.pid, flush=True)
        os.kill(os.getpid(), signal.SIGKILL)
        """
    killed = subprocess.run([sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True)
    assert killed.returncode == -signal.SIGKILL
    until = time.monotonic() + PATIENCE
    while runs(int(killed.stdout)) and time.monotonic() < until:
        time.sleep(0.05)
    assert not runs(int(killed.stdout))


def test_drawing_ends_with_the_run_that_waits_for_it():
    code = """
        import threading, time
        from swmodel.runtime.drawing import _end_with_the_run
        threading.Thread(target=_end_with_the_run, daemon=True).start()
        time.sleep(600)
        """
    process = subprocess.Popen([sys.executable, "-c", textwrap.dedent(code)], stdin=subprocess.PIPE)
    process.stdin.close()
    assert process.wait(PATIENCE) == 1
