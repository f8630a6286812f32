"""The roughness of the sea floor that a grid does not resolve, and the buoyancy frequency there, from elevations.

The drag by internal waves (forcing/potential.py) is proportional to r^2 N. At a node of the file of elevations, r is
the standard deviation of the depth from the best plane over the 2 reach + 1 nodes around it along both axes. The
buoyancy frequency is that of an exponential stratification at the sea floor,

    N = surface exp(-H / scale)                                      (Zaron & Egbert 2006, doi:10.1175/JPO2878.1)

Both are 0 at nodes that are shallower than `shallow`, since the drag is that of the deep ocean (Jayne & St. Laurent
2001, doi:10.1029/2000GL012044). In a cell of the grid, N is the mean over its area, and r is such that r^2 N is the
mean, too.
"""

import os
from typing import Any

import numpy as np

from ..errors import ConfigError, DataError
from .axes import label
from .elevation import open_elevation
from .grid import Grid
from .remapping import is_circle, remapping, runs_of
from .undeclared import impossible
from .windows import BlockCache, CachedValues, GridValues


def deviation_from_plane(values: np.ndarray, reach: int) -> np.ndarray:
    """The standard deviation of values from the best plane over the (2 reach + 1)^2 nodes around each node.

    Args:
        values: (ny + 2 reach, nx + 2 reach), with the nodes around.
        reach: nodes on either side, 1 or more.

    Returns:
        (ny, nx), in the units of the values.
    """
    size, offsets = 2 * reach + 1, np.arange(-reach, reach + 1.0)
    ones, moment = np.ones(size), size * float(np.sum(offsets**2))  # the sum of x^2, or y^2, over a window

    def sums(values, of_y, of_x):
        """The sums over windows of values times the products of two lines of weights."""
        lines: Any = sum(w * values[k : len(values) - size + 1 + k] for k, w in enumerate(of_y))
        total: Any = sum(w * lines[:, k : lines.shape[1] - size + 1 + k] for k, w in enumerate(of_x))
        return total

    mean, squares = (sums(part, ones, ones) / size**2 for part in (values, values * values))
    along_x, along_y = sums(values, ones, offsets) / moment, sums(values, offsets, ones) / moment
    return np.sqrt(np.maximum(squares - mean**2 - (along_x**2 + along_y**2) * moment / size**2, 0.0))


def rough_bottom(
    elevation: Any,
    grid: Grid,
    reach: int = 2,
    shallow: float = 500.0,
    surface: float = 5.24e-3,
    scale: float = 1300.0,
) -> tuple[GridValues, GridValues]:
    """(roughness [m], buoyancy frequency [s-1]) at cell centres, the arguments of InternalWaveDrag; 0 where shallow.

    Files are read a window at a time, so that a rank reads only the nodes around its tile.

    Args:
        elevation: the path of a netCDF file, or an xarray.DataArray of `read_elevation`.
        grid: the Grid.
        reach: nodes on either side of a node over which r is computed: 2 reach + 1 nodes should span a degree or more.
        shallow: the least depth with internal waves [m].
        surface: N at the sea surface [s-1].
        scale: the depth over which N falls by a factor of e [m].

    Raises:
        ConfigError: for a reach below 1, or a scale that is not positive.
        DataError: if the file cannot be read or does not cover the grid, has missing values, or cannot be in metres.
    """
    if not (isinstance(reach, (int, np.integer)) and reach >= 1):
        raise ConfigError(f"rough_bottom: reach = {reach!r} is not a whole number of 1 or more; give nodes, as 2.")
    if not scale > 0:
        raise ConfigError(f"rough_bottom: scale = {scale!r} m is not positive; give a depth, as 1300.")
    if isinstance(elevation, (str, os.PathLike)):
        elevation = open_elevation(elevation, grid=grid)
    plan = remapping(elevation, grid, "average")

    def block(rows, columns):
        part, shape = plan.part(rows, columns), (rows.stop - rows.start, columns.stop - columns.start)
        drag, buoyancy = np.zeros(shape), np.zeros(shape)
        for group, taken in plan.groups(part):
            depth = _depth_around(elevation, part, group, reach)
            here = depth[reach:-reach, reach:-reach]
            n = np.where(here > shallow, surface * np.exp(-here / scale), 0.0)
            drag += part(n * deviation_from_plane(depth, reach) ** 2, taken)
            buoyancy += part(n, taken)
        return np.sqrt(drag / np.where(buoyancy > 0, buoyancy, 1.0)), buoyancy

    cache = BlockCache(block, grid.shape)
    return CachedValues(cache, 0), CachedValues(cache, 1)


def _depth_around(elevation, part, rows, reach):
    """The depth [m], 0 on land, of some rows of a Remapping's box with `reach` nodes around it.

    Beyond the ends of the file its outermost nodes are repeated, unless its longitudes go round the Earth.
    """
    y, x = (elevation[dim].values for dim in elevation.dims)
    around = np.arange(-reach, reach + 1)
    columns = np.concatenate([np.arange(run.start, run.stop) for run in part.columns])
    columns = np.concatenate([columns[0] + around[:reach], columns, columns[-1] + around[reach + 1 :]])
    goes_round = elevation.dims[1] == "lon" and is_circle(x)
    runs = runs_of(columns % x.size if goes_round else np.clip(columns, 0, x.size - 1))
    first, last = max(rows.start - reach, 0), min(rows.stop + reach, y.size)
    z = type(part)(slice(first, last), runs, part.y, part.x, part.to_y, part.to_x).read(elevation)
    holes = np.count_nonzero(~np.isfinite(z))
    if holes or (wrong := impossible(z)) is not None:
        what = f"{holes} missing values; fill them" if holes else f"an elevation of {wrong:g} m; convert it to metres"
        raise DataError(f"rough_bottom: {label(elevation)} has {what}.")
    below, above = reach - (rows.start - first), reach - (last - rows.stop)
    return np.pad(np.where(z < 0, -z, 0.0), ((below, above), (0, 0)), "edge")
