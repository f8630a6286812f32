"""The elliptic equation of an implicit surface: its coefficients, its solver, and the correction of the velocity.

    free surface    delta - div (g theta^2 dt^2 R grad delta) = rhs      Helmholtz
    rigid lid             - div (R grad delta)                = rhs      Poisson

delta is the change of the elevation in a step [m] at cell centres. R [m] is the depth at rest under a rigid lid, in
linear models, and with solvers that need constants. Otherwise it is the thickness of the water in the middle of the
step, and the equation has other coefficients in each step. Of several layers R is the sum of theirs.
semi_implicit.py derives the equations.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import jax
import jax.numpy as jnp
from jax.typing import DTypeLike

from .. import elliptic
from ..dynamics.layer import divergence
from ..elliptic.base import Solver
from ..errors import ConfigError
from ..fields.field import (
    AbstractField,
    Field,
    Scalar,
    Value,
    difference_x,
    difference_y,
    east,
    mean_x,
    mean_y,
    north,
    south,
    west,
)
from ..fields.state import pytree, replace, static
from ..grids.geometry import safe_inverse
from ..parallel.halo import EAST, NORTH, SIDES, SOUTH, WEST

if TYPE_CHECKING:
    from ..dynamics.layer import LayerFlow
    from ..dynamics.system import System
    from .split_explicit import Substeps

Velocities: TypeAlias = Sequence[tuple[AbstractField, AbstractField]]  # (u, v) [m s-1] of each layer, at u and v

TOLERANCE = {4: 1e-5, 8: 1e-10}  # of conjugate gradients, by the size of a number [bytes]


def automatic(domain: elliptic.Domain, constant: bool, dtype: DTypeLike) -> elliptic.Solver:
    """The solver for a domain whose coefficients are constant, or not."""
    if constant:
        return elliptic.FourierTridiagonal() if domain.grid.spherical else elliptic.Spectral()
    preconditioner = elliptic.FastPoisson() if any(domain.grid.poles) else elliptic.Multigrid()
    return elliptic.ConjugateGradients(preconditioner, tolerance=TOLERANCE[jnp.dtype(dtype).itemsize])


@pytree
class Surface:
    """The equation of the module docstring, with a solver that is prepared once for all steps.

    Attributes:
        rests: R of each layer at rest [m], numbers; None where it varies and is that of the System.
        plan: the solver's Plan.
        domain: the elliptic.Domain.
        weight: g theta^2 dt^2, the factor of R in the coefficient c; 1 under a rigid lid.
        opening: theta dt sqrt(g R) length / area [1] in cells at open sides, a tile array; None without them.
        depths: R of each layer where it is that of a step [m], Fields at h; else None.
        solver: the elliptic.Solver.
        follows_level: whether R is the thickness of the water.
    """

    rests: Any
    plan: elliptic.Plan
    domain: elliptic.Domain
    weight: Any
    opening: Any
    depths: Any = None
    solver: Any = static(kw_only=True)
    follows_level: bool = static(kw_only=True)

    @staticmethod
    def of(equations: "System", who: str, solver: "Solver | Substeps | None", span: Scalar | None) -> "Surface":
        """The Surface of the scheme `who`.

        Args:
            equations: the System, prepared.
            who: the scheme's name.
            solver: the elliptic.Solver, or what has its `plan`, `replanned` and `needs_constants`; None for a default.
            span: theta dt [s], the square of which is in the coefficient; None under a rigid lid.
        """
        if equations.elliptic_domain is None:
            raise ConfigError(f"{who}: this System was made for another stepper; make it by model.dynamics(stepper).")
        domain = replace(equations.elliptic_domain, tile=equations.geometry.tile)
        dtype = equations.depth.dtype
        constant = equations.flat and not domain.masked and not equations.open_boundaries
        solver = solver or automatic(domain, constant, dtype)
        follows = not (span is None or equations.linear or solver.needs_constants)
        rest = _constant(equations) if constant and not follows else None
        weight = jnp.asarray(1.0, dtype) if span is None else equations.gravity * span**2
        opening = None if span is None else _opening(equations, domain, span)
        one = jnp.ones((), dtype)
        screening = None if span is None else one if opening is None else one + opening
        c = weight * (equations.depth.interior if rest is None else rest)
        plan = solver.plan(domain, elliptic.Coefficients(c, screening))
        rests = None if rest is None else [rest] if equations.layers is None else equations.layers.rest(rest)
        return Surface(rests, plan, domain, weight, opening, solver=solver, follows_level=follows)

    def over(self, equations: "System", depths: Sequence[Value], values: jax.Array) -> "Surface":
        """The Surface with another R [m] of each layer, Fields at h with halo; `values` are their sum, a tile array."""
        screening = jnp.ones((), values.dtype)
        if self.opening is not None:  # the outflow sqrt(g / H) delta through these sides is that of R
            screening = screening + self.opening * values * safe_inverse(equations.depth.interior)
        plan = self.solver.replanned(self.plan, self.domain, elliptic.Coefficients(self.weight * values, screening))
        return replace(self, plan=plan, depths=depths)

    def explicit_depths(self, equations: "System", flow: "LayerFlow") -> list[AbstractField] | None:
        """h - R [m] of each layer, through which its transport is explicit, Fields at h; None where it is 0."""
        if self.follows_level:
            return None
        return [layer.h - rest for layer, rest in zip(flow.layers, self._rests(equations))]

    def _rests(self, equations):
        return equations.at_rest(equations.depth) if self.rests is None else self.rests

    def solve(self, equations: "System", rhs: AbstractField) -> tuple[AbstractField, jax.Array]:
        """(delta, a Field at h with halo; the relative residual of a solver that did not converge, else 0).

        Args:
            equations: the System, prepared.
            rhs: a Field at h.
        """
        values = equations.evaluation.tile_values(rhs)
        delta, report = self.solver.solve_and_report(self.plan, -values)
        # A residual that is not finite comes from a state that is not, and is not the solver's.
        left = jnp.where(report.converged | ~jnp.isfinite(report.residual), 0.0, report.residual)
        return equations.evaluation.with_ghosts(equations, delta), jax.lax.stop_gradient(left).astype(values.dtype)

    def pushed(
        self, equations: "System", u: AbstractField, v: AbstractField, dt: Scalar, head: AbstractField
    ) -> tuple[AbstractField, AbstractField]:
        """u - dt d head/dx and v - dt d head/dy, Fields at u and v; no change on faces between cells of land.

        Args:
            equations: the System, prepared.
            u, v: the velocity [m s-1].
            dt: the time [s].
            head: as g eta [m2 s-2], a Field at h.
        """
        g = equations.geometry
        along_x = difference_x(head) * g.per_dx["u"] * g.wet_u
        along_y = difference_y(head) * g.per_dy["v"] * g.wet_v
        return u - dt * along_x, v - dt * along_y

    def transports(self, equations: "System", velocities: Velocities) -> list[tuple[AbstractField, AbstractField]]:
        """(R u, R v) [m2 s-1] of each layer, Fields at u and v, from its (u, v)."""
        if self.rests is not None:
            return [(rest * u, rest * v) for rest, (u, v) in zip(self.rests, velocities)]
        depths = self._rests(equations) if self.depths is None else self.depths
        return [(mean_x(depth) * u, mean_y(depth) * v) for depth, (u, v) in zip(depths, velocities)]

    def outflow(self, equations: "System", velocities: Velocities) -> Sequence[AbstractField]:
        """- d eta/dt [m s-1] of each layer by the transports R u, Fields at h; for one layer div (R u)."""
        if self.rests is not None:
            each = [rest * divergence(u, v, equations.geometry) for rest, (u, v) in zip(self.rests, velocities)]
        else:
            each = [divergence(U, V, equations.geometry) for U, V in self.transports(equations, velocities)]
        return equations.sums(each)


def _constant(equations):
    """The depth of a flat bottom, exactly; its derivative is that of the mean over all cells."""
    communicator = equations.communicator
    depth = equations.depth.interior
    one = communicator.maximum(jax.lax.stop_gradient(jnp.max(depth)))
    wet = equations.geometry.wet.interior
    off, cells = jnp.sum((depth - one) * wet), jnp.sum(wet)
    return one + communicator.replicated(communicator.sum(off)) / communicator.sum(cells)


def _opening(equations, domain, weight):
    """sqrt(g H) length / area times `weight` [s] in cells at open sides, of the outflow sqrt(g / H) delta; else 0.

    A tile array, or None without open sides.
    """
    if not equations.open_boundaries:
        return None
    dtype = equations.depth.dtype
    g, sides = equations.geometry, equations.geometry.tile.sides
    speed = (equations.gravity * equations.depth).map(lambda x: jnp.sqrt(jnp.where(x > 0, x, 0.0 * x + 1.0))) * g.wet
    lengths = {WEST: (west, g.dy["u"]), EAST: (east, g.dy["u"]), SOUTH: (south, g.dx["v"]), NORTH: (north, g.dx["v"])}
    total = jnp.zeros(domain.tile.shape, dtype)
    for side, (neighbour, length) in lengths.items():
        if SIDES[side] in sides.open_sides:
            length = neighbour(length) if isinstance(length, Field) else length
            rate = (speed * length * g.per_area_h).interior
            total = total + sides.open[side] * _edge(side, total.shape).astype(dtype) * rate
    return weight * total


def _edge(side, shape):
    """Whether each cell of a tile lies at its edge on a side, (my, mx)."""
    axis = 1 if side in (WEST, EAST) else 0
    at = jax.lax.broadcasted_iota(jnp.int32, shape, axis)
    return at == (0 if side in (WEST, SOUTH) else shape[axis] - 1)
