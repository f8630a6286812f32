"""The gain by each native operation: the time of a case with and without it, alternately, in separate processes.

    python benchmarks/native_parts.py [PART ...] [--repeats 5] [--cells 512]

prints PART_with=SECONDS, PART_without=SECONDS (the least of the repeats) and PART_gain=WITHOUT/WITH (the median of the
pairs). Parts are the keys of PARTS; without names all of them are measured.
"""

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SECONDS = 1.0  # of one timing

PARTS = {  # name: (case, operations that run as JAX's own, or the name of another part, for `switch_off`)
    "strips": ("periodic", ("paste", "cut", "read_strips", "add_strips")),
    "strips_open": ("open", ("paste", "cut", "read_strips", "add_strips")),
    "slots": ("gradient", ("push_slot", "read_slot", "empty")),
    "depends_on": ("maxima_open", ("depends_on",)),
    "materialized": ("multigrid", "materialized"),
    "merged": ("gradient_rotating", "merged"),
    "blocks": ("transform", "blocks"),
    "malloc_gradient": ("gradient", "malloc"),
}


def switch_off(what):
    """Let this process do without a part; before devices and programs are made."""
    from swmodel.adjoint.core import checkpointing, leaves
    from swmodel.elliptic import multigrid, operator
    from swmodel.runtime import memory
    from swmodel.stencils.native import primitives

    if what == "blocks":
        primitives.usable = lambda: False
    elif what == "materialized":
        operator.materialized = multigrid.materialized = lambda x, sides: x
    elif what == "merged":
        checkpointing.merged = leaves.merged = lambda jaxpr, passed_on: jaxpr
    elif what == "malloc":
        memory._choose = lambda *options: None
    else:
        primitives.PLAIN.update(what)


def worker(case, cells, off):
    """Time one case; prints the seconds of one call, the least of several."""
    sys.path.insert(0, str(ROOT))
    if off is not None:
        switch_off(off)
    from swmodel.runtime import launch

    devices = 2 if case == "transform" else None
    process = launch.configure_process("float32", "sharded" if devices else "serial", devices)
    call = CASES[case](cells, process.communicator)
    call()  # compiles
    since, calls, least = time.perf_counter(), 0, float("inf")
    while calls < 3 or time.perf_counter() - since < SECONDS:
        begun = time.perf_counter()
        call()
        least, calls = min(least, time.perf_counter() - begun), calls + 1
    print(least)


def _basin(cells, communicator="serial", periodic="", **options):
    import numpy as np

    import swmodel as sw

    side = 5e3 * cells
    grid = sw.CartesianGrid(cells, cells, (0.0, side), (0.0, side), periodic)
    physics = {"coriolis": sw.FPlane(1e-4), "dissipation": sw.Laplacian(100.0), "dtype": "float32"}
    model = sw.ShallowWater(grid, 3000.0, communicator=communicator, **physics, **options)
    middle = side / 2
    return model, model.state(eta=lambda x, y: np.exp(-((x - middle) ** 2 + (y - middle) ** 2) / (side / 20) ** 2))


def _steps(model, state, stepper, steps=40):
    import jax

    import swmodel as sw

    dynamics = model.dynamics(stepper)
    program = jax.jit(sw.integrate, static_argnums=3)

    return lambda: jax.block_until_ready(program(dynamics, stepper, state, steps))


def _periodic(cells, communicator):
    """Steps whose ghosts are filled as those between tiles are; in a basin with walls alone none are."""
    import swmodel as sw

    return _steps(*_basin(cells, periodic="xy"), sw.AB2(4.0))


def _open(cells, communicator):
    import swmodel as sw

    return _steps(*_basin(cells, boundaries=sw.Flather()), sw.ForwardBackward(4.0))


def _multigrid(cells, communicator):
    """Semi-implicit steps, whose conjugate gradients have multigrid as their preconditioner."""
    import swmodel as sw
    from swmodel import elliptic

    solver = elliptic.ConjugateGradients(elliptic.Multigrid(), tolerance=1e-6)
    return _steps(*_basin(cells), sw.SemiImplicit(60.0, solver=solver), 4)


def _maxima_open(cells, communicator):
    """Steps of which each is read by a monitor, with open sides: conditions there change the arrays once more."""
    import swmodel as sw

    simulation = sw.Simulation(*_basin(cells, boundaries=sw.Flather()), sw.ForwardBackward(4.0))
    folder = tempfile.TemporaryDirectory()
    simulation.maxima(Path(folder.name) / "maxima.nc")

    def call(kept=folder):  # removed with the function
        return simulation.run(steps=200)

    return call


def _gradient(cells, communicator):
    import swmodel as sw

    return _gradient_by(cells, sw.AB2(4.0), 40)


def _gradient_rotating(cells, communicator):
    """Of forward-backward steps, each of which overwrites the oldest of three values of each variable."""
    import swmodel as sw

    return _gradient_by(cells, sw.ForwardBackward(4.0), 60)


def _gradient_by(cells, stepper, steps):
    import jax.numpy as jnp

    from swmodel import adjoint

    model, state = _basin(cells)
    cost = adjoint.FinalState(lambda final, equations: jnp.sum(final.eta**2))
    problem = adjoint.Problem(model, stepper, state, steps, cost, ["initial.eta"])
    return lambda: problem.value_and_gradient(problem.values)


def _transform(cells, communicator):
    import jax
    import jax.numpy as jnp

    from swmodel.parallel import fft, make_communicator

    ranks = make_communicator(communicator, (cells, cells))
    plan = fft.Plan(ranks, (cells, cells))
    x = ranks.place(lambda rank: jnp.ones(ranks.tile_shape((cells, cells)), jnp.float32))
    program = jax.jit(ranks.spmd(lambda x: plan.inverse(plan.forward(x))))
    return lambda: jax.block_until_ready(program(x))


CASES = {
    "periodic": _periodic,
    "open": _open,
    "gradient": _gradient,
    "gradient_rotating": _gradient_rotating,
    "multigrid": _multigrid,
    "maxima_open": _maxima_open,
    "transform": _transform,
}


def timed(case, cells, off):
    """The worker's seconds, in a process of its own."""
    program = [sys.executable, __file__, "--worker", json.dumps([case, cells, off])]
    done = subprocess.run(program, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"the case {case!r} without {off} failed:\n{done.stderr}")
    return float(done.stdout.split()[-1])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", metavar="PART", help=", ".join(PARTS))
    parser.add_argument("--repeats", type=int, default=5, help="pairs of processes (default: 5)")
    parser.add_argument("--cells", type=int, default=512, help="of the grid along each axis (default: 512)")
    parser.add_argument("--worker", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.worker:
        return worker(*json.loads(arguments.worker))
    if unknown := [part for part in arguments.parts if part not in PARTS]:
        parser.error(f"no part is called {unknown[0]!r}; there are {', '.join(PARTS)}")
    for part in arguments.parts or PARTS:
        case, off = PARTS[part]
        pairs = [[timed(case, arguments.cells, switch) for switch in (None, off)] for _ in range(arguments.repeats)]
        print(
            f"{part}_with={min(w for w, _ in pairs):.4g}",
            f"{part}_without={min(o for _, o in pairs):.4g}",
            f"{part}_gain={statistics.median(o / w for w, o in pairs):.3g}",
            flush=True,
        )


if __name__ == "__main__":
    main()
