"""Monai valley by swmodel, GeoClaw and ANUGA, with as many cells: speeds, and distances from the laboratory's gauges.

`nest_vs_geoclaw` compares the whole run with the shore in a nest with GeoClaw's refinement: cells of one size in the
same box, and around it.

GeoClaw is measured where CLAW names a Clawpack 5.14.0, CLAW_PYTHON a Python with it, and gfortran is there; ANUGA where
ANUGA_PYTHON names a Python with ANUGA 4.1. Speeds are cell-steps per second: steps of swmodel (ForwardBackwardHancock),
GeoClaw and ANUGA have one stage. The figures of the whole run compare times until the same end.
"""

import importlib.util
import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import xarray as xr
from harness import HERE, ROOT, NotMeasured

EXPERIMENT = ROOT / "experiments" / "monai_valley"
SIDES = HERE / "monai"
CELLS, SIZE = (196, 121), (5.488, 3.402)  # and [m]
LEAST = {"float32": 40.0, "float64": 15.0}  # times GeoClaw's cell-steps per second
PEERS = ("geoclaw", "anuga")
PATIENCE = 1200.0  # [s]
OF_NEST = ("nest_error", "nest_error_geoclaw", "nest_vs_geoclaw")
NAMES = (
    "monai_error",
    *(f"monai_error_{peer}" for peer in PEERS),
    *(f"monai_speed_vs_{peer}_{precision}" for peer in PEERS for precision in LEAST),
    *(f"monai_run_vs_{peer}_{precision}" for peer in PEERS for precision in LEAST),
    *OF_NEST,
)


def measure(bench):
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        setup = described(len(bench.cores))
        ours = {x: run(folder / x, setup, [sys.executable, SIDES / "swmodel_side.py", x], bench) for x in LEAST}
        misfit = laboratory().misfit
        bench.figure("monai_error", misfit(ours["float32"]["times"], ours["float32"]["series"]), at_most=0.10)
        for peer in PEERS:
            try:
                theirs = run(folder / peer, setup, command(peer), bench)
            except NotMeasured as why:
                for figure in (x for x in NAMES if peer in x):
                    bench.missing(figure, why)
                continue
            bench.figure(f"monai_error_{peer}", misfit(theirs["times"], theirs["series"]))
            for precision, one in ours.items():
                least = LEAST[precision] if peer == "geoclaw" else None
                details = {"ours": speed(one), "theirs": speed(theirs), "cells": (one["cells"], theirs["cells"])}
                name = f"vs_{peer}_{precision}"
                bench.figure(f"monai_speed_{name}", speed(one) / speed(theirs), at_least=least, **details)
                bench.figure(f"monai_run_{name}", theirs["seconds"] / one["seconds"])
        measure_nest(bench, folder, setup)


def measure_nest(bench, folder, setup):
    """The run of monai_nested.toml, and GeoClaw's with the box of its nest as a second level."""
    side, misfit = [sys.executable, SIDES / "swmodel_side.py", "float32"], laboratory().misfit
    ours = run(folder / "nest", setup | {"file": "monai_nested.toml", "changes": []}, side, bench)
    bench.figure("nest_error", misfit(ours["times"], ours["series"]), at_most=0.085)
    refined = {"refined": ours["refined"], "cells": ours["refined"]["cells"]}
    built = {"built": str(folder / "geoclaw" / "xgeoclaw")}
    try:
        theirs = run(folder / "geoclaw levels", setup | refined | built, command("geoclaw"), bench)
    except NotMeasured as why:
        for figure in OF_NEST[1:]:
            bench.missing(figure, why)
        return
    bench.figure("nest_error_geoclaw", misfit(theirs["times"], theirs["series"]))
    details = {name: (side["cells"], side["steps"]) for name, side in (("ours", ours), ("theirs", theirs))}
    bench.figure("nest_vs_geoclaw", theirs["seconds"] / ours["seconds"], at_least=10.0, **details)


def described(threads):
    """What all sides are given: cells, gauges, depths, the wave, friction, the thinnest water, the end."""
    with xr.open_dataset(EXPERIMENT / "bp07_depth.nc") as found:
        depth = found["depth"].transpose("y", "x")
        floor = {name: np.asarray(depth[name], float).tolist() for name in ("x", "y")} | {
            "depth": depth.values.tolist()
        }
    wave = np.genfromtxt(EXPERIMENT / "bp07_incident.csv", delimiter=",", names=True)
    return {
        "file": "monai_valley.toml",
        "changes": [f"grid.nx={CELLS[0]}", f"grid.ny={CELLS[1]}"],
        "cells": CELLS,
        "size": SIZE,
        "gauges": laboratory().GAUGES,
        "topography": floor,
        "wave": {"times": wave["time_s"].tolist(), "levels": wave["eta_m"].tolist()},
        "roughness": 0.01,
        "thin": 1e-4,
        "seconds": laboratory().END,
        "every": 0.05,
        "threads": threads,
    }


def command(peer):
    """The command of GeoClaw's or ANUGA's side; NotMeasured where it is not on this machine."""
    if peer == "anuga":
        python = os.environ.get("ANUGA_PYTHON")
        if python is None:
            raise NotMeasured("ANUGA is not here: pip install anuga==4.1.0 elsewhere, and name its Python ANUGA_PYTHON")
        return [python, SIDES / "anuga_side.py"]
    if shutil.which("gfortran") is None:
        raise NotMeasured("there is no gfortran: apt-get install gfortran")
    if not {"CLAW", "CLAW_PYTHON"} <= set(os.environ):
        raise NotMeasured("GeoClaw is not here: set CLAW to Clawpack 5.14.0, and CLAW_PYTHON to a Python with it")
    return [sys.executable, SIDES / "geoclaw_side.py"]


def run(folder, setup, arguments, bench):
    """The JSON that a side prints last: seconds of the steps, their number, cells, times and series of the gauges."""
    folder.mkdir()
    (folder / "setup.json").write_text(json.dumps(setup))
    environment = bench.environment(OMP_NUM_THREADS=str(setup["threads"]))
    environment["PYTHONPATH"] = os.pathsep.join([str(ROOT), *filter(None, [environment.get("PYTHONPATH")])])
    try:
        done = subprocess.run(
            [str(part) for part in arguments],
            cwd=folder,
            env=environment,
            capture_output=True,
            text=True,
            timeout=PATIENCE,
        )
    except subprocess.TimeoutExpired:
        raise NotMeasured(f"{Path(arguments[1]).name} was not ready within {PATIENCE:g} s") from None
    if done.returncode:
        lines = done.stderr.strip().splitlines() or [f"status {done.returncode}"]
        raise NotMeasured(f"{Path(arguments[1]).name}: {lines[-1]}")
    found = json.loads(done.stdout.splitlines()[-1])
    bench.say(
        f"    {folder.name:12s} {found['seconds']:8.2f} s, {found['steps']} steps, {speed(found):.3g} cells a second"
    )
    return found


def speed(found):
    """Cell-steps per second."""
    return found["cells"] * found["steps"] / found["seconds"]


def laboratory():
    """The module of the experiment that has the laboratory's records."""
    spec = importlib.util.spec_from_file_location("laboratory", EXPERIMENT / "laboratory.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
