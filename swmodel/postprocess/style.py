"""The style of all figures: type, line weights, and colours that can be distinguished with any colour vision.

Overlays of maps are what the files of an experiment describe: nests, levees, and the tracks of storms with their winds.
They are drawn if these files are still where the run read them. Land that may be flooded is shaded.
"""

from __future__ import annotations

import contextlib
import json
import pathlib
import warnings
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import matplotlib as mpl
import numpy as np
import xarray as xr
from cycler import cycler
from matplotlib import patheffects
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import Colormap, LightSource
from matplotlib.figure import Figure
from matplotlib.patches import Ellipse, Rectangle
from matplotlib.ticker import FuncFormatter, NullFormatter
from numpy.typing import ArrayLike

from ..errors import DataError, PlotError, SwmodelError
from ..grids.grid import CIRCLE
from ..grids.levees import read_levees
from .files import RAISED, Mesh, experiment_of, start_of, writing

if TYPE_CHECKING:
    from ..forcing.cyclones import Cyclone

TITLE_HEIGHT = 0.45  # [inches] above a page for its title

# Okabe & Ito (2008), Color Universal Design
ORANGE, GREEN, BLUE, VERMILLION, PURPLE = "#E69F00", "#009E73", "#0072B2", "#D55E00", "#CC79A7"
BLACK, GREY = "#1a1a1a", "#6e6e6e"

_TICKS = {"labelsize": 8.0, "color": "#444444", "direction": "out", "major.size": 3.0, "major.width": 0.7}
_RC: dict[Any, Any] = {
    "font.family": "DejaVu Sans",
    "font.size": 9.0,
    "axes.titlesize": 9.5,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "axes.titlepad": 5.0,
    "axes.labelsize": 9.0,
    "axes.labelcolor": BLACK,
    "axes.edgecolor": "#555555",
    "axes.linewidth": 0.7,
    "axes.spines.top": False,
    "axes.spines.right": False,  # of maps both are drawn
    "axes.prop_cycle": cycler(color=[BLUE, VERMILLION, GREEN, PURPLE, ORANGE, BLACK]),
    "text.color": BLACK,
    "text.parse_math": False,  # names and titles may have a $
    **{f"{axis}.{key}": value for axis in ("xtick", "ytick") for key, value in _TICKS.items()},
    "grid.color": "#d9d9d9",
    "grid.linewidth": 0.6,
    "legend.frameon": False,
    "legend.fontsize": 8.5,
    "image.composite_image": False,
    "pdf.fonttype": 42,
    "svg.fonttype": "none",
}

_DPI = 160
HALO: list = [patheffects.withStroke(linewidth=2.0, foreground="white")]  # of letters on maps

_FALLBACK = {
    "balance": "RdBu_r", "curl": "PuOr_r", "delta": "BrBG", "amp": "Reds", "deep": "Blues", "speed": "YlGn",
    "thermal": "inferno", "dense": "BuPu",
}  # fmt: skip


def applied() -> contextlib.AbstractContextManager:
    """A context in which matplotlib draws in this package's style; the user's own settings are restored afterwards."""
    return mpl.rc_context(_RC)


def colormap(name: str) -> Colormap:
    """cmocean's map of that name, or matplotlib's nearest to it where cmocean is not installed."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # it is addressed to cmocean's authors
            import cmocean
    except (ImportError, TypeError):  # not installed, or too old for this matplotlib
        return mpl.colormaps[_FALLBACK.get(name, "viridis")].copy()
    return cmocean.cm.cmap_d[name].copy()


def limits(values: ArrayLike, percentile: float = 99.5) -> tuple[float, float]:
    """(low, high) that leave out the outermost values; symmetric about zero where the values have both signs.

    Args:
        values: any array; NaN and infinite values do not count.
        percentile: of |values| where they have both signs; else of the values, and 0 is the lower end if it is near.
    """
    values = np.asarray(values)
    values = values[np.isfinite(values)]
    if values.size == 0:
        return -1.0, 1.0
    if values.min() < 0 < values.max():
        high = float(np.percentile(np.abs(values), percentile)) or float(np.abs(values).max())
        return -high, high
    low, high = np.percentile(values, [100 - percentile, percentile]).tolist()
    if 0 <= low < 0.5 * high:
        low = 0.0
    if high <= low:
        margin = abs(low) or 1.0
        return low - margin, high + margin
    return low, high


def powers_of_ten(axis: Any) -> None:
    """Ticks of a logarithmic axis such as 2 × 10⁻⁵, which matplotlib would write as formulas."""

    def text(value, _):
        power = int(np.floor(np.log10(value) + 1e-9))
        if abs(power) < 3:
            return f"{value:g}"
        factor, digits = value / 10.0**power, str(power).translate(RAISED)
        return f"10{digits}" if abs(factor - 1) < 1e-6 else f"{factor:.3g} × 10{digits}"

    axis.set_major_formatter(FuncFormatter(text))
    axis.set_minor_formatter(NullFormatter())


def new_figure(width: float, height: float) -> Figure:
    """An empty figure [inches] that never opens a window."""
    figure = Figure(figsize=(width, height), layout=None)
    FigureCanvasAgg(figure)
    return figure


def titled_figure(width: float, height: float, dataset: xr.Dataset) -> Figure:
    """`new_figure` with space above it for the title of a dataset, if it has one."""
    title = dataset.attrs.get("title", "")
    figure = new_figure(width, height + (TITLE_HEIGHT if title else 0.0))
    heading(figure, title)
    return figure


def heading(figure: Figure, title: str, left: float = 0.6, right: float = 0.6, note: str = "") -> None:
    """The title of a page, with margins of this width [inches]; in small type if it is long.

    A note of the time that a page shows is in the right margin.
    """
    width, height = figure.get_size_inches()
    size = min(14.0, 120 * (width - left - right) / max(len(title), 1))
    figure.text(left / width, 1 - 0.33 / height, title, fontsize=size, fontweight="bold", va="center")
    if note:
        figure.text(1 - 0.3 / width, 1 - 0.33 / height, note, fontsize=10, color=GREY, ha="right", va="center")


def finish(figure: Figure, dataset: xr.Dataset, left: float = 0.6) -> None:
    """Fit panels to a page, below the title of the dataset, which begins at `left` [inches]."""
    figure.tight_layout(rect=(0, 0, 1, 1 - 0.5 / figure.get_size_inches()[1]))
    heading(figure, dataset.attrs.get("title", ""), left)


def axes_at(figure: Figure, left: float, bottom: float, width: float, height: float) -> Axes:
    """Axes with this place and size [inches]."""
    size = figure.get_size_inches()
    return figure.add_axes((left / size[0], bottom / size[1], width / size[0], height / size[1]))


def remark(axes: Axes, text: str) -> None:
    """A small text above the right end of axes."""
    axes.text(1, 1.02, text, transform=axes.transAxes, ha="right", va="bottom", fontsize=7.0, color=GREY)


def few(names: Sequence[str]) -> str:
    """The first four names, and the number of the others."""
    return ", ".join(names[:4]) + (f" and {len(names) - 4:,} more" if len(names) > 4 else "")


def name_others(figure: Figure, names: Sequence[str], left: float, hint: str = "") -> None:
    """A note at the foot of a page, `left` inches from its side, of what it does not show."""
    if names:
        width, height = figure.get_size_inches()
        text = f"Not shown: {few(names)}{hint}"
        figure.text(left / width, 0.06 / height, text, fontsize=7.5, color=GREY, va="bottom")


def save(figure: Figure, path: pathlib.Path) -> pathlib.Path:
    """Writes `figure`; the suffix of `path` chooses PNG, PDF or SVG. An older file stays until this one is complete."""
    known = figure.canvas.get_supported_filetypes()
    suffix = path.suffix.lstrip(".").lower()
    if suffix not in known:
        raise PlotError(f"save: {path} does not end in a format that can be drawn; use .png, .pdf or .svg.")
    with writing("save", path, path.suffix) as part:
        figure.savefig(part, dpi=_DPI)
    return path


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
        return [np.array(levee.points) for levee in read_levees((folder or pathlib.Path()) / name)]
    except DataError:  # changed since the run
        return []


def storms_of(dataset: xr.Dataset) -> list[Cyclone]:
    """The Cyclones of a dated run, from the start of their tracks, which may be in any format that runs read."""
    _, experiment, folder = experiment_of(dataset.attrs)
    forcing, start = experiment.get("forcing", ()), start_of(dataset)
    tables = [part for part in forcing if part.get("type") == "cyclone"]
    if not tables or start is None:
        return []
    from ..config.physics import FORCING
    from ..config.sections import Surroundings

    on, storms = Surroundings(start=start), []
    for table in tables:
        with contextlib.suppress(SwmodelError, ValueError):  # the files have changed since the run
            section = FORCING["cyclone"].read(table, folder or pathlib.Path())
            storms.append(section.build(on))
    return storms


def draw_boxes(axes: Axes, dataset: xr.Dataset, mesh: Mesh) -> None:
    """The boxes of nests in the grid, with their names within the map."""
    first, last, *_ = mesh.extent
    boxes = json.loads(dataset.attrs.get("nest_boxes", "{}"))
    for name, sides in boxes.items():
        (west, east), (south, north) = np.asarray(sides) * mesh.scale
        for turn in (0.0, -CIRCLE, CIRCLE) if mesh.periodic_x and mesh.spherical else (0.0,):
            if turn == 0.0 or (west + turn < mesh.extent[1] and east + turn > mesh.extent[0]):  # across the seam
                size = east - west, north - south
                axes.add_patch(Rectangle((west + turn, south), *size, fill=False, linewidth=0.9, zorder=5.4))
        is_east = west + east > first + last
        x = min(east, last) if is_east else max(west, first)
        corner = {"xytext": (-2 if is_east else 2, -2), "textcoords": "offset points", "va": "top", "fontsize": 7}
        axes.annotate(name, (x, north), zorder=5.4, ha="right" if is_east else "left", **corner)


def draw_lines(axes: Axes, dataset: xr.Dataset, mesh: Mesh) -> None:
    """Boxes of nests, levees, and the tracks of storms with a dot at each day."""
    draw_boxes(axes, dataset, mesh)
    for k, points in enumerate(levees_of(dataset)):
        name = "levees" if k == 0 else None
        x, y = points.T * mesh.scale
        x = _longitudes(x, mesh) if mesh.spherical else x
        axes.plot(x, y, color=LEVEE, linewidth=1.6, zorder=5.5, label=name)
    for storm in storms_of(dataset):
        x = _longitudes(storm.x, mesh)
        axes.plot(x, storm.y, color=BLACK, linewidth=1.0, zorder=5.5, path_effects=HALO)
        days = np.arange(np.ceil(storm.times[0] / DAY), storm.times[-1] / DAY + 1e-9) * DAY
        dots = np.interp(days, storm.times, x), np.interp(days, storm.times, storm.y)
        axes.plot(*dots, "o", color=BLACK, markersize=2.6, zorder=5.6, path_effects=HALO)


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
        drawn.append(axes.quiver(x0, y0, x1 - x0, y1 - y0, color=BLACK, **look))
        lines = _longitudes(storm.x, mesh), storm.y, storm.radius, largest_winds(storm)
        x, y, radius, wind = (np.interp(time, storm.times, line) for line in lines)
        if not (west <= x <= east and south <= y <= north):
            continue
        drawn += axes.plot(x, y, "+", color=BLACK, markersize=7, markeredgewidth=1.3, zorder=6)
        tall = 2.0 * radius / METRES_PER_DEGREE
        size = tall / np.cos(np.deg2rad(y)), tall
        drawn.append(axes.add_patch(Ellipse((x, y), *size, fill=False, color=BLACK, linewidth=1.0, zorder=6)))
        place = {"xytext": (7, 5), "textcoords": "offset points"}
        words = {"fontsize": 7.0, "zorder": 7, "path_effects": HALO}
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
    draw_image(axes, mesh, relief(mesh, ground), zorder=0.5)


def draw_image(axes: Axes, mesh: Mesh, values: np.ndarray, **look: Any) -> Any:
    """Values or colours at centres, (ny, nx, ...), as an image over the whole mesh, which may have another extent."""
    place = {"extent": mesh.frame, "aspect": mesh.aspect} | look
    return axes.imshow(values, origin="lower", interpolation="nearest", **place)


def draw_shore(axes: Axes, mesh: Mesh, ground: np.ndarray) -> None:
    """The shoreline at rest, where the ground is at the level of the sea."""
    heights = np.where(np.isfinite(ground), ground, np.nanmax(ground))
    if min(heights.shape) > 1 and heights.min() < 0 < heights.max():
        lines = axes.contour(*mesh.centres, heights, [0.0], colors=SHORE, linewidths=0.9, zorder=3)
        lines.set_path_effects([patheffects.withStroke(linewidth=2.2, foreground="white", alpha=0.8)])
