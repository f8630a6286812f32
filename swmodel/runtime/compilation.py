"""Compilation of programs: `jax.jit` with options that suit stencils.

jaxlib 0.10 has two ways to lower CPU fusions. The model's step runs at the same speed with both, and the older one
compiles its gradient in two thirds of the time. Later releases have one way only, and no such option.

On a GPU, XLA puts the kernels of a program into a graph that the device runs by itself. By default loops and branches
are left out, and the host reads their conditions in each iteration. With all of them a run is one graph.

On a CPU with several devices, JAX deadlocks when more than 32 executions are in flight on one device: the threads that
wait to start further executions are those that the running ones need. Every few calls therefore wait for their results.
"""

import collections
import contextlib
import functools
import itertools
from collections.abc import Callable
from typing import Any, TypeVar

import jax
import jax.core
import jaxlib

from . import cache

__all__ = ["OPTIONS", "compilations", "compiler_options", "jit", "lowering_for"]

T = TypeVar("T")

OPTIONS: dict[str, dict[str, Any]] = {  # of XLA, by platform
    "cpu": {"xla_cpu_use_fusion_emitters": False},
    "gpu": {
        "xla_gpu_enable_command_buffer": (
            "FUSION,CUBLAS,CUBLASLT,CUDNN,CUSTOM_CALL,DYNAMIC_SLICE_FUSION,WHILE,CONDITIONAL"
        ),
        "xla_gpu_graph_min_graph_size": 1,
    },
}
HOW, SUFFIX, YES = "compiled", "answer", "yes"  # of the file in the cache
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
def compiler_options() -> dict[str, str | bool | int] | None:
    """The OPTIONS of this process's devices, if this jaxlib has them; else None.

    The first process that needs them compiles a program to find out, and stores the result for others and later ones.
    """
    options = OPTIONS.get(jax.default_backend())
    if options is None:
        return None
    what = cache.digest(str(options), jax.__version__, jaxlib.version.__version__)

    def write_answer(path):
        path.write_text(YES if _are_known(options) else "no")

    try:
        answer = cache.find(what, HOW, SUFFIX) or cache.make(what, HOW, write_answer, SUFFIX)
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


def jit(function: Callable[..., Any] | None = None, **options: Any) -> Any:
    """`jax.jit` with `compiler_options`, which are looked up at the first call, because that starts JAX's backend.

    Args:
        function: the function to compile; without it, the result is a decorator.
        options: of `jax.jit`, such as donate_argnums.
    """
    if function is None:
        return functools.partial(jit, **options)

    @functools.cache
    def compiled():
        return jax.jit(function, compiler_options=compiler_options(), **options)

    inside_another = jax.jit(function, **options)  # where options are the outer program's

    @functools.wraps(function)
    def call(*arguments, **keywords):
        if any(isinstance(x, jax.core.Tracer) for x in jax.tree.leaves((arguments, keywords))):
            return inside_another(*arguments, **keywords)
        results = compiled()(*arguments, **keywords)
        if _devices_meet() and next(_calls) % MOST_IN_FLIGHT == 0:
            jax.block_until_ready(results)
        return results

    ahead = {name: functools.partial(_called, compiled, name) for name in ("trace", "lower")}
    return _with(call, **ahead)


def _called(compiled, name, *arguments, **keywords):
    return getattr(compiled(), name)(*arguments, **keywords)


def _with(function: T, **attributes: object) -> T:
    """`function`, with these attributes."""
    vars(function).update(attributes)
    return function
