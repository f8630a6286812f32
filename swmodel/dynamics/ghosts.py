"""The halos of parameters, which are filled once, at the start of a compiled program."""

from typing import Any

import jax
import jax.numpy as jnp

from ..fields.field import Field
from ..fields.pytrees import replace
from ..grids.geometry import TileGeometry
from ..parallel.communicator import Communicator
from ..parallel.halo import exchange
from .near_sides import axis_along, cells_inside
from .terms import TimeVarying, as_field

__all__ = ["Exchange"]


class Exchange:
    """Fills the halos of parameters; outside the domain they are extrapolated as constants.

    Args:
        tile: the TileGeometry.
        communicator: a Communicator.
        wide: whether stages are computed in a part of the halo too.
    """

    def __init__(self, tile: TileGeometry, communicator: Communicator, wide: bool = False):
        self.tile, self.communicator, self.wide = tile, communicator, wide
        every = tuple(
            side for side, axis in zip(("west", "east", "south", "north"), "xxyy") if axis not in tile.sides.periodic
        )
        self.sides = replace(tile.sides, open=1.0 - tile.sides.linked, open_sides=every)

    def pointwise(self, x: Any, position: str) -> Any:
        """A parameter that is read at its own points only, as a number or a Field; with halo where `wide`."""
        return self.parameter(x, position) if self.wide else as_field(x, position)

    def padded(self, x: jax.Array, position: str) -> Field:
        """An array that has the tile's halo already, as a Field."""
        return Field(x, position, (self.tile.halo,) * 4)

    def parameter(self, x: Any, position: str = "h") -> Any:
        """A number as it is; a tile array at `position` as a Field with halo; a TimeVarying with its arrays so."""
        if isinstance(x, TimeVarying):
            return x.prepared().map(lambda array: self.parameter(array, position))
        if jnp.ndim(x) < 2:
            return x
        (padded,) = exchange([x], self.tile.halo, self.sides, self.communicator)
        return Field(padded, position, (self.tile.halo,) * 4)

    def along_side(self, x: Any, position: str, side: int, halo: bool) -> Any:
        """A tile array's cells next to a side, a Field of one row or column; numbers as they are.

        Args:
            x: a number or a tile array, or a TimeVarying, of which nothing is precomputed.
            position: on the C-grid.
            side: WEST, EAST, SOUTH or NORTH.
            halo: whether the Field has a halo along the side; it also has one where `wide`.
        """
        if isinstance(x, TimeVarying):
            return x.moved(lambda array: self.along_side(array, position, side, halo))
        if jnp.ndim(x) < 2:
            return x
        cells = cells_inside(Field(x, position, (0, 0, 0, 0)), side)
        if not (halo or self.wide):
            return cells
        along, width = axis_along(side), self.tile.halo
        (line,) = exchange([cells.data], width, self.sides, self.communicator, along)
        return Field(line, position, (0, 0, width, width) if along == "y" else (width, width, 0, 0))
