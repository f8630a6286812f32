"""The style of all figures: type, line weights, and colours that can be distinguished with any colour vision."""

import contextlib
import pathlib
import warnings
from collections.abc import Sequence
from typing import Any

import matplotlib as mpl
import numpy as np
import xarray as xr
from cycler import cycler
from matplotlib import patheffects
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import Colormap
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, NullFormatter
from numpy.typing import ArrayLike

from ..errors import PlotError
from .files import RAISED, replacing

TITLE_HEIGHT = 0.45  # [inches] above a page for its title

# Okabe & Ito (2008), Color Universal Design
ORANGE, GREEN, BLUE, VERMILLION, PURPLE = "#E69F00", "#009E73", "#0072B2", "#D55E00", "#CC79A7"
BLACK, GREY = "#1a1a1a", "#6e6e6e"

_RC: dict[Any, Any] = {
    "font.family": "DejaVu Sans",
    "font.size": 9.0,
    "axes.titlesize": 9.5,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "axes.titlepad": 5.0,
    "axes.labelsize": 9.0,
    "axes.labelcolor": BLACK,
    "axes.edgecolor": "#555555",
    "axes.linewidth": 0.7,
    "axes.prop_cycle": cycler(color=[BLUE, VERMILLION, GREEN, PURPLE, ORANGE, BLACK]),
    "text.color": BLACK,
    "text.parse_math": False,  # names and titles may have a $
    "xtick.labelsize": 8.0,
    "ytick.labelsize": 8.0,
    "xtick.color": "#444444",
    "ytick.color": "#444444",
    "xtick.direction": "out",
    "ytick.direction": "out",
    "xtick.major.size": 3.0,
    "ytick.major.size": 3.0,
    "xtick.major.width": 0.7,
    "ytick.major.width": 0.7,
    "grid.color": "#d9d9d9",
    "grid.linewidth": 0.6,
    "legend.frameon": False,
    "legend.fontsize": 8.5,
    "image.composite_image": False,
    "pdf.fonttype": 42,
    "svg.fonttype": "none",
}

_DPI = 160
HALO: list = [patheffects.withStroke(linewidth=2.0, foreground="white")]  # of letters on maps

_FALLBACK = {
    "balance": "RdBu_r",
    "curl": "PuOr_r",
    "delta": "BrBG",
    "amp": "Reds",
    "deep": "Blues",
    "speed": "YlGn",
    "thermal": "inferno",
    "dense": "BuPu",
}


def applied() -> contextlib.AbstractContextManager:
    """A context in which matplotlib draws in this package's style; the user's own settings are restored afterwards."""
    return mpl.rc_context(_RC)


def colormap(name: str) -> Colormap:
    """cmocean's map of that name, or matplotlib's nearest to it where cmocean is not installed."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # it is addressed to cmocean's authors
            import cmocean
    except (ImportError, TypeError):  # not installed, or too old for this matplotlib
        return mpl.colormaps[_FALLBACK.get(name, "viridis")].copy()
    return cmocean.cm.cmap_d[name].copy()


def limits(values: ArrayLike, percentile: float = 99.5) -> tuple[float, float]:
    """(low, high) that leave out the outermost values; symmetric about zero where the values have both signs.

    Args:
        values: any array; NaN and infinite values do not count.
        percentile: of |values| where they have both signs; else of the values, and 0 is the lower end if it is near.
    """
    values = np.asarray(values)
    values = values[np.isfinite(values)]
    if values.size == 0:
        return -1.0, 1.0
    if values.min() < 0 < values.max():
        high = float(np.percentile(np.abs(values), percentile)) or float(np.abs(values).max())
        return -high, high
    low, high = np.percentile(values, [100 - percentile, percentile]).tolist()
    if 0 <= low < 0.5 * high:
        low = 0.0
    if high <= low:
        margin = abs(low) or 1.0
        return low - margin, high + margin
    return low, high


def powers_of_ten(axis: Any) -> None:
    """Ticks of a logarithmic axis such as 2 × 10⁻⁵, which matplotlib would write as formulas."""

    def text(value, _):
        power = int(np.floor(np.log10(value) + 1e-9))
        if abs(power) < 3:
            return f"{value:g}"
        factor, digits = value / 10.0**power, str(power).translate(RAISED)
        return f"10{digits}" if abs(factor - 1) < 1e-6 else f"{factor:.3g} × 10{digits}"

    axis.set_major_formatter(FuncFormatter(text))
    axis.set_minor_formatter(NullFormatter())


def new_figure(width: float, height: float) -> Figure:
    """An empty figure [inches] that never opens a window."""
    figure = Figure(figsize=(width, height), layout=None)
    FigureCanvasAgg(figure)
    return figure


def titled_figure(width: float, height: float, dataset: xr.Dataset) -> Figure:
    """`new_figure` with space above it for the title of a dataset, if it has one."""
    title = dataset.attrs.get("title", "")
    figure = new_figure(width, height + (TITLE_HEIGHT if title else 0.0))
    heading(figure, title)
    return figure


def heading(figure: Figure, title: str, left: float = 0.6, right: float = 0.6) -> None:
    """The title of a page, with margins of this width [inches]; in small type if it is long."""
    width, height = figure.get_size_inches()
    size = min(14.0, 120 * (width - left - right) / max(len(title), 1))
    figure.text(left / width, 1 - 0.33 / height, title, fontsize=size, fontweight="bold", va="center")


def few(names: Sequence[str]) -> str:
    """The first four names, and the number of the others."""
    return ", ".join(names[:4]) + (f" and {len(names) - 4:,} more" if len(names) > 4 else "")


def name_others(figure: Figure, names: Sequence[str], left: float, hint: str = "") -> None:
    """A note at the foot of a page, `left` inches from its side, of what it does not show."""
    if names:
        width, height = figure.get_size_inches()
        text = f"Not shown: {few(names)}{hint}"
        figure.text(left / width, 0.06 / height, text, fontsize=7.5, color=GREY, va="bottom")


def save(figure: Figure, path: pathlib.Path) -> pathlib.Path:
    """Writes `figure`; the suffix of `path` chooses PNG, PDF or SVG. An older file stays until this one is complete."""
    known = figure.canvas.get_supported_filetypes()
    suffix = path.suffix.lstrip(".").lower()
    if suffix not in known:
        raise PlotError(f"save: {path} does not end in a format that can be drawn; use .png, .pdf or .svg.")
    try:
        with replacing(path) as part:
            figure.savefig(part, dpi=_DPI)
    except OSError as error:
        raise PlotError(f"save: {path} cannot be written ({error.strerror or error}); name another file.") from error
    return path
