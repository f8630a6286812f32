"""What a second layer costs, and what surfaces over two layers that do not set the step cost and gain."""

import statistics
from functools import partial

from figures.semi_implicit import SCHEMES, runs
from harness import ratio

NAMES = ("layers_2_vs_1", "layers_implicit_cost", "layers_implicit_gain", "split_cost", "split_gain")
SIZE = (1800, 1200)


def measure(bench):
    start = partial(bench.steps, size=SIZE, stepper="forward_backward")
    times = bench.timed(
        "layers", {"one": partial(start, "one layer"), "two": partial(start, "two layers", term="layer")}
    )
    bench.figure("layers_2_vs_1", ratio(times["two"], times["one"]), at_most=2.3, size=SIZE)
    times, info, _ = runs(bench, "layers", (*SCHEMES, "split_explicit"))  # a step is a day
    each = {name: statistics.median(times[name]) * info[name]["dt"] for name in times}
    steps = " and ".join(f"{info[name]['dt']:.1f} s" for name in times)
    bench.say(f"    two layers of a double gyre, steps of {steps} with an explicit or implicit surface, or substeps")
    for scheme, name in (("semi_implicit", "layers_implicit"), ("split_explicit", "split")):
        bench.figure(f"{name}_cost", each[scheme] / each["explicit"], at_most=3.0, each=info)
        bench.figure(f"{name}_gain", ratio(times["explicit"], times[scheme]), at_least=5.0, each=info)
