"""Parameters that are the same on every rank, and their gradients.

A number of a System or of a stepper (gravity, a drag coefficient, dt) is the same on all ranks. Where it is combined
with a tile's arrays, each rank computes the part of its gradient that comes from its own tile. The operation
`communicator.replicated` is the identity, and its transpose adds these parts up. `mark_numbers` applies it to every
such leaf. This happens where a System is prepared (system.py), and nowhere else.

So Systems on tiles and steppers hold plain numbers, and prepared ones hold numbers to which `replicated` has been
applied. Applied
twice, it would make the gradient too large by the number of ranks. So a number to which it has been applied already, or
that was computed from such a number, raises ValueError.
"""

from typing import TypeVar

import jax
import jax.numpy as jnp

from ..fields.pytrees import replace
from ..grids.geometry import TileGeometry
from ..parallel.communicator import Communicator

__all__ = ["mark_columns", "mark_numbers"]

T = TypeVar("T")


def mark_columns(tile: TileGeometry, communicator: Communicator) -> TileGeometry:
    """A TileGeometry with `replicated` applied to its metrics and Coriolis parameters.

    Those in columns (rows, 1) are the same on the ranks along x; the ghost rows of such columns are each tile's own.
    Sides describe the neighbours of a tile; they are not parameters and are left alone.
    """
    columns = lambda tree: jax.tree.map(lambda x: _mark_column(x, communicator), tree)  # noqa: E731
    return replace(tile, metrics=columns(tile.metrics), coriolis=columns(tile.coriolis))


def mark_numbers(tree: T, communicator: Communicator) -> T:
    """A pytree with `replicated`, the identity whose transpose sums over ranks, applied to its replicated leaves.

    The shape of a leaf decides, as in `communicator.place`: real leaves of fewer than two dimensions are the same on
    all ranks.

    Raises:
        ValueError: for a number to which `replicated` has been applied already.
    """
    return jax.tree.map(lambda x: _mark(x, communicator) if _is_real(x) and x.ndim < 2 else x, tree)


def _mark(x, communicator):
    if communicator.is_marked_replicated(x):
        raise ValueError(
            "System: communicator.replicated has been applied already to one of its numbers, or of the stepper's, "
            "or to one that it was computed from, and `prepare` applies it itself; give the plain number, because "
            "otherwise its gradient would be too large by the number of ranks."
        )
    return communicator.replicated(x)


def _mark_column(x, communicator):
    if _is_real(x) and x.ndim == 2 and x.shape[-1] == 1:
        return communicator.replicated(x, axis="x")
    return mark_numbers(x, communicator)


def _is_real(x):
    """Whether x is a real JAX array. Python's numbers are not: they have no derivative."""
    return isinstance(x, jax.Array) and jnp.issubdtype(x.dtype, jnp.inexact)
