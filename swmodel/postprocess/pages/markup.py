"""Text as HTML: every value is escaped unless it is Markup, so that no name from a file is read as a tag."""

import html
import json
import string
from collections.abc import Iterable
from typing import Any

__all__ = ["Markup", "joined", "json_markup", "markup"]


class Markup(str):
    """HTML that is put into a page as it is; any other text is escaped."""


class _Escaping(string.Formatter):
    def format_field(self, value: Any, format_spec: str) -> str:
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
