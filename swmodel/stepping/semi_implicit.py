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

Casulli & Cattani (1994), doi:10.1016/0898-1221(94)90059-0 (theta); Dukowicz & Smith (1994), doi:10.1029/93JC03455 (the
pressure as the unknown, which needs no extra equations for islands). `swmodel.elliptic` has the solvers.
"""

import abc
from typing import TYPE_CHECKING, Any, cast

import jax
import jax.numpy as jnp
import numpy as np

from .. import elliptic
from ..defaults import AB2_EPSILON, THETA
from ..dynamics.clock import Time
from ..dynamics.tracers.limiters import larger
from ..dynamics.transport import divergence
from ..errors import ConfigError
from ..fields.field import AbstractField, Value
from ..fields.operators import mean_x, mean_y, pointwise
from ..fields.parameters import parameter
from ..fields.pytrees import pytree, replace, static
from ..fields.state import State, as_tile_field, like
from ..parallel.communicator import Communicator
from .amplification import interval_above_rest, interval_with_waves
from .base import History
from .explicit import AB2, Past, TimeStepper, time_step
from .surface import Surface

if TYPE_CHECKING:
    from ..dynamics.layer import LayerFlow
    from ..dynamics.site import Site
    from ..dynamics.system import System

__all__ = ["SemiImplicit", "RigidLid", "Solved"]

LEVEL = "level"  # the elevation, which is extrapolated as the tendencies are
AT = {"u": "u", "v": "v", "eta": "h", LEVEL: "h"}
THETA_HINT = "; with 0.5 nothing damps the shortest waves, 0.6 is enough with rotation, and 1 damps most"


@pytree
class Solved:
    """The history of a scheme that solves an equation at each step.

    Attributes:
        past: a Past of the explicit part's tendencies of u, v and eta.
        residual: the largest residual of solvers that did not converge, over the right-hand side [1]; 0 if all did.
        transported: a State of the step before, with the transported variables and the fields that their rates need;
            () without such variables.
    """

    past: Past
    residual: jax.Array
    transported: Any = ()


class Implicit(TimeStepper):
    """The base class of SemiImplicit and RigidLid."""

    order = 2
    is_implicit = True
    remedy = f"epsilon = {AB2_EPSILON:g}"

    def stable_interval(self, axis: str) -> float:
        """The interval of the explicit part, which is AB2's; implicit waves set no limit."""
        return np.inf if axis == "wave" else AB2(1.0, float(self.epsilon)).stable_interval(axis)  # pyright: ignore[reportAttributeAccessIssue]

    def history(self, state: State) -> History:
        rows = {"u": state.u, "v": state.v, "eta": state.eta} | ({} if self.rigid_lid else {LEVEL: state.eta})
        flow, others = State.of(rows, AT), {name: state[name] for name in state.others}
        transported = ()
        if others:
            surface = {} if self.rigid_lid else {"transport_x": state.u, "transport_y": state.v, "eta": state.eta}
            places = {"transport_x": "u", "transport_y": "v", "eta": "h", **state.positions}
            transported = jax.tree.map(jnp.zeros_like, State.of(surface | others, places))
        return Solved(Past.empty(flow, 1), jnp.zeros((), state.eta.dtype), transported)

    def obstacle_to_loops(self, dynamics: "System") -> str | None:
        if dynamics.open_boundaries:
            return f"{type(self).__name__} has no loops for the outflow through open sides"
        if dynamics.tracers or any(term.state_variables() for term in dynamics.terms):
            return f"{type(self).__name__} has no loops for variables other than u, v and eta"
        return None

    def check(self) -> None:
        super().check()
        if self.solver is not None:  # pyright: ignore[reportAttributeAccessIssue]
            elliptic.check_solver(self.solver, type(self).__name__)  # pyright: ignore[reportAttributeAccessIssue]

    def step(self, equations: "System", state: State, history: Solved, time: Time) -> tuple[State, Solved]:
        return self.prepare(equations).step(equations, state, history, time)

    @abc.abstractmethod
    def prepare(self, equations: "System") -> "PlannedStep": ...

    def complaint(self, history: Solved, communicator: Communicator) -> str | None:
        """A message about a solver that did not converge in the steps so far, or None; collective, on the host."""
        left = max(float(np.max(x)) for x in communicator.tiles(history.residual).values())
        residual = communicator.host_maximum(left)
        if residual == 0:
            return None
        return (
            f"the equation of the surface was not solved, and the residual is {residual:.1e} of its right-hand side; "
            "allow its solver more iterations, a larger tolerance or another preconditioner, or use a shorter time step"
        )


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
        if axis in ("wave", "real"):
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
        return FreeSurfaceStep(self.dt, self.theta, self.epsilon, Surface.of(equations, self))


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

    rigid_lid = True

    def prepare(self, equations: "System") -> "PlannedStep":
        moving = [type(term).__name__ for term in equations.terms if term.changes_elevation]
        moving += [type(condition).__name__ for condition in equations.open_boundaries]
        moving += ["a moving sea floor"] * (equations.uplift is not None)
        if moving:
            raise ConfigError(
                f"RigidLid: {moving[0]} needs a surface that moves, and under a rigid lid none does; leave it out, or "
                "use SemiImplicit."
            )
        return RigidLidStep(self.dt, self.epsilon, Surface.of(equations, self))


# -- steps ------------------------------------------------------------------------------------------------------------


class PlannedStep(Implicit):
    """The steps of a scheme, with the elliptic equation prepared once for all of them."""

    def prepare(self, equations: "System") -> "PlannedStep":
        return self

    def explicit(self, equations: "System", flow: "LayerFlow", more: AbstractField | None) -> State:
        """E, a State of Fields at u, v and h.

        Args:
            equations: the System, prepared.
            flow: LayerFlow.
            more: h - R [m], a Field at h; None where it is 0.
        """
        u, v = equations.acceleration(flow, 0.0 * flow.eta, flow.time)
        eta = 0.0 * flow.eta
        if more is not None:
            eta = -divergence(mean_x(more) * flow.u, mean_y(more) * flow.v, equations.geometry)
        if self.rigid_lid:
            return equations.evaluation.register_tendency(State(u, v, eta))
        eta = equations.with_sources(eta, flow, flow.time)
        return equations.evaluation.register_tendency(State.of({"u": u, "v": v, "eta": eta, LEVEL: flow.eta}, AT))

    def extrapolated(self, now: State, old: State, count: jax.Array) -> State:
        """AB2's mean of a State of Fields now and of one a step ago, which has no weight if `count` is 0."""
        older = jnp.where(count > 0, 0.5 + self.epsilon, 0.0)  # pyright: ignore[reportAttributeAccessIssue]

        def mean(new, old):
            return new + older.astype(new.dtype) * (new - as_tile_field(old, new.position))

        return now.map(mean, old)

    def transported(
        self,
        flow: "LayerFlow",
        transports: tuple[AbstractField, AbstractField],
        now: State,
        old: State,
        count: jax.Array,
        water_added: Value = 0.0,
    ) -> dict[str, AbstractField]:
        """{name: the variable a step later} of what the flow transports, Fields.

        Args:
            flow: the LayerFlow at the beginning of the step.
            transports: (U, V) of the whole step [m2 s-1].
            now, old: States of Fields with halo, with eta and what is transported, now and a step ago.
            count: of steps so far.
            water_added: by terms in the whole step [m s-1].
        """
        middle = self.extrapolated(now, old, count)
        middle = flow.state.replace(**{name: middle[name] for name in flow.state.names if name in middle.names})
        at = flow.time + 0.5
        rates = flow.equations.transported(flow.with_transports(*transports, middle, at, water_added), at)
        return {name: flow.state[name] + self.dt * rate for name, rate in rates.items()}

    def next_history(
        self, state: State, now: State, history: Solved, left: jax.Array, transported: State | None
    ) -> Solved:
        """The history after a step with the explicit tendency `now` and the residual `left`."""
        past, residual = history.past.push(like(state, now)), jnp.maximum(history.residual, left)
        if transported is not None:
            transported = like(state, transported)
        return Solved(past, residual, () if transported is None else transported)


@pytree
class FreeSurfaceStep(PlannedStep):
    """The step of SemiImplicit; the attributes are its own, and the Surface."""

    dt: Any
    theta: Any
    epsilon: Any
    surface: Surface

    def step(self, equations: "System", state: State, history: Solved, time: Time) -> tuple[State, Solved]:
        e, dt, theta, surface = equations, self.dt, self.theta, self.surface
        flow = e.flow(state, time, _fields(history.transported))
        now = self.explicit(e, flow, surface.explicit_depth(e, flow.h))
        slope = self.extrapolated(now, history.past.values[0], history.past.count)
        u, v = surface.pushed(e, flow.u + dt * slope.u, flow.v + dt * slope.v, dt, flow.eta)
        depth = [flow.h + (slope[LEVEL] - flow.eta) * e.geometry.wet] if surface.follows_level else []
        depth = [pointwise(larger, h, 0.5 * flow.h) for h in depth]  # the level may fall fast
        filled, depth, _ = e.fill_halos(State(u, v, flow.eta), time + 1.0, depth)
        u, v, eta = filled.u, filled.v, filled.eta
        surface = replace(surface, depth=next(iter(depth), None))
        explicit_change = dt * slope.eta - (dt * (1.0 - theta)) * surface.outflow(e, flow.u, flow.v)
        rhs = explicit_change - (dt * theta) * surface.outflow(e, u, v)
        rhs, explicit_change, values = e.evaluation.finish_stage((rhs, explicit_change, depth))
        if values:
            surface = surface.over(e, depth[0], e.evaluation.tile_values(values[0]))
        delta, left = surface.solve(e, rhs)
        u, v = surface.pushed(e, u, v, theta * dt, delta)
        u, v, _ = e.apply_open_boundaries(cast(Any, u), cast(Any, v), eta + delta, time + 1.0)
        eta = flow.eta + explicit_change - (dt * theta) * surface.outflow(e, u, v)
        others, next_others = self._others(e, flow, slope.eta, (u, v), history, surface) if e.tracers else ({}, None)
        return like(state, state.replace(u=u, v=v, eta=eta, **others)), self.next_history(
            state, now, history, left, next_others
        )

    def _others(self, equations, flow, slope, after, history, surface):
        """({name: what is transported, a step later}, the State that the next step needs).

        Args:
            slope: of eta, without what is implicit [m s-1].
            after: (u, v) at the end of the step.
            surface: that of the step.
        """
        more = surface.explicit_depth(equations, flow.h)
        more = 0.0 * flow.h if more is None else more
        x, y = mean_x(more) * flow.u, mean_y(more) * flow.v
        names = history.transported.names
        values = {**dict(flow.state), "transport_x": x, "transport_y": y}
        now = State.of({name: values[name] for name in names}, history.transported.positions)
        values = iter(flow.more)
        old = now.map(lambda _: next(values))
        explicit = self.extrapolated(now, old, history.past.count)
        rest = zip(surface.transports(equations, flow.u, flow.v), surface.transports(equations, *after))
        implicit = [(1.0 - self.theta) * before + self.theta * later for before, later in rest]
        transports = explicit.transport_x + implicit[0], explicit.transport_y + implicit[1]
        added = 0.0
        if equations.open_boundaries or any(term.changes_elevation for term in equations.terms):
            added = slope + divergence(explicit.transport_x, explicit.transport_y, equations.geometry)
        return self.transported(flow, transports, now, old, history.past.count, added), now


@pytree
class RigidLidStep(PlannedStep):
    """The step of RigidLid; the attributes are its own, and the Surface."""

    dt: Any
    epsilon: Any
    surface: Surface

    rigid_lid = True

    def step(self, equations: "System", state: State, history: Solved, time: Time) -> tuple[State, Solved]:
        e, dt = equations, self.dt
        flow = e.flow(state.replace(eta=0.0 * state.eta), time, [state.eta, *_fields(history.transported)])
        eta, *old = flow.more
        now = self.explicit(e, flow, None)
        slope = self.extrapolated(now, history.past.values[0], history.past.count)
        u, v = self.surface.pushed(e, flow.u + dt * slope.u, flow.v + dt * slope.v, dt, eta)
        filled, *_ = e.fill_halos(State(u, v, eta), time + 1.0)
        u, v, eta = filled.u, filled.v, filled.eta
        # the unknown is g dt delta: div (R grad (g dt delta)) = div R u*
        delta, left = self.surface.solve(e, -self.surface.outflow(e, u, v))
        delta = delta / (e.gravity * dt)
        u, v = self.surface.pushed(e, u, v, dt, delta)
        others, kept = self._others(flow, old, (u, v), history) if e.tracers else ({}, None)
        new = like(state, state.replace(u=u, v=v, eta=eta + delta, **others))
        return new, self.next_history(state, now, history, left, kept)

    def _others(self, flow, old, after, history):
        """({name: what is transported, a step later}, the State that the next step needs)."""
        share = jnp.where(history.past.count > 0, 0.5, 0.0).astype(flow.u.dtype)  # u at the start may have a divergence
        e = flow.equations
        pairs = zip(self.surface.transports(e, flow.u, flow.v), self.surface.transports(e, *after))
        U, V = (share * before + (1.0 - share) * later for before, later in pairs)
        names, values = history.transported.names, iter(old)
        now = State.of({name: flow.state[name] for name in names}, history.transported.positions)
        old = now.map(lambda _: next(values))
        return self.transported(flow, (U, V), now, old, history.past.count), now


def _fields(transported):
    """The fields of a State a step ago, in order; none of ()."""
    return [as_tile_field(x, transported.positions[name]) for name, x in transported] if transported else []
