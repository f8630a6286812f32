"""The communicator of a single rank: every operation is the identity.

A communicator for one tile of many, without the other ranks, to test how a rank of a large run is set up.

`swmodel check` builds a few tiles of a grid that does not fit into one process, and tests count the memory and reads of
a rank of 10,000. Messages return the tile's own values, and every sum or maximum is the tile's own. So its results are
not those of a run.
"""

from collections.abc import Callable
from typing import Any, NoReturn, TypeVar, cast

import jax
import jax.core
import jax.numpy as jnp
import numpy as np

from .communicator import Communicator
from .decomposition import Windowed

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


class LoneTile(SerialCommunicator):
    """A tile of a mesh whose other ranks are missing: gathering it leaves zeros in their place."""

    reaches_all = False

    def _gather(self, x: jax.Array, shape: tuple[int, int]) -> jax.Array:
        whole = jnp.zeros((*x.shape[:-2], *shape), x.dtype)
        return whole.at[..., : x.shape[-2], : x.shape[-1]].set(x)

    def _scatter(self, x: jax.Array, shape: tuple[int, int]) -> jax.Array:
        rows, columns = self.tile_shape(shape)
        return x[..., :rows, :columns]


class OneTileCommunicator(LoneTile):
    """Tile number `rank` of a mesh of `layout` = (py, px)."""

    name = "one tile"
    gathers_alone = False

    def __init__(self, layout: tuple[int, int], rank: int):
        self.layout, self.size, self.rank = tuple(layout), layout[0] * layout[1], rank

    @property
    def is_root(self) -> bool:
        return True

    def _refused(self, *arguments: object) -> NoReturn:
        raise RuntimeError(
            "OneTileCommunicator: the whole grid is not available; this communicator has one tile alone."
        )

    _no_grid: Any = _refused
    gather_to_root = rows_to_root = scatter_from_root = _no_grid

    def gather(self, tile: jax.Array, shape: tuple[int, int]) -> jax.Array:
        """An array of the whole grid, in a program that is only traced, as for the width of a halo."""
        return super().gather(tile, shape) if isinstance(tile, jax.core.Tracer) else self._refused()

    def scatter(self, whole: jax.Array) -> jax.Array:
        return super().scatter(whole) if isinstance(whole, jax.core.Tracer) else self._refused()

    def through_root(self, value: object, function: Callable[[list], list]) -> Any:
        return function([value])[0]
