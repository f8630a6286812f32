"""Files that are kept from one run to the next, in $XDG_CACHE_HOME/swmodel or ~/.cache/swmodel.

    loops of the stencil compiler   shared libraries (stencils/native/library.py)
    programs of JAX                 executables (compilation.py)
    tsunami sources                 the sea surface over faults (sources/motion_cache.py)
    answers                         whether this jaxlib has an option (compilation.py)

A file is named WHAT.HOW.CHECKSUM.SUFFIX. WHAT identifies what was compiled, HOW the compiler and its options, and
CHECKSUM the bytes of the file. Loading a damaged library or executable ends a process by SIGBUS or SIGSEGV. Therefore
the checksum is verified before each use, and a file with another checksum is removed and made again. A file gets its
name by renaming, when it is complete.

`make setup` compiles the runtime of the loops once, into the folder of the environment, where it is found too.

Loaded code runs with the rights of the user. So a folder that others can write to is not used.
"""

import atexit
import collections
import contextlib
import fcntl
import fnmatch
import functools
import hashlib
import logging
import os
import platform
import re
import shutil
import stat
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from . import paths
from .signals import PROCESS

CHECKSUM = 16  # digits
RECENT = 50_000_000  # [ns] in which a folder may change twice without another time of change


def digest(*parts: str) -> str:
    """A hash of these texts, 24 hexadecimal digits."""
    return digest_of_bytes("\0".join(parts).encode())


def digest_of_bytes(content: bytes) -> str:
    """A hash of these bytes, 24 hexadecimal digits."""
    return hashlib.sha256(content).hexdigest()[:24]


def find(what: str, how: str, suffix: str = "so") -> Path | None:
    """The file that was kept under these names (`how` may be "*", any), if it is intact; otherwise None.

    Its time of modification becomes the time of this use, which `prune` reads.
    """
    for place in (folder(), *_of_environment()):
        named = fnmatch.filter(_listed(place, what), f"{what}.{how}.*.{suffix}")
        for path in [place / name for name in sorted(named)]:
            with contextlib.suppress(OSError):
                if _checksum(path) == path.name.split(".")[2]:
                    with contextlib.suppress(OSError):
                        os.utime(path)
                    return path
                path.unlink()
    return None


@functools.cache
def _of_environment() -> tuple[Path, ...]:
    """The folder with the loops' runtime that `make setup` has compiled, if only its owner or root can write to it."""
    chosen = Path(sys.prefix, "share", "swmodel")
    try:
        found = chosen.stat()
    except OSError:
        return ()
    safe = found.st_uid in (0, os.geteuid()) and not found.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
    return (chosen,) if safe else ()


_listings: dict[Path, tuple[int, Any]] = {}  # {folder: (when it was changed, {what: names})}, as they were last read


def _listed(place, what):
    """The names of the files of `what` in a folder, which is read again only where it has changed."""
    try:
        changed = os.stat(place).st_mtime_ns
    except OSError:  # it was removed
        return []
    if _listings.get(place, (None,))[0] != changed or time.time_ns() - changed < RECENT:
        names = collections.defaultdict(list)
        for name in os.listdir(place):
            names[name.partition(".")[0]].append(name)
        _listings[place] = changed, names
    return _listings[place][1].get(what, [])


def make(what: str, how: str, write: Callable[[Path], None], suffix: str = "so") -> Path:
    """The file that `write(path)` writes, kept under these names.

    Ranks of a host need the same file at the same time: one makes it, and the others wait for it. Where the file system
    has no locks, each makes its own.
    """
    with alone(what, how):
        found = find(what, how, suffix)  # by another process, in the meantime
        if found is not None:
            return found
        paths.remove_remains(folder())
        return keep(what, how, write, suffix, to_disk=True)


@contextlib.contextmanager
def alone(what: str, how: str, wait: bool = True) -> Iterator[bool]:
    """A context in which one process at a time makes the file of these names, where the file system has locks.

    Its value is whether this process may make the file. That is False only without `wait`, while another process does.
    """
    path = folder() / f"{what}.{how}.lock"

    def remove():
        with contextlib.suppress(OSError):
            path.unlink(missing_ok=True)

    with contextlib.ExitStack() as held:
        try:
            fcntl.flock(held.enter_context(path.open("w")), fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB)
            mine = True
        except BlockingIOError:
            mine = False
        except OSError:  # a file system without locks, a full disk, or a folder that has gone
            mine = True
        if mine:
            held.callback(remove)
            held.enter_context(PROCESS.cleanup(remove))
        yield mine


def keep(what: str, how: str, write: Callable[[Path], None], suffix: str, to_disk: bool = False) -> Path:
    """Write a file like `make`, without waiting for another process that makes the same file.

    Without `to_disk` the file is not synchronised. It may be damaged if the machine fails soon after, and is then made
    again.
    """
    with paths.temporary(folder() / f"{what}.{how}.{threading.get_ident()}") as place:
        place.mkdir()
        target = place / f"made.{suffix}"
        write(target)
        if to_disk:
            paths.to_disk(target)
        path = folder() / f"{what}.{how}.{_checksum(target)}.{suffix}"
        target.replace(path)
    return path


def prune(suffix: str, most: float) -> None:
    """Remove the files with a suffix that were used longest ago, so that the others have at most `most` bytes."""
    found = []
    for path in folder().glob(f"*.{suffix}"):
        with contextlib.suppress(OSError):
            status = path.stat()
            found.append((status.st_mtime, status.st_size, path))
    total = sum(size for _, size, _ in found)
    for _, size, path in sorted(found):
        if total <= most:
            return
        with contextlib.suppress(OSError):
            path.unlink()
            total -= size


def _checksum(path):
    return hashlib.sha256(path.read_bytes()).hexdigest()[:CHECKSUM]


@functools.cache
def folder() -> Path:
    """The folder of the cache, to which this user can write and nobody else can."""
    home = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    chosen = Path(home, "swmodel")
    why = _unfit(chosen)
    if why is None:
        return chosen
    private = Path(tempfile.mkdtemp(prefix="swmodel-"))
    remove = functools.partial(shutil.rmtree, private, ignore_errors=True)
    atexit.register(remove)
    PROCESS.add_cleanup("private cache", remove)
    logging.getLogger("swmodel").warning(
        "compiled programs are not kept, and every run compiles them again: %s %s; "
        "name another folder in XDG_CACHE_HOME.",
        chosen,
        why,
    )
    return private


def _unfit(chosen):
    """A phrase on why compiled code cannot be kept in a folder; None where it can."""
    try:
        chosen.parent.mkdir(parents=True, exist_ok=True)
        chosen.mkdir(mode=0o700, exist_ok=True)
        found = chosen.stat()
        if found.st_uid != os.geteuid():
            return "belongs to another user"
        if found.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
            return "can be written by others (chmod go-w makes it safe)"
        if not os.access(chosen, os.R_OK | os.W_OK | os.X_OK, effective_ids=os.access in os.supports_effective_ids):
            return "cannot be written"
        return None
    except OSError as error:
        return f"cannot be written ({error.strerror})"


NUMERICAL = re.compile("sse|ssse|avx|fma|bmi|popcnt|abm|lzcnt|aes|pclmul|vaes|vpclmul|sha|gfni|movbe|f16c|adx|xop|amx")


@functools.cache
def instructions() -> str:
    """The instruction sets of this processor that compilers use; loops may fail on a processor without them."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    flags = {name: text.split() for name, _, text in (line.partition(":") for line in lines[::-1])}
    flags = {name.strip(): found for name, found in flags.items()}
    chosen = [flag for flag in flags.get("flags", []) if NUMERICAL.match(flag)] or flags.get("Features", [])
    return " ".join([platform.machine(), *sorted(chosen)])
