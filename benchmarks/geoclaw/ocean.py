"""GeoClaw's side of `geoclaw_vs_step`: a hump of water over the north-west Pacific, 720 x 540 cells on one level.

    python ocean.py        # in the folder of the run: writes depth.tt3, hump.xyz and the data files of xgeoclaw

needs Clawpack's Python side and netCDF4; CLAW names its source.
"""

from pathlib import Path

import netCDF4
import numpy as np
from clawpack.clawutil import data

CELLS, LOWER, UPPER = (720, 540), (120.0, 15.0), (180.0, 60.0)
SECONDS = 1800.0
DEPTHS = Path(__file__).resolve().parents[2] / "experiments" / "tohoku_2011" / "etopo5_northwest_pacific.nc"
HEIGHT, RADIUS, CENTRE = 5.0, 0.6, (145.0, 38.0)  # [m, degrees, degrees] of the hump


def write_depths(path):
    """ETOPO5 as topography of type 3; the last column once more, since the file ends before the grid."""
    with netCDF4.Dataset(DEPTHS) as file:
        lat, z = file["lat"][:], np.asarray(file["elevation"][:], float)
    z = np.concatenate([z, z[:, -1:]], axis=1)[::-1]
    head = [(z.shape[1], "mx"), (z.shape[0], "my"), (LOWER[0], "xlower"), (lat[0], "ylower"), (1 / 12, "cellsize")]
    lines = [*(f"{value} {name}" for value, name in head), "-9999 nodata_value"]
    path.write_text("\n".join(lines) + "\n")
    with path.open("a") as file:
        np.savetxt(file, z, fmt="%.0f")


def write_hump(path):
    """The elevation of the surface at the start, as columns x, y, eta from north-west to south-east."""
    x, y = np.linspace(140.0, 150.0, 121), np.linspace(43.0, 33.0, 121)
    x, y = np.meshgrid(x, y)
    eta = HEIGHT * np.exp(-((x - CENTRE[0]) ** 2 + (y - CENTRE[1]) ** 2) / RADIUS**2)
    np.savetxt(path, np.column_stack([x.ravel(), y.ravel(), eta.ravel()]), fmt="%.8f")


def setrun():
    rundata = data.ClawRunData("geoclaw", 2)
    c = rundata.clawdata
    c.num_dim = 2
    c.lower[:], c.upper[:], c.num_cells[:] = LOWER, UPPER, CELLS
    c.num_eqn, c.num_aux, c.capa_index = 3, 3, 2
    c.t0, c.output_style, c.tfinal, c.num_output_times = 0.0, 1, SECONDS, 1
    c.output_t0, c.output_format, c.output_q_components = False, "ascii", "all"
    c.output_aux_components, c.output_aux_onlyonce = "none", True
    c.verbosity, c.dt_variable, c.dt_initial, c.dt_max = 0, True, 1.0, 1e99
    c.cfl_desired, c.cfl_max, c.steps_max = 0.75, 1.0, 1000000
    c.order, c.dimensional_split, c.transverse_waves = 2, "unsplit", 2
    c.num_waves, c.limiter, c.use_fwaves, c.source_split, c.num_ghost = 3, ["mc"] * 3, True, "godunov", 2
    c.bc_lower[:] = c.bc_upper[:] = ["extrap", "extrap"]
    c.checkpt_style = 0
    a = rundata.amrdata
    a.amr_levels_max = 1
    a.refinement_ratios_x = a.refinement_ratios_y = a.refinement_ratios_t = [2]
    a.aux_type = ["center", "capacity", "yleft"]
    a.flag_richardson, a.flag2refine, a.regrid_interval, a.verbosity_regrid = False, False, 1000000, 0
    g = rundata.geo_data
    g.gravity, g.coordinate_system, g.earth_radius = 9.81, 2, 6.371e6
    g.coriolis_forcing, g.friction_forcing, g.manning_coefficient, g.friction_depth = True, True, 0.025, 1e10
    g.sea_level, g.dry_tolerance = 0.0, 1e-2
    rundata.topo_data.topofiles = [[3, "depth.tt3"]]
    rundata.qinit_data.qinit_type, rundata.qinit_data.qinitfiles = 4, [["hump.xyz"]]
    return rundata


if __name__ == "__main__":
    write_depths(Path("depth.tt3"))
    write_hump(Path("hump.xyz"))
    setrun().write()
