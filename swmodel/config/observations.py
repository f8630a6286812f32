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

Each type of table is a class, with its keys, its records in files or from a twin, its misfit and its mistakes.
"""

import dataclasses
import datetime
import logging
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

import numpy as np

from ..adjoint.assimilation.observations import gauge_records, window_of
from ..adjoint.costs import misfits
from ..adjoint.costs.costs import Cost, Misfit
from ..adjoint.costs.harmonics import HarmonicMisfit, constants_in_water
from ..adjoint.costs.marks import REACH, MarkMisfit, marks_in_water
from ..adjoint.costs.readers import outermost
from ..adjoint.costs.records import Record, ground_tracks, records_in, track_records
from ..models.shallow_water import ShallowWater
from . import adjoint
from .reading import Before, one_of
from .scenario import Output
from .sections import (
    Folder,
    InputFiles,
    Names,
    NonNegativeSeconds,
    PositiveMetres,
    PositiveNumber,
    PositiveSeconds,
    RangeOfSeconds,
    Section,
    Seed,
    not_empty,
)
from .toml import Mistake, mistakes_of_names

if TYPE_CHECKING:
    from .scenario import Output, Run


class ObservationTable(Section):
    """What the tables have in common.

    Attributes:
        place: what one of its places is, in words.
        words: what it holds, in words, up to its places.
        provider: what gives its observations, for messages.
        of_twins: whether a twin may provide them, in place of files.
    """

    place: ClassVar[str] = "gauge"
    words: ClassVar[str] = "observations at"
    provider: ClassVar[str] = "folder"
    of_twins: ClassVar[bool] = True

    def source(self, output: Output) -> Path | None:
        """The folder or file from which the observations are read; None if a twin provides them."""
        return getattr(self, "file", None)

    def places(self, output: Output | None) -> Mapping[str, Any] | None:
        """{name: place} of all places that may have a record; None if they are those of a file."""
        return None

    def names(self, records: Mapping[str, Any]) -> dict[str, str]:
        """{label of a record: its name}."""
        return {label: label for label in records}

    def misfit(self, records: dict[str, Any], start: datetime.datetime | None) -> Cost:
        """The misfit to {label: record}; `start` is the date of the start of the run."""
        return Misfit(records)

    def warn_of(self, names: Sequence[str], why: str, model: ShallowWater) -> None:
        """Log a warning of the places of the file that are left out; on the root."""
        if names and model.communicator.is_root:
            several, where = f"{len(names)} {self.place}{'s' * (len(names) > 1)}", getattr(self, "file", "")
            logging.getLogger("swmodel").warning("%s of %s %s, left out: %s", several, where, why, ", ".join(names))

    def mistakes(self, path: tuple, output: Output | None, end: float | None, spin_up: float) -> Iterator[Mistake]:
        """Mistakes in names and times of the table at `path`, in a run to `end` [s] after a spin-up [s]."""
        if end is not None:
            yield from adjoint.mistakes_of_end(getattr(self, "window", None), (*path, "window"), end)


class SeriesTable(ObservationTable):
    """Records over time at places with names, from `folder` or, without it, from the twin."""

    folder: Folder | None = None
    window: RangeOfSeconds | dict[str, RangeOfSeconds]  # (first, last), for all places or each
    deviation: Any
    independent: NonNegativeSeconds = 0.0  # time over which errors are correlated
    every: PositiveSeconds = 600.0  # of the observations of a twin experiment

    def source(self, output: Output) -> Path | None:
        return self.folder

    def from_files(self, output: Output, model: ShallowWater, until: float, start: datetime.datetime | None) -> tuple:
        """({label: Record or HarmonicConstants}, names that the files exclude)."""
        return self.weighed(self.series(output, start)), ()

    def series(self, output: Output, start: datetime.datetime | None) -> dict[str, Record]:
        """{label: Record} of the files, without window and errors."""
        raise NotImplementedError

    def without_values(self, output: Output, model: ShallowWater, dt: float, until: float) -> dict[str, Any]:
        """{label: Record} of a twin in a run of steps of `dt` [s] until `until` [s], with zeros as values."""
        every, found = max(self.every, dt), {}
        for name, place in (self.places(output) or {}).items():
            first, last = window = window_of(self.window, name)
            time = np.arange(max(first, dt), min(last, until) + 1e-6, every)
            found[name] = self.at(place, time, np.zeros(time.size), window)
        return self.by_label(found)

    def at(self, place: tuple, time: np.ndarray, values: np.ndarray, window: tuple) -> Any:
        """The observations at a place."""
        return Record(place, time, values, window=window)

    def by_label(self, found: dict[str, Any]) -> dict[str, Any]:
        """{label: Record} of {name: observations at a place}."""
        return found

    def weighed(self, records: dict[str, Any]) -> dict[str, Any]:
        """The records with the window and the errors of the table."""
        return gauge_records(records, self.window, getattr(self, "error", None), self.independent, self.deviation)

    def mistakes(self, path: tuple, output: Output | None, end: float | None, spin_up: float) -> Iterator[Mistake]:
        if output is not None:
            placed = self.places(output) or {}
            yield from self._mistakes_of_windows((*path, "window"), placed, placed)
        yield from super().mistakes(path, output, end, spin_up)

    def _mistakes_of_windows(self, path, placed, needed):
        """Windows of names that are not `placed`, and `needed` names without one."""
        windows = self.window if isinstance(self.window, dict) else {}
        yield from mistakes_of_names(windows, placed, path, self.place, keys=True)
        for name in needed:
            if windows and name not in windows:
                text = f"{self.place} {name!r} has no window; give it one, or leave that {self.place} out"
                yield Mistake(path, text)


class GaugeObservations(SeriesTable, adjoint.GaugeNames):
    """Records of gauges, from --observations, from `folder`, or, without either, from the twin."""

    provider = "--observations DIR, folder"

    type: Literal["gauges"]
    folder: Folder | None = None  # of NAME.csv or NAME.nc (time_s, elevation_m)
    gauges: Names | None = None  # default: all that have a record
    deviation: PositiveMetres | None = None  # of the errors; default: 5 cm, if `error` is not given
    error: PositiveNumber | None = None  # a further part, as a fraction of each gauge's standard deviation
    independent: NonNegativeSeconds = 120.0  # time over which errors are correlated
    every: PositiveSeconds = 15.0  # of the observations of a twin experiment

    def source(self, output: Output) -> Path | None:
        of_output = None if output.gauges is None else output.gauges.observations
        return of_output if self.folder is None else self.folder

    def places(self, output: Output) -> dict[str, tuple[float, float]]:
        known = self.known(output)
        return {name: known[name] for name in self.gauges or known if name in known}

    def series(self, output: Output, start: datetime.datetime | None) -> dict[str, Record]:
        source: Any = self.source(output)
        return records_in(source, self.places(output), self.gauges, self.known(output), start)

    def mistakes(self, path: tuple, output: Output | None, end: float | None, spin_up: float) -> Iterator[Mistake]:
        if output is not None:
            yield from self.mistakes_of_gauges(path, output)
            yield from self._mistakes_of_windows((*path, "window"), self.known(output), self.gauges or ())
        yield from ObservationTable.mistakes(self, path, output, end, spin_up)


class HarmonicObservations(ObservationTable, adjoint.ConstantsTable):
    """Harmonic constants of gauges, from a table; gauges with used = 0 in it are only compared."""

    of_twins = False

    type: Literal["harmonics"]
    gauges: Names | None = None  # default: all of the file that lie in water
    window: RangeOfSeconds | None = None  # (first, last) of the fit; default: the whole run after the spin-up

    def from_files(self, output: Output, model: ShallowWater, until: float, start: datetime.datetime | None) -> tuple:
        """({name: HarmonicConstants} of gauges in water, names that the file excludes)."""
        found, unused = self.constants()
        constants, ashore = constants_in_water(found, model)
        self.warn_of(ashore, "without water around on this grid", model)
        return constants, unused

    def misfit(self, records: dict[str, Any], start: datetime.datetime | None) -> Cost:
        return HarmonicMisfit(records, self.window, start)

    def mistakes(self, path: tuple, output: Output | None, end: float | None, spin_up: float) -> Iterator[Mistake]:
        yield from super().mistakes(path, output, end, spin_up)
        if end is not None and self.window is not None and self.window[0] < spin_up * (1 - 1e-9):
            text = f"the fit begins at {self.window[0]:g} s, in the spin-up, which ends at {spin_up:g} s"
            yield Mistake((*path, "window"), f"{text}; begin it there, or shorten spin_up")


class TrackObservations(ObservationTable, adjoint.TrackKeys):
    """Points along the tracks of an altimeter, from a file or, without it, from the twin."""

    place = "place"
    provider = "file"

    type: Literal["tracks"]
    file: InputFiles | None = None  # of points: a table of x, y, time_s, elevation_m, deviation_m; or of altimeters
    every: PositiveSeconds | None = None  # of a twin experiment: between two passes
    apart: PositiveMetres | None = None  # between points
    between: PositiveMetres | None = None  # between passes of one direction; on the sphere at the middle latitude
    tilt: float = 0.35  # of the twin's tracks: dx over dy

    def check(self) -> None:
        if self.file is None and None in (self.deviation, self.every, self.apart, self.between):
            raise ValueError("tracks of the twin need deviation, every, apart and between; or give a file")

    def from_files(self, output: Output, model: ShallowWater, until: float, start: datetime.datetime | None) -> tuple:
        """({label: Record} of points in water, ())."""
        return track_records(self.tracks(start), model, until), ()

    def without_values(self, output: Output, model: ShallowWater, dt: float, until: float) -> dict[str, Any]:
        """{label: Record} of points along the twin's tracks, with zeros as values."""
        shape: Any = self.every, until, self.apart, self.between, self.tilt, self.deviation
        tracks = ground_tracks(model.grid, *shape)
        return track_records(dataclasses.replace(tracks, value=np.zeros(tracks.x.size)), model, until)


class VelocityObservations(adjoint.PointKeys, SeriesTable):
    """Both components of the velocity at points, as of current meters, from files or, without them, from the twin."""

    place = "place"
    words = "components of velocities at"

    type: Literal["velocities"]
    folder: Folder | None = None  # of NAME.csv or NAME.nc (time_s, u_m_s, v_m_s)

    def names(self, records: Mapping[str, Any]) -> dict[str, str]:
        return {f"{name} ({part})": name for part in "uv" for name in self.positions}

    def series(self, output: Output, start: datetime.datetime | None) -> dict[str, Record]:
        folder: Any = self.folder
        return misfits.components(self.observed(folder, None, start))

    def at(self, place: tuple, time: np.ndarray, values: np.ndarray, window: tuple) -> misfits.Current:
        return misfits.Current(place, time, values, values, window=window)

    def by_label(self, found: dict[str, Any]) -> dict[str, Any]:
        return misfits.components(found)

    def misfit(self, records: dict[str, Any], start: datetime.datetime | None) -> Cost:
        pairs = {name: [records[f"{name} ({part})"] for part in "uv"] for name in self.positions}
        return misfits.VelocityMisfit({name: misfits.Current.of(*pair) for name, pair in pairs.items()})


class TransportObservations(adjoint.SectionKeys, SeriesTable):
    """Volume transports through sections along grid lines, from files or, without them, from the twin."""

    place = "section"
    words = "transports through"

    type: Literal["transports"]
    folder: Folder | None = None  # of NAME.csv or NAME.nc (time_s, transport_m3_s)

    def series(self, output: Output, start: datetime.datetime | None) -> dict[str, Record]:
        folder: Any = self.folder
        return {name: each.record for name, each in self.observed(folder, None, start).items()}

    def at(self, place: tuple, time: np.ndarray, values: np.ndarray, window: tuple) -> Record:
        return misfits.SectionRecord(place[0], place[1], time, values, window=window).record

    def misfit(self, records: dict[str, Any], start: datetime.datetime | None) -> Cost:
        ends = self.places()
        made = {name: misfits.SectionRecord.of(ends[name][0], ends[name][1], each) for name, each in records.items()}
        return misfits.TransportMisfit(made)


class MarkObservations(ObservationTable, adjoint.MarkKeys):
    """High-water marks, from a table; they are compared with the largest levels of the run."""

    place, words = "mark", "levels at"
    of_twins = False

    type: Literal["marks"]
    window: RangeOfSeconds | None = None  # (first, last) of the maximum; default: the whole run after the spin-up
    reach: Seed = REACH  # cells from a mark within which a cell that can be wet counts

    def from_files(self, output: Output, model: ShallowWater, until: float, start: datetime.datetime | None) -> tuple:
        """({name: Mark} at the centres of cells that can be wet, ())."""
        marks, away = marks_in_water(self.marks(outermost(model).grid.spherical), model, self.reach)
        self.warn_of(away, f"outside of the grid, or without cells that can be wet within {self.reach} cells", model)
        return marks, ()

    def misfit(self, records: dict[str, Any], start: datetime.datetime | None) -> Cost:
        return MarkMisfit(records, self.window)


def _several(value: Any) -> Any:
    """A single table as a list of one."""
    return [value] if isinstance(value, dict) else value


_TYPES = one_of(
    GaugeObservations,
    HarmonicObservations,
    TrackObservations,
    VelocityObservations,
    TransportObservations,
    MarkObservations,
)
Observations = Annotated[tuple[Annotated[Any, _TYPES], ...], Before(_several), not_empty]


# -- mistakes ----------------------------------------------------------------------------------------------------------


def observation_mistakes(section: Any, run: "Run | None", output: "Output | None") -> Iterator[Mistake]:
    """Mistakes of names, times and files in the observations of an [inversion] `section`."""
    end = None if run is None else section.until or run.until
    for k, table in enumerate(section.observations):
        yield from _mistakes_of_source(section, table, ("inversion", "observations", k), output)
        yield from table.mistakes(("inversion", "observations", k), output, end, section.spin_up)
    if output is not None:
        yield from _mistakes_of_withheld(section, output)


def _mistakes_of_source(section, table, path, output):
    """Observations that neither a file nor a twin provides, or that a twin provides while files provide others."""
    if not table.of_twins:
        if section.twin is not None:
            text = f"{table.type} are those of a file, and a twin has none; leave it out"
            yield Mistake(("inversion", "twin"), text)
        return
    if output is None or table.source(output) is not None:
        return
    if section.twin is None:
        yield Mistake(path, f"there are no observations; give {table.provider}, or [inversion.twin] to make some")
    elif any(other.source(output) is not None for other in section.observations):
        text = "has no file, and other observations have one: a twin makes all or none of them; give one"
        yield Mistake(path, text)


def _mistakes_of_withheld(section, output):
    """Names to be withheld that no table has; those of files are compared later."""
    names = [table.places(output) for table in section.observations]
    if isinstance(section.withhold, bool) or None in names or not any(names):
        return
    known = [name for places in names for name in places]
    yield from mistakes_of_names(section.withhold, known, ("inversion", "withhold"))
    if set(known) <= set(section.withhold):
        yield Mistake(("inversion", "withhold"), "all gauges are withheld, and none is left to use; leave one out")
