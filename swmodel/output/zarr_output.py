"""Snapshots of fields and restarts in Zarr stores, of which every rank writes its own chunks (zarr_store.py).

A restart is written into a store under another name, which takes the place of the one before when all ranks have
written their chunks. The older restart therefore stays until the new one is complete and on disk, and its files are
those that the next restart overwrites. Arrays have a first dimension of length 1, the slot, of which older versions
wrote two.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path

import jax
import numpy as np

from ..errors import ConfigError, DataError, SwmodelError
from ..runtime.paths import remove
from ..runtime.version import VERSION
from . import Claim, ReplacedFile, metadata, not_continued
from .metadata import Attribute, rows_of
from .opening import STORE_FORMAT
from .products.snapshots import AUTO, FieldOutput, fields_of_tiles
from .running import RestartOutput
from .schedule import AbstractSimulation
from .zarr_fields import ZarrFields, chunk_grid, chunks_of, dry_block, same_values
from .zarr_store import ZarrStore, array_metadata, checksum_of


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
        if simulation.model.members is not None:
            raise ConfigError(f"{path}: the fields of an ensemble are written as netCDF; give a name that ends in .nc.")

    def open(self, simulation: AbstractSimulation, attributes: Mapping[str, Attribute], claim: Claim) -> None:
        model = simulation.model
        rows = [metadata.variable_of(row) for row in rows_of(simulation, self.variables)]
        self.file = ZarrFields.opened(
            claim,
            model.grid,
            rows,
            model.decomposition.tile(0).shape,
            start=simulation.start,
            attributes=attributes,
            depth=rows_of(simulation, ["depth"])[0],
            append=self.continues(simulation),
            resume_time=simulation.time,
        )

    def bytes_of_record(self, simulation: AbstractSimulation) -> int:
        return -(-super().bytes_of_record(simulation) // simulation.communicator.size)  # nothing is gathered

    def write(self, simulation: AbstractSimulation) -> None:
        self._write_record(simulation, simulation.time, fields_of_tiles(simulation, self.variables))

    def write_kept(self, simulation: AbstractSimulation, steps: Sequence[int], tiles: Mapping[str, np.ndarray]) -> None:
        for k, step in enumerate(steps):
            self._write_record(simulation, step * simulation.dt, {name: x[k] for name, x in tiles.items()})

    def _write_record(self, simulation, seconds, tiles):
        communicator, seconds = simulation.communicator, float(seconds)
        shared = None
        file, writer = self.file, self.writer
        if communicator.is_root and file is not None:
            replaces = file.times[-1:] == [seconds]
            shared = file.store.path, file.arrays, len(file.times) - replaces
        shared = communicator.host_broadcast(shared)
        if shared is None:  # an earlier record could not be written
            return
        path, arrays, number = shared
        errors = _errors(communicator, ZarrStore(path), arrays, self._chunks(simulation, tiles, arrays, number))
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
        for name, grid, chunk, values in _own_chunks(model, arrays, tiles):
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
        shared = None
        if file is not None and file.times:
            shared = file.store.path, file.arrays
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


def _own_chunks(model, arrays, fields):
    """Yield (name, ChunkGrid, chunk, values) of this process's chunks of {name: tile arrays}; collective."""
    parts = model.decomposition
    for name, placed in fields.items():
        grid, tiles = chunk_grid(arrays[name], parts), model.communicator.tiles(placed)
        own = {rank: parts.own(np.asarray(tile), rank) for rank, tile in tiles.items()}
        for chunk, values in chunks_of(own, grid, model.communicator).items():
            yield name, grid, chunk, values


def _errors(communicator, store, arrays, chunks):
    """Write this process's `chunks` (name, index, values) up to an error; the errors of all processes; collective."""
    error = None
    for name, index, values in chunks:  # all of them, since making them is collective
        try:
            if error is None:
                store.write_chunk(name, arrays[name], index, values)
        except SwmodelError as failed:
            error = failed
    return [found for found in communicator.host_gather(error) if found is not None]


class ZarrRestartOutput(RestartOutput):
    """All that a run needs to continue, in a Zarr store."""

    def exists(self) -> bool:
        return (self.path / "zarr.json").is_file()

    def open(self, simulation: AbstractSimulation, attributes: Mapping[str, Attribute], claim: Claim) -> None:
        ZarrStore(claim.path).recover()
        super().open(simulation, attributes, claim)

    def open_file(self, claim: Claim) -> ReplacedFile:
        self._store = ZarrStore(claim.path, durable=True)
        return ReplacedFile(claim, claim.path / "zarr.json")

    def close(self) -> None:
        if self.file is not None:
            remove(self._store.aside)  # of a write that failed
        super().close()

    def store(
        self, simulation: AbstractSimulation, tiles: dict[str, jax.Array], scalars: dict[str, bool | int | float | str]
    ) -> None:
        model, communicator, shared, aside = simulation.model, simulation.communicator, None, None
        arrays = {name: _layout(model, name, tile) for name, tile in tiles.items()}
        if self.file is not None and self.writer is not None:
            self.writer.wait()  # for the records that the restart relies on
            with self.writer.catching(self):
                aside = self._store.next_to_it(arrays)
                shared = aside.path
        shared = communicator.host_broadcast(shared)
        if shared is None:
            return
        chunks = ((name, (*(0,) * (x.ndim - 1), *chunk), x) for name, _, chunk, x in _own_chunks(model, arrays, tiles))
        errors = _errors(communicator, ZarrStore(shared, True), arrays, chunks)
        if aside is None or self.writer is None:
            return
        with self.writer.catching(self):
            aside.check_present(arrays)  # first: the errors of a removed store depend on who writes when
            if errors:
                raise errors[0]
            about = self._about(simulation, scalars)
            aside.commit(arrays, about | {"checksum": checksum_of(arrays, about)})
            self._store.replace_by(aside)
            self.file.written()
            self.written = simulation.step

    def _about(self, simulation, scalars):
        about = {name: value for name, value in self.about.items() if value is not None and value != ""}
        return about | {
            "restart_format": STORE_FORMAT,
            "swmodel_version": VERSION,
            "grid_description": metadata.describe_grid(simulation.model.grid),
            "restart_scalars": scalars,
            "restart_slot": 0,
        }


def _layout(model, name, tile):
    """The metadata of an array of a restart."""
    lead, chunk = tile.shape[:-2], model.decomposition.tile(0).shape
    names = ("slot", *(f"n{k}_{name}" for k in range(len(lead))), *metadata.DIMENSIONS["h"])
    return array_metadata((1, *lead, *model.grid.shape), (1, *lead, *chunk), tile.dtype, names, {})
