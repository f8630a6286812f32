"""Figures of a whole run on one page.

tsunami      the wave at four times, the maximum elevation, and the series of the gauges
circulation  elevation, streamfunction, speed with arrows, and their history
"""

from collections.abc import Sequence

import numpy as np
import xarray as xr
from matplotlib.colors import Normalize
from matplotlib.figure import Figure

from ..errors import PlotError
from . import maps, style
from .budgets import budgets, gyre_transport, streamfunction_on_edges, time_axis
from .cgrid import at_centres, surface
from .files import has_blocks, label, mesh_of, nearest, scaled, seconds, snapshot, stamp, start_of, wet_cells
from .gauges import MOST_GAUGES as MOST_ALONE
from .gauges import draw_legend, draw_series, read_gauges, time_unit
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
        start = start_of(fields)
        when = "" if start is None else f"T = {start:%Y-%m-%d %H:%M:%S} UTC"
        style.heading(page, fields.attrs.get("title", ""), MARGIN, 2.6, when)
        base = page.get_size_inches()[1] - 0.85 - top
        _draw_snapshots(page, fields, records, series, (small, top, base))
        left = MARGIN + 0.1
        if maxima is not None:
            axes = maps.map_axes(page, (MARGIN, foot + lower - large[1], *large), mesh_of(maxima))
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
        start = have[maps.first_moving(fields, mesh_of(fields), "eta")]
        times = [start + (have[-1] - start) * part for part in (0.125, 0.25, 0.5, 1.0)]
    if len(times) > 4:
        raise PlotError(f"tsunami: {len(times)} times were given, and the page shows 4; choose among them.")
    return nearest(fields, times)


def _draw_snapshots(page, fields, records, series, place):
    small, top, base = place
    mesh = mesh_of(fields)
    levels = [maps.drawable(fields, mesh, "eta", k) for k in records]
    norm, colormap = maps.field_norm(fields["eta"], np.stack(levels))
    for n, (k, values) in enumerate(zip(records, levels)):
        axes = maps.map_axes(page, (MARGIN + n * (small + 0.42), base, small, top), mesh)
        image = maps.draw_field(axes, mesh, values, norm, colormap)
        maps.draw_surroundings(axes, fields)
        maps.draw_gauges(axes, mesh, series, names=False)
        axes.set_title(stamp(float(seconds(fields)[k]), start_of(fields), float(seconds(fields)[-1])))
        maps.keep_outer_labels(axes, n == 0, True)
    maps.colorbar_right_of(axes, image, label(fields["eta"]))


def _draw_gauges(page, series, observations, start, place):
    left, lower, foot = place
    each = lower / len(series)
    span = series[0].time[0], series[0].time[-1]
    for n, gauge in enumerate(series):
        bottom = foot + lower - (n + 1) * each + (0.0 if n == len(series) - 1 else 0.12)
        tall = each - 0.32 - (0.12 if n < len(series) - 1 else 0.0) * 0.5
        axes = style.axes_at(page, left, bottom, WIDTH - left - 0.3, tall)
        draw_series(axes, gauge, observations.get(gauge.name), span)
        if n < len(series) - 1:
            axes.set_xticklabels([])
        else:
            axes.set_xlabel(f"{time_unit(span[1])[1]} after {'T' if start else 'the start'}", loc="left")
            draw_legend(axes, bool(observations), gauge.rules)
        axes.set_ylabel("[m]")


PANEL = 3.65


def circulation(dataset: xr.Dataset, times: Sequence[float] | None = None) -> Figure:
    """A figure of the flow at one time, and of energy and transport over all of them.

    Args:
        dataset: a file with eta, u, v, and depth for the streamfunction.
        times: [the time] in seconds; the last record without it.

    Raises:
        PlotError: if eta, u or v is missing.
    """
    missing = [name for name in ("eta", "u", "v") if name not in dataset]
    if missing:
        raise PlotError(f"circulation: the file lacks {', '.join(missing)}; write eta, u and v of the run.")
    mesh = mesh_of(dataset)
    if times is not None and len(times) != 1:
        raise PlotError(f"circulation: {len(times)} times were given, and it shows one; choose among them.")
    record = len(seconds(dataset)) - 1 if times is None else nearest(dataset, times)[0]
    tall = float(np.clip(PANEL * mesh.shape, 1.5, 5.0))
    has_fluxes = ("thickness" in dataset or "depth" in dataset) and not has_blocks(dataset)
    history = dataset.sizes["time"] > 2 and has_fluxes
    low = 2.75 if history else 0.55
    with style.applied():
        page = style.new_figure(WIDTH, tall + low + 1.75)
        when = stamp(float(seconds(dataset)[record]), start_of(dataset), float(seconds(dataset)[-1]))
        style.heading(page, dataset.attrs.get("title", ""), right=1.6, note=when)
        panels = (_elevation, _streamfunction, _speed) if has_fluxes else (_elevation, _speed)
        for n, draw in enumerate(panels):
            left = 0.6 + n * (PANEL + 0.6)
            axes = maps.map_axes(page, (left, low + 1.0, PANEL, tall), mesh)
            title, image, text, extend, ticks = draw(axes, dataset, mesh, record)
            maps.draw_base(axes, mesh, wet_cells(dataset))
            axes.xaxis.set_tick_params(pad=2)
            axes.xaxis.labelpad = 1
            if n:
                axes.set_ylabel("")
            axes.set_title(title)
            bar = maps.add_colorbar(page, (left + 0.1 * PANEL, low + 0.22, 0.8 * PANEL, 0.12), image, text, extend)
            if len(ticks):
                bar.set_ticks(ticks, labels=[f"{value:g}" for value in ticks])
        if history:
            _history(page, dataset, record)
    return page


def _elevation(axes, dataset, mesh, record):
    """(title, image, label of the colour bar, its ends, its ticks if they are not matplotlib's) of a panel."""
    values = snapshot(dataset, "eta", record)
    image = maps.draw_field(axes, mesh, values, *maps.field_norm(dataset["eta"], values))
    return surface(dataset), image, label(dataset["eta"]), "both", ()


def _streamfunction(axes, dataset, mesh, record):
    """As `_elevation`."""
    sverdrups = 1e-6 * streamfunction_on_edges(dataset, record)
    high = max(float(np.abs(sverdrups).max()), 1e-12)
    power = 10.0 ** np.floor(np.log10(high / 9))
    step = power * next(m for m in (1, 1.5, 2, 2.5, 3, 4, 5, 6, 8, 10) if m * power >= high / 9 * (1 - 1e-9))
    levels = (np.arange(-10, 10) + 0.5) * step  # none of them is zero: land would be a line
    levels = levels[np.abs(levels) < high + step]
    x, y = mesh.x_edges * mesh.scale, mesh.y_edges * mesh.scale
    filled = axes.contourf(x, y, sverdrups, levels, cmap=style.colormap("curl"), zorder=0.5)
    axes.contour(x, y, sverdrups, levels, colors=style.BLACK, linewidths=0.45, alpha=0.6, zorder=0.6)
    axes.set_aspect(mesh.aspect)
    ticks = np.arange(-8, 9, 4 if high > 6 * step else 2) * step
    ticks = ticks[np.abs(ticks) <= levels[-1]]
    return f"Transport streamfunction, largest {high:.3g} Sv", filled, "Streamfunction [Sv]", "neither", ticks


def _speed(axes, dataset, mesh, record):
    """As `_elevation`."""
    wet = wet_cells(dataset)
    u, v = (np.where(wet, at_centres(dataset, mesh, name, record), np.nan) for name in "uv")
    speed = np.hypot(u, v)
    norm = Normalize(0.0, style.limits(speed, 99.7)[1])
    image = maps.draw_field(axes, mesh, speed, norm, style.colormap("speed"))
    _arrows(axes, mesh, u, v)
    return "Speed and direction", image, "Speed [m s⁻¹]", "max", ()


def _arrows(axes, mesh, u, v, across=24):
    """Arrows on a coarser grid; their lengths grow with the root of the speed, so that weak flow is visible too."""
    every = max(1, round(mesh.x.size / across))
    rows, columns = (slice(every // 2, None, every),) * 2
    u, v = u[rows, columns], v[rows, columns]
    speed = np.hypot(u, v)
    fastest = np.nanmax(speed) if np.isfinite(speed).any() else 0.0
    if not fastest > 0:
        return
    shrink = 1 / np.sqrt(np.maximum(speed, 1e-4 * fastest) * fastest)
    shown = speed > 0.003 * fastest
    u, v = (np.where(shown, a * shrink, np.nan) for a in (u, v))
    (x, y), head = mesh.centres, {"width": 0.0035, "headwidth": 3.6, "headlength": 4.2}
    look = {"color": style.BLACK, "alpha": 0.85, "pivot": "mid", "zorder": 1.6}
    axes.quiver(x[columns], y[rows], u, v, scale=0.75 * across, **head, **look)


def _history(page, dataset, record):
    thin = -(-dataset.sizes["time"] // 150)  # enough for the curves, whatever the length of the run
    some = dataset.isel(time=slice(None, None, thin))
    sums, transport = budgets(some), gyre_transport(some)
    record = min(round(record / thin), some.sizes["time"] - 1)
    time, unit = time_axis(sums["time"].values)
    half = (WIDTH - 0.6 - 0.35 - 0.85) / 2
    curves = (
        (sums["kinetic_energy"].values, "Kinetic energy", "J", style.BLUE),
        (1e-6 * transport.values, "Largest |streamfunction|", "Sv", style.VERMILLION),
    )
    for n, (values, title, units, colour) in enumerate(curves):
        axes = style.axes_at(page, 0.7 + n * (half + 0.85), 0.55, half, 1.45)
        values, units = scaled(values, units)
        axes.plot(time, values, color=colour, linewidth=1.6)
        axes.plot(time[record], values[record], "o", color=colour, markersize=5, clip_on=False)
        axes.set_title(f"{title} [{units}]")
        axes.set_xlabel(f"Time [{unit}]")
        axes.set_xlim(time[0], time[-1])
        axes.set_ylim(min(0, values.min()), 1.08 * max(values.max(), 1e-30))
        axes.grid(axis="both")
