"""Observations of the surface: records of gauges, and points along the tracks of an altimeter.

    gauges    a folder of NAME.csv, one a gauge, with the columns time_s (since the start) and elevation_m (records.py)
    tracks    a CSV file with the columns x, y (or longitude, latitude), time_s, elevation_m and, if errors differ,
              deviation_m

Both become {name: Record}, which Misfit takes. Model values are linear between steps and bilinear between wet cells.

The error of a gauge comprises the instrument and what the model's grid cannot resolve. It is sigma [m], and may have a
part in proportion to the waves: a share e of the gauge's own standard deviation. Errors persist for minutes, so that
observations closer together in time than tau are not independent. For n observations at intervals dt < tau,

    s_g = (sigma^2 + e^2 var(y_g))^(1/2) (tau / dt)^(1/2),   sum_i [(eta - y_i) / s_g]^2 = n dt / tau,  expected.
"""

import dataclasses
from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike

from ...errors import ConfigError, DataError
from ...grids.grid import Grid
from ...models.shallow_water import ShallowWater
from ..costs.records import ELEVATION, TIME, Record, header, read_columns

__all__ = [
    "Tracks", "gauge_records", "ground_tracks", "read_tracks", "track_records", "window_of", "write_gauge_folder",
]  # fmt: skip

DEVIATION = "deviation_m"
GAUGE_ERROR = 0.05  # [m], the default: residual tides and coarse grids cause a few centimetres


def write_gauge_folder(folder: str | Path, series: dict[str, tuple[ArrayLike, ArrayLike]]) -> None:
    """Write {name: (time [s], elevation [m])} as `records_in` reads them."""
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    for name, (time, value) in series.items():
        table = np.column_stack([time, value])
        np.savetxt(folder / f"{name}.csv", table, "%.3f,%.6f", header=f"{TIME},{ELEVATION}", comments="")


def gauge_records(
    records: dict,
    window: tuple | dict,
    error: float | None = None,
    independent: float = 120.0,
    deviation: float | None = None,
) -> dict:
    """{name: Record} with the errors of gauges.

    Args:
        records: {name: Record}, as `records_in` reads them.
        window: (first, last) [s]; observations outside do not count. Or {name: (first, last)}.
        error: e, a share of each gauge's own standard deviation in the window; 0 unless given.
        independent: tau [s].
        deviation: sigma [m]; GAUGE_ERROR unless this or `error` is given.

    Raises:
        ConfigError: if gauges have no window, or do not vary in it; the message names all of them.
    """
    scaled, mistakes = {}, []
    sigma = deviation or (GAUGE_ERROR if error is None else 0.0)
    for name, record in records.items():
        if isinstance(window, dict) and name not in window:
            mistakes.append(_NO_WINDOW.format(name))
            continue
        span = window_of(window, name)
        record = dataclasses.replace(record, window=span, deviation=1.0)
        time, value, _ = record.counted()
        if not time.size or (sigma == 0.0 and np.std(value) == 0):
            mistakes.append(
                f"the record of {name} has {time.size} observations from {span[0]:g} to {span[1]:g} s"
                f"{' that all are the same, of which no share is an error' if time.size else ''}; widen the window, "
                f"{'give deviation in m, ' if time.size else ''}or leave the gauge out."
            )
            continue
        apart = float(np.median(np.diff(np.unique(np.asarray(time, float))))) if np.ptp(time) > 0 else independent
        alike = max(independent / apart if apart else 1.0, 1.0)
        own = float(np.hypot(sigma, (error or 0.0) * np.std(value)))
        scaled[name] = dataclasses.replace(record, deviation=own * np.sqrt(alike), alike=alike)
    if mistakes:
        raise ConfigError(mistakes)
    return scaled


_NO_WINDOW = "gauge {!r} has no window; give it one, or leave that gauge out."


def window_of(window: tuple | dict, name: str) -> tuple:
    """(first, last) [s] of a gauge, from one window for all gauges or {name: window}."""
    if not isinstance(window, dict):
        return window
    if name not in window:
        raise ConfigError(_NO_WINDOW.format(name))
    return window[name]


@dataclasses.dataclass(frozen=True, eq=False)
class Tracks:
    """Points of an altimeter in space and time, (n,) each: x, y in the grid's coordinates, time [s], value [m]."""

    x: np.ndarray
    y: np.ndarray
    time: np.ndarray
    value: np.ndarray
    deviation: np.ndarray


def read_tracks(path: str | Path, deviation: float | None = None) -> Tracks:
    """Tracks from a CSV file.

    Args:
        path: path of the file.
        deviation: standard deviation of the errors [m], if the file has no column for it.

    Raises:
        DataError: if the file cannot be read, lacks a column, or lacks the errors and `deviation` is not given.
    """
    path = Path(path)
    if not path.is_file():
        raise DataError(f"there is no file {path} with tracks; give a CSV file with x, y, {TIME} and {ELEVATION}.")
    head = header(path)
    across = ("longitude", "latitude") if "longitude" in head else ("x", "y")
    own = DEVIATION in head
    if not own and deviation is None:
        raise DataError(f"{path} has no column {DEVIATION}; add it, or give the deviation of all errors.")
    columns = read_columns(path, (*across, TIME, ELEVATION, *([DEVIATION] if own else [])))
    if not columns[TIME].size:
        raise DataError(f"{path} holds no times in its column {TIME}; give one for each observation.")
    error = columns[DEVIATION] if own or deviation is None else np.full(len(columns[TIME]), float(deviation))
    return Tracks(columns[across[0]], columns[across[1]], columns[TIME], columns[ELEVATION], error)


def ground_tracks(
    grid: Grid, every: float, until: float, apart: float, between: float, tilt: float = 0.35, deviation: float = 0.02
) -> Tracks:
    """Tracks of an altimeter-like satellite, without values: straight passes that alternate between north and south.

    Args:
        grid: the Grid; distances are in its coordinates.
        every: time between passes [s]; a pass is instantaneous.
        until: end of the run [s]; the first pass is at half of `every`.
        apart: distance between points along y.
        between: distance along x between successive passes of one direction, periodic over the domain.
        tilt: |dx / dy| of a pass; its sign alternates.
        deviation: standard deviation of the errors [m].

    Raises:
        ConfigError: if there would be no point.
    """
    if every / 2 >= until or not apart < 2 * np.ptp(grid.y_edges):
        raise ConfigError(
            f"ground_tracks: passes every {every:g} s, with points {apart:g} apart, leave none in a run of {until:g} s "
            "on this grid; give less of both."
        )
    (x0, x1), (y0, y1) = (grid.x_edges[[0, -1]], grid.y_edges[[0, -1]])
    y = np.arange(y0 + apart / 2, y1, apart)
    parts = []
    for number, time in enumerate(np.arange(every / 2, until, every)):
        lean = tilt if number % 2 == 0 else -tilt
        start = x0 + (number // 2 * between + (number % 2) * between / 2) % (x1 - x0)
        x = x0 + (start - x0 + lean * (y - y0)) % (x1 - x0)
        parts.append((x, y, np.full(y.size, time)))
    x, y, time = (np.concatenate(part) for part in zip(*parts))
    return Tracks(x, y, time, np.full(x.size, np.nan), np.full(x.size, float(deviation)))


def track_records(tracks: Tracks, model: ShallowWater, until: float) -> dict[str, Record]:
    """{name: Record} of the points of tracks that lie in water, with one Record for each place.

    Raises:
        ConfigError: if points lie outside the grid or the run, or have errors that are not positive.
    """
    grid = model.grid
    x = np.asarray(tracks.x, float)
    if grid.spherical:
        x = grid.x_edges[0] + (x - grid.x_edges[0]) % 360.0
    outside = _beyond(x, grid.x_edges) | _beyond(tracks.y, grid.y_edges)
    late = (tracks.time < 0) | (tracks.time > until)
    limits = [f"{edges[0]:g} to {edges[-1]:g}" for edges in (grid.x_edges, grid.y_edges)]
    mistakes = [
        f"{np.sum(wrong)} of {wrong.size} points of the tracks {what}, such as "
        f"({tracks.x[np.argmax(wrong)]:g}, {tracks.y[np.argmax(wrong)]:g}) at {tracks.time[np.argmax(wrong)]:g} s; "
        f"{remedy}."
        for wrong, what, remedy in (
            (outside, f"lie outside the grid, which spans {limits[0]} and {limits[1]}", "leave them out"),
            (late, f"lie outside the run from 0 to {until:g} s", "leave them out, or make the run longer"),
            (~(tracks.deviation > 0), "have errors that are not positive", "give the standard deviation"),
        )
        if wrong.any()
    ]
    if mistakes:
        raise ConfigError(mistakes)
    afloat = model.sea_floor.wet.at(_cell(grid.y_edges, tracks.y), _cell(grid.x_edges, x)) & np.isfinite(tracks.value)
    if not afloat.any():
        raise ConfigError("none of the points of the tracks has a value in water; give other tracks.")
    places = np.column_stack([tracks.x, tracks.y])[afloat]
    places, which = np.unique(places, axis=0, return_inverse=True)
    records = {}
    for k, place in enumerate(places):
        mine = np.flatnonzero(afloat)[which.ravel() == k]
        mine = mine[np.argsort(tracks.time[mine])]
        records[f"point {k}"] = Record(tuple(place), tracks.time[mine], tracks.value[mine], tracks.deviation[mine])
    return records


def _cell(edges, x):
    return np.clip(np.searchsorted(edges, x, side="right") - 1, 0, len(edges) - 2)


def _beyond(x, edges):
    return (x < edges[0]) | (x > edges[-1])
