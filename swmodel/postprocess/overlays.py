"""What the files of an experiment describe and maps show: nests, levees, and the tracks of storms with their winds.

They are drawn if these files are still where the run read them. Land that may be flooded is shaded.
"""

from __future__ import annotations

import contextlib
import json
import pathlib
import types
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import xarray as xr
from matplotlib import patheffects
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.colors import LightSource
from matplotlib.patches import Ellipse, Rectangle

from ..errors import DataError, SwmodelError
from ..runtime.tables import read_csv
from . import style
from .files import Mesh, experiment_of, start_of

if TYPE_CHECKING:
    from ..forcing.cyclones import Cyclone

LEVEE = "#5b3a1a"
METRES_PER_DEGREE = 111.2e3
DAY = 86400.0
ARROWS = 16  # along the longer side of a map
WEAK, STRONG = 5.0, 30.0  # [m s-1]


def levees_of(dataset: xr.Dataset) -> list[np.ndarray]:
    """The lines of the levees in the file's coordinates, (n, 2) each."""
    _, experiment, folder = experiment_of(dataset.attrs)
    name = experiment.get("bathymetry", {}).get("levees")
    if not isinstance(name, str):
        return []
    try:
        table = read_csv((folder or pathlib.Path()) / name)
        points = np.column_stack([table.numbers("x"), table.numbers("y")])
        names = np.array(table.texts("levee"))
    except (DataError, KeyError):  # changed since the run
        return []
    return [points[names == name] for name in dict.fromkeys(names)]


def storms_of(dataset: xr.Dataset) -> list[Cyclone]:
    """The Cyclones of a dated run, from the start of their tracks, which may be in any format that runs read."""
    _, experiment, folder = experiment_of(dataset.attrs)
    forcing, start = experiment.get("forcing", ()), start_of(dataset)
    tables = [part for part in forcing if part.get("type") == "cyclone"]
    if not tables or start is None:
        return []
    from ..config.build.experiment import storm_of
    from ..config.physics import FORCING

    run, storms = types.SimpleNamespace(start=start, until=None), []
    for table in tables:
        with contextlib.suppress(SwmodelError, ValueError):  # the files have changed since the run
            section = FORCING["cyclone"].read(table, folder or pathlib.Path())
            storms.append(storm_of(section, run))
    return storms


def draw_boxes(axes: Axes, dataset: xr.Dataset, mesh: Mesh) -> None:
    """The boxes of nests in the grid, with their names."""
    boxes = json.loads(dataset.attrs.get("nest_boxes", "{}"))
    for name, sides in boxes.items():
        (west, east), (south, north) = np.asarray(sides) * mesh.scale
        axes.add_patch(Rectangle((west, south), east - west, north - south, fill=False, linewidth=0.9, zorder=5.4))
        corner = {"xytext": (2, -2), "textcoords": "offset points", "va": "top", "fontsize": 7}
        axes.annotate(name, (west, north), zorder=5.4, **corner)


def draw_lines(axes: Axes, dataset: xr.Dataset, mesh: Mesh) -> None:
    """Boxes of nests, levees, and the tracks of storms with a dot at each day."""
    draw_boxes(axes, dataset, mesh)
    for k, points in enumerate(levees_of(dataset)):
        name = "levees" if k == 0 else None
        axes.plot(*(points.T * mesh.scale), color=LEVEE, linewidth=1.6, zorder=5.5, label=name)
    for storm in storms_of(dataset):
        x = _longitudes(storm.x, mesh)
        axes.plot(x, storm.y, color=style.BLACK, linewidth=1.0, zorder=5.5, path_effects=style.HALO)
        days = np.arange(np.ceil(storm.times[0] / DAY), storm.times[-1] / DAY + 1e-9) * DAY
        dots = np.interp(days, storm.times, x), np.interp(days, storm.times, storm.y)
        axes.plot(*dots, "o", color=style.BLACK, markersize=2.6, zorder=5.6, path_effects=style.HALO)


def draw_storms(axes: Axes, storms: Sequence[Cyclone], mesh: Mesh, time: float) -> list[Artist]:
    """What is drawn of storms at `time` [s]: the centre, the circle and strength of the largest wind, and arrows."""
    from ..forcing.tracks import largest_winds

    west, east, south, north = mesh.extent
    drawn: list[Artist] = []
    for storm in storms:
        if not storm.times[0] <= time <= storm.times[-1]:
            continue
        x0, y0, x1, y1 = arrows(storm, mesh, time)
        look = {"angles": "xy", "scale_units": "xy", "scale": 1, "width": 0.0035, "headwidth": 4, "zorder": 5.8}
        drawn.append(axes.quiver(x0, y0, x1 - x0, y1 - y0, color=style.BLACK, **look))
        lines = _longitudes(storm.x, mesh), storm.y, storm.radius, largest_winds(storm)
        x, y, radius, wind = (np.interp(time, storm.times, line) for line in lines)
        if not (west <= x <= east and south <= y <= north):
            continue
        drawn += axes.plot(x, y, "+", color=style.BLACK, markersize=7, markeredgewidth=1.3, zorder=6)
        tall = 2.0 * radius / METRES_PER_DEGREE
        size = tall / np.cos(np.deg2rad(y)), tall
        drawn.append(axes.add_patch(Ellipse((x, y), *size, fill=False, color=style.BLACK, linewidth=1.0, zorder=6)))
        place = {"xytext": (7, 5), "textcoords": "offset points"}
        words = {"fontsize": 7.0, "zorder": 7, "path_effects": style.HALO}
        drawn.append(axes.annotate(f"{wind:.0f} m s⁻¹", (x, y), **words, **place))
    return drawn


def arrows(storm: Cyclone, mesh: Mesh, time: float) -> np.ndarray:
    """(x, y) of the tails and the heads of arrows of a storm's wind, (4, n) [degrees], where it is not WEAK.

    They are as long as the distance between them where the wind is STRONG.
    """
    west, east, south, north = mesh.extent
    spacing = max(east - west, north - south) / ARROWS
    x, y = np.meshgrid(*(np.arange(low + spacing / 2, high, spacing) for low, high in ((west, east), (south, north))))
    u, v = storm.wind_at(x, y, time)
    windy = np.hypot(u, v) > WEAK
    x, y, u, v = x[windy], y[windy], u[windy] * spacing / STRONG, v[windy] * spacing / STRONG
    return np.array([x - u / 2, y - v / 2, x + u / 2, y + v / 2])


def _longitudes(x, mesh):
    """Longitudes in the range of the map."""
    middle = 0.5 * (mesh.extent[0] + mesh.extent[1])
    return x - 360.0 * np.round((np.mean(x) - middle) / 360.0)


# -- relief -----------------------------------------------------------------------------------------------------------

LOW, HIGH = np.array([0.90, 0.89, 0.84]), np.array([0.77, 0.74, 0.67])  # colours of the lowest and the highest land
STEEP, LEVEL = 0.8, 0.7  # the slope to which the steep parts of the ground are drawn; the brightness of level ground
SHORE = "#2b2b2b"


def relief(mesh: Mesh, ground: np.ndarray) -> np.ndarray:
    """The ground [m] (ny, nx) as a hill shade with light from the north-west: red, green, blue, opacity (ny, nx, 4).

    It is transparent where the ground is NaN. Slopes are exaggerated until the steepest twentieth has the slope STEEP.
    Land is as bright as level ground in the middle, whichever way a plain slopes.
    """
    known = np.isfinite(ground)
    heights = np.where(known, ground, np.nanmax(ground))
    dx, dy = float(mesh.dx(mesh.y[mesh.y.size // 2])[0, 0]), float(mesh.dy)
    if min(heights.shape) > 1:
        slope = np.hypot(*np.gradient(heights, dy, dx))
        exaggeration = STEEP / (np.percentile(slope[ground > 0], 95) or 1.0)
        # the first row of the array is the southernmost one
        shade = LightSource(315, 45).hillshade(heights[::-1], exaggeration, dx, dy)[::-1]
        shade += LEVEL - np.median(shade[ground > 0])
    else:
        shade = np.full(heights.shape, LEVEL)
    share = np.clip(heights / max(float(heights.max()), 1e-30), 0.0, 1.0)[..., None]
    colours = (LOW * (1 - share) + HIGH * share) * (0.55 + 0.6 * shade[..., None])
    return np.dstack([np.clip(colours, 0.0, 1.0), known])


def draw_relief(axes: Axes, mesh: Mesh, ground: np.ndarray) -> None:
    """The `relief` of the ground [m] (ny, nx), below the fields."""
    west, east, south, north = (edge * mesh.scale for edge in mesh.extent)
    axes.imshow(
        relief(mesh, ground),
        origin="lower",
        extent=(west, east, south, north),
        aspect=mesh.aspect,
        interpolation="nearest",
        zorder=0.5,
    )


def draw_shore(axes: Axes, mesh: Mesh, ground: np.ndarray) -> None:
    """The shoreline at rest, where the ground is at the level of the sea."""
    heights = np.where(np.isfinite(ground), ground, np.nanmax(ground))
    if min(heights.shape) > 1 and heights.min() < 0 < heights.max():
        x, y = mesh.x * mesh.scale, mesh.y * mesh.scale
        lines = axes.contour(x, y, heights, [0.0], colors=SHORE, linewidths=0.9, zorder=3)
        lines.set_path_effects([patheffects.withStroke(linewidth=2.2, foreground="white", alpha=0.8)])


def draw_line(axes: Axes, mesh: Mesh, parts: Sequence[np.ndarray]) -> None:
    """The parts (n, 2) of an inundation line."""
    for part in parts:
        axes.plot(*(part.T * mesh.scale), color=style.VERMILLION, linewidth=1.1, zorder=5)
