"""Time this checkout and another one alternately, to measure the cost of a change.

    git worktree add ../before COMMIT && python benchmarks/paired.py ../before [--repeats 9] [--size 1800x1200]

The workers of each checkout run in one session, alternately. A figure is the time here over the time there: the median
of the ratios, with the quartiles in the lines before. Both checkouts use this environment's libraries.
"""

import argparse
import os
import statistics
import sys
from pathlib import Path

from harness import ROOT, Bench, ratio
from run import first_threads, shape

GRADIENT = {"kind": "time", "size": (720, 720), "steps": 40, "what": "gradient"}


def workers_of(bench: Bench, checkout: Path, size: tuple[int, int]) -> dict:
    """{name of a figure: Worker} of one checkout: two steppers, one gradient, and the step on two ranks."""

    def start(name, script, ranks=1, **options):
        command = bench.python(script, **options)
        command[1] = checkout / "benchmarks" / script
        launcher = bench.mpirun(ranks) if ranks > 1 else []
        return bench.start(f"{name} in {checkout.name}", [*launcher, *command], bench.environment(ranks))

    return {
        "step": start("step", "worker.py", kind="step", size=size),
        "forward_backward": start("fb", "worker.py", kind="step", size=size, stepper="forward_backward"),
        "gradient": start("gradient", "adjoint_worker.py", **GRADIENT),
        "ranks_2": start("ranks 2", "worker.py", 2, kind="step", size=size, communicator="mpi"),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("other", type=Path, help="the other checkout of swmodel")
    parser.add_argument("--repeats", type=int, default=9, help="timings of each side")
    parser.add_argument("--size", type=shape, default=(1800, 1200), help="columns x rows of the step")
    arguments = parser.parse_args()
    other = arguments.other.resolve()
    if not (other / "benchmarks" / "worker.py").is_file():
        sys.exit(f"paired: {arguments.other} is no checkout of swmodel: it has no benchmarks/worker.py")
    cores = first_threads()[:2]
    os.sched_setaffinity(0, cores)
    bench = Bench(arguments.size, arguments.size, arguments.repeats, cores, ROOT / "output" / "bench")
    sides = {}
    try:
        for side, checkout in (("here", ROOT), ("there", other)):
            sides[side] = workers_of(bench, checkout, arguments.size)
        for name in sides["here"]:
            times = bench.interleave(name, {side: workers[name] for side, workers in sides.items()})
            each = sorted(a / b for a, b in zip(times["here"], times["there"], strict=True))
            quartiles = statistics.quantiles(each, n=4)
            bench.say(f"    {name}: quartiles {quartiles[0]:.3f} to {quartiles[2]:.3f}")
            bench.figure(f"{name}_here_vs_there", ratio(times["here"], times["there"]), at_most=1.03)
    finally:
        for worker in (worker for workers in sides.values() for worker in workers.values()):
            worker.stop()
    for figure in bench.figures.values():
        print(figure)


if __name__ == "__main__":
    main()
