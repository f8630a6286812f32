"""Monai valley: gauges compared with the laboratory's records, and the flooded land.

Run it after `swmodel run monai_valley.toml`:

python figure.py [FOLDER] [--animation]
"""

import sys
from pathlib import Path

import matplotlib.pyplot as plt
import xarray as xr
from laboratory import records

from swmodel.postprocess import animate, inundation, maxima, open_output

FILM = 5e-4  # [m], the thinnest water that counts as a flood


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
    with open_output(folder / "extremes.nc") as found:
        images = maxima.draw_maximum(axes["map"], found)
        run_up = inundation.inundation(found, FILM).run_up()
    axes["map"].set(
        xlim=(4.5, 5.488), ylim=(0.8, 2.6), title=f"run-up {100 * run_up.level:.1f} cm; 9 (8 to 10) in the laboratory"
    )
    for image, text in images:
        figure.colorbar(image, ax=axes["map"], label=text)
    figure.savefig(folder / "monai_valley.png", dpi=150)
    place = f"ground {run_up.height:.4f} m at ({run_up.x:.3f}, {run_up.y:.3f}) m"
    print(f"{folder / 'monai_valley.png'}: run-up {run_up.level:.4f} m, {place}")


if __name__ == "__main__":
    arguments = [argument for argument in sys.argv[1:] if argument != "--animation"]
    output = Path(arguments[0] if arguments else "output/monai_valley")
    main(output)
    if "--animation" in sys.argv:
        with open_output(output / "fields.nc") as fields:
            print(animate.animate(fields, output / "monai_valley.gif"))
