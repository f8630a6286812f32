"""Tracks of tropical cyclones from files (track_files.py), and the Cyclone along one.

Where a track gives no radius of maximum wind, that of Willoughby, Darling & Rahn (2006) for its wind and latitude is
taken, R = 46.4 km exp(-0.0155 V + 0.0169 phi), doi:10.1175/MWR3106.1. Where it gives no central pressure, one of
RELATIONS may be named, by which the pressure follows from the wind (wind_laws.py).

The largest wind W of a track is that at 10 m of the moving storm. Best tracks of the United States give the mean of
one minute, and drag laws are for that of ten minutes: at sea the latter is 0.93 of the former (Harper, Kepert &
Ginger 2010, WMO/TD-No. 1555), which `wind_averaging` takes into account. W is then the product. The gradient wind is
V = (W - translation |c|) / reduction, with the speed c of the centre, and B = V^2 rho_air e / (p_n - p_c), between 0.5
and 2.5; the profile of 1980, which has V (V + R |f|) at R, takes this in the place of V^2. So the largest wind of the
Cyclone is W again, unless B is at an end of this range, as in dying storms; `largest_winds` gives it.

Many tracks have the radii of winds of 34, 50 and 64 knots in four quadrants. From them follows the radius of maximum
wind in each quadrant. The asymmetric vortex is that of Mattocks & Forbes (2008), doi:10.1016/j.ocemod.2008.06.008, with
all isotachs, as GAHM has them (Gao 2018, a thesis at Chapel Hill; Dietrich et al. 2018). In the middle of a quadrant it
has the wind T of each isotach at its radius r. The wind at 10 m is V(r) times the length of a vector that does not
depend on the radius R of maximum wind: the circular wind, turned inwards, and the share of the motion. So V(r) = T is
known, and with p = (R / r)^B

    p exp(-p) = (T^2 + T r |f|) rho_air / (B (p_n - p_c))        Holland (1980)
    p exp(-p) = (T / V_m)^(1/x) / e                              Holland et al. (2010)

has one solution with R <= r, by the principal branch of Lambert's function. Where the vortex is too weak, R = r. Each
isotach has its R, and between two of them R is linear in the distance r (cyclones.py), so that R / r is monotonic.
"""

import dataclasses
import datetime
from pathlib import Path
from typing import Any

import numpy as np

from ..defaults import EARTH_RADIUS, EARTH_ROTATION
from ..errors import ConfigError, DataError
from ..fields.parameters import Number, Part, check_arguments, in_utc
from ..runtime.formats import check_format
from .cyclones import AMBIENT, EYE, LEAST_SHARE, MOST_SHARE, Cyclone
from .track_files import ISOTACHS, KNOT, READERS, read_points
from .wind_laws import RELATIONS

SHAPES = 0.5, 2.5  # limits of B; those of mature storms are 1 to 2.5, and dying ones have less
FASTEST = 60.0  # [m s-1], of the centre
STRONGEST = 120.0  # [m s-1] of the winds at 10 m; 96 was the strongest on record
LARGEST = 1e6  # [m] of the radii of maximum wind
AVERAGING = Number(None, "1", above=0.5, maximum=1.0)
_RULES = {
    "track": Part(("moments", "longitude"), 'read_track("bal092008.dat")'),
    "wind_averaging": AVERAGING,
}


@dataclasses.dataclass(frozen=True)
class Track:
    """The points of a track.

    Attributes:
        moments: dates and times, UTC.
        longitude, latitude: of the centre [degrees].
        pressure: central [Pa].
        radius: of maximum wind [m].
        wind: largest, sustained [m s-1]; NaN where it is not known.
        remarks: the format and what was assumed, each in words.
        radii: of winds of 34, 50 and 64 knots in quadrants [m], (n, 3, 4), as of track_files.Points; None without any.
    """

    moments: tuple[datetime.datetime, ...]
    longitude: np.ndarray
    latitude: np.ndarray
    pressure: np.ndarray
    radius: np.ndarray
    wind: np.ndarray
    remarks: tuple[str, ...] = ()
    radii: np.ndarray | None = None


def read_track(
    path: str | Path,
    storm: str | None = None,
    agency: str | None = None,
    wind_pressure: str | None = None,
    ambient_pressure: float = AMBIENT,
) -> Track:
    """The Track in a file.

    Args:
        path: of a file in one of the formats of track_files.py, which is recognised by its contents.
        storm: the identifier, as AL092008 or a SID of IBTrACS, or the name of one storm in a file of several.
        agency: whose analysis of IBTrACS, as "tokyo"; that of the United States, completed by the WMO's, without it.
        wind_pressure: the name of one of RELATIONS, by which points without a pressure get one.
        ambient_pressure: p_n of the relation [Pa].

    Raises:
        DataError: if there is no such file, or it holds no track.
        ConfigError: for a relation that there is not.
    """
    path = Path(path)
    points = _points_of(path, storm, agency)
    remarks = [*points.remarks]
    if wind_pressure is not None:
        points, count = _with_pressures(points, wind_pressure, ambient_pressure)
        remarks += [f"{count} pressures by {wind_pressure}"] if count else []
    rows, moments = points.rows, _moments_with_pressure(path, points.rows)
    remarks.insert(1, f"{len(moments)} points from {moments[0]:%Y-%m-%d %H:%M} to {moments[-1]:%Y-%m-%d %H:%M}")
    columns = (np.array(column, float) for column in zip(*(rows[moment] for moment in moments)))
    longitude, latitude, pressure, radius, wind = columns
    if pressure.max() < 2000.0:
        raise DataError(f"{path}: central pressures of {pressure.min():g} to {pressure.max():g} are hPa; give Pa.")
    _check_points(path, moments, longitude, latitude, wind, radius)
    unknown = ~(radius > 0)
    radius = np.where(unknown, 46.4e3 * np.exp(-0.0155 * np.nan_to_num(wind) + 0.0169 * np.abs(latitude)), radius)
    if unknown.any():
        remarks.append(f"{unknown.sum()} radii of maximum wind by Willoughby et al. (2006)")
    longitude = np.unwrap(longitude, period=360.0)
    radii = np.array([points.radii.get(moment, np.full((3, 4), np.nan)) for moment in moments])
    smallest = np.fmin.accumulate(np.where(radii > 0, radii, np.inf), axis=1)
    beyond = radii[:, 1:] > smallest[:, :-1]
    radii[:, 1:][beyond] = np.nan
    remarks += [f"{beyond.sum()} radii of winds left out, beyond those of weaker winds"] if beyond.any() else []
    known = int((np.nan_to_num(radii) > 0).any(axis=(1, 2)).sum())
    remarks += [f"radii of winds in quadrants at {known} points"] if known else []
    track = Track(tuple(moments), longitude, latitude, pressure, radius, wind, tuple(remarks))
    return dataclasses.replace(track, radii=radii) if known else track


def _moments_with_pressure(path, rows):
    """The moments of the points that have a central pressure, in order; raises DataError where there are too few."""
    moments = sorted(moment for moment, (_, _, pressure, *_) in rows.items() if pressure > 0)
    if 2 * len(moments) < len(rows):
        raise DataError(
            f"{path}: {len(rows) - len(moments)} of {len(rows)} points have no central pressure, from which the vortex "
            f"follows; give a track with pressures, as a best track has them, or wind_pressure = "
            f"{' or '.join(map(repr, RELATIONS))}."
        )
    if len(moments) < 2:
        raise DataError(
            f"{path} holds {len(moments)} points of a track, and two are needed; give another file or storm."
        )
    return moments


def _points_of(path, storm, agency):
    """The Points of a file, whose format its contents show."""
    if not path.is_file():
        raise DataError(f"there is no track file {path}; check the path.")
    kind = check_format(path, (*READERS, "text"), "a track in ATCF, CSV, HURDAT2, IBTrACS or JMA's format", "track")
    try:
        return read_points("csv" if kind == "text" and path.suffix.lower() == ".csv" else kind, path, storm, agency)
    except DataError:
        raise
    except (ValueError, KeyError, IndexError, UnicodeDecodeError) as error:
        raise DataError(
            f"{path} holds no track that can be read ({error}); give CSV, ATCF, HURDAT2, IBTrACS or JMA's format."
        ) from error


def _with_pressures(points, name, ambient):
    """(the Points with a pressure by the relation `name` wherever there is a wind and no pressure, their number)."""
    if name not in RELATIONS:
        raise ConfigError(f"wind_pressure = {name!r} is unknown; give {' or '.join(map(repr, RELATIONS))}.")
    moments, rows, count = sorted(points.rows), dict(points.rows), 0
    times = np.array([(moment - moments[0]).total_seconds() for moment in moments])
    place = np.array([rows[moment][:2] for moment in moments])
    longitude = np.unwrap(place[:, 0], period=360.0)
    speed = _speed(longitude, place[:, 1], times) if len(moments) > 1 else np.zeros(len(moments))
    for moment, motion in zip(moments, speed):
        x, y, pressure, radius, wind = rows[moment]
        if not pressure > 0 and wind > 0:
            rows[moment] = x, y, RELATIONS[name](wind, y, float(motion), ambient), radius, wind
            count += 1
    return dataclasses.replace(points, rows=rows), count


def _check_points(path, moments, longitude, latitude, wind, radius):
    """Raise DataError for what no storm has."""
    _check_places(path, moments, longitude, latitude)
    for values, most, name, unit in ((wind, STRONGEST, "largest wind", "m/s"), (radius, LARGEST, "radius", "m")):
        if (wrong := (values < 0) | (values > most)).any():  # NaN and 0 are values that are not known
            k = int(np.argmax(wrong))
            raise DataError(
                f"{path}: the {name} on {moments[k]:%Y-%m-%d %H:%M} is {values[k]:g} {unit}, and not between 0 and "
                f"{most:g} {unit}; check this point and its unit."
            )


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


def cyclone_of(
    track: Track,
    start: datetime.datetime,
    until: float | None = None,
    wind_averaging: float = 1.0,
    quadrants: bool = False,
    **options: Any,
) -> Cyclone:
    """The Cyclone of a Track in a run that starts at `start` (UTC) and lasts `until` [s].

    Args:
        wind_averaging: the factor from the winds of the track to means of ten minutes, above 0.5 and at most 1; 0.93
            for means of one minute at sea.
        quadrants: whether the storm has radii of maximum wind in each quadrant, by all of the track's radii of winds.
        options: further arguments of Cyclone.

    Raises:
        DataError: if the track starts after the run, or ends before it does, or has no radii of winds in quadrants.
        ConfigError: if its central pressure is not below the ambient one in the time of the run, or for another factor.
    """
    check_arguments("cyclone_of", _RULES, locals())
    start = in_utc(start)
    times = np.array([(moment - start).total_seconds() for moment in track.moments])
    _check_covers(track, times, start, until)
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
    storm = Cyclone(times=tuple(times[kept].tolist()), spherical=True, start=start, **(given | options))
    if not quadrants:
        return storm
    if track.radii is None:
        raise DataError(
            "the track has no radii of winds in quadrants; give HURDAT2 since 2004, ATCF or IBTrACS, or leave "
            "quadrants out."
        )
    motion = np.column_stack(_velocity(track.longitude, track.latitude, times))[kept]
    winds = wind_averaging * KNOT * np.array(ISOTACHS)
    shares, distances = radius_shares(storm, track.radii[kept], winds, motion)
    return dataclasses.replace(storm, asymmetry=shares, distances=distances)


def _check_covers(track, times, start, until):
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
    return np.hypot(*_velocity(longitude, latitude, times))


def _velocity(longitude, latitude, times):
    """(towards the east, towards the north) of the centre at each point [m s-1]."""
    degree = np.deg2rad(EARTH_RADIUS)
    east = np.gradient(longitude, times) * degree * np.cos(np.deg2rad(latitude))
    return east, np.gradient(latitude, times) * degree


TOWARDS = np.sqrt(0.5) * np.array([[1.0, 1.0], [1.0, -1.0], [-1.0, -1.0], [-1.0, 1.0]])  # (east, north), NE, SE, SW, NW


def radius_shares(
    storm: Cyclone, radii: np.ndarray, winds: np.ndarray, motion: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """(R, r) of each isotach in the quadrants, over the radius of maximum wind at each point of a track [1], (n, 12).

    They are the `asymmetry` and the `distances` of a Cyclone. An isotach that is not known in a quadrant has the
    numbers of the next weaker one there, or of the next stronger one. A quadrant in which no radius is known has those
    of the quadrant whose strongest isotach has the smallest R. Points without any radii have their own R.

    Args:
        storm: the Cyclone, which is symmetric.
        radii: of `winds` in the quadrants NE, SE, SW and NW [m], 0 where there is no such wind and NaN where that is
            not known, (n, 3, 4).
        winds: at 10 m, ascending [m s-1], (3,).
        motion: of the centre to the east and the north [m s-1], (n, 2).
    """
    from scipy.special import lambertw

    lines: Any = {name: np.asarray(getattr(storm, name), float) for name in ("y", "b", "radius", "central_pressure")}
    y, b, radius, pressure = (line[:, None, None] for line in lines.values())
    f, strength = 2.0 * EARTH_ROTATION * np.sin(np.deg2rad(y)), b * (storm.ambient_pressure - pressure)
    strength = strength / storm.air_density
    largest, angle = np.sqrt(strength / np.e), np.deg2rad(storm.inflow)
    circular = np.where(f >= 0, 1.0, -1.0) * np.cos(angle) * storm.reduction
    inwards, share = np.sin(angle) * storm.reduction, storm.translation / largest
    (east, north), (dx, dy) = TOWARDS.T, motion.T[..., None, None]
    length = np.hypot(-north * circular - east * inwards + share * dx, east * circular - north * inwards + share * dy)
    known = np.nan_to_num(radii[:, ::-1]) > 0  # from the strongest isotach on
    r, target = np.hypot(np.nan_to_num(radii[:, ::-1]), EYE), winds[::-1, None] / length
    if storm.profile == "holland_2010":
        weight = (target / largest) ** (1.0 / storm.exponent) / np.e
    else:
        weight = (target**2 + target * r * np.abs(f)) / strength
    own_radius = r * (-lambertw(-np.minimum(weight, 1.0 / np.e)).real) ** (1.0 / b)
    tables = np.where(known, np.stack([own_radius, r]), np.nan)
    for k, other in ((1, 2), (0, 1), (1, 0), (2, 1)):  # from the weaker isotach, then from the stronger one
        tables[:, :, k] = np.where(np.isnan(tables[:, :, k]), tables[:, :, other], tables[:, :, k])
    smallest = np.argmin(np.where(known.any(axis=1), tables[0, :, 0], np.inf), axis=1)
    others = np.take_along_axis(tables, smallest[None, :, None, None], axis=3)
    shares, distances = np.nan_to_num(np.where(np.isnan(tables), others, tables) / radius, nan=1.0)
    distances = np.maximum.accumulate(distances, axis=1)
    return np.clip(shares, LEAST_SHARE, MOST_SHARE).reshape(-1, 12), distances.reshape(-1, 12)
