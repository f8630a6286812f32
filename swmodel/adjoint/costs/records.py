"""Observed records: time series at places, read from the same files as in post-processing, and points along tracks.

Along-track observations of the elevation, as an altimeter makes them, are points in space and time. A CSV file (or a
netCDF file with variables of these names) has the columns x, y (or longitude, latitude), time_s, elevation_m and, if
errors differ, deviation_m. Points of files of altimeters (observed/points.py) outside of the grid or the run do not
count.
"""

import dataclasses
import datetime
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ...errors import ConfigError, DataError
from ...fields.parameters import Part, declared, refuse
from ...grids.grid import Grid
from ...grids.observed_tables import ELEVATION, TIME, read_columns, table_names
from ...models.shallow_water import ShallowWater
from ...observed.folder import read_folder
from ...observed.points import READABLE, read_samples
from ...runtime.formats import format_of
from .readers import GaugeReader, everywhere
from .tile_costs import AtInstants, Cost, TileCost

__all__ = ["TrackMisfit"]


class Observation:
    """What the observations of a place have in common; attributes are those of Record."""

    observations_per_datum: float | np.ndarray = 1.0
    units: str = "m"

    def counted(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """(time, or number, value, deviation) of the observations that count, (m,) each."""
        raise NotImplementedError

    @property
    def error(self) -> np.ndarray:
        """Standard deviation of the error of each observation that counts, in `units`, (m,)."""
        return self.counted()[2] / np.sqrt(self._per_datum())

    @property
    def independent(self) -> float:
        """The number of independent observations that weigh as much as those that count."""
        return float(np.sum(1.0 / self._per_datum()))

    def _per_datum(self):
        return np.broadcast_to(np.asarray(self.observations_per_datum, float), self.counted()[0].shape)


@dataclasses.dataclass(frozen=True, eq=False)
class Record(Observation):
    """The observations of one quantity at a place, of the elevation unless `units` are others.

    Attributes:
        place: (x, y) in the grid's coordinates.
        time: time since the start of the run [s], (n,).
        value: eta [m], or another quantity in `units`, (n,); NaN is a gap.
        deviation: standard deviation of an observation's error, in `units`: a number, or (n,).
        window: (first, last) [s]; observations outside do not count. None: all observations count.
        observations_per_datum: the number of observations with correlated errors that weigh as much as one independent
            observation: a number, or (n,) where the interval between observations varies. `deviation` is inflated
            accordingly: it is `error` times the square root of this number.
        units: the units of the quantity.
    """

    place: tuple
    time: np.ndarray
    value: np.ndarray
    deviation: float | np.ndarray = 1.0
    window: tuple | None = None
    observations_per_datum: float | np.ndarray = 1.0
    units: str = "m"

    def modelled(self, times: np.ndarray, readings: np.ndarray) -> np.ndarray:
        """The model at the observations that count (m,), linear between its readings (steps,) at `times` [s].

        Rows of `readings` after those of `times` are padding.
        """
        return np.interp(self.counted()[0], times, readings[: len(times)])

    def counted(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """(time, value, deviation) of the observations that count, (m,) each."""
        used = self.counts
        deviation = np.broadcast_to(np.asarray(self.deviation, float), used.shape)
        return np.asarray(self.time, float)[used], np.asarray(self.value, float)[used], deviation[used]

    @property
    def counts(self) -> np.ndarray:
        """Whether each observation counts, (n,)."""
        time, (first, last) = np.asarray(self.time, float), self.window or (-np.inf, np.inf)
        return np.isfinite(np.asarray(self.value, float)) & (time >= first) & (time <= last)

    def _per_datum(self):
        return np.broadcast_to(np.asarray(self.observations_per_datum, float), self.counts.shape)[self.counts]


@dataclasses.dataclass(frozen=True)
class DictOf:
    """The rule of a parameter that is {name: observations of a `kind`}; in words, and an example for its refusal."""

    kind: type
    words: str
    example: str
    may_be_empty: bool = False

    def check(self, who: str, name: str, value: object) -> None:
        fits = isinstance(value, Mapping) and all(isinstance(each, self.kind) for each in value.values())
        if not fits or not (value or self.may_be_empty):
            refuse(who, name, value, f"is not a dict of {self.words}", f"one, as {{{self.example}}}")


def observation_tables(records: dict[str, Record], dt: float, first_step: int, steps: int) -> np.ndarray:
    """(share, observed, per_deviation), (steps, M, records) each: the tables of observations that Squares takes.

    Args:
        records: {name: Record}.

    Raises:
        ConfigError: if records have no observation, or observations outside the run; the message names all of them.
    """
    found, mistakes = [], []
    for name, record in records.items():
        time, value, deviation = record.counted()
        mistakes += _mistakes_of(name, record, time, deviation, dt, first_step, steps)
        found.append((*between_steps(time, dt, first_step, steps), value, deviation))
    if mistakes or not found:
        raise ConfigError(mistakes or "Misfit: there are no records; give one or several, {name: Record}.")
    depth = max(np.bincount(row).max() for row, *_ in found)
    tables = np.zeros((3, steps, depth, len(found)))
    for k, (row, share, value, deviation) in enumerate(found):
        order = np.argsort(row, kind="stable")
        row = row[order]
        slot = np.arange(row.size) - np.searchsorted(row, row)
        tables[:, row, slot, k] = share[order], value[order], 1.0 / deviation[order]
    return tables


def between_steps(time: np.ndarray, dt: float, first_step: int, steps: int) -> tuple[np.ndarray, np.ndarray]:
    """(the row of the step at whose end the interval with each time ends, the share of it that has passed), (n,)."""
    place = np.clip(time / dt - first_step - 1, 0.0, steps - 1)
    row = np.ceil(place - 1e-9).astype(np.int32)
    return row, np.where(row > 0, 1.0 - (row - place), 1.0)


def _mistakes_of(name, record, time, deviation, dt, first_step, steps):
    first, last, slack = dt * (first_step + 1), dt * (first_step + steps), 1e-6 * dt
    if not time.size:
        when = "" if record.window is None else f" from {record.window[0]:g} to {record.window[1]:g} s"
        yield f"Misfit: the record of {name} has no observation{when}; widen its window, or leave it out."
        return
    if not (deviation > 0).all():
        yield (
            f"Misfit: the record of {name} has a standard deviation of {deviation.min():g} {record.units}; give a "
            "positive one."
        )
    if time.min() < first - slack or time.max() > last + slack:
        yield (
            f"Misfit: the record of {name} has observations from {time.min():g} to {time.max():g} s, and the run's "
            f"steps end from {first:g} to {last:g} s; give it a window in there, or make the run longer."
        )


def records_in(
    folder: str | Path,
    places: Mapping[str, tuple[float, float]],
    named: Iterable[str] | None = (),
    others: Iterable[str] = (),
    start: datetime.datetime | None = None,
) -> dict[str, Record]:
    """{name: Record} of the gauges `places` {name: (x, y)} that have a file in `folder`.

    Args:
        named: gauges that must have a file.
        others: further gauges, to which files may belong; see observed/folder.py.
        start: date and time of the start of the run, from which dates count.

    Raises:
        DataError: for files that cannot be assigned or read.
        ConfigError: if one of `named` has no file.
    """
    records = read_folder(folder, places, start, others)
    missing = [name for name in named or () if name not in records]
    if missing:
        raise ConfigError(f"{folder} has no record of {', '.join(missing)}; add one, or leave that gauge out.")
    return {name: Record(places[name], record.time, record.value) for name, record in records.items()}


DEVIATION = "deviation_m"


@dataclasses.dataclass(frozen=True, eq=False)
class Tracks:
    """Points of an altimeter in space and time.

    Attributes:
        x, y: in the grid's coordinates, (n,) as the following ones.
        time: [s].
        value: [m].
        deviation: standard deviation of the errors [m].
        beyond: whether points may lie outside of the grid and of the run, where they do not count.
        remarks: what was read and assumed, each in words.
    """

    x: np.ndarray
    y: np.ndarray
    time: np.ndarray
    value: np.ndarray
    deviation: np.ndarray
    beyond: bool = False
    remarks: tuple[str, ...] = ()


def read_tracks(
    path: str | Path | Sequence[str | Path],
    deviation: float | None = None,
    start: datetime.datetime | None = None,
    variable: str | None = None,
    add: Sequence[str] = (),
    thin: int = 1,
) -> Tracks:
    """Tracks from a CSV or netCDF file, or from one or several files of altimeters.

    Args:
        path: of the file; or of several of altimeters.
        deviation: standard deviation of the errors [m], if the file has no column for it.
        start: date and time of the start of the run, from which dates count.
        variable, add, thin: of files of altimeters, as of `read_samples`.

    Raises:
        DataError: if the file cannot be read, lacks a column, or lacks the errors and `deviation` is not given.
    """
    several: Any = path if isinstance(path, (list, tuple)) else (path,)
    paths = [Path(one) for one in several]
    kinds = [format_of(one).name if one.is_file() else "" for one in paths]
    if all(kind in READABLE for kind in kinds):
        return _of_altimeters(paths, kinds, deviation, start, (variable, add, thin))
    if len(paths) > 1:
        raise DataError(f"{paths[0]} and others are not all files of altimeters; give one table of points.")
    (path,) = paths
    if given := [name for name, value in {"variable": variable, "add": add, "thin": thin != 1}.items() if value]:
        raise DataError(f"{path} is a table of points, and {given[0]} is for files of altimeters; leave it out.")
    head = table_names(path)
    across = ("longitude", "latitude") if "longitude" in head else ("x", "y")
    if DEVIATION not in head and deviation is None:
        raise DataError(f"{path} has no column {DEVIATION}; add it, or give the deviation of all errors.")
    columns = read_columns(path, (*across, TIME, ELEVATION, *(name for name in head if name == DEVIATION)), start)
    error = columns.get(DEVIATION, np.full(len(columns[TIME]), np.nan if deviation is None else float(deviation)))
    return Tracks(columns[across[0]], columns[across[1]], columns[TIME], columns[ELEVATION], error)


def _of_altimeters(paths, kinds, deviation, start, options):
    """The Tracks of files of altimeters, in `kinds` of formats."""
    if start is None:
        raise DataError(f"{paths[0]} has dates, and the run has none; give run.start.")
    if deviation is None:
        raise DataError(f"{paths[0]} has no errors of its levels; give the deviation of all errors.")
    found = [read_samples(path, kind, start, *options) for path, kind in zip(paths, kinds)]
    x, y, time, value = (
        np.concatenate([getattr(one, name) for one in found]) for name in ("longitude", "latitude", "time", "value")
    )
    remarks = tuple(f"{path.name}: {'; '.join(one.remarks)}" for path, one in zip(paths, found))
    return Tracks(x, y, time, value, np.full(x.size, float(deviation)), beyond=True, remarks=remarks)


def ground_tracks(
    grid: Grid, every: float, until: float, apart: float, between: float, tilt: float = 0.35, deviation: float = 0.02
) -> Tracks:
    """Tracks of an altimeter-like satellite, without values: straight passes that alternate between north and south.

    Args:
        grid: the Grid.
        every: time between passes [s]; a pass is instantaneous.
        until: end of the run [s]; the first pass is at half of `every`.
        apart: distance between points along y [m].
        between: distance along x between successive passes of one direction [m], periodic over the domain; on the
            sphere that at its middle latitude.
        tilt: |dx / dy| of a pass, of lengths at that latitude; its sign alternates.
        deviation: standard deviation of the errors [m].

    Raises:
        ConfigError: if there would be no point.
    """
    (x0, x1), (y0, y1) = (grid.x_edges[[0, -1]], grid.y_edges[[0, -1]])
    east, north = _per_metre(grid)
    if every / 2 >= until or not apart * north < 2 * (y1 - y0):
        raise ConfigError(
            f"ground_tracks: passes every {every:g} s, with points {apart:g} apart, leave none in a run of {until:g} s "
            "on this grid; give less of both."
        )
    y, parts = np.arange(y0 + apart * north / 2, y1, apart * north), []
    for number, time in enumerate(np.arange(every / 2, until, every)):
        lean = (tilt if number % 2 == 0 else -tilt) * east / north
        start = x0 + (number // 2 * between + (number % 2) * between / 2) * east % (x1 - x0)
        x = x0 + (start - x0 + lean * (y - y0)) % (x1 - x0)
        parts.append((x, y, np.full(y.size, time)))
    x, y, time = (np.concatenate(part) for part in zip(*parts))
    return Tracks(x, y, time, np.full(x.size, np.nan), np.full(x.size, float(deviation)))


def _per_metre(grid):
    """A metre along x, at the middle latitude of a sphere, and along y, in the grid's coordinates."""
    if not grid.spherical:
        return 1.0, 1.0
    north = np.rad2deg(1.0 / grid.radius)
    return north / np.cos(np.deg2rad(0.5 * (grid.y_edges[0] + grid.y_edges[-1]))), north


class AllTracks(Part):
    """The rule of a parameter that is a Tracks."""


class TrackMisfit(Cost):
    """J = 1/2 sum over the points of tracks in water of [(eta(x_i, t_i) - y_i) / s_i]^2 [1].

    eta is interpolated bilinearly between wet cells and linearly between steps. Points without a value do not count.

    Args:
        tracks: the Tracks.
    """

    tracks: Tracks = declared(AllTracks(("x", "y", "time", "value", "deviation"), "read_tracks(file)"), doc="Tracks")

    def on_tile(self, model: ShallowWater, dt: float, first_step: int, steps: int) -> TileCost:
        in_water = _in_water(self.tracks, model, dt * (first_step + 1), dt * (first_step + steps))
        names = "x", "y", "time", "value", "deviation"
        x, y, time, value, deviation = (getattr(self.tracks, name)[in_water] for name in names)
        row, share = between_steps(time, dt, first_step, steps)
        reader = GaugeReader.at({f"point {k}": at for k, at in enumerate(zip(x, y))}, model)
        step: Any = model.communicator.place(lambda rank: row)
        shares, observed, per_deviation = (everywhere(model, x) for x in (share, value, 1.0 / deviation))
        return AtInstants(reader, step, shares, observed, per_deviation, first_step + 1, steps)

    def title(self) -> str:
        return f"misfit to {self.tracks.x.size:,} points of tracks"

    def last_time(self) -> float:
        return 0.0 if self.tracks.beyond else float(np.max(self.tracks.time, initial=0.0))


def track_records(tracks: Tracks, model: ShallowWater, until: float) -> dict[str, Record]:
    """{name: Record} of the points of tracks that lie in water, with one Record for each place.

    Raises:
        ConfigError: if points lie outside the grid or the run, or have errors that are not positive.
    """
    in_water = _in_water(tracks, model, 0.0, until)
    places = np.column_stack([tracks.x, tracks.y])[in_water]
    places, which = np.unique(places, axis=0, return_inverse=True)
    records = {}
    for k, place in enumerate(places):
        mine = np.flatnonzero(in_water)[which.ravel() == k]
        mine = mine[np.argsort(tracks.time[mine])]
        records[f"point {k}"] = Record(tuple(place), tracks.time[mine], tracks.value[mine], tracks.deviation[mine])
    return records


def _in_water(tracks, model, begin, until):
    """Which points of tracks have a value in water; raises ConfigError as `track_records` does."""
    grid = model.grid
    x = grid.turned(np.asarray(tracks.x, float))
    outside = _beyond(x, grid.x_edges) | _beyond(tracks.y, grid.y_edges)
    slack = 1e-9 * until
    late = (tracks.time < begin - slack) | (tracks.time > until + slack)
    left_out = (outside | late) & tracks.beyond
    outside, late = outside & ~left_out, late & ~left_out
    limits = [f"{edges[0]:g} to {edges[-1]:g}" for edges in (grid.x_edges, grid.y_edges)]
    mistakes = [
        f"{np.sum(wrong)} of {wrong.size} points of the tracks {what}, such as "
        f"({tracks.x[np.argmax(wrong)]:g}, {tracks.y[np.argmax(wrong)]:g}) at {tracks.time[np.argmax(wrong)]:g} s; "
        f"{remedy}."
        for wrong, what, remedy in (
            (outside, f"lie outside the grid, which spans {limits[0]} and {limits[1]}", "leave them out"),
            (late, f"lie outside the run from {begin:g} to {until:g} s", "leave them out, or make the run longer"),
            (~(tracks.deviation > 0), "have errors that are not positive", "give the standard deviation"),
        )
        if wrong.any()
    ]
    if mistakes:
        raise ConfigError(mistakes)
    in_water = model.sea_floor.wet.at(_cell(grid.y_edges, tracks.y), _cell(grid.x_edges, x)) & np.isfinite(tracks.value)
    in_water = in_water & ~left_out
    if not in_water.any():
        raise ConfigError("none of the points of the tracks has a value in water; give other tracks.")
    return in_water


def _cell(edges, x):
    return np.clip(np.searchsorted(edges, x, side="right") - 1, 0, len(edges) - 2)


def _beyond(x, edges):
    return (x < edges[0]) | (x > edges[-1])
