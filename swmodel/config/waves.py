"""Records and waves in experiment files: a table instead of a number.

[[boundary]]
type = "wave_maker"
sides = "west"
until = "22.5 s"                                  # the side is open from then on

[boundary.elevation]
file = "incident.csv"                             # or {wave = "solitary", height = 0.1, depth = 1.0, peak = "10 s"}

[[forcing]]
type = "air_pressure"
pressure = {file = "era5.nc", variable = "msl"}   # fields, read during the run
"""

import functools
from typing import Annotated, Any, ClassVar, Literal

from pydantic import AfterValidator, BeforeValidator, Discriminator, Tag

from ..defaults import GRAVITY
from ..errors import SwmodelError
from ..forcing.waves import CnoidalWave, SolitaryWave
from .mistakes import nearest
from .sections import InputFiles, NonNegativeSeconds, PositiveMetres, PositiveSeconds, Seconds, Section
from .tides import PLAIN, BarometerSection, SeriesSection, TideSection, tide_section

__all__ = ["CnoidalSection", "RecordFile", "SolitarySection", "number_or_series"]


WAVES = ("solitary", "cnoidal")


class RecordFile(SeriesSection):
    """Records: one series, from a csv file with a line of names or a netCDF file; or fields of a netCDF file."""

    tag: ClassVar[str] = "record"

    file: InputFiles  # csv or netCDF; of fields also several files of consecutive times, as "pressure_*.nc"
    variable: str | None = None  # its name in the file, where there are several
    time: str | None = None  # name of the times: seconds of the run, or dates; the first column unless given
    units: str | None = None  # of fields, where the file does not give them; they must be the parameter's
    missing: Literal["refuse", "nearest"] = "refuse"  # of fields: what is done about missing values


def _known(name):
    if name not in WAVES:
        raise ValueError(f"{name!r} is unknown; {nearest(str(name), WAVES)}")
    return name


class SolitarySection(SeriesSection):
    """A solitary wave."""

    tag: ClassVar[str] = "solitary"

    wave: Annotated[Literal["solitary"], BeforeValidator(_known)]
    height: PositiveMetres  # of the crest
    depth: PositiveMetres  # of the water at rest
    peak: Seconds  # when the crest comes in

    def controls(self) -> list[str]:
        """What may be a control of an adjoint."""
        return ["height"]

    def made(self, gravity: float = GRAVITY) -> SolitaryWave:
        """The wave that the section describes."""
        return SolitaryWave(self.height, self.depth, self.peak, gravity)


class CnoidalSection(SeriesSection):
    """A train of cnoidal waves."""

    tag: ClassVar[str] = "cnoidal"

    wave: Literal["cnoidal"]
    height: PositiveMetres  # from trough to crest
    depth: PositiveMetres  # of the water at rest
    period: PositiveSeconds  # of the waves
    ramp: NonNegativeSeconds = 0.0  # over which they are switched on

    def made(self, gravity: float = GRAVITY) -> CnoidalWave:
        """The waves that the section describes."""
        return CnoidalWave(self.height, self.depth, self.period, self.ramp, gravity)


def _exists(section):
    """The section of a wave, if there is one of its height."""
    try:
        section.made()
    except SwmodelError as error:
        raise ValueError(str(error)) from None
    return section


def _which(value):
    """The tag of a value: a plain number or formula, or the kind of table that replaces it."""
    if isinstance(value, Section):
        return getattr(value, "tag")  # noqa: B009  (the sections of such tables have a tag)
    if not isinstance(value, dict):
        return PLAIN
    if "file" in value:
        return RecordFile.tag
    if "inverse_barometer" in value and not {"constituents", "wave"} & value.keys():
        return BarometerSection.tag
    return CnoidalSection.tag if value.get("wave") == "cnoidal" else "solitary" if "wave" in value else TideSection.tag


def _of_one_kind(value, unit):
    """A table that has the key of one kind only, and no inverse barometer in place of what is no elevation."""
    if isinstance(value, dict) and "inverse_barometer" in value and unit != "m":
        raise ValueError("inverse_barometer = true is an elevation, and this is none; leave it out")
    kinds = [key for key in ("constituents", "file", "wave") if isinstance(value, dict) and key in value]
    if len(kinds) > 1:
        raise ValueError(
            f"{' and '.join(kinds)} exclude one another; give a tide, records or a wave, of which each may have "
            "inverse_barometer = true, too"
        )
    return value


def number_or_series(plain: Any, unit: str) -> Any:
    """The annotation of a key that is `plain`, or a table that describes a tide, a record or, in metres, a wave."""
    kinds: Any = Annotated[plain, Tag(PLAIN)]
    kinds = kinds | Annotated[tide_section(unit), Tag(TideSection.tag)]
    kinds = kinds | Annotated[RecordFile, Tag(RecordFile.tag)]
    if unit == "m":
        solitary, cnoidal = (Annotated[kind, AfterValidator(_exists)] for kind in (SolitarySection, CnoidalSection))
        kinds = kinds | Annotated[BarometerSection, Tag(BarometerSection.tag)]
        kinds = kinds | Annotated[solitary, Tag("solitary")]
        kinds = kinds | Annotated[cnoidal, Tag("cnoidal")]
    return Annotated[kinds, Discriminator(_which), BeforeValidator(functools.partial(_of_one_kind, unit=unit))]
