"""Solvers: a Poisson equation against its two transforms, and preconditioners over the Tohoku basin."""

import statistics

from harness import ratio

NAMES = ("poisson_1024", "poisson_1024_backward_error", "pcg_iterations", "pcg_seconds_vs_diagonal")
PERIODIC = {"periodic": "xy", "walls": ""}
PRECONDITIONERS = ("Diagonal", "FastPoisson", "Multigrid")


def measure(bench):
    each, errors = {}, {}
    for name, periodic in PERIODIC.items():
        options = {"kind": "poisson", "shape": (1024, 1024), "periodic": periodic}
        with bench.together() as workers:
            for what in ("solve", "transforms"):
                workers[what] = bench.start(f"{what} {name}", bench.python("spectral_worker.py", what=what, **options))
            times = bench.interleave(f"poisson, {name}", workers)
            each[name] = ratio(times["solve"], times["transforms"])
            errors |= {f"{name}, {b}": error for b, error in workers["solve"].info["errors"].items()}
    bench.figure("poisson_1024", max(each.values()), at_most=1.5, each=each)
    bench.figure("poisson_1024_backward_error", max(errors.values()), at_most=1e-14, each=errors)
    _tohoku(bench)


def _tohoku(bench):
    with bench.together() as workers:
        for name in PRECONDITIONERS:
            command = bench.python("spectral_worker.py", kind="pcg", preconditioner=name)
            workers[name] = bench.start(f"pcg {name}", command)
        times = bench.interleave("pcg", workers)
        iterations = {name: worker.info["iterations"] for name, worker in workers.items()}
    for name, count in iterations.items():
        bench.say(f"    {name:12s} {count:4d} iterations, {1e3 * statistics.median(times[name]):8.1f} ms")
    best = min((n for n in PRECONDITIONERS if n != "Diagonal"), key=lambda n: statistics.median(times[n]))
    bench.figure("pcg_iterations", iterations[best], at_most=30, each=iterations, best=best)
    bench.figure("pcg_seconds_vs_diagonal", ratio(times[best], times["Diagonal"]), at_most=0.7, best=best)
