"""The outputs of a run, the steps at which they are due, and the thread that writes them.

All ranks gather, and the Writer's thread on the root writes while the next steps are computed. Each write is submitted
with data that are no longer changed. The thread makes the writes one after another, in the order of submission: the
records of gauges before the restart that relies on them, for example. It sends no messages. What is too large to be
gathered at once is written from a stream of parts, which the run's own thread gathers. The library of netCDF4 is not
thread-safe: a thread that calls it holds `runtime.signals.LOCK`.
"""

import abc
import collections
import contextlib
import dataclasses
import math
import threading
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, cast

import numpy as np

from ..dynamics.system import System
from ..errors import SwmodelError
from ..fields.state import State
from ..grids.regrid import Date
from ..models.ensemble import Ensemble
from ..models.shallow_water import ShallowWater
from ..parallel.communicator import Communicator
from ..runtime.signals import LOCK
from ..stepping.explicit import TimeStepper
from ..stepping.loop import Members
from ..stepping.steps import Carry, History
from . import Claim
from .metadata import Attribute, members_of
from .records import Opening

if TYPE_CHECKING:
    from .products.base import Arrays, Reader, Watcher

T = TypeVar("T")


def nearest_steps(steps: int | np.ndarray, every: float, dt: float) -> Any:
    """Whether each of `steps`, a number or an array, is the nearest one to a multiple of the interval `every` [s]."""
    return steps == np.round(np.round(steps * dt / every) * every / dt)


MOST_BYTES = 256_000_000  # of data that wait to be written, in addition to those that are being written
MOST_WRITES = 8  # waiting at once: a run of tiny arrays must not be thousands of restarts ahead of its disk


class Writer:
    """Writes files in a thread of its own, which starts with the first `submit`.

    Args:
        most_bytes: the bytes of data that may wait. `submit` blocks while there are more, unless it is the only write.
        most_writes: the number of writes that may wait. A run that is killed loses at most these and the current one.

    Attributes:
        failed: {output: the SwmodelError that ended its writing}. Nothing more is written to these outputs.
    """

    def __init__(self, most_bytes: int = MOST_BYTES, most_writes: int = MOST_WRITES) -> None:
        self.failed: dict[Any, SwmodelError] = {}
        self._most_bytes, self._most_writes, self._waiting_bytes = most_bytes, most_writes, 0
        self._jobs: collections.deque[tuple[Any, Callable[[], object], int, _Stream | None]] = collections.deque()
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None
        self._busy = self._ending = False
        self._unexpected: BaseException | None = None

    def submit(
        self, output: "Output", write: Callable[[], object], size: int = 0, stream: "_Stream | None" = None
    ) -> None:
        """Let the thread call `write()`, after all earlier submissions.

        Args:
            output: the Output whose file it writes, with a method `close`.
            write: the function; what it reads must not change any more.
            size: [bytes] of the data that it holds.
            stream: the parts that it reads.

        Raises:
            BaseException: the exception of an earlier write, unless it was a SwmodelError; those are kept in `failed`.
        """
        with self._after(lambda: not self._jobs or (len(self._jobs) < self._most_writes and self._fits(size))):
            self._raise_unexpected()
            if self._thread is None:
                self._thread = threading.Thread(target=self._work, name="writer", daemon=True)
                self._thread.start()
            self._jobs.append((output, write, size, stream))
            self._waiting_bytes += size

    @contextlib.contextmanager
    def stream(
        self, output: "Output", write: Callable[[Iterator[Any]], object]
    ) -> Iterator[Callable[[Any, int], None]]:
        """Let the thread call `write(parts)`, after all earlier submissions, with the parts that the block puts in.

        The value of the block is a function `put(part, size)`, with the size in bytes. It waits while more than
        `most_bytes` wait to be written, and does nothing after an error of the output. An exception in the block
        is raised from `parts`, too. The other arguments, and the exceptions, are those of `submit`.
        """
        stream = _Stream()
        self.submit(output, lambda: write(self._parts(stream)), 0, stream)

        def put(part, size):
            with self._after(lambda: stream.closed or not self._waiting_bytes or self._fits(size)):
                if not stream.closed:
                    stream.waiting.append((part, size))
                    self._waiting_bytes += size

        try:
            yield put
            stream.complete = True
        finally:
            with self._after():
                stream.ended = True

    def wait(self) -> None:
        """Return when all submissions are written; raises as `submit` does."""
        with self._after(lambda: not self._jobs and not self._busy):
            self._raise_unexpected()

    def close(self) -> None:
        """`wait`, and end the thread."""
        try:
            self.wait()
        finally:
            with self._after():
                self._ending = True
            if self._thread is not None:
                self._thread.join()
                self._thread = None
            self._ending = False

    def fail(self, output: "Output", error: SwmodelError) -> None:
        """Keep the first error of an output, and close its file; only the thread, or while nothing is being written."""
        self.failed.setdefault(output, error)
        with LOCK, contextlib.suppress(SwmodelError, OSError, RuntimeError):
            output.close()

    @contextlib.contextmanager
    def catching(self, output: "Output") -> Iterator[None]:
        """A context of which a SwmodelError is kept, as by `fail`, and not raised."""
        try:
            yield
        except SwmodelError as error:
            self.fail(output, error)

    @contextlib.contextmanager
    def _after(self, condition: Callable[[], object] = lambda: True) -> Iterator[None]:
        """Wait for a condition, which no other thread changes within the block; the others look again afterwards."""
        with self._changed:
            self._changed.wait_for(condition)
            yield
            self._changed.notify_all()

    def _fits(self, size):
        return self._waiting_bytes + size <= self._most_bytes

    def _raise_unexpected(self):
        error, self._unexpected = self._unexpected, None
        if error is not None:
            raise error

    def _work(self):
        while True:
            with self._after():
                self._busy = False
            with self._after(lambda: self._jobs or self._ending):
                if not self._jobs:
                    return
                output, write, size, stream = self._jobs.popleft()
                self._waiting_bytes -= size
                self._busy = True
            if output not in self.failed and self._unexpected is None:
                try:
                    with self.catching(output), LOCK:
                        write()
                except BaseException as error:  # noqa: BLE001  the main thread raises it
                    self._unexpected = error
            if stream is not None:  # drop the parts that are not written, and those that come
                with self._after():
                    stream.closed = True
                    self._waiting_bytes -= sum(size for _, size in stream.waiting)
                    stream.waiting.clear()
            del write, stream  # and the data that it holds, before the next one comes

    def _parts(self, stream: "_Stream") -> Iterator[Any]:
        """Yield the parts of a stream in the thread; raises SwmodelError after the last one, if others are missing."""
        while True:
            with self._after(lambda: stream.waiting or stream.ended):
                if not stream.waiting:
                    break
                part, size = stream.waiting.popleft()
                self._waiting_bytes -= size
            yield part
            del part
        if not stream.complete:
            raise SwmodelError("the run ended before all parts of a file were gathered; the file is not complete.")


@dataclasses.dataclass
class _Stream:
    """The parts of one write that wait for it: (part, its bytes).

    Attributes:
        ended, complete: whether no other part comes, and whether all of them came.
        closed: whether the write is over, and no part is needed.
    """

    waiting: collections.deque[tuple[Any, int]] = dataclasses.field(default_factory=collections.deque)
    ended: bool = False
    complete: bool = False
    closed: bool = False


class AbstractSimulation(abc.ABC):
    """What outputs read of a Simulation (simulation/simulation.py)."""

    model: "ShallowWater | Ensemble"
    facts: dict[str, str | float]  # entries of a restart's fingerprint that the model does not have
    outermost: "ShallowWater | Ensemble"  # the model of the outermost grid of a family, else `model`
    scheme: "TimeStepper"  # as the user gave it; `stepper` has arrays
    stepper: "TimeStepper"
    dt: float
    step: int
    halo: int
    start: Date | None
    title: str
    config: str
    outputs: "list[Output]"
    nest: str
    boxes: dict[str, tuple]
    box: tuple | None
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
