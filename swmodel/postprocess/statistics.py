"""Pages of the fields that a run accumulates, such as means or harmonic constants, of drifters and of ensembles.

Drifters have their tracks on a map, with the land of a file of fields where there is one. Ensembles have the mean of
the members, their spread about it, and the band of all members at gauges. The spread is the standard deviation of the
members, with n - 1 in the denominator.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.colors import Normalize
from matplotlib.figure import Figure

from ..errors import PlotError
from . import maps, style
from .cgrid import around
from .files import Mesh, label, mesh_of, nearest, positions, pretty, seconds, snapshot, stamp, start_of, wet_cells
from .inundation import film_of, ground, inundation, may_flood
from .maxima import bars_right_of, draw_maximum
from .scores import time_unit
from .series import gauge_names

MOST = 9  # panels of a page
ALONE = ("wet", "mask", "depth", "area")  # fields of the grid
OF_LAND = ("maximum_thickness",)  # drawn with the maximum elevation, as the flow depth
LONG = 50  # letters, from which on a title is the name in place of the description
AMPLITUDE, PHASE, CURRENTS = "_amplitude_", "_phase_", "currents_"
ELLIPSES, STRONG = 16, 90  # along the longer side of a map; the percentile of speeds with the largest ellipses


def names_of(dataset: xr.Dataset) -> list[str]:
    """The variables that have a panel: fields without time, less those of the grid and those drawn with another."""
    names = [str(n) for n, v in dataset.data_vars.items() if positions(v) and "time" not in v.dims and n not in ALONE]
    drawn_with = [
        *(OF_LAND if may_flood(dataset) else ()),
        *(n.replace(AMPLITUDE, PHASE) for n in names if AMPLITUDE in n),
    ]
    names = sorted((name for name in names if name not in drawn_with), key=lambda name: "_mean" in name)
    for k, name in enumerate(names):  # the amplitudes of both velocity components are on the panel of the currents
        of, _, wave = name.partition(AMPLITUDE)
        both = all(f"{component}{part}{wave}" in dataset for component in "uv" for part in (AMPLITUDE, PHASE))
        names[k] = f"{CURRENTS}{wave}" if of in ("u", "v") and both else name
    return list(dict.fromkeys(names))


def figure(dataset: xr.Dataset, variable: str | None = None, gauges: Sequence = ()) -> Figure:
    """A map of each field of a file of means, harmonic constants and the like, or of `variable` alone.

    Phase lags at centres are lines on the map of their amplitude, every 30 degrees and thick at 0. Of the harmonic
    constants of both velocity components there is one map, with the ellipses of the tidal current.

    Raises:
        PlotError: for a variable that the file does not have.
    """
    if variable is not None and (variable not in dataset or not positions(dataset[variable])):
        raise PlotError(f"plot: the file has no field {variable!r}; it has {', '.join(names_of(dataset))}.")
    names = names_of(dataset) if variable is None else [variable]
    shown, others = names[:MOST], names[MOST:]
    mesh = mesh_of(dataset)
    columns = min(len(shown), 2 if len(shown) <= 4 else 3)
    rows = -(-len(shown) // columns)
    width = 6.0 if columns == 1 else 4.4
    height = min(width * mesh.shape, 6.0)
    with style.applied():
        page = style.titled_figure(columns * (width + 1.35) + 0.55, rows * (height + 0.55) + 0.5, dataset)
        for n, name in enumerate(shown):
            row, column = divmod(n, columns)
            box = (0.65 + column * (width + 1.35), 0.55 + (rows - 1 - row) * (height + 0.55), width, height)
            axes = maps.map_axes(page, box, mesh)
            _draw(axes, dataset, mesh, name, gauges)
            maps.keep_outer_labels(axes, column == 0, n + columns >= len(shown))
        style.name_others(page, others, 0.65, " (--variable shows one)")
    return page


def _draw(axes: Axes, dataset: xr.Dataset, mesh: Mesh, name: str, gauges: Sequence) -> None:
    if name == "maximum_elevation":
        images = draw_maximum(axes, dataset, gauges)
        bars_right_of(axes, images)
        axes.set_title("Maximum elevation, and flow depth on land" if len(images) == 2 else "Maximum elevation")
        return
    if name.startswith(CURRENTS) and name not in dataset:
        _draw_currents(axes, dataset, mesh, name.removeprefix(CURRENTS), gauges)
        return
    values = maps.drawable(dataset, mesh, name, None)
    if may_flood(dataset) and values.shape == (mesh.y.size, mesh.x.size):
        values = np.where(_has_water(dataset, name), values, np.nan)
    (values,), text = maps.in_time_units([values], dataset[name])
    text, _, units = text.rpartition(" [") if text.endswith("]") else (text, "", "1]")
    image = maps.draw_field(axes, mesh, values, *maps.field_norm(dataset[name], values))
    maps.draw_surroundings(axes, dataset)
    if AMPLITUDE in name:
        of, _, wave = name.partition(AMPLITUDE)
        with_lags = name.replace(AMPLITUDE, PHASE) in dataset and values.shape == (mesh.y.size, mesh.x.size)
        if with_lags:
            lags = snapshot(dataset, name.replace(AMPLITUDE, PHASE))
            draw_phases(axes, *mesh.centres, lags)
        axes.set_title(f"Amplitude of {wave} in {of}" + (", and phase lags every 30° (thick: 0°)" if with_lags else ""))
    else:
        axes.set_title(text if len(text) < LONG else name.replace("_", " ").capitalize())
    maps.draw_gauges(axes, mesh, gauges)
    bars_right_of(axes, [(image, f"[{units}")])


def _draw_currents(axes, dataset, mesh, wave, gauges):
    """The largest speed of a constituent's current, with the ellipses that its tip runs through.

    An ellipse fills its place from the STRONG percentile on, so that a few narrow straits do not shrink all others.
    """
    parts = []
    for component, axis, periodic in (("u", -1, mesh.periodic_x), ("v", -2, mesh.periodic_y)):
        size, lag = (snapshot(dataset, f"{component}{part}{wave}") for part in (AMPLITUDE, PHASE))
        on_faces = np.nan_to_num(size * np.exp(-1j * np.deg2rad(lag)))
        parts.append(0.5 * np.add(*around(on_faces, axis, periodic)))
    u, v = parts
    speed = 0.5 * (np.abs(u + 1j * v) + np.abs(u - 1j * v))
    speed = np.where(wet_cells(dataset), speed, np.nan)
    image = maps.draw_field(axes, mesh, speed, Normalize(0.0, style.limits(speed)[1]), style.colormap("speed"))
    maps.draw_surroundings(axes, dataset)
    every = max(1, -(-max(speed.shape) // ELLIPSES))
    turn = np.exp(2j * np.pi * np.linspace(0.0, 1.0, 41))
    shown = speed[every // 2 :: every, every // 2 :: every]
    strong = float(np.nanpercentile(shown, STRONG)) if np.nanmax(shown, initial=0.0) > 0 else 1.0
    for j in range(every // 2, speed.shape[0], every):
        for i in range(every // 2, speed.shape[1], every):
            if speed[j, i] > 0.02 * strong:
                half = 0.48 * every * mesh.scale / max(speed[j, i], strong)
                x = mesh.x[i] * mesh.scale + half * mesh.width * (u[j, i] * turn).real
                y = mesh.y[j] * mesh.scale + half * mesh.height * (v[j, i] * turn).real
                colour = style.VERMILLION if (u[j, i].conjugate() * v[j, i]).imag < 0 else style.BLUE
                axes.plot(x, y, color=colour, linewidth=0.9, zorder=4)
    axes.set_title(f"Currents of {wave}, red: anticlockwise, blue: clockwise")
    maps.draw_gauges(axes, mesh, gauges)
    bars_right_of(axes, [(image, "Largest speed [m s⁻¹]")])


def _has_water(dataset, name):
    """Whether a cell was ever wet and, for the lowest level, never dry land; of means whether their water is a film."""
    if "maximum_elevation" in dataset:
        flood = inundation(dataset)
        return flood.wet & ~(flood.land & (name == "minimum_elevation"))
    level = next((one for one in ("mean_eta", "eta_mean") if one in dataset), None)
    return level is None or snapshot(dataset, level) - ground(dataset) > film_of(dataset)


def draw_phases(axes: Axes, x: np.ndarray, y: np.ndarray, lags: np.ndarray, colour: str = style.BLACK) -> None:
    """Lines of equal phase lag (y, x) [degrees], every 30 degrees and thick at 0, with numbers that do not overlap."""
    if min(lags.shape) < 2:
        return
    numbers: list[Any] = []
    for level in range(0, 360, 30):  # each is the zero of a sine, so that there is no front at 360 degrees
        turned = np.sin(np.deg2rad(lags - level))
        turned[np.cos(np.deg2rad(lags - level)) < 0] = np.nan
        if np.nanmin(turned, initial=0.0) < 0 < np.nanmax(turned, initial=0.0):
            wide = 1.1 if level == 0 else 0.4
            lines = axes.contour(x, y, turned, [0.0], colors=colour, linewidths=wide, zorder=4)
            form = f"{level}°"
            for text in axes.clabel(
                lines, fmt=lambda _, form=form: form, fontsize=6.5, inline=False, colors=style.BLACK
            ):
                text.set_path_effects(style.HALO)
                if any(text.get_window_extent().padded(2).overlaps(other.get_window_extent()) for other in numbers):
                    text.remove()  # lines meet at amphidromes
                else:
                    numbers.append(text)


TRACKS_WIDTH, HIGHEST = 7.0, 8.0  # of the map [inches]
MOST_LINES = 2000  # drifters, of which more would hide one another


def drifter_tracks(dataset: xr.Dataset, fields: xr.Dataset | None = None) -> Figure:
    """A map of the tracks, coloured by time: dots where drifters are released, rings where they are last.

    Args:
        dataset: a file of drifters, as `open_output` gives it.
        fields: a file of fields of the run, whose land and isobaths are drawn.
    """
    mesh = mesh_of(dataset if fields is None else fields)
    height = min(TRACKS_WIDTH * mesh.shape, HIGHEST)
    with style.applied():
        page = style.titled_figure(TRACKS_WIDTH + 1.9, height + 1.0, dataset)
        axes = maps.map_axes(page, (0.65, 0.5, TRACKS_WIDTH, height), mesh)
        lines, unit = _draw_tracks(axes, dataset, mesh)
        if fields is None:
            maps.draw_base(axes, mesh, np.ones((mesh.y.size, mesh.x.size), bool))
        else:
            maps.draw_surroundings(axes, fields)
        axes.set_aspect(mesh.aspect)
        count, shown = dataset.sizes["trajectory"], min(dataset.sizes["trajectory"], MOST_LINES)
        axes.set_title(f"{count} drifters" if shown == count else f"{shown} of {count} drifters")
        maps.colorbar_right_of(axes, lines, unit)
    return page


def _draw_tracks(axes: Axes, dataset: xr.Dataset, mesh: Mesh):
    """(the lines of all drifters, the label of their colours)."""
    few = slice(None, None, -(-dataset.sizes["trajectory"] // MOST_LINES))
    names = ("lon", "lat") if "lon" in dataset else ("x", "y")
    x, y = (dataset[name].values[few] * mesh.scale for name in names)
    times = seconds(dataset)
    symbol, _, length = time_unit(times[-1])
    west, east, south, north = mesh.frame
    jumps = (abs(np.diff(x)) > 0.5 * (east - west)) | (abs(np.diff(y)) > 0.5 * (north - south))  # across a seam
    parts = np.stack([np.stack([x[:, :-1], y[:, :-1]], -1), np.stack([x[:, 1:], y[:, 1:]], -1)], -2)
    drawn = np.isfinite(parts).all((-1, -2)) & ~jumps
    middle = np.broadcast_to(0.5 * (times[1:] + times[:-1]) / length, drawn.shape)
    lines = LineCollection(list(parts[drawn]), cmap=style.colormap("thermal"), linewidths=1.1, zorder=4)
    lines.set_array(middle[drawn])
    lines.set_norm(Normalize(times[0] / length, max(times[-1], times[0] + 1e-9) / length))
    axes.add_collection(lines)
    there = np.isfinite(x)
    rows = np.flatnonzero(there.any(1))
    first, last = there.argmax(1)[rows], there.shape[1] - 1 - there[:, ::-1].argmax(1)[rows]
    axes.plot(x[rows, first], y[rows, first], "o", color=style.BLACK, markersize=2.6, linestyle="", zorder=5)
    ring = {"markerfacecolor": "none", "markeredgecolor": style.BLACK, "markeredgewidth": 0.8}
    axes.plot(x[rows, last], y[rows, last], "o", markersize=4.6, linestyle="", zorder=5, **ring)
    return lines, f"time [{symbol}]"


MEMBERS_WIDTH, MEMBERS_LEFT, MOST_GAUGES = 4.4, 0.65, 6  # [inches], and series on a page


def ensemble_page(
    fields: xr.Dataset | None = None,
    gauges: xr.Dataset | None = None,
    variable: str | None = None,
    times: Sequence[float] | None = None,
) -> Figure:
    """Maps of the mean and of the spread at one time, and series of gauges with the range of the members.

    Args:
        fields: a dataset with a dimension `member`, or None for no maps.
        gauges: the dataset of the gauges' series, or None for none.
        variable: that of the maps; eta unless given.
        times: [the time] of the maps [s]; the last record unless given.

    Raises:
        PlotError: for files of a single run, or more than one time.
    """
    if fields is None and gauges is None:
        raise PlotError("ensemble: it needs the members' fields or series; give a file of fields or of gauges.")
    for dataset in (fields, gauges):
        if dataset is not None and dataset.sizes.get("member", 1) < 2:
            raise PlotError("ensemble: the file has a single run and no spread; give a file of an ensemble.")
    if times is not None and len(times) != 1:
        raise PlotError(f"ensemble: {len(times)} times were given, and it shows one; choose among them.")
    names = [] if gauges is None else gauge_names(gauges)
    mesh = None if fields is None else mesh_of(fields.isel(member=0))
    height = 0.0 if mesh is None else min(MEMBERS_WIDTH * mesh.shape, 4.5)
    lower = 1.2 * min(len(names), MOST_GAUGES) + 0.5 if names else 0.0
    with style.applied():
        page = style.new_figure(2 * MEMBERS_WIDTH + 3.6, height + lower + (1.5 if height else 0.5))
        titles = [dataset.attrs.get("title", "") for dataset in (fields, gauges) if dataset is not None]
        style.heading(page, titles[0] if titles else "", MEMBERS_LEFT)
        if fields is not None and mesh is not None:
            _draw_maps(page, fields, mesh, variable or "eta", times, (height, lower + 0.65))
        if gauges is not None and names:
            _draw_series(page, gauges, names, lower)
    return page


def _draw_maps(page, dataset, mesh, name, times, place):
    if name not in dataset:
        raise PlotError(f"ensemble: the file has no {name!r}; it has {', '.join(dataset.data_vars)}.")
    height, bottom = place
    record = len(seconds(dataset)) - 1 if times is None else nearest(dataset, times)[0]
    array = dataset[name].isel(time=record)
    about, members = array.attrs, dataset.sizes["member"]
    mean = array.mean("member", keep_attrs=True)
    spread = array.std("member", ddof=1).assign_attrs(about)
    together = dataset.isel(member=0).assign({"mean": mean, "spread": spread})
    low, high = maps.drawable(together, mesh, "mean", None), maps.drawable(together, mesh, "spread", None)
    largest = float(np.nanmax(high, initial=0.0)) or 1.0
    shown = (
        (f"mean of {members} members", low, *maps.field_norm(dataset[name], low)),
        ("spread", high, Normalize(0.0, largest), style.colormap("amp")),
    )
    when = stamp(seconds(dataset)[record], start_of(dataset), seconds(dataset)[-1])
    for column, (title, values, norm, colours) in enumerate(shown):
        left = MEMBERS_LEFT + column * (MEMBERS_WIDTH + 1.45)
        axes = maps.map_axes(page, (left, bottom, MEMBERS_WIDTH, height), mesh)
        image = maps.draw_field(axes, mesh, values, norm, colours)
        maps.draw_base(axes, mesh, wet_cells(together), maps.sea_floor(together))
        maps.keep_outer_labels(axes, column == 0, True)
        axes.set_title(f"{title}, {when}" if column == 0 else title)
        maps.colorbar_right_of(axes, image, label(dataset[name]), extend="both" if column == 0 else "neither")


def _draw_series(page, dataset, names, lower):
    """The mean, the standard deviation about it and all members, of each gauge."""
    width, time = page.get_size_inches()[0] - MEMBERS_LEFT - 0.3, seconds(dataset)
    _, unit, length = time_unit(time[-1])
    name = next(k for k, v in dataset.data_vars.items() if {"time", "gauge", "member"} <= set(v.dims))
    for n, gauge in enumerate(names[:MOST_GAUGES]):
        values = dataset[name].isel(gauge=n).transpose("member", "time").values
        mean, spread = values.mean(axis=0), values.std(axis=0, ddof=1)
        axes = style.axes_at(page, MEMBERS_LEFT, lower - 0.95 - 1.2 * n, width, 0.8)
        axes.plot(time / length, values.T, color=style.GREY, linewidth=0.5, alpha=0.5)
        axes.fill_between(time / length, mean - spread, mean + spread, color=style.BLUE, alpha=0.3, linewidth=0)
        axes.plot(time / length, mean, color=style.BLUE, linewidth=1.5)
        axes.set(xlim=(time[0] / length, time[-1] / length), title=gauge)
        axes.tick_params(labelbottom=n == min(len(names), MOST_GAUGES) - 1)
        axes.set_ylabel(f"[{pretty(dataset[name].attrs.get('units', ''))}]")
    left_out = f"; not shown: {style.few(names[MOST_GAUGES:])}" if len(names) > MOST_GAUGES else ""
    axes.set_xlabel(f"{unit} after the start; thin: members, band: mean ± spread{left_out}", loc="left")
