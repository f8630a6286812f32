"""`swmodel explain`: the fused loops of a step, or of its adjoint, with their inputs, outputs and costs, or why a step
runs on arrays."""

from collections.abc import Sequence
from typing import cast

from ..config import Override, read
from ..dynamics.system import System
from ..errors import ConfigError
from ..runtime.paths import make_folder
from . import facts
from .starting import begin_alone, simulation_of, started_with_step

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
    from ..stepping.loop import loops_of_adjoint, loops_of_steps

    if bandwidth is not None and not bandwidth > 0:
        raise ConfigError(f"--bandwidth {bandwidth:g} is not positive; give bytes a second, as 2e10.")
    draft = read(file, overrides)
    made = begin_alone(draft, here=True)
    experiment = made.experiment()
    model, state, dt = started_with_step(made, experiment, "serial", None, experiment.run.engine)
    if adjoint and model.members is not None:
        raise ConfigError("--adjoint lists the loops of one run, and the file has an [ensemble]; leave one out.")
    simulation = simulation_of(made, model, state, dt)
    engine, why = simulation.engine
    lines = [
        ("experiment", experiment.run.title or draft.file.stem),
        ("grid", facts.grid_line(made.grid)),
        ("engine", facts.engine_line(engine, why)),
    ]
    print(facts.table(lines))
    if engine == "fused":
        loops, steps = loops_of_steps(
            cast(System, simulation._dynamics()), simulation.stepper, (state, simulation.history)
        )
        cells = model.grid.nx * model.grid.ny * (model.members or 1)
        _print_loops(_counted(loops), steps, source, graph)
        print(_total("a step", loops, steps, cells, bandwidth))
        if adjoint:
            back = loops_of_adjoint(model.dynamics(simulation.stepper, 0, steps), simulation.stepper, state, steps)
            _print_loops(_counted(back), steps, source, graph, len(_counted(loops)) + 1)
            print(_total("the adjoint of a step", back, steps, cells, bandwidth))


def _counted(loops):
    """[(Loop, number of occurrences)]; loops with the same graph and types are counted together."""
    counts = {}
    for loop in loops:
        key = loop.graph, loop.dtypes
        counts[key] = (loop, counts.get(key, (loop, 0))[1] + 1)
    return list(counts.values())


def _print_loops(counted, steps, source, graph, first=1):
    from ..stencils.compiled import graph_text, write_source

    if source is not None:
        make_folder(source)
    for number, (loop, count) in enumerate(counted, first):
        often = f"{count / steps:g} times a step" if count != steps else "once a step"
        print(f"\nloop {number}, {often}: {loop.title}")
        print(facts.table(_lines(loop)))
        if source is not None:
            print(f"source: {write_source(source, loop.graph, loop.dtypes)}")
        if graph:
            print(graph_text(loop.graph))


def _lines(loop):
    """(label, text) lines about one loop."""
    fields = [_access(access) for access in loop.reads]
    over = [f"{name}, over {old}" if old else name for name, old in zip(loop.title.split(", "), loop.over)]
    cost, margin = loop.cost, f"{loop.margin} cells around the tile, too" if loop.margin else "the tile's cells"
    return [
        ("reads", "\n".join(fields)),
        ("writes", "\n".join(over)),
        ("computes", f"{margin}: {cost.operations} operations and {cost.bytes} bytes a cell"),
    ]


def _access(access):
    if access.is_column:
        return f"{access.name}, one value a row"
    cells = [f"{n} {side}" for n, side in zip(access.halo, SIDES) if n]
    return f"{access.name}, halo {', '.join(cells)}" if cells else access.name


def _total(what, loops, steps, cells, bandwidth):
    """The operations and bytes of a whole step, or its adjoint, and its least time at the memory's bandwidth."""
    from ..performance.machine import triad_bandwidth

    operations = sum(loop.cost.operations for loop in loops) / steps
    moved = sum(loop.cost.bytes for loop in loops) / steps
    source = "as given" if bandwidth is not None else "measured here by a triad"
    rate = triad_bandwidth() if bandwidth is None else bandwidth
    return (
        f"\n{what}: {operations:g} operations and {moved:g} bytes a cell; "
        f"its {cells:,} cells take at least {1e3 * cells * moved / rate:.3g} ms at {1e-9 * rate:.3g} GB/s ({source})"
    )
