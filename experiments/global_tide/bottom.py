"""The roughness of the sea floor and the buoyancy frequency there, for the drag by internal waves: writes bottom.nc.

python bottom.py [etopo5_global_15min.nc]      prints the median of the roughness in two regions, too

Both are those of `sw.rough_bottom` over 5 x 5 nodes of 15' (1.25 degrees): the standard deviation of the depth from a
plane, and 5.24e-3 s-1 exp(-z / 1300 m), 0 where the water is shallower than 500 m. In bottom.nc, with cells of 30', N
is averaged, and r is such that r^2 N is an average, too, which sets the drag.
"""

import sys
from pathlib import Path

import numpy as np

import swmodel as sw

HERE = Path(__file__).parent
REGIONS = {"eastern_south_pacific": ((180, 285), (-60, 0)), "atlantic": ((300, 360), (-60, 60))}  # [degrees]


def main(file=HERE / "etopo5_global_15min.nc"):
    made = sw.rough_bottom(file)
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
