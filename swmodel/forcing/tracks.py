"""Tracks of tropical cyclones from files: CSV, ATCF (a- and b-decks) and IBTrACS netCDF.

A CSV file has a header with time_utc, longitude_deg, latitude_deg, radius_of_maximum_wind_m and central_pressure_pa,
and may have maximum_wind_m_s and, for several storms, storm; other columns are left alone. Cells of the radius and of
the wind may be blank. Where a best track gives no
radius of maximum wind, that of Willoughby, Darling & Rahn (2006) for its wind and latitude is taken,
R = 46.4 km exp(-0.0155 V + 0.0169 phi), doi:10.1175/MWR3106.1.

The largest wind W of a track is that at 10 m of the moving storm. Best tracks of the United States give the mean of
one minute, and drag laws are for that of ten minutes: at sea the latter is 0.93 of the former (Harper, Kepert &
Ginger 2010, WMO/TD-No. 1555), which `wind_averaging` takes into account. W is then the product. The gradient wind is
V = (W - translation |c|) / reduction, with the speed c of the centre, and B = V^2 rho_air e / (p_n - p_c), between 0.5
and 2.5; the profile of 1980, which has V (V + R |f|) at R, takes this in the place of V^2. So the largest wind of the
Cyclone is W again, unless B is at an end of this range, as in dying storms; `largest_winds` gives it.
"""

import dataclasses
import datetime
from pathlib import Path
from typing import Any

import numpy as np

from ..defaults import EARTH_RADIUS, EARTH_ROTATION
from ..errors import DataError
from ..fields.parameters import Number, check_arguments, in_utc
from ..grids.file_units import check_units
from ..runtime.formats import check_format
from ..runtime.tables import read_csv
from .cyclones import Cyclone

__all__ = ["SHAPES", "Track", "cyclone_of", "largest_winds", "read_track"]

IBTRACS = {
    "lon": "degree", "lat": "degree", "usa_pres": "hPa", "wmo_pres": "hPa", "usa_rmw": "nmile", "usa_wind": "knots",
    "wmo_wind": "knots",
}  # fmt: skip
KNOT, MILE = 0.514444, 1852.0
SHAPES = 0.5, 2.5  # limits of B; those of mature storms are 1 to 2.5, and dying ones have less
FASTEST = 60.0  # [m s-1], of the centre
STRONGEST = 120.0  # [m s-1] of the winds at 10 m; 96 was the strongest on record
LARGEST = 1e6  # [m] of the radii of maximum wind
AVERAGING = Number(None, "1", above=0.5, maximum=1.0)
COLUMNS = ("time_utc", "longitude_deg", "latitude_deg", "radius_of_maximum_wind_m", "central_pressure_pa")


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
        path: of a .csv file, a netCDF file of IBTrACS, or an ATCF deck.
        storm: the identifier, as AL092008 or a SID of IBTrACS, or the name of one storm in a file of several.

    Raises:
        DataError: if there is no such file, or it holds no track.
    """
    path = Path(path)
    if not path.is_file():
        raise DataError(f"there is no track file {path}; check the path.")
    kind = check_format(path, ("atcf", "netcdf", "text"), "a track in ATCF, CSV or the netCDF of IBTrACS", "track")
    reader = {"atcf": _atcf, "netcdf": _ibtracs}.get(kind) or (_csv if path.suffix.lower() == ".csv" else _atcf)
    try:
        rows = reader(path, storm)
    except DataError:
        raise
    except (ValueError, KeyError, IndexError, UnicodeDecodeError) as error:
        raise DataError(
            f"{path} holds no track that can be read ({error}); give CSV, ATCF or IBTrACS netCDF."
        ) from error
    moments = sorted(moment for moment, (_, _, pressure, *_) in rows.items() if pressure > 0)
    if 2 * len(moments) < len(rows):
        raise DataError(
            f"{path}: {len(rows) - len(moments)} of {len(rows)} points have no central pressure, from which the vortex "
            "follows; give a track with pressures, as a best track has them, or add them."
        )
    if len(moments) < 2:
        raise DataError(
            f"{path} holds {len(moments)} points of a track, and two are needed; give another file or storm."
        )
    columns = (np.array(column, float) for column in zip(*(rows[moment] for moment in moments)))
    longitude, latitude, pressure, radius, wind = columns
    if pressure.max() < 2000.0:
        raise DataError(f"{path}: central pressures of {pressure.min():g} to {pressure.max():g} are hPa; give Pa.")
    _check_places(path, moments, longitude, latitude)
    for values, most, name, unit in ((wind, STRONGEST, "largest wind", "m/s"), (radius, LARGEST, "radius", "m")):
        if (wrong := (values < 0) | (values > most)).any():  # NaN and 0 are values that are not known
            k = int(np.argmax(wrong))
            raise DataError(
                f"{path}: the {name} on {moments[k]:%Y-%m-%d %H:%M} is {values[k]:g} {unit}, and not between 0 and "
                f"{most:g} {unit}; check this point and its unit."
            )
    radius = np.where(radius > 0, radius, 46.4e3 * np.exp(-0.0155 * np.nan_to_num(wind) + 0.0169 * np.abs(latitude)))
    return Track(tuple(moments), np.rad2deg(np.unwrap(np.deg2rad(longitude))), latitude, pressure, radius, wind)


def _check_places(path, moments, longitude, latitude):
    """Raise DataError for centres that are nowhere on the sphere, or too far apart for a storm."""
    for k, (x, y) in enumerate(zip(longitude, latitude)):
        if not (abs(x) <= 360.0 and abs(y) <= 90.0):
            raise DataError(
                f"{path}: the centre on {moments[k]:%Y-%m-%d %H:%M} is at ({x:g}, {y:g}); give longitude and latitude "
                "in degrees."
            )
    seconds = np.array([(moment - moments[0]).total_seconds() for moment in moments])
    x, y = np.deg2rad(longitude), np.deg2rad(latitude)
    across = np.sin(np.diff(x) / 2) ** 2 * np.cos(y[1:]) * np.cos(y[:-1])
    speed = 2 * EARTH_RADIUS * np.arcsin(np.sqrt(np.sin(np.diff(y) / 2) ** 2 + across)) / np.diff(seconds)
    k = int(np.argmax(speed))
    if speed[k] > FASTEST:
        raise DataError(
            f"{path}: the centre moves at {speed[k]:.3g} m/s from {moments[k]:%Y-%m-%d %H:%M} to "
            f"{moments[k + 1]:%Y-%m-%d %H:%M}, and no storm does at more than {FASTEST:g} m/s; check these points."
        )


def _csv(path, storm):
    table = read_csv(path)
    rows = table.rows
    if not rows or (missing := [name for name in COLUMNS if name not in table.names]):
        raise ValueError(f"the column {missing[0]} is missing" if rows else "it has no rows")
    if storm is not None or "storm" in table.names:
        names = list(dict.fromkeys(row.get("storm", "") for row in rows))
        wanted = names[_chosen(path, [(name,) for name in names], storm)]
        rows = [row for row in rows if row.get("storm", "") == wanted]
    found = {}
    for row in rows:
        if (moment := _moment(row["time_utc"])) in found:
            raise ValueError(f"it has two points on {moment:%Y-%m-%d %H:%M}")
        needed = [_number(path, row, name) for name in ("longitude_deg", "latitude_deg", "central_pressure_pa")]
        unknown = (_number(path, row, name, "nan") for name in ("radius_of_maximum_wind_m", "maximum_wind_m_s"))
        found[moment] = *needed, *unknown
    return found


def _number(path, row, name, otherwise=None):
    """The number in a column of a row; `otherwise` in a blank cell, or where there is no such column."""
    text = row.get(name) or otherwise
    try:
        if text is not None:
            return float(text)
    except ValueError:
        pass
    what = "is blank" if text is None else f"is {text!r}"
    raise DataError(f"{path}: {name} {what} on {row['time_utc']}; give a number.")


def _moment(text):
    return in_utc(datetime.datetime.fromisoformat(text.strip()))


def _chosen(path, known, storm):
    """The number of the storm `storm` in a file; `known` has the identifier and the name of each storm."""
    wanted = [k for k, names in enumerate(known) if storm is None or storm.strip().upper() in map(str.upper, names)]
    if len(wanted) == 1:
        return wanted[0]
    some = ", ".join(names[0] for names in known[:5]) + (", ..." if len(known) > 5 else "")
    if storm is None:
        raise DataError(f"{path} holds {len(known)} storms, {some}; name one of them by `storm`.")
    if wanted:
        first = known[wanted[0]][0]
        raise DataError(f"{path}: {len(wanted)} storms are called {storm!r}; give an identifier, as {first!r}.")
    remedy = f"it has {some}" if some else "it names none, so leave `storm` out"
    raise DataError(f"{path} has no storm {storm!r}; {remedy}.")


def _atcf(path, storm):
    """Columns of https://science.nrlmry.navy.mil/atcf/docs/database/new/abdeck.txt: knots, nautical miles, hPa.

    A best track has the minutes of its dates in the column of a forecast's technique; a forecast counts TAU hours.
    """
    rows = [[part.strip() for part in line.split(",")] for line in path.read_text(encoding="utf-8").splitlines()]
    rows = [row for row in rows if len(row) >= 10 and row[2].isdigit()]
    storms: dict[str, list] = {}
    for row in rows:
        storms.setdefault(f"{row[0]}{row[1]}{_season(row)}", []).append(row)
    known = [(key, *sorted({row[27] for row in of if len(row) > 27})) for key, of in storms.items()]
    if not known:
        raise ValueError("it has no lines of an ATCF deck")
    rows = list(storms.values())[_chosen(path, known, storm)]
    best = [row for row in rows if row[4] == "BEST"]
    if not best and len({(row[2], row[4]) for row in rows}) > 1:
        raise DataError(f"{path} holds forecasts of several models or dates; leave the lines of one of them.")
    found: dict[datetime.datetime, tuple] = {}
    for row in best or rows:
        latitude, longitude = _degrees(row[6], "NS"), _degrees(row[7], "EW")
        radius = float(row[19] or 0) * MILE if len(row) > 19 else 0.0
        later = datetime.timedelta(hours=float(row[5] or 0), minutes=float(row[3] or 0) if best else 0.0)
        moment = datetime.datetime.strptime(row[2], "%Y%m%d%H") + later
        point = longitude, latitude, float(row[9] or 0) * 100, radius, float(row[8] or "nan") * KNOT
        if moment not in found or not found[moment][2] > 0:  # there are lines for several radii, and one may be blank
            found[moment] = point
    return found


def _season(row):
    """The year that counts a storm of an ATCF deck; south of the equator it begins in July of the year before."""
    year, month = int(row[2][:4]), int(row[2][4:6])
    return year + (row[6].endswith("S") and month >= 7)


def _degrees(text, letters):
    """A latitude or longitude of an ATCF deck, tenths of degrees with one of two letters, such as 172N."""
    if not (text[:-1].isdigit() and text[-1] in letters):
        raise ValueError(f"{text!r} is not a number of tenths of degrees with {letters[0]} or {letters[1]}")
    return float(text[:-1]) / 10 * (-1 if text[-1] in "SW" else 1)


def _text(x):
    return x.decode().strip() if isinstance(x, bytes) else str(x).strip()


def _ibtracs(path, storm):
    import xarray as xr

    with xr.open_dataset(path) as data:
        if "storm" in data.sizes:
            columns = [data[key].values for key in ("sid", "name") if key in data]
            known = list(zip(*([_text(x) for x in column] for column in columns)))
            if not known:
                raise ValueError("it has no column sid")
            data = data.isel(storm=_chosen(path, known, storm))
        for name, units in IBTRACS.items():
            if name in data and (given := str(data[name].attrs.get("units", ""))):
                check_units(f"{name} in {path}", given, units)
        times = data["time"].values
        nothing = np.full(times.shape, np.nan)
        columns = {name: data[name].values if name in data else nothing for name in IBTRACS}
        pressure, wind = (
            np.where(np.isfinite(columns[f"usa_{name}"]), columns[f"usa_{name}"], columns[f"wmo_{name}"])
            for name in ("pres", "wind")
        )
        found = {}
        for k in np.flatnonzero(~np.isnat(times)):
            moment, radius = times[k].astype("datetime64[s]").item(), np.nan_to_num(columns["usa_rmw"][k]) * MILE
            place = float(data["lon"].values[k]), float(data["lat"].values[k])
            found[moment] = *place, float(pressure[k]) * 100, float(radius), float(wind[k]) * KNOT
    return found


def cyclone_of(
    track: Track, start: datetime.datetime, until: float | None = None, wind_averaging: float = 1.0, **options: Any
) -> Cyclone:
    """The Cyclone of a Track in a run that starts at `start` (UTC) and lasts `until` [s].

    Args:
        wind_averaging: the factor from the winds of the track to means of ten minutes, above 0.5 and at most 1; 0.93
            for means of one minute at sea.
        options: further arguments of Cyclone.

    Raises:
        DataError: if the track starts after the run, or ends before it does.
        ConfigError: if its central pressure is not below the ambient one in the time of the run, or for another factor.
    """
    check_arguments("cyclone_of", {"wind_averaging": AVERAGING}, {"wind_averaging": wind_averaging})
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
    first = np.searchsorted(times, 0.0, side="right") - 1
    default: dict[str, Any] = {field.name: field.default for field in dataclasses.fields(Cyclone)} | options
    ambient, reduction, translation, density = (
        float(default[name]) for name in ("ambient_pressure", "reduction", "translation", "air_density")
    )
    # Points after the run stay, since a run that is resumed must round as one without a break. A storm that has died
    # by then ends there.
    reached = np.searchsorted(times, np.inf if until is None else until)
    died = ~(track.pressure < ambient) & (np.arange(times.size) > reached)
    last = int(np.argmax(died)) if died.any() else times.size
    kept = slice(max(min(first, times.size - 2), 0), max(last, first + 2))
    moving = translation * _speed(track.longitude, track.latitude, times)
    gradient = np.maximum(wind_averaging * track.wind - moving, 0.0) / reduction
    f = 2.0 * EARTH_ROTATION * np.abs(np.sin(np.deg2rad(track.latitude))) * (default["profile"] == "holland_1980")
    strength = gradient * (gradient + track.radius * f)
    deficit = np.maximum(ambient - track.pressure, 100.0)
    b = np.where(np.nan_to_num(track.wind) > 0, np.clip(strength * density * np.e / deficit, *SHAPES), 1.5)
    lines = {"x": track.longitude, "y": track.latitude, "central_pressure": track.pressure}
    given: dict[str, Any] = {name: x[kept] for name, x in (lines | {"radius": track.radius, "b": b}).items()}
    return Cyclone(times=tuple(times[kept].tolist()), spherical=True, start=start, **(given | options))


def largest_winds(storm: Cyclone) -> np.ndarray:
    """The largest wind at 10 m of a Cyclone on the sphere at each point of its track [m s-1], (n,)."""
    f = 2.0 * EARTH_ROTATION * np.abs(np.sin(np.deg2rad(storm.y))) * (storm.profile == "holland_1980")
    half = 0.5 * f * storm.radius
    gradient = np.sqrt(
        storm.b * (storm.ambient_pressure - storm.central_pressure) / (storm.air_density * np.e) + half**2
    )
    return storm.reduction * (gradient - half) + storm.translation * _speed(storm.x, storm.y, np.asarray(storm.times))


def _speed(longitude, latitude, times):
    """Of the centre at each point [m s-1]."""
    degree = np.deg2rad(EARTH_RADIUS)
    east = np.gradient(longitude, times) * degree * np.cos(np.deg2rad(latitude))
    return np.hypot(east, np.gradient(latitude, times) * degree)
