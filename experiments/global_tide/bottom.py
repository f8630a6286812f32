"""The roughness of the sea floor and the buoyancy frequency there, for the drag by internal waves: writes bottom.nc.

python bottom.py [etopo5_global_15min.nc]      prints the median of the roughness in two regions, too

The roughness r is the standard deviation of the depth from a plane, over 5 x 5 nodes of 15' (1.25 degrees). The
buoyancy frequency is N = 5.24e-3 s-1 exp(-z / 1300 m) at the sea floor (Zaron & Egbert 2006, doi:10.1175/JPO2878.1).
Both vanish where the water is shallower than 500 m: the law holds for the deep ocean (Jayne & St. Laurent 2001). In
bottom.nc, with cells of 30', N is averaged, and r is such that r^2 N is an average, too, which sets the drag.
"""

import sys
from pathlib import Path

import numpy as np
import xarray as xr

from swmodel.forcing.potential import deviation_from_plane

HERE = Path(__file__).parent
SURFACE, SCALE, SHALLOW = 5.24e-3, 1300.0, 500.0  # [s-1], [m], [m]
REACH = 2  # nodes on either side
REGIONS = {"eastern_south_pacific": ((180, 285), (-60, 0)), "atlantic": ((300, 360), (-60, 60))}  # [degrees]


def deviation(depth):
    """The standard deviation of (ny, nx) values from the best plane around each node, periodic along x."""
    wide = np.pad(np.pad(depth, ((0, 0), (REACH, REACH)), "wrap"), ((REACH, REACH), (0, 0)), "edge")
    return deviation_from_plane(wide, REACH)


def main(file=HERE / "etopo5_global_15min.nc"):
    with xr.open_dataset(file) as source:
        elevation = source.elevation.astype(float).load()
    depth = np.maximum(-elevation.values, 0.0)
    deep = depth > SHALLOW
    roughness = np.where(deep, deviation(depth), 0.0)
    buoyancy = np.where(deep, SURFACE * np.exp(-depth / SCALE), 0.0)
    fields = {
        "roughness": (("lat", "lon"), roughness, {"units": "m", "long_name": "r.m.s. height of the sea floor"}),
        "buoyancy": (("lat", "lon"), buoyancy, {"units": "s-1", "long_name": "buoyancy frequency at the sea floor"}),
    }
    made = xr.Dataset(fields, {"lat": elevation.lat, "lon": elevation.lon})
    made.attrs = {"title": "Sea floor for the drag by internal waves", "source": "bottom.py, from ETOPO5 (NOAA 1988)"}
    product = (made.roughness**2 * made.buoyancy).coarsen(lat=2, lon=2).mean()
    half = made.coarsen(lat=2, lon=2).mean(keep_attrs=True)
    half.roughness.values = np.sqrt(product / half.buoyancy.where(half.buoyancy > 0, 1.0)).values
    packing = {"dtype": "int16", "zlib": True, "complevel": 9, "_FillValue": -1}
    half.to_netcdf(
        HERE / "bottom.nc",
        encoding={
            "roughness": packing,
            "buoyancy": {**packing, "scale_factor": 2e-7},
        },
    )
    for name, ((west, east), (south, north)) in REGIONS.items():
        inside = (half.lon % 360 > west) & (half.lon % 360 < east) & (half.lat > south) & (half.lat < north)
        median = half.roughness.where(inside & (half.buoyancy > 0)).median()
        print(f"roughness_median_{name}={float(median):.3g}")


if __name__ == "__main__":
    main(*sys.argv[1:])
