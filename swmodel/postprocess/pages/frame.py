"""The frame of a page: its sections, with tables and a slider, in one file with its style and script."""

import dataclasses
import pathlib
import string
from collections.abc import Iterable, Sequence

from .drawings import Markup, joined, json_markup, markup

__all__ = ["Section", "as_figure", "as_table", "controls", "filled", "moments"]

HERE = pathlib.Path(__file__).parent


@dataclasses.dataclass(frozen=True)
class Section:
    """A part of the page: the name that links to it, its heading, and its HTML."""

    name: str
    heading: str
    body: Markup


def filled(title: str, lead: str, source: str, shown: Sequence[Section], command: str) -> str:
    """The page around sections.

    Args:
        title: its heading.
        lead: the line below.
        source: the program that made it.
        shown: the sections.
        command: that wrote the page.
    """
    read = lambda name: Markup((HERE / name).read_text(encoding="utf-8").strip())  # noqa: E731
    form = "This page needs no other file and no network. It was written by <code>{}</code>."
    values = {
        "title": title,
        "lead": lead,
        "generator": source,
        "style": read("page.css"),
        "script": read("page.js"),
        "contents": joined((markup('<a href="#{}">{}</a>', s.name, s.heading) for s in shown), " "),
        "body": joined(map(_framed, shown), "\n"),
        "footer": markup(form, command),
    }
    return string.Template(read("page.html")).substitute({name: markup("{}", text) for name, text in values.items()})


def _framed(section):
    form = '<section aria-labelledby="{0}"><h2 id="{0}">{1}</h2>{2}</section>'
    return markup(form, section.name, section.heading, section.body)


def as_figure(content: str) -> Markup:
    """An image or SVG in the place of a figure."""
    return markup("<figure>{}</figure>", content)


def as_table(heads: Iterable[str], lines: Iterable[Iterable[str]]) -> Markup:
    """A table with its heads and lines of cells."""
    head = joined(markup('<th scope="col">{}</th>', cell) for cell in heads)
    rows = (joined(markup("<td>{}</td>", cell) for cell in line) for line in lines)
    body = joined(markup("<tr>{}</tr>", row) for row in rows)
    return markup('<div class="wide"><table><thead><tr>{}</tr></thead><tbody>{}</tbody></table></div>', head, body)


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
