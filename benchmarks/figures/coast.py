"""What a step over a coast costs over a step of the ocean on the same cells, in both precisions."""

from functools import partial

from harness import ratio

PRECISIONS = ("float32", "float64")
NAMES = tuple(f"coast_vs_ocean{suffix}" for suffix in ("", "_float64"))
SIZE = (1000, 1000)
MOST = 1.6


def measure(bench):
    for name, precision in zip(NAMES, PRECISIONS):
        start = partial(bench.steps, size=SIZE, precision=precision)
        sides = {side: partial(start, f"{side} {precision}", coastal=side == "coast") for side in ("coast", "ocean")}
        times = bench.timed(f"coast {precision}", sides)
        bench.figure(name, ratio(times["coast"], times["ocean"]), at_most=MOST, size=SIZE)
