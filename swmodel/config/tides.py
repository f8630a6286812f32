"""Tides in experiment files: a table instead of a number.

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
"""

import functools
from typing import Annotated, Any, ClassVar, Literal

from pydantic import AfterValidator, Discriminator, Field, Tag, create_model, model_validator

from ..forcing.constituents import distinct
from .quantities import in_unit
from .sections import FormulaOrLine, InputFile, NonNegativeSeconds, Section

# A derived section requires a key that its base has with a default, which pyright does not accept.
# pyright: reportGeneralTypeIssues=false

__all__ = ["PLAIN", "BarometerSection", "ConstituentFile", "SeriesSection", "TideSection", "tide_section"]

Pressure = Annotated[float, in_unit("Pa"), Field(ge=0.0, le=1.2e5)]
PLAIN = "plain"  # the tag of values that are not tables


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
