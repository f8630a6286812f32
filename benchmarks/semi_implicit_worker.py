"""The worker of the benchmark of the semi-implicit stepper. One argument, JSON: `basin`, `scheme`, `precision`.

    gyre      the double gyre over 5000 m of water, 100 x 100 cells of 20 km, from rest under a steady wind, for 30 days
    layers    the same with two layers, with steps of 20 minutes, for 10 days
    pacific   the north-west Pacific's bathymetry, 720 x 540 cells of 5 minutes, likewise, for 8 hours

by

    explicit        ForwardBackward, the fastest explicit stepper, at 0.9 of its limit
    semi_implicit   SemiImplicit with its default values, with steps of 48 (20) minutes
    split_explicit  SplitExplicit with the same steps, and as many substeps as gravity waves need

A "step" of its timings is a day (four hours) of model time, in one program, as in a run. It also answers `state FILE`
with u, v and eta at the end. `setup_seconds` of its first line is the median time of what a program computes before its
first step: halos of constant fields, and with semi_implicit the plan of the solver.
"""

import functools
import json
import math
import statistics
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from worker import northwest_pacific, serve  # noqa: E402

from swmodel.runtime import launch  # noqa: E402

SIZE = 2e6  # of the gyre's basin [m]


def gyre(precision, layers=None):
    """The ShallowWater of experiments/double_gyre.toml, except for its depth, gravity, cells and layers."""
    import numpy as np

    import swmodel as sw

    return sw.ShallowWater(
        sw.CartesianGrid(100, 100, (0.0, SIZE), (0.0, SIZE)),
        5000.0,
        coriolis=sw.BetaPlane(7e-5, 2e-11),
        forcing=sw.WindStress(x=lambda x, y: -0.1 * np.cos(2 * np.pi * y / SIZE)),
        dissipation=sw.Laplacian(1000.0),
        side=sw.NoSlip(),
        layers=layers,
        communicator="serial",
        dtype=precision,
    )


def layered_gyre(precision):
    """The gyre with an interface 800 m below its surface."""
    import swmodel as sw

    return gyre(precision, sw.Layers(thickness=(800.0,), densities=(1025.0, 1028.0)))


def pacific(precision, coarser=1):
    """The ShallowWater of experiments/tohoku_2011, but for its open sides, its source, and wind in its place.

    Cells are `coarser` times as long and as wide.
    """
    import numpy as np

    import swmodel as sw

    return sw.ShallowWater(
        *northwest_pacific(coarser),
        coriolis=sw.RotatingSphere(),
        forcing=sw.WindStress(x=lambda x, y: -0.1 * np.cos(np.pi * (y - 15.0) / 45.0)),
        dissipation=sw.Laplacian(1000.0),
        communicator="serial",
        dtype=precision,
    )


def setup_seconds(program, repeats=9):
    """The median of `repeats` timings of the set-up of a Program, in a program of its own."""
    import jax

    def prepared(dynamics, stepper):
        return jax.tree.leaves(stepper.prepare(dynamics.prepare()))

    arguments, times = (program.dynamics, program.stepper), []
    compiled = jax.jit(prepared).lower(*arguments).compile()
    for _ in range(repeats + 1):
        since = time.perf_counter()
        jax.block_until_ready(compiled(*arguments))
        times.append(time.perf_counter() - since)
    return statistics.median(times[1:])


# model, unit of time [s], how many, dt [s]
BASINS = {
    "gyre": (gyre, 86400.0, 30, 2880.0),
    "layers": (layered_gyre, 86400.0, 10, 1200.0),
    "pacific": (pacific, 4 * 3600.0, 2, 1200.0),
}


def main(options):
    process = launch.configure_process(options["precision"], "serial")
    import numpy as np

    import swmodel as sw
    from swmodel.performance.timing import Program

    make, unit, units, long = BASINS[options["basin"]]
    model = make(options["precision"])
    explicit = sw.limits(model, sw.ForwardBackward(1.0))[0].dt
    steps = math.ceil(unit / (0.9 * explicit if options["scheme"] == "explicit" else long))
    kinds = {"explicit": sw.ForwardBackward, "semi_implicit": sw.SemiImplicit, "split_explicit": sw.SplitExplicit}
    kind = kinds[options["scheme"]]
    if kind is sw.SplitExplicit:  # as many substeps as gravity waves need
        (pair,) = (x.dt for x in sw.limits(model, kind(1.0, substeps=2)) if x.name == "gravity waves")
        kind = functools.partial(kind, substeps=math.ceil(1.1 * unit / steps / (pair / 2)))
    program = Program(model, model.at_rest(), kind(unit / steps), steps)
    program.run(units)
    reached = {name: np.asarray(getattr(program.state, name)) for name in ("u", "v", "eta")}

    def run(more):
        return "took", program.run(int(more)) * steps * int(more)

    def state(file):
        np.savez(file, **reached)
        return "saved", file

    info = {"dt": unit / steps, "explicit_limit": explicit, "units": units, "threads": process.threads}
    if options["scheme"] == "semi_implicit":
        info["setup_seconds"] = setup_seconds(program)
    serve({"batch": 1, "engine": model.engine, **info}, run=run, state=state)


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
