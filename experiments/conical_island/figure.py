"""The conical island: gauges and run-up compared with the laboratory's. After `swmodel run conical_island.toml`."""

import sys
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import xarray as xr

HERE = Path(__file__).parent
CENTRE = 12.96, 13.80  # [m]
FILM = 1e-3  # [m], the thinnest water that counts as run-up


def run_up_round(folder: Path, angles: np.ndarray, half_width: float = 4.0) -> np.ndarray:
    """The highest level of water [m] at angles of the laboratory: 270 degrees face the waves, 90 are the lee."""
    with xr.open_dataset(folder / "maxima.nc") as found:
        highest, depth = found["maximum_elevation"].values, found["depth"].values
        x, y = np.meshgrid(found["xh"].values - CENTRE[0], found["yh"].values - CENTRE[1])
    bearing = np.rad2deg(np.arctan2(x, -y)) % 360.0
    wet = np.where((highest + depth > FILM) & (np.hypot(x, y) < 3.0), highest, -np.inf)
    off = np.abs((bearing - angles[:, None, None] + 180.0) % 360.0 - 180.0)
    return np.where(off <= half_width, wet, -np.inf).max((1, 2))


def main(folder: Path, case: str) -> None:
    """Draw conical_island.png in the folder of the output."""
    measured = np.genfromtxt(HERE / f"bp06_gauges_{case}.csv", delimiter=",", names=True)
    heights = np.genfromtxt(HERE / f"bp06_runup_{case}.csv", delimiter=",", names=True)
    figure, axes = plt.subplots(5, 1, figsize=(8, 11), layout="constrained", height_ratios=(1, 1, 1, 1, 1.5))
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
    axes[3].set_xlabel("time [s]")
    angles = np.arange(0.0, 360.0, 5.0)
    axes[4].plot(heights["angle_deg"], heights["runup_cm"], "ko", label="laboratory")
    axes[4].plot(angles, 100 * run_up_round(folder, angles), label="swmodel")
    axes[4].set(xlabel="angle [degree], 270 is the front", ylabel="run-up [cm]")
    figure.savefig(folder / "conical_island.png", dpi=150)
    front, lee = 100 * run_up_round(folder, np.array([270.0, 90.0]))
    print(f"{folder / 'conical_island.png'}: run-up {front:.2f} cm in front, {lee:.2f} cm in the lee")


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "output/conical_island"), sys.argv[2] if len(sys.argv) > 2 else "c")
