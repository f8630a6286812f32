"""Gauges: modelled and observed series, read from files and drawn; scores.py defines their scores.

Observed series are a folder of CSV files, one a gauge, with a header line and the columns `time_s` (seconds since the
start) and `elevation_m`; a gauge belongs to the file whose name, without .csv, is its own name or a word of it.
"""

import csv
import json
import pathlib
import re

import numpy as np
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator
from matplotlib.transforms import offset_copy

from . import style
from .cgrid import under_lid
from .errors import PlotError
from .files import seconds, start_of
from .scores import Rules, Score, Series, arrival, peak, score, scores, table, time_unit, variance_explained

__all__ = [
    "Rules",
    "Score",
    "Series",
    "arrival",
    "draw_legend",
    "draw_series",
    "figure",
    "peak",
    "read_gauges",
    "read_observations",
    "rules_of",
    "score",
    "scores",
    "table",
    "time_unit",
    "variance_explained",
]

_OBSERVED = "#8c8c8c"


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
    names = [(n.decode() if isinstance(n, bytes) else str(n)).strip() for n in name.values]
    rules = rules_of(dataset.attrs, names)
    return [Series(n, time, v, float(a), float(b), rules[n]) for n, v, a, b in zip(names, values, x, y)]


def rules_of(attributes, names):
    """{name: Rules} that a gauge file's global attributes declare; the whole series if they declare none.

    A run that was continued with other rules keeps both ("NAME_from_3600_s"); the latest ones count.
    """

    def latest(name, otherwise):
        after = {float(match[1]): key for key in attributes if (match := re.fullmatch(rf"{name}_from_(\d+)_s", key))}
        return attributes.get(after[max(after)] if after else name, otherwise)

    windows = json.loads(latest("gauge_windows", "{}"))
    threshold, fraction = latest("gauge_threshold", Rules.threshold), latest("gauge_arrival_fraction", Rules.fraction)
    return {n: Rules(tuple(windows.get(n, Rules.window)), float(threshold), float(fraction)) for n in names}


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
        raise PlotError(
            f"read_observations: no CSV file in {folder} is named after one of the gauges "
            f"{', '.join(names)}; name each file after its gauge."
        )
    return found


def _read_csv(path, name):
    with open(path, newline="") as file:
        rows = list(csv.DictReader(file))
    if not rows or not {"time_s", "elevation_m"} <= set(rows[0]):
        raise PlotError(
            f"read_observations: {path} lacks the columns time_s and elevation_m in its first line; add that line."
        )
    table = np.array([[_number(row["time_s"]), _number(row["elevation_m"])] for row in rows])
    table = table[np.isfinite(table[:, 0])]
    time, first = np.unique(table[:, 0], return_index=True)
    return Series(name, time, table[first, 1])


def _number(text):
    try:
        return float(text)
    except (TypeError, ValueError):
        return np.nan


def draw_series(axes, model, observed=None, span=None):
    """One gauge: the model, the observed series under it, and its Score; grey is outside the window.

    Returns:
        Score.
    """
    row, span = score(model, observed), span or (model.time[0], model.time[-1])
    _, _, length = time_unit(span[1])
    if observed is not None:
        axes.plot(observed.time / length, observed.value, color=_OBSERVED, linewidth=2.2, solid_capstyle="round")
        axes.plot(
            row.observed_arrival / length, _at(observed, row.observed_arrival), "o", color="#6e6e6e", markersize=4.5
        )
    axes.plot(model.time / length, model.value, color=style.VERMILLION, linewidth=1.4)
    axes.plot(
        row.arrival / length,
        _at(model, row.arrival),
        "o",
        color=style.VERMILLION,
        markersize=4.5,
        markeredgecolor="white",
        markeredgewidth=0.6,
    )
    axes.axhline(0, color="#555555", linewidth=0.6, zorder=0)
    for first, last in ((span[0], model.rules.window[0]), (model.rules.window[1], span[1])):
        if np.isfinite([first, last]).all() and first < last:
            axes.axvspan(first / length, last / length, color="#f1f1f1", linewidth=0, zorder=-1)
    axes.set_title(model.name)
    axes.text(1, 1.02, _summary(row), transform=axes.transAxes, ha="right", va="bottom", fontsize=7.0, color=style.GREY)
    axes.set_ylim(*_height(model, observed))
    axes.set_xlim(*(np.array(span) / length))
    axes.grid(axis="x")
    axes.spines[["top", "right"]].set_visible(False)
    axes.xaxis.set_major_locator(MaxNLocator(8, steps=[1, 1.5, 3, 6, 10]))
    return row


def draw_legend(axes, observed, fraction=Rules.fraction):
    """A legend below the right end of `axes`, next to their label, where it hides no wave."""
    lines = [Line2D([], [], color=style.VERMILLION, linewidth=1.4, label="model")]
    if observed:
        lines.append(Line2D([], [], color=_OBSERVED, linewidth=2.2, label="observed"))
    lines.append(
        Line2D(
            [],
            [],
            color=style.GREY,
            marker="o",
            linestyle="",
            markersize=4.5,
            label=f"arrival ({100 * fraction:g} % of max.)",
        )
    )
    below = offset_copy(axes.transAxes, axes.figure, 0, -19, units="points")
    axes.legend(
        handles=lines,
        loc="upper right",
        bbox_to_anchor=(1.0, 0.0),
        bbox_transform=below,
        ncols=3,
        handlelength=1.4,
        columnspacing=1.2,
        borderaxespad=0.0,
    )


def _at(series, time):
    return np.interp(time, series.time, series.value) if np.isfinite(time) else np.nan


def _height(model, observed):
    """Vertical limits; observations outside the window, such as seismic waves, do not determine them."""
    values = [model.value[np.isfinite(model.value)]]
    if observed is not None:
        values.append(observed.between(*model.rules.window)[1])
    values = np.concatenate(values)
    low, high = (values.min(), values.max()) if values.size else (-1.0, 1.0)
    margin = 0.14 * max(high - low, 1e-6)
    return low - margin, high + 1.6 * margin


def _summary(row):
    """The Score in a line; the first note if scores are missing."""
    symbol, _, length = time_unit(row.window[1] if np.isfinite(row.window[1]) else 3600.0)
    said = []
    if np.isfinite(row.variance_explained):
        said.append(f"{100 * row.variance_explained:.0f} % explained, bias {row.bias:+.2f} m")
    if np.isfinite(row.observed_arrival) and np.isfinite(row.arrival):
        said.append(f"arrival {(row.arrival - row.observed_arrival) / length:+.1f} {symbol}")
    elif np.isfinite(row.arrival):
        said.append(f"arrival {row.arrival / length:.0f} {symbol}")
    if np.isfinite(row.maximum):
        observed = f" of {row.observed_maximum:.2f}" if np.isfinite(row.observed_maximum) else ""
        said.append(f"max. {row.maximum:.2f}{observed} m")
    if not np.isfinite(row.arrival) and row.notes:
        said.append(row.notes[-1])
    return ", ".join(said)


def figure(dataset, observations=None, variable=None):
    """A figure of every gauge's series, with `observations` {name: Series} where there are any."""
    gauges = read_gauges(dataset, variable)
    observations = observations or {}
    start = start_of(dataset)
    with style.applied():
        drawing = style.new_figure(8.0, 0.9 + 1.75 * len(gauges))
        axes = drawing.subplots(len(gauges), 1, sharex=True, squeeze=False)[:, 0]
        for one, gauge in zip(axes, gauges):
            row = draw_series(one, gauge, observations.get(gauge.name))
        draw_legend(axes[-1], bool(observations), row.fraction)
        axes[-1].set_xlabel(
            f"{time_unit(gauges[0].time[-1])[1]} after " + (f"{start:%Y-%m-%d %H:%M:%S} UTC" if start else "the start"),
            loc="left",
        )
        drawing.supylabel("Pressure on the lid [m]" if under_lid(dataset) else "Elevation [m]", fontsize=9)
        height = drawing.get_size_inches()[1]
        drawing.subplots_adjust(0.1, 0.52 / height, 0.98, 1 - 0.35 / height, hspace=0.42)
    return drawing
