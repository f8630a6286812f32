"""Monai valley: gauges compared with the laboratory's records, and the flooded land.

Run it after `swmodel run monai_valley.toml`:

python figure.py [FOLDER] [--animation]
"""

import sys
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import xarray as xr
from laboratory import records
from matplotlib.animation import FuncAnimation, PillowWriter

FILM = 5e-4  # [m], the thinnest water that counts as a flood


def flooded(folder: Path) -> tuple:
    """(x, y, depth, highest level where there was water, run-up [m]) of a run in a folder."""
    with xr.open_dataset(folder / "maxima.nc") as found:
        highest, depth = found["maximum_elevation"].values, found["depth"].values
        level = np.where(highest + depth > FILM, highest, np.nan)
        return found["xh"].values, found["yh"].values, depth, level, float(np.nanmax(level))


def main(folder: Path) -> None:
    """Draw monai_valley.png in the folder of the output."""
    seconds, measured = records()
    figure, axes = plt.subplot_mosaic(
        [["g5", "map"], ["g7", "map"], ["g9", "map"]], figsize=(11, 6), layout="constrained"
    )
    with xr.open_dataset(folder / "gauges.nc", decode_times=False) as gauges:
        names = [str(name) for name in gauges["gauge_name"].values]
        for name, series in zip(names, gauges["eta"].transpose(..., "time").values):
            axes[name].plot(seconds, 100 * measured[name], "k.", ms=2, label="laboratory")
            axes[name].plot(gauges["time"], 100 * series, label="swmodel")
            axes[name].set(xlim=(10, 22.5), ylabel=f"{name} [cm]")
    axes["g5"].legend()
    axes["g9"].set_xlabel("time [s]")
    x, y, depth, level, run_up = flooded(folder)
    colours = axes["map"].pcolormesh(x, y, 100 * np.where(depth < 0, level, np.nan), cmap="viridis")
    axes["map"].contour(x, y, depth, [0.0], colors="k", linewidths=0.8)
    axes["map"].contour(x, y, np.isfinite(level), [0.5], colors="r", linewidths=0.8)
    axes["map"].set(
        xlim=(4.5, 5.488), ylim=(0.8, 2.6), aspect="equal", title=f"run-up {100 * run_up:.1f} cm; 9 (8 to 10)"
    )
    figure.colorbar(colours, ax=axes["map"], label="highest level over land [cm]")
    figure.savefig(folder / "monai_valley.png", dpi=150)
    print(f"{folder / 'monai_valley.png'}: run-up {run_up:.4f} m")


def animate(folder: Path) -> None:
    """Draw monai_valley.gif: the level of the water, with the land that is dry left grey."""
    with xr.open_dataset(folder / "fields.nc", decode_times=False) as found:
        eta, times = found["eta"].transpose("time", ...).values, found["time"].values
        depth, x, y = found["depth"].values, found["xh"].values, found["yh"].values
    wet = np.where(eta + depth > FILM, 100 * eta, np.nan)
    figure, ax = plt.subplots(figsize=(7, 4.5), layout="constrained")
    ax.set(facecolor="0.75", aspect="equal", xlabel="x [m]", ylabel="y [m]")
    drawn = ax.pcolormesh(x, y, wet[0], vmin=-4, vmax=4, cmap="RdBu_r")
    ax.contour(x, y, depth, [0.0], colors="k", linewidths=0.8)
    figure.colorbar(drawn, label="level [cm]")

    def show(k):
        drawn.set_array(wet[k])
        ax.set_title(f"{times[k]:.2f} s")

    FuncAnimation(figure, show, frames=len(times)).save(folder / "monai_valley.gif", PillowWriter(fps=8))
    print(folder / "monai_valley.gif")


if __name__ == "__main__":
    arguments = [argument for argument in sys.argv[1:] if argument != "--animation"]
    output = Path(arguments[0] if arguments else "output/monai_valley")
    main(output)
    if "--animation" in sys.argv:
        animate(output)
