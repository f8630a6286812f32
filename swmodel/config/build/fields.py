"""The grid and all fields of an experiment: sea floor, maps from files, formulas, initial states and tracers."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import netCDF4
import numpy as np

from ...dynamics.tracers import FluxLimited, Tracer
from ...dynamics.wetting import WettingDrying
from ...errors import ConfigError, DataError
from ...fields.parts import numbers_of
from ...fields.state import State
from ...fields.variables import PROGNOSTIC, in_layer, layer_of
from ...grids.bathymetry import SeaFloor, depth_on, elevation_on
from ...grids.coast import coast_mask
from ...grids.elevation import open_elevation
from ...grids.grid import Grid
from ...grids.levees import check_on_grid, read_levees
from ...grids.patches import Patch
from ...grids.regrid import field_records, read_field_onto
from ...grids.topography import Topography, topography_of
from ...grids.windows import Formula, GridValues
from ...models.shallow_water import ShallowWater
from ...output.metadata import describe_grid
from ...output.restart import check_grid
from ...runtime import launchers
from ...runtime.formats import check_format
from ..expressions import Expression
from ..parts import LIMITER, SCHEMES, FieldFile, FieldRecord, TracerSection, part_of
from ..sections import MapFile, Polygons
from ..toml import nearest

if TYPE_CHECKING:
    from .experiment import Assembly

STEPPED = [row.name for row in PROGNOSTIC]  # in every layer
LARGEST_WHOLE_GRID = 2**24  # the most cells on which one process evaluates formulas


def on_grid(value: float | Expression, grid: Grid, position: str, name: str) -> float | np.ndarray | GridValues:
    """A number as it is; for a formula, its values at `position`, an array or GridValues, which must be finite."""
    if not isinstance(value, Expression):
        return value

    def check(values):
        if not np.isfinite(values).all():
            raise ConfigError(f"{name}: the formula {value.text!r} is not finite everywhere on the grid")

    def quietly(x, y):
        with np.errstate(all="ignore"):
            return np.asarray(value(x, y), float)

    formula = Formula(quietly, grid, position, check)
    return np.asarray(formula) if is_evaluated_whole(grid) else formula


def is_evaluated_whole(grid: Grid) -> bool:
    """Whether this process evaluates formulas and files on the whole grid, to find mistakes before a model is made.

    The ranks of a parallel run evaluate windows, and so does a process that checks more than LARGEST_WHOLE_GRID cells.
    """
    return launchers.launched_ranks() == 1 and grid.nx * grid.ny <= LARGEST_WHOLE_GRID


def state_of(section: Any, model: ShallowWater) -> State:
    """This tile's initial State of an [initial] section; collective."""
    if section.type == "formula":
        return model.state(**_from_formulas(section, model))
    if section.type == "gaussian":
        return model.state(eta=_gaussian(section, model.grid))
    if section.type == "random_vortices":
        from ...models.random_fields import random_vortices

        return random_vortices(model, section.speed, section.length, section.seed)
    if section.type == "file":
        return model.state(**_from_file(section, model))
    if section.type == "level":
        from ...sources.deformation import read_level

        return model.state(eta=read_level(section.file, section.variable).on(model.grid).uplift[0])
    return model.at_rest()


def _from_formulas(section, model):
    """{name: number, array or GridValues} of the formulas of all layers."""
    found = {}
    for row in PROGNOSTIC:
        given = getattr(section, row.name)
        formulas = given if isinstance(given, tuple) else (given,)
        if len(formulas) > model.layer_count:
            raise ConfigError(
                f"{row.name} has {len(formulas)} formulas, and the model {model.layer_count} layers; give one a layer"
            )
        for k, formula in enumerate(formulas):
            name = in_layer(row.name, k)
            found[name] = on_grid(formula, model.grid, row.position, name)
    return found


def _gaussian(section, grid):
    x0, y0 = section.centre

    def bump(x, y):
        if not grid.spherical:
            return section.amplitude * np.exp(-((x - x0) ** 2 + (y - y0) ** 2) / section.radius**2)
        x, y, lon, lat = map(np.deg2rad, (x, y, x0, y0))
        haversine = np.sin((y - lat) / 2) ** 2 + np.cos(y) * np.cos(lat) * np.sin((x - lon) / 2) ** 2
        distance = 2.0 * grid.radius * np.arcsin(np.sqrt(np.minimum(haversine, 1.0)))
        return section.amplitude * np.exp(-((distance / section.radius) ** 2))

    return bump


def _from_file(section, model):
    """The variables (ny, nx) in a record of a file on the same grid; faces on the west and south edge are dropped.

    Tracers that are not in the file start from their own initial value. Restarts hold their content, which is not read.
    """
    try:
        with netCDF4.Dataset(section.file) as dataset:
            _check_same_grid(dataset, section.file, model)
            rows = [row for row in model.variables if layer_of(row.name)[0] in STEPPED or _name_in(dataset, row.name)]
            return {row.name: _record(dataset, row, section, model.grid.shape) for row in rows}
    except OSError as error:
        check_format(section.file, ("netcdf",), "a netCDF file that a run has written", "state")
        raise DataError(
            f"{section.file} is not a netCDF file ({error.strerror}); give one that a run has written"
        ) from error


def _check_same_grid(dataset, file, model):
    """Raise DataError if a file belongs to another grid, or holds levels that are no levels of water."""
    if (about := getattr(dataset, "grid_description", None)) is not None:
        check_grid(file, json.loads(about), json.loads(describe_grid(model.grid)), "start from a file of the same grid")
    if "restart_format" in dataset.ncattrs() and model.sea_floor.bed is not None:
        raise DataError(
            f"{file} is a restart, whose levels over beds finer than the cells are those that steps use; resume it, or "
            "start from a record of fields"
        )


def _name_in(dataset, name):
    """The name in a file of a variable of the model: "eta" with a dimension `layer` holds "eta_2"; None without one.

    Restarts and inversions have u, v and eta as "state_eta".
    """
    base, layer = layer_of(name)
    along = base in dataset.variables and "layer" in dataset[base].dimensions
    if along and layer < len(dataset.dimensions["layer"]):
        return base
    names = (name, f"state_{name}") if base in STEPPED else (name,)
    return next((n for n in names if n in dataset.variables and not along), None)


def _record(dataset, row, section, shape):
    """One record (ny, nx) of a variable, with 0 where it is missing."""
    name, faces = row.name, (row.position == "v", row.position == "u")
    found = _name_in(dataset, name)
    if found is None:
        raise DataError(f"{section.file} has no variable {name!r}; {nearest(name, dataset.variables)}")
    values = dataset[found]
    if values.dimensions[0] == "time":
        if not -len(values) <= section.record < len(values):
            raise DataError(f"{section.file} has {len(values)} records; {section.record} is not among them")
        values = values[section.record]
    values = values[layer_of(name)[1]] if "layer" in dataset[found].dimensions else values
    values = np.ma.filled(np.ma.masked_invalid(values[...]).astype(float), 0.0)
    if values.shape not in (shape, tuple(n + more for n, more in zip(shape, faces))):
        raise DataError(
            f"{name} in {section.file} has shape {values.shape} and the grid needs {shape}; "
            "start from a file of the same grid"
        )
    return values[-shape[0] :, -shape[1] :]


def tracer_of(section: TracerSection, grid: Grid, run: Any) -> Tracer:
    """The Tracer of a section.

    Args:
        section: the TracerSection.
        grid: the model's grid.
        run: the [run] section, whose start and end determine which records of files are needed.

    Raises:
        ConfigError: for a formula that is not finite everywhere, or a diffusivity that is negative somewhere.
        DataError: for a file that cannot be read, does not hold the variable, or does not cover grid and run.
    """
    given = {key: getattr(section, key) for key in ("initial", "diffusivity", "source", "flux", "outside")}
    fields: dict[str, Any] = {key: _values(value, grid, run, key) for key, value in given.items() if value is not None}
    names = {key: getattr(section, key) for key in ("name", "units", "long_name", "layer")}
    scheme = SCHEMES.made(section.scheme) if section.limiter is None else FluxLimited(LIMITER.made(section.limiter))
    return Tracer(**names, scheme=scheme, **fields)


def _values(value, grid, run, key):
    """The value of a key in the form of the constructor: numbers, arrays, or records of a file."""
    if not isinstance(value, FieldFile):
        return on_grid(value, grid, "h", key)
    read = read_field_onto if is_evaluated_whole(grid) else field_records
    if not isinstance(value, FieldRecord):
        records = read(value.file, value.variable, grid, "h", run.start, (0.0, run.until))
        return records.values[0] if len(records.times) == 1 else records
    records = read(value.file, value.variable, grid, "h").values
    if not -len(records) <= value.record < len(records):
        raise DataError(f"{value.file} has {len(records)} records; {value.record} is not among them")
    return records[value.record]


def grid_of(section: Any) -> Grid:
    """The CartesianGrid or SphericalGrid of a [grid] section."""
    return part_of(section, None)


def bathymetry_of(section: Any, grid: Grid, wetting: WettingDrying | None = None) -> SeaFloor | Topography:
    """The SeaFloor of `grid` from a [bathymetry] section; its Topography where the model has `wetting`."""
    mask = None if section.mask is None else mask_of(section.mask, grid)
    if wetting is not None:
        return topography_of(section, grid, mask)

    if section.type == "flat":
        return depth_on(section.depth, grid, mask=mask)
    names = "minimum_depth", "fill_lakes", "sound_speed", "datum", "land_datum", "margin"
    options = {name: value for name, value in section if name in names}
    options["mask"] = mask
    if section.type == "formula":
        return depth_on(section.depth, grid, **options)
    elevation = Patch(**section.elevations()).elevation(grid, masked=mask is None)
    patches = [Patch(**each.elevations()) for each in section.patches]
    return elevation_on(elevation, grid, section.method, patches=patches, **options)


def map_of(section: MapFile, grid: Grid, rule: Any) -> np.ndarray | GridValues:
    """The values at cell centres of a map, within the limits of the parameter's `rule`."""

    def check(values):
        _check_limits(values, rule, f"{section.variable} in {section.file}", DataError)
        return values

    values = _values_of_map(section, grid).map(check)
    return np.asarray(values) if is_evaluated_whole(grid) else values


def rough_bottom_of(section: Any, grid: Grid) -> dict[str, np.ndarray | GridValues]:
    """The roughness [m] and the buoyancy [s-1] of InternalWaveDrag from the elevations that a section names."""
    from ...grids.roughness import rough_bottom

    elevation = open_elevation(section.file, section.variable, section.positive, grid=grid)
    options = {name: getattr(section, name) for name in ("reach", "shallow", "surface", "scale")}
    found = zip(("roughness", "buoyancy"), rough_bottom(elevation, grid, **options))
    return {name: np.asarray(values) if is_evaluated_whole(grid) else values for name, values in found}


def mask_of(section: MapFile | Polygons, grid: Grid) -> GridValues:
    """True at the cell centres where a map is 1/2 or more, or that lie in water by the polygons of a coast."""
    if isinstance(section, Polygons):
        return coast_mask(section.polygons, grid, section.of)
    return _values_of_map(section, grid, fill=False).map(lambda values: np.nan_to_num(values) >= 0.5, dtype=bool)


def _values_of_map(section, grid, fill=True):
    """The GridValues of a map without time; `fill` as of `field_records`."""
    records = field_records(section.file, section.variable, grid, fill=fill)
    if len(records.times) > 1:
        raise DataError(f"{section.variable} in {section.file} has {len(records.times)} times; give a map without time")
    return records.values[0]


def check_map(section: Any, made: Assembly) -> None:
    """Raise an error for maps and formulas of a [[dissipation]] section that cannot be used."""
    if not is_evaluated_whole(made.grid):
        return
    floor = getattr(section, "rough_bottom", None)
    if floor is not None and not np.asarray(rough_bottom_of(floor, made.grid)["roughness"]).any():
        raise DataError(
            f"rough_bottom: nothing in {floor.file} is rough below {floor.shallow:g} m on this grid; give a finer "
            "file, a smaller depth for shallow, or leave the drag out"
        )
    for name, rule in numbers_of(section.part).items():
        value = getattr(section, name, None)
        if isinstance(value, MapFile):
            map_of(value, made.grid, rule)
        elif isinstance(value, Expression):
            values: Any = on_grid(value, made.grid, rule.position or "h", name)
            _check_limits(values, rule, f"{name}: the formula {value.text!r}", ConfigError)


def _check_limits(values, rule, what, error):
    """Raise an `error` of this class for values beyond the limits of a parameter's `rule`."""
    for value in (values.min(), values.max()):
        if why := rule.outside(value):
            raise error(f"{what} is {value:g} somewhere, which {why}")


def levels_of(section: Any) -> tuple[float, float]:
    """(datum, land_datum) of a [bathymetry] section [m]; 0 where its depths count from the water at rest."""
    return getattr(section, "datum", 0.0), getattr(section, "land_datum", 0.0)


def check_levees(path: str | Path, grid: Grid) -> None:
    """Raise DataError if a table of levees cannot be used, or has a levee that crosses no face of the grid."""
    levees = read_levees(path)
    try:
        check_on_grid(levees, grid)
    except ConfigError as error:
        raise DataError(f"{path}: {error}") from None
