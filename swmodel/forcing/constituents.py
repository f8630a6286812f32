"""Tidal constituents: their periods, the position of the moon and the sun, and harmonic constants of a series.

    eta(t) = f A cos(omega (t - t0) + V + u - g)

A is the amplitude, g the Greenwich phase lag, and V the equilibrium argument at Greenwich at the time t0. The nodal
factor f and angle u follow the moon's node over 18.6 years. V, f and u come from UTide (Codiga 2011), which computes
them from the Doodson numbers and the astronomical variables at t0. It has no satellites of the lunar constituents of
long period, so that f and u of MF and MM are those of Schureman (1958), as in Pugh & Woodworth (2014), table 4.3. A run
keeps the f and u of its start; `drift` is the error that this makes.

`constants_of` finds A and g of a series at a gauge by least squares, as the model's own analysis does:

    eta(t) = Z_0 + sum_k f_k A_k cos(2 pi t / T_k + V_k + u_k - g_k)

Constituents that the series is too short to separate (Rayleigh's criterion) are left out.
"""

import datetime
import functools
import math
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np

from ..errors import ConfigError
from ..fields.parameters import in_utc
from ..grids.grid import Grid

# Amplitude of the equilibrium tide [m] and 1 + k - h, the share that is left by the tide of the solid Earth: Arbic et
# al. (2004), doi:10.1016/j.dsr2.2004.09.014, table 1.
EQUILIBRIUM = {
    "M2": (0.242334, 0.693), "S2": (0.112743, 0.693), "N2": (0.046397, 0.693), "K2": (0.030684, 0.693),
    "K1": (0.141565, 0.736), "O1": (0.100661, 0.695), "P1": (0.046848, 0.706), "Q1": (0.019273, 0.695),
    "MF": (0.042041, 0.693), "MM": (0.022191, 0.693),
}  # fmt: skip
MAJOR = "M2", "S2", "N2", "K2", "K1", "O1", "P1", "Q1"
MIDDLE = 45.0  # [degrees] of latitude, for planes
WIDE = 60.0  # [degrees]: no latitude stands for a grid that spans more
LEAST_LATITUDE = 5.0  # [degrees], for nodal factors
SPECIES = {"MF": 0, "MM": 0}
# {name: (of 1 and cos N in f [1], of sin N, sin 2N and sin 3N in u [degrees])}, N the longitude of the moon's node
LONG_PERIOD = {"MF": ((1.043, 0.414), (-23.7, 2.7, -0.4)), "MM": ((1.0, -0.130), (0.0, 0.0, 0.0))}
EPOCH = datetime.datetime(2000, 1, 1, 12)
# {name: V [degrees] of the days since EPOCH} by the International Hydrographic Organization, with f = 1 and u = 0.
# UTide has p' + 90 in the place of 180 in S1, with f of about 0.7, and h - p' in the place of h in SA.
IHO = {"S1": lambda days: 360.0 * days, "SA": lambda days: 280.46646 + 0.98564736 * days}


@functools.cache
def _table():
    """{name: (number in UTide's table, frequency [cycles per hour])}."""
    from utide import ut_constants

    constants = ut_constants.const
    return {name: (k, float(constants.freq[k])) for k, name in enumerate(constants.name) if constants.freq[k] > 0}


def canonical(name: str) -> str:
    """The name of a constituent in capitals, as in M2 and MF.

    Raises:
        ConfigError: for a name that is not known.
    """
    capitals = str(name).strip().upper()
    if capitals not in _table():
        *near, last = [other for other in _table() if _one_letter_off(capitals, other)] or [""]
        several = f"{', '.join(near)} or {last}" if near else last
        hint = f"did you mean {several}?" if last else f"known are {', '.join(MAJOR)} and others of UTide"
        raise ConfigError(f"there is no tidal constituent {name!r}; {hint}")
    return capitals


def _one_letter_off(name, other):
    """Whether one letter that is replaced, added or left out makes `other` of `name`."""
    if len(name) == len(other):
        return sum(a != b for a, b in zip(name, other)) == 1
    short, long = sorted((name, other), key=len)
    return any(long[:k] + long[k + 1 :] == short for k in range(len(long)))


def distinct(names: Iterable[str]) -> tuple[str, ...]:
    """The names of constituents in capitals, in their order.

    Raises:
        ConfigError: for no name, an unknown one, or one that is given twice.
    """
    capitals = tuple(canonical(name) for name in names)
    if not capitals:
        raise ConfigError("no tidal constituent is named; give some, as M2 and S2")
    if repeated := [name for k, name in enumerate(capitals) if name in capitals[:k]]:
        raise ConfigError(f"the tidal constituent {repeated[0]} is given twice; leave one out")
    return capitals


def period(name: str) -> float:
    """The period of a constituent [s]."""
    return 3600.0 / _table()[canonical(name)][1]


def periods(names: tuple[str, ...]) -> np.ndarray:
    """The periods of constituents [s], (n,)."""
    return np.array([period(name) for name in names])


def species(name: str) -> int:
    """0, 1 or 2: whether an equilibrium constituent is of long period, diurnal or semidiurnal."""
    return SPECIES.get(name, int(name[-1]) if name[-1:].isdigit() else 0)


def middle_latitude(grid: Grid) -> float | None:
    """The latitude in the middle of a grid [degrees], for nodal factors; that of a plane is taken as 45.

    None of a grid that spans more than 60 degrees: nodal factors are then those without satellites of third degree.
    """
    if not grid.spherical:
        return MIDDLE
    south, north = grid.y_edges[[0, -1]]
    return float(0.5 * (south + north)) if north - south <= WIDE else None


@functools.cache
def nodal(name: str, start: datetime.datetime | None, latitude: float | None) -> tuple[float, float]:
    """(f [1], V + u [rad]) of a constituent at a moment; (1, 0) where no moment is given.

    Args:
        name: of the constituent.
        start: date and time in UTC, or None.
        latitude: [degrees], on which the small satellites of third degree depend. Their ratio to the main line has a
            pole at the equator, so that within 5 degrees of it 5 degrees are taken, with its sign, north at 0. They are
            left out if it is None.
    """
    if start is None:
        return 1.0, 0.0
    from utide.harmonics import FUV

    start = in_utc(start)
    midnight = datetime.datetime(start.year, start.month, start.day)
    days = start.toordinal() + (start - midnight).total_seconds() / 86400.0
    number = np.array([_table()[canonical(name)][0]])
    latitudes = (45.0, -45.0)  # the satellites of third degree are odd in the latitude, and cancel in the mean
    if latitude is not None:
        latitudes = (math.copysign(max(abs(latitude), LEAST_LATITUDE), latitude or 1.0),)
    (f, u, v), *other = (FUV(np.array([days]), days, number, here, [0, 0, 0, 0]) for here in latitudes)
    constants = f.item(), 2.0 * np.pi * u.item()
    if other:
        whole = np.mean([f * np.exp(2j * np.pi * u) for f, u, _ in ((f, u, v), *other)])
        constants = abs(whole), np.angle(whole)
    factor, angle = _of_long_period(canonical(name), start) or constants
    return float(factor), float((angle + 2.0 * np.pi * v.item()) % (2.0 * np.pi))


def from_iho(name: str, start: datetime.datetime, latitude: float | None) -> tuple[float, float] | None:
    """(a factor of the amplitude, what is added to the lag [degrees]) of a constituent as the IHO defines it.

    So published constants of S1 and SA become those of this module at a moment; None for other constituents.
    """
    if name not in IHO:
        return None
    factor, angle = nodal(name, start, latitude)
    turn = math.degrees(angle) - IHO[name]((in_utc(start) - EPOCH).total_seconds() / 86400.0)
    return 1.0 / factor, (turn + 180.0) % 360.0 - 180.0


def drift(name: str, start: datetime.datetime, seconds: float, latitude: float | None) -> float:
    """|f exp(i u) - f_0 exp(i u_0)| / f_0 [1] at most during a run, the error of keeping f_0 and u_0 of its start."""
    first, *later = (start + datetime.timedelta(seconds=float(share * seconds)) for share in np.linspace(0.0, 1.0, 5))

    def factor(moment):
        f, angle = nodal(name, moment, latitude)
        return f * np.exp(1j * (angle - 2.0 * np.pi * (moment - first).total_seconds() / period(name)))

    return float(max(abs(factor(moment) / factor(first) - 1.0) for moment in later))


def _of_long_period(name, start):
    """(f [1], u [rad]) of a lunar constituent of long period; None for others."""
    if name not in LONG_PERIOD:
        return None
    days = (start - EPOCH).total_seconds() / 86400.0
    node = math.radians(125.0445 - 0.0529538 * days)  # of the moon's ascending node (Meeus 1998, chapter 47)
    (mean, swing), sines = LONG_PERIOD[name]
    degrees = sum(size * math.sin((k + 1) * node) for k, size in enumerate(sines))
    return mean + swing * math.cos(node), math.radians(degrees)


class Wave(NamedTuple):
    """A constituent at the start of a run: its name, period [s], nodal factor f [1] and argument V + u [rad]."""

    name: str
    period: float
    factor: float
    argument: float


def waves_of(names: Iterable[str], start: datetime.datetime | None, latitude: float | None) -> tuple[Wave, ...]:
    """The Waves of constituents in a run from `start` (UTC); without it lags are behind cos(2 pi t / T)."""
    names = distinct(names) if (names := list(names)) else ()
    return tuple(Wave(name, period(name), *nodal(name, start, latitude)) for name in names)


def separable(waves: Sequence[Wave], length: float) -> list[Wave]:
    """Those of `waves` that a series of `length` [s] separates from the mean and from those before them."""
    chosen: list[Wave] = []
    for wave in waves:
        others = [0.0, *(1.0 / other.period for other in chosen)]
        if all(abs(1.0 / wave.period - other) * length >= 1 - 1e-9 for other in others):
            chosen.append(wave)
    return chosen


def constants_of(time: np.ndarray, value: np.ndarray, waves: Sequence[Wave]) -> dict[str, tuple[float, float]]:
    """{name: (amplitude [m], Greenwich phase lag [degrees])} of a series, finite, at `time` [s] since the start."""
    if time.size < 3 or not waves:
        return {}
    fitted = separable(waves, float(time[-1] - time[0] + np.median(np.diff(time))))
    if len(time) < 2 * len(fitted) + 1 or not fitted:
        return {}
    theta = np.stack([2 * np.pi * time / wave.period + wave.argument for wave in fitted], 1)
    factor = np.array([wave.factor for wave in fitted])
    basis = np.hstack([np.ones((len(time), 1)), factor * np.cos(theta), factor * np.sin(theta)])
    cosines, sines = np.split(np.linalg.lstsq(basis, value, rcond=None)[0][1:], 2)
    lags = np.rad2deg(np.arctan2(sines, cosines)) % 360.0
    return {wave.name: (float(a), float(g)) for wave, a, g in zip(fitted, np.hypot(cosines, sines), lags)}
