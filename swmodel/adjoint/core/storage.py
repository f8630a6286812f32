"""Storage for points of a run: on the device, in the host's memory, or in an unnamed temporary file.

The operating system removes such a file when its last process ends, so that even a killed run leaves nothing behind.
"""

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import numpy as np

from ...errors import DataError
from ...parallel.communicator import Communicator
from .runs import Point

__all__ = ["Tiers"]


class Tiers:
    """Copies of points by number; the arrays that `get` returns may be donated.

    Args:
        communicator: the model's.
        copy: `copy(point)` returns a copy of a point.
        on_device: number of points that stay on the device; further ones go to the host's memory.
        folder: folder of the file; the system's folder for temporary files unless given.
    """

    def __init__(
        self,
        communicator: Communicator,
        copy: Callable[[Any], Any],
        on_device: int,
        folder: str | Path | None = None,
    ):
        self.communicator, self.copy, self.on_device, self.folder = communicator, copy, on_device, folder
        self.device, self.host = {}, {}
        self.file: Slots | None = None

    def keep(self, number: int, point: Any, on_disk: bool = False) -> None:
        """Store a copy of a point."""
        if on_disk:
            self.file = self.file or Slots(self.folder)
            self.file.write(number, self._to_host(point))
        elif len(self.device) < self.on_device:
            self.device[number] = self.copy(point)
        else:
            self.host[number] = jax.tree.map(np.array, self._to_host(point))

    def get(self, number: int, last: bool = False) -> Point:
        """The point with this number; with `last` it is removed."""
        if number in self.device:
            return self.device.pop(number) if last else self.copy(self.device[number])
        if number in self.host:
            return self._to_device(self.host.pop(number) if last else self.host[number])
        if self.file is None:
            raise KeyError(number)
        return self._to_device(self.file.read(number, last))

    def close(self) -> None:
        """Release all points and the file."""
        self.device, self.host = {}, {}
        if self.file is not None:
            self.file.close()

    def _to_host(self, point):
        return {rank: jax.tree.map(np.asarray, tile) for rank, tile in self.communicator.tiles(point).items()}

    def _to_device(self, tiles):
        return self.copy(self.communicator.place(lambda rank: tiles[rank]))  # a device may use the host's memory


class Slots:
    """An unnamed file with one slot for each pytree; all pytrees have the same structure and shapes."""

    def __init__(self, folder: str | Path | None = None):
        try:
            self.file = tempfile.TemporaryFile(dir=folder, prefix="swmodel-")
        except OSError as error:
            raise DataError(
                f"checkpoints cannot be written to {folder or tempfile.gettempdir()} ({error.strerror}); "
                "name another folder."
            ) from error
        self.slots, self.free, self.structure = {}, [], None
        self.shapes: list[tuple[tuple[int, ...], Any]] = []

    def write(self, number: int, tree: object) -> None:
        """Write a pytree of host arrays; raises DataError if the disk is full."""
        leaves, self.structure = jax.tree.flatten(tree)
        self.shapes = [(x.shape, x.dtype) for x in leaves]
        slot = self.free.pop() if self.free else len(self.slots)
        try:
            self.file.seek(slot * sum(x.nbytes for x in leaves))
            for x in leaves:
                self.file.write(np.ascontiguousarray(x).reshape(-1).view(np.uint8).data)
            self.file.flush()
        except OSError as error:
            raise DataError(
                f"checkpoint {len(self.slots) + 1} could not be written ({error.strerror}); keep fewer on disk, "
                "or name a folder with more free space."
            ) from error
        self.slots[number] = slot

    def read(self, number: int, last: bool) -> Any:
        """The pytree with this number; with `last` its slot becomes free."""
        slot = self.slots.pop(number) if last else self.slots[number]
        arrays = [np.empty(shape, dtype) for shape, dtype in self.shapes]
        self.file.seek(slot * sum(x.nbytes for x in arrays))
        for x in arrays:
            self.file.readinto(x.reshape(-1).view(np.uint8).data)
        if last:
            self.free.append(slot)
        return jax.tree.unflatten(self.structure, arrays)

    def close(self) -> None:
        """Close the file, which removes it."""
        self.file.close()
