"""swmodel's run of experiments/monai_valley with cells of setup.json in the current folder; prints one line of JSON.

    python swmodel_side.py PRECISION

The run is made twice, and the second time is taken, since the first compiles its programs.
"""

import json
import sys
import tempfile
import time
from pathlib import Path

import jax
import xarray as xr

import swmodel as sw
from swmodel.config import read
from swmodel.config.build.experiment import assemble, model_of
from swmodel.config.build.steppers import stepper_of, time_step
from swmodel.stepping.stability import limits

EXPERIMENT = Path(__file__).resolve().parents[2] / "experiments" / "monai_valley" / "monai_valley.toml"


def run(setup, precision, folder):
    """(the seconds that the steps take, the Simulation), with gauges of every step in a folder."""
    nx, ny = setup["cells"]
    changes = [f"grid.nx={nx}", f"grid.ny={ny}", f"model.precision={precision!r}"]
    made = assemble(read(str(EXPERIMENT), changes))
    experiment = made.experiment()
    model = model_of(made, "serial")
    found = limits(model, stepper_of(experiment.stepper), model.at_rest())
    stepper = stepper_of(experiment.stepper, time_step(experiment, found))
    simulation = sw.Simulation(model, model.at_rest(), stepper)
    simulation.gauges(f"{folder}/gauges.nc", setup["gauges"])
    simulation.run(steps=1)
    began = time.perf_counter()
    simulation.run(until=setup["seconds"])
    return time.perf_counter() - began, simulation


def main(precision):
    jax.config.update("jax_enable_x64", precision == "float64")
    with open("setup.json") as file:
        setup = json.load(file)
    with tempfile.TemporaryDirectory() as folder:
        run(setup, precision, folder)
        seconds, simulation = run(setup, precision, folder)
        with xr.open_dataset(f"{folder}/gauges.nc", decode_times=False) as found:
            levels = dict(zip(setup["gauges"], found["eta"].transpose(..., "time").values.tolist()))
            times = found["time"].values.tolist()
    nx, ny = setup["cells"]
    found = {"seconds": seconds, "steps": simulation.step, "cells": nx * ny, "times": times, "series": levels}
    print(json.dumps(found))


if __name__ == "__main__":
    main(sys.argv[1])
