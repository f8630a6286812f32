"""The distributed transposition of a transform: every rank of a line sends each of the others its share of columns.

`transpose_axes` gathers an axis that was split over a line of the mesh, and splits another one. From (..., m, p b), the
rank's m of n rows with all columns, it makes (..., b, n), the rank's b columns with all rows. The gathered axis becomes
the last one, along which transforms are computed. `transpose_axes_back` is its inverse and its transpose. All blocks
have one size: columns are padded at the end, and rows at the start of each smaller block, as tiles are
(decomposition.py).

Transforms of a few lines at a time, which stay in the cache from one operation to the next.

    joined(y, rows, kind)       kind.forward(join(y, rows)): received blocks, joined and transformed
    parted(x, rows, kind, n)    join_back(kind.inverse(x, n), rows): its inverse
    planes(function, x)         function(x) of planes (..., m, n)

Each is one JAX expression, as are its derivatives. On CPUs it is a loop over pieces that fit in a core's cache.

Packing and unpacking of the messages: blocks of an array, with two axes exchanged.

    split(x, ranks, block)    (..., m, w) to (p, ..., b, m): rank k's b columns, transposed; zeros beyond the last one
    join(y, rows)             (p, ..., b, m) to (..., b, n): of the m rows of rank k the last rows[k], its own

with `across`, x is (..., m, l, w) and rows are its axis -3: (..., m, l, w) to (p, ..., l, b, m). `split_back` and
`join_back` undo them, and are their transposes. On CPUs with a compiler each is one pass over memory, of tiles
(native/primitives.py).
"""

import math
from collections.abc import Callable, Sequence

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from ...stencils.native import empty
from ...stencils.native.primitives import Block, declare_linear, movable, move
from ..communicator import Communicator
from .kinds import Kind, Unchanged

BYTES_AT_ONCE = 1 << 21
WHOLE = Unchanged()

# -- columns to ranks -------------------------------------------------------------------------------------------------


def _split_shape(shape, ranks, block, across):
    *lead, m, width = shape if not across else (*shape[:-3], shape[-2], shape[-3], shape[-1])
    return (ranks, *lead, block, m)


def _split_blocks(shape, ranks, block, across):
    """(blocks, zeros) of `split`."""
    lines, m, width = (shape[-2], shape[-3], shape[-1]) if across else (1, shape[-2], shape[-1])
    lead = math.prod(shape[: -3 if across else -2])
    taken, given = (m * lines * width, width, 1, lines * width), (lines * block * m, block * m, m, 1)
    blocks, zeros = [], []
    for k in range(ranks):
        own, start = min(max(width - k * block, 0), block), k * lead * lines * block * m
        if own:
            blocks.append(Block(k * block, start, (lead, lines, own, m), taken, given))
        if own < block:
            zeros.append(Block(None, start + own * m, (lead, lines, block - own, m), (0,) * 4, given))
    return blocks, zeros


def _split_plainly(x, ranks, block, across):
    x = jnp.swapaxes(x, -3, -2) if across else x
    *lead, m, width = x.shape
    x = jnp.pad(x, [(0, 0)] * (len(lead) + 1) + [(0, ranks * block - width)])
    k = len(lead)
    return x.reshape(*lead, m, ranks, block).transpose(k + 1, *range(k), k + 2, k)


def _split_natively(x, ranks, block, across):
    if not movable(x.dtype):
        return _split_plainly(x, ranks, block, across)
    return move(x, _split_shape(x.shape, ranks, block, across), sum(_split_blocks(x.shape, ranks, block, across), []))


def _back_shape(shape, width, across):
    _, *lead, _, m = shape
    return (*lead[:-1], m, lead[-1], width) if across else (*lead, m, width)


def _split_back_plainly(y, width, across):
    ranks, *lead, block, m = y.shape
    k = len(lead)
    x = y.transpose(*range(1, k + 1), k + 2, 0, k + 1).reshape(*lead, m, ranks * block)[..., :width]
    return jnp.swapaxes(x, -3, -2) if across else x


def _split_back_natively(y, width, across):
    if not movable(y.dtype):
        return _split_back_plainly(y, width, across)
    shape = _back_shape(y.shape, width, across)
    blocks, _ = _split_blocks(shape, y.shape[0], y.shape[-2], across)
    return move(y, shape, [block.back() for block in blocks])


# -- rows of ranks ----------------------------------------------------------------------------------------------------


def _join_blocks(shape, rows):
    """(blocks, zeros) of `join_back`, the other way round."""
    ranks, *lead, block, m = shape
    lines, n, end = math.prod(lead) * block, sum(rows), 0
    blocks, zeros = [], []
    for k, own in enumerate(rows):
        start, end = k * lines * m, end + own
        blocks.append(Block(start + m - own, end - own, (lines, own), (m, 1), (n, 1)))
        if own < m:
            zeros.append(Block(None, start, (lines, m - own), (0, 0), (m, 1)))
    return blocks, zeros


def _join_shape(shape, rows):
    return (*shape[1:-1], sum(rows))


def _join_back_shape(shape, rows):
    return (len(rows), *shape[:-1], max(rows))


def _join_plainly(y, rows):
    _, *lead, block, m = y.shape
    if min(rows) < m:
        return jnp.concatenate([part[..., m - own :] for part, own in zip(y, rows)], axis=-1)
    return jnp.moveaxis(y, 0, -2).reshape(*lead, block, len(rows) * m)


def _join_natively(y, rows):
    if not movable(y.dtype):
        return _join_plainly(y, rows)
    return move(y, _join_shape(y.shape, rows), _join_blocks(y.shape, rows)[0])


def _join_back_plainly(x, rows):
    *lead, block, _ = x.shape
    m = max(rows)
    if min(rows) < m:
        ends = np.cumsum(rows)
        widths = lambda own: [(0, 0)] * (x.ndim - 1) + [(m - own, 0)]  # noqa: E731
        return jnp.stack([jnp.pad(x[..., end - own : end], widths(own)) for end, own in zip(ends, rows)])
    return jnp.moveaxis(x.reshape(*lead, block, len(rows), m), -2, 0)


def _join_back_natively(x, rows):
    if not movable(x.dtype):
        return _join_back_plainly(x, rows)
    shape = _join_back_shape(x.shape, rows)
    blocks, zeros = _join_blocks(shape, rows)
    return move(x, shape, [block.back() for block in blocks] + zeros)


# -- as primitives ----------------------------------------------------------------------------------------------------


# Members' axis lies behind that of ranks, if there is one.
_split = declare_linear(
    "fft_split",
    _split_plainly,
    _split_natively,
    (0, 1),
    lambda y, shape, ranks, block, across: _split_back(y, width=shape[-1], across=across),
)
_split_back = declare_linear(
    "fft_split_back",
    _split_back_plainly,
    _split_back_natively,
    (1, 0),
    lambda x, shape, width, across: _split(x, ranks=shape[0], block=shape[-2], across=across),
)
_join = declare_linear(
    "fft_join", _join_plainly, _join_natively, (1, 0), lambda x, shape, rows: _join_back(x, rows=rows)
)
_join_back = declare_linear(
    "fft_join_back", _join_back_plainly, _join_back_natively, (0, 1), lambda y, shape, rows: _join(y, rows=rows)
)


def split(x: jax.Array, ranks: int, block: int, across: bool = False) -> jax.Array:
    return _split(x, ranks=ranks, block=block, across=across)


def split_back(y: jax.Array, width: int, across: bool = False) -> jax.Array:
    return _split_back(y, width=width, across=across)


def join(y: jax.Array, rows: Sequence[int]) -> jax.Array:
    return _join(y, rows=tuple(rows))


def join_back(x: jax.Array, rows: Sequence[int]) -> jax.Array:
    return _join_back(x, rows=tuple(rows))


def _at_once(count, size):
    """How many of `count` pieces of `size` bytes to take at a time: a divisor of `count`, or all if none suits."""
    wanted = max(BYTES_AT_ONCE // size, 1)
    if wanted >= count:
        return count
    found = next(k for k in range(wanted, 0, -1) if count % k == 0)
    return found if 8 * found > wanted else count


def planes(function: Callable[[jax.Array], jax.Array], x: jax.Array) -> jax.Array:
    """`function` of planes (..., m, n), each by itself."""
    *lead, m, n = x.shape
    together = _at_once(math.prod(lead), m * n * x.dtype.itemsize)
    if together == math.prod(lead) or jax.default_backend() != "cpu":
        return function(x)
    found = lax.map(function, x.reshape(-1, together, m, n))
    return found.reshape(*lead, *found.shape[2:])


def _joined_at_once(y, rows, kind):
    return kind.forward(join(y, rows))


def _joined_by_lines(y, rows, kind):
    p, *lead, m = y.shape
    found = _by_pieces(lambda y: _joined_at_once(y, rows, kind), y.reshape(p, -1, m), 1, 0, sum(rows))
    return found.reshape(*lead, found.shape[-1])


def _parted_at_once(x, rows, kind, n):
    return join_back(kind.inverse(x, n), rows)


def _parted_by_lines(x, rows, kind, n):
    *lead, modes = x.shape
    found = _by_pieces(lambda x: _parted_at_once(x, rows, kind, n), x.reshape(-1, modes), 0, 1, n)
    return found.reshape(found.shape[0], *lead, found.shape[-1])


def _by_pieces(function, x, axis, to, n):
    """function(x), piece by piece along `axis` of x, which is axis `to` of the result; lines have n numbers."""
    count = x.shape[axis]
    together = _at_once(count, n * x.dtype.itemsize)
    if together == count:
        return function(x)

    def some(k):
        return function(lax.dynamic_slice_in_dim(x, k * together, together, axis))

    piece = jax.eval_shape(some, jnp.int32(0))
    shape = (*piece.shape[:to], count, *piece.shape[to + 1 :])

    def body(k, found):
        return lax.dynamic_update_slice_in_dim(found, some(k), k * together, to)

    return lax.fori_loop(0, count // together, body, empty(shape, piece.dtype, [x]))


# The axis of members follows that of ranks, if there is one.
_joined = declare_linear("fft_joined", _joined_at_once, _joined_by_lines, (1, 0))
_parted = declare_linear("fft_parted", _parted_at_once, _parted_by_lines, (0, 1))


def joined(y: jax.Array, rows: Sequence[int], kind: Kind) -> jax.Array:
    """(p, ..., b, m) to (..., b, modes): of the m rows of rank k the last rows[k], its own, transformed."""
    return _joined(y, rows=tuple(rows), kind=kind)


def parted(x: jax.Array, rows: Sequence[int], kind: Kind, n: int) -> jax.Array:
    """(..., b, modes) to (p, ..., b, m) of n points, of which rank k gets rows[k]."""
    return _parted(x, rows=tuple(rows), kind=kind, n=n)


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
