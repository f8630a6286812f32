"""Standard output and error that cannot end a run: `swmodel run ... | head -1`, a full disk, a closed descriptor.

Lines that cannot be written are dropped from then on, with one warning unless the reader has closed the pipe. This does
not hold for output files (output/): a run that cannot write them ends.
"""

import contextlib
import errno
import io
import os
import select
import sys
from typing import Any

from ..runtime import launch
from ..runtime.signals import open_standard_descriptors

__all__ = ["protect_streams"]


class _Lenient(io.FileIO):
    """A file descriptor without errors: after the first one, its output goes to the null device."""

    def __init__(self, descriptor: int):
        super().__init__(descriptor, "w", closefd=False)
        self._launchers = _pipe_of_launcher(descriptor)

    def write(self, data: Any) -> int:
        if self._launchers is not None and not _has_reader(self._launchers):
            self._drop()
        try:
            return super().write(data)
        except OSError as error:
            self._drop()
            if error.errno != errno.EPIPE and self.fileno() == 1:
                with contextlib.suppress(OSError):
                    os.write(2, f"warning: standard output cannot be written ({error.strerror}).\n".encode())
            return len(data)

    def _drop(self):
        self._launchers = None
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, self.fileno())
        os.close(null)


def protect_streams() -> None:
    """Replace Python's standard output and error by lenient streams; streams of tests are not replaced."""
    open_standard_descriptors()
    for name, descriptor in (("stdout", 1), ("stderr", 2)):
        stream, first = getattr(sys, name), getattr(sys, f"__{name}__")
        if stream is not first or isinstance(getattr(getattr(stream, "buffer", None), "raw", None), _Lenient):
            continue
        raw = _Lenient(descriptor)
        lines = descriptor == 2 or raw.isatty()
        encoding, errors = getattr(first, "encoding", None), getattr(first, "errors", None)
        lenient = io.TextIOWrapper(io.BufferedWriter(raw), encoding, errors or "replace", line_buffering=lines)
        setattr(sys, name, lenient)
        setattr(sys, f"__{name}__", lenient)


def _pipe_of_launcher(descriptor):
    """The path of mpirun's own stream if it is a pipe; mpirun ends its ranks when the pipe has no reader."""
    path = f"/proc/{os.getppid()}/fd/{descriptor}"
    try:
        return path if launch.launcher() is not None and os.readlink(path).startswith("pipe:") else None
    except OSError:
        return None


def _has_reader(path):
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_NONBLOCK)
    except OSError:
        return True  # unknown
    try:
        poll = select.poll()
        poll.register(descriptor, 0)
        return not any(event & select.POLLERR for _, event in poll.poll(0))
    finally:
        os.close(descriptor)
