"""Leaves of pytrees: which are real numbers, which are differentiated, which are read; and rooms for many of them."""

from collections.abc import Iterable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jax.extend.core import Literal

from ...stencils import Slot, evaluate_storing
from ...stencils.native import empty, push_slot, read_slot

__all__ = ["Floats", "Rows", "inputs_read", "keep", "perturbed", "put", "room", "taken"]


class Floats:
    """The shapes of a pytree, and which of its leaves are real numbers."""

    def __init__(self, tree: Any):
        leaves, self._structure = jax.tree.flatten(tree)
        self.leaves = [jax.ShapeDtypeStruct(x.shape, x.dtype) for x in leaves]
        self.real = [jnp.issubdtype(x.dtype, jnp.floating) for x in leaves]

    def tree(self, leaves: Iterable) -> Any:
        return jax.tree.unflatten(self._structure, leaves)

    @property
    def shapes(self) -> Any:
        return self.tree(self.leaves)

    def floats(self, leaves: Iterable) -> list:
        return [x for x, real in zip(leaves, self.real) if real]

    def merged(self, leaves: Iterable, floats: Iterable) -> list:
        """`leaves` with other real numbers."""
        floats = iter(floats)
        return [next(floats) if real else x for x, real in zip(leaves, self.real)]


class Rows:
    """The leaves of a carry that a step back reads, in rooms with a row for each step.

    What a step passes on as another leaf (an earlier state that a stepper remembers) is kept once: it lies in the row
    before, and the rows before the first step hold the history that the run began with.

    Args:
        inputs, outputs: of a step's jaxpr, the leaves in order.
        read: for each leaf whether it is kept.

    Attributes:
        roots: the leaves that are kept.
        places: for each leaf (number of its room, how many rows before), or None.
        before: {(root, how many rows before the first step): the leaf that lies there}.
        earlier: how many rows there are before the first step.
    """

    def __init__(self, inputs: Sequence, outputs: Sequence, read: Sequence[bool]):
        passed = {k: inputs.index(x) for k, x in enumerate(outputs) if x in inputs}
        self.before, self.roots = {}, []
        self.places: list[tuple[int, int] | None] = [None] * len(read)
        for leaf in (k for k, needed in enumerate(read) if needed):
            line = _line(leaf, passed)
            past = {(line[-1], len(line) - 1 - k): one for k, one in enumerate(line[:-1])}
            if any(self.before.get(place, one) != one for place, one in past.items()):
                line, past = [leaf], {}  # two leaves become one, and may have begun with different values
            self.before |= past
            self.roots += [line[-1]] * (line[-1] not in self.roots)
            self.places[leaf] = self.roots.index(line[-1]), len(line) - 1
        self.earlier = max((lag for _, lag in self.before), default=0)

    def begin(self, leaves: Sequence, most: int) -> tuple[list, list]:
        """(rooms for `most` steps, the leaves before the first step: use these from there on)."""
        rooms, leaves = room([leaves[root] for root in self.roots], most + self.earlier), list(leaves)
        for (root, lag), leaf in self.before.items():
            k = self.roots.index(root)
            (rooms[k],), (leaves[leaf],) = push_slot([rooms[k]], [leaves[leaf]], self.earlier - lag)
        return rooms, leaves

    def keep(self, rooms: Sequence, k: Any, jaxpr: Any, constants: Sequence, arguments: Sequence) -> tuple[list, list]:
        """(rooms with the leaves before step number k, the results of the jaxpr of that step)."""
        by_root = dict(zip(self.roots, rooms))
        by_root, results = evaluate_storing(jaxpr, constants, arguments, by_root, k + self.earlier)
        return [by_root[root] for root in self.roots], results

    def leaves(self, rooms: Sequence, k: Any, shapes: Sequence) -> list:
        """All leaves before step number k, as Slots; zero where they are not kept."""
        zeros = (jnp.zeros(x.shape, x.dtype) for x in shapes)
        slots = [None if place is None else Slot(rooms[place[0]], k + self.earlier - place[1]) for place in self.places]
        return [zero if slot is None else slot for zero, slot in zip(zeros, slots)]


def _line(leaf, passed):
    """The leaf, the one that it was a step before, and so on; itself alone where it is handed round."""
    line = [leaf]
    while line[-1] in passed:
        line.append(passed[line[-1]])
        if len(line) > len(passed) + 1:
            return [leaf]
    return line


def room(tree: Any, count: int) -> Any:
    """Arrays for so many of a pytree."""
    return jax.tree.map(lambda x: empty((count, *jnp.shape(x)), jnp.result_type(x), [x]), tree)


def keep(rooms: Any, tree: Any, k: Any) -> tuple[Any, Any]:
    """(rooms with the arrays of a pytree in row k, the same pytree: use it from there on)."""
    leaves, structure = jax.tree.flatten(tree)
    rooms, leaves = push_slot(jax.tree.leaves(rooms), leaves, k)
    return structure.unflatten(rooms), structure.unflatten(leaves)


def put(rooms: Any, tree: Any, k: Any) -> Any:
    return jax.tree.map(lambda room, x: jax.lax.dynamic_update_index_in_dim(room, x, k, 0), rooms, tree)


def taken(rooms: Any, k: Any) -> Any:
    """What lies in row k of the arrays of a pytree."""
    leaves, structure = jax.tree.flatten(rooms)
    return structure.unflatten(read_slot(leaves, k))


def perturbed(arrays: Sequence) -> list[bool]:
    """For each array whether it is being differentiated, told by JAX's own bookkeeping."""
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


def inputs_read(closed: Any) -> list[bool]:
    """For each input of a jaxpr whether an output or a message depends on it; a loop counts as reading all it gets."""
    jaxpr = closed.jaxpr
    live = {v for v in jaxpr.outvars if not isinstance(v, Literal)}
    for equation in reversed(jaxpr.eqns):
        if equation.effects or not live.isdisjoint(equation.outvars):
            live.update(v for v in equation.invars if not isinstance(v, Literal))
    return [v in live for v in jaxpr.invars]
