"""What terms cost in both precisions, and what the fused loops gain over arrays, forwards and in a gradient."""

from functools import partial

from harness import ratio

PRECISIONS = ("float32", "float64")
ENGINES = ("fused", "arrays")
DRAGS = ("linear", "quadratic", "manning")
TERMS = ("biharmonic", "flather", "sponge", "wind")
KINDS = {"drag_cost": DRAGS, "term_cost": TERMS}
GRADIENT = {"kind": "time", "size": (720, 720), "steps": 20, "what": "gradient"}
NAMES = (
    *(f"{kind}_{term}_{precision}" for precision in PRECISIONS for kind, terms in KINDS.items() for term in terms),
    "fused_vs_arrays",
    "fused_vs_arrays_gradient",
)
SIZE = (1800, 1200)
MOST = 0.25  # of a step without the term


def measure(bench):
    for precision in PRECISIONS:
        start = partial(bench.steps, size=SIZE, precision=precision, stepper="forward_backward")
        for kind, terms in KINDS.items():
            starts = {term: partial(start, f"{term} {precision}", term=term) for term in terms}
            times = bench.timed(f"{kind} {precision}", {"none": partial(start, f"no term {precision}"), **starts})
            for term in terms:
                cost = ratio(times[term], times["none"]) - 1.0
                bench.figure(f"{kind}_{term}_{precision}", cost, at_most=MOST, size=SIZE)
    steps = {engine: partial(bench.steps, f"{engine} step", size=SIZE, engine=engine) for engine in ENGINES}
    times = bench.timed("engines", steps)
    bench.figure("fused_vs_arrays", ratio(times["arrays"], times["fused"]), size=SIZE)
    gradients = {
        engine: partial(bench.start, f"{engine} gradient", bench.python("adjoint_worker.py", engine=engine, **GRADIENT))
        for engine in ENGINES
    }
    times = bench.timed("gradients of engines", gradients)
    bench.figure("fused_vs_arrays_gradient", ratio(times["arrays"], times["fused"]), **GRADIENT)
