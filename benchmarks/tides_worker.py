"""The workers of benchmarks/figures/tides.py. One argument, a JSON object, whose `kind` is

step       times steps of a shallow sea with four open sides, `size`, in chunks as a run makes them: with `tide`, the
           number of constituents at the sides, where 0 is a level at rest, and with `means` over steps `every` [s]
shelf      times `what`, "forward" or "gradient", of five days of experiments/northwest_europe at 20'
"""

import json
import sys
import time

from worker import _world, launch, serve

CONSTITUENTS = ("M2", "S2", "K1", "O1")
MEANS = ("eta", "u", "v", "u v", "u eta")
BATCH = 50  # steps in a chunk
DAYS, SHELF = 5, ("grid.nx=99", "grid.ny=69")


def sea(options, process):
    """(ShallowWater, State) of a sea 50 to 150 m deep, with Flather's sides and quadratic drag."""
    import datetime

    import numpy as np

    import swmodel as sw
    from swmodel.performance.timing import SPACING

    nx, ny = options["size"]
    length, width = SPACING * nx, SPACING * ny
    names, start = CONSTITUENTS[: options["tide"]], datetime.datetime(2024, 1, 1)

    def size(x, y):
        return 0.5 + 0.2 * np.cos(y / width + x / length)  # [m]

    def side(name, phase):
        constants = {key: (size, phase + 20.0 * k) for k, key in enumerate(names)}
        return sw.Flather(name, incoming=sw.Tide(constants, start=start) if names else 0.0)

    model = sw.ShallowWater(
        sw.CartesianGrid(nx, ny, (0.0, length), (0.0, width)),
        lambda x, y: 100.0 + 50.0 * np.cos(7 * x / length) * np.cos(5 * y / width),  # [m]
        coriolis=sw.BetaPlane(1e-4, 4e-12),
        dissipation=(sw.QuadraticDrag(2.5e-3),),
        boundaries=tuple(side(name, 50.0 * k) for k, name in enumerate(("west", "east", "south", "north"))),
        communicator=process.communicator,
        dtype=options.get("precision", "float32"),
    )
    waves = lambda x, y: 0.5 * np.cos(9 * x / length) * np.cos(8 * y / width)  # noqa: E731
    return model, model.state(u=waves, v=waves, eta=waves)


def step(options):
    process = launch.configure_process(options.get("precision", "float32"), "serial")
    import jax
    import jax.numpy as jnp

    import swmodel as sw
    from swmodel.simulation.program import advance, start_carry
    from swmodel.stepping.loop import pack_state

    model, state = sea(options, process)
    simulation = sw.Simulation(model, state, sw.ForwardBackward(20.0))
    if "means" in options:
        simulation.means("unwritten.nc", MEANS, every=options["means"])
    monitors = simulation.monitors()
    dynamics = simulation._dynamics()
    packed = pack_state(dynamics, simulation.stepper, (simulation.state, simulation.history))
    carry, done = start_carry(simulation, packed), 0

    def run(steps):
        nonlocal carry, done
        begin = time.perf_counter()
        for _ in range(int(steps) // BATCH):
            carry = advance(dynamics, simulation.stepper, carry, monitors, jnp.int32(done), jnp.int32(BATCH))
            done += BATCH
        jax.block_until_ready(carry)
        return "took", time.perf_counter() - begin

    run(BATCH)
    info = {"batch": BATCH, "engine": simulation.engine[0], "threads": process.threads}
    serve(info, _world(process), run=run)


def shelf(options):
    from pathlib import Path

    process = launch.configure_process("float32", "serial")
    import jax
    import jax.numpy as jnp

    from swmodel import adjoint
    from swmodel.cli.bench import Experiment
    from swmodel.cli.options import Bench

    file = Path(__file__).resolve().parent.parent / "experiments" / "northwest_europe" / "northwest_europe.toml"
    subject = Experiment(str(file), list(SHELF), Bench())
    model, state = subject.make(process.communicator)
    steps = round(DAYS * 86400 / subject.stepper.dt)
    cost = adjoint.FinalState(lambda state, equations: jnp.sum(state.eta * state.eta))
    sides = [f"boundary.{k}.incoming.{part}.M2" for k in range(3) for part in ("amplitude", "phase")]
    controls = [*sides, "depth", "dissipation.0.coefficient"]
    name, arguments = options.get("checkpoints", ["Nested", {}])
    checkpoints = getattr(adjoint, name)(**arguments)
    problem = adjoint.Problem(model, subject.stepper, state, steps, cost, controls, checkpoints=checkpoints)
    call = {"forward": problem.value, "gradient": problem.value_and_gradient}[options["what"]]

    def run(count):
        begin = time.perf_counter()
        for _ in range(int(count) // steps):
            jax.block_until_ready(call(problem.values))
        return "took", time.perf_counter() - begin

    run(steps)
    serve({"batch": steps, "engine": model.engine, "lengths": problem.plan[1]}, _world(process), run=run)


if __name__ == "__main__":
    options = json.loads(sys.argv[1])
    {"step": step, "shelf": shelf}[options.pop("kind")](options)
