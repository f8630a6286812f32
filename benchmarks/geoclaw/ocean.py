"""GeoClaw's side of `geoclaw_vs_step`, `_run` and `_command`: a hump of water over the north-west Pacific.

The grid has 720 x 540 cells on one level.

    python ocean.py        # in the folder of the run: writes depth.tt3, hump.xyz and the data files of xgeoclaw

needs Clawpack's Python side and netCDF4; CLAW names its source.
"""

from pathlib import Path

import netCDF4
import numpy as np
from uniform import uniform_run

CELLS, LOWER, UPPER = (720, 540), (120.0, 15.0), (180.0, 60.0)
SECONDS = 10800.0  # as the Tohoku experiment
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
    """GeoClaw's settings of the run."""
    rundata = uniform_run(LOWER, UPPER, CELLS, SECONDS, radius=6.371e6)
    rundata.qinit_data.qinit_type, rundata.qinit_data.qinitfiles = 4, [["hump.xyz"]]
    return rundata


if __name__ == "__main__":
    write_depths(Path("depth.tt3"))
    write_hump(Path("hump.xyz"))
    setrun().write()
