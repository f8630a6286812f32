"""Along-track observations of the elevation, as an altimeter makes them: points in space and time.

A CSV file (or a netCDF file with variables of these names) has the columns x, y (or longitude, latitude), time_s,
elevation_m and, if errors differ, deviation_m. Files of altimeters are read as their providers write them
(observed/altimetry.py); of these, points outside of the grid or the run do not count.
"""

import dataclasses
import datetime
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ...errors import ConfigError, DataError
from ...fields.parameters import Part, declared
from ...grids.grid import Grid
from ...grids.observed_tables import ELEVATION, TIME, read_columns, table_names
from ...models.shallow_water import ShallowWater
from ...observed.altimetry import READABLE, read_samples
from ...runtime.formats import format_of
from .costs import Cost
from .readers import GaugeReader, everywhere
from .records import Record, between_steps
from .tile_costs import AtInstants, TileCost

__all__ = ["AllTracks", "TrackMisfit", "Tracks", "ground_tracks", "read_tracks", "track_records"]

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
    own = DEVIATION in head
    if not own and deviation is None:
        raise DataError(f"{path} has no column {DEVIATION}; add it, or give the deviation of all errors.")
    columns = read_columns(path, (*across, TIME, ELEVATION, *([DEVIATION] if own else [])), start)
    error = columns[DEVIATION] if own or deviation is None else np.full(len(columns[TIME]), float(deviation))
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
            (
                late,
                f"lie outside the run from {begin:g} to {until:g} s",
                "leave them out, or make the run longer",
            ),
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
