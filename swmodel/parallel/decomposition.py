"""The decomposition of the grid into a 2-D mesh of tiles that differ by at most one cell in each direction.

Ranks are numbered along x first: rank = iy * px + ix. Of n cells on p tiles the first n mod p tiles have one more.

Devices of one process need arrays of one shape. Smaller tiles are then padded by at most one row and one column, at
their low side, where they overlap their neighbour. The first tile is never padded, and the last one ends
with the domain, so that the edges of the domain are those of the arrays. Arrays of a model are zero in the padding.
"""

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from typing import Protocol, TypeAlias, cast

import numpy as np
from numpy.typing import ArrayLike

from ..errors import TileError

# the cost of a cell next to a cut across rows; `mpirun -n 2 swmodel bench --layout 2x1`, and 1x2, measure it
COST_ACROSS = 4
COMFORTABLE = 8  # cells; layouts with thinner tiles come last


Mode: TypeAlias = str | float | tuple[str | float, str | float]
"""How cells beyond the edge of the domain are filled (Tile.cut), or those beyond the (low, high) side."""


class Windowed(Protocol):
    """A host array (..., ny, nx) of which windows are read, such as GridValues or an array of a restart."""

    shape: tuple[int, ...]
    dtype: np.dtype

    def block(self, rows: slice, columns: slice) -> np.ndarray: ...


@dataclasses.dataclass(frozen=True)
class Tile:
    """The half-open ranges of global rows j0:j1 and columns i0:i1 that one rank holds."""

    j0: int
    j1: int
    i0: int
    i1: int

    @property
    def shape(self) -> tuple[int, int]:
        return self.j1 - self.j0, self.i1 - self.i0

    @property
    def slices(self) -> tuple[slice, slice]:
        return slice(self.j0, self.j1), slice(self.i0, self.i1)

    def within(self, rows: slice, columns: slice | None = None) -> tuple[slice, slice]:
        """The slices of this tile in an array that begins where `rows` and `columns` (all unless given) begin."""
        j, i = rows.start, 0 if columns is None else columns.start
        return slice(self.j0 - j, self.j1 - j), slice(self.i0 - i, self.i1 - i)

    def cut(self, array: ArrayLike | Windowed, halo: int, y_mode: Mode, x_mode: Mode) -> np.ndarray:
        """This tile of a global (..., ny, nx) host array, or of GridValues, with `halo` more cells on every side.

        Beyond the edge of the domain each direction is filled by its mode: "wrap" (periodic), "edge" (the nearest
        cell again), or a number. A mode may be a pair, (low side, high side).
        """
        rows, columns = (np.arange(low - halo, high + halo) for low, high in ((self.j0, self.j1), (self.i0, self.i1)))
        ny, nx = cast(tuple[int, int], np.shape(cast(ArrayLike, array))[-2:])
        inside = _inside(rows, ny, y_mode), _inside(columns, nx, x_mode)
        if hasattr(array, "block"):  # GridValues, of which only the tile and its halo are evaluated or read
            part = np.block([[cast(Windowed, array).block(j, i) for i in _runs(inside[1])] for j in _runs(inside[0])])
        else:
            part = np.take(np.take(np.asarray(array), inside[0], axis=-2), inside[1], axis=-1)
        return _filled(_filled(part, rows, ny, -2, y_mode), columns, nx, -1, x_mode)


def _inside(index, n, mode):
    """The numbers of the cells, of n, whose values are used at `index`, which may lie outside."""
    low = mode[0] if isinstance(mode, tuple) else mode
    return index % n if low == "wrap" else np.clip(index, 0, n - 1)


def _runs(index):
    """Slices of consecutive numbers whose union is `index`."""
    starts = np.split(index, np.flatnonzero(np.diff(index) != 1) + 1)
    return [slice(int(run[0]), int(run[-1]) + 1) for run in starts]


def _filled(taken, index, n, axis, mode):
    """`taken` with the numbers of `mode` where `index` lies outside of n cells."""
    modes = mode if isinstance(mode, tuple) else (mode, mode)
    for outside, side in ((index < 0, modes[0]), (index >= n, modes[1])):
        if side not in ("wrap", "edge"):
            where = [slice(None)] * taken.ndim
            where[axis] = outside
            taken[tuple(where)] = side
    return taken


@dataclasses.dataclass(frozen=True)
class Decomposition:
    """A grid of cells, cut into tiles.

    Attributes:
        shape: (ny, nx) cells.
        layout: (py, px) tiles.
        padded: whether all arrays have the shape of the largest tile.
    """

    shape: tuple
    layout: tuple
    padded: bool = False

    def __post_init__(self):
        if len(self.shape) != 2 or len(self.layout) != 2:
            raise TileError(
                f"a grid of {self.shape} cells cannot be put on {self.layout} tiles: give (ny, nx) and (py, px), of "
                "three dimensions the first two."
            )
        for cells, tiles, name in zip(self.shape, self.layout, "yx"):
            if tiles < 1 or tiles > cells:
                most = f"{cells} tiles or fewer" if cells > 1 else "1 tile"
                raise TileError(
                    f"layout {self.layout} puts {tiles} tiles along {name}, where the grid has {cells} cells; "
                    f"use {most} along {name}."
                )

    @property
    def size(self) -> int:
        return self.layout[0] * self.layout[1]

    def coordinates(self, rank: int) -> tuple[int, int]:
        """(iy, ix) of a rank in the mesh of tiles."""
        return divmod(rank, self.layout[1])

    def tile(self, rank: int) -> Tile:
        iy, ix = self.coordinates(rank)
        return Tile(*_range(self.shape[0], self.layout[0], iy), *_range(self.shape[1], self.layout[1], ix))

    def rank_at(self, j: int, i: int) -> int:
        """The rank whose tile holds the cell in row j and column i."""
        iy, ix = (_part_of(cell, *sizes) for cell, sizes in zip((j, i), zip(self.shape, self.layout)))
        return iy * self.layout[1] + ix

    def box(self, rank: int) -> Tile:
        """The Tile of the cells that a rank's arrays cover: its own and, at the low side, its padding."""
        tile = self.tile(rank)
        rows, columns = self.tile(0).shape if self.padded else tile.shape
        return Tile(tile.j1 - rows, tile.j1, tile.i1 - columns, tile.i1)

    def padding(self, rank: int) -> tuple[int, int]:
        """(rows, columns) of padding in a rank's arrays, each 0 or 1."""
        tile, box = self.tile(rank), self.box(rank)
        return tile.j0 - box.j0, tile.i0 - box.i0

    @property
    def uneven(self) -> str:
        """The directions in which some tiles are padded: "", "x", "y" or "xy"."""
        (ny, nx), (py, px) = self.shape, self.layout
        return "x" * bool(self.padded and nx % px) + "y" * bool(self.padded and ny % py)

    def cut(self, whole: ArrayLike | Windowed, rank: int) -> np.ndarray:
        """A rank's array, a copy, of a global host array (..., ny, nx) or of GridValues; its padding is zero."""
        where = self.box(rank).slices
        part = np.array(
            cast(Windowed, whole).block(*where) if hasattr(whole, "block") else np.asarray(whole)[(..., *where)]
        )
        rows, columns = self.padding(rank)
        part[..., :rows, :] = 0
        part[..., :, :columns] = 0
        return part

    def own(self, array: np.ndarray, rank: int) -> np.ndarray:
        """A rank's array without padding, and without faces on its low side unless they lie at the domain's edge.

        Args:
            array: (..., rows, columns) of the rank's box, with one more row or column if it holds those faces.
        """
        keep = [
            n + (have - covered) * (place == 0)
            for n, covered, have, place in zip(
                self.tile(rank).shape, self.box(rank).shape, array.shape[-2:], self.coordinates(rank)
            )
        ]
        return array[..., array.shape[-2] - keep[0] :, array.shape[-1] - keep[1] :]

    def assemble(self, arrays: Mapping[int, np.ndarray]) -> np.ndarray:
        """The global host array (..., ny, nx), or with one more row or column, of {rank: array} for all ranks."""
        px = self.layout[1]
        parts = [self.own(arrays[rank], rank) for rank in range(self.size)]
        return np.concatenate([np.concatenate(parts[k : k + px], axis=-1) for k in range(0, self.size, px)], axis=-2)

    def crossing(self, rows: slice) -> list[tuple[int, Tile]]:
        """[(rank, the Tile of its own cells in these rows)] of the ranks that have some."""
        found, (py, px) = [], self.layout
        for iy in range(py):
            j0, j1 = _range(self.shape[0], py, iy)
            if j0 < rows.stop and rows.start < j1:
                ranks = range(iy * px, (iy + 1) * px)
                boxes = (_range(self.shape[1], px, rank - iy * px) for rank in ranks)
                found += [
                    (rank, Tile(max(j0, rows.start), min(j1, rows.stop), *box)) for rank, box in zip(ranks, boxes)
                ]
        return found

    @property
    def thinnest(self) -> list[int]:
        """The least numbers of rows and of columns of a tile."""
        return [cells // tiles for cells, tiles in zip(self.shape, self.layout)]

    def check_halo(self, halo: int) -> None:
        """Raise TileError if a tile is thinner than the halo, which one message from one neighbour must fill."""
        for cells, name in zip(self.shape, "yx"):
            if cells < halo:
                raise TileError(
                    f"the grid has {cells} cells along {name}, fewer than the halo of {halo} that these terms and this "
                    f"time stepper need; give it {halo} or more."
                )
        thinnest = self.thinnest
        if min(thinnest) < halo:
            most = max(self.shape[0] // halo, 1) * max(self.shape[1] // halo, 1)
            parts = "devices" if self.padded else "ranks"
            raise TileError(
                f"{self.size} {parts} cut {self.shape[1]} x {self.shape[0]} cells into tiles of {thinnest[1]} x "
                f"{thinnest[0]} cells, thinner than the halo of {halo}; use at most {most} {parts} "
                f"(no more than {max(self.shape[0] // halo, 1)} along y and {max(self.shape[1] // halo, 1)} along x)."
            )


def row_blocks(shape: Sequence[int], size: int, most: int) -> Iterator[tuple]:
    """Indices (*lead, rows) of blocks of whole rows that cover an array (..., ny, nx) in the order of its memory.

    Args:
        shape: of the array.
        size: of a number [bytes].
        most: the largest block [bytes]; a block has one row or more.
    """
    *lead, ny, nx = shape
    count = max(most // max(nx * size, 1), 1)
    for index in np.ndindex(*lead):
        for row in range(0, ny, count):
            yield (*index, slice(row, min(row + count, ny)))


def _part_of(cell, cells, tiles):
    """The number of the tile along one direction that holds a cell."""
    base, more = divmod(cells, tiles)
    split = more * (base + 1)  # cells of the larger tiles
    return cell // (base + 1) if cell < split else more + (cell - split) // base


def _range(cells, tiles, k):
    base, more = divmod(cells, tiles)
    start = k * base + min(k, more)
    return start, start + base + (k < more)


def check_ranks(layout: tuple[int, int], started: int) -> None:
    """Raise TileError if a layout (py, px) has another number of tiles than ranks were started."""
    needed = layout[0] * layout[1]
    if needed != started:
        raise TileError(
            f"layout {layout[0]} x {layout[1]} (y x x) needs {needed} ranks, and {started} "
            f"{'was' if started == 1 else 'were'} started; change the layout or start mpirun -n {needed}."
        )


def best_layout(shape: tuple[int, int], ranks: int, halo: int = 1) -> tuple[int, int]:
    """The (py, px) with py * px = ranks and the least cost of communication.

    Cells next to a cut between columns are not contiguous in memory. Each counts for COST_ACROSS cells next to a cut
    between rows. Layouts with tiles thinner than COMFORTABLE come last, as wide stencils would not fit.

    Raises:
        TileError: if no layout has tiles of at least `halo` cells; the message gives the largest number of ranks.
    """
    ny, nx = shape
    fits = [
        (py, ranks // py)
        for py in range(1, ranks + 1)
        if ranks % py == 0 and ny // py >= max(halo, 1) and nx // (ranks // py) >= max(halo, 1)
    ]
    if not fits:
        most = (ny // max(halo, 1)) * (nx // max(halo, 1))
        raise TileError(
            f"{nx} x {ny} cells cannot be cut into {ranks} tiles of at least {halo} x {halo} cells; "
            f"use at most {most} ranks (devices, if sharded), or a number of them with factors that fit."
        )

    def cost(layout):
        py, px = layout
        return max(COMFORTABLE - min(ny // py, nx // px), 0), (py - 1) * nx + COST_ACROSS * (px - 1) * ny, px

    return min(fits, key=cost)
