"""Initial currents at shores: none leaves a dry cell, and none leads onto land higher than it can climb."""

from typing import Any

import jax.numpy as jnp

from ..dynamics.clock import Time
from ..dynamics.tracers.advection import upstream
from ..dynamics.tracers.limiters import smaller
from ..fields.operators import X, Y, pointwise
from ..fields.state import State
from ..runtime.compilation import jit
from .halos import dynamics_at_start

__all__ = ["ending_at_shores"]

HALO = 1  # cells


def ending_at_shores(model: Any, state: State) -> State:
    """The State with u, v = 0 where they lead out of a dry cell, or to a bed more than u^2 / (2 g) above the surface.

    The scheme keeps the velocity 0 there, but only from the end of the first step on: the level is stepped with the
    velocity at its beginning, which would lift water onto a cliff.

    Args:
        model: a ShallowWater with wetting and drying.
        state: a State of its tile; collective.
    """
    return _program(dynamics_at_start(model, HALO), state)


@jit
def _program(dynamics, state):
    return dynamics.communicator.spmd(lambda d, s: _ending_at_shores(d.prepare(), s))(dynamics, state)


def _ending_at_shores(equations, state):
    flow = equations.flow(state, Time(jnp.int32(0)))
    found = {}
    for name, axis in (("u", X), ("v", Y)):
        velocity, eta, depth = flow.state[name], flow.eta, flow.depth
        bed = -pointwise(smaller, axis.low(depth), axis.high(depth))  # the higher one
        surface = upstream(velocity, axis.low(eta), axis.high(eta))
        head = velocity * velocity / (2.0 * equations.gravity)
        climbs = pointwise(lambda bed, level: (bed <= level).astype(level.dtype), bed, surface + head)
        from_water = upstream(velocity, axis.low(flow.covered), axis.high(flow.covered))
        found[name] = state[name] * (climbs * from_water).interior  # not the velocity of the conditions at open sides
    return state.replace(**found)
