"""`swmodel plot`, `report` and `view`: the post-processing that comes with the package."""

import importlib.util
import os
import sys
import webbrowser
from collections.abc import Sequence
from pathlib import Path

from .. import postprocess
from ..config.quantities import quantity_of_option
from ..errors import SwmodelError

__all__ = ["look_at_files", "open_page", "plot_files", "report_files", "require"]


def require(what: str = "--plot", remedy: str = ", or leave --plot out") -> None:
    """Raise SwmodelError if matplotlib is missing, before a long run instead of after it."""
    if importlib.util.find_spec("matplotlib") is None:
        raise SwmodelError(f"{what} needs matplotlib, which is not installed; pip install 'swmodel[plots]'{remedy}.")


def plot_files(
    files: Sequence[str],
    output: str | None = None,
    kind: str = "auto",
    observations: str | None = None,
    variable: str | None = None,
    times: Sequence[str] | None = None,
    member: int | None = None,
    box: Sequence[float] | None = None,
    layer: int = 1,
) -> None:
    """Draw figures of output files, and print their paths."""
    seconds = [quantity_of_option("--time", time, "s") for time in times] if times else None
    sides = (box[:2], box[2:]) if box else None
    print(*postprocess.plot(files, output, kind, observations, variable, seconds, member, sides, layer), sep="\n")


def report_files(
    files: Sequence[str | Path],
    output: str | None = None,
    observations: str | None = None,
    variables: Sequence[str] | None = None,
    member: int = 0,
) -> Path:
    """The path of the page that was written; raises SwmodelError with one sentence if there is nothing to show."""
    require("the page of a run", "")
    return postprocess.report([Path(file) for file in files], output, observations, variables or (), member)


def look_at_files(files: Sequence[str], output: str, box: Sequence[float] | None, margin: int) -> None:
    """Describe files of elevations, draw what would be read from them, and print the path of the figure."""
    require("the figure", "")
    described, figure = postprocess.bathymetry(files, output, box, margin)
    for one in described:
        print(one.name, *(f"  {line}" for line in one.lines), sep="\n")
    print(figure)


def open_page(page: Path) -> None:
    """Open a page in the user's browser, and print its path; without a display, print only the path."""
    shown = _has_display() and webbrowser.open(page.resolve().as_uri())
    print(page if shown else f"{page}\nno browser was opened, as there is no display here; open this file in one.")


def _has_display():
    return sys.platform in ("darwin", "win32") or any(os.environ.get(key) for key in ("DISPLAY", "WAYLAND_DISPLAY"))
