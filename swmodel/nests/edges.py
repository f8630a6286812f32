"""Where a nest's tile and the tile of the grid around it meet their border, and what is constant there.

Boxes along the border are those of the southern, northern, western and eastern side. A face has the number of the cell
before it. A box of the outer grid has several Parts in a tile where it lies across the seam of a grid that goes round
the Earth.
"""

import dataclasses
import math
from collections.abc import Mapping, Sequence

import jax
import jax.numpy as jnp
import numpy as np

from ..dynamics.transported import Passage, passages
from ..grids.grid import Grid
from ..models.shallow_water import ShallowWater
from ..parallel.boxes import Boxes, Part
from ..parallel.decomposition import Tile
from ..stencils.expressions import Strips
from .interpolation import weights_of
from .nest import Nest, Place, Rectangle

__all__ = [
    "LEAST",
    "ON_FACES",
    "Edges",
    "along_border",
    "coarse",
    "counted",
    "coverage",
    "levels_in",
    "means_in",
    "strips_at",
    "sums_along",
]

LEAST = 1e-6  # the least sum of weights of wet cells from which a value is taken
ON_FACES = {"h": (), "u": (1,), "v": (0,)}  # axes along which the last of a nest's faces in a cell lies on its face
LENGTHS = "dx_v", "dx_v", "dy_u", "dy_u"  # of the faces on the border


@dataclasses.dataclass(frozen=True)
class Edges:
    """The cells and faces along the border on one rank.

    Attributes:
        place: where the nest lies.
        outer, inner: the tiles of both grids.
    """

    place: Place
    outer: Tile
    inner: Tile

    def _in_outer(self, *rectangles: Rectangle) -> Boxes:
        return Boxes(tuple(tuple(Part.all_of(*each, self.outer, self.place.turn)) for each in rectangles))

    def _in_nest(self, *rectangles: Rectangle) -> Boxes:
        return Boxes(tuple((Part.of(*each, self.inner),) for each in rectangles))

    @property
    def whole(self) -> Boxes:
        """The outer cells of box and frame."""
        return self._in_outer((self.place.corner, self.place.shape))

    @property
    def ring(self) -> Boxes:
        """For each side the outer cells from which the frame takes its values, with those around them."""
        return self._in_outer(*self.place_of_ring)

    @property
    def place_of_ring(self) -> list[Rectangle]:
        """For each side the place of the whole `ring` in the outer grid."""
        (j, i), (ny, nx) = self.place.corner, self.place.shape
        return _strips((j - 1, i - 1), (ny + 2, nx + 2), self.place.frame + 2)

    def frame(self, position: str) -> Boxes:
        """For each side the nest's cells in the frame ("h"), or faces ("u", "v"), with those on the border."""
        return self._in_nest(*self._place_of_frame(position))

    def _place_of_frame(self, position: str) -> list[Rectangle]:
        return _strips((0, 0), self.place.nest_shape, self.place.width, position)

    def under_ring(self, position: str) -> list[tuple[tuple[int, int], tuple[int, int], tuple[int, int]]]:
        """For each side (the shape of the ring, the first cell of `frame` among the nest's cells in it, its shape).

        The ring is an outer cell wider all around.
        """
        place, found = self.place, []
        sides = zip(self.place_of_ring, self._place_of_frame(position), self.frame(position).here, strict=True)
        for (ring, shape), (corner, _), part in sides:
            begin = [place.ratio * (n - m) for n, m in zip(ring, place.corner, strict=True)]
            row, column = (a + b - c for a, b, c in zip(corner, part.within, begin, strict=True))
            found.append((shape, (row, column), part.shape))
        return found

    @property
    def box(self) -> Boxes:
        """The nest's cells in the box."""
        return self._in_nest(_rectangle(*self.place.nest_box))

    @property
    def outer_box(self) -> Boxes:
        """The outer cells in the box."""
        return self._in_outer(_rectangle(self.place.rows, self.place.columns))

    @property
    def faces(self) -> Boxes:
        """For each side the nest's faces on the border."""
        return self._in_nest(*_faces(*self.place.nest_box))

    @property
    def outer_faces(self) -> Boxes:
        """For each side the outer grid's faces on the border."""
        return self._in_outer(*_faces(self.place.rows, self.place.columns))

    @property
    def adjacent(self) -> Boxes:
        """For each side the outer cells next to the box, outside of it."""
        return self._in_outer(*_faces(self.place.rows, self.place.columns, outside=1))


def _rectangle(rows, columns) -> Rectangle:
    return (rows[0], columns[0]), (rows[1] - rows[0], columns[1] - columns[0])


def _strips(corner, shape, width, position="h") -> list[Rectangle]:
    """Strips of `width` cells along the sides of a box, within it, or the faces of these cells.

    A face has the number of the cell before it, so that northern and eastern strips have a row or column more of them.
    """
    (j, i), (ny, nx) = corner, shape
    high, wide = width + (position == "v"), width + (position == "u")
    north, east = j + ny - high, i + nx - wide
    return [((j, i), (width, nx)), ((north, i), (high, nx)), ((j, i), (ny, width)), ((j, east), (ny, wide))]


def _faces(rows, columns, outside=0) -> list[Rectangle]:
    """The faces on the sides of a box of cells, or the cells next to it, `outside` of it by 1."""
    (j, i), (ny, nx) = _rectangle(rows, columns)
    north, east = rows[1] - 1 + outside, columns[1] - 1 + outside
    return [((j - 1, i), (1, nx)), ((north, i), (1, nx)), ((j, i - 1), (ny, 1)), ((j, east), (ny, 1))]


def strips_at(sides: Boxes, position: str) -> Strips:
    """The strips of a tile that lie on the western and eastern side ("u"), or on the southern and northern one."""
    return Boxes(sides.parts[2:] if position == "u" else sides.parts[:2]).strips


def counted(
    name: str, nests: Mapping[str, Nest], places: Mapping[str, Place], models: Mapping[str, ShallowWater]
) -> tuple[tuple[Passage, Strips], ...]:
    """What steps of the grid `name` count along its two-way borders, as `System.counted`, on this rank.

    Args:
        name: of the grid.
        nests, places: {name: Nest} and {name: Place} of all nests.
        models: {name: ShallowWater} of all grids.
    """
    (rank,), borders, system = models[name].communicator.ranks, [], models[name].system
    for inner, nest in nests.items():
        outer = nest.inside or ""
        if nest.two_way and name in (inner, outer):
            edges = Edges(places[inner], *(models[x].decomposition.tile(rank) for x in (outer, inner)))
            borders.append(edges.faces if name == inner else edges.outer_faces)
    strips = {at: tuple(strip for sides in borders for strip in strips_at(sides, at)) for at in "uv"}
    return tuple((passage, strips[at]) for at in "uv" for passage in passages(system, at)) if borders else ()


def coarse(boxes: Boxes, ratios: Sequence[tuple[int, int]]) -> Boxes:
    """The Boxes of blocks of cells, of (rows, columns) for each box of `boxes`, which they divide."""
    found = []
    for (part,), sizes in zip(boxes.parts, ratios, strict=True):
        box, within = (tuple(n // m for n, m in zip(pair, sizes, strict=True)) for pair in (part.box, part.within))
        ends = (-(-(first + n) // m) for first, n, m in zip(part.within, part.shape, sizes, strict=True))
        rows, columns = (end - first for end, first in zip(ends, within, strict=True))
        found.append((Part(box, within, within, (rows, columns)),))  # pyright: ignore[reportArgumentType]
    return Boxes(tuple(found))


def sums_along(x: jax.Array, sides: Boxes, ratio: int) -> jax.Array:
    """Sums of values (n, cells) in strips of one row or column over the `ratio` cells of each outer one."""
    pieces, begin = [], 0
    for part in sides.here:
        n, before = math.prod(part.shape), max(part.within) % ratio
        pieces.append(jnp.pad(x[:, begin : begin + n], [(0, 0), (before, -(before + n) % ratio)]))
        begin += n
    return jnp.concatenate(pieces, axis=1).reshape(len(x), -1, ratio).sum(2)


# -- what is constant --------------------------------------------------------------------------------------------------


def along_border(grid: Grid, tile: Tile, sides: Boxes, area: bool = False) -> np.ndarray:
    """The lengths of faces on the border [m], or the areas of cells [m2], of all sides in a tile, (cells,)."""
    found = []
    for parts, name in zip(sides.parts, ("area_h",) * 4 if area else LENGTHS, strict=True):
        for part in parts:
            metrics = grid.metrics(tile.j0 + part.at[0] + np.arange(part.shape[0]))
            found.append(np.broadcast_to(metrics[name], part.shape).ravel())
    return np.concatenate(found)


def levels_in(outer: ShallowWater, edges: Edges, wet: np.ndarray) -> np.ndarray:
    """m_i / sum w m in the frame (cells,) of a nest that is `wet` there, where the outer coast does not move."""
    place, weights = edges.place, []
    for strip, (shape, first, new) in zip(edges.place_of_ring, edges.under_ring("h"), strict=True):
        rows, columns = (
            weights_of(np.arange(a, a + m), n, place.ratio) for a, m, n in zip(first, new, shape, strict=True)
        )
        weights.append((rows @ place.of_outer(outer.sea_floor.mask("h"), strip).astype(float) @ columns.T).ravel())
    weight = np.concatenate(weights)
    return np.where(weight > LEAST, wet, 0.0) / np.where(weight > LEAST, weight, 1.0)


def means_in(inner: ShallowWater, position: str, edges: Edges) -> np.ndarray:
    """Weights of the nest's cells or faces in `edges.box`, whose sums in outer cells are means.

    They are areas of wet cells, or lengths of wet faces on outer faces, over their sums.
    """
    (box,) = edges.box.here
    return _weights(inner, position, edges, box.within, box.shape)[0]


def coverage(inner: ShallowWater, position: str, edges: Edges) -> np.ndarray:
    """1 in cells or faces of `edges.outer_box` that have wet ones of the nest and are none of the border, else 0."""
    found = []
    for part in edges.outer_box.here:
        within, shape = (tuple(edges.place.ratio * n for n in pair) for pair in (part.within, part.shape))
        _, sums = _weights(inner, position, edges, within, shape)
        on_border = [
            np.arange(n) == n - 1 if axis in ON_FACES[position] else np.zeros(n) for axis, n in enumerate(part.box)
        ]
        inside = np.logical_not(np.logical_or(on_border[0][:, None], on_border[1]))
        found.append(((sums > 0) * inside[part.box_slices]).ravel())
    return np.concatenate(found)


def _weights(inner, position, edges, within, shape):
    """(the weights of `coverage`, the sums) in part of the box, from the nest's cell number `within` (row, column)."""
    ratio, (rows, columns) = edges.place.ratio, edges.place.nest_box
    lead = tuple(n % ratio for n in within)
    down, across = (-(-(a + n) // ratio) for a, n in zip(lead, shape, strict=True))
    corner, wide = (rows[0] + within[0] - lead[0], columns[0] + within[1] - lead[1]), (down * ratio, across * ratio)
    metric = inner.grid.metrics(corner[0] + np.arange(wide[0]))[{"h": "area_h", "u": "dy_u", "v": "dx_v"}[position]]
    cells = (slice(first, first + n) for first, n in zip(corner, wide, strict=True))
    mask = inner.sea_floor.mask(position).block(*cells) if all(wide) else np.zeros(wide)
    x = (mask * metric).reshape(down, ratio, across, ratio)
    for axis in ON_FACES[position]:
        x = x * (np.arange(ratio) == ratio - 1).reshape((-1, 1, 1) if axis == 0 else (-1,))
    sums = x.sum((1, 3), keepdims=True)
    fine = (x / np.where(sums > 0, sums, 1.0)).reshape(wide)
    return fine[lead[0] : lead[0] + shape[0], lead[1] : lead[1] + shape[1]], sums[:, 0, :, 0]
