"""Copies blocks of an array to other places, with axes in another order, in one pass over memory.

    Block(source, target, sizes, source_strides, target_strides)      counted in elements; source None: zeros
    move(x, shape, blocks)                                            a new array made of these blocks of x

XLA on a CPU transposes an array element by element, along whole rows of one array and columns of the other. It pads
and crops in passes of their own. This call works on tiles, and fills whole cache lines in each.
"""

import dataclasses
from collections.abc import Sequence
from typing import Any

import jax
import numpy as np
from numpy.typing import DTypeLike

from ..abi import AXES, MovedBlock, numbers
from .library import MOVE, usable

__all__ = ["Block", "move", "movable"]


@dataclasses.dataclass(frozen=True)
class Block:
    """Elements at source + sum i s to target + sum i t, 0 <= i < sizes; up to 4 axes."""

    source: Any  # an int, or None for zeros
    target: int
    sizes: tuple
    source_strides: tuple
    target_strides: tuple

    def back(self) -> "Block":
        """The block that goes the other way."""
        return Block(self.target, self.source, self.sizes, self.target_strides, self.source_strides)

    def padded(self) -> MovedBlock:
        """The MovedBlock of the runtime, with axes of one element in front."""
        missing = AXES - len(self.sizes)
        sizes, source, target = (
            (filler,) * missing + tuple(given)
            for filler, given in ((1, self.sizes), (0, self.source_strides), (0, self.target_strides))
        )
        return MovedBlock(-1 if self.source is None else self.source, self.target, sizes, source, target)


def movable(dtype: DTypeLike) -> bool:
    """Whether the runtime can move arrays of this type, on CPUs."""
    return np.dtype(dtype).itemsize in (4, 8, 16) and usable()


def move(x: jax.Array, shape: Sequence[int], blocks: Sequence[Block]) -> jax.Array:
    """An array of `shape` made of blocks of x; values outside all blocks are undefined. On CPUs, where `movable`."""
    flat = np.array([n for block in blocks for n in numbers(block.padded())], np.int64)
    return jax.ffi.ffi_call(MOVE, jax.ShapeDtypeStruct(shape, x.dtype))(x, blocks=flat)
