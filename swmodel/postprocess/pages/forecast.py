"""Pages of forecasts, hazards and buoys: a slider over the minutes of the records, or over return periods."""

import pathlib
from collections.abc import Mapping, Sequence
from typing import Any

from ...runtime.paths import replacing
from ..forecast import Ranges, curves, disaggregation, drawing, gains
from .frame import Section, as_figure, as_image, as_table, filled, joined, keys_note, markup, moments

DPI = 90
NOTE = " Waves and sources are those of the linear bank."


def forecast_page(
    posteriors: Sequence[Any],
    records: Mapping[str, Any],
    points: Sequence[str],
    tables: Sequence[list[list[str]]],
    title: str,
    source: str,
    path: pathlib.Path,
) -> pathlib.Path:
    """Write a page of a forecast as it was after some, and after more, minutes of records.

    Args:
        posteriors: forecast.Posteriors in the order of time.
        records: {point: level over "time" [s]}.
        points: names of points.
        tables: rows of cells on the points for each posterior, the heads first.
        title, source: of the page, and the program that made it.
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
    body = joined((moments(stamps, parts, "Minutes of records"), keys_note("the minutes", NOTE)))
    return _written([Section("forecast", "Source, waves and harbours", body)], title, source, path, "forecast")


def hazard_page(found: Any, rows: list[list[str]], title: str, source: str, path: pathlib.Path) -> pathlib.Path:
    """Write a page of forecast.hazard_curves: the curves, the levels of return periods, and the sources of each level.

    Args:
        found: of hazard_curves.
        rows: of the table of levels, the heads first.
        title, source: of the page, and the program that made it.
        path: of the page.
    """
    periods = [float(period) for period in found["period"].values]
    stamps = [f"once in {period:g} years" for period in periods]
    parts = []
    for period, stamp in zip(periods, stamps):
        image = as_image(disaggregation(found, period), f"Shares of sources in the level exceeded {stamp}", DPI)
        share = found["share"].sel(period=period)
        heads = ["share of magnitudes [%]", *(f"{m:.2f}" for m in share["magnitude"].values)]
        lines = [
            [str(name), *("–" if x != x else f"{100.0 * x:.0f}" for x in share.sel(point=name).values)]
            for name in share["point"].values
        ]
        parts.append(joined((as_figure(image), as_table(heads, lines))))
    sections = [
        Section("curves", "Curves of exceedance", as_figure(as_image(curves(found), "Curves of exceedance", DPI))),
        Section("levels", "Levels of return periods", as_table(rows[0], rows[1:])),
        Section(
            "sources", "Sources", joined((moments(stamps, parts, "Return period"), keys_note("return periods", NOTE)))
        ),
    ]
    return _written(sections, title, source, path, "hazard")


def buoys_page(
    found: Sequence[Any],
    places: dict[str, tuple[float, float]],
    tables: Sequence[list[list[str]]],
    title: str,
    source: str,
    path: pathlib.Path,
) -> pathlib.Path:
    """Write a page of where the next buoy should be, for forecasts from more and more minutes of records.

    Args:
        found: of forecast.next_buoy, in the order of time.
        places: {name: (x, y)} of the harbours and gauges.
        tables: rows of cells on the best candidates for each, the heads first.
        title, source: of the page, and the program that made it.
        path: of the page.
    """
    most = max(float(one["gain"].max()) for one in found)
    stamps = [f"with {round(one.attrs['until'] / 60.0, 2):g} min of records" for one in found]
    parts = []
    for one, stamp, (heads, *lines) in zip(found, stamps, tables):
        image = as_image(
            gains(one, places, most), f"Part of the variance that a buoy at each place removes {stamp}", DPI
        )
        spread = "Spread of the forecast without records {:.3g} m, with those of the gauges {:.3g} m."
        note = spread.format(one.attrs["without_records"], one.attrs["with_gauges"])
        parts.append(markup('{}{}<p class="note">{}</p>', as_figure(image), as_table(heads, lines), note))
    body = joined((moments(stamps, parts, "Minutes of records"), keys_note("the minutes", NOTE)))
    return _written([Section("buoys", "Where the next buoy should be", body)], title, source, path, "buoys")


def _written(sections, title, source, path, command):
    with replacing(path) as part:
        part.write_text(filled(title, source, source, sections, f"swmodel {command}"), encoding="utf-8")
    return path
