"""Lanczos iteration for a symmetric operator A on distributed controls: (1 + A) x = b, and leading eigenpairs of A.

A = G* R^-1 G is the Hessian of the observation term in units of the background errors. The same products with A serve
the inner loop of incremental 4D-Var and the posterior variance (Fisher & Courtier 1995, ECMWF Memo. 220). Starting
from q_1 = b / |b|, the orthonormal q_k and the symmetric tridiagonal T_k satisfy

    A q_k = beta_{k-1} q_{k-1} + alpha_k q_k + beta_k q_{k+1},   x_k = Q_k (1 + T_k)^-1 |b| e_1,

where x_k are the iterates of conjugate gradients, with the residual |b - (1 + A) x_k| = beta_k |(Q_k^T x_k)_k|. Every
new vector is orthogonalised twice against all earlier ones. Otherwise rounding would produce spurious copies of
eigenvalues (Golub & Van Loan 2013, section 10.3).
"""

import dataclasses
import math
from collections.abc import Callable

import numpy as np

from ..controls.controls import ControlDict
from .minimise import Space

__all__ = ["Lanczos", "lanczos"]


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

    space: Space
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

    def decrease(self) -> float:
        """The decrease of x.(1 + A)x / 2 - b.x from zero to the solution."""
        return float(0.5 * self.norm * self._shares()[0])

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
    space: Space,
    most: int,
    residual: float = 0.0,
    progress: Callable[[int, float], object] | None = None,
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
