"""Tiles, the communication between them, the halo exchange, and the choice of a communicator.

With a single rank (SerialCommunicator) every operation is the identity. LoneTile and OneTileCommunicator are one tile
of many, without the other ranks: `swmodel check` builds a few tiles of a grid that does not fit into one process, and
tests count the memory and reads of a rank of 10,000. Messages return the tile's own values, and every sum or maximum is
the tile's own. So their results are not those of a run.
"""

import operator
from collections.abc import Callable
from typing import Any, NoReturn, TypeVar, cast

import jax
import jax.core
import jax.numpy as jnp
import numpy as np

from .communicator import Communicator
from .decomposition import Decomposition, Tile, TileError, Windowed, best_layout, check_ranks

__all__ = [
    "Communicator",
    "Decomposition",
    "LoneTile",
    "OneTileCommunicator",
    "SerialCommunicator",
    "Tile",
    "TileError",
    "best_layout",
    "make_communicator",
]

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


_made = {}


def make_communicator(
    kind: str | Communicator, shape: tuple[int, int], layout: tuple[int, int] | None = None, devices: int | None = None
) -> Communicator:
    """The Communicator of this run: `kind` is "auto", "serial", "mpi", "sharded", or a Communicator.

    "auto" is MPI where a launcher started more than one rank, serial otherwise. There is one Communicator for each
    layout in a process, since programs are compiled for it.

    Args:
        kind: as above.
        shape: the grid's (ny, nx), for which the layout is chosen if none is given.
        layout: (py, px), or None.
        devices: for "sharded", the number of devices; by default that of the layout's tiles, or else all devices.

    Raises:
        ValueError: for an unknown kind.
        LaunchError: if MPI (or the sharded communicator) has fewer processes than the launcher started, if MPI is not
            installed, if there are too few devices, or if JAX was used before ranks were given their GPUs.
        TileError: if the layout does not fit the ranks or the grid.
    """
    from ..runtime.compilation import keep_programs
    from ..runtime.launch import bind_rank, check_world, load_mpi
    from ..runtime.launchers import launched_ranks

    if isinstance(kind, Communicator):
        return kind
    if kind not in ("auto", "serial", "mpi", "sharded"):
        raise ValueError(f"communicator = {kind!r} is unknown; use 'auto', 'serial', 'mpi' or 'sharded'.")
    if len(shape) != 2:
        raise TileError(f"communicator: a grid of {tuple(shape)} is not (ny, nx); of three sizes give the first two.")
    layout = None if layout is None else _pair(layout)
    keep_programs()
    if kind == "sharded":
        return _sharded(shape, layout, devices)
    if kind == "serial" or (kind == "auto" and launched_ranks() == 1):
        check_world(1)
        check_ranks(layout or (1, 1), 1)
        return _made.setdefault("serial", SerialCommunicator())
    bind_rank()
    world = load_mpi().COMM_WORLD
    check_world(world.size)
    layout = best_layout(shape, world.size) if layout is None else layout
    if layout not in _made:
        from .mpi import MPICommunicator

        _made[layout] = MPICommunicator(layout)
    return _made[layout]


def _pair(layout):
    try:
        found = tuple(map(operator.index, layout))
    except TypeError:
        found = ()
    if len(found) != 2 or min(found) < 1:
        raise TileError(f"layout = {layout!r} is not (py, px), tiles along y and x; give two whole numbers, 1 or more.")
    return found


def _sharded(shape, layout, devices):
    from ..runtime.devices import check_devices
    from .sharded import ShardedCommunicator

    if devices is None and layout is not None:
        devices = layout[0] * layout[1]
    devices = check_devices(devices)
    layout = best_layout(shape, devices) if layout is None else layout
    Decomposition(tuple(shape), layout)  # or the grid cannot be cut so
    if ("sharded", layout) not in _made:
        _made["sharded", layout] = ShardedCommunicator(layout)
    return _made["sharded", layout]
