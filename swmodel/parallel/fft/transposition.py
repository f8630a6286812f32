"""The distributed transposition of a transform: every rank of a line sends each of the others its share of columns.

`transpose_axes` gathers an axis that was split over a line of the mesh, and splits another one. From (..., m, p b), the
rank's m of n rows with all columns, it makes (..., b, n), the rank's b columns with all rows. The gathered axis becomes
the last one, along which transforms are computed. `transpose_axes_back` is its inverse and its transpose. All blocks
have one size: columns are padded at the end, and rows at the start of each smaller block, as tiles are
(decomposition.py).
"""

from collections.abc import Sequence

import jax
import jax.numpy as jnp

from ..communicator import Communicator
from .kinds import Kind, Unchanged
from .lines import joined, parted
from .packing import split, split_back

__all__ = ["transpose_axes", "transpose_axes_back", "coordinate", "columns_for"]

WHOLE = Unchanged()


def transpose_axes(
    x: jax.Array,
    communicator: Communicator,
    axis: str,
    rows: Sequence[int],
    block: int | None = None,
    across: bool = False,
    kind: Kind = WHOLE,
) -> jax.Array:
    """(..., m, w) to (..., b, n), and to modes along the last axis.

    Args:
        x: this rank's block; m is the largest of `rows`.
        axis: "y" or "x" of the mesh, with p ranks.
        rows: the number of own rows of each of the p ranks, at the end of its block; their sum is n.
        block: b, the columns of each rank; w / p unless given. Columns beyond w are zero.
        across: the rows are the third axis from the end: (..., m, l, w) to (..., l, b, n).
        kind: the transform along the gathered axis.
    """
    p = len(rows)
    blocks = split(x, p, x.shape[-1] // p if block is None else block, across)
    if p == 1:
        return kind.forward(blocks[0])
    return joined(_exchanged(blocks, communicator, axis), rows, kind)


def transpose_axes_back(
    x: jax.Array,
    communicator: Communicator,
    axis: str,
    rows: Sequence[int],
    width: int | None = None,
    across: bool = False,
    kind: Kind = WHOLE,
) -> jax.Array:
    """(..., b, n) to (..., m, w): the inverse of `transpose_axes`, with zeros before the rows of smaller blocks.

    `width` is w, p b unless given; columns beyond it are dropped.
    """
    p = len(rows)
    n = sum(rows)
    blocks = kind.inverse(x, n)[None] if p == 1 else _exchanged(parted(x, rows, kind, n), communicator, axis)
    return split_back(blocks, p * x.shape[-2] if width is None else width, across)


def _exchanged(blocks, communicator, axis):
    return communicator.all_to_all(blocks.reshape(blocks.shape[0], -1), axis).reshape(blocks.shape)


def coordinate(communicator: Communicator, axis: str) -> jax.Array | int:
    """This rank's number along a mesh axis. It is received from the others, so that all ranks run one program."""
    p = communicator.along(axis)
    return communicator.all_to_all(jnp.arange(p)[:, None], axis)[0, 0] if p > 1 else 0


def columns_for(x: jax.Array, total: int) -> jax.Array:
    """x with zero columns appended, `total` columns in all."""
    missing = total - x.shape[-1]
    return x if missing == 0 else jnp.pad(x, [(0, 0)] * (x.ndim - 1) + [(0, missing)])
