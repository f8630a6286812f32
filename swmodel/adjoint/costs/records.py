"""Observed records: time series at places, read from the same files as in post-processing, and their steps."""

import dataclasses
import datetime
from collections.abc import Iterable, Mapping
from pathlib import Path

import numpy as np

from ...errors import ConfigError
from ...fields.parameters import refuse
from ...observed.folder import read_folder


@dataclasses.dataclass(frozen=True, eq=False)
class Record:
    """The observations of one quantity at a place, of the elevation unless `units` are others.

    Attributes:
        place: (x, y) in the grid's coordinates.
        time: time since the start of the run [s], (n,).
        value: eta [m], or another quantity in `units`, (n,); NaN is a gap.
        deviation: standard deviation of an observation's error, in `units`: a number, or (n,).
        window: (first, last) [s]; observations outside do not count. None: all observations count.
        observations_per_datum: the number of observations with correlated errors that weigh as much as one independent
            observation: a number, or (n,) where the interval between observations varies. `deviation` is inflated
            accordingly: it is `error` times the square root of this number.
        units: the units of the quantity.
    """

    place: tuple
    time: np.ndarray
    value: np.ndarray
    deviation: float | np.ndarray = 1.0
    window: tuple | None = None
    observations_per_datum: float | np.ndarray = 1.0
    units: str = "m"

    @property
    def error(self) -> np.ndarray:
        """Standard deviation of the error of each observation that counts, in `units`, (m,)."""
        return self.counted()[2] / np.sqrt(self._per_datum())

    @property
    def independent(self) -> float:
        """The number of independent observations that weigh as much as those that count."""
        return float(np.sum(1.0 / self._per_datum()))

    def modelled(self, times: np.ndarray, readings: np.ndarray) -> np.ndarray:
        """The model at the observations that count (m,), linear between its readings (steps,) at `times` [s].

        Rows of `readings` after those of `times` are padding.
        """
        return np.interp(self.counted()[0], times, readings[: len(times)])

    def counted(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """(time, value, deviation) of the observations that count, (m,) each."""
        used = self.counts
        deviation = np.broadcast_to(np.asarray(self.deviation, float), used.shape)
        return np.asarray(self.time, float)[used], np.asarray(self.value, float)[used], deviation[used]

    @property
    def counts(self) -> np.ndarray:
        """Whether each observation counts, (n,)."""
        time, (first, last) = np.asarray(self.time, float), self.window or (-np.inf, np.inf)
        return np.isfinite(np.asarray(self.value, float)) & (time >= first) & (time <= last)

    def _per_datum(self):
        return np.broadcast_to(np.asarray(self.observations_per_datum, float), self.counts.shape)[self.counts]


@dataclasses.dataclass(frozen=True)
class DictOf:
    """The rule of a parameter that is {name: observations of a `kind`}; in words, and an example for its refusal."""

    kind: type
    words: str
    example: str
    may_be_empty: bool = False

    def check(self, who: str, name: str, value: object) -> None:
        fits = isinstance(value, Mapping) and all(isinstance(each, self.kind) for each in value.values())
        if not fits or not (value or self.may_be_empty):
            refuse(who, name, value, f"is not a dict of {self.words}", f"one, as {{{self.example}}}")


def observation_tables(records: dict[str, Record], dt: float, first_step: int, steps: int) -> np.ndarray:
    """(share, observed, per_deviation), (steps, M, records) each: the tables of observations that Squares takes.

    Args:
        records: {name: Record}.

    Raises:
        ConfigError: if records have no observation, or observations outside the run; the message names all of them.
    """
    found, mistakes = [], []
    for name, record in records.items():
        time, value, deviation = record.counted()
        mistakes += _mistakes_of(name, record, time, deviation, dt, first_step, steps)
        found.append((*between_steps(time, dt, first_step, steps), value, deviation))
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


def between_steps(time: np.ndarray, dt: float, first_step: int, steps: int) -> tuple[np.ndarray, np.ndarray]:
    """(the row of the step at whose end the interval with each time ends, the share of it that has passed), (n,)."""
    place = np.clip(time / dt - first_step - 1, 0.0, steps - 1)
    row = np.ceil(place - 1e-9).astype(np.int32)
    return row, np.where(row > 0, 1.0 - (row - place), 1.0)


def _mistakes_of(name, record, time, deviation, dt, first_step, steps):
    first, last, slack = dt * (first_step + 1), dt * (first_step + steps), 1e-6 * dt
    if not time.size:
        when = "" if record.window is None else f" from {record.window[0]:g} to {record.window[1]:g} s"
        yield f"Misfit: the record of {name} has no observation{when}; widen its window, or leave it out."
        return
    if not (deviation > 0).all():
        yield (
            f"Misfit: the record of {name} has a standard deviation of {deviation.min():g} {record.units}; give a "
            "positive one."
        )
    if time.min() < first - slack or time.max() > last + slack:
        yield (
            f"Misfit: the record of {name} has observations from {time.min():g} to {time.max():g} s, and the run's "
            f"steps end from {first:g} to {last:g} s; give it a window in there, or make the run longer."
        )


def records_in(
    folder: str | Path,
    places: Mapping[str, tuple[float, float]],
    named: Iterable[str] | None = (),
    others: Iterable[str] = (),
    start: datetime.datetime | None = None,
) -> dict[str, Record]:
    """{name: Record} of the gauges `places` {name: (x, y)} that have a file in `folder`.

    Args:
        named: gauges that must have a file.
        others: further gauges, to which files may belong; see observed/folder.py.
        start: date and time of the start of the run, from which dates count.

    Raises:
        DataError: for files that cannot be assigned or read.
        ConfigError: if one of `named` has no file.
    """
    records = read_folder(folder, places, start, others)
    missing = [name for name in named or () if name not in records]
    if missing:
        raise ConfigError(f"{folder} has no record of {', '.join(missing)}; add one, or leave that gauge out.")
    return {name: Record(places[name], record.time, record.value) for name, record in records.items()}
