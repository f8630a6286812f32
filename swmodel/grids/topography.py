"""Signed topography of a model with wetting and drying: depth below the datum, and the heights of land, from a file.

On a cell with data nodes of elevation z (positive up) and weights w that sum to one

    H = - sum(w z)    [m], positive down, negative on land

with w the share of the cell's area (average) or the bilinear weights (interpolate). No node is left out and none is
deepened, so that beaches keep their slope. The datum is the level z = 0 of the file: a surface at rest is eta = 0.
A file with missing values, with an unknown sign, or with heights that cannot be metres raises DataError.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import numpy as np

from ..errors import ConfigError, DataError
from .axes import is_data_array, label
from .bathymetry import impossible
from .elevation import elevation_in, open_elevation
from .remapping import remapping
from .windows import GridValues, cached, grid_values

if TYPE_CHECKING:
    import xarray as xr

__all__ = ["HIGHEST", "Topography", "topography", "topography_of"]

HIGHEST = 9000.0  # [m], above any land: larger heights are in feet, or a missing value that is not declared


class Topography:
    """Signed depth of a grid, of which any window can be evaluated or read without the rest.

    A model with `wetting` takes it as its `depth`.

    Args:
        grid: the Grid.
        depth: GridValues [m], positive down, negative on land.
        report: sentences for the user.

    Attributes:
        wet: GridValues, bool: True everywhere, since every cell may be wet.
    """

    fill_lakes = False
    is_surveyed = True

    def __init__(self, grid: Any, depth: GridValues, report: tuple = ()):
        self.grid, self.depth, self.report = grid, depth, tuple(report)
        self.wet = depth.map(lambda depth: np.ones(depth.shape, bool), dtype=bool)

    def surveyed(self, communicator: Any) -> Topography:
        """This topography itself: lakes and channels are not reported where the shore moves."""
        return self


def topography(source: str | os.PathLike | xr.DataArray, grid: Any, method: str = "average") -> Topography:
    """The Topography of `grid` from gridded elevations, or from depths, as identified by their attributes or name.

    Args:
        source: path of a netCDF file, or an xarray.DataArray; the attribute `positive`, a standard_name or the
            variable's name must determine its sign.
        grid: the Grid.
        method: "average" over each cell's area, or "interpolate" bilinearly to its centre.

    Raises:
        DataError: if the file cannot be read, does not cover the grid, has holes, or is certainly not in metres.
    """
    if is_data_array(source):
        name = str(source.name or "topography")
        return _on_grid(elevation_in(source.to_dataset(name=name), name, name, "as given"), grid, method)
    return _on_grid(open_elevation(source, positive="as given"), grid, method)


def topography_of(section: Any, grid: Any) -> Topography:
    """The Topography of `grid` from a [bathymetry] section of an experiment file."""
    if section.type == "file":
        found = open_elevation(section.file, section.variable, section.positive or "as given")
        return _on_grid(found, grid, section.method)

    def check(depth):
        if not np.isfinite(depth).all():
            raise ConfigError("the depth is not finite everywhere on the grid; with wetting land has a negative depth")
        return depth

    return Topography(grid, grid_values(section.depth, grid, name="the depth").map(check))


def _on_grid(elevation, grid, method):
    if method == "harmonic":
        raise ConfigError("method = 'harmonic' is for depths, and heights of land have no harmonic mean; use 'average'")
    plan = remapping(elevation, grid, method)
    report = ()
    if elevation.attrs["turned_over"]:
        report = (f"{label(elevation)} was read as depth, positive down.",)
    return Topography(grid, cached(_Signed(elevation, plan, grid.shape)), report)


class _Signed(GridValues):
    """- the mean elevation of each cell."""

    def __init__(self, elevation, plan, shape):
        self.elevation, self.plan, self.shape = elevation, plan, shape

    def block(self, rows: slice, columns: slice) -> np.ndarray:
        part = self.plan.part(rows, columns)
        z = part.read(self.elevation)
        self._check(z, part)
        return -part(z)

    def _check(self, z, part):
        where = label(self.elevation)
        holes = ~np.isfinite(z)
        if holes.any():
            j, i = np.argwhere(holes)[0]
            raise DataError(
                f"{where} has {holes.sum()} missing value{'s' * int(holes.sum() > 1)} on the grid, "
                f"one at ({part.x[i]:.6g}, {part.y[j]:.6g}); "
                "wetting needs heights everywhere: fill them."
            )
        for value in (impossible(z), z.max() if z.max() > HIGHEST else None):
            if value is not None:
                raise DataError(
                    f"{where} has an elevation of {value:g} m, which no place on Earth has: it is in other units, "
                    "such as feet, or a missing value that is not declared; convert it to metres."
                )
