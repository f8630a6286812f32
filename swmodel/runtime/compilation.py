"""Compilation of programs: `jax.jit` with options that suit stencils.

jaxlib 0.10 has two ways to lower CPU fusions. The model's step runs at the same speed with both, and the older one
compiles its gradient in two thirds of the time. Later releases have one way only, and no such option. By default XLA
cuts a program into 32 parts for as many threads; one part for each core of the process saves a tenth of the work. Where
native loops execute the steps (`light` programs), XLA compiles what is left with few optimisations, in less time.

On a GPU, XLA puts the kernels of a program into a graph that the device runs by itself. By default loops and branches
are left out, and the host reads their conditions in each iteration. With all of them a run is one graph.

On a CPU with several devices, JAX deadlocks when more than 32 executions are in flight on one device: the threads that
wait to start further executions are those that the running ones need. Every few calls therefore wait for their results.

JAX's persistent compilation cache, with entries that are verified before they are loaded.

JAX compiles dozens of programs before a run takes its first step, most of them of few operations. An executable that is
found in the cache is loaded in a few milliseconds. JAX's own file cache writes entries in place, and loads them without
a check. The one below uses runtime/cache.py: entries are complete, have a checksum, and a name that depends on the
instruction sets of the processor as well as on JAX's own key (program, options, versions).

Executables that call mpi4jax directly hold the addresses of MPI's objects, which differ from run to run. They are not
kept. Those of swmodel's communicator hold numbers instead (parallel/mpi.py).

Ranks of a host need the same programs at about the same time. One of them compiles a program under a lock, which ends
with its process, and the others wait for the entry. A rank that has waited for PATIENCE compiles the program itself.
A rank one of whose threads compiles a program leaves the next one to other ranks for a while (COURTESY).

Where a release of JAX lacks the private names that this needs (packages.py), nothing is kept.
"""

import collections
import contextlib
import functools
import itertools
import threading
import time as clock
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.core
import jaxlib

from . import cache
from .launchers import launched_ranks, threads_per_rank
from .packages import compilation_cache

OPTIONS: dict[str, dict[str, Any]] = {  # of XLA, by platform
    "cpu": {"xla_cpu_use_fusion_emitters": False},
    "gpu": {
        "xla_gpu_enable_command_buffer": (
            "FUSION,CUBLAS,CUBLASLT,CUDNN,CUSTOM_CALL,DYNAMIC_SLICE_FUSION,WHILE,CONDITIONAL"
        ),
        "xla_gpu_graph_min_graph_size": 1,
    },
}
LIGHT = {"xla_backend_optimization_level": 1}  # operations of XLA take longer
ANSWER, YES = ("compiled", "answer"), "yes"  # (how, suffix) of a file in the cache, and its text
MOST_IN_FLIGHT = 8  # calls whose results may be incomplete
COMPILED = "/jax/core/compile/backend_compile_duration"  # JAX records this event for each program that it compiles
_calls = itertools.count(1)
_events = collections.Counter()


def _count(event: str, duration_secs: float, **about: str | int) -> None:
    if event == COMPILED:
        _events[event] += 1


@functools.cache
def _listen():
    jax.monitoring.register_event_duration_secs_listener(_count)


def compilations() -> int:
    """The number of programs that JAX has compiled in this process since the first call of this function."""
    _listen()
    return _events[COMPILED]


@functools.cache
def compiler_options(light: bool = False) -> dict[str, str | bool | int] | None:
    """The OPTIONS of this process's devices, with LIGHT for `light` programs on CPUs; None where jaxlib lacks them.

    The first process that needs them compiles a program to find out, and stores the result for others and later ones.
    """
    options = OPTIONS.get(jax.default_backend())
    if options is None:
        return None
    if jax.default_backend() == "cpu":
        options = {**options, **LIGHT} if light else options
        options = {**options, "xla_cpu_parallel_codegen_split_count": threads_per_rank()}
    what = cache.digest(str(options), jax.__version__, jaxlib.version.__version__)

    def write_answer(path):
        path.write_text(YES if _are_known(options) else "no")

    how, suffix = ANSWER
    try:
        answer = cache.find(what, how, suffix) or cache.make(what, how, write_answer, suffix)
        known = answer.read_text() == YES
    except OSError:  # the folder has gone, or its disk is full
        known = _are_known(options)
    return options if known else None


def _are_known(options):
    """Whether this jaxlib compiles a program with these options."""
    try:
        jax.jit(lambda x: x, compiler_options=options).lower(0.0).compile()
    except Exception:  # noqa: BLE001  its type has changed from release to release
        return False
    return True


def lowering_for(kind: str) -> contextlib.AbstractContextManager:
    """Let programs be lowered for a GPU of this kind ("NVIDIA H100") that is not here.

    From release 0.11 on, JAX needs the kind to lower a kernel.
    """
    if not hasattr(jax.sharding, "AbstractDevice"):
        return contextlib.nullcontext()
    device = jax.sharding.AbstractDevice(kind, None, "gpu")
    return jax.sharding.use_abstract_mesh(jax.sharding.AbstractMesh((), (), abstract_device=device))


@functools.cache
def _devices_meet():
    return jax.default_backend() == "cpu" and jax.device_count() > 1


def jit(
    function: Callable[..., Any] | None = None, *, light: Callable[..., bool] = lambda *_: False, **options: Any
) -> Any:
    """`jax.jit` with `compiler_options`, which are looked up at the first call, because that starts JAX's backend.

    Args:
        function: the function to compile; without it, the result is a decorator.
        light: whether native loops do the work of the program for these positional arguments.
        options: of `jax.jit`, such as donate_argnums.
    """
    if function is None:
        return functools.partial(jit, light=light, **options)

    @functools.cache
    def compiled(light):
        return jax.jit(function, compiler_options=compiler_options(light), **options)

    inside_another = jax.jit(function, **options)  # where options are the outer program's

    @functools.wraps(function)
    def call(*arguments, **keywords):
        if any(isinstance(x, jax.core.Tracer) for x in jax.tree.leaves((arguments, keywords))):
            return inside_another(*arguments, **keywords)
        results = compiled(light(*arguments))(*arguments, **keywords)
        if _devices_meet() and next(_calls) % MOST_IN_FLIGHT == 0:
            jax.block_until_ready(results)
        return results

    def ahead(name, *arguments, **keywords):
        return getattr(compiled(light(*arguments)), name)(*arguments, **keywords)

    vars(call).update({name: functools.partial(ahead, name) for name in ("trace", "lower")})
    return call


SUFFIX = "program"
HOW = "jax"
MOST_BYTES = 500e6
PATIENCE = 60.0  # [s] that a rank waits for a program that another one compiles
COURTESY = 2.0  # [s] that a rank leaves a program to other ranks while it compiles another one
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
        self._held = weakref.WeakSet()  # those of all threads

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
        begun = clock.monotonic()
        while (waited := clock.monotonic() - begun) < PATIENCE:
            held = contextlib.ExitStack()
            alone = False
            if not self._held or waited > COURTESY:
                alone = held.enter_context(cache.alone(name, HOW, wait=False))
            found = cache.find(name, HOW, SUFFIX)
            if alone and found is None:
                self._claims.held = held
                self._held.add(held)
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
