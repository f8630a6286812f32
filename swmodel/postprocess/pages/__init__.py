"""One self-contained HTML page of a run, for any browser and without a network: `swmodel report` and `swmodel view`.

sections  the sections
frames    the records of a field as images for a slider, within a number of bytes
frame     HTML in which all text is escaped, figures as SVG in the colours of the page, properties of the run, the frame
page.*    the page's frame, style and script

This module chooses the files that a page shows, and writes the page around its sections.
"""

import contextlib
import dataclasses
import json
import pathlib
import re
from collections.abc import Sequence

from ...errors import PlotError
from ..files import experiment_of, kind_of, open_output, start_of, undamaged, writing
from ..series import read_gauges, read_observations
from . import sections
from .frame import choice, filled
from .sections import Run


def report(
    paths: str | pathlib.Path | Sequence[str | pathlib.Path],
    output: str | pathlib.Path | None = None,
    observations: str | pathlib.Path | None = None,
    variables: Sequence[str] = (),
    member: int = 0,
) -> pathlib.Path:
    """Writes one HTML page of a run, which needs no other file and no network.

    Args:
        paths: the folder of a run's output, or files of it, or both.
        output: the page; report.html in the folder, or NAME.report.html next to the first file.
        observations: a folder with a CSV file per gauge; without it the one that the experiment in the files names.
        variables: of the maps; elevation, speed and two more without it.
        member: which one of an ensemble, from 0.

    Returns:
        pathlib.Path: of the page.

    Raises:
        PlotError: one sentence, if there is nothing to show or the page cannot be written.
    """
    given = [pathlib.Path(p) for p in ([paths] if isinstance(paths, (str, pathlib.Path)) else paths)]
    files = _files(given)
    page = _page(given, files, output)
    with undamaged(files), contextlib.ExitStack() as opened:
        text = _filled(_runs(files, given, opened, observations, member), variables)
    with writing("report", page) as part:
        part.write_text(text, encoding="utf-8")
    return page


def _files(given):
    """The output files among the given paths and in the given folders."""
    files = []
    for path in given:
        if _is_folder(path):
            inside = _files_in(path)
            if not inside:
                raise PlotError(f"report: the folder {path} holds no file of a run; give the folder of its output.")
            files += inside
        elif path.exists():
            files.append(path)
        else:
            raise PlotError(f"report: there is no {path}; give the folder of a run's output, or files of it.")
    if not files:
        raise PlotError("report: no file was given; give the folder of a run's output, or files of it.")
    return files


def _is_folder(path):
    return path.is_dir() and path.suffix != ".zarr"


def _files_in(folder):
    return [p for p in sorted(folder.iterdir()) if p.suffix in (".nc", ".zarr") and not p.name.startswith(".")]


def _page(given, files, output):
    if output is not None:
        page = pathlib.Path(output)
    elif given[0] is files[0]:
        page = files[0].with_name(f"{files[0].stem}.report.html")
    else:
        page = given[0] / "report.html"
    if not page.parent.is_dir():
        raise PlotError(f"report: the folder {page.parent} of {page.name} does not exist; make it first.")
    if page.suffix.lower() not in (".html", ".htm"):
        raise PlotError(f"report: {page} is no name of a page; give one that ends in .html.")
    return page


def _runs(outputs, given, opened, observations, member):
    """The Run of each grid, the outermost one first; those of nests are in folders within the given ones, too."""
    grids, left_out = _opened(outputs, opened, member)
    if any("nest_boxes" in dataset.attrs for files in grids.values() for dataset in files.values()):
        folders = [folder for path in given if _is_folder(path) for folder in sorted(path.iterdir()) if folder.is_dir()]
        within = [file for folder in folders if _is_folder(folder) for file in _files_in(folder)]
        with contextlib.suppress(PlotError):  # none of them can be drawn
            others, _ = _opened(within, opened, member)
            grids |= {name: files for name, files in others.items() if name and name not in grids}
    if observations is not None and not any("gauges" in files for files in grids.values()):
        raise PlotError("report: observations were given, and the run has no gauges; leave --observations out.")
    names = list(dict.fromkeys([*_in_order(grids, next(iter(grids))), *grids]))
    runs = []
    for k, name in enumerate(names):
        files = grids[name]
        paths = [pathlib.Path(dataset.encoding["source"]) for dataset in files.values()]
        of_grid = name if k else "", tuple(names[1:]), 1.0 / len(names)
        of_files = files, paths if k else outputs, _observed(files, observations), {} if k else left_out
        runs.append(Run(*of_files, *of_grid))
    return runs


def _in_order(grids, name):
    """The names of a grid and of the nests in it, of which there are files."""
    yield name
    dataset = next(iter(grids[name].values()))
    for nest in json.loads(dataset.attrs.get("nest_boxes", "{}")):
        if nest in grids:
            yield from _in_order(grids, nest)


def _opened(paths, opened, member):
    """({nest, "" for the outermost grid: {what it holds: dataset}}, {path: why it is not shown})."""
    grids, left_out = {}, {}
    for path in paths:
        try:
            dataset = opened.enter_context(open_output(path, member))
            kind = kind_of(dataset)
        except PlotError as error:
            if len(paths) == 1:
                raise
            left_out[path] = str(error).partition(": ")[2]  # without the name of the function
            continue
        if kind == "restart" and len(paths) == 1:
            raise PlotError(f"report: {path} is a restart, of which there is no page; give an output file.")
        if kind == "restart":
            continue
        shown = grids.setdefault(dataset.attrs.get("nest", ""), {})
        if kind in shown:
            first = pathlib.Path(shown[kind].encoding["source"]).name
            left_out[path] = f"{first} holds {kind}, too, and was shown; name {path.name} alone for a page of it."
        else:
            shown[kind] = dataset
    if not grids:
        reason = next(iter(left_out.values()), "they are restarts; give output files of a run.")
        raise PlotError(f"report: none of {', '.join(p.name for p in paths)} can be drawn: {reason}")
    return dict(sorted(grids.items(), key=lambda item: item[0] != "")), left_out


def _observed(files, folder):
    """The records of the gauges: from the given folder, or from that of the experiment if it is still there."""
    if "gauges" not in files:
        return {}
    names, start = [gauge.name for gauge in read_gauges(files["gauges"])], start_of(files["gauges"])
    if folder is not None:
        return read_observations(folder, names, start)
    _, experiment, home = experiment_of(files["gauges"].attrs)
    named = experiment.get("output", {}).get("gauges", {}).get("observations")
    if not isinstance(named, str) or home is None or not (home / named).is_dir():
        return {}
    with contextlib.suppress(PlotError):  # records that have gone since the run
        return read_observations(home / named, names, start)
    return {}


# -- the page ---------------------------------------------------------------------------------------------------------


def _filled(runs, variables):
    run, several = runs[0], len(runs) > 1
    shown = [
        dataclasses.replace(section, grid=each.nest if several else None)
        for each in runs
        for section in sections.sections(each, variables if "fields" in each.files else ())
    ]
    if variables and not any("fields" in each.files for each in runs):
        raise PlotError("report: variables were given, and no file has fields over time; leave --variable out.")
    attributes = run.first.attrs
    commit = f", commit {attributes['git_commit']}" if attributes.get("git_commit") else ""
    source = f"{attributes.get('source', 'swmodel')}{commit}"
    title = str(attributes.get("title", "")).removesuffix(f": {attributes.get('shown')}")  # which sections show
    lead = f"{source}, {_written(attributes)}".rstrip(", ")
    grids = choice("Grid", "grid", [one.title for one in runs]) if several else ""
    return filled(title or run.paths[0].stem, lead, source, shown, "swmodel report", grids)


def _written(attributes):
    """The date of the run, from the first line of its history."""
    match = re.match(r"(\d{4}-\d\d-\d\d)T(\d\d:\d\d)", str(attributes.get("history", "")))
    return f"run on {match[1]} at {match[2]} UTC" if match else ""
