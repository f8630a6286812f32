"""Time steps longer than the limit of gravity waves: an implicit free surface, and a rigid lid.

    SemiImplicit   the pressure of the surface and the divergence of the transport over the depth R have weight theta at
                   the new time, and 1 - theta at the old one. All other terms, E, are extrapolated by AB2:

        (u' - u) / dt     = E_u - g grad(theta eta' + (1 - theta) eta)
        (eta' - eta) / dt = E_eta - div R (theta u' + (1 - theta) u),     E_eta = - div (h - R) u + sponges

                   R is the thickness in the middle of the step, h extrapolated by AB2 (Casulli & Cattani 1994), and at
                   least h / 2, so that the equation has one solution. So the transport is linear in u', and h - R = 0.
                   In linear models, and with solvers by transforms, R is the depth at rest. Then the wave over the
                   depth h - R is explicit, and long steps are unstable where the level is above rest: `limits` has the
                   limit.

    RigidLid       the surface does not move: div H u' = 0, which the pressure on it, rho g eta', enforces

        (u' - u) / dt = E_u - g grad eta'

A prime marks the new time. Inserting u' into the second equation gives a Helmholtz equation for delta = eta' - eta, and
Poisson's equation under a rigid lid:

    delta - div (g theta^2 dt^2 R grad delta) = dt E_eta - dt div R (theta u* + (1 - theta) u)
    u' = u* - g theta dt grad delta,          u* = u + dt (E_u - g grad eta)

eta' is then computed as the divergence of the transports, so that water is conserved whatever residual the solver
leaves. Waves of any frequency w are stable for theta >= 1/2. The scheme is of second order at theta = 1/2; beyond, it
damps by (theta - 1/2) (w dt)^2 in a step while that is small. At open sides the outflow sqrt(g / R) delta is part of
the equation.

A variable s that the flow transports changes by one rate over the whole step. Its transport is the one by which eta
changes, and s and h are extrapolated by AB2, so that s = h stays so:

    V = V_E + R (theta u' + (1 - theta) u),     V_E = (h - R) u, by AB2,

Under a rigid lid the transport is H (u' + u) / 2, but H u' in the first step.

Of several layers all have the pressure of the surface, and R u is the sum of their transports. The pressure of
the interfaces belongs to E, and each interface changes by the transports R_k u_k of the layers below it, with the
weights of the surface. So the equation is the same, each layer keeps its water to rounding, and the second fastest mode
limits the time step.

Casulli & Cattani (1994), doi:10.1016/0898-1221(94)90059-0 (theta); Dukowicz & Smith (1994), doi:10.1029/93JC03455 (the
pressure as the unknown, which needs no extra equations for islands). `swmodel.elliptic` has the solvers.
"""

from typing import TYPE_CHECKING, Any

import numpy as np

from ..defaults import AB2_EPSILON, THETA
from ..dynamics.forcing import WaterForcing
from ..elliptic import Diagonal
from ..errors import ConfigError
from ..fields.parameters import parameter
from ..fields.state import pytree, replace, static
from ..fields.variables import UNDER_RIGID_LID
from .explicit import time_step
from .implicit import FreeSurfaceStep, Implicit, PlannedStep, RigidLidStep, Solved
from .stability import interval_above_rest, interval_with_waves
from .surface import Surface

if TYPE_CHECKING:
    from ..dynamics.site import Site
    from ..dynamics.system import System
    from ..elliptic.base import Solver

__all__ = ["RigidLid", "SemiImplicit", "Solved"]

THETA_HINT = "; with 0.5 nothing damps the shortest waves, 0.6 is enough with rotation, and 1 damps most"


@pytree
class SemiImplicit(Implicit):
    """An implicit free surface: no limit from gravity waves, exact conservation of water.

    Args:
        dt: [s].
        theta: weight of the new time, 1/2 to 1; at 1/2 nothing damps the waves that are not resolved.
        epsilon: damping of the explicit terms, as in AB2.
        solver: an elliptic.Solver. With None it is one by transforms where depth is constant and there are neither land
            nor open sides, and conjugate gradients with multigrid elsewhere.
    """

    dt: Any = time_step()
    theta: Any = parameter(default=THETA, minimum=0.5, maximum=1.0, hint=THETA_HINT)
    epsilon: Any = parameter(default=AB2_EPSILON, minimum=0.0, below=1.0)
    solver: Any = static(default=None)

    references = "Casulli and Cattani (1994), doi:10.1016/0898-1221(94)90059-0"
    buffer_cycle = 2  # the elevation of a step ago is kept
    remedy = f"theta = {THETA:g} and epsilon = {AB2_EPSILON:g}"

    def stable_interval(self, axis: str) -> float:
        alone = super().stable_interval(axis)
        if axis in ("wave", "real", "internal"):
            return alone
        return interval_with_waves(float(self.theta), float(self.epsilon), axis, alone)

    def raised_wave_rate(self, site: "Site") -> np.ndarray | float:
        model, highest = site.model, site.highest
        constant = model.sea_floor.is_flat and model.sea_floor.is_all_wet and not model.open_sides
        constants = constant if self.solver is None else self.solver.needs_constants
        if model.linear or not constants or highest <= 0:
            return 0.0
        interval = interval_above_rest(float(self.theta), float(self.epsilon), highest)
        return site.wave_rate() / np.sqrt(1.0 + site.excess) / interval

    def prepare(self, equations: "System") -> "PlannedStep":
        surface = Surface.of(equations, type(self).__name__, self.solver, self.theta * self.dt)
        return FreeSurfaceStep(self.dt, self.theta, self.epsilon, surface)


@pytree
class RigidLid(Implicit):
    """A rigid lid, without gravity waves: the transport has no divergence, and eta is the surface pressure over rho g.

    Args:
        dt: [s].
        epsilon: damping of the explicit terms, as in AB2.
        solver: as SemiImplicit's.
    """

    dt: Any = time_step()
    epsilon: Any = parameter(default=AB2_EPSILON, minimum=0.0, below=1.0)
    solver: Any = static(default=None)

    references = "Dukowicz and Smith (1994), doi:10.1029/93JC03455"
    rows = UNDER_RIGID_LID
    comment = (
        "the surface is a rigid lid: eta is the pressure on it over density and gravity, and no part of the thickness"
    )
    rigid_lid = True

    def system(self, dynamics: "System") -> "System":
        return replace(dynamics, rigid_lid=True).prepare()

    def iterations_on(self, finer: float, count: float, solver: "Solver") -> float:
        return count * finer if isinstance(getattr(solver, "preconditioner", None), Diagonal) else count

    def prepare(self, equations: "System") -> "PlannedStep":
        rising = [x for x in equations.terms if x.changes_elevation or isinstance(x, WaterForcing)]
        moving = [type(term).__name__ for term in rising]
        moving += [type(condition).__name__ for condition in equations.open_boundaries]
        moving += ["a moving sea floor"] * (equations.uplift is not None)
        if moving:
            raise ConfigError(
                f"RigidLid: {moving[0]} needs a surface that moves, and under a rigid lid none does; leave it out, or "
                "use SemiImplicit."
            )
        return RigidLidStep(self.dt, self.epsilon, Surface.of(equations, type(self).__name__, self.solver, None))
