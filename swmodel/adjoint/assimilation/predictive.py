"""The spread of gauges before and after an inversion, and J compared with its expectation.

Members p_j of an ensemble are drawn from the background, N(b, 1), or from the error of the analysis,
N(p_a, (1 + A)^-1). There A = G* G has the leading eigenpairs (l_k, w_k) of posterior.py:

    p_j = p_a + z + sum_k [(1 + l_k)^-1/2 - 1] (w_k . z) w_k,   z white noise.

The model with the controls x(p_j) gives the readings F(p_j) of the gauges, and

    spread = (mean_j (F(p_j) - F(p_a))^2)^1/2

is the expected error of F(p_a). It includes only errors that the controls can cause. Model errors, such as an
unresolved bay or a source outside the patch, belong to the errors of observations, not to the spread.

With n independent observations of errors s, and the spread S of the first guess at them, J has the expectations

    2 J(b) = n + sum_i S_i^2 / s_i^2,    2 J(p_a) = n      (Talagrand 1999, doi:10.1007/978-3-662-03705-5_5; linear).
"""

import dataclasses
from collections.abc import Callable, Iterable, Iterator, Sequence

import numpy as np

from ...models.shallow_water import ShallowWater
from ..controls.controls import ControlDict
from .minimise import Space
from .posterior import noise_like

__all__ = ["Consistency", "members", "spread"]

FAR_AT_FIRST, NEAR_AT_FIRST, FAR_AT_LAST = 10.0, 1 / 30, 2.0  # ratios of J to its expectation that cause a warning


def members(
    count: int,
    like: ControlDict,
    model: ShallowWater,
    space: Space,
    eigenpairs: tuple[Sequence[float] | np.ndarray, Sequence[ControlDict]] = ((), ()),
    seed: int = 0,
) -> Iterator[ControlDict]:
    """Yield `count` differences p_j - p_a, control dicts like `like`; without eigenpairs, of the background's error.

    Args:
        count: number of members.
        like: a control dict.
        model: a ShallowWater; fields are the same on any number of ranks.
        space: a Space.
        eigenpairs: (values, vectors) as Posterior has them.
        seed: seed of the noise z, which does not depend on the eigenpairs.
    """
    for k in range(count):
        noise = noise_like(like, model, (seed, k))
        member = noise
        for value, vector in zip(*eigenpairs):
            member = space.add(member, ((1.0 + value) ** -0.5 - 1.0) * space.dot(vector, noise), vector)
        yield member


def spread(readings: Callable, centre: dict, differences: Iterable[ControlDict], space: Space) -> np.ndarray:
    """The root mean square difference (steps, gauges) of members' readings from those at `centre`.

    Args:
        readings: F, a function of a control dict to (steps, gauges).
        centre: p_a.
        differences: p_j - p_a, as `members` yields them; members for which the model blows up do not count.
    """
    middle, total, count = np.asarray(readings(centre), float), 0.0, 0
    for difference in differences:
        away = np.asarray(readings(space.add(centre, 1.0, difference)), float) - middle
        if np.isfinite(away).all():
            total, count = total + away**2, count + 1
    return np.sqrt(total / count) if count else np.full_like(middle, np.nan)


@dataclasses.dataclass(frozen=True)
class Consistency:
    """J of the first guess and of the analysis, and their expectations.

    Attributes:
        observations: number of observations.
        data: n, the number of independent observations that weigh as much.
        first, last: J of the first guess and of the analysis.
        expected_first: the expectation of J(b); NaN if no spread was computed.
    """

    observations: int
    data: float
    first: float
    last: float
    expected_first: float

    @property
    def first_per_datum(self) -> float:
        """2 J(b) / n."""
        return 2.0 * self.first / self.data

    @property
    def expected_first_per_datum(self) -> float:
        return 2.0 * self.expected_first / self.data

    @property
    def last_per_datum(self) -> float:
        """2 J(p_a) / n, of which 1 is expected."""
        return 2.0 * self.last / self.data

    def line_before(self) -> str:
        """J of the first guess and its expectation, in words."""
        expected = "" if np.isnan(self.expected_first) else f" (expected: {self.expected_first_per_datum:.3g})"
        return (
            f"first guess: J = {self.first:.6g}, chi-squared per datum 2 J / n = {self.first_per_datum:.3g}{expected}, "
            f"of {self.observations:,} observations that count as n = {self.data:.4g} independent data"
        )

    def line_after(self) -> str:
        """J of the analysis and its expectation, in words."""
        return (
            f"analysis: J = {self.last:.6g}, chi-squared per datum 2 J / n = {self.last_per_datum:.3g} (expected: 1), "
            f"n = {self.data:.4g}"
        )

    def attributes(self) -> dict[str, np.float64]:
        """The numbers that are finite, as attributes of a file."""
        numbers = {
            "observations_used": self.observations,
            "independent_data": self.data,
            "cost_first": self.first,
            "cost_first_expected": self.expected_first,
            "cost_last": self.last,
            "chi_squared_per_datum": self.last_per_datum,
        }
        return {name: np.float64(value) for name, value in numbers.items() if np.isfinite(value)}

    def warning_before(self) -> str | None:
        """A warning if J(b) is ten times its expectation, or a thirtieth of it; else None."""
        ratio = self.first / self.expected_first
        if not (ratio > FAR_AT_FIRST or ratio < NEAR_AT_FIRST):
            return None
        far, remedy = (
            ("further from", "larger errors of the observations (deviation, error) or of the controls (deviation)")
            if ratio > 1.0
            else ("nearer to", "smaller errors of the controls (deviation)")
        )
        return (
            f"the first guess is {far} the observations than their errors and those of the controls explain: "
            f"chi-squared per datum is {self.first_per_datum:.3g}, and {self.expected_first_per_datum:.3g} is "
            f"expected; give {remedy}."
        )

    def warning_after(self) -> str | None:
        """A warning if chi-squared per datum is off 1 by a factor of 2 and by four standard deviations; else None.

        The deviations are large for few data (Wilson & Hilferty 1931, doi:10.1073/pnas.17.12.684).
        """
        part = 2.0 / (9.0 * self.data)
        low, high = (max(1.0 - part + sign * 4.0 * np.sqrt(part), 0.0) ** 3 for sign in (-1.0, 1.0))
        chi = self.last_per_datum
        if chi > max(FAR_AT_LAST, high):
            return (
                f"the analysis does not follow the observations to within their errors: chi-squared per datum is "
                f"{chi:.3g}, and 1 is expected; the spread is too small. Give larger errors of the observations "
                "(deviation, error), more loops, or controls that can make what was observed."
            )
        if chi < min(1.0 / FAR_AT_LAST, low):
            return (
                f"the analysis follows the observations more closely than their errors explain: chi-squared per "
                f"datum is {chi:.3g}, and 1 is expected; the spread is too large. Give smaller errors of the "
                "observations (deviation, error)."
            )
        return None
