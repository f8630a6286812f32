"""Lines on maps that the files of an experiment describe: levees, and the tracks of storms with their winds.

They are drawn if these files are still where the run read them.
"""

import datetime
import pathlib
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.patches import Ellipse

from swmodel.errors import DataError
from swmodel.runtime.tables import read_csv

from . import style
from .files import Mesh, experiment_in, start_of

__all__ = ["Track", "draw_lines", "draw_storms", "levees_of", "tracks_of"]

LEVEE = "#5b3a1a"
METRES_PER_DEGREE = 111.2e3
DAY = 86400.0


class Track(NamedTuple):
    """The points of a storm's track: time since the start [s], place, radius and strength of the largest wind."""

    time: np.ndarray
    x: np.ndarray
    y: np.ndarray
    radius: np.ndarray
    wind: np.ndarray


def _input(dataset: xr.Dataset, name: object) -> pathlib.Path | None:
    """A CSV file that the experiment names, relative to its folder; None if there is none."""
    head = str(dataset.attrs.get("config", "")).partition("\n")[0]
    folder = pathlib.Path(head.removeprefix("# experiment file: ")).parent
    path = folder / str(name)
    return path if isinstance(name, str) and path.suffix == ".csv" and path.is_file() else None


def levees_of(dataset: xr.Dataset) -> list[np.ndarray]:
    """The lines of the levees in the file's coordinates, (n, 2) each."""
    path = _input(dataset, experiment_in(dataset).get("bathymetry", {}).get("levees"))
    if path is None:
        return []
    try:
        table = read_csv(path)
        points = np.column_stack([table.numbers("x"), table.numbers("y")])
        names = np.array(table.texts("levee"))
    except (DataError, KeyError):  # changed since the run
        return []
    return [points[names == name] for name in dict.fromkeys(names)]


def tracks_of(dataset: xr.Dataset) -> list[Track]:
    """The Tracks of the storms of a dated run."""
    forcing, start = experiment_in(dataset).get("forcing", ()), start_of(dataset)
    paths = [_input(dataset, part.get("track")) for part in forcing if part.get("type") == "cyclone"]
    return [] if start is None else [track for path in paths if path for track in _track_in(path, start)]


def _track_in(path, start) -> Iterator[Track]:
    try:
        table = read_csv(path)
        moments = [datetime.datetime.fromisoformat(text) for text in table.texts("time_utc")]
        time = np.array([(moment.replace(tzinfo=None) - start).total_seconds() for moment in moments])
        names = "longitude_deg", "latitude_deg", "radius_of_maximum_wind_m", "maximum_wind_m_s"
        columns = [table.numbers(n) if n in table.names else np.full(time.size, np.nan) for n in names]
    except (DataError, KeyError, ValueError):  # changed since the run
        return
    if time.size > 1 and (np.diff(time) > 0).all():
        yield Track(time, *columns)


def draw_lines(axes: Axes, dataset: xr.Dataset, mesh: Mesh) -> None:
    """Levees, and the tracks of storms with a dot at each day."""
    for k, points in enumerate(levees_of(dataset)):
        name = "levees" if k == 0 else None
        axes.plot(*(points.T * mesh.scale), color=LEVEE, linewidth=1.6, zorder=5.5, label=name)
    for track in tracks_of(dataset):
        x = _longitudes(track.x, mesh)
        axes.plot(x, track.y, color=style.BLACK, linewidth=1.0, zorder=5.5, path_effects=style.HALO)
        days = np.arange(np.ceil(track.time[0] / DAY), track.time[-1] / DAY + 1e-9) * DAY
        dots = np.interp(days, track.time, x), np.interp(days, track.time, track.y)
        axes.plot(*dots, "o", color=style.BLACK, markersize=2.6, zorder=5.6, path_effects=style.HALO)


def draw_storms(axes: Axes, dataset: xr.Dataset, mesh: Mesh, time: float) -> None:
    """The centres of storms at `time` [s], with the circle of the largest wind and its strength."""
    west, east, south, north = mesh.extent
    for track in tracks_of(dataset):
        if not track.time[0] <= time <= track.time[-1]:
            continue
        x, y = (np.interp(time, track.time, values) for values in (_longitudes(track.x, mesh), track.y))
        if not (west <= x <= east and south <= y <= north):
            continue
        axes.plot(x, y, "+", color=style.BLACK, markersize=7, markeredgewidth=1.3, zorder=6)
        radius, wind = (np.interp(time, track.time, values) for values in (track.radius, track.wind))
        if np.isfinite(radius):
            tall = 2.0 * radius / METRES_PER_DEGREE
            size = tall / np.cos(np.deg2rad(y)), tall
            axes.add_patch(Ellipse((x, y), *size, fill=False, color=style.BLACK, linewidth=1.0, zorder=6))
        if np.isfinite(wind):
            place = {"xytext": (7, 5), "textcoords": "offset points"}
            axes.annotate(f"{wind:.0f} m s⁻¹", (x, y), fontsize=7.0, zorder=7, path_effects=style.HALO, **place)


def _longitudes(x, mesh):
    """Longitudes in the range of the map."""
    middle = 0.5 * (mesh.extent[0] + mesh.extent[1])
    return x - 360.0 * np.round((np.mean(x) - middle) / 360.0)
