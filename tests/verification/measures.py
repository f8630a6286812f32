"""Numbers that verification prints, by name: `make verify CASE=channel_order` prints `channel_order=2.0`.

A measure is a function without arguments that returns a number. It is registered under its own name by `@measure`, in a
module of this folder whose name begins with "measures_". Tests of this folder hold the measures to their limits.
"""

import importlib
import pkgutil
import sys
from collections.abc import Callable

__all__ = ["MEASURES", "main", "measure"]

MEASURES: dict[str, Callable[[], float]] = {}


def measure(function: Callable[[], float]) -> Callable[[], float]:
    """Register a function under its name."""
    MEASURES[function.__name__] = function
    return function


def found() -> dict[str, Callable[[], float]]:
    """{name: function} of all measures."""
    package = importlib.import_module(__package__ or "tests.verification")
    for module in pkgutil.iter_modules(package.__path__):
        if module.name.startswith("measures_"):
            importlib.import_module(f"{package.__name__}.{module.name}")
    return MEASURES


def main(names: list[str]) -> int:
    """Print `name=value` of each measure named, or of all of them for "all"; returns the exit status."""
    import jax

    jax.config.update("jax_enable_x64", True)
    known = found()
    unknown = [name for name in names if name not in known and name != "all"]
    if unknown or not names:
        print(f"verify: there is no case {', '.join(unknown) or 'named'}; known are all, {', '.join(sorted(known))}.")
        return 2
    for name in sorted(known) if "all" in names else names:
        print(f"{name}={known[name]():.6g}", flush=True)
    return 0


if __name__ == "__main__":
    from tests.verification import measures  # the registry that the modules of measures import

    sys.exit(measures.main(sys.argv[1:]))
