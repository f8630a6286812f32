"""Messages between the devices of one process: without XLA's collectives, whose threads sleep and wake up slowly."""

import jax
import jax.numpy as jnp
import numpy as np

from .library import SHIFT, register_shift

__all__ = ["shift"]

PATIENCE = 60.0  # s, as XLA has with its own


def shift(x, rank, sources):
    """x of the rank sources[rank].

    Args:
        x: an array, of one shape on all ranks.
        rank: this device's, an integer that is traced.
        sources: for each rank another one, static: each rank is there once.

    The run ends in an error where that rank lets this one wait for longer than PATIENCE: it has failed by itself.
    """
    register_shift()
    call = jax.ffi.ffi_call(SHIFT, jax.ShapeDtypeStruct(x.shape, x.dtype))
    return call(jnp.asarray(rank, jnp.int32), x, sources=np.asarray(sources, np.int64), patience=np.float64(PATIENCE))
