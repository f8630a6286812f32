"""What each drag costs, in both precisions, and what the fused loops gain over arrays, forwards and in a gradient."""

from functools import partial

from harness import ratio

PRECISIONS = ("float32", "float64")
ENGINES = ("fused", "arrays")
DRAGS = ("linear", "quadratic", "manning")
GRADIENT = {"kind": "time", "size": (720, 720), "steps": 20, "what": "gradient"}
NAMES = (
    *(f"drag_cost_{drag}_{precision}" for precision in PRECISIONS for drag in DRAGS),
    "fused_vs_arrays",
    "fused_vs_arrays_gradient",
)
SIZE = (1800, 1200)
MOST = 0.25  # of a step without the term


def measure(bench):
    for precision in PRECISIONS:
        start = partial(bench.steps, size=SIZE, precision=precision, stepper="forward_backward")
        starts = {drag: partial(start, f"{drag} {precision}", drag=drag) for drag in DRAGS}
        times = bench.timed(f"drags {precision}", {"none": partial(start, f"no drag {precision}"), **starts})
        for drag in DRAGS:
            cost = ratio(times[drag], times["none"]) - 1.0
            bench.figure(f"drag_cost_{drag}_{precision}", cost, at_most=MOST, size=SIZE)
    steps = {engine: partial(bench.steps, f"{engine} step", size=SIZE, engine=engine) for engine in ENGINES}
    times = bench.timed("engines", steps)
    bench.figure("fused_vs_arrays", ratio(times["arrays"], times["fused"]), size=SIZE)
    gradients = {
        engine: partial(bench.start, f"{engine} gradient", bench.python("adjoint_worker.py", engine=engine, **GRADIENT))
        for engine in ENGINES
    }
    times = bench.timed("gradients of engines", gradients)
    bench.figure("fused_vs_arrays_gradient", ratio(times["arrays"], times["fused"]), **GRADIENT)
