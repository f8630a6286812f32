"""The cores that this process may use, and their distribution among the ranks of a host."""

import contextlib
import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mpi4py import MPI


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
