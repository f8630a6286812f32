"""The launcher of this process, its rank, the ranks and its GPUs, from environment variables; the MPI library.

launcher()      the Launcher: Open MPI, MVAPICH, Hydra (MPICH, Intel MPI), PALS, srun, or another PMI launcher
usable_gpus()   the entries of CUDA_VISIBLE_DEVICES that JAX would use
loaded_mpi()    the MPI library that mpi4py has loaded
placement()     the cores of this rank; crowding() and binding_warning() say which ranks share them
cuda_aware()    whether it takes pointers to a GPU's memory
"""

import contextlib
import ctypes
import dataclasses
import glob
import importlib.util
import os
import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import SwmodelError

if TYPE_CHECKING:
    from mpi4py import MPI


class LaunchError(SwmodelError):
    """Raised if the processes were not started in the way that the run needs; the message is one sentence."""


@dataclasses.dataclass(frozen=True)
class Launcher:
    """This process's place in the run, from its launcher's variables; ranks on this host are "local"."""

    name: str
    size: int
    rank: int
    local_rank: int = 0
    local_size: int | None = None


def launcher(environment: Mapping[str, str] | None = None) -> Launcher | None:
    """The Launcher that started this process, or None.

    Open MPI's and Hydra's own variables come before those of a Slurm step, because their daemons are themselves a step
    on every host. srun with PMI-2 sets PMI_SIZE as Hydra does, but no MPI_LOCALRANKID.
    """
    environment = os.environ if environment is None else environment
    world, version = "OMPI_COMM_WORLD_", environment.get("OMPI_VERSION", "")
    names = ("SIZE", "RANK", "LOCAL_RANK", "LOCAL_SIZE")
    open_mpi = [world + name for name in names]
    hydra = ["PMI_SIZE", "PMI_RANK", "MPI_LOCALRANKID", "MPI_LOCALNRANKS"]
    return (
        _launcher(environment, f"Open MPI's mpirun {version}".strip(), *open_mpi)
        or _launcher(environment, "MVAPICH's mpirun", *(f"MV2_COMM_WORLD_{name}" for name in names))
        or _launcher(environment, "MVAPICH's mpirun", *(f"MVP_COMM_WORLD_{name}" for name in names))
        or _launcher(environment, "Hydra's mpirun (MPICH, Intel MPI)", *hydra)
        or _of_pals(environment)
        or _slurm_step(environment)
        or _launcher(environment, "a PMI launcher", "PMI_SIZE", "PMI_RANK", "PMI_LOCAL_RANK", "PMI_LOCAL_SIZE")
        or _launcher(environment, "a PMI launcher", "PMI_SIZE", "PMI_RANK", "MPI_LOCALRANKID")
        or _launcher(environment, "a PMI launcher", "PMI_SIZE", "PMI_RANK")
    )


def is_of_launcher(name: str) -> bool:
    """Whether a launcher sets this variable for its ranks; other programs that they start must not read it."""
    launchers = ("OMPI_COMM_WORLD_", "PMIX_", "PMI_", "MPI_LOCAL", "PALS_", "MV2_COMM_WORLD_", "MVP_COMM_WORLD_")
    return name.startswith(launchers)


def _of_pals(environment):
    """Cray's mpiexec. Only a variable of PMI gives the number of ranks; some versions do not give that on a host."""
    name, local_size = "Cray's mpiexec (PALS)", _number(environment, "PALS_LOCAL_SIZE")
    found = _launcher(environment, name, "PMI_SIZE", "PALS_RANKID", "PALS_LOCAL_RANKID")
    if found is None and "PMI_SIZE" not in environment and (_number(environment, "PALS_RANKID") or 0) > 0:
        raise LaunchError(
            f"{name} started this process as number {environment['PALS_RANKID']}, and no variable has the number of "
            "all processes; start them with `mpiexec --pmi=cray`, or set PMI_SIZE."
        )
    return found and dataclasses.replace(found, local_size=local_size or _number(environment, "PMI_LOCAL_SIZE"))


def _launcher(environment: Mapping[str, str], name: str, *variables: str) -> Launcher | None:
    """The Launcher from the variables of size, rank, and possibly the local ones; None if one is missing."""
    found = [_number(environment, variable) for variable in variables]
    numbers = [number for number in found if number is not None]
    return Launcher(name, *numbers) if len(numbers) == len(found) else None


def _slurm_step(environment):
    """The Launcher of a step that srun started. A batch script, a single process, has SLURM_NTASKS too."""
    step = _number(environment, "SLURM_STEP_ID")
    if step is None or step >= 0xFFFFFFF0:  # Slurm numbers its batch and interactive steps downwards from above
        return None
    size = "SLURM_STEP_NUM_TASKS" if "SLURM_STEP_NUM_TASKS" in environment else "SLURM_NTASKS"
    found = _launcher(environment, "Slurm's srun", size, "SLURM_PROCID", "SLURM_LOCALID")
    return found and dataclasses.replace(found, local_size=_tasks_on_node(environment))


def _tasks_on_node(environment):
    """This node's entry of SLURM_STEP_TASKS_PER_NODE, which reads like "4(x2),3"."""
    counts = []
    for tasks, times in re.findall(r"(\d+)(?:\(x(\d+)\))?", environment.get("SLURM_STEP_TASKS_PER_NODE", "")):
        counts += [int(tasks)] * int(times or 1)
    node = _number(environment, "SLURM_NODEID") or 0
    return counts[node] if node < len(counts) else None


def _number(environment, name):
    text = environment.get(name, "")
    return int(text) if text.isdecimal() else None


def launched_ranks() -> int:
    """The number of ranks that the launcher started; 1 without a launcher."""
    found = launcher()
    return 1 if found is None else found.size


def local_rank() -> int:
    """This rank's number on its host; 0 without a launcher."""
    found = launcher()
    return 0 if found is None else found.local_rank


def usable_gpus(environment: Mapping[str, str]) -> list[str]:
    """The entries of CUDA_VISIBLE_DEVICES that JAX would use; none without a CUDA plugin, or if they are disabled."""
    platforms = environment.get("JAX_PLATFORMS", "")
    plugin = any(importlib.util.find_spec(f"jax_cuda{major}_plugin") for major in (12, 13))
    if not plugin or (platforms and not {"cuda", "gpu"} & set(platforms.split(","))):
        return []
    named = environment.get("CUDA_VISIBLE_DEVICES")
    if named is not None:
        return [name.strip() for name in named.split(",") if name.strip() not in ("", "-1")]
    return [str(number) for number in range(len(glob.glob("/dev/nvidia[0-9]*")))]


# -- the MPI library --------------------------------------------------------------------------------------------------

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


def threads_per_rank() -> int:
    """The number of cores that this process may run on, and of the threads that XLA starts."""
    return len(_affinity())


def _affinity():
    return os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else set(range(os.cpu_count() or 1))


def share_cores(environment: Mapping[str, str], started: Any) -> None:
    """Bind ranks that are not bound yet to equal shares of their host's cores.

    Else every rank starts as many threads as the host has cores, and they wait for each other: two ranks on two cores
    lose a tenth to a third. A launcher's own binding stays, and SWMODEL_BIND=none switches this off.
    """
    bound = _affinity() != set(range(os.cpu_count() or 1))
    local_size = started.local_size or 1
    if bound or local_size == 1 or environment.get("SWMODEL_BIND") == "none" or not hasattr(os, "sched_setaffinity"):
        return
    mine = share(physical_cores(_affinity()), started.local_rank, local_size)
    os.sched_setaffinity(0, mine)
    with contextlib.suppress(OSError):  # threads that exist already, such as those of JAX
        for thread in os.listdir("/proc/self/task"):
            os.sched_setaffinity(int(thread), mine)


def share(cores: Sequence[set[int]], rank: int, ranks: int) -> set[int]:
    """The hardware threads of a rank's even share of `cores`, a list of sets; a single core if there are too few."""
    if ranks >= len(cores):
        return cores[rank % len(cores)]
    first, last = (len(cores) * r // ranks for r in (rank, rank + 1))
    return set().union(*cores[first:last])


def physical_cores(cpus: Iterable[int]) -> list[set[int]]:
    """Sets of hardware threads that share a core, socket by socket: they must go to one rank together."""
    cores = {}
    for cpu in sorted(cpus):
        topology = Path(f"/sys/devices/system/cpu/cpu{cpu}/topology")
        try:
            key = tuple(int((topology / name).read_text()) for name in ("physical_package_id", "core_id"))
        except (OSError, ValueError):
            key = (0, cpu)
        cores.setdefault(key, set()).add(cpu)
    return [cores[key] for key in sorted(cores)]


def binding_warning(world: "MPI.Comm") -> str | None:
    """One sentence if ranks of a host would wait for each other's cores, else None; collective over `world`."""
    return crowding(world.allgather(placement()))


def placement() -> tuple[str, tuple[int, ...]]:
    """(host, cores) of this rank."""
    return os.uname().nodename, tuple(sorted(_affinity()))


def crowding(placements: Sequence[tuple[str, Sequence[int]]]) -> str | None:
    """The sentence of `binding_warning`, from the `placement()` of every rank."""
    for host in dict.fromkeys(host for host, _ in placements):
        ranks = [cores for name, cores in placements if name == host]
        threads, cores = sum(map(len, ranks)), len(set().union(*ranks))
        if threads > cores:
            return (
                f"{len(ranks)} ranks with {threads} threads share {cores} core{'s' * (cores > 1)} of host {host} and "
                f"will wait for each other; start at most {cores} rank{'s' * (cores > 1)} there, or bind each to cores "
                "of its own (mpirun --bind-to core)."
            )
    return None
