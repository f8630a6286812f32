"""The sections of parts whose parameters follow from files: winds, tracks of cyclones, and roughness of the bottom."""

from typing import Annotated, Any, Literal

import numpy as np

from ..defaults import AIR_DENSITY, WATER_DENSITY, WIND_DRAG
from ..errors import ConfigError, DataError
from ..fields.parameters import Choice, Number
from ..fields.parts import numbers_of
from ..forcing.atmosphere import DragLaw, Wind, WindStress
from ..forcing.cyclones import Cyclone
from ..forcing.file_records import StressRecords
from ..forcing.potential import InternalWaveDrag, rough_bottom
from ..forcing.tracks import AVERAGING, Track, cyclone_of, read_track
from ..forcing.wind_laws import RELATIONS
from ..grids.elevation import open_elevation
from ..grids.windows import GridValues
from .expressions import Expression
from .parts import PartSection, section_for
from .reading import Section
from .sections import (
    Count,
    Formula,
    InputFile,
    InputFiles,
    MapFile,
    NonNegativeMetres,
    PositiveMetres,
    Surroundings,
    evaluated,
    is_evaluated_whole,
)


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


class CycloneTrack(PartSection):
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


class InternalWaves(PartSection):
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


def section_with_files(cls: type, name: str) -> type[PartSection]:
    """The section of the class of a part, by its type in files."""
    if name == "wind_file":
        return WindFile
    return section_for(cls, name, CycloneTrack if cls is Cyclone else InternalWaves)
