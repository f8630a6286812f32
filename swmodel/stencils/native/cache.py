"""Compiled libraries on disk: WHAT.HOW.CHECKSUM.so in $XDG_CACHE_HOME/swmodel, or ~/.cache/swmodel.

WHAT stands for the text, the options and the processor, HOW for the compiler and the user's flags, CHECKSUM for the
file's content. Loading a library that is damaged ends a process by SIGBUS or SIGSEGV, so that the checksum is verified
before each load; a file that does not have it is removed and made anew. Files come to their name whole, by renaming.

What is loaded runs with the user's rights: a folder that others can write to is not used.
"""

import atexit
import contextlib
import fcntl
import functools
import hashlib
import logging
import os
import shutil
import socket
import stat
import tempfile
from pathlib import Path

from ...runtime.signals import PROCESS

__all__ = ["digest", "find", "folder", "make"]

CHECKSUM = 16  # digits


def digest(*parts: str) -> str:
    """24 hexadecimal digits that stand for these texts."""
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:24]


def find(what: str, how: str) -> Path | None:
    """The library that was kept under these names (`how` may be "*", any), intact; None where there is none."""
    for path in sorted(folder().glob(f"{what}.{how}.*.so")):
        with contextlib.suppress(OSError):
            if _checksum(path) == path.name.split(".")[2]:
                return path
            path.unlink()
    return None


def make(what: str, how: str, compile) -> Path:
    """The library that `compile(path)` writes, kept under these names.

    Ranks of a host want the same loop at the same time: one compiles it, the others wait for it. Where the file system
    has no locks, each compiles its own.
    """
    with _lock(folder() / f"{what}.{how}.lock"):
        found = find(what, how)  # by another process, in the meantime
        if found is not None:
            return found
        _remove_stale()
        with tempfile.TemporaryDirectory(prefix=_prefix(os.getpid()), dir=folder()) as name:
            with PROCESS.undone(lambda: shutil.rmtree(name, ignore_errors=True)):
                target = Path(name, "library.so")
                compile(target)
                _to_disk(target)
                path = folder() / f"{what}.{how}.{_checksum(target)}.so"
                target.replace(path)
    return path


def _checksum(path):
    return hashlib.sha256(path.read_bytes()).hexdigest()[:CHECKSUM]


def _to_disk(path):
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextlib.contextmanager
def _lock(path):
    remove = functools.partial(path.unlink, missing_ok=True)
    try:
        with path.open("w") as lock, PROCESS.undone(remove):
            with contextlib.suppress(OSError):
                fcntl.flock(lock, fcntl.LOCK_EX)
            yield
    finally:
        remove()


def _prefix(process):
    return f"making-{socket.gethostname()}-{process}-"


def _remove_stale():
    """Remove what processes of this host that are gone have left half-made."""
    start = _prefix("")[:-1]
    for path in folder().glob(f"{start}*"):
        process = path.name.removeprefix(start).split("-")[0]
        try:
            os.kill(int(process), 0)
        except ProcessLookupError:
            shutil.rmtree(path, ignore_errors=True)
        except (ValueError, OSError):
            continue


@functools.cache
def folder() -> Path:
    """A folder of this user's that nobody else can write to, and this process can."""
    home = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    chosen = Path(home, "swmodel")
    why = _unfit(chosen)
    if why is None:
        return chosen
    private = Path(tempfile.mkdtemp(prefix="swmodel-"))
    remove = functools.partial(shutil.rmtree, private, ignore_errors=True)
    atexit.register(remove)
    PROCESS.undo("private cache", remove)
    logging.getLogger("swmodel").warning(
        "compiled loops are not kept, and every run compiles them again: %s %s; name another folder in XDG_CACHE_HOME.",
        chosen, why,
    )  # fmt: skip
    return private


def _unfit(chosen):
    """Why compiled code cannot be kept in that folder; None where it can."""
    try:
        chosen.parent.mkdir(parents=True, exist_ok=True)
        chosen.mkdir(mode=0o700, exist_ok=True)
        found = chosen.stat()
        if found.st_uid != os.geteuid():
            return "belongs to another user"
        if found.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
            return "can be written by others (chmod go-w makes it safe)"
        with tempfile.TemporaryFile(dir=chosen):
            return None
    except OSError as error:
        return f"cannot be written ({error.strerror})"
