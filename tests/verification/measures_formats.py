"""How many formats of files are read and written, and how many wrongly; tests/formats/ has an example of each."""

import tempfile
from pathlib import Path

from swmodel.verification import Case, Mark, Outcome
from tests.formats import load, wrong


def formats() -> Outcome:
    """The number of formats with an example, and of those whose example fails."""
    failed = 0
    for name, function in load().items():
        with tempfile.TemporaryDirectory() as folder:
            try:
                mistakes = wrong(function, Path(folder))
            except Exception as error:
                mistakes = [f"{type(error).__name__}: {error}"]
        print(*(f"{name}: {text}" for text in mistakes), sep="\n", end="\n" if mistakes else "")
        failed += bool(mistakes)
    return Outcome({"formats": float(len(load())), "formats_wrong": float(failed)})


Case(
    name="formats",
    group="files",
    title="Formats of files",
    tests="readers and writers",
    source="the public documentation of each format",
    doi="",
    equation="a synthetic file of each format is read to its values, and a damaged one is refused in one sentence",
    measure=lambda _: formats(),
    marks=(
        Mark("formats", "formats with an example", least=40),
        Mark("formats_wrong", "formats that are not read or refused as they should be", most=0),
    ),
)
