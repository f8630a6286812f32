"""The step against the peer's demo, against C by hand, and against the memory's bandwidth; in both precisions."""

import statistics
from functools import partial

import demo
from harness import NotMeasured, ratio

from swmodel.performance.prediction import last_cache
from swmodel.performance.timing import BETA, F0, SPACING, TIME_STEP, VISCOSITY

NAMES = (
    "step_vs_demo",
    "step_vs_c",
    "temporal_blocking_in_c",
    "step_fraction_of_bandwidth",
    "c_fraction_of_bandwidth",
    "float64_vs_float32",
    "forward_backward_vs_ab2",
    "run_vs_step",
    "ssprk3_vs_ab2",
    "rk4_vs_ab2",
    "memory_arrays",
)
BYTES = 12 * 4  # a cell and step of AB2: three prognostics and three tendencies, each read and written once
DEMOS = {
    "demo, 1 rank": (1, False),
    "demo, 1 rank bound": (1, True),
    "demo, 2 ranks": (2, False),
    "demo, 2 ranks bound": (2, True),
}
STAGES = {"ssprk3": 3, "rk4": 4}  # whose figures are for a stage: the scheme's cells a second times its stages
GRAVITY, EPSILON = 9.81, 0.1


def measure(bench):
    nx, ny = bench.size
    cells = nx * ny
    with bench.together() as workers:
        _start(bench, workers)
        times = bench.interleave("step", workers)
    ours = times["swmodel"]
    rates = {name: cells / statistics.median(t) / 1e6 for name, t in times.items() if name != "triad"}
    sizes = {"size": bench.size, "precision": "float32", "million_cell_steps_per_second": rates}
    demos = {name: times[name] for name in DEMOS if name in times}
    if demos:
        best = min(demos, key=lambda name: statistics.median(demos[name]))
        bench.figure("step_vs_demo", ratio(demos[best], ours), at_least=4, best=best, **sizes)
    if "C" in times:
        bench.figure("step_vs_c", ratio(times["C"], ours), at_least=1, **sizes)
        bench.figure("temporal_blocking_in_c", ratio(times["C"], times["C, wavefront"]), **sizes)
    if "triad" in times:
        bandwidth = 12.0 * _triad_cells() / min(times["triad"])
        details = {"bytes_per_cell": BYTES, "triad_bytes_per_second": bandwidth}
        for name, side, least in (("step", "swmodel", 0.25), ("c", "C", 0.25)):
            if side in times:
                value = BYTES * cells / statistics.median(times[side]) / bandwidth
                bench.figure(f"{name}_fraction_of_bandwidth", value, at_least=least, **details)
    bench.figure("float64_vs_float32", ratio(ours, times["float64"]), at_least=0.5, **sizes)
    bench.figure("forward_backward_vs_ab2", ratio(ours, times["forward_backward"]), at_least=0.9, **sizes)
    bench.figure("run_vs_step", ratio(ours, times["run"]), at_least=0.95, **sizes)
    for name, stages in STAGES.items():
        bench.figure(f"{name}_vs_ab2", stages * ratio(ours, times[name]), stages=stages, **sizes)
    bench.figure("memory_arrays", workers["swmodel"].info["memory_arrays"], at_most=16, size=bench.size)


def _start(bench, workers):
    """Start what can be had; what cannot leaves its figures with the reason."""
    state = bench.folder / "state.bin"
    workers["swmodel"] = bench.steps("swmodel", save=str(state))
    workers["float64"] = bench.steps("float64", precision="float64")
    workers["forward_backward"] = bench.steps("forward-backward", stepper="forward_backward")
    workers["run"] = bench.steps("run", simulation=True)
    for name in STAGES:
        workers[name] = bench.steps(name, stepper=name)
    try:
        for wavefront in (False, True):
            bench.check_native("swmodel", partial(c_command, bench, wavefront=wavefront))
        workers["C"] = bench.start("C", c_command(bench, bench.size, state))
        workers["C, wavefront"] = bench.start("C, wavefront", c_command(bench, bench.size, state, wavefront=True))
    except NotMeasured as why:
        bench.missing("step_vs_c", why)
        bench.missing("temporal_blocking_in_c", why)
        bench.missing("c_fraction_of_bandwidth", why)
    try:
        program, _ = bench.native("triad")
        workers["triad"] = bench.start("triad", [program, _triad_cells()])
    except NotMeasured as why:
        bench.missing("step_fraction_of_bandwidth", why)
    try:
        source = demo.fetch(bench.folder / "peer")
        for name, (ranks, bound) in DEMOS.items():
            program = bench.python("demo.py", source=str(source), size=bench.size, batch=4)
            workers[name] = bench.start(name, [*bench.mpirun(ranks, bound), *program], bench.environment(ranks))
    except (NotMeasured, OSError, ValueError) as why:
        bench.missing("step_vs_demo", why)


def _triad_cells():
    return 4 * last_cache() // 4


def c_command(bench, size, state, wavefront=False):
    """The yardstick's command line, for the basin and time step that swmodel's side has.

    With `wavefront` it makes as many steps in one sweep over the rows as there are threads.
    """
    program, compiled = bench.native("shallow_water")
    bench.workers["compiler"] = compiled
    physics = (SPACING, SPACING, GRAVITY, F0, BETA, VISCOSITY, TIME_STEP, EPSILON)
    return [program, *size, *map(repr, physics), state, len(bench.cores), int(wavefront)]
