"""A Sphinx extension: docstrings are plain text, with Google sections and indented equations.

Sphinx reads docstrings as reStructuredText, in which `|u| u` and `h_u * v` are markup. This extension escapes such
characters outside of back-quotes, and shows an indented block that follows a paragraph as it stands, in fixed width.
Sections (Args, Returns, Raises, ...) are left to napoleon, which runs next.
"""

import re
from typing import Any

SECTIONS = ("Args", "Arguments", "Attributes", "Example", "Examples", "Note", "Raises", "Returns", "Yields")
SECTION = re.compile(rf"^({'|'.join(SECTIONS)}):\s*$")
CODE = re.compile(r"(``[^`]+``|`[^`\n]+`)")


def indentation(line: str) -> int:
    return len(line) - len(line.lstrip())


def escape(text: str) -> str:
    """`text` with reStructuredText's markup escaped, but for code between back-quotes."""
    parts = CODE.split(text)
    for i, part in enumerate(parts):
        if i % 2:
            parts[i] = f"``{part.strip('`')}``"
        else:
            parts[i] = re.sub(r"([*|\\`])|(?<=\w)(_)(?!\w)", lambda found: "\\" + found.group(0), part)
    return "".join(parts)


def plain(lines: list[str]) -> list[str]:
    """The lines of a docstring as reStructuredText that shows what they say."""
    result: list[str] = []
    in_section = literal = False
    for i, line in enumerate(lines):
        before = lines[i - 1] if i else ""
        if not line.strip():
            result.append("")
            continue
        if indentation(line) == 0:
            in_section, literal = bool(SECTION.match(line)), False
        elif not in_section and not literal and not before.strip():
            result += ["::", ""]
            literal = True
        result.append(line if literal or SECTION.match(line) else escape(line))
    return result


def process(app: Any, what: str, name: str, obj: Any, options: Any, lines: list[str]) -> None:
    lines[:] = plain(lines)


def setup(app: Any) -> dict[str, bool]:
    app.connect("autodoc-process-docstring", process, priority=100)  # napoleon's is 500
    return {"parallel_read_safe": True, "parallel_write_safe": True}
