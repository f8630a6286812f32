"""The sections of the page of a run, each from the files that it needs."""

import contextlib
import dataclasses
import functools
import json
import pathlib
import re
from collections.abc import Iterator, Sequence

import numpy as np
import xarray as xr

from ...output import STATISTICS
from ...runtime.memory import size
from ...runtime.paths import bytes_in
from .. import budgets, gauges, inversion, maxima, sensitivity, spectra, statistics
from ..files import experiment_of, mesh_of, open_output, seconds
from ..scores import MISSING, Series, columns, constants_columns, meaning, notes_of, score
from ..series import read_gauges
from . import frame
from .frame import (
    Section,
    as_figure,
    as_image,
    as_svg,
    as_table,
    choice,
    controls,
    fix_colours,
    joined,
    keys_note,
    markup,
)
from .frames import movies, variables_of

LARGEST = 7.5e6  # bytes of the images of maps in a page
MOST_GAUGES = gauges.PER_COLUMN  # with a figure, in one column below the slider's time; observed ones come first
MOST_TIMES = 4000  # of a gauge's series in a figure
DOI = re.compile(r"doi:(10\.\d{4,}/\S*[^\s;,.])")


@dataclasses.dataclass
class Run:
    """The files of a run.

    Attributes:
        files: {what it holds: dataset}, the first one of each kind.
        paths: of all files that were found.
        observed: {name: Series} of the records.
        left_out: {path: why the page does not show the file}.
        nest: the name of a nested grid; "" for the outermost one, or for the only grid of the page.
        nests: the names of all nested grids of the page.
        share: of LARGEST that this grid's images may have.
    """

    files: dict[str, xr.Dataset]
    paths: list[pathlib.Path]
    observed: dict[str, Series]
    left_out: dict[pathlib.Path, str] = dataclasses.field(default_factory=dict)
    nest: str = ""
    nests: tuple[str, ...] = ()
    share: float = 1.0

    @functools.cached_property
    def gauges(self) -> list[Series]:
        """The modelled series."""
        return read_gauges(self.files["gauges"]) if "gauges" in self.files else []

    @property
    def first(self) -> xr.Dataset:
        return next(iter(self.files.values()))

    @property
    def title(self) -> str:
        """The name of the grid."""
        return self.first.attrs.get("nest", "Outermost grid")

    def named(self, part: str) -> str:
        """A name of a part of the page that no other grid's has."""
        return f"{self.nest}-{part}" if self.nest else part


def sections(run: Run, variables: Sequence[str] = ()) -> Iterator[Section]:
    """The sections for which the run has files, in the order of the page."""
    for part in _parts(run, variables):
        if part is not None:
            yield part


def _parts(run, variables):
    files = run.files
    shown = {kind: dataset.assign_attrs(title="") for kind, dataset in files.items()}  # which the page has as a heading
    yield _summary(run)
    yield _ensemble(run)
    yield _maps(run, variables)
    if "maxima" in files:
        page = maxima.maximum(shown["maxima"], run.gauges)
        fix_colours(page.axes[0])
        text = "Map of the maximum elevation with lines of equal arrival time"
        yield _drawn(run, "maximum", "Maximum elevation", page, text, vector=True)
    for kind in sorted(STATISTICS.keys() & files.keys()):
        heading = "Harmonic constants" if kind == "harmonics" else kind.capitalize()
        page = statistics.figure(shown[kind], gauges=run.gauges)
        yield _drawn(run, kind, heading, page, f"Maps of {heading.lower()}")
    if "drifters" in files:
        page = statistics.drifter_tracks(shown["drifters"], files.get("fields"))
        yield _drawn(run, "drifters", "Drifters", page, "Tracks of the drifters")
    yield _gauges(run)
    fields = files.get("fields")
    if fields is not None and fields.sizes.get("time", 0) >= 2 and {"eta", "u", "v", "depth"} <= set(fields):
        text = "Volume, energy and enstrophy over time"
        yield _drawn(run, "budgets", "Volume and energy", budgets.figure(shown["fields"]), text, vector=True)
    if "spectra" in files:
        yield _drawn(
            run, "spectra", "Spectra", spectra.figure(shown["spectra"]), "Spectra over wavenumber", vector=True
        )
    for kind, module in (("sensitivity", sensitivity), ("inversion", inversion)):
        if kind in files:
            yield _drawn(run, kind, kind.capitalize(), module.figure(files[kind]), f"Figure of the {kind}")
    yield _configuration(run)


def _drawn(run, part, heading, page, text, vector=False):
    """The section of one figure, which `text` describes to those who do not see it."""
    image = as_svg(page, run.named(part), text) if vector else as_image(page, text)
    return Section(run.named(part), heading, as_figure(image))


def _summary(run):
    dataset = run.files.get("fields", run.files.get("maxima", run.first))
    rows = frame.setup_rows(dataset)
    cells = dataset.sizes.get("xh", 0) * dataset.sizes.get("yh", 0)
    took = frame.timing_rows(run.paths[0].parent, cells)
    form = '<p class="note">Not shown: {}. {}</p>'
    missing = joined(markup(form, path.name, why) for path, why in run.left_out.items())
    if not rows and not missing:
        return None
    body = markup('<div class="facts">{}{}</div>{}', _list(rows), _list(took), missing)
    return Section(run.named("summary"), "Summary", body)


def _list(rows):
    items = joined(markup("<dt>{}</dt><dd>{}</dd>", *row) for row in rows)
    return markup("<dl>{}</dl>", items) if items else items


def _ensemble(run):
    """The mean and the spread of all members, of which the other sections show one."""
    with contextlib.ExitStack() as opened:
        whole = {
            kind: opened.enter_context(open_output(run.files[kind].encoding["source"], None))
            for kind in ("fields", "gauges")
            if kind in run.files and "eta" in run.files[kind]
        }
        several = {kind: dataset for kind, dataset in whole.items() if dataset.sizes.get("member", 1) > 1}
        if not several:
            return None
        page = statistics.ensemble_page(several.get("fields"), several.get("gauges"))
        shown, image = run.files[next(iter(several))].attrs["shown"], as_image(page, "Mean and spread of the members")
        form = '{}<p class="note">The other sections show {}; --member takes another.</p>'
        return Section(run.named("ensemble"), "Ensemble", markup(form, as_figure(image), shown))


def _maps(run, variables):
    if "fields" not in run.files or "time" not in run.files["fields"].dims:
        return None
    names = variables_of(run.files["fields"], variables)
    shown = movies(run.files["fields"], names, run.gauges, run.share * LARGEST, run.named("map"))
    data = [{"stamps": m.stamps, "seconds": m.seconds, "frames": m.frames, "winds": m.winds} for m in shown]
    boxes = list(_boxes_on(run))
    last, missing = len(shown[0].frames) - 1, max(movie.left_out for movie in shown)
    body = markup(
        '<div class="map">{}{}{}</div>{}',
        choice("Variable", run.named("variable"), [m.title for m in shown]) if len(shown) > 1 else "",
        joined(_sheet(m, k, boxes) for k, m in enumerate(shown)),
        controls(last, last // 2, "Time of the map", data),
        keys_note(
            "the records",
            " A click on the box of a nest shows its grid at the same time." if boxes else "",
            f" {missing} records between those shown are left out, to keep the page small." if missing else "",
        ),
    )
    return Section(run.named("maps"), "Maps", body)


def _boxes_on(run):
    """(name, (left, top, width, height) over the images, from 0 to 1) of the nests in a grid that have files."""
    dataset = run.files["fields"]
    west, east, south, north = mesh_of(dataset).extent
    for name, ((x0, x1), (y0, y1)) in json.loads(dataset.attrs.get("nest_boxes", "{}")).items():
        if name in run.nests:
            across, up = east - west, north - south
            yield name, ((x0 - west) / across, (north - y1) / up, (x1 - x0) / across, (y1 - y0) / up)


def _place(box):
    left, top, width, height = (f"{100 * x:.3f}%" for x in box)
    return markup("left: {}; top: {}; width: {}; height: {}", left, top, width, height)


def _zoom(movie, name, box):
    """A button over the box of a nest, which shows its grid."""
    left, top, width, height = movie.box
    whole = left + width * box[0], top + height * box[1], width * box[2], height * box[3]
    form = '<button type="button" class="zoom" value="{0}" title="Zoom into {0}" style="{1}"></button>'
    return markup(form, name, _place(whole))


def _sheet(movie, number, boxes):
    columns, rows = movie.pixels
    place = _place(movie.box)
    return markup(
        '<div class="sheet" style="aspect-ratio: {:.5f}"{}><canvas width="{}" height="{}" style="{}"></canvas>{}'
        '<svg class="winds" viewBox="0 0 1000 1000" preserveAspectRatio="none" style="{}" aria-hidden="true">'
        "<path/></svg>{}</div>",
        1 / movie.shape,
        " hidden" if number else "",
        columns,
        rows,
        joined((place, markup("; background-image: url({})", movie.ground))) if movie.ground else place,
        movie.base,
        place,
        joined(_zoom(movie, *each) for each in boxes),
    )


def _gauges(run):
    if "gauges" not in run.files:
        return None
    dataset, observed = run.files["gauges"], run.observed
    series = sorted(run.gauges, key=lambda one: one.name not in observed)
    shown = [_thinned(one) for one in series[:MOST_GAUGES]]
    page = gauges.figure(dataset, {name: _thinned(one) for name, one in observed.items()}, series=shown)
    place, times = page.axes[0].get_position(), seconds(dataset)
    svg = as_svg(page, run.named("gauges"), "Elevation at the gauges over time")
    spare = len(series) - len(shown)
    timeline = markup(
        '<div class="timeline" data-left="{:.5f}" data-width="{:.5f}" data-first="{}" data-last="{}">{}</div>',
        place.x0,
        place.width,
        times[0],
        times[-1],
        svg,
    )
    note = markup('<p class="note">{} more gauges are in the table only.</p>', spare) if spare else ""
    body = joined((_scores(series, observed), as_figure(timeline), note))
    return Section(run.named("gauges"), "Gauges", body)


def _thinned(series: Series) -> Series:
    """The series with the lowest and the highest value of each short interval, if it is long."""
    count = series.time.size
    if count <= MOST_TIMES:
        return series
    pieces = np.array_split(np.arange(count), MOST_TIMES // 2)
    value = series.value
    kept = {int(part[k]) for part in pieces for k in _ends_of(value[part])}
    chosen = np.array(sorted(kept | {0, count - 1}))
    return dataclasses.replace(series, time=series.time[chosen], value=value[chosen])


def _ends_of(values):
    finite = np.isfinite(values)
    if not finite.any():
        return (0,)
    return (int(np.where(finite, values, np.inf).argmin()), int(np.where(finite, values, -np.inf).argmax()))


def _scores(series, observed):
    """The table of scores; without records, of arrivals and maxima."""
    rows = [score(one, observed.get(one.name)) for one in series]
    typeset = lambda cell: "–" if cell == MISSING else cell.replace("-", "−")  # noqa: E731
    tables = []
    for heads, units, lines in (columns(rows), constants_columns(rows)):
        heads = [f"{head} [{unit}]" if unit else head for head, unit in zip(heads, units)]
        tables += [as_table(heads, [[name, *map(typeset, cells)] for name, *cells in lines])] if heads else []
    notes = joined(markup("<li>{}: {}.</li>", name, text) for name, text in notes_of(rows))
    listed = _folded("Notes on the scores", markup('<ul class="note">{}</ul>', notes)) if notes else ""
    return markup('{}<p class="note">{}</p>{}', joined(tables), meaning(rows), listed)


def _configuration(run):
    attributes = run.first.attrs
    text, _, _ = experiment_of(attributes)
    parts = []
    if text.strip() and not run.nest:
        parts.append(_folded("Experiment file", markup("<pre>{}</pre>", _coloured(text.strip()))))
    history = str(attributes.get("history", "")).strip()
    if history and not run.nest:
        parts.append(_folded("How the files were written", markup("<pre>{}</pre>", history)))
    sources = str(attributes.get("references", "")).strip()
    if sources and not run.nest:
        items = joined(markup("<li>{}</li>", _linked(one.strip())) for one in sources.split("; "))
        parts.append(_folded("Sources of the methods", markup("<ul>{}</ul>", items)))
    lines = [(path.name, size(bytes_in(path))) for path in run.paths]
    parts.append(as_table(("file", "size"), lines))
    heading = "Files" if run.nest else "Configuration and files"
    return Section(run.named("configuration"), heading, joined(parts))


def _folded(summary, body):
    return markup("<details><summary>{}</summary>{}</details>", summary, body)


def _coloured(toml):
    """TOML as HTML, with comments and sections marked."""
    lines = []
    for line in toml.splitlines():
        code, comment = _without_comment(line)
        of_section = code.lstrip().startswith("[") and "=" not in code
        code = markup('<span class="s">{}</span>', code) if of_section else code
        lines.append(joined((code, markup('<span class="c">{}</span>', comment) if comment else "")))
    return joined(lines, "\n")


def _without_comment(line):
    """(code, comment) of a line of TOML; a # within quotes is code."""
    quote = None
    for k, letter in enumerate(line):
        if quote is None and letter == "#":
            return line[:k], line[k:]
        if letter in "\"'":
            quote = None if quote == letter else quote or letter
    return line, ""


def _linked(reference):
    """A reference with a link for its DOI."""
    match = DOI.search(reference)
    if match is None:
        return markup("{}", reference)
    before, after = reference[: match.start()], reference[match.end() :]
    return markup('{}<a href="https://doi.org/{}">{}</a>{}', before, match[1], match[0], after)
