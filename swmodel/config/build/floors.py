"""The grid and the sea floor of an experiment file, which need neither a model nor other ranks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ...errors import ConfigError, DataError
from ...grids.windows import GridValues
from ..expressions import Expression
from ..parts import part_of
from ..sections import MapFile
from .states import is_evaluated_whole, on_grid

if TYPE_CHECKING:
    from ...grids.bathymetry import SeaFloor
    from ...grids.grid import Grid
    from ...grids.topography import Topography

__all__ = ["bathymetry_of", "check_levees", "check_map", "grid_of", "levels_of", "map_of", "mask_of", "rough_bottom_of"]


def grid_of(section: Any) -> Grid:
    """The CartesianGrid or SphericalGrid of a [grid] section."""
    return part_of(section, None)


def bathymetry_of(section: Any, grid: Grid, wetting: Any = None) -> SeaFloor | Topography:
    """The SeaFloor of `grid` from a [bathymetry] section; its Topography where the model has `wetting`."""
    from ...grids.bathymetry import depth_on, elevation_on, open_elevation
    from ...grids.topography import topography_of

    mask = None if section.mask is None else mask_of(section.mask, grid)
    if wetting is not None:
        return topography_of(section, grid, mask)

    if section.type == "flat":
        return depth_on(section.depth, grid, mask=mask)
    names = "minimum_depth", "fill_lakes", "sound_speed", "datum", "land_datum"
    options = {name: value for name, value in section if name in names}
    options["mask"] = mask
    if section.type == "formula":
        return depth_on(section.depth, grid, **options)
    elevation = open_elevation(section.file, section.variable, section.positive, masked=mask is None)
    return elevation_on(elevation, grid, section.method, **options)


def map_of(section: MapFile, grid: Any, rule: Any) -> np.ndarray | GridValues:
    """The values at cell centres of a map, within the limits of the parameter's `rule`."""

    def check(values):
        for value in (values.min(), values.max()):
            if why := rule.outside(value):
                raise DataError(f"{section.variable} in {section.file} is {value:g} somewhere, which {why}")
        return values

    values = _values(section, grid).map(check)
    return np.asarray(values) if is_evaluated_whole(grid) else values


def rough_bottom_of(section: Any, grid: Any) -> dict[str, np.ndarray | GridValues]:
    """The roughness [m] and the buoyancy [s-1] of InternalWaveDrag from the elevations that a section names."""
    from ...grids.elevation import open_elevation
    from ...grids.roughness import rough_bottom

    elevation = open_elevation(section.file, section.variable, section.positive)
    options = {name: getattr(section, name) for name in ("reach", "shallow", "surface", "scale")}
    found = zip(("roughness", "buoyancy"), rough_bottom(elevation, grid, **options))
    return {name: np.asarray(values) if is_evaluated_whole(grid) else values for name, values in found}


def mask_of(section: MapFile, grid: Any) -> GridValues:
    """True at the cell centres where a map is 1/2 or more, False where it is less or has no value."""
    return _values(section, grid, fill=False).map(lambda values: np.nan_to_num(values) >= 0.5, dtype=bool)


def _values(section, grid, fill=True):
    """The GridValues of a map without time; `fill` as of `field_records`."""
    from ...grids.regrid import field_records

    records = field_records(section.file, section.variable, grid, fill=fill)
    if len(records.times) > 1:
        raise DataError(f"{section.variable} in {section.file} has {len(records.times)} times; give a map without time")
    return records.values[0]


def check_map(made: Any, section: Any) -> None:
    """Raise an error for maps and formulas of a [[dissipation]] section that cannot be used."""
    from ...fields.parts import numbers_of

    if (floor := getattr(section, "rough_bottom", None)) is not None and is_evaluated_whole(made.grid):
        _check_roughness(floor, made.grid)
    for name, rule in numbers_of(section.part).items():
        value = getattr(section, name, None)
        if not is_evaluated_whole(made.grid):
            continue
        if isinstance(value, MapFile):
            map_of(value, made.grid, rule)
        elif isinstance(value, Expression):
            _check_formula(value, made.grid, name, rule)


def _check_formula(formula, grid, name, rule):
    """Raise ConfigError for a formula with values beyond the limits of the parameter's `rule`."""
    values: Any = on_grid(formula, grid, rule.position, name)
    for value in (values.min(), values.max()):
        if why := rule.outside(value):
            raise ConfigError(f"{name}: the formula {formula.text!r} is {value:g} somewhere, which {why}")


def _check_roughness(section, grid):
    """Raise DataError for elevations that cannot be used, or that are not rough anywhere."""
    if not np.asarray(rough_bottom_of(section, grid)["roughness"]).any():
        raise DataError(
            f"rough_bottom: nothing in {section.file} is rough below {section.shallow:g} m on this grid; give a finer "
            "file, a smaller depth for shallow, or leave the drag out"
        )


def levels_of(section: Any) -> tuple[float, float]:
    """(datum, land_datum) of a [bathymetry] section [m]; 0 where its depths count from the water at rest."""
    return getattr(section, "datum", 0.0), getattr(section, "land_datum", 0.0)


def check_levees(path: Any, grid: Any) -> None:
    """Raise DataError if a table of levees cannot be used, or has a levee that crosses no face of the grid."""
    from ...grids.levees import check_on_grid, read_levees

    levees = read_levees(path)
    try:
        check_on_grid(levees, grid)
    except ConfigError as error:
        raise DataError(f"{path}: {error}") from None
