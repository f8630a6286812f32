"""swmodel's run of the file of experiments/monai_valley that setup.json in the current folder names; prints JSON.

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

from swmodel.cli.starting import model_state_and_step, simulation_of
from swmodel.config import read
from swmodel.config.families import assemble_family

EXPERIMENT = Path(__file__).resolve().parents[2] / "experiments" / "monai_valley"


def run(setup, precision, folder):
    """{"seconds": of the steps, "steps", "cells", of nests "refined"}; the gauges of every step are in a folder."""
    made = assemble_family(read(str(EXPERIMENT / setup["file"]), [*setup["changes"], f"model.precision={precision!r}"]))
    experiment = made.experiment()
    model, states, dt = model_state_and_step(made, experiment, "serial", None, "auto")
    driver = simulation_of(made, model, states, dt)
    outer = driver.outer if made.nests else driver
    finest = driver[made.nests[-1].name] if made.nests else driver
    finest.gauges(f"{folder}/gauges.nc", setup["gauges"])
    driver.run(steps=1)
    began = time.perf_counter()
    driver.run(until=setup["seconds"])
    seconds, (ny, nx) = time.perf_counter() - began, outer.model.grid.shape
    found = {"seconds": seconds, "steps": outer.step, "cells": nx * ny}
    for one in made.nests:  # the cell-steps of all grids in a step of the outermost one, and what others must refine
        found["cells"] += finest.model.grid.nx * finest.model.grid.ny * model.total_steps(one.name)
        found["refined"] = {"cells": (nx, ny), "box": one.place.box(made.grid), "ratio": one.place.ratio}
    return found


def main(precision):
    jax.config.update("jax_enable_x64", precision == "float64")
    with open("setup.json") as file:
        setup = json.load(file)
    with tempfile.TemporaryDirectory() as folder:
        run(setup, precision, folder)
        found = run(setup, precision, folder)
        with xr.open_dataset(f"{folder}/gauges.nc", decode_times=False) as gauges:
            found["series"] = dict(zip(setup["gauges"], gauges["eta"].transpose(..., "time").values.tolist()))
            found["times"] = gauges["time"].values.tolist()
    print(json.dumps(found))


if __name__ == "__main__":
    main(sys.argv[1])
