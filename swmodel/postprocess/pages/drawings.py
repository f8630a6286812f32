"""HTML of a page: text, of which every value is escaped unless it is Markup, and figures as SVG.

Greys of figures are variables of the page's style, which differ in light and dark mode.
"""

import base64
import html
import io
import json
import re
import string
from collections.abc import Iterable

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patheffects import withStroke

from .. import style

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


def fix_colours(axes: Axes, vector: float = 4.0) -> None:
    """Prepare a map for `as_svg`: it is light in dark mode, too, so that what lies on it keeps its colours.

    Args:
        axes: of the map.
        vector: the images and contours below this zorder become images.
    """
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
