"""Hazard curves: how often waves are higher than a level, by many scenarios of earthquakes and a bank of unit faults.

Magnitudes follow Gutenberg & Richter (1944) between two limits, N(M > m) = N (10^(-b m) - 10^(-b m1)) / (10^(-b m0) -
10^(-b m1)). Scenarios are drawn with all magnitudes alike, and each has the annual rate that this law gives it, so that
rare great earthquakes are as many as small ones (importance sampling).

A rupture of magnitude M has the area log10(A / km2) = -3.476 + 0.952 M of plate interfaces (Strasser et al. 2010,
doi:10.1785/gssrl.81.6.941): the faults nearest to a random one. Its slip is w exp(s v). The taper w = cos^2(pi r / 2
r1) falls to 0 at its edge r1. v is a normal random field with the correlation of von Karman (Mai & Beroza 2002,
doi:10.1029/2001JB000588),

    C(r) = (r / a)^H K_H(r / a) / (2^(H-1) Gamma(H)).

The slip is scaled to the seismic moment 10^(1.5 M + 9.1) N m = mu sum of A_k a_k, with a log-normal rigidity mu. Waves
are those of the bank: they are linear, and faults have the depth that they have there.
"""

import dataclasses

import numpy as np
import xarray as xr
from scipy.linalg import cholesky
from scipy.special import gamma, kv

from ..errors import ConfigError
from .bank import Bank

__all__ = ["Earthquakes", "hazard_curves", "scenarios"]

CHUNK = 200  # scenarios whose waves are held at a time
LEVELS = np.geomspace(0.05, 50.0, 121)  # [m]
PERIODS = np.array([10.0, 20.0, 50.0, 100.0, 200.0, 500.0, 1000.0, 2500.0])  # [years]
BINS = 6  # of magnitudes, for their shares


@dataclasses.dataclass(frozen=True)
class Earthquakes:
    """How often earthquakes occur on the faults of a bank, and what they are like.

    Attributes:
        rate: N, how many of a magnitude over the lower limit there are in a year.
        magnitudes: (m0, m1), the limits.
        b: of the law of Gutenberg & Richter.
        rigidity: the median of mu [Pa].
        rigidity_spread: the standard deviation of log(mu).
        variation: of the slip about its taper, the standard deviation over the mean.
        length: a, as a share of the square root of the rupture's area.
        hurst: H, between 0 and 1.

    Raises:
        ConfigError: for numbers that cannot be.
    """

    rate: float
    magnitudes: tuple[float, float] = (7.5, 9.0)
    b: float = 1.0
    rigidity: float = 4e10
    rigidity_spread: float = 0.25
    variation: float = 0.7
    length: float = 0.4
    hurst: float = 0.75

    def __post_init__(self):
        low, high = self.magnitudes
        positive = ("rate", "b", "rigidity", "length")
        wrong = [name for name in positive if not getattr(self, name) > 0]
        wrong += [name for name in ("rigidity_spread", "variation") if not getattr(self, name) >= 0]
        wrong += ["magnitudes"] if not low < high else [] if 0 < self.hurst < 1 else ["hurst"]
        if wrong:
            raise ConfigError(f"Earthquakes: {wrong[0]} = {getattr(self, wrong[0])!r} cannot be; give another.")

    def rate_above(self, magnitude: np.ndarray) -> np.ndarray:
        """N(M > m) [1/year]."""
        low, high = (10.0 ** (-self.b * m) for m in self.magnitudes)
        return self.rate * np.clip((10.0 ** (-self.b * np.asarray(magnitude)) - high) / (low - high), 0.0, 1.0)


def scenarios(bank: Bank, earthquakes: Earthquakes, count: int = 10_000, seed: int = 0) -> xr.Dataset:
    """Random earthquakes: `slip` (scenario, source) [m], `magnitude` and `rate` (scenario) [1/year].

    Raises:
        ConfigError: for a bank whose sources are no faults.
    """
    if bank.areas is None:
        raise ConfigError("the sources of this bank are no faults; make one of type = 'unit_faults' for a hazard.")
    noise, (low, high) = np.random.default_rng(seed), earthquakes.magnitudes
    edges = low + (high - low) * np.arange(count + 1) / count  # a magnitude in each of `count` equal intervals
    magnitude = edges[:-1] + np.diff(edges) * noise.random(count)
    rate = -np.diff(earthquakes.rate_above(edges))
    slip = np.zeros((count, len(bank.areas)))
    for k, m in enumerate(magnitude):
        _rupture(slip[k], bank, earthquakes, m, noise)
    over = "scenario"
    values = {"slip": ((over, "source"), slip), "magnitude": (over, magnitude), "rate": (over, rate)}
    return xr.Dataset(values)


def _rupture(slip, bank, earthquakes, magnitude, noise):
    """Fill `slip` (sources,) of one earthquake."""
    area = 1e6 * 10.0 ** (-3.476 + 0.952 * magnitude)
    away = bank.distances[noise.integers(len(bank.areas))]
    order = np.argsort(away, kind="stable")
    count = int(np.clip(np.searchsorted(np.cumsum(bank.areas[order]), area) + 1, 1, order.size))
    chosen = order[:count]
    edge = away[order[count]] if count < order.size else away[order[-1]] + bank.areas[order[-1]] ** 0.5
    taper = np.cos(0.5 * np.pi * away[chosen] / edge) ** 2
    correlation = von_karman(bank.distances[np.ix_(chosen, chosen)], earthquakes.length * area**0.5, earthquakes.hurst)
    field = cholesky(correlation + 1e-6 * np.eye(count), lower=True) @ noise.standard_normal(count)
    shape = taper * np.exp(np.sqrt(np.log1p(earthquakes.variation**2)) * field)
    rigidity = earthquakes.rigidity * np.exp(earthquakes.rigidity_spread * noise.standard_normal())
    slip[chosen] = shape * 10.0 ** (1.5 * magnitude + 9.1) / (rigidity * (bank.areas[chosen] @ shape))


def von_karman(distances: np.ndarray, length: float, hurst: float) -> np.ndarray:
    """C(r) at distances [m] for a length a [m] and the exponent H."""
    x = np.maximum(distances / length, 1e-9)
    return np.where(distances > 0, x**hurst * kv(hurst, x) / (2.0 ** (hurst - 1.0) * gamma(hurst)), 1.0)


def hazard_curves(
    bank: Bank, earthquakes: Earthquakes, count: int = 10_000, seed: int = 0, drawn: xr.Dataset | None = None
) -> xr.Dataset:
    """How often the highest level at each point exceeds levels.

    Args:
        bank: of unit faults.
        earthquakes: Earthquakes.
        count, seed: of the scenarios; those of `drawn` are taken instead if they are given.

    Returns:
        `rate` (point, level) [1/year] and `rate_deviation`, of the Monte Carlo error; `height` (band, point, period),
        the level that is exceeded once in a return period, with its 5th, 50th and 95th percentiles of that error; NaN
        where it is rarer, or higher than the levels; `share` (magnitude, point, period), of earthquakes of this
        magnitude in that rate, and `source_share` (source, point, period), of the sources by their moments; `highest`
        (scenario, point).
    """
    drawn = scenarios(bank, earthquakes, count, seed) if drawn is None else drawn
    slip, weight = drawn["slip"].values, drawn["rate"].values
    points = list(bank.places)
    responses = bank.responses[bank.rows()].astype(float)
    highest = np.empty((len(slip), len(points)))
    for first in range(0, len(slip), CHUNK):
        waves = np.tensordot(slip[first : first + CHUNK], responses, (1, 2))
        highest[first : first + CHUNK] = waves.max(axis=2)
    above = highest[:, :, None] > LEVELS
    rate = np.tensordot(weight, above, 1)
    deviation = np.sqrt(np.tensordot(weight**2, above, 1))
    bands = np.array([5.0, 50.0, 95.0])
    curves = rate + np.array([-1.645, 0.0, 1.645])[:, None, None] * deviation
    height = np.array([[_at_rates(curve, 1.0 / PERIODS) for curve in band] for band in curves])
    ends = np.linspace(*earthquakes.magnitudes, BINS + 1)
    number = np.clip(np.digitize(drawn["magnitude"].values, ends) - 1, 0, BINS - 1)
    over = highest[:, :, None] > np.nan_to_num(height[1], nan=np.inf)
    parts = np.stack([np.tensordot(np.where(number == k, weight, 0.0), over, 1) for k in range(BINS)])
    moment = slip * bank.areas
    moment /= moment.sum(axis=1, keepdims=True)
    of_sources = np.einsum("s,sk,spt->kpt", weight, moment, over, optimize=True)
    return xr.Dataset(
        {
            "rate": (("point", "level"), rate, {"units": "1/year"}),
            "rate_deviation": (("point", "level"), deviation, {"units": "1/year"}),
            "height": (("band", "point", "period"), height, {"units": "m"}),
            "share": (("magnitude", "point", "period"), _shares(parts)),
            "source_share": (("source", "point", "period"), _shares(of_sources)),
            "source_x": ("source", bank.centres[:, 0]),
            "source_y": ("source", bank.centres[:, 1]),
            "highest": (("scenario", "point"), highest, {"units": "m"}),
        },
        {"point": points, "level": LEVELS, "band": bands, "period": PERIODS, "magnitude": 0.5 * (ends[1:] + ends[:-1])},
    )


def _shares(parts):
    """Parts over their sum along the first axis; NaN where it is 0."""
    total = parts.sum(axis=0)
    return np.divide(parts, total, out=np.full_like(parts, np.nan), where=total > 0)


def _at_rates(curve, rates):
    """The levels at which a falling curve has these rates, NaN beyond its ends."""
    falling = np.maximum.accumulate(curve[::-1])
    found = np.interp(rates, falling, LEVELS[::-1], left=np.nan, right=np.nan)
    return np.where((rates >= max(falling[0], 1e-30)) & (rates <= falling[-1]), found, np.nan)
