"""Scores of a gauge: arrival time, maximum, and the variance of an observed record that the model explains.

All are taken over one window: the intersection of the experiment's window, the run and, if there is one, the observed
record. The window, the threshold and the fraction come from the gauge file (`[output.gauges]` of the experiment).

    maximum             the highest elevation in the window [m]
    arrival             the first time [s] in the window at which the elevation exceeds `fraction` of that maximum
    variance explained  1 - var(observed - model) / var(observed), at the observed times, without the mean error
    bias                the mean error, mean(model - observed) [m]

Tides and surges do not arrive. In their place such runs have

    peak                the highest elevation in the window [m], and its time [s]
    constants           amplitudes and phase lags of the tidal constituents in the same window, from the `begin` of
                        [output.harmonics] on (tides.py)

A gauge on land has the flow depth as its series, and arrives when that exceeds the threshold, as in maps of arrivals.
Records there are elevations, from which the height of the ground is subtracted.

A score that cannot be computed is NaN, with the reason in a note. Nothing was recorded in the window, or the elevation
stays below the threshold, was above the level of the arrival when the window opened, or still rose when it ended.
"""

import dataclasses
from collections.abc import Callable, Iterable, Mapping, Sequence

import numpy as np

from ..forcing.constituents import Wave, constants_of

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
        arrives: whether the run is that of a wave, which arrives; else it is driven by tides, storms or winds.
        waves: the tidal constituents of the run.
        fit_from: the time from which on their constants are fitted [s].
    """

    window: tuple = (-np.inf, np.inf)
    threshold: float = 0.01
    fraction: float = 0.2
    arrives: bool = True
    waves: tuple[Wave, ...] = ()
    fit_from: float = -np.inf


@dataclasses.dataclass(frozen=True, eq=False)
class Series:
    """One gauge's record.

    Attributes:
        time: since the start, sorted [s], (n,).
        value: of the elevation or, on land, of the flow depth [m], (n,), with NaN for gaps.
        x, y: the place.
        ground: the height of the ground of a gauge on land [m]; NaN at sea.
    """

    name: str
    time: np.ndarray
    value: np.ndarray
    x: float = np.nan
    y: float = np.nan
    rules: Rules = Rules()
    ground: float = np.nan

    @property
    def on_land(self) -> bool:
        """Whether the gauge stands above the sea at rest."""
        return bool(np.isfinite(self.ground))

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
        peak, observed_peak: the times of the maxima of a driven run [s].
        constants, observed_constants: {constituent: (amplitude [m], Greenwich phase lag [degrees])} of a driven run.
        notes: sentences on why scores are missing, or what they leave out.
        rules: those of the gauge.
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
    peak: float = np.nan
    observed_peak: float = np.nan
    constants: Mapping[str, tuple[float, float]] = dataclasses.field(default_factory=dict)
    observed_constants: Mapping[str, tuple[float, float]] = dataclasses.field(default_factory=dict)
    rules: Rules = Rules()


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


def _covered(series, window, whose):
    """(the part of the window that `series` covers, or None; notes)."""
    time = series.time[np.isfinite(series.value)]
    if not time.size:
        return None, (f"{whose} has no values",)
    ends = float(time[0]), float(time[-1])
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


def comparable(observed: Series, model: Series) -> Series:
    """The observed series with the rules of the model's and, on land, the flow depth in place of the elevation."""
    value = np.maximum(observed.value - model.ground, 0.0) if model.on_land else observed.value
    return dataclasses.replace(observed, value=value, rules=model.rules, ground=model.ground)


def _wave_of(series, window, whose):
    """({arrival [s] and maximum [m]}, notes) in a window that `series` covers, without those it does not contain."""
    rules, (time, value) = series.rules, series.between(*window)
    if value.size == 0:
        return {}, (f"{whose} has no values from {_from_to(window)}",)
    at, highest = int(np.argmax(value)), float(value.max())
    level = rules.fraction * highest
    if series.on_land and highest < rules.threshold:
        return {}, (f"{whose} stays dry",)
    if series.on_land and value[0] < rules.threshold:
        return {"arrival": float(time[np.argmax(value > rules.threshold)]), "maximum": highest}, ()
    if highest < rules.threshold:
        return {}, (f"{whose} stays below {rules.threshold:g} m (highest value {highest:.2g} m)",)
    if at == value.size - 1:
        return {}, (f"{whose} still rises when the window ends, at {highest:.3g} m",)
    if at == 0:
        return {}, (f"{whose} is highest when the window opens, at {highest:.3g} m; it arrived before",)
    if value[0] > level:
        why = f"is above {100 * rules.fraction:g} % of its maximum when the window opens; it arrived before"
        return {"maximum": highest}, (f"{whose} {why}",)
    return {"arrival": float(time[np.argmax(value > level)]), "maximum": highest}, ()


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
    if model.on_land:
        notes = (f"depths of the flow over ground at {model.ground:.3g} m", *notes)
    if window is None:
        return Score(model.name, notes=notes, rules=rules)
    if observed is not None:
        observed = comparable(observed, model)
        shared, more = _covered(observed, rules.window, "the record")
        notes += more
        if shared is None:
            observed = None
        else:
            window = max(window[0], shared[0]), min(window[1], shared[1])
    if window[0] > window[1]:
        note = f"the run ends at {_said(window[1], window[0])}, and the record begins at {_said(window[0], window[0])}"
        return Score(model.name, notes=(*notes, note), rules=rules)
    row, more = Score(model.name, window=window, notes=notes, rules=rules), ()
    for series, whose, prefix in ((model, "the model", ""), (observed, "the record", "observed_")):
        if series is not None:
            values, reasons = (_wave_of if rules.arrives else _level_of)(series, window, whose)
            row = dataclasses.replace(row, **{prefix + name: value for name, value in values.items()})
            more += reasons
    row = dataclasses.replace(row, notes=row.notes + more)
    return row if observed is None else _compared(row, model, observed)


def _level_of(series, window, whose):
    """({maximum, its time, harmonic constants}, notes)."""
    time, value = series.between(*window)
    if value.size == 0:
        return {}, (f"{whose} has no values from {_from_to(window)}",)
    at, later = int(np.argmax(value)), time >= series.rules.fit_from
    fitted = {} if series.on_land else constants_of(time[later], value[later], series.rules.waves)
    missing = [wave.name for wave in series.rules.waves if wave.name not in fitted]
    notes = (f"{whose} is highest when the window {'ends' if at else 'opens'}",) * (at in (0, value.size - 1))
    if missing and not series.on_land:
        notes += (f"{whose} is too short for the constants of {', '.join(missing)}",)
    return {"maximum": float(value[at]), "peak": float(time[at]), "constants": fitted}, notes


def _compared(row, model, observed):
    """The Score with the entries that need both series."""
    share, bias = variance_explained(model, observed, row.window)
    note = f"the record has fewer than {LEAST_TIMES} times in common with the run, or does not vary"
    return dataclasses.replace(
        row, variance_explained=share, bias=bias, notes=row.notes + (note,) * bool(np.isnan(share))
    )


def scores(gauges: Iterable[Series], observations: Mapping[str, Series] | None = None) -> "list[Score]":
    """The Scores of all `gauges`, with `observations` {name: Series} if there are any."""
    observations = observations or {}
    return [score(gauge, observations.get(gauge.name)) for gauge in gauges]


# -- as text -----------------------------------------------------------------------------------------------------------


MISSING = "-"


def columns(rows: "Sequence[Score]") -> tuple[list[str], list[str], list[list[str]]]:
    """(heads, units, the cells of each row) of a table of Scores, with MISSING for those that cannot be computed.

    Columns that compare with records are left out if no gauge has a value in them, as in a run without observations.
    """
    arrives = all(row.rules.arrives for row in rows)
    unit, _, length = time_unit(max((t for row in rows for t in row.window if np.isfinite(t)), default=3600.0))
    event = [(row.arrival, row.observed_arrival) if arrives else (row.peak, row.observed_peak) for row in rows]
    times = [
        ("arrival" if arrives else "at", unit, [_text(at / length, ".1f") for at, _ in event]),
        ("observed", unit, [_text(seen / length, ".1f") for _, seen in event]),
        ("late by", unit, [_text((at - seen) / length, "+.1f") for at, seen in event]),
    ]
    heights = [
        ("maximum" if arrives else "peak", "m", [_metres(row.maximum) for row in rows]),
        ("observed", "m", [_metres(row.observed_maximum) for row in rows]),
        ("ratio", "", [_text(row.maximum / (row.observed_maximum or np.nan), ".2f") for row in rows]),
    ]
    entries = [
        ("gauge", "", [row.name for row in rows]),
        *(times + heights if arrives else heights + times),
        ("variance explained", "", [_text(row.variance_explained, ".2f") for row in rows]),
        ("bias", "m", [_metres(row.bias, "+") for row in rows]),
        ("window", unit, [_span(row.window, length, 1 if unit == "s" else 0) for row in rows]),
    ]
    own = "gauge", times[0][0], heights[0][0], "window"  # columns that need no record
    return _transposed([one for one in entries if one[0] in own or any(cell != MISSING for cell in one[2])])


def constants_columns(rows: "Sequence[Score]") -> tuple[list[str], list[str], list[list[str]]]:
    """`columns` of the harmonic constants; without any, there are no heads."""
    names = dict.fromkeys(name for row in rows for name in row.constants)
    nothing = np.nan, np.nan
    entries = [("gauge", "", [row.name for row in rows])] if names else []
    for name in names:
        for k, (head, unit, form) in enumerate(((name, "m", _metres), ("lag", "°", lambda lag: _text(lag, ".0f")))):
            entries.append((head, unit, [form(row.constants.get(name, nothing)[k]) for row in rows]))
            seen = [form(row.observed_constants.get(name, nothing)[k]) for row in rows]
            entries += [("observed", unit, seen)] if any(cell != MISSING for cell in seen) else []
    return _transposed(entries)


def _transposed(entries):
    heads, units, cells = (list(part) for part in zip(*entries)) if entries else ([], [], [])
    return heads, units, [list(line) for line in zip(*cells)]


def notes_of(rows: "Sequence[Score]") -> list[tuple[str, str]]:
    """(gauge, its notes) of the rows with notes; those that all rows have come first, once."""
    shared = [note for note in rows[0].notes if all(note in row.notes for row in rows)] if len(rows) > 1 else []
    own = [(row.name, [note for note in row.notes if note not in shared]) for row in rows]
    return [(name, "; ".join(notes)) for name, notes in [("all gauges", shared), *own] if notes]


def table(rows: "Sequence[Score]") -> str:
    """The Scores as text, aligned; below, the harmonic constants, the notes and the meaning of the columns."""
    notes = [f"  {name}: {text}." for name, text in notes_of(rows)]
    tables = [_aligned(*part) for part in (columns(rows), constants_columns(rows)) if part[0]]
    return "\n".join([*tables, *(["Notes:", *notes] if notes else []), meaning(rows)])


def _aligned(heads, units, lines):
    """A table as text; "variance explained" has two lines."""
    first = [head.partition(" explained")[0] for head in heads]
    second = ["explained" if head != one else f"[{unit}]" * bool(unit) for head, one, unit in zip(heads, first, units)]
    lines = [first, second, *lines]
    widths = [max(map(len, column)) for column in zip(*lines)]
    justified: Callable = lambda n, cell: cell.rjust(widths[n]) if n else cell.ljust(widths[n])  # noqa: E731
    return "\n".join("  ".join(justified(n, cell) for n, cell in enumerate(line)).rstrip() for line in lines)


def meaning(rows: "Sequence[Score]") -> str:
    """A line on what the columns of the tables mean."""
    shares = ", ".join(f"{100 * share:g} %" for share in sorted({row.rules.fraction for row in rows}))
    text = f"Arrival: first above {shares} of the window's own maximum."
    if not all(row.rules.arrives for row in rows):
        text = "Peak: the highest value in the window."
    if any(row.constants for row in rows):
        text += " Lag: behind the equilibrium tide at Greenwich, from a fit to the window."
    if any(np.isfinite(row.variance_explained) for row in rows):
        text += " Variance explained: without the bias, which is the mean of model - observed."
    return text


def _span(window, length, digits):
    first, last = (t / length for t in window)
    return MISSING if np.isnan(first) else f"{round(first, digits):g} to {round(last, digits):g}"


def _metres(value, sign=""):
    """A number with three decimals, or with two significant digits if it is too small for that."""
    return _text(value, f"{sign}.3f" if abs(value) >= 0.005 or value == 0 else f"{sign}.2g")


def _text(value, form):
    return format(value, form) if np.isfinite(value) else MISSING
