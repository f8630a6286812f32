"""Fields of a run's present state, put together from the tiles of all ranks."""

import dataclasses
import functools
from collections.abc import Iterator, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ..diagnostics import derived as diagnostics
from ..dynamics.clock import Time
from ..fields.state import State
from ..runtime.compilation import jit
from ..stepping.loop import step_loop
from ..stepping.members import per_member

__all__ = ["Fields", "fields_at", "fields_of_tiles", "gathered_fields", "lowered_fields", "shapes_of_fields"]


@dataclasses.dataclass(frozen=True)
class Fields:
    """Which fields a file has.

    Attributes:
        names: of the fields.
        edges: whether those on faces have the faces on the west, and on the south side of the domain, too: those that
            are not periodic.
        rigid_lid: whether the elevation is that of a rigid lid.
    """

    names: tuple[str, ...]
    edges: tuple[bool, bool]
    rigid_lid: bool

    @staticmethod
    def of(simulation: Any, names: Sequence[str]) -> "Fields":
        """The Fields of these names in files of a Simulation."""
        grid = simulation.model.grid
        return Fields(tuple(names), (not grid.periodic_x, not grid.periodic_y), simulation.scheme.rigid_lid)


def fields_at(equations: Any, state: State, step: Any, fields: Fields) -> dict[str, jax.Array]:
    """{name: tile array} of a State at a step, in new arrays: the next steps overwrite those of the State."""
    flow = diagnostics.flow_of(equations, state, Time(step), fields.rigid_lid)
    found = {name: _with_edges(diagnostics.field(name, flow), fields.edges) for name in fields.names}
    found = {**found, "eta": state.eta} if fields.rigid_lid and "eta" in fields.names else found
    return jax.tree.map(jnp.copy, found)


@jit(static_argnames=("fields",))
def _diagnose(dynamics, stepper, packed, step, fields):
    def found(dynamics, stepper, packed, step):
        state = step_loop(dynamics, stepper, prepared=False).get_state(packed)
        return fields_at(dynamics.prepare(), state, step, fields)

    return dynamics.communicator.spmd(per_member(found, at=1))(dynamics, stepper, packed, step)


def _with_edges(field, edges):
    """A Field's interior, with the faces on its west and south side in directions that are not periodic."""
    west, south = edges
    x, y = field.position in "uq", field.position in "vq"
    return field.crop((int(west and x), 0, int(south and y), 0)).data


def lowered_fields(simulation: Any, fields: Fields, dynamics: Any, packed: Any) -> Any:
    """The program of `fields_of_tiles`, not yet compiled, for a System and a carry of the step loop, or shapes."""
    return _diagnose.lower(dynamics, simulation.stepper, packed, jnp.int32(0), fields)


def shapes_of_fields(simulation: Any, fields: Fields, dynamics: Any, packed: Any) -> dict[str, Any]:
    """{name: shape and type} of the result of `fields_of_tiles`; the arguments are those of `lowered_fields`."""
    return jax.eval_shape(
        functools.partial(_diagnose, fields=fields), dynamics, simulation.stepper, packed, jnp.int32(0)
    )


def fields_of_tiles(simulation: Any, names: Sequence[str]) -> dict[str, jax.Array]:
    """{name: tile arrays of the present state}, on faces with those on the low side where they are not periodic."""
    dynamics, packed = simulation.packed()
    fields = Fields.of(simulation, names)
    return _diagnose(dynamics, simulation.stepper, packed, jnp.int32(simulation.step), fields)


def gathered_fields(model: Any, tiles: dict[str, jax.Array]) -> Iterator[tuple[str, np.ndarray | None]]:
    """Yield (name, global array (ny, nx) on the root, None elsewhere) of `fields_of_tiles`; collective.

    Arrays on faces have n + 1 entries in directions that are not periodic. A field is gathered when it is its turn, and
    its tiles are forgotten then. Nothing is gathered before the first turn.
    """
    for name in list(tiles):
        yield name, model.gather(tiles.pop(name))
