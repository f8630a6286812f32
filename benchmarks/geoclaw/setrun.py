"""GeoClaw of experiments/ike_2008: one uniform grid, the same depth in every cell, Holland (1980), Garratt."""

import json
import os

from clawpack.geoclaw import fgmax_tools
from uniform import uniform_run

SETUP = json.load(open("setup.json"))


def setrun(claw_pkg="geoclaw"):
    """GeoClaw's settings of the run; `claw_pkg` is the argument that Clawpack's makefiles give, always "geoclaw"."""
    lower, upper, cells = SETUP["lower"], SETUP["upper"], SETUP["cells"]
    rundata = uniform_run(lower, upper, cells, SETUP["until"], SETUP["radius"], fields=4)
    g = rundata.geo_data
    g.rho, g.rho_air, g.ambient_pressure = SETUP["rho"], SETUP["rho_air"], 101.3e3
    s = rundata.surge_data
    s.wind_forcing, s.drag_law, s.pressure_forcing = True, 1, True
    s.storm_specification_type, s.storm_file = "holland80", os.path.abspath("ike.storm")
    fg = fgmax_tools.FGmaxGrid()
    fg.point_style, fg.min_level_check, fg.dt_check, fg.interp_method = 2, 1, 0.0, 0
    dx = [(upper[k] - lower[k]) / cells[k] for k in (0, 1)]
    fg.x1, fg.x2 = lower[0] + dx[0] / 2, upper[0] - dx[0] / 2
    fg.y1, fg.y2 = lower[1] + dx[1] / 2, upper[1] - dx[1] / 2
    fg.nx, fg.ny = cells
    fg.tstart_max = 0.0
    rundata.fgmax_data.fgmax_grids.append(fg)
    rundata.fgmax_data.num_fgmax_val = 1
    return rundata


if __name__ == "__main__":
    setrun().write()
