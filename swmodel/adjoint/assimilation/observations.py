"""Observations of the surface: records of gauges, and points along the tracks of an altimeter.

    gauges    a folder of NAME.csv or NAME.nc, one a gauge, with time_s and elevation_m (grids/observed_tables.py)
    tracks    a CSV file with the columns x, y (or longitude, latitude), time_s, elevation_m and, if errors differ,
              deviation_m

Both become {name: Record}, which Misfit takes. Model values are linear between steps and bilinear between wet cells.

The error of a gauge comprises the instrument and what the model's grid cannot resolve. It is sigma [m], and may have a
part in proportion to the waves: a share e of the gauge's own standard deviation. Errors persist for minutes, so that
observations closer together in time than tau are not independent. Each has a weight of its own, since many records
have samples of 15 s during an event and of 15 min before and after it. With the intervals dt_- and dt_+ before and
after an observation,

    w_i = [min(dt_-, tau) + min(dt_+, tau)] / 2 tau,   s_i = (sigma^2 + e^2 var(y_g))^(1/2) / w_i^(1/2),

and sum_i [(eta - y_i) / s_i]^2 = sum_i w_i, expected, which is n dt / tau for n observations at intervals dt < tau.
"""

import dataclasses
from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike

from ...errors import ConfigError
from ...grids.observed_tables import ELEVATION, TIME
from ..costs.tracks import Tracks, ground_tracks, read_tracks, track_records

__all__ = [
    "Tracks",
    "gauge_records",
    "ground_tracks",
    "read_tracks",
    "track_records",
    "window_of",
    "write_gauge_folder",
]

GAUGE_ERROR = 0.05  # [m], the default: residual tides and coarse grids cause a few centimetres


def write_gauge_folder(folder: str | Path, series: dict[str, tuple[ArrayLike, ArrayLike]]) -> None:
    """Write {name: (time [s], elevation [m])} as `records_in` reads them."""
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    for name, (time, value) in series.items():
        table = np.column_stack([time, value])
        np.savetxt(folder / f"{name}.csv", table, "%.3f,%.6f", header=f"{TIME},{ELEVATION}", comments="")


def gauge_records(
    records: dict,
    window: tuple | dict,
    error: float | None = None,
    independent: float = 120.0,
    deviation: float | None = None,
) -> dict:
    """{name: Record} with the errors of gauges.

    Args:
        records: {name: Record}, as `records_in` reads them.
        window: (first, last) [s]; observations outside do not count. Or {name: (first, last)}.
        error: e, a share of each gauge's own standard deviation in the window; 0 unless given.
        independent: tau [s].
        deviation: sigma [m]; GAUGE_ERROR unless this or `error` is given.

    Raises:
        ConfigError: if gauges have no window, or do not vary in it; the message names all of them.
    """
    scaled, mistakes = {}, []
    sigma = deviation or (GAUGE_ERROR if error is None else 0.0)
    for name, record in records.items():
        if isinstance(window, dict) and name not in window:
            mistakes.append(_NO_WINDOW.format(name))
            continue
        span = window_of(window, name)
        record = dataclasses.replace(record, window=span, deviation=1.0)
        time, value, _ = record.counted()
        if not time.size or (sigma == 0.0 and np.std(value) == 0):
            mistakes.append(
                f"the record of {name} has {time.size} observations from {span[0]:g} to {span[1]:g} s"
                f"{' that all are the same, of which no share is an error' if time.size else ''}; widen the window, "
                f"{'give deviation in m, ' if time.size else ''}or leave the gauge out."
            )
            continue
        per_datum = np.ones(record.counts.shape)
        per_datum[record.counts] = 1.0 / _weights(time, independent)
        own = float(np.hypot(sigma, (error or 0.0) * np.std(value)))
        scaled[name] = dataclasses.replace(record, deviation=own * np.sqrt(per_datum), observations_per_datum=per_datum)
    if mistakes:
        raise ConfigError(mistakes)
    return scaled


def _weights(time, independent):
    """w of the observations at `time` [s], (n,); those at one time share the weight of one."""
    moments, group, count = np.unique(time, return_inverse=True, return_counts=True)
    if moments.size == 1 or independent == 0.0:
        return 1.0 / count[group]
    shares = np.minimum(np.diff(moments) / independent, 1.0)
    around = 0.5 * (np.append(shares[0], shares) + np.append(shares, shares[-1]))
    return (around / count)[group]


_NO_WINDOW = "gauge {!r} has no window; give it one, or leave that gauge out."


def window_of(window: tuple | dict, name: str) -> tuple:
    """(first, last) [s] of a gauge, from one window for all gauges or {name: window}."""
    if not isinstance(window, dict):
        return window
    if name not in window:
        raise ConfigError(_NO_WINDOW.format(name))
    return window[name]
