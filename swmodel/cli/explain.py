"""What a step does and how long it takes: `swmodel explain`, and the prediction of `swmodel check --ranks N`.

`swmodel explain` lists the fused loops of a step, or of its adjoint, with their inputs, outputs and costs, or why
a step runs on arrays. The time of a step is predicted from measurements on this or another machine, and from the
iterations of an implicit step's solver.

A small grid is solved as it is. A large one is coarsened (config/assembly.py), so that multigrid converges as it
does on the original grid. A single tile of it would not do: without its neighbours' values conjugate gradients
may take any number of iterations. With `Diagonal` the iterations grow with the number of gravity waves' cells in a
step, which the coarser grid has, too; those of a rigid lid grow with the number of cells along a direction.
"""

from __future__ import annotations

import dataclasses
import math
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import jax

from ..config import Draft, Experiment, Override, read
from ..config.assembly import Assembly, coarsened, model_of
from ..dynamics.system import System
from ..errors import ConfigError, SwmodelError
from ..fields.state import State
from ..models.shallow_water import ShallowWater
from ..parallel import SerialCommunicator
from ..parallel.decomposition import Decomposition
from ..runtime import launch, memory
from ..runtime.paths import make_folder
from ..stencils.compiled import cost, graph_text, loop_title, loops_in, reads, types_of, write_source
from ..stepping.explicit import TimeStepper
from ..stepping.loop import integrate, on_tiles, step_loop
from ..units import duration
from . import facts, starting
from .options import Speed

if TYPE_CHECKING:
    from ..performance.prediction import Machine

SIDES = ("west", "east", "south", "north")


def explain_experiment(
    file: str,
    overrides: Sequence[str | Override],
    source: str | None = None,
    graph: bool = False,
    bandwidth: float | None = None,
    adjoint: bool = False,
) -> None:
    """Print the loops of a step of an experiment, or why the step runs on arrays.

    Args:
        file, overrides: the experiment.
        source: the folder for the C++ source of the loops, or None.
        graph: whether to print the operations of each loop.
        bandwidth: of the memory [bytes s-1]; measured unless given.
        adjoint: whether to list the loops of the step's adjoint, too.

    Raises:
        ConfigError: with every mistake of the experiment, or if the folder for sources cannot be made.
    """
    if bandwidth is not None and not bandwidth > 0:
        raise ConfigError(f"--bandwidth {bandwidth:g} is not positive; give bytes a second, as 2e10.")
    draft = read(file, overrides)
    made = starting.assemble_alone(draft, here=True)
    experiment = made.experiment()
    model, state, dt = starting.model_state_and_step(made, experiment, "serial", None, experiment.run.engine)
    if adjoint and model.batch:
        raise ConfigError("--adjoint lists the loops of one run, and the file has an [ensemble]; leave one out.")
    simulation = starting.simulation_of(made, model, state, dt)
    engine, why = simulation.engine
    lines = [
        ("experiment", experiment.run.title or draft.file.stem),
        ("grid", facts.grid_line(made.grid)),
        ("engine", facts.engine_line(engine, why)),
    ]
    print(facts.table(lines))
    if engine == "fused":
        loops, steps = loops_of_steps(simulation._dynamics(), simulation.stepper, (state, simulation.history))
        cells = math.prod((*model.batch, *model.grid.shape))
        _print_loops(_counted(loops), steps, source, graph)
        print(_total("a step", loops, steps, cells, bandwidth))
        if adjoint:
            back = loops_of_adjoint(model.dynamics(simulation.stepper, 0, steps), simulation.stepper, state, steps)
            _print_loops(_counted(back), steps, source, graph, len(_counted(loops)) + 1)
            print(_total("the adjoint of a step", back, steps, cells, bandwidth))


@dataclasses.dataclass(frozen=True)
class Loop:
    """One fused loop of a time step.

    Attributes:
        graph: the Graph of its operations.
        dtypes: element types, (of the arrays that it reads, of its results).
        over: for each result the name of the array that it overwrites, or None.
        margin: the number of cells around the tile that it computes, too.
    """

    graph: Any
    dtypes: tuple
    over: tuple
    margin: int


@on_tiles
def _steps(dynamics, stepper, start):
    loop = step_loop(dynamics, stepper)
    return loop.steps(loop.pack_state(*start), 0, loop.period)[0]


def loops_of_steps(dynamics: Any, stepper: TimeStepper, start: tuple[State, Any]) -> tuple[list[Loop], int]:
    """(the fused loops of some steps, in order; the number of these steps); no loops where steps run on arrays.

    The number of steps is that after which buffers are back in their first roles. The loops are found by tracing;
    nothing is compiled or run. Collective.

    Args:
        dynamics: a System, or the Members of an ensemble, as programs take them.
        stepper: a TimeStepper, likewise.
        start: (state, history).
    """
    closed, period = jax.make_jaxpr(_steps)(dynamics, stepper, start), []
    one = getattr(dynamics, "dynamics", dynamics)
    jax.eval_shape(
        one.communicator.spmd(lambda d, s: period.append(step_loop(d, s, prepared=False).period)), one, stepper
    )
    return [_loop(equation) for equation in loops_in(closed.jaxpr)], period[0]


def loops_of_adjoint(dynamics: System, stepper: TimeStepper, state: State, steps: int) -> list[Loop]:
    """The fused loops with which the adjoint of some steps from a State goes back through them, in their order.

    They compute what they need of the steps again, from the states before them. Collective.
    """

    def end(state):
        return integrate(dynamics, stepper, state, steps)[0]

    def gradient(state):
        final, back = jax.vjp(end, state)
        return back(final)

    forward, both = (loops_in(jax.make_jaxpr(program)(state).jaxpr) for program in (end, gradient))
    return [_loop(equation) for equation in list(both)[len(list(forward)) :]]


def _loop(equation):
    graph = equation.params["graph"]
    names = {k: access.name for k, access in zip(graph.reads(), reads(graph))}
    over = tuple(None if k is None else names.get(k, "another array") for k in equation.params["aliases"])
    return Loop(graph, types_of(equation), over, equation.params["margin"])


def _counted(loops):
    """[(Loop, number of occurrences)]; loops with the same graph and types are counted together."""
    counts = {}
    for loop in loops:
        key = loop.graph, loop.dtypes
        counts[key] = (loop, counts.get(key, (loop, 0))[1] + 1)
    return list(counts.values())


def _print_loops(counted, steps, source, graph, first=1):
    if source is not None:
        make_folder(source)
    for number, (loop, count) in enumerate(counted, first):
        often = f"{count / steps:g} times a step" if count != steps else "once a step"
        print(f"\nloop {number}, {often}: {loop_title(loop.graph)}")
        print(facts.table(_lines(loop)))
        if source is not None:
            print(f"source: {write_source(source, loop.graph, loop.dtypes)}")
        if graph:
            print(graph_text(loop.graph))


def _lines(loop):
    """(label, text) lines about one loop."""
    fields = [_access(access) for access in reads(loop.graph)]
    results = loop_title(loop.graph).split(", ")
    over = [f"{name}, over {old}" if old else name for name, old in zip(results, loop.over)]
    each, margin = (
        cost(loop.graph, loop.dtypes),
        f"{loop.margin} cells around the tile, too" if loop.margin else "the tile's cells",
    )
    return [
        ("reads", "\n".join(fields)),
        ("writes", "\n".join(over)),
        ("computes", f"{margin}: {each.operations} operations and {each.bytes} bytes a cell"),
    ]


def _access(access):
    if access.is_column:
        return f"{access.name}, one value a row"
    cells = [f"{n} {side}" for n, side in zip(access.halo, SIDES) if n]
    return f"{access.name}, halo {', '.join(cells)}" if cells else access.name


def _total(what, loops, steps, cells, bandwidth):
    """The operations and bytes of a whole step, or its adjoint, and its least time at the memory's bandwidth."""
    from ..performance.prediction import triad_bandwidth

    costs = [cost(loop.graph, loop.dtypes) for loop in loops]
    operations, moved = sum(each.operations for each in costs) / steps, sum(each.bytes for each in costs) / steps
    source = "as given" if bandwidth is not None else "measured here by a triad"
    rate = triad_bandwidth() if bandwidth is None else bandwidth
    return (
        f"\n{what}: {operations:g} operations and {moved:g} bytes a cell; "
        f"its {cells:,} cells take at least {1e3 * cells * moved / rate:.3g} ms at {1e-9 * rate:.3g} GB/s ({source})"
    )


QUICK_CUTS = (4, 1)  # two sizes of tiles give the costs of a step and of a cell
QUICK_REPEATS, QUICK_SHARE = 3, 0.1
MOST_A_CORE = 4  # the most ranks on a core whose messages are timed
TIMEOUT = 120.0  # [s] for messages between ranks here


def speed_line(
    speed: Speed, made: Assembly, experiment: Experiment, ranks: int, dt: float, decomposition: Decomposition
) -> str:
    """The lines of `check` on the speed: the time of a step and of the whole run, and the source of the prediction."""
    from ..performance.prediction import machines_of, measure_compute, predict, signature
    from ..performance.timing import OneOfMany, Program

    machine, notes = speed.read(), []
    stepper = experiment.stepper.stepper(dt)
    if stepper.has_solver:
        how = f"swmodel bench {made.draft.file}"
        how = how if ranks == 1 else f"mpirun -n {ranks} {how}"
        return f"not predicted: how long {type(stepper).__name__}'s equation takes depends on the case; time it, {how}"

    def make(communicator):
        model = model_of(made, communicator)
        return model, experiment.initial.state(model)

    model, state = make(OneOfMany(decomposition.layout))
    traffic = Program(model, state, stepper, 1, compiled=False).traffic() if ranks > 1 else (0, 0, 0)
    compute = machine.compute_of(signature(model, stepper))
    if compute is None:
        if speed.machine:
            notes.append(f"{speed.machine} was not made with this physics, so its cost was measured here")
        compute = measure_compute(make, model.grid.shape, stepper, QUICK_CUTS, QUICK_REPEATS, QUICK_SHARE)
    cells = model.grid.nx * model.grid.ny
    if ranks > 1 and machine.shared is None and machines_of(machine, ranks, speed.per_machine) == 1:
        try:
            machine = machine.merge(shared_machine(speed, ranks))
        except SwmodelError as why:
            traffic = (0, 0, 0)
            notes.append(f"messages are left out: {why}")
    found = predict(machine, compute, cells, ranks, traffic, speed.per_machine)
    steps = round(experiment.run.until / dt)
    whole = f"{steps:,} steps in about {duration(steps * found.seconds)}"
    return "\n".join([_sentence(found, ranks, traffic), whole, *notes])


def _sentence(found, ranks, traffic):
    text = f"about {_time(found.seconds)} a step"
    if ranks == 1:
        return text
    messages, size, _ = traffic
    where = f"{found.machines} machines" if found.machines > 1 else "shared memory only"
    if not messages:
        return f"{text}; {where}"
    sent = f"a message of {memory.size(size)}"
    if messages > 1:
        sent = f"{messages:.3g} messages of {memory.size(size)} together"
    return f"{text}: {_time(found.compute)} of arithmetic and {_time(found.exchange)} in {sent}; {where}"


def _time(seconds):
    return f"{1e3 * seconds:.3g} ms"


def shared_machine(speed: Speed, ranks: int) -> Machine:
    """The Machine with the Link between ranks of one machine; measured, unless a file describes another machine.

    Raises:
        ConfigError: if the file has none, or ranks cannot be started here.
    """
    if speed.machine:
        raise ConfigError(
            f"{speed.machine} has no timing of messages; add it on that machine, by "
            f"mpirun -n 2 swmodel bench --network --save {speed.machine}."
        )
    ranks = min(ranks, MOST_A_CORE * launch.threads_per_rank())
    from ..performance.prediction import Machine

    if not launch.mpi_installed():
        raise ConfigError(f"messages cannot be timed without MPI; {launch.HOW_TO_ADD_MPI}.")
    with tempfile.TemporaryDirectory(prefix="swmodel-") as folder:
        file = Path(folder) / "machine.json"
        program = [sys.executable, "-m", "swmodel", "bench", "--network", "--save", file]
        program += ["--repeats", QUICK_REPEATS]
        package = str(Path(__file__).resolve().parents[2])
        environment = launch.mpirun_environment()
        environment["PYTHONPATH"] = f"{package}:{environment.get('PYTHONPATH', '')}".rstrip(":")
        try:
            output, _ = launch.output_of([*launch.mpirun(ranks), *map(str, program)], environment, TIMEOUT)
        except subprocess.TimeoutExpired:
            raise ConfigError(
                f"{ranks} ranks exchanged no messages within {TIMEOUT:g} s; find out why with `swmodel doctor`."
            ) from None
        if not file.exists():
            last = output.strip().splitlines()[-1:] or ["nothing"]
            raise ConfigError(f"{ranks} ranks could not be started to time their messages: mpirun printed {last[0]!r}.")
        return Machine.load(file)


def count_iterations(
    draft: Draft, model: ShallowWater, state: State, stepper: TimeStepper, cut: int
) -> tuple[int, str]:
    """(iterations of a step, a note on where they were counted); 0 for explicit steps and direct solvers.

    Args:
        draft: the Draft of the experiment.
        model, state: of its whole grid if `cut` is 1, or of a tile.
        stepper: a TimeStepper.
        cut: the factor by which the grid is coarsened.

    Raises:
        ConfigError: if the solver does not converge, or the experiment is not valid on the coarser grid.
    """
    from ..performance.timing import iterations_of, solver_of

    if not stepper.has_solver:
        return 0, ""
    where, solver = "the whole grid", solver_of(model, stepper)
    if cut > 1:
        model, state = _coarse(draft, cut)
        where = f"a grid of {model.grid.nx} x {model.grid.ny} cells, coarser by a factor of {cut}"
    found = iterations_of(model, state, dataclasses.replace(stepper, solver=solver))
    found = stepper.iterations_on(cut, found, solver)  # pyright: ignore[reportAttributeAccessIssue]
    if found and found >= getattr(solver, "iterations", math.inf):
        raise ConfigError(
            f"plan: the solver needs more than its {solver.iterations} iterations, counted on {where}; set "
            "stepper.preconditioner = 'multigrid', or a larger stepper.tolerance or stepper.iterations."
        )
    return found, f", counted on {where}" if cut > 1 else ""


def _coarse(draft, cut):
    """(model, state) on the grid coarsened by `cut`."""
    made = coarsened(draft, cut)
    if made.mistakes:
        raise ConfigError(
            f"plan: the iterations of the solver are counted on a grid of {made.grid.nx} x {made.grid.ny} cells, where "
            f"{made.mistakes[0].text.rstrip('.')}; plan the experiment with fewer cells (--set grid.nx=... and "
            "grid.ny=...), and correct what is reported there."
        )
    model = model_of(made, SerialCommunicator())
    return model, made.experiment().initial.state(model)
