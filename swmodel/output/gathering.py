"""Fields of a run's present state, put together from the tiles of all ranks."""

from collections.abc import Iterator, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ..diagnostics import derived as diagnostics
from ..dynamics.clock import Time
from ..runtime.compilation import jit
from ..stepping.loop import step_loop
from ..stepping.members import per_member

__all__ = ["fields_of_tiles", "gathered_fields", "lowered_fields"]


@jit(static_argnames=("names", "edges", "rigid_lid"))
def _diagnose(dynamics, stepper, packed, step, names, edges, rigid_lid):
    def fields(dynamics, stepper, packed, step):
        state = step_loop(dynamics, stepper, prepared=False).get_state(packed)
        elevation = 0.0 * state.eta if rigid_lid else state.eta
        flow = dynamics.prepare().flow(state.replace(eta=elevation), Time(step))
        found = {name: _with_edges(diagnostics.field(name, flow), edges) for name in names}
        found = {**found, "eta": state.eta} if rigid_lid and "eta" in names else found
        return jax.tree.map(jnp.copy, found)  # never the state's own arrays, which the next chunk of steps overwrites

    return dynamics.communicator.spmd(per_member(fields, at=1))(dynamics, stepper, packed, step)


def _with_edges(field, edges):
    """A Field's interior, with the faces on its west and south side in directions that are not periodic."""
    west, south = edges
    x, y = field.position in "uq", field.position in "vq"
    return field.crop((int(west and x), 0, int(south and y), 0)).data


def lowered_fields(simulation: Any, names: Sequence[str], dynamics: Any, packed: Any) -> Any:
    """The program of `fields_of_tiles`, not yet compiled, for a Dynamics and a carry of the step loop, or shapes."""
    return _diagnose.lower(*_arguments(simulation, names, dynamics, packed))


def fields_of_tiles(simulation: Any, names: Sequence[str]) -> dict[str, jax.Array]:
    """{name: tile arrays of the present state}, on faces with those on the low side where they are not periodic."""
    return _diagnose(*_arguments(simulation, names, *simulation.packed()))


def _arguments(simulation, names, dynamics, packed):
    grid = simulation.model.grid
    edges = not grid.periodic_x, not grid.periodic_y
    step, rigid_lid = jnp.int32(simulation.step), simulation.scheme.rigid_lid
    return dynamics, simulation.stepper, packed, step, tuple(names), edges, rigid_lid


def gathered_fields(model: Any, tiles: dict[str, jax.Array]) -> Iterator[tuple[str, np.ndarray | None]]:
    """Yield (name, global array (ny, nx) on the root, None elsewhere) of `fields_of_tiles`; collective.

    Arrays on faces have n + 1 entries in directions that are not periodic. A field is gathered when it is its turn, and
    its tiles are forgotten then. Nothing is gathered before the first turn.
    """
    for name in list(tiles):
        yield name, model.gather(tiles.pop(name))
