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
atlas = "h_*_tpxo9_atlas_30.nc"                                         # all constituents of TPXO, FES or EOT
level = "0.32 m"                                                        # about which the tide goes
anomaly = {file = "ssh_*.nc", variable = "sla", missing = "nearest"}    # and what else the sea level does

[[boundary]]
type = "wave_maker"
sides = "west"
until = "22.5 s"                                  # the side is open from then on
elevation = {file = "incident.csv"}               # or {wave = "solitary", height = 0.1, depth = 1.0, peak = "10 s"}

[[forcing]]
type = "air_pressure"
pressure = {file = "era5.nc", variable = "msl"}   # fields, read during the run

[[forcing]]
type = "air_pressure"
pressure = {formula = "101325 + 200 * exp(-((x - 30 * t) / (50 * km))^2)", every = "1 min"}   # t in seconds
"""

import dataclasses
import functools
import operator
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, cast

import numpy as np

from ..defaults import GRAVITY
from ..dynamics.boundaries import OpenBoundary
from ..errors import ConfigError, DataError, SwmodelError
from ..fields.parameters import Choice, Number
from ..fields.parts import numbers_of
from ..forcing.atmosphere import STANDARD_PRESSURE, InverseBarometer
from ..forcing.constituents import distinct
from ..forcing.file_records import FileRecords, is_gridded
from ..forcing.harmonic_files import atlas_constants, atlas_entries, harmonic_constants
from ..forcing.records import FunctionOfTime, RecordsInTime
from ..forcing.tides import RULES, Tide
from ..forcing.waves import CnoidalWave, Record, SolitaryWave
from ..observed.series_files import check_series_units, is_table, read_series
from .expressions import Expression
from .reading import Before, Section
from .sections import (
    Formula,
    InputFile,
    InputFiles,
    Names,
    NonNegativeSeconds,
    PositiveSeconds,
    Surroundings,
    along_sides,
    evaluated,
    on_grid,
)

# A derived section requires a key that its base has with a default, which pyright does not accept.
# pyright: reportGeneralTypeIssues=false


LAGS = Formula(Number(units="degree"), "numbers")
Listed = float | Expression | tuple[float, ...]
Latitude = Annotated[float, RULES["latitude"].of_files()]
Pressure = Annotated[float, Number(units="Pa", minimum=0.0, maximum=1.2e5)]


class SeriesSection(Section):
    """A table in place of a number, to which the inverse barometer may be added."""

    inverse_barometer: Literal[True] | None = None  # of an elevation: add the one that balances the air pressure
    reference: Pressure | None = None  # p_0 of an air_pressure; 1013.25 hPa unless given

    def check(self) -> None:
        if self.reference is not None and not self.inverse_barometer:
            raise ValueError("reference belongs to inverse_barometer = true, which is missing; give both, or neither")

    def controls(self) -> list[str]:
        """What may be a control of an adjoint: names of parts of the value, and "" for the value itself."""
        return [""]

    def records(self, on: Surroundings) -> RecordsInTime | None:
        """The fields in time that the table describes; None if it describes something else."""
        return None

    def series(self, name: str, owner: Any, on: Surroundings) -> Any:
        """The tide, records or wave for the parameter `name` of the section `owner`."""
        raise NotImplementedError

    def value_of(self, name: str, owner: Any, on: Surroundings) -> Any:
        """The `series`, which is added to an InverseBarometer where the table has one."""
        series = self.series(name, owner, on)
        if not self.inverse_barometer:
            return series
        return InverseBarometer(series, STANDARD_PRESSURE if self.reference is None else self.reference)


class BarometerSection(SeriesSection):
    """The inverse barometer alone."""

    tag: ClassVar[str] = "barometer"

    inverse_barometer: Literal[True]  # the elevation that balances the air pressure of [[forcing]]

    @classmethod
    def fits(cls, table: Mapping[str, Any]) -> bool:
        return "inverse_barometer" in table and not {"constituents", "atlas", "wave", "file", "formula"} & table.keys()

    def series(self, name: str, owner: Any, on: Surroundings) -> float:
        return 0.0


class TideSection(SeriesSection):
    """A Tide: constituents by name, each with its amplitude and Greenwich phase lag."""

    tag: ClassVar[str] = "tide"
    marked_by: ClassVar = ("constituents", "atlas")

    constituents: dict[str, Any] = {}  # {name = {amplitude, phase}}, as "M2"
    atlas: InputFiles | None = None  # files of TPXO, FES, EOT or of a run: all their constituents, or those of `names`
    names: Names | None = None  # constituents of the atlas; all unless given
    depths: InputFile | None = None  # grid of an atlas of transports
    ramp: NonNegativeSeconds = 0.0  # how long the tide takes to reach its full amplitude, from the start of the run
    latitude: Latitude | None = None  # of nodal factors; that of the grid's middle

    def check(self) -> None:
        super().check()
        if self.atlas is None and (self.names or self.depths):
            raise ValueError("names and depths belong to an atlas, which is missing; give atlas, or leave them out")
        if self.atlas is None and not self.constituents:
            raise ValueError("constituents is empty; name some, or give an atlas")

    def controls(self) -> list[str]:
        names = [*self.constituents, *(name for name in self.of_atlas() if name not in self.constituents)]
        level = ["level"] if getattr(self, "level", None) is not None else []
        return [f"{part}.{name}" for part in ("amplitude", "phase") for name in names] + level

    def of_atlas(self) -> tuple[str, ...]:
        """The names of the constituents that come from the atlas; those of a file that cannot be read are left out."""
        if self.names is not None or self.atlas is None:
            return distinct(self.names) if self.names else ()
        try:
            return tuple(atlas_entries(self.atlas))
        except SwmodelError:
            return ()

    def series(self, name: str, owner: Any, on: Surroundings) -> Tide:
        """The Tide; formulas become arrays, and files are read along the open sides of the section."""
        grid, rule = on.grid, numbers_of(owner.part)[name]
        constituents: dict[str, Any] = {}
        position = rule.position or "h"
        options: Any = {"sides": None, "units": rule.units, "position": position, "velocity": None}
        if issubclass(owner.part, OpenBoundary):
            velocity = owner.part.velocity_counts if name == "velocity" else None
            options |= {"sides": owner.sides, "velocity": velocity}
        if self.atlas is not None:
            pairs = atlas_constants(self.atlas, grid, names=self.names, depths=self.depths, **options)
            constituents = {key: tuple(evaluated(x, grid) for x in pair) for key, pair in pairs.items()}
        for key, pair in self.constituents.items():
            if isinstance(pair, ConstituentFile):
                names = {key: (pair.amplitude, pair.phase)}
                pairs = harmonic_constants(pair.file, names, grid, stated=pair.units, **options)
                constituents[key] = tuple(evaluated(x, grid) for x in pairs[key])
            else:
                constituents[key] = tuple(
                    along_sides(getattr(pair, part), grid, position, f"{name}: {part} of {key}", owner)
                    for part in ("amplitude", "phase")
                )
        level, anomaly = (getattr(self, key, None) for key in ("level", "anomaly"))  # which `tide_section` adds
        level = on_grid(level, grid, position, f"{name}: level")
        anomaly = anomaly and anomaly.series(name, owner, on)
        tide = Tide(constituents, on.start, self.ramp, self.latitude, level, anomaly)
        tide.check_limits(rule, name)
        return tide

    def check_value(self, name: str, owner: Any, on: Surroundings) -> None:
        """Raise an error for files that cannot be read, or do not cover the open sides or the run."""
        if (anomaly := getattr(self, "anomaly", None)) is not None:
            anomaly.check_value(name, owner, on)
        self.series(name, owner, on)


class ConstituentFile(Section):
    """Amplitude and phase lag on the axes of a netCDF file, which must cover the open sides."""

    tag: ClassVar[str] = "constants"
    marked_by: ClassVar = ("file",)

    file: InputFile  # netCDF file
    amplitude: str | None = None  # name of its variable; eta_amplitude_M2 of M2 unless given, for currents u_ or v_
    phase: str | None = None  # name of its variable; eta_phase_M2 of M2 unless given, likewise
    units: tuple[str, str] | None = None  # of amplitude and phase lag where the file gives none, as ["cm", "degree"]


def _named(found):
    """{canonical name: constituent}."""
    return dict(zip(distinct(found), found.values())) if found else {}


@functools.cache
def tide_section(unit: str) -> type[TideSection]:
    """The TideSection of a parameter in `unit`."""

    sizes = Formula(Number(units=unit), "numbers")

    class Constituent(Section):
        amplitude: Annotated[Listed, sizes]  # amplitude; a list lies along the sides, a number for each cell
        phase: Annotated[Listed, LAGS]  # Greenwich phase lag, likewise

    class Tide(TideSection):
        constituents: Annotated[
            dict[str, ConstituentFile | Constituent], _named
        ] = {}  # {name = {amplitude, phase}}, as "M2"
        level: Annotated[float | Expression, Formula(Number(units=unit))] | None = None  # mean, a number or formula
        anomaly: RecordFile | None = None  # records that are added, as of the sea level without tides

    return Tide


def _in_time(value):
    if not isinstance(value, str):
        raise ValueError(f"{value!r} is not a formula; write one as in 'sin(2 * pi * t / (12 * hour))'")
    return Expression(value, in_time=True)


class FormulaSection(SeriesSection):
    """A formula of the coordinates and of the time."""

    tag: ClassVar[str] = "formula"
    marked_by: ClassVar = ("formula",)

    formula: Annotated[Expression, Before(_in_time)]  # in SI units, of the coordinates and of t, the seconds of the run
    every: PositiveSeconds = 60.0  # between two evaluations; linear in between

    def records(self, on: Surroundings) -> FunctionOfTime:
        return FunctionOfTime(self.formula, on.until, self.every, f"the formula {self.formula.text!r}")

    def series(self, name: str, owner: Any, on: Surroundings) -> FunctionOfTime:
        return self.records(on)

    def check_value(self, name: str, owner: Any, on: Surroundings) -> None:
        """Raise ConfigError for values beyond the limits of the parameter."""
        self.records(on).check(on.grid, name, numbers_of(owner.part)[name], on.until)


WAVES: dict[str, Any] = {"solitary": SolitaryWave, "cnoidal": CnoidalWave}


class RecordPatch(Section):
    """Fields that take precedence where and when they have values, as finer winds round a storm."""

    file: InputFiles | None = None  # netCDF or OWI; that of the record unless given
    variable: str | None = None  # its name in the file; that of the record unless given
    units: str | None = None  # where the file does not give them; they must be the parameter's


class RecordFile(SeriesSection):
    """Records: one series, from a csv file with a line of names or a netCDF file; or fields of a netCDF file."""

    tag: ClassVar[str] = "record"
    marked_by: ClassVar = ("file",)

    file: InputFiles  # csv or netCDF; of fields also several files of consecutive times, as "pressure_*.nc"
    variable: str | None = None  # its name in the file, where there are several
    time: str | None = None  # name of the times: seconds of the run, or dates; the first column unless given
    units: str | None = None  # of fields, where the file does not give them; they must be the parameter's
    missing: Literal["refuse", "nearest"] = "refuse"  # of fields: what is done about missing values
    patches: tuple[RecordPatch, ...] = ()  # of fields: finer ones over parts of them, the first before the others

    def controls(self) -> list[str]:
        return ["", "values"]

    def records(self, on: Surroundings) -> FileRecords | None:
        variable: Any = self.variable
        first = self.file[0] if isinstance(self.file, tuple) else self.file
        if is_table(first) or not is_gridded(first, self.variable):
            return None
        patches = tuple(
            FileRecords(each.file or self.file, each.variable or variable, on.start, each.units)
            for each in self.patches
        )
        return FileRecords(self.file, variable, on.start, self.units, self.missing, patches)

    def series(self, name: str, owner: Any, on: Surroundings) -> FileRecords | Record:
        return self.records(on) or self.record(on.start)

    def record(self, start: Any = None) -> Record:
        """The one series in the file; dates count from `start`, or without it from the first one."""
        if isinstance(self.file, tuple):
            raise DataError(f"{self.file[0]} and further files hold a series, which one file must hold; join them")
        return read_series(self.file, self.variable, self.time, start)

    def check_value(self, name: str, owner: Any, on: Surroundings) -> None:
        """Raise an error for files that cannot be read, lack a series, or do not cover the run."""
        rule, file = numbers_of(owner.part)[name], cast(Path, self.file)
        if (fields := self.records(on)) is not None:
            fields.check(on.grid, name, rule, on.until)
            return
        record = self.record(on.start)
        check_series_units(file, self.variable, self.time, rule.units)
        record.check_limits(rule, f"{name} in {file}")
        end = min(on.until, getattr(owner, "until", None) or np.inf)
        first, last = record.times[0], record.times[-1]
        if first > 0:
            raise ConfigError(f"{name}: {file} begins at {first:g} s; let it begin at 0 or before")
        if last < end * (1 - 1e-6):
            more = ", or until, when the side becomes open" if hasattr(owner, "until") else ""
            raise ConfigError(
                f"{name}: {file} ends at {last:g} s, and the run needs it until {end:g} s; give a longer "
                f"record, a shorter run{more}"
            )


class WaveSection(SeriesSection):
    """A wave, with the parameters of its class as keys."""

    tag: ClassVar[str] = "wave"
    of: ClassVar[Any]

    wave: Annotated[str, Choice(tuple(WAVES))]

    @classmethod
    def fits(cls, table: Mapping[str, Any]) -> bool:
        """Whether the table names this wave; an unknown one is read as the first, which refuses it."""
        return "wave" in table and WAVES.get(str(table["wave"]), SolitaryWave) is cls.of

    def check(self) -> None:
        super().check()
        try:
            self.build()
        except SwmodelError as error:
            raise ValueError(str(error)) from None

    def controls(self) -> list[str]:
        return ["height" if self.of is SolitaryWave else ""]

    def series(self, name: str, owner: Any, on: Surroundings) -> SolitaryWave | CnoidalWave:
        return self.build(on.gravity)

    def build(self, gravity: float = GRAVITY) -> SolitaryWave | CnoidalWave:
        """The wave that the section describes, in a gravity [m s-2]."""
        own = {name: value for name, value in self if name in self.of.__dataclass_fields__}
        return self.of(**own, gravity=gravity)


@functools.cache
def _wave_section(cls):
    """The section of a wave, whose gravity is the model's."""
    fields = [field for field in dataclasses.fields(cls) if field.name != "gravity"]
    keys = {field.name: Annotated[float, field.metadata["rule"].of_files()] for field in fields}
    defaults = {field.name: field.default for field in fields if field.default is not dataclasses.MISSING}
    return type(f"{cls.__name__}Section", (WaveSection,), {"of": cls, "__annotations__": keys, **defaults})


def _of_one_kind(elevation, value):
    """A table that has the key of one kind only, and no elevation in place of what is none."""
    if not isinstance(value, dict):
        return value
    for key, text in (("inverse_barometer", "inverse_barometer = true"), ("wave", "a wave")):
        if key in value and not elevation:
            raise ValueError(f"{text} is an elevation, and this is none; leave it out")
    keys = {"constituents" if key == "atlas" else key for key in value}
    kinds = [key for key in ("constituents", "file", "formula", "wave") if key in keys]
    if len(kinds) > 1:
        raise ValueError(
            f"{' and '.join(kinds)} exclude one another; give a tide, records, a formula or a wave, of which each "
            "may have inverse_barometer = true, too"
        )
    return value


def number_or_series(plain: Any, unit: str, elevation: bool) -> Any:
    """The annotation of a key that is `plain`, or a tide, a record, a formula in time or, of an `elevation`, a wave."""
    kinds = plain | tide_section(unit) | RecordFile | FormulaSection
    if elevation:
        kinds = functools.reduce(operator.or_, map(_wave_section, WAVES.values()), kinds | BarometerSection)
    return Annotated[kinds, Before(functools.partial(_of_one_kind, elevation))]
