"""Shaded topography of land that may be flooded, its shoreline at rest, and the inundation line."""

from collections.abc import Sequence

import numpy as np
from matplotlib import patheffects
from matplotlib.axes import Axes
from matplotlib.colors import LightSource

from . import style
from .files import Mesh

__all__ = ["SHORE", "draw_line", "draw_relief", "draw_shore"]

LOW, HIGH = np.array([0.90, 0.89, 0.84]), np.array([0.77, 0.74, 0.67])  # colours of the lowest and the highest land
STEEP = 0.8  # the slope to which the steep parts of the ground are drawn
SHORE = "#2b2b2b"


def draw_relief(axes: Axes, mesh: Mesh, ground: np.ndarray) -> None:
    """The ground [m] (ny, nx) as a hill shade with light from the north-west, below the fields; NaN stays empty.

    Slopes are exaggerated until the steepest twentieth has the slope STEEP.
    """
    known = np.isfinite(ground)
    heights = np.where(known, ground, np.nanmax(ground))
    dx, dy = float(mesh.dx(mesh.y[mesh.y.size // 2])[0, 0]), float(mesh.dy)
    if min(heights.shape) > 1:
        slope = np.hypot(*np.gradient(heights, dy, dx))
        exaggeration = STEEP / (np.percentile(slope[ground > 0], 95) or 1.0)
        # the first row of the array is the southernmost one
        shade = LightSource(315, 45).hillshade(heights[::-1], exaggeration, dx, dy)[::-1]
    else:
        shade = np.full(heights.shape, 0.7)
    share = np.clip(heights / max(float(heights.max()), 1e-30), 0.0, 1.0)[..., None]
    colours = (LOW * (1 - share) + HIGH * share) * (0.55 + 0.6 * shade[..., None])
    west, east, south, north = (edge * mesh.scale for edge in mesh.extent)
    axes.imshow(
        np.dstack([np.clip(colours, 0.0, 1.0), known]),
        origin="lower",
        extent=(west, east, south, north),
        aspect=mesh.aspect,
        interpolation="nearest",
        zorder=0.5,
    )


def draw_shore(axes: Axes, mesh: Mesh, ground: np.ndarray) -> None:
    """The shoreline at rest, where the ground is at the level of the sea."""
    heights = np.where(np.isfinite(ground), ground, np.nanmax(ground))
    if min(heights.shape) > 1 and heights.min() < 0 < heights.max():
        x, y = mesh.x * mesh.scale, mesh.y * mesh.scale
        lines = axes.contour(x, y, heights, [0.0], colors=SHORE, linewidths=0.9, zorder=3)
        lines.set_path_effects([patheffects.withStroke(linewidth=2.2, foreground="white", alpha=0.8)])


def draw_line(axes: Axes, mesh: Mesh, parts: Sequence[np.ndarray]) -> None:
    """The parts (n, 2) of an inundation line."""
    for part in parts:
        axes.plot(*(part.T * mesh.scale), color=style.VERMILLION, linewidth=1.1, zorder=5)
