"""The fields of a run in a Zarr store: its arrays, their records in time, and whether a store can be continued.

The chunks of a field in a Zarr store: their shape, the rank that writes each, and the exchange of their parts.

The chunks have the shape of the largest tile. A rank writes the chunks whose first cell is its own. If tiles differ in
shape, or faces are shifted by one against cells, it sends the values that lie in another rank's chunk to that rank.
"""

import dataclasses
import datetime
import gzip
import math
from collections.abc import Mapping, Sequence
from typing import Any, Self

import numpy as np

from ..fields.variables import Variable
from ..grids.grid import Grid
from ..grids.windows import GridValues
from ..parallel.communicator import Communicator
from ..parallel.decomposition import Decomposition, Tile
from . import Claim, ReplacedFile, metadata, not_continued
from .metadata import Attribute
from .zarr_store import ZarrStore, array_metadata


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


TIMES = 1024  # records in a chunk of the time axis


class ZarrFields(ReplacedFile):
    """The fields of a run in a store, on the root, which sends the path and the metadata to the other ranks.

    Args:
        claim: the Claim of the folder.
        arrays: {name: metadata of the array}.
        attributes: global attributes.
        times: the times of the records [s].
    """

    def __init__(self, claim: Claim, arrays: dict, attributes: dict, times: list) -> None:
        super().__init__(claim, claim.path / "zarr.json")
        self.store, self.arrays, self.attributes, self.times = ZarrStore(claim.path), arrays, attributes, times
        self.written()

    @classmethod
    def opened(
        cls,
        claim: Claim,
        grid: Grid,
        rows: Sequence[Variable],
        chunk: tuple[int, int],
        *,
        start: datetime.datetime | None,
        attributes: Mapping[str, Attribute],
        depth: Variable | str,
        append: bool,
        resume_time: float,
    ) -> Self:
        """A new store, or an existing one with its records up to `resume_time`; on the root.

        Args:
            claim: the Claim of the folder.
            grid: the Grid.
            rows: the rows of the variable table to be written.
            chunk: (rows, columns) of a chunk in a new store.
            start, attributes: as for a FieldFile.
            depth: the row of the depth.
            append: whether an existing store is continued.
            resume_time: the time [s] up to which its records are kept.

        Raises:
            DataError: if a store cannot be continued by these variables.
        """
        store = ZarrStore(claim.path)
        about = metadata.file_attributes(grid, {**attributes, "stored_as": "float32"})
        arrays, values = _described(grid, rows, chunk, start, depth)
        if append and store.path.exists():
            was, old = store.description()
            if difference := _difference(store, was, arrays, values):
                raise not_continued(store.path, difference)
            times = times_of(store, was["time"])
            kept = [time for time in times if time <= resume_time + 1e-9 * max(1.0, abs(resume_time))]
            about = metadata.continued_attributes(old, about, min(resume_time, max(kept, default=0.0)))
            return cls(claim, was, about, kept)  # committed by check_continued, before anything is overwritten
        store.create(arrays, about)
        for name, array in values.items():
            store.write_chunk(name, arrays[name], (0,) * array.ndim, array)
        return cls(claim, arrays, about, [])

    def check(self) -> None:
        """Raise SwmodelError if the store or an array was removed, replaced or cut short."""
        self.store.check_present(self.arrays)
        super().check()

    def commit(self) -> None:
        """Write the number and the times of the complete records to the store; on the root."""
        count = len(self.times)
        first = max(count - 1, 0) // TIMES
        self.store.write_chunk("time", self.arrays["time"], (first,), np.array(self.times[first * TIMES :]))
        for array in self.arrays.values():
            if array["dimension_names"][:1] == ["time"]:
                array["shape"][0] = count
        self.store.commit(self.arrays, self.attributes)
        self.written()


def _difference(store, was, arrays, values):
    """The first difference between the arrays of a store and those of this run, as text, or None."""
    for name, array in arrays.items():
        if name not in was:
            return f"it has no {name}"
        old, now = (_kind(one, array["dimension_names"][:1] == ["time"]) for one in (was[name], array))
        for key in now:
            if old[key] != now[key]:
                return f"the {key} of its {name} is {old[key]}, and this run's is {now[key]}"
        if name in values and not same_values(
            store.read_chunk(name, was[name], (0,) * values[name].ndim), values[name]
        ):
            return f"its {name} is not this run's"
    more = [name for name in was if name not in arrays]
    return f"it also has {', '.join(more)}, which this run does not write" if more else None


def _kind(array, grows):
    """The metadata that must be equal for an array to be continued; `grows` is whether it grows along dimension 0."""
    about = {name: array["attributes"].get(name) for name in ("units", "long_name")}
    return {"type": array["data_type"], "shape": array["shape"][grows:], **about}


def same_values(a: np.ndarray, b: np.ndarray) -> bool:
    """Whether two arrays are equal but for the rounding of float32."""
    return np.allclose(a, b, rtol=1e-6, atol=0.0, equal_nan=True)


def times_of(store: ZarrStore, array: Mapping[str, Any]) -> list[float]:
    """The times [s] of the records of a store."""
    found, count = [], array["shape"][0]
    for k in range(math.ceil(count / TIMES)):
        content = gzip.decompress((store.path / "time" / "c" / str(k)).read_bytes())
        found += np.frombuffer(content, "<f8").tolist()
    return found[:count]


def _described(grid, rows, chunk, start, depth):
    """({name: metadata of the array}, {name: values} of the small ones)."""
    arrays, values = {}, {}
    for name, (dimensions, attributes, array) in metadata.grid_variables(grid).items():
        values[name] = array
        arrays[name] = array_metadata(array.shape, array.shape, array.dtype, dimensions, attributes)
    arrays["time"] = array_metadata((0,), (TIMES,), "f8", ("time",), metadata.time_attributes(start))
    cells = metadata.DIMENSIONS["h"]
    arrays["area"] = array_metadata(grid.shape, chunk, "f8", cells, metadata.AREA)
    arrays["wet"] = array_metadata(grid.shape, chunk, "i1", cells, metadata.WET)
    row = metadata.variable_of(depth)
    arrays[row.name] = array_metadata(grid.shape, chunk, "f4", cells, metadata.variable_attributes(row, grid))
    for row in rows:
        shape, about = metadata.shape(grid, row.position), metadata.variable_attributes(row, grid)
        dimensions = ("time", *metadata.DIMENSIONS[row.position])
        arrays[row.name] = array_metadata((0, *shape), (1, *chunk), "f4", dimensions, about)
    return arrays, values
