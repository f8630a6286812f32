"""One thread that writes the files of a run while the next steps are computed.

The run submits each write with data that are no longer changed. The thread makes the writes one after another, in the
order of submission: the records of gauges before the restart that relies on them, for example. It sends no messages.
What is too large to be gathered at once is written from a stream of parts, which the run's own thread gathers.
The library of netCDF4 is not thread-safe: a thread that calls it holds `runtime.signals.LOCK`.
"""

import collections
import contextlib
import threading
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from ..errors import SwmodelError
from ..runtime.signals import LOCK

if TYPE_CHECKING:
    from .schedule import Output


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

    def submit(self, output: "Output", write: Callable[[], object], size: int = 0) -> None:
        """Let the thread call `write()`, after all earlier submissions.

        Args:
            output: the Output whose file it writes, with a method `close`.
            write: the function; what it reads must not change any more.
            size: [bytes] of the data that it holds.

        Raises:
            BaseException: the exception of an earlier write, unless it was a SwmodelError; those are kept in `failed`.
        """
        self._submit(output, write, size)

    @contextlib.contextmanager
    def stream(
        self, output: "Output", write: Callable[[Iterator[Any]], object]
    ) -> Iterator[Callable[[Any, int], None]]:
        """Let the thread call `write(parts)`, after all earlier submissions, with the parts that the block puts in.

        The value of the block is a function `put(part, size)`, with the size in bytes. It waits while more than
        `most_bytes` wait to be written, and does nothing after an error of the output. An exception in the block
        is raised from `parts`, too.

        Args:
            output, write: as for `submit`.

        Raises:
            BaseException: as `submit` does.
        """
        stream = _Stream(self._changed)
        self._submit(output, lambda: write(stream.parts(self)), 0, stream)

        def put(part, size):
            with self._changed:
                self._changed.wait_for(
                    lambda: stream.closed or not self._waiting_bytes or self._waiting_bytes + size <= self._most_bytes
                )
                if not stream.closed:
                    stream.waiting.append((part, size))
                    self._waiting_bytes += size
                    self._changed.notify_all()

        complete = False
        try:
            yield put
            complete = True
        finally:
            with self._changed:
                stream.ended, stream.complete = True, complete
                self._changed.notify_all()

    def _submit(self, output, write, size, stream=None):
        with self._changed:
            self._changed.wait_for(lambda: self._may_wait(size))
            self._raise_unexpected()
            if self._thread is None:
                self._thread = threading.Thread(target=self._work, name="writer", daemon=True)
                self._thread.start()
            self._jobs.append((output, write, size, stream))
            self._waiting_bytes += size
            self._changed.notify_all()

    def _may_wait(self, size):
        enough = len(self._jobs) < self._most_writes and self._waiting_bytes + size <= self._most_bytes
        return not self._jobs or enough

    def wait(self) -> None:
        """Return when all submissions are written; raises as `submit` does."""
        with self._changed:
            self._changed.wait_for(lambda: not self._jobs and not self._busy)
            self._raise_unexpected()

    def close(self) -> None:
        """`wait`, and end the thread."""
        try:
            self.wait()
        finally:
            with self._changed:
                self._ending = True
                self._changed.notify_all()
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

    def _raise_unexpected(self):
        error, self._unexpected = self._unexpected, None
        if error is not None:
            raise error

    def _work(self):
        while True:
            with self._changed:
                self._busy = False
                self._changed.notify_all()
                self._changed.wait_for(lambda: self._jobs or self._ending)
                if not self._jobs:
                    return
                output, write, size, stream = self._jobs.popleft()
                self._waiting_bytes -= size
                self._busy = True
                self._changed.notify_all()
            self._attempt(output, write)
            if stream is not None:
                self._close(stream)
            del write, stream  # and the data that it holds, before the next one comes

    def _close(self, stream):
        """Drop the parts of a stream that are not written, and those that come."""
        with self._changed:
            stream.closed = True
            self._waiting_bytes -= sum(size for _, size in stream.waiting)
            stream.waiting.clear()
            self._changed.notify_all()

    def _attempt(self, output, write):
        if output in self.failed or self._unexpected is not None:
            return
        try:
            with self.catching(output), LOCK:
                write()
        except BaseException as error:  # noqa: BLE001  the main thread raises it
            self._unexpected = error


class _Stream:
    """The parts of one write that wait for it.

    Attributes:
        waiting: (part, its bytes).
        ended: whether no other part comes.
        complete: whether all parts came.
        closed: whether the write is over, and no part is needed.
    """

    def __init__(self, changed: threading.Condition) -> None:
        self._changed = changed
        self.waiting: collections.deque[tuple[Any, int]] = collections.deque()
        self.ended = self.complete = self.closed = False

    def parts(self, writer: Writer) -> Iterator[Any]:
        """Yield the parts in the Writer's thread; it waits for them.

        Raises:
            SwmodelError: after the last part that came, if others are missing.
        """
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self.waiting or self.ended)
                if not self.waiting:
                    break
                part, size = self.waiting.popleft()
                writer._waiting_bytes -= size
                self._changed.notify_all()
            yield part
            del part
        if not self.complete:
            raise SwmodelError("the run ended before all parts of a file were gathered; the file is not complete.")


def owned(array: np.ndarray | None) -> np.ndarray | None:
    """The array, or a copy if it is a view of other memory, such as that of a JAX array that the next step donates."""
    return array if array is None or (array.flags.owndata and array.base is None) else array.copy()
