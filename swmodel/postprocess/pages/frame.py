"""The frame of a page: its sections, with tables and a slider, in one file with its style and script."""

import dataclasses
import pathlib
import string
from collections.abc import Iterable, Sequence

from .drawings import Markup, joined, json_markup, markup

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
    values = {
        "title": title,
        "lead": lead,
        "generator": source,
        "style": read("page.css"),
        "script": read("page.js"),
        "grids": grids,
        "contents": joined(map(_linked, shown), " "),
        "body": joined(map(_framed, shown), "\n"),
        "footer": markup(form, command),
    }
    return string.Template(read("page.html")).substitute({name: markup("{}", text) for name, text in values.items()})


def _of_grid(section):
    """The attributes of what belongs to one of several grids; the outermost one's shows at first."""
    if section.grid is None:
        return ""
    return markup(' data-grid="{}"{}', section.grid, Markup(" hidden" if section.grid else ""))


def _linked(section):
    return markup('<a href="#{}"{}>{}</a>', section.name, _of_grid(section), section.heading)


def _framed(section):
    form = '<section aria-labelledby="{0}"{3}><h2 id="{0}">{1}</h2>{2}</section>'
    return markup(form, section.name, section.heading, section.body, _of_grid(section))


def as_figure(content: str) -> Markup:
    """An image or SVG in the place of a figure."""
    return markup("<figure>{}</figure>", content)


def as_table(heads: Iterable[str], lines: Iterable[Iterable[str]]) -> Markup:
    """A table with its heads and lines of cells."""
    head = joined(markup('<th scope="col">{}</th>', cell) for cell in heads)
    rows = (joined(markup("<td>{}</td>", cell) for cell in line) for line in lines)
    body = joined(markup("<tr>{}</tr>", row) for row in rows)
    return markup('<div class="wide"><table><thead><tr>{}</tr></thead><tbody>{}</tbody></table></div>', head, body)


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
