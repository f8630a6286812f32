"""Gauges: the model's series against observed ones, with the figures by which they are judged.

Observed series are a folder of CSV files, one a gauge, with a header line and the columns `time_s` (seconds since the
start) and `elevation_m`; a gauge belongs to the file whose name, without .csv, is its own name or a word of it.

Definitions, over the window from 900 s on (earlier records of bottom pressure near a source hold seismic waves):

    variance explained  1 - var(observed - model) / var(observed), at the observed times
    maximum             of the elevation, before 7200 s
    arrival             the first time at which the elevation exceeds a fifth of that maximum
"""
import csv
import dataclasses
import pathlib

import numpy as np
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator
from matplotlib.transforms import offset_copy

from . import style
from .cgrid import under_lid
from .errors import PlotError
from .files import seconds, start_of

__all__ = ["Score", "Series", "arrival", "draw_legend", "draw_series", "figure", "peak", "read_gauges",
           "read_observations", "score", "scores", "table", "variance_explained"]

WINDOW_START = 900.0  # [s]
WINDOW_END = 7200.0  # [s], of maxima and arrivals
_OBSERVED = "#8c8c8c"


@dataclasses.dataclass(frozen=True, eq=False)
class Series:
    """One gauge's record: `time` [s] since the start, sorted, and `value`, of the same length, with NaN for gaps."""

    name: str
    time: np.ndarray
    value: np.ndarray
    x: float = np.nan
    y: float = np.nan


@dataclasses.dataclass(frozen=True)
class Score:
    """What is said about a gauge; a figure that cannot be had is NaN.

    Attributes:
        arrival, maximum: of the model [s], [m].
        observed_arrival, observed_maximum: [s], [m].
        variance_explained: 1 is perfect, 0 as good as no wave at all.
        window: (first, last) time [s] over which the variance is taken.
    """

    name: str
    arrival: float
    maximum: float
    observed_arrival: float = np.nan
    observed_maximum: float = np.nan
    variance_explained: float = np.nan
    window: tuple = (np.nan, np.nan)


def read_gauges(dataset, variable=None):
    """The series of every gauge in a CF timeSeries file, a list of Series."""
    name = next((v for v in dataset.variables.values() if v.attrs.get("cf_role") == "timeseries_id"), None)
    if name is None:
        raise PlotError("read_gauges: the file has no gauges; give one that `gauges` of a run has written.")
    if variable is None:
        variable = next((k for k, v in dataset.data_vars.items() if set(v.dims) == {"time", name.dims[0]}), None)
    if variable not in dataset:
        raise PlotError(f"read_gauges: the file has no series {variable or 'over time and gauge'}; choose another.")
    values = dataset[variable].transpose(name.dims[0], "time").values.astype(float)
    x, y = (_coordinate(dataset, name.dims[0], axis) for axis in "xy")
    time = seconds(dataset)
    names = [n.decode() if isinstance(n, bytes) else str(n) for n in name.values]
    return [Series(n.strip(), time, v, float(a), float(b)) for n, v, a, b in zip(names, values, x, y)]


def _coordinate(dataset, station, axis):
    wanted = {"x": ("longitude", "projection_x_coordinate"), "y": ("latitude", "projection_y_coordinate")}[axis]
    for name, variable in dataset.variables.items():
        if variable.dims == (station,) and (variable.attrs.get("standard_name") in wanted or name in (axis, *wanted)):
            return variable.values
    return np.full(dataset.sizes[station], np.nan)


def read_observations(folder, names):
    """The observed series of the gauges `names` that have a file in `folder`, {name: Series}.

    Raises:
        PlotError: if there is no such folder, a file lacks a column, or no file belongs to any gauge.
    """
    folder = pathlib.Path(folder)
    if not folder.is_dir():
        raise PlotError(f"read_observations: {folder} is no folder; give the one that holds a CSV file per gauge.")
    files = {path.stem.lower(): path for path in sorted(folder.glob("*.csv"))}
    found = {}
    for name in names:
        words = (name.lower(), *name.lower().replace("_", " ").replace("-", " ").split())
        path = next((files[word] for word in words if word in files), None)
        if path is not None:
            found[name] = _read_csv(path, name)
    if not found:
        raise PlotError(f"read_observations: no CSV file in {folder} is named after one of the gauges "
                        f"{', '.join(names)}; name each file after its gauge.")
    return found


def _read_csv(path, name):
    with open(path, newline="") as file:
        rows = list(csv.DictReader(file))
    if not rows or not {"time_s", "elevation_m"} <= set(rows[0]):
        raise PlotError(f"read_observations: {path} lacks the columns time_s and elevation_m in its first line; "
                        "add that line.")
    table = np.array([[_number(row["time_s"]), _number(row["elevation_m"])] for row in rows])
    table = table[np.isfinite(table[:, 0])]
    time, first = np.unique(table[:, 0], return_index=True)
    return Series(name, time, table[first, 1])


def _number(text):
    try:
        return float(text)
    except (TypeError, ValueError):
        return np.nan


def _window(series, first, last):
    inside = (series.time >= first) & (series.time <= last) & np.isfinite(series.value)
    return series.time[inside], series.value[inside]


def peak(series, first=WINDOW_START, last=WINDOW_END):
    """The maximum of `series` between the times `first` and `last` [s], or NaN if it has no record there."""
    _, value = _window(series, first, last)
    return float(value.max()) if value.size else np.nan


def arrival(series, first=WINDOW_START, last=WINDOW_END, fraction=0.2):
    """The first time [s] from `first` on at which `series` exceeds `fraction` of its own peak; NaN if there is none."""
    time, value = _window(series, first, last)
    if value.size == 0 or value.max() <= 0:
        return np.nan
    return float(time[np.argmax(value > fraction * value.max())])


def variance_explained(model, observed, first=WINDOW_START):
    """(1 - var(observed - model) / var(observed), (first, last) time used [s]); the model is interpolated linearly.

    Times without a record on either side do not count; NaN if fewer than three are left or nothing varies.
    """
    on_model = np.interp(observed.time, model.time, model.value, left=np.nan, right=np.nan)
    used = (observed.time >= first) & np.isfinite(observed.value) & np.isfinite(on_model)
    if used.sum() < 3 or np.var(observed.value[used]) == 0:
        return np.nan, (np.nan, np.nan)
    share = 1 - np.var(observed.value[used] - on_model[used]) / np.var(observed.value[used])
    return float(share), (float(observed.time[used][0]), float(observed.time[used][-1]))


def score(model, observed=None):
    """The Score of one gauge."""
    if observed is None:
        return Score(model.name, arrival(model), peak(model))
    share, window = variance_explained(model, observed)
    return Score(model.name, arrival(model), peak(model), arrival(observed), peak(observed), share, window)


def scores(gauges, observations=None):
    """The Scores of all `gauges`, with `observations` {name: Series} where there are any."""
    observations = observations or {}
    return [score(gauge, observations.get(gauge.name)) for gauge in gauges]


def table(rows):
    """The Scores as text, aligned, "-" where there is no figure."""
    heads = ("gauge", "arrival", "observed", "late by", "maximum", "observed", "ratio", "variance", "window")
    units = ("", "[min]", "[min]", "[min]", "[m]", "[m]", "", "explained", "[min]")
    lines = [heads, units]
    for row in rows:
        lines.append((row.name, _text(row.arrival / 60, ".1f"), _text(row.observed_arrival / 60, ".1f"),
                      _text((row.arrival - row.observed_arrival) / 60, "+.1f"), _text(row.maximum, ".3f"),
                      _text(row.observed_maximum, ".3f"), _text(row.maximum / (row.observed_maximum or np.nan), ".2f"),
                      _text(row.variance_explained, ".2f"),
                      "-" if np.isnan(row.window[0]) else f"{row.window[0] / 60:.0f} to {row.window[1] / 60:.0f}"))
    widths = [max(len(line[n]) for line in lines) for n in range(len(heads))]
    return "\n".join("  ".join(cell.ljust(w) if n == 0 else cell.rjust(w) for n, (cell, w) in
                               enumerate(zip(line, widths))).rstrip() for line in lines)


def _text(value, form):
    return format(value, form) if np.isfinite(value) else "-"


def draw_series(axes, model, observed=None, span=None):
    """One gauge: the model, the observed series under it, and what the Score says."""
    row = score(model, observed)
    if observed is not None:
        axes.plot(observed.time / 60, observed.value, color=_OBSERVED, linewidth=2.2,
                  solid_capstyle="round")
        axes.plot(row.observed_arrival / 60, _at(observed, row.observed_arrival), "o", color="#6e6e6e", markersize=4.5)
    axes.plot(model.time / 60, model.value, color=style.VERMILLION, linewidth=1.4)
    axes.plot(row.arrival / 60, _at(model, row.arrival), "o", color=style.VERMILLION, markersize=4.5,
              markeredgecolor="white", markeredgewidth=0.6)
    axes.axhline(0, color="#555555", linewidth=0.6, zorder=0)
    axes.set_title(model.name)
    axes.text(1, 1.02, _summary(row), transform=axes.transAxes, ha="right", va="bottom", fontsize=7.5,
              color=style.GREY)
    axes.set_ylim(*_height(model, observed))
    axes.set_xlim(*(np.array(span or (model.time[0], model.time[-1])) / 60))
    axes.grid(axis="x")
    axes.spines[["top", "right"]].set_visible(False)
    axes.xaxis.set_major_locator(MaxNLocator(8, steps=[1, 1.5, 3, 6, 10]))


def draw_legend(axes, observed):
    """A legend below the right end of `axes`, beside their label, where no wave can be."""
    lines = [Line2D([], [], color=style.VERMILLION, linewidth=1.4, label="model")]
    if observed:
        lines.append(Line2D([], [], color=_OBSERVED, linewidth=2.2, label="observed"))
    lines.append(Line2D([], [], color=style.GREY, marker="o", linestyle="", markersize=4.5,
                        label="arrival"))
    below = offset_copy(axes.transAxes, axes.figure, 0, -19, units="points")
    axes.legend(handles=lines, loc="upper right", bbox_to_anchor=(1.0, 0.0), bbox_transform=below, ncols=3,
                handlelength=1.4, columnspacing=1.2, borderaxespad=0.0)


def _at(series, time):
    return np.interp(time, series.time, series.value) if np.isfinite(time) else np.nan


def _height(*series):
    """Vertical limits that the early seismic waves of an observed record do not set."""
    values = np.concatenate([_window(s, WINDOW_START if n else -np.inf, np.inf)[1]
                             for n, s in enumerate(series) if s is not None])
    low, high = (values.min(), values.max()) if values.size else (-1.0, 1.0)
    margin = 0.14 * max(high - low, 1e-6)
    return low - margin, high + 1.6 * margin


def _summary(row):
    if np.isfinite(row.variance_explained):
        return (f"explains {100 * row.variance_explained:.0f} % of variance,  "
                f"arrival {(row.arrival - row.observed_arrival) / 60:+.1f} min,  "
                f"max. {row.maximum:.2f} of {row.observed_maximum:.2f} m")
    if np.isfinite(row.arrival):
        return f"arrival {row.arrival / 60:.0f} min,  max. {row.maximum:.2f} m"
    return ""


def figure(dataset, observations=None, variable=None):
    """A figure of every gauge's series, with `observations` {name: Series} where there are any."""
    gauges = read_gauges(dataset, variable)
    observations = observations or {}
    start = start_of(dataset)
    with style.applied():
        drawing = style.new_figure(8.0, 0.9 + 1.75 * len(gauges))
        axes = drawing.subplots(len(gauges), 1, sharex=True, squeeze=False)[:, 0]
        for one, gauge in zip(axes, gauges):
            draw_series(one, gauge, observations.get(gauge.name))
        draw_legend(axes[-1], bool(observations))
        axes[-1].set_xlabel("Minutes after " + (f"{start:%Y-%m-%d %H:%M:%S} UTC" if start else "the start"), loc="left")
        drawing.supylabel("Pressure on the lid [m]" if under_lid(dataset) else "Elevation [m]", fontsize=9)
        height = drawing.get_size_inches()[1]
        drawing.subplots_adjust(0.1, 0.52 / height, 0.98, 1 - 0.35 / height, hspace=0.42)
    return drawing
