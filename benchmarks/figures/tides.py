"""What tides at open sides and means cost a step, and what the gradient of five days of a shelf tide costs."""

from functools import partial

from harness import ratio

NAMES = ("harmonic_forcing_cost", "means_cost", "means_cost_each_step", "shelf_gradient_cost")
SIZE = (1800, 1200)
MOST = 0.1  # of a step
HOURLY = 3600.0  # [s]
FEW = 3  # timings of five days, and of their gradient, which take seconds
CASES = {
    "none": {"tide": 0},
    "tide": {"tide": 4},
    "means": {"tide": 0, "means": HOURLY},
    "means of each step": {"tide": 0, "means": None},
}


def measure(bench):
    worker = partial(bench.python, "tides_worker.py")
    command = partial(worker, kind="step", size=SIZE)
    starts = {name: partial(bench.start, name, command(**options)) for name, options in CASES.items()}
    times = bench.timed("tides", starts)
    for name, case, most in (
        ("harmonic_forcing_cost", "tide", MOST),
        ("means_cost", "means", MOST),
        ("means_cost_each_step", "means of each step", None),
    ):
        bench.figure(name, ratio(times[case], times["none"]) - 1.0, at_most=most, size=SIZE, **CASES[case])
    shelf = {
        what: partial(bench.start, f"shelf {what}", worker(kind="shelf", what=what)) for what in ("forward", "gradient")
    }
    repeats, bench.repeats = bench.repeats, min(bench.repeats, FEW)
    try:
        times = bench.timed("shelf", shelf)
    finally:
        bench.repeats = repeats
    bench.figure("shelf_gradient_cost", ratio(times["gradient"], times["forward"]), at_most=4.5)
