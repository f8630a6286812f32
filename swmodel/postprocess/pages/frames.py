"""The records of a field as small images of indexed colours, and the map around them.

An image has a pixel for each cell, or for a block of cells on large grids. The axes, land, coast and colour bar are
drawn once, as SVG that lies on the images and is transparent over water.
"""

import base64
import dataclasses
import io
from collections.abc import Sequence

import numpy as np
import xarray as xr
from matplotlib.cm import ScalarMappable
from matplotlib.colors import Colormap, Normalize

from ...errors import PlotError
from .. import style
from ..cgrid import SPEED, at_centres
from ..files import label, mesh_of, positions, seconds, stamp, start_of, wet_cells
from ..inundation import ground, may_flood, under_water
from ..maps import colorbar_right_of, draw_gauges, draw_surroundings, field_norm, map_axes
from ..style import arrows, relief, storms_of
from .frame import Markup, as_svg, fix_colours

MOST_RECORDS = 150
# (pixels of the longer side, colours): the first whose images together are small enough is used
QUALITIES = ((960, 200), (720, 200), (720, 64), (540, 64), (400, 48), (280, 32), (200, 24))
WIDTH, TALLEST = 8.0, 7.0  # of a map [inches]


@dataclasses.dataclass(frozen=True)
class Movie:
    """A variable's map.

    Attributes:
        name, title: of the variable: "eta", "Sea surface elevation [m]".
        frames: data URIs of the images, one a record.
        stamps: the time of each as text.
        seconds: the time of each since the start [s].
        winds: arrows of the wind of storms in each, as the data of an SVG path over the images from 0 to 1000.
        ground: data URI of the relief below the images, where land may be flooded; "" elsewhere.
        base: <svg> of axes, land and colour bar, above the images.
        box: (left, top, width, height) of the images within the SVG, from 0 to 1.
        shape: height of the SVG over its width.
        pixels: (columns, rows) of an image.
        left_out: records of the file without an image.
    """

    name: str
    title: str
    frames: tuple[str, ...]
    stamps: tuple[str, ...]
    seconds: tuple[float, ...]
    winds: tuple[str, ...]
    ground: str
    base: Markup
    box: tuple[float, float, float, float]
    shape: float
    pixels: tuple[int, int]
    left_out: int

    @property
    def bytes(self) -> int:
        """The number of bytes of the images in the page."""
        return sum(map(len, self.frames))


def variables_of(dataset: xr.Dataset, wanted: Sequence[str] = ()) -> list[str]:
    """The variables to show: the given ones, else elevation, speed and the other ones at centres and corners.

    Raises:
        PlotError: for a variable that the file does not have.
    """
    fields = [str(name) for name, v in dataset.data_vars.items() if "time" in v.dims and positions(v)]
    has_speed = {"u", "v"} <= set(fields)
    for name in wanted:
        if name not in fields and not (name == SPEED and has_speed):
            have = ", ".join([*fields, *([SPEED] if has_speed else [])]) or "none"
            raise PlotError(f"report: the file has no variable {name!r} over time; it has {have}.")
    if wanted:
        return list(dict.fromkeys(wanted))
    fields = sorted(fields, key=lambda name: name != "eta")
    shown = [name for name in fields if name not in ("u", "v", "transport_x", "transport_y")]
    if has_speed and SPEED not in shown:
        shown.insert(1 if "eta" in shown else 0, SPEED)
    return shown[:4] or fields[:2]


def movies(
    dataset: xr.Dataset, names: Sequence[str], gauges: Sequence, largest: float, identifier: str = "map"
) -> list[Movie]:
    """The Movie of each variable; all their images together have at most `largest` bytes in the page.

    `identifier` begins the identifiers within their SVGs.
    """
    return [_movie(dataset, name, f"{identifier}-{k}", gauges, largest / len(names)) for k, name in enumerate(names)]


def _movie(dataset, name, identifier, gauges, largest):
    mesh, wet = mesh_of(dataset), wet_cells(dataset)
    count = dataset.sizes["time"]
    records = np.unique(np.linspace(0, count - 1, min(count, MOST_RECORDS)).round().astype(int))
    dries = may_flood(dataset)

    def values(k):
        water = wet & under_water(dataset, k) if dries and "eta" in dataset else wet
        return np.where(water, at_centres(dataset, mesh, name, k), np.nan)

    fields = np.stack([_coarse(values(int(k))) for k in records])
    of_speed = {"long_name": "speed", "units": dataset["u"].attrs.get("units", "m s-1")} if "u" in dataset else {}
    array = xr.DataArray(np.zeros(0), name=name, attrs=dict(dataset[name].attrs) if name in dataset else of_speed)
    norm, colours = field_norm(array, fields[:: max(1, len(fields) // 24)])
    records, frames, pixels = _small_enough(records, fields, norm, colours, largest)
    base, box, shape = _base(dataset, array, identifier, ScalarMappable(norm, colours), gauges)
    time = seconds(dataset)
    stamps = tuple(stamp(float(time[k]), start_of(dataset), float(time[-1])) for k in records)
    times = tuple(float(time[k]) for k in records)
    winds = _winds(storms_of(dataset), mesh, times)
    below = _data_uri(np.rint(255 * relief(mesh, ground(dataset))[::-1]).astype(np.uint8)) if dries else ""
    return Movie(
        name, label(array), frames, stamps, times, winds, below, base, box, shape, pixels, count - len(records)
    )


def _winds(storms, mesh, times):
    """Arrows with a head of two strokes, as the data of an SVG path; "" where no storm is under way."""
    west, east, south, north = mesh.extent
    paths = []
    for time in times:
        lines = [arrows(storm, mesh, time) for storm in storms if storm.times[0] <= time <= storm.times[-1]]
        x0, y0, x1, y1 = np.concatenate(lines, axis=1) if lines else np.zeros((4, 0))
        x, y, left = x1 - 0.3 * (x1 - x0), y1 - 0.3 * (y1 - y0), 0.2 * np.array([-(y1 - y0), x1 - x0])
        corners = [(x0, y0), (x1, y1), (x + left[0], y + left[1]), (x1, y1), (x - left[0], y - left[1])]
        corners = [(1e3 * (x - west) / (east - west), 1e3 * (north - y) / (north - south)) for x, y in corners]
        points = np.rint(np.array(corners).transpose(2, 0, 1)).astype(int)
        paths.append("".join("M" + "L".join(f"{x} {y}" for x, y in arrow) for arrow in points.tolist()))
    return tuple(paths)


def _small_enough(records, fields, norm, colours, largest):
    """(records, images, (columns, rows)) in the best quality that needs at most `largest` bytes."""
    while True:
        for side, levels in QUALITIES:
            frames, total = [], 0
            for values in fields:
                coarse = _coarse(values, side)
                frames.append(_image(coarse, norm, colours, levels))
                total += len(frames[-1])
                if total > largest:
                    break
            else:
                return records, tuple(frames), coarse.shape[::-1]
        if len(records) <= 2:
            raise PlotError(f"report: two maps need more than {largest / 1e6:.1f} MB; give fewer variables.")
        records, fields = records[::2], fields[::2]


def _coarse(values, side=QUALITIES[0][0]):
    """Means over blocks of cells, float32, at most `side` of them along the longer side; NaN where all are land."""
    step = max(values.shape) / side
    if step <= 1:
        return values.astype(np.float32)
    first = [np.linspace(0, n, max(1, round(n / step)), endpoint=False).astype(int) for n in values.shape]
    wet, total = (
        np.add.reduceat(np.add.reduceat(part, first[0], axis=0), first[1], axis=1)
        for part in (np.isfinite(values).astype(float), np.nan_to_num(values))
    )
    return np.where(wet > 0, total / np.maximum(wet, 1), np.nan).astype(np.float32)


def _image(values, norm: Normalize, colours: Colormap, levels: int) -> str:
    """A data URI of the field, the northernmost row first; land is transparent."""
    share = np.clip(np.ma.filled(norm(np.ma.masked_invalid(values[::-1])), 0.0), 0.0, 1.0)
    index = np.rint(share * (levels - 1)).astype(np.uint8)
    index[np.isnan(values[::-1])] = levels
    palette = np.rint(255 * colours(np.linspace(0, 1, levels))[:, :3]).astype(np.uint8)
    return _data_uri(index, [*palette.ravel().tolist(), 0, 0, 0], transparency=levels)


def _data_uri(pixels, palette=None, **options):
    """A PNG of numbers of a palette (ny, nx), or of red, green, blue and opacity (ny, nx, 4)."""
    from PIL import Image

    image, packed = Image.fromarray(pixels, mode="RGBA" if palette is None else "P"), io.BytesIO()
    if palette is not None:
        image.putpalette(palette)
    image.save(packed, format="png", optimize=True, **options)
    return "data:image/png;base64," + base64.b64encode(packed.getvalue()).decode()


def _base(dataset, array, identifier, mappable, gauges):
    """(<svg> of axes, land, gauges and colour bar, the box of the water's images in it, its height over its width)."""
    mesh = mesh_of(dataset)
    width = min(WIDTH, TALLEST / mesh.shape)
    height = width * mesh.shape
    left, below = 0.75, 0.3 if mesh.spherical else 0.5
    size = left + width + 1.0, below + height + 0.14
    with style.applied():
        page = style.new_figure(*size)
        axes = map_axes(page, (left, below, width, height), mesh)
        axes.patch.set_visible(False)
        axes.set_aspect(mesh.aspect)
        draw_surroundings(axes, dataset, shaded=False)
        draw_gauges(axes, mesh, gauges)
        fix_colours(axes)
        colorbar_right_of(axes, mappable, label(array))
        place = axes.get_position()
        svg = as_svg(page, identifier, f"Axes, land and colour bar of {array.name}")
    box = (float(place.x0), float(1 - place.y1), float(place.width), float(place.height))
    return svg, box, size[1] / size[0]
