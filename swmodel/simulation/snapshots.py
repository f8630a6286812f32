"""Snapshots of every few steps, which stay on the device until a chunk of steps is complete.

If each snapshot ended a chunk, the time between two chunks, which is that of several steps, would be spent on each.
"""

import math
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ..fields.pytrees import pytree, static
from ..fields.state import State
from ..output.gathering import Fields, fields_at, shapes_of_fields
from ..stencils.native import push_slot

__all__ = ["Snapshots"]

MOST_STEPS = 64  # between two snapshots; the chunks that less frequent ones end are long enough
MOST_RECORDS = 12  # that wait on the device: a run that is killed loses them
MOST_BYTES = 64_000_000  # of gathered snapshots, which one process holds to write them


@pytree
class Snapshots:
    """Fields of the steps that are multiples of `every`, in arrays of `capacity` slots.

    Attributes:
        fields: which fields.
        every: [steps].
        capacity: the largest number of snapshots in one chunk of steps.
    """

    fields: Fields = static()
    every: int = static()
    capacity: int = static()

    @staticmethod
    def of(simulation: Any, fields: Fields, every: float | None, record: int) -> "Snapshots | None":
        """The Snapshots of a file; None if each record has to end a chunk.

        Args:
            simulation: the Simulation.
            fields: which fields.
            every: the interval between two records [s].
            record: the bytes of a record that one process holds to write it (`FieldOutput.bytes_of_record`).
        """
        model, steps = simulation.model, 0.0 if every is None else every / simulation.dt
        capacity = min(MOST_RECORDS, MOST_BYTES // record)
        whole = 1 <= round(steps) <= MOST_STEPS and math.isclose(steps, round(steps), rel_tol=1e-9)
        # Chunks of whole cycles of the stepper's buffers end without copies of arrays.
        cycle = simulation.scheme.buffer_cycle
        capacity -= capacity % cycle if capacity > cycle else 0
        if not whole or capacity < 2 or model.members is not None or model.communicator.name == "sharded":
            return None
        return Snapshots(fields, round(steps), capacity)

    def start(self, simulation: Any, packed: Any) -> dict[str, jax.Array]:
        """{name: slots (capacity, my, mx)} of this rank's tile, for a carry of the step loop, or its shapes."""
        shapes = shapes_of_fields(simulation, self.fields, simulation.outline(), packed)
        return {name: jnp.zeros((self.capacity, *x.shape), x.dtype) for name, x in shapes.items()}

    def update(
        self,
        slots: dict[str, jax.Array],
        get_state: Callable[[], State],
        step: jax.Array,
        equations: Any,
        as_shown: Any,
        rigid_lid: bool = False,
    ) -> dict[str, jax.Array]:
        """The slots after step number `step`; the arguments are those of Sampled.update."""

        def pushed():
            found = fields_at(equations, get_state(), step, self.fields)
            new, _ = push_slot(list(slots.values()), [found[name] for name in slots], self._slot(step))
            return dict(zip(slots, new))

        return jax.lax.cond(step % self.every == 0, pushed, lambda: slots)

    def _slot(self, step):
        return step // self.every % self.capacity

    def next_end(self, step: int) -> int:
        """The step at which a chunk that begins at `step` has filled all slots."""
        return (step // self.every + self.capacity) * self.every

    def steps(self, first: int, last: int) -> list[int]:
        """The numbers of the steps after `first`, up to `last`, of which there are snapshots."""
        return [n * self.every for n in range(first // self.every + 1, last // self.every + 1)]

    def read(self, slots: dict[str, jax.Array], steps: list[int]) -> dict[str, np.ndarray]:
        """{name: host array (len(steps), my, mx)}, copies of the snapshots of these steps."""
        places = [self._slot(step) for step in steps]
        return {name: np.asarray(slots[name])[places] for name in self.fields.names}
