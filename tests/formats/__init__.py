"""The formats that are read and written: a small synthetic file of each, and the files of it that are refused.

A module of this folder has a function for each format, marked by `@example("its name")`. It writes a file of the shape
that public documentation describes, reads it, and asserts its values within the file's own precision and the sentence
on what was assumed. Then it yields (attempt, words) for files that are damaged, in other units, or without attributes:
`attempt()` has to raise one sentence that names the file and has these words. `make verify CASE=formats` counts them.
"""

import importlib
import pkgutil
import re
from collections.abc import Callable, Iterator
from pathlib import Path

from swmodel.errors import SwmodelError

Attempts = Iterator[tuple[Callable[[], object], str]]
EXAMPLES: dict[str, Callable[[Path], Attempts]] = {}


def example(name: str) -> Callable[[Callable[[Path], Attempts]], Callable[[Path], Attempts]]:
    """Register the function of a format under its name."""

    def register(function):
        assert name not in EXAMPLES, name
        EXAMPLES[name] = function
        return function

    return register


def load() -> dict[str, Callable[[Path], Attempts]]:
    """{name: function} of all formats, of every module in this folder."""
    for module in pkgutil.iter_modules(__path__):
        importlib.import_module(f"{__name__}.{module.name}")
    return EXAMPLES


def wrong(function: Callable[[Path], Attempts], folder: Path) -> list[str]:
    """What is wrong with the reading of a format, a sentence each; none if all is right."""
    found = []
    for attempt, words in function(folder):
        try:
            attempt()
        except SwmodelError as error:
            text = str(error)
            if not re.search(words, text) or str(folder) not in text or text.count("\n") > 1:
                found.append(f"{words!r} and the file are not in the one sentence {text!r}")
        else:
            found.append(f"a file is read that should be refused with {words!r}")
    return found
