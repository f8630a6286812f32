"""The base class of solvers of (div c grad - lambda) phi = b: interface, derivatives, null spaces, calls from the host.

A solver is planned once and used many times:

    plan = solver.plan(domain, coefficients)      # both are traceable, inside `communicator.spmd`
    phi = solver.solve(plan, b)                   # a tile array of cells, from one

`solve(solver, domain, coefficients, b)` does both from the host, and raises EllipticError where the data are wrong.

Derivatives take one more solution with the same plan, in forward and in reverse mode (lax.custom_linear_solve), since
the operator A is symmetric (operator.py). Solvers need not define them.
"""

import abc
import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.core import Tracer

from ..fields.methods import Result
from ..fields.parameters import Number, shown
from ..fields.parts import Named
from ..fields.state import pytree
from ..parallel.halo import SIDES
from ..runtime.compilation import jit
from .operator import Coefficients, Domain, EllipticError, Stencil, assemble

__all__ = ["Plan", "Report", "Solver", "check", "check_solver", "solve"]

INCOMPATIBLE = 1e-8  # largest |sum of area b| over the sum of |area b| in float64; in float32 it is larger by their eps


@pytree
class Plan:
    """The result of `Solver.plan`, which `Solver.solve` takes.

    Attributes:
        stencil: the operator.
        prepared: the pytree that the solver's `prepare` returned.
    """

    stencil: Stencil
    prepared: Any


@pytree
class Report:
    """The report of a solution.

    Attributes:
        iterations: the number of iterations; 0 for a direct solver.
        residual: |area b - A phi| / |area b|, as the solver estimates it [1]; 0 for a direct solver.
        converged: whether the residual reached the solver's tolerance.
    """

    iterations: jax.Array
    residual: jax.Array
    converged: jax.Array

    @staticmethod
    def direct(dtype: np.dtype) -> "Report":
        return Report(jnp.zeros((), int), jnp.zeros((), dtype), jnp.ones((), bool))


def _no_solution(value, arguments):
    if not isinstance(value, tuple) or len(value) != 2 or not isinstance(value[1], Report):
        return f"a {type(value).__name__}"
    shapes = np.shape(value[0]), np.shape(arguments[1])
    return None if shapes[0] == shapes[1] else f"x of shape {shapes[0]} for r of shape {shapes[1]}"


class Solver(Named, abc.ABC):
    """A solver of the equation. A subclass implements `prepare` and `invert`; derivatives and null spaces follow.

    Attributes:
        projects: whether `invert` itself removes free constants from r and x. Then `solve` does not do it again.
        needs_constants: whether it refuses coefficients that vary from cell to cell.
    """

    projects = False
    needs_constants = False
    results = {"invert": Result("the pair (x, Report), x like r", _no_solution)}

    @abc.abstractmethod
    def prepare(self, domain: Domain, coefficients: Coefficients, stencil: Stencil) -> object:
        """The pytree that `invert` needs, or None; computed once for all right-hand sides.

        Raises:
            EllipticError: for an equation that this solver cannot solve.
        """

    @abc.abstractmethod
    def invert(self, plan: Plan, r: jax.Array) -> tuple[jax.Array, Report]:
        """(x, Report) with A x = r, a tile array, 0 on land; x may have any mean where a constant is free."""

    def with_iterations(self, count: int) -> "Solver":
        """A solver that takes exactly `count` iterations; itself where it is direct."""
        return self

    def plan(self, domain: Domain, coefficients: Coefficients) -> Plan:
        """The Plan of an equation; inside `communicator.spmd`."""
        check(domain, coefficients)
        stencil = assemble(domain, coefficients)
        known = lax.stop_gradient((coefficients, stencil))
        return Plan(stencil, self.prepare(domain, *known))

    def replanned(self, plan: Plan, domain: Domain, coefficients: Coefficients) -> Plan:
        """The Plan of an equation with other coefficients than those of `plan`, which may share parts with it."""
        return self.plan(domain, coefficients)

    def solve(self, plan: Plan, b: jax.Array) -> jax.Array:
        """phi (my, mx) of b (my, mx), tile arrays at cell centres; inside `communicator.spmd`.

        It can be differentiated in b and in the plan's coefficients.
        """
        return self.solve_and_report(plan, b)[0]

    def solve_and_report(self, plan: Plan, b: jax.Array) -> tuple[jax.Array, Report]:
        """(phi, Report) of b; otherwise as `solve`."""
        stencil = plan.stencil
        if b.shape != stencil.area.shape:
            raise EllipticError(
                f"elliptic: b has shape {b.shape}, and a tile of this equation {stencil.area.shape}; give the cells of "
                "the tile, without halo."
            )
        held = Plan(*lax.stop_gradient((stencil, plan.prepared)))
        r = stencil.area * b if self.projects else stencil.balanced(stencil.area * b)
        invert = lambda _, r: self.invert(held, r)  # noqa: E731
        phi, report = lax.custom_linear_solve(stencil.apply, r, invert, symmetric=True, has_aux=True)
        if self.projects:
            return phi, report
        return stencil.centred(phi) * (stencil.area > 0).astype(phi.dtype), report  # cotangents on land become 0


# -- checks, and the way in from the host -----------------------------------------------------------------------------


def check(domain: Domain, coefficients: Coefficients) -> None:
    """Raise EllipticError for invalid coefficients, as far as they can be checked before the program runs."""
    if isinstance(coefficients.dirichlet, str):
        raise EllipticError(
            f"elliptic: dirichlet = {coefficients.dirichlet!r} is no tuple of sides; give "
            f"({coefficients.dirichlet!r},)."
        )
    for side in coefficients.dirichlet:
        if side not in SIDES:
            raise EllipticError(f"elliptic: dirichlet = {side!r} is no side; name some of {', '.join(SIDES)}.")
        if domain.grid.periodic_x if side in ("west", "east") else domain.grid.periodic_y:
            raise EllipticError(f"elliptic: the grid is periodic where {side!r} would be a Dirichlet side; omit it.")
        if side in ("south", "north") and domain.grid.poles[side == "north"]:
            raise EllipticError(f"elliptic: the {side} side is a pole, which has no length to hold phi; leave it out.")
    communicator, cells = domain.communicator, domain.grid.shape
    tile = communicator.tile_shape(cells)
    shapes = (), tile, communicator.placed_shape(cells)
    for name, value in (("c", coefficients.c), ("screening", coefficients.screening)):
        for x in value if isinstance(value, (tuple, list)) else (value,):
            if x is not None or name == "c":
                Number("h", steady=True).check("elliptic", name, x)
            if x is not None and jnp.shape(x) not in shapes + ((tile[0], 1),) * (name == "screening"):
                raise EllipticError(
                    f"elliptic: {name} has shape {jnp.shape(x)}, and a tile of this equation {tile}; give a number or "
                    "an array of the tile's cells."
                )
            if x is not None and not isinstance(x, Tracer) and jnp.ndim(x) == 0:
                _refuse_sign(name, float(x))


def check_solver(solver: object, who: str) -> None:
    """Raise EllipticError unless `solver` is a Solver; the message begins with `who`."""
    if not isinstance(solver, Solver):
        raise EllipticError(
            f"{who}: {shown(solver)} is no solver; give an object, as elliptic.Spectral() or "
            "elliptic.named('spectral')."
        )


def _refuse_sign(name, least):
    if not least > 0:
        what = "c must be positive" if name == "c" else "lambda must be positive, or None where there is none"
        raise EllipticError(f"elliptic: {name} is {least:g} somewhere, so that the equation is not elliptic; {what}.")


def solve(solver: Solver, domain: Domain, coefficients: Coefficients, b: jax.Array) -> tuple[jax.Array, Report]:
    """(phi, Report) of b, placed tile arrays, from the host; collective.

    Raises:
        EllipticError: for a coefficient of the wrong sign, values that are not finite, b whose sum is not zero where
            the equation requires it, or a solver that does not converge.
    """
    check_solver(solver, "elliptic.solve")
    check(domain, coefficients)
    phi, report, found = _program(solver, domain.communicator)(domain, coefficients, b)
    found, report = domain.communicator.one_tile((found, report))  # the same on all tiles
    for name, least in found["least"].items():
        _refuse_sign(name, float(least))
    size = np.asarray(found["size"])
    for name, x in (("b", size), ("a coefficient", np.asarray(found["diagonal"]))):
        if not np.isfinite(x).all():
            raise EllipticError(f"elliptic: {name} is not finite somewhere; look where it comes from.")
    free = np.asarray(domain.free(coefficients))
    _refuse_imbalance(free * np.asarray(found["total"]), size, np.finfo(phi.dtype).eps)
    if not bool(report.converged):
        raise EllipticError(
            f"{type(solver).__name__}: no solution after {int(report.iterations)} iterations, the residual is "
            f"{float(report.residual):.1e} of the right-hand side; allow more or a larger tolerance, or try another "
            "preconditioner."
        )
    return phi, report


def _refuse_imbalance(total, size, eps):
    worst = int(np.argmax(np.abs(total) / np.where(size > 0, size, 1.0)))
    if abs(total[worst]) > INCOMPATIBLE * eps / np.finfo(float).eps * size[worst]:
        where = "" if len(total) == 1 else f" in water body {worst + 1} of {len(total)}"
        raise EllipticError(
            f"elliptic: b adds up to {total[worst]:.3g}{where} (and |b| to {size[worst]:.3g}), and must add up to zero "
            "without lambda and Dirichlet sides: subtract the mean of b over the area, or give either."
        )


@functools.lru_cache(maxsize=64)
def _program(solver, communicator):
    def program(domain, coefficients, b):
        plan = solver.plan(domain, coefficients)
        phi, report = solver.solve_and_report(plan, b)
        water = plan.stencil.area > 0
        lowest = lambda x: -communicator.maximum(jnp.max(jnp.where(water, -x, -jnp.inf)))  # noqa: E731
        cs = coefficients.c if isinstance(coefficients.c, (tuple, list)) else (coefficients.c,)
        arrays = {"c": [jnp.asarray(c) for c in cs if jnp.ndim(c)], "screening": [coefficients.screening]}
        given = {name: [x for x in xs if x is not None] for name, xs in arrays.items()}
        least = {name: functools.reduce(jnp.minimum, map(lowest, xs)) for name, xs in given.items() if xs}
        r = jnp.where(water, plan.stencil.area * b, 0.0)
        sums = [plan.stencil.totals(x) for x in (r, jnp.abs(r), jnp.where(water, jnp.abs(plan.stencil.diagonal), 0.0))]
        return phi, report, {"least": least, **dict(zip(("total", "size", "diagonal"), sums))}

    return jit(communicator.spmd(program))
