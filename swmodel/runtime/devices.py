"""The devices of the sharded communicator: the number in this process, and the processes of a run.

    hosts_of()        the processes of a run over several hosts, from the command line or the environment
    start_devices()   host devices on a CPU, GPUs where there are some; several processes meet
    check_devices()   raises if there are fewer devices than requested, or if a launcher started separate processes
    leave()           ends this process of a run over several without waiting for the others

All of this has to happen before JAX's backend starts, which reads these settings once.
"""

import dataclasses
import ipaddress
import os
import socket
import sys
import time
from collections.abc import Mapping

from .launchers import LaunchError, launcher, threads_per_rank, usable_gpus

VARIABLES = ("SWMODEL_COORDINATOR", "SWMODEL_NUM_PROCESSES", "SWMODEL_PROCESS_ID")


@dataclasses.dataclass(frozen=True)
class Hosts:
    """The processes of one run.

    Attributes:
        coordinator: HOST:PORT of process 0, where they meet.
        processes: their number.
        process: the number of this one, from 0.
    """

    coordinator: str
    processes: int
    process: int


def hosts_of(
    coordinator: str | None = None,
    processes: int | str | None = None,
    process: int | str | None = None,
    environment: Mapping[str, str] | None = None,
) -> Hosts | None:
    """The Hosts of this run, or None for a single process.

    Args:
        coordinator: HOST:PORT, or None to take SWMODEL_COORDINATOR.
        processes: their number; None to take SWMODEL_NUM_PROCESSES, or that of the launcher (srun, mpirun).
        process: the number of this one, from 0; None to take SWMODEL_PROCESS_ID, or that of the launcher.

    Raises:
        LaunchError: if one of the three is missing, or they contradict each other.
    """
    environment = os.environ if environment is None else environment
    started = launcher(environment)
    alone = processes is None and process is None
    of_coordinator, of_processes, of_process = VARIABLES
    coordinator = environment.get(of_coordinator) if coordinator is None else coordinator
    processes = environment.get(of_processes) if processes is None else processes
    process = environment.get(of_process) if process is None else process
    if coordinator is None:
        if not alone:
            raise LaunchError("a run over several processes needs --coordinator HOST:PORT of process 0; add it.")
        return None
    if started is not None:
        processes = started.size if processes is None else processes
        process = started.rank if process is None else process
    try:
        if processes is None or process is None:
            raise ValueError
        hosts = Hosts(coordinator, int(processes), int(process))
    except ValueError:
        raise LaunchError(
            f"--coordinator {coordinator} needs the number of processes and that of this process, and these are "
            f"{processes} and {process}; add --num-processes N --process-id K, or start them with srun."
        ) from None
    if not 0 <= hosts.process < hosts.processes or ":" not in coordinator:
        raise LaunchError(
            f"process {hosts.process} of {hosts.processes}, which meet at {coordinator}, cannot be; number them from 0 "
            "and give the coordinator as HOST:PORT."
        )
    if started is not None and started.size > 1 and started.size != hosts.processes:
        raise LaunchError(
            f"{started.name} started {started.size} processes, and --num-processes is {hosts.processes}; leave it out."
        )
    return hosts


def start_devices(devices: int | None, hosts: Hosts | None = None) -> int:
    """Make the devices of this process and connect to the other processes; returns the number of devices of the run.

    Args:
        devices: of this process: GPUs, or host devices of the CPU; None for all GPUs, or one a core.
        hosts: the Hosts, or None.

    Raises:
        LaunchError: for more GPUs than this host has, or if JAX's backend has started already.
    """
    import jax

    gpus = usable_gpus(os.environ)
    try:
        if gpus:
            _choose_gpus(devices, gpus)
        else:
            jax.config.update("jax_num_cpu_devices", devices or threads_per_rank())
        if hosts is not None:
            jax.config.update("jax_cpu_collectives_implementation", "gloo")
            jax.config.update("jax_enable_preemption_service", False)  # it would take SIGTERM for itself
            jax.distributed.initialize(
                hosts.coordinator,
                hosts.processes,
                hosts.process,
                cluster_detection_method="deactivate",
                coordinator_bind_address=_listening_address(hosts.coordinator),
            )
    except RuntimeError as error:
        first = str(error).strip().splitlines()[0]
        raise LaunchError(
            f"the devices cannot be made ({first}); configure the process before JAX is first used, and see that all "
            "processes of the run start and reach the coordinator."
        ) from error
    return jax.device_count()


def _listening_address(coordinator):
    """The one address at which process 0 listens; None for JAX's default, which is every address of its host.

    A name that its own host resolves to the loopback (127.0.1.1 in /etc/hosts) is no address for other hosts.
    """
    name, _, port = coordinator.rpartition(":")
    name = name.strip("[]")
    try:
        family, _, _, _, resolved = socket.getaddrinfo(name, int(port), type=socket.SOCK_STREAM)[0]
        with socket.socket(family, socket.SOCK_STREAM) as probe:
            probe.bind((resolved[0], 0))  # fails at the address of another host
    except (OSError, ValueError):
        return None
    address = ipaddress.ip_address(resolved[0])
    if address.is_loopback and name not in ("localhost", str(address)):
        return None
    return f"[{address}]:{port}" if address.version == 6 else f"{address}:{port}"


def _choose_gpus(devices, gpus):
    if devices is not None and devices > len(gpus):
        raise LaunchError(
            f"devices = {devices}, and this process can use {len(gpus)} GPU{'s' * (len(gpus) > 1)}; give "
            f"{len(gpus)} or fewer, or use host devices with JAX_PLATFORMS=cpu."
        )
    os.environ["CUDA_VISIBLE_DEVICES"] = ",".join(gpus[:devices])


def check_devices(count: int | None = None) -> int:
    """`count`, or the number of all devices of the run if it is None.

    Raises:
        LaunchError: for more devices than there are, or if a launcher started processes that are not connected.
    """
    import jax

    started = launcher()
    if started is not None and started.size > jax.process_count():
        raise LaunchError(
            f"{started.name} started {started.size} processes, and the sharded communicator is one process with all "
            "its devices, so that each would run the whole domain and overwrite the others' files; start one process, "
            "choose mpi, or join them with --coordinator HOST:PORT."
        )
    there = jax.device_count()
    if count is None:
        return there
    if count > there or (count < there and jax.process_count() > 1):
        raise LaunchError(
            f"the run needs {count} devices, and JAX has {there} of kind {jax.devices()[0].platform}; use "
            f"{there if jax.process_count() > 1 else f'{there} or fewer'}, or make more of a CPU before JAX starts "
            "(--devices, or launch.configure_process(communicator='sharded', devices=...))."
        )
    return count


def leave(status: int) -> None:
    """End this process of a run over several at once, since in an ordinary exit all processes wait for each other.

    The function returns in a run of a single process. The first process is the coordinator, and gives the others a
    moment to print their messages.
    """
    jax = sys.modules.get("jax")
    if jax is None or not jax.distributed.is_initialized():
        return
    sys.stdout.flush()
    sys.stderr.flush()
    if jax.process_index() == 0:
        time.sleep(1.0)
    os._exit(status)
