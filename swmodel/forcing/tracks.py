"""Tracks of tropical cyclones from files: CSV, ATCF (a- and b-decks) and IBTrACS netCDF.

A CSV file has a header with time_utc, longitude_deg, latitude_deg, radius_of_maximum_wind_m and central_pressure_pa;
other columns are left alone. Where a best track gives no radius of maximum wind, that of Willoughby & Rahn (2004)
for its wind and latitude is taken, R = 46.4 km exp(-0.0155 V + 0.0169 phi), doi:10.1175/MWR2831.1. Where there is a
largest wind, B follows from it: B = V^2 rho_air e / (p_n - p_c), between 1 and 2.5.
"""

import csv
import dataclasses
import datetime
from pathlib import Path
from typing import Any

import numpy as np

from ..defaults import AIR_DENSITY
from ..errors import DataError
from ..fields.parameters import in_utc
from .cyclones import Cyclone

__all__ = ["AMBIENT", "Track", "cyclone_of", "read_track"]

KNOT, MILE = 0.514444, 1852.0
COLUMNS = ("time_utc", "longitude_deg", "latitude_deg", "radius_of_maximum_wind_m", "central_pressure_pa")
AMBIENT = 101300.0  # [Pa], outside of a storm


@dataclasses.dataclass(frozen=True)
class Track:
    """The points of a track.

    Attributes:
        moments: dates and times, UTC.
        longitude, latitude: of the centre [degrees].
        pressure: central [Pa].
        radius: of maximum wind [m].
        wind: largest, sustained [m s-1]; NaN where it is not known.
    """

    moments: tuple[datetime.datetime, ...]
    longitude: np.ndarray
    latitude: np.ndarray
    pressure: np.ndarray
    radius: np.ndarray
    wind: np.ndarray


def read_track(path: str | Path, storm: str | None = None) -> Track:
    """The Track in a file.

    Args:
        path: of a .csv file, a netCDF file (.nc) of IBTrACS, or an ATCF deck.
        storm: the identifier (SID) or name of one storm in a file of several.

    Raises:
        DataError: if there is no such file, or it holds no track.
    """
    path = Path(path)
    if not path.is_file():
        raise DataError(f"there is no track file {path}; check the path.")
    reader = {".csv": _csv, ".nc": _ibtracs}.get(path.suffix.lower(), _atcf)
    try:
        rows = reader(path, storm)
    except (ValueError, KeyError, IndexError, UnicodeDecodeError) as error:
        raise DataError(
            f"{path} holds no track that can be read ({error}); give CSV, ATCF or IBTrACS netCDF."
        ) from error
    moments = sorted(rows)
    if len(moments) < 2:
        raise DataError(
            f"{path} holds {len(moments)} points of a track, and two are needed; give another file or storm."
        )
    columns = (np.array(column, float) for column in zip(*(rows[moment] for moment in moments)))
    longitude, latitude, pressure, radius, wind = columns
    if pressure.max() < 2000.0:
        raise DataError(f"{path}: central pressures of {pressure.min():g} to {pressure.max():g} are hPa; give Pa.")
    radius = np.where(radius > 0, radius, 46.4e3 * np.exp(-0.0155 * np.nan_to_num(wind) + 0.0169 * np.abs(latitude)))
    return Track(tuple(moments), np.rad2deg(np.unwrap(np.deg2rad(longitude))), latitude, pressure, radius, wind)


def _csv(path, storm):
    with path.open(newline="", encoding="utf-8-sig") as file:
        table = list(csv.DictReader(file))
    if not table or (missing := [name for name in COLUMNS if name not in table[0]]):
        raise ValueError(f"the column {missing[0]} is missing" if table else "it has no rows")
    found = {}
    for row in table:
        _, longitude, latitude, radius, pressure = (row[name] for name in COLUMNS)
        wind = row.get("maximum_wind_m_s") or "nan"
        found[_moment(row["time_utc"])] = *map(float, (longitude, latitude, pressure, radius)), float(wind)
    return found


def _moment(text):
    return in_utc(datetime.datetime.fromisoformat(text.strip()))


def _atcf(path, storm):
    """Columns of https://science.nrlmry.navy.mil/atcf/docs/database/new/abdeck.txt: knots, nautical miles, hPa."""
    found = {}
    for line in path.read_text(encoding="utf-8").splitlines():
        parts = [part.strip() for part in line.split(",")]
        if len(parts) < 10 or not parts[2].isdigit() or not float(parts[9] or 0):
            continue
        latitude, longitude = (float(text[:-1]) / 10 * (-1 if text[-1] in "SW" else 1) for text in parts[6:8])
        radius = float(parts[19] or 0) * MILE if len(parts) > 19 else 0.0
        moment = datetime.datetime.strptime(parts[2], "%Y%m%d%H")
        found.setdefault(moment, (longitude, latitude, float(parts[9]) * 100, radius, float(parts[8] or "nan") * KNOT))
    return found


def _ibtracs(path, storm):
    import xarray as xr

    with xr.open_dataset(path) as data:
        if "storm" in data.sizes:
            names = [[bytes(x).decode().strip() for x in data[key].values] for key in ("sid", "name") if key in data]
            wanted = [k for column in names for k, name in enumerate(column) if storm and name == storm.upper()]
            if not wanted and data.sizes["storm"] > 1:
                raise ValueError(f"{storm!r} is none of its storms" if storm else "it holds several storms; name one")
            data = data.isel(storm=wanted[0] if wanted else 0)
        times = data["time"].values
        nothing = np.full(times.shape, np.nan)
        columns = {name: data[name].values if name in data else nothing for name in ("usa_pres", "usa_rmw", "usa_wind")}
        found = {}
        for k in np.flatnonzero(~np.isnat(times) & np.isfinite(columns["usa_pres"])):
            moment = times[k].astype("datetime64[s]").item()
            radius, wind = np.nan_to_num(columns["usa_rmw"][k]) * MILE, columns["usa_wind"][k] * KNOT
            place = float(data["lon"].values[k]), float(data["lat"].values[k])
            found[moment] = *place, float(columns["usa_pres"][k]) * 100, float(radius), float(wind)
    return found


def cyclone_of(track: Track, start: datetime.datetime, until: float | None = None, **options: Any) -> Cyclone:
    """The Cyclone of a Track in a run that starts at `start` (UTC) and lasts `until` [s].

    Args:
        options: further arguments of Cyclone.

    Raises:
        DataError: if the track starts after the run, or ends before it does.
    """
    start = in_utc(start)
    times = np.array([(moment - start).total_seconds() for moment in track.moments])
    if times[0] > 0:
        raise DataError(
            f"the track starts on {track.moments[0]:%Y-%m-%d %H:%M}, after the run on {start:%Y-%m-%d %H:%M}; "
            "start the run later."
        )
    if until is not None and times[-1] < until:
        raise DataError(
            f"the track ends on {track.moments[-1]:%Y-%m-%d %H:%M}, {(until - times[-1]) / 3600:.3g} h before the run "
            "does; end the run earlier."
        )
    ambient = float(options.get("ambient_pressure", AMBIENT))
    deficit = np.maximum(ambient - track.pressure, 100.0)
    wind = np.where(np.isfinite(track.wind), track.wind, 0.0)
    b = np.where(wind > 0, np.clip(wind**2 * AIR_DENSITY * np.e / deficit, 1.0, 2.5), 1.5)
    pressure = np.minimum(track.pressure, ambient)
    given: dict[str, Any] = {"x": track.longitude, "y": track.latitude, "central_pressure": pressure}
    given |= {"radius": track.radius, "b": b}
    return Cyclone(times=tuple(times.tolist()), **(given | options))
