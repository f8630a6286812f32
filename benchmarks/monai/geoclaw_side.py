"""GeoClaw of experiments/monai_valley in a folder with setup.json; prints one line of JSON.

    CLAW=/path/to/clawpack-5.14.0 CLAW_PYTHON=/path/to/its/python python geoclaw_side.py

GeoClaw (second order, MC limiter, float64) runs on one uniform level, or with a second one in the box `refined`. The
level at x = 0 is that of the ghost cells, whose velocity is that of the first cell inside. The time is that of steps
and ghost cells, without regridding and output.
"""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np

HERE = Path(__file__).resolve().parent
UNIFORM = HERE.parent / "geoclaw" / "uniform.py"
FLAGS = {"FC": "gfortran", "FFLAGS": "-O3 -march=native -fopenmp", "OMP_STACKSIZE": "64M"}
STOP = 'stop "A user defined boundary condition was not provided."'
GIVEN = """do j = 1, ncol
                    do i = 1, nxl
                        aux(:, i, j) = aux(:, nxl + 1, j)
                        val(1, i, j) = max(level_at(time) - aux(1, i, j), 0.d0)
                        val(2:3, i, j) = val(2:3, nxl + 1, j) * val(1, i, j) / max(val(1, nxl + 1, j), 1.d-3)
                    end do
                end do"""


def write_inputs(setup):
    """Write topography and wave, in GeoClaw's formats."""
    x, y, depth = (np.array(setup["topography"][name]) for name in ("x", "y", "depth"))
    head = (len(x), "mx"), (len(y), "my"), (x[0], "xlower"), (y[0], "ylower"), (x[1] - x[0], "cellsize")
    with open("depth.tt3", "w") as file:
        file.writelines(f"{value} {name}\n" for value, name in (*head, (-9999, "nodata_value")))
        np.savetxt(file, -depth[::-1], fmt="%.6f")
    wave = np.column_stack([setup["wave"]["times"], setup["wave"]["levels"]])
    np.savetxt("wave.data", wave, fmt="%.8e", header=str(len(wave)), comments="")


def build(source, built):
    """Make xgeoclaw, whose left side is that of the wave, or take one that is `built`."""
    for file in (HERE / "setrun.py", HERE / "wave_module.f90", UNIFORM):
        shutil.copy(file, file.name)
    if built is not None and Path(built).exists():
        shutil.copy(built, "xgeoclaw")
        return
    makefile = (source / "geoclaw" / "examples" / "tsunami" / "chile2010" / "Makefile").read_text()
    makefile = makefile.replace("\nMODULES = \\\n", "\nMODULES = \\\n  ./wave_module.f90 \\\n")
    makefile = makefile.replace("EXCLUDE_SOURCES = \\\n", "EXCLUDE_SOURCES = \\\n  bc2amr.f90 \\\n")
    makefile = makefile.replace("\nSOURCES = \\\n", "\nSOURCES = \\\n  ./bc2amr.f90 \\\n")
    Path("Makefile").write_text(makefile)
    sides = (source / "geoclaw" / "src" / "2d" / "shallow" / "bc2amr.f90").read_text()
    sides = sides.replace("    implicit none\n", "    use wave_module, only: level_at\n    implicit none\n", 1)
    if STOP not in sides:
        sys.exit(f"{source} has another bc2amr.f90 than Clawpack 5.14.0; install that version")
    Path("bc2amr.f90").write_text(sides.replace(STOP, GIVEN, 1))
    done = subprocess.run(["make", "xgeoclaw"], env=FLAGS | os.environ, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"GeoClaw cannot be built: {done.stderr.strip()[-300:]}")


def main():
    with open("setup.json") as file:
        setup = json.load(file)
    write_inputs(setup)
    build(Path(os.environ["CLAW"]), setup.get("built"))
    subprocess.run([os.environ["CLAW_PYTHON"], "setrun.py"], check=True, stdout=subprocess.DEVNULL)
    environment = FLAGS | os.environ | {"OMP_NUM_THREADS": str(setup["threads"])}
    command = ["sh", "-c", "ulimit -s $(ulimit -H -s); exec ./xgeoclaw"]  # its arrays are on the stack
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"xgeoclaw ended with status {done.returncode}: {done.stdout[-200:]} {done.stderr[-200:]}")
    total = re.search(r"^total\s+(\S+)\s+\S+\s+(\S+)\s*$", Path("timing.txt").read_text(), re.M)
    if total is None:
        sys.exit("timing.txt of GeoClaw has no line of all levels with wall time and cell updates")
    nx, ny = setup["cells"]
    series = {}
    for number, name in enumerate(setup["gauges"], start=1):
        rows = np.loadtxt(f"gauge{number:05d}.txt", comments="#")
        times, series[name] = rows[:, 1].tolist(), rows[:, 5].tolist()
    found = {"seconds": float(total[1]), "steps": round(float(total[2]) / (nx * ny)), "cells": nx * ny}
    print(json.dumps(found | {"times": times, "series": series}))


if __name__ == "__main__":
    main()
