"""The halo exchange. One message to each neighbour carries all arrays of a stage, first along x, then along y.

The messages along y include the corners. Ghost cells contain the neighbour's edge cells (between tiles, and across a
periodic seam), zero (behind a wall), or the nearest cell's value (outside an open side). All ranks run one program, so
that this choice is data and not a branch. At a wall a message is exchanged with the other side of the domain, and not
used.

Where tiles are padded (decomposition.py), cells are sent from the first one after the padding, and ghosts are placed
right before it. They overwrite the padding, which is never read, and the outermost line of the array stays unused.

The transpose returns the cotangents of ghost cells to the cells that they were copied from, and adds them there.
"""

from collections.abc import Iterable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import DTypeLike

from ..fields.field import Field
from ..fields.parameters import SIDES
from ..fields.state import pytree, replace, static
from ..stencils.native import paste, read_strips
from .communicator import Communicator

WEST, EAST, SOUTH, NORTH = range(4)
_OF_AXIS = {"x": (WEST, EAST), "y": (SOUTH, NORTH)}


@pytree
class Sides:
    """The four sides of a tile: neighbours, walls or open sides, in the order of SIDES.

    Attributes:
        linked: (4,) 1.0 where the side has a neighbour (another tile, or itself across a periodic seam), else 0.0.
        open: (4,) 1.0 where the side is an open side of the domain, else 0.0.
        periodic: the domain's periodic directions, "", "x", "y" or "xy".
        open_sides: the domain's open sides, of SIDES.
        pad: (2,) rows and columns of padding at this tile's low sides, 0.0 or 1.0; None where no tile has any.
        uneven: the directions in which some tile has padding, "", "x", "y" or "xy".
    """

    linked: jax.Array
    open: jax.Array
    periodic: str = static()
    open_sides: tuple = static(default=())
    pad: jax.Array | None = None
    uneven: str = static(default="")

    @staticmethod
    def of(
        grid: Any, communicator: Communicator, open_sides: Iterable[str], dtype: DTypeLike, rank: int | None = None
    ) -> "Sides":
        """The sides of a rank's tile; of this rank's unless another one is given."""
        rank = communicator.rank if rank is None else rank
        parts = communicator.decomposition(grid.shape)
        (iy, ix), (py, px) = parts.coordinates(rank), parts.layout
        inner = (
            ix > 0 or grid.periodic_x,
            ix < px - 1 or grid.periodic_x,
            iy > 0 or grid.periodic_y,
            iy < py - 1 or grid.periodic_y,
        )
        opened = [not inside and side in open_sides for inside, side in zip(inner, SIDES)]
        pad: Any = np.asarray(parts.padding(rank), dtype) if parts.uneven else None
        linked: Any = np.asarray(inner, dtype)  # host arrays: `place` puts them on devices
        open_here: Any = np.asarray(opened, dtype)
        return Sides(linked, open_here, grid.periodic, tuple(open_sides), pad, parts.uneven)

    def has_open(self, axis: str) -> bool:
        return any(SIDES[k] in self.open_sides for k in _OF_AXIS[axis])

    def padded(self, axis: str) -> jax.Array | None:
        """Whether this tile is padded along `axis`: an array of one bool, or None where no tile is."""
        return self.pad["yx".index(axis)] > 0.5 if self.pad is not None and axis in self.uneven else None


def without_padding(array: jax.Array, sides: Sides, axes: str = "yx") -> jax.Array:
    """A tile's (..., my, mx) array with zeros in its padding along `axes`, so that sums of it count every cell once."""
    for axis, place in (("y", -2), ("x", -1)):
        padded = sides.padded(axis)
        if padded is not None and axis in axes:
            first = _cells(array, 0, 1, place)
            rest = _cells(array, 1, None, place)
            array = jnp.concatenate([jnp.where(padded, jnp.zeros_like(first), first), rest], axis=place)
    return array


def without_open_faces(array: jax.Array, position: str, sides: Sides) -> jax.Array:
    """A tile's array at `position` with zeros on those faces of open sides that belong to the tile.

    They are east faces of u and north faces of v. The velocity there is diagnosed from the elevation, and is no part of
    a state.
    """
    for normal, side, place in (("u", EAST, -1), ("v", NORTH, -2)):
        if position == normal and SIDES[side] in sides.open_sides:
            n = array.shape[place]
            last = _cells(array, n - 1, n, place)
            last = jnp.where(sides.open[side] > 0.5, jnp.zeros_like(last), last)
            array = jnp.concatenate([_cells(array, 0, n - 1, place), last], axis=place)
    return array


def exchange(arrays: list, width: int, sides: Sides, communicator: Communicator, axes: str = "xy") -> list:
    """Each (..., ny, nx) array of `arrays`, of one shape, with `width` ghost cells on all four sides.

    Args:
        arrays: the tile's fields, sent together.
        width: ghost cells [1]; no more than the thinnest tile has cells.
        sides: a Sides.
        communicator: a Communicator.
        axes: "x" or "y" for ghost cells on the two sides of one axis alone.

    Returns:
        list of (..., ny + 2 width, nx + 2 width) arrays.
    """
    for axis in axes:
        arrays = _extend(arrays, width, axis, sides, communicator)
    return arrays


def refresh(
    arrays: list, width: int, sides: Sides, communicator: Communicator, border: tuple[int, int, int, int] | None = None
) -> list:
    """Fill the ghost cells of arrays that already have a border around the tile's cells, in place.

    Args:
        arrays, width, sides, communicator: those of `exchange`.
        border: the numbers of elements (west, east, south, north) of the tile in the arrays, `width` or more each;
            `width` by default.
    """
    border = border or (width, width, width, width)
    for axis in "xy":
        arrays = _refreshed(arrays, width, axis, sides, communicator, border)
    return arrays


def _refreshed(arrays, width, axis, sides, communicator, border):
    if _walled(axis, sides, communicator):
        return arrays  # ghosts behind walls are zero already
    west, east, south, north = border
    rows, columns = arrays[0].shape[-2:]
    # Messages along x leave out the ghost rows; those along y, which follow, include the corners.
    if axis == "x":
        low, high, n, place, start, length = west, east, columns, -1, south, rows - north - south
    else:
        low, high, n, place, start, length = south, north, rows, -2, west - width, columns - east - west + 2 * width
    at = lambda k: (start, k) if axis == "x" else (k, start)  # noqa: E731
    own = n - low - high
    parts = [(low, min(width + 1, own)), (n - high - width, width)]
    shapes = [(length, cells) if axis == "x" else (cells, length) for _, cells in parts]
    arrays, ends = read_strips(arrays, [at(k) for k, _ in parts], shapes)
    strips = [jnp.concatenate(ends, axis=place)]  # `_beyond` reads no cell between them
    (before,), (after,) = _beyond(strips, width, axis, sides, communicator)
    padded = sides.padded(axis)
    first, last = low - width + (0 if padded is None else padded.astype(int)), n - high
    return paste(arrays, [before, after], [at(first), at(last)])


def beyond_open_sides(field: Field, sides: Sides) -> Field:
    """`field` with the cells beyond open sides of the domain set to the nearest cell inside, as `exchange` does."""
    for axis in "xy":
        place = -1 if axis == "x" else -2
        for side in _OF_AXIS[axis]:
            width, n = field.halo[side], field.data.shape[place]
            if SIDES[side] in sides.open_sides and width > 0:
                first, edge = (0, width) if side in (WEST, SOUTH) else (n - width, n - width - 1)
                ghosts = _cells(field.data, first, first + width, place)
                ghosts = ghosts + sides.open[side] * (_cells(field.data, edge, edge + 1, place) - ghosts)
                field = replace(field, data=_put(field.data, ghosts, first, place))
    return field


def _put(a, cells, start, place):
    return paste([a], [cells[..., None, :, :]], [(start, 0) if place == -2 else (0, start)])[0]


def _extend(arrays, width, axis, sides, communicator):
    place = -1 if axis == "x" else -2
    if _walled(axis, sides, communicator):
        return [_with_zeros(a, width, place) for a in arrays]
    before, after = _beyond(arrays, width, axis, sides, communicator)
    padded = sides.padded(axis)
    if padded is not None:
        before, arrays = zip(*(_behind_padding(b, a, place, padded) for b, a in zip(before, arrays)))
    return [jnp.concatenate(parts, axis=place) for parts in zip(before, arrays, after)]


def _walled(axis, sides, communicator):
    """Whether the one tile along an axis has walls at both ends."""
    return axis not in sides.periodic and not sides.has_open(axis) and communicator.along(axis) == 1


def _beyond(arrays, width, axis, sides, communicator):
    """(low ghosts, high ghosts) of tiles, by one message in each direction.

    With two tiles along the axis both neighbours are the same tile, and one message is enough.
    """
    place = -1 if axis == "x" else -2
    firsts = [_firsts(a, width, place, sides.padded(axis)) for a in arrays]
    lasts = [_cells(a, -width, None, place) for a in arrays]
    if communicator.along(axis) == 2:
        came = _unpack(communicator.shift(_pack([*lasts, *firsts]), axis, +1), [*arrays, *arrays])
        before, after = came[: len(arrays)], came[len(arrays) :]
    else:  # every rank sends first eastwards (northwards), then back, in the same order, to avoid deadlock
        before = _unpack(communicator.shift(_pack(lasts), axis, +1), arrays)
        after = _unpack(communicator.shift(_pack(firsts), axis, -1), arrays)
    if axis not in sides.periodic:
        low, high = _OF_AXIS[axis]
        before = [_ghosts(b, sides, low, _cells(a, 0, 1, place), axis) for a, b in zip(arrays, before)]
        after = [_ghosts(b, sides, high, _cells(a, -1, None, place), axis) for a, b in zip(arrays, after)]
    return before, after


def _firsts(a, width, place, padded):
    """The first `width` cells that are the tile's own."""
    cells = _cells(a, 0, width, place)
    return cells if padded is None else jnp.where(padded, _cells(a, 1, width + 1, place), cells)


def _behind_padding(before, a, place, padded):
    """(low ghosts and the cell after them, the other cells). In a padded tile ghosts lie one cell further inside."""
    first, ghost = _cells(a, 0, 1, place), _cells(before, 0, 1, place)
    moved, as_they_are = jnp.concatenate([ghost, before], axis=place), jnp.concatenate([before, first], axis=place)
    return jnp.where(padded, moved, as_they_are), _cells(a, 1, None, place)


def _ghosts(received, sides, side, edge, axis):
    """The ghosts beyond a side. They are selected, since a product with zero would propagate NaN from the far wall."""
    outside = sides.open[side] * edge if sides.has_open(axis) else jnp.zeros((), received.dtype)
    return jnp.where(sides.linked[side] > 0.5, received, outside)


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
