"""JAX's persistent compilation cache, with entries that are verified before they are loaded.

JAX compiles dozens of programs before a run takes its first step, most of them of few operations. An executable that is
found in the cache is loaded in a few milliseconds. JAX's own file cache writes entries in place, and loads them without
a check. The one below uses runtime/cache.py: entries are complete, have a checksum, and a name that depends on the
instruction sets of the processor as well as on JAX's own key (program, options, versions).

Executables that call mpi4jax directly hold the addresses of MPI's objects, which differ from run to run. They are not
kept. Those of swmodel's communicator hold numbers instead (parallel/handles.py).

Ranks of a host need the same programs at about the same time. One of them compiles a program under a lock, which ends
with its process, and the others wait for the entry. A rank that has waited for PATIENCE compiles the program itself.

Where a release of JAX lacks the private names that this needs (private.py), nothing is kept.
"""

import contextlib
import functools
import threading
import time as clock
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax

from . import cache
from .launchers import launched_ranks
from .private import compilation_cache

__all__ = ["keep_programs"]

SUFFIX = "program"
HOW = "jax"
MOST_BYTES = 500e6
PATIENCE = 60.0  # [s] that a rank waits for a program that another one compiles
POLL = 0.002  # [s] between two looks at the lock
WITH_ADDRESSES = b"mpi_"  # the prefix of the names of mpi4jax's calls


@functools.cache
def keep_programs() -> bool:
    """Keep the programs that JAX compiles from now on on disk, and load them in later runs; returns whether it does.

    Nothing is changed where JAX's own settings name a cache (JAX_COMPILATION_CACHE_DIR) or disable it
    (JAX_ENABLE_COMPILATION_CACHE=false).
    """
    settings: Any = jax.config
    if settings.jax_compilation_cache_dir is not None or not settings.jax_enable_compilation_cache:
        return False
    found = compilation_cache()
    if found is None:
        return False
    module, interface = found
    shared = launched_ranks() > 1
    kept = type("VerifiedCache", (_VerifiedCache, interface), {})(module.decompress_executable, shared)
    module.get_file_cache = lambda path: (kept, path)
    settings.update("jax_compilation_cache_dir", str(cache.folder()))
    settings.update("jax_persistent_cache_min_compile_time_secs", 0.0)
    settings.update("jax_persistent_cache_min_entry_size_bytes", -1)
    settings.update("jax_persistent_cache_enable_xla_caches", "none")  # those would be written without a checksum
    return True


class _VerifiedCache:
    """The interface of JAX's caches: `get` and `put` of compressed executables by their key."""

    def __init__(self, decompress: Callable[[bytes], bytes], shared: bool = False):
        self._decompress, self._shared = decompress, shared
        self._path = cache.folder()
        self._pruned = False
        self._claims = threading.local()  # `held`: the ExitStack with the lock of the program that a thread compiles

    def get(self, key: str) -> bytes | None:
        """The entry of that key, or None; the caller then compiles the program, and others wait for its `put`."""
        self._release()  # of a program whose compilation has failed, or that was not kept
        name = _name(key)
        found = cache.find(name, HOW, SUFFIX)
        if found is None and self._shared:
            found = self._claimed(name)
        if found is None:
            return None
        with contextlib.suppress(OSError):
            return found.read_bytes()
        return None

    def put(self, key: str, value: bytes) -> None:
        """Keep an entry; a full disk or a folder that has gone does not matter."""
        try:
            if WITH_ADDRESSES in self._decompress(value):
                return
            with contextlib.suppress(OSError):
                cache.keep(_name(key), HOW, functools.partial(_write, value), SUFFIX)
                if not self._pruned:
                    self._pruned = True
                    cache.prune(SUFFIX, MOST_BYTES)
        finally:
            self._release()

    def _claimed(self, name):
        """The entry that another process makes meanwhile; None where this thread has the lock or loses patience."""
        until = clock.monotonic() + PATIENCE
        while clock.monotonic() < until:
            held = contextlib.ExitStack()
            alone = held.enter_context(cache.alone(name, HOW, wait=False))
            found = cache.find(name, HOW, SUFFIX)
            if alone and found is None:
                self._claims.held = held
                return None
            held.close()
            if found is not None:
                return found
            clock.sleep(POLL)
        return None

    def _release(self):
        held, self._claims.held = getattr(self._claims, "held", None), None
        if held is not None:
            held.close()


def _write(value: bytes, path: Path) -> None:
    path.write_bytes(value)


def _name(key):
    return cache.digest(key, cache.instructions())
