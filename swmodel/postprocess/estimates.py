"""Panels of an inversion: controls that are given at times, with errors, and harmonic constants.

The constants are in the plane of A cos g and A sin g: observed, of the first guess, and of the analysis.
"""

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from . import style
from .files import pretty, seconds
from .scores import time_unit

HEIGHT, APART, LEFT = 1.0, 1.45, 0.65  # of a panel, from one to the next, and on its left [inches]
BETWEEN = 0.8  # two panels in a row [inches]
CURVES: dict[str, Any] = {  # {role: (colour, width, dashes, words)}
    "truth": ("#8c8c8c", 2.2, "-", "truth"),
    "observed": ("#8c8c8c", 2.2, "-", "observed"),
    "background": (style.GREY, 0.9, ":", "first guess"),
    "withheld": (style.BLUE, 1.2, "-", "from the other gauges"),
    "analysis": (style.VERMILLION, 1.4, "-", "found"),
}


@dataclasses.dataclass(frozen=True, eq=False)
class Line:
    """A control at `time` [s since the start] (n,): its name in the file, its words, and {role: values (n,)}."""

    name: str
    words: str
    units: str
    time: np.ndarray
    values: dict


def lines_of(dataset: xr.Dataset, roles: dict[str, dict[str, str]]) -> list[Line]:
    """The controls that are given at times.

    Args:
        dataset: the file of an inversion.
        roles: {control: {role: variable}} of all its controls.
    """
    lines = []
    for name, variables in roles.items():
        analysis = dataset[variables["analysis"]]
        if analysis.ndim != 1 or str(analysis.dims[0]) not in dataset.coords:
            continue
        time = seconds(dataset, str(analysis.dims[0]))
        attributes = analysis.attrs
        units = pretty(attributes.get("units", attributes.get("comment", "").removeprefix("in ")))
        values = {role: dataset[variable].values for role, variable in variables.items()}
        lines.append(Line(name, attributes.get("long_name", name).split(",")[0], units, time, values))
    return lines


def height_of(count: int) -> float:
    """The height that so many `panels` take [inches]."""
    return APART * -(-count // 2)


def panels(page: Figure, count: int, bottom: float) -> list[tuple[Axes, bool]]:
    """`count` panels, two in a row or a single one over the whole width, above `bottom` [inches].

    Returns:
        (axes, whether they are in the lowest row) of each.
    """
    columns = min(max(count, 1), 2)
    rows = -(-count // columns)
    width, places = (page.get_size_inches()[0] - LEFT - 0.3 - BETWEEN * (columns - 1)) / columns, []
    for n in range(count):
        row, column = divmod(n, columns)
        left, low = LEFT + column * (width + BETWEEN), bottom + (rows - 1 - row) * APART
        places.append((style.axes_at(page, left, low, width, HEIGHT), row == rows - 1))
    return places


def draw_curves(axes: Axes, time: np.ndarray, values: dict, spread: dict) -> None:
    """Draw {role: values} over time, with bands of {role: spread} about some of them."""
    for role, (colour, weight, dashes, _) in CURVES.items():
        if role in values:
            axes.plot(time, values[role], color=colour, linewidth=weight, linestyle=dashes)
        if role in spread:
            low, high = values[role] - spread[role], values[role] + spread[role]
            axes.fill_between(time, low, high, color=colour, alpha=0.2, linewidth=0)


def draw_lines(page: Figure, lines: list[Line], bottom: float) -> None:
    """Draw a panel for each control above `bottom` [inches]."""
    for line, (axes, lowest) in zip(lines, panels(page, len(lines), bottom)):
        _, unit, length = time_unit(float(line.time[-1]))
        deviations = {role: line.values[f"{role}_deviation"] for role in CURVES if f"{role}_deviation" in line.values}
        draw_curves(axes, line.time / length, line.values, deviations)
        axes.set_xlim(line.time[0] / length, line.time[-1] / length)
        axes.set_title(f"{line.words} [{line.units}]" if line.units else line.words)
        axes.set_xlabel(f"{unit} after the start" if lowest else "", loc="left")
        axes.grid(axis="x")


# -- harmonic constants -----------------------------------------------------------------------------------------------

MOST_CONSTITUENTS = 4  # with a panel
MARKS: tuple = (
    ("background", {"marker": "o", "facecolors": "none", "edgecolors": style.GREY, "s": 16}, "first guess"),
    ("observed", {"marker": "+", "color": style.BLACK, "s": 30, "linewidths": 1.0}, "observed"),
    ("analysis", {"marker": "o", "color": style.VERMILLION, "s": 16, "linewidths": 0.0}, "found"),
    ("withheld", {"marker": "o", "color": style.BLUE, "s": 16, "linewidths": 0.0}, "from the other gauges"),
)


def draw_constants(page: Figure, gauges: Sequence[Any], box: Sequence[float]) -> None:
    """A panel for each constituent, with a line from what was found to what was observed at each gauge.

    Args:
        page: the figure.
        gauges: the Observed of harmonic constants.
        box: (left, bottom, width, height) of all panels [inches].
    """
    names = list(dict.fromkeys(name for gauge in gauges for name in gauge.constituents))[:MOST_CONSTITUENTS]
    left, bottom, width, height = box
    side, size = min(height, width / len(names) - 0.9), page.get_size_inches()
    for n, name in enumerate(names):
        axes = style.axes_at(page, left + n * (side + 0.9), bottom, side, side)
        _draw_constituent(axes, gauges, name)
        if n == 0:
            axes.set_ylabel("A sin g [m]")
    handles, texts = axes.get_legend_handles_labels()
    corner = (left + len(names) * (side + 0.9) - 0.7) / size[0], (bottom + side) / size[1]
    page.legend(handles, texts, loc="upper left", bbox_to_anchor=corner)


def _draw_constituent(axes, gauges, name):
    """The constants of one constituent; a gauge that was not used has a dashed line."""
    planes = {}
    for gauge in gauges:
        rows = {part: k for k, (wave, part) in enumerate(zip(gauge.constituents, gauge.parts)) if wave == name}
        if len(rows) < 2:
            continue
        pair = [rows["A cos g"], rows["A sin g"]]
        both = {role: values[pair] for role, values in gauge.values.items()}
        line = np.stack([both["observed"], both["analysis"]], -1)
        axes.plot(*line, color=style.VERMILLION, linewidth=0.8, linestyle="-" if gauge.used else ":", zorder=1)
        for role, place in both.items():
            planes.setdefault(role, []).append(place)
    for role, marks, text in MARKS:
        if role in planes:
            axes.scatter(*np.transpose(planes[role]), label=text, zorder=2, **marks)
    axes.axhline(0, color="#555555", linewidth=0.6, zorder=0)
    axes.axvline(0, color="#555555", linewidth=0.6, zorder=0)
    axes.set_aspect("equal", adjustable="datalim")
    axes.set_title(f"{name} at the gauges (dotted: not used)" if not all(g.used for g in gauges) else name)
    axes.set_xlabel("A cos g [m]")
