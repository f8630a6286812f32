"""JAX's persistent compilation cache, with entries that are verified before they are loaded.

JAX compiles about a hundred programs before a run takes its first step. An executable that is found in the cache is
loaded in a few milliseconds. JAX's own file cache writes entries in place, and loads them without a check. The one
below uses runtime/cache.py: entries are complete, have a checksum, and a name that depends on the instruction sets of
the processor as well as on JAX's own key (program, options, versions).

Executables that call mpi4jax directly hold the addresses of MPI's objects, which differ from run to run. They are not
kept. Those of swmodel's communicator hold numbers instead (parallel/handles.py).

Where a release of JAX lacks the private names that this needs (private.py), nothing is kept.
"""

import contextlib
import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax

from . import cache
from .private import compilation_cache

__all__ = ["keep_programs"]

SUFFIX = "program"
HOW = "jax"
MOST_BYTES = 500e6
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
    kept = type("VerifiedCache", (_VerifiedCache, interface), {})(module.decompress_executable)
    module.get_file_cache = lambda path: (kept, path)
    settings.update("jax_compilation_cache_dir", str(cache.folder()))
    settings.update("jax_persistent_cache_min_compile_time_secs", 0.0)
    settings.update("jax_persistent_cache_min_entry_size_bytes", -1)
    settings.update("jax_persistent_cache_enable_xla_caches", "none")  # those would be written without a checksum
    return True


class _VerifiedCache:
    """The interface of JAX's caches: `get` and `put` of compressed executables by their key."""

    def __init__(self, decompress: Callable[[bytes], bytes]):
        self._decompress = decompress
        self._path = cache.folder()
        self._pruned = False

    def get(self, key: str) -> bytes | None:
        """The entry of that key, or None."""
        found = cache.find(_name(key), HOW, SUFFIX)
        if found is None:
            return None
        with contextlib.suppress(OSError):
            return found.read_bytes()
        return None

    def put(self, key: str, value: bytes) -> None:
        """Keep an entry; a full disk or a folder that has gone does not matter."""
        if WITH_ADDRESSES in self._decompress(value):
            return
        with contextlib.suppress(OSError):
            cache.keep(_name(key), HOW, functools.partial(_write, value), SUFFIX)
            if not self._pruned:
                self._pruned = True
                cache.prune(SUFFIX, MOST_BYTES)


def _write(value: bytes, path: Path) -> None:
    path.write_bytes(value)


def _name(key):
    return cache.digest(key, cache.instructions())
