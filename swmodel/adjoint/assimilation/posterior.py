"""The uncertainty of an analysis: leading eigenpairs of the observation term's Hessian, and the posterior variance.

In parameters with a background error of 1, where the Hessian of J is 1 + A, A = G* G, the analysis has the covariance

    (1 + A)^-1 = 1 - sum_k l_k / (1 + l_k) w_k w_k*,   A w_k = l_k w_k,

and the controls x(p), with the tangent X of x, have the covariance X X* - sum_k l_k / (1 + l_k) (X w_k)(X w_k)*. If
eigenpairs are missing, the estimate is too large, never too small. The sum of l_k / (1 + l_k) is the number of degrees
of freedom for signal (Rodgers 2000, section 2.4).
"""

import dataclasses
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np

from ...models.shallow_water import ShallowWater
from ...parallel.communicator import Communicator
from ...runtime.compilation import jit
from ..controls.controls import ControlDict, Transformed
from ..core.programs import Transform
from .lanczos import lanczos
from .minimise import Space

__all__ = ["Posterior", "eigenpairs", "noise_like"]


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
        numbers = {name: np.asarray(value) for name, value in parameters.items() if np.ndim(value) < 2}
        units = []
        for name, value in numbers.items():
            for k in range(value.size):
                unit = {n: np.zeros_like(v) if np.ndim(v) < 2 else jnp.zeros_like(v) for n, v in parameters.items()}
                unit[name].reshape(-1)[k] = 1.0
                units.append(unit)
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
        total = jit(communicator.spmd(lambda function, p: jax.tree.map(jnp.zeros_like, function(p))))(
            function, parameters
        )
        for vector, weight in zip(vectors, weights):
            total = program(function, parameters, entered(vector, communicator), jnp.asarray(weight), total)
        return total


def entered(parameters: ControlDict, communicator: Communicator) -> dict[str, jax.Array]:
    """A control dict in the form that programs take."""
    return {
        name: value if np.ndim(value) >= 2 else communicator.place(lambda rank: np.asarray(value))  # noqa: B023
        for name, value in parameters.items()
    }


def eigenpairs(
    product: Callable[[ControlDict], ControlDict],
    like: ControlDict,
    model: ShallowWater,
    space: Space,
    most: int = 30,
    tolerance: float = 1e-2,
    seed: int = 0,
    progress: Callable[[int, float], object] | None = None,
) -> Posterior:
    """The Posterior of A by Lanczos from a random vector.

    Args:
        product: A, a function of a control dict: that of `Tangent` for Gauss-Newton, or FourDVar's Hessian minus 1.
        like: a control dict.
        model: a ShallowWater.
        space: a Space.
        most: largest number of products.
        tolerance: bound of |A w - l w| relative to 1 + l.
        seed: seed of the random vector, which is the same on any number of ranks.
        progress: called as progress(products, residual).
    """
    basis = lanczos(product, noise_like(like, model, seed), space, most, progress=progress)
    return Posterior(*basis.eigenpairs(tolerance))


def noise_like(values: ControlDict, model: ShallowWater, seed: int | tuple[int, ...] = 0) -> ControlDict:
    """White noise in the shape of a control dict; fields are the same on any number of ranks."""
    noise = np.random.default_rng(seed)

    def one(value):
        if np.ndim(value) >= 2:
            return model.domain.cut(noise.standard_normal((*np.shape(value)[:-2], *model.grid.shape)))
        return np.asarray(noise.standard_normal(np.shape(value)), model.dtype)

    return jax.tree.map(one, values)
