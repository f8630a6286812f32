"""Time of a cell-step of GeoClaw (order 2, MC limiter, float64) over one of forward-backward in float32.

GEOCLAW names a folder with `xgeoclaw`, made by `make xgeoclaw` of an example of Clawpack with gfortran, and with the
data files of a run on one uniform level (amr_levels_max = 1), as benchmarks/geoclaw/ocean.py writes them. Its own
timing.txt is read: cell updates, and wall time of the integration. The model steps as many cells as the run has, over a
closed basin.
"""

import os
import re
import shutil
import statistics
import subprocess
from pathlib import Path

from harness import NotMeasured

NAMES = ("geoclaw_vs_step",)
LEVEL = re.compile(r"^\s*1\s+([\d.]+(?:E[+-]?\d+)?)\s+[\d.]+(?:E[+-]?\d+)?\s+([\d.]+(?:E[+-]?\d+)?)\s*$", re.M)
CELLS = re.compile(r"^\s*(\d+)\s+=:\s*m([xy])\b|^\s*(\d+)\s+(\d+)\s+=:\s*num_cells\b", re.M)
RUNS = 3
RUN = ["sh", "-c", "ulimit -s $(ulimit -H -s); exec ./xgeoclaw"]  # its arrays are on the stack


def measure(bench):
    folder = os.environ.get("GEOCLAW")
    if folder is None or not (Path(folder) / "xgeoclaw").is_file():
        compiler = "" if shutil.which("gfortran") else "there is no gfortran: apt-get install gfortran; then "
        raise NotMeasured(f"{compiler}build xgeoclaw and name its folder in GEOCLAW (docs/performance.md)")
    size = cells_of((Path(folder) / "claw.data").read_text())
    theirs = []
    for _ in range(RUNS):
        environment = {**os.environ, "OMP_NUM_THREADS": str(len(bench.cores)), "OMP_STACKSIZE": "64M"}
        done = subprocess.run(RUN, cwd=folder, env=environment, capture_output=True, text=True)
        if done.returncode:
            raise NotMeasured(f"xgeoclaw ended with status {done.returncode}: {done.stderr.strip()[-200:]}")
        theirs.append(seconds_per_update((Path(folder) / "timing.txt").read_text()))
    ours = bench.timed("geoclaw", {"step": lambda: bench.steps("step", size=size, stepper="forward_backward")})["step"]
    cell_step = statistics.median(ours) / (size[0] * size[1])
    bench.figure("geoclaw_vs_step", statistics.median(theirs) / cell_step, size=size, seconds_per_update=theirs)


def seconds_per_update(timing):
    """Wall time of the integration of level 1 over its cell updates, from the text of timing.txt."""
    found = LEVEL.search(timing)
    if found is None:
        raise NotMeasured("timing.txt of GeoClaw has no line of level 1 with wall time and cell updates")
    return float(found[1]) / float(found[2])


def cells_of(data):
    """(nx, ny) from the text of claw.data (num_cells, or mx and my)."""
    found = {}
    for one, name, nx, ny in CELLS.findall(data):
        found |= {name: int(one)} if name else {"x": int(nx), "y": int(ny)}
    if set(found) != {"x", "y"}:
        raise NotMeasured("claw.data of GeoClaw does not contain the number of cells")
    return found["x"], found["y"]
