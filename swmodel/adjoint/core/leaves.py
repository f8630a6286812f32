"""Leaves of pytrees: which are real, which are differentiated, which an adjoint reads; and what stores them.

Rows are buffers within a program. Points of a run are stored between programs: on the device, in the host's memory, or
in an unnamed temporary file. The operating system removes such a file when its last process ends, so that even a killed
run leaves nothing behind.
"""

import tempfile
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, TypeVar, cast

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend.core import ClosedJaxpr, Jaxpr

from ...errors import DataError
from ...fields.field import Count
from ...parallel.communicator import Communicator
from ...stencils import Slot, evaluate, evaluate_storing, merged, origins
from ...stencils.native import empty, push_slot, read_slot

T = TypeVar("T")


class Floats:
    """The shapes of a pytree, and which of its leaves are real numbers."""

    def __init__(self, tree: T):
        leaves, self._structure = jax.tree.flatten(tree)
        self.leaves = [jax.ShapeDtypeStruct(x.shape, x.dtype) for x in leaves]
        self.real = [jnp.issubdtype(x.dtype, jnp.floating) for x in leaves]

    def tree(self, leaves: Iterable) -> Any:
        """The pytree with these leaves."""
        return jax.tree.unflatten(self._structure, leaves)

    @property
    def shapes(self) -> Any:
        """The pytree of shapes."""
        return self.tree(self.leaves)

    def floats(self, leaves: Iterable) -> list:
        """Those of `leaves` that are real numbers."""
        return [x for x, real in zip(leaves, self.real) if real]

    def merged(self, leaves: Iterable, floats: Iterable) -> list:
        """`leaves` with other real numbers."""
        floats = iter(floats)
        return [next(floats) if real else x for x, real in zip(leaves, self.real)]


class Rows:
    """Storage for the leaves of a carry that the adjoint of a step reads: buffers with one row per step.

    A multistep scheme passes an earlier state on as another leaf of the carry. Such an array is stored once: its value
    is found in an earlier row. The rows that precede the first step hold the history with which the run began.

    Args:
        step: the jaxpr of a step, whose first arguments and results are the leaves of the carry.
        read: for each leaf, whether the adjoint of a step reads it.

    Attributes:
        roots: the leaves that are stored.
        places: for each leaf (the number of its buffer, how many rows earlier its value lies), or None.
        before: {(root, number of rows before the first step): the leaf whose first value is stored there}.
        earlier: the number of rows that precede the first step.
        lagging: the leaves whose values lie in earlier rows. A step reads them there, so that none is passed on.
    """

    def __init__(self, step: Jaxpr, read: Sequence[bool]):
        inputs, outputs = step.invars[: len(read)], origins(step)[: len(read)]
        passed = {k: inputs.index(x) for k, x in enumerate(outputs) if x in inputs}
        self.before, self.roots = {}, []
        self.places: list[tuple[int, int] | None] = [None] * len(read)
        for leaf in (k for k, needed in enumerate(read) if needed):
            line = _line(leaf, passed)
            past = {(line[-1], len(line) - 1 - k): one for k, one in enumerate(line[:-1])}
            if any(self.before.get(place, one) != one for place, one in past.items()):
                line, past = [leaf], {}  # both share an earlier leaf and may start from other values
            self.before |= past
            self.roots += [line[-1]] * (line[-1] not in self.roots)
            self.places[leaf] = self.roots.index(line[-1]), len(line) - 1
        self.earlier = max((lag for _, lag in self.before), default=0)
        self.lagging = [k for k, place in enumerate(self.places) if place is not None and place[1]]
        self._own = [k for k in range(len(read)) if k not in self.lagging]
        self._step = step
        if self.lagging:
            ends = [step.outvars[k] for k in self._own] + step.outvars[len(read) :]
            self._step = merged(step.replace(outvars=ends), dict(enumerate(self._own)))

    def allocate(self, leaves: Sequence, capacity: int) -> tuple[list, list]:
        """(buffers for `capacity` steps, the leaves before the first step, None for those that lag)."""
        buffers, leaves = buffers_for([leaves[root] for root in self.roots], capacity + self.earlier), list(leaves)
        for (root, lag), leaf in self.before.items():
            k = self.roots.index(root)
            (buffers[k],), _ = push_slot([buffers[k]], [leaves[leaf]], self.earlier - lag)
        return buffers, [None if k in self.lagging else leaf for k, leaf in enumerate(leaves)]

    def store(self, buffers: Sequence, k: Count, constants: Sequence, leaves: Sequence, *more: Any) -> tuple:
        """(buffers that also hold the leaves before step number k, the leaves after it, its other results).

        Args:
            buffers: those that hold the leaves before all earlier steps.
            k: number of the step.
            constants: of its jaxpr.
            leaves: of the carry before the step, None for those that lag: the step reads these in their rows.
            more: the other arguments of the jaxpr.
        """
        row = k + self.earlier
        if not self.lagging:
            by_root = dict(zip(self.roots, buffers))
            by_root, found = evaluate_storing(self._step, constants, [*leaves, *more], by_root, row)
            return [by_root[root] for root in self.roots], found[: len(leaves)], found[len(leaves) :]
        buffers, same = push_slot(buffers, [leaves[root] for root in self.roots], row)
        before = dict(enumerate(leaves)) | dict(zip(self.roots, same)) | self._slots(buffers, row)
        found = evaluate(ClosedJaxpr(self._step, constants), [*before.values(), *more])
        after = dict.fromkeys(self.lagging) | dict(zip(self._own, found))
        return buffers, [after[leaf] for leaf in range(len(leaves))], found[len(self._own) :]

    def filled(self, leaves: Sequence, buffers: Sequence, count: Count) -> list:
        """The leaves after `count` steps, those that lag as well."""
        slots = self._slots(buffers, count + self.earlier)
        return [slots[k].array if k in slots else leaf for k, leaf in enumerate(leaves)]

    def _slots(self, buffers, row):
        """{leaf that lags: its Slot} before the step whose leaves are in a row."""
        places = ((leaf, *cast(tuple[int, int], self.places[leaf])) for leaf in self.lagging)
        return {leaf: Slot(buffers[k], row - lag) for leaf, k, lag in places}

    def leaves(self, buffers: Sequence, k: Count, shapes: Sequence) -> list:
        """All leaves before step number k, as Slots; zeros for those that are not stored."""
        zeros = (jnp.zeros(x.shape, x.dtype) for x in shapes)
        slots = [
            None if place is None else Slot(buffers[place[0]], k + self.earlier - place[1]) for place in self.places
        ]
        return [zero if slot is None else slot for zero, slot in zip(zeros, slots)]


def _line(leaf, passed):
    """The leaf, the leaf that held its value one step earlier, and so on; the leaf alone where these form a cycle."""
    line = [leaf]
    while line[-1] in passed:
        line.append(passed[line[-1]])
        if len(line) > len(passed) + 1:
            return [leaf]
    return line


def buffers_for(tree: T, count: int) -> T:
    """Empty buffers (count, ...) for `count` copies of the arrays of a pytree."""
    return jax.tree.map(lambda x: empty((count, *jnp.shape(x)), jnp.result_type(x), [x]), tree)


def push_row(buffers: Any, tree: Any, k: Count) -> tuple[Any, Any]:
    """(buffers with the arrays of a pytree in row k, the same pytree, which replaces the one that was given)."""
    leaves, structure = jax.tree.flatten(tree)
    buffers, leaves = push_slot(jax.tree.leaves(buffers), leaves, k)
    return structure.unflatten(buffers), structure.unflatten(leaves)


def set_row(buffers: T, tree: T, k: Count) -> T:
    """Buffers with the arrays of a pytree in row k."""
    return jax.tree.map(lambda buffer, x: jax.lax.dynamic_update_index_in_dim(buffer, x, k, 0), buffers, tree)


def read_row(buffers: T, k: Count) -> T:
    """Row k of each array of a pytree."""
    leaves, structure = jax.tree.flatten(buffers)
    return structure.unflatten(read_slot(leaves, k))


def perturbed(arrays: Sequence) -> list[bool]:
    """For each array, whether JAX differentiates with respect to it at this point of a trace."""
    found = [False] * len(arrays)

    @jax.custom_vjp
    def probe(arrays):
        return arrays

    def forward(arrays):
        found[:] = [bool(x.perturbed) for x in arrays]
        return [x.value for x in arrays], None

    probe.defvjp(forward, lambda _, bars: (None,), symbolic_zeros=True)
    probe(arrays)
    return found


class Tiers:
    """Copies of points by number; the arrays that `get` returns may be donated.

    Args:
        communicator: the model's.
        copy: `copy(point)` returns a copy of a point.
        on_device: number of points that stay on the device; further ones go to the host's memory.
        folder: folder of the file; the system's folder for temporary files unless given.
    """

    def __init__(
        self, communicator: Communicator, copy: Callable[[Any], Any], on_device: int, folder: str | Path | None = None
    ):
        self.communicator, self.copy, self.on_device, self.folder = communicator, copy, on_device, folder
        self.device, self.host = {}, {}
        self.file: Slots | None = None

    def keep(self, number: int, point: Any, on_disk: bool = False) -> None:
        """Store a copy of a point."""
        if on_disk:
            self.file = self.file or Slots(self.folder)
            self.file.write(number, self._to_host(point))
        elif len(self.device) < self.on_device:
            self.device[number] = self.copy(point)
        else:
            self.host[number] = jax.tree.map(np.array, self._to_host(point))

    def get(self, number: int, last: bool = False) -> Any:
        """The point with this number; with `last` it is removed."""
        if number in self.device:
            return self.device.pop(number) if last else self.copy(self.device[number])
        if number in self.host:
            return self._to_device(self.host.pop(number) if last else self.host[number])
        if self.file is None:
            raise KeyError(number)
        return self._to_device(self.file.read(number, last))

    def close(self) -> None:
        """Release all points and the file."""
        self.device, self.host = {}, {}
        if self.file is not None:
            self.file.close()

    def _to_host(self, point):
        return {rank: jax.tree.map(np.asarray, tile) for rank, tile in self.communicator.tiles(point).items()}

    def _to_device(self, tiles):
        return self.copy(self.communicator.place(lambda rank: tiles[rank]))  # a device may use the host's memory


class Slots:
    """An unnamed file with one slot for each pytree; all pytrees have the same structure and shapes."""

    def __init__(self, folder: str | Path | None = None):
        try:
            self.file = tempfile.TemporaryFile(dir=folder, prefix="swmodel-")
        except OSError as error:
            raise DataError(
                f"checkpoints cannot be written to {folder or tempfile.gettempdir()} ({error.strerror}); "
                "name another folder."
            ) from error
        self.slots, self.free, self.structure = {}, [], None
        self.shapes: list[tuple[tuple[int, ...], Any]] = []

    def write(self, number: int, tree: object) -> None:
        """Write a pytree of host arrays; raises DataError if the disk is full."""
        leaves, self.structure = jax.tree.flatten(tree)
        self.shapes = [(x.shape, x.dtype) for x in leaves]
        slot = self.free.pop() if self.free else len(self.slots)
        try:
            self.file.seek(slot * sum(x.nbytes for x in leaves))
            for x in leaves:
                self.file.write(np.ascontiguousarray(x).reshape(-1).view(np.uint8).data)
            self.file.flush()
        except OSError as error:
            raise DataError(
                f"checkpoint {len(self.slots) + 1} could not be written ({error.strerror}); keep fewer on disk, "
                "or name a folder with more free space."
            ) from error
        self.slots[number] = slot

    def read(self, number: int, last: bool) -> Any:
        """The pytree with this number; with `last` its slot becomes free."""
        slot = self.slots.pop(number) if last else self.slots[number]
        arrays = [np.empty(shape, dtype) for shape, dtype in self.shapes]
        self.file.seek(slot * sum(x.nbytes for x in arrays))
        for x in arrays:
            self.file.readinto(x.reshape(-1).view(np.uint8).data)
        if last:
            self.free.append(slot)
        return jax.tree.unflatten(self.structure, arrays)

    def close(self) -> None:
        """Close the file, which removes it."""
        self.file.close()
