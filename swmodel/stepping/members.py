"""Many members in one program: what differs between them has one more axis, in front, over which JAX's vmap maps.

A tile's arrays of shape (ny, nx) become (members, ny, nx), with any communicator; one message carries all members.
Values that are the same in all members are stored, and computed, once.
"""

import functools
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import jax
import jax.numpy as jnp

from ..fields.state import pytree, static
from ..parallel.communicator import Communicator
from ..runtime.compilation import jit

if TYPE_CHECKING:
    from ..dynamics.system import System

SAME, FIELD, NUMBER = 0, 1, 2
T = TypeVar("T")


@pytree
class Members:
    """The System of all members.

    Attributes:
        dynamics: a System, in which leaves that differ have the members in front.
        kinds: of its leaves: SAME in all members, a FIELD of each, or a NUMBER of each, in an array (members, 1).
    """

    dynamics: Any
    kinds: tuple = static()

    @property
    def communicator(self) -> Communicator:
        return self.dynamics.communicator


def stacked(communicator: Communicator, trees: Sequence[T], kinds: Sequence[int]) -> T:
    """One pytree of many of the same structure, with leaves of a kind other than SAME stacked along a first axis.

    Numbers become arrays (members, 1), because a vector (members,) could be mistaken for one along a tile.
    """
    leaves = [jax.tree.leaves(tree) for tree in trees]
    differ = [k for k, kind in enumerate(kinds) if kind != SAME]
    columns = [[jnp.asarray(member[k]) for member in leaves] for k in differ]
    new = dict(zip(differ, _joined(communicator, tuple(kinds[k] for k in differ), columns)))
    return jax.tree.unflatten(jax.tree.structure(trees[0]), [new.get(k, x) for k, x in enumerate(leaves[0])])


@functools.partial(jit, static_argnums=(0, 1))
def _joined(communicator, kinds, columns):
    def join(columns):
        whole = [jnp.stack(column) for column in columns]
        return [x[:, None] if kind == NUMBER else x for kind, x in zip(kinds, whole)]

    return communicator.spmd(join)(columns) if columns else []


def first_member(members: Members) -> "System":
    """Shapes of the System of one member, for traces that need no values."""
    leaves, structure = jax.tree.flatten(members.dynamics)
    first = {SAME: lambda x: x, FIELD: lambda x: x[0], NUMBER: lambda x: x[0, 0]}

    def cut(leaves):
        return [first[kind](x) for x, kind in zip(leaves, members.kinds)]

    return jax.tree.unflatten(structure, jax.eval_shape(members.communicator.spmd(cut), leaves))


def per_member(function: Callable, at: int) -> Callable:
    """`function(dynamics, *arguments)` with Members for its dynamics.

    Args:
        function: of one System and arrays of one member.
        at: the number of the argument after the dynamics that holds all members. Its arrays have the members as first
            axis, and its numbers belong to all of them. The same holds for the results.
    """

    def of_all(dynamics, *arguments):
        leaves, structure = jax.tree.flatten(dynamics.dynamics)
        leaves = [x[:, 0] if kind == NUMBER else x for x, kind in zip(leaves, dynamics.kinds)]
        axes = jax.tree.unflatten(structure, [None if kind == SAME else 0 for kind in dynamics.kinds])
        held = [None] * len(arguments)
        held[at] = jax.tree.map(lambda x: 0 if jnp.ndim(x) else None, arguments[at])
        results = jax.vmap(function, in_axes=(axes, *held))(jax.tree.unflatten(structure, leaves), *arguments)
        return jax.tree.map(lambda x: x[0] if x.ndim == 1 else x, results)

    return of_all
