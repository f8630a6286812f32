"""Draws the panels of a case; it needs matplotlib, from the extra `plots`."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..errors import ConfigError
from .case import Panel


def draw(panels: Sequence[Panel]) -> Any:
    """A matplotlib Figure with the panels side by side.

    Raises:
        ConfigError: without matplotlib.
    """
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise ConfigError(
            "the figures of --html need matplotlib; install it by pip install 'swmodel[plots]'."
        ) from error
    figure = Figure(figsize=(5.0 * len(panels), 4.0), layout="constrained")
    for axes, panel in zip(np.ravel(figure.subplots(1, len(panels))), panels):
        DRAWN[panel.kind](figure, axes, panel)
        axes.set_title(panel.title, fontsize=10)
        axes.set_xlabel(panel.labels[0])
        axes.set_ylabel(panel.labels[1])
    return figure


def _map(figure, axes, panel):
    """Draw a map; its colours are symmetric about zero if the values have both signs."""
    values = np.asarray(panel.values)
    low, high = float(values.min()), float(values.max())
    both = low < 0 < high and min(-low, high) > 0.05 * max(-low, high)
    limits = {"vmin": -max(-low, high), "vmax": max(-low, high)} if both else {}
    drawn = axes.pcolormesh(panel.x, panel.y, values, cmap="RdBu_r" if both else "viridis", shading="nearest", **limits)
    figure.colorbar(drawn, ax=axes, label=panel.unit, shrink=0.9)


def _lines(figure, axes, panel):
    for number, (label, (x, y)) in enumerate(panel.values.items()):
        axes.plot(x, y, "-" if number == 0 else "--", label=label)
    axes.legend(frameon=False)
    axes.grid(alpha=0.3)


def _errors(figure, axes, panel):
    for label, (x, y) in panel.values.items():
        axes.loglog(x, y, "k:" if label.startswith("order") else "o-", label=label)
    cells = sorted({float(n) for x, _ in panel.values.values() for n in x})
    axes.set_xticks(cells, [f"{n:g}" for n in cells])
    axes.minorticks_off()
    axes.legend(frameon=False)
    axes.grid(alpha=0.3)


DRAWN = {"map": _map, "lines": _lines, "errors": _errors}
