"""Packing and unpacking of the messages of a transform: blocks of an array, with two axes exchanged.

    split(x, ranks, block)    (..., m, w) to (p, ..., b, m): rank k's b columns, transposed; zeros beyond the last one
    join(y, rows)             (p, ..., b, m) to (..., b, n): of the m rows of rank k the last rows[k], its own

with `across`, x is (..., m, l, w) and rows are its axis -3: (..., m, l, w) to (p, ..., l, b, m). `split_back` and
`join_back` undo them, and are their transposes. On CPUs with a compiler each is one pass over memory, of tiles
(native/primitives.py).
"""

import math
from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np

from ...stencils.native.primitives import Block, declare_linear, movable, move

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
