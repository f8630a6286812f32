"""Mistakes of an experiment file: each has a key path, a line and one sentence."""

import dataclasses
import difflib
import os
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from .toml import line_of

if TYPE_CHECKING:
    from .experiment import Override


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


def nearest(name: object, known: Iterable[object]) -> str:
    """A hint for an unknown name: "did you mean ...?", or the known names."""
    known, name = [str(k) for k in known], str(name).lower()
    spelled = {k.lower(): k for k in known}
    holding = [k for k in spelled if len(name) > 2 and name in k]
    near = holding if len(holding) == 1 else difflib.get_close_matches(name, spelled, 1, cutoff=0.55)
    return f"did you mean {spelled[near[0]]!r}?" if near else f"known are {', '.join(sorted(known))}"


def mistakes_of_names(
    names: Iterable[str], known: Collection[str], path: tuple, what: str = "gauge", keys: bool = False
) -> Iterator[Mistake]:
    """Mistakes of names that are not `known`, at `path`, or if they are `keys`, at these keys of the table there."""
    for name in names:
        if name not in known:
            yield Mistake((*path, name) if keys else path, f"there is no {what} {name!r}; {nearest(name, known)}")
