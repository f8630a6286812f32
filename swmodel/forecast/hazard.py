"""What follows from a bank before an earthquake: hazard curves, and where the next buoy should be.

A hazard curve is how often waves are higher than a level, by many scenarios of earthquakes and a bank of unit faults.

Earthquakes are those of a list, each with its magnitude, rate and, where it is known, epicentre. Or their magnitudes
follow Gutenberg & Richter (1944) between two limits, N(M > m) = N (10^(-b m) - 10^(-b m1)) / (10^(-b m0) -
10^(-b m1)). Scenarios are drawn with all magnitudes alike, and each has the annual rate that this law gives it, so that
rare great earthquakes are as many as small ones (importance sampling).

A rupture of magnitude M has the area log10(A / km2) = -3.476 + 0.952 M of plate interfaces (Strasser et al. 2010,
doi:10.1785/gssrl.81.6.941): the faults nearest to a random one. Its slip is w exp(s v). The taper w = cos^2(pi r / 2
r1) falls to 0 at its edge r1. v is a normal random field with the correlation of von Karman (Mai & Beroza 2002,
doi:10.1029/2001JB000588),

    C(r) = (r / a)^H K_H(r / a) / (2^(H-1) Gamma(H)).

The slip is scaled to the seismic moment 10^(1.5 M + 9.1) N m = mu sum of A_k a_k, with a log-normal rigidity mu. With
`tops`, the depth at which a rupture ends at the top is random, too: faults whose upper edges are above it do not slip.
It is limited to the deepest one below which the faults have the area of the rupture. Earthquakes of a list lie near a
fault if they are not further from its centre than the length of the rupture, log10(L / km) = -2.477 + 0.585 M (Strasser
et al. 2010), and the width of the fault together; others do not count.
Waves are those of the bank: they are linear, and faults have the depth that they have there.

`next_buoy` ranks candidates by how much their records would narrow the forecast of harbours. The amplitudes are
N(0, C), C = U U^T, and the waves of harbours H a have the variance tr(H C H^T), summed over harbours and times. Records
of the gauges g that there are, G_g a + e with e ~ N(0, R_g) (errors.py), leave tr(H U M^-1 U^T H^T), M = 1 + sum over g
of U^T G_g^T R_g^-1 G_g U. The posterior does not depend on the values of the records, so that no earthquake is needed
(Krause, Singh & Guestrin 2008 for such designs; JMLR 9, 235-284).
"""

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr
from scipy.linalg import cholesky, solve_triangular
from scipy.special import gamma, kv

from ..adjoint.controls.seafloor import distances_on
from ..errors import ConfigError, DataError
from ..grids.observed_tables import AXES, kind_of_places, read_table, table_names
from .bank import Bank
from .errors import Errors, Samples, error_terms
from .inference import Part, Scales, prior_root

FAR = -1  # in place of the number of a source
CHUNK = 200  # scenarios whose waves are held at a time
HALF = 0.01  # of a magnitude, by which the limits lie beyond those of a list
LEVELS = np.geomspace(0.05, 50.0, 121)  # [m]
PERIODS = np.array([10.0, 20.0, 50.0, 100.0, 200.0, 500.0, 1000.0, 2500.0])  # [years]
BINS = 6  # of magnitudes, for their shares


@dataclasses.dataclass(frozen=True)
class Earthquake:
    """An earthquake of a list: its magnitude, its rate [1/year], and (x, y) of its epicentre, None for any place."""

    magnitude: float
    rate: float
    epicentre: tuple[float, float] | None = None


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
        tops: (least, largest) depth of the upper edge of a rupture [m], uniform between them; None: that of the faults.
        listed: Earthquakes that take the place of the law, of which `Earthquakes.of` takes rate and magnitudes.

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
    tops: tuple[float, float] | None = None
    listed: tuple[Earthquake, ...] = ()

    @staticmethod
    def of(listed: tuple[Earthquake, ...], **properties: Any) -> "Earthquakes":
        """Those of a list, with further `properties` of all.

        Raises:
            ConfigError: for an empty list, and for rates and magnitudes that cannot be.
        """
        for k, each in enumerate(listed):
            if not (each.rate > 0 and 0 < each.magnitude < 10):
                raise ConfigError(
                    f"earthquake {k + 1} has the magnitude {each.magnitude:g} and the rate {each.rate:g} per year; "
                    "give a magnitude below 10 and a positive rate."
                )
        if not listed:
            raise ConfigError("there are no earthquakes in the list; give one or several.")
        magnitudes = [each.magnitude for each in listed]
        limits = min(magnitudes) - HALF, max(magnitudes) + HALF
        ordered = tuple(sorted(listed, key=lambda each: each.magnitude))
        return Earthquakes(sum(each.rate for each in listed), limits, listed=ordered, **properties)

    def __post_init__(self):
        low, high = self.magnitudes
        positive = ("rate", "b", "rigidity", "length")
        wrong = [name for name in positive if not getattr(self, name) > 0]
        wrong += [name for name in ("rigidity_spread", "variation") if not getattr(self, name) >= 0]
        wrong += ["magnitudes"] if not low < high else [] if 0 < self.hurst < 1 else ["hurst"]
        wrong += ["tops"] if self.tops is not None and not 0 <= self.tops[0] <= self.tops[1] else []
        if wrong:
            raise ConfigError(f"Earthquakes: {wrong[0]} = {getattr(self, wrong[0])!r} cannot be; give another.")

    def rate_above(self, magnitude: np.ndarray) -> np.ndarray:
        """N(M > m) [1/year]."""
        low, high = (10.0 ** (-self.b * m) for m in self.magnitudes)
        return self.rate * np.clip((10.0 ** (-self.b * np.asarray(magnitude)) - high) / (low - high), 0.0, 1.0)


def scenarios(bank: Bank, earthquakes: Earthquakes, count: int = 10_000, seed: int = 0) -> xr.Dataset:
    """Random earthquakes: `slip` (scenario, source) [m], `magnitude` and `rate` (scenario) [1/year].

    The attributes are `limited`, the share of scenarios whose depth was limited, `left_out` and `left_out_rate`
    [1/year] of earthquakes of the list that are not near a fault, and `largest`, the area of the largest rupture over
    that of all faults: above 1 slips are so many times larger than they would be on enough faults.

    Raises:
        ConfigError: for a bank whose sources are no faults, or lacks the depths of their edges, and for a list without
            an earthquake near a fault.
    """
    if bank.areas is None:
        raise ConfigError("the sources of this bank are no faults; make one of type = 'unit_faults' for a hazard.")
    if earthquakes.tops is not None and bank.tops is None:
        raise ConfigError("this bank lacks the depths of its faults, which random ones need; make it again.")
    noise, (low, high) = np.random.default_rng(seed), earthquakes.magnitudes
    nearest: list[int | None] = [None] * count
    placed = [(one, _nearest(bank, one)) for one in earthquakes.listed]
    listed = [one for one, place in placed if place != FAR]
    left_out = [one.rate for one, place in placed if place == FAR]
    if placed and not listed:
        raise ConfigError("no earthquake of the list is near a fault of the bank; check the epicentres.")
    if listed:
        copies = -(-count // len(listed))
        magnitude, rate = (np.repeat([getattr(one, of) for one in listed], copies) for of in ("magnitude", "rate"))
        rate = rate / copies
        nearest = [place for _, place in placed if place != FAR for _ in range(copies)]
    else:
        edges = low + (high - low) * np.arange(count + 1) / count  # a magnitude in each of `count` equal intervals
        magnitude = edges[:-1] + np.diff(edges) * noise.random(count)
        rate = -np.diff(earthquakes.rate_above(edges))
    slip = np.zeros((magnitude.size, len(bank.areas)))
    each = zip(slip, magnitude, nearest)
    limited = np.array([_rupture(one, bank, earthquakes, m, start, noise) for one, m, start in each], float)
    over = "scenario"
    values = {"slip": ((over, "source"), slip), "magnitude": (over, magnitude), "rate": (over, rate)}
    about = {"limited": float(limited.mean()), "left_out": len(left_out), "left_out_rate": float(sum(left_out))}
    about["largest"] = float(_area(magnitude.max()) / bank.areas.sum())
    return xr.Dataset(values, attrs=about)


def _nearest(bank, earthquake):
    """The number of the source nearest to the epicentre, FAR if none is near; None without an epicentre."""
    if earthquake.epicentre is None:
        return None
    away = distances_on([earthquake.epicentre], bank.radius, bank.centres)[0]
    k = int(np.argmin(away))
    return k if away[k] <= 1e3 * 10.0 ** (-2.477 + 0.585 * earthquake.magnitude) + bank.areas[k] ** 0.5 else FAR


def _area(magnitude):
    """The area of a rupture [m2]."""
    return 1e6 * 10.0 ** (-3.476 + 0.952 * magnitude)


def _rupture(slip, bank, earthquakes, magnitude, start, noise):
    """Fill `slip` (sources,) of one earthquake, around the source number `start`, or a random one for None.

    Returns:
        Whether its depth was limited.
    """
    area = _area(magnitude)
    able, depth, deepest = np.arange(len(bank.areas)), 0.0, np.inf  # the faults that may slip
    if earthquakes.tops is not None:
        low, high = earthquakes.tops
        below = np.argsort(-bank.tops, kind="stable")
        last = min(int(np.searchsorted(np.cumsum(bank.areas[below]), area)), below.size - 1)
        depth, deepest = low + (high - low) * noise.random(), bank.tops[below[last]]
        able = np.flatnonzero(bank.tops >= min(depth, deepest))
    away = bank.distances[noise.choice(able) if start is None else start]
    order = able[np.argsort(away[able], kind="stable")]
    count = int(np.clip(np.searchsorted(np.cumsum(bank.areas[order]), area) + 1, 1, order.size))
    chosen = order[:count]
    edge = away[order[count]] if count < order.size else away[order[-1]] + bank.areas[order[-1]] ** 0.5
    taper = np.cos(0.5 * np.pi * away[chosen] / edge) ** 2
    correlation = von_karman(bank.distances[np.ix_(chosen, chosen)], earthquakes.length * area**0.5, earthquakes.hurst)
    field = cholesky(correlation + 1e-6 * np.eye(count), lower=True) @ noise.standard_normal(count)
    shape = taper * np.exp(np.sqrt(np.log1p(earthquakes.variation**2)) * field)
    rigidity = earthquakes.rigidity * np.exp(earthquakes.rigidity_spread * noise.standard_normal())
    slip[chosen] = shape * 10.0 ** (1.5 * magnitude + 9.1) / (rigidity * (bank.areas[chosen] @ shape))
    return depth > deepest


def read_earthquakes(
    path: str | Path, rate: float | None = None, spherical: bool | None = None
) -> tuple[Earthquake, ...]:
    """The earthquakes of a table, CSV or netCDF.

    Its columns are `magnitude` and `rate_per_year`, or `weight` in place of rates: shares of `rate` [1/year], that of
    all earthquakes. `longitude` and `latitude`, or `x` and `y`, are epicentres; empty ones are anywhere. `spherical`
    is the kind of the places of a bank, by its `radius`.

    Raises:
        DataError: for a table that cannot be read, lacks a column, has rates and weights, others than positive ones, or
            other coordinates than the bank.
        ConfigError: for weights without `rate`, and rates with it.
    """
    head = table_names(path)
    given = [name for name in ("weight", "rate_per_year") if name in head]
    if len(given) != 1:
        both = "both weight and rate_per_year; leave one of them out"
        raise DataError(f"{path} has {both if given else 'neither rate_per_year nor weight; add one of them'}.")
    how_often = given[0]
    if (rate is None) == (how_often == "weight"):
        need = "needs --rate, that of all its earthquakes" if rate is None else "has rates; leave --rate out"
        raise ConfigError(f"{path} has the column {how_often}, and {need}.")
    kind = kind_of_places(path, spherical, "bank")
    axes = () if kind is None else AXES[kind]
    columns = read_table(path, ("magnitude", how_often, *axes))
    if not np.isfinite(columns["magnitude"] + columns[how_often]).all():
        raise DataError(f"{path} has an earthquake without a magnitude or {how_often}; give both, or leave it out.")
    if not (columns[how_often] > 0).all():
        raise DataError(f"{path} has an earthquake whose {how_often} is not positive; leave it out.")
    rates = columns[how_often] * (1.0 if rate is None else rate / columns[how_often].sum())
    places: list = [None] * rates.size
    if axes:
        known = zip(*(columns[axis].tolist() for axis in axes))
        places = [(x, y) if np.isfinite(x + y) else None for x, y in known]
    return tuple(map(Earthquake, columns["magnitude"].tolist(), rates.tolist(), places))


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


# -- the next buoy -----------------------------------------------------------------------------------------------------


def next_buoy(
    bank: Bank,
    harbours: Sequence[str],
    gauges: Sequence[str] = (),
    until: float | None = None,
    errors: Errors | None = None,
) -> xr.Dataset:
    """The candidates, all other points of a bank, by the share of the forecast variance that each would remove.

    Args:
        bank: a Bank.
        harbours: names of the points whose waves after `until` are forecast.
        gauges: names of points that have a record already.
        until: the time of the last sample of the records [s]; half of the bank's time unless given.
        errors: Errors.

    Returns:
        `gain` (point), largest first, with `x` and `y`; the attributes have the root mean square deviation [m] of the
        harbours before (`without_records`) and with the gauges that there are (`with_gauges`).

    Raises:
        ConfigError: for points that are not in the bank, no harbour, no candidate, and no sample before or after.
    """
    errors, times = errors or Errors(), bank.times
    until = 0.5 * times[-1] if until is None else until
    candidates = [name for name in bank.places if name not in (*harbours, *gauges)]
    if not harbours or not candidates:
        raise ConfigError(
            "a bank of harbours and candidates is needed: name one harbour or more, and leave some points."
        )
    scales = Scales.before(bank, errors)
    root = prior_root(bank.distances, scales)
    used = _used_samples(times, errors.begin, until)
    later = np.concatenate([bank.responses[row][times > until] @ root for row in bank.rows(harbours)])

    def information(row):
        """U^T G^T R^-1 G U of a point."""
        expected = np.sum((bank.responses[row].astype(float) @ root) ** 2, axis=1)
        terms = error_terms(np.zeros(times.size), expected, times, errors)
        samples = Samples("", row, used, np.zeros(used.size))
        white = Part(bank, samples, errors, (terms[0][used], terms[1][used])).whitened(scales.model)[0] @ root
        return white.T @ white

    def variance(M):
        return float(np.sum(solve_triangular(cholesky(M, lower=True), later.T, lower=True) ** 2))

    known = [information(row) for row in bank.rows(gauges)] if gauges else []
    M = sum(known, start=np.eye(len(root)))
    before, now = variance(np.eye(len(root))), variance(M)
    gains = np.array([1.0 - variance(M + information(row)) / now for row in bank.rows(candidates)])
    order = np.argsort(-gains)
    names = [candidates[k] for k in order]
    x, y = np.array([bank.places[name] for name in names], float).T
    return xr.Dataset(
        {"gain": ("point", gains[order]), "x": ("point", x), "y": ("point", y)},
        {"point": names},
        {"without_records": (before / len(later)) ** 0.5, "with_gauges": (now / len(later)) ** 0.5, "until": until},
    )


def _used_samples(times, begin, until):
    """The numbers of the samples from `begin` to `until`; raises ConfigError without any, or without a later one."""
    used = np.flatnonzero((times >= begin) & (times <= until))
    if not used.size:
        first = max(begin, times[0])
        raise ConfigError(f"the bank has no sample until {until:g} s; they begin at {first:g} s: give a later time.")
    if until >= times[-1]:
        raise ConfigError(
            f"the bank has no sample after {until:g} s; they end at {times[-1]:g} s: give an earlier time."
        )
    return used
