"""Minimisation over controls that are distributed over ranks: L-BFGS with a global inner product.

    p_k = - H_k g_k,   x_{k+1} = x_k + a_k p_k,

H_k follows from the last `memory` pairs s = x_{k+1} - x_k, y = g_{k+1} - g_k by the two-loop recursion (Nocedal &
Wright 2006, algorithm 7.4). The step a_k satisfies the strong Wolfe conditions; scipy's line search finds it from the
numbers J(x_k + a p_k) and g(x_k + a p_k).p_k. The root broadcasts these numbers, so that all ranks decide alike.

A control dict is {name: value}. A value is a distributed tile array (..., ny, nx), a number or vector that every rank
holds, or {record: value} for time records.

Lanczos iteration for a symmetric operator A on distributed controls: (1 + A) x = b, and leading eigenpairs of A.

A = G* R^-1 G is the Hessian of the observation term in units of the background errors. The same products with A serve
the inner loop of incremental 4D-Var and the posterior variance (Fisher & Courtier 1995, ECMWF Memo. 220). Starting
from q_1 = b / |b|, the orthonormal q_k and the symmetric tridiagonal T_k satisfy

    A q_k = beta_{k-1} q_{k-1} + alpha_k q_k + beta_k q_{k+1},   x_k = Q_k (1 + T_k)^-1 |b| e_1,

where x_k are the iterates of conjugate gradients, with the residual |b - (1 + A) x_k| = beta_k |(Q_k^T x_k)_k|. Every
new vector is orthogonalised twice against all earlier ones. Otherwise rounding would produce spurious copies of
eigenvalues (Golub & Van Loan 2013, section 10.3).
"""

import dataclasses
import functools
import math
import time as clock
import warnings
from collections.abc import Callable, Iterator, Sequence

import jax
import jax.numpy as jnp
import numpy as np

from ...parallel.communicator import Communicator
from ..controls.controls import ControlDict
from ..problem import dot as global_dot

Progress = Callable[[int, float], object]
"""Called after every product of an inner loop, as progress(products, residual)."""


@dataclasses.dataclass(frozen=True)
class Lanczos:
    """The basis that `lanczos` builds.

    Attributes:
        space: the Space of the vectors.
        vectors: q_1 ... q_k.
        diagonal: alpha (k,).
        off_diagonal: beta (k,); the last entry couples to the next vector, which is not in the basis.
        norm: |b|.
    """

    space: "Space"
    vectors: list
    diagonal: np.ndarray
    off_diagonal: np.ndarray
    norm: float

    @property
    def products(self) -> int:
        """The number of products with A."""
        return len(self.diagonal)

    @property
    def _tridiagonal(self):
        inner = self.off_diagonal[:-1]
        return np.diag(self.diagonal) + np.diag(inner, 1) + np.diag(inner, -1)

    def _shares(self):
        first = np.zeros(len(self.diagonal))
        first[0] = self.norm
        return np.linalg.solve(np.eye(len(first)) + self._tridiagonal, first)

    @property
    def residual(self) -> float:
        """|b - (1 + A) x| / |b|."""
        return float(self.off_diagonal[-1] * abs(self._shares()[-1]) / self.norm)

    def solution(self) -> ControlDict:
        """x, with (1 + A) x = b to within the residual."""
        return self.space.combine(self._shares(), self.vectors)

    def eigenpairs(self, tolerance: float = 1e-2) -> tuple[np.ndarray, list[ControlDict]]:
        """(eigenvalues, eigenvectors) of A that have converged, largest first.

        Args:
            tolerance: bound of |A w - lambda w| relative to 1 + lambda. A bound relative to the largest eigenvalue
                would accept mixtures of eigenvectors with small eigenvalues, and underestimate the posterior variance.
        """
        values, shares = np.linalg.eigh(self._tridiagonal)
        sure = self.off_diagonal[-1] * np.abs(shares[-1]) <= tolerance * (1.0 + np.maximum(values, 0.0))
        order = [k for k in np.argsort(values)[::-1] if sure[k] and values[k] > 0]
        return values[order], [self.space.combine(shares[:, k], self.vectors) for k in order]


def lanczos(
    operator: Callable[[ControlDict], ControlDict],
    start: ControlDict,
    space: "Space",
    most: int,
    residual: float = 0.0,
    progress: Progress | None = None,
) -> Lanczos:
    """The Lanczos basis of `operator` from `start`.

    Args:
        operator: A, a function of a control dict to one, symmetric in the inner product of `space`.
        start: b, a control dict.
        space: a Space.
        most: largest number of products.
        residual: the iteration ends when |b - (1 + A) x| / |b| is at most this.
        progress: called as progress(products, residual).

    Raises:
        ValueError: if b is zero, from which no basis can be built.
    """
    norm = math.sqrt(space.dot(start, start))
    if norm == 0.0:
        raise ValueError("lanczos: the first vector is zero; give one that is not.")
    vectors, diagonal, off_diagonal = [space.scale(1.0 / norm, start)], [], []
    while True:
        new = operator(vectors[-1])
        diagonal.append(space.dot(new, vectors[-1]))
        for _ in range(2):
            for q in vectors:
                new = space.add(new, -space.dot(new, q), q)
        off_diagonal.append(math.sqrt(space.dot(new, new)))
        found = Lanczos(space, vectors, np.array(diagonal), np.array(off_diagonal), norm)
        if progress is not None:
            progress(len(diagonal), found.residual)
        exhausted = off_diagonal[-1] <= 1e-12 * max(*np.abs(diagonal), off_diagonal[0], 1e-300)
        if len(diagonal) == most or found.residual <= residual or exhausted:
            return found
        vectors.append(space.scale(1.0 / off_diagonal[-1], new))


class Space:
    """The inner product and linear combinations of control dicts, the same on every rank.

    Args:
        communicator: the model's Communicator.
    """

    def __init__(self, communicator: Communicator):
        self.communicator = communicator

    def dot(self, a: ControlDict, b: ControlDict) -> float:
        """<a, b>, a float; the root's value on every rank, since ranks may differ by rounding errors."""
        return self.communicator.host_broadcast(float(global_dot(a, b, self.communicator)))

    def norm(self, a: ControlDict) -> float:
        """|a|."""
        return math.sqrt(max(self.dot(a, a), 0.0))

    def combine(self, weights: Sequence[float] | np.ndarray, vectors: Sequence[ControlDict]) -> ControlDict:
        """The sum of weights[k] vectors[k]."""
        total = _scaled(float(weights[0]), vectors[0])
        for weight, vector in zip(weights[1:], vectors[1:]):
            total = self.add(total, weight, vector)
        return total

    def add(self, a: ControlDict, weight: float, b: ControlDict) -> ControlDict:
        """a + weight b."""
        return _added(a, float(weight), b)

    def scale(self, factor: float, a: ControlDict) -> ControlDict:
        """factor a."""
        return _scaled(float(factor), a)


def unit_vectors(parameters: ControlDict) -> Iterator[ControlDict]:
    """For each number of a control dict that every rank holds, a dict with 1 for this number and 0 for all others."""
    for name, value in parameters.items():
        for k in range(np.size(value) if np.ndim(value) < 2 else 0):
            unit = {n: np.zeros_like(v) if np.ndim(v) < 2 else jnp.zeros_like(v) for n, v in parameters.items()}
            unit[name].reshape(-1)[k] = 1.0
            yield unit


@jax.jit
def _scaled(factor, a):
    return jax.tree.map(lambda x: jnp.asarray(factor, x.dtype) * x, a)


@jax.jit
def _added(a, weight, b):
    return jax.tree.map(lambda x, y: x + jnp.asarray(weight, y.dtype) * y, a, b)


@dataclasses.dataclass(frozen=True)
class Stop:
    """Stopping criteria of a minimisation; the first that holds ends it.

    Args:
        iterations: largest number of iterations.
        gradient: |g| is at most this share of the first |g|.
        decrease: an iteration has lowered J by less than this share of J.
        value: J is at most this, such as the noise of the observations.
        seconds: wall time has passed [s]; the current iteration is completed.
    """

    iterations: int = 100
    gradient: float = 1e-6
    decrease: float = 1e-10
    value: float | None = None
    seconds: float | None = None

    def reason(self, history: Sequence["Iteration"], began: float) -> str | None:
        """Why to stop after the Iterations `history`, or None."""
        first, last = history[0], history[-1]
        if last.gradient <= self.gradient * first.gradient:
            return f"the gradient has come down to {self.gradient:g} of the first one"
        if self.value is not None and last.value <= self.value:
            return f"J has come down to {self.value:g}"
        if len(history) > 1 and history[-2].value - last.value <= self.decrease * abs(last.value):
            return f"the last iteration lowered J by less than {self.decrease:g} of it"
        if last.number >= self.iterations:
            return f"{self.iterations} iterations were made"
        if self.seconds is not None and clock.monotonic() - began >= self.seconds:
            return f"{self.seconds:g} s have passed"
        return None


@dataclasses.dataclass(frozen=True)
class Iteration:
    """One line of the history: J, |g|, the number of evaluations so far, and the length of the step |x_k - x_{k-1}|."""

    number: int
    value: float
    gradient: float
    evaluations: int
    step: float = 0.0


@dataclasses.dataclass(frozen=True)
class Minimum:
    """The result of a minimisation.

    Attributes:
        values: the controls.
        value: J.
        gradient: dJ/dx.
        pairs: the pairs (s, y) of L-BFGS, newest last.
        history: an Iteration for the start and for each iteration.
        reason: why the minimisation ended; None while it continues.
    """

    values: dict
    value: float
    gradient: dict
    pairs: tuple = ()
    history: tuple = ()
    reason: str | None = None


def minimise(
    function: Callable[[ControlDict], tuple[float, ControlDict]],
    start: ControlDict | Minimum,
    space: "Space",
    stop: Stop = Stop(),
    memory: int = 10,
    progress: Callable[[Minimum], object] | None = None,
) -> Minimum:
    """The minimum of `function` by L-BFGS.

    Args:
        function: a function from a control dict to (J, gradient), such as Problem.value_and_gradient. J may be infinite
            or NaN where the model blows up; the line search then takes a shorter step.
        start: a control dict, or a Minimum from which to continue, with its pairs and history.
        space: a Space.
        stop: a Stop.
        memory: number of pairs to store.
        progress: called with a Minimum after every iteration; it may print, or write a restart.

    Returns:
        Minimum.

    Raises:
        ValueError: if J is not finite at the start.
    """
    began = clock.monotonic()
    now = start if isinstance(start, Minimum) else _first(function, start, space)
    while True:
        reason = stop.reason(now.history, began)
        reason = space.communicator.host_broadcast(reason)  # clocks of ranks differ
        now = dataclasses.replace(now, reason=reason)
        if progress is not None:
            progress(now)
        if reason is not None:
            return now
        found = _iteration(function, now, space, memory)
        if found is None and now.pairs:  # the pairs do not give a descent direction: start again from the gradient
            found = _iteration(function, dataclasses.replace(now, pairs=()), space, memory)
        if found is None:
            why = "no lower J was found along the gradient: rounding errors of J, or a gradient that is not J's"
            return dataclasses.replace(now, reason=why)
        now = found


def _first(function, start, space):
    value, gradient = function(start)
    value = space.communicator.host_broadcast(float(value))
    if not math.isfinite(value):
        raise ValueError(
            f"minimise: J is {value} at the start; begin from controls with which the model runs to its end."
        )
    return Minimum(start, value, gradient, history=(Iteration(0, value, space.norm(gradient), 1),))


def _iteration(function, now, space, memory):
    """The Minimum one step on, or None if no step along the direction lowers J enough."""
    from scipy.optimize import line_search  # takes a tenth of a second, for which other commands need not wait

    direction = _direction(now.gradient, now.pairs, space)
    slope = space.dot(now.gradient, direction)
    if not slope < 0.0:
        return None

    @functools.lru_cache(maxsize=1)  # a line search evaluates both J and its slope at the same step
    def at(length):
        """(values, J, gradient, slope) at the step `length`; a J that is not finite counts as infinite."""
        values = space.add(now.values, length, direction)
        value, gradient = function(values)
        value = space.communicator.host_broadcast(float(value))
        slope = space.dot(gradient, direction) if math.isfinite(value) else math.inf
        return values, value if math.isfinite(value) else math.inf, gradient, slope

    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")  # a search without success is recognised by its result
        length, *_ = line_search(
            lambda a: at(float(np.ravel(a)[0]))[1],
            lambda a: np.array([at(float(np.ravel(a)[0]))[3]]),
            np.zeros(1),
            np.ones(1),
            np.array([slope]),
            now.value,
            maxiter=20,
        )
    if length is None:
        return None
    values, value, gradient, _ = at(float(np.ravel(length)[0]))
    s, y = space.add(values, -1.0, now.values), space.add(gradient, -1.0, now.gradient)
    pairs = (*now.pairs, (s, y))[-memory:] if space.dot(s, y) > 0 else now.pairs
    last, evaluations = now.history[-1], at.cache_info().misses
    latest = Iteration(last.number + 1, value, space.norm(gradient), last.evaluations + evaluations, space.norm(s))
    return Minimum(values, value, gradient, pairs, (*now.history, latest))


def _direction(gradient, pairs, space):
    """-H g by the two-loop recursion; without pairs a step of length 1 against the gradient."""
    if not pairs:
        return space.scale(-1.0 / space.norm(gradient), gradient)
    q, shares = gradient, []
    for s, y in reversed(pairs):
        rho = 1.0 / space.dot(s, y)
        share = rho * space.dot(s, q)
        q = space.add(q, -share, y)
        shares.append((rho, share))
    s, y = pairs[-1]
    q = space.scale(space.dot(s, y) / space.dot(y, y), q)
    for (s, y), (rho, share) in zip(pairs, reversed(shares)):
        q = space.add(q, share - rho * space.dot(y, q), s)
    return space.scale(-1.0, q)
