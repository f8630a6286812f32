"""How programs of the model are compiled: `jax.jit`, with the options that stencils need on a CPU.

XLA's newer fusion emitters for the CPU run this model's step at about half the speed of the older ones, and take longer to
compile it: `python benchmarks/step.py` prints the ratio.
"""
import functools

import jax

__all__ = ["jit", "COMPILER_OPTIONS"]

COMPILER_OPTIONS = {"xla_cpu_use_fusion_emitters": False}


def jit(function=None, **options):
    """`jax.jit` with the model's COMPILER_OPTIONS on a CPU; use it for programs that hold `integrate`."""
    if function is None:
        return functools.partial(jit, **options)

    @functools.lru_cache(maxsize=None)
    def compiled(platform):
        return jax.jit(function, compiler_options=COMPILER_OPTIONS if platform == "cpu" else None, **options)

    @functools.wraps(function)
    def call(*arguments, **keywords):
        return compiled(jax.default_backend())(*arguments, **keywords)

    call.lower = lambda *arguments, **keywords: compiled(jax.default_backend()).lower(*arguments, **keywords)
    return call
