"""The outputs of a run and the steps at which they are due.

All ranks gather, and a thread of the root writes while the next steps are computed (writing.py).
"""

import abc
import contextlib
import datetime
import math
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, cast

import numpy as np

from ..dynamics.system import System
from ..fields.state import State
from ..models.ensemble import Ensemble
from ..models.shallow_water import ShallowWater
from ..parallel.communicator import Communicator
from ..runtime.signals import LOCK
from ..stepping.explicit import TimeStepper
from ..stepping.members import Members
from ..stepping.steps import Carry, History
from . import Claim
from .metadata import Attribute, members_of
from .records import Opening
from .writing import Writer

if TYPE_CHECKING:
    from .products.base import Arrays, Reader, Watcher

T = TypeVar("T")


def nearest_steps(steps: int | np.ndarray, every: float, dt: float) -> Any:
    """Whether each of `steps`, a number or an array, is the nearest one to a multiple of the interval `every` [s]."""
    return steps == np.round(np.round(steps * dt / every) * every / dt)


class AbstractSimulation(abc.ABC):
    """What outputs read of a Simulation (simulation/simulation.py)."""

    model: "ShallowWater | Ensemble"
    outermost: "ShallowWater | Ensemble"  # the model of the outermost grid of a family, else `model`
    scheme: "TimeStepper"  # as the user gave it; `stepper` has arrays
    stepper: "TimeStepper"
    dt: float
    step: int
    halo: int
    start: datetime.datetime | None
    title: str
    config: str
    outputs: "list[Output]"
    nest: str
    boxes: dict[str, tuple]
    resumed_at: float | None
    resumed_step: int | None
    resumed_from: str | Path | None
    resumed_alike: bool
    resumed_without: tuple[str, ...]
    time: float
    overwrite: bool
    communicator: "Communicator"
    history: "History"

    @property
    @abc.abstractmethod
    def state(self) -> "State": ...

    @abc.abstractmethod
    def set(self, state: "State", history: "History") -> None: ...

    @abc.abstractmethod
    def start_history(self, state: "State") -> "History": ...

    @abc.abstractmethod
    def outline(self) -> "System | Members": ...

    @abc.abstractmethod
    def packed(self) -> "tuple[System | Members, Carry]": ...

    @abc.abstractmethod
    def read(self, watcher: "Reader[T]") -> T: ...


class Output:
    """One file of a run; only the root has a writer.

    The methods take the Simulation whose file this is.

    Attributes:
        path: the path of the file.
        every: the interval of model time between two records [s], or None.
        file: the writer of the format, on the root while the file is open. Only the Writer's thread uses it, until the
            run is over.
        writer: the Writer of the run that has opened the file.
        begun: whether an earlier call of `run` has opened the file.
        watcher: what the compiled loop updates after steps for it: a Watcher, whose `update(arrays, make_sample, step,
            row)` returns the arrays after step number `step`, the row-th of a chunk; `make_sample(dt)` makes a Sample.
            None if there is nothing.
        arrays: its arrays after the last chunk of steps.
        is_written_by_chunk: whether `chunk` writes the records of steps, so that `write` is for other states alone.
    """

    path: Path
    every: float | None = None
    file: Any = None
    writer: Writer | None = None
    begun = False
    watcher: "Watcher | None" = None
    arrays: "Arrays" = cast("Arrays", None)

    @property
    def is_written_by_chunk(self) -> bool:
        return False

    def submit(self, write: Callable[[], object], size: int = 0) -> None:
        """Let the Writer's thread call `write()`, which holds `size` bytes of data; on the root, else do nothing."""
        if self.file is not None and self.writer is not None:
            self.writer.submit(self, write, size)

    def stream(self, write: Callable[[Iterator[Any]], object]) -> contextlib.AbstractContextManager:
        """Let the Writer's thread call `write(parts)` with the parts that the block puts in (`Writer.stream`).

        On ranks other than the root they are dropped.
        """
        if self.file is not None and self.writer is not None:
            return self.writer.stream(self, write)
        return contextlib.nullcontext(lambda part, size: None)

    def continues(self, simulation: AbstractSimulation) -> bool:
        """Whether records are appended to the file of a resumed run, or of an earlier call of `run`."""
        return self.begun or simulation.resumed_at is not None

    def how_to_open(self, simulation: AbstractSimulation, attributes: Mapping[str, Attribute]) -> Opening:
        """Arguments of the classes of files that grow along time."""
        return {
            "start": simulation.start,
            "attributes": attributes,
            "members": members_of(simulation),
            "append": self.continues(simulation),
            "resume_time": simulation.time,
            "overwrite": simulation.overwrite,
        }

    def open(self, simulation: AbstractSimulation, attributes: Mapping[str, Attribute], claim: Claim) -> None:
        """Open the file of which `claim` is the Claim, with these global attributes; on the root."""

    def check_continued(self, simulation: AbstractSimulation) -> None:
        """Raise DataError on every rank if the open file continues one with another coast or depth; collective."""

    def of_another_run(self, simulation: AbstractSimulation) -> bool:
        """Whether an existing file at the path belongs to an earlier run."""
        return not self.continues(simulation)

    def check(self) -> None:
        """Raise SwmodelError if the file was removed, replaced or cut short; on the root."""
        if self.file is not None:
            self.file.check()

    def next_step(self, simulation: AbstractSimulation) -> int | None:
        """The next step after the present one at which a record is due, or None."""
        if self.every is None:
            return None
        number = math.floor(simulation.step * simulation.dt / self.every + 1e-9)
        step = simulation.step
        while step <= simulation.step:
            number += 1
            step = round(number * self.every / simulation.dt)
        return step

    def is_due(self, simulation: AbstractSimulation) -> bool:
        """Whether a record is due at the present step."""
        return self.every is not None and bool(nearest_steps(simulation.step, self.every, simulation.dt))

    def write(self, simulation: AbstractSimulation) -> None:
        """Let a record of the present step be written; collective."""

    def lowered(
        self, simulation: AbstractSimulation, dynamics: "System | Members", packed: "tuple[State, History]"
    ) -> list:
        """The programs that its records need, not yet compiled, for this System and carry of the step loop."""
        return []

    def start_arrays(self, simulation: AbstractSimulation, packed: "tuple[State, History]") -> "Arrays | None":
        """The watcher's arrays at the start of a run, which may be overwritten; `packed` is the step loop's carry."""

    def begin(self, simulation: AbstractSimulation) -> None:
        """Let the state before the first step be written, if that is not due anyway; collective."""

    def chunk(self, simulation: AbstractSimulation, count: int, end: int) -> None:
        """Let what the watcher has kept of the last `count` steps be written; collective.

        `end` is the last valid step: the present one, or that before an invalid state.
        """

    def finish(self, simulation: AbstractSimulation) -> None:
        """Let what is due at the end of a run be written; collective."""

    def flush(self) -> None:
        """Let the records that are still in memory be written."""

    def close(self) -> None:
        """Close the file and release its claim, also after an error."""
        file, self.file = self.file, None
        if file is not None:
            with LOCK:
                file.close()


class SnapshotOutput(Output):
    """A file of records: at the start, at regular intervals, and at the end."""

    def is_due(self, simulation: AbstractSimulation) -> bool:
        return super().is_due(simulation) or (self.every is None and simulation.step == 0)

    def finish(self, simulation: AbstractSimulation) -> None:
        if not self.is_due(simulation):
            self.write(simulation)
