"""Messages and the end of a command: plain text on the root's standard output; with --debug, a file per rank.

Standard output and error that cannot end a run: `swmodel run ... | head -1`, a full disk, a closed descriptor.

Lines that cannot be written are dropped from then on, with one warning unless the reader has closed the pipe. This does
not hold for output files (output/): a run that cannot write them ends.

How long runs take: `--profile DIR` keeps a trace and a memory profile by JAX's profiler. timing.json in the folder of
the output has the wall times of a run, an entry for each start or resumption.

After an error one sentence is printed once, and all ranks end with the same exit status. Ranks that fail alike (a wrong
key, a blow-up that all have agreed on) meet in a barrier and end in order; the root prints the sentence for them. A
rank that fails alone finds no other rank in the barrier. It prints its sentence and aborts the others.
"""

import contextlib
import errno
import faulthandler
import io
import json
import logging
import os
import select
import sys
import time as clock
import traceback
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from ..errors import EXIT_ERROR, SwmodelError, printable
from ..output import replacing
from ..runtime import launch
from ..runtime.paths import make_folder, refusal
from ..runtime.signals import PROCESS, open_standard_descriptors


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


LOGGER = logging.getLogger("swmodel")


class _Plain(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        text = super().format(record)
        return f"{record.levelname.lower()}: {text}" if record.levelno >= logging.WARNING else text


class _Output(logging.StreamHandler):
    """Writes to the present sys.stdout, and warnings to sys.stderr.

    The stream of the last message is not flushed again, since notebooks and tests may have closed it.
    """

    def emit(self, record: logging.LogRecord) -> None:
        self.stream = sys.stderr if record.levelno >= logging.WARNING else sys.stdout
        super().emit(record)


def start(root: bool, quiet: bool = False) -> None:
    """Show messages of level INFO, or WARNING if `quiet`, on the root."""
    LOGGER.handlers.clear()
    LOGGER.propagate = False
    LOGGER.setLevel(logging.DEBUG)
    handler = _Output() if root else logging.NullHandler()
    handler.setLevel(logging.WARNING if quiet else logging.INFO)
    handler.setFormatter(_Plain())
    LOGGER.addHandler(handler)
    logging.captureWarnings(True)
    logging.getLogger("py.warnings").handlers = [handler]


def keep_in(folder: str | os.PathLike, rank: int) -> Path:
    """Keep this rank's messages, those of jax, and the stack of a crash in folder/rank-NNNN.log, after earlier ones."""
    path = Path(folder) / f"rank-{rank:04d}.log"
    make_folder(path.parent)
    handler = logging.FileHandler(path)
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))
    for name in ("swmodel", "py.warnings", "jax"):
        logging.getLogger(name).addHandler(handler)
    if handler.stream is not None:
        faulthandler.enable(handler.stream)
    LOGGER.debug("rank %d, process %d on %s", rank, os.getpid(), os.uname().nodename)
    return path


LONGEST = 5.0  # [s] of a compiled run after which the trace ends: minutes of it would be gigabytes


class Profile:
    """A trace that begins at once. If called between the chunks of a run, it ends LONGEST after the first one."""

    def __init__(self, folder: str | os.PathLike):
        import jax

        self.folder, self.calls, self.compiled, self.open = Path(folder), 0, None, True
        make_folder(self.folder)
        options = jax.profiler.ProfileOptions()
        options.python_tracer_level = 0  # Python only waits for the device, which would fill the trace
        jax.profiler.start_trace(str(self.folder), create_perfetto_trace=True, profiler_options=options)

    def __call__(self, *progress: object) -> None:
        self.calls += 1
        if self.calls == 2:  # the first call is before the first chunk, which includes the compilation
            self.compiled = clock.perf_counter()
        if self.compiled is not None and clock.perf_counter() - self.compiled > LONGEST:
            self.stop()

    def stop(self) -> None:
        if self.open:
            import jax

            self.open = False
            jax.profiler.stop_trace()
            jax.profiler.save_device_memory_profile(str(self.folder / "memory.prof"))

    def sentence(self) -> str:
        """A sentence on the files and on how to open them."""
        traces = sorted(self.folder.glob("plugins/profile/*/perfetto_trace.json.gz"))
        trace = traces[-1] if traces else self.folder
        return (
            f"profile: drop {trace} on https://ui.perfetto.dev (or tensorboard --logdir {self.folder}); "
            f"memory: go tool pprof -http=: {self.folder / 'memory.prof'}"
        )


@contextlib.contextmanager
def profiled(folder: str | os.PathLike | None, root: bool) -> Iterator[Profile | None]:
    """A Profile of the block on the root's device, or None without a folder. Prints how to open the files."""
    if folder is None or not root:
        yield None
        return
    profile = Profile(folder)
    try:
        yield profile
    finally:
        profile.stop()
    print(profile.sentence())


# -- wall times -------------------------------------------------------------------------------------------------------

FILE = "timing.json"


def remove_entries(folder: Path) -> None:
    """Remove the file of an earlier run, which a new one is about to replace."""
    (folder / FILE).unlink(missing_ok=True)


def append_entry(folder: Path, leg: Mapping[str, object]) -> None:
    """Append an entry.

    Args:
        folder: the folder of the output files.
        leg: `steps`, `model_seconds` and `wall_seconds` of the steps, compilation included, `first_step_after_seconds`
            since the process was started (None if no step was taken), `ranks`, and `from_step`.
    """
    path = folder / FILE
    try:
        legs = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        legs = []
    with replacing(path) as temporary:
        Path(temporary).write_text(json.dumps([*(legs if isinstance(legs, list) else []), leg], indent=1) + "\n")


TIMEOUT = 10.0  # [s] that a failing rank waits for the others to fail as well


def sentences(error: BaseException) -> list[str]:
    """The sentences to print for an exception, one for each line."""
    mistakes = getattr(error, "mistakes", None)
    if mistakes is not None:
        return list(mistakes)
    text = printable(str(error).strip())
    if isinstance(error, OSError) and error.filename is not None:
        return [refusal(os.fsdecode(error.filename), error)]
    if isinstance(error, MemoryError):
        return [f"the memory of this machine is used up{f' ({text})' if text else ''}; use fewer cells, or more ranks."]
    if isinstance(error, SwmodelError) or isinstance(error, (launch.LaunchError, ValueError, FileNotFoundError)):
        return [text or type(error).__name__]
    return [f"{type(error).__name__}: {text or 'no explanation'}"]


def fail(error: BaseException, debug: bool = False) -> int:
    """Print `error` as described above, and return the exit status; aborts other ranks if this one failed alone."""
    PROCESS.hold_if_ending()
    code = getattr(error, "exit_code", None) or EXIT_ERROR
    started = launch.launcher()
    lines = sentences(error)
    logging.getLogger("swmodel").debug("ended with status %d", code, exc_info=error)
    if debug:
        lines = ["".join(traceback.format_exception(error)).rstrip(), *lines]
    elif code == EXIT_ERROR and not isinstance(error, (SwmodelError, launch.LaunchError)):
        lines.append("Run again with --debug to find its origin.")
    if started is None or started.size == 1:
        _print(lines)
        return code
    world = _world(started)
    if world is None:
        if started.rank == 0 or not isinstance(error, launch.LaunchError):  # else it is the same for all of them
            _print(lines, started.rank or None)
        return code
    if _all_fail(world):
        if world.rank == 0 or debug:
            _print(lines, world.rank if debug else None)
        return code
    _print(lines, world.rank)
    world.Abort(code)
    return code


def _world(started):
    """MPI's world, if it can be loaded and is the one that the launcher started; None otherwise."""
    if not launch.mpi_installed():
        return None
    try:
        world = launch.load_mpi().COMM_WORLD
    except launch.LaunchError:
        return None
    return world if world.size == started.size else None


def _all_fail(world):
    """Whether all ranks call this within TIMEOUT."""
    request, deadline = world.Ibarrier(), clock.monotonic() + TIMEOUT
    while not request.Test():
        if clock.monotonic() > deadline:
            return False
        clock.sleep(0.01)
    return True


def _print(lines, rank=None):
    prefix = "" if rank is None else f"rank {rank}: "
    sys.stdout.flush()
    if len(lines) > 1 and "Traceback" not in lines[0]:
        count = sum(not line.startswith("Run again") for line in lines)
        head = f"{prefix}{count} mistakes:\n" if count > 1 else prefix
        body = "\n".join(f"  {line}" if count > 1 else line for line in lines)
    else:
        head, body = f"{prefix}", "\n".join(lines)
    sys.stderr.write(f"error: {head}{body}\n")
    sys.stderr.flush()
    PROCESS.be_silent()
