"""The sections of grid, sea floor, model, terms and time stepping."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeAlias

from pydantic import AfterValidator, BeforeValidator, Field, field_validator, model_validator

from ..defaults import AIR_DENSITY, EARTH_RADIUS, GRAVITY, MINIMUM_DEPTH, SOUND_SPEEDS, WATER_DENSITY, WIND_DRAG
from ..dynamics.boundaries import OpenBoundary
from ..dynamics.conserving import MomentumConserving
from ..dynamics.coriolis import Coriolis as CoriolisParameter
from ..dynamics.forcing import WindStress
from ..dynamics.layers import Layers as StackedLayers
from ..dynamics.momentum import VorticityFlux
from ..dynamics.terms import Term
from ..dynamics.wetting import WettingDrying
from ..forcing.cyclones import Cyclone
from ..forcing.potential import InternalWaveDrag
from ..forcing.wind_laws import DRAG_LAWS
from ..stepping.explicit import TimeStepper
from .cores import PolarFilter, Spectral
from .parts import PartSection, chosen_from, class_named, section_for, sections_of, shipped
from .quantities import in_unit, quantity
from .sections import (
    Count,
    Flag,
    FormulaInMetres,
    Fraction,
    InputFile,
    InputFiles,
    MapFile,
    Metres,
    NonNegativeMetres,
    Number,
    PositiveMetres,
    RangeOfDegrees,
    RangeOfMetres,
    SecondsOrAuto,
    Section,
    number_or_map,
)

__all__ = ["Bathymetry", "Boundary", "Coriolis", "Dissipation", "Forcing", "Grid", "Layers", "Model", "Stepper"]


class CartesianGrid(Section):
    """Equal rectangles on a plane."""

    type: Literal["cartesian"]
    nx: Count  # cells along x
    ny: Count  # cells along y
    x: RangeOfMetres  # (west, east) edges
    y: RangeOfMetres  # (south, north) edges
    periodic: Literal["", "x", "y", "xy"] = ""  # directions that are periodic


class SphericalGrid(Section):
    """Longitude-latitude cells."""

    type: Literal["spherical"]
    nx: Count  # cells along longitude
    ny: Count  # cells along latitude
    longitude: RangeOfDegrees  # (west, east) edges
    latitude: RangeOfDegrees  # (south, north) edges
    periodic: Literal["", "x"] | None = None  # "x" where 360 degrees are covered, unless given
    radius: PositiveMetres = EARTH_RADIUS  # of the sphere

    @model_validator(mode="after")
    def _on_the_sphere(self):
        from ..grids.grid import SphericalGrid as Built

        Built(**self.model_dump(exclude={"type"}))
        return self


Grid = Annotated[CartesianGrid | SphericalGrid, Field(discriminator="type")]


SoundSpeed = Annotated[float, in_unit("m s-1"), Field(ge=SOUND_SPEEDS[0], le=SOUND_SPEEDS[1])]


class FlatBottom(Section):
    type: Literal["flat"]
    depth: PositiveMetres  # of the water at rest
    mask: MapFile | None = None  # 1/2 or more in cells of water, or that may be wet; others are land
    levees: InputFile | None = None  # CSV of levee, x, y, crest_m: lines that water overflows; needs model.wetting


class DepthFormula(Section):
    """Depth from a formula of the coordinates, positive down; land where it is 0 or less."""

    type: Literal["formula"]
    depth: FormulaInMetres  # positive down
    minimum_depth: NonNegativeMetres = 0.0  # shallower water is this deep
    fill_lakes: Flag = False  # water apart from the largest body is land
    sound_speed: SoundSpeed | None = None  # about 1500 m/s, for the slower waves of compressible water
    mask: MapFile | None = None  # 1/2 or more in cells of water, or that may be wet; others are land
    levees: InputFile | None = None  # CSV of levee, x, y, crest_m: lines that water overflows; needs model.wetting


class BathymetryFile(Section):
    """Elevation (or depth) from a netCDF file."""

    type: Literal["file"]
    file: InputFile  # netCDF file of elevation or depth
    variable: str | None = None  # its name in the file; found by its metadata unless given
    positive: Literal["up", "down"] | None = None  # elevation or depth, where the file does not say
    method: Literal["average", "harmonic", "interpolate"] = "average"  # mean over each cell, or value at its centre
    datum: Metres = 0.0  # level of the water at rest, above the zero of the file
    land_datum: Metres = 0.0  # zero of the file's heights of land, above that of its depths
    minimum_depth: NonNegativeMetres = MINIMUM_DEPTH  # shallower water is this deep
    fill_lakes: Flag = False  # water apart from the largest body is land
    sound_speed: SoundSpeed | None = None  # about 1500 m/s, for the slower waves of compressible water
    mask: MapFile | None = None  # 1/2 or more in cells of water, or that may be wet; others are land
    levees: InputFile | None = None  # CSV of levee, x, y, crest_m: lines that water overflows; needs model.wetting


Bathymetry = Annotated[FlatBottom | DepthFormula | BathymetryFile, Field(discriminator="type")]


FORMS = shipped(VorticityFlux)


if TYPE_CHECKING:
    Form: TypeAlias = str
    CoriolisForm: TypeAlias = str
    Layers: TypeAlias = PartSection
    Wetting: TypeAlias = PartSection
else:
    Layers, Wetting = section_for(StackedLayers), section_for(WettingDrying)
    Form = Literal[tuple(FORMS)]
    CoriolisForm = Literal[tuple(name for name, form in FORMS.items() if form is not MomentumConserving)]


Core: TypeAlias = Literal["finite_differences", "filtered_differences", "pseudo_spectral"]


class Model(Section):
    gravity: Annotated[float, in_unit("m s-2"), Field(gt=0)] = GRAVITY  # or reduced gravity
    momentum: Form = "energy_conserving"  # form of the vorticity flux q V
    coriolis_form: CoriolisForm | None = None  # that of f V, where it is another one
    wetting: Wetting | None = None  # lets cells fall dry and be flooded; needs momentum = "momentum_conserving"
    least_thickness: NonNegativeMetres | None = None  # a run stops where water is thinner; 1 m, or 0 with wetting
    linear: Flag = False  # leave out all terms that are not linear in u, v, eta
    side: Literal["free_slip", "no_slip"] = "free_slip"  # of walls and coasts
    precision: Literal["float32", "float64"] = "float32"  # of all fields
    core: Core = "finite_differences"  # how tendencies are computed
    spectral: Spectral | None = None  # options of the pseudo-spectral core
    polar_filter: PolarFilter | None = None  # options of the filtered differences


class NoRotation(Section):
    type: Literal["none"]


CORIOLIS = sections_of(CoriolisParameter)


class _Stepper(PartSection):
    dt: SecondsOrAuto = "auto"
    fraction: Annotated[Number, Field(gt=0, le=1)] = 0.8  # of the longest stable step, for dt = "auto"


def _text(value):
    if not isinstance(value, str):
        raise ValueError(f"expected text in quotes, got {value!r}")
    return value


class _Implicit(_Stepper):
    """The keys of an implicit scheme: the elliptic solver and its options."""

    solver: Annotated[Any, BeforeValidator(_text)] = "auto"  # name of a solver; "auto": transforms if possible, else CG
    preconditioner: Literal["diagonal", "fast_poisson", "multigrid"] | None = None  # of conjugate gradients
    tolerance: Fraction | None = None  # of conjugate gradients: residual over the right-hand side
    iterations: Count | None = None  # of conjugate gradients, at most

    @field_validator("solver")
    @classmethod
    def _known(cls, name, info):
        from ..elliptic import Solver, names

        if ":" in name:
            known = info.context or {}
            cls = class_named(name, known.get("folder", Path()), known.get("own_parts", False))
            if not (isinstance(cls, type) and issubclass(cls, Solver)):
                raise ValueError(f"{name!r} does not derive from sw.Solver; let it, or name another class")
            return cls
        if name not in (known := ["auto", *names()]):
            raise ValueError(f"expected {', '.join(map(repr, known))}, got {name!r}")
        return name

    @model_validator(mode="after")
    def _of_iterations(self):
        for name in ("preconditioner", "tolerance", "iterations"):
            if getattr(self, name) is not None and self.solver != "conjugate_gradients":
                raise ValueError(f'{name} belongs to solver = "conjugate_gradients", not to {self.solver!r}')
        return self


def stepper_section(cls: type[TimeStepper], name: str) -> type[PartSection]:
    """The section of a TimeStepper."""
    return section_for(cls, name, _Implicit if cls.is_implicit else _Stepper)


STEPPERS = {name: stepper_section(cls, name) for name, cls in shipped(TimeStepper).items()}


def _drag_law(value):
    if isinstance(value, str) and value in DRAG_LAWS:
        return value
    if isinstance(value, str) or not 0 < quantity(value, "") < 0.1:
        raise ValueError(
            f"expected {', '.join(map(repr, DRAG_LAWS))}, or a coefficient between 0 and 0.1, got {value!r}"
        )
    return float(value)


class WindFile(PartSection):
    """Wind at 10 m from a netCDF file, steady, in time records, or the twelve months of a climatology."""

    part = WindStress

    type: Literal["wind_file"]
    file: InputFiles  # netCDF file of the wind at 10 m, or several of consecutive times, as "era5_*.nc"
    u: str = "u10"  # variable of the eastward wind
    v: str = "v10"  # variable of the northward wind
    units: str | None = None  # of the wind, where the file does not give them: "m s-1"
    missing: Literal["refuse", "nearest"] = "nearest"  # what is done about missing values
    drag: Annotated[str | float, BeforeValidator(_drag_law)] = WIND_DRAG  # law of the drag coefficient, or its value
    air_density: Annotated[float, in_unit("kg m-3"), Field(ge=0.1, le=10)] = AIR_DENSITY  # of the air
    density: Annotated[float, in_unit("kg m-3"), Field(ge=500, le=2e4)] = WATER_DENSITY  # of the water


class _CycloneTrack(PartSection):
    """A cyclone along the track in a file."""

    left_out = ("coriolis",)  # a track lies on the sphere

    track: InputFile  # CSV, ATCF or IBTrACS netCDF
    storm: str | None = None  # identifier or name of one storm in a file of several
    wind_averaging: Annotated[float, Field(gt=0.5, le=1)] = 1.0  # from a track's winds to 10-minute means; 0.93 at sea


class RoughBottom(Section):
    """Elevations from which roughness and buoyancy frequency are computed, as by `sw.rough_bottom`."""

    file: InputFile  # netCDF file of elevation or depth, finer than the grid
    variable: str | None = None  # its name in the file; found by its metadata unless given
    positive: Literal["up", "down"] | None = None  # elevation or depth, where the file does not say
    reach: Count = 2  # nodes on either side of a node over which the roughness is computed
    shallow: NonNegativeMetres = 500.0  # the least depth with internal waves
    surface: Annotated[float, in_unit("s-1"), Field(gt=0)] = 5.24e-3  # buoyancy frequency at the sea surface
    scale: PositiveMetres = 1300.0  # depth over which it falls by a factor of e


def _not_negative(value):
    """`value`, a number of 0 or more; formulas are checked later, on the grid."""
    if isinstance(value, float) and value < 0:
        raise ValueError(f"{value:g} is less than 0")
    return value


if TYPE_CHECKING:
    Roughness: TypeAlias = Any
else:
    Roughness = number_or_map(Annotated[FormulaInMetres, AfterValidator(_not_negative)])


class _InternalWaves(PartSection):
    """Linear drag by internal waves that a rough bottom radiates."""

    roughness: Roughness | None = None  # r.m.s. height of the bottom
    rough_bottom: RoughBottom | None = None  # in place of roughness and buoyancy, which follow from it

    @model_validator(mode="after")
    def _roughness_once(self):
        if (self.roughness is None) == (self.rough_bottom is None):
            raise ValueError("the roughness must be known, and once; give either roughness or rough_bottom")
        if self.rough_bottom is not None and "buoyancy" in self.model_fields_set:
            raise ValueError("buoyancy follows from rough_bottom; leave one of them out")
        return self


CYCLONE = section_for(Cyclone, "cyclone", _CycloneTrack)
FORCING = {**sections_of(Term, "forcing"), "wind_file": WindFile, "cyclone": CYCLONE}
INTERNAL_WAVES = section_for(InternalWaveDrag, "internal_wave_drag", _InternalWaves)
DISSIPATION = {**sections_of(Term, "dissipation"), "internal_wave_drag": INTERNAL_WAVES}
BOUNDARY = sections_of(OpenBoundary) | sections_of(Term, "boundary")

if TYPE_CHECKING:  # the alternatives are found when the program runs
    Boundary: TypeAlias = Any
    Coriolis: TypeAlias = Any
    Dissipation: TypeAlias = Any
    Forcing: TypeAlias = Any
    Stepper: TypeAlias = Any
else:
    Boundary = chosen_from(BOUNDARY.values())
    Coriolis = chosen_from([NoRotation, *CORIOLIS.values()])
    Dissipation = chosen_from(DISSIPATION.values())
    Forcing = chosen_from(FORCING.values())
    Stepper = chosen_from(STEPPERS.values())
