"""Tides, records and waves in experiment files: a table instead of a number.

[[boundary]]
type = "flather"
sides = "west"

[boundary.elevation]
ramp = "1 day"
constituents.M2 = {amplitude = "1.2 m", phase = "30 degree"}
constituents.S2 = {amplitude = "0.4 * exp(-y / 200e3)", phase = 75}
constituents.N2 = {amplitude = [0.21, 0.22, 0.24], phase = 40}          # along the side, a number for each cell
constituents.K1 = {file = "global_tides.nc"}                            # eta_amplitude_K1 and eta_phase_K1
constituents.O1 = {file = "atlas_o1.nc", amplitude = "ha", phase = "hp"}  # names of variables

[[boundary]]
type = "wave_maker"
sides = "west"
until = "22.5 s"                                  # the side is open from then on
elevation = {file = "incident.csv"}               # or {wave = "solitary", height = 0.1, depth = 1.0, peak = "10 s"}

[[forcing]]
type = "air_pressure"
pressure = {file = "era5.nc", variable = "msl"}   # fields, read during the run
"""

import functools
from typing import Annotated, Any, ClassVar, Literal

from pydantic import AfterValidator, BeforeValidator, Discriminator, Field, Tag, create_model, model_validator

from ..defaults import GRAVITY
from ..errors import SwmodelError
from ..forcing.constituents import distinct
from ..forcing.waves import CnoidalWave, SolitaryWave
from .mistakes import nearest
from .quantities import in_unit
from .sections import (
    PLAIN,
    FormulaOrLine,
    InputFile,
    InputFiles,
    NonNegativeSeconds,
    PositiveMetres,
    PositiveSeconds,
    Seconds,
    Section,
)

__all__ = [
    "BarometerSection",
    "CnoidalSection",
    "ConstituentFile",
    "RecordFile",
    "SeriesSection",
    "SolitarySection",
    "TideSection",
    "number_or_series",
    "tide_section",
]


# A derived section requires a key that its base has with a default, which pyright does not accept.
# pyright: reportGeneralTypeIssues=false


Pressure = Annotated[float, in_unit("Pa"), Field(ge=0.0, le=1.2e5)]


class SeriesSection(Section):
    """A table in place of a number, to which the inverse barometer may be added."""

    inverse_barometer: Literal[True] | None = None  # of an elevation: add the one that balances the air pressure
    reference: Pressure | None = None  # p_0 of an air_pressure; 1013.25 hPa unless given

    @model_validator(mode="after")
    def _refers_to_pressure(self):
        if self.reference is not None and not self.inverse_barometer:
            raise ValueError("reference belongs to inverse_barometer = true, which is missing; give both, or neither")
        return self


class BarometerSection(SeriesSection):
    """The inverse barometer alone."""

    tag: ClassVar[str] = "barometer"

    inverse_barometer: Literal[True]  # the elevation that balances the air pressure of [[forcing]]


class TideSection(SeriesSection):
    """A Tide: constituents by name, each with its amplitude and Greenwich phase lag."""

    tag: ClassVar[str] = "tide"

    constituents: Any  # {name = {amplitude = ..., phase = ...}}, as "M2"
    ramp: NonNegativeSeconds = 0.0  # how long the tide takes to reach its full amplitude, from the start of the run
    latitude: Annotated[float, Field(ge=-90, le=90)] | None = None  # of nodal factors; that of the grid's middle

    def controls(self) -> list[str]:
        """The amplitudes and phases of a tide, which may be controls of an adjoint."""
        return [f"{part}.{name}" for part in ("amplitude", "phase") for name in self.constituents]


class ConstituentFile(Section):
    """Amplitude and phase lag on the axes of a netCDF file, which must cover the open sides."""

    tag: ClassVar[str] = "constants"

    file: InputFile  # netCDF file
    amplitude: str | None = None  # name of its variable; eta_amplitude_M2 of M2 unless given, for currents u_ or v_
    phase: str | None = None  # name of its variable; eta_phase_M2 of M2 unless given, likewise
    units: tuple[str, str] | None = None  # of amplitude and phase lag where the file gives none, as ["cm", "degree"]

    @property
    def variables(self) -> tuple[str | None, str | None]:
        """The names of the variables, None of those that have the usual one."""
        return self.amplitude, self.phase


def _kind(value):
    """The tag of a constituent from a file, or of one from numbers and formulas."""
    in_file = isinstance(value, ConstituentFile) or (isinstance(value, dict) and "file" in value)
    return ConstituentFile.tag if in_file else PLAIN


def _named(found):
    """{canonical name: constituent}."""
    return dict(zip(distinct(found), found.values()))


@functools.cache
def tide_section(unit: str) -> type[TideSection]:
    """The TideSection of a parameter in `unit`."""
    tide = (_constituents_in(unit), ...)
    made: Any = create_model("Tide", __base__=TideSection, __module__=__name__, constituents=tide)
    return made


def _constituents_in(unit):
    """The annotation of the constituents of a parameter in `unit`."""
    amplitude = (
        FormulaOrLine(unit),
        Field(description="amplitude; a list lies along the sides, a number for each cell"),
    )
    phase = (FormulaOrLine("degree"), Field(description="Greenwich phase lag, likewise"))
    pair: Any = create_model("Constituent", __base__=Section, __module__=__name__, amplitude=amplitude, phase=phase)
    plain: Any = Annotated[pair, Tag(PLAIN)]
    either = Annotated[plain | Annotated[ConstituentFile, Tag(ConstituentFile.tag)], Discriminator(_kind)]
    constituents: Any = Annotated[dict[str, either], AfterValidator(_named)]
    return constituents


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
