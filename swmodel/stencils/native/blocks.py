"""Blocks of an array to other places, with axes in another order, in one pass over memory.

    Block(source, target, sizes, source_strides, target_strides)      counted in elements; source None: zeros
    move(x, shape, blocks)                                            a new array of these blocks of x, which cover it

XLA on a CPU transposes an array element by element, along whole rows of the one and columns of the other, and pads and
cuts it in passes of their own. This call goes by tiles, in each of which it fills whole cache lines.
"""

import dataclasses

import jax
import numpy as np

from .library import MOVE, usable

__all__ = ["Block", "move", "movable"]

AXES = 4


@dataclasses.dataclass(frozen=True)
class Block:
    """Elements at source + sum i s to target + sum i t, 0 <= i < sizes; up to 4 axes."""

    source: int | None
    target: int
    sizes: tuple
    source_strides: tuple
    target_strides: tuple

    def back(self):
        """The block that goes the other way."""
        return Block(self.target, self.source, self.sizes, self.target_strides, self.source_strides)

    def numbers(self):
        """As the runtime has it: more axes of one element in front."""
        missing = AXES - len(self.sizes)
        padded = [(filler,) * missing + tuple(given) for filler, given in
                  ((1, self.sizes), (0, self.source_strides), (0, self.target_strides))]  # fmt: skip
        return [-1 if self.source is None else self.source, self.target, *padded[0], *padded[1], *padded[2]]


def movable(dtype):
    """Whether arrays of this type can be moved here by a native call; on CPUs."""
    return np.dtype(dtype).itemsize in (4, 8, 16) and usable()


def move(x, shape, blocks):
    """An array of `shape` of blocks of x; what no block covers is undefined. On CPUs, where `movable`."""
    numbers = np.array([number for block in blocks for number in block.numbers()], np.int64)
    return jax.ffi.ffi_call(MOVE, jax.ShapeDtypeStruct(shape, x.dtype))(x, blocks=numbers)
