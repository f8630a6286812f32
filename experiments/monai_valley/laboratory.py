"""The laboratory's records at three gauges of the tank, and how far a run is from them."""

from collections.abc import Mapping
from pathlib import Path

import numpy as np

END = 22.5  # [s], until which the records of the wave at x = 0 and of the gauges are compared
STILL = 2.0  # [s], until then no wave has come in, and the gauges' mean level is that of the water at rest
GAUGES = {"g5": (4.521, 1.196), "g7": (4.521, 1.696), "g9": (4.521, 2.196)}  # x and y [m]
HERE = Path(__file__).parent


def records() -> tuple[np.ndarray, dict[str, np.ndarray]]:
    """(times [s], {gauge: level above the water at rest [m]}) until END."""
    table = np.genfromtxt(HERE / "bp07_gauges.csv", delimiter=",", names=True)
    table = table[table["time_s"] <= END]
    still = table["time_s"] < STILL
    found = {name: table[f"{name}_m"] for name in GAUGES}
    return table["time_s"], {name: level - level[still].mean() for name, level in found.items()}


def misfit(times: np.ndarray, series: Mapping[str, np.ndarray]) -> float:
    """The r.m.s. difference from the laboratory's record over the record's range, mean of the gauges [1].

    Args:
        times: of the run's series [s], increasing.
        series: {gauge: level above the water at rest [m]}, each as long as `times`.
    """
    seconds, measured = records()
    errors = []
    for name, level in measured.items():
        difference = np.interp(seconds, times, series[name]) - level
        errors.append(np.sqrt(np.mean(difference**2)) / np.ptp(level))
    return float(np.mean(errors))
