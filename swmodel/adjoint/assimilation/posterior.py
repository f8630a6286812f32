"""The uncertainty of an analysis: leading eigenpairs of the observation term's Hessian, and the posterior variance.

In parameters with a background error of 1, where the Hessian of J is 1 + A, A = G* G, the analysis has the covariance

    (1 + A)^-1 = 1 - sum_k l_k / (1 + l_k) w_k w_k*,   A w_k = l_k w_k,

and the controls x(p), with the tangent X of x, have the covariance X X* - sum_k l_k / (1 + l_k) (X w_k)(X w_k)*. If
eigenpairs are missing, the estimate is too large, never too small. The sum of l_k / (1 + l_k) is the number of degrees
of freedom for signal (Rodgers 2000, section 2.4).

The spread of gauges before and after an inversion, and J compared with its expectation.

Members p_j of an ensemble are drawn from the background, N(b, 1), or from the error of the analysis,
N(p_a, (1 + A)^-1). There A = G* G has the leading eigenpairs (l_k, w_k):

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

import jax
import jax.numpy as jnp
import numpy as np

from ...models.shallow_water import ShallowWater
from ...parallel.communicator import Communicator
from ...runtime.compilation import jit
from ..controls.controls import ControlDict, Transformed
from ..core.programs import Transform
from .linear_model import entered
from .minimise import Progress, Space, lanczos, unit_vectors


@dataclasses.dataclass(frozen=True)
class Posterior:
    """Leading eigenpairs of A.

    Attributes:
        values: l_k, largest first.
        vectors: w_k, control dicts of length 1.
    """

    values: np.ndarray
    vectors: list

    @property
    def shares(self) -> np.ndarray:
        """l / (1 + l): the share of the background's variance along w_k that the observations remove."""
        return self.values / (1.0 + self.values)

    @property
    def signal(self) -> float:
        """Degrees of freedom for signal of the known eigenpairs."""
        return float(np.sum(self.shares))

    def reduction(
        self, transformed: Transformed | Transform, parameters: ControlDict, communicator: Communicator
    ) -> dict[str, jax.Array]:
        """{control: reduction of its variance}: sum_k l_k / (1 + l_k) (X w_k)^2 at each point."""
        return self._sum_of_squares(self.vectors, self.shares, transformed, parameters, communicator)

    @staticmethod
    def prior(
        transformed: Transformed | Transform, parameters: ControlDict, communicator: Communicator
    ) -> dict[str, jax.Array]:
        """{control: the background's variance}, by the transforms that have it, else by a sum over the parameters."""
        variance = jit(communicator.spmd(lambda function, p: function.variance(p)))
        known = variance(transformed.function, entered(parameters, communicator))
        units = list(unit_vectors(parameters))
        if not units:
            return known
        return Posterior._sum_of_squares(units, np.ones(len(units)), transformed, parameters, communicator) | known

    @staticmethod
    def _sum_of_squares(vectors, weights, transformed, parameters, communicator):
        def add(function, parameters, direction, weight, total):
            tangent = jax.jvp(function, (parameters,), (direction,))[1]
            return jax.tree.map(lambda t, x: t + weight.astype(x.dtype) * x * x, total, tangent)

        function, parameters = transformed.function, entered(parameters, communicator)
        program = jit(communicator.spmd(add))
        zeros = jit(communicator.spmd(lambda function, p: jax.tree.map(jnp.zeros_like, function(p))))
        total = zeros(function, parameters)
        for vector, weight in zip(vectors, weights):
            total = program(function, parameters, entered(vector, communicator), jnp.asarray(weight), total)
        return total


def eigenpairs(
    product: Callable[[ControlDict], ControlDict],
    like: ControlDict,
    model: ShallowWater,
    space: Space,
    most: int = 30,
    progress: Progress | None = None,
) -> Posterior:
    """The Posterior of A by Lanczos from a random vector, which is the same on any number of ranks.

    Args:
        product: A, a function of a control dict: that of `Tangent` for Gauss-Newton, or FourDVar's Hessian minus 1.
        like: a control dict.
        model: a ShallowWater.
        space: a Space.
        most: largest number of products.
        progress: called as progress(products, residual).
    """
    basis = lanczos(product, noise_like(like, model), space, most, progress=progress)
    return Posterior(*basis.eigenpairs())


def noise_like(values: ControlDict, model: ShallowWater, seed: int | tuple[int, ...] = 0) -> ControlDict:
    """White noise in the shape of a control dict; fields are the same on any number of ranks."""
    noise = np.random.default_rng(seed)

    def one(value):
        if np.ndim(value) >= 2:
            return model.domain.cut(noise.standard_normal((*np.shape(value)[:-2], *model.grid.shape)))
        return np.asarray(noise.standard_normal(np.shape(value)), model.dtype)

    return jax.tree.map(one, values)


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
