"""A run with a nest over its grids alone, and its gradient over the run."""

import functools

from harness import ratio

NAMES = ("nest_overhead", "nest_gradient_vs_forward")
SIZE, RATIO, STEPS = (240, 240), 3, 18


def measure(bench):
    """The family, and each of its grids as a model of its own, which makes as many steps as in the family."""
    cases = {
        "run": {"what": "forward", "nested": "all"},
        "gradient": {"what": "gradient", "nested": "all"},
        "outer grid": {"what": "forward", "nested": ""},
        "nest": {"what": "forward", "nested": "nest", "steps": STEPS * RATIO},
    }
    starts = {}
    for name, options in cases.items():
        given = {"kind": "time", "size": SIZE, "ratio": RATIO, "steps": STEPS} | options
        command = bench.python("adjoint_worker.py", **given)
        starts[name] = functools.partial(bench.start, f"nests {name}", command)
    times = bench.timed("nests", starts)
    alone = [outer + RATIO * nest for outer, nest in zip(times["outer grid"], times["nest"], strict=True)]
    details = {"size": SIZE, "ratio": RATIO, "steps": STEPS, "precision": "float32", "stepper": "ForwardBackward"}
    bench.figure("nest_overhead", ratio(times["run"], alone), at_most=1.25, **details)
    bench.figure("nest_gradient_vs_forward", ratio(times["gradient"], times["run"]), at_most=6.0, **details)
