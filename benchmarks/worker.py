"""The workers of the benchmarks that run swmodel. One argument, a JSON object, whose `kind` is

    step       times steps of the basin: size, and stepper, precision, communicator, layout, devices, term, engine,
               batch, save; or of the experiment in `file`; with `simulation`, as a whole run takes them; of a
               beach with `coastal`: true has wetting and drying, false is the ocean
    exchange   times exchanges of the halos that such a step needs, without the step
    compile    times compilations of the full nonlinear step on the sphere; a "step" is one of them
    copy       times a copy (a = b) on the device JAX has; a "step" is one pass over `cells` numbers

In addition to `run N`, a step worker answers `state FILE` by writing its tile's u, v, eta to FILE.
"""

import json
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from swmodel.runtime import launch  # noqa: E402

PAUSE = 0.002  # [s] between two checks for messages of the root


def northwest_pacific(coarser=1):
    """(grid, Bathymetry) of experiments/tohoku_2011, on cells `coarser` times as long and as wide."""
    import swmodel as sw
    from swmodel.grids.bathymetry import as_bathymetry

    folder = Path(__file__).resolve().parent.parent / "experiments" / "tohoku_2011"
    grid = sw.SphericalGrid(720 // coarser, 540 // coarser, (120.0, 180.0), (15.0, 60.0))
    return grid, as_bathymetry(folder / "etopo5_northwest_pacific.nc", grid, minimum_depth=20.0, fill_lakes=True)


def serve(info, world=None, **commands):
    """Print what this worker is, then answer lines of standard input: `NAME ARGUMENT` by commands[NAME](ARGUMENT).

    It ends at `quit`, or where the input does.

    Args:
        info: for the harness; JSON.
        world: the ranks' mpi4py communicator: the root reads and sends to the others, which sleep in between.
        commands: functions from an argument to (word, value), of which the root prints `word value`.
    """
    root = world is None or world.rank == 0
    if root:
        print("ready", json.dumps(info), flush=True)
    while (line := _everywhere(sys.stdin.readline() if root else None, world)) not in ("", "quit\n"):
        name, _, argument = line.strip().partition(" ")
        word, value = commands[name](argument)
        if root:
            print(word, value, flush=True)


def _everywhere(line, world):
    """The root's line on every rank; ranks sleep while they wait."""
    if world is None or world.size == 1:
        return line
    if world.rank == 0:
        for rank in range(1, world.size):
            world.send(line, dest=rank)
        return line
    while not world.Iprobe(source=0):
        time.sleep(PAUSE)
    return world.recv(source=0)


def step(options):
    process = launch.configure_process(
        options.get("precision", "float32"), options.get("communicator", "serial"), options.get("devices")
    )
    import jax
    import numpy as np

    import swmodel as sw
    from swmodel.performance.timing import Program, batch_of

    model, state, stepper = _case(options, process)
    if "save" in options:
        _write(options["save"], np.where(model.wet, model.depth, 0.0), *jax.tree.leaves(state))
    program = Program(model, state, stepper, options.get("batch") or batch_of(np.prod(model.grid.shape)))
    simulation = sw.Simulation(model, state, stepper) if options.get("simulation") else None

    def run(steps):
        if simulation is None:
            return "took", program.run(int(steps) // program.steps) * int(steps)
        begin = time.perf_counter()
        simulation.run(steps=int(steps))
        return "took", time.perf_counter() - begin

    def save(name):
        _write(name, *jax.tree.leaves(program.state))
        return "saved", name

    serve(_info(program, process), _world(process), run=run, state=save)


def exchange(options):
    process = launch.configure_process(options.get("precision", "float32"), options["communicator"])
    import jax
    import jax.numpy as jnp

    from swmodel.parallel.halo import refresh
    from swmodel.stencils.expressions import Layout
    from swmodel.stepping.loop import on_tiles

    model, state, stepper = _case(options, process)

    @on_tiles
    def exchanges(dynamics, stepper, fields, count):
        tile, communicator = dynamics.tile, dynamics.communicator
        layout = Layout(tuple(tile.shape), tile.halo)

        def once(_, arrays):
            return tuple(refresh(list(arrays), tile.halo, tile.sides, communicator, layout.border))

        return jax.lax.fori_loop(0, count, once, tuple(layout.with_border(x) for x in fields))

    dynamics, fields = model.interval(model.halo(stepper), 0, stepper.dt), (state.u, state.v, state.eta)

    def run(count):
        model.communicator.barrier()
        begin = time.perf_counter()
        jax.block_until_ready(exchanges(dynamics, stepper, fields, jnp.int32(int(count))))
        return "took", model.communicator.host_maximum(time.perf_counter() - begin)

    run(1)
    serve({"batch": options.get("batch", 200), "layout": model.communicator.layout}, _world(process), run=run)


def _case(options, process):
    """(model, state, stepper) of the basin, or of an experiment's file."""
    from cases import TERMS, beach

    from swmodel.performance.timing import basin, stepper_named

    if "file" in options:
        from swmodel.cli.bench import Experiment
        from swmodel.cli.options import Bench

        subject = Experiment(options["file"], [], Bench())
        return *subject.make(process.communicator), subject.stepper
    layout, precision = options.get("layout"), options.get("precision", "float32")
    if "coastal" in options:
        case = beach(*options["size"], precision, process.communicator, coastal=options["coastal"])
        return *case, stepper_named(options.get("stepper", "ssprk3"))
    parts = TERMS[options["term"]] if "term" in options else {}
    where = process.communicator, layout and tuple(layout)
    case = basin(*options["size"], precision, *where, engine=options.get("engine", "auto"), **parts)
    return *case, stepper_named(options.get("stepper", "ab2"))


def _write(name, *fields):
    import numpy as np

    np.concatenate([np.asarray(x, np.float32).ravel() for x in fields]).tofile(name)


def _info(program, process):
    import jax

    messages, size, reductions = program.traffic()
    return {
        "batch": program.steps,
        "compile_seconds": program.compile_seconds,
        "memory_arrays": program.memory().arrays,
        "messages": messages,
        "bytes": size,
        "reductions": reductions,
        "layout": program.communicator.layout,
        "device": jax.devices()[0].device_kind,
        "threads": process.threads,
        "engine": program.model.engine,
    }


def _world(process):
    return launch.load_mpi().COMM_WORLD.Dup() if process.communicator == "mpi" else None


def compile_step(options):
    """Everything that a tsunami or gyre run compiles: sphere, islands, wind, drag, viscosity, open sides."""
    launch.configure_process("float32", "serial")
    import jax
    import numpy as np

    import swmodel as sw
    from swmodel.performance.timing import Program

    nx, ny = options["size"]
    model = sw.ShallowWater(
        sw.SphericalGrid(nx, ny, (120.0, 180.0), (15.0, 60.0)),
        lambda x, y: 3000.0 + 4000.0 * np.sin(x / 7.0) * np.cos(y / 5.0),
        coriolis=sw.RotatingSphere(),
        forcing=(sw.WindStress(x=lambda x, y: 0.1 * np.cos(np.deg2rad(3 * y)) + 0 * x),),
        dissipation=(sw.Laplacian(1000.0), sw.QuadraticDrag(2.5e-3)),
        boundaries=(sw.Flather(), sw.Sponge(width=5e5, rate=1e-4)),
        communicator="serial",
        dtype="float32",
    )
    program = Program(model, model.at_rest(), sw.AB2(1.0), 10)

    def run(times):
        seconds = 0.0
        for _ in range(int(times)):
            jax.clear_caches()
            seconds += program.compile()
        return "took", seconds

    serve({"first": program.compile_seconds, "size": [nx, ny]}, run=run)


def copy(options):
    launch.configure_process("float32", "serial")
    import jax
    import jax.numpy as jnp

    source = jnp.ones(options["cells"], jnp.float32)
    program = jax.jit(jnp.copy)

    def run(passes):
        begin = time.perf_counter()
        for _ in range(int(passes)):
            target = program(source)
        target.block_until_ready()
        return "took", time.perf_counter() - begin

    serve({"device": jax.devices()[0].device_kind, "platform": jax.devices()[0].platform}, run=run)


if __name__ == "__main__":
    options = json.loads(sys.argv[1])
    {"step": step, "exchange": exchange, "compile": compile_step, "copy": copy}[options.pop("kind")](options)
