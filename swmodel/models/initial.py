"""The start of a run: the base class of initial states, and the flow that a model completes.

Files name an initial state of one's own by `[initial] type = "module:Class"`. Completed are what open sides keep of the
flow from step to step, and currents at shores that move.
"""

import abc
import functools
from collections.abc import Container
from typing import TYPE_CHECKING, Any

import jax.numpy as jnp

from ..dynamics.clock import Time
from ..dynamics.limiters import smaller, upstream
from ..dynamics.near_sides import INSIDE, axis_name, cells_inside, normal_velocity
from ..fields.field import Field, X, Y, pointwise
from ..fields.methods import Result
from ..fields.parts import ModelPart
from ..fields.state import State
from ..parallel.halo import EAST, NORTH, SIDES, SOUTH, WEST, exchange
from ..runtime.compilation import jit
from .engine import dynamics_at_start

if TYPE_CHECKING:
    from .shallow_water import ShallowWater

EDGE = {WEST: (..., slice(0, 1)), EAST: (..., slice(-1, None)), SOUTH: (slice(0, 1),), NORTH: (slice(-1, None),)}
REACH = INSIDE - 1  # cells beyond the tile, where it is thin
HALO = 1  # cells


def _no_state(value, arguments):
    return None if isinstance(value, State) else f"a {type(value).__name__}"


class InitialState(ModelPart, abc.ABC):
    """A state from which a run starts, by declared parameters."""

    kind = "initial"
    results = {"state": Result("a State, as model.state(eta=...) makes", _no_state)}

    @abc.abstractmethod
    def state(self, model: "ShallowWater") -> State:
        """This tile's State of a model, which of a run with nests is that of one grid; collective."""


def with_memory_of_sides(model: "ShallowWater", state: State, given: dict[str, Any]) -> State:
    """The State, with the variables of open sides computed from its flow where the user gave no value.

    Args:
        model: a ShallowWater.
        state: a State of its tile.
        given: {name: the value that the user gave for a variable}; 0.0 where none was given.
    """
    rows = {row.name for condition in model.open_boundaries for row in condition.state_variables()}
    names = [name for name in rows if isinstance(given[name], float) and given[name] == 0.0]
    if not names:
        return state
    started = _program(dynamics_at_start(model, min(REACH, *model.decomposition.thinnest)), state, function=_started)
    return state.replace(**{name: started[name] for name in names})


def with_memory_of_other_flow(equations: Any, before: Any, after: Any, names: Container[str] = ()) -> Any:
    """`after`, with the variables of open sides raised by the change of their start from the flow of `before` to its.

    Args:
        equations: the System, prepared.
        before, after: States of arrays of the tile's own cells; of nested grids tuples of them.
        names: the variables that stay as they are in `after`.
    """
    if isinstance(after, tuple):  # the outermost grid alone has open sides
        return with_memory_of_other_flow(equations.systems[0], before[0], after[0], names), *after[1:]
    changing = [name for name in equations.boundary_names if name not in names]
    if not changing:
        return after
    old, new = _started(equations, before), _started(equations, after)
    return after.replace(**{name: after[name] + (new[name] - old[name]) for name in changing})


def _started(equations, state):
    tile, new = equations.geometry.tile, {}
    arrays = exchange([state.u, state.v, state.eta], tile.halo, tile.sides, equations.communicator)
    u, v, eta = (Field(x, position, (tile.halo,) * 4) for x, position in zip(arrays, "uvh"))
    wet = equations.geometry.wet
    for condition in equations.open_boundaries:
        if not condition.memory:
            continue
        for side in map(SIDES.index, condition.sides):
            values = condition.beginning(cells_inside(eta, side), functools.partial(normal_velocity, side, u, v))
            for name, value in values.items():
                key, at = f"{name}_{axis_name(side)}", EDGE[side]
                old, here = new.get(key, state[key]), cells_inside(wet.crop((0, 0, 0, 0)), side)
                new[key] = old.at[at].set(jnp.where(tile.sides.open[side] > 0.5, (value * here).data, old[at]))
    return state.replace(**new)


@functools.partial(jit, static_argnames="function")
def _program(dynamics, state, function):
    return dynamics.communicator.spmd(lambda d, s: function(d.prepare(), s))(dynamics, state)


def ending_at_shores(model: "ShallowWater", state: State) -> State:
    """The State with u, v = 0 where they lead out of a dry cell, or to a bed more than u^2 / (2 g) above the surface.

    The scheme keeps the velocity 0 there, but only from the end of the first step on: the level is stepped with the
    velocity at its beginning, which would lift water onto a cliff.

    Args:
        model: a ShallowWater whose shores move.
        state: a State of its tile; collective.
    """
    return _program(dynamics_at_start(model, HALO), state, function=_ending_at_shores)


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
