"""Solvers of (div c grad - lambda) phi = b on the C-grid. A solver is an object, which may be of a class of your own.

    Spectral, FourierTridiagonal              direct solvers: constant coefficients without land
    ConjugateGradients(preconditioner)        the general case; with Diagonal(), FastPoisson() or Multigrid()
    Domain, Coefficients, solve               the equation, and its solution from the host
    Solver, Preconditioner                    base classes for your own; `register` gives a solver a name

On the host an equation is solved by

    domain = elliptic.Domain.of(grid, communicator, wet)
    phi, report = elliptic.solve(elliptic.Spectral(), domain, elliptic.Coefficients(1.0), b)
"""

import functools
import inspect
from collections.abc import Callable
from importlib.metadata import entry_points

from .base import Plan, Report, Solver, check_solver, solve
from .krylov import ConjugateGradients, Diagonal, FastPoisson, Preconditioner
from .multigrid import Multigrid
from .operator import Coefficients, Domain, EllipticError, Stencil, assemble
from .spectral import FourierTridiagonal, Spectral

__all__ = [
    "Coefficients",
    "ConjugateGradients",
    "Diagonal",
    "Domain",
    "EllipticError",
    "FastPoisson",
    "FourierTridiagonal",
    "Multigrid",
    "Plan",
    "Preconditioner",
    "Report",
    "Solver",
    "Spectral",
    "Stencil",
    "assemble",
    "check_solver",
    "named",
    "names",
    "register",
    "solve",
]

_named = {
    "spectral": Spectral,
    "fourier_tridiagonal": FourierTridiagonal,
    "conjugate_gradients": functools.partial(ConjugateGradients, preconditioner=Multigrid()),
}
GROUP = "swmodel.elliptic"  # of entry points, by which an installed package offers solvers


def register(name: str, make: Callable[..., Solver]) -> None:
    """Let `named(name, **options)` return `make(**options)`, a Solver from another package or from a script.

    Raises:
        EllipticError: if `make` cannot be called, or the name is taken.
    """
    if not callable(make):
        raise EllipticError(f"elliptic: {make!r} makes no solver; register {name!r} with a class or a function.")
    if name in _named:
        raise EllipticError(f"elliptic: a solver named {name!r} is there already; choose another name.")
    _named[name] = make


def names() -> list[str]:
    """The names of all solvers, with those of installed packages."""
    return sorted({*_named, *(point.name for point in entry_points(group=GROUP))})


def named(name: str, **options: object) -> Solver:
    """The Solver of this name.

    Raises:
        EllipticError: for an unknown name, or options that the solver does not take.
    """
    make = _named.get(name)
    for point in entry_points(group=GROUP):
        make = make or (point.load() if point.name == name else None)
    if make is None:
        raise EllipticError(f"elliptic: there is no solver named {name!r}; there are {', '.join(names())}.")
    try:
        inspect.signature(make).bind(**options)
    except TypeError as error:
        raise EllipticError(f"elliptic: {name!r} does not take these options, {error}; see its class.") from None
    return make(**options)
