"""The sections of the grid and of the sea floor."""

from typing import Annotated, Any, Literal

from ..defaults import MINIMUM_DEPTH, SOUND_SPEEDS
from ..errors import ConfigError, DataError
from ..fields.parameters import Number
from ..grids import grid
from ..grids.bathymetry import SeaFloor, depth_on, elevation_on
from ..grids.levees import Levee, check_on_grid, read_levees
from ..grids.patches import Patch
from ..grids.subgrid import FINEST
from ..grids.topography import Topography, topography_of
from .parts import PartSection, section_for
from .reading import Section, one_of
from .sections import (
    Count,
    FormulaInMetres,
    InputFile,
    MapFile,
    Metres,
    NonNegativeMetres,
    Polygons,
    PositiveMetres,
)


class _Grid(PartSection):
    def check(self) -> None:
        self.build()


GRIDS = {
    "cartesian": section_for(grid.CartesianGrid, "cartesian", _Grid),
    "spherical": section_for(grid.SphericalGrid, "spherical", _Grid),
}
Grid = Annotated[Any, one_of(*GRIDS.values())]

SoundSpeed = Annotated[float, Number(units="m s-1", minimum=SOUND_SPEEDS[0], maximum=SOUND_SPEEDS[1])]
SubgridRatio = Annotated[int, Number(minimum=2, maximum=FINEST, whole=True)]


class _Floor(Section):
    mask: Polygons | MapFile | None = None  # cells of water, or that may be wet: a map that is 1/2 or more; a coast
    subgrid: SubgridRatio | None = None  # fine cells along a cell's side, of which it gets tables; needs model.wetting
    levees: InputFile | None = None  # CSV of levee, x, y, crest_m: lines that water overflows; needs model.wetting

    def on(self, grid: grid.Grid, wetting: bool = False) -> SeaFloor | Topography:
        """The SeaFloor of a grid; its Topography where the model has `wetting`."""
        mask = None if self.mask is None else self.mask.mask(grid)
        return topography_of(self, grid, mask) if wetting else self._floor(grid, mask)

    def _floor(self, grid, mask):
        raise NotImplementedError

    def read_levees(self) -> tuple[Levee, ...]:
        """The levees, with crests above the water at rest."""
        if self.levees is None:
            return ()
        return read_levees(self.levees, getattr(self, "datum", 0.0), getattr(self, "land_datum", 0.0))

    def check_levees(self, grid: grid.Grid) -> None:
        """Raise DataError if the table of levees cannot be used, or has a levee that crosses no face of the grid."""
        if self.levees is not None:
            levees = read_levees(self.levees)
            try:
                check_on_grid(levees, grid)
            except ConfigError as error:
                raise DataError(f"{self.levees}: {error}") from None


class FlatBottom(_Floor):
    type: Literal["flat"]
    depth: PositiveMetres  # of the water at rest

    def _floor(self, grid, mask):
        return depth_on(self.depth, grid, mask=mask)


class _Varying(_Floor):
    minimum_depth: NonNegativeMetres = 0.0  # shallower water is this deep
    fill_lakes: bool = False  # water apart from the largest body is land
    sound_speed: SoundSpeed | None = None  # about 1500 m/s, for the slower waves of compressible water

    @property
    def _options(self):
        names = "minimum_depth", "fill_lakes", "sound_speed", "datum", "land_datum", "margin"
        return {name: value for name, value in self if name in names}


class DepthFormula(_Varying):
    """Depth from a formula of the coordinates, positive down; land where it is 0 or less."""

    type: Literal["formula"]
    depth: FormulaInMetres  # positive down

    def _floor(self, grid, mask):
        return depth_on(self.depth, grid, mask=mask, **self._options)


class Elevations(Section):
    """A file of elevations, with the parameters of `swmodel.grids.patches.Patch`."""

    file: InputFile  # of elevation or depth, in any of the formats of docs/files.md
    variable: str | None = None  # its name in the file; found by its metadata unless given
    positive: Literal["up", "down"] | None = None  # elevation or depth, where the file does not say
    datum: Metres = 0.0  # level of the water at rest, above the zero of the file
    land_datum: Metres = 0.0  # zero of the file's heights of land, above that of its depths
    coarsen: Count = 1  # read every n-th node along each axis

    def elevations(self) -> dict[str, Any]:
        """{name: value} of the keys on the file."""
        return {name: getattr(self, name) for name in Elevations.schema()}


class BathymetryFile(Elevations, _Varying):
    """Elevation (or depth) from a file, and from patches that take precedence where they have values."""

    type: Literal["file"]
    patches: tuple[Elevations, ...] = ()  # files that take precedence, the first one before the others
    margin: Annotated[int, Number(minimum=0, whole=True)] = 0  # cells over which a file passes into the next one
    method: Literal["average", "harmonic", "interpolate"] = "average"  # mean over each cell, or value at its centre
    minimum_depth: NonNegativeMetres = MINIMUM_DEPTH  # shallower water is this deep

    def _floor(self, grid, mask):
        elevation = Patch(**self.elevations()).elevation(grid, masked=mask is None)
        patches = [Patch(**each.elevations()) for each in self.patches]
        return elevation_on(elevation, grid, self.method, patches=patches, mask=mask, **self._options)


Bathymetry = Annotated[Any, one_of(FlatBottom, DepthFormula, BathymetryFile)]
