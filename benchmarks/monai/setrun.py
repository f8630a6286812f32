"""GeoClaw of experiments/monai_valley: one uniform level of the cells in setup.json; the level at x = 0 is given."""

import json

from uniform import uniform_run

SETUP = json.load(open("setup.json"))


def setrun(claw_pkg="geoclaw"):
    """GeoClaw's settings of the run; `claw_pkg` is the argument that Clawpack's makefiles give, always "geoclaw"."""
    rundata = uniform_run(
        (0.0, 0.0), SETUP["size"], SETUP["cells"], SETUP["seconds"], radius=None, roughness=SETUP["roughness"]
    )
    c = rundata.clawdata
    c.bc_lower[:], c.bc_upper[:] = ["user", "wall"], ["wall", "wall"]
    c.dt_initial = 1e-3
    rundata.geo_data.dry_tolerance = SETUP["thin"]
    for number, (x, y) in enumerate(SETUP["gauges"].values(), start=1):
        rundata.gaugedata.gauges.append([number, x, y, 0.0, 1e9])
    return rundata


if __name__ == "__main__":
    setrun().write()
