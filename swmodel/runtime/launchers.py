"""The launcher of this process, its rank, the number of ranks, and its GPUs, from environment variables alone.

launcher()      the Launcher: Open MPI, MVAPICH, Hydra (MPICH, Intel MPI), PALS, srun, or another PMI launcher
usable_gpus()   the entries of CUDA_VISIBLE_DEVICES that JAX would use
"""

import dataclasses
import glob
import importlib.util
import os
import re
from collections.abc import Mapping

from ..errors import SwmodelError

__all__ = ["LaunchError", "Launcher", "is_of_launcher", "launched_ranks", "launcher", "local_rank", "usable_gpus"]


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
