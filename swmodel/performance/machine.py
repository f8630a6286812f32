"""Measurements of the machine: memory bandwidth, and the time of a message between ranks.

    triad           a = b + s a,  3 n numbers moved in a pass
    message         t(n) = latency + n / bandwidth,  fitted to messages of growing length, each point weighted by 1 / t

The triad runs as a jitted program, so that it needs no compiler; an array is four times the last cache.
"""

import dataclasses
import glob
import os
import statistics
import time
from collections.abc import Sequence
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np

from ..errors import ConfigError
from ..parallel.communicator import Communicator
from ..runtime.compilation import jit

LENGTHS = tuple(4**k for k in range(1, 12))  # numbers of float32 in a message, 16 bytes to 16 MB
DEVICE_BYTES = 1 << 28  # of a triad's array on a device whose caches are not known
PASSES = 4  # of a triad in one timing


@dataclasses.dataclass(frozen=True)
class Link:
    """The time of a message between two ranks: latency [s] + bytes / bandwidth [bytes s-1]."""

    latency: float
    bandwidth: float

    def __post_init__(self):
        if not (self.latency >= 0 and self.bandwidth > 0):
            raise ConfigError(
                f"a latency of {self.latency:g} s and a bandwidth of {self.bandwidth:g} bytes a second are no link; "
                "give a latency of 0 or more and a positive bandwidth."
            )

    def seconds(self, messages: float, size: float) -> float:
        """The time of `messages` messages one after the other, of `size` bytes together."""
        return messages * self.latency + size / self.bandwidth


def fit_link(sizes: Sequence[float], seconds: Sequence[float]) -> Link:
    """The Link that fits messages of `sizes` [bytes] which took `seconds`: least squares of relative errors."""
    lengths, times = np.asarray(sizes, float), np.asarray(seconds, float)
    matrix = np.stack([1.0 / times, lengths / times], axis=1)
    latency, per_byte = np.linalg.lstsq(matrix, np.ones_like(times), rcond=None)[0]
    if latency < 0:  # the fit has failed: the shortest message gives the latency, the longer ones the bandwidth
        latency, longer = times[np.argmin(lengths)], lengths > lengths.min()
        per_byte = np.median((times - latency)[longer] / lengths[longer])
    return Link(float(latency), float(1.0 / max(per_byte, 1e-15)))


def measure_link(
    communicator: Communicator, lengths: Sequence[int] = LENGTHS, repeats: int = 7
) -> tuple[list[int], list[float]]:
    """(sizes [bytes], seconds a message) by the communicator's own shift; every rank sends and receives. Collective.

    Raises:
        ConfigError: on one rank.
    """
    axis = max("xy", key=communicator.along)
    if communicator.along(axis) == 1:
        raise ConfigError(
            "the network is measured between ranks, and there is one; start mpirun -n 2 swmodel bench --network, "
            "with one rank on each of two nodes for the network between them."
        )
    sizes = [4 * length for length in lengths]
    return sizes, [_message_seconds(communicator, axis, length, repeats) for length in lengths]


def _message_seconds(communicator, axis, length, repeats):
    rounds = int(np.clip(1e6 / (length + 1e4), 4, 64))

    def volley(x):
        return jax.lax.fori_loop(0, rounds, lambda _, x: communicator.shift(x, axis, +1), x)

    program = jit(communicator.spmd(volley))
    strip = communicator.place(lambda rank: np.ones((1, length), np.float32))
    jax.block_until_ready(program(strip))
    took = []
    for _ in range(repeats):
        communicator.barrier()
        begin = time.perf_counter()
        jax.block_until_ready(program(strip))
        took.append((time.perf_counter() - begin) / rounds)
    return float(communicator.host_maximum(statistics.median(took)))


def triad_bandwidth(cells: int | None = None, repeats: int = 7) -> float:
    """Bytes a second that all threads of this process, or its device, read and write in a triad: the best of several.

    The array that is written is one of those read, in place: else XLA would take fresh memory for every pass, and the
    time would be that of the operating system.
    """
    count = cells or (4 * last_cache() if jax.default_backend() == "cpu" else DEVICE_BYTES) // 4
    triad = jax.jit(lambda a, b: b + jnp.float32(0.5) * a, donate_argnums=0)
    a, b, best = jnp.ones(count, jnp.float32), jnp.ones(count, jnp.float32), np.inf
    for _ in range(repeats + 1):
        begin = time.perf_counter()
        for _ in range(PASSES):
            a = triad(a, b)
        a.block_until_ready()
        best = min(best, (time.perf_counter() - begin) / PASSES)
    return 12.0 * count / best


def last_cache() -> int:
    """Bytes of the last-level cache of this machine's first core; 32 MB where the system does not report it."""
    found = [_size(Path(name).read_text()) for name in glob.glob("/sys/devices/system/cpu/cpu0/cache/index*/size")]
    return max(found, default=32 << 20)


def _size(text):
    text = text.strip()
    return int(text[:-1]) << {"K": 10, "M": 20, "G": 30}[text[-1]] if text[-1] in "KMG" else int(text)


def processor() -> str:
    """The name of this machine's processor, or of its device."""
    device = jax.local_devices()[0]
    if device.platform != "cpu":
        return device.device_kind
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        return next(line.split(":", 1)[1].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        return os.uname().machine
