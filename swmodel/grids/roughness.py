"""The roughness of a sea floor and the buoyancy frequency there, which set the drag by internal waves.

The roughness r of a node is the standard deviation of the depth from the plane that fits it best, over (2 n + 1) x
(2 n + 1) nodes around it. With offsets i, j from the node and m = 2 n + 1, the slopes of that plane are

    a = sum(i H) / (m sum(i^2)),     b = sum(j H) / (m sum(j^2)),
    r^2 = mean(H^2) - mean(H)^2 - (a^2 + b^2) sum(i^2) / m

The buoyancy frequency at the floor is N = N_0 exp(-H / d) (Zaron and Egbert 2006, doi:10.1175/JPO2878.1). The law of
the drag (Jayne and St. Laurent 2001, doi:10.1029/2000GL012044) holds for the deep ocean, so that both are 0 where the
water is shallower than a limit. Rows are read some at a time, so that no file needs to fit into memory.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import numpy as np

from ..errors import ConfigError
from .elevation import elevation_in, read_elevation

if TYPE_CHECKING:
    import xarray as xr

__all__ = ["deviation_from_plane", "rough_bottom"]

VALUES_AT_ONCE = 2**20  # of a file, whose windows are in memory at a time


def deviation_from_plane(depth: np.ndarray, reach: int) -> np.ndarray:
    """The standard deviation of values from the best plane in the window around each inner point, in their units.

    Args:
        depth: (ny + 2 reach, nx + 2 reach).
        reach: n, the number of points of a window on either side of its middle.

    Returns:
        np.ndarray: (ny, nx).
    """
    size = 2 * reach + 1
    windows = np.lib.stride_tricks.sliding_window_view(np.asarray(depth, float), (size, size))
    mean = windows.mean((2, 3))
    offsets = np.arange(size) - reach
    each = size * np.sum(offsets**2)
    along_x = np.einsum("jiba,a->ji", windows, offsets, optimize=True) / each
    along_y = np.einsum("jiba,b->ji", windows, offsets, optimize=True) / each
    variance = (windows**2).mean((2, 3)) - mean**2 - (along_x**2 + along_y**2) * each / size**2
    return np.sqrt(np.maximum(variance, 0.0))


def rough_bottom(
    source: str | os.PathLike | xr.DataArray,
    reach: int = 2,
    shallow: float = 500.0,
    surface_buoyancy: float = 5.24e-3,
    decay: float = 1300.0,
) -> xr.Dataset:
    """Maps of `roughness` [m] and `buoyancy` [s-1] for InternalWaveDrag, on the nodes of a file of elevations.

    Args:
        source: path of a netCDF file of elevations or depths, or an xarray.DataArray.
        reach: n, the number of nodes of a window on either side; windows of files round the globe are periodic.
        shallow: where the water is shallower than this both are 0 [m].
        surface_buoyancy: N_0 [s-1].
        decay: d [m].

    Raises:
        ConfigError: for a `reach` that is not a whole number of 1 or more.
        DataError: if the file cannot be read as elevations.
    """
    import xarray as xr

    if isinstance(reach, bool) or int(reach) != reach or reach < 1:
        raise ConfigError(f"rough_bottom: reach = {reach!r} is not a number of nodes; give 1 or a larger one.")
    if isinstance(source, (str, os.PathLike)):
        elevation = read_elevation(source)
    else:
        name = str(source.name or "elevation")
        elevation = elevation_in(source.to_dataset(name=name), name, name)
    y, x = (elevation[dim].values for dim in elevation.dims)
    round_the_globe = np.isclose(x[-1] - x[0] + (x[1] - x[0]), 360.0)
    roughness, buoyancy = np.zeros(elevation.shape), np.zeros(elevation.shape)
    rows = max(VALUES_AT_ONCE // x.size, 1)
    for start in range(0, y.size, rows):
        stop = min(start + rows, y.size)
        first, last = max(start - reach, 0), min(stop + reach, y.size)
        depth = np.maximum(-np.nan_to_num(elevation[first:last].values.astype(float)), 0.0)
        wide = np.pad(depth, ((0, 0), (reach, reach)), "wrap" if round_the_globe else "edge")
        wide = np.pad(wide, ((reach - (start - first), reach - (last - stop)), (0, 0)), "edge")
        depth = depth[start - first : stop - first]
        deep = depth > shallow
        roughness[start:stop] = np.where(deep, deviation_from_plane(wide, int(reach)), 0.0)
        buoyancy[start:stop] = np.where(deep, surface_buoyancy * np.exp(-depth / decay), 0.0)
    named = {
        "roughness": (elevation.dims, roughness, {"units": "m", "long_name": "r.m.s. height of the sea floor"}),
        "buoyancy": (elevation.dims, buoyancy, {"units": "s-1", "long_name": "buoyancy frequency at the sea floor"}),
    }
    return xr.Dataset(named, {dim: elevation[dim] for dim in elevation.dims})
