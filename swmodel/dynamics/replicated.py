"""Parameters that are the same on every rank, and their gradients.

A number of Dynamics or of a stepper (gravity, a drag coefficient, dt) is the same on all ranks. Where it is combined
with a tile's arrays, each rank finds the part of its gradient that comes from its own tile. `communicator.replicated`
adds these parts up in the backward pass. `entered` applies it to every such leaf of a Dynamics, and `numbers_entered`
to every leaf of a stepper. This happens when Equations are made of the Dynamics, and nowhere else.

So Dynamics and steppers hold plain numbers, and Equations hold numbers to which `replicated` has been applied. If it
were applied twice, the gradient would be too large by the number of ranks; so a number that has gone through it, or
that was computed from one that has, is refused.
"""

from typing import Any

import jax
import jax.numpy as jnp

from ..fields.pytrees import replace

__all__ = ["entered", "numbers_entered"]


def entered(dynamics: Any) -> Any:
    """Dynamics with `replicated`, the identity whose transpose sums over ranks, applied to their replicated leaves.

    The shape of a leaf decides, as in `communicator.place`. Leaves of fewer than two dimensions are the same on all
    ranks. Metrics and Coriolis parameters in columns (rows, 1) are the same on the ranks along x; the ghost rows of
    such columns are each tile's own. Sides describe the neighbours of a tile; they are not parameters and are left
    alone.

    Raises:
        ValueError: for a number to which `replicated` has been applied already.
    """
    communicator, tile = dynamics.communicator, dynamics.tile
    numbers = lambda tree: numbers_entered(tree, communicator)  # noqa: E731
    columns = lambda tree: jax.tree.map(lambda x: _column_entered(x, communicator), tree)  # noqa: E731
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


def numbers_entered(tree: Any, communicator: Any) -> Any:
    """A pytree with `replicated` applied to its real leaves of fewer than two dimensions."""
    return jax.tree.map(lambda x: _entered(x, communicator) if _is_real(x) and x.ndim < 2 else x, tree)


def _entered(x, communicator):
    if communicator.has_entered(x):
        raise ValueError(
            "Dynamics: one of their numbers, or of the stepper's, has gone through communicator.replicated already, or "
            "was computed from one that has, and they do so by themselves; give the number as it is, or its gradient "
            "would be too large by the number of ranks."
        )
    return communicator.replicated(x)


def _column_entered(x, communicator):
    if _is_real(x) and x.ndim == 2 and x.shape[-1] == 1:
        return communicator.replicated(x, axis="x")
    return numbers_entered(x, communicator)


def _is_real(x):
    """Whether x is a real JAX array. Python's numbers are not: they have no derivative."""
    return isinstance(x, jax.Array) and jnp.issubdtype(x.dtype, jnp.inexact)
