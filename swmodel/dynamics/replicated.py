"""Parameters that are the same on every rank, and their gradients.

A number of Dynamics or of a stepper (gravity, a drag coefficient, dt) is the same on all ranks. Where it is combined
with a tile's arrays, each rank computes the part of its gradient that comes from its own tile. The operation
`communicator.replicated` is the identity, and its transpose adds these parts up. `mark_replicated` applies it to every
such leaf of a Dynamics, and `mark_numbers` to every leaf of a stepper. This happens where Equations are made of the
Dynamics, and nowhere else.

So Dynamics and steppers hold plain numbers, and Equations hold numbers to which `replicated` has been applied. Applied
twice, it would make the gradient too large by the number of ranks. So a number to which it has been applied already, or
that was computed from such a number, raises ValueError.
"""

from typing import Any

import jax
import jax.numpy as jnp

from ..fields.pytrees import replace

__all__ = ["mark_replicated", "mark_numbers"]


def mark_replicated(dynamics: Any) -> Any:
    """Dynamics with `replicated`, the identity whose transpose sums over ranks, applied to their replicated leaves.

    The shape of a leaf decides, as in `communicator.place`. Leaves of fewer than two dimensions are the same on all
    ranks. Metrics and Coriolis parameters in columns (rows, 1) are the same on the ranks along x; the ghost rows of
    such columns are each tile's own. Sides describe the neighbours of a tile; they are not parameters and are left
    alone.

    Raises:
        ValueError: for a number to which `replicated` has been applied already.
    """
    communicator, tile = dynamics.communicator, dynamics.tile
    numbers = lambda tree: mark_numbers(tree, communicator)  # noqa: E731
    columns = lambda tree: jax.tree.map(lambda x: _mark_column(x, communicator), tree)  # noqa: E731
    return replace(
        dynamics,
        gravity=numbers(dynamics.gravity),
        terms=numbers(dynamics.terms),
        open_boundaries=numbers(dynamics.open_boundaries),
        uplift=numbers(dynamics.uplift),
        tracers=numbers(dynamics.tracers),
        core=numbers(dynamics.core),
        tile=replace(tile, metrics=columns(tile.metrics), coriolis=columns(tile.coriolis)),
    )


def mark_numbers(tree: Any, communicator: Any) -> Any:
    """A pytree with `replicated` applied to its real leaves of fewer than two dimensions."""
    return jax.tree.map(lambda x: _mark(x, communicator) if _is_real(x) and x.ndim < 2 else x, tree)


def _mark(x, communicator):
    if communicator.is_marked_replicated(x):
        raise ValueError(
            "Dynamics: communicator.replicated has been applied already to one of their numbers, or of the stepper's, "
            "or to one that it was computed from, and Dynamics apply it themselves; give the plain number, because "
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
