"""What a step over a coast costs over a step of the ocean on the same cells, in both precisions, and what a gradient
through moving shores costs over the forward run."""

from functools import partial

from harness import ratio

PRECISIONS = ("float32", "float64")
NAMES = (*(f"coast_vs_ocean{suffix}" for suffix in ("", "_float64")), "coast_gradient_vs_forward")
SIZE = (1000, 1000)
MOST = 1.6
GRADIENT_SIZE, STEPS, MOST_OF_GRADIENT = (500, 500), 20, 5.0


def measure(bench):
    for name, precision in zip(NAMES, PRECISIONS):
        start = partial(bench.steps, size=SIZE, precision=precision)
        sides = {side: partial(start, f"{side} {precision}", coastal=side == "coast") for side in ("coast", "ocean")}
        times = bench.timed(f"coast {precision}", sides)
        bench.figure(name, ratio(times["coast"], times["ocean"]), at_most=MOST, size=SIZE)
    _gradient(bench)


def _gradient(bench):
    """Of the sum of the squared levels at the end by those at the start, all states stored."""

    def side(what):
        options = {"size": GRADIENT_SIZE, "steps": STEPS, "what": what, "coastal": True}
        return bench.start(f"coast {what}", bench.python("adjoint_worker.py", kind="time", **options))

    times = bench.timed("coast gradient", {what: partial(side, what) for what in ("forward", "gradient")})
    value = ratio(times["gradient"], times["forward"])
    bench.figure("coast_gradient_vs_forward", value, at_most=MOST_OF_GRADIENT, size=GRADIENT_SIZE, steps=STEPS)
