"""The halo exchange: every array of a stage in one packed buffer a neighbour, corners by x first and then y.

Ghost cells hold, by side: the neighbour's edge cells (between tiles, and across a periodic seam), zero (behind a
wall), or the nearest cell again (outside an open side). Which one is data, not a branch: all ranks run one program,
and a wall is a partner on the other side of the domain whose message is multiplied by zero.

The transpose follows from the pieces: ghost cotangents go back to the cells they came from and are added there.
"""
import jax
import jax.numpy as jnp

from ..pytrees import pytree, static

__all__ = ["Sides", "exchange", "WEST", "EAST", "SOUTH", "NORTH", "SIDES"]

SIDES = ("west", "east", "south", "north")
WEST, EAST, SOUTH, NORTH = range(4)
_OF_AXIS = {"x": (WEST, EAST), "y": (SOUTH, NORTH)}


@pytree
class Sides:
    """What lies beyond each side of this tile, in the order of SIDES.

    Attributes:
        linked: (4,) 1.0 where the side has a neighbour (another tile, or itself across a periodic seam), else 0.0.
        open: (4,) 1.0 where the side is an open side of the domain, else 0.0.
        periodic: the domain's periodic directions, "", "x", "y" or "xy".
        opens: the domain's open sides, of SIDES.
    """

    linked: jax.Array
    open: jax.Array
    periodic: str = static()
    opens: tuple = static(default=())

    @staticmethod
    def of(grid, communicator, opens, dtype):
        """The sides of this rank's tile."""
        iy, ix = communicator.coordinates
        py, px = communicator.layout
        inner = (ix > 0 or grid.periodic_x, ix < px - 1 or grid.periodic_x,
                 iy > 0 or grid.periodic_y, iy < py - 1 or grid.periodic_y)  # fmt: skip
        opened = [not inside and side in opens for inside, side in zip(inner, SIDES)]
        return Sides(jnp.asarray(inner, dtype), jnp.asarray(opened, dtype), grid.periodic, tuple(opens))

    def has_open(self, axis):
        return any(SIDES[k] in self.opens for k in _OF_AXIS[axis])


def exchange(arrays, width, sides, communicator):
    """Each (..., ny, nx) array of `arrays`, of one shape, with `width` ghost cells on all four sides.

    Args:
        arrays: the tile's fields, sent together.
        width: ghost cells [1]; no more than the thinnest tile has cells.
        sides: a Sides.
        communicator: a Communicator.

    Returns:
        list of (..., ny + 2 width, nx + 2 width) arrays.
    """
    for axis in "xy":
        arrays = _extend(arrays, width, axis, sides, communicator)
    return arrays


def _extend(arrays, width, axis, sides, communicator):
    place = -1 if axis == "x" else -2
    alone = communicator.along(axis) == 1
    if alone and axis not in sides.periodic and not sides.has_open(axis):
        return [_with_zeros(a, width, place) for a in arrays]
    firsts = [_cells(a, 0, width, place) for a in arrays]
    lasts = [_cells(a, -width, None, place) for a in arrays]
    # Eastwards (northwards) first on every rank, then back: the same order everywhere.
    before = _unpack(communicator.shift(_pack(lasts), axis, +1), arrays)
    after = _unpack(communicator.shift(_pack(firsts), axis, -1), arrays)
    if axis not in sides.periodic:
        low, high = _OF_AXIS[axis]
        before = [_ghosts(b, sides, low, _cells(a, 0, 1, place), axis) for a, b in zip(arrays, before)]
        after = [_ghosts(b, sides, high, _cells(a, -1, None, place), axis) for a, b in zip(arrays, after)]
    return [jnp.concatenate(parts, axis=place) for parts in zip(before, arrays, after)]


def _ghosts(received, sides, side, edge, axis):
    ghosts = received * sides.linked[side]
    return ghosts + sides.open[side] * edge if sides.has_open(axis) else ghosts


def _pack(strips):
    return strips[0] if len(strips) == 1 else jnp.stack(strips)


def _unpack(buffer, arrays):
    return [buffer] if len(arrays) == 1 else list(buffer)


def _cells(a, start, stop, place):
    index = [slice(None)] * a.ndim
    index[place] = slice(start, stop)
    return a[tuple(index)]


def _with_zeros(a, width, place):
    widths = [(0, 0)] * a.ndim
    widths[place] = (width, width)
    return jnp.pad(a, widths)
