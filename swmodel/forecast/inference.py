"""The amplitudes of the sources from records: a Gaussian posterior, whose unknown scales the records determine.

Before there are records the amplitudes are a ~ N(0, C), C = S^2 exp(-r^2 / 2 L^2). With the records y = G a + e, e ~
N(0, R) (errors.py), and with C = U U^T, a = U p,

    p | y ~ N(M^-1 U^T G^T R^-1 y, M^-1),    M = 1 + U^T G^T R^-1 G U.

S, L and the error m of the model have log-normal distributions before there are records. For each m, L is that for
which the records are most probable (MacKay 1992, doi:10.1162/neco.1992.4.3.415). The posterior is the mean of those of
several S, each weighted by the probability of the records. They are no guide to m: many sources fit the wave of one
gauge well, so that m would be small, and forecasts in other directions too certain. m is that for which the samples of
each gauge are most probable in the forecast from the other gauges, each sample by itself (Geisser & Eddy 1979,
doi:10.1080/01621459.1979.10481632). One gauge alone leaves m as it was.

At a gauge the amplitude of R is that of the record, elsewhere that of the forecast. Positive amplitudes have the same
distribution, cut off at zero, from which Gibbs's sampler draws: along each source in turn (Geweke 1991), and along each
eigenvector of the covariance, without which it hardly moves where sources that lie closer than L are correlated.

Each gauge is then left out in turn. Where fewer than 90 % of the samples that were left out lie within the bands of 90
percent, the spread of all forecasts is multiplied by the number by which 90 % do.
"""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import xarray as xr
from scipy.linalg import cholesky, solve_triangular
from scipy.optimize import minimize
from scipy.special import ndtr, ndtri

from .errors import Errors, Samples, correlation, error_terms, examined, samples_of, without_samples

if TYPE_CHECKING:
    from .bank import Bank

OTHERS = np.linspace(-1.5, 1.5, 7)  # of the logarithm of S, from the most probable one
SHARES = np.linspace(-1.6, 0.8, 13)  # of the logarithm of m, from that before there are records
MODEL_ERROR = 0.3  # m before there are records
WIDTHS = 0.5, 0.4, 0.3  # of the logarithms of S, L and m before there are records
NINETY = 1.6448536269514722  # deviations within which 90 % of a normal distribution lie
INFLATION = 1.0, 5.0  # limits of the number that multiplies the spread
STEP = 0.3  # of the logarithms of S and L, with which the search for the most probable ones begins
CHAINS, SWEEPS, BURNT = 50, 50, 30  # of Gibbs's sampler; of the sweeps of each chain the first are left out


@dataclasses.dataclass(frozen=True)
class Scales:
    """S [m], L [m] and m [1]."""

    deviation: float
    length: float
    model: float

    @staticmethod
    def before(bank: "Bank", errors: Errors) -> "Scales":
        """Those before there are records: of the Errors, else of the bank; a length of 0 is that of two neighbours."""
        known = (errors.deviation, bank.deviation), (errors.length, bank.length), (errors.model, MODEL_ERROR)
        deviation, length, model = (other if own is None else own for own, other in known)
        apart = bank.distances[~np.eye(len(bank.distances), dtype=bool)]
        return Scales(deviation, length or float(apart.min(initial=bank.distances.max() or 1.0)), model)


@dataclasses.dataclass(frozen=True, eq=False)
class Posterior:
    """The amplitudes of the sources of a bank, from records.

    Attributes:
        bank: the Bank.
        mean: of the amplitudes [m], (sources,).
        root: a matrix (sources, n) whose product with its transpose is their covariance [m2].
        scales: the Scales that were found or given.
        inflation: the number that multiplies the spread of forecasts; 1 where there is one gauge only.
        errors: the Errors.
        until: the time of the last sample that was used [s]; 0 before there is any.
        used: {gauge: number of samples}.
        remarks: sentences on what a reader of the forecast should know.
    """

    bank: "Bank"
    mean: np.ndarray
    root: np.ndarray
    scales: Scales
    inflation: float
    errors: Errors
    until: float
    used: dict[str, int]
    remarks: tuple[str, ...] = ()

    def sources(self) -> xr.Dataset:
        """Mean and deviation of the amplitudes (source), with their centres."""
        deviation = np.sqrt(np.sum(self.root**2, axis=1))
        x, y = self.bank.centres.T
        values = {"amplitude": self.mean, "amplitude_deviation": deviation, "source_x": x, "source_y": y}
        return xr.Dataset({name: ("source", value) for name, value in values.items()})

    def predict(self, points: Sequence[str] | None = None) -> xr.Dataset:
        """The waves at points: `mean` and `deviation` (point, time) [m], and `low` and `high` of the bands of 50 and 90
        percent (band, point, time)."""
        names, bank = list(points or self.bank.places), self.bank
        rows = bank.responses[bank.rows(points)].astype(float)
        mean, variance = _spread(rows, self.mean, self.root, bank.times, self.scales.model, self.errors)
        deviation = self.inflation * np.sqrt(variance)
        bands = np.array([50.0, 90.0])
        away = ndtri(0.5 + bands / 200.0)[:, None, None] * deviation
        over = ("point", "time")
        return xr.Dataset(
            {
                "mean": (over, mean),
                "deviation": (over, deviation),
                "low": (("band", *over), mean - away),
                "high": (("band", *over), mean + away),
            },
            {"band": bands, "point": names, "time": bank.times},
            {"units": "m", "until": self.until},
        )

    def amplitudes(self, count: int, seed: int | np.random.Generator = 0) -> np.ndarray:
        """Amplitudes of sources drawn from the posterior (draws, sources) [m]; `draws` of this seed are their waves."""
        noise = np.random.default_rng(seed).standard_normal((count, self.root.shape[1]))
        return self.mean + self.inflation * noise @ self.root.T

    def draws(self, count: int, points: Sequence[str] | None = None, seed: int = 0, rough: bool = True) -> xr.DataArray:
        """Waves (draw, point, time) [m] of sources drawn from the posterior, with errors of the model.

        Args:
            rough: whether they have the error of the model's amplitude, which differs from time to time.
        """
        smooth, error = self._drawn(count, points, seed)
        waves = smooth + error if rough else smooth
        names = list(points or self.bank.places)
        return xr.DataArray(waves, {"point": names, "time": self.bank.times}, ("draw", "point", "time"))

    def _drawn(self, count, points, seed):
        """(waves, the error of the model's amplitude in them) of draws, (draws, points, times) each [m]."""
        noise, bank = np.random.default_rng(seed), self.bank
        rows = bank.responses[bank.rows(points)].astype(float)
        waves = np.moveaxis(rows @ self.amplitudes(count, noise).T, -1, 0)
        amplitude, late = error_terms(
            rows @ self.mean, np.sum((rows @ self.root) ** 2, axis=-1), bank.times, self.errors
        )
        root = cholesky(correlation(bank.times, self.errors.memory), lower=True)
        rough = noise.standard_normal(waves.shape) @ root.T * (self.scales.model * amplitude)
        late = noise.standard_normal((count, len(rows), 1)) * late
        return waves + self.inflation * late, self.inflation * rough

    def harbours(
        self, points: Sequence[str] | None = None, threshold: float = 0.1, count: int = 400, seed: int = 0
    ) -> xr.Dataset:
        """The 5th, 50th and 95th percentiles of the height [m] and of the arrival [s] of the wave at points.

        Args:
            threshold: the level that a wave has when it arrives [m]. `reached` is the share of draws in which it does;
                the arrival is theirs.
        """
        smooth, rough = self._drawn(count, points, seed)
        above = np.abs(smooth) >= threshold  # with the rough error it would be passed before the wave is there
        first = np.where(above.any(axis=2), self.bank.times[above.argmax(axis=2)], np.nan)
        levels, percent = (smooth + rough).max(axis=2), [5.0, 50.0, 95.0]
        reached = np.isfinite(first).mean(axis=0)
        arrival = np.full((3, first.shape[1]), np.nan)
        for k in np.flatnonzero(reached > 0):
            arrival[:, k] = np.nanpercentile(first[:, k], percent)
        over = ("percentile", "point")
        return xr.Dataset(
            {
                "height": (over, np.percentile(levels, percent, axis=0)),
                "arrival": (over, arrival),
                "reached": ("point", reached),
            },
            {"percentile": percent, "point": list(points or self.bank.places)},
        )

    def scores(self, records: Mapping[str, xr.DataArray], after: float | None = None) -> xr.Dataset:
        """How records after a time [s] compare with the forecast; those after the last sample used unless it is given.

        `inside` is the share of the samples within the bands of 90 %, `error` the root mean square error, `spread` that
        which was expected, and `crps` the continuous ranked probability score [m], all over (point).
        """
        after = max(self.until, np.nextafter(self.errors.begin, -np.inf)) if after is None else after
        bank, found = self.bank, {}
        for each in samples_of(records, list(bank.places), bank.times, np.nextafter(after, np.inf), np.inf):
            wave = self.predict([each.name]).isel(point=0, time=each.at)
            spread = np.hypot(wave["deviation"].values, self.errors.instrument)
            z = (each.level - wave["mean"].values) / spread
            crps = spread * (z * (2 * ndtr(z) - 1) + 2 * np.exp(-0.5 * z**2) / np.sqrt(2 * np.pi) - np.pi**-0.5)
            error, expected = np.sqrt(np.mean((z * spread) ** 2)), np.sqrt(np.mean(spread**2))
            found[each.name] = np.mean(np.abs(z) <= NINETY), error, expected, np.mean(crps)
        table = np.array(list(found.values())).reshape(-1, 4).T
        names = ("inside", "error", "spread", "crps")
        return xr.Dataset({n: ("point", row) for n, row in zip(names, table)}, {"point": list(found)})


def _spread(rows, mean, root, times, share, errors):
    """(mean, variance) (points, times) of the waves, without the inflation."""
    wave, variance = rows @ mean, np.sum((rows @ root) ** 2, axis=-1)
    amplitude, late = error_terms(wave, variance, times, errors)
    return wave, variance + (share * amplitude) ** 2 + late**2


def infer(bank: "Bank", records: Mapping[str, xr.DataArray], until: float | None, errors: Errors) -> Posterior:
    """The Posterior of a bank from records; arguments and errors as for `Bank.posterior`."""
    first = Scales.before(bank, errors)
    prior = prior_root(bank.distances, first)
    samples, possible, remarks = examined(bank, records, until, errors, prior)
    used = {str(each.name): int(each.at.size) for each in samples}
    end = max((bank.times[each.at[-1]] for each in samples), default=0.0)
    if any((possible[each.row][each.at] > errors.instrument).any() for each in samples):
        parts = [Part(bank, each, errors) for each in samples]
        scales = _most_probable(parts, bank, first, errors)
        mean, root = _mixed(parts, bank, first, scales, errors)
        inflation = _inflation(parts, bank, scales, errors) if len(parts) > 1 else 1.0
        if len(parts) == 1:
            remarks.append(f"{samples[0].name} alone has a record, so that the spread is compared with no other gauge")
        if inflation == INFLATION[1]:
            remarks.append(
                f"gauges that are left out are off by more than the spread times {inflation:g}, which is the most: a "
                "record is wrong, or the source lies elsewhere"
            )
    else:
        scales, mean, root, inflation = first, np.zeros(len(prior)), prior, 1.0
        why = "no wave can have reached a gauge yet" if samples else "no record has a sample at the times of the bank"
        remarks.append(f"{why}: the forecast is the prior")
    if bank.rises if errors.rises is None else errors.rises:
        before = np.linalg.norm(root)
        mean, root = _positive(mean, root)
        share = np.linalg.norm(root) / before
        remarks.append(f"amplitudes are positive, which multiplies their deviation by {share:.2f} in the mean")
    remarks += without_samples(records, samples, bank.times)
    return Posterior(bank, mean, root, scales, inflation, errors, float(end), used, tuple(remarks))


class Part:
    """The record of a gauge, with the responses and errors at its samples.

    Args:
        bank: the Bank.
        samples: of the gauge.
        errors: Errors.
        terms: A(t) and d t eta'(t) at the samples [m]; those of the record itself unless given.

    Attributes:
        independent: about how many of the samples are off by errors of the model that are not correlated.
    """

    def __init__(
        self, bank: "Bank", samples: Samples, errors: Errors, terms: tuple[np.ndarray, np.ndarray] | None = None
    ):
        times = bank.times[samples.at]
        amplitude, late = error_terms(samples.level, 0.0, times, errors) if terms is None else terms
        self.samples, self.G = samples, bank.responses[samples.row][samples.at].astype(float)
        self.fixed = errors.instrument**2 * np.eye(times.size) + np.outer(late, late)
        self.share = np.outer(amplitude, amplitude) * correlation(times, errors.memory)
        self.independent = min(times.size, 1.0 + np.ptp(times) / errors.memory)

    def whitened(self, share: float) -> tuple[np.ndarray, np.ndarray, float]:
        """(G, y) over their errors, and the logarithm of the determinant of R."""
        root = cholesky(self.fixed + share**2 * self.share, lower=True)
        table = solve_triangular(root, np.column_stack([self.G, self.samples.level]), lower=True)
        return table[:, :-1], table[:, -1], 2.0 * float(np.log(np.diag(root)).sum())

    def products(self, share: float) -> tuple[np.ndarray, np.ndarray, float, float]:
        """G^T R^-1 G, G^T R^-1 y, y^T R^-1 y and log det R, which are summed over gauges."""
        G, y, log = self.whitened(share)
        return G.T @ G, G.T @ y, float(y @ y), log


def prior_root(distances: np.ndarray, scales: Scales) -> np.ndarray:
    """U, (sources, sources) [m]."""
    correlation = np.exp(-0.5 * (distances / scales.length) ** 2)
    return scales.deviation * cholesky(correlation + 1e-6 * np.eye(len(distances)), lower=True)


def _solved(products, U):
    """(mean, root) of the posterior from the `products` of gauges, and -log p(y) without its constants."""
    B, b, square, log = (sum(rest, start=first) for first, *rest in zip(*products))
    M = cholesky(np.eye(len(U)) + U.T @ B @ U, lower=True)
    q = solve_triangular(M, U.T @ b, lower=True)
    root = solve_triangular(M, U.T, lower=True).T
    return root @ q, root, 0.5 * float(square - q @ q + log + 2.0 * np.log(np.diag(M)).sum())


def _improbable(scales, first):
    """-log of the probability of the Scales before there are records, without its constants."""
    ratios = zip(dataclasses.astuple(scales), dataclasses.astuple(first))
    away = np.array([0.0 if one == other else np.log(one / other) for one, other in ratios]) / WIDTHS
    return 0.5 * float(away @ away)


def _left_out(parts, bank, scales, errors):
    """Of each gauge (how far its samples are from the forecast by the others, the deviation of that forecast) [m]."""
    products, U = [part.products(scales.model) for part in parts], prior_root(bank.distances, scales)
    for k, part in enumerate(parts):
        mean, root, _ = _solved([*products[:k], *products[k + 1 :]], U)
        row = bank.responses[part.samples.row][None].astype(float)
        (wave,), (variance,) = _spread(row, mean, root, bank.times, scales.model, errors)
        yield part.samples.level - wave[part.samples.at], np.sqrt(variance[part.samples.at])


def _loss_left_out(parts, bank, scales, errors):
    """-log p of the samples of each gauge in the forecast by the others, each sample by itself; 0 for one gauge."""
    loss = 0.0
    for part, (off, deviation) in zip(parts, _left_out(parts, bank, scales, errors) if len(parts) > 1 else ()):
        variance = deviation**2 + errors.instrument**2
        loss += part.independent * 0.5 * float(np.mean(off**2 / variance + np.log(variance)))
    return loss


def _most_probable(parts, bank, first, errors):
    """The most probable Scales (see the module); those that the Errors give stay as in `first`."""
    free = [name for name in ("deviation", "length") if getattr(errors, name) is None]
    shares = first.model * np.exp(SHARES) if errors.model is None and len(parts) > 1 else [first.model]
    each = [_for_share(parts, bank, dataclasses.replace(first, model=float(m)), free) for m in shares]
    return min(each, key=lambda scales: _loss_left_out(parts, bank, scales, errors) + _improbable(scales, first))


def _for_share(parts, bank, first, free):
    """The Scales with the m of `first` for which the records are most probable; the names in `free` may change."""
    if not free:
        return first
    products = [part.products(first.model) for part in parts]
    start = np.log([getattr(first, name) for name in free])

    def scales_at(x):
        return dataclasses.replace(first, **{name: float(np.exp(value)) for name, value in zip(free, x)})

    def loss(x):
        return _solved(products, prior_root(bank.distances, scales_at(x)))[2] + _improbable(scales_at(x), first)

    corners = start + STEP * np.eye(len(free) + 1, len(free), -1)  # scipy's own are 5 % away, nowhere from S = 1 m
    options = {"maxfev": 80, "xatol": 0.03, "fatol": 0.1, "initial_simplex": corners}
    found: Any = minimize(loss, start, method="Nelder-Mead", options=options)
    return scales_at(found.x)


def _mixed(parts, bank, first, scales, errors):
    """(mean, root) of the posteriors of several S, unless it is given, each as probable as the records are for it."""
    products = [part.products(scales.model) for part in parts]
    others = (0.0,) if errors.deviation is not None else OTHERS
    each = [dataclasses.replace(scales, deviation=scales.deviation * float(np.exp(x))) for x in others]
    means, roots, losses = zip(*(_solved(products, prior_root(bank.distances, one)) for one in each))
    losses = np.array([loss + _improbable(one, first) for loss, one in zip(losses, each)])
    weights = np.exp(np.min(losses) - losses)
    weights /= weights.sum()
    mean = weights @ np.array(means)
    columns = [w**0.5 * np.column_stack([root, m - mean]) for w, root, m in zip(weights, roots, means)]
    return mean, np.concatenate(columns, axis=1)


def _inflation(parts, bank, scales, errors):
    """The number by which 90 % of the samples of gauges that are left out in turn lie within the bands of 90 %."""
    off, deviation = (np.concatenate(each) for each in zip(*_left_out(parts, bank, scales, errors)))
    seen = deviation > errors.instrument
    every = (np.abs(off) / np.hypot(deviation, errors.instrument))[seen]
    return float(np.clip(np.quantile(every, 0.9) / NINETY, *INFLATION)) if every.size > 10 else 1.0


def _positive(mean, root, seed=0):
    """(mean, root) of the same distribution where all amplitudes are positive, by Gibbs's sampler."""
    noise, n = np.random.default_rng(seed), len(mean)
    covariance = root @ root.T
    values, vectors = np.linalg.eigh(covariance + 1e-9 * np.trace(covariance) / n * np.eye(n))
    precision = (vectors / values) @ vectors.T
    long = values > np.mean(1.0 / np.diag(precision))  # along the others a source's own steps are as long
    directions = np.concatenate([np.eye(n), vectors.T[long]])
    pulls = directions @ precision
    sharpness = np.sum(directions * pulls, axis=1)
    a, drawn = np.maximum(mean, np.sqrt(np.diag(covariance))) * noise.random((CHAINS, 1)), []
    for sweep in range(SWEEPS):
        for direction, pull, sharp in zip(directions, pulls, sharpness):
            with np.errstate(divide="ignore", invalid="ignore"):
                ends = -a / direction
            low = np.where(direction > 0, ends, -np.inf).max(axis=1)
            high = np.where(direction < 0, ends, np.inf).min(axis=1)
            step = _cut_normal(-(a - mean) @ pull / sharp, sharp**-0.5, low, high, 1.0 - noise.random(CHAINS))
            a = np.maximum(a + step[:, None] * direction, 0.0)
        if sweep >= BURNT:
            drawn.append(a)
    every = np.concatenate(drawn)
    return every.mean(axis=0), (every - every.mean(axis=0)).T / np.sqrt(len(every))


def _cut_normal(centre, deviation, low, high, share):
    """The numbers below which lie these shares, or above which, of normal distributions between `low` and `high`."""
    sign = np.where(low > centre, -1.0, 1.0)  # in the upper tail from above, where 1 - ndtr would be lost in rounding
    ends = np.sort(sign * (np.stack([low, high]) - centre) / deviation, axis=0)
    below, above = ndtr(ends)
    z = np.where(above > below, ndtri(below + share * (above - below)), ends[1])
    return np.clip(centre + deviation * sign * z, low, high)
