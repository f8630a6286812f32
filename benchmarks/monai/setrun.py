"""GeoClaw of experiments/monai_valley: one uniform level of the cells in setup.json; the level at x = 0 is given.

With `refined` a second level covers its box, in `ratio` steps or as many as its cells allow, and nothing is regridded.
"""

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
    if "refined" in SETUP:
        (west, east), (south, north) = SETUP["refined"]["box"]
        a, ratio = rundata.amrdata, [SETUP["refined"]["ratio"]]
        a.amr_levels_max, a.regrid_buffer_width = 2, 0
        a.refinement_ratios_x = a.refinement_ratios_y = a.refinement_ratios_t = ratio
        rundata.refinement_data.variable_dt_refinement_ratios = True
        for level, sides in ((1, (0.0, SETUP["size"][0], 0.0, SETUP["size"][1])), (2, (west, east, south, north))):
            rundata.regiondata.regions.append([level, level, 0.0, 1e9, *sides])
    return rundata


if __name__ == "__main__":
    setrun().write()
