"""The sections of the model, its terms and its time stepping."""

from collections import ChainMap
from typing import Annotated, Any, Literal

import numpy as np

from .. import elliptic
from ..defaults import AIR_DENSITY, GRAVITY, WATER_DENSITY, WIND_DRAG
from ..dynamics import pseudo_spectral
from ..dynamics.boundaries import OpenBoundary
from ..dynamics.conserving import MomentumConserving
from ..dynamics.cores import Discretisation, FilteredDifferences
from ..dynamics.dissipation import Slip
from ..dynamics.forcing import WindStress
from ..dynamics.layers import Layers as StackedLayers
from ..dynamics.momentum import Coriolis as CoriolisParameter
from ..dynamics.momentum import VorticityFlux
from ..dynamics.terms import Term
from ..dynamics.wetting import WettingDrying
from ..errors import ConfigError, DataError
from ..fields.parameters import Choice, Number
from ..fields.parts import numbers_of, snake_case
from ..fields.state import replaced
from ..forcing.atmosphere import DragLaw, Wind
from ..forcing.cyclones import Cyclone
from ..forcing.file_records import StressRecords
from ..forcing.potential import InternalWaveDrag
from ..forcing.tracks import AVERAGING, Track, cyclone_of, read_track
from ..forcing.wind_laws import RELATIONS
from ..grids.elevation import open_elevation
from ..grids.roughness import rough_bottom
from ..grids.windows import GridValues
from ..stepping.explicit import TimeStepper
from .expressions import Expression
from .own import ClassNamed
from .parts import PartSection, section_for, sections_of, shipped
from .reading import OneOf, Section
from .sections import (
    Count,
    Formula,
    Fraction,
    InputFile,
    InputFiles,
    MapFile,
    NonNegativeMetres,
    PositiveMetres,
    PositiveSeconds,
    Surroundings,
    evaluated,
    is_evaluated_whole,
)

FORMS = ClassNamed(VorticityFlux, shipped(VorticityFlux))
CORIOLIS_FORMS = ClassNamed(
    VorticityFlux, {name: form for name, form in FORMS.classes.items() if form is not MomentumConserving}
)
SLIPS = ClassNamed(Slip, shipped(Slip))


Layers = Annotated[Any, section_for(StackedLayers)]
Wetting = Annotated[Any, section_for(WettingDrying)]


class _InModes(PartSection):
    left_out = ("series", "block", "at_rest")  # which follow from the grid

    hyperviscosity: Annotated[Any, section_for(pseudo_spectral.HyperViscosity)] | None = None  # damping in the tendency
    filter: Annotated[Any, section_for(pseudo_spectral.ExponentialFilter)] | None = None  # damping after each step


class _OnParallels(PartSection):
    left_out = ("plan", "ends", "weaker")


Spectral = Annotated[Any, section_for(pseudo_spectral.PseudoSpectral, common=_InModes)]
PolarFilter = Annotated[Any, section_for(FilteredDifferences, common=_OnParallels)]


CORES = ClassNamed(Discretisation, shipped(Discretisation))
TABLES_OF_CORES = {"filtered_differences": "polar_filter", "pseudo_spectral": "spectral"}  # with their options


Damping = Annotated[float, numbers_of(MomentumConserving)["damping"]]


class Flow(Section):
    """Keys of [model] that may differ in a nest; unless given there they are those of [model]."""

    momentum: Annotated[Any, FORMS] = "energy_conserving"  # form of the vorticity flux q V
    coriolis_form: Annotated[Any, CORIOLIS_FORMS] | None = None  # that of f V, where it is another one
    damping: Damping = 1.0  # by momentum_conserving; longer steps with less
    wetting: Wetting | None = None  # lets cells fall dry and be flooded; needs momentum = "momentum_conserving"
    least_thickness: NonNegativeMetres | None = None  # a run stops where water is thinner; 1 m, or 0 with wetting
    side: Annotated[Any, SLIPS] = "free_slip"  # of walls and coasts

    @property
    def form(self) -> VorticityFlux:
        """The form of the vorticity flux."""
        form = FORMS.made(self.momentum)
        return replaced(form, {"damping": self.damping}) if "damping" in self.written else form

    def options(self) -> dict[str, Any]:
        """The arguments of ShallowWater that follow from these keys."""
        return {
            "momentum": self.form,
            "coriolis_form": CORIOLIS_FORMS.made(self.coriolis_form),
            "wetting": self.wetting and self.wetting.build(),
            "least_thickness": self.least_thickness,
            "side": SLIPS.made(self.side),
        }


class Model(Flow):
    gravity: Annotated[float, Number(units="m s-2", above=0.0)] = GRAVITY  # or reduced gravity
    linear: bool = False  # leave out all terms that are not linear in u, v, eta
    precision: Literal["float32", "float64"] = "float32"  # of all fields
    core: Annotated[Any, CORES] = "finite_differences"  # how tendencies are computed
    spectral: Spectral | None = None  # options of the pseudo-spectral core
    polar_filter: PolarFilter | None = None  # options of the filtered differences

    def options(self) -> dict[str, Any]:
        table = getattr(self, TABLES_OF_CORES.get(self.core, ""), None)
        core = CORES.made(self.core) if table is None else table.build()
        more = {"gravity": self.gravity, "linear": self.linear, "core": core, "dtype": self.precision}
        return super().options() | more


class NoRotation(Section):
    type: Literal["none"]

    def build(self) -> None:
        """No part."""


CORIOLIS = sections_of(shipped(CoriolisParameter))


class _Stepper(PartSection):
    dt: PositiveSeconds | Literal["auto"] = "auto"
    fraction: Annotated[float, Number(above=0.0, maximum=1.0)] = 0.8  # of the longest stable step, for dt = "auto"

    def stepper(self, dt: float = 1.0) -> TimeStepper:
        """The time stepper, with time step `dt` [s]."""
        return self.part(**self.arguments() | {"dt": dt})


SOLVERS = ClassNamed(elliptic.Solver, dict.fromkeys(elliptic.names(), elliptic.Solver), ("auto",))
_KNOWN = elliptic.Diagonal, elliptic.FastPoisson, elliptic.Multigrid
PRECONDITIONERS = ClassNamed(elliptic.Preconditioner, {snake_case(each.__name__): each for each in _KNOWN})


class _Implicit(_Stepper):
    """The keys of an implicit scheme: the elliptic solver and its options."""

    solver: Annotated[Any, SOLVERS] = "auto"  # name of a solver; "auto": transforms if possible, else CG
    preconditioner: Annotated[Any, PRECONDITIONERS] | None = None  # of conjugate gradients
    tolerance: Fraction | None = None  # of conjugate gradients: residual over the right-hand side
    iterations: Count | None = None  # of conjugate gradients, at most

    def check(self) -> None:
        super().check()
        for name in ("preconditioner", "tolerance", "iterations"):
            if getattr(self, name) is not None and self.solver != "conjugate_gradients":
                raise ValueError(f'{name} belongs to solver = "conjugate_gradients", not to {self.solver!r}')

    def parameters_from_keys(self, on: Surroundings) -> dict[str, Any]:
        if self.solver == "auto":
            return {"solver": None}
        if isinstance(self.solver, type):
            return {"solver": self.solver()}
        options = {name: value for name, value in self if name in ("tolerance", "iterations") and value is not None}
        if self.preconditioner is not None:
            options["preconditioner"] = PRECONDITIONERS.made(self.preconditioner)
        return {"solver": elliptic.named(self.solver, **options)}


def stepper_section(cls: type[TimeStepper], name: str) -> type[PartSection]:
    """The section of a TimeStepper."""
    return section_for(cls, name, _Implicit if cls.has_solver else _Stepper)


STEPPERS = sections_of(shipped(TimeStepper), stepper_section)


class WindPatch(Section):
    """Winds that take precedence where and when they have values."""

    file: InputFiles | None = None  # netCDF or OWI; that of the wind unless given
    u: str | None = None  # variable of the eastward wind; that of the wind unless given
    v: str | None = None  # variable of the northward wind; that of the wind unless given
    units: str | None = None  # of the wind, where the file does not give them: "m s-1"


class WindFile(PartSection):
    """Wind at 10 m from a netCDF file, steady, in time records, or the twelve months of a climatology."""

    part = WindStress

    type: Literal["wind_file"]
    file: InputFiles  # netCDF file of the wind at 10 m, or several of consecutive times, as "era5_*.nc"
    u: str = "u10"  # variable of the eastward wind
    v: str = "v10"  # variable of the northward wind
    units: str | None = None  # of the wind, where the file does not give them: "m s-1"
    missing: Literal["refuse", "nearest"] = "nearest"  # what is done about missing values
    drag: Annotated[str | float, DragLaw()] = WIND_DRAG  # law of the drag coefficient, or its value
    air_density: Annotated[float, numbers_of(Wind)["air_density"]] = AIR_DENSITY  # of the air
    density: Annotated[float, numbers_of(Wind)["density"]] = WATER_DENSITY  # of the water
    patches: tuple[WindPatch, ...] = ()  # finer winds over parts of it, the first before the others

    def build(self, on: Surroundings) -> WindStress:
        """The stress at u and v points; the drag law needs both components of the wind at each of them."""
        stress = self.stress(on)
        for name, records in stress.items():
            records.check(on.grid, name, numbers_of(WindStress)[name], on.until)
        return WindStress(**stress, density=self.density)

    def stress(self, on: Surroundings) -> dict[str, StressRecords]:
        """{"x", "y": StressRecords} of the wind in the file, and of its patches."""
        law = {"drag": self.drag, "air_density": self.air_density}

        def of(one, along, across, patches=()):
            first, second = (getattr(one, name) or getattr(self, name) for name in (along, across))
            file = one.file or self.file
            return StressRecords(file, first, on.start, one.units, self.missing, patches, other=second, **law)

        components = {"x": ("u", "v"), "y": ("v", "u")}
        return {x: of(self, *names, tuple(of(one, *names) for one in self.patches)) for x, names in components.items()}


class _CycloneTrack(PartSection):
    """A cyclone along the track in a file."""

    left_out = ("coriolis",)  # a track lies on the sphere

    track: InputFile  # ATCF, HURDAT2, IBTrACS (CSV or netCDF), JMA or CSV
    storm: str | None = None  # identifier or name of one storm in a file of several
    agency: str | None = None  # of IBTrACS, as "tokyo"; unless given "usa", and "wmo" where that has no values
    wind_pressure: Annotated[str, Choice(tuple(RELATIONS))] | None = None  # relation for points without a pressure
    quadrants: bool = False  # radii of maximum wind in each quadrant, by the radii of winds of 34, 50 and 64 knots
    wind_averaging: Annotated[float, AVERAGING] = 1.0  # from a track's winds to 10-minute means; 0.93 at sea

    def read_track(self) -> Track:
        """The Track; raises SwmodelError if it cannot be read."""
        options: Any = self.agency, self.wind_pressure, dict(self)["ambient_pressure"]
        return read_track(self.track, self.storm, *options)

    def build(self, on: Surroundings) -> Cyclone:
        """The Cyclone in a run with a start, whose dates are those of the track, and with longitudes and latitudes."""
        if on.start is None:
            raise ConfigError("the dates of a track count from run.start, which is missing; give it in [run]")
        if on.grid is not None and not on.grid.spherical:
            raise ConfigError(
                'a track has longitudes and latitudes, and the grid is a plane; use [grid] type = "spherical"'
            )
        options = {name: value for name, value in self.arguments().items() if name != "start"}
        return cyclone_of(self.read_track(), on.start, on.until, self.wind_averaging, self.quadrants, **options)


class RoughBottom(Section):
    """Elevations from which roughness and buoyancy frequency are computed, as by `sw.rough_bottom`."""

    file: InputFile  # netCDF file of elevation or depth, finer than the grid
    variable: str | None = None  # its name in the file; found by its metadata unless given
    positive: Literal["up", "down"] | None = None  # elevation or depth, where the file does not say
    reach: Count = 2  # nodes on either side of a node over which the roughness is computed
    shallow: NonNegativeMetres = 500.0  # the least depth with internal waves
    surface: Annotated[float, Number(units="s-1", above=0.0)] = 5.24e-3  # buoyancy frequency at the sea surface
    scale: PositiveMetres = 1300.0  # depth over which it falls by a factor of e

    def values(self, grid: Any) -> tuple[GridValues, GridValues]:
        """The roughness [m] and the buoyancy frequency [s-1] at cell centres."""
        elevation = open_elevation(self.file, self.variable, self.positive, grid=grid)
        return rough_bottom(elevation, grid, self.reach, self.shallow, self.surface, self.scale)

    def check_on(self, grid: Any) -> None:
        """Raise DataError if nothing is rough on the grid."""
        if is_evaluated_whole(grid) and not np.asarray(self.values(grid)[0]).any():
            raise DataError(
                f"rough_bottom: nothing in {self.file} is rough below {self.shallow:g} m on this grid; give a finer "
                "file, a smaller depth for shallow, or leave the drag out"
            )


HEIGHT = Formula(numbers_of(InternalWaveDrag)["roughness"].of_files())


class _InternalWaves(PartSection):
    """Linear drag by internal waves that a rough bottom radiates."""

    roughness: Annotated[float | Expression, HEIGHT] | MapFile | None = None  # r.m.s. height of the bottom
    rough_bottom: RoughBottom | None = None  # in place of roughness and buoyancy, which follow from it

    def check(self) -> None:
        super().check()
        if (self.roughness is None) == (self.rough_bottom is None):
            raise ValueError("the roughness must be known, and once; give either roughness or rough_bottom")
        if self.rough_bottom is not None and "buoyancy" in self.written:
            raise ValueError("buoyancy follows from rough_bottom; leave one of them out")

    def parameters_from_keys(self, on: Surroundings) -> dict[str, Any]:
        if self.rough_bottom is None or on.grid is None:
            return {}
        names = "roughness", "buoyancy"
        return {name: evaluated(x, on.grid) for name, x in zip(names, self.rough_bottom.values(on.grid))}

    def check_value(self, name: str, value: Any, on: Surroundings) -> None:
        if isinstance(value, RoughBottom):
            value.check_on(on.grid)
        super().check_value(name, value, on)


def term_section(cls: type, name: str) -> type[PartSection]:
    """The section of a term or an open boundary."""
    return section_for(cls, name, {Cyclone: _CycloneTrack, InternalWaveDrag: _InternalWaves}.get(cls, PartSection))


FORCING = sections_of(shipped(Term, "forcing"), term_section) | {"wind_file": WindFile}
DISSIPATION = sections_of(shipped(Term, "dissipation"), term_section)
BOUNDARY = sections_of(shipped(OpenBoundary) | shipped(Term, "boundary"))

Boundary = Annotated[Any, OneOf(BOUNDARY, (OpenBoundary, Term), section_for)]
Coriolis = Annotated[Any, OneOf(ChainMap(CORIOLIS, {"none": NoRotation}), (CoriolisParameter,), section_for)]
Dissipation = Annotated[Any, OneOf(DISSIPATION, (Term,), section_for)]
Forcing = Annotated[Any, OneOf(FORCING, (Term,), section_for)]
Stepper = Annotated[Any, OneOf(STEPPERS, (TimeStepper,), stepper_section)]
