"""Scores of an inversion at the gauges that it used and at those left out, and the cotidal map of its tide.

python score.py INVERSION [HARMONICS]      prints name=value; with the harmonics of `swmodel run analysis.toml`
                                           it writes shelf_tide.png next to the first file

    error at a gauge    |A exp(-i g) - A' exp(-i g')| of the model and the observation: amplitude A, phase lag g
    median, share       the median of the errors, and of the errors over the observed amplitudes
    within              the share of gauges with an error of at most the expected one, which follows from the spread of
                        the analysis and the observation error: sqrt(spread^2 + error^2) of both parts together
    at_sea              of the gauges left out, those outside RIVERS alone
"""

import sys
from pathlib import Path

import numpy as np
import xarray as xr

ROLES = ("background", "analysis")
# Gauges in rivers and dammed estuaries that no cell holds: Oste, Weser, and the Rhine and Meuse with their arms.
RIVERS = (
    "Belum", "Geulhaven", "Goidschalxoord", "Gouda Brug", "Parksluis", "Robbensdsteert", "Schoonhoven",
    "Whvaltervorhafen",
)  # fmt: skip


def read(file):
    """{name: (n,)} of gauges: x, y, used, A exp(-i g) observed, of background and analysis, and the expected error."""
    with xr.open_dataset(file) as found:
        part = found.observation_part.values.astype(str)
        cosine, sine = part == "A cos g", part == "A sin g"
        columns = {key: found[f"observation_{key}"].values[cosine] for key in ("gauge", "x", "y", "used")}
        columns["used"] = columns["used"] > 0
        for role in ("observed", *ROLES):
            values = found[f"observation_{role}"].values
            columns[role] = values[cosine] - 1j * values[sine]
        squares = found.observation_error.values**2
        if "observation_analysis_spread" in found:
            squares = squares + found.observation_analysis_spread.values**2
        columns["expected"] = np.sqrt(squares[cosine] + squares[sine])
    return columns


def scores(file):
    """{name: value}: errors [cm], shares of the amplitude [%], and how often errors are as expected [%]."""
    gauges, found = read(file), {}
    at_sea = ~gauges["used"] & ~np.isin(gauges["gauge"].astype(str), RIVERS)
    for name, chosen in (("left_out", ~gauges["used"]), ("at_sea", at_sea), ("used", gauges["used"])):
        size = np.abs(gauges["observed"][chosen])
        found[f"gauges_{name}"] = int(chosen.sum())
        for role, when in zip(ROLES, ("first_guess", "analysis")):
            error = np.abs(gauges[role] - gauges["observed"])[chosen]
            found[f"error_{name}_{when}"] = 100 * float(np.median(error))
            found[f"share_{name}_{when}"] = 100 * float(np.median(error / size))
            found[f"rms_{name}_{when}"] = 100 * float(np.sqrt(np.mean(error**2)))
        ratio = error / gauges["expected"][chosen]
        found |= {f"within_{n}_{name}": 100 * float(np.mean(ratio <= n)) for n in (1, 2)}
    return found


def draw(inversion, harmonics, path):
    """The cotidal map of the analysis, with the gauges by their errors, and the errors before and after."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    with xr.open_dataset(harmonics) as run:
        lon, lat = run["xh"].values, run["yh"].values
        size, lag = run["eta_amplitude_M2"].values, run["eta_phase_M2"].values
    gauges = read(inversion)
    figure, (axes, right) = plt.subplots(
        1, 2, figsize=(12, 6.6), layout="constrained", gridspec_kw={"width_ratios": [2.2, 1]}
    )
    axes.set_facecolor("0.75")
    image = axes.pcolormesh(lon, lat, size, vmin=0, vmax=3.5, cmap="viridis", rasterized=True)
    for level in range(0, 360, 30):  # each as the zero of a sine, so that 360 degrees is not a front
        turned = np.sin(np.deg2rad(lag - level))
        turned[np.cos(np.deg2rad(lag - level)) < 0] = np.nan
        axes.contour(lon, lat, turned, [0.0], colors="white", linewidths=1.5 if level == 0 else 0.6)
    error = {role: np.abs(gauges[role] - gauges["observed"]) for role in ROLES}
    for used, marker, label in ((True, "s", "used"), (False, "o", "left out")):
        chosen = gauges["used"] == used
        dots = axes.scatter(
            gauges["x"][chosen], gauges["y"][chosen], c=error["analysis"][chosen], s=30, marker=marker, cmap="Reds",
            vmin=0, vmax=0.5, edgecolors="black", linewidths=0.6, label=label, zorder=3,
        )  # fmt: skip
        right.scatter(
            np.abs(gauges["observed"][chosen]), error["background"][chosen], marker=marker, s=14, facecolors="none",
            edgecolors="0.6", label=f"{label}, first guess",
        )  # fmt: skip
        right.scatter(
            np.abs(gauges["observed"][chosen]), error["analysis"][chosen], marker=marker, s=18,
            color="tab:blue" if used else "tab:red", label=f"{label}, analysis",
        )  # fmt: skip
    figure.colorbar(image, ax=axes, label="amplitude [m]", extend="max", pad=0.01)
    figure.colorbar(dots, ax=axes, label="error at gauges [m]", extend="max", pad=0.01)
    axes.legend(loc="upper left", framealpha=0.9)
    axes.set(xlabel="longitude", ylabel="latitude", title="M2: amplitude, and phase lags every 30 degrees (thick: 0)")
    axes.set_aspect(1 / np.cos(np.deg2rad(lat.mean())))
    right.set(xlabel="observed amplitude [m]", ylabel="vector error [m]", title="at the gauges", yscale="log")
    right.set_ylim(bottom=0.01)
    right.legend(fontsize=8)
    figure.savefig(path, dpi=110)


def main(inversion="output/northwest_europe/inversion.nc", harmonics=None):
    for name, value in scores(inversion).items():
        print(f"{name}={value:.4g}")
    if harmonics is not None:
        path = Path(inversion).with_name("shelf_tide.png")
        draw(inversion, harmonics, path)
        print(path)


if __name__ == "__main__":
    main(*sys.argv[1:])
