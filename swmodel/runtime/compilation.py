"""Compilation of programs: `jax.jit` with options that suit stencils.

jaxlib 0.10 has two ways to lower CPU fusions. The model's step runs at the same speed with both, and the older one
compiles its gradient in two thirds of the time. Later releases have one way only, and no such option.

On a CPU with several devices, JAX deadlocks when more than 32 executions are in flight on one device: the threads that
wait to start further executions are those that the running ones need. Every few calls therefore wait for their results.
"""

import collections
import functools
import itertools
from collections.abc import Callable
from typing import Any

import jax
import jax.core
import jaxlib

from . import cache

__all__ = ["compilations", "compiler_options", "jit"]

OLDER_FUSION = {"xla_cpu_use_fusion_emitters": False}
HOW, SUFFIX, YES = "compiled", "answer", "yes"  # of the file in the cache
MOST_IN_FLIGHT = 8  # calls whose results may be incomplete
COMPILED = "/jax/core/compile/backend_compile_duration"  # JAX records this event for each program that it compiles
_calls = itertools.count(1)
_events = collections.Counter()


def _count(event: str, duration_secs: float, **about: str | int) -> None:
    if event == COMPILED:
        _events[event] += 1


jax.monitoring.register_event_duration_secs_listener(_count)


def compilations() -> int:
    """The number of programs that JAX has compiled in this process since this module was imported."""
    return _events[COMPILED]


@functools.cache
def compiler_options() -> dict[str, bool] | None:
    """OLDER_FUSION on a CPU, if this jaxlib has that option; else None.

    The first process that needs it compiles a program to find out, and stores the result for others and later ones.
    """
    if jax.default_backend() != "cpu":
        return None
    what = cache.digest(str(OLDER_FUSION), jax.__version__, jaxlib.version.__version__)
    try:
        answer = cache.find(what, HOW, SUFFIX) or cache.make(what, HOW, _write_answer, SUFFIX)
        known = answer.read_text() == YES
    except OSError:  # the folder has gone, or its disk is full
        known = _takes_older_fusion()
    return OLDER_FUSION if known else None


def _write_answer(path):
    path.write_text(YES if _takes_older_fusion() else "no")


def _takes_older_fusion():
    """Whether this jaxlib compiles a program with OLDER_FUSION."""
    try:
        jax.jit(lambda x: x, compiler_options=OLDER_FUSION).lower(0.0).compile()
    except Exception:  # noqa: BLE001  its type has changed from release to release
        return False
    return True


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


def _with(function: Any, **attributes: Any) -> Any:
    """`function`, with these attributes."""
    vars(function).update(attributes)
    return function
