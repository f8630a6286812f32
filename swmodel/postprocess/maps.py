"""Maps: a field at several times, with land, isobaths and gauges."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.colorbar import Colorbar
from matplotlib.colors import Colormap, LogNorm, Normalize
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, MultipleLocator, NullLocator

from . import style
from .cgrid import between
from .files import Mesh, label, mesh_of, nearest, positions, seconds, snapshot, stamp, start_of, wet_cells
from .inundation import ground, may_flood, under_water
from .scores import time_unit
from .style import draw_image, draw_lines, draw_relief, draw_shore, draw_storms, storms_of

_BOTH_SIGNS = ("eta", "u", "v", "uplift", "transport_x", "transport_y")
_SIGNED: dict[str, str] = {name: "balance" for name in _BOTH_SIGNS}
_SIGNED |= {name: "curl" for name in ("vorticity", "potential_vorticity", "divergence")}
_CORNERS = ((4, 2), (-4, 2), (4, -2), (-4, -2))  # of a dot, for its name [points]
MANY_NAMES, CROWDED = 12, 0.3
QUIET = 0.02


def drawable(dataset: xr.Dataset, mesh: Mesh, name: str, record: int | None) -> np.ndarray:
    """A record of a variable, with n + 1 faces in every direction that has faces: periodic ones begin with the last.

    NaN where a run whose shore moves has no water.
    """
    values = snapshot(dataset, name, record)
    along_y, along_x = positions(dataset[name]) or ("", "")
    if may_flood(dataset) and "eta" in dataset and set(dataset[name].dims) >= set(dataset["eta"].dims) - {"yh", "xh"}:
        water = under_water(dataset, record).astype(float)  # in a cell, or in one of those around a face or corner
        water = np.maximum(*between(water, -1, mesh.periodic_x)) if along_x == "xq" else water
        water = np.maximum(*between(water, -2, mesh.periodic_y)) if along_y == "yq" else water
        values = np.where(water > 0.5, values, np.nan)
    if along_x == "xq" and mesh.periodic_x:
        values = np.concatenate([values[:, -1:], values], axis=1)
    if along_y == "yq" and mesh.periodic_y:
        values = np.concatenate([values[-1:], values])
    return values


def draw_field(axes: Axes, mesh: Mesh, values: np.ndarray, norm: Normalize, colormap: Colormap) -> Any:
    """`values` as an image: (ny, nx) at centres, one more along a direction of faces. NaN stays empty."""
    west, east, south, north = mesh.frame
    rows, columns = values.shape
    half_x = 0.5 * mesh.width * mesh.scale if columns > mesh.x.size else 0.0
    half_y = 0.5 * mesh.height * mesh.scale if rows > mesh.y.size else 0.0
    extent = west - half_x, east + half_x, south - half_y, north + half_y
    return draw_image(axes, mesh, values, norm=norm, cmap=colormap, zorder=1, extent=extent)


def draw_surroundings(axes: Axes, dataset: xr.Dataset, shaded: bool = True) -> None:
    """`draw_base` of a file, with the lines and tracks of its experiment.

    Land that may be flooded is shaded, below the fields, unless `shaded` is false, with the shoreline at rest.
    """
    mesh, wet = mesh_of(dataset), wet_cells(dataset)
    if may_flood(dataset):
        heights = ground(dataset)
        if shaded:
            draw_relief(axes, mesh, heights)
        draw_shore(axes, mesh, heights)
    draw_base(axes, mesh, wet, sea_floor(dataset))
    draw_lines(axes, dataset, mesh)


def draw_base(axes: Axes, mesh: Mesh, wet: np.ndarray, depth: np.ndarray | None = None) -> None:
    """Land in shaded grey with its coast line, and, where `depth` [m] is given, faint isobaths."""
    if not wet.all():
        draw_image(axes, mesh, _land(wet), zorder=2)
        if wet.any() and min(wet.shape) > 1:
            axes.contour(*mesh.centres, wet.astype(float), [0.5], colors="#3a3a3a", linewidths=0.55, zorder=3)
    if depth is not None and np.isfinite(depth).any() and np.nanmax(depth) > 1.05 * np.nanmin(depth):
        # the shelf break, the ridges and the trenches, which refract long waves
        levels = [d for d in (200, 3000, 6500) if np.nanmin(depth) < d < np.nanmax(depth)]
        if levels:
            look = {"colors": style.BLACK, "alpha": 0.16, "linewidths": 0.45, "zorder": 1.5}
            axes.contour(*mesh.centres, depth, levels, **look)
    _label_axes(axes, mesh)


def _land(wet):
    """RGBA of land, darker along the coast, transparent over water."""
    from scipy.ndimage import distance_transform_edt

    distance: Any = distance_transform_edt(~wet)
    inland = distance / max(1.0, 0.012 * max(wet.shape))
    grey = 0.86 - 0.17 * np.exp(-inland)
    return np.dstack([grey, grey, grey * 0.99, ~wet])


def _label_axes(axes, mesh):
    west, east, south, north = mesh.frame
    axes.set_xlim(west, east)
    axes.set_ylim(south, north)
    height = axes.get_position().height * axes.get_figure(root=True).get_size_inches()[1]
    few = _ticks_in(height)
    for axis, span, most in ((axes.xaxis, east - west, 5), (axes.yaxis, north - south, few)):
        globe = mesh.spherical and span > 120
        axis.set_major_locator(
            MultipleLocator(90 if span > 240 else 30) if globe else MaxNLocator(most, steps=[1, 2, 3, 5, 10])
        )
    if mesh.spherical:
        axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: _longitude(value)))
        axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: _latitude(value)))
    else:
        axes.set_xlabel(f"x [{mesh.unit}]")
        axes.set_ylabel(f"y [{mesh.unit}]")


def _ticks_in(height):
    """The number of intervals between ticks along `height` [inches] for which labels do not overlap, at most 5."""
    return int(np.clip(height / 0.22, 1, 5))


def _longitude(value):
    value = (value + 180) % 360 - 180
    return f"{abs(value):g}°" + ("" if value in (0, -180) else "E" if value > 0 else "W")


def _latitude(value):
    return f"{abs(value):g}°" + ("" if value == 0 else "N" if value > 0 else "S")


def draw_gauges(axes: Axes, mesh: Mesh, gauges: Sequence, names: bool = True) -> None:
    """Gauges as white dots, with their names by default. `gauges` have name, x and y."""
    west, east, south, north = mesh.extent
    placed = []
    for gauge in gauges:
        x = mesh.turned(gauge.x)
        if west <= x <= east and south <= gauge.y <= north:
            placed.append((gauge.name, (x * mesh.scale, gauge.y * mesh.scale)))
    for _, point in placed:
        edge = {"markeredgecolor": style.BLACK, "markeredgewidth": 1.0}
        axes.plot(*point, "o", markersize=4.6, markerfacecolor="white", zorder=6, **edge)
    if names:
        _draw_names(axes, placed)


def _draw_names(axes, placed, size=7.5):
    """The names next to their dots, right and above if there is space, else at another corner.

    Of more than MANY_NAMES those that would hide more than CROWDED of themselves behind others are left out.
    """
    axes.apply_aspect()  # which otherwise cuts the frame later, when it is drawn
    points = [axes.transData.transform(point) * 72 / axes.figure.dpi for _, point in placed]
    frame = axes.get_window_extent().get_points().ravel() * 72 / axes.figure.dpi
    taken = [(x - 3, y - 3, x + 3, y + 3) for x, y in points]
    for (name, point), (x, y) in zip(placed, points):
        wide = 0.68 * size * len(name)
        boxes = [(x + dx - (wide if dx < 0 else 0), y + dy - (size if dy < 0 else 0)) for dx, dy in _CORNERS]
        boxes = [(left, low, left + wide, low + size) for left, low in boxes]
        outside = [wide * size - _overlap(box, frame) for box in boxes]  # which has the largest weight
        costs = [sum(_overlap(box, other) for other in taken) + 10 * out for box, out in zip(boxes, outside)]
        best = int(np.argmin(costs))
        if len(placed) > MANY_NAMES and costs[best] > CROWDED * wide * size:
            continue
        taken.append(boxes[best])
        dx, dy = _CORNERS[best]
        axes.annotate(
            name,
            point,
            xytext=(dx, dy),
            textcoords="offset points",
            ha="right" if dx < 0 else "left",
            va="top" if dy < 0 else "bottom",
            fontsize=size,
            fontweight="bold",
            zorder=7,
            path_effects=style.HALO,
        )


def _overlap(a, b):
    """The area that two boxes (left, low, right, high) share."""
    return max(0.0, min(a[2], b[2]) - max(a[0], b[0])) * max(0.0, min(a[3], b[3]) - max(a[1], b[1]))


def map_axes(figure: Figure, box: Sequence[float], mesh: Mesh) -> Axes:
    """Axes in the middle of `box` (left, bottom, width, height in inches), as large as the map's shape allows."""
    left, bottom, width, height = box
    drawn = min(width, height / mesh.shape), min(height, width * mesh.shape)
    axes = style.axes_at(figure, left + (width - drawn[0]) / 2, bottom + (height - drawn[1]) / 2, *drawn)
    axes.spines[:].set_visible(True)
    return axes


def colorbar_right_of(
    axes: Axes, image: ScalarMappable, text: str, part: tuple[float, float] = (0.0, 1.0), extend: str = "both"
) -> Colorbar:
    """A colour bar along the right side of `axes`, or along the `part` (low, high) of it."""
    figure: Any = axes.get_figure(root=True)
    w, h = figure.get_size_inches()
    box = axes.get_position()
    height = (part[1] - part[0]) * box.height * h
    margin = 0.03 * height / (part[1] - part[0]) ** 0.5
    place = (box.x1 * w + 0.13, (box.y0 + part[0] * box.height) * h + margin, 0.13, height - 2 * margin)
    return add_colorbar(figure, place, image, text, extend)


def add_colorbar(
    figure: Figure, box: Sequence[float], image: ScalarMappable, text: str, extend: str = "both"
) -> Colorbar:
    """A colour bar in `box` (left, bottom, width, height in inches); upright if it is taller than wide."""
    axes, upright = style.axes_at(figure, *box), box[3] > box[2]
    along: Any = "vertical" if upright else "horizontal"
    bar = figure.colorbar(image, cax=axes, orientation=along, extend=extend, extendfrac=0.03)
    bar.outline.set_linewidth(0.5)
    if isinstance(image.norm, LogNorm):
        long = bar.ax.yaxis if upright else bar.ax.xaxis
        long.set_minor_locator(NullLocator())
        long.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0), numticks=20))
        long.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    elif upright and _ticks_in(box[3]) < 5:
        bar.locator = MaxNLocator(_ticks_in(box[3]))
        bar.update_ticks()
    bar.set_label(text)
    return bar


def field_norm(array: xr.DataArray, values: np.ndarray) -> tuple[Normalize, Colormap]:
    """(norm, colour map) for `values` of a variable: diverging and symmetric if the variable can have both signs."""
    low, high = style.limits(values)
    if str(array.name) in _SIGNED or low < 0:
        high = max(abs(low), abs(high))
        return Normalize(-high, high), style.colormap(_SIGNED.get(str(array.name), "balance"))
    return Normalize(low, high), style.colormap("speed" if "speed" in str(array.name) else "dense")


def panels(
    dataset: xr.Dataset, variable: str = "eta", times: Sequence[float] | None = None, gauges: Sequence = ()
) -> Figure:
    """A figure with `variable` at several times, on one colour scale.

    Args:
        dataset: a file of fields, as `open_output` gives it.
        times: seconds since the start; without them six records to the last one, from the first that is not quiet.
        gauges: to mark, each with name, x and y.

    Raises:
        PlotError: for a variable or a time that the file does not have.
    """
    mesh = mesh_of(dataset)
    records, storms = _records(dataset, mesh, variable, times), storms_of(dataset)
    fields, name = in_time_units([drawable(dataset, mesh, variable, k) for k in records], dataset[variable])
    norm, colormap = field_norm(dataset[variable], np.stack(fields))
    columns = min(2 if len(fields) == 4 else 3, len(fields))
    rows = -(-len(fields) // columns)
    width = 3.4
    height = min(width * mesh.shape, 4.5)
    with style.applied():
        figure = style.titled_figure(columns * (width + 0.35) + 1.45, rows * (height + 0.5) + 0.4, dataset)
        for n, (k, values) in enumerate(zip(records, fields)):
            row, column = divmod(n, columns)
            box = (0.65 + column * (width + 0.35), 0.5 + (rows - 1 - row) * (height + 0.5), width, height)
            axes = map_axes(figure, box, mesh)
            image = draw_field(axes, mesh, values, norm, colormap)
            draw_surroundings(axes, dataset)
            draw_gauges(axes, mesh, gauges, names=n == 0)
            keep_outer_labels(axes, column == 0, n + columns >= len(fields))
            if k is not None:
                axes.set_title(stamp(seconds(dataset)[k], start_of(dataset), seconds(dataset)[-1]))
                draw_storms(axes, storms, mesh, seconds(dataset)[k])
        bar = (columns * (width + 0.35) + 0.5, 0.6, 0.13, rows * (height + 0.5) - 0.7)
        add_colorbar(figure, bar, image, name)
    return figure


def _records(dataset, mesh, variable, times):
    if variable in dataset and "time" not in dataset[variable].dims:
        return [None]
    have = seconds(dataset)
    if times is None:
        start = first_moving(dataset, mesh, variable)
        count = min(6, have.size - start)
        return sorted(set(np.linspace(start, have.size - 1, count).round().astype(int).tolist()))
    return nearest(dataset, times)


def first_moving(dataset: xr.Dataset, mesh: Mesh, name: str) -> int:
    """The first record whose values differ among themselves by more than QUIET of what others' do; 0 if none does."""

    def spread(record: int) -> float:
        values = drawable(dataset, mesh, name, record)
        return float(np.ptp(values[np.isfinite(values)])) if np.isfinite(values).any() else 0.0

    records = range(seconds(dataset).size)
    largest = max(spread(k) for k in {*records[:: max(1, len(records) // 6)], records[-1]})
    return next((k for k in records if spread(k) > QUIET * largest), 0)


def in_time_units(fields: list, array: xr.DataArray) -> tuple[list, str]:
    """(the fields of a variable, its label): durations in the unit of time that suits the longest one."""
    if array.attrs.get("units") != "s":
        return fields, label(array)
    longest = max(float(np.max(np.abs(x), where=np.isfinite(x), initial=0.0)) for x in fields)
    symbol, _, length = time_unit(longest)
    return [x / length for x in fields], label(array.assign_attrs(units=symbol))


def keep_outer_labels(axes: Axes, left: bool, bottom: bool) -> None:
    """Remove the labels of inner axes."""
    if not left:
        axes.set_ylabel("")
        axes.set_yticklabels([])
    if not bottom:
        axes.set_xlabel("")
        axes.set_xticklabels([])


def sea_floor(dataset: xr.Dataset) -> np.ndarray | None:
    """The depth at the centres [m], or None if the file has none."""
    return snapshot(dataset, "depth") if "depth" in dataset and positions(dataset["depth"]) else None
