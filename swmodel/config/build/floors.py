"""The grid and the sea floor of an experiment file, which need neither a model nor other ranks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ...grids.bathymetry import SeaFloor
    from ...grids.grid import Grid
    from ...grids.topography import Topography

__all__ = ["bathymetry_of", "grid_of"]


def grid_of(section: Any) -> Grid:
    """The CartesianGrid or SphericalGrid of a [grid] section."""
    from ...grids.grid import CartesianGrid, SphericalGrid

    kind = {"cartesian": CartesianGrid, "spherical": SphericalGrid}[section.type]
    return kind(**section.model_dump(exclude={"type"}))


def bathymetry_of(section: Any, grid: Grid, wetting: Any = None) -> SeaFloor | Topography:
    """The SeaFloor of `grid` from a [bathymetry] section; its Topography where the model has `wetting`."""
    from ...grids.bathymetry import depth_on, elevation_on, open_elevation
    from ...grids.topography import topography_of
    from .maps import mask_of

    mask = None if section.mask is None else mask_of(section.mask, grid)
    if wetting is not None:
        return topography_of(section, grid, mask)

    if section.type == "flat":
        return depth_on(section.depth, grid, mask=mask)
    options = section.model_dump(include={"minimum_depth", "fill_lakes", "sound_speed", "datum", "land_datum"})
    options["mask"] = mask
    if section.type == "formula":
        return depth_on(section.depth, grid, **options)
    elevation = open_elevation(section.file, section.variable, section.positive, masked=mask is None)
    return elevation_on(elevation, grid, section.method, **options)
