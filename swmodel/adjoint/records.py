"""Observed records: series at places, from the files that post-processing reads too; between which steps they fall."""
import csv
import dataclasses
from pathlib import Path

import numpy as np

from ..errors import ConfigError, DataError

__all__ = ["Record", "records_in", "slots"]


@dataclasses.dataclass(frozen=True, eq=False)
class Record:
    """What was observed at a place.

    Attributes:
        place: (x, y) in the grid's coordinates.
        time: since the start of the run [s], (n,).
        value: eta [m], (n,); NaN is a gap.
        deviation: standard deviation of an observation's error [m]: a number, or (n,).
        window: (first, last) [s]; what lies outside does not count. None: all counts.
    """

    place: tuple
    time: np.ndarray
    value: np.ndarray
    deviation: float | np.ndarray = 1.0
    window: tuple | None = None

    def counted(self):
        """(time, value, deviation) of the observations that count, (m,) each."""
        time, value = np.asarray(self.time, float), np.asarray(self.value, float)
        deviation = np.broadcast_to(np.asarray(self.deviation, float), time.shape)
        first, last = (-np.inf, np.inf) if self.window is None else self.window
        used = np.isfinite(value) & (time >= first) & (time <= last)
        return time[used], value[used], deviation[used]


def slots(records, dt, first_step, steps):
    """(share, observed, per_deviation), (steps, M, records) each: the observations between steps, as Squares has them.

    Args:
        records: {name: Record}.

    Raises:
        ConfigError: for records without observations, or with some outside the run; all of them at once.
    """
    found, mistakes = [], []
    for name, record in records.items():
        time, value, deviation = record.counted()
        mistakes += _mistakes_of(name, record, time, deviation, dt, first_step, steps)
        place = np.clip(time / dt - first_step - 1, 0.0, steps - 1)
        row = np.ceil(place - 1e-9).astype(int)  # the step that ends the interval which holds it
        share = np.where(row > 0, 1.0 - (row - place), 1.0)
        found.append((row, share, value, deviation))
    if mistakes or not found:
        raise ConfigError(mistakes or "Misfit: there are no records; give one or several, {name: Record}.")
    depth = max(np.bincount(row).max() for row, *_ in found)
    tables = np.zeros((3, steps, depth, len(found)))
    for k, (row, share, value, deviation) in enumerate(found):
        order = np.argsort(row, kind="stable")
        row = row[order]
        slot = np.arange(row.size) - np.searchsorted(row, row)
        tables[:, row, slot, k] = share[order], value[order], 1.0 / deviation[order]
    return tables


def _mistakes_of(name, record, time, deviation, dt, first_step, steps):
    first, last, slack = dt * (first_step + 1), dt * (first_step + steps), 1e-6 * dt
    if not time.size:
        when = "" if record.window is None else f" from {record.window[0]:g} to {record.window[1]:g} s"
        yield f"Misfit: the record of {name} has no observation{when}; widen its window, or leave it out."
        return
    if not (deviation > 0).all():
        yield f"Misfit: the record of {name} has a standard deviation of {deviation.min():g} m; give a positive one."
    if time.min() < first - slack or time.max() > last + slack:
        yield (
            f"Misfit: the record of {name} has observations from {time.min():g} to {time.max():g} s, and the run's "
            f"steps end from {first:g} to {last:g} s; give it a window in there, or make the run longer."
        )


def records_in(folder, places):
    """{name: Record} of the gauges `places` {name: (x, y)} that have a file in `folder`.

    Files are NAME.csv with a header line and the columns time_s and elevation_m; a gauge's file is named as the gauge,
    or a word of its name.

    Raises:
        DataError: if a file lacks a column, or there is none for any gauge.
    """
    folder = Path(folder)
    files = {path.stem.lower(): path for path in sorted(folder.glob("*.csv"))}
    found = {}
    for name, place in places.items():
        words = (name.lower(), *name.lower().replace("_", " ").replace("-", " ").split())
        path = next((files[word] for word in words if word in files), None)
        if path is not None:
            found[name] = Record(place, *_read(path))
    if not found:
        raise DataError(
            f"no CSV file in {folder} is named after one of the gauges {', '.join(places)}; name each after its gauge."
        )
    return found


def _read(path):
    """(time, value) of a file, sorted."""
    with open(path, newline="") as file:
        rows = list(csv.DictReader(file))
    if not rows or not {"time_s", "elevation_m"} <= set(rows[0]):
        raise DataError(f"{path} lacks the columns time_s and elevation_m in its first line; add that line.")
    table = np.array([[_number(row["time_s"]), _number(row["elevation_m"])] for row in rows])
    table = table[np.isfinite(table[:, 0])]
    return table[np.argsort(table[:, 0], kind="stable")].T


def _number(text):
    try:
        return float(text)
    except (TypeError, ValueError):
        return np.nan
