"""The resources of this process, as its launcher (launchers.py) and the user choose them.

configure_process()   GPU, cores, precision: before JAX's backend and MPI start
bind_rank()           GPU or cores alone, for scripts that do not call configure_process()
load_mpi()            mpi4py and mpi4jax, or one sentence on why they do not load
check_world()         raises unless MPI's world has as many ranks as were started: each would run the whole domain
mpirun()              a command line that starts ranks here, as root or not, on enough cores or not
"""

import contextlib
import dataclasses
import importlib
import importlib.util
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping, MutableMapping, Sequence
from pathlib import Path
from typing import Any

from ..errors import ConfigError
from .devices import Hosts, start_devices
from .launchers import (
    Launcher,
    LaunchError,
    cuda_aware,
    is_of_launcher,
    launcher,
    loaded_mpi,
    share_cores,
    threads_per_rank,
    usable_gpus,
)
from .memory import use_one_arena
from .packages import backends_are_initialized
from .signals import PROCESS

STARTING = 5.0  # [s] that MPI may take to start, after a signal


@dataclasses.dataclass(frozen=True)
class Process:
    """The communicator, devices and threads that `configure_process` chose."""

    communicator: str  # "serial", "mpi" or "sharded"
    launcher: Launcher | None
    threads: int  # cores that XLA's pool of threads follows
    gpu: str | None  # the entry of CUDA_VISIBLE_DEVICES that this rank was given
    tiles: int = 1  # of the run: ranks, or devices of the sharded communicator


# -- before JAX and MPI start ---------------------------------------------------------------------------------------


def configure_process(
    precision: str = "float64", communicator: str = "auto", devices: int | None = None, hosts: Hosts | None = None
) -> Process:
    """Choose the communicator, bind this rank to its GPU and cores, and set JAX's precision.

    Call it once, before JAX's devices or MPI's world are first used: both are fixed from then on.

    Args:
        precision: "float64" or "float32".
        communicator: "auto" (MPI where a launcher started several ranks, else serial), "serial", "mpi", "sharded".
        devices: for "sharded", how many GPUs, or host devices of the CPU; all GPUs, or one device a core, unless given.
        hosts: for "sharded" over several processes, the devices.Hosts.
    Returns:
        The Process that was chosen.
    Raises:
        LaunchError: if the communicator is not for the ranks that were started.
    """
    if precision not in ("float32", "float64"):
        raise ConfigError(f"configure_process: precision = {precision!r} is unknown; give 'float32' or 'float64'.")
    started = launcher()
    communicator = _choose(communicator, started, hosts)
    if (devices is not None or hosts is not None) and communicator != "sharded":
        raise LaunchError(f"devices and hosts are for the sharded communicator, not {communicator}; use sharded.")
    gpu, tiles = None, 1 if communicator == "serial" or started is None else started.size
    if communicator == "mpi" and started is not None:
        gpu = _bind(started)
    use_one_arena()
    solve_in_one_thread()
    import jax

    jax.config.update("jax_enable_x64", precision == "float64")
    from .compilation import keep_programs

    keep_programs()
    if communicator == "sharded":
        tiles = start_devices(devices, hosts)
    return Process(communicator, started, threads_per_rank(), gpu, tiles)


def solve_in_one_thread() -> None:
    """Let numpy and scipy solve matrices in one thread, unless the user chose; called before they are imported.

    The matrices of a run are small, such as that of multigrid's coarsest grid, or those of a forecast. LAPACK gains
    nothing by more threads, which wait in a loop for a core: while other programs run, a forecast takes fifty times as
    long, and eigenvectors hundreds of times.
    """
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")


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


def _choose(communicator: str, started: Launcher | None, hosts: Hosts | None = None) -> str:
    ranks = 1 if started is None else started.size
    if communicator == "auto":
        communicator = "mpi" if ranks > 1 else "serial"
    if communicator not in ("serial", "mpi", "sharded"):
        raise LaunchError(f"communicator = {communicator!r} is unknown; give 'auto', 'serial', 'mpi' or 'sharded'.")
    if communicator == "mpi":
        _require_mpi()
    elif started is not None and ranks > 1 and hosts is None:
        raise LaunchError(
            f"{started.name} started {ranks} processes, but the communicator is {communicator}, so that each would run "
            "the whole domain and overwrite the others' files; start one process, or choose mpi."
        )
    return communicator


HOW_TO_ADD_MPI = "add MPI with `make setup MPI=bundled` in a checkout"


def _require_mpi():
    if not mpi_installed():
        started = launcher()
        why = "the communicator is mpi" if started is None else f"{started.name} started {started.size} processes"
        raise LaunchError(f"{why}, but mpi4py and mpi4jax are not installed; start one process, or {HOW_TO_ADD_MPI}.")


def mpi_installed() -> bool:
    """Whether mpi4py and mpi4jax are there; imports neither."""
    return all(importlib.util.find_spec(name) is not None for name in ("mpi4py", "mpi4jax"))


def _bind_gpu(environment: MutableMapping[str, str], started: Launcher) -> str | None:
    """Select the visible GPU number `local_rank`, modulo their number, for this rank. None if there is no GPU.

    It is called before MPI starts: a CUDA-aware MPI would otherwise open a context of every rank on the first GPU.
    """
    visible = usable_gpus(environment)
    if not visible:
        return None
    chosen = visible[started.local_rank % len(visible)]
    environment["CUDA_VISIBLE_DEVICES"] = chosen
    if (started.local_size or 1) > len(visible):
        environment.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")  # else the first takes three quarters of it
    return chosen


# -- MPI ------------------------------------------------------------------------------------------------------------


def load_mpi() -> Any:
    """Import mpi4py and mpi4jax, which starts MPI, and return the module mpi4py.MPI.

    Messages go from GPU to GPU where this MPI can, staged through the host where it cannot.

    Raises:
        LaunchError: if either is not there or does not load.
    """
    _require_mpi()
    started = launcher()
    if started is not None and started.local_size == started.size:
        # All ranks are on this host. Open MPI 5 opens libfabric for one-sided messages between hosts, finds no use for
        # it, and sleeps for a second as it closes it (`mca_btl_ofi_component_close`). The user may choose transports.
        os.environ.setdefault("OMPI_MCA_btl", "^ofi")
    try:
        with PROCESS.graceful(STARTING):  # a rank that ends while others start makes Open MPI's mpirun fail
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
        f"{started.name} started {started.size} processes, but {library} counts {size}, so that each would run the "
        "whole domain and overwrite the others' files; start with the mpirun of that MPI, or build mpi4py and mpi4jax "
        "for the launcher's (`make setup MPI=system`): `swmodel doctor` shows all three."
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
    environment = {name: value for name, value in os.environ.items() if not is_of_launcher(name)}
    environment.update(OMPI_MCA_rmaps_base_oversubscribe="1", PRTE_MCA_rmaps_default_mapping_policy=":oversubscribe")
    environment.update(OMPI_MCA_mpi_yield_when_idle="1")
    environment.setdefault("PRTE_MCA_ess_base_forward_signals", FORWARDED)
    if hasattr(os, "geteuid") and os.geteuid() == 0:
        environment.update(OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1")
    return environment


def output_of(command: Sequence[str], environment: Mapping[str, str], timeout: float) -> tuple[str, int]:
    """(text, exit status) of a command such as that of `mpirun`, which ends with all that it started.

    Args:
        command, environment: of the command.
        timeout: [s] that it may take.
    Raises:
        subprocess.TimeoutExpired: after that time.
    """
    process = subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        env=environment,
        start_new_session=True,
    )
    try:
        with PROCESS.cleanup(lambda: terminate(process)):
            output, _ = process.communicate(timeout=timeout)
    finally:
        stop(process)
    return output, process.returncode


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


def terminate(process: subprocess.Popen) -> None:
    """Send SIGTERM to such a process and all that it started, and wait for none of them."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGTERM)
