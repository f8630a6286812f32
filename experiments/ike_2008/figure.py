"""The highest elevations of Ike's run and the series at places on the coast: ike_surge.png.

python figure.py [folder of the run's output]
"""

import sys
from pathlib import Path

import cmocean
import matplotlib.pyplot as plt
import numpy as np
import xarray as xr

HERE = Path(__file__).parent


def main(folder):
    with xr.open_dataset(folder / "maxima.nc", decode_times=False) as found:
        x, y = found["xh"].values, found["yh"].values
        highest, wet = found["maximum_elevation"].values, found["wet"].values > 0
    with xr.open_dataset(folder / "gauges.nc", decode_times=False) as found:
        names = [name.decode() if isinstance(name, bytes) else str(name) for name in found["gauge_name"].values]
        hours, series = found["time"].values / 3600.0, found["eta"].values
        places = found["longitude"].values, found["latitude"].values
    track = np.genfromtxt(HERE / "ike_2008.csv", delimiter=",", names=True, dtype=None, encoding="utf-8")
    figure, (left, right) = plt.subplots(1, 2, figsize=(13, 5), width_ratios=(1.5, 1), layout="constrained")
    left.set_facecolor("0.85")
    image = left.pcolormesh(x, y, np.where(wet, highest, np.nan), cmap=cmocean.cm.amp, vmin=0.0, vmax=5.0)
    figure.colorbar(image, ax=left, label="highest elevation [m]", shrink=0.8)
    left.plot(track["longitude_deg"], track["latitude_deg"], "k.-", lw=0.8, ms=4)
    left.set(
        xlim=(x[0], x[-1]),
        ylim=(y[0], y[-1]),
        xlabel="longitude",
        ylabel="latitude",
        title="Hurricane Ike and its surge",
    )
    left.set_aspect(1.0 / np.cos(np.deg2rad(y.mean())))
    for k, name in enumerate(names):
        (line,) = right.plot(hours, series[k], label=name, lw=1.5)
        left.plot(places[0][k], places[1][k], "o", color=line.get_color(), mec="k", ms=6)
    right.set(xlabel="hours since 11 September 2008, 00 UTC", ylabel="elevation [m]", xlim=(24, hours[-1]))
    right.legend(frameon=False)
    right.grid(alpha=0.3)
    figure.savefig(folder / "ike_surge.png", dpi=110)


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path("output/ike_2008"))
