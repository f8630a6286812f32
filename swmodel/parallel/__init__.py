"""Tiles, the communication between them, and the halo exchange."""

import operator

from .communicator import Communicator
from .decomposition import Decomposition, Tile, TileError, best_layout, check_ranks
from .serial import SerialCommunicator

__all__ = [
    "Communicator",
    "Decomposition",
    "SerialCommunicator",
    "Tile",
    "TileError",
    "best_layout",
    "make_communicator",
]

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
