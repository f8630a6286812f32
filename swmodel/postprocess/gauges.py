"""Gauges: modelled and observed series as figures; series.py reads them, scores.py defines their scores."""

from collections.abc import Sequence

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator
from matplotlib.transforms import offset_copy

from . import style
from .cgrid import surface
from .files import start_of
from .scores import Rules, Score, Series, comparable, score, time_unit
from .series import read_gauges

MOST_GAUGES, PER_COLUMN = 96, 24  # of `figure`
_OBSERVED = "#8c8c8c"


def draw_series(
    axes: Axes, model: Series, observed: Series | None = None, span: tuple[float, float] | None = None
) -> Score:
    """One gauge: the model, the observed series under it, and its Score; grey is outside the window.

    Returns:
        Score.
    """
    row, span = score(model, observed), span or (model.time[0], model.time[-1])
    at, seen = (row.arrival, row.observed_arrival) if model.rules.arrives else (row.peak, row.observed_peak)
    _, _, length = time_unit(span[1])
    if observed is not None:
        observed = comparable(observed, model)
        axes.plot(observed.time / length, observed.value, color=_OBSERVED, linewidth=2.2, solid_capstyle="round")
        axes.plot(seen / length, _at(observed, seen), "o", color="#6e6e6e", markersize=4.5)
    axes.plot(model.time / length, model.value, color=style.VERMILLION, linewidth=1.4)
    edge = {"markeredgecolor": "white", "markeredgewidth": 0.6}
    axes.plot(at / length, _at(model, at), "o", color=style.VERMILLION, markersize=4.5, **edge)
    axes.axhline(0, color="#555555", linewidth=0.6, zorder=0)
    for first, last in ((span[0], model.rules.window[0]), (model.rules.window[1], span[1])):
        if np.isfinite([first, last]).all() and first < last:
            axes.axvspan(first / length, last / length, color="#f1f1f1", linewidth=0, zorder=-1)
    axes.set_title(f"{model.name}, flow depth on land" if model.on_land else model.name)
    style.remark(axes, _summary(row))
    axes.set_ylim(*_height(model, observed))
    axes.set_xlim(*(np.array(span) / length))
    axes.grid(axis="x")
    axes.xaxis.set_major_locator(MaxNLocator(8, steps=[1, 1.5, 3, 6, 10]))
    return row


def draw_legend(axes: Axes, observed: bool, rules: Rules = Rules()) -> None:  # noqa: B008
    """A legend below the right end of `axes`, next to their label, where it hides no wave."""
    lines = [Line2D([], [], color=style.VERMILLION, linewidth=1.4, label="model")]
    if observed:
        lines.append(Line2D([], [], color=_OBSERVED, linewidth=2.2, label="observed"))
    event = f"arrival ({100 * rules.fraction:g} % of max.)" if rules.arrives else "peak"
    lines.append(Line2D([], [], color=style.GREY, marker="o", linestyle="", markersize=4.5, label=event))
    below = offset_copy(axes.transAxes, axes.get_figure(root=True), 0, -19, units="points")
    place = {"loc": "upper right", "bbox_to_anchor": (1.0, 0.0), "bbox_transform": below, "borderaxespad": 0.0}
    axes.legend(handles=lines, ncols=3, handlelength=1.4, columnspacing=1.2, **place)


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
        said.append(f"{100 * row.variance_explained:.0f} % explained, bias {_metres(row.bias, '+')} m")
    if np.isfinite(row.observed_peak) and np.isfinite(row.peak):
        said.append(f"peak {(row.peak - row.observed_peak) / length:+.1f} {symbol}")
    elif np.isfinite(row.observed_arrival) and np.isfinite(row.arrival):
        said.append(f"arrival {(row.arrival - row.observed_arrival) / length:+.1f} {symbol}")
    elif np.isfinite(row.arrival):
        digits = 0 if symbol == "min" else 1
        said.append(f"arrival {row.arrival / length:.{digits}f} {symbol}")
    if np.isfinite(row.maximum):
        observed = f" of {_metres(row.observed_maximum)}" if np.isfinite(row.observed_maximum) else ""
        said.append(f"max. {_metres(row.maximum)}{observed} m")
    if row.rules.arrives and not np.isfinite(row.arrival) and row.notes:
        said.append(row.notes[-1])
    return ", ".join(said)


def _metres(value, sign=""):
    """A number with two decimals, or with two significant digits if it is too small for that, as in laboratories."""
    return format(value, f"{sign}.2f" if abs(value) >= 0.1 or value == 0 else f"{sign}.2g")


def figure(
    dataset: xr.Dataset,
    observations: dict[str, Series] | None = None,
    variable: str | None = None,
    series: Sequence[Series] | None = None,
) -> Figure:
    """A figure of the gauges' series, with `observations` {name: Series} where there are any.

    There are PER_COLUMN gauges in a column and MOST_GAUGES on the page, observed ones first; a note names the others.

    Args:
        series: the series that are drawn; all gauges of the file without it.
    """
    gauges = read_gauges(dataset, variable) if series is None else list(series)
    observations = observations or {}
    if len(gauges) > MOST_GAUGES:
        gauges.sort(key=lambda gauge: gauge.name not in observations)
    shown, others = gauges[:MOST_GAUGES], [gauge.name for gauge in gauges[MOST_GAUGES:]]
    columns = -(-len(shown) // PER_COLUMN)
    rows, foot = -(-len(shown) // columns), 0.52 + (0.22 if others else 0.0)  # [inches]
    with style.applied():
        drawing = style.new_figure(8.0 * columns, 0.38 + foot + 1.75 * rows)
        grid = drawing.subplots(rows, columns, sharex=True, squeeze=False)
        axes = grid.T.ravel()
        for one, gauge in zip(axes, shown):
            row = draw_series(one, gauge, observations.get(gauge.name))
        for one in axes[len(shown) :]:
            one.remove()
        last = axes[len(shown) - 1]
        last.tick_params(labelbottom=True)
        draw_legend(last, bool(observations), row.rules)
        start = start_of(dataset)
        since = f"{start:%Y-%m-%d %H:%M:%S} UTC" if start else "the start"
        grid[-1, 0].set_xlabel(f"{time_unit(shown[0].time[-1])[1]} after {since}", loc="left")
        drawing.supylabel(f"{surface(dataset)} [m]", x=0.02 / columns, fontsize=9)
        height = drawing.get_size_inches()[1]
        drawing.subplots_adjust(
            0.1 / columns, foot / height, 1 - 0.02 / columns, 1 - 0.35 / height, wspace=0.12, hspace=0.42
        )
        style.name_others(drawing, others, 0.8, " (give fewer gauges to postprocess.gauges.figure as `series`)")
    return drawing
