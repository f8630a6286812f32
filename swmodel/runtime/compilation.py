"""How programs of the model are compiled: `jax.jit`, with the options that stencils want.

jaxlib 0.10 can lower CPU fusions in two ways. Both run this model's step at the same speed, and the older one compiles
its gradient in two thirds of the time. Later releases have one way, and no such option.

On a CPU with several devices JAX stops for good where more than 32 runs are under way on one: the threads that wait to
begin others are those that the running ones need. So every few calls wait for their results.
"""

import collections
import functools
import itertools

import jax

__all__ = ["compilations", "compiler_options", "jit"]

OLDER_FUSION = {"xla_cpu_use_fusion_emitters": False}
MOST_UNDERWAY = 8  # calls that nobody has waited for
COMPILED = "/jax/core/compile/backend_compile_duration"  # JAX records this event for each program that it compiles
_calls = itertools.count(1)
_events = collections.Counter()


def _count(event: str, duration: float, **about: str | int) -> None:
    if event == COMPILED:
        _events[event] += 1


jax.monitoring.register_event_duration_secs_listener(_count)


def compilations() -> int:
    """The number of programs that JAX has compiled in this process since this module was imported."""
    return _events[COMPILED]


@functools.cache
def compiler_options():
    """Those of OLDER_FUSION that this jaxlib knows, on a CPU; else None."""
    if jax.default_backend() != "cpu":
        return None
    try:
        jax.jit(lambda x: x, compiler_options=OLDER_FUSION).lower(0.0).compile()
    except Exception:  # noqa: BLE001  its type has changed from release to release
        return None
    return OLDER_FUSION


@functools.cache
def _devices_meet():
    return jax.default_backend() == "cpu" and jax.device_count() > 1


def jit(function=None, **options):
    """`jax.jit` with `compiler_options`, which are looked up at the first call: the backend starts then, not before."""
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
        if _devices_meet() and next(_calls) % MOST_UNDERWAY == 0:
            jax.block_until_ready(results)
        return results

    call.lower = lambda *arguments, **keywords: compiled().lower(*arguments, **keywords)
    return call
