"""What would be read from files of elevations: a map, a histogram, and nodes that deserve a look.

Files are laid over one another by priority, as patches of [bathymetry] are (grids/patches.py). A node is suspicious if
it lies far outside of the range of its eight neighbours: by more than that range, and by more than FAR times the median
difference between neighbours. So is a node whose value many nodes repeat, far from the values around them
(grids/undeclared.py).
"""

import dataclasses
import functools
import math
import pathlib
from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.colors import Normalize
from matplotlib.figure import Figure

from ..errors import DataError
from ..grids.axes import label
from ..grids.elevation import notes_on, open_elevation
from ..grids.grid import CartesianGrid, Grid, SphericalGrid
from ..grids.patches import Layer, Patch, layers_of, overlay
from ..grids.remapping import cell_edges
from ..grids.undeclared import FAR, impossible, repeated_far_from_others
from . import style
from .maps import draw_base, draw_field, map_axes
from .mesh import mesh_on

MOST_NODES = 2**22  # of a file that are looked at
CELLS = 600  # of the map along its longer side
MOST = 5  # suspicious nodes that are named
CLASSES = 80  # of the histogram


@dataclasses.dataclass(frozen=True)
class FileOfElevations:
    """A file, as it would be read.

    Attributes:
        name: of the file.
        lines: what was assumed, its nodes, their range, and the numbers of those that are missing, dry or suspicious.
        suspects: (x, y, z) of suspicious nodes, the farthest from their neighbours first, (n, 3).
    """

    name: str
    lines: tuple[str, ...]
    suspects: np.ndarray


def bathymetry(
    files: Sequence[str | pathlib.Path],
    output: str | pathlib.Path = "bathymetry.png",
    box: Sequence[float] | None = None,
    margin: int = 0,
) -> tuple[list[FileOfElevations], pathlib.Path]:
    """Describe files of elevations and draw what would be read from them.

    Args:
        files: in any of the formats that are read, the one with the highest priority first.
        output: the figure to write; its suffix chooses the format.
        box: (x0, x1, y0, y1) in the files' coordinates; the whole of the last file unless given.
        margin: cells of the map over which a file passes into the next one.

    Raises:
        DataError: for a file that cannot be read, or has no place in the box.
    """
    grid = _grid(files, box)
    patches = [Patch(file, coarsen=_coarsening(file, grid)) for file in files]
    base = patches[-1].elevation(grid, masked=True)
    layers = layers_of(base, (0.0, 0.0), patches[:-1], grid, "average", masked=True)
    descriptions = [_described(layer, patch.coarsen) for layer, patch in zip(layers, patches)]
    sums = [functools.partial(_means, layer) for layer in layers]
    blended = overlay(sums, [layer.plan for layer in layers], grid.shape, margin)
    z, gaps = blended(slice(0, grid.ny), slice(0, grid.nx))
    share = 1.0 - gaps
    z = np.where(share > 0.5, z / np.where(share > 0, share, 1.0), np.nan)
    return descriptions, style.save(_figure(grid, z, descriptions), pathlib.Path(output))


def _grid(files, box):
    """The grid of the map, whose cells are no smaller than the nodes of the finest file."""
    spherical = open_elevation(files[-1], masked=True).dims[-1] == "lon"
    kind = SphericalGrid if spherical else CartesianGrid  # projected files are transformed for the former
    fields = [open_elevation(file, masked=True, grid=kind) for file in files]
    axes = [[field[dim].values for dim in field.dims] for field in fields]
    if box is None:
        y, x = (cell_edges(values)[[0, -1]] for values in axes[-1])
        y = np.clip(y, -90.0, 90.0) if spherical else y
    else:
        x, y = np.reshape(np.asarray(box, float), (2, 2))
    if not (x[0] < x[1] and y[0] < y[1]):
        raise DataError(f"the box {tuple(map(float, (*x, *y)))} is empty; give x0 x1 y0 y1 in ascending order.")
    finest = min(float(np.median(np.diff(values))) for pair in axes for values in pair)
    size = max(max(x[1] - x[0], y[1] - y[0]) / CELLS, finest)
    nx, ny = (max(int((end - start) / size + 1e-6), 2) for start, end in (x, y))
    return kind(nx, ny, (float(x[0]), float(x[1])), (float(y[0]), float(y[1])))


def _coarsening(file, grid):
    """Every how manieth node of a file is looked at."""
    field = open_elevation(file, masked=True, grid=grid)
    counts = []
    for dim, edges in zip(field.dims, (grid.y_edges, grid.x_edges)):
        nodes = field[dim].values
        counts.append(min(nodes.size, (edges[-1] - edges[0]) / float(np.median(np.diff(nodes)))))
    return max(math.ceil(math.sqrt(counts[0] * counts[1] / MOST_NODES)), 1)


def _means(layer: Layer, rows: slice, columns: slice) -> tuple[np.ndarray, np.ndarray]:
    """(sum(w z) over the nodes with values [m], the share of those without)."""
    part = layer.plan.part(rows, columns)
    z = part.read(layer.elevation)
    missing = np.isnan(z)
    return part(np.where(missing, 0.0, z)), part(missing.astype(float))


def _described(layer: Layer, coarsen: int) -> FileOfElevations:
    plan = layer.plan
    z = plan.read(layer.elevation)
    missing, suspect = ~np.isfinite(z), _suspects(z)
    present = z[~missing]
    span = f"{present.min():g} to {present.max():g} m" if present.size else "none with a value"
    value, repeated = impossible(z), repeated_far_from_others(z)
    counts = {
        "without a value": missing,
        "under water": z < 0,
        "exactly 0, read as land": z == 0,
        f"of {0 if value is None else value:g} m, which no place on Earth has": z == value,
        "with one of the values that many repeat, far from those around them": repeated,
        "far outside of the range around it": suspect > 0,
    }
    every = f"every {coarsen}th of its nodes along each axis" if coarsen > 1 else "its nodes"
    numbers = {text: int(np.count_nonzero(nodes)) for text, nodes in counts.items() if nodes is not None}
    lines = [
        *notes_on(layer.elevation, plan),
        f"{every} in the box: {plan.x.size:,} x {plan.y.size:,}, {span}",
        *(f"{number:,} node{'s' * (number > 1)} {text}" for text, number in numbers.items() if number),
    ]
    marked = np.maximum(suspect, 0.0 if repeated is None else 1e-9 * repeated)
    at = np.argwhere(marked > 0)
    at = at[np.argsort(-marked[tuple(at.T)], kind="stable")]
    rows, columns = at.T
    suspects = np.stack([plan.x[columns], plan.y[rows], z[rows, columns]], axis=1)
    lines += [f"  {x:.6g}, {y:.6g}: {height:g} m" for x, y, height in suspects[:MOST]]
    return FileOfElevations(label(layer.elevation), tuple(lines), suspects)


def _suspects(z: np.ndarray) -> np.ndarray:
    """How far a node lies outside of the range of its neighbours [m]; 0 of those that are not suspicious."""
    from scipy.ndimage import maximum_filter, minimum_filter

    ring = np.ones((3, 3), bool)
    ring[1, 1] = False
    valid = np.isfinite(z)
    high: Any = maximum_filter(np.where(valid, z, -np.inf), footprint=ring, mode="nearest")
    low: Any = minimum_filter(np.where(valid, z, np.inf), footprint=ring, mode="nearest")
    steps = np.abs(np.concatenate([np.diff(z, axis=0).ravel(), np.diff(z, axis=1).ravel()]))
    steps = steps[steps > 0]
    with np.errstate(invalid="ignore"):
        beyond = np.maximum(z - high, low - z)
        far = (beyond > high - low) & (beyond > FAR * (np.median(steps) if steps.size else np.inf))
    return np.where(far & valid & (high >= low), beyond, 0.0)


def _figure(grid: Grid, z: np.ndarray, descriptions: Sequence[FileOfElevations]) -> Figure:
    """The map with suspicious nodes circled, and the histogram, at sizes in inches."""
    mesh = mesh_on(grid)
    width = min(7.0, 6.0 / mesh.shape)
    height = width * mesh.shape
    suspects = np.concatenate([one.suspects for one in descriptions])
    with style.applied():
        page = style.new_figure(width + 5.4, max(height, 2.4) + 1.0)
        axes = map_axes(page, (0.8, 0.55, width, height), mesh)
        for k, (values, name, colours) in enumerate(((-z, "depth [m]", "deep"), (z, "land [m]", "amp"))):
            shown = np.where((values > 0) | ((values == 0) & (k == 1)), values, np.nan)  # a node of 0 is land
            high = float(np.nanmax(shown, initial=0.0)) or 1.0
            image = draw_field(axes, mesh, shown, Normalize(0.0, high), style.colormap(colours))
            bar = style.axes_at(page, width + 1.0 + 0.85 * k, 0.55, 0.14, 0.9 * height)
            page.colorbar(image, bar)
            bar.set_title(name, fontsize=7.5, fontweight="normal")
        axes.plot(*(suspects[:, :2].T * mesh.scale), "o", mfc="none", mec=style.VERMILLION, ms=6)
        draw_base(axes, mesh, np.ones(grid.shape, bool))
        axes.set_title(f"{len(suspects):,} suspicious nodes, circled")
        counts = style.axes_at(page, width + 3.5, 0.55, 1.6, max(height, 2.4))
        counts.hist(z[np.isfinite(z)], CLASSES, orientation="horizontal", color=style.BLUE)
        counts.set(xscale="log", xlabel="cells", ylabel="elevation [m]", title="histogram")
        counts.axhline(0.0, color=style.BLACK, linewidth=0.7)
    return page
