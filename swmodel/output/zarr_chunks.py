"""The chunks of a field in a Zarr store: their shape, the rank that writes each, and the exchange of their parts.

The chunks have the shape of the largest tile. A rank writes the chunks whose first cell is its own. If tiles differ in
shape, or faces are shifted by one against cells, it sends the values that lie in another rank's chunk to that rank.
"""

import dataclasses
from collections.abc import Mapping
from typing import Any

import numpy as np

from ..grids.grid import Grid
from ..grids.windows import GridValues
from ..parallel.communicator import Communicator
from ..parallel.decomposition import Decomposition, Tile
from . import metadata

__all__ = ["ChunkGrid", "chunk_grid", "chunks_of", "dry_block"]


@dataclasses.dataclass(frozen=True)
class ChunkGrid:
    """The chunks of a field, and the ranks that write them.

    Attributes:
        shape: (rows, columns) of the field.
        chunk: (rows, columns) of a chunk.
        decomposition: the Decomposition of the grid's cells.
    """

    shape: tuple[int, int]
    chunk: tuple[int, int]
    decomposition: Any

    def owner(self, chunk: tuple[int, int]) -> int:
        """The rank that writes a chunk: that of its first cell, or of the last one before its first face."""
        j, i = (min(k * size, cells - 1) for k, size, cells in zip(chunk, self.chunk, self.decomposition.shape))
        return self.decomposition.rank_at(j, i)

    def region(self, rank: int) -> tuple[slice, slice]:
        """The rows and columns of the field in a rank's tile; a face belongs to the cell on its low side."""
        tile = self.decomposition.tile(rank)
        found = []
        for (start, stop), size, cells in zip(
            ((tile.j0, tile.j1), (tile.i0, tile.i1)), self.shape, self.decomposition.shape
        ):
            more = size - cells  # 1 where there is a face before the first cell
            found.append(slice(start + more * (start > 0), stop + more))
        return found[0], found[1]

    def overlapping(self, region: tuple[slice, slice]) -> list[tuple[int, int]]:
        """The chunks that hold a part of a region."""
        rows, columns = (range(r.start // c, -(-r.stop // c)) for r, c in zip(region, self.chunk))
        return [(j, i) for j in rows for i in columns]

    def covered(self, chunk: tuple[int, int]) -> tuple[slice, slice]:
        """The rows and columns of the field in a chunk."""
        rows, columns = (slice(k * c, min((k + 1) * c, n)) for k, c, n in zip(chunk, self.chunk, self.shape))
        return rows, columns

    def of_rank(self, rank: int) -> list[tuple[int, int]]:
        """The chunks that a rank writes."""
        tile = self.decomposition.tile(rank)
        cells = zip(((tile.j0, tile.j1), (tile.i0, tile.i1)), self.chunk, self.shape)
        wide = tuple(slice(start, min(stop + size, n)) for (start, stop), size, n in cells)
        return [chunk for chunk in self.overlapping((wide[0], wide[1])) if self.owner(chunk) == rank]

    def sources(self, chunk: tuple[int, int]) -> list[int]:
        """The ranks whose tiles have a part of a chunk."""
        rows, columns = self.covered(chunk)
        limits = []
        for part, size, cells in zip((rows, columns), self.shape, self.decomposition.shape):
            more = size - cells
            limits.append((max(part.start - more, 0), max(part.stop - 1 - more, 0)))
        (j0, j1), (i0, i1) = limits
        low, high = self.decomposition.rank_at(j0, i0), self.decomposition.rank_at(j1, i1)
        px = self.decomposition.layout[1]
        return [iy * px + ix for iy in range(low // px, high // px + 1) for ix in range(low % px, high % px + 1)]


def _both(a: tuple[slice, slice], b: tuple[slice, slice]) -> tuple[slice, slice]:
    rows, columns = (slice(max(p.start, q.start), min(p.stop, q.stop)) for p, q in zip(a, b))
    return rows, columns


def _within(part: tuple[slice, slice], of: tuple[slice, slice]) -> tuple[slice, slice]:
    rows, columns = (slice(p.start - o.start, p.stop - o.start) for p, o in zip(part, of))
    return rows, columns


def chunks_of(
    tiles: Mapping[int, np.ndarray], grid: ChunkGrid, communicator: Communicator
) -> dict[tuple[int, int], np.ndarray]:
    """{chunk: its array} of the chunks that this process writes, from the fields of its tiles; collective.

    Args:
        tiles: {rank: (..., rows, columns)} of the region of each tile of this process.
        grid: the ChunkGrid.
        communicator: a Communicator.
    """
    pieces: dict[int, list] = {}
    for rank, array in tiles.items():
        region = grid.region(rank)
        for chunk in grid.overlapping(region):
            part = _both(region, grid.covered(chunk))
            piece = np.ascontiguousarray(array[(..., *_within(part, region))])
            pieces.setdefault(grid.owner(chunk), []).append((chunk, part, piece))
    mine = {chunk for rank in tiles for chunk in grid.of_rank(rank)}
    sources = {rank for chunk in mine for rank in grid.sources(chunk)}
    found = {}
    for chunk, part, values in communicator.exchange_pieces(pieces, sources):
        if chunk not in found:
            rows, columns = grid.covered(chunk)
            shape = (*values.shape[:-2], rows.stop - rows.start, columns.stop - columns.start)
            found[chunk] = np.zeros(shape, values.dtype)
        found[chunk][(..., *_within(part, grid.covered(chunk)))] = values
    return found


def dry_block(wet: GridValues, grid: Grid, position: str, part: tuple[slice, slice]) -> np.ndarray:
    """True at the points of a block of a field that touch no wet cell (the opposite of `metadata.reach_of_water`)."""
    more = metadata.faces(grid)[0] - grid.ny, metadata.faces(grid)[1] - grid.nx
    low = [1 if moves and extra else 0 for moves, extra in zip((position in "vq", position in "uq"), more)]
    high = [1 if moves and not extra else 0 for moves, extra in zip((position in "vq", position in "uq"), more)]
    box = [(p.start - a, p.stop + b) for p, a, b in zip(part, low, high)]
    modes = ["wrap" if periodic else False for periodic in (grid.periodic_y, grid.periodic_x)]
    wide = Tile(*box[0], *box[1]).cut(wet, 0, *modes)
    if low[0] or high[0]:
        wide = wide[:-1] | wide[1:]
    if low[1] or high[1]:
        wide = wide[:, :-1] | wide[:, 1:]
    return ~wide


def chunk_grid(array: Mapping[str, Any], decomposition: Decomposition) -> ChunkGrid:
    """The ChunkGrid of the field that an array's metadata describe."""
    chunk = array["chunk_grid"]["configuration"]["chunk_shape"]
    return ChunkGrid(tuple(array["shape"][-2:]), tuple(chunk[-2:]), decomposition)
