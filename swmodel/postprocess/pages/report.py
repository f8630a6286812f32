"""The page of a run: which files it shows, and the page around its sections."""

import contextlib
import pathlib
import re
from collections.abc import Sequence

from ...errors import PlotError
from ..files import kind_of, open_output, replacing, start_of, undamaged
from ..series import read_gauges, read_observations
from . import facts
from .frame import filled
from .sections import Run, sections

__all__ = ["report"]


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
    found = _files(given)
    page = _page(given, found, output)
    with undamaged(found), contextlib.ExitStack() as opened:
        files, left_out = _opened(found, opened, member)
        run = Run(files, found, _observed(files, observations), left_out)
        text = _filled(run, list(sections(run, variables)))
    try:
        with replacing(page) as part:
            part.write_text(text, encoding="utf-8")
    except OSError as error:
        raise PlotError(f"report: {page} cannot be written ({error.strerror}); name another with --output.") from error
    return page


def _files(given):
    """The output files among the given paths and in the given folders."""
    found = []
    for path in given:
        if path.is_dir() and path.suffix != ".zarr":
            inside = [p for p in sorted(path.iterdir()) if p.suffix in (".nc", ".zarr") and not p.name.startswith(".")]
            if not inside:
                raise PlotError(f"report: the folder {path} holds no file of a run; give the folder of its output.")
            found += inside
        elif path.exists():
            found.append(path)
        else:
            raise PlotError(f"report: there is no {path}; give the folder of a run's output, or files of it.")
    if not found:
        raise PlotError("report: no file was given; give the folder of a run's output, or files of it.")
    return found


def _page(given, found, output):
    if output is not None:
        page = pathlib.Path(output)
    elif given[0] is found[0]:
        page = found[0].with_name(f"{found[0].stem}.report.html")
    else:
        page = given[0] / "report.html"
    if not page.parent.is_dir():
        raise PlotError(f"report: the folder {page.parent} of {page.name} does not exist; make it first.")
    if page.suffix.lower() not in (".html", ".htm"):
        raise PlotError(f"report: {page} is no name of a page; give one that ends in .html.")
    return page


def _opened(found, opened, member):
    """({what it holds: dataset}, {path: why it is not shown})."""
    files, first, left_out = {}, {}, {}
    for path in found:
        try:
            dataset = opened.enter_context(open_output(path, member))
            kind = kind_of(dataset)
        except PlotError as error:
            if len(found) == 1:
                raise
            left_out[path] = str(error).partition(": ")[2]  # without the name of the function
            continue
        if kind == "restart" and len(found) == 1:
            raise PlotError(f"report: {path} is a restart, of which there is no page; give an output file.")
        if kind == "restart":
            continue
        if kind in files:
            left_out[path] = f"{first[kind]} holds {kind}, too, and was shown; name {path.name} alone for a page of it."
        else:
            files[kind], first[kind] = dataset, path.name
    if not files:
        reason = next(iter(left_out.values()), "they are restarts; give output files of a run.")
        raise PlotError(f"report: none of {', '.join(p.name for p in found)} can be drawn: {reason}")
    return files, left_out


def _observed(files, folder):
    """The records of the gauges: from the given folder, or from that of the experiment if it is still there."""
    if "gauges" not in files:
        if folder is not None:
            raise PlotError("report: observations were given, and the run has no gauges; leave --observations out.")
        return {}
    names, start = [gauge.name for gauge in read_gauges(files["gauges"])], start_of(files["gauges"])
    if folder is not None:
        return read_observations(folder, names, start)
    _, experiment, home = facts.experiment_of(files["gauges"].attrs)
    named = experiment.get("output", {}).get("gauges", {}).get("observations")
    if not isinstance(named, str) or home is None or not (home / named).is_dir():
        return {}
    with contextlib.suppress(PlotError):  # records that have gone since the run
        return read_observations(home / named, names, start)
    return {}


# -- the page ---------------------------------------------------------------------------------------------------------


def _filled(run, shown):
    attributes = run.first.attrs
    commit = f", commit {attributes['git_commit']}" if attributes.get("git_commit") else ""
    source = f"{attributes.get('source', 'swmodel')}{commit}"
    title = str(attributes.get("title", "")).removesuffix(f": {attributes.get('shown')}")  # which sections show
    lead = f"{source}, {_written(attributes)}".rstrip(", ")
    return filled(title or run.paths[0].stem, lead, source, shown, "swmodel report")


def _written(attributes):
    """The date of the run, from the first line of its history."""
    match = re.match(r"(\d{4}-\d\d-\d\d)T(\d\d:\d\d)", str(attributes.get("history", "")))
    return f"run on {match[1]} at {match[2]} UTC" if match else ""
