"""From files to figures in one call: `plot`, the function behind `swmodel plot FILE...`."""

import contextlib
import pathlib
from collections.abc import Sequence

import numpy as np

from ..errors import PlotError
from ..output import KINDS as OF_FILES
from ..output import STATISTICS
from . import animate, budgets, gauges, inversion, maps, maxima, overview, sensitivity, spectra, statistics, style
from .files import driving, kind_of, open_output, positions, seconds, start_of, undamaged
from .scores import scores, table
from .series import read_gauges, read_observations

KINDS = ("auto", *OF_FILES)

SINGLE_WAVE = 2 * 86400.0  # [s], the longest run for which the figure of a single wave is drawn
PAGES = (*STATISTICS, "drifters")  # kinds of files with a page of their own
WITHOUT_FIELDS = {"sensitivity": "sensitivity", "inversion": "inversion", "gauges": "gauges", "maxima": "maximum"}
NEEDED = {kind: holds for holds, kind in WITHOUT_FIELDS.items()} | {kind: kind for kind in PAGES}  # others need fields
WRITTEN_BY = {
    "fields": "[[output.fields]] of an experiment",
    "gauges": "[output.gauges] of an experiment",
    "maxima": "[output.maxima] of an experiment",
    **{kind: f"[output.{kind}] of an experiment" for kind in PAGES},
    "sensitivity": "`swmodel adjoint`",
    "inversion": "`swmodel invert`",
}


def plot(
    paths: str | pathlib.Path | Sequence[str | pathlib.Path],
    output: str | pathlib.Path | None = None,
    kind: str = "auto",
    observations: str | pathlib.Path | None = None,
    variable: str | None = None,
    times: Sequence[float] | None = None,
    member: int | None = None,
    box: Sequence | None = None,
    layer: int | None = None,
) -> list[pathlib.Path]:
    """Draw the figures that suit `paths`, one or several output files of one run.

    There is one page of the fields, with gauges and maxima, and one each of spectra and of the files of other products.
    Further files of fields have pages of their own.

    Args:
        paths: a path or several, in any order, such as all files of a run.
        output: the file to write; its suffix chooses the format. By default it is NAME.KIND.png in the folder of the
            first file. A second figure has its kind in its name, too.
        kind: one of KINDS; "auto" chooses by the content of the files.
        observations: a folder with a CSV file per gauge (see gauges.py); their scores are printed.
        variable: the variable of maps, animations and spectra; eta, or kinetic energy, without it.
        times: seconds since the start, for maps.
        member: the number of a member of an ensemble, from 0; all of them, by their mean and spread, without it.
        layer: the number of the layer, from 1 at the top, which is the one that is drawn unless given. Without it,
            budgets and spectra of energy have all layers.
        box: ((x0, x1), (y0, y1)) in the file's coordinates, of which spectra are taken; the whole domain without it.

    Returns:
        list of pathlib.Path: the files that were written.

    Raises:
        PlotError: one sentence, for anything that cannot be drawn.
    """
    paths = [pathlib.Path(p) for p in ([paths] if isinstance(paths, (str, pathlib.Path)) else paths)]
    if not paths:
        raise PlotError("plot: no file was given; give one or several that a run has written.")
    if kind not in KINDS:
        raise PlotError(f"plot: kind {kind!r} is not one of {', '.join(KINDS)}.")
    with undamaged(paths), contextlib.ExitStack() as opened:
        if kind == "auto" and member is None and _of_ensemble(paths):
            kind = "ensemble"
        all_layers = layer is variable is None and (kind in ("budgets", "spectrum") or box is not None)
        which = None if kind == "ensemble" else member or 0, None if all_layers else layer or 1
        files, sources, further = _sort(paths, opened, which, variable or "eta")
        if box is not None and "fields" in files:  # a run's own spectra are of the whole domain
            files.pop("spectra", None), sources.pop("spectra", None)
        kinds = _choose(files, variable, box) if kind == "auto" else [kind]
        pages = [(k, files, _output(output, sources, k, k != kinds[0])) for k in kinds]
        for path, dataset in further:
            alone = {"fields": dataset}
            drawn = _choose(alone, variable, box)[0] if kind == "auto" else kind
            if variable is None or variable in dataset:
                figure = _output(output, {"fields": path}, drawn)
                if output is not None:  # the user has named one
                    figure = figure.with_stem(f"{figure.stem}.{path.stem}")
                pages.append((drawn, alone, figure))
        _check_apart([page[2] for page in pages], paths, observations)
        observed = {} if kind == "ensemble" else _observed(files, observations, kinds)
        return [_draw(k, of, out, observed, variable, times, box) for k, of, out in pages]


def _of_ensemble(paths):
    """Whether files of fields or gauges hold several members."""
    for path in paths:
        with open_output(path, None) as dataset:
            if dataset.sizes.get("member", 1) > 1 and kind_of(dataset) in ("fields", "gauges"):
                return True
    return False


def _sort(paths, opened, which, wanted="eta"):
    """({kind of file: dataset}, {kind of file: path}, [(path, dataset)] of further files of fields).

    Of several files of fields the first one with the variable `wanted` comes first.
    Restarts are ignored if there are others.
    """
    files, sources, further = {}, {}, []
    for path in paths:
        dataset = opened.enter_context(open_output(path, *which))
        holds = kind_of(dataset)
        if holds == "fields" and holds in files and path not in (sources[holds], *(known for known, _ in further)):
            further.append((path, dataset))
            continue
        if holds in files:
            raise PlotError(f"plot: {sources[holds]} and {path} both hold {holds}; give one of them.")
        if holds != "restart":
            files[holds], sources[holds] = dataset, path
    for k, (path, dataset) in enumerate(further):
        if wanted in dataset and wanted not in files["fields"]:
            further[k] = sources["fields"], files["fields"]
            files["fields"], sources["fields"] = dataset, path
    if not files:
        raise PlotError(f"plot: {paths[0]} is a restart, of which there is no figure; give an output file of the run.")
    return files, sources, further


def _choose(files, variable=None, box=None):
    """The kinds of figures that suit the files."""
    if box is not None:
        return ["spectrum"]
    if "fields" in files:
        kinds = [_of_fields(files, variable)]
        if kinds[0] in ("circulation", "maps") and variable is None:
            kinds += [WITHOUT_FIELDS[holds] for holds in ("gauges", "maxima") if holds in files]
    else:
        kinds = [kind for holds, kind in WITHOUT_FIELDS.items() if holds in files]
    kinds += [kind for kind in PAGES if kind in files]
    if variable is not None and set(kinds) - set(WITHOUT_FIELDS):
        holding = {k: files.get({"maps": "fields", "maximum": "maxima"}.get(k, k), ()) for k in kinds}
        kinds = [kind for kind in kinds if variable in holding[kind]] or kinds[:1]
    if "spectra" in files and (not kinds or variable is None or f"{variable}_spectrum" in files["spectra"]):
        kinds.append("spectrum")
    return kinds


def _of_fields(files, variable):
    fields = files["fields"]
    kind = driving(fields)[0]
    if variable is not None or kind in ("storm", "tide"):
        return "maps"
    moving = "eta" in fields and "time" in fields["eta"].dims
    if moving and {"u", "v"} <= set(fields) and (kind or np.ptp(seconds(fields)) > SINGLE_WAVE):
        return "circulation"
    single = moving and not kind  # a wave, whose arrival and height the page shows
    return "tsunami" if single and {"maxima", "gauges"} & set(files) else "maps"


def _check_apart(outputs, paths, observations):
    """Refuse a figure that would overwrite one of its input files."""
    read = [*paths, *(pathlib.Path(observations).glob("*") if observations is not None else ())]
    for output in outputs:
        taken = next((file for file in read if output.exists() and file.exists() and output.samefile(file)), None)
        if taken is not None:
            raise PlotError(f"plot: the figure {output} would replace {taken}, which is read; give it another name.")


def _output(output, sources, kind, second=False):
    if output is None:
        of_its_own = "spectra" if kind == "spectrum" else kind
        others = [path for holds, path in sources.items() if holds not in PAGES]
        first = sources.get(of_its_own) if of_its_own in ("spectra", *PAGES) else None
        first = first or (others or list(sources.values()))[0]
        own = kind in ("sensitivity", "inversion", *PAGES) and first.stem == kind
        stem = first.stem if own else f"{first.stem}.{kind}"
        return first.with_name(f"{stem}{animate.suffix() if kind == 'animation' else '.png'}")
    output = pathlib.Path(output)
    if not output.parent.is_dir():
        raise PlotError(f"plot: the folder {output.parent} of {output.name} does not exist; make it first.")
    return output.with_stem(f"{output.stem}.{kind}") if second else output


def _draw(kind, files, output, observed, variable, times, box):
    if kind == "ensemble":
        return style.save(statistics.ensemble_page(files.get("fields"), files.get("gauges"), variable, times), output)
    series = read_gauges(files["gauges"]) if "gauges" in files else []
    own = kind == "spectrum" and box is None and ("spectra" in files or "fields" not in files)  # without fields
    needed = NEEDED.get(kind, ("spectra" if "spectra" in files else "gauges") if own else "fields")
    if kind == "maps" and "fields" not in files:
        needed = next((one for one in STATISTICS if one in files), needed)
    if needed not in files:
        raise PlotError(
            f"plot: a figure of kind {kind!r} needs a file of {needed}, which {WRITTEN_BY[needed]} writes; "
            f"the ones given hold {', '.join(files)}."
        )
    main = files[needed]
    if kind == "animation":
        return animate.animate(main, output, variable or "eta", series)
    if kind == "tsunami":
        page = overview.tsunami(main, files.get("maxima"), files.get("gauges"), observed, times)
    elif kind == "maps":
        page = maps.panels(main, variable or _first_field(main), times, series)
    elif kind == "maximum":
        page = maxima.maximum(main, series)
    elif kind in STATISTICS:
        page = statistics.figure(main, variable, series)
    elif kind == "drifters":
        page = statistics.drifter_tracks(main, files.get("fields"))
    elif kind == "gauges":
        page = gauges.figure(main, observed)
    elif kind in ("sensitivity", "inversion"):
        page = (sensitivity if kind == "sensitivity" else inversion).figure(main, variable)
    elif kind == "circulation":
        page = overview.circulation(main, times)
    elif kind == "spectrum":
        page = spectra.gauge_figure(series, observed) if needed == "gauges" else spectra.figure(main, variable, box=box)
    else:
        page = budgets.figure(main)
    return style.save(page, output)


def _observed(files, folder, kinds):
    """Print the scores of gauges if a figure shows them or there are observations; return the observed series."""
    series = read_gauges(files["gauges"]) if "gauges" in files else []
    if folder is None:
        if series and {"tsunami", "gauges"} & set(kinds):
            print(table(scores(series)))
        return {}
    if not series:
        raise PlotError("plot: observations were given without a gauge file; give that file too.")
    observed = read_observations(folder, [gauge.name for gauge in series], start_of(files["gauges"]))
    print(table(scores(series, observed)))
    return observed


def _first_field(dataset):
    if "eta" in dataset:
        return "eta"
    names = [name for name, array in dataset.data_vars.items() if positions(array)]
    return next((name for name in names if "time" in dataset[name].dims), names[0])
