"""What `tomllib` does not do: the line of each key in a TOML text, TOML text of tables, and mistakes with their line.

`tomllib` has read the text before, so that it is valid. The scanner only has to distinguish keys from values.

Each mistake of an experiment file has a key path, a line and one sentence.
"""

import bisect
import dataclasses
import datetime
import json
import math
import os
import re
import tomllib
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ..errors import nearest

if TYPE_CHECKING:
    from .experiment import Override

_BARE = re.compile(r"[A-Za-z0-9_-]+")
_BLANK = re.compile(r"(?:\s|#[^\n]*)*")
_SPACE = re.compile(r"[ \t]*")
_SCALAR = re.compile(r"[^,\]}\n#]*")
_STRINGS = (
    re.compile(r'"""(?:\\.|[^\\])*?"""(?:"{0,2})', re.S),
    re.compile(r"'''.*?'''(?:'{0,2})", re.S),
    re.compile(r'"(?:\\.|[^"\\\n])*"'),
    re.compile(r"'[^'\n]*'"),
)


def key_lines(text: str) -> dict[tuple[str | int, ...], int]:
    """{key path: line}, where a path is a tuple of names and, in arrays, indices; lines count from 1."""
    scanner = _Scanner(text)
    scanner.document()
    return scanner.lines


def line_of(lines: Mapping[tuple[str | int, ...], int], path: Sequence[str | int]) -> int | None:
    """The line of `path`, or of the nearest table above it that is in the text; None for an empty document."""
    for length in range(len(path), 0, -1):
        if tuple(path[:length]) in lines:
            return lines[tuple(path[:length])]
    return None


class _Scanner:
    def __init__(self, text):
        self.text, self.position = text, 0
        self.lines, self.arrays = {}, {}
        self.ends = [match.start() for match in re.finditer("\n", text)]

    def document(self):
        table = ()
        while self._skip(_BLANK) < len(self.text):
            if self._next("[["):
                table = self._header("]]", array=True)
            elif self._next("["):
                table = self._header("]", array=False)
            else:
                self._assignment(table)

    def _header(self, end, array):
        start = self.position
        names = self._key()
        self._next(end)
        path = ()
        for depth, name in enumerate(names, 1):
            path += (name,)
            if array and depth == len(names):
                self.arrays[path] = self.arrays.get(path, -1) + 1
            if path in self.arrays:
                self._mark(path, start)
                path += (self.arrays[path],)
            self._mark(path, start)
        return path

    def _assignment(self, table):
        start = self.position
        for name in self._key():
            table += (name,)
            self._mark(table, start)
        self._next("=")
        self._value(table)

    def _key(self):
        names = []
        while True:
            names.append(self._name())
            if not self._next("."):
                return names

    def _name(self):
        self._skip(_SPACE)
        bare = _BARE.match(self.text, self.position)
        if bare:
            self.position = bare.end()
            return bare[0]
        quoted = self._string()
        return quoted[1:-1] if quoted[0] == "'" else tomllib.loads(f"k = {quoted}")["k"]

    def _value(self, path):
        self._skip(_SPACE)
        if self.text[self.position] in "\"'":
            self._string()
        elif self._next("["):
            self._items(path, "]", lambda index: self._value(path + (index,)))
        elif self._next("{"):
            self._items(path, "}", lambda index: self._assignment(path))
        else:
            self._skip(_SCALAR)

    def _items(self, path, end, item):
        index = 0
        while self._skip(_BLANK) < len(self.text) and not self._next(end):
            if end == "]":
                self._mark(path + (index,), self.position)
            item(index)
            index += 1
            self._skip(_BLANK)
            self._next(",")

    def _string(self):
        for pattern in _STRINGS:
            match = pattern.match(self.text, self.position)
            if match:
                self.position = match.end()
                return match[0]
        raise ValueError(f"no TOML string at character {self.position}")

    def _next(self, token):
        self._skip(_SPACE)
        if self.text.startswith(token, self.position):
            self.position += len(token)
            return True
        return False

    def _skip(self, pattern):
        self.position = pattern.match(self.text, self.position).end()
        return self.position

    def _mark(self, path, position):
        self.lines.setdefault(path, bisect.bisect_left(self.ends, position) + 1)


def dump(tables: Mapping[str, Any]) -> str:
    """TOML text that `tomllib` reads as `tables`, nested dicts and lists of text, numbers and dates."""
    return "\n".join(_table(tables, ())) + "\n"


def _table(table, path):
    """Lines of a table: its own values first, then the tables in it."""
    lines = [f"{_key(name)} = {_value(value)}" for name, value in table.items() if not _has_header(value)]
    for name, value in table.items():
        inner = (*path, _key(name))
        if isinstance(value, dict):
            lines += ["", f"[{'.'.join(inner)}]", *_table(value, inner)]
        elif _has_header(value):
            for element in value:
                lines += ["", f"[[{'.'.join(inner)}]]", *_table(element, inner)]
    return lines


def _has_header(value):
    return isinstance(value, dict) or (
        isinstance(value, list) and value != [] and all(isinstance(v, dict) for v in value)
    )


def _key(name):
    return name if re.fullmatch(r"[A-Za-z0-9_-]+", name) else json.dumps(name)


def _value(value):
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007F")
    if isinstance(value, float):
        return repr(value) if math.isfinite(value) else str(value)
    if isinstance(value, (datetime.date, datetime.time)):
        return value.isoformat()
    if isinstance(value, list):
        return f"[{', '.join(map(_value, value))}]"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{_key(name)} = {_value(inner)}" for name, inner in value.items()) + "}"
    return repr(value)


@dataclasses.dataclass(frozen=True)
class Mistake:
    """A mistake of the key at `path` (names, and indices in arrays), described by `text`."""

    path: tuple[str | int, ...]
    text: str

    def sentence(
        self, file: str | os.PathLike, lines: Mapping[tuple[str | int, ...], int], overrides: "Sequence[Override]" = ()
    ) -> str:
        """The mistake in a sentence, with the file and line, or the command-line option, that has the key."""
        key = dotted(self.path)
        for override in overrides:
            if self.path[: len(override.path)] == override.path:
                return f"{override.option}: {key + ': ' if key != dotted(override.path) else ''}{self.text}"
        line = line_of(lines, self.path)
        return f"{file}{f':{line}' if line else ''}: {key + ': ' if key else ''}{self.text}"


def path_of(key: str) -> tuple[str | int, ...]:
    """ "forcing[0].x" or "forcing.0.x" as ("forcing", 0, "x")."""
    parts = key.replace("[", ".").replace("]", "").split(".")
    return tuple(int(part) if part.isdigit() else part for part in parts)


def dotted(path: Sequence[str | int]) -> str:
    """("forcing", 0, "x") as "forcing[0].x"."""
    text = ""
    for part in path:
        text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else str(part)
    return text


def as_written(path: Sequence[str | int], raw: Any) -> tuple[str | int, ...]:
    """`path` without the index of a list for which the tables `raw` of a file have a single table."""
    found: list[str | int] = []
    value: Any = raw
    for part in path:
        if isinstance(part, int) and isinstance(value, dict):
            continue
        found.append(part)
        try:
            value = value[part]
        except (LookupError, TypeError):
            value = None
    return tuple(found)


def mistakes_of_names(
    names: Iterable[str], known: Collection[str], path: tuple, what: str = "gauge", keys: bool = False
) -> Iterator[Mistake]:
    """Mistakes of names that are not `known`, at `path`, or if they are `keys`, at these keys of the table there."""
    for name in names:
        if name not in known:
            yield Mistake((*path, name) if keys else path, f"there is no {what} {name!r}; {nearest(name, known)}")
