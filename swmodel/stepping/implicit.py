"""What the schemes with an implicit surface have in common: their history, limits and messages."""

import abc
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np

from .. import elliptic
from ..defaults import AB2_EPSILON, THETA
from ..dynamics.clock import Time
from ..fields.field import Value
from ..fields.pytrees import pytree
from ..fields.state import State
from ..fields.variables import PROGNOSTIC, in_layer, layer_of, names_in_layer
from ..parallel.communicator import Communicator
from .amplification import interval_of_interfaces
from .base import History
from .explicit import AB2, Past, TimeStepper

if TYPE_CHECKING:
    from ..dynamics.system import System

__all__ = ["Implicit", "LEVEL", "Solved", "X_TRANSPORT", "Y_TRANSPORT", "state_of"]

LEVEL = "level"  # the elevation, which is extrapolated as the tendencies are
X_TRANSPORT, Y_TRANSPORT = "transport_x", "transport_y"  # the explicit part of the transports


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
        """The interval of the explicit part, which is AB2's; implicit waves set no limit.

        Args:
            axis: as of every scheme, or "internal" (waves of the interfaces between layers).
        """
        if axis == "internal":
            theta = THETA if self.rigid_lid else self.theta  # pyright: ignore[reportAttributeAccessIssue]
            return interval_of_interfaces(float(theta), float(self.epsilon))  # pyright: ignore[reportAttributeAccessIssue]
        return np.inf if axis == "wave" else AB2(1.0, float(self.epsilon)).stable_interval(axis)  # pyright: ignore[reportAttributeAccessIssue]

    def history(self, state: State) -> History:
        layers = _layers_of(state)
        rows = {name: state[name] for names in layers for name in names}
        moving = [eta for *_, eta in layers][self.rigid_lid :]
        rows |= {in_layer(LEVEL, layer_of(eta)[1]): state[eta] for eta in moving}
        others = {name: state[name] for name in state.names if name not in rows}
        transported = ()
        if others:
            surface = {}
            for k, (u, v, eta) in enumerate(layers):
                transports = {} if self.rigid_lid else {X_TRANSPORT: state[u], Y_TRANSPORT: state[v]}
                surface |= {in_layer(name, k): x for name, x in transports.items()}
                surface |= {eta: state[eta]} if eta in moving else {}
            transported = jax.tree.map(jnp.zeros_like, state_of(surface | others))
        return Solved(Past.empty(state_of(rows), 1), jnp.zeros((), state.eta.dtype), transported)

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
    def prepare(self, equations: "System") -> "Implicit": ...

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


def _layers_of(state):
    """[the names of u, v and eta] of each layer of a State."""
    count = sum(layer_of(name)[0] == "eta" for name in state.names)
    return [names_in_layer(k) for k in range(count)]


def state_of(values: Mapping[str, Value]) -> State:
    """A State of u, v, eta and others of all layers."""
    places = {row.name: row.position for row in PROGNOSTIC} | {X_TRANSPORT: "u", Y_TRANSPORT: "v"}
    return State.of(values, {name: places.get(layer_of(name)[0], "h") for name in values})
