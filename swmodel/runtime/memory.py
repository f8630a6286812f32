"""Memory that a model needs, estimated from its sizes before any array is allocated, and memory that is available.

malloc is tuned where the C library is glibc.

The system clears each page that it gives to a process. For the arrays of a program this takes as long as several steps.
So freed memory is kept for the next program. It stays in malloc's main arena, which all threads then have to use.
Gradients become faster, since their programs allocate and free the states that they store (malloc_gradient of
benchmarks/native_parts.py). The steps of a run overwrite their arrays, and take as long as before.
"""

import contextlib
import ctypes
import math
import os
from pathlib import Path

from ..defaults import LONGEST_CHUNK
from ..errors import ConfigError
from .launchers import launcher

BASE = 300e6  # [bytes] of Python, JAX, MPI and the compiled program, per rank
UNLIMITED = 2**60  # [bytes]; version 1 of control groups writes a number of this order where there is no limit


def of_model(tile: int, host: int, itemsize: int, kept: int = 1, records: int = 0, variables: int = 3) -> float:
    """Bytes that a rank needs: its share of the fields, and the copies of its tiles on the host.

    The numbers of arrays were measured on a CPU.

    Args:
        tile: cells of the largest tile, of all members, in the memory of the device.
        host: cells of the tiles of a process, in float64 in the memory of the host.
        itemsize: bytes of a number.
        kept: past tendencies that the stepper keeps.
        records: of a source's motion.
        variables: of the state, of all layers.
    """
    arrays = 15 + (10 + kept) * variables  # geometry and terms, and the intermediate fields of a stage
    summed = 4 * records * itemsize  # while the motions of the faults are summed
    return BASE + arrays * itemsize * tile + (6 * 8 + summed) * host


def largest_tile(memory: float, itemsize: int, kept: int = 1, records: int = 0, variables: int = 3) -> int:
    """The number of cells of the largest tile for which `of_model` is at most `memory` [bytes]; 0 if there is none.

    On a CPU the fields and the copies on the host share this memory. On a GPU the copies are in that of the machine.
    """
    copies = on_host(1)
    per_cell = of_model(1, copies, itemsize, kept, records, variables) - BASE
    return max(int((memory - BASE) / per_cell), 0)


def of_device() -> float:
    """Bytes that a rank's fields may use: of the GPU if JAX uses one, else what is available on this machine."""
    import jax

    stats = jax.devices()[0].memory_stats() or {}
    return float(stats.get("bytes_limit", available()))


def of_spectra(tile: int, itemsize: int, transfers: bool = True) -> int:
    """Bytes on a rank that spectra add to the model's: complex modes of the fields, and of each transfer's terms."""
    return (24 if transfers else 8) * 2 * itemsize * tile


def of_gauges(gauges: int, itemsize: int, members: int = 1) -> float:
    """Bytes on a rank that gauges add to the model's: a chunk of readings, their sum, and buffers of the file.

    Measured on a CPU with 1,000 and 3,000 gauges: 47 bytes for a reading in float32.

    Args:
        gauges: how many.
        itemsize: bytes of a number of the model.
        members: of an ensemble, each of which has a series for each gauge.
    """
    return float(LONGEST_CHUNK * gauges * members * (2 * itemsize + 5 * 8))


def of_sums(size: int) -> float:
    """Bytes on a rank that sums over samples of `size` bytes add to the model's: a copy is overwritten by the steps."""
    return 2.0 * size


def on_host(tile: int) -> int:
    """`tile` cells if the fields are in the memory of the machine, 0 if they are in that of GPUs."""
    import jax

    return tile if jax.default_backend() == "cpu" else 0


def available() -> float:
    """Bytes that this process and its children may still use: of the machine, its control group, and `ulimit -v`."""
    limits = [_of_machine(), *_of_groups(), _of_process()]
    return min((limit for limit in limits if limit is not None), default=math.inf)


def require(needed: float, what: str, remedy: str, ranks: int | None = None) -> None:
    """Raise ConfigError if `needed` bytes on each of the ranks of this machine exceed its memory.

    Args:
        needed: bytes on a rank; what a process has already counts as needed too.
        what: the subject of the message, such as "ShallowWater: a grid of 10 x 10 cells".
        remedy: the remedy in the message.
        ranks: the number of ranks that share the memory of this machine; by default those of the launcher.
    """
    if ranks is None:
        started = launcher()
        ranks = (started.local_size if started is not None else None) or 1
    there = available()
    if needed * ranks > there:
        each = f" on each of the {ranks} ranks here" if ranks > 1 else ""
        raise ConfigError(f"{what} needs about {size(needed)} of memory{each}, and there are {size(there)}; {remedy}.")


def size(number: float) -> str:
    """A number of bytes as text, in a readable unit."""
    power = min(int(math.log(max(number, 1), 1000)), 6)
    return f"{number / 1000**power:.3g} {['B', 'kB', 'MB', 'GB', 'TB', 'PB', 'EB'][power]}"


def _of_machine():
    for line in _lines("/proc/meminfo"):
        if line.startswith("MemAvailable:"):
            return int(line.split()[1]) * 1024
    try:
        return os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (ValueError, OSError, AttributeError):
        return None


def _of_groups():
    """The bytes left to each control group (versions 1 and 2) of this process, from its own to the root."""
    for line in _lines("/proc/self/cgroup"):
        _, controllers, group = line.split(":", 2)
        if controllers == "":
            root, most, used, cache = "/sys/fs/cgroup", "memory.max", "memory.current", "inactive_file"
        elif "memory" in controllers.split(","):
            root, most, used = "/sys/fs/cgroup/memory", "memory.limit_in_bytes", "memory.usage_in_bytes"
            cache = "total_inactive_file"
        else:
            continue
        for folder in dict.fromkeys([f"{root}{group}", *(f"{root}{p}" for p in Path(group).parents), root]):
            limit = _number(f"{folder}/{most}")
            if limit is not None and limit < UNLIMITED:
                freed = [int(x.split()[1]) for x in _lines(f"{folder}/memory.stat") if x.split()[0] == cache]
                yield max(limit - (_number(f"{folder}/{used}") or 0) + sum(freed), 0)


def _of_process():
    try:
        import resource

        limit, _ = resource.getrlimit(resource.RLIMIT_AS)
    except (ImportError, OSError):
        return None
    if limit == resource.RLIM_INFINITY:
        return None
    pages = _lines("/proc/self/statm")
    return max(limit - (int(pages[0].split()[0]) * os.sysconf("SC_PAGE_SIZE") if pages else 0), 0)


def _lines(file):
    try:
        return Path(file).read_text().splitlines()
    except (OSError, ValueError):
        return []


def _number(file):
    lines = _lines(file)
    return int(lines[0]) if lines and lines[0].strip().isdigit() else None


M_TRIM_THRESHOLD, M_MMAP_THRESHOLD, M_ARENA_MAX = -1, -3, -8  # of malloc.h
LARGEST = 2**31 - 1


def use_one_arena() -> None:
    """Let all threads allocate from the main arena, before they start: other arenas end at 64 MB."""
    _choose((M_ARENA_MAX, 1))


def keep_memory() -> None:
    """Allocate large arrays in the arena, too, and keep freed memory."""
    _choose((M_MMAP_THRESHOLD, LARGEST), (M_TRIM_THRESHOLD, LARGEST))


def _choose(*options):
    with contextlib.suppress(AttributeError, OSError, TypeError):  # another C library
        mallopt = ctypes.CDLL(None).mallopt
        for option, value in options:
            mallopt(option, value)
