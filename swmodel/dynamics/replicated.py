"""Parameters that every rank holds alike, on their way into arithmetic with tiles.

A number of Dynamics or of a stepper (gravity, a drag coefficient, dt) is the same on all ranks. Where it meets a tile's
arrays each rank finds the part of its gradient that comes from its own tile; `communicator.replicated` adds these parts
up. `entered` does that for every such leaf of a Dynamics, `numbers_entered` for every leaf of a stepper: when Equations
are made of the Dynamics, and nowhere else. So Dynamics and steppers hold plain numbers, Equations those that have
entered, and a number that would enter twice, itself or what was computed from it, is refused: its gradient would be too
large by the number of ranks.
"""

import jax
import jax.numpy as jnp

from ..fields.pytrees import replace

__all__ = ["entered", "numbers_entered"]


def entered(dynamics):
    """Dynamics whose replicated leaves may meet tiles: identity forwards, a sum over ranks of the cotangents back.

    By shape, as `communicator.place` has it: leaves of fewer than two dimensions are held alike by all ranks; metrics
    and Coriolis parameters in columns (rows, 1) by the ranks along x. Ghost rows of such columns are each tile's own.
    What says how tiles lie beside each other (Sides) is no parameter and is left alone.
    """
    communicator, tile = dynamics.communicator, dynamics.tile
    numbers = lambda tree: numbers_entered(tree, communicator)  # noqa: E731
    columns = lambda tree: jax.tree.map(lambda x: _column_entered(x, communicator), tree)  # noqa: E731
    return replace(
        dynamics,
        gravity=numbers(dynamics.gravity),
        terms=numbers(dynamics.terms),
        opens=numbers(dynamics.opens),
        uplift=numbers(dynamics.uplift),
        tracers=numbers(dynamics.tracers),
        core=numbers(dynamics.core),
        tile=replace(tile, metrics=columns(tile.metrics), coriolis=columns(tile.coriolis)),
    )


def numbers_entered(tree, communicator):
    """A pytree whose real leaves of fewer than two dimensions may meet tiles."""
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
    """Python's numbers are none: they have no derivative, and take the precision of the arrays that they meet."""
    return isinstance(x, jax.Array) and jnp.issubdtype(x.dtype, jnp.inexact)
