"""The files of a run while it lasts: opened together, written by one thread, and always closed.

Restarts are netCDF files, which the root gathers and writes in blocks of rows, or Zarr stores, of which every rank
writes its chunks. Either is written under another name, and takes the place of the one before when it is complete. The
files of the earlier store are those that the next restart overwrites. Arrays in stores have a first dimension of
length 1, the slot, of which older versions wrote two.
"""

import contextlib
import json
import os
import shlex
from collections.abc import Iterator, Mapping
from pathlib import Path

import jax
import netCDF4
import numpy as np

from ..errors import DataError
from ..runtime.packages import VERSION
from ..runtime.paths import check_apart, remove, same_file, take_place
from ..runtime.signals import LOCK
from . import Claim, ReplacedFile, claim, earlier, is_store, metadata, remove_figures
from .fingerprint import fingerprint
from .metadata import Attribute, run_attributes
from .restart import parts_of, tiles_and_scalars_of, write_restart_parts
from .resuming import opened
from .schedule import AbstractSimulation, Output, Writer
from .zarr_fields import own_chunks, times_of, write_chunks
from .zarr_store import STORE_FORMAT, ZarrStore, array_metadata, checksum_of


def restore_earlier(path: Path, time: float) -> None:
    """Put the earlier restart back to `path` if it is of this model time [s] and that at `path` is not; on the root."""

    def is_right(one):
        try:
            scalars = opened(one, verify=False, as_store=is_store(path)).scalars
        except DataError:  # there is none that is complete
            return False
        return abs(scalars["step"] * scalars["dt"] - time) < 0.5 * scalars["dt"]

    if not is_right(path) and is_right(earlier(path)):
        take_place(earlier(path), Path(os.path.realpath(path)))


def owned(array: np.ndarray | None) -> np.ndarray | None:
    """The array, or a copy if it is a view of other memory, such as that of a JAX array that the next step donates."""
    return array if array is None or (array.flags.owndata and array.base is None) else array.copy()


class RestartOutput(Output):
    """All that a run needs to continue, in a file that each write replaces.

    Attributes:
        keeps_earlier: whether the restart that is replaced stays as `earlier(path)`, for runs that need restarts of
            several files of one time.
        tried, written: the newest step at which a write of the restart was tried, and at which it succeeded.
    """

    def __init__(self, path: str | Path, every: float | None) -> None:
        self.path, self.every, self.fingerprint = Path(path), every, None
        self.tried = self.written = None
        self.keeps_earlier = False

    def continues(self, simulation: AbstractSimulation) -> bool:
        """Whether an existing restart at the path is the one from which this run was resumed, or its own."""
        resumed = simulation.resumed_from
        return self.begun or (resumed is not None and same_file(resumed, self.path))

    def exists(self) -> bool:
        """Whether there is a restart at the path."""
        return self.path.is_file()

    def open(self, simulation: AbstractSimulation, attributes: Mapping[str, Attribute], claim: Claim) -> None:
        self.attributes, self.file = attributes, self.open_file(claim)
        remove(earlier(claim.path))  # of another run

    def open_file(self, claim: Claim) -> ReplacedFile:
        """The file of which `claim` is the Claim."""
        return ReplacedFile(claim)

    def close(self) -> None:
        if self.file is not None and not self.keeps_earlier and self.exists():
            remove(earlier(self.file.path))
        super().close()

    def write(self, simulation: AbstractSimulation) -> None:
        if simulation.step == 0 or self.tried == simulation.step:
            return
        self.tried = simulation.step
        tiles, scalars = tiles_and_scalars_of(simulation)
        found = fingerprint(simulation.model, simulation.step, simulation.dt, known=self.fingerprint)
        self.fingerprint = found | simulation.facts
        self.store(simulation, tiles, scalars)

    finish = write

    @property
    def about(self) -> dict[str, Attribute]:
        """The global attributes of the restart."""
        about = {**self.attributes, "fingerprint": json.dumps(self.fingerprint)}
        return about | {"stored_as": about["computed_in"]}

    def store(
        self, simulation: AbstractSimulation, tiles: dict[str, jax.Array], scalars: dict[str, bool | int | float | str]
    ) -> None:
        """Let the content of `tiles_and_scalars_of` be written; collective."""
        grid, step = simulation.model.grid, simulation.step
        layout, gathered = parts_of(simulation.model, tiles)

        def write(parts):
            before = earlier(self.file.path) if self.keeps_earlier else None
            write_restart_parts(self.path, grid, layout, parts, scalars, self.about, earlier=before)
            self.file.written()
            self.written = step

        with self.stream(write) as put:
            for name, where, block in gathered:
                put((name, where, owned(block)), 0 if block is None else block.nbytes)


class ZarrRestartOutput(RestartOutput):
    """All that a run needs to continue, in a Zarr store."""

    def exists(self) -> bool:
        return (self.path / "zarr.json").is_file()

    def open(self, simulation: AbstractSimulation, attributes: Mapping[str, Attribute], claim: Claim) -> None:
        self._store = ZarrStore(claim.path, durable=True)
        if self.continues(simulation):
            self._store.recover()
        super().open(simulation, attributes, claim)

    def open_file(self, claim: Claim) -> ReplacedFile:
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
        chunks = ((name, (*(0,) * (x.ndim - 1), *chunk), x) for name, _, chunk, x in own_chunks(model, arrays, tiles))
        errors = write_chunks(communicator, ZarrStore(shared, True), arrays, chunks)
        if aside is None or self.file is None or self.writer is None:
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


class Run:
    """The outputs of one run, opened together and always closed.

    Arrays are gathered on the calling thread, and written by the Writer's thread while the next steps are computed.
    `wait` returns when all files hold the records that were due so far. An error of a file during the run (a full disk,
    a file that was removed) is kept until all ranks call `settle`. There they write a restart if possible, and end
    together.

    Args:
        outputs: the outputs of a Simulation.
    """

    def __init__(self, outputs: list[Output]) -> None:
        self.outputs, self.writer = outputs, Writer()

    @classmethod
    @contextlib.contextmanager
    def opened(cls, simulation: AbstractSimulation, outputs: list[Output], last: int) -> Iterator["Run"]:
        """A Run to the step `last` with its files open on the root; an error there is raised on every rank."""
        attributes = run_attributes(simulation)
        run = cls(outputs)
        try:
            simulation.communicator.from_root(lambda: _open(outputs, simulation, attributes, last))
            for output in outputs:
                output.check_continued(simulation)
            for output in outputs:
                output.writer = run.writer
                if not output.continues(simulation):
                    output.begin(simulation)
                output.begun = True
            yield run
        finally:
            try:
                run.writer.close()
            finally:
                for output in outputs:
                    output.close()

    def wait(self) -> None:
        """Return when all that was due so far is written; on the root, and at once on other ranks."""
        self.writer.wait()

    def due(self, simulation: AbstractSimulation, after_chunk: bool = False) -> None:
        """Write the files that are due at this step; after a chunk, those that `chunk` does not write. Collective."""
        for output in self.outputs:
            if after_chunk and output.is_written_by_chunk:
                continue
            if output.is_due(simulation) and simulation.step != simulation.resumed_step:
                if isinstance(output, RestartOutput):
                    self.write_restart(simulation)
                else:
                    output.write(simulation)

    def chunk(self, simulation: AbstractSimulation, count: int, end: int) -> None:
        """Let outputs write what their watchers kept of the last `count` steps, up to step `end`; collective."""
        for output in self.outputs:
            output.chunk(simulation, count, end)

    def next_step(self, simulation: AbstractSimulation) -> int | None:
        """The next step at which an output is due, or None."""
        return min((n for n in (o.next_step(simulation) for o in self.outputs) if n is not None), default=None)

    def finish(self, simulation: AbstractSimulation) -> None:
        """Write what is due at the end of a run, close all files, and raise the first error of any; collective."""
        for output in self.outputs:
            output.finish(simulation)
        self.wait()  # so that the Writer's thread rests
        for output in self.outputs:
            with self.writer.catching(output):
                output.check()
        self.settle(simulation)
        for output in self.outputs:
            with self.writer.catching(output):
                output.close()
        self.settle(simulation)

    def settle(self, simulation: AbstractSimulation) -> None:
        """If a file could not be written, write a restart and raise the error, on every rank; collective."""
        if not simulation.communicator.agree(bool(self.writer.failed)):
            return
        self.write_restart(simulation)
        self.wait()
        simulation.communicator.from_root(self._raise)

    def _raise(self):
        first = next(iter(self.writer.failed.values()))
        raise type(first)(f"{first} {self.restart_hint()}") from first

    def write_restart(self, simulation: AbstractSimulation) -> None:
        """Write all records up to this step and then the restart, so that a resumed run leaves no gap; collective."""
        for output in self.outputs:
            output.flush()
        for output in self.outputs:
            if isinstance(output, RestartOutput):
                output.write(simulation)

    def restart_hint(self) -> str:
        """One sentence that names the newest restart and the command that continues from it; call `wait` before."""
        for output in self.outputs:
            if isinstance(output, RestartOutput) and output.written is not None and output.exists():
                command = f"swmodel resume {shlex.quote(str(output.path))}"
                return f"The newest restart is {output.path}, of step {output.written}: {command}"
        return "No restart was written."


def _open(outputs, simulation, attributes, last):
    """Claim all files, remove those of an earlier run, its restart first, and open them.

    A run that is stopped before its first restart therefore leaves no restart of another run. With `overwrite`, the
    figures of the files that are replaced are removed, too.
    """
    resumed = simulation.resumed_from
    known = [] if resumed is None else [("the restart from which the run continues", resumed)]
    named = [(type(o).__name__.removesuffix("Output").lower(), o.path, isinstance(o, RestartOutput)) for o in outputs]
    check_apart([(what, path) for what, path, _ in named])
    check_apart([(what, path) for what, path, is_restart in named if not is_restart], known)
    check_nothing_is_lost(outputs, simulation, last * simulation.dt)
    claims = {}
    try:
        for output in outputs:
            rights = {"overwrite": simulation.overwrite, "append": output.continues(simulation)}
            claims[output] = claim(output.path, **rights)
        for folder in (taken.path for taken in claims.values() if taken.path.is_dir()):
            ZarrStore(folder).check_removable()
        for output in sorted(outputs, key=lambda output: not isinstance(output, RestartOutput)):
            if not output.continues(simulation):  # it is of another run
                _remove(claims[output].path)
        for output in outputs if simulation.overwrite and resumed is None else ():
            remove_figures(output.path)
        with LOCK:
            for output in outputs:
                output.open(simulation, attributes, claims[output])
    except BaseException:
        for taken in claims.values():
            taken.release()
        raise


def _remove(path):
    """Remove a file, or the files of a store."""
    if path.is_dir():
        ZarrStore(path).remove()
    else:
        path.unlink(missing_ok=True)


def remove_replaced(outputs: list[Output]) -> None:
    """Remove the files of an earlier run that those of a grid replace which is not stepped yet; on the root."""
    claims = []
    try:
        for output in outputs:
            claims.append(taken := claim(output.path, overwrite=True))
            ZarrStore(taken.path).check_removable()
        for taken in claims:
            _remove(taken.path)
            remove(earlier(taken.path))
            remove_figures(taken.path)
    finally:
        for taken in claims:
            taken.release()


def check_nothing_is_lost(outputs: list[Output], simulation: AbstractSimulation, end: float) -> None:
    """Refuse a resumed run that would destroy results of an earlier run, unless it may overwrite them; on the root.

    A run that was killed has records after its newest restart. They may be cut if the run is resumed as it was, since
    it computes them again, but not if it ends before them.

    Args:
        outputs: the outputs of the run.
        simulation: the Simulation, whose restart has been read.
        end: the time [s] at which the run will end.

    Raises:
        DataError: naming every file.
    """
    if simulation.resumed_from is None or simulation.overwrite:
        return
    begin, lost, folder = simulation.time, [], next((output.path.parent for output in outputs), Path())
    again = end if simulation.resumed_alike else begin  # the time up to which the same records are computed again
    for output in outputs:
        name = os.path.relpath(output.path, folder)
        if output.begun or not output.path.exists():
            continue
        if isinstance(output, RestartOutput):
            lost += [] if output.continues(simulation) else [f"{name} (another restart)"]
        elif (last := last_time(output.path)) > again + 0.5 * simulation.dt:
            lost.append(f"{name} (up to {last:g} s)")
        elif output.path in simulation.resumed_without:
            lost.append(f"{name} (of other samples)")
    if lost:
        raise DataError(
            f"{folder}: {', '.join(lost)} would be lost, since the run continues from {simulation.resumed_from}, at "
            f"{begin:g} s; give another folder (--output DIR), or allow the loss with --overwrite (in Python: "
            "overwrite=True)."
        )


def last_time(path: Path) -> float:
    """The time [s] up to which a file of records or statistics reaches; -inf if it has no time that can be read."""
    if is_store(path):
        times = (store := ZarrStore(path)).description()[0].get("time")
        return -np.inf if times is None else max(times_of(store, times), default=-np.inf)
    try:
        with LOCK, netCDF4.Dataset(path) as dataset:
            return float(np.max(np.ma.filled(dataset["time"][...], -np.inf), initial=-np.inf))  # masked: incomplete
    except (OSError, IndexError):  # the output itself names such a file
        return -np.inf
