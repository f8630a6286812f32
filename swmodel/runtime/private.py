"""The private names of JAX that the package uses.

pyproject.toml bounds the versions of JAX because of them. Check them first when a new version is allowed. The private
names of mpi4jax are in parallel/mpi.py.

    JaxprTracer, custom_partial_eval_rules, partial_eval_jaxpr_custom_rules
        partial evaluation of a fused loop, for reverse mode (stencils/stencil.py)
    backends_are_initialized
        whether JAX has chosen its devices (launch.py)
    compilation_cache
        the modules of the persistent compilation cache (compilation.py)
"""

import importlib
import sys
from typing import Any


def partial_evaluation() -> Any:
    """The module with JaxprTracer and the rules of partial evaluation."""
    return importlib.import_module("jax.interpreters.partial_eval")


def backends_are_initialized() -> bool:
    """Whether JAX has made its devices; after that it ignores the variables that choose them."""
    bridge = sys.modules.get("jax._src.xla_bridge")
    return bridge is not None and bridge.backends_are_initialized()


def compilation_cache() -> tuple[Any, type] | None:
    """(the module of the persistent compilation cache, the base class of caches), or None where they are not there."""
    try:
        module = importlib.import_module("jax._src.compilation_cache")
        interface = importlib.import_module("jax._src.compilation_cache_interface").CacheInterface
        module.get_file_cache, module.decompress_executable  # noqa: B018
    except (ImportError, AttributeError):
        return None
    return module, interface
