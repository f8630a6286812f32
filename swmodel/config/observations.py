"""The observations that an inversion fits: one table [inversion.observations], or several, [[inversion.observations]].

[[inversion.observations]]
type = "gauges"
folder = "tide_gauges"
window = ["1 day", "3 day"]
deviation = "5 cm"

[[inversion.observations]]
type = "velocities"
folder = "moorings"
positions.buoy = [4.2, 56.1]
window = ["1 day", "3 day"]
deviation = "5 cm/s"
"""

from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, model_validator

from .costs import PositiveSpeed, PositiveTransport, SectionEnds
from .mistakes import Mistake, nearest
from .scenario import Output
from .sections import (
    InputFile,
    Names,
    NonNegativeSeconds,
    Number,
    Place,
    PositiveMetres,
    PositiveNumber,
    PositiveSeconds,
    RangeOfSeconds,
    Section,
    existing_folder,
)

__all__ = [
    "GaugeObservations",
    "HarmonicObservations",
    "Observations",
    "TrackObservations",
    "TransportObservations",
    "VelocityObservations",
    "source_of",
    "gauge_places",
    "known_gauges",
    "observation_mistakes",
]

PATH = ("inversion", "observations")
Folder = Annotated[Path, BeforeValidator(existing_folder)]


class GaugeObservations(Section):
    """Records of gauges, from --observations, from `folder`, or, without either, from the twin."""

    type: Literal["gauges"]
    folder: Folder | None = None  # of NAME.csv or NAME.nc (time_s, elevation_m)
    gauges: Names | None = None  # default: all that have a record
    positions: dict[str, Place] = {}  # {name = [x, y]} of further gauges
    window: RangeOfSeconds | dict[str, RangeOfSeconds]  # (first, last), for all gauges or each
    deviation: PositiveMetres | None = None  # of the errors; default: 5 cm, if `error` is not given
    error: PositiveNumber | None = None  # a further part, as a fraction of each gauge's standard deviation
    independent: NonNegativeSeconds = 120.0  # time over which errors are correlated
    every: PositiveSeconds = 15.0  # of the observations of a twin experiment


class HarmonicObservations(Section):
    """Harmonic constants of gauges, from a table."""

    type: Literal["harmonics"]
    file: InputFile  # table, CSV or netCDF: name, x, y, M2_amplitude_m, M2_phase_deg; with used = 0: only compared
    constituents: Names  # the constituents that are compared, as "M2"
    gauges: Names | None = None  # default: all of the file that lie in water
    window: RangeOfSeconds | None = None  # (first, last) of the fit; default: the whole run after the spin-up
    deviation: PositiveMetres | None = None  # of the errors of A cos g and A sin g; default: deviation_m of the file
    error: PositiveNumber | None = None  # a further part, as a fraction of each amplitude


class TrackObservations(Section):
    """Points along the tracks of an altimeter, from a file or, without it, from the twin."""

    type: Literal["tracks"]
    file: InputFile | None = None  # CSV or netCDF file of points: x, y, time_s, elevation_m, deviation_m
    deviation: PositiveMetres | None = None  # of the errors, where the file does not give it
    every: PositiveSeconds | None = None  # of a twin experiment: between two passes
    apart: PositiveMetres | None = None  # between points
    between: PositiveMetres | None = None  # between passes
    tilt: Number = 0.35  # of the twin's tracks: dx over dy

    @model_validator(mode="after")
    def _enough(self):
        if self.file is None and None in (self.deviation, self.every, self.apart, self.between):
            raise ValueError("tracks of the twin need deviation, every, apart and between; or give a file")
        return self


class VelocityObservations(Section):
    """Both components of the velocity at points, as of current meters, from files or, without them, from the twin."""

    type: Literal["velocities"]
    folder: Folder | None = None  # of NAME.csv or NAME.nc (time_s, u_m_s, v_m_s)
    positions: Annotated[dict[str, Place], Field(min_length=1)]  # {name = [x, y]} of the places
    window: RangeOfSeconds | dict[str, RangeOfSeconds]  # (first, last), for all places or each
    deviation: PositiveSpeed  # of the error of each component
    independent: NonNegativeSeconds = 0.0  # time over which errors are correlated
    every: PositiveSeconds = 600.0  # of the observations of a twin experiment

    @property
    def places(self) -> Mapping[str, Any]:
        """What has a name: the places."""
        return self.positions


class TransportObservations(Section):
    """Volume transports through sections along grid lines, from files or, without them, from the twin."""

    type: Literal["transports"]
    folder: Folder | None = None  # of NAME.csv or NAME.nc (time_s, transport_m3_s)
    sections: Annotated[dict[str, SectionEnds], Field(min_length=1)]  # {name = {start = [x, y], end = [x, y]}}
    window: RangeOfSeconds | dict[str, RangeOfSeconds]  # (first, last), for all sections or each
    deviation: PositiveTransport  # of the error of a transport
    independent: NonNegativeSeconds = 0.0  # time over which errors are correlated
    every: PositiveSeconds = 600.0  # of the observations of a twin experiment

    @property
    def places(self) -> Mapping[str, Any]:
        """What has a name: the sections."""
        return self.sections


def _several(value: Any) -> Any:
    """A single table as a list of one."""
    return [value] if isinstance(value, dict) else value


_Table = Annotated[
    GaugeObservations | HarmonicObservations | TrackObservations | VelocityObservations | TransportObservations,
    Field(discriminator="type"),
]
Observations = Annotated[tuple[_Table, ...], Field(min_length=1), BeforeValidator(_several)]


def gauge_places(table: Any, output: Output) -> dict[str, tuple[float, float]]:
    """{name: (x, y)} of the gauges of a table that may have a record."""
    known = known_gauges(table, output)
    return {name: (float(known[name][0]), float(known[name][1])) for name in table.gauges or known}


def known_gauges(table: Any, output: Output) -> dict[str, Any]:
    """{name: place} of the gauges of [output] and of a table."""
    return {**({} if output.gauges is None else output.gauges.positions), **table.positions}


def source_of(table: Any, output: Output) -> Path | None:
    """The folder or file from which the observations of a table are read; None if a twin provides them."""
    if table.type in ("harmonics", "tracks"):
        return table.file
    if table.type == "gauges" and table.folder is None and output.gauges is not None:
        return output.gauges.observations
    return table.folder


def observation_mistakes(section: Any, sections: Mapping[str, Any]) -> Iterator[Mistake]:
    """Mistakes of names, times and files in the observations of an [inversion] `section`."""
    output, run = sections.get("output"), sections.get("run")
    for k, table in enumerate(section.observations):
        yield from _mistakes_of_source(section, table, (*PATH, k), output)
        if table.type == "gauges" and output is not None:
            yield from _mistakes_of_gauges(table, (*PATH, k), output)
        if table.type in ("velocities", "transports"):
            yield from _mistakes_of_windows(table, (*PATH, k, "window"), table.places, tuple(table.places))
        if run is not None:
            yield from _mistakes_of_times(section, table, (*PATH, k, "window"), section.until or run.until)
    if output is not None:
        yield from _mistakes_of_withheld(section, output)


def _mistakes_of_source(section, table, path, output):
    """Observations that neither a file nor a twin provides, or that a twin provides while files provide others."""
    if table.type == "harmonics":
        if section.twin is not None:
            text = "harmonic constants are those of a file, and a twin has none; leave it out"
            yield Mistake(("inversion", "twin"), text)
        return
    if output is None or source_of(table, output) is not None:
        return
    if section.twin is None:
        kinds = {"gauges": "--observations DIR, folder", "tracks": "file"}
        given = kinds.get(table.type, "folder")
        yield Mistake(path, f"there are no observations; give {given}, or [inversion.twin] to make some")
    elif any(source_of(other, output) is not None for other in section.observations):
        text = "has no file, and other observations have one: a twin makes all or none of them; give one"
        yield Mistake(path, text)


def _mistakes_of_gauges(table, path, output):
    placed = known_gauges(table, output)
    for name in table.gauges or ():
        if name not in placed:
            yield Mistake((*path, "gauges"), f"there is no gauge {name!r}; {nearest(name, placed)}")
    if not placed:
        text = "no gauge has a place; name them in [inversion.observations.positions] or [output.gauges.positions]"
        yield Mistake(path, text)
    yield from _mistakes_of_windows(table, (*path, "window"), placed, table.gauges or ())


def _mistakes_of_windows(table, path, placed, needed):
    """Windows of names that are not `placed`, and `needed` names without one."""
    windows, what = table.window if isinstance(table.window, dict) else {}, _WORDS[table.type]
    for name in windows:
        if name not in placed:
            yield Mistake((*path, name), f"there is no {what} {name!r}; {nearest(name, placed)}")
    for name in needed:
        if windows and name not in windows:
            yield Mistake(path, f"{what} {name!r} has no window; give it one, or leave that {what} out")


_WORDS = {"gauges": "gauge", "velocities": "place", "transports": "section"}


def _mistakes_of_times(section, table, path, end):
    """Windows that the run does not reach, and a fit that begins in the spin-up, of which it has no elevations."""
    window = None if table.type == "tracks" else table.window
    for name, (_, last) in window.items() if isinstance(window, dict) else [(None, window)] if window else []:
        if last > end * (1 + 1e-9):
            at = path if name is None else (*path, name)
            yield Mistake(at, f"{last:g} s is after the end of the run, at {end:g} s; change it, or until")
    if table.type == "harmonics" and window is not None and window[0] < section.spin_up * (1 - 1e-9):
        text = (
            f"the fit begins at {window[0]:g} s, in the spin-up, which ends at {section.spin_up:g} s; begin it there, "
            "or shorten spin_up"
        )
        yield Mistake(path, text)


def _mistakes_of_withheld(section, output):
    """Names to be withheld that no table has; those of files are compared later."""
    known: Collection[str] | None = _names(section, output)
    if isinstance(section.withhold, bool) or not known:
        return
    for name in section.withhold:
        if name not in known:
            yield Mistake(("inversion", "withhold"), f"there is no gauge {name!r}; {nearest(name, known)}")
    if set(known) <= set(section.withhold):
        yield Mistake(("inversion", "withhold"), "all gauges are withheld, and none is left to use; leave one out")


def _names(section, output):
    """The names of all observations; None if some are those of a file."""
    names = []
    for table in section.observations:
        if table.type in ("harmonics", "tracks"):
            return None
        names += (table.gauges or known_gauges(table, output)) if table.type == "gauges" else table.places
    return names
