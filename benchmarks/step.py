"""How fast a step is, by stepper, and how long it takes to compile; all in one interleaved run.

    python benchmarks/step.py [--cells 720] [--steps 40] [--repeats 5]

Prints a table, writes bench.json into the current folder, and ends with one `name=value` a line.
"""
import argparse
import json
import statistics
import time

import jax
import numpy as np

import swmodel as sw
from swmodel.compilation import compiler_options
from swmodel.version import versions

STEPPERS = {"ab2": sw.AB2, "ab3": sw.AB3, "ssprk3": sw.SSPRK3, "rk4": sw.RK4, "forward_backward": sw.ForwardBackward}


def program(stepper, cells, steps, options):
    """(seconds to compile, a function that runs `steps` steps and waits)."""
    length = 5000.0 * cells
    grid = sw.CartesianGrid(cells, cells, (0.0, length), (0.0, length))
    model = sw.ShallowWater(
        grid, 4000.0, coriolis=sw.BetaPlane(1e-4, 2e-11), dissipation=sw.Laplacian(10.0), dtype="float32"
    )
    state = model.state(eta=lambda x, y: np.cos(7 * np.pi * x / length) * np.cos(3 * np.pi * y / length))
    dynamics = model.dynamics(model.halo(stepper))
    begin = time.perf_counter()
    compiled = jax.jit(sw.integrate, static_argnums=3, compiler_options=options)
    compiled = compiled.lower(dynamics, stepper, state, steps).compile()
    seconds = time.perf_counter() - begin
    return seconds, lambda: jax.block_until_ready(compiled(dynamics, stepper, state))


def timed(run):
    begin = time.perf_counter()
    run()
    return time.perf_counter() - begin


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cells", type=int, default=720, help="cells along each side")
    parser.add_argument("--steps", type=int, default=40, help="steps of one timing")
    parser.add_argument("--repeats", type=int, default=5, help="timings of each program, in turn")
    asked = parser.parse_args()
    programs = {name: program(kind(1.0), asked.cells, asked.steps, compiler_options()) for name, kind in STEPPERS.items()}
    raw = {name: [] for name in programs}
    for repeat in range(asked.repeats + 1):
        for name, (_, run) in programs.items():
            seconds = timed(run)
            if repeat:  # the first warms up
                raw[name].append(seconds)
    work = asked.cells**2 * asked.steps / 1e6
    rates = {name: work / statistics.median(times) for name, times in raw.items()}
    print(f"{asked.cells} x {asked.cells} cells, float32, {jax.devices()[0].platform}")
    for name, rate in rates.items():
        print(f"{name:20s} {rate:8.1f} million cell-steps a second, compiled in {programs[name][0]:.1f} s")
    ratio = statistics.median(ab2 / other for ab2, other in zip(raw["ab2"], raw["forward_backward"]))
    with open("bench.json", "w") as file:
        json.dump({"asked": vars(asked), "seconds": raw, "versions": versions()}, file, indent=1)
    print(f"forward_backward_vs_ab2={ratio:.2f}")
    print(f"compile_seconds={programs['ab2'][0]:.2f}")


if __name__ == "__main__":
    main()
