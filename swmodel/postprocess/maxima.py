"""The map of a maxima file: highest elevation at sea, flow depth on flooded land, and isochrones of the arrival."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.colors import LogNorm, Normalize
from matplotlib.figure import Figure

from . import style
from .files import Mesh, driving, label, mesh_of, snapshot, wet_cells
from .inundation import Inundation, inundation, may_flood
from .maps import colorbar_right_of, draw_base, draw_field, draw_gauges, draw_surroundings, map_axes
from .style import SHORE, draw_lines

ON_LAND, AT_SEA = "Flow depth on land [m]", "Maximum elevation at sea [m]"
BRIEF = {ON_LAND: "On land [m]", AT_SEA: "At sea [m]"}
_SECONDS, _MINUTES = (0.5, 1.0, 2.0, 5.0, 10.0, 30.0), (60.0, 120.0, 300.0, 600.0, 1800.0)
ISOCHRONES = (*_SECONDS, *_MINUTES, 3600.0, 7200.0, 10800.0, 21600.0, 43200.0, 86400.0)  # [s]


def heading_of(dataset: xr.Dataset) -> str:
    """The title of the map of a file: what it shows, and what its isochrones are."""
    what = "Maximum elevation" + (" and flow depth" if may_flood(dataset) else "")
    if not _has_arrivals(dataset):
        return what
    threshold = dataset.attrs.get("arrival_threshold")
    event = "first arrival" if threshold is None else f"first |η| > {threshold}"
    every = _isochrone_interval(snapshot(dataset, "arrival_time"))
    return f"{what}; lines: {event}, {'s' if every < 60 else 'h:mm'} after the start"


def _has_arrivals(dataset):
    """Whether a file has times of arrival of a wave. Tides and surges rise at different times side by side."""
    return "arrival_time" in dataset and not driving(dataset)[0]


def _isochrone_interval(arrival) -> float:
    """The time [s] between isochrones, a dozen of them at most, whatever the run's length."""
    if not np.isfinite(arrival).any():
        return ISOCHRONES[-1]
    span = float(np.nanmax(arrival) - max(np.nanmin(arrival), 0.0))
    return next((every for every in ISOCHRONES if span <= 12 * every), 86400.0 * float(np.ceil(span / (12 * 86400.0))))


def draw_arrivals(axes: Axes, mesh: Mesh, arrival: np.ndarray) -> None:
    """Isochrones of `arrival` [s]; the longest travel time determines the time between them.

    Labels are h:mm, or seconds where isochrones are less than a minute apart.
    """
    if not np.isfinite(arrival).any() or min(arrival.shape) < 2:
        return
    every = _isochrone_interval(arrival)
    levels = np.arange(every, np.nanmax(arrival) + min(1.0, every), every)
    levels = levels[levels > np.nanmin(arrival)]
    if levels.size == 0:
        return
    look = {"colors": style.BLACK, "linewidths": 0.8, "alpha": 0.85, "zorder": 4}
    lines = axes.contour(*mesh.centres, np.ma.masked_invalid(arrival), levels, **look)
    clock = lambda time: f"{time:g}" if every < 60 else f"{int(time) // 3600}:{int(time) % 3600 // 60:02d}"  # noqa: E731
    texts = axes.clabel(lines, fmt=clock, fontsize=7.5, inline_spacing=3)
    for text in texts:
        if _is_at_sea(mesh, arrival, text.get_position()):
            text.set_path_effects(style.HALO)
        else:
            text.remove()


def _is_at_sea(mesh, arrival, point):
    """Whether the wave reached nearly all cells around a label; labels along coasts would overlap."""
    column, row = (int(np.abs(line - at).argmin()) for line, at in zip(mesh.centres, point))
    reach = max(1, round(0.02 * max(arrival.shape)))
    near = arrival[max(0, row - reach) : row + reach + 1, max(0, column - reach) : column + reach + 1]
    return np.isfinite(near).mean() > 0.9


def draw_maximum(axes: Axes, dataset: xr.Dataset, gauges: Sequence = ()) -> Sequence[tuple[ScalarMappable, str]]:
    """The map of a file with maximum_elevation; returns its images with the labels of their colour bars.

    The maximum elevation has a logarithmic scale. Of a run whose shore moves it has a linear one and is that at sea;
    the map also has the flow depth on flooded land, shaded topography, the shoreline at rest, the inundation line
    and the place of the highest run-up.
    """
    mesh, wet = mesh_of(dataset), wet_cells(dataset)
    values = snapshot(dataset, "maximum_elevation")
    flood = inundation(dataset) if may_flood(dataset) else None
    wet = wet & np.isfinite(values)
    if flood is not None:
        wet = flood.wet & ~flood.land
    values = np.where(wet, values, np.nan)
    # values below the lower end have the lightest colour, so that calm water does not stand out
    high = style.limits(values[wet & (values > 0)], 99.9)[1]
    norm = LogNorm(high / 100, high) if flood is None else Normalize(0.0, high)
    image = draw_field(axes, mesh, np.where(wet, np.maximum(values, high / 1e4), np.nan), norm, style.colormap("amp"))
    images = [(image, label(dataset["maximum_elevation"]))]
    if flood is None:
        draw_base(axes, mesh, wet)
        draw_lines(axes, dataset, mesh)
    else:
        draw_surroundings(axes, dataset)
        images = [(_draw_flood(axes, flood), ON_LAND), (image, AT_SEA)]
    if _has_arrivals(dataset):
        arrival = snapshot(dataset, "arrival_time")
        draw_arrivals(axes, mesh, arrival if flood is None else np.where(wet, arrival, np.nan))
    draw_gauges(axes, mesh, gauges)
    return images


def _draw_flood(axes: Axes, flood: Inundation) -> ScalarMappable:
    mesh, depth, top = flood.mesh, flood.flow_depth, flood.run_up()
    high = style.limits(depth)[1] if flood.flooded.any() else 1.0
    image = draw_field(axes, mesh, depth, Normalize(0.0, high), style.colormap("deep"))
    for part in flood.line():
        axes.plot(*(part.T * mesh.scale), color=style.VERMILLION, linewidth=1.1, zorder=5)
    axes.plot([], [], color=SHORE, linewidth=0.8, label="shoreline at rest")
    axes.plot([], [], color=style.VERMILLION, linewidth=1.1, label="inundation line")
    if flood.flooded.any():
        place = top.x * mesh.scale, top.y * mesh.scale
        text = f"highest run-up: ground {top.height:.3g} m,\nwater {top.level:.3g} m"
        edge = {"markeredgecolor": style.BLACK, "markeredgewidth": 0.7}
        axes.plot(*place, "*", markersize=9, color=style.ORANGE, linestyle="", zorder=6, label=text, **edge)
    legend = axes.legend(
        loc=_wettest_corner(flood.land), fontsize=7.5, frameon=True, framealpha=0.85, edgecolor="none", borderpad=0.5
    )
    legend.set_zorder(8)
    return image


def _wettest_corner(land) -> Any:
    """The corner of the map with the least land, where a legend hides no flood."""
    rows, columns = (n // 2 or 1 for n in land.shape)
    corners = {
        "upper right": land[-rows:, -columns:],
        "upper left": land[-rows:, :columns],
        "lower left": land[:rows, :columns],
        "lower right": land[:rows, -columns:],
    }
    return min(corners, key=lambda corner: corners[corner].mean())


def bars_right_of(axes: Axes, images: Sequence[tuple[ScalarMappable, str]]) -> None:
    """The colour bars of the images, one above the other, along the right side of `axes`.

    Bars that are too short for their labels have those of BRIEF.
    """
    figure: Any = axes.get_figure(root=True)
    length = axes.get_position().height * figure.get_size_inches()[1] / len(images)
    for n, (image, text) in enumerate(images):
        text = BRIEF.get(text, text) if length < 0.07 * len(text) else text
        colorbar_right_of(axes, image, text, (1 - (n + 1) / len(images), 1 - n / len(images)))


def maximum(dataset: xr.Dataset, gauges: Sequence = ()) -> Figure:
    """A figure of the maximum elevation with isochrones of the first arrival, from a maxima file."""
    mesh = mesh_of(dataset)
    width = 6.5
    height = min(width * mesh.shape, 7.5)
    with style.applied():
        figure = style.titled_figure(width + 1.6, height + 1.0, dataset)
        axes = map_axes(figure, (0.6, 0.45, width, height), mesh)
        images = draw_maximum(axes, dataset, gauges)
        axes.set_title(heading_of(dataset))
        bars_right_of(axes, images)
    return figure
