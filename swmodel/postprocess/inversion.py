"""Inversions: the controls before and after with their errors, and the observations with the model's series."""

import dataclasses
import re
from typing import Any

import numpy as np
import xarray as xr
from matplotlib.colors import Normalize
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from ..errors import PlotError
from . import style
from .estimates import CURVES, draw_constants, draw_curves, draw_lines, height_of, lines_of, panels
from .files import mesh_of, positions, pretty, wet_cells
from .maps import colorbar_right_of, draw_base, draw_field, draw_gauges, drawable, map_axes
from .scores import Series, time_unit, variance_explained
from .style import draw_boxes

ROLES = ("truth", "background", "analysis", "background_deviation", "analysis_deviation")  # as in output/studies.py
MAPS = ROLES[:3]
TITLES = {
    "truth": "truth",
    "background": "first guess",
    "analysis": "found",
    "difference": "found less truth",
    "change": "found less first guess",
    "analysis_deviation": "error left (linear)",
}
SPREAD = ("withheld", "analysis")  # of which the band of one standard deviation is drawn
WORDS = {"analysis": "found", "withheld": "from the others"}
MOST_GAUGES = 8  # with series on the page
POINTS = "tracks", "marks"  # kinds of observations without series
LEAST_TIMES = 3  # of a series; a point of a track has fewer
WIDTH, GAP, LEFT = 3.3, 1.25, 0.65  # [inches]
MOST_OF_MAP = 0.6  # of its width or height, where it is drawn in part


@dataclasses.dataclass(frozen=True, eq=False)
class Observed:
    """The observations of one gauge, the model there, {role: (n,)}, after `time` [s], and the spread of each role."""

    name: str
    x: float
    y: float
    time: np.ndarray
    deviation: np.ndarray
    values: dict
    spread: dict
    used: bool = True
    kind: str = "gauges"
    units: str = "m"
    constituents: tuple = ()  # of harmonic constants, of each observation, and whether it is A cos g or A sin g
    parts: tuple = ()


def _variables_of(dataset):
    """{control: {role: variable}} of a file, in its order."""
    controls: dict[str, dict[str, str]] = {}
    for variable in dataset.data_vars:
        match = re.fullmatch(rf"(.+?)_({'|'.join(sorted(ROLES, key=len, reverse=True))})", str(variable))
        if match and not match[1].startswith("observation"):
            controls.setdefault(match[1], {})[match[2]] = str(variable)
    return {name: variables for name, variables in controls.items() if "analysis" in variables}


def series_of(dataset: xr.Dataset) -> list[Observed]:
    """The observations, gauge by gauge."""
    if "observation_gauge" not in dataset:
        raise PlotError("inversion: the file has no observations; give one that `swmodel invert` has written.")
    table = [(str(name), array.values) for name, array in dataset.data_vars.items()]
    columns = {name.removeprefix("observation_"): x for name, x in table if name.startswith("observation_")}
    names, gauges = columns["gauge"].astype(str), []
    roles = [role for role in ("observed", "background", "analysis", "withheld") if role in columns]
    for name in dict.fromkeys(names.tolist()):
        own: dict[str, Any] = {column: values[names == name] for column, values in columns.items()}
        values = {role: own[role] for role in roles}
        spread = {role: own[f"{role}_spread"] for role in roles if f"{role}_spread" in own}
        texts: dict[str, Any] = {key: str(own[key][0]) for key in ("kind", "units") if key in own}
        texts |= {f"{key}s": tuple(map(str, own[key])) for key in ("constituent", "part") if key in own}
        x, y, used = float(own["x"][0]), float(own["y"][0]), bool(own.get("used", [True])[0])
        gauges.append(Observed(name, x, y, own["time"], own["deviation"], values, spread, used, **texts))
    return gauges


def figure(dataset: xr.Dataset, variable: str | None = None) -> Figure:
    """A row of maps for each control, or that of `variable` alone; below, controls that are given at times, and the
    gauges, or the misfits of tracks.

    Raises:
        PlotError: for a control that the file does not have.
    """
    variables = _variables_of(dataset)
    controls = {name: of for name, of in variables.items() if positions(dataset[of["analysis"]])}
    points, lines = series_of(dataset), lines_of(dataset, variables)
    gauges = [] if dataset.attrs.get("inversion_kind") in POINTS else points
    if "," in dataset.attrs.get("inversion_kind", ""):  # of several kinds, those that have series
        gauges = [point for point in points if point.kind not in (*POINTS, "harmonics")]
    if variable is not None:
        wanted = variable.replace(".", "_")
        if wanted not in (names := [*controls, *(line.name for line in lines)]):
            raise PlotError(
                f"inversion: there is no map or series of {variable!r}; the file has {', '.join(names) or 'none'}."
            )
        controls = {name: of for name, of in controls.items() if name == wanted}
        lines = [line for line in lines if line.name == wanted]
    mesh = mesh_of(dataset)
    height = min(WIDTH * mesh.shape, 3.6)
    constants = [point for point in points if point.kind == "harmonics"]
    shown = _chosen([gauge for gauge in gauges if gauge.kind != "harmonics"])
    gauges_to = height_of(len(shown)) + 0.75 if shown else 3.6 if constants else 2.6
    lower = gauges_to + height_of(len(lines))
    columns = max([len(_shown(dataset, mesh, of)) for of in controls.values()], default=2)
    with style.applied():
        wide = max(columns, 2) * (WIDTH + GAP) + LEFT - 0.2
        page = style.new_figure(wide, len(controls) * (height + 0.75) + lower + 0.55)
        style.heading(page, _heading(dataset), LEFT)
        for row, (name, of) in enumerate(controls.items()):
            bottom = lower + 0.3 + (len(controls) - 1 - row) * (height + 0.75)
            _draw_control(page, dataset, mesh, name, of, gauges, bottom, height)
        if shown:
            _draw_series(page, shown)
            style.name_others(page, [gauge.name for gauge in gauges if gauge not in shown], LEFT)
        elif constants:
            draw_constants(page, constants, (LEFT + 0.1, 0.6, wide - LEFT - 2.0, gauges_to - 1.1))
        else:
            _draw_departures(page, points, gauges_to)
        draw_lines(page, lines, gauges_to + 0.1)
    return page


def _chosen(gauges):
    """The gauges with a series on the page, in the file's order: of many, those that vary most compared with errors.

    There are none if most have fewer than LEAST_TIMES observations each.
    """
    if len(gauges) <= MOST_GAUGES:
        return gauges
    long = [gauge for gauge in gauges if gauge.time.size >= LEAST_TIMES]
    if len(long) < 0.5 * len(gauges):
        return []
    signal = {gauge.name: float(np.std(gauge.values["observed"] / gauge.deviation)) for gauge in long}
    first = sorted(long, key=lambda gauge: -signal[gauge.name])[:MOST_GAUGES]
    return [gauge for gauge in gauges if gauge in first]


def _heading(dataset):
    about = dataset.attrs
    share = about.get("inversion_misfit_reduction_percent")
    summary = "" if share is None else f": misfit down by {share:.0f} %"
    chi = about.get("inversion_chi_squared_per_datum")
    summary += "" if chi is None else f", chi-squared per datum {chi:.2g} (expected: 1)"
    return f"{about.get('title', 'Inversion')}{summary}"


def _draw_control(page, dataset, mesh, name, variables, gauges, bottom, height):
    wet, shown = wet_cells(dataset), _shown(dataset, mesh, variables)
    attributes = dataset[variables["analysis"]].attrs
    words = attributes.get("long_name", name).split(",")[0]
    units = pretty(attributes.get("units", attributes.get("comment", "").removeprefix("in ")))
    region = None
    if mesh.spherical:
        region = _region(mesh, drawable(dataset, mesh, variables["analysis"], None), _chosen(gauges))
    within = [gauge for gauge in gauges if region is None or _lies_in(gauge, region)]
    for column, (role, values, norm, colours) in enumerate(shown):
        axes = map_axes(page, (LEFT + column * (WIDTH + GAP), bottom, WIDTH, height), mesh)
        image = draw_field(axes, mesh, values, norm, colours)
        draw_base(axes, mesh, wet)
        if _chosen(gauges):  # a track has too many places for dots
            if region is not None:  # before the names, which are placed inside it
                axes.set_xlim(*region[0])
                axes.set_ylim(*region[1])
            draw_gauges(axes, mesh, within, names=column == 0 and len(within) <= MOST_GAUGES)
        draw_boxes(axes, dataset, mesh)
        axes.set_title(f"{words}, {TITLES[role]}")
        if column:
            axes.set_ylabel("")
        colorbar_right_of(axes, image, f"[{units}]" if units else "")


def _shown(dataset, mesh, variables):
    """[(role, values, norm, colour map)]: truth, before and after on one scale, the errors on their own."""
    fields = {role: drawable(dataset, mesh, name, None) for role, name in variables.items()}
    if not np.any(np.nan_to_num(fields["background"])):
        del fields["background"]  # nothing: it needs no map
    maps = {role: fields[role] for role in MAPS if role in fields}
    high = _high(np.stack(list(maps.values())))
    shown = [(role, values, Normalize(-high, high), style.colormap("balance")) for role, values in maps.items()]
    if other := next((role for role in ("truth", "background") if role in fields), None):
        off = fields["analysis"] - fields[other]
        name = "difference" if other == "truth" else "change"
        shown.append((name, off, Normalize(-_high(off), _high(off)), style.colormap("balance")))
    if "analysis_deviation" in fields:
        left = fields["analysis_deviation"]
        shown.append(("analysis_deviation", left, Normalize(0.0, _high(left)), style.colormap("amp")))
    return shown


def _high(values):
    """The upper end of a scale for values most of which may be zero."""
    size = np.abs(values[np.isfinite(values)])
    some = size[size > 0.02 * size.max(initial=0.0)]
    return float(np.percentile(some, 99.5)) if some.size else 1.0


def _region(mesh, values, gauges=(), share=0.02, margin=1.5):
    """((west, east), (south, north)) around the values other than zero, and the gauges that are near enough.

    None if that is a large part of the map.
    """
    rows, columns = np.nonzero(np.abs(np.nan_to_num(values)) > share * np.nanmax(np.abs(values), initial=0.0))
    if (
        rows.size == 0
        or np.ptp(rows) > MOST_OF_MAP * values.shape[0]
        or np.ptp(columns) > MOST_OF_MAP * values.shape[1]
    ):
        return None
    x = mesh.x[np.clip([columns.min(), columns.max()], 0, mesh.x.size - 1)]
    y = mesh.y[[rows.min(), rows.max()]]
    centre = np.mean(x), np.mean(y)
    near = sorted(gauges, key=lambda gauge: np.hypot(gauge.x - centre[0], gauge.y - centre[1]))
    west, east, _, _ = mesh.extent
    for count in range(len(near), 0, -1):  # as many of the nearest gauges as there is space for
        some = near[:count]
        around = _square(mesh, [*x, *(gauge.x for gauge in some)], [*y, *(gauge.y for gauge in some)], margin)
        if np.ptp(around[0]) < MOST_OF_MAP * (east - west):
            return around
    return _square(mesh, x, y, margin)


def _square(mesh, x, y, margin):
    """((west, east), (south, north)) of the shape of the map around points [degrees], moved into the map."""
    half = 0.5 * max(max(x) - min(x), (max(y) - min(y)) / mesh.shape) + margin
    middle = 0.5 * (min(x) + max(x)), 0.5 * (min(y) + max(y))
    west, east, south, north = mesh.extent
    limits = []
    for centre, reach, low, high in zip(middle, (half, half * mesh.shape), (west, south), (east, north)):
        centre = min(max(centre, low + reach), high - reach) if 2 * reach < high - low else 0.5 * (low + high)
        limits.append((centre - reach, centre + reach))
    return tuple(limits)


def _lies_in(gauge, region):
    """Whether a gauge lies in a region."""
    (west, east), (south, north) = region
    return west < gauge.x < east and south < gauge.y < north


def _draw_series(page, gauges):
    """Draw the series of the gauges, two in a row, or a single one over the whole width."""
    size = page.get_size_inches()
    span = min(g.time[0] for g in gauges), max(g.time[-1] for g in gauges)
    _, unit, length = time_unit(span[1])
    for n, (gauge, (axes, lowest)) in enumerate(zip(gauges, panels(page, len(gauges), 0.6))):
        spread = {role: x for role, x in gauge.spread.items() if role in SPREAD}
        draw_curves(axes, gauge.time / length, gauge.values, spread)
        axes.axhline(0, color="#555555", linewidth=0.6, zorder=0)
        units = "" if gauge.units == "m" else f" [{pretty(gauge.units)}]"
        axes.set_title(gauge.name + units + ("" if gauge.used else " (not used)"))
        style.remark(axes, _explained(gauge))
        axes.grid(axis="x")
        axes.set_xlim(span[0] / length, span[1] / length)
        if n % 2 == 0:
            axes.set_ylabel("Elevation [m]" if gauge.units == "m" else "")
            axes.set_xlabel(f"{unit} after the start" if lowest else "", loc="left")
    roles = {role for gauge in gauges for role in gauge.values}
    handles: list = [
        Line2D([], [], color=colour, linewidth=weight, linestyle=dashes, label=words)
        for role, (colour, weight, dashes, words) in CURVES.items()
        if role in roles
    ]
    if any(gauge.spread for gauge in gauges):
        handles.append(Patch(color=style.GREY, alpha=0.3, linewidth=0, label="± spread"))
    corner = 1 - 0.3 / size[0], 0.02 / size[1]
    page.legend(handles=handles, loc="lower right", bbox_to_anchor=corner, ncols=len(handles))


def _explained(gauge):
    """The variance explained, as scores.py defines it, and the bias, for each role."""
    series = {role: Series(gauge.name, gauge.time, values) for role, values in gauge.values.items()}
    words = {word: role for role, word in WORDS.items() if role in series}
    scores = {word: variance_explained(series[role], series["observed"]) for word, role in words.items()}
    return ", ".join(
        f"{word}: {100 * share:.0f} % explained, bias {bias:+.2g} {pretty(gauge.units)}"
        for word, (share, bias) in scores.items()
        if np.isfinite(share)
    )


def _draw_departures(page, points, lower):
    """Histograms of the differences between observations and model, in units of the errors, before and after."""
    axes = style.axes_at(page, LEFT, 0.6, 0.6 * (page.get_size_inches()[0] - LEFT), lower - 1.1)
    observed = np.concatenate([p.values["observed"] for p in points])
    deviation = np.concatenate([p.deviation for p in points])
    modelled = {role: np.concatenate([p.values[role] for p in points]) for role in ("background", "analysis")}
    off = {role: (values - observed) / deviation for role, values in modelled.items()}
    edge = max(5.0, float(np.percentile(np.abs(off["background"]), 98)))
    bins = np.linspace(-edge, edge, 61).tolist()
    axes.hist(off["analysis"], bins=bins, color=style.VERMILLION, alpha=0.6, label="found")
    axes.hist(off["background"], bins=bins, histtype="step", color=style.BLACK, linewidth=1.3, label="first guess")
    outside = {role: int((np.abs(values) > edge).sum()) for role, values in off.items()}
    if any(outside.values()):
        beyond = f"beyond the axis: {outside['background']:,} of the first guess, {outside['analysis']:,} found"
        axes.set_title(beyond, fontsize=8, loc="left", fontweight="normal", color=style.GREY)
    axes.set_xlabel(f"(model - observation) / error, of {observed.size:,} observations", loc="left")
    axes.set_ylabel("Number")
    axes.legend()
