"""Snapshots of fields in Zarr stores (zarr_store.py), of which every rank writes its own chunks.

The chunks have the shape of the largest tile. A rank writes the chunks whose first cell is its own. If tiles differ in
shape, or faces are shifted by one against cells, it sends the values that lie in another rank's chunk to that rank.
"""

import dataclasses
import gzip
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import jax
import numpy as np

from ..errors import ConfigError, DataError, SwmodelError
from ..grids.grid import Grid
from ..grids.windows import GridValues
from ..parallel.communicator import Communicator
from ..parallel.decomposition import Decomposition, Tile
from . import Claim, ReplacedFile, metadata, not_continued
from .metadata import Attribute, rows_of
from .products.snapshots import AUTO, FieldOutput, fields_of_tiles
from .schedule import AbstractSimulation
from .zarr_store import ZarrStore, array_metadata


class ZarrFieldOutput(FieldOutput):
    """Snapshots of fields in a Zarr store. Each rank writes its chunks before it computes the next steps."""

    def __init__(
        self,
        path: str | Path,
        variables: Sequence[str],
        every: float | None,
        simulation: AbstractSimulation,
        compression: str = AUTO,
    ) -> None:
        super().__init__(path, variables, every, simulation)
        if compression not in (AUTO, "zlib"):
            raise ConfigError(f"{path}: Zarr stores are compressed by zlib; leave compression = {compression!r} out.")
        self._dry: dict[tuple[str, tuple[int, int]], np.ndarray] = {}  # of the positions and chunks of this process
        if simulation.model.batch:
            raise ConfigError(f"{path}: the fields of an ensemble are written as netCDF; give a name that ends in .nc.")

    def open(self, simulation: AbstractSimulation, attributes: Mapping[str, Attribute], claim: Claim) -> None:
        store, (arrays, values) = ZarrStore(claim.path), _described(simulation, self.variables)
        about = metadata.file_attributes(simulation.model.grid, {**attributes, "stored_as": "float32"})
        times, now = [], simulation.time
        if self.continues(simulation) and store.path.exists():
            was, old = store.description()
            if difference := _difference(store, was, arrays, values):
                raise not_continued(store.path, difference)
            times = [time for time in times_of(store, was["time"]) if time <= now + 1e-9 * max(1.0, abs(now))]
            about = metadata.continued_attributes(old, about, min(now, max(times, default=0.0)))
            arrays = was  # committed by check_continued, before anything is overwritten
        else:
            store.create(arrays, about)
            for name, array in values.items():
                store.write_chunk(name, arrays[name], (0,) * array.ndim, array)
        self.file = ZarrFields(claim, arrays, about, times)

    def bytes_of_record(self, simulation: AbstractSimulation) -> int:
        return -(-super().bytes_of_record(simulation) // simulation.communicator.size)  # nothing is gathered

    def write(self, simulation: AbstractSimulation) -> None:
        self._write_record(simulation, simulation.time, fields_of_tiles(simulation, self.variables))

    def write_kept(self, simulation: AbstractSimulation, steps: Sequence[int], tiles: Mapping[str, np.ndarray]) -> None:
        for k, step in enumerate(steps):
            self._write_record(simulation, step * simulation.dt, {name: x[k] for name, x in tiles.items()})

    def _write_record(self, simulation, seconds, tiles):
        communicator, file, writer = simulation.communicator, self.file, self.writer
        seconds, shared = float(seconds), None
        if communicator.is_root and file is not None:
            replaces = file.times[-1:] == [seconds]
            shared = file.store.path, file.arrays, len(file.times) - replaces
        shared = communicator.host_broadcast(shared)
        if shared is None:  # an earlier record could not be written
            return
        path, arrays, number = shared
        errors = write_chunks(communicator, ZarrStore(path), arrays, self._chunks(simulation, tiles, arrays, number))
        if file is None or writer is None:
            return
        with writer.catching(self):
            file.check()  # first: the errors of a store that was removed depend on who writes when
            if errors:
                raise errors[0]
            file.times[number:] = [seconds]
            file.commit()

    def _chunks(self, simulation, tiles, arrays, number):
        """Yield (name, index, values) of this process's chunks of record `number`; collective."""
        model = simulation.model
        for name, grid, chunk, values in own_chunks(model, arrays, tiles):
            position = metadata.variable_of(rows_of(simulation, [name])[0]).position
            if (position, chunk) not in self._dry:
                self._dry[position, chunk] = dry_block(model.sea_floor.wet, model.grid, position, grid.covered(chunk))
            yield name, (number, *chunk), np.where(self._dry[position, chunk], np.nan, values).astype(np.float32)
        if number == 0:
            yield from self._static(simulation, arrays)

    def check_continued(self, simulation: AbstractSimulation) -> None:
        """Each rank compares its chunks of mask and depth with the store's; then the later records are dropped."""
        communicator, file = simulation.communicator, self.file
        if not self.continues(simulation):
            return
        shared = (file.store.path, file.arrays) if file is not None and file.times else None
        shared = communicator.host_broadcast(shared)
        if shared is not None and not self.begun:
            self._compare(simulation, *shared)
        communicator.from_root(lambda: file is not None and file.commit())

    def _compare(self, simulation, path, arrays):
        communicator = simulation.communicator
        store, differs = ZarrStore(path), []
        for name, chunk, values in self._static(simulation, arrays):
            try:
                there = store.read_chunk(name, arrays[name], chunk)
                same = same_values(there[tuple(slice(n) for n in values.shape)], values)
            except DataError:
                same = False
            differs += [] if same else [name]
        differs = sum(communicator.host_gather(differs), [])
        if differs:
            raise not_continued(self.path, f"its {differs[0]} is not this run's")

    def _static(self, simulation, arrays):
        """(name, chunk, values) of the areas, the mask and the depth of this process's chunks.

        A depth that is one of the variables has records.
        """
        model = simulation.model
        depth = metadata.variable_of(rows_of(simulation, ["depth"])[0]).name
        for name in (name for name in ("area", "wet", depth) if len(arrays[name]["shape"]) == 2):
            grid = chunk_grid(arrays[name], model.decomposition)
            for chunk in [chunk for rank in model.communicator.ranks for chunk in grid.of_rank(rank)]:
                part = grid.covered(chunk)
                wet = model.sea_floor.wet.block(*part)
                if name == "area":
                    area = model.grid.metrics(np.arange(part[0].start, part[0].stop))["area_h"]
                    yield name, chunk, np.broadcast_to(area, wet.shape)
                elif name == "wet":
                    yield name, chunk, wet
                else:
                    yield name, chunk, np.where(wet, model.sea_floor.depth.block(*part), np.nan)


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


def _described(simulation, variables):
    """({name: metadata of the array} of a new store, {name: values} of the small ones)."""
    arrays, values, grid = {}, {}, simulation.model.grid
    chunk, cells = simulation.model.decomposition.tile(0).shape, metadata.DIMENSIONS["h"]
    for name, (dimensions, attributes, array) in metadata.grid_variables(grid).items():
        values[name] = array
        arrays[name] = array_metadata(array.shape, array.shape, array.dtype, dimensions, attributes)
    arrays["time"] = array_metadata((0,), (TIMES,), "f8", ("time",), metadata.time_attributes(simulation.start))
    arrays["area"] = array_metadata(grid.shape, chunk, "f8", cells, metadata.AREA)
    arrays["wet"] = array_metadata(grid.shape, chunk, "i1", cells, metadata.WET)
    depth, *rows = map(metadata.variable_of, rows_of(simulation, ["depth", *variables]))
    arrays[depth.name] = array_metadata(grid.shape, chunk, "f4", cells, metadata.variable_attributes(depth, grid))
    for row in rows:
        shape, about = metadata.shape(grid, row.position), metadata.variable_attributes(row, grid)
        dimensions = ("time", *metadata.DIMENSIONS[row.position])
        arrays[row.name] = array_metadata((0, *shape), (1, *chunk), "f4", dimensions, about)
    return arrays, values


# -- the chunks of a field, and the rank that writes each ------------------------------------------------------------


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
        low, high = [], []
        for part, size, cells in zip(self.covered(chunk), self.shape, self.decomposition.shape):
            more = size - cells
            low.append(max(part.start - more, 0))
            high.append(max(part.stop - 1 - more, 0))
        low, high, px = (
            self.decomposition.rank_at(*low),
            self.decomposition.rank_at(*high),
            self.decomposition.layout[1],
        )
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


def chunk_grid(array: Mapping[str, Any], decomposition: Decomposition) -> ChunkGrid:
    """The ChunkGrid of the field that an array's metadata describe."""
    chunk = array["chunk_grid"]["configuration"]["chunk_shape"]
    return ChunkGrid(tuple(array["shape"][-2:]), tuple(chunk[-2:]), decomposition)


def own_chunks(
    model: Any, arrays: Mapping[str, dict], fields: Mapping[str, jax.Array]
) -> Iterator[tuple[str, ChunkGrid, tuple[int, int], np.ndarray]]:
    """Yield (name, ChunkGrid, chunk, values) of this process's chunks of {name: tile arrays}; collective.

    Args:
        model: a ShallowWater.
        arrays: {name: metadata of the array} of the store.
        fields: {name: placed tile arrays}.
    """
    parts = model.decomposition
    for name, placed in fields.items():
        grid, tiles = chunk_grid(arrays[name], parts), model.communicator.tiles(placed)
        own = {rank: parts.own(np.asarray(tile), rank) for rank, tile in tiles.items()}
        for chunk, values in chunks_of(own, grid, model.communicator).items():
            yield name, grid, chunk, values


def write_chunks(
    communicator: Communicator,
    store: ZarrStore,
    arrays: Mapping[str, dict],
    chunks: Iterable[tuple[str, tuple[int, ...], np.ndarray]],
) -> list[SwmodelError]:
    """Write this process's `chunks` (name, index, values) up to an error; returns the errors of all; collective."""
    error = None
    for name, index, values in chunks:  # all of them, since making them is collective
        try:
            if error is None:
                store.write_chunk(name, arrays[name], index, values)
        except SwmodelError as failed:
            error = failed
    return [found for found in communicator.host_gather(error) if found is not None]
