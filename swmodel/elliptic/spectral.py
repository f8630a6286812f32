"""Direct solvers by transforms, for constant coefficients on a whole rectangle or sphere.

    Spectral              transforms along x and y, on a plane without land
    FourierTridiagonal    a transform along x, and a tridiagonal system along y for each mode, also on the sphere

Modes are eigenvectors of the C-grid's differences. They are divided by the discrete eigenvalues,
4 sin^2(phase / 2) / dx^2 rather than k^2, so that the discrete equation is solved to rounding. The transform along a
direction depends on its ends, which lie half a spacing beyond the outermost cell centres: Fourier (periodic), cosine II
(Neumann), sine II (Dirichlet), cosine IV and sine IV (Neumann and Dirichlet, Dirichlet and Neumann).
Swarztrauber 1977, doi:10.1137/1019071.
"""

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from ..fields.state import pytree, static
from ..parallel import fft
from .base import Plan, Report, Solver
from .operator import Coefficients, Domain, EllipticError, Stencil


@dataclasses.dataclass(frozen=True)
class Spectral(Solver):
    """Solves by transforms along x and y, on a CartesianGrid without land, with numbers for c and lambda."""

    projects = True  # the constant is a mode, which `invert` leaves out
    needs_constants = True

    def prepare(self, domain: Domain, coefficients: Coefficients, stencil: Stencil) -> object:
        _check("Spectral", domain, coefficients)
        if domain.grid.spherical:
            raise EllipticError(
                "Spectral: cells of a SphericalGrid differ with latitude; use FourierTridiagonal or ConjugateGradients."
            )
        return rectangle_inverse(domain, coefficients.c, coefficients.screening, coefficients.dirichlet)

    def invert(self, plan: Plan, r: jax.Array) -> tuple[jax.Array, Report]:
        return plan.prepared.apply(r), Report.direct(r.dtype)


@dataclasses.dataclass(frozen=True)
class FourierTridiagonal(Solver):
    """Solves by a transform along x and elimination along y, on a grid without land, with numbers for c and lambda."""

    needs_constants = True

    def prepare(self, domain: Domain, coefficients: Coefficients, stencil: Stencil) -> object:
        _check("FourierTridiagonal", domain, coefficients)
        return _tridiagonal(domain, coefficients.c, coefficients.screening, coefficients.dirichlet)

    def invert(self, plan: Plan, r: jax.Array) -> tuple[jax.Array, Report]:
        return plan.prepared.apply(r), Report.direct(r.dtype)


def _check(name, domain, coefficients):
    if domain.masked:
        raise EllipticError(
            f"{name}: the grid has land, which transforms do not allow; use ConjugateGradients, with Multigrid."
        )
    for what in ("c", "screening"):
        value = getattr(coefficients, what)
        if isinstance(value, (tuple, list)) or (value is not None and jnp.ndim(value)):
            raise EllipticError(
                f"{name}: {what} varies from cell to cell, and must be one number; use ConjugateGradients."
            )


def rectangle_inverse(
    domain: Domain, c: jax.Array, screening: jax.Array | None, dirichlet: tuple[str, ...]
) -> "Modes | Rows":
    """The inverse of A for constant coefficients on the whole grid, with land as water: an object with apply(r)."""
    make = _tridiagonal if domain.grid.spherical else _modes
    return make(domain, c, screening, dirichlet)


def _kinds(grid, dirichlet):
    """The kinds of real transforms along (y, x)."""
    trigonometric = {
        (False, False): fft.Cosine(2),
        (True, True): fft.Sine(2),
        (False, True): fft.Cosine(4),
        (True, False): fft.Sine(4),
    }
    ends = [("south", "north"), ("west", "east")]
    kinds: list[fft.Kind] = [trigonometric[low in dirichlet, high in dirichlet] for low, high in ends]
    if grid.periodic_x:
        kinds[1] = fft.RealFourier()
    if grid.periodic_y:
        kinds[0] = fft.Fourier() if grid.periodic_x else fft.RealFourier()
    return tuple(kinds)


def _stretch(phase):
    """Minus the eigenvalue of the second difference, 2 - 2 cos(phase), to full precision."""
    return 4.0 * jnp.sin(0.5 * phase) ** 2


@pytree
class Modes:
    """The inverse of A as a number for each mode."""

    factors: jax.Array
    transform: Any = static()

    def apply(self, r: jax.Array) -> jax.Array:
        modes = self.transform.forward(r)
        return self.transform.inverse(modes * self.factors.astype(modes.dtype))


def _modes(domain, c, screening, dirichlet):
    grid = domain.grid
    transform = fft.Plan(domain.communicator, grid.shape, _kinds(grid, dirichlet))
    dtype = domain.tile.metrics["area_h"].dtype
    c, m = jnp.asarray(c, dtype), grid.metrics(np.arange(1))
    phase_y, phase_x = transform.waves(dtype=dtype).phase
    total = c * (m["dy_h"] / m["dx_h"]) * _stretch(phase_x) + c * (m["dx_h"] / m["dy_h"]) * _stretch(phase_y)
    if screening is not None:
        total = total + jnp.asarray(screening, dtype) * m["area_h"]
    free = total == 0  # the constant, where the equation does not determine it
    return Modes(jnp.where(free, 0.0, -1.0 / jnp.where(free, 1.0, total)), transform)


@pytree
class Rows:
    """The inverse of A as a tridiagonal system along y for each mode along x, with diagonals (modes, ny)."""

    below: jax.Array
    diagonal: jax.Array
    above: jax.Array
    transform: Any = static()

    def apply(self, r: jax.Array) -> jax.Array:
        modes = self.transform.forward(r)
        parts = [modes.real, modes.imag] if jnp.iscomplexobj(modes) else [modes]
        solved = lax.linalg.tridiagonal_solve(self.below, self.diagonal, self.above, jnp.stack(parts, axis=-1))
        solved = [solved[..., k] for k in range(len(parts))]
        return self.transform.inverse(lax.complex(*solved) if len(solved) == 2 else solved[0])


def _tridiagonal(domain, c, screening, dirichlet):
    grid, (ny, _) = domain.grid, domain.grid.shape
    if grid.periodic_y:
        raise EllipticError("FourierTridiagonal: the grid is periodic along y; use Spectral, which transforms y too.")
    transform = fft.Plan(domain.communicator, grid.shape, (fft.Unchanged(), _kinds(grid, dirichlet)[1]))
    dtype = domain.tile.metrics["area_h"].dtype
    column = lambda name, rows: np.broadcast_to(grid.metrics(rows)[name], (len(rows), 1))[:, 0]  # noqa: E731
    rows, edges = np.arange(ny), np.arange(-1, ny)
    across_x = column("dy_u", rows) / column("dx_u", rows)
    wall_y = column("dx_v", edges) / column("dy_v", edges)
    across_y = np.where((edges == -1) | (edges == ny - 1), 0.0, wall_y)
    at_walls = np.zeros(ny)
    for side, row, wall in (("south", 0, wall_y[0]), ("north", -1, wall_y[-1])):
        at_walls[row] += 2.0 * wall * (side in dirichlet)
    c = jnp.asarray(c, dtype)
    total = c * (across_y[1:] + across_y[:-1] + at_walls).astype(dtype)
    if screening is not None:
        total = total + jnp.asarray(screening, dtype) * column("area_h", rows).astype(dtype)
    stretch = _stretch(transform.waves(dtype=dtype).phase[1])
    diagonal = -(total[None] + c * stretch * across_x.astype(dtype)[None])
    if screening is None and not dirichlet:  # the constant is free: set phi at the first row, whose equation is implied
        hold = (stretch[:, 0] == 0).astype(dtype) * jnp.max(jnp.abs(total))
        diagonal = diagonal.at[:, 0].add(-hold)
    shape = diagonal.shape
    between = c * across_y[1:-1].astype(dtype)
    zero = jnp.zeros(1, dtype)
    below, above = (jnp.broadcast_to(jnp.concatenate(parts), shape) for parts in ((zero, between), (between, zero)))
    return Rows(below, diagonal, above, transform)
