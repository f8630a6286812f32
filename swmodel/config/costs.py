"""The section [adjoint.cost]: the scalar result of the run that is differentiated.

The keys are the parameters that the classes in adjoint/costs/ declare. In place of coordinates, a file has the names of
gauges, and in place of records, a folder of files.
"""

import dataclasses
import datetime
import functools
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeAlias

import numpy as np
from pydantic import BeforeValidator, Field, model_validator

from ..adjoint.costs import costs
from ..adjoint.costs.concentration import TracerName
from ..adjoint.costs.harmonics import AllConstants, constants_in
from ..adjoint.costs.misfits import Currents, SectionRecords, current_in, transport_in
from ..adjoint.costs.records import Records, records_in
from ..adjoint.costs.tracks import AllTracks, read_tracks
from ..errors import ConfigError, ended
from ..fields.parameters import Places
from .mistakes import Mistake, nearest
from .parts import PartSection, chosen_from, section_about, shipped
from .scenario import Output
from .sections import (
    InputFile,
    Names,
    Place,
    PositiveMetres,
    RangeOfSeconds,
    Section,
    existing_folder,
    in_unit,
)
from .tracers import stepped_names
from .variables import layer_count

__all__ = ["COSTS", "CostSection", "chosen_gauges", "cost_mistakes", "cost_section", "file_of"]

Folder = Annotated[Path, BeforeValidator(existing_folder)]
PositiveSpeed = Annotated[float, in_unit("m s-1"), Field(gt=0)]
PositiveTransport = Annotated[float, in_unit("m3 s-1"), Field(gt=0)]
NonNegativeNumber = Annotated[float, in_unit(""), Field(ge=0)]


class _AtGauges(PartSection):
    """The keys of a cost with the parameter `places`, the points that it reads: gauges, by their names."""

    gauges: Names | None = Field(None, description="names of gauges in [output.gauges.positions]; all unless given")
    positions: dict[str, Place] = Field({}, description="{name = [x, y]} of further gauges")

    def known_places(self, output: Output) -> dict[str, tuple[float, float]]:
        """{name: (x, y)} of the gauges that may be named: those of this section, and those that are written."""
        written = {} if output.gauges is None else output.gauges.positions
        return {name: (float(x), float(y)) for name, (x, y) in {**written, **self.positions}.items()}

    def places(self, output: Output) -> dict[str, tuple[float, float]]:
        """{name: (x, y)} of the gauges that the cost reads."""
        known = self.known_places(output)
        return {name: known[name] for name in self.gauges or self.positions or known}

    def parameters_from_keys(self, context: Output, start: datetime.datetime | None) -> dict[str, Any]:
        """The parameters of the cost that follow from these keys."""
        return {"places": self.places(context)}

    def mistakes(self, output: Output) -> Iterator[Mistake]:
        """Mistakes of names of gauges."""
        placed = self.known_places(output)
        for name in self.gauges or ():
            if name not in placed:
                yield Mistake(("adjoint", "cost", "gauges"), f"there is no gauge {name!r}; {nearest(name, placed)}")
        if not placed:
            text = "no gauge has a place; name them in [adjoint.cost.positions] or [output.gauges.positions]"
            yield Mistake(("adjoint", "cost"), text)


class _OfRecords(_AtGauges):
    """The keys of a cost whose parameter `records` holds observations."""

    gauges: Names | None = Field(None, description="names of gauges; all that have a record unless given")
    observations: Folder | None = Field(
        None, description="folder of NAME.csv or NAME.nc (time_s, elevation_m); that of [output.gauges] unless given"
    )
    deviation: PositiveMetres | dict[str, PositiveMetres] | None = Field(
        None, description="standard deviation of an observation's error; that of each record unless given"
    )
    window: RangeOfSeconds | dict[str, RangeOfSeconds] | None = Field(
        None, description="(first, last) of the observations that count, for all gauges or each"
    )

    def parameters_from_keys(self, context: Output, start: datetime.datetime | None) -> dict[str, Any]:
        """Each record has its own window and standard deviation unless the file gives others."""
        folder, made = self._folder(context), {}
        assert folder is not None  # a missing folder has been reported as a mistake
        places, others = self.places(context), self.known_places(context)
        for name, record in records_in(folder, places, self.gauges, others, start).items():
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
        placed = self.known_places(output)
        for key, given in (("deviation", self.deviation), ("window", self.window)):
            for name in given if isinstance(given, dict) else ():
                if name not in placed:
                    path = ("adjoint", "cost", key, name)
                    yield Mistake(path, f"there is no gauge {name!r}; {nearest(name, placed)}")

    def _folder(self, output):
        written = None if output.gauges is None else output.gauges.observations
        return written if self.observations is None else self.observations


class _OfConstants(PartSection):
    """The keys of a cost whose parameter `constants` holds harmonic constants."""

    file: InputFile = Field(description="table of gauges, CSV or netCDF: name, x, y, M2_amplitude_m, M2_phase_deg")
    constituents: Names = Field(description="the tidal constituents to compare, as M2 and S2")
    gauges: Names | None = Field(None, description="names of gauges; all of the file unless given")
    deviation: PositiveMetres | None = Field(
        None, description="standard deviation of the error of A cos g and of A sin g; deviation_m of the file"
    )
    error: NonNegativeNumber = Field(0.0, description="a further part of it, as a fraction of the amplitude")

    def parameters_from_keys(self, context: Output, start: datetime.datetime | None) -> dict[str, Any]:
        """The constants of the chosen gauges."""
        constants, _ = constants_in(self.file, self.constituents, self.deviation, self.error)
        return {"constants": chosen_gauges(constants, self.gauges, self.file)}


class _OfCurrents(PartSection):
    """The keys of a cost whose parameter `currents` holds velocities."""

    observations: Folder = Field(description="folder of NAME.csv or NAME.nc (time_s, u_m_s, v_m_s)")
    positions: dict[str, Place] = Field(description="{name = [x, y]} of the places", min_length=1)
    deviation: PositiveSpeed = Field(description="standard deviation of the error of each component")
    window: RangeOfSeconds | None = Field(None, description="(first, last) of the observations that count")

    def parameters_from_keys(self, context: Output, start: datetime.datetime | None) -> dict[str, Any]:
        """The velocities of all places."""
        at = {name: (float(x), float(y)) for name, (x, y) in self.positions.items()}
        given = self.deviation, self.window, start
        return {"currents": {name: current_in(file_of(self.observations, name), at[name], *given) for name in at}}


class SectionEnds(Section):
    """The ends of a section along a grid line."""

    start: Place  # (x, y) where it begins
    end: Place  # (x, y) where it ends, with the same x or the same y


class _OfSections(PartSection):
    """The keys of a cost whose parameter `transports` holds transports."""

    observations: Folder = Field(description="folder of NAME.csv or NAME.nc (time_s, transport_m3_s)")
    sections: dict[str, SectionEnds] = Field(description="{name = {start = [x, y], end = [x, y]}}", min_length=1)
    deviation: PositiveTransport = Field(description="standard deviation of the error of a transport")
    window: RangeOfSeconds | None = Field(None, description="(first, last) of the observations that count")

    def parameters_from_keys(self, context: Output, start: datetime.datetime | None) -> dict[str, Any]:
        """The transports of all sections."""
        made, given = {}, (self.deviation, self.window, start)
        for name, section in self.sections.items():
            first, last = ((float(x), float(y)) for x, y in (section.start, section.end))
            made[name] = transport_in(file_of(self.observations, name), first, last, *given)
        return {"transports": made}


class _OfTracks(PartSection):
    """The keys of a cost whose parameter `tracks` holds observations along tracks."""

    file: InputFile = Field(description="CSV or netCDF file of points: x, y, time_s, elevation_m, deviation_m")
    deviation: PositiveMetres | None = Field(
        None, description="standard deviation of the errors, where the file does not give it"
    )

    def parameters_from_keys(self, context: Output, start: datetime.datetime | None) -> dict[str, Any]:
        """The points of the tracks."""
        return {"tracks": read_tracks(self.file, self.deviation, start)}


def file_of(folder: Path, name: str) -> Path:
    """The file of a record in a folder; raises ConfigError if there is none."""
    for file in (folder / f"{name}.csv", folder / f"{name}.nc"):
        if file.is_file():
            return file
    raise ConfigError(f"{folder} has no {name}.csv and no {name}.nc; add it, or leave {name!r} out.")


def chosen_gauges(constants: dict[str, Any], gauges: tuple[str, ...] | None, file: Path) -> dict[str, Any]:
    """The constants of `gauges`, or of all for None; raises ConfigError for a gauge that the file does not have."""
    for name in gauges or ():
        if name not in constants:
            text = f"{file} has no gauge {name!r} with these constituents; {nearest(name, constants)}"
            raise ConfigError(ended(text))
    return {name: constants[name] for name in gauges or constants}


KEYS = {
    Records: _OfRecords,
    Places: _AtGauges,
    AllConstants: _OfConstants,
    Currents: _OfCurrents,
    SectionRecords: _OfSections,
    AllTracks: _OfTracks,
}
cost_section = functools.partial(section_about, keys=KEYS)


class ArrivalTime(Section):
    """The arrival time of a wave, which is refused: it is a step number and has no derivative."""

    type: Literal["arrival_time"]

    @model_validator(mode="before")
    @classmethod
    def _refused(cls, value):
        raise ValueError(
            "the arrival time counts steps and has no derivative; use 'gauge_maximum', or 'misfit' to a record"
        )


COSTS = {name: cost_section(cls, name) for name, cls in shipped(costs.Cost, "cost").items()}
if TYPE_CHECKING:  # the alternatives are found when the program runs
    CostSection: TypeAlias = Any
else:
    CostSection = chosen_from([*COSTS.values(), ArrivalTime])


def cost_mistakes(sections: Mapping[str, Any]) -> Iterator[Mistake]:
    """Mistakes of the gauges and tracers that the cost names."""
    adjoint, output = sections.get("adjoint"), sections.get("output")
    if adjoint is None:
        return
    if output is not None and isinstance(adjoint.cost, _AtGauges):
        yield from adjoint.cost.mistakes(output)
    if "tracer" not in sections:  # the sections of tracers have mistakes
        return
    known = stepped_names(sections["tracer"], layer_count(sections))
    for field in dataclasses.fields(adjoint.cost.part):
        name = getattr(adjoint.cost, field.name, None)
        if isinstance(field.metadata.get("rule"), TracerName) and name not in known:
            text = f"there is no tracer {name!r}; {nearest(name, known) if known else 'add a section [[tracer]]'}"
            yield Mistake(("adjoint", "cost", field.name), text)
