"""What a second layer costs, and what an implicit surface over two layers costs and gains."""

import statistics
from functools import partial

from figures.semi_implicit import runs
from harness import ratio

NAMES = ("layers_2_vs_1", "split_cost", "layers_implicit_gain")
SIZE = (1800, 1200)


def measure(bench):
    start = partial(bench.steps, size=SIZE, stepper="forward_backward")
    times = bench.timed(
        "layers", {"one": partial(start, "one layer"), "two": partial(start, "two layers", term="layer")}
    )
    bench.figure("layers_2_vs_1", ratio(times["two"], times["one"]), at_most=2.3, size=SIZE)
    times, info, _ = runs(bench, "layers")  # a step is a day
    each = {name: statistics.median(times[name]) * info[name]["dt"] for name in times}
    steps = " and ".join(f"{info[name]['dt']:.1f} s" for name in times)
    bench.say(f"    two layers of a double gyre, steps of {steps} with an explicit and an implicit surface")
    bench.figure("split_cost", each["semi_implicit"] / each["explicit"], at_most=3.0, each=info)
    bench.figure("layers_implicit_gain", ratio(times["explicit"], times["semi_implicit"]), at_least=5.0, each=info)
