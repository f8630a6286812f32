"""GeoClaw of experiments/ike_2008: one uniform grid, the same depth in every cell, Holland (1980), Garratt."""

import json
import os

from clawpack.clawutil import data
from clawpack.geoclaw import fgmax_tools

SETUP = json.load(open("setup.json"))


def setrun(claw_pkg="geoclaw"):
    rundata = data.ClawRunData(claw_pkg, 2)
    c = rundata.clawdata
    c.num_dim = 2
    c.lower[:] = SETUP["lower"]
    c.upper[:] = SETUP["upper"]
    c.num_cells[:] = SETUP["cells"]
    c.num_eqn, c.num_aux, c.capa_index = 3, 7, 2
    c.t0, c.output_style, c.tfinal, c.num_output_times = 0.0, 1, SETUP["until"], 1
    c.output_t0, c.output_format, c.output_q_components = False, "ascii", "all"
    c.output_aux_components, c.output_aux_onlyonce = "none", True
    c.verbosity, c.dt_variable, c.dt_initial, c.dt_max = 0, True, 1.0, 1e99
    c.cfl_desired, c.cfl_max, c.steps_max = 0.75, 1.0, 1000000
    c.order, c.dimensional_split, c.transverse_waves = 2, "unsplit", 2
    c.num_waves, c.limiter, c.use_fwaves, c.source_split, c.num_ghost = 3, ["mc"] * 3, True, "godunov", 2
    c.bc_lower[:] = ["extrap", "extrap"]
    c.bc_upper[:] = ["extrap", "extrap"]
    c.checkpt_style = 0
    a = rundata.amrdata
    a.amr_levels_max = 1
    a.refinement_ratios_x = a.refinement_ratios_y = a.refinement_ratios_t = [2]
    a.aux_type = ["center", "capacity", "yleft", "center", "center", "center", "center"]
    a.flag_richardson, a.flag2refine, a.regrid_interval, a.verbosity_regrid = False, False, 1000000, 0
    g = rundata.geo_data
    g.gravity, g.coordinate_system, g.earth_radius = 9.81, 2, SETUP["radius"]
    g.rho, g.rho_air, g.ambient_pressure = SETUP["rho"], SETUP["rho_air"], 101.3e3
    g.coriolis_forcing, g.friction_forcing, g.manning_coefficient, g.friction_depth = True, True, 0.025, 1e10
    g.sea_level, g.dry_tolerance = 0.0, 1e-2
    rundata.topo_data.topofiles = [[3, "depth.tt3"]]
    s = rundata.surge_data
    s.wind_forcing, s.drag_law, s.pressure_forcing = True, 1, True
    s.storm_specification_type, s.storm_file = "holland80", os.path.abspath("ike.storm")
    fg = fgmax_tools.FGmaxGrid()
    fg.point_style, fg.min_level_check, fg.dt_check, fg.interp_method = 2, 1, 0.0, 0
    dx = [(SETUP["upper"][k] - SETUP["lower"][k]) / SETUP["cells"][k] for k in (0, 1)]
    fg.x1, fg.x2 = SETUP["lower"][0] + dx[0] / 2, SETUP["upper"][0] - dx[0] / 2
    fg.y1, fg.y2 = SETUP["lower"][1] + dx[1] / 2, SETUP["upper"][1] - dx[1] / 2
    fg.nx, fg.ny = SETUP["cells"]
    fg.tstart_max = 0.0
    rundata.fgmax_data.fgmax_grids.append(fg)
    rundata.fgmax_data.num_fgmax_val = 1
    return rundata


if __name__ == "__main__":
    setrun().write()
