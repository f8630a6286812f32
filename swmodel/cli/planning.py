"""`swmodel plan`: time, memory, messages and files of a run, and of its gradient, on 1 to 10,000 ranks."""

from __future__ import annotations

import dataclasses
import functools
import math
import time
from collections.abc import Callable, Sequence

import jax
import numpy as np

from ..adjoint.core.schedules import Needs, StoreAll, best_lengths
from ..adjoint.costs.costs import BoxEnergy
from ..adjoint.problem import Problem
from ..config import Experiment, Override, read
from ..config.assembly import Assembly, model_of, time_step
from ..config.scenario import Output, WrittenRun, arrays_of
from ..config.sections import LARGEST_WHOLE_GRID, is_evaluated_whole
from ..config.studies import steps_of
from ..errors import ConfigError, SwmodelError
from ..fields.state import State
from ..models.shallow_water import ShallowWater
from ..parallel import OneTileCommunicator, SerialCommunicator
from ..parallel.communicator import Communicator
from ..parallel.decomposition import TileError
from ..performance.planning import Gradient, Plan, Row, Subject
from ..performance.prediction import Link, Machine, measure_compute, signature
from ..performance.timing import OneOfMany, Program, with_rounds
from ..runtime import memory
from ..stepping.explicit import TimeStepper
from ..stepping.stability import largest_time_step, limits
from ..units import duration
from . import facts
from .checks import bytes_of_rank, records_of_source, tiles_with_water
from .explain import Speed, count_iterations, shared_machine
from .starting import assemble_alone

USUAL = (1, 2, 4, 8, 16, 64, 256, 1024, 4096, 10_000)
MOST_RANKS = 1_000_000
ASSUMED_LATENCY, ASSUMED_BANDWIDTH = 2e-6, 1e10  # [s], [bytes s-1] of a network without measurements
MOST_SOLVED = 2**20  # cells of the largest grid that is not coarsened to count iterations of an elliptic solver
CUTS, REPEATS, SHARE = (8, 4, 1), 3, 0.1  # sizes of tiles, repetitions, and duration in seconds of the timings
MOST_CELLS = 2**16  # the largest tile on which a gradient is measured
MOST_OF_EQUATION = 2**20  # the same of implicit steps, whose equations are those of the whole grid up to this size
STEPS = 16  # of the gradient that is measured
TILE = 512  # cells along each direction of the tiles of a large grid that limit its time step


@dataclasses.dataclass(frozen=True)
class Case:
    """An experiment whose time step is known."""

    made: Assembly
    experiment: Experiment
    stepper: TimeStepper
    dt: float

    def make(self, engine: str) -> Callable:
        """The function from a communicator to (model, state)."""

        def make(communicator):
            model = model_of(self.made, communicator, engine=engine)
            return model, self.experiment.initial.state(model)

        return make


def ranks_of(text: str | None) -> list[int]:
    """The numbers of ranks in `--ranks 1,16,256`; the default ones for None.

    Raises:
        ConfigError: if the text is not a list of numbers of ranks.
    """
    if text is None:
        return list(USUAL)
    try:
        found = sorted({int(part) for part in text.split(",")})
        if found[0] < 1 or found[-1] > MOST_RANKS:
            raise ValueError
    except ValueError:
        raise ConfigError(
            f"--ranks {text} is not a list of numbers of ranks from 1 to {MOST_RANKS:,}; write --ranks 1,16,256."
        ) from None
    return found


def plan_experiment(
    file: str, overrides: Sequence[str | Override], ranks: str | None, speed: Speed, gradient: bool | None = None
) -> None:
    """Print a table: a row for each number of ranks.

    Args:
        file, overrides: the experiment.
        ranks: the option `--ranks`, or None.
        speed: the options that describe the machine.
        gradient: whether to plan the gradient, too. With None it is planned if the file has a section [adjoint].

    Raises:
        ConfigError: with every mistake of the file; for an ensemble; for numbers of ranks that do not fit the grid.
    """
    wanted = ranks_of(ranks)
    case = _case(file, overrides, wanted)
    machine, notes = _machine(speed, wanted)
    subject, more, files = _subject(case, machine, gradient)
    here = speed.per_machine or machine.cores
    section = case.made.section("adjoint")
    given = None if section is None else section.memory
    plan = Plan(subject, machine, speed.per_machine, given or memory.available() / here)
    rows, refused = [], None
    for number in wanted:
        try:
            rows.append(plan.row(number))
        except TileError as why:
            refused = why
            if ranks is not None:
                raise
    if not rows:
        raise refused or ConfigError("no number of ranks was planned.")
    print(facts.table([*_heading(case, subject, machine), *more]))
    print()
    cells = [_cells(row, rows[0], files(row.ranks)) for row in rows]
    print(facts.columns([list(cells[0]), *(list(row.values()) for row in cells)], 0))
    for note in [*notes, *_remarks(case, rows, subject), *([str(refused).rstrip(".")] if refused else [])]:
        print(f"note: {note}")


# -- the planned run --------------------------------------------------------------------------------------------------


def _case(file, overrides, wanted):
    draft = read(file, overrides)
    grid = draft.sections.get("grid")
    cells = 0 if grid is None else grid.nx * grid.ny
    feasible = max((n for n in wanted if n <= cells // 64), default=1)
    layout = getattr(draft.sections.get("run"), "layout", None) or (1,)
    made = assemble_alone(draft, feasible if cells > LARGEST_WHOLE_GRID else math.prod(layout))
    experiment = made.experiment()
    if experiment.ensemble is not None:
        raise ConfigError("swmodel plan plans one run; leave out the ensemble, and multiply time and memory by it.")
    stepper = experiment.stepper.stepper()
    dt = made.require(("stepper", "dt"), time_step, experiment, _limits(made, experiment, stepper))
    return Case(made, experiment, experiment.stepper.stepper(dt), dt)


def _limits(made, experiment, stepper):
    """The Limits of the time step; for a large grid, those of some of its tiles."""
    if experiment.stepper.dt != "auto":
        return []
    if is_evaluated_whole(made.grid):
        model = model_of(made, SerialCommunicator(), engine="arrays")
        return made.require(("stepper",), limits, model, stepper, experiment.initial.state(model))
    ny, nx = (max(2, math.ceil(n / TILE)) for n in made.grid.shape)
    found = []
    for tile in tiles_with_water(made, OneTileCommunicator((ny, nx), 0).decomposition(made.grid.shape)):
        model = model_of(made, tile, (ny, nx), "arrays")
        found.append(limits(model, stepper, experiment.initial.state(model)))
    return min(found, key=largest_time_step, default=[])


def _subject(case, machine, gradient):
    """(the Subject, (label, text) lines of its measurements, files_of so many tiles)."""
    made, experiment, lines = case.made, case.experiment, []
    shape = made.grid.shape
    cut = math.ceil(math.sqrt(math.prod(shape) / MOST_SOLVED))
    small = SerialCommunicator() if cut == 1 else OneOfMany((cut, cut))
    model, state = case.make("auto")(small)
    iterations, where = count_iterations(made.draft, model, state, case.stepper, cut)
    stepper = with_rounds(model, case.stepper, iterations)
    if iterations:
        lines.append(("solver", f"{iterations} iterations a step{where}"))
    compute = None if case.stepper.has_solver else machine.compute_of(signature(model, case.stepper))
    if compute is None:
        compute = measure_compute(case.make("auto"), shape, stepper, CUTS, REPEATS, SHARE)
    lines.append(("a step", str(compute)))
    subject = Subject(
        case.make("arrays"),
        shape,
        stepper,
        max(round(experiment.run.until / case.dt), 1),
        model.halo(case.stepper),
        iterations,
        compute,
        lambda cells: bytes_of_rank(experiment, model, cells, records_of_source(made)),
        layout=experiment.run.layout,
    )
    if gradient if gradient is not None else made.section("adjoint") is not None:
        found, line = _gradient(case, subject)
        subject, lines = dataclasses.replace(subject, gradient=found), [*lines, line]
    history = jax.eval_shape(case.stepper.history, state)
    restarted = [math.prod(x.shape[:-2]) for x in jax.tree.leaves((state, history)) if x.ndim >= 2]
    restarted += [*_sums_in_restart(experiment.output), 1]  # and the depth
    return subject, lines, functools.partial(files_of, experiment, model, restarted, case.dt, math.prod(shape))


def _sums_in_restart(output: Output) -> list[int]:
    """The number of fields in each array that a restart keeps of products."""
    cells = 2**20 + 7  # no other length
    shapes = [x.shape for _, section in output.named_products() for x in arrays_of(section, cells).values()]
    return [math.prod(shape[:-1]) for shape in shapes if shape[-1:] == (cells,)]


def _gradient(case, subject):
    """(the Gradient, its (label, text) line)."""
    section = case.made.section("adjoint")
    steps = subject.steps if section is None else steps_of(section, case.experiment.run, case.dt)[1]
    found = measure_gradient(case.make("auto"), subject.shape, subject.stepper, steps)
    return found, ("gradient", f"{steps:,} steps, each {found.ratio:.1f} times a step if all of them are stored")


def measure_gradient(
    make: Callable[[Communicator], tuple[ShallowWater, State]], shape: tuple[int, int], stepper: TimeStepper, steps: int
) -> Gradient:
    """The time and memory of the gradient of the final energy by the initial elevation, a typical gradient.

    Args:
        make: `make(communicator)` gives (ShallowWater, State) of the whole grid on that communicator.
        shape: (ny, nx) of the grid.
        stepper: a TimeStepper; an implicit one makes a given number of rounds (performance.timing.with_rounds).
        steps: the number of steps that the planned gradient differentiates.
    """
    most = MOST_OF_EQUATION if stepper.has_solver else MOST_CELLS
    cut = math.ceil(math.sqrt(math.prod(shape) / most))
    model, state = make(SerialCommunicator() if cut == 1 else OneOfMany((cut, cut)))
    forward = Program(model, state, stepper, STEPS).measure(REPEATS)
    problem = Problem(model, stepper, state, STEPS, BoxEnergy(), ["initial.eta"], checkpoints=StoreAll())
    taken = []
    for _ in range(1 + REPEATS):
        since = time.perf_counter()
        problem.value_and_gradient()
        taken.append((time.perf_counter() - since) / STEPS)
    cells = math.prod(model.decomposition.tile(0).shape)
    needs = problem.needs
    per_cell = Needs(*(x / cells for x in (needs.base, needs.step, needs.point)))
    return Gradient(max(min(taken[1:]) / forward, 2.0), steps, lambda n, memory: segments(per_cell, n, steps, memory))


def segments(per_cell: Needs, cells: int, steps: int, memory: float) -> tuple[int, float]:
    """(levels of segments, bytes) of a gradient on a tile: the fewest levels that fit, or the one that needs least.

    Args:
        per_cell: the Needs of a cell.
        cells: the number of cells of the tile.
        steps: the number of steps of the run.
        memory: the available memory [bytes].
    """
    needs = Needs(*(cells * x for x in (per_cell.base, per_cell.step, per_cell.point)))
    sizes = [needs.bytes(lengths, 1) for lengths in best_lengths(needs, steps)]
    fitting = [level for level, size in enumerate(sizes) if size <= memory]
    level = fitting[0] if fitting else sizes.index(min(sizes))
    return level + 1, sizes[level]


# -- the machine ------------------------------------------------------------------------------------------------------


def _machine(speed, wanted):
    """(the Machine with all links, notes)."""
    machine, notes = speed.read(), []
    per_machine = speed.per_machine or machine.cores
    if wanted[-1] > per_machine and machine.network is None:
        machine = machine.merge(Machine(network=Link(ASSUMED_LATENCY, ASSUMED_BANDWIDTH)))
        notes.append(
            f"a network of {1e6 * ASSUMED_LATENCY:g} us and {ASSUMED_BANDWIDTH / 1e9:g} GB/s was assumed; give "
            "--latency and --bandwidth, or a file of `srun -N 2 -n 2 swmodel bench --network --save FILE`"
        )
    if wanted[-1] > 1 and per_machine > 1 and machine.shared is None:
        try:
            machine = machine.merge(shared_machine(speed, min(per_machine, wanted[-1])))
        except SwmodelError as why:
            machine = machine.merge(Machine(shared=machine.network or Link(ASSUMED_LATENCY, ASSUMED_BANDWIDTH)))
            notes.append(f"messages within a machine were assumed to take what the network takes: {why}")
    return machine, notes


# -- files ------------------------------------------------------------------------------------------------------------


def files_of(
    experiment: Experiment, model: ShallowWater, restarted: Sequence[int], dt: float, cells: int, tiles: int
) -> tuple[int, float]:
    """(number of files, bytes before compression) that a run writes.

    Args:
        experiment: the Experiment.
        model: its model, on any tile.
        restarted: the number of fields in each array of a restart.
        dt: time step [s].
        cells: the number of cells of the grid.
        tiles: the number of ranks, each of which has a chunk of a Zarr store.
    """
    run = WrittenRun(model, cells, experiment.run.until, dt)
    each = [section.size_on_disk(run, restarted, tiles) for _, section in experiment.output.files()]
    return sum(count for count, _ in each), sum((size for _, size in each), 0.0)


# -- the printed table ------------------------------------------------------------------------------------------------


def _heading(case, subject, machine: Machine):
    shared, network = machine.shared, machine.network
    links = [
        f"{1e6 * link.latency:.3g} us and {link.bandwidth / 1e9:.3g} GB/s {where}"
        for link, where in ((shared, "within it"), (network, "between machines"))
        if link is not None
    ]
    cores = f"{machine.cores} core{'s' * (machine.cores != 1)}"
    return [
        ("experiment", case.experiment.run.title or case.made.draft.file.stem),
        ("grid", facts.grid_line(case.made.grid)),
        ("stepper", f"{type(case.stepper).__name__}, {subject.steps:,} steps of {case.dt:.6g} s"),
        ("machine", ", ".join([machine.processor or "this one", cores, *links])),
    ]


def _cells(row: Row, first: Row, files):
    """{heading: text} of a row of the table."""
    count, size = files
    found = {
        "ranks": f"{row.ranks:,}",
        "machines": f"{row.machines:,}",
        "tile": f"{row.tile[1]} x {row.tile[0]}",
        "step": f"{1e3 * row.step:.3g} ms",
        "messages take": f"{100 * row.exchange / row.step:.0f} %",
        "run": duration(row.run),
        "efficiency": f"{100 * first.run * first.ranks / (row.run * row.ranks):.0f} %",
        "memory": memory.size(row.memory),
        "sent": f"{row.messages:.0f}, {memory.size(row.size)}" if row.ranks > 1 else "-",
        "files": f"{count:,}, {memory.size(size)}" if count else "-",
    }
    if row.gradient is not None:
        found["gradient"] = duration(row.gradient)
        found["its memory"] = memory.size(row.gradient_memory or 0.0)
    return found


def _remarks(case, rows, subject):
    notes = ["memory, messages (sent in a step) and tiles are those of a rank; files hold so many bytes uncompressed"]
    output, cells = case.experiment.output, math.prod(subject.shape)
    named = [fields.file for fields in output.fields] + ([output.restart.file] if output.restart is not None else [])
    if rows[-1].ranks > 1 and any(not name.endswith(".zarr") for name in named):
        notes.append(
            f"netCDF files are written by one rank, which needs {memory.size(2.0 * 8 * cells)} more for a field of the "
            "whole grid; with names that end in .zarr every rank writes its own tile"
        )
    levels = sorted({row.levels for row in rows if row.gradient is not None})
    if levels and levels[-1] > 1:
        notes.append(
            f"gradients with {' or '.join(map(str, levels))} levels of segments compute steps again to fit into memory"
        )
    best = int(np.argmin([row.run for row in rows]))
    if rows[best].ranks < rows[-1].ranks:
        number = f"{rows[best].ranks:,} rank{'s' * (rows[best].ranks > 1)}"
        notes.append(f"of these, {number} would be fastest: with more, messages take longer than the arithmetic saved")
    return notes
