"""Fields of a run in a Zarr store (version 3), of which every rank writes its own chunks.

A store is a folder. Its `zarr.json` describes all arrays (consolidated metadata), and a chunk of an array is a file.
The chunks have the shape of the largest tile. A rank writes the chunks whose first cell is its own; where tiles are not
all alike, or faces are shifted by one against cells, it sends what lies in another rank's chunk to that rank. When all
ranks have written their chunks of a record, the root replaces `zarr.json`, in which the record is counted. Until then
no reader finds it: a store is complete at any moment, also after a run that was killed.

The library zarr is not needed for writing, only for reading: `xarray.open_zarr("fields.zarr")`.
https://zarr-specs.readthedocs.io/en/latest/v3/core/
"""

import contextlib
import dataclasses
import gzip
import json
import math
import os
import shutil
import zlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import DataError, SwmodelError
from ..fields.variables import Variable
from ..grids.grid import Grid
from ..grids.windows import GridValues
from ..parallel.decomposition import Tile
from . import Claim, metadata

__all__ = [
    "ChunkGrid", "ZarrFields", "ZarrStore", "chunk_grid", "chunks_of", "dry_block", "is_store", "not_continued",
    "same_values",
]  # fmt: skip

SUFFIX = ".zarr"
TIMES = 1024  # records in a chunk of the time axis
LEVEL = 1  # of gzip


def is_store(path: str | Path) -> bool:
    """Whether the name of an output file asks for a Zarr store."""
    return Path(path).suffix == SUFFIX


@dataclasses.dataclass(frozen=True)
class ChunkGrid:
    """The chunks of a field, and who writes them.

    Attributes:
        shape: of the field (rows, columns).
        chunk: (rows, columns) of a chunk.
        decomposition: of the grid's cells.
    """

    shape: tuple[int, int]
    chunk: tuple[int, int]
    decomposition: Any

    def owner(self, chunk: tuple[int, int]) -> int:
        """The rank that writes a chunk: that of its first cell, or of the last one before its first face."""
        j, i = (min(k * size, cells - 1) for k, size, cells in zip(chunk, self.chunk, self.decomposition.shape))
        return self.decomposition.rank_at(j, i)

    def region(self, rank: int) -> tuple[slice, slice]:
        """The rows and columns that a rank's tile has of the field; faces belong to the cell before them."""
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


def chunks_of(tiles: Mapping[int, np.ndarray], grid: ChunkGrid, communicator: Any) -> dict[tuple[int, int], np.ndarray]:
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
    """True at the points of a block of a field that touch no wet cell; see `metadata.reach_of_water`."""
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


class ZarrStore:
    """One store of fields along time; the root makes and commits, every rank writes chunks.

    Args:
        path: of the folder.
        durable: whether each chunk is on disk when `write_chunk` returns.
    """

    def __init__(self, path: str | Path, durable: bool = False):
        self.path, self.durable = Path(path), durable
        self._described: dict[str, bytes] = {}  # what this object has written of each array's metadata

    # -- on the root ---------------------------------------------------------------------------------------------------

    def create(self, arrays: Mapping[str, dict], attributes: Mapping[str, Any]) -> None:
        """A new store without records; an older one of this name is removed.

        Args:
            arrays: {name: metadata of the array}, as `array_metadata` makes them.
            attributes: global attributes.
        """
        self.remove()
        self.path.mkdir(parents=True)
        self.commit(arrays, attributes)

    def check_removable(self) -> None:
        """Raise DataError if there is a folder of this name that holds something else than a store."""
        if self.path.is_dir() and any(self.path.iterdir()) and not (self.path / "zarr.json").is_file():
            raise DataError(f"{self.path} is a folder that holds no Zarr store, and is left alone; give another name.")

    def remove(self) -> None:
        """Remove the store, if there is one: as a whole, under this name, whenever the process is killed.

        Raises:
            DataError: if the folder holds something else.
        """
        self.check_removable()
        old = _hidden(self.path, "old")
        shutil.rmtree(old, ignore_errors=True)
        if self.path.is_dir():
            os.rename(self.path, old)
            shutil.rmtree(old, ignore_errors=True)

    def next_to_it(self) -> "ZarrStore":
        """An empty store in the same folder, in which another one is made until `replace_by` gives it this name."""
        aside = ZarrStore(_hidden(self.path, "new"), self.durable)
        shutil.rmtree(aside.path, ignore_errors=True)
        aside.path.mkdir(parents=True)
        return aside

    def replace_by(self, other: "ZarrStore") -> None:
        """Give a complete store this name. Two renames: a process killed between them leaves what `recover` mends."""
        try:
            old = _hidden(self.path, "old")
            shutil.rmtree(old, ignore_errors=True)
            if self.path.is_dir():
                os.rename(self.path, old)
            os.rename(other.path, self.path)
            _sync_folder(self.path.parent)
        except OSError as error:
            self.recover()
            if other.path.exists():
                raise SwmodelError(
                    f"{self.path} could not be replaced: {error.strerror}; give another folder."
                ) from error
        shutil.rmtree(old, ignore_errors=True)

    def tidy(self) -> None:
        """Remove what killed processes have left next to the store; only for a process that has claimed it."""
        self.recover()
        for kind in ("new", "old"):
            shutil.rmtree(_hidden(self.path, kind), ignore_errors=True)

    def recover(self) -> None:
        """End what a process that was killed in `replace_by` has left: the newer store if it is complete."""
        for kind in ("new", "old"):
            aside = _hidden(self.path, kind)
            if not self.path.exists() and (aside / "zarr.json").is_file():
                with contextlib.suppress(OSError):  # another rank has done so
                    os.rename(aside, self.path)

    def described(self) -> tuple[dict[str, dict], dict[str, Any]]:
        """({name: metadata of the array}, global attributes) of a store.

        Raises:
            DataError: if it cannot be read.
        """
        try:
            group = json.loads((self.path / "zarr.json").read_text())
            return group["consolidated_metadata"]["metadata"], group["attributes"]
        except (OSError, ValueError, KeyError) as error:
            raise DataError(
                f"{self.path} cannot be continued: it is no Zarr store of a run ({error}); move it away, or give the "
                "output another folder (--output DIR)."
            ) from error

    def commit(self, arrays: Mapping[str, dict], attributes: Mapping[str, Any]) -> None:
        """Let readers find what `arrays` describe, at once."""
        for name, array in arrays.items():
            described = _as_json(array)
            if self._described.get(name) != described:
                _replace(self.path / name / "zarr.json", described)
                self._described[name] = described
        group = {
            "zarr_format": 3,
            "node_type": "group",
            "attributes": _plain(attributes),
            "consolidated_metadata": {"kind": "inline", "must_understand": False, "metadata": dict(arrays)},
        }
        _replace(self.path / "zarr.json", _as_json(group))

    # -- on every rank -------------------------------------------------------------------------------------------------

    def write_chunk(self, name: str, array: Mapping[str, Any], index: Sequence[int], values: np.ndarray) -> None:
        """Write a chunk; at the end of the field the array is smaller than a chunk, which is filled up.

        Raises:
            SwmodelError: if the disk has no space for it.
        """
        shape = array["chunk_grid"]["configuration"]["chunk_shape"]
        fill = array["fill_value"]
        whole = np.full(shape, np.nan if fill == "NaN" else fill, np.dtype(array["data_type"]).newbyteorder("<"))
        values = np.asarray(values)
        values = values.reshape((1,) * (whole.ndim - values.ndim) + values.shape)
        whole[tuple(slice(n) for n in values.shape)] = values
        path = self.path.joinpath(name, "c", *map(str, index))
        _replace(path, gzip.compress(whole.tobytes(), LEVEL, mtime=0), sync=self.durable)

    def read_chunk(self, name: str, array: Mapping[str, Any], index: Sequence[int]) -> np.ndarray:
        """A chunk, filled up at the end of the field; gzip compares it with its checksum.

        Raises:
            DataError: if it is missing or damaged.
        """
        path = self.path.joinpath(name, "c", *map(str, index))
        shape = array["chunk_grid"]["configuration"]["chunk_shape"]
        try:
            content = gzip.decompress(path.read_bytes())
            return np.frombuffer(content, np.dtype(array["data_type"]).newbyteorder("<")).reshape(shape)
        except (OSError, EOFError, ValueError, zlib.error) as error:
            raise DataError(f"{path} is missing or damaged ({error}); resume from an older restart.") from error


def array_metadata(
    shape: Sequence[int], chunk: Sequence[int], dtype: Any, dimensions: Sequence[str], attributes: Mapping[str, Any]
) -> dict[str, Any]:
    """The metadata of an array; missing values of real numbers are NaN."""
    dtype = np.dtype(dtype)
    return {
        "zarr_format": 3, "node_type": "array", "shape": [int(n) for n in shape], "data_type": dtype.name,
        "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [int(n) for n in chunk]}},
        "chunk_key_encoding": {"name": "default", "configuration": {"separator": "/"}},
        "fill_value": "NaN" if dtype.kind == "f" else False if dtype.kind == "b" else 0,
        "codecs": [{"name": "bytes", "configuration": {"endian": "little"}},
                   {"name": "gzip", "configuration": {"level": LEVEL}}],
        "attributes": _plain(attributes), "dimension_names": list(dimensions), "storage_transformers": [],
    }  # fmt: skip


def _plain(attributes):
    """Attributes as JSON has them."""
    return {
        name: value.tolist() if isinstance(value, (np.ndarray, np.generic)) else value
        for name, value in attributes.items()
    }


def _as_json(content):
    return json.dumps(content, indent=1).encode()


def _hidden(path, kind):
    return path.with_name(f".{path.name}.{kind}")


def _sync_folder(path):
    with contextlib.suppress(OSError):  # not every file system can
        descriptor = os.open(path, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def _replace(path, content, sync=True):
    """A file of this content at `path`, complete or not there; with `sync` it outlives a loss of power."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with temporary.open("wb") as file:
            file.write(content)
            if sync:
                file.flush()
                os.fsync(file.fileno())
        os.replace(temporary, path)
        if sync:
            _sync_folder(path.parent)
    except OSError as error:
        temporary.unlink(missing_ok=True)
        raise SwmodelError(
            f"{path} could not be written: {error.strerror}; make room on the disk, or give another folder. The "
            "records so far are safe."
        ) from error


# -- fields along time -------------------------------------------------------------------------------------------------


@dataclasses.dataclass
class ZarrFields:
    """The fields of a run in a store: what all ranks know, and the root's part.

    Attributes:
        store: the ZarrStore.
        arrays: {name: metadata of the array}.
        attributes: global attributes.
        times: of the records [s].
    """

    store: ZarrStore
    arrays: dict
    attributes: dict
    times: list

    @staticmethod
    def opened(
        claim: Claim, grid: Grid, rows: Sequence[Variable], chunk: tuple[int, int], *, start: Any,
        attributes: Mapping[str, Any], depth: Variable | str, append: bool, resume_time: float,
    ) -> "ZarrFields":  # fmt: skip
        """A new store, or one that goes on after `resume_time`; on the root.

        Args:
            claim: of the folder.
            grid: the Grid.
            rows: of the variable table.
            chunk: (rows, columns) of a chunk in a new store.
            start, attributes: as of a FieldFile.
            depth: the row of the depth.
            append: whether an existing store is continued.
            resume_time: [s], up to which its records are kept.

        Raises:
            DataError: if a store cannot be continued by these variables.
        """
        store = ZarrStore(claim.path)
        about = metadata.run_attributes(grid, {**attributes, "stored_as": "float32"})
        arrays, values = _described(grid, rows, chunk, start, depth)
        if append and store.path.exists():
            was, old = store.described()
            if difference := _difference(store, was, arrays, values):
                raise not_continued(store.path, difference)
            times = _times(store, was["time"])
            kept = [time for time in times if time <= resume_time + 1e-9 * max(1.0, abs(resume_time))]
            about = metadata.continued_attributes(old, about, min(resume_time, max(kept, default=0.0)))
            return ZarrFields(store, was, about, kept)  # committed by check_continued, before anything is overwritten
        store.create(arrays, about)
        for name, array in values.items():
            store.write_chunk(name, arrays[name], (0,) * array.ndim, array)
        return ZarrFields(store, arrays, about, [])

    def commit(self) -> None:
        """Count the records in `times`; on the root."""
        count = len(self.times)
        first = max(count - 1, 0) // TIMES
        self.store.write_chunk("time", self.arrays["time"], (first,), np.array(self.times[first * TIMES :]))
        for array in self.arrays.values():
            if array["dimension_names"][:1] == ["time"]:
                array["shape"][0] = count
        self.store.commit(self.arrays, self.attributes)


def not_continued(path: str | Path, why: str) -> DataError:
    """The error of an output that belongs to another run."""
    return DataError(
        f"{path} cannot be continued: {why}; give the output another name, or another folder (--output DIR)."
    )


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
    """What must be equal in the metadata of two arrays, which grow along their first dimension or not."""
    about = {name: array["attributes"].get(name) for name in ("units", "long_name")}
    return {"type": array["data_type"], "shape": array["shape"][grows:], **about}


def same_values(a: np.ndarray, b: np.ndarray) -> bool:
    """Whether two arrays are equal but for the rounding of float32."""
    return np.allclose(a, b, rtol=1e-6, atol=0.0, equal_nan=True)


def chunk_grid(array: Mapping[str, Any], decomposition: Any) -> ChunkGrid:
    """The ChunkGrid of the field that an array's metadata describe."""
    chunk = array["chunk_grid"]["configuration"]["chunk_shape"]
    return ChunkGrid(tuple(array["shape"][-2:]), tuple(chunk[-2:]), decomposition)


def _times(store, array):
    """The times [s] of the records of a store."""
    found, count = [], array["shape"][0]
    for k in range(math.ceil(count / TIMES)):
        content = gzip.decompress((store.path / "time" / "c" / str(k)).read_bytes())
        found += np.frombuffer(content, "<f8").tolist()
    return found[:count]


def _described(grid, rows, chunk, start, depth):
    """({name: metadata of the array}, {name: values} of the small ones)."""
    arrays, values = {}, {}
    for name, (array, attributes, bounds) in metadata.axes(grid).items():
        values[name] = array
        arrays[name] = array_metadata(array.shape, array.shape, "f8", (name,), attributes)
        if bounds is not None:
            values[f"{name}_bnds"] = bounds
            arrays[name]["attributes"]["bounds"] = f"{name}_bnds"
            arrays[f"{name}_bnds"] = array_metadata(bounds.shape, bounds.shape, "f8", (name, "bnds"), {})
    for name, (array, attributes, dimension) in metadata.metrics(grid).items():
        values[name] = array
        arrays[name] = array_metadata(array.shape, array.shape, "f8", (dimension,), attributes)
    values["grid"] = np.zeros((), np.int32)
    arrays["grid"] = array_metadata((), (), "i4", (), metadata.topology(grid))
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
