"""The sections that say what happens and what is kept: source, initial state, output, run."""

import datetime
from pathlib import Path
from typing import Annotated, Literal

from pydantic import AfterValidator, BeforeValidator, Field, model_validator

from ..defaults import MAXIMA_THRESHOLD, RIGIDITY
from .quantities import in_unit
from .sections import (
    AnyCoordinate,
    Degrees,
    Devices,
    Flag,
    FormulaInMetres,
    FormulaInMetresPerSecond,
    Fraction,
    InputFile,
    Layout,
    Metres,
    NonNegativeMetres,
    NonNegativeSeconds,
    Place,
    PositiveMetres,
    PositiveSeconds,
    RangeOfSeconds,
    SecondsOrAuto,
    Section,
    existing_folder,
    written_path,
)

__all__ = ["Source", "Initial", "Output", "Run"]


class Fault(Section):
    """One rectangular fault; `swmodel.sources.Fault` says what each number means."""

    longitude: AnyCoordinate  # degrees; x [m] on a plane
    latitude: AnyCoordinate
    depth: NonNegativeMetres
    length: PositiveMetres
    width: PositiveMetres
    strike: Degrees
    dip: Annotated[float, in_unit("degree"), Field(ge=0, le=90)]
    rake: Degrees
    slip: NonNegativeMetres
    onset: NonNegativeSeconds = 0.0
    rise_time: NonNegativeSeconds = 0.0
    rigidity: Annotated[float, in_unit("Pa"), Field(gt=0)] = RIGIDITY
    reference: Literal["centroid", "top_centre", "top_corner", "bottom_centre", "bottom_corner"] = "centroid"


class Source(Section):
    """An earthquake: faults from a table, or written here."""

    file: InputFile | None = None
    faults: tuple[Fault, ...] = ()
    horizontal: Flag = False  # lift by horizontal motion of slopes (Tanioka & Satake 1996)
    kajiura: Flag = False  # 1 / cosh(k H) smoothing (Kajiura 1963)
    every: SecondsOrAuto = "auto"  # how often the motion is sampled

    @model_validator(mode="after")
    def _one_table(self):
        if (self.file is None) == (not self.faults):
            raise ValueError("give either file (a table of faults) or [[source.faults]], and one of them")
        return self


class Rest(Section):
    type: Literal["rest"]


class InitialFormula(Section):
    """Formulas of the coordinates."""

    type: Literal["formula"]
    eta: FormulaInMetres = 0.0
    u: FormulaInMetresPerSecond = 0.0
    v: FormulaInMetresPerSecond = 0.0


class GaussianBump(Section):
    """eta = amplitude exp(-(r / radius)^2), at rest; r is the distance on the plane or along the sphere."""

    type: Literal["gaussian"]
    amplitude: Metres
    centre: Place
    radius: PositiveMetres


class RandomVortices(Section):
    """Vortices of about one wavelength, balanced by the elevation."""

    type: Literal["random_vortices"]
    speed: Annotated[float, in_unit("m s-1"), Field(gt=0)]
    length: PositiveMetres
    seed: Annotated[int, Field(strict=True, ge=0)] = 0


class InitialFile(Section):
    """eta, u, v from a file that swmodel wrote on the same grid: a restart, an inversion, or a record of fields."""

    type: Literal["file"]
    file: InputFile
    record: Annotated[int, Field(strict=True)] = -1


Initial = Annotated[Rest | InitialFormula | GaussianBump | RandomVortices | InitialFile, Field(discriminator="type")]


def _file_name(value):
    if not value.endswith(".nc"):
        raise ValueError(f"{value!r} does not end in .nc")
    return written_path(value)


OutputFile = Annotated[str, AfterValidator(_file_name)]


def _different(names):
    if len(set(names)) < len(names):
        raise ValueError("a variable is named twice")
    return names


VariableNames = Annotated[tuple[str, ...], Field(min_length=1), AfterValidator(_different)]  # known: variables.py


class Fields(Section):
    file: OutputFile
    variables: VariableNames
    every: PositiveSeconds


class Gauges(Section):
    """Series at points, and how they are scored; `postprocess/scores.py` has the definitions."""

    file: OutputFile = "gauges.nc"
    variables: VariableNames = ("eta",)
    positions: Annotated[dict[str, Place], Field(min_length=1)]
    observations: Annotated[Path, BeforeValidator(existing_folder)] | None = None
    window: RangeOfSeconds | dict[str, RangeOfSeconds] | None = None  # to be scored; the whole run unless given
    threshold: PositiveMetres = MAXIMA_THRESHOLD  # a gauge that stays below it has no arrival
    arrival_fraction: Fraction = 0.2  # of its maximum: the wave has arrived

    @property
    def windows(self) -> dict[str, tuple[float, float]]:
        """{gauge: (first, last) [s]} of the gauges that have a window."""
        if isinstance(self.window, tuple):
            return dict.fromkeys(self.positions, self.window)
        return dict(self.window or {})


class Maxima(Section):
    file: OutputFile = "maxima.nc"
    threshold: PositiveMetres = 0.01


class Spectra(Section):
    """Isotropic spectra of energy and enstrophy; see docs/spectra.md."""

    file: OutputFile = "spectra.nc"
    every: PositiveSeconds
    transfers: Flag = True  # and what moves them from scale to scale


class Restart(Section):
    file: OutputFile = "restart.nc"
    every: PositiveSeconds


class Output(Section):
    folder: Annotated[str, AfterValidator(written_path)] = "."
    fields: tuple[Fields, ...] = ()
    gauges: Gauges | None = None
    maxima: Maxima | None = None
    spectra: Spectra | None = None
    restart: Restart | None = None


def _utc(value):
    if isinstance(value, str):
        try:
            value = datetime.datetime.fromisoformat(value)
        except ValueError:
            pass
    if isinstance(value, datetime.datetime):
        try:
            return value.astimezone(datetime.UTC).replace(tzinfo=None) if value.tzinfo else value
        except OverflowError:
            raise ValueError(f"{value.isoformat()} is before the year 1 or after 9999 in UTC; give another") from None
    if isinstance(value, datetime.date):
        return datetime.datetime(value.year, value.month, value.day)
    raise ValueError(f"expected a date and time in UTC, as in 2011-03-11T05:46:23, got {value!r}")


class Run(Section):
    until: PositiveSeconds
    title: str = ""
    start: Annotated[datetime.datetime, BeforeValidator(_utc)] | None = None
    communicator: Literal["auto", "serial", "mpi", "sharded"] = "auto"
    layout: Layout = None
    devices: Devices = None  # of communicator = "sharded": all GPUs, or one a core
    engine: Literal["auto", "fused", "arrays"] = "auto"
    stages_per_exchange: Annotated[int, Field(strict=True, ge=1)] | Literal["auto"] = 1

    @model_validator(mode="after")
    def _ends_in_the_calendar(self):
        start = self.start or datetime.datetime(2000, 1, 1)
        if self.until > (datetime.datetime.max - start).total_seconds() - 86400.0:
            raise ValueError(
                f"until = {self.until:.4g} s after {start:%Y-%m-%d} is beyond the year 9999, where calendars end; "
                "shorten the run"
            )
        return self

    @model_validator(mode="after")
    def _devices_of_what(self):
        if self.devices is not None and self.communicator != "sharded":
            raise ValueError(f"devices = {self.devices} is for communicator = 'sharded', not {self.communicator!r}")
        return self
