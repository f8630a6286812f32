"""GeoClaw (order 2, MC limiter, float64) beside forward-backward steps in float32: a cell-step, a run, a command.

GEOCLAW names a folder with `xgeoclaw`, made by `make xgeoclaw` of an example of Clawpack with gfortran, and with the
data files of a run on one uniform level (amr_levels_max = 1), as benchmarks/geoclaw/ocean.py writes them. Its own
timing.txt is read: cell updates, and wall time of the integration. For `geoclaw_vs_step` the model steps as many cells
as the run has, over a closed basin. The other figures need three hours on the cells of the Tohoku experiment, as
ocean.py writes them. They compare GeoClaw with that experiment without snapshots, run before, on two ranks: from the
first step to the end (`geoclaw_vs_run`), and the whole command (`geoclaw_vs_command`).
"""

import os
import re
import shutil
import statistics
import subprocess
import time
from pathlib import Path

from figures.start import AGAIN, run_of_experiment
from harness import NotMeasured

NAMES = ("geoclaw_vs_step", "geoclaw_vs_run", "geoclaw_vs_command")
LEVEL = re.compile(r"^\s*1\s+([\d.]+(?:E[+-]?\d+)?)\s+[\d.]+(?:E[+-]?\d+)?\s+([\d.]+(?:E[+-]?\d+)?)\s*$", re.M)
END = re.compile(r"^\s*([\d.]+(?:[EeDd][+-]?\d+)?)\s+=:\s*tfinal\b", re.M)
CELLS = re.compile(r"^\s*(\d+)\s+=:\s*m([xy])\b|^\s*(\d+)\s+(\d+)\s+=:\s*num_cells\b", re.M)
TOHOKU = (720, 540), 10800.0  # cells, and seconds of model time
RUN = ["sh", "-c", "ulimit -s $(ulimit -H -s); exec ./xgeoclaw"]  # its arrays are on the stack


def measure(bench):
    folder = os.environ.get("GEOCLAW")
    if folder is None or not (Path(folder) / "xgeoclaw").is_file():
        compiler = "" if shutil.which("gfortran") else "there is no gfortran: apt-get install gfortran; then "
        raise NotMeasured(f"{compiler}build xgeoclaw and name its folder in GEOCLAW (docs/guide/performance.md)")
    about = (Path(folder) / "claw.data").read_text()
    size, end = cells_of(about), END.search(about)
    environment = {**os.environ, "OMP_NUM_THREADS": str(len(bench.cores)), "OMP_STACKSIZE": "64M"}
    begun = time.perf_counter()
    done = subprocess.run(RUN, cwd=folder, env=environment, capture_output=True, text=True)
    command = time.perf_counter() - begun
    if done.returncode:
        raise NotMeasured(f"xgeoclaw ended with status {done.returncode}: {done.stderr.strip()[-200:]}")
    integration, updates = times_of((Path(folder) / "timing.txt").read_text())
    ours = bench.timed("geoclaw", {"step": lambda: bench.steps("step", size=size, stepper="forward_backward")})["step"]
    cell_step = statistics.median(ours) / (size[0] * size[1])
    details = {"size": size, "seconds": integration, "updates": updates}
    bench.figure("geoclaw_vs_step", integration / updates / cell_step, **details)
    if (size, end and float(end[1].replace("D", "e").replace("d", "e"))) != TOHOKU:
        for name in NAMES[1:]:
            bench.missing(name, "the run of GeoClaw is not of three hours on 720 x 540 cells; see geoclaw/ocean.py")
        return
    took = [run_of_experiment(bench, "--set", "output.fields=[]") for _ in range(1 + AGAIN)][1:]  # the first compiles
    run, whole = (statistics.median(times) for times in zip(*((whole - first, whole) for first, whole in took)))
    bench.figure("geoclaw_vs_run", integration / run, theirs=integration, ours=run)
    bench.figure("geoclaw_vs_command", command / whole, theirs=command, ours=whole)


def times_of(timing):
    """(wall time of the integration of level 1 [s], its cell updates), from the text of timing.txt."""
    found = LEVEL.search(timing)
    if found is None:
        raise NotMeasured("timing.txt of GeoClaw has no line of level 1 with wall time and cell updates")
    return float(found[1]), float(found[2])


def cells_of(data):
    """(nx, ny) from the text of claw.data (num_cells, or mx and my)."""
    found = {}
    for one, name, nx, ny in CELLS.findall(data):
        found |= {name: int(one)} if name else {"x": int(nx), "y": int(ny)}
    if set(found) != {"x", "y"}:
        raise NotMeasured("claw.data of GeoClaw does not contain the number of cells")
    return found["x"], found["y"]
