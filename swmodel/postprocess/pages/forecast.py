"""Figures and pages of forecasts, hazards and buoys: sources with their spread, waves with their bands, and records.

A page has a slider over the minutes of the records, or over return periods.
"""

import dataclasses
import pathlib
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from ...runtime.packages import VERSION
from .. import style
from ..files import writing
from .frame import Section, as_figure, as_image, as_table, filled, joined, keys_note, markup, moments

COLUMNS, OBSERVED = 3, "#555555"
DPI = 90
NOTE = " Waves and sources are those of the linear bank."


@dataclasses.dataclass(frozen=True)
class Ranges:
    """Limits of the axes of several drawings: of amplitudes, their deviations, and the level at each point [m]."""

    amplitude: float
    deviation: float
    level: dict[str, tuple[float, float]]

    @staticmethod
    def of(posteriors: Sequence[Any], points: Sequence[str], records: Any) -> "Ranges":
        """Those of Posteriors in the order of time: amplitudes and levels of the last one, and usual deviations."""
        last = posteriors[-1]
        most = float(np.abs(last.sources()["amplitude"]).max()) or 1.0
        deviation = np.median([float(one.sources()["amplitude_deviation"].max()) for one in posteriors])
        waves, level = last.predict(points).sel(band=90.0), {}
        for name in points:
            low, high = float(waves["low"].sel(point=name).min()), float(waves["high"].sel(point=name).max())
            if name in records:
                late = records[name].where(records[name]["time"] >= last.errors.begin)
                low, high = np.nanmin([low, *late.values]), np.nanmax([high, *late.values])
            level[name] = 1.1 * low, 1.1 * high
        return Ranges(most, float(deviation), level)


def drawing(posterior: Any, records: Any, points: Sequence[str], ranges: Ranges | None = None) -> Figure:
    """A forecast.Posterior: the amplitudes, their deviations, and the waves at points.

    Args:
        posterior: a Posterior.
        records: {point: level over "time" [s]}.
        points: names of points.
        ranges: of the axes; those that fit unless given.
    """
    rows = -(-len(points) // COLUMNS)
    drawn = Figure(figsize=(11.0, 3.4 + 2.1 * rows), layout="constrained")
    parts: Any = drawn.subfigures(2, 1, height_ratios=(3.4, 2.1 * rows))
    top, bottom = parts
    sources, ranges = posterior.sources(), ranges or Ranges.of([posterior], points, records)
    left, right = top.subplots(1, 2)
    known = (
        ("amplitude", "RdBu_r", (-ranges.amplitude, ranges.amplitude)),
        ("amplitude_deviation", "viridis", (0.0, ranges.deviation)),
    )
    for axes, (name, colours, (low, high)) in zip((left, right), known):
        at = axes.scatter(
            sources["source_x"], sources["source_y"], c=sources[name], s=60, cmap=colours, vmin=low, vmax=high
        )
        drawn.colorbar(at, ax=axes, label=f"{name.replace('_', ', ')} [m]")
        axes.set_aspect("equal", adjustable="datalim")
    left.set_title(f"after {posterior.until / 60:.0f} min of records")
    waves = posterior.predict(points)
    each = np.atleast_1d(bottom.subplots(rows, COLUMNS, sharex=True, squeeze=False)).ravel()
    for axes, name in zip(each, points):
        _draw_wave(axes, waves.sel(point=name), records.get(name), (posterior.errors.begin, posterior.until))
        axes.set_ylim(*ranges.level[name])
    for axes in each[len(points) :]:
        axes.set_visible(False)
    each[0].set_ylabel("level [m]")
    each[min(len(points), len(each)) - 1].set_xlabel("minutes after the earthquake")
    lines = [
        Line2D([], [], color=style.VERMILLION, linewidth=1.3, label="forecast, with bands of 50 and 90 %"),
        Line2D([], [], color=OBSERVED, linewidth=1.2, label="record, used"),
        Line2D([], [], color=OBSERVED, linewidth=0.7, linestyle=":", label="record, not used"),
    ]
    drawn.legend(handles=lines, loc="outside lower center", ncols=3, fontsize=8)
    return drawn


def _draw_wave(axes, wave, record, window):
    """The wave at a point with its bands, the record of it, and the times [s] between which its samples were used."""
    minutes, (begin, until) = wave["time"] / 60.0, window
    for band, shade in ((90.0, 0.2), (50.0, 0.35)):
        here = wave.sel(band=band)
        axes.fill_between(minutes, here["low"], here["high"], color=style.VERMILLION, alpha=shade, linewidth=0)
    axes.plot(minutes, wave["mean"], color=style.VERMILLION, linewidth=1.3)
    if record is not None:
        used = (record["time"] >= begin) & (record["time"] <= until)
        axes.plot(record["time"] / 60.0, record, color=OBSERVED, linewidth=0.7, linestyle=":")
        axes.plot(record["time"][used] / 60.0, record[used], color=OBSERVED, linewidth=1.2)
    axes.axvline(until / 60.0, color=style.GREY, linewidth=0.7)
    axes.set_title(str(wave["point"].values))
    axes.set_xlim(0.0, float(minutes[-1]))
    axes.spines[["top", "right"]].set_visible(False)


def gains(candidates: Any, places: dict[str, tuple[float, float]], most: float | None = None) -> Figure:
    """The `gain` of candidates, as `forecast.next_buoy` gives it, and further places with their names.

    The colours go from 0 to `most`, the largest gain unless given.
    """
    drawn = Figure(figsize=(7.0, 5.6), layout="constrained")
    axes, top = drawn.subplots(), 100.0 * float(candidates["gain"].max() if most is None else most)
    shades: dict[str, Any] = {"cmap": "viridis", "vmin": 0.0, "vmax": top}
    at = axes.scatter(candidates["x"], candidates["y"], c=100.0 * candidates["gain"], s=90, marker="s", **shades)
    best = candidates.isel(point=0)
    axes.plot(best["x"], best["y"], "s", markersize=13, fillstyle="none", color=style.VERMILLION)
    drawn.colorbar(at, ax=axes, label="part of the variance that a buoy removes [%]")
    for name, (x, y) in places.items():
        axes.plot(x, y, "^", color=style.VERMILLION)
        axes.annotate(name, (x, y), (4, 4), textcoords="offset points", fontsize=8)
    axes.set_aspect("equal", adjustable="datalim")
    return drawn


def curves(hazard: Any) -> Figure:
    """The curves of `forecast.hazard_curves` with the bands of their Monte Carlo error, a panel a point."""
    points = hazard["point"].values
    drawn, each = _panels(len(points), 2.4, sharex=True, sharey=True)
    level, rate, error = (hazard[name].values for name in ("level", "rate", "rate_deviation"))
    least = 10.0 ** np.floor(np.log10(rate[rate > 0].min(initial=1.0)))
    for k, (axes, name) in enumerate(zip(each, points)):
        low, high = np.maximum(rate[k] - 1.645 * error[k], 0.1 * least), rate[k] + 1.645 * error[k]
        axes.fill_between(level, low, high, color=style.VERMILLION, alpha=0.25, linewidth=0)
        axes.plot(level, np.where(rate[k] > 0, rate[k], np.nan), color=style.VERMILLION, linewidth=1.3)
        axes.set(xscale="log", yscale="log", title=str(name), ylim=(least, None))
        axes.grid(linewidth=0.3)
        axes.spines[["top", "right"]].set_visible(False)
    drawn.supxlabel("highest level [m]")
    drawn.supylabel("exceeded so many times a year")
    return drawn


def disaggregation(hazard: Any, period: float) -> Figure:
    """The shares of sources in how often the level of a return period [years] is exceeded, a panel a point."""
    here = hazard.sel(period=period)
    drawn, each = _panels(here.sizes["point"], 3.0)
    for axes, name in zip(each, here["point"].values):
        one = here.sel(point=name)
        share = 100.0 * one["source_share"]
        at = axes.scatter(here["source_x"], here["source_y"], c=share, s=45, cmap="viridis", vmin=0.0)
        drawn.colorbar(at, ax=axes)
        level = float(one["height"].sel(band=50.0))
        axes.set_title(
            f"{name}, {level:.2g} m" if np.isfinite(level) else f"{name}, not reached once in {period:g} years",
            fontsize=9,
        )
        axes.set_aspect("equal", adjustable="datalim")
    shares = (
        "share of each source in how often the level is exceeded [%] (each earthquake shared by its sources' moments)"
    )
    drawn.supxlabel(shares, fontsize=9)
    return drawn


def _panels(count, height, **shared):
    """(a Figure, `count` axes of it), in rows of this height [inches]."""
    rows = -(-count // COLUMNS)
    drawn = Figure(figsize=(11.0, 1.0 + height * rows), layout="constrained")
    each = drawn.subplots(rows, COLUMNS, squeeze=False, **shared).ravel()
    for axes in each[count:]:
        axes.set_visible(False)
    return drawn, each[:count]


# -- pages ------------------------------------------------------------------------------------------------------------


def forecast_page(
    posteriors: Sequence[Any],
    records: Mapping[str, Any],
    points: Sequence[str],
    tables: Sequence[list[list[str]]],
    about: str,
    path: pathlib.Path,
) -> pathlib.Path:
    """Write a page of a forecast as it was after some, and after more, minutes of records.

    Args:
        posteriors: forecast.Posteriors in the order of time.
        records: {point: level over "time" [s]}.
        points: names of points.
        tables: rows of cells on the points for each posterior, the heads first.
        about: what the bank is of, for the title.
        path: of the page.
    """
    ranges = Ranges.of(posteriors, points, records)
    parts, stamps = [], []
    for posterior, (heads, *lines) in zip(posteriors, tables):
        stamps.append(f"after {posterior.until / 60.0:.0f} min of records")
        text = f"Source and waves with their spread {stamps[-1]}"
        image = as_image(drawing(posterior, records, points, ranges), text, DPI)
        used = ", ".join(f"{name} {count}" for name, count in posterior.used.items()) or "none"
        remarks = joined(markup("<li>{}.</li>", remark) for remark in posterior.remarks)
        note = (
            '<p class="note">Samples that were used: {}; deviations multiplied by {:.3g}.</p><ul class="note">{}</ul>'
        )
        parts.append(
            markup("{}{}" + note, as_figure(image), as_table(heads, lines), used, posterior.inflation, remarks)
        )
    body = _slides(stamps, parts, "Minutes of records", "the minutes")
    return _written([Section("forecast", "Source, waves and harbours", body)], f"Forecast: {about}", path, "forecast")


def hazard_page(hazard: Any, rows: list[list[str]], about: str, path: pathlib.Path) -> pathlib.Path:
    """Write a page of forecast.hazard_curves: the curves, the levels of return periods, and the sources of each level.

    Args:
        hazard: of hazard_curves.
        rows: of the table of levels, the heads first.
        about: what the bank is of, for the title.
        path: of the page.
    """
    periods = [float(period) for period in hazard["period"].values]
    stamps = [f"once in {period:g} years" for period in periods]
    parts = []
    for period, stamp in zip(periods, stamps):
        image = as_image(disaggregation(hazard, period), f"Shares of sources in the level exceeded {stamp}", DPI)
        share = hazard["share"].sel(period=period)
        heads = ["share of magnitudes [%]", *(f"{m:.2f}" for m in share["magnitude"].values)]
        lines = [
            [str(name), *("–" if x != x else f"{100.0 * x:.0f}" for x in share.sel(point=name).values)]
            for name in share["point"].values
        ]
        parts.append(joined((as_figure(image), as_table(heads, lines))))
    sections = [
        Section("curves", "Curves of exceedance", as_figure(as_image(curves(hazard), "Curves of exceedance", DPI))),
        Section("levels", "Levels of return periods", as_table(rows[0], rows[1:])),
        Section("sources", "Sources", _slides(stamps, parts, "Return period", "return periods")),
    ]
    return _written(sections, f"Hazard: {about}", path, "hazard")


def buoys_page(
    candidates: Sequence[Any],
    places: dict[str, tuple[float, float]],
    tables: Sequence[list[list[str]]],
    about: str,
    path: pathlib.Path,
) -> pathlib.Path:
    """Write a page of where the next buoy should be, for forecasts from more and more minutes of records.

    Args:
        candidates: of forecast.next_buoy, in the order of time.
        places: {name: (x, y)} of the harbours and gauges.
        tables: rows of cells on the best candidates for each, the heads first.
        about: what the bank is of, for the title.
        path: of the page.
    """
    most = max(float(one["gain"].max()) for one in candidates)
    stamps = [f"with {round(one.attrs['until'] / 60.0, 2):g} min of records" for one in candidates]
    parts = []
    for one, stamp, (heads, *lines) in zip(candidates, stamps, tables):
        image = as_image(
            gains(one, places, most), f"Part of the variance that a buoy at each place removes {stamp}", DPI
        )
        spread = "Spread of the forecast without records {:.3g} m, with those of the gauges {:.3g} m."
        note = spread.format(one.attrs["without_records"], one.attrs["with_gauges"])
        parts.append(markup('{}{}<p class="note">{}</p>', as_figure(image), as_table(heads, lines), note))
    body = _slides(stamps, parts, "Minutes of records", "the minutes")
    return _written([Section("buoys", "Where the next buoy should be", body)], f"Next buoy: {about}", path, "buoys")


def _slides(stamps, parts, label, keys):
    """Parts of which a slider shows one, and the note on its keys."""
    return joined((moments(stamps, parts, label), keys_note(keys, NOTE)))


def _written(sections, title, path, command):
    source = f"swmodel {VERSION}"
    with writing(command, path) as part:
        part.write_text(filled(title, source, source, sections, f"swmodel {command}"), encoding="utf-8")
    return path
