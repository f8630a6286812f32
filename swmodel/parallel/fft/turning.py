"""The one message of a distributed transform: every rank of a line gives each of the others its share of the columns.

`turn` makes an axis whole that was split over a line of the mesh, and splits another: of (..., m, p b), the rank's m
of n rows and all columns, it makes (..., b, n), the rank's b columns with all rows. The axes change places, so that the
one that has become whole is the last, along which transforms run; `turn_back` is its inverse and its transpose. Blocks
are equal: columns are padded at the end, by whoever calls, and rows at the start of each block that is smaller, as
tiles are (decomposition.py).
"""
import jax.numpy as jnp
import numpy as np

__all__ = ["turn", "turn_back", "coordinate", "columns_for"]


def turn(x, communicator, axis, rows):
    """(..., m, p b) to (..., b, n).

    Args:
        x: this rank's block; m is the largest of `rows`.
        axis: "y" or "x" of the mesh, with p ranks.
        rows: how many rows each of the p ranks has of its own, at the end of its block; n in all.
    """
    p, (*lead, m, width) = len(rows), x.shape
    if p == 1:
        return jnp.swapaxes(x, -1, -2)
    k = len(lead)
    blocks = x.reshape(*lead, m, p, width // p)
    blocks = _exchanged(blocks.transpose(k + 1, *range(k), k + 2, k), communicator, axis)
    if min(rows) < m:
        return jnp.concatenate([block[..., m - own :] for block, own in zip(blocks, rows)], axis=-1)
    return jnp.moveaxis(blocks, 0, -2).reshape(*lead, width // p, p * m)


def turn_back(x, communicator, axis, rows):
    """(..., b, n) to (..., m, p b): the inverse of `turn`, with zeros before the rows of smaller blocks."""
    p, m, (*lead, b, _) = len(rows), max(rows), x.shape
    if p == 1:
        return jnp.swapaxes(x, -1, -2)
    k = len(lead)
    if min(rows) < m:
        ends = np.cumsum(rows)
        widths = lambda own: [(0, 0)] * (k + 1) + [(m - own, 0)]  # noqa: E731
        blocks = jnp.stack([jnp.pad(x[..., end - own : end], widths(own)) for end, own in zip(ends, rows)])
    else:
        blocks = jnp.moveaxis(x.reshape(*lead, b, p, m), -2, 0)
    blocks = _exchanged(blocks, communicator, axis)
    return blocks.transpose(*range(1, k + 1), k + 2, 0, k + 1).reshape(*lead, m, p * b)


def _exchanged(blocks, communicator, axis):
    return communicator.all_to_all(blocks.reshape(blocks.shape[0], -1), axis).reshape(blocks.shape)


def coordinate(communicator, axis):
    """This rank's number along a mesh axis: what the others sent it, so that all ranks run one program."""
    p = communicator.along(axis)
    return communicator.all_to_all(jnp.arange(p)[:, None], axis)[0, 0] if p > 1 else 0


def columns_for(x, total):
    """x with zeros after its last column, `total` in all."""
    missing = total - x.shape[-1]
    return x if missing == 0 else jnp.pad(x, [(0, 0)] * (x.ndim - 1) + [(0, missing)])
