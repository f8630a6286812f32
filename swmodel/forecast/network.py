"""Where the next buoy should be: how much the record of each candidate would narrow the forecast of harbours.

Before an earthquake the amplitudes are N(0, C), C = U U^T, and the waves of harbours H a have the variance tr(H C H^T),
summed over harbours and times. Records of the gauges g that there are, G_g a + e with e ~ N(0, R_g) (errors.py), leave
tr(H U M^-1 U^T H^T), M = 1 + sum over g of U^T G_g^T R_g^-1 G_g U. The posterior does not depend on the values of the
records, so that no earthquake is needed (Krause, Singh & Guestrin 2008 for such designs; JMLR 9, 235-284).
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import xarray as xr
from scipy.linalg import cholesky, solve_triangular

from ..errors import ConfigError
from .errors import Errors, Samples, error_terms
from .inference import Part, Scales, prior_root

if TYPE_CHECKING:
    from .bank import Bank


def next_buoy(
    bank: "Bank",
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
