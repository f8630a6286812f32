"""Scores of a gauge: arrival time, maximum, and the variance of an observed record that the model explains.

All are taken over one window: the intersection of the experiment's window, the run and, if there is one, the observed
record. The window, the threshold and the fraction come from the gauge file (`[output.gauges]` of the experiment).

    maximum             the highest elevation in the window [m]
    arrival             the first time [s] in the window at which the elevation exceeds `fraction` of that maximum
    variance explained  1 - var(observed - model) / var(observed), at the observed times, without the mean error
    bias                the mean error, mean(model - observed) [m]

A score that cannot be computed is NaN, and a note gives the reason: nothing was recorded in the window, the elevation
stays below the threshold, it was above the level of the arrival when the window opened, or it still rose when it ended.
"""

import dataclasses
from collections.abc import Iterable, Mapping, Sequence

import numpy as np

__all__ = ["Rules", "Score", "Series", "arrival", "peak", "score", "scores", "table", "time_unit", "variance_explained"]

LEAST_TIMES = 3  # in common, for a variance
TIME_UNITS = (
    ("s", "Seconds", 1.0, 300.0),
    ("min", "Minutes", 60.0, 12 * 3600.0),
    ("h", "Hours", 3600.0, 4 * 86400.0),
    ("days", "Days", 86400.0, np.inf),
)  # symbol, word, length [s], the longest span to be counted in it [s]


@dataclasses.dataclass(frozen=True)
class Rules:
    """How a gauge is scored.

    Attributes:
        window: (first, last) time since the start [s]; infinite where the run and the record set the limits.
        threshold: lower maxima do not count as waves [m].
        fraction: of the maximum, at which a wave has arrived.
    """

    window: tuple = (-np.inf, np.inf)
    threshold: float = 0.01
    fraction: float = 0.2


@dataclasses.dataclass(frozen=True, eq=False)
class Series:
    """One gauge's record: `time` [s] since the start, sorted, and `value`, of the same length, with NaN for gaps."""

    name: str
    time: np.ndarray
    value: np.ndarray
    x: float = np.nan
    y: float = np.nan
    rules: Rules = Rules()

    def between(self, first: float, last: float) -> tuple[np.ndarray, np.ndarray]:
        """(time, value) of the records from `first` to `last` [s]."""
        inside = (self.time >= first) & (self.time <= last) & np.isfinite(self.value)
        return self.time[inside], self.value[inside]


@dataclasses.dataclass(frozen=True)
class Score:
    """The scores of a gauge; NaN for those that cannot be computed.

    Attributes:
        arrival, maximum: of the model [s], [m].
        observed_arrival, observed_maximum: [s], [m].
        variance_explained: 1 is perfect, 0 as good as a constant [1].
        bias: mean of model - observed [m].
        window: (first, last) time of the score [s].
        notes: sentences on why scores are missing, or what they leave out.
        fraction: of the maximum, at which a wave has arrived.
    """

    name: str
    arrival: float = np.nan
    maximum: float = np.nan
    observed_arrival: float = np.nan
    observed_maximum: float = np.nan
    variance_explained: float = np.nan
    bias: float = np.nan
    window: tuple = (np.nan, np.nan)
    notes: tuple = ()
    fraction: float = Rules.fraction


def time_unit(span: float) -> tuple[str, str, float]:
    """(symbol, word, length [s]) of the unit that suits times up to `span` [s]."""
    return next((symbol, word, length) for symbol, word, length, longest in TIME_UNITS if span < longest)


def _said(time, longest):
    symbol, _, length = time_unit(longest)
    return f"{time / length:.4g} {symbol}"


def _from_to(window):
    """A window in words, without its infinite ends."""
    symbol, _, length = time_unit(max((abs(t) for t in window if np.isfinite(t)), default=0.0))
    low, high = (t / length for t in window)
    if np.isfinite(low) and np.isfinite(high):
        return f"{low:.4g} to {high:.4g} {symbol}"
    return f"{low:.4g} {symbol} on" if np.isfinite(low) else f"the start to {high:.4g} {symbol}"


def _ends(series):
    """(first, last) time with a value, or None."""
    time = series.time[np.isfinite(series.value)]
    return (float(time[0]), float(time[-1])) if time.size else None


def _covered(series, window, whose):
    """(the part of the window that `series` covers, or None; notes)."""
    ends = _ends(series)
    if ends is None:
        return None, (f"{whose} has no values",)
    first, last = max(window[0], ends[0]), min(window[1], ends[1])
    if first > last:
        return None, (f"{whose} spans {_from_to(ends)}, and the window is {_from_to(window)}",)
    apart = 2 * np.median(np.diff(series.time)) if series.time.size > 1 else 0.0
    cut = [
        f"{verb} at {_said(end, max(map(abs, ends)))}"
        for verb, end, wanted, sign in (("begins", ends[0], window[0], 1), ("ends", ends[1], window[1], -1))
        if np.isfinite(wanted) and sign * (end - wanted) > apart
    ]
    return (first, last), ((f"{whose} {' and '.join(cut)}, and the window is {_from_to(window)}",) if cut else ())


def _extremes(series, window, whose):
    """(arrival [s], maximum [m], notes) in a window that `series` covers; NaN for those that it does not contain."""
    rules, (time, value) = series.rules, series.between(*window)
    if value.size == 0:
        return np.nan, np.nan, (f"{whose} has no values from {_from_to(window)}",)
    at, highest = int(np.argmax(value)), float(value.max())
    if highest < rules.threshold:
        return np.nan, np.nan, (f"{whose} stays below {rules.threshold:g} m (highest value {highest:.2g} m)",)
    if at == value.size - 1:
        return np.nan, np.nan, (f"{whose} still rises when the window ends, at {highest:.3g} m",)
    if at == 0:
        return np.nan, np.nan, (f"{whose} is highest when the window opens, at {highest:.3g} m; it arrived before",)
    if value[0] > rules.fraction * highest:
        level = f"{100 * rules.fraction:g} % of its maximum"
        return np.nan, highest, (f"{whose} is above {level} when the window opens; it arrived before",)
    return float(time[np.argmax(value > rules.fraction * highest)]), highest, ()


def peak(series: Series) -> float:
    """The maximum [m] of `series` in its own window, or NaN if it cannot be found in the window."""
    return score(series).maximum


def arrival(series: Series) -> float:
    """The first time [s] in its window at which `series` exceeds a fraction of its own maximum, or NaN."""
    return score(series).arrival


def variance_explained(
    model: Series, observed: Series, window: tuple[float, float] = (-np.inf, np.inf)
) -> tuple[float, float]:
    """(1 - var(observed - model) / var(observed), mean(model - observed) [m]); the model is interpolated linearly.

    Times without a value on either side do not count; NaN if fewer than three are left or nothing varies.
    """
    on_model = np.interp(observed.time, model.time, model.value, left=np.nan, right=np.nan)
    used = (observed.time >= window[0]) & (observed.time <= window[1])
    used &= np.isfinite(observed.value) & np.isfinite(on_model)
    error, variance = (on_model - observed.value)[used], np.var(observed.value[used]) if used.any() else 0.0
    if used.sum() < LEAST_TIMES or variance == 0:
        return np.nan, np.nan
    return float(1 - np.var(error) / variance), float(np.mean(error))


def score(model: Series, observed: Series | None = None) -> "Score":
    """The Score of one gauge by the Rules of the model's series."""
    rules = model.rules
    window, notes = _covered(model, rules.window, "the run")
    if window is None:
        return Score(model.name, notes=notes, fraction=rules.fraction)
    if observed is not None:
        observed = dataclasses.replace(observed, rules=rules)
        shared, more = _covered(observed, rules.window, "the record")
        notes += more
        if shared is None:
            observed = None
        else:
            window = max(window[0], shared[0]), min(window[1], shared[1])
    if window[0] > window[1]:
        note = f"the run ends at {_said(window[1], window[0])}, and the record begins at {_said(window[0], window[0])}"
        return Score(model.name, notes=(*notes, note), fraction=rules.fraction)
    arrived, highest, more = _extremes(model, window, "the model")
    row = Score(model.name, arrived, highest, window=window, notes=notes + more, fraction=rules.fraction)
    if observed is None:
        return row
    arrived, highest, more = _extremes(observed, window, "the record")
    row = dataclasses.replace(row, observed_arrival=arrived, observed_maximum=highest)
    return _compared(row, model, observed, more)


def _compared(row, model, observed, notes):
    """The Score with the entries that need both series."""
    share, bias = variance_explained(model, observed, row.window)
    if np.isnan(share):
        notes += (f"the record varies at fewer than {LEAST_TIMES} times that the run has, too",)
    return dataclasses.replace(row, variance_explained=share, bias=bias, notes=row.notes + notes)


def scores(gauges: Iterable[Series], observations: Mapping[str, Series] | None = None) -> "list[Score]":
    """The Scores of all `gauges`, with `observations` {name: Series} if there are any."""
    observations = observations or {}
    return [score(gauge, observations.get(gauge.name)) for gauge in gauges]


# -- as text -----------------------------------------------------------------------------------------------------------


_OF_MODEL = ("gauge", "arrival", "maximum", "window")  # columns that need no record


def table(rows: "Sequence[Score]") -> str:
    """The Scores as text, aligned, "-" for missing scores; below, the notes and the meaning of the columns.

    Columns that compare with records are left out if no gauge has a value in them, as in a run without observations.
    """
    unit, _, length = time_unit(max((t for row in rows for t in row.window if np.isfinite(t)), default=3600.0))
    heads = ("gauge", "arrival", "observed", "late by", "maximum", "observed", "ratio", "variance", "bias", "window")
    when = f"[{unit}]"
    units = ("", when, when, when, "[m]", "[m]", "", "explained", "[m]", when)
    cells = [_cells(row, length, 1 if unit == "s" else 0) for row in rows]
    shown = [n for n, head in enumerate(heads) if head in _OF_MODEL or any(line[n] != "-" for line in cells)]
    lines = [[line[n] for n in shown] for line in (heads, units, *cells)]
    widths = [max(map(len, column)) for column in zip(*lines)]
    text = [
        "  ".join(cell.ljust(w) if n == 0 else cell.rjust(w) for n, (cell, w) in enumerate(zip(line, widths))).rstrip()
        for line in lines
    ]
    notes = [f"  {row.name}: {'; '.join(row.notes)}." for row in rows if row.notes]
    return "\n".join([*text, *(["Notes:", *notes] if notes else []), _meaning(rows)])


def _meaning(rows):
    """A line on what the table's columns mean."""
    shares = ", ".join(f"{100 * fraction:g} %" for fraction in sorted({row.fraction for row in rows}))
    text = f"Arrival: first above {shares} of the window's own maximum."
    if any(np.isfinite(row.variance_explained) for row in rows):
        text += " Variance explained: without the bias, which is the mean of model - observed."
    return text


def _cells(row, length, digits):
    first, last = (t / length for t in row.window)
    return (
        row.name,
        _text(row.arrival / length, ".1f"),
        _text(row.observed_arrival / length, ".1f"),
        _text((row.arrival - row.observed_arrival) / length, "+.1f"),
        _metres(row.maximum),
        _metres(row.observed_maximum),
        _text(row.maximum / (row.observed_maximum or np.nan), ".2f"),
        _text(row.variance_explained, ".2f"),
        _metres(row.bias, "+"),
        "-" if np.isnan(first) else f"{round(first, digits):g} to {round(last, digits):g}",
    )


def _metres(value, sign=""):
    """A number with three decimals, or with two significant digits if it is too small for that."""
    return _text(value, f"{sign}.3f" if abs(value) >= 0.005 or value == 0 else f"{sign}.2g")


def _text(value, form):
    return format(value, form) if np.isfinite(value) else "-"
