"""`swmodel plot`, `report` and `view`: the post-processing that comes with the package, with this program's errors."""

import importlib.util
import os
import sys
import webbrowser
from collections.abc import Sequence
from pathlib import Path

from ..config.quantities import quantity_of_option
from ..errors import SwmodelError
from ..runtime.resources import postprocess

__all__ = ["draw", "open_page", "plot_files", "report_files", "require", "score_table"]


def require() -> None:
    """Raise SwmodelError if matplotlib is missing, before a long run instead of after it."""
    if importlib.util.find_spec("matplotlib") is None:
        raise SwmodelError(
            "--plot needs matplotlib, which is not installed; pip install matplotlib, or leave --plot out."
        )


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
    print(*draw(files, output, kind, observations, variable, seconds, member, sides, layer), sep="\n")


def score_table(gauges: str | Path, observations: str | Path) -> str:
    """The scores of a gauge file against observed records; raises SwmodelError with one sentence if there are none."""
    module = postprocess()
    try:
        return module.score_table(gauges, observations)
    except module.PlotError as error:
        raise SwmodelError(str(error)) from error


def draw(
    files: Sequence[str | Path],
    output: str | None = None,
    kind: str = "auto",
    observations: str | None = None,
    variable: str | None = None,
    times: Sequence[float] | None = None,
    member: int | None = None,
    box: tuple[Sequence[float], Sequence[float]] | None = None,
    layer: int = 1,
) -> list[Path]:
    """The paths of the figures; raises SwmodelError with one sentence if they cannot be drawn."""
    module = postprocess()
    try:
        paths = [Path(file) for file in files]
        return module.plot(paths, output, kind, observations, variable, times, member, box, layer)
    except module.PlotError as error:
        raise SwmodelError(str(error)) from error


def report_files(
    files: Sequence[str | Path],
    output: str | None = None,
    observations: str | None = None,
    variables: Sequence[str] | None = None,
    member: int = 0,
) -> Path:
    """The path of the page that was written; raises SwmodelError with one sentence if there is nothing to show."""
    if importlib.util.find_spec("matplotlib") is None:
        raise SwmodelError("the page of a run needs matplotlib, which is not installed; pip install 'swmodel[plots]'.")
    module = postprocess()
    try:
        return module.report([Path(file) for file in files], output, observations, variables or (), member)
    except module.PlotError as error:
        raise SwmodelError(str(error)) from error


def open_page(page: Path) -> None:
    """Open a page in the user's browser, and print its path; without a display, print only the path."""
    shown = _has_display() and webbrowser.open(page.resolve().as_uri())
    print(page if shown else f"{page}\nno browser was opened, as there is no display here; open this file in one.")


def _has_display():
    return sys.platform in ("darwin", "win32") or any(os.environ.get(key) for key in ("DISPLAY", "WAYLAND_DISPLAY"))
