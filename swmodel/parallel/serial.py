"""The communicator of a single rank: every operation is the identity."""

import sys
from typing import Any, TypeVar, cast

import jax
import numpy as np

from .communicator import Communicator
from .decomposition import Windowed

__all__ = ["SerialCommunicator"]

T = TypeVar("T")


class SerialCommunicator(Communicator):
    """The whole grid in one process."""

    name = "serial"
    gathers_alone = True

    def _identity(self, x: T, *arguments: object) -> T:
        return x

    _same: Any = _identity  # Any, since the arguments of each have other names
    _shift = _all_to_all = _sum = _broadcast = _sum_on_root = _gather = _scatter = _maximum = _same

    def gather_to_root(self, tile: jax.Array | np.ndarray, shape: tuple[int, int] | None = None) -> np.ndarray | None:
        return np.asarray(tile)

    def scatter_from_root(self, array: np.ndarray | Windowed | None, shape: tuple[int, int]) -> jax.Array | np.ndarray:
        return self.decomposition(shape).cut(cast(Windowed, array), 0)

    def host_sum(self, array: np.ndarray) -> np.ndarray:
        return np.asarray(array)

    def host_maximum(self, value: float | np.ndarray) -> float | np.ndarray:
        return value

    def host_broadcast(self, value: T) -> T:
        return value

    def host_gather(self, value: T) -> list[T]:
        return [value]

    def barrier(self) -> None:
        pass

    def abort(self, status: int = 1) -> None:
        sys.exit(status)
