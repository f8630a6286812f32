"""The conical island: gauges and run-up compared with the laboratory's, and the waves that meet behind it.

Run it after `swmodel run conical_island.toml`:

python figure.py [FOLDER] [CASE] [--animation]
"""

import sys
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import xarray as xr
from matplotlib.colors import Normalize

from swmodel.postprocess import animate, inundation, maps, maxima, open_output

HERE = Path(__file__).parent
CENTRE = 12.96, 13.80  # [m]
LEE = 15.56, 13.80  # [m], the place of gauge 22
FILM = 1e-3  # [m], the thinnest water that counts as run-up


def run_up_round(folder: Path, angles: np.ndarray, half_width: float = 4.0) -> np.ndarray:
    """The run-up of water [m] at angles of the laboratory: 270 degrees face the waves, 90 are the lee."""
    with open_output(folder / "extremes.nc") as found:
        flood = inundation.inundation(found, FILM)
    x, y = np.meshgrid(flood.mesh.x - CENTRE[0], flood.mesh.y - CENTRE[1])
    bearing, island = np.rad2deg(np.arctan2(x, -y)) % 360.0, np.hypot(x, y) < 3.0
    off = np.abs((bearing - angles[:, None, None] + 180.0) % 360.0 - 180.0)
    return np.array([flood.run_up(island & (here <= half_width)).level for here in off])


def draw_gauges(axes: list, folder: Path, case: str) -> None:
    """The level at four gauges, with the laboratory's."""
    measured = np.genfromtxt(HERE / f"bp06_gauges_{case}.csv", delimiter=",", names=True)
    with xr.open_dataset(folder / "gauges.nc", decode_times=False) as gauges:
        names = [str(name) for name in gauges["gauge_name"].values]
        series = dict(zip(names, gauges["eta"].transpose(..., "time").values))
        times = gauges["time"].values
    level = measured["g1_m"] - measured["g1_m"][:50].mean()
    later = times[np.argmax(series["g1"])] - measured["time_s"][np.argmax(level)]  # the crest passes gauge 1
    for ax, name in zip(axes, ("g6", "g9", "g16", "g22")):
        record = measured[f"{name}_m"] - measured[f"{name}_m"][:50].mean()
        ax.plot(measured["time_s"] + later, 100 * record, "k.", ms=2, label="laboratory")
        ax.plot(times, 100 * series[name], label="swmodel")
        ax.set(xlim=(0, times[-1]), ylabel=f"{name} [cm]")
    axes[0].legend()
    axes[-1].set_xlabel("time [s]")


def draw_meeting(ax: plt.Axes, folder: Path) -> None:
    """The level at the record at which the two waves meet behind the island: the highest one at gauge 22."""
    with open_output(folder / "fields.nc") as fields:
        lee = fields["eta"].sel(xh=LEE[0], yh=LEE[1], method="nearest")
        record = int(lee.argmax("time"))
        mesh = maps.mesh_of(fields)
        level = 100 * maps.drawable(fields, mesh, "eta", record)
        image = maps.draw_field(ax, mesh, level, Normalize(-6, 6), "RdBu_r")
        maps.draw_surroundings(ax, fields)
        ax.set_title(f"the waves meet behind the island: {float(fields['time'][record]):.2f} s")
    ax.figure.colorbar(image, ax=ax, label="level [cm]")


def main(folder: Path, case: str) -> None:
    """Draw conical_island.png in the folder of the output."""
    figure = plt.figure(figsize=(13, 10), layout="constrained")
    panels = figure.subplot_mosaic(
        [["meeting", "g6"], ["meeting", "g9"], ["flood", "g16"], ["flood", "g22"], ["run-up", "run-up"]],
        height_ratios=(1, 1, 1, 1, 1.2),
    )
    draw_meeting(panels["meeting"], folder)
    with open_output(folder / "extremes.nc") as found:
        images = maxima.draw_maximum(panels["flood"], found)
    panels["flood"].set(xlim=(8.0, 18.0), ylim=(10.0, 18.8), title="the highest level, and the flooded land")
    panels["flood"].get_legend().set_loc("upper right")
    for image, text in images:
        figure.colorbar(image, ax=panels["flood"], label=text)
    draw_gauges([panels[name] for name in ("g6", "g9", "g16", "g22")], folder, case)
    heights = np.genfromtxt(HERE / f"bp06_runup_{case}.csv", delimiter=",", names=True)
    angles = np.arange(0.0, 360.0, 5.0)
    panels["run-up"].plot(heights["angle_deg"], heights["runup_cm"], "ko", label="laboratory")
    panels["run-up"].plot(angles, 100 * run_up_round(folder, angles), label="swmodel")
    panels["run-up"].set(xlabel="angle [degree]; 270 is the front, 90 the lee", ylabel="run-up [cm]")
    figure.savefig(folder / "conical_island.png", dpi=130)
    front, lee = 100 * run_up_round(folder, np.array([270.0, 90.0]))
    print(f"{folder / 'conical_island.png'}: run-up {front:.2f} cm in front, {lee:.2f} cm in the lee")


if __name__ == "__main__":
    arguments = [argument for argument in sys.argv[1:] if argument != "--animation"]
    output = Path(arguments[0] if arguments else "output/conical_island")
    main(output, arguments[1] if len(arguments) > 1 else "c")
    if "--animation" in sys.argv:
        with open_output(output / "fields.nc") as fields:
            print(animate.animate(fields, output / "conical_island.gif"))
