"""The form of the momentum equation that conserves momentum, for bores, dam breaks and, for shores that move.

    d(h u)/dt + div(h u (u, v)) = - g h d eta/dx + f h v + h F_u,     d eta/dt = - div(h u, h v)

The scheme steps the velocity u on the C-grid's faces. Each face has a control volume V = mean_x(area h) [m3], through
whose sides flow the volume fluxes Q [m3 s-1] (Stelling and Duinmeijer 2003, doi:10.1002/fld.537):

    V' u' = V u + dt ( - sum of Q u_side - g V ddx(eta) + ...),     V' = V - dt sum of Q

A prime marks values after a step of Euler. conserving_flow.py has the fluxes and the velocities u_side at the sides.
Two time steppers make steps of it:

**SSPRK3** has three stages. Each is a step of Euler of length dt. The stages are combined in momentum, not in velocity:

    u = [(1 - w) V_start u_start + w V' u'] / [(1 - w) V_start + w V']

**ForwardBackwardHancock** has one stage: the level is stepped first, then the velocity with both levels' pressure:

    eta' = eta - dt div(F)(eta_half, u_half)
    V' u' = V u - dt [ sum of Q u_side(u_half) + g (V ddx(eta) + V' ddx(eta')) / 2 ] + ...

The subscript `half` marks values upstream in the middle of the step (half_step.py); slopes and damping are those
of its beginning. On a flat bottom V ddx(eta) is ddx(h^2) / 2 in each area. So only the pressure on walls changes the
sum of the momentum, where the water rises, the flow does not spread and there is no film.
"""

import dataclasses
from typing import ClassVar, cast

import jax.numpy as jnp

from ..fields.field import Scalar, pointwise
from ..fields.parameters import Number, Part, check_fields, declared
from ..fields.state import State, as_tile_field, like, pytree
from .clock import Time
from .conserving_flow import ConservingFlow
from .layer import EnergyConserving
from .limiters import Limiter, MonotonizedCentral
from .system import System

__all__ = ["MomentumConserving", "ShoreSystem"]


@dataclasses.dataclass(frozen=True)
class MomentumConserving(EnergyConserving):
    """Conserves momentum across bores, and damps scales that the grid does not resolve. Stelling and Duinmeijer (2003).

    It needs ForwardBackwardHancock or SSPRK3, and a shore that moves needs this form. The Coriolis force has the
    energy-conserving form unless the model has another `coriolis_form`.

    Args:
        limiter: the Limiter of the slopes of level, thickness and velocity.
        damping: 1 damps unresolved scales as an upwind scheme does; 0 leaves the damping out [1].
    """

    limiter: Limiter = declared(Part(("steepness",), "MonotonizedCentral()"), default=MonotonizedCentral())
    damping: float = declared(Number(minimum=0.0, maximum=1.0), default=1.0)

    references = "Stelling and Duinmeijer (2003), doi:10.1002/fld.537"
    conserves_momentum: ClassVar[bool] = True
    has_kinks: ClassVar[bool] = True

    def __post_init__(self):
        check_fields(self)

    @property
    def wave_damping(self) -> float:
        """`damping`, which shortens the time steps of a stepper of one stage."""
        return self.damping

    def prepare(self, system: System) -> "ShoreSystem":
        return ShoreSystem(**{field.name: getattr(system, field.name) for field in dataclasses.fields(System)})


@pytree
class ShoreSystem(System):
    """The prepared System of MomentumConserving, which steps momentum in stages of its own."""

    layer_flow = ConservingFlow

    def euler(self, start: State, now: State, weight: Scalar, dt: Scalar, time: Time) -> State:
        """(1 - weight) start + weight (now + dt d now/dt), combined in momentum, of arrays or Fields as `now` is.

        Args:
            start: the State at the beginning of the time step.
            now: the State of this stage.
            weight: of the new State [1].
            dt: the time step [s].
            time: the Time of the stage.
        """
        flow = cast(ConservingFlow, self.flow(now, time, more=[start.eta]))
        state, first = flow.state, start.map(as_tile_field, start.positions)
        rates = {"eta": flow.rate, **self.transported(flow, time)}
        new = {name: first[name] + weight * ((state[name] - first[name]) + dt * rates[name]) for name in rates}
        before, after = flow.on_faces(flow.thickness(flow.more[0])), flow.h + dt * flow.rate
        parts = zip("uv", before, flow.on_faces(after), flow.velocities(after))
        for name, earlier, held, (moved, resistance) in parts:
            old, fresh = (1.0 - weight) * flow.moving(earlier), weight * flow.moving(held)
            momentum, carrier = old * first[name], old + fresh
            if resistance is not None:  # one quotient for friction and for the momentum over the water
                momentum, carrier = momentum * resistance, carrier * resistance
            new[name] = pointwise(_quotient, momentum + fresh * moved, carrier)
        return like(now, state.replace(**new))

    def forward_backward(self, state: State, dt: Scalar, time: Time) -> State:
        """The State after a step of ForwardBackwardHancock, of arrays or Fields as `state` is.

        Args:
            state: the State at the beginning of the step.
            dt: the time step [s].
            time: the Time at the beginning of the step.
        """
        flow = cast(ConservingFlow, self.flow(state, time)).with_half_step()
        rates = {"eta": flow.rate, **self.transported(flow, time)}
        new = {name: flow.state[name] + dt * rate for name, rate in rates.items()}
        after = flow.h + dt * flow.rate
        for name, held, (moved, resistance) in zip("uv", flow.on_faces(after), flow.velocities(after)):
            moved = moved if resistance is None else moved / resistance
            new[name] = pointwise(lambda u, h: jnp.where(h > 0, u, 0.0), moved, flow.moving(held))
        return like(state, flow.state.replace(**new))


def _quotient(momentum, carrier):
    """momentum / carrier; 0 where both are, with a finite derivative there."""
    return momentum / jnp.where(carrier > 0, carrier, 1.0)
