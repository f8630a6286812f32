"""Restarts as files or as Zarr stores, opened so that every rank reads the windows of its own tiles."""

import json
import logging
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

import jax
import numpy as np
from numpy.typing import DTypeLike

from ..dynamics.domain import Domain
from ..errors import DataError
from ..grids.grid import Grid
from . import metadata
from .restart import Restart, check_grid, open_restart
from .zarr_store import ZarrStore, checksum_of, is_store

T = TypeVar("T")

STORE_FORMAT = 2  # of stores; those of format 1 need not have a checksum


def opened(path: str | Path, grid: Grid | None = None, verify: bool = True, as_store: bool | None = None) -> Restart:
    """A Restart whose arrays are read by windows, when they are used.

    Args:
        path: the path of a netCDF file or of a Zarr store, which the ending of the name distinguishes.
        grid: the Grid on which the run continues, or None to accept any grid.
        verify: whether a file is compared with its checksum. The checksum of a store, which covers all but the chunks,
            is always compared, and those of the chunks when they are read.
        as_store: whether it is a store, if its name does not end as one of its kind.

    Raises:
        DataError: if there is no such restart, it is damaged, newer than this swmodel, or of another grid.
    """
    as_store = is_store(path) if as_store is None else as_store
    return open_store(Path(path), grid, verify) if as_store else open_restart(path, grid, verify)


def opened_together(
    domain: Domain, path: str | Path, about: Callable[[Restart], T]
) -> tuple[Callable[[str], jax.Array | np.ndarray], T]:
    """(`tile(name)`, which gives the placed tile arrays of an array, `about(the Restart)` of the root); collective.

    The root compares the file with its checksum. Then every rank reads its own window. If some rank has no access to
    the file, the root reads one tile after another and sends them.

    Args:
        domain: the Domain of the model.
        path: the path of the restart.
        about: what every rank needs of the restart.

    Raises:
        DataError: as `opened` does, on every rank; also by `tile`.
    """
    communicator, shape = domain.communicator, domain.grid.shape
    found, parts = communicator.from_root(lambda: about(opened(path, domain.grid))), communicator.decomposition(shape)
    alone = communicator.agree(not Path(path).exists())
    arrays = opened(path, verify=False).arrays if communicator.is_root or not alone else {}

    def tile(name):
        if alone:
            return communicator.scatter_from_root(arrays.get(name), shape)
        return domain.together(lambda: communicator.place(lambda rank: parts.cut(arrays[name], rank)))

    return tile, found


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
