"""Transforms of some lines after the others, which stay in the cache from one operation to the next.

    joined(y, rows, kind)       kind.forward(join(y, rows)): what messages brought, put together and transformed
    parted(x, rows, kind, n)    join_back(kind.inverse(x, n), rows): the way back
    planes(function, x)         function(x) of planes (..., m, n)

Each is one expression in JAX, and its own derivatives are; on CPUs it is a loop, whose pieces a core's cache holds.
"""

import math

import jax
import jax.numpy as jnp
from jax import lax

from ...stencils.native import vacant
from ...stencils.native.primitives import declare_linear
from .packing import join, join_back

__all__ = ["joined", "parted", "planes"]

BYTES_AT_ONCE = 1 << 21


def _at_once(count, size):
    """How many of `count` pieces of `size` bytes go together: a divisor; all where none is near what a cache holds."""
    wanted = max(BYTES_AT_ONCE // size, 1)
    if wanted >= count:
        return count
    found = next(k for k in range(wanted, 0, -1) if count % k == 0)
    return found if 8 * found > wanted else count


def planes(function, x):
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
    found = _in_turns(lambda y: _joined_at_once(y, rows, kind), y.reshape(p, -1, m), 1, 0, sum(rows))
    return found.reshape(*lead, found.shape[-1])


def _parted_at_once(x, rows, kind, n):
    return join_back(kind.inverse(x, n), rows)


def _parted_by_lines(x, rows, kind, n):
    *lead, modes = x.shape
    found = _in_turns(lambda x: _parted_at_once(x, rows, kind, n), x.reshape(-1, modes), 0, 1, n)
    return found.reshape(found.shape[0], *lead, found.shape[-1])


def _in_turns(function, x, axis, to, n):
    """function(x), whose axis `to` goes along the `axis` of x, with lines of n numbers along the last one."""
    count = x.shape[axis]
    together = _at_once(count, n * x.dtype.itemsize)
    if together == count:
        return function(x)

    def some(k):
        return function(lax.dynamic_slice_in_dim(x, k * together, together, axis))

    piece = jax.eval_shape(some, jnp.int32(0))
    shape = (*piece.shape[:to], count, *piece.shape[to + 1 :])

    def turn(k, found):
        return lax.dynamic_update_slice_in_dim(found, some(k), k * together, to)

    return lax.fori_loop(0, count // together, turn, vacant(shape, piece.dtype, [x]))


# Members' axis lies behind that of ranks, if there is one.
_joined = declare_linear("fft_joined", _joined_at_once, _joined_by_lines, (1, 0))
_parted = declare_linear("fft_parted", _parted_at_once, _parted_by_lines, (0, 1))


def joined(y, rows, kind):
    """(p, ..., b, m) to (..., b, modes): of m rows of rank k its own rows[k], the last ones, transformed."""
    return _joined(y, rows=tuple(rows), kind=kind)


def parted(x, rows, kind, n):
    """(..., b, modes) to (p, ..., b, m) of n points, of which rank k gets rows[k]."""
    return _parted(x, rows=tuple(rows), kind=kind, n=n)
