"""Hurricane Ike in GeoClaw and in swmodel: the same grid, depth of every cell, track, vortex and drag law.

    CLAW=/path/to/clawpack-5.14.0 CLAW_PYTHON=/path/to/its/python python benchmarks/geoclaw/compare.py

GeoClaw runs on one uniform level. Its vortex of Holland (1980) has no inflow, adds the whole translation, and reduces
the gradient wind by 0.9 (to 10 m) and by 0.88 (for sampling); swmodel's Cyclone is given the same numbers. Land is a
wall in swmodel and a plateau of 50 m in GeoClaw.
"""

import dataclasses
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import time

import numpy as np
import xarray as xr

import swmodel as sw
from swmodel.config import read
from swmodel.config.assembly import assemble, model_of
from swmodel.errors import SwmodelError
from swmodel.forcing.tracks import cyclone_of, read_track

HERE = pathlib.Path(__file__).parent
EXPERIMENT = HERE.parent.parent / "experiments" / "ike_2008"
BOUNDARY_LAYER, SAMPLING, AIR, WATER, AMBIENT = 0.9, 0.88, 1.15, 1025.0, 101300.0
PERIOD = ["run.start=2008-09-12T00:00:00", "run.until='36 h'"]  # in which the surge reaches its maximum
PLATEAU = 50.0  # [m], the height of land in GeoClaw
LOWEST = 1.0  # [m], of the maxima that are compared


class GeoClawMissing(SwmodelError):
    """GeoClaw is not on this machine, or cannot be built."""


def cyclone(track, run):
    """The Cyclone whose wind and pressure are those of GeoClaw's holland80."""
    translation = {"inflow": 0.0, "translation": 1.0, "reduction": BOUNDARY_LAYER * SAMPLING}
    made = cyclone_of(track, run.start, run.until, air_density=AIR, density=WATER, drag="garratt", **translation)
    times = np.array([(moment - run.start).total_seconds() for moment in track.moments])
    degree = np.deg2rad(sw.SphericalGrid(2, 2, (0, 1), (0, 1)).radius)
    speed = np.hypot(
        np.gradient(track.longitude, times) * np.cos(np.deg2rad(track.latitude)), np.gradient(track.latitude, times)
    )
    gradient = np.maximum(track.wind - degree * speed, 0.0) / BOUNDARY_LAYER
    b = np.clip(AIR * np.e * gradient**2 / (AMBIENT - track.pressure), 1.0, 2.5)
    return dataclasses.replace(made, b=np.interp(made.times, times, b))


def ours():
    """(model, experiment, maxima (ny, nx) [m], seconds of processor time of the steps, steps)."""
    made = assemble(read(str(EXPERIMENT / "ike.toml"), PERIOD))
    experiment = made.experiment()
    made.forcing = (cyclone(read_track(EXPERIMENT / "ike_2008.csv"), experiment.run),)
    model = model_of(made, "serial")
    dt = 0.8 * sw.largest_time_step(model, experiment.stepper.stepper(1.0), model.at_rest())
    simulation = sw.Simulation(model, experiment.initial.state(model), experiment.stepper.stepper(float(dt)))
    simulation.run(steps=8)  # compiles
    with tempfile.TemporaryDirectory() as folder:
        simulation.maxima(pathlib.Path(folder) / "maxima.nc")
        began = time.process_time()
        simulation.run(until=experiment.run.until)
        seconds = time.process_time() - began
        with xr.open_dataset(pathlib.Path(folder) / "maxima.nc", decode_times=False) as found:
            maxima = found["maximum_elevation"].values
    return model, experiment, maxima, seconds, simulation.step


def prepared(folder, model, run):
    """Write what GeoClaw reads to a folder, and build it there."""
    source = pathlib.Path(os.environ["CLAW"])
    grid, bottom = model.grid, np.where(model.wet, -model.depth, PLATEAU)
    for name in ("setrun.py", "uniform.py", "cells_module.f90"):
        shutil.copy(HERE / name, folder)
    makefile = (source / "geoclaw" / "examples" / "storm-surge" / "ike" / "Makefile").read_text()
    makefile = makefile.replace("\nMODULES = \\\n", "\nMODULES = \\\n  ./cells_module.f90 \\\n")
    makefile = makefile.replace("EXCLUDE_SOURCES = \\\n", "EXCLUDE_SOURCES = \\\n  setaux.f90 \\\n")
    makefile = makefile.replace("\nSOURCES = \\\n", "\nSOURCES = \\\n  ./setaux.f90 \\\n")
    (folder / "Makefile").write_text(makefile)
    setaux = (source / "geoclaw" / "src" / "2d" / "shallow" / "setaux.f90").read_text()
    setaux = setaux.replace("    use topo_module\n", "    use topo_module\n    use cells_module, only: bottom_of\n", 1)
    line = "aux(1,ii,jj) = topo_integral / (dx * dy * aux(2,ii,jj))"
    if line not in setaux:
        raise GeoClawMissing(f"{source} has another setaux.f90 than Clawpack 5.14.0; install that version.")
    (folder / "setaux.f90").write_text(setaux.replace(line, "aux(1,ii,jj) = bottom_of(ilo + ii, jlo + jj)"))
    with (folder / "cells.data").open("w") as file:
        file.write(f"{grid.nx} {grid.ny}\n")
        np.savetxt(file, bottom, fmt="%.4f")
    (west, east), (south, north) = grid.x_edges[[0, -1]], grid.y_edges[[0, -1]]
    corners = {"lower": [west, south], "upper": [east, north], "cells": [grid.nx, grid.ny], "radius": grid.radius}
    (folder / "setup.json").write_text(json.dumps(corners | {"until": run.until, "rho": WATER, "rho_air": AIR}))
    with (folder / "depth.tt3").open(
        "w"
    ) as file:  # GeoClaw asks for a file of depths; the cells have those of cells.data
        head = (3, "ncols"), (3, "nrows"), (west - 1, "xlower"), (south - 1, "ylower"), (0.5 * (east - west + 2), "dx")
        file.writelines(f"{value} {name}\n" for value, name in (*head, (-9999, "nodata_value")))
        np.savetxt(file, np.full((3, 3), -100.0), fmt="%.1f")
    storm(folder / "ike.storm", read_track(EXPERIMENT / "ike_2008.csv"), run.start)
    build = subprocess.run(["make", "xgeoclaw"], cwd=folder, env=environment(), capture_output=True, text=True)
    if build.returncode:
        raise GeoClawMissing(f"GeoClaw cannot be built: {build.stderr.strip().splitlines()[-1:]}; see compare.py.")


def storm(path, track, start):
    """Write a track as GeoClaw reads it: time, place, wind, radius, central pressure, outer radius."""
    outer = np.genfromtxt(EXPERIMENT / "ike_2008.csv", delimiter=",", names=True)["outer_radius_m"]
    lines = [
        f"{(moment - start).total_seconds():.8e} {x:.8e} {y:.8e} {wind:.8e} {radius:.8e} {pressure:.8e} {reach:.8e}"
        for moment, x, y, wind, radius, pressure, reach in zip(
            track.moments, track.longitude, track.latitude, track.wind, track.radius, track.pressure, outer
        )
    ]
    path.write_text(f"{len(lines)}\n{start.isoformat()}\n\n" + "\n".join(lines) + "\n")


def environment():
    """The variables with which GeoClaw is built and runs."""
    flags = {"FC": "gfortran", "FFLAGS": "-O3 -march=native -fopenmp", "OMP_NUM_THREADS": "2", "OMP_STACKSIZE": "64M"}
    return flags | dict(os.environ) | {"CLAW_PYTHON": os.environ.get("CLAW_PYTHON", sys.executable)}


def theirs(model, run):
    """(maxima (ny, nx) [m], seconds of processor time of the steps, steps) of GeoClaw."""
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        prepared(folder, model, run)
        subprocess.run([environment()["CLAW_PYTHON"], "setrun.py"], cwd=folder, env=environment(), check=True)
        command = ["bash", "-c", "ulimit -s unlimited; ./xgeoclaw"]
        log = subprocess.run(command, cwd=folder, env=environment(), capture_output=True, text=True)
        if log.returncode:
            raise GeoClawMissing(f"GeoClaw ends with status {log.returncode}: {log.stdout[-300:]} {log.stderr[-300:]}")
        return results(folder, model)


def results(folder, model):
    """(maxima (ny, nx) [m], seconds of processor time of the steps, steps) of a run of GeoClaw in a folder."""
    thickest = np.loadtxt(folder / "fgmax0001.txt")[:, 4].reshape(model.grid.shape)
    _, seconds, updates = re.search(r"^total +(\S+) +(\S+) +(\S+)", (folder / "timing.txt").read_text(), re.M).groups()
    return thickest - model.depth, float(seconds), round(float(updates) / model.depth.size)


def compared():
    """{place: (ours, theirs) [m]}, {figure: value} of the whole grid and of the two runs."""
    if not os.environ.get("CLAW") or shutil.which("gfortran") is None:
        raise GeoClawMissing(
            "GeoClaw is not here: set CLAW to Clawpack 5.14.0, and CLAW_PYTHON to a Python with it; install gfortran."
        )
    model, experiment, highest, seconds, steps = ours()
    other, their_seconds, their_steps = theirs(model, experiment.run)
    x, y = (axis.ravel() for axis in model.grid.coordinates("h"))
    places = {}
    for name, (longitude, latitude) in experiment.output.gauges.positions.items():
        j, i = int(np.abs(y - latitude).argmin()), int(np.abs(x - longitude).argmin())
        places[name] = float(highest[j, i]), float(other[j, i])
    high = model.wet & (highest > LOWEST)
    ratio = (highest / other)[high]
    figures = {
        "median": float(np.median(ratio)),
        "within_10_percent": float(np.mean(np.abs(ratio - 1) < 0.1)),
        "seconds": seconds,
        "steps": steps,
        "seconds_geoclaw": their_seconds,
        "steps_geoclaw": their_steps,
    }
    return places, figures


def main():
    try:
        places, figures = compared()
    except GeoClawMissing as error:
        print(error)
        return
    for name, (one, other) in places.items():
        print(f"{name:16s} {one:6.2f} m   GeoClaw {other:6.2f} m   ratio {one / other:.3f}")
    print("  ".join(f"{name}={value:.4g}" for name, value in figures.items()))


if __name__ == "__main__":
    main()
