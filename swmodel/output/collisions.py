"""Paths to one file: no output may be an input of its run or another output, and its old figures are removed with it.

Files that exist are compared by device and inode, so that links are followed and hard links are recognised. Other files
are compared by their real paths. The run may still have to make a folder of such a path, as in output/../depth.nc.
"""

import os
from collections.abc import Iterable
from pathlib import Path

from ..errors import ConfigError

__all__ = ["KINDS", "STATISTICS", "check_apart", "remove_figures", "same_file"]


def _identity(path):
    real = os.path.realpath(path)
    try:
        status = os.stat(real)
    except OSError:
        return real
    return status.st_dev, status.st_ino


def same_file(a: str | Path, b: str | Path) -> bool:
    """Whether two paths lead to one file, or would lead to one if it existed."""
    return _identity(a) == _identity(b)


def check_apart(outputs: Iterable[tuple[str, Path]], inputs: Iterable[tuple[str, Path]] = ()) -> None:
    """Refuse outputs that would destroy an input or one another.

    Args:
        outputs: (what it is, path) of every file that is to be written.
        inputs: (what it is, path) of every file that is read; of a folder, the files in it count.

    Raises:
        ConfigError: with one sentence for each output that is also another of these files, or a folder of one.
    """
    known, mistakes, outputs = {}, [], list(outputs)
    for what, path in inputs:
        path = Path(path)
        for file in path.iterdir() if path.is_dir() else [path]:
            known.setdefault(_identity(file), (what, file, "which the run reads"))
    for what, path in outputs:
        other, file, harm = known.setdefault(_identity(path), (what, path, "which is written, too"))
        if (other, file) != (what, path):
            link = "" if str(file) == str(path) else f" ({file})"
            mistakes.append(f"{what}: {path} is also the file of {other}{link}, {harm}; give it another name.")
    folders = {os.path.realpath(path): (what, path) for what, path in outputs}
    for what, file, _ in known.values():
        for folder in Path(os.path.realpath(file)).parents:
            if str(folder) in folders:
                other, path = folders[str(folder)]
                mistakes.append(f"{other}: {path} is the folder of {what} ({file}); give it another name.")
    if mistakes:
        raise ConfigError(mistakes)


# {kind of a product's file with a page of its own: part of the name of a variable that it alone has}
STATISTICS = {"extremes": "minimum_elevation", "means": "mean_", "harmonics": "_amplitude_"}

# The kinds of figures of postprocess/cli.py, and the formats that it chooses by itself.
KINDS = (
    "tsunami",
    "maps",
    "maximum",
    *STATISTICS,
    "drifters",
    "gauges",
    "circulation",
    "animation",
    "spectrum",
    "budgets",
    "sensitivity",
    "inversion",
    "ensemble",
)
FORMATS = ("png", "mp4", "gif")


def remove_figures(path: Path) -> None:
    """Remove the figures of the output file `path`, which is about to be replaced: they show an earlier run.

    Only names that are chosen without --output are removed, in the folder of NAME.nc: NAME.KIND.png, animations as .mp4
    or .gif, the pages NAME.report.html and report.html, and NAME.png where NAME is a kind itself (sensitivity.png,
    inversion.png).
    """
    path = Path(path)
    for kind in KINDS:
        for ending in FORMATS:
            path.with_name(f"{path.stem}.{kind}.{ending}").unlink(missing_ok=True)
    for page in (path.with_name(f"{path.stem}.report.html"), path.with_name("report.html")):
        _remove_page(page)
    if path.stem in KINDS and path.suffix != ".png":
        path.with_suffix(".png").unlink(missing_ok=True)


def _remove_page(page):
    """Remove a page that `swmodel report` wrote; a page of that name from another program stays."""
    try:
        with open(page, encoding="utf-8") as file:
            ours = 'name="generator" content="swmodel' in file.read(1000)
    except (OSError, UnicodeDecodeError):
        return
    if ours:
        page.unlink(missing_ok=True)
