"""The variables that open sides keep from step to step, at the start of a run."""

import functools
from collections.abc import Container
from typing import Any

import jax.numpy as jnp

from ..dynamics.near_sides import INSIDE, axis_name, cells_inside, normal_velocity
from ..fields.field import Field
from ..fields.state import State
from ..parallel.halo import EAST, NORTH, SIDES, SOUTH, WEST, exchange
from ..runtime.compilation import jit
from .halos import dynamics_at_start

__all__ = ["with_memory_of_other_flow", "with_memory_of_sides"]

EDGE = {WEST: (..., slice(0, 1)), EAST: (..., slice(-1, None)), SOUTH: (slice(0, 1),), NORTH: (slice(-1, None),)}
REACH = INSIDE - 1  # cells beyond the tile, where it is thin


def with_memory_of_sides(model: Any, state: State, given: dict[str, Any]) -> State:
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
    started = _program(dynamics_at_start(model, min(REACH, *model.decomposition.thinnest)), state)
    return state.replace(**{name: started[name] for name in names})


def with_memory_of_other_flow(equations: Any, before: State, after: State, names: Container[str] = ()) -> State:
    """`after`, with the variables of open sides raised by the change of their start from the flow of `before` to its.

    Args:
        equations: the System, prepared.
        before, after: States of arrays of the tile's own cells.
        names: the variables that stay as they are in `after`.
    """
    changing = [name for name in equations.boundary_names if name not in names]
    if not changing:
        return after
    old, new = _started(equations, before), _started(equations, after)
    return after.replace(**{name: after[name] + (new[name] - old[name]) for name in changing})


@jit
def _program(dynamics, state):
    return dynamics.communicator.spmd(lambda d, s: _started(d.prepare(), s))(dynamics, state)


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
