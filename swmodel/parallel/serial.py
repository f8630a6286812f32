"""The communicator of a single rank: every operation is the identity."""

import sys
from typing import Any

import jax
import numpy as np

from .communicator import Communicator

__all__ = ["SerialCommunicator"]


class SerialCommunicator(Communicator):
    """The whole grid in one process."""

    name = "serial"
    gathers_alone = True

    def _identity(self, x: Any, *arguments: Any) -> Any:
        return x

    _same: Any = _identity  # Any, since the arguments of each have other names
    _shift = _all_to_all = _sum = _broadcast = _sum_on_root = _gather = _scatter = _maximum = _same

    def gather_to_root(self, tile: jax.Array, shape: tuple[int, int] | None = None) -> np.ndarray | None:
        return np.asarray(tile)

    def scatter_from_root(self, array: Any, shape: tuple[int, int]) -> Any:
        return self.decomposition(shape).cut(array, 0)

    def host_sum(self, array: Any) -> Any:
        return np.asarray(array)

    def host_maximum(self, value: Any) -> Any:
        return value

    def host_broadcast(self, value: Any) -> Any:
        return value

    def host_gather(self, value: Any) -> list:
        return [value]

    def barrier(self) -> None:
        pass

    def abort(self, status: int = 1) -> None:
        sys.exit(status)
