"""The section [adjoint]: the cost, the controls, and the length of the run that is differentiated.

[adjoint]
controls = ["initial.eta", "depth"]
until = "1 hour"

[adjoint.cost]
type = "gauge_elevation"
gauges = "21418"
time = "1 hour"

The keys of a cost are the parameters that the classes in adjoint/costs/ declare. In place of coordinates, a file has
the names of gauges, and in place of records, a folder of files.
"""

import dataclasses
import datetime
import functools
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

import numpy as np

from ..adjoint.costs import costs
from ..adjoint.costs.harmonics import HarmonicConstants, constants_in
from ..adjoint.costs.marks import Mark, marks_in
from ..adjoint.costs.misfits import Current, SectionRecord, currents_in, transports_in
from ..adjoint.costs.records import AllTracks, Record, Tracks, read_tracks, records_in
from ..errors import ConfigError, ended, nearest
from ..fields.parameters import Number, Places
from ..fields.variables import PROGNOSTIC, in_layer
from .parts import (
    PARTS,
    PartSection,
    Shipped,
    layer_count,
    section_about,
    sections_of,
    stepped_names,
    transported_controls,
)
from .reading import OneOf
from .scenario import Output, OutputFile
from .sections import (
    Count,
    Folder,
    InputFile,
    InputFiles,
    Memory,
    Names,
    Place,
    PositiveMetres,
    PositiveSeconds,
    RangeOfSeconds,
    Section,
    Surroundings,
    not_empty,
)
from .toml import Mistake, mistakes_of_names

PositiveSpeed = Annotated[float, Number(units="m s-1", above=0.0)]
PositiveTransport = Annotated[float, Number(units="m3 s-1", above=0.0)]
Window = tuple[float, float]  # (first, last) [s]
NonNegativeNumber = Annotated[float, Number(minimum=0.0)]


class GaugeNames(Section):
    """Gauges by their names: those of [output], and those of this table."""

    gauges: Names | None = None  # names of gauges in [output.gauges.positions]; all unless given
    positions: dict[str, Place] = {}  # {name = [x, y]} of further gauges

    def known(self, output: Output) -> dict[str, tuple[float, float]]:
        """{name: (x, y)} of the gauges that may be named."""
        return points_of(({} if output.gauges is None else output.gauges.positions) | self.positions)

    def mistakes_of_gauges(self, path: tuple, output: Output) -> Iterator[Mistake]:
        """Mistakes of names of gauges in the table at `path`."""
        placed = self.known(output)
        yield from mistakes_of_names(self.gauges or (), placed, (*path, "gauges"))
        if not placed:
            table = ".".join(part for part in path if isinstance(part, str))
            yield Mistake(path, f"no gauge has a place; name them in [{table}.positions] or [output.gauges.positions]")


class _AtGauges(PartSection, GaugeNames):
    """The keys of a cost with the parameter `places`, the points that it reads: gauges, by their names."""

    def places(self, output: Output) -> dict[str, tuple[float, float]]:
        """{name: (x, y)} of the gauges that the cost reads."""
        known = self.known(output)
        return {name: known[name] for name in self.gauges or self.positions or known}

    def parameters_from_keys(self, on: Surroundings) -> dict[str, Any]:
        """The parameters of the cost that follow from these keys."""
        return {"places": self.places(on.output)}

    def mistakes(self, output: Output) -> Iterator[Mistake]:
        """Mistakes of names of gauges."""
        yield from self.mistakes_of_gauges(("adjoint", "cost"), output)


class _OfRecords(_AtGauges):
    """The keys of a cost whose parameter `records` holds observations."""

    gauges: Names | None = None  # names of gauges; all that have a record unless given
    observations: Folder | None = None  # of NAME.csv or .nc (time_s, elevation_m); that of [output.gauges] unless given
    deviation: PositiveMetres | dict[str, PositiveMetres] | None = None  # of errors; that of each record unless given
    window: RangeOfSeconds | dict[str, RangeOfSeconds] | None = None  # (first, last) that count, of all gauges or each

    def parameters_from_keys(self, on: Surroundings) -> dict[str, Any]:
        """Each record has its own window and standard deviation unless the file gives others."""
        folder, made = self._folder(on.output), {}
        assert folder is not None  # a missing folder has been reported as a mistake
        places, others = self.places(on.output), self.known(on.output)
        for name, record in records_in(folder, places, self.gauges, others, on.start).items():
            window, deviation = (v.get(name) if isinstance(v, dict) else v for v in (self.window, self.deviation))
            record = dataclasses.replace(record, window=window)
            own = np.std(record.counted()[1]) if record.counted()[1].size else 1.0
            made[name] = dataclasses.replace(record, deviation=deviation or float(own) or 1.0)
        return {"records": made}

    def mistakes(self, output: Output) -> Iterator[Mistake]:
        """Mistakes of names of gauges, and of a missing folder."""
        yield from super().mistakes(output)
        if self._folder(output) is None:
            text = "observations is missing: give a folder of NAME.csv or NAME.nc with time_s and elevation_m"
            yield Mistake(("adjoint", "cost"), text)
        for key, given in (("deviation", self.deviation), ("window", self.window)):
            names = given if isinstance(given, dict) else ()
            yield from mistakes_of_names(names, self.known(output), ("adjoint", "cost", key), keys=True)

    def _folder(self, output):
        written = None if output.gauges is None else output.gauges.observations
        return written if self.observations is None else self.observations


class ConstantsTable(Section):
    """Harmonic constants of gauges, from a table."""

    file: InputFile  # table, CSV or netCDF: name, x, y, M2_amplitude_m, M2_phase_deg
    constituents: Names  # the constituents that are compared, as "M2"
    gauges: Names | None = None  # names of gauges; all of the file unless given
    deviation: PositiveMetres | None = None  # of errors of A cos g and A sin g; deviation_m of the file unless given
    error: NonNegativeNumber = 0.0  # a further part, as a fraction of each amplitude

    def constants(self) -> tuple[dict[str, Any], list[str]]:
        """({name: HarmonicConstants}, names that the file excludes) of the gauges that are chosen.

        Raises:
            ConfigError: for a gauge that the file does not have.
        """
        constants, unused = constants_in(self.file, self.constituents, self.deviation, self.error)
        for name in self.gauges or ():
            if name not in constants:
                text = f"{self.file} has no gauge {name!r} with these constituents; {nearest(name, constants)}"
                raise ConfigError(ended(text))
        return {name: constants[name] for name in self.gauges or constants}, unused

    def parameters_from_keys(self, on: Surroundings) -> dict[str, Any]:
        """The parameter of a cost that holds harmonic constants."""
        return {"constants": self.constants()[0]}


class PointKeys(Section):
    """Velocities at points, from a folder of NAME.csv or NAME.nc (time_s, u_m_s, v_m_s)."""

    positions: Annotated[dict[str, Place], not_empty]  # {name = [x, y]} of the places
    deviation: PositiveSpeed  # standard deviation of the error of each component

    def places(self, output: Output | None = None) -> dict[str, tuple[float, float]]:
        """{name: (x, y)} of the points."""
        return points_of(self.positions)

    def observed(self, folder: Path, window: Window | None, start: datetime.datetime | None) -> dict[str, Current]:
        """{name: Current} of the files."""
        return currents_in(folder, self.places(), self.deviation, window, start)


class SectionEnds(Section):
    """The ends of a section along a grid line."""

    start: Place  # (x, y) where it begins
    end: Place  # (x, y) where it ends, with the same x or the same y

    @property
    def ends(self) -> tuple[tuple[float, float], tuple[float, float]]:
        """((x, y), (x, y)) of both ends."""
        first, last = points_of({"start": self.start, "end": self.end}).values()
        return first, last


class SectionKeys(Section):
    """Transports through sections, from a folder of NAME.csv or NAME.nc (time_s, transport_m3_s)."""

    sections: Annotated[dict[str, SectionEnds], not_empty]  # {name = {start = [x, y], end = [x, y]}}
    deviation: PositiveTransport  # standard deviation of the error of a transport

    def places(self, output: Output | None = None) -> dict[str, tuple]:
        """{name: ((x, y), (x, y))} of the ends of the sections."""
        return {name: section.ends for name, section in self.sections.items()}

    def observed(
        self, folder: Path, window: Window | None, start: datetime.datetime | None
    ) -> dict[str, SectionRecord]:
        """{name: SectionRecord} of the files."""
        return transports_in(folder, self.places(), self.deviation, window, start)


class TrackKeys(Section):
    """Points along tracks: a table, or files of altimeters."""

    file: InputFiles  # of points: a table of x, y, time_s, elevation_m, deviation_m; or of altimeters
    deviation: PositiveMetres | None = None  # standard deviation of the errors, where the file does not give it
    variable: str | None = None  # of altimeters: the level; sla_unfiltered, ssha_unfiltered or ssha_karin unless given
    add: Names = ()  # of altimeters: what was subtracted from the level and is added again, as ["ocean_tide", "dac"]
    thin: Count = 1  # of altimeters: every n-th sample, along both directions of a swath

    def tracks(self, start: datetime.datetime | None) -> Tracks:
        """The points of the files."""
        return read_tracks(self.file, self.deviation, start, self.variable, self.add, self.thin)

    def parameters_from_keys(self, on: Surroundings) -> dict[str, Any]:
        """The parameter of a cost that holds observations along tracks."""
        return {"tracks": self.tracks(on.start)}


class MarkKeys(Section):
    """A table of high-water marks."""

    file: InputFile  # table, CSV or netCDF: x, y, elevation_m or depth_m; name, deviation_m
    deviation: PositiveMetres | None = None  # standard deviation of the errors, where the table has no deviation_m

    def marks(self, spherical: bool | None = None) -> dict[str, Mark]:
        """The marks of the table, on a grid of this kind."""
        return marks_in(self.file, self.deviation, spherical)

    def parameters_from_keys(self, on: Surroundings) -> dict[str, Any]:
        """The parameter of a cost that holds high-water marks."""
        return {"marks": self.marks()}


class _OfSeries(Section):
    """The keys of a cost with series of observations, in addition to those of PointKeys or SectionKeys."""

    parameter: ClassVar[str]
    observed: ClassVar[Any]

    observations: Folder  # folder of NAME.csv or NAME.nc: time_s, and u_m_s and v_m_s or transport_m3_s
    window: RangeOfSeconds | None = None  # (first, last) of the observations that count

    def parameters_from_keys(self, on: Surroundings) -> dict[str, Any]:
        """The series of all places."""
        return {self.parameter: self.observed(self.observations, self.window, on.start)}


class _OfCurrents(PointKeys, _OfSeries):
    """The keys of a cost whose parameter `currents` holds velocities."""

    parameter = "currents"


class _OfSections(SectionKeys, _OfSeries):
    """The keys of a cost whose parameter `transports` holds transports."""

    parameter = "transports"


def points_of(positions: Mapping[str, Any]) -> dict[str, tuple[float, float]]:
    """{name: (x, y)} of {name: Place}."""
    return {name: (float(x), float(y)) for name, (x, y) in positions.items()}


KEYS = {
    Record: _OfRecords,
    Places: _AtGauges,
    HarmonicConstants: ConstantsTable,
    Current: _OfCurrents,
    SectionRecord: _OfSections,
    AllTracks: TrackKeys,
    Mark: MarkKeys,
}
cost_section = functools.partial(section_about, keys=KEYS)


class ArrivalTime(Section):
    """The arrival time of a wave, which is refused: it is a step number and has no derivative."""

    type: Literal["arrival_time"]

    takes_others = True

    def check(self) -> None:
        raise ValueError(
            "the arrival time counts steps and has no derivative; use 'gauge_maximum', or 'misfit' to a record"
        )


COSTS = sections_of(cost_section, Shipped(costs.Cost, kind="cost"))
CostSection = Annotated[Any, OneOf(COSTS | {"arrival_time": ArrivalTime}, (costs.Cost,), cost_section)]


def _cost_mistakes(adjoint, sections):
    """Mistakes of the gauges and tracers that the cost names."""
    output = sections.get("output")
    if output is not None and isinstance(adjoint.cost, _AtGauges):
        yield from adjoint.cost.mistakes(output)
    if "tracer" not in sections:  # the sections of tracers have mistakes
        return
    known = stepped_names(sections["tracer"], layer_count(sections))
    for field in dataclasses.fields(adjoint.cost.part):
        name = getattr(adjoint.cost, field.name, None)
        if isinstance(field.metadata.get("rule"), costs.TracerName) and name not in known:
            text = f"there is no tracer {name!r}; {nearest(name, known) if known else 'add a section [[tracer]]'}"
            yield Mistake(("adjoint", "cost", field.name), text)


class Adjoint(Section):
    """What `swmodel adjoint` differentiates."""

    cost: CostSection  # the number J to differentiate
    controls: Names  # the inputs with respect to which it is differentiated
    steps: Count | None = None  # length of the run, in steps
    until: PositiveSeconds | None = None  # that of [run] unless given
    amplitude: dict[str, float | str] = {}  # of each control, for --verify: the size of a realistic error
    memory: Memory | None = None  # [bytes] per rank, for states that are kept
    file: OutputFile = "sensitivity.nc"  # netCDF file to write

    def check(self) -> None:
        if self.steps is not None and self.until is not None:
            raise ValueError("steps and until exclude one another; give one of them")
        for name in self.amplitude:
            if name not in self.controls:
                raise ValueError(f"amplitude: {name!r} is not a control; {nearest(name, self.controls)}")

    def mistakes_with(self, sections: Mapping[str, Any]) -> Iterator[Mistake]:
        yield from _control_mistakes(self, sections)
        yield from _cost_mistakes(self, sections)
        if (run := sections.get("run")) is not None:
            yield from _time_mistakes(self, run)


# -- between sections --------------------------------------------------------------------------------------------------


def known_controls(sections: Mapping[str, Any]) -> list[str]:
    """The names of all controls of the model that the valid `sections` of an experiment describe."""
    stepped = [in_layer(row.name, k) for k in range(layer_count(sections)) for row in PROGNOSTIC]
    names, layers = [*(f"initial.{name}" for name in stepped), "depth", "gravity"], sections.get("layers")
    if layers is not None:
        names += [f"layers.{key}" for key in layers.controls() if getattr(layers, key) is not None]
    for kind in ("forcing", "dissipation", "boundary"):
        for k, term in enumerate(sections.get(kind, ())):
            names += [f"{kind}.{k}.{name}" for name in term.controls()]
    names += transported_controls(sections)
    return names + ["uplift"] * (sections.get("source") is not None)


def _control_mistakes(adjoint, sections):
    """Mistakes of control names; none are looked for if the sections of terms have mistakes."""
    if any(sections.get(kind) is None for kind in PARTS):
        return
    known = known_controls(sections)
    for k, name in enumerate(adjoint.controls):
        if name == "uplift" and name not in known:
            text = "there is no uplift without a [source]; add one, or use 'initial.eta'"
            yield Mistake(("adjoint", "controls", k), text)
        elif name not in known:
            yield Mistake(("adjoint", "controls", k), f"there is no control {name!r}; {nearest(name, known)}")


def _time_mistakes(adjoint, run):
    """Mistakes of the times of a cost: those after the run's end."""
    if adjoint.steps is not None:
        return
    end = run.until if adjoint.until is None else adjoint.until
    whose = "[run]" if adjoint.until is None else "[adjoint]"
    for key in ("time", "window"):
        yield from mistakes_of_end(getattr(adjoint.cost, key, None), ("adjoint", "cost", key), end, f" in {whose}")


def mistakes_of_end(given: Any, path: tuple, end: float, where: str = "") -> Iterator[Mistake]:
    """Times, windows, or a table of windows at `path` that a run to `end` [s] does not reach.

    Args:
        given: a number [s], (first, last), {name: (first, last)} or None.
        path: the path of the key.
        end: the end of the run [s].
        where: the section that has `until`, for the remedy.
    """
    for name, value in given.items() if isinstance(given, dict) else [(None, given)]:
        last = value[1] if isinstance(value, tuple) else value
        if last is not None and last > end * (1 + 1e-9):
            text = f"{last:g} s is after the end of the run, at {end:g} s; change it, or until{where}"
            yield Mistake(path if name is None else (*path, name), text)
