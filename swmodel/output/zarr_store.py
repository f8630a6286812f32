"""Zarr stores (version 3) that many ranks write: metadata, chunks, and atomic replacement.

A store is a folder. Its `zarr.json` describes all arrays (consolidated metadata), and a chunk of an array is a file.
Every rank writes its own chunks (zarr_fields.py). When all ranks have written their chunks of a record, the root
replaces `zarr.json` by one that counts the record (zarr_fields.py). Until then readers do not find it. A store is
therefore complete at any time, also after a run that was killed.

The library zarr is not needed for writing, only for reading: `xarray.open_zarr("fields.zarr")`.
https://zarr-specs.readthedocs.io/en/latest/v3/core/
"""

import contextlib
import gzip
import hashlib
import json
import logging
import os
import re
import shutil
import zlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import DTypeLike

from ..errors import DataError, SwmodelError
from ..grids.grid import Grid
from ..runtime.paths import remove, take_place
from . import disturbed, earlier, metadata, replacing
from .metadata import Attribute
from .restart import Restart, check_grid

STORE_FORMAT = 2  # of restarts; those of format 1 need not have a checksum
LEVEL = 1  # of gzip
NEEDED = ("shape", "data_type", "fill_value", "attributes", "dimension_names")  # what is read of an array's metadata


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
                aside._described = {name: _as_json(array) for name, array in arrays.items()}
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
            described = _as_json(array)
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
        _write(self.path / "zarr.json", _as_json(group))

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


def _as_json(content):
    return json.dumps(content, indent=1).encode()


def _write(path, content, durable=True):
    with replacing(path, durable=durable, safe="The records so far are safe.") as new:
        new.write_bytes(content)


class StoredChunks:
    """An array of a store that is read by windows; `Decomposition.cut` accepts it as a global array."""

    def __init__(self, store: ZarrStore, name: str, array: Mapping[str, Any], slot: int):
        self.store, self.name, self.array, self.slot = store, name, array, slot
        self.shape, self.dtype = tuple(array["shape"][1:]), np.dtype(array["data_type"])
        self.ndim = len(self.shape)

    def block(self, rows: slice, columns: slice) -> np.ndarray:
        """(..., rows, columns) of an array (..., ny, nx)."""
        lead = self.shape[:-2]
        found = np.empty((*lead, rows.stop - rows.start, columns.stop - columns.start), self.dtype)
        cy, cx = self.array["chunk_grid"]["configuration"]["chunk_shape"][-2:]
        for j in range(rows.start // cy, -(-rows.stop // cy)):
            for i in range(columns.start // cx, -(-columns.stop // cx)):
                chunk = self.store.read_chunk(self.name, self.array, (self.slot, *(0,) * len(lead), j, i))[0]
                r0, r1 = max(rows.start, j * cy), min(rows.stop, (j + 1) * cy)
                c0, c1 = max(columns.start, i * cx), min(columns.stop, (i + 1) * cx)
                part = chunk[..., r0 - j * cy : r1 - j * cy, c0 - i * cx : c1 - i * cx]
                found[..., r0 - rows.start : r1 - rows.start, c0 - columns.start : c1 - columns.start] = part
        return found

    def __array__(self, dtype: DTypeLike | None = None, copy: bool | None = None) -> np.ndarray:
        return np.asarray(self.block(slice(0, self.shape[-2]), slice(0, self.shape[-1])), dtype)


def description_of(store: ZarrStore) -> tuple[dict[str, dict], dict[str, Any]]:
    """`ZarrStore.description` of a restart, whose checksum is compared.

    A store of format 1 may have none, but not under another name, which a flipped bit makes.

    Raises:
        DataError: if it is damaged, or no restart.
    """
    try:
        arrays, about = store.description()
        if not about.keys() & {"checksum", "restart_slot"}:
            raise DataError(f"{store.path} is not a restart of swmodel; give the store that `restart` of a run names.")
        if (checksum := about.pop("checksum", None)) is not None:
            intact = checksum == checksum_of(arrays, about)
        else:
            digests = [value for value in about.values() if re.fullmatch("[0-9a-f]{64}", str(value))]
            intact = about.get("restart_format") == 1 and not digests
    except (AttributeError, TypeError, ValueError):  # the checksum is not that of these objects
        intact = False
    if not intact:
        raise DataError(
            f"{store.path} is damaged: its zarr.json does not match its checksum; resume from an older restart."
        )
    return arrays, about


def open_store(path: Path, grid: Grid | None = None, verify: bool = True) -> Restart:
    """The Restart in a store, whose arrays are read by windows when they are used.

    With `verify`, a store that may have no checksum leads to a warning.

    Raises:
        DataError: if it cannot be read, is newer than this swmodel, or of another grid.
    """
    store = ZarrStore(path)
    store.recover()
    arrays, about = description_of(store)
    if about["restart_format"] > STORE_FORMAT:
        raise DataError(f"{path} has format {about['restart_format']}, and this swmodel reads up to {STORE_FORMAT}.")
    if verify and about["restart_format"] < STORE_FORMAT:
        logging.getLogger("swmodel").warning(
            "%s is of an older swmodel, whose stores had no checksum: damage to its zarr.json may go unnoticed", path
        )
    described = json.loads(about["grid_description"])
    if grid is not None:
        check_grid(path, described, json.loads(metadata.describe_grid(grid)))
    found = {name: StoredChunks(store, name, array, int(about["restart_slot"])) for name, array in arrays.items()}
    return Restart(found, about["restart_scalars"], about, described)
