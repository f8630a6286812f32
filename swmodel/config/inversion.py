"""The section [inversion]: the controls to estimate, their prior uncertainty, and the observations to fit.

[inversion]
until = "2 hour"

[[inversion.controls]]
type = "unit_sources"
x = [141, 145.5]
y = [35, 41]
spacing = 0.5
deviation = "2 m"

[inversion.observations]
type = "gauges"
window = ["15 minute", "2 hour"]
"""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, model_validator

from .adjoint import Names, _memory, known_controls
from .mistakes import Mistake, nearest
from .scenario import Fault, OutputFile
from .sections import (
    AnyCoordinate,
    Count,
    Flag,
    Fraction,
    InputFile,
    NonNegativeMetres,
    NonNegativeSeconds,
    Number,
    Place,
    PositiveDegrees,
    PositiveMetres,
    PositiveNumber,
    PositiveSeconds,
    RangeOfSeconds,
    Section,
    existing_folder,
)

__all__ = ["Inversion", "inversion_mistakes"]

Coordinates = tuple[AnyCoordinate, AnyCoordinate]
TARGETS = {
    "unit_sources": ["initial.eta"], "faults": ["initial.eta"], "balanced": ["initial.eta", "initial.u", "initial.v"],
}  # fmt: skip
OF_TRUTH = ("bathymetry", "model", "coriolis", "initial", "source", "forcing", "dissipation", "boundary")


class UnitSources(Section):
    """The initial elevation as a sum of unit sources on a patch."""

    type: Literal["unit_sources"]
    x: Coordinates
    y: Coordinates
    spacing: Annotated[AnyCoordinate, Field(gt=0)]  # degrees on the sphere, m on a plane
    deviation: PositiveMetres
    length: NonNegativeMetres = 0.0  # of the correlation
    uplift_only: NonNegativeMetres = 0.0  # w of a = w log(1 + exp(R p / w)); 0: both signs


class Faults(Section):
    """The initial elevation as the sea surface above faults that slip at once; each key is the error of that number."""

    type: Literal["faults"]
    file: InputFile | None = None
    faults: tuple[Fault, ...] = ()
    longitude: Annotated[AnyCoordinate, Field(gt=0)] | None = None
    latitude: Annotated[AnyCoordinate, Field(gt=0)] | None = None
    strike: PositiveDegrees | None = None
    dip: PositiveDegrees | None = None
    rake: PositiveDegrees | None = None
    slip: PositiveNumber | None = None  # relative, as the next three
    depth: PositiveNumber | None = None
    length: PositiveNumber | None = None
    width: PositiveNumber | None = None
    horizontal: Flag = False
    kajiura: Flag = True

    @property
    def spreads(self) -> dict[str, float]:
        """{name of a field of Fault: error}."""
        names = ("longitude", "latitude", "strike", "dip", "rake", "slip", "depth", "length", "width")
        return {name: float(getattr(self, name)) for name in names if getattr(self, name) is not None}

    @model_validator(mode="after")
    def _something(self):
        if (self.file is None) == (not self.faults):
            raise ValueError("give either file (a table of faults) or [[inversion.controls.faults]], and one of them")
        if not self.spreads:
            raise ValueError("nothing of the faults is uncertain; give an error to slip, depth, strike, ...")
        return self


class FieldControl(Section):
    """A field of the model: what the file gives is its background."""

    type: Literal["field"]
    name: str
    deviation: PositiveNumber  # in the control's unit; relative where it is positive
    length: PositiveMetres  # of the correlation
    positive: Flag = False


class NumberControl(Section):
    """A number of the model: what the file gives is its background."""

    type: Literal["number"]
    name: str
    deviation: PositiveNumber
    positive: Flag = False


class BalancedControl(Section):
    """The initial state: elevation, and velocities in geostrophic balance with its change."""

    type: Literal["balanced"]
    deviation: PositiveMetres
    length: PositiveMetres


Control = Annotated[UnitSources | Faults | FieldControl | NumberControl | BalancedControl, Field(discriminator="type")]


class GaugeObservations(Section):
    """Records of gauges: those of --observations, of a folder, or, without either, of the twin."""

    type: Literal["gauges"]
    folder: Annotated[Path, BeforeValidator(existing_folder)] | None = None
    gauges: Names | None = None  # all that have a record unless given
    positions: dict[str, Place] = {}
    window: RangeOfSeconds | dict[str, RangeOfSeconds]
    deviation: PositiveMetres | None = None  # of the errors; 5 cm unless this or `error` is given
    error: PositiveNumber | None = None  # and a part that is a share of each gauge's own standard deviation
    independent: NonNegativeSeconds = 120.0
    every: PositiveSeconds = 15.0  # of the twin's


class TrackObservations(Section):
    """Points along the tracks of an altimeter: of a file, or, without it, of the twin."""

    type: Literal["tracks"]
    file: InputFile | None = None
    deviation: PositiveMetres | None = None  # of the errors, where the file does not give it
    every: PositiveSeconds | None = None  # of the twin's: from pass to pass
    apart: PositiveMetres | None = None  # between points
    between: PositiveMetres | None = None  # between passes
    tilt: Number = 0.35

    @model_validator(mode="after")
    def _enough(self):
        if self.file is None and None in (self.deviation, self.every, self.apart, self.between):
            raise ValueError("tracks of the twin need deviation, every, apart and between; or give a file")
        return self


Observations = Annotated[GaugeObservations | TrackObservations, Field(discriminator="type")]


class Twin(Section):
    """Observations that a run of the model itself gives, with errors; used where there are no others."""

    truth: dict[str, Any] = {}  # keys of the experiment that are otherwise there, as "source.file"
    spin_up: NonNegativeSeconds = 0.0  # of the truth, and of the background: each with its own forcing, before the run
    seed: Annotated[int, Field(strict=True, ge=0)] = 0


class Inversion(Section):
    """What `swmodel invert` looks for."""

    controls: Annotated[tuple[Control, ...], Field(min_length=1)]
    observations: Observations
    twin: Twin | None = None
    until: PositiveSeconds | None = None  # that of [run] unless given
    method: Literal["auto", "green", "linear", "incremental", "descent"] = "auto"
    loops: Count = 20  # outer ones; of descent: iterations
    products: Count = 40  # of an inner loop of 'incremental'
    residual: Fraction = 1e-3  # of an inner loop, relative
    uncertainty: Count | None = None  # products for the error that is left; those of the last inner loop unless given
    decrease: Fraction = 1e-3
    withhold: Flag | Names = False  # true: one gauge after the other; names: gauges that are compared, and not used
    members: Annotated[int, Field(strict=True, ge=0)] = 20  # of the ensembles that give the spread at gauges
    memory: Annotated[float, BeforeValidator(_memory)] | None = None
    file: OutputFile = "inversion.nc"
    restart: OutputFile = "inversion.restart.nc"

    @model_validator(mode="after")
    def _two_files(self):
        if self.file == self.restart:
            raise ValueError(f"file and restart are one file, {self.file!r}; give them different names")
        return self

    @property
    def chosen(self) -> str:
        """The method, where it is "auto": Green's functions of a patch, linear runs for faults, else exact ones."""
        if self.method != "auto":
            return self.method
        kinds = {control.type for control in self.controls}
        if kinds == {"unit_sources"} and len(self.controls) == 1:
            return "green"
        return "linear" if kinds <= {"unit_sources", "faults"} else "incremental"


def inversion_mistakes(sections: Mapping[str, Any]) -> Iterator[Mistake]:
    """Mistakes in names and times that can be found from the file alone."""
    section = sections.get("inversion")
    if section is None:
        return
    yield from _control_mistakes(section, sections)
    for key in {} if section.twin is None else section.twin.truth:
        if key.partition(".")[0] not in OF_TRUTH:
            text = f"{key!r} is the same in the truth; give keys of {', '.join(OF_TRUTH)}"
            yield Mistake(("inversion", "twin", "truth"), text)
    yield from _gauge_mistakes(section, sections)
    run = sections.get("run")
    if run is not None and section.observations.type == "gauges":
        end, window = section.until or run.until, section.observations.window
        for name, (_, last) in window.items() if isinstance(window, dict) else [(None, window)]:
            if last > end * (1 + 1e-9):
                path = ("inversion", "observations", "window", *([] if name is None else [name]))
                yield Mistake(path, f"{last:g} s is after the end of the run, at {end:g} s; change it, or until")
    if section.method == "green":
        others = [k for k, control in enumerate(section.controls) if control.type != "unit_sources"]
        if others or len(section.controls) > 1:
            yield Mistake(
                ("inversion", "method"), "'green' is for one patch of unit sources; use 'linear' or 'incremental'"
            )
    if section.method == "linear" and {control.type for control in section.controls} - {"unit_sources", "faults"}:
        text = "'linear' is for the numbers of unit sources and faults; use 'incremental', which is for all controls"
        yield Mistake(("inversion", "method"), text)


def _control_mistakes(section, sections):
    """Of names that the model does not have, and of those that two controls change."""
    known, taken = known_controls(sections), {}
    for k, control in enumerate(section.controls):
        targets = TARGETS.get(control.type) or [control.name]
        for name in targets:
            if name not in known:
                yield Mistake(
                    ("inversion", "controls", k, "name"), f"there is no control {name!r}; {nearest(name, known)}"
                )
            elif name in taken:
                text = f"{name} is changed by the control number {taken[name] + 1}, too; one has to do"
                yield Mistake(("inversion", "controls", k), text)
            taken.setdefault(name, k)


def _gauge_mistakes(section, sections):
    observations, output = section.observations, sections.get("output")
    if output is None:
        return
    if observations.type == "tracks":
        if observations.file is None and section.twin is None:
            yield Mistake(
                ("inversion", "observations"), "there is neither a file of tracks nor [inversion.twin]; give one"
            )
        return
    written = {} if output.gauges is None else output.gauges.positions
    placed = {**written, **observations.positions}
    for name in observations.gauges or ():
        if name not in placed:
            yield Mistake(
                ("inversion", "observations", "gauges"), f"there is no gauge {name!r}; {nearest(name, placed)}"
            )
    if not placed:
        text = "no gauge has a place; name them in [inversion.observations.positions] or [output.gauges.positions]"
        yield Mistake(("inversion", "observations"), text)
    withheld = () if isinstance(section.withhold, bool) else section.withhold
    known = observations.gauges or tuple(placed)
    for name in withheld:
        if name not in known:
            yield Mistake(("inversion", "withhold"), f"there is no gauge {name!r}; {nearest(name, known)}")
    if withheld and set(known) <= set(withheld):
        yield Mistake(("inversion", "withhold"), "all gauges are withheld, and none is left to use; leave one out")
    windows = observations.window if isinstance(observations.window, dict) else {}
    for name in windows:
        if name not in placed:
            path = ("inversion", "observations", "window", name)
            yield Mistake(path, f"there is no gauge {name!r}; {nearest(name, placed)}")
    for name in observations.gauges or ():
        if windows and name not in windows:
            text = f"gauge {name!r} has no window; give it one, or leave that gauge out"
            yield Mistake(("inversion", "observations", "window"), text)
    elsewhere = output.gauges is not None and output.gauges.observations is not None
    if observations.folder is None and not elsewhere and section.twin is None:
        text = "there are no observations; give --observations DIR, folder, or [inversion.twin] to make some"
        yield Mistake(("inversion", "observations"), text)
