"""The worker of the benchmark of the semi-implicit stepper. One argument, a JSON object: `scheme` and `precision`.

The double gyre over 5000 m of water, 100 x 100 cells of 20 km, from rest under a steady wind, for 30 days, by

    explicit        AB2 at 0.9 of its limit
    semi_implicit   SemiImplicit as it comes, with steps of 48 minutes

A "step" of its timings is a day of model time. Beside `run N`, it answers `state FILE` by writing u, v, eta of day 30.
"""

import json
import math
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from worker import serve  # noqa: E402

from swmodel import launch  # noqa: E402

DAY = 86400.0  # [s]
DAYS = 30
SIZE = 2e6  # of the basin [m]
LONG = 2880.0  # the semi-implicit step [s]


def gyre(precision):
    """The ShallowWater of experiments/double_gyre.toml, but for its depth, gravity and cells."""
    import numpy as np

    import swmodel as sw

    return sw.ShallowWater(
        sw.CartesianGrid(100, 100, (0.0, SIZE), (0.0, SIZE)),
        5000.0,
        coriolis=sw.BetaPlane(7e-5, 2e-11),
        forcing=sw.WindStress(x=lambda x, y: -0.1 * np.cos(2 * np.pi * y / SIZE)),
        dissipation=sw.Laplacian(1000.0),
        side=sw.NoSlip(),
        communicator="serial",
        dtype=precision,
    )


def main(options):
    process = launch.configure_process(options["precision"], "serial")
    import numpy as np

    import swmodel as sw
    from swmodel.performance import Program

    model = gyre(options["precision"])
    explicit = sw.limits(model, sw.AB2(1.0))[0].dt
    steps = math.ceil(DAY / {"explicit": 0.9 * explicit, "semi_implicit": LONG}[options["scheme"]])
    kind = {"explicit": sw.AB2, "semi_implicit": sw.SemiImplicit}[options["scheme"]]
    program = Program(model, model.at_rest(), kind(DAY / steps), steps)
    program.run(DAYS)
    reached = {name: np.asarray(getattr(program.state, name)) for name in ("u", "v", "eta")}

    def run(days):
        return "took", program.run(int(days)) * steps * int(days)

    def state(file):
        np.savez(file, **reached)
        return "saved", file

    told = {"dt": DAY / steps, "explicit_limit": explicit, "days": DAYS, "threads": process.threads}
    serve({"batch": 1, "engine": model.engine, **told}, run=run, state=state)


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
