"""HTML of a page: text, of which every value is escaped unless it is Markup, figures as SVG, and the page around them.

Greys of figures are variables of the page's style, which differ in light and dark mode. A page is one file
with its style and script. Properties of a run come from its files: its set-up, its timing, the scores of its gauges.
"""

import base64
import dataclasses
import html
import io
import json
import pathlib
import re
import string
from collections.abc import Iterable, Sequence

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patheffects import withStroke

from .. import style
from ..files import mesh_of, seconds, start_of, wet_cells
from ..scores import time_unit

DPI = 150  # of the parts of an SVG that are images, such as land
# what figures draw in these colours -> the variable of page.css
COLOURS = {
    "#ffffff": "--paper",
    "#000000": "--ink",
    style.BLACK: "--ink",
    "#3a3a3a": "--ink",
    "#444444": "--soft",
    "#555555": "--soft",
    style.GREY: "--soft",
    "#8c8c8c": "--record",
    "#d9d9d9": "--line",
    "#f1f1f1": "--shade",
}
INK, PAPER = "#1b1b1b", "#fefefe"  # in light and dark mode
_NAMED = re.compile(r'\bid="([^"]+)"')
_POINTS_TO = re.compile(r'(url\(#|href="#)([^")]+)')


class Markup(str):
    """HTML that is put into a page as it is; any other text is escaped."""


class _Escaping(string.Formatter):
    def format_field(self, value: object, format_spec: str) -> str:
        text = super().format_field(value, format_spec)
        return text if isinstance(value, Markup) else html.escape(text)


def markup(form: str, *values: object, **named: object) -> Markup:
    """Fill a form, HTML with places as in str.format, with values, and escape those that are not Markup.

    Args:
        form: a literal of the program, never text from a file.
    """
    return Markup(_Escaping().vformat(form, values, named))


def joined(parts: Iterable[str], between: str = "") -> Markup:
    """The parts in a row; those that are not Markup are escaped."""
    return Markup(between.join(markup("{}", part) for part in parts))


def json_markup(data: object) -> Markup:
    """JSON for a <script> element, which no text within it can end."""
    return Markup(json.dumps(data, separators=(",", ":")).replace("<", "\\u003c"))


def as_svg(figure: Figure, name: str, description: str) -> Markup:
    """A figure as an <svg> element.

    Args:
        name: of the figure, letters, digits and hyphens; the identifiers within the SVG begin with it, so that those of
            two figures differ.
        description: text for screen readers.
    """
    figure.patch.set_alpha(0.0)
    text = io.StringIO()
    with style.applied():
        figure.savefig(text, format="svg", dpi=DPI, metadata={"Date": None, "Creator": None})
    svg = text.getvalue()
    svg = re.sub(r"<metadata>.*?</metadata>", "", svg[svg.index("<svg") :], flags=re.DOTALL)
    head, _, body = svg.partition(">")
    box = re.search(r'viewBox="[^"]+"', head)
    body = _NAMED.sub(rf'id="{name}-\1"', body)
    body = _POINTS_TO.sub(rf"\g<1>{name}-\2", body)
    for colour, variable in COLOURS.items():
        body = re.sub(re.escape(colour), f"var({variable})", body, flags=re.IGNORECASE)
    form = '<svg xmlns:xlink="http://www.w3.org/1999/xlink" {} role="img" aria-label="{}">{}'
    return markup(form, Markup(box[0] if box else ""), description, Markup(body))


def fix_colours(axes: Axes) -> None:
    """Prepare a map for `as_svg`: it is light in dark mode, too, so that what lies on it keeps its colours.

    Its fields and land become images.
    """
    vector = 4.0  # the zorder from which on lines stay lines
    for artist in (*axes.images, *axes.collections):
        artist.set_rasterized(artist.get_zorder() < vector)
    for lines in axes.collections:
        if lines.get_zorder() >= vector:
            lines.set_edgecolor(INK)
    for dot in axes.lines:
        dot.set_markeredgecolor(INK)
        dot.set_markerfacecolor(PAPER)
    for text in axes.texts:
        text.set_color(INK)
        text.set_path_effects([withStroke(linewidth=2.0, foreground=PAPER)])


def as_image(figure: Figure, description: str, dpi: float = 110) -> Markup:
    """A figure as an <img> element that holds its WebP, on white: for figures with many fields."""
    from PIL import Image

    pixels, packed = io.BytesIO(), io.BytesIO()
    figure.savefig(pixels, format="png", dpi=dpi)
    Image.open(pixels).convert("RGB").save(packed, format="webp", quality=88)
    data = base64.b64encode(packed.getvalue()).decode()
    return markup('<img src="data:image/webp;base64,{}" alt="{}">', data, description)


HERE = pathlib.Path(__file__).parent


@dataclasses.dataclass(frozen=True)
class Section:
    """A part of the page: the name that links to it, its heading, and its HTML.

    `grid` is the name of the grid to which it belongs, "" for the outermost one; None on a page of one grid.
    """

    name: str
    heading: str
    body: Markup
    grid: str | None = None


def filled(title: str, lead: str, source: str, shown: Sequence[Section], command: str, grids: Markup | str = "") -> str:
    """The page around sections.

    Args:
        title: its heading.
        lead: the line below.
        source: the program that made it.
        shown: the sections.
        command: that wrote the page.
        grids: buttons of which each shows the sections of one grid.
    """
    read = lambda name: Markup((HERE / name).read_text(encoding="utf-8").strip())  # noqa: E731
    form = "This page needs no other file and no network. It was written by <code>{}</code>."
    link = '<a href="#{}"{}>{}</a>'
    section = '<section aria-labelledby="{0}"{3}><h2 id="{0}">{1}</h2>{2}</section>'
    values = {
        "title": title,
        "lead": lead,
        "generator": source,
        "style": read("page.css"),
        "script": read("page.js"),
        "grids": grids,
        "contents": joined((markup(link, x.name, _of_grid(x), x.heading) for x in shown), " "),
        "body": joined((markup(section, x.name, x.heading, x.body, _of_grid(x)) for x in shown), "\n"),
        "footer": markup(form, command),
    }
    return string.Template(read("page.html")).substitute({name: markup("{}", text) for name, text in values.items()})


def _of_grid(section):
    """The attributes of what belongs to one of several grids; the outermost one's shows at first."""
    if section.grid is None:
        return ""
    return markup(' data-grid="{}"{}', section.grid, Markup(" hidden" if section.grid else ""))


def as_figure(content: str) -> Markup:
    """An image or SVG in the place of a figure."""
    return markup("<figure>{}</figure>", content)


def as_table(heads: Iterable[str], lines: Iterable[Iterable[str]], kind: str = "numbers") -> Markup:
    """A table with its heads and lines of cells, most of which are "numbers" or "words"."""
    head = joined(markup('<th scope="col">{}</th>', cell) for cell in heads)
    rows = (joined(markup("<td>{}</td>", cell) for cell in line) for line in lines)
    body = joined(markup("<tr>{}</tr>", row) for row in rows)
    form = '<div class="wide"><table class="{}"><thead><tr>{}</tr></thead><tbody>{}</tbody></table></div>'
    return markup(form, kind, head, body)


def choice(label: str, name: str, titles: Sequence[str]) -> Markup:
    """Buttons of which one is pressed, the first one at the beginning."""
    form = '<span><input type="radio" name="{0}" id="{0}-{1}"{2}><label for="{0}-{1}">{3}</label></span>'
    buttons = (markup(form, name, k, "" if k else " checked", title) for k, title in enumerate(titles))
    return markup('<fieldset class="choice" id="{}" aria-label="{}">{}</fieldset>', name, label, joined(buttons))


def controls(last: int, value: int, label: str, data: list[dict]) -> Markup:
    """A button that plays, and a slider from 0 to `last`.

    Args:
        last, value: of the slider, and where it stands at first.
        label: what it chooses, for screen readers.
        data: for page.js: the stamps and seconds of each place of the slider, and images for the maps of the page.
    """
    return markup(
        '<div class="controls"><button type="button">Play</button>'
        '<input type="range" min="0" max="{}" value="{}" step="1" aria-label="{}"><output></output></div>'
        '<script type="application/json">{}</script>',
        last,
        value,
        label,
        json_markup(data),
    )


def keys_note(what: str, *more: str) -> Markup:
    """The note below a slider over `what`, on the keys that move it, with further sentences."""
    form = '<p class="note">The keys <kbd>←</kbd> and <kbd>→</kbd> step through {}, and the space bar plays them.{}</p>'
    return markup(form, what, joined(more))


def moments(stamps: Sequence[str], parts: Sequence[str], label: str) -> Markup:
    """Parts of a page of which a slider shows one; without a script that is the last one.

    Args:
        stamps: the text next to the slider for each part.
        parts: their HTML.
        label: what the slider chooses.
    """
    last = len(parts) - 1
    data = {"stamps": list(stamps), "seconds": list(range(last + 1)), "frames": [], "winds": []}
    form = '<div data-moment="{}"{}>{}</div>'
    shown = joined(markup(form, k, "" if k == last else " hidden", part) for k, part in enumerate(parts))
    return markup('<div class="map">{}</div>{}', controls(last, last, label, [data]), shown)


TIMING = "timing.json"  # in the folder of the output files; swmodel/cli/logs.py writes it


def setup_rows(dataset: xr.Dataset) -> list[tuple[str, str]]:
    """(label, text) pairs of the model, from a file of fields, or a file without a grid."""
    rows, attributes = [], dataset.attrs
    if {"xh", "yh"} <= set(dataset.variables):
        mesh, wet = mesh_of(dataset), wet_cells(dataset)
        kind = "longitude and latitude" if mesh.spherical else "Cartesian"
        rows.append(("Grid", f"{mesh.x.size} × {mesh.y.size} cells, {kind}"))
        rows.append(("Extent", _extent(mesh)))
        rows.append(("Water", f"{100 * wet.mean():.0f} % of the cells{_depths(dataset, wet)}"))
    start, step = start_of(dataset), attributes.get("time_step_seconds")
    if start is not None:
        rows.append(("Start", f"{start:%Y-%m-%d %H:%M:%S} UTC"))
    if "time" in dataset.variables and dataset["time"].size > 1:
        time = seconds(dataset)
        unit, _, length = time_unit(abs(float(time[-1])) * 0.999)
        rows.append(("Records", f"{time.size}, from {time[0] / length:.4g} to {time[-1] / length:.4g} {unit}"))
    if step is not None:
        stepper = str(attributes.get("time_stepper", "")).partition("(")[0]
        rows.append(("Time step", f"{float(step):.6g} s, {stepper}".rstrip(", ")))
    ranks = attributes.get("ranks")
    if ranks is not None:
        layout = str(attributes.get("layout", "")).replace(" x ", " × ")
        rows.append(
            ("Ranks", f"{int(ranks)}" + (f", {layout}, {attributes['communicator']}" if int(ranks) > 1 else ""))
        )
    if "computed_in" in attributes:
        rows.append(("Precision", str(attributes["computed_in"])))
    return rows


def _extent(mesh):
    west, east, south, north = mesh.extent
    if mesh.spherical:
        return f"{west:g}° to {east:g}° east, {south:g}° to {north:g}° north"
    return f"{(east - west) * mesh.scale:g} × {(north - south) * mesh.scale:g} {mesh.unit}"


def _depths(dataset, wet):
    if "depth" not in dataset or not wet.any() or dataset["depth"].ndim != 2:
        return ""
    depth = dataset["depth"].values[wet]
    low, high = float(np.nanmin(depth)), float(np.nanmax(depth))
    return f", {low:.4g} m deep" if low == high else f", {low:.4g} to {high:.4g} m deep"


def _duration(time):
    unit, _, length = time_unit(abs(float(time)) * 0.999)
    return f"{float(time) / length:.3g} {unit}"


def timing_rows(folder: pathlib.Path, cells: int) -> list[tuple[str, str]]:
    """(label, text) pairs of the time that the run took, from timing.json; none without this file.

    Args:
        cells: of the grid.
    """
    try:
        legs = json.loads((folder / TIMING).read_text(encoding="utf-8"))
        steps = sum(int(leg["steps"]) for leg in legs)
        wall = sum(float(leg["wall_seconds"]) for leg in legs)
        model = sum(float(leg["model_seconds"]) for leg in legs)
        first = [float(leg["first_step_after_seconds"]) for leg in legs if leg["first_step_after_seconds"] is not None]
    except (OSError, ValueError, KeyError, TypeError):
        return []
    if not legs or wall <= 0:
        return []
    parts = f", in {len(legs)} runs" if len(legs) > 1 else ""
    rows = [
        ("Duration", f"{_duration(wall)} for {_duration(model)} of model time{parts}"),
        ("Speed", f"{_digits(model / wall)} times as fast as real time"),
        ("Steps", f"{steps:,}, {_digits(steps / wall)} a second"),
        ("Cells", f"{_digits(steps * cells / wall / 1e6)} million cell updates a second"),
    ]
    return rows + ([("First step", f"after {_duration(first[0])}, with start and compilation")] if first else [])


def _digits(value):
    return f"{value:.3g}" if value < 1000 else f"{float(f'{value:.3g}'):,.0f}"
