"""Harmonic constants of an inversion in the plane of A cos g and A sin g: observed, of the first guess, and found."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from . import style

__all__ = ["MOST_CONSTITUENTS", "draw_constants"]

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
        place = left + n * (side + 0.9), bottom, side, side
        axes = page.add_axes(tuple(np.divide(place, (*size, *size))))
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
    axes.spines[["top", "right"]].set_visible(False)
