"""Tiles, the verbs with which they talk, and the halo exchange built on them."""
from .communicator import Communicator
from .decomposition import Decomposition, Tile, TileError, best_layout
from .serial import SerialCommunicator

__all__ = [
    "Communicator", "Decomposition", "SerialCommunicator", "Tile", "TileError", "best_layout", "make_communicator",
]  # fmt: skip

_made = {}


def make_communicator(kind, shape, layout=None):
    """The Communicator of this run: `kind` is "auto", "serial", "mpi", or one already made.

    "auto" is MPI where a launcher started more than one rank, serial otherwise. One is made for each layout and kept,
    since programs are compiled for it.

    Args:
        kind: as above.
        shape: the grid's (ny, nx), for which the layout is chosen if none is given.
        layout: (py, px), or None.

    Raises:
        ValueError: for an unknown kind.
        LaunchError: if the launcher started more ranks than MPI sees, or MPI is asked for and not installed.
        TileError: if the layout does not fit the ranks or the grid.
    """
    from ..launch import check_world, launched_ranks, load_mpi

    if isinstance(kind, Communicator):
        return kind
    if kind not in ("auto", "serial", "mpi"):
        raise ValueError(f"communicator = {kind!r} is not known; use 'auto', 'serial' or 'mpi'.")
    if kind == "serial" or (kind == "auto" and launched_ranks() == 1):
        check_world(1)
        return _made.setdefault("serial", SerialCommunicator())
    world = load_mpi().COMM_WORLD
    check_world(world.size)
    layout = best_layout(shape, world.size) if layout is None else tuple(layout)
    if layout not in _made:
        from .mpi import MPICommunicator

        _made[layout] = MPICommunicator(layout)
    return _made[layout]
