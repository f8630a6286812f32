"""What a step over a coast costs over a step of the ocean on the same cells, in both precisions, and what a gradient
through moving shores costs over the forward run."""

from functools import partial

from harness import ratio

PRECISIONS = ("float32", "float64")
STEPPERS = {"": ("ssprk3", "ssprk3"), "_one_stage": ("forward_backward_hancock", "forward_backward")}  # coast, ocean
NAMES = (
    *(f"coast_vs_ocean{stages}{suffix}" for stages in STEPPERS for suffix in ("", "_float64")),
    *(f"coast_gradient_vs_forward{stages}" for stages in STEPPERS),
)
SIZE = (1000, 1000)
MOST = 1.6
GRADIENT_SIZE, STEPS, MOST_OF_GRADIENT = (500, 500), 20, 5.0


def measure(bench):
    for stages, pair in STEPPERS.items():
        for suffix, precision in zip(("", "_float64"), PRECISIONS):
            sides = {
                side: partial(
                    bench.steps,
                    f"{side} {precision} {stepper}",
                    size=SIZE,
                    precision=precision,
                    coastal=side == "coast",
                    stepper=stepper,
                )
                for side, stepper in zip(("coast", "ocean"), pair)
            }
            times = bench.timed(f"coast {precision} {pair[0]}", sides)
            value = ratio(times["coast"], times["ocean"])
            bench.figure(f"coast_vs_ocean{stages}{suffix}", value, at_most=MOST, size=SIZE)
    for stages, (stepper, _) in STEPPERS.items():
        _gradient(bench, f"coast_gradient_vs_forward{stages}", stepper)


def _gradient(bench, name, stepper):
    """Of the sum of the squared levels at the end by those at the start, all states stored."""

    def side(what):
        options = {"size": GRADIENT_SIZE, "steps": STEPS, "what": what, "coastal": True, "stepper": stepper}
        return bench.start(f"coast {what}", bench.python("adjoint_worker.py", kind="time", **options))

    times = bench.timed(f"coast gradient {stepper}", {what: partial(side, what) for what in ("forward", "gradient")})
    value = ratio(times["gradient"], times["forward"])
    bench.figure(name, value, at_most=MOST_OF_GRADIENT, size=GRADIENT_SIZE, steps=STEPS)
