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
import os
import shutil
import zlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import DTypeLike

from ..errors import DataError, SwmodelError
from ..runtime.paths import to_disk
from . import disturbed
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
        old = _hidden(self.path, "old")
        shutil.rmtree(old, ignore_errors=True)
        if self.path.is_dir():
            os.rename(self.path, old)
            shutil.rmtree(old, ignore_errors=True)

    def next_to_it(self) -> "ZarrStore":
        """A new store in the same folder, which gets this store's name by `replace_by` when it is complete."""
        aside = ZarrStore(_hidden(self.path, "new"), self.durable)
        shutil.rmtree(aside.path, ignore_errors=True)
        return aside

    def replace_by(self, other: "ZarrStore") -> None:
        """Give a complete store this name, by two renames; `recover` completes them after a kill in between."""
        try:
            old = _hidden(self.path, "old")
            shutil.rmtree(old, ignore_errors=True)
            if self.path.is_dir():
                os.rename(self.path, old)
            os.rename(other.path, self.path)
            _sync_folder(self.path.parent)
        except OSError as error:
            self.recover()
            if not (self.path / "zarr.json").is_file():
                raise disturbed(self.path) from error
            if other.path.exists():
                raise SwmodelError(
                    f"{self.path} could not be replaced: {error.strerror}; give another folder."
                ) from error
        shutil.rmtree(old, ignore_errors=True)

    def remove_remains(self) -> None:
        """Remove the remains of killed processes next to the store; only for a process that has claimed it."""
        self.recover()
        for kind in ("new", "old"):
            shutil.rmtree(_hidden(self.path, kind), ignore_errors=True)

    def recover(self) -> None:
        """Complete the replacement after a process was killed in `replace_by`, if the newer store is complete."""
        for kind in ("new", "old"):
            aside = _hidden(self.path, kind)
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
                _replace(self.path / name / "zarr.json", described)
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


def _hidden(path, kind):
    return path.with_name(f".{path.name}.{kind}")


def _sync_folder(path):
    with contextlib.suppress(OSError):  # not every file system can
        to_disk(path)


def _replace(path, content, sync=True):
    """Write a file that is either complete or absent; with `sync` it survives a loss of power."""
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
    except FileNotFoundError as error:  # the folder has gone since the first line
        raise disturbed(path) from error
    except OSError as error:
        temporary.unlink(missing_ok=True)
        raise SwmodelError(
            f"{path} could not be written: {error.strerror}; free space on the disk, or give another folder. The "
            "records so far are safe."
        ) from error
