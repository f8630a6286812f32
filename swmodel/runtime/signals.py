"""Signals: SIGUSR1 requests a restart file; SIGINT and SIGTERM request the end of a run, or of any other command.

A run handles them between chunks of steps, when all ranks can agree on them: `SignalMonitor` records them for it.
Elsewhere (while modules are imported, programs compiled, figures drawn) the main thread may be in native code for
minutes, where Python calls no handler. Therefore `PROCESS`, which the command line starts first, has a thread that
receives every signal. It ends the process if the main thread does not: at once where nothing would be lost, after GRACE
seconds in the middle of a run. It prints one sentence on the files that are kept and the command that continues.
A second SIGINT or SIGTERM ends the process at once. The same thread ends a rank whose launcher has ended.

A thread holds LOCK while it calls the netCDF library, which is not thread-safe. The thread that writes a run's files
holds it during each write. The run's own thread holds it while it opens and closes files. Whichever thread reads a
record of a forcing during the run holds it, also while it calls a user's function of time, which may read such files. A
signal ends the process only while the lock is free.
"""

import contextlib
import math
import os
import re
import select
import shlex
import signal
import sys
import threading
import time as clock
from collections.abc import Callable, Hashable, Iterator, Mapping
from types import FrameType
from typing import Any, Self

GRACE = 8.0  # [s] that a chunk of steps may take to end after a signal
WRITING = 60.0  # [s] that the last files may take
ELSEWHERE = 1.5  # [s] by which other ranks print later than the root: the launcher ends them when it has left
RECORD = 1.2  # [s] that a record may take to be written: less than ELSEWHERE, after which the launcher ends the root
ENDING = (signal.SIGINT, signal.SIGTERM)
# [s] from SIGCONT to SIGTERM where Open MPI 5 ends a job: SIGKILL follows after as long. Slurm sends both together.
LAST_WARNING = (0.1, 1.0)


class SignalMonitor:
    """Catches signals inside a `with` block and restores the earlier handlers after it; main thread only."""

    # The order is that of urgency: ranks agree by taking the largest index.
    HANDLED = (signal.SIGUSR1, signal.SIGINT, signal.SIGTERM)

    def __init__(self):
        self._pending = 0
        self._earlier: dict[int, Any] = {}

    @classmethod
    def meaning(cls, request: int) -> tuple[signal.Signals, bool]:
        """(the signal, whether it ends the run) for a result of `take`."""
        number = cls.HANDLED[request - 1]
        return number, number != signal.SIGUSR1

    def take(self) -> int:
        """1 + the index in HANDLED of the most urgent signal since the last call; 0 for none."""
        pending, self._pending = self._pending, 0
        return pending

    def _note(self, number: int, frame: FrameType | None) -> None:
        request = 1 + self.HANDLED.index(number)
        if self.meaning(request)[1]:
            signal.signal(number, self._earlier[number])  # the next signal has its default effect
        self._pending = max(self._pending, request)

    def __enter__(self) -> Self:
        if threading.current_thread() is threading.main_thread():
            self._earlier = {number: signal.signal(number, self._note) for number in self.HANDLED}
            self._pending = 1 if PROCESS.take_request_for_restart() else 0
        return self

    def __exit__(self, *exception: object) -> None:
        for number, handler in self._earlier.items():
            signal.signal(number, handler)


class ExitGuard:
    """Ends this process soon after SIGINT or SIGTERM, also while its main thread is busy.

    Until `start` is called, and in a process where nobody calls it, every method does nothing.
    """

    def __init__(self):
        self._active, self._taken_over, self._silent, self._restart_wanted = False, False, False, False
        self._earlier: dict[int, Any] = {}
        self._grace: float = 0.0
        self._sentences: list[Callable[[str], str]] = []
        self._cleanups: dict[Hashable, Callable[[], object]] = {}
        self._first: signal.Signals | None = None
        self._deadline: float | None = None
        self.rank = _rank_in(os.environ)
        self.again: Callable[..., str] | None = None  # again(overwrite) is the command line that starts this again

    # -- from the first line of the program on ------------------------------------------------------------------------

    def start(self) -> None:
        """Catch signals from here on; main thread only."""
        if self._active or threading.current_thread() is not threading.main_thread():
            return
        self.__init__()
        self._active = True
        open_standard_descriptors()
        reader, self._writer = os.pipe()
        os.set_blocking(self._writer, False)
        self._wakeup = signal.set_wakeup_fd(self._writer, warn_on_full_buffer=False)
        caught = (*SignalMonitor.HANDLED, signal.SIGCONT)
        self._earlier = {number: signal.signal(number, self._note) for number in caught}
        threading.Thread(target=self._listen, args=(reader, launcher_descriptor()), name="signals", daemon=True).start()

    def stop(self) -> None:
        """Restore the handlers that were there before `start`."""
        if not self._active:
            return
        self.hold_if_ending()
        for number, handler in self._earlier.items():
            signal.signal(number, handler)
        signal.set_wakeup_fd(self._wakeup)
        os.close(self._writer)  # at the end of the file the thread leaves, and closes its own end
        self._active = False

    def take_request_for_restart(self) -> bool:
        """Whether SIGUSR1 arrived since the last call, outside of a run."""
        wanted, self._restart_wanted = self._restart_wanted, False
        return wanted

    def _note(self, number: int, frame: FrameType | None) -> None:
        self._restart_wanted |= number == signal.SIGUSR1

    # -- settings by the main thread ----------------------------------------------------------------------------------

    @contextlib.contextmanager
    def ending_with(self, sentence: Callable[[str], str]) -> Iterator[None]:
        """Within this block a signal that ends the process prints `sentence(name of the signal)`.

        It is called by another thread and must not compute anything.
        """
        self._sentences.append(sentence)
        try:
            yield
        finally:
            self._sentences.remove(sentence)

    def add_cleanup(self, key: Hashable, function: Callable[[], object]) -> None:
        """Until `remove_cleanup(key)`, call `function()` before a signal ends the process, to remove files."""
        self._cleanups[key] = function

    def remove_cleanup(self, key: Hashable) -> None:
        self._cleanups.pop(key, None)

    @contextlib.contextmanager
    def cleanup(self, function: Callable[[], object]) -> Iterator[None]:
        """`add_cleanup` within a block."""
        self.add_cleanup(id(function), function)
        try:
            yield
        finally:
            self.remove_cleanup(id(function))

    @contextlib.contextmanager
    def graceful(self, seconds: float) -> Iterator[None]:
        """Within this block the main thread has `seconds` to end by itself after a signal.

        If a signal was not handled when the block is left, the process ends there.
        """
        before = self._grace
        self.allow(seconds)
        try:
            yield
        finally:
            self._grace = before
            if self._deadline is not None and not self._taken_over:
                self._deadline = min(self._deadline, clock.monotonic() + before)

    def allow(self, seconds: float) -> None:
        """Let the main thread have `seconds` from now on, also after a signal that has arrived already."""
        self._grace = seconds
        if self._deadline is not None:
            self._deadline = max(self._deadline, clock.monotonic() + seconds)

    def take_over(self) -> None:
        """Declare that the main thread handles the signal: it ends the command itself, within WRITING seconds."""
        self._taken_over = True
        self.allow(WRITING)

    def be_silent(self) -> None:
        """Print nothing more, since the main thread has printed how the command ends."""
        self._silent = True

    def hold_if_ending(self) -> None:
        """Wait, if a signal is about to end this process: it may be the cause of a failure that was just detected."""
        while self._active and self._deadline is not None and not self._taken_over:
            clock.sleep(0.2)

    def command(self) -> str:
        """The command line that starts this command again."""
        return shlex.join(["swmodel", *sys.argv[1:]]) if self.again is None else self.again()

    # -- the thread ---------------------------------------------------------------------------------------------------

    def _listen(self, pipe: int, launcher: int | None) -> None:
        """Handle the signals whose numbers arrive in `pipe`; end this process when `launcher` becomes readable."""
        if launcher is not None and launcher_has_ended():
            self._abandoned()
        continued, poll = -math.inf, select.poll()
        for descriptor in (pipe, launcher):
            if descriptor is not None:
                poll.register(descriptor, select.POLLIN)
        while True:
            ready = [descriptor for descriptor, _ in poll.poll()]
            if launcher in ready:
                self._abandoned()
            if (data := os.read(pipe, 64)) == b"":
                break
            for number in data:
                if number == signal.SIGCONT:
                    continued = clock.monotonic()
                if number not in ENDING:
                    continue
                if self._first is not None or LAST_WARNING[0] < clock.monotonic() - continued < LAST_WARNING[1]:
                    self._end(signal.Signals(number))
                self._first, self._deadline = signal.Signals(number), clock.monotonic() + self._grace
                threading.Thread(target=self._wait, name="deadline", daemon=True).start()
        os.close(pipe)
        if launcher is not None:
            os.close(launcher)

    def _abandoned(self) -> None:
        """End this rank: its launcher has been killed, and MPI would end it sooner or later."""
        self._settle()
        with contextlib.suppress(OSError):  # nobody may be left to read it
            os.write(2, f"error: rank {self.rank}: the command has ended, because its launcher has.\n".encode())
        os._exit(1)

    def _settle(self) -> None:
        """Wait for the record that is being written, prevent another one, and call the cleanup functions.

        A file may be unreadable if the process ends in the middle of a record. Writing that takes longer than RECORD is
        mostly that of a restart, which has a temporary name, and is interrupted.
        """
        LOCK.acquire(timeout=RECORD)
        for function in list(self._cleanups.values()):
            with contextlib.suppress(Exception):
                function()

    def _wait(self) -> None:
        while self._deadline is not None and (left := self._deadline - clock.monotonic()) > 0:
            clock.sleep(min(left, 0.2))
        if self._active and self._first is not None:
            self._end(self._first)

    def _end(self, number: signal.Signals) -> None:
        if self.rank and not self._silent:
            clock.sleep(ELSEWHERE)
        if not self._silent:
            sentence = f"{number.name} stopped the command before it had computed anything."
            sentence = f"{sentence} Start again with: {self.command()}"
            with contextlib.suppress(Exception):
                sentence = self._sentences[-1](number.name) if self._sentences else sentence
            lead = ("\n" if os.isatty(1) else "") + "error: " + (f"rank {self.rank}: " if self.rank else "")
            with contextlib.suppress(OSError):
                os.write(2, f"{lead}{sentence}\n".encode(errors="replace"))
        self._settle()
        os._exit(128 + number)


def open_standard_descriptors() -> None:
    """Open the null device on those of the descriptors 0, 1 and 2 that are closed.

    Otherwise the next pipe or file would get such a number, and what is printed would go there.
    """
    while (descriptor := os.open(os.devnull, os.O_RDWR)) <= 2:
        os.set_inheritable(descriptor, True)
    os.close(descriptor)


def _rank_in(environment):
    """The rank of this process before launchers.py is imported, which covers more launchers."""
    named = ("OMPI_COMM_WORLD_RANK", "PMI_RANK", "SLURM_PROCID")
    return next((int(rank) for rank in map(environment.get, named) if rank and rank.isdecimal()), 0)


PROCESS = ExitGuard()


# -- the launcher of this rank ----------------------------------------------------------------------------------------

# Slurm is not among them: its variables are also in the shell of a batch job, and slurmstepd ends its tasks itself.
RANKS = ("OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK")
JOB = re.compile(r"prterun-(.+)-(\d+)@\d+$")


def launcher_descriptor(environment: Mapping[str, str] = os.environ) -> int | None:
    """A file descriptor that becomes readable when the parent of this rank ends.

    Returns:
        the descriptor; None in a process that is no rank, and where the system has no such descriptors.
    """
    if not any(name in environment for name in RANKS) or not hasattr(os, "pidfd_open"):
        return None
    try:
        return os.pidfd_open(os.getppid())
    except OSError:
        return None


def launcher_has_ended(environment: Mapping[str, str] = os.environ) -> bool:
    """Whether the mpirun that started this rank, on this host, ended before `launcher_descriptor` was called.

    This process was then given to init, and the process that the name of Open MPI's job holds, `prterun-HOST-PID@1`,
    has ended. Both are required: in a container with process numbers of its own the second is true from the start.
    """
    job = JOB.match(environment.get("PMIX_NAMESPACE", ""))
    if job is None or job[1] != os.uname().nodename or os.getppid() != 1:
        return False
    try:
        os.kill(int(job[2]), 0)
    except ProcessLookupError:
        return True
    except OSError:
        return False
    return False


LOCK = threading.RLock()
