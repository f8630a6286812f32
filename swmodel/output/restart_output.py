"""Restarts of a run as netCDF files, which the root gathers and writes in blocks of rows."""

import json
import os
from collections.abc import Mapping
from pathlib import Path

from ..runtime.paths import same_file
from . import Claim, ReplacedFile
from .fingerprint import fingerprint
from .metadata import Attribute
from .opening import opened
from .restart import PART, Layout, write_restart_parts
from .resuming import tiles_and_scalars_of
from .schedule import AbstractSimulation, Output
from .writing import owned


def earlier(path: Path) -> Path:
    """The path of the restart that was replaced by the one at `path`."""
    return path.with_name(f".{path.name}.earlier")


def restore_earlier(path: Path, time: float) -> None:
    """Put the earlier restart back to `path` if it is of this model time [s] and that at `path` is not; on the root."""

    def is_right(one):
        scalars = opened(one, verify=False).scalars if one.is_file() else {"step": 0, "dt": 1.0}
        return abs(scalars["step"] * scalars["dt"] - time) < 0.5 * scalars["dt"]

    if not is_right(path) and is_right(earlier(path)):
        os.replace(earlier(path), path)


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
        self.attributes = attributes
        self.file = ReplacedFile(claim)
        earlier(self.path).unlink(missing_ok=True)  # of another run

    def write(self, simulation: AbstractSimulation) -> None:
        if simulation.step == 0 or self.tried == simulation.step:
            return
        self.tried = simulation.step
        tiles, scalars = tiles_and_scalars_of(simulation)
        self.fingerprint = fingerprint(simulation.model, simulation.step, simulation.dt, known=self.fingerprint)
        grid, communicator, step = simulation.model.grid, simulation.communicator, simulation.step
        layout = {name: Layout((*tile.shape[:-2], *grid.shape), tile.dtype) for name, tile in tiles.items()}

        def write(parts):
            about = {**self.attributes, "fingerprint": json.dumps(self.fingerprint)}
            about["stored_as"] = about["computed_in"]
            if self.keeps_earlier and self.path.exists():
                os.replace(self.path, earlier(self.path))
            write_restart_parts(self.path, grid, layout, parts, scalars, about)
            self.file.written()
            self.written = step

        with self.stream(write) as put:
            for name in sorted(tiles):
                for where, block in communicator.rows_to_root(tiles[name], grid.shape, PART):
                    put((name, where, owned(block)), 0 if block is None else block.nbytes)

    finish = write
