"""What a second layer costs: a step of two layers over one of one."""

from functools import partial

from harness import ratio

NAMES = ("layers_2_vs_1",)
SIZE = (1800, 1200)


def measure(bench):
    start = partial(bench.steps, size=SIZE, stepper="forward_backward")
    times = bench.timed(
        "layers", {"one": partial(start, "one layer"), "two": partial(start, "two layers", term="layer")}
    )
    bench.figure("layers_2_vs_1", ratio(times["two"], times["one"]), at_most=2.3, size=SIZE)
