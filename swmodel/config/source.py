"""The section [source]: faults, or a file of the motion of the sea floor."""

import datetime
from typing import Annotated, Any, ClassVar, Literal

from .. import sources
from ..errors import ConfigError
from ..grids.grid import Grid
from ..sources.deformation import is_deformation, read_deformation
from ..sources.fault import AzimuthalEqualArea, Plane
from ..sources.motion_cache import motion_after_survey, motion_of
from .parts import section_for
from .reading import Section
from .sections import InputFile, NonNegativeMetres, PositiveSeconds, not_empty

Fault = section_for(sources.Fault)
Faults = tuple[Fault, ...]  # pyright: ignore[reportInvalidTypeForm]


class FaultTable(Section):
    """Faults from a table, or written here."""

    path: ClassVar[str] = "source"

    file: InputFile | None = None  # of faults: a table or a slip model
    slips: Annotated[dict[str, NonNegativeMetres], not_empty] | None = None  # {name = slip} of the faults of the file
    faults: Faults = ()  # the faults, in place of a table

    def check(self) -> None:
        if self.slips is not None and self.file is None:
            raise ValueError("slips are those of faults in a file; give file, too")
        if (self.file is None) == (not self.faults):
            raise ValueError(f"give either file (a table of faults) or [[{self.path}.faults]], and one of them")

    def faults_on(self, grid: Any, start: datetime.datetime | None = None) -> Any:
        """The sources.Source of the faults, which count their times from the `start` of the run."""
        projection = AzimuthalEqualArea(grid.radius) if grid.spherical else Plane()
        if self.file is not None:
            return sources.read_source(self.file, self.slips, projection=projection)
        return sources.Source([fault.build() for fault in self.faults], projection=projection)


class Source(FaultTable):
    """A source: faults from a table or a slip model, or written here; or a file of the motion of the sea floor."""

    horizontal: bool = False  # lift by horizontal motion of slopes (Tanioka & Satake 1996)
    kajiura: bool = False  # 1 / cosh(k H) smoothing (Kajiura 1963)
    every: PositiveSeconds | Literal["auto"] = "auto"  # how often the motion of faults is sampled
    variable: str | None = None  # of a netCDF file of the sea floor's uplift, if it has several

    def faults_on(self, grid: Any, start: datetime.datetime | None = None) -> Any:
        """The sources.Source of the faults; the Deformation of a file that holds the motion of the sea floor."""
        if self.file is None or not is_deformation(self.file):
            return super().faults_on(grid, start)
        if self.horizontal or self.kajiura or self.slips:
            raise ConfigError(
                f"{self.file} holds the uplift itself, to which horizontal, kajiura and slips do not apply; leave them "
                "out."
            )
        return read_deformation(self.file, self.variable, start)

    def motion_on(self, grid: Grid, bathymetry: Any, faults: Any, records: int) -> tuple:
        """(BottomMotion, Summary) of the result of `faults_on`, in at most so many intervals; see `motion_of`."""
        of_lakes = bathymetry is not None and bathymetry.fill_lakes  # of a large grid: not yet surveyed
        make = motion_of if records == 1 and not of_lakes else motion_after_survey
        return make(self, grid, bathymetry, faults, records)
