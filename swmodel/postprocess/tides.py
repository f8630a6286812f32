"""Harmonic constants of the series at a gauge: amplitudes and Greenwich phase lags, by least squares.

    eta(t) = Z_0 + sum_k f_k A_k cos(2 pi t / T_k + V_k + u_k - g_k)

with the nodal factors f, u and the equilibrium arguments V at the start of the run, as in the model's own analysis.
Constituents that the series is too short to separate (Rayleigh's criterion) are left out.
"""

import datetime
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np

from ..forcing.constituents import distinct, nodal, period


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
