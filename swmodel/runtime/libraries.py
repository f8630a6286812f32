"""The libraries that this process has loaded: the MPI library, and its support of pointers to a GPU's memory."""

import ctypes
import os
import re
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path

__all__ = ["cuda_aware", "library_name", "loaded_library", "loaded_mpi", "mapped_libraries"]


_IS_MPI = re.compile(r"libmpi(?!_gtl)(ch)?([-_]\w+)?\.so")  # libmpi_gnu_91 is Cray's, libmpi-1a2b a wheel's


def loaded_mpi() -> tuple[str | None, str | None]:
    """(version, path) of the MPI library that mpi4py loaded; (None, None) before it did."""
    mpi = sys.modules.get("mpi4py.MPI")
    if mpi is None:
        return None, None
    return library_name(mpi.Get_library_version()), loaded_library("libmpi") or loaded_library("libmpich")


def library_name(text: str) -> str:
    """ "Open MPI 5.0.11" of "Open MPI v5.0.11, package: ...", "MPICH 4.3.2" of "MPICH Version:      4.3.2 ..."."""
    named = re.match(r"(.*?)\s+Version\s*:\s*(\S+)", text)
    return " ".join(named.groups()) if named else text.strip("\x00 \n").splitlines()[0].split(",")[0].replace(" v", " ")


def loaded_library(name: str) -> str | None:
    """The path of the shared library `name`.so that this process has mapped, or None."""
    found = [path for path in mapped_libraries() if Path(path).name.startswith(f"{name}.so")]
    return os.path.realpath(found[0]) if found else None


def mapped_libraries() -> list[str]:
    """The paths of all shared libraries that this process has mapped, in their order in memory."""
    try:
        maps = Path("/proc/self/maps").read_text()
    except OSError:
        return []
    return list(dict.fromkeys(re.findall(r"(/\S*\.so\S*)", maps)))


def cuda_aware(
    environment: Mapping[str, str], libraries: Iterable[str | Path] | None = None, version: str | None = None
) -> bool:
    """Whether the loaded MPI takes pointers to a GPU's memory. A wrong yes ends in a segmentation fault.

    Open MPI, MPICH and MVAPICH report it (MPIX_Query_cuda_support, MPIX_GPU_query_support), once MPI has started. Cray
    MPICH and MVAPICH2 must also be enabled by their own variables, which do not concern other MPIs.

    Args:
        environment: the process's variables.
        libraries, version: those that it has mapped, and its MPI's, unless given.
    """
    libraries = mapped_libraries() if libraries is None else [str(path) for path in libraries]
    name = loaded_mpi()[0] or "" if version is None else library_name(version)
    answers = {_cuda_answer(path) for path in libraries if _IS_MPI.match(Path(path).name)}
    if "CRAY MPICH" in name.upper():
        linked = any("libmpi_gtl_cuda" in path for path in libraries)
        return environment.get("MPICH_GPU_SUPPORT_ENABLED") == "1" and linked
    if name.startswith("MVAPICH2"):
        return environment.get("MV2_USE_CUDA") == "1" and False not in answers
    if name.startswith("MVAPICH") and environment.get("MVP_USE_CUDA") == "0":
        return False
    return answers - {None} == {True}


def _cuda_answer(path):
    """Whether the MPI library at `path` reports support of GPUs; None if it has no function for that."""
    library, supported = ctypes.CDLL(path), ctypes.c_int(0)
    if hasattr(library, "MPIX_Query_cuda_support"):
        return library.MPIX_Query_cuda_support() == 1
    if hasattr(library, "MPIX_GPU_query_support"):
        kind = 0  # MPIX_GPU_SUPPORT_CUDA
        return library.MPIX_GPU_query_support(kind, ctypes.byref(supported)) == 0 and supported.value == 1
    return None
