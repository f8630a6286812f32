"""Messages between the devices of one process, without XLA's collectives, whose threads sleep and wake up slowly."""

from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np

from .library import SHIFT, register_shift

__all__ = ["shift"]

TIMEOUT = 60.0  # [s], as for XLA's own collectives


def shift(x: jax.Array, rank: jax.Array | int, sources: Sequence[int]) -> jax.Array:
    """The array x of the rank `sources[rank]`.

    Args:
        x: an array, of one shape on all ranks.
        rank: the number of this device, a traced integer.
        sources: a static permutation of the ranks.

    The run ends with an error if the array has not arrived after TIMEOUT, as the other rank has failed then.
    """
    register_shift()
    call = jax.ffi.ffi_call(SHIFT, jax.ShapeDtypeStruct(x.shape, x.dtype))
    return call(jnp.asarray(rank, jnp.int32), x, sources=np.asarray(sources, np.int64), timeout=np.float64(TIMEOUT))
