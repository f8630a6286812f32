"""Drifters: their tracks on a map, with the land of a file of fields where there is one."""

import json

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.colors import Normalize
from matplotlib.figure import Figure

from . import style
from .files import Mesh, mesh_of, seconds
from .maps import colorbar_right_of, draw_base, draw_surroundings, map_axes
from .scores import time_unit

WIDTH, HIGHEST = 7.0, 8.0  # of the map [inches]
MOST_LINES = 2000  # drifters, of which more would hide one another


def figure(dataset: xr.Dataset, fields: xr.Dataset | None = None) -> Figure:
    """A map of the tracks, coloured by time: dots where drifters are released, rings where they are last.

    Args:
        dataset: a file of drifters, as `open_output` gives it.
        fields: a file of fields of the run, whose land and isobaths are drawn.
    """
    mesh = _mesh(dataset) if fields is None else mesh_of(fields)
    height = min(WIDTH * mesh.shape, HIGHEST)
    with style.applied():
        page = style.titled_figure(WIDTH + 1.9, height + 1.0, dataset)
        axes = map_axes(page, (0.65, 0.5, WIDTH, height), mesh)
        lines, unit = _draw_tracks(axes, dataset, mesh)
        if fields is None:
            draw_base(axes, mesh, np.ones((mesh.y.size, mesh.x.size), bool))
        else:
            draw_surroundings(axes, fields)
        axes.set_aspect(mesh.aspect)
        count, shown = dataset.sizes["trajectory"], min(dataset.sizes["trajectory"], MOST_LINES)
        axes.set_title(f"{count} drifters" if shown == count else f"{shown} of {count} drifters")
        colorbar_right_of(axes, lines, unit)
    return page


def _mesh(dataset):
    """The Mesh of the grid that the file's attributes describe."""
    about = json.loads(dataset.attrs["grid_description"])
    spherical = "longitude" in about
    places = []
    for axis, name, n in (("x", "longitude", about["nx"]), ("y", "latitude", about["ny"])):
        low, high = about[name if spherical else axis]
        edges = np.linspace(low, high, n + 1)
        places.append((0.5 * (edges[1:] + edges[:-1]), edges[1] - edges[0]))
    (x, width), (y, height) = places
    return Mesh(x, y, width, height, spherical, "x" in about["periodic"], "y" in about["periodic"])


def _draw_tracks(axes: Axes, dataset: xr.Dataset, mesh: Mesh):
    """(the lines of all drifters, the label of their colours)."""
    few = slice(None, None, -(-dataset.sizes["trajectory"] // MOST_LINES))
    names = ("lon", "lat") if "lon" in dataset else ("x", "y")
    x, y = (dataset[name].values[few] * mesh.scale for name in names)
    times = seconds(dataset)
    symbol, _, length = time_unit(times[-1])
    west, east, south, north = (edge * mesh.scale for edge in mesh.extent)
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
