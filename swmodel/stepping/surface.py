"""The elliptic equation of an implicit surface: its coefficients, its solver, and the correction of the velocity.

    free surface    delta - div (g theta^2 dt^2 R grad delta) = rhs      Helmholtz
    rigid lid             - div (R grad delta)                = rhs      Poisson

delta is the change of the elevation in a step [m], R the depth at rest [m], both at cell centres. semi_implicit.py
derives the equations.
"""

from typing import Any

import jax
import jax.numpy as jnp

from .. import elliptic
from ..dynamics.transport import divergence
from ..errors import ConfigError
from ..fields.field import Field
from ..fields.operators import difference_x, difference_y, east, mean_x, mean_y, north, south, west
from ..fields.pytrees import pytree, replace, static
from ..parallel.halo import EAST, NORTH, SIDES, SOUTH, WEST

__all__ = ["Surface", "automatic"]

TOLERANCE = {4: 1e-5, 8: 1e-10}  # of conjugate gradients, by the size of a number [bytes]


def automatic(domain: Any, constant: bool, dtype: Any) -> elliptic.Solver:
    """The solver for a domain whose coefficients are constant, or not."""
    if constant:
        return elliptic.FourierTridiagonal() if domain.grid.spherical else elliptic.Spectral()
    preconditioner = elliptic.FastPoisson() if any(domain.grid.poles) else elliptic.Multigrid()
    return elliptic.ConjugateGradients(preconditioner, tolerance=TOLERANCE[jnp.dtype(dtype).itemsize])


@pytree
class Surface:
    """The equation of the module docstring, with a solver that is prepared once for all steps.

    Attributes:
        rest: R, the depth at rest [m], one number; None where it varies and is that of the Equations.
        plan: the solver's Plan.
        solver: the elliptic.Solver.
    """

    rest: Any
    plan: elliptic.Plan
    solver: Any = static()

    @staticmethod
    def of(equations: Any, scheme: Any) -> "Surface":
        if equations.elliptic_domain is None:
            raise ConfigError(
                f"{type(scheme).__name__}: these Dynamics were made for another stepper; make them by "
                "model.dynamics(stepper)."
            )
        domain = replace(equations.elliptic_domain, tile=equations.geometry.tile)
        rigid, dtype = scheme.rigid_lid, equations.depth.dtype
        constant = equations.flat and not domain.masked and not equations.open_boundaries
        rest = _constant(equations) if constant else None
        numbers = jnp.asarray(1.0, dtype) if rigid else equations.gravity * (scheme.theta * scheme.dt) ** 2
        c = numbers * (equations.depth.interior if rest is None else rest)
        screening = None if rigid else _screening(equations, domain, scheme.theta * scheme.dt)
        solver = scheme.solver or automatic(domain, constant, dtype)
        return Surface(rest, solver.plan(domain, elliptic.Coefficients(c, screening)), solver)

    def depth_at_rest(self, equations: Any) -> Any:
        """R [m], a Field at h or a number."""
        return equations.depth if self.rest is None else self.rest

    def solve(self, equations: Any, rhs: Any) -> tuple[Any, jax.Array]:
        """(delta, a Field at h with halo; the relative residual of a solver that did not converge, else 0).

        Args:
            equations: the Equations.
            rhs: a Field at h.
        """
        rhs = equations.evaluation.tile_values(rhs)
        delta, report = self.solver.solve_and_report(self.plan, -rhs)
        # A residual that is not finite comes from a state that is not, and is not the solver's.
        left = jnp.where(report.converged | ~jnp.isfinite(report.residual), 0.0, report.residual)
        return equations.evaluation.with_ghosts(equations, delta), jax.lax.stop_gradient(left).astype(rhs.dtype)

    def pushed(self, equations: Any, u: Any, v: Any, dt: Any, eta: Any) -> tuple[Any, Any]:
        """u - dt g d eta/dx and v - dt g d eta/dy, Fields at u and v; no change on faces between cells of land."""
        e, g = equations, equations.geometry
        along_x = difference_x(e.gravity * eta) * g.per_dx["u"] * g.wet_u
        along_y = difference_y(e.gravity * eta) * g.per_dy["v"] * g.wet_v
        return u - dt * along_x, v - dt * along_y

    def transports(self, equations: Any, u: Any, v: Any) -> tuple[Any, Any]:
        """R u and R v [m2 s-1], Fields at u and v."""
        if self.rest is not None:
            return self.rest * u, self.rest * v
        return mean_x(equations.depth) * u, mean_y(equations.depth) * v

    def outflow(self, equations: Any, u: Any, v: Any) -> Any:
        """div (R u), a Field at h [m s-1]."""
        if self.rest is not None:
            return self.rest * divergence(u, v, equations.geometry)
        return divergence(*self.transports(equations, u, v), equations.geometry)


def _constant(equations):
    """The depth of a flat bottom, exactly; its derivative is that of the mean over all cells."""
    communicator = equations.communicator
    depth = equations.depth.interior
    one = communicator.maximum(jax.lax.stop_gradient(jnp.max(depth)))
    wet = equations.geometry.wet.interior
    off, cells = jnp.sum((depth - one) * wet), jnp.sum(wet)
    return one + communicator.replicated(communicator.sum(off)) / communicator.sum(cells)


def _screening(equations, domain, weight):
    """The coefficient of delta: 1, and at open sides sqrt(g R) times length / area times `weight` [s].

    The second part is the outflow sqrt(g / R) delta through these sides.
    """
    one = jnp.ones((), equations.depth.dtype)
    if not equations.open_boundaries:
        return one
    g, sides = equations.geometry, equations.geometry.tile.sides
    speed = (equations.gravity * equations.depth).map(lambda x: jnp.sqrt(jnp.where(x > 0, x, 0.0 * x + 1.0))) * g.wet
    lengths = {WEST: (west, g.dy["u"]), EAST: (east, g.dy["u"]), SOUTH: (south, g.dx["v"]), NORTH: (north, g.dx["v"])}
    total = jnp.zeros(domain.tile.shape, one.dtype)
    for side, (neighbour, length) in lengths.items():
        if SIDES[side] in sides.open_sides:
            length = neighbour(length) if isinstance(length, Field) else length
            rate = (speed * length * g.per_area_h).interior
            total = total + sides.open[side] * _edge(side, total.shape).astype(one.dtype) * rate
    return one + weight * total


def _edge(side, shape):
    """Whether each cell of a tile lies at its edge on a side, (my, mx)."""
    axis = 1 if side in (WEST, EAST) else 0
    at = jax.lax.broadcasted_iota(jnp.int32, shape, axis)
    return at == (0 if side in (WEST, SOUTH) else shape[axis] - 1)
