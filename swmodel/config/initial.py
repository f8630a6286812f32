"""The sections of the initial state and of tracers.

[[tracer]]
name = "dye"
units = "kg m-3"                                  # of the concentration
initial = "exp(-((x - 300 * km)**2 + (y - 1000 * km)**2) / (100 * km)**2)"
scheme = "flux_limited"
diffusivity = "10 m2 s-1"
"""

import functools
import json
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, cast

import netCDF4
import numpy as np

from ..dynamics.limiters import Limiter
from ..dynamics.tracers import AdvectionScheme, FluxLimited, Tracer, check_name
from ..errors import ConfigError, DataError, nearest
from ..fields.parameters import Number, shown
from ..fields.parts import numbers_of
from ..fields.state import State
from ..fields.variables import PROGNOSTIC, in_layer, layer_of
from ..grids.grid import Grid
from ..grids.regrid import field_records, read_field_onto
from ..models.initial import InitialState
from ..models.random_fields import random_vortices
from ..models.shallow_water import ShallowWater
from ..output.metadata import describe_grid
from ..output.restart import check_grid
from ..runtime.formats import check_format
from .expressions import Expression
from .parts import ClassNamed, PartSection, Shipped, section_for
from .physics import Rest
from .reading import Section, one_of
from .sections import (
    Formula,
    FormulasInMetres,
    FormulasInMetresPerSecond,
    InputFile,
    Metres,
    Place,
    PositiveMetres,
    Seed,
    Surroundings,
    Whole,
    different_names,
    is_evaluated_whole,
    on_grid,
)

if TYPE_CHECKING:
    from ..sources.deformation import Deformation

STEPPED = [row.name for row in PROGNOSTIC]  # in every layer


class InitialFormula(Section):
    """Formulas of the coordinates; for layers lists of them, from the top down."""

    type: Literal["formula"]
    eta: FormulasInMetres = 0.0  # surface elevation; of layers that of their upper interfaces
    u: FormulasInMetresPerSecond = 0.0  # velocity along x
    v: FormulasInMetresPerSecond = 0.0  # velocity along y

    def state(self, model: ShallowWater) -> State:
        found = {}
        for row in PROGNOSTIC:
            given = getattr(self, row.name)
            formulas = given if isinstance(given, tuple) else (given,)
            if len(formulas) > model.layer_count:
                have = f"{row.name} has {len(formulas)} formulas, and the model {model.layer_count} layers"
                raise ConfigError(f"{have}; give one a layer")
            for k, formula in enumerate(formulas):
                name = in_layer(row.name, k)
                found[name] = on_grid(formula, model.grid, row.position, name)
        return model.state(**found)


class GaussianBump(Section):
    """eta = amplitude exp(-(r / radius)^2), at rest; r is the distance on the plane or along the sphere."""

    type: Literal["gaussian"]
    amplitude: Metres  # of the elevation
    centre: Place  # (x, y)
    radius: PositiveMetres  # at which the elevation is 1/e of its maximum

    def state(self, model: ShallowWater) -> State:
        (x0, y0), grid = self.centre, cast(Any, model.grid)

        def bump(x, y):
            if not grid.spherical:
                return self.amplitude * np.exp(-((x - x0) ** 2 + (y - y0) ** 2) / self.radius**2)
            x, y, lon, lat = map(np.deg2rad, (x, y, x0, y0))
            haversine = np.sin((y - lat) / 2) ** 2 + np.cos(y) * np.cos(lat) * np.sin((x - lon) / 2) ** 2
            distance = 2.0 * grid.radius * np.arcsin(np.sqrt(np.minimum(haversine, 1.0)))
            return self.amplitude * np.exp(-((distance / self.radius) ** 2))

        return model.state(eta=bump)


class RandomVortices(Section):
    """Vortices of about one wavelength, balanced by the elevation."""

    of_one_grid: ClassVar[bool] = True

    type: Literal["random_vortices"]
    speed: Annotated[float, Number(units="m s-1", above=0.0)]  # largest speed
    length: PositiveMetres  # of the waves
    seed: Seed = 0  # of the random numbers

    def state(self, model: ShallowWater) -> State:
        return random_vortices(model, self.speed, self.length, self.seed)


class InitialFile(Section):
    """eta, u, v from a file that swmodel wrote on the same grid: a restart, an inversion, or a record of fields."""

    of_one_grid: ClassVar[bool] = True

    type: Literal["file"]
    file: InputFile  # netCDF file that swmodel wrote
    record: Whole = -1  # its number, from 0; negative ones count from the end

    def state(self, model: ShallowWater) -> State:
        """The State of (ny, nx) variables; faces on the west and south edge are dropped.

        Tracers that are not in the file start from their own initial value. Restarts hold their content, which is not
        read.
        """
        try:
            with netCDF4.Dataset(self.file) as dataset:
                _check_same_grid(dataset, self.file, model)
                named = [(row, _name_in(dataset, row.name)) for row in model.variables]
                rows = [row for row, name in named if name or layer_of(row.name)[0] in STEPPED]
                return model.state(**{row.name: _record(dataset, row, self, model.grid.shape) for row in rows})
        except OSError as error:
            check_format(self.file, ("netcdf",), "a netCDF file that a run has written", "state")
            raise DataError(
                f"{self.file} is not a netCDF file ({error.strerror}); give one that a run has written"
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


class InitialLevel(Section):
    """A level from any grid, at rest: bilinear, 0 outside of the file; missing values take the nearest one."""

    type: Literal["level"]
    file: InputFile  # netCDF, GeoTIFF, ASCII grid or table of x, y, level
    variable: str | None = None  # of a netCDF file with several

    def read_level(self) -> "Deformation":
        """The level; raises SwmodelError if it cannot be read."""
        from ..sources.deformation import read_level

        return read_level(self.file, self.variable)

    def state(self, model: ShallowWater) -> State:
        return model.state(eta=self.read_level().on(model.grid).uplift[0])


class _OwnInitial(PartSection):
    def state(self, model: ShallowWater) -> State:
        return self.build().state(model)


_INITIAL = Rest, InitialFormula, GaussianBump, RandomVortices, InitialFile, InitialLevel
_own_initial = functools.partial(section_for, common=_OwnInitial)
Initial = Annotated[Any, one_of(*_INITIAL, bases=(InitialState,), make=_own_initial)]


# -- tracers -----------------------------------------------------------------------------------------------------------


class FieldFile(Section):
    """A variable of a netCDF file, steady or in time records, which is interpolated to the grid."""

    type: Literal["file"] = "file"
    file: InputFile  # netCDF file
    variable: str  # its name in the file

    def on(self, on: Surroundings) -> Any:
        """The field in cells of the grid, or its records in time."""
        records = _read(on.grid)(self.file, self.variable, on.grid, "h", on.start, (0.0, on.until))
        return records.values[0] if len(records.times) == 1 else records


def _read(grid: Grid) -> Any:
    return read_field_onto if is_evaluated_whole(grid) else field_records


class FieldRecord(FieldFile):
    """One record of a variable of a netCDF file; the last one by default."""

    record: Whole = -1  # number of the record, from 0; negative ones count from the end

    def on(self, on: Surroundings) -> Any:
        records = _read(on.grid)(self.file, self.variable, on.grid, "h").values
        if not -len(records) <= self.record < len(records):
            raise DataError(f"{self.file} has {len(records)} records; {self.record} is not among them")
        return records[self.record]


SCHEMES, LIMITERS = (ClassNamed(base, Shipped(base)) for base in (AdvectionScheme, Limiter))
Concentration = Annotated[float | Expression, Formula(Number())]
Diffusivity = Annotated[float | Expression, Formula(numbers_of(Tracer)["diffusivity"].of_files())]


def _own_name(name):
    check_name(name)
    return name


class TracerSection(Section):
    """A passive tracer, with the parameters of `swmodel.Tracer`."""

    name: Annotated[str, _own_name]  # of the variable in files
    units: str = "1"  # of the concentration, which the keys below are in
    long_name: str = ""  # what it is, for people
    initial: Concentration | FieldRecord = 0.0  # concentration at the start
    scheme: Annotated[Any, SCHEMES] = "flux_limited"  # of advection
    limiter: Annotated[Any, LIMITERS] | None = None  # of a flux-limited scheme; van_leer unless given
    diffusivity: Diffusivity | None = None  # kappa
    source: Concentration | FieldFile | None = None  # S, units per second
    flux: Concentration | FieldFile | None = None  # F into the water, units times m per second
    outside: Concentration | FieldFile | None = None  # concentration of water that comes in
    layer: Whole | None = None  # of several, that it is in; all unless given

    def check(self) -> None:
        if self.limiter is not None and self.scheme != "flux_limited":
            raise ValueError(f'limiter belongs to scheme = "flux_limited", not to {shown(self.scheme)}; leave it out')

    def build(self, on: Surroundings) -> Tracer:
        """The Tracer.

        Raises:
            ConfigError: for a formula that is not finite everywhere, or a diffusivity that is negative somewhere.
            DataError: for a file that cannot be read, does not hold the variable, or does not cover grid and run.
        """
        values = {
            name: value.on(on) if isinstance(value, FieldFile) else on_grid(value, on.grid, "h", name)
            for name, value in self
            if name not in ("scheme", "limiter") and value is not None
        }
        scheme = SCHEMES.made(self.scheme) if self.limiter is None else FluxLimited(LIMITERS.made(self.limiter))
        return Tracer(**values, scheme=scheme)


Tracers = Annotated[tuple[TracerSection, ...], different_names("tracers are called")]
