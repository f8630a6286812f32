"""The one-page figure of a tsunami: the wave at four times, the maximum elevation, and the series of the gauges."""

from collections.abc import Sequence

import numpy as np
import xarray as xr
from matplotlib.figure import Figure

from ..errors import PlotError
from . import style
from .files import label, mesh_of, nearest, seconds, stamp, start_of
from .gauges import MOST_GAUGES as MOST_ALONE
from .gauges import draw_legend, draw_series, read_gauges, time_unit
from .maps import (
    colorbar_right_of,
    draw_field,
    draw_gauges,
    draw_surroundings,
    drawable,
    field_norm,
    first_moving,
    keep_outer_labels,
    map_axes,
)
from .maxima import bars_right_of, draw_maximum, heading_of

WIDTH = 13.0  # [inches]
MARGIN = 0.55
LEAST_PER_GAUGE = 0.92
FOOT, NOTE = 0.52, 0.22  # [inches] below the lower row, with the axis label and the legend; of the note below these
MOST_GAUGES = 8  # observed ones come first


def tsunami(
    fields: xr.Dataset,
    maxima: xr.Dataset | None = None,
    gauges: xr.Dataset | None = None,
    observations: dict | None = None,
    times: Sequence[float] | None = None,
) -> Figure:
    """A figure of one run.

    Args:
        fields: the dataset with eta(time, yh, xh).
        maxima: the dataset with maximum_elevation and arrival_time, if there is one.
        gauges: the dataset with the gauges' series, if there is one.
        observations: {gauge name: Series}.
        times: up to four times [s] of the maps; without them the last one, and a half, a quarter and an eighth of the
            time from the first record in which something moves.

    Raises:
        PlotError: if the files' variables or times do not suffice.
    """
    mesh = mesh_of(fields)
    series = read_gauges(gauges) if gauges is not None else []
    observations = observations or {}
    shown = sorted(series, key=lambda gauge: gauge.name not in observations)[:MOST_GAUGES]
    records = _records(fields, times)
    small = (WIDTH - MARGIN - 0.95 - 0.42 * (len(records) - 1)) / max(len(records), 3)
    top = min(small * mesh.shape, 4.0)
    large = _map_size(mesh_of(maxima), len(shown)) if maxima is not None else (0.0, 0.0)
    lower = max(large[1], LEAST_PER_GAUGE * len(shown))
    others = [gauge.name for gauge in series if gauge not in shown]
    foot = FOOT + (NOTE if others else 0.0)
    with style.applied():
        page = style.new_figure(WIDTH, 0.95 + top + (0.53 + foot + lower if lower else 0.3))
        _heading(page, fields)
        base = page.get_size_inches()[1] - 0.85 - top
        _draw_snapshots(page, fields, records, series, (small, top, base))
        left = MARGIN + 0.1
        if maxima is not None:
            axes = map_axes(page, (MARGIN, foot + lower - large[1], *large), mesh_of(maxima))
            images = draw_maximum(axes, maxima, series)
            axes.set_title(heading_of(maxima))
            bars_right_of(axes, images)
            left = MARGIN + large[0] + 1.6
        if shown and gauges is not None:
            _draw_gauges(page, shown, observations, start_of(gauges), (left, lower, foot))
            more = "all" if len(series) <= MOST_ALONE else "more"
            style.name_others(page, others, left, f" (--kind gauges shows {more})")
    return page


def _map_size(mesh, gauges):
    """(width, height) of the map of maxima: half the page or, with many gauges, more; the whole page without gauges."""
    if gauges == 0:
        width, height = WIDTH - MARGIN - 0.95, 7.5
    else:
        width, height = 6.2, np.clip(LEAST_PER_GAUGE * gauges, 4.9, 6.2)
    return min(width, height / mesh.shape), min(height, width * mesh.shape)


def _records(fields, times):
    if "eta" not in fields or "time" not in fields["eta"].dims:
        raise PlotError("tsunami: the fields' file has no eta over time; write eta, or choose another kind of figure.")
    have = seconds(fields)
    if times is None:
        start = have[first_moving(fields, mesh_of(fields), "eta")]
        times = [start + (have[-1] - start) * part for part in (0.125, 0.25, 0.5, 1.0)]
    if len(times) > 4:
        raise PlotError(f"tsunami: {len(times)} times were given, and the page shows 4; choose among them.")
    return nearest(fields, times)


def _heading(page, fields):
    height = page.get_size_inches()[1]
    style.heading(page, fields.attrs.get("title", ""), MARGIN, right=2.6)
    start = start_of(fields)
    if start is not None:
        page.text(
            1 - 0.3 / WIDTH,
            1 - 0.33 / height,
            f"T = {start:%Y-%m-%d %H:%M:%S} UTC",
            fontsize=9.5,
            ha="right",
            va="center",
            color=style.GREY,
        )


def _draw_snapshots(page, fields, records, series, place):
    small, top, base = place
    mesh = mesh_of(fields)
    maps = [drawable(fields, mesh, "eta", k) for k in records]
    norm, colormap = field_norm(fields["eta"], np.stack(maps))
    for n, (k, values) in enumerate(zip(records, maps)):
        axes = map_axes(page, (MARGIN + n * (small + 0.42), base, small, top), mesh)
        image = draw_field(axes, mesh, values, norm, colormap)
        draw_surroundings(axes, fields)
        draw_gauges(axes, mesh, series, names=False)
        axes.set_title(stamp(float(seconds(fields)[k]), start_of(fields), float(seconds(fields)[-1])))
        keep_outer_labels(axes, n == 0, True)
    colorbar_right_of(axes, image, label(fields["eta"]))


def _draw_gauges(page, series, observations, start, place):
    left, lower, foot = place
    height = page.get_size_inches()[1]
    each = lower / len(series)
    span = series[0].time[0], series[0].time[-1]
    for n, gauge in enumerate(series):
        bottom = foot + lower - (n + 1) * each + (0.0 if n == len(series) - 1 else 0.12)
        tall = each - 0.32 - (0.12 if n < len(series) - 1 else 0.0) * 0.5
        axes = page.add_axes((left / WIDTH, bottom / height, (WIDTH - left - 0.3) / WIDTH, tall / height))
        draw_series(axes, gauge, observations.get(gauge.name), span)
        if n < len(series) - 1:
            axes.set_xticklabels([])
        else:
            axes.set_xlabel(f"{time_unit(span[1])[1]} after {'T' if start else 'the start'}", loc="left")
            draw_legend(axes, bool(observations), gauge.rules)
        axes.set_ylabel("[m]")
