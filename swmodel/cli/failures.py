"""The end of a command after an error: one sentence is printed once, and all ranks end with the same exit status.

Ranks that fail alike (a wrong key, a blow-up that all have agreed on) meet in a barrier and end in order; the root
prints the sentence for them. A rank that fails alone finds no other rank in the barrier. It prints its sentence and
aborts the others.
"""

import logging
import os
import sys
import time as clock
import traceback

from ..errors import EXIT_ERROR, SwmodelError, printable
from ..runtime import launch
from ..runtime.paths import refusal
from ..runtime.signals import PROCESS

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
        if started.rank == 0:
            _print(lines)
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
