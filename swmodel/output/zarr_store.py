"""Zarr stores (version 3) that many ranks write: metadata, chunks, and atomic replacement.

A store is a folder. Its `zarr.json` describes all arrays (consolidated metadata), and a chunk of an array is a file.
Every rank writes its own chunks. When all ranks have written their chunks of a record, the root
replaces `zarr.json` by one that counts the record (zarr_fields.py). Until then readers do not find it. A store is
therefore complete at any time, also after a run that was killed.

The chunks have the shape of the largest tile. A rank writes the chunks whose first cell is its own. If tiles differ in
shape, or faces are shifted by one against cells, it sends the values that lie in another rank's chunk to that rank.

The library zarr is not needed for writing, only for reading: `xarray.open_zarr("fields.zarr")`.
https://zarr-specs.readthedocs.io/en/latest/v3/core/
"""

import contextlib
import dataclasses
import gzip
import hashlib
import json
import os
import shutil
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import jax
import numpy as np
from numpy.typing import DTypeLike

from ..errors import DataError, SwmodelError
from ..parallel.communicator import Communicator
from ..parallel.decomposition import Decomposition
from ..runtime.paths import remove, take_place
from . import disturbed, earlier, replacing
from .metadata import Attribute

SUFFIX = ".zarr"
LEVEL = 1  # of gzip
NEEDED = ("shape", "data_type", "fill_value", "attributes", "dimension_names")  # what is read of an array's metadata


def is_store(path: str | Path) -> bool:
    """Whether the name of an output file is that of a Zarr store."""
    return Path(path).suffix == SUFFIX


class ZarrStore:
    """One store of fields along time; the root makes and commits, every rank writes chunks.

    Args:
        path: the path of the folder.
        durable: whether each chunk is on disk when `write_chunk` returns.
    """

    def __init__(self, path: str | Path, durable: bool = False):
        self.path, self.durable = Path(path), durable
        self._described: dict[str, bytes] = {}  # what this object has written of each array's metadata

    @property
    def aside(self) -> Path:
        """The path of the store that will take the place of this one."""
        return self.path.with_name(f".{self.path.name}.new")

    # -- on the root ---------------------------------------------------------------------------------------------------

    def create(self, arrays: Mapping[str, dict], attributes: Mapping[str, Attribute]) -> None:
        """A new store without records; an older one of this name is removed.

        Args:
            arrays: {name: metadata of the array}, as `array_metadata` makes them.
            attributes: global attributes.
        """
        self.remove()
        self.commit(arrays, attributes)

    def check_removable(self) -> None:
        """Raise DataError if there is a folder of this name that is not a store."""
        if self.path.is_dir() and any(self.path.iterdir()) and not (self.path / "zarr.json").is_file():
            raise DataError(f"{self.path} is a folder that holds no Zarr store, and is left alone; give another name.")

    def remove(self) -> None:
        """Remove the store, if there is one; it is gone as a whole even if the process is killed meanwhile.

        Raises:
            DataError: if the folder is not a store.
        """
        self.check_removable()
        old = self.path.with_name(f".{self.path.name}.old")
        remove(old)
        if self.path.is_dir():
            os.rename(self.path, old)
            remove(old)

    def next_to_it(self, arrays: Mapping[str, dict]) -> "ZarrStore":
        """A store of these arrays in the same folder, which gets this store's name by `replace_by` when it is complete.

        The files of the earlier store are overwritten, if that has the same arrays.
        """
        aside, before = ZarrStore(self.aside, self.durable), ZarrStore(earlier(self.path))
        remove(aside.path)
        with contextlib.suppress(DataError, OSError):
            if before.description()[0] == arrays:
                (before.path / "zarr.json").unlink()  # it is not complete any more
                os.rename(before.path, aside.path)
        aside.describe(arrays)
        return aside

    def replace_by(self, other: "ZarrStore") -> None:
        """Give a complete store this name; `recover` completes this after a kill. The one before is `earlier(path)`."""
        try:
            take_place(other.path, self.path, earlier=earlier(self.path))
        except OSError as error:
            self.recover()
            if not (self.path / "zarr.json").is_file():
                raise disturbed(self.path) from error
            if other.path.exists():
                raise SwmodelError(
                    f"{self.path} could not be replaced: {error.strerror}; give another folder."
                ) from error

    def recover(self) -> None:
        """After a process was killed in `replace_by`, give the name to the newest store that is complete."""
        for aside in (self.aside, earlier(self.path)):
            if not self.path.exists() and (aside / "zarr.json").is_file():
                with contextlib.suppress(OSError):  # another rank has done so
                    os.rename(aside, self.path)

    def description(self) -> tuple[dict[str, dict], dict[str, Any]]:
        """({name: metadata of the array}, global attributes) of a store.

        Raises:
            DataError: if it cannot be read.
        """
        try:
            group = json.loads((self.path / "zarr.json").read_text())
            arrays = group["consolidated_metadata"]["metadata"]
            for array in arrays.values():
                _ = [array[key] for key in NEEDED], array["chunk_grid"]["configuration"]["chunk_shape"]
            return arrays, group["attributes"]
        except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            raise DataError(
                f"{self.path} cannot be continued: it is no Zarr store of a run, or damaged ({error}); "
                "move it away, give the output another folder (--output DIR), or resume from another restart."
            ) from error

    def check_present(self, arrays: Mapping[str, dict]) -> None:
        """Raise SwmodelError if the store or an array was removed; of a whole store, remove what ranks wrote since."""
        missing = [name for name in ("", *arrays) if not (self.path / name / "zarr.json").is_file()]
        if missing in ([], [""]):  # the last one to be written is that of the store
            return
        if len(missing) > len(arrays):
            for name in arrays:
                shutil.rmtree(self.path / name, ignore_errors=True)
            with contextlib.suppress(OSError):  # there is no such folder, or something else is in it
                self.path.rmdir()
        raise disturbed(self.path)

    def describe(self, arrays: Mapping[str, dict]) -> None:
        """Write the descriptions of the arrays that have changed."""
        for name, array in arrays.items():
            described = json.dumps(array, indent=1).encode()
            if self._described.get(name) != described:
                _write(self.path / name / "zarr.json", described)
                self._described[name] = described

    def commit(self, arrays: Mapping[str, dict], attributes: Mapping[str, Attribute]) -> None:
        """Replace the description of the store by `arrays` and `attributes`, atomically."""
        self.describe(arrays)
        group = {
            "zarr_format": 3,
            "node_type": "group",
            "attributes": _plain(attributes),
            "consolidated_metadata": {"kind": "inline", "must_understand": False, "metadata": dict(arrays)},
        }
        _write(self.path / "zarr.json", json.dumps(group, indent=1).encode())

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
        _write(path, gzip.compress(whole.tobytes(), LEVEL, mtime=0), self.durable)

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
    shape: Sequence[int],
    chunk: Sequence[int],
    dtype: DTypeLike,
    dimensions: Sequence[str],
    attributes: Mapping[str, Attribute],
) -> dict[str, Any]:
    """The metadata of an array; missing values of real numbers are NaN."""
    dtype = np.dtype(dtype)
    return {
        "zarr_format": 3,
        "node_type": "array",
        "shape": [int(n) for n in shape],
        "data_type": dtype.name,
        "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [int(n) for n in chunk]}},
        "chunk_key_encoding": {"name": "default", "configuration": {"separator": "/"}},
        "fill_value": "NaN" if dtype.kind == "f" else False if dtype.kind == "b" else 0,
        "codecs": [
            {"name": "bytes", "configuration": {"endian": "little"}},
            {"name": "gzip", "configuration": {"level": LEVEL}},
        ],
        "attributes": _plain(attributes),
        "dimension_names": list(dimensions),
        "storage_transformers": [],
    }


def checksum_of(arrays: Mapping[str, dict], attributes: Mapping[str, Attribute]) -> str:
    """The SHA-256 digest of the metadata of arrays and of global attributes."""
    return hashlib.sha256(json.dumps([dict(arrays), _plain(attributes)], sort_keys=True).encode()).hexdigest()


def _plain(attributes):
    """Attributes in types that JSON has."""
    return {
        name: value.tolist() if isinstance(value, (np.ndarray, np.generic)) else value
        for name, value in attributes.items()
    }


def _write(path, content, durable=True):
    with replacing(path, durable=durable, safe="The records so far are safe.") as new:
        new.write_bytes(content)


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
