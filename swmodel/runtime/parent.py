"""Whether the launcher of this rank, mpirun or the daemon of another one, still runs.

MPI detects the end of mpirun only once MPI has been started. Without this check, a rank that imports modules or
compiles would continue after mpirun was killed.
"""

import os
import re
from collections.abc import Mapping

__all__ = ["launcher_descriptor", "launcher_has_ended"]

# Slurm is not among them: its variables are also in the shell of a batch job, and slurmstepd ends its tasks itself.
RANKS = ("OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK")
JOB = re.compile(r"prterun-(.+)-(\d+)@\d+$")


def launcher_descriptor(environment: Mapping[str, str] = os.environ) -> int | None:
    """A file descriptor that becomes readable when the parent of this rank ends.

    Returns:
        the descriptor; None in a process that is no rank, and where the system has no such descriptors.
    """
    if not any(name in environment for name in RANKS) or not hasattr(os, "pidfd_open"):
        return None
    try:
        return os.pidfd_open(os.getppid())
    except OSError:
        return None


def launcher_has_ended(environment: Mapping[str, str] = os.environ) -> bool:
    """Whether the mpirun that started this rank, on this host, ended before `launcher_descriptor` was called.

    This process was then given to init, and the process that the name of Open MPI's job holds, `prterun-HOST-PID@1`,
    has ended. Both are required: in a container with process numbers of its own the second is true from the start.
    """
    job = JOB.match(environment.get("PMIX_NAMESPACE", ""))
    if job is None or job[1] != os.uname().nodename or os.getppid() != 1:
        return False
    try:
        os.kill(int(job[2]), 0)
    except ProcessLookupError:
        return True
    except OSError:
        return False
    return False
