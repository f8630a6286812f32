"""The errors of records and of the model: what a forecast counts in addition to the unknown source.

The record of a gauge is y(t) = eta(t) + e(t), and e has the covariance

    R(t, t') = s^2 [t = t'] + m^2 A(t) A(t') exp(-|t - t'| / c) + d^2 t t' eta'(t) eta'(t')

s is the error of an instrument. m is the share of the local amplitude A of the wave by which the model is off: its grid
does not resolve coasts and depths, and it has no nonlinear terms. d is the share of the travel time by which waves are
late. On the deep sea they are late by 0.5 to 1 percent, as the Earth yields under them (Watada et al.
2014, doi:10.1002/2013JB010841).
"""

import dataclasses
from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np
import xarray as xr
from scipy.ndimage import uniform_filter1d

from ..errors import ConfigError

if TYPE_CHECKING:
    from .bank import Bank

QUIET = 5.0  # deviations by which a level may be off zero before the wave can be there
SPIKE = 12.0  # by how many times the usual a sample may be off the mean of its neighbours
BEYOND = 1.5  # by how many times the range of the samples near it, which a crest is not
DOUBT = 0.7  # of that range, which a crest hardly is
DRIFT = 3.0  # deviations of an instrument by which the level before a wave may be off without a remark
LEAST_QUIET = 300.0  # [s] of a record before a wave, from which its mean is known
LEAST_FLAW = 0.1  # [m], below which neither is looked for


@dataclasses.dataclass(frozen=True)
class Errors:
    """Parameters of the errors and of the source's amplitudes; what is None is estimated from the records.

    Attributes:
        instrument: s [m].
        model: m [1].
        memory: c [s].
        timing: d [1].
        begin: samples before are not used [s], such as those of seismic waves.
        deviation: standard deviation of the amplitudes before there are records [m].
        length: their correlation length [m].
        rises: whether amplitudes are positive; None: as in the bank.
    """

    instrument: float = 0.01
    model: float | None = None
    memory: float = 240.0
    timing: float = 0.005
    begin: float = 0.0
    deviation: float | None = None
    length: float | None = None
    rises: bool | None = None

    def __post_init__(self):
        for name in ("instrument", "memory", "deviation"):
            value = getattr(self, name)
            if value is not None and not 0 < value < np.inf:
                raise ConfigError(f"Errors: {name} = {value:g} is not positive or not finite; give another.")
        for name in ("model", "timing", "length"):
            value = getattr(self, name)
            if value is not None and not 0 <= value < np.inf:
                raise ConfigError(f"Errors: {name} = {value:g} is negative or not finite; give another.")


@dataclasses.dataclass(frozen=True, eq=False)
class Samples:
    """The samples of a gauge at times of the bank.

    Attributes:
        name: of the point.
        row: of the point in the bank.
        at: numbers of the times, (n,).
        level: [m] (n,).
    """

    name: str
    row: int
    at: np.ndarray
    level: np.ndarray


def samples_of(
    records: Mapping[str, xr.DataArray], names: list[str], times: np.ndarray, first: float, last: float
) -> list[Samples]:
    """The Samples of all records from `first` to `last` [s], linear between those of the records.

    They are those at the times of the bank that are nearest to a time of the record: a record with fewer times than the
    bank does not give more by being interpolated. There is none in a gap, which is longer than 5 minutes and twice the
    usual interval.

    Raises:
        ConfigError: for a record of a point that is not in the bank, and for times that are dates or do not increase.
    """
    found = []
    for name, record in records.items():
        if name not in names:
            raise ConfigError(f"there is a record of {name}, which is not a point of the bank; {', '.join(names)} are.")
        if record["time"].dtype.kind in "mM":
            raise ConfigError(f"the times of {name} are dates or durations; give seconds since the earthquake.")
        time, level = np.asarray(record["time"], float), np.asarray(record, float)
        finite = np.isfinite(level) & (time <= last)
        time, level = time[finite], level[finite]
        if (np.diff(time) <= 0).any():
            raise ConfigError(f"the clock of {name} does not go forward all the time; cut the record where it jumps.")
        if time.size < 2:
            continue
        inside = (times >= max(first, time[0])) & (times <= min(last, time[-1]))
        nearest = np.searchsorted(0.5 * (times[1:] + times[:-1]), time)
        at = np.intersect1d(np.flatnonzero(inside), nearest)
        k = np.clip(np.searchsorted(time, times[at]), 1, time.size - 1)
        near = time[k] - time[k - 1] <= _longest_pause(time)
        at = at[near | np.isin(times[at], time)]
        if at.size:
            found.append(Samples(name, names.index(name), at, np.interp(times[at], time, level)))
    return found


def examined(
    bank: "Bank", records: Mapping[str, xr.DataArray], until: float | None, errors: Errors, prior: np.ndarray
) -> tuple[list[Samples], dict[int, np.ndarray], list[str]]:
    """(Samples that are used, {row: deviation of its level before there are records [m]}, what is doubtful in records).

    Args:
        bank, records, until, errors: as for `Bank.posterior`.
        prior: U, whose product with its transpose is the covariance of the amplitudes before there are records [m2].

    Raises:
        ConfigError: for a record that is no tsunami's.
    """
    last, s = np.inf if until is None else float(until), errors.instrument
    whole, samples = (samples_of(records, list(bank.places), bank.times, begin, last) for begin in (0.0, errors.begin))
    for each in whole:
        bank.rows([each.name])
    possible = {each.row: np.sqrt(np.sum((bank.responses[each.row] @ prior) ** 2, axis=1)) for each in whole}
    checks = [(check, one) for check, some in ((_jump, samples), (_offset, whole)) for one in some]
    found = [check(one, bank.times, possible[one.row], s) for check, one in checks]
    return samples, possible, [text for text in (*found, *(_gap(one, bank.times) for one in samples)) if text]


def without_samples(records: Mapping[str, xr.DataArray], samples: list[Samples], times: np.ndarray) -> list[str]:
    """Sentences on records of which no sample is used, and on those that end long before the latest one.

    Args:
        records: {name: level [m] over "time" [s]}.
        samples: those that are used.
        times: of the bank [s].
    """
    used = [each.name for each in samples]
    known = {name: record["time"].values[np.isfinite(record)] for name, record in records.items() if name not in used}
    found = [
        f"no sample of {name} is used, "
        + (f"which has those of {time[0] / 60.0:.0f} to {time[-1] / 60.0:.0f} min" if time.size else "which has none")
        + ": check its dates, their zone, and the start from which they count"
        for name, time in known.items()
    ]
    latest = max((times[each.at[-1]] for each in samples), default=0.0)
    for each in samples:
        last = times[each.at[-1]]
        if latest - last > _longest_pause(times[each.at]):
            found.append(
                f"{each.name} has no samples after {last / 60.0:.0f} min, and another gauge has until "
                f"{latest / 60.0:.0f} min: its record may have stopped"
            )
    return found


def _longest_pause(time):
    """The time between two samples [s] that is not a gap yet, by times of samples [s]."""
    return max(300.0, 2.0 * float(np.median(np.diff(time)))) if time.size > 1 else 300.0


def _offset(samples, times, possible, instrument):
    """Where the level goes before a wave, if not to zero; raises if its mean is off, which no seismic wave changes."""
    quiet = possible[samples.at] < instrument
    time, level = times[samples.at[quiet]], samples.level[quiet]
    if time.size < 3 or np.ptp(time) < LEAST_QUIET:
        return None
    off, late = float(np.mean(level)), time - np.mean(time)
    slope = float(late @ level / (late @ late))
    error = np.std(level - off - slope * late) * (1.0 / time.size + late[-1] ** 2 / (late @ late)) ** 0.5
    if abs(off) > max(LEAST_FLAW, QUIET * instrument):
        raise ConfigError(
            f"the level of {samples.name} is off zero by {off:.2g} m in the mean before a wave can be there: tides or "
            "another datum are in it; remove them (detide, datum in records.toml)."
        )
    if abs(end := off + slope * late[-1]) > max(DRIFT * instrument, 4.0 * error):
        return (
            f"{samples.name} is off zero by about {end:.2g} m when a wave can first be there: is a tide or another "
            "datum left in it (detide, datum in records.toml)?"
        )
    return None


def _gap(samples, times):
    """The longest gap in a record, which may hide a clock that jumped."""
    steps = np.diff(times[samples.at])
    if not steps.size or steps.max() <= _longest_pause(times[samples.at]):
        return None
    k = int(np.argmax(steps))
    first, last = times[samples.at[k : k + 2]] / 60.0
    return (
        f"{samples.name} has no samples from {first:.0f} to {last:.0f} min; if its clock jumps there, leave this gauge "
        "out (--without), or cut the record"
    )


def _jump(samples, times, possible, instrument):
    """A sample that may be a spike; raises if it is one, and for a level off zero before a wave."""
    level, name = samples.level, samples.name
    quiet = possible[samples.at] < instrument
    off = float(np.sqrt(np.mean(level[quiet] ** 2))) if quiet.sum() > 2 else 0.0
    if off > max(LEAST_FLAW, QUIET * instrument):
        raise ConfigError(
            f"the level of {name} is off zero by {off:.2g} m before a wave can be there: tides, another datum or "
            "seismic waves are in it; remove them (detide, datum in records.toml), or begin later."
        )
    if level.size > 4:
        off = np.abs(level[1:-1] - 0.5 * (level[:-2] + level[2:]))
        k = int(np.argmax(off))
        back = abs(level[k + 2] - level[k]) < 0.3 * off[k]  # which a steep front does not do
        near = np.delete(level[max(k - 4, 0) : k + 7], min(k + 1, 5))  # five samples before and after it
        if back and off[k] > max(LEAST_FLAW, SPIKE * float(np.median(off)), DOUBT * float(np.ptp(near))):
            jump = f"the level of {name} jumps to {level[k + 1]:.3g} m after {times[samples.at[k + 1]]:g} s and back"
            if off[k] > BEYOND * np.ptp(near):
                raise ConfigError(f"{jump}: a spike; remove it (spikes in records.toml).")
            return f"{jump}: if the wave is not so sharp, remove this spike (spikes in records.toml)"
    return None


def amplitude_of(wave: np.ndarray, variance: np.ndarray | float, times: np.ndarray) -> np.ndarray:
    """A(t) [m]: the root mean square of a wave and its variance within ten minutes (..., times)."""
    width = max(1, round(1200.0 / float(np.min(np.diff(times), initial=1200.0))))
    return np.sqrt(np.maximum(uniform_filter1d(wave**2 + variance, width, axis=-1, mode="nearest"), 0.0))


def correlation(times: np.ndarray, memory: float) -> np.ndarray:
    """exp(-|t - t'| / c) of times [s], (n, n), with c = `memory` [s]."""
    return np.exp(-np.abs(np.subtract.outer(times, times)) / memory)


def error_terms(
    wave: np.ndarray, variance: np.ndarray | float, times: np.ndarray, errors: Errors
) -> tuple[np.ndarray, np.ndarray]:
    """(A(t), d t eta'(t)) [m], the amplitudes of both errors of the model at all times, for m = 1."""
    slope = np.gradient(wave, times, axis=-1) if times.size > 1 else np.zeros_like(wave)
    return amplitude_of(wave, variance, times), errors.timing * times * slope
