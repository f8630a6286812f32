"""Removal of the figures that `swmodel plot` and `--plot` drew of an output file, by the names that they choose."""

from pathlib import Path

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
