"""Measurements of the machine: memory bandwidth, and the time of a message between ranks.

    triad           a = b + s a,  3 n numbers moved in a pass
    message         t(n) = latency + n / bandwidth,  fitted to messages of growing length, each point weighted by 1 / t

The triad runs as a jitted program, so that it needs no compiler; an array is four times the last cache.

Seconds per step on any number of ranks, predicted from measurements on one machine.

    step     = compute + exchange
    compute  = overhead max(1, r / cores) + per_cell n + beyond max(n - knee, 0)     r ranks with n cells on a machine
    exchange = messages latency + bytes / bandwidth + reductions ceil(log2 ranks) latency

The r ranks of a machine share its cores and its memory, so that n counts the cells of all of them. All cores work
on them, whether as threads or as ranks. Below `knee` cells the fields stay in the cache; beyond it each cell costs
more. The overhead, which does not depend on the number of cells, is every rank's own. Ranks beyond the cores wait for
each other. `exchange` takes the slowest link of a message, the one between machines if there are several.
"""

import dataclasses
import glob
import json
import math
import os
import statistics
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np

from ..dynamics.cores import FiniteDifferences
from ..errors import ConfigError, DataError
from ..fields.state import State
from ..models.shallow_water import ShallowWater
from ..parallel import SerialCommunicator
from ..parallel.communicator import Communicator
from ..parallel.decomposition import TileError
from ..runtime.compilation import jit
from ..stepping.explicit import TimeStepper
from .timing import OneOfMany, Program, batch_of

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


@dataclasses.dataclass(frozen=True)
class Compute:
    """What a step costs on a machine, all its cores at work.

    Attributes:
        overhead: of a step, however small [s].
        per_cell: [s]; beyond `knee` cells each costs `beyond` [s] more.
        signature: of the physics, stepper and precision that were timed.
    """

    overhead: float
    per_cell: float
    beyond: float = 0.0
    knee: float = 0.0
    signature: str = ""

    def __str__(self):
        more = f", {1e9 * self.beyond:.3g} ns more beyond {self.knee:.3g} cells" if self.beyond else ""
        return f"{1e6 * self.overhead:.3g} us a step and {1e9 * self.per_cell:.3g} ns a cell{more} ({self.signature})"

    def seconds(self, cells: float, ranks: int = 1, cores: int = 1) -> float:
        """Of a step of `ranks` ranks that have `cells` cells together, on a machine of `cores` cores."""
        arithmetic = self.per_cell * cells + self.beyond * max(cells - self.knee, 0.0)
        return self.overhead * max(1.0, ranks / cores) + arithmetic


def fit_compute(cells: Sequence[float], seconds: Sequence[float], signature: str = "") -> Compute:
    """The Compute that fits steps of `cells` cells which took `seconds`: least squares of relative errors.

    One size gives the cost of a cell, two a line; from four on the knee is the one of the sizes that leaves the least
    error.
    """
    sizes, times = np.asarray(cells, float), np.asarray(seconds, float)
    if len(sizes) == 1:
        return Compute(0.0, float(times[0] / sizes[0]), signature=signature)
    fits = [_fit(sizes, times, knee) for knee in (0.0, *(np.sort(sizes)[1:-1] if len(sizes) > 3 else ()))]
    _, (overhead, per_cell, beyond), knee = min(fits, key=lambda fit: fit[0])
    return Compute(float(overhead), float(per_cell), float(beyond), float(knee), signature)


def _fit(cells, seconds, knee):
    """(squared relative error, (overhead, per cell, beyond), knee), none of them negative."""
    from scipy.optimize import nnls

    columns = [np.ones_like(cells), cells, np.maximum(cells - knee, 0.0)]
    matrix = np.stack(columns[: 3 if knee else 2], axis=1) / seconds[:, None]
    found, error = nnls(matrix, np.ones_like(seconds))
    return error, (*found, 0.0)[:3], knee


@dataclasses.dataclass(frozen=True)
class Machine:
    """What `swmodel bench --save` keeps of a machine.

    Attributes:
        processor: its name, or "".
        cores: how many a run may use of it; 0 where nobody looked.
        bandwidth: of its memory in a triad [bytes s-1].
        compute: tuple of Compute, one for each signature that was timed.
        shared: the Link between ranks of the machine, or None.
        network: the Link between machines, or None.
    """

    processor: str = ""
    cores: int = 0
    bandwidth: float | None = None
    compute: tuple[Compute, ...] = ()
    shared: Link | None = None
    network: Link | None = None

    def compute_of(self, signature: str) -> Compute | None:
        """The Compute of that signature, or None."""
        return next((compute for compute in self.compute if compute.signature == signature), None)

    def merge(self, other: "Machine") -> "Machine":
        """This machine with the measurements of `other`, which replace its own."""
        kept = tuple(compute for compute in self.compute if other.compute_of(compute.signature) is None)
        newer = {name: value for name, value in vars(other).items() if value != getattr(Machine(), name)}
        return dataclasses.replace(self, **{**newer, "compute": (*kept, *other.compute)})

    def save(self, path: str | os.PathLike) -> None:
        Path(path).write_text(json.dumps(dataclasses.asdict(self), indent=1) + "\n")

    @staticmethod
    def load(path: str | os.PathLike) -> "Machine":
        """The Machine in a file of `swmodel bench --save`; raises DataError if it holds none."""
        try:
            found = json.loads(Path(path).read_text())
            links = {name: found[name] and Link(**found[name]) for name in ("shared", "network")}
            return Machine(**{**found, **links, "compute": tuple(Compute(**c) for c in found["compute"])})
        except FileNotFoundError:
            raise DataError(f"there is no file {path}; make it with `swmodel bench --save {path}`.") from None
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise DataError(
                f"{path} is no file of `swmodel bench --save` ({type(error).__name__}: {error}); make it anew."
            ) from None


def signature(model: ShallowWater, stepper: TimeStepper) -> str:
    """A text that identifies the cost of a step per cell: stepper, precision, grid, equations, terms and engine."""
    parts = *model.terms, *model.open_boundaries, *model.tracers
    names = sorted(type(part).__name__ for part in (*parts, *[model.system.shore] * (model.film is not None)))
    names += [type(model.core).__name__] if type(model.core) is not FiniteDifferences else []
    names += [f"{model.layer_count} layers"] if model.layer_count > 1 else []
    names += ["arrays"] if model.engine == "arrays" else []
    form = "linear" if model.linear else type(model.momentum).__name__
    shape = "spherical" if model.grid.spherical else "cartesian"
    return ", ".join([type(stepper).__name__, str(model.dtype), shape, form, *names])


@dataclasses.dataclass(frozen=True)
class Prediction:
    """The predicted time of a step.

    Attributes:
        compute: seconds of computation.
        exchange: seconds of messages.
        machines: the number of machines.
        link: the Link between ranks; None without messages.
    """

    compute: float
    exchange: float
    machines: int
    link: Link | None

    @property
    def seconds(self) -> float:
        return self.compute + self.exchange


def machines_of(machine: Machine, ranks: int, per_machine: int | None = None) -> int:
    """The number of machines for `ranks`; the arguments are those of `predict`."""
    if per_machine is None:
        per_machine = ranks if machine.network is None else max(machine.cores, 1)
    return math.ceil(ranks / per_machine)


def predict(
    machine: Machine,
    compute: Compute,
    cells: float,
    ranks: int,
    traffic: Sequence[float] = (0, 0, 0),
    per_machine: int | None = None,
) -> Prediction:
    """The Prediction of a step.

    Args:
        machine: a Machine, to which all machines are equal, with the links that were measured.
        compute: a Compute.
        cells: of the whole grid.
        ranks: how many.
        traffic: (messages, bytes, reductions) that a rank sends a step.
        per_machine: ranks on each machine; as many as it has cores if its network is known, else all.

    Raises:
        ConfigError: if ranks communicate by a link that was not measured.
    """
    machines = machines_of(machine, ranks, per_machine)
    here = math.ceil(ranks / machines)
    arithmetic = compute.seconds(cells * here / ranks, here, machine.cores)
    if ranks == 1 or not any(traffic):
        return Prediction(arithmetic, 0.0, machines, None)
    link = machine.network if machines > 1 else machine.shared or machine.network
    if link is None:
        where = (
            "between machines; measure it with `swmodel bench --network` on two nodes"
            if machines > 1
            else ("between ranks; measure it with `mpirun -n 2 swmodel bench --network`")
        )
        raise ConfigError(f"the time of a message is unknown {where}, or give --latency and --bandwidth.")
    messages, size, reductions = traffic
    rounds = messages + reductions * math.ceil(math.log2(ranks))
    return Prediction(arithmetic, link.seconds(rounds, size), machines, link)


# -- measurements here ------------------------------------------------------------------------------------------------

MOST_CELLS = 4e6  # of a tile that is timed: beyond the cache, the cost of a cell is one
CUTS = (8, 4, 2, 1)  # of the largest tile, in each direction: the sizes to fit


def measure_compute(
    make: Callable[[Communicator], tuple[ShallowWater, State]],
    shape: tuple[int, int],
    stepper: TimeStepper,
    cuts: Sequence[int] = CUTS,
    repeats: int = 5,
    share: float = 1.0,
) -> Compute:
    """The Compute of the program that `make` describes, from tiles of several sizes, with all cores of this process.

    Args:
        make: `make(communicator)` gives (ShallowWater, State) of the whole grid on that communicator.
        shape: (ny, nx) of the grid.
        stepper: a TimeStepper.
        cuts: into how many parts the largest tile is cut along each direction, for each of the sizes.
        repeats: timings of each.
        share: of a second that a timing takes, about.
    """
    least = max(1, math.ceil(math.sqrt(np.prod(shape) / MOST_CELLS)))
    cells, seconds, of = [], [], ""
    for cut in cuts:
        try:
            model, state = make(OneOfMany((least * cut,) * 2) if least * cut > 1 else SerialCommunicator())
            steps = max(int(share * batch_of(np.prod(shape) / (least * cut) ** 2)), 8)
            program = Program(model, state, stepper, steps)
        except TileError:  # thinner than the halo
            continue
        cells.append(np.prod(model.decomposition.tile(0).shape))
        seconds.append(program.measure(repeats))
        of = signature(model, stepper)
    if not cells:
        raise ConfigError(f"a grid of {shape[1]} x {shape[0]} cells is too small to be timed; use a larger one.")
    return fit_compute(cells, seconds, of)


def measure_links(communicator: Communicator, hosts: int, repeats: int) -> tuple[list[int], list[float], Machine]:
    """(sizes [bytes], seconds a message, Machine with the Link between these ranks, of one machine or of several).

    Messages are the communicator's own shifts, in which every rank sends and receives. Collective.

    Raises:
        ConfigError: on one rank.
    """
    axis = max("xy", key=communicator.along)
    if communicator.along(axis) == 1:
        raise ConfigError(
            "the network is measured between ranks, and there is one; start mpirun -n 2 swmodel bench --network, "
            "with one rank on each of two nodes for the network between them."
        )
    sizes = [4 * length for length in LENGTHS]
    seconds = [_message_seconds(communicator, axis, length, repeats) for length in LENGTHS]
    link = fit_link(sizes, seconds)
    return sizes, seconds, Machine(network=link) if hosts > 1 else Machine(shared=link)
