"""Sensitivity maps: the derivative of a cost with respect to each control, per area.

Files hold the derivative per cell, which depends on the grid; figures divide it by the cell's area. Next to coasts
adjoint fields may alternate from cell to cell. Figures show the weighted mean over 3 x 3 cells (1, 2, 1 in each
direction), in which such waves of two cells vanish and longer ones remain.
"""

import json
import re
import types

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.colors import Normalize
from matplotlib.figure import Figure

from ..errors import PlotError
from . import maps, style
from .files import Mesh, mesh_of, positions, pretty, scaled, snapshot, wet_cells
from .style import draw_boxes

PERCENTILE = 99.8  # of |values|: single cells next to a gauge are far above all others
FAINT = 1e-3  # of that percentile; the region of smaller values is not shown
MARGIN, LEAST = 0.08, 0.25  # shares of the domain: the margin around the region that is shown, and its least size


def maps_of(dataset: xr.Dataset) -> list[str]:
    """The names of the maps in a file, without those of single records."""
    return [name for name, array in _sensitivities(dataset) if positions(array)]


def _sensitivities(dataset):
    """(name, variable) of all sensitivities of a file but those of single records, and without the records' times."""
    of_records = {dim for dim in dataset.sizes if str(dim).endswith("_record")}
    arrays = {str(name): array for name, array in dataset.data_vars.items() if of_records.isdisjoint(array.dims)}
    return [(name, array) for name, array in arrays.items() if name.startswith("sensitivity_")]


def figure(dataset: xr.Dataset, variable: str | None = None, columns: int | None = None) -> Figure:
    """A figure of every map in a file of sensitivities, or of `variable` alone.

    Each has a colour scale of its own, symmetric about zero. Places that the cost reads are marked; a section is
    a line. Sensitivities to numbers and series are below the maps.

    Raises:
        PlotError: for a variable that is no map, or a file without one.
    """
    names = maps_of(dataset) if variable is None else [_name(dataset, variable)]
    if not names:
        raise PlotError("sensitivity: the file holds numbers alone and no map; read it with xarray.")
    dataset = _where_it_matters(dataset, names)
    numbers = numbers_in(dataset) if variable is None else []
    foot = 0.18 * len(numbers) + 0.1 * bool(numbers)
    mesh, wet, places = mesh_of(dataset), wet_cells(dataset), places_of(dataset)
    columns = min(columns or (2 if len(names) in (2, 4) else 3), len(names))
    rows = -(-len(names) // columns)
    width = 6.5 if columns == 1 else 4.6
    height = min(width * mesh.shape, 6.5)
    with style.applied():
        page = style.new_figure(columns * (width + 1.35) + 0.5, foot + rows * (height + 0.75) + 0.45)
        _heading(page, dataset, mesh)
        size = page.get_size_inches()
        page.text(0.6 / size[0], 0.1 / size[1], "\n".join(numbers), fontsize=9, va="bottom")
        for n, name in enumerate(names):
            row, column = divmod(n, columns)
            box = (0.6 + column * (width + 1.35), foot + 0.5 + (rows - 1 - row) * (height + 0.75), width, height)
            axes = maps.map_axes(page, box, mesh)
            image, units = draw_map(axes, dataset, mesh, name)
            maps.draw_base(axes, mesh, wet, maps.sea_floor(dataset))
            draw_boxes(axes, dataset, mesh)
            _draw_places(axes, mesh, places)
            maps.keep_outer_labels(axes, column == 0, n + columns >= len(names))
            axes.set_title("to " + control_of(dataset, name))
            area = "m²" if mesh.unit == "m" else "km²"
            maps.colorbar_right_of(axes, image, f"per {area} [{units}]" if units else f"per {area}")
    return page


def draw_map(axes: Axes, dataset: xr.Dataset, mesh: Mesh, name: str) -> tuple[ScalarMappable, str]:
    """(the image of one map, with its own symmetric scale; the units of that scale)."""
    values = _smoothed(maps.drawable(dataset, mesh, name, None))
    y = mesh.y if len(values) == mesh.y.size else mesh.y_edges
    area = mesh.dx(y) * mesh.dy * (1.0 if mesh.unit == "m" else 1e-6)
    values = np.divide(values, area, out=np.zeros_like(values), where=area > 1e-9)
    high = _high(values)
    # the power of ten goes to the units
    shown, units = scaled(np.where(np.isfinite(values), np.clip(values, -high, high), np.nan), _units(dataset[name]))
    high = _high(shown)
    return maps.draw_field(axes, mesh, shown, Normalize(-high, high), style.colormap("balance")), units


def _smoothed(values):
    """Means with the weights 1, 2, 1 along each axis, of the cells at sea."""
    from scipy.ndimage import convolve1d

    for axis in (0, 1):
        parts = np.nan_to_num(values), np.isfinite(values).astype(float)
        total, weight = (convolve1d(part, [1.0, 2.0, 1.0], axis, mode="constant") for part in parts)
        values = np.where(np.isfinite(values), total / np.maximum(weight, 1.0), np.nan)
    return values


def _draw_places(axes, mesh, places):
    """The places that the cost reads, with their names; the line from "start" to "end" of a section."""
    if [place.name for place in places] != ["start", "end"]:
        maps.draw_gauges(axes, mesh, places)
        return
    ends = np.array([(mesh.turned(place.x), place.y) for place in places]).T * mesh.scale
    axes.plot(*ends, color=style.BLACK, linewidth=2.2, solid_capstyle="butt", zorder=6)


def _high(values):
    """The end of the scale of a map."""
    finite = np.abs(values[np.isfinite(values)])
    high = float(np.percentile(finite, PERCENTILE)) if finite.size else 0.0
    return high or float(finite.max(initial=0.0)) or 1.0


def _where_it_matters(dataset, names):
    """The part of the domain in which a map differs from zero or the cost reads the state."""
    mesh = mesh_of(dataset)
    whole, shape = dataset, (mesh.y.size, mesh.x.size)
    shown_cells = np.zeros(shape, bool)
    for name in names:
        values = np.abs(snapshot(dataset, name))[-shape[0] :, -shape[1] :]
        shown_cells |= np.nan_to_num(values) > FAINT * _high(values)
    for place in places_of(dataset):
        row, column = np.abs(mesh.y - place.y).argmin(), np.abs(mesh.x - mesh.turned(place.x)).argmin()
        shown_cells[row, column] = True
    for axis, periodic, (centres, faces) in ((0, mesh.periodic_y, ("yh", "yq")), (1, mesh.periodic_x, ("xh", "xq"))):
        where, size = np.flatnonzero(shown_cells.any(axis=1 - axis)), shape[axis]
        if periodic or not where.size:
            continue
        middle = (where[0] + where[-1] + 1) / 2
        half = max((where[-1] + 1 - where[0]) / 2 + MARGIN * size, LEAST * size / 2)
        low, high = max(int(middle - half), 0), min(int(np.ceil(middle + half)), size)
        whole = whole.isel({centres: slice(low, high), faces: slice(low, high + 1)})
    return whole


def _name(dataset, variable):
    """The map with this name, which is that of a variable or of a control."""
    known = maps_of(dataset)
    wanted = "sensitivity_" + variable.replace(".", "_")
    for name in (variable, wanted):
        if name in known:
            return name
    raise PlotError(f"sensitivity: there is no map of {variable!r}; the file has {', '.join(known) or 'none'}.")


def places_of(dataset: xr.Dataset) -> list:
    """The places that the cost reads: objects with name, x and y."""
    places = json.loads(dataset.attrs.get("cost_places", "{}"))
    return [types.SimpleNamespace(name=name, x=x, y=y) for name, (x, y) in places.items()]


def control_of(dataset: xr.Dataset, name: str) -> str:
    """The control of a map, from its metadata."""
    return dataset[name].attrs.get("long_name", name).rpartition(" to ")[2]


def _units(array):
    """The units of a map; from the comment if UDUNITS cannot read them."""
    return array.attrs.get("units", array.attrs.get("comment", "").rpartition("; in ")[2])


def _heading(page, dataset, mesh):
    what = dataset.attrs.get("sensitivity_of", "a number of the run")
    value, units = dataset.attrs.get("cost_value"), dataset.attrs.get("cost_units", "")
    known = "" if value is None else f" ({value:.3g} {pretty(units)})".replace(" 1)", ")")
    if mesh.unit == "km":  # so that places (x, y) are in the units of the map
        pair = r"\((-?[\d.]+(?:e[+-]?\d+)?), (-?[\d.]+(?:e[+-]?\d+)?)\)"
        what = re.sub(pair, lambda at: f"({float(at[1]) * mesh.scale:g}, {float(at[2]) * mesh.scale:g}) km", what)
    style.heading(page, f"Sensitivity of {what}{known}", 0.6, 0.3)


def numbers_in(dataset: xr.Dataset) -> list[str]:
    """The sensitivities to single numbers, as sentences; of a series, such as along a track, to all of it together."""
    sentences = []
    for name, array in _sensitivities(dataset):
        if array.ndim < 2:
            number, units = f"{float(array.sum()):.4g}".replace("-", "−"), pretty(_units(array))
            of = f" (all {array.size} together)" if array.ndim else ""
            unit = f" {units}" if units not in ("", "1") else ""
            sentences.append(f"to {control_of(dataset, name)}{of}: {number}{unit}")
    return sentences
