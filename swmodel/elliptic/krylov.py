"""Preconditioned conjugate gradients: for land, variable depth and anything else that `assemble` makes.

-A is symmetric and has no negative eigenvalue, so that conjugate gradients converge (Hestenes & Stiefel 1952,
doi:10.6028/jres.049.044). Each iteration takes one application of the preconditioner, one exchange of halos and two
global sums. They are added in the order of ranks: MPI does not promise the same bits of a sum on every rank, and a rank
that iterated alone would wait for the others for ever. The norm of the new residual, r - s q, follows from the sum that
gives the step s, |r|^2 - 2 s (r, q) + s^2 (q, q), and is not taken to be less than its rounding errors allow.
The number of iterations depends on the preconditioner, an object with two methods:

    prepare(domain, coefficients, stencil)   a pytree that `apply` needs; inside `communicator.spmd`
    apply(prepared, r)                       z, an approximation of x with -A x = r; linear, symmetric and positive

    Diagonal     z = r / -a_ii, without communication
    FastPoisson  the same equation with mean coefficients on the whole rectangle, by transforms, scaled to A's diagonal
    Multigrid    a V-cycle (multigrid.py)
"""

import abc
import dataclasses
import numbers
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from ..fields.parameters import shown
from ..grids.geometry import safe_inverse
from .base import Plan, Report, Solver
from .operator import Coefficients, Domain, EllipticError, Stencil, assemble
from .spectral import rectangle_inverse

NEVER = 1e-30  # a tolerance that is never reached; its square is 0 in float32


class Preconditioner(abc.ABC):
    """The base class of approximate inverses of -A; objects are frozen and hashable."""

    @abc.abstractmethod
    def prepare(self, domain: Domain, coefficients: Coefficients, stencil: Stencil) -> object: ...

    @abc.abstractmethod
    def apply(self, prepared: Any, r: jax.Array) -> jax.Array: ...


@dataclasses.dataclass(frozen=True)
class Diagonal(Preconditioner):
    """The Jacobi preconditioner, z = r / -a_ii."""

    def prepare(self, domain: Domain, coefficients: Coefficients, stencil: Stencil) -> object:
        return safe_inverse(stencil.diagonal)

    def apply(self, prepared: Any, r: jax.Array) -> jax.Array:
        return prepared * r


@dataclasses.dataclass(frozen=True)
class FastPoisson(Preconditioner):
    """A direct solution with mean coefficients on the whole rectangle, with land as water.

    Its operand and result are scaled by the square root of the ratio of the diagonals (Concus & Golub 1973,
    doi:10.1137/0710092).
    """

    def prepare(self, domain: Domain, coefficients: Coefficients, stencil: Stencil) -> object:
        total = lambda x: domain.communicator.sum(jnp.sum(x))  # noqa: E731
        unit = assemble(domain, Coefficients(1.0, None, coefficients.dirichlet))
        c = total(stencil.diagonal) if stencil.loss is None else total(stencil.diagonal - stencil.loss)
        c = c / total(unit.diagonal if unit.loss is None else unit.diagonal - unit.loss)
        screening = None
        if coefficients.screening is not None:
            screening = total(coefficients.screening * stencil.area) / total(stencil.area)
        inverse = rectangle_inverse(domain, c, screening, coefficients.dirichlet)
        mean = assemble(domain, Coefficients(c, screening, coefficients.dirichlet)).diagonal
        return inverse, jnp.sqrt(mean * safe_inverse(stencil.diagonal))

    def apply(self, prepared: Any, r: jax.Array) -> jax.Array:
        inverse, scale = prepared
        return -scale * inverse.apply(scale * r)


@dataclasses.dataclass(frozen=True)
class ConjugateGradients(Solver):
    """Iterates until |r| <= tolerance |area b|.

    Args:
        preconditioner: a Preconditioner.
        tolerance: of the residual's norm over that of the right-hand side.
        iterations: the largest number of iterations.

    Raises:
        EllipticError: for a wrong preconditioner, tolerance or number of iterations.
    """

    preconditioner: Any = Diagonal()
    tolerance: float = 1e-10
    iterations: int = 1000

    def __post_init__(self):
        if not isinstance(self.preconditioner, Preconditioner):
            raise EllipticError(
                f"ConjugateGradients: preconditioner = {shown(self.preconditioner)} is not a Preconditioner; give one, "
                "such as Diagonal() or Multigrid()."
            )
        known = isinstance(self.tolerance, numbers.Real) and isinstance(self.iterations, numbers.Integral)
        if not (known and 0 < self.tolerance < 1 and self.iterations >= 1):
            raise EllipticError(
                f"ConjugateGradients: tolerance = {self.tolerance!r} and iterations = {self.iterations!r} are not both "
                "valid; give a tolerance between 0 and 1, such as 1e-10, and 1 iteration or more."
            )

    def with_iterations(self, count: int) -> "ConjugateGradients":
        return dataclasses.replace(self, tolerance=NEVER, iterations=count)

    def prepare(self, domain: Domain, coefficients: Coefficients, stencil: Stencil) -> object:
        return self.preconditioner.prepare(domain, coefficients, stencil)

    def replanned(self, plan: Plan, domain: Domain, coefficients: Coefficients) -> Plan:
        """The Plan with the preconditioner of `plan`, which suits coefficients that do not differ much from its own."""
        return Plan(assemble(domain, coefficients), plan.prepared)

    def invert(self, plan: Plan, r: jax.Array) -> tuple[jax.Array, Report]:
        stencil, prepared = plan.stencil, plan.prepared

        def dots(*pairs):
            return stencil.communicator.sum(jnp.stack([_product(a, b) for a, b in pairs]), ordered=True)

        def unfinished(loop):
            k, *_, square = loop
            return (k < self.iterations) & (square > self.tolerance**2 * size)

        def iterate(loop):
            k, x, r, p, old, _ = loop
            z = self.preconditioner.apply(prepared, r)
            (rz,) = dots((r, z))
            p = z + (rz / old) * p
            q = -stencil.apply_in_loop(p)
            pq, rr, rq, qq = dots((p, q), (r, r), (r, q), (q, q))
            step = rz / pq
            square = jnp.maximum(rr - step * (2.0 * rq - step * qq), rounding * rr)
            return k + 1, x + step * p, stencil.balanced(r - step * q), p, rz, square  # else a free constant would grow

        # of the order of 1, so that nothing underflows in a preconditioner of less precision
        norm = jnp.sqrt(dots((r, r))[0])
        norm = jnp.where(norm > 0, norm, 1.0)
        r, rounding = -r / norm, 4.0 * jnp.finfo(r.dtype).eps
        (size,) = dots((r, r))
        none = jnp.zeros_like(r)
        k, x, *_, square = lax.while_loop(unfinished, iterate, (0, none, r, none, jnp.ones_like(size), size))
        residual = jnp.sqrt(square / jnp.where(size > 0, size, 1.0))
        return norm * x, Report(jnp.asarray(k), residual, square <= self.tolerance**2 * size)


def _product(a, b):
    """The sum of a b over a tile.

    On a CPU, XLA adds the values of one sum one after another on one core. The sums of columns are computed with
    vectors and on all cores; the barrier prevents XLA from making one sum of both.
    """
    if jax.default_backend() != "cpu":
        return jnp.sum(a * b)
    return jnp.sum(lax.optimization_barrier(jnp.sum(a * b, axis=0)))
