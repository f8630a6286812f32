"""A communicator for one tile of many, without the other ranks, to test how a rank of a large run is set up.

`swmodel check` builds a few tiles of a grid that does not fit into one process, and tests count the memory and reads of
a rank of 10,000. Messages return the tile's own values, and every sum or maximum is the tile's own. So its results are
not those of a run.
"""

from collections.abc import Callable
from typing import Any

from .serial import SerialCommunicator

__all__ = ["OneTileCommunicator"]


class OneTileCommunicator(SerialCommunicator):
    """Tile number `rank` of a mesh of `layout` = (py, px)."""

    name = "one tile"
    reaches_all = gathers_alone = False

    def __init__(self, layout: tuple[int, int], rank: int):
        self.layout, self.size, self.rank = tuple(layout), layout[0] * layout[1], rank

    @property
    def is_root(self) -> bool:
        return True

    def _refused(self, *arguments: Any) -> Any:
        raise RuntimeError(
            "OneTileCommunicator: the whole grid is not available; this communicator has one tile alone."
        )

    _no_grid: Any = _refused
    _gather = _scatter = gather_to_root = rows_to_root = scatter_from_root = _no_grid

    def through_root(self, value: Any, function: Callable[[list], list]) -> Any:
        return function([value])[0]
