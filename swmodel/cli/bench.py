"""`swmodel bench`: the speed of a step, in cells per second and as a fraction of the memory bandwidth."""

import os
import statistics
from collections.abc import Sequence
from typing import Any

import jax
import numpy as np

from ..config import Override, read
from ..config.assembly import assemble, model_of, time_step
from ..config.sections import read_layout
from ..errors import ConfigError
from ..fields.state import State
from ..models.shallow_water import ShallowWater
from ..parallel import make_communicator
from ..parallel.communicator import Communicator
from ..runtime import launch, memory
from ..runtime.launch import Process
from ..runtime.launchers import placement
from ..stepping.stability import limits
from . import facts
from .logs import profiled
from .options import Bench
from .starting import refuse_nests


def time_steps(file: str | None, overrides: Sequence[str | Override], options: Bench) -> None:
    """Time the basin of the benchmarks, or the experiment in `file`, on all ranks; print and save the results."""
    from ..performance.prediction import Machine

    subject = Experiment(file, overrides, options) if file else Basin(options)
    process = launch.configure_process(subject.precision, subject.communicator, options.devices)
    known = Machine()
    if options.save and os.path.exists(options.save):
        known = Machine.load(options.save)  # before the timing, since the file may be invalid
    communicator = subject.make_communicator(process)
    found = Machine()
    if options.network:
        found = _links(communicator, options)
    else:
        found = _steps(subject, communicator, options)
        if options.save and communicator.size > 1:
            found = found.merge(_links(communicator, options))
        elif options.save:
            found = found.merge(_compute(subject, options))
    if options.save and communicator.is_root:
        known.merge(found).save(options.save)
        print(f"saved: {options.save}; use it with swmodel check FILE.toml --ranks N --machine {options.save}")


class Basin:
    """The basin of the benchmarks, with the size and the stepper of the command line."""

    def __init__(self, options: Bench):
        from ..performance.timing import stepper_named

        self.precision, self.communicator = options.precision, options.communicator or "auto"
        self.stepper, self.shape, self.layout = stepper_named(options.stepper), _shape(options.size), _layout(options)

    def make_communicator(self, process: Process) -> Communicator:
        return make_communicator(process.communicator, self.shape, self.layout)

    def make(self, communicator: Communicator) -> tuple[ShallowWater, State]:
        from ..performance.timing import basin

        return basin(self.shape[1], self.shape[0], self.precision, communicator)

    def __str__(self):
        return f"a closed basin of {self.shape[1]} x {self.shape[0]} cells, {type(self.stepper).__name__}"


class Experiment:
    """The experiment of a file, with its own physics, stepper and size."""

    def __init__(self, file: str, overrides: Sequence[str | Override], options: Bench):
        draft = read(file, overrides)
        refuse_nests(draft)
        self.made = assemble(draft, records=1)
        self.experiment = self.made.experiment()
        self.precision = self.experiment.model.precision
        self.communicator = options.communicator or self.experiment.run.communicator
        self.shape, self.layout = self.made.grid.shape, _layout(options) or self.experiment.run.layout
        self.stepper = self.experiment.stepper.stepper()
        self.name = file

    make_communicator = Basin.make_communicator

    def make(self, communicator: Communicator) -> tuple[ShallowWater, State]:
        """(ShallowWater, State) on a communicator; the stepper gets its time step."""
        made, experiment = self.made, self.experiment
        model = model_of(made, communicator)
        state = experiment.initial.state(model)
        found = made.require(("stepper",), limits, model, experiment.stepper.stepper(), state)
        self.stepper = experiment.stepper.stepper(made.require(("stepper", "dt"), time_step, experiment, found))
        return model, state

    def __str__(self):
        return f"{self.name}, {self.shape[1]} x {self.shape[0]} cells, {type(self.stepper).__name__}"


def _shape(text):
    try:
        nx, ny = (int(part) for part in text.lower().split("x"))
        assert min(nx, ny) > 0
    except (ValueError, AssertionError):
        raise ConfigError(f"--size {text} is not a size; write columns x rows, as --size 3600x1800.") from None
    return ny, nx


def _layout(options):
    try:
        return read_layout(options.layout)
    except ValueError as error:
        raise ConfigError(f"--layout {options.layout} is not a layout; {error}.") from None


# -- steps ------------------------------------------------------------------------------------------------------------


def _steps(subject, communicator, options):
    """Time the step and print the results; returns the Machine with its bandwidth. Collective."""
    from ..performance.prediction import Machine, last_cache, processor, triad_bandwidth
    from ..performance.timing import Program, batch_of

    model, state = subject.make(communicator)
    cells = int(np.prod(subject.shape))
    program = Program(model, state, subject.stepper, options.steps or batch_of(cells))
    program.run()
    with profiled(options.profile, communicator.is_root):
        times = [program.run() for _ in range(options.repeats)]
    communicator.barrier()
    triad = 4 * last_cache() // 4 // communicator.size if _on_cpu() else None
    bandwidth = float(communicator.host_sum(np.array([triad_bandwidth(triad)]))[0])
    hosts, threads = placements(communicator), launch.threads_per_rank()
    where = f"{processor()}, {threads} core{'s' * (threads > 1)} each" if _on_cpu() else processor()
    lines = [
        ("swmodel", facts.version_text(communicator.is_root)),
        ("case", f"{subject}, {subject.precision}"),
        ("ranks", f"{facts.ranks_line(model.decomposition)}, {communicator.name}; {where}"),
        *_figures(program, cells, statistics.median(times), bandwidth),
    ]
    if communicator.is_root:
        print(facts.table(lines))
        print(
            f"the step is the median of {options.repeats} timings of {program.steps} steps: "
            f"{', '.join(f'{1e3 * t:.4g}' for t in times)} ms"
        )
        print(_record(subject, communicator, len(hosts), cells / statistics.median(times), program, bandwidth))
    return Machine(processor(), max(map(len, hosts.values())), bandwidth / len(hosts))


def placements(communicator: Communicator) -> dict[str, set[int]]:
    """{host: the cores that its ranks may use}; collective."""
    hosts: dict[str, set[int]] = {}
    gathered: Any = communicator.host_gather(placement())
    for host, cores in gathered:
        hosts.setdefault(host, set()).update(cores)
    return hosts


def _record(subject, communicator, hosts, rate, program, bandwidth):
    """The line that scripts read: `bench NAME=VALUE ...`."""
    messages, size, reductions = program.traffic()
    record = {
        "ranks": communicator.size,
        "hosts": hosts,
        "nx": subject.shape[1],
        "ny": subject.shape[0],
        "stepper": type(subject.stepper).__name__,
        "precision": subject.precision,
        "communicator": communicator.name,
        "cells_per_second": f"{rate:.6g}",
        "bandwidth": f"{bandwidth:.6g}",
        "fraction_of_bandwidth": f"{program.bytes_moved(1) * rate / bandwidth:.4g}",
        "messages": f"{messages:g}",
        "bytes": f"{size:g}",
        "reductions": f"{reductions:g}",
        "arrays": f"{program.memory().arrays:.4g}",
        "compile_seconds": f"{program.compile_seconds:.4g}",
    }
    return "bench " + " ".join(f"{name}={value}" for name, value in record.items())


def _figures(program, cells, seconds, bandwidth):
    """(label, text) of a timed Program."""
    messages, size, reductions = program.traffic()
    used, moved = program.memory(), program.bytes_moved(cells)
    sums = f", and {reductions:.3g} reductions" if reductions else ""
    return [
        ("step", f"{1e3 * seconds:.4g} ms: {cells / seconds / 1e6:.4g} million cells a second"),
        (
            "memory",
            f"{moved / seconds / bandwidth:.2f} of its bandwidth, {bandwidth / 1e9:.3g} GB/s in a triad by XLA, "
            f"if each of a cell's {moved / cells:.0f} bytes of state and history is moved once",
        ),
        ("messages", f"{messages:.3g} a step and rank, of {memory.size(size)} together{sums}"),
        ("arrays", f"{used.arrays:.1f} of a tile's size at most, {memory.size(used.peak)} a rank"),
        ("compiled", f"in {program.compile_seconds:.1f} s"),
    ]


def _on_cpu():
    return jax.default_backend() == "cpu"


# -- measurements for predictions -------------------------------------------------------------------------------------


def _compute(subject, options):
    """The Machine with the cost of a cell and a step of this physics."""
    from ..performance.prediction import Machine, measure_compute

    compute = measure_compute(subject.make, subject.shape, subject.stepper, repeats=options.repeats)
    print(f"fitted: {compute}")
    return Machine(compute=(compute,))


def _links(communicator, options):
    """The Machine with the link between these ranks; prints it. Collective."""
    from ..performance.prediction import measure_links

    hosts = len(placements(communicator))
    sizes, seconds, found = measure_links(communicator, hosts, options.repeats)
    link = found.network or found.shared
    if communicator.is_root and link is not None:
        rows = [
            (memory.size(n), f"{1e6 * t:10.4g} us, fitted {1e6 * link.seconds(1, n):10.4g} us")
            for n, t in zip(sizes, seconds)
        ]
        print(facts.table(rows))
        where = f"between {hosts} machines" if hosts > 1 else "shared memory only: all ranks are on one machine"
        print(f"network: latency {link.latency:.3g} s, bandwidth {link.bandwidth:.3g} bytes/s, {where}")
    return found
