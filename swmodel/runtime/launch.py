"""How this process was started, and what it may use. It and devices.py are the places that read the environment.

launcher()            who started how many ranks, and which one this is
configure_process()   GPU, cores, precision: before JAX's backend and MPI start
bind_rank()           GPU or cores alone, for scripts that do not call it
load_mpi()            mpi4py and mpi4jax, or one sentence on why not
check_world()         as many ranks in MPI's world as were started, or every process would run the whole domain
binding_warning()     ranks that share cores (cores.py)
mpirun()              a command line that starts ranks here, as root or not, on enough cores or not
"""

import contextlib
import dataclasses
import glob
import importlib
import importlib.util
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping, MutableMapping
from pathlib import Path
from typing import Any

from ..errors import ConfigError, SwmodelError
from .cores import binding_warning, crowding, placement, share_cores, threads_per_rank
from .libraries import cuda_aware, loaded_mpi
from .malloc import use_one_arena
from .private import backends_are_initialized
from .signals import PROCESS

__all__ = [
    "FORWARDED", "LaunchError", "Launcher", "Process", "ask_to_end", "bind_rank", "binding_warning", "check_world",
    "configure_process", "crowding", "launched_ranks", "launcher", "load_mpi", "local_rank", "mpi_installed", "mpirun",
    "mpirun_environment", "placement", "remove_session", "stop", "threads_per_rank",
]  # fmt: skip


STARTING = 5.0  # [s] that MPI may take to start, after a signal


class LaunchError(SwmodelError):
    """The processes were not started as the run needs them; the message is one sentence for the user."""


@dataclasses.dataclass(frozen=True)
class Launcher:
    """This process's place in the run, from its launcher's variables; ranks on this host are "local"."""

    name: str
    size: int
    rank: int
    local_rank: int = 0
    local_size: int | None = None


@dataclasses.dataclass(frozen=True)
class Process:
    """The communicator, devices and threads that `configure_process` chose."""

    communicator: str  # "serial", "mpi" or "sharded"
    launcher: Launcher | None
    threads: int  # cores that XLA's pool of threads follows
    gpu: str | None  # the entry of CUDA_VISIBLE_DEVICES that this rank was given
    tiles: int = 1  # of the run: ranks, or devices of the sharded communicator


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
        or _launcher(environment, "a PMI launcher", "PMI_SIZE", "PMI_RANK", "MPI_LOCALRANKID")
        or _launcher(environment, "a PMI launcher", "PMI_SIZE", "PMI_RANK")
    )


def _of_pals(environment):
    """Cray's mpiexec, which gives the size by PMI's variable; of the local size not every version speaks."""
    found = _launcher(environment, "Cray's mpiexec (PALS)", "PMI_SIZE", "PALS_RANKID", "PALS_LOCAL_RANKID")
    return found and dataclasses.replace(found, local_size=_number(environment, "PALS_LOCAL_SIZE"))


def _launcher(environment: Mapping[str, str], name: str, *variables: str) -> Launcher | None:
    """From the variables that hold size, rank, and possibly the local ones; None unless all are there."""
    found = [_number(environment, variable) for variable in variables]
    numbers = [number for number in found if number is not None]
    return Launcher(name, *numbers) if len(numbers) == len(found) else None


def _slurm_step(environment):
    """A batch script has SLURM_NTASKS too and is one process: only a step that srun started counts."""
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
    """How many ranks the launcher started; 1 without one."""
    found = launcher()
    return 1 if found is None else found.size


def local_rank() -> int:
    """This rank's number on its host; 0 without a launcher."""
    found = launcher()
    return 0 if found is None else found.local_rank


# -- before JAX and MPI start ---------------------------------------------------------------------------------------


def configure_process(
    precision: str = "float64", communicator: str = "auto", devices: int | None = None, hosts: Any = None
) -> Process:
    """Settle the communicator, bind this rank to its GPU and cores, and set JAX's precision.

    Call it once, before anything asks JAX for a device or MPI for its world: neither looks again.

    Args:
        precision: "float64" or "float32".
        communicator: "auto" (MPI where a launcher started several ranks, else serial), "serial", "mpi", "sharded".
        devices: for "sharded", how many GPUs, or host devices of the CPU; all GPUs, or one device a core, unless given.
        hosts: for "sharded" over several processes, the devices.Hosts.
    Returns:
        Process: what was settled.
    Raises:
        LaunchError: if the ranks that were started and the communicator do not go together.
    """
    if precision not in ("float32", "float64"):
        raise ConfigError(f"configure_process: precision is float32 or float64, and {precision!r} came; choose one.")
    started = launcher()
    communicator = _choose(communicator, started, hosts)
    if (devices is not None or hosts is not None) and communicator != "sharded":
        raise LaunchError(f"devices and hosts are for the sharded communicator, not {communicator}; ask for that one.")
    gpu, tiles = None, 1 if communicator == "serial" or started is None else started.size
    if communicator == "mpi" and started is not None:
        gpu = _bind(started)
    use_one_arena()
    import jax

    jax.config.update("jax_enable_x64", precision == "float64")
    importlib.import_module(".programs", __package__).keep_programs()
    if communicator == "sharded":
        tiles = importlib.import_module(".devices", __package__).start_devices(devices, hosts)
    return Process(communicator, started, threads_per_rank(), gpu, tiles)


_bound = set()  # this process's Launcher, once the process has been bound


def _bind(started):
    """Give this rank its GPU, which is returned, or its cores."""
    _bound.add(started)
    gpu = _bind_gpu(os.environ, started)
    if gpu is None:
        share_cores(os.environ, started)
    return gpu


def bind_rank() -> None:
    """Bind this rank to its GPU or cores unless `configure_process` has: for scripts that do not call it.

    Raises:
        LaunchError: if JAX has started, and ranks of this host would all compute on its first GPU.
    """
    started = launcher()
    if started is None or started.size == 1 or started in _bound:
        return
    gpus = usable_gpus(os.environ)
    if backends_are_initialized() and len(gpus) > 1 and started.local_size != 1:
        raise LaunchError(
            f"JAX has been used before the model was made, so that rank {started.rank} cannot be given one of the "
            f"{len(gpus)} GPUs of this host any more, and all ranks would share the first; call "
            "swmodel.runtime.launch.configure_process() at the beginning of the script."
        )
    _bind(started)
    use_one_arena()


def _choose(communicator: str, started: Launcher | None, hosts: Any = None) -> str:
    ranks = 1 if started is None else started.size
    if communicator == "auto":
        communicator = "mpi" if ranks > 1 else "serial"
    if communicator not in ("serial", "mpi", "sharded"):
        raise LaunchError(
            f"the communicator is auto, serial, mpi or sharded, and {communicator!r} came; choose one of these."
        )
    if communicator == "mpi":
        _require_mpi()
    elif started is not None and ranks > 1 and hosts is None:
        raise LaunchError(
            f"{started.name} started {ranks} processes, but the communicator {communicator} was asked for, so that "
            "each would run the whole domain and overwrite the others' files; start one process, or choose mpi."
        )
    return communicator


HOW_TO_ADD_MPI = "add MPI with `make setup MPI=bundled` in a checkout"


def _require_mpi():
    if not mpi_installed():
        started = launcher()
        why = "the run asks for MPI" if started is None else f"{started.name} started {started.size} processes"
        raise LaunchError(f"{why}, but mpi4py and mpi4jax are not installed; start one process, or {HOW_TO_ADD_MPI}.")


def mpi_installed() -> bool:
    """Whether mpi4py and mpi4jax are there; imports neither."""
    return all(importlib.util.find_spec(name) is not None for name in ("mpi4py", "mpi4jax"))


def _bind_gpu(environment: MutableMapping[str, str], started: Launcher) -> str | None:
    """Select the visible GPU number `local_rank`, modulo their number, for this rank. None if there is no GPU.

    Before MPI starts, too: a CUDA-aware MPI would otherwise open a context of every rank on the first GPU.
    """
    visible = usable_gpus(environment)
    if not visible:
        return None
    chosen = visible[started.local_rank % len(visible)]
    environment["CUDA_VISIBLE_DEVICES"] = chosen
    if (started.local_size or 1) > len(visible):
        environment.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")  # else the first takes three quarters of it
    return chosen


def usable_gpus(environment: Mapping[str, str]) -> list[str]:
    """The entries of CUDA_VISIBLE_DEVICES that JAX would use;
    none if it has no plugin for them, or if they are disabled."""
    platforms = environment.get("JAX_PLATFORMS", "")
    plugin = any(importlib.util.find_spec(f"jax_cuda{major}_plugin") for major in (12, 13))
    if not plugin or (platforms and not {"cuda", "gpu"} & set(platforms.split(","))):
        return []
    named = environment.get("CUDA_VISIBLE_DEVICES")
    if named is not None:
        return [name.strip() for name in named.split(",") if name.strip() not in ("", "-1")]
    return [str(number) for number in range(len(glob.glob("/dev/nvidia[0-9]*")))]


# -- MPI ------------------------------------------------------------------------------------------------------------


def load_mpi() -> Any:
    """Import mpi4py and mpi4jax, which starts MPI, and return the module mpi4py.MPI.

    Messages go from GPU to GPU where this MPI can, staged through the host where it cannot.

    Raises:
        LaunchError: if either is not there or does not load.
    """
    _require_mpi()
    try:
        with PROCESS.orderly(STARTING):  # a rank that leaves while others start takes Open MPI's mpirun down
            mpi = importlib.import_module("mpi4py.MPI")
        os.environ.setdefault("MPI4JAX_USE_CUDA_MPI", "1" if cuda_aware(os.environ) else "0")
        importlib.import_module("mpi4jax")
    except (ImportError, RuntimeError, OSError) as error:
        first = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        raise LaunchError(
            f"MPI does not load ({first}); run `swmodel doctor` to see which MPI mpi4py, mpi4jax and mpirun use, "
            "and `make setup` to build them again for one."
        ) from error
    return mpi


def check_world(size: int) -> None:
    """Raise LaunchError if more ranks were started than MPI's world (or a serial run) has: each would run alone.

    Args:
        size: the number of ranks of the communicator.
    Raises:
        LaunchError: naming the MPI that launched and the one that mpi4py loaded.
    """
    started = launcher()
    if started is None or started.size <= size:
        return
    version, path = loaded_mpi()
    library = "swmodel uses no MPI and" if version is None else f"the MPI that mpi4py loaded, {version} ({path}),"
    raise LaunchError(
        f"{started.name} started {started.size} processes, but {library} sees {size}, so that each would run the whole "
        "domain and overwrite the others' files; start with the mpirun of that MPI, or build mpi4py and mpi4jax for "
        "the launcher's (`make setup MPI=system`): `swmodel doctor` shows all three."
    )


def mpirun(ranks: int) -> list[str]:
    """The command that starts `ranks` ranks: this environment's own mpirun, else the one on PATH.

    Raises:
        LaunchError: if there is none.
    """
    own = Path(sys.executable).parent / "mpirun"
    found = str(own) if own.exists() else shutil.which("mpirun") or shutil.which("mpiexec")
    if found is None:
        raise LaunchError(
            f"no mpirun is in {own.parent} or on PATH; install one (`make setup` brings Open MPI), or load your "
            "cluster's module."
        )
    return [found, "-n", str(ranks)]


# Signals that Open MPI 5's mpirun forwards to its ranks, as scripts/setup.py sets it in the environment that it
# makes. SIGINT (2) and SIGTERM (15) must be given as numbers. Without them mpirun kills all ranks half a second later.
FORWARDED = "2,15,SIGUSR1,SIGUSR2,SIGTSTP,SIGCONT,SIGABRT,SIGALRM,SIGURG"


def mpirun_environment() -> dict[str, str]:
    """The environment for `mpirun`: as root too, more ranks than cores, and signals for ranks; for Open MPI 4 and 5."""
    environment = {name: value for name, value in os.environ.items() if not _of_a_launcher(name)}
    environment.update(OMPI_MCA_rmaps_base_oversubscribe="1", PRTE_MCA_rmaps_default_mapping_policy=":oversubscribe")
    environment.update(OMPI_MCA_mpi_yield_when_idle="1")
    environment.setdefault("PRTE_MCA_ess_base_forward_signals", FORWARDED)
    if hasattr(os, "geteuid") and os.geteuid() == 0:
        environment.update(OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1")
    return environment


def stop(process: subprocess.Popen) -> None:
    """End a process that was started with `start_new_session` and all that it started: mpirun ends its ranks itself."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        with contextlib.suppress(ProcessLookupError, subprocess.TimeoutExpired):
            os.killpg(process.pid, number)
            process.wait(10)
    remove_session(process.pid)


def remove_session(launcher: int) -> None:
    """Remove the folder of files that a killed mpirun with this process number has left.

    Open MPI 5 names it by the process number alone. A later mpirun that gets the same number finds the files, and
    ends with "The PMIx server's listener thread failed to start".
    """
    shutil.rmtree(Path(tempfile.gettempdir(), f"ompi.{launcher}"), ignore_errors=True)


def ask_to_end(process: subprocess.Popen) -> None:
    """Send SIGTERM to such a process and all that it started, and wait for none of them."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGTERM)


def _of_a_launcher(name):
    """What a launcher gave this very process would confuse the next one."""
    launchers = ("OMPI_COMM_WORLD_", "PMIX_", "PMI_", "MPI_LOCAL", "PALS_", "MV2_COMM_WORLD_", "MVP_COMM_WORLD_")
    return name.startswith(launchers)
