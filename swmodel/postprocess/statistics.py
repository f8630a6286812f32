"""One page of the fields that a run accumulates, such as means or harmonic constants."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.colors import Normalize
from matplotlib.figure import Figure

from ..errors import PlotError
from . import style
from .cgrid import around
from .files import Mesh, mesh_of, positions, snapshot, wet_cells
from .inundation import film_of, ground, inundation, may_flood
from .maps import (
    draw_field,
    draw_gauges,
    draw_surroundings,
    drawable,
    field_norm,
    in_time_units,
    keep_outer_labels,
    map_axes,
)
from .maxima import bars_right_of, draw_maximum

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
    return list(dict.fromkeys(_panel_of(dataset, name) for name in names))


def _panel_of(dataset, name):
    """The panel that shows a variable: that of the currents for the amplitudes of both velocity components."""
    of, _, wave = name.partition(AMPLITUDE)
    both = all(f"{component}{part}{wave}" in dataset for component in "uv" for part in (AMPLITUDE, PHASE))
    return f"{CURRENTS}{wave}" if of in ("u", "v") and both else name


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
            axes = map_axes(page, box, mesh)
            _draw(axes, dataset, mesh, name, gauges)
            keep_outer_labels(axes, column == 0, n + columns >= len(shown))
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
    values = drawable(dataset, mesh, name, None)
    if may_flood(dataset) and values.shape == (mesh.y.size, mesh.x.size):
        values = np.where(_has_water(dataset, name), values, np.nan)
    (values,), text = in_time_units([values], dataset[name])
    text, _, units = text.rpartition(" [") if text.endswith("]") else (text, "", "1]")
    image = draw_field(axes, mesh, values, *field_norm(dataset[name], values))
    draw_surroundings(axes, dataset)
    if AMPLITUDE in name:
        of, _, wave = name.partition(AMPLITUDE)
        with_lags = name.replace(AMPLITUDE, PHASE) in dataset and values.shape == (mesh.y.size, mesh.x.size)
        if with_lags:
            lags = snapshot(dataset, name.replace(AMPLITUDE, PHASE))
            draw_phases(axes, mesh.x * mesh.scale, mesh.y * mesh.scale, lags)
        axes.set_title(f"Amplitude of {wave} in {of}" + (", and phase lags every 30° (thick: 0°)" if with_lags else ""))
    else:
        axes.set_title(text if len(text) < LONG else name.replace("_", " ").capitalize())
    draw_gauges(axes, mesh, gauges)
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
    image = draw_field(axes, mesh, speed, Normalize(0.0, style.limits(speed)[1]), style.colormap("speed"))
    draw_surroundings(axes, dataset)
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
    draw_gauges(axes, mesh, gauges)
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
