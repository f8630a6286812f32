"""Restarts in a Zarr store, of which every rank writes and reads the chunks that its tile needs.

Every array has two slots along its first dimension, and a restart is written into the slot that is not valid. When all
ranks have written their chunks, the root replaces the description of the store, which holds the number of the valid
slot. A restart with other arrays is written into a new store under another name, which replaces the old store when it
is complete. The older restart therefore stays until the new one is complete and on disk.
"""

import contextlib
import json
from collections.abc import Mapping

import numpy as np

from ..errors import DataError, SwmodelError
from ..runtime.version import VERSION
from . import Claim, ReplacedFile, metadata
from .fingerprint import fingerprint
from .metadata import Attribute
from .opening import STORE_FORMAT, description_of
from .restart_output import RestartOutput
from .resuming import tiles_and_scalars_of
from .schedule import AbstractSimulation
from .zarr_fields import chunk_grid, chunks_of
from .zarr_store import ZarrStore, array_metadata, checksum_of

SLOTS = 2


class ZarrRestartOutput(RestartOutput):
    """All that a run needs to continue, in a Zarr store."""

    def exists(self) -> bool:
        return (self.path / "zarr.json").is_file()

    def open(self, simulation: AbstractSimulation, attributes: Mapping[str, Attribute], claim: Claim) -> None:
        self.attributes, self.file = attributes, _OpenRestart(claim)

    def write(self, simulation: AbstractSimulation) -> None:
        if simulation.step == 0 or self.tried == simulation.step:
            return
        self.tried = simulation.step
        communicator = simulation.communicator
        leaves, scalars = tiles_and_scalars_of(simulation)
        self.fingerprint = fingerprint(simulation.model, simulation.step, simulation.dt, known=self.fingerprint)
        if self.file is not None and self.writer is not None:
            self.writer.wait()  # for the records that the restart relies on
        shared = communicator.host_broadcast(self._slot(simulation.model, leaves))
        error = (
            None if shared is None else _written(simulation, ZarrStore(shared[0], True), shared[1], shared[2], leaves)
        )
        errors = [found for found in communicator.host_gather(error) if found is not None]
        if self.file is None or self.writer is None or shared is None:
            return
        try:
            self.file.check_present(shared[1])  # first: the errors of a removed store depend on who writes when
            if errors:
                raise errors[0]
            self.file.commit(shared[1], self._about(simulation, scalars, shared[2]))
            self.written = simulation.step
        except SwmodelError as failed:
            self.writer.fail(self, failed)

    finish = write

    def _slot(self, model, leaves):
        """(the store, {name: metadata of the array}, the slot to be written), on the root; None after an error."""
        if self.file is None or self.writer is None:
            return None
        chunk, found = model.decomposition.tile(0).shape, {}
        for name, leaf in leaves.items():
            lead, cells = leaf.shape[: leaf.ndim - 2], metadata.DIMENSIONS["h"]
            names = ("slot", *(f"n{k}_{name}" for k in range(len(lead))), *cells)
            shape = (SLOTS, *lead, *model.grid.shape)
            found[name] = array_metadata(shape, (1, *lead, *chunk), leaf.dtype, names, {})
        try:
            return self.file.slot(found)
        except SwmodelError as failed:
            self.writer.fail(self, failed)
            return None

    def _about(self, simulation, scalars, slot):
        about = {name: value for name, value in self.attributes.items() if value is not None and value != ""}
        return about | {
            "fingerprint": json.dumps(self.fingerprint),
            "stored_as": about["computed_in"],
            "restart_format": STORE_FORMAT,
            "swmodel_version": VERSION,
            "grid_description": metadata.describe_grid(simulation.model.grid),
            "restart_scalars": scalars,
            "restart_slot": slot,
        }


class _OpenRestart(ReplacedFile):
    """The root's objects for a store of restarts during a run."""

    def __init__(self, claim):
        super().__init__(claim, claim.path / "zarr.json")
        self.store = ZarrStore(claim.path, durable=True)
        self.store.remove_remains()
        self.aside: ZarrStore | None = None

    def slot(self, arrays):
        """(path, arrays, slot) of the next restart; an existing store of the same arrays is used again."""
        with contextlib.suppress(DataError):  # there is no store yet, or one that is damaged or no restart
            was, about = description_of(self.store)
            if set(was) == set(arrays) and all(_alike(was[n], arrays[n]) for n in was):
                self.aside = None
                return self.store.path, was, 1 - int(about["restart_slot"])
        self.store.check_removable()
        self.aside = self.store.next_to_it()
        self.aside.describe(arrays)
        return self.aside.path, arrays, 0

    def check_present(self, arrays):
        """Raise SwmodelError if somebody has removed the store since `slot`."""
        (self.aside or self.store).check_present(arrays)
        if self.aside is None:
            self.check()

    def commit(self, arrays, about):
        """Make the slot valid, once all its chunks are written."""
        about = about | {"checksum": checksum_of(arrays, about)}
        if self.aside is None:
            self.store.commit(arrays, about)
        else:
            self.aside.commit(arrays, about)
            self.store.replace_by(self.aside)
            self.aside = None
        self.written()


def _alike(one, other):
    return all(one[key] == other[key] for key in ("shape", "data_type", "dimension_names"))


def _written(simulation, store, arrays, slot, leaves):
    """Write this process's chunks; returns the error that prevented it, or None. Collective."""
    model, error = simulation.model, None
    parts = model.decomposition
    for name, leaf in leaves.items():
        tiles = model.communicator.tiles(leaf)
        own = {rank: parts.own(np.asarray(tile), rank) for rank, tile in tiles.items()}
        for chunk, values in chunks_of(own, chunk_grid(arrays[name], parts), model.communicator).items():
            index = (slot, *(0,) * (values.ndim - 2), *chunk)
            try:
                store.write_chunk(name, arrays[name], index, values)
            except SwmodelError as failed:
                error = error or failed
    return error
