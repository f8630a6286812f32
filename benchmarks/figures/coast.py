"""A step over a coast against C by hand, and against a step of the ocean on the same cells, in both precisions; what a
gradient through moving shores costs over the forward run; and whether both steps gain as much from several ranks."""

from functools import partial

from harness import NotMeasured, ratio

from swmodel.performance.timing import BETA, F0, TIME_STEP

PRECISIONS = ("float32", "float64")
STEPPERS = {"": ("ssprk3", "ssprk3"), "_one_stage": ("forward_backward_hancock", "forward_backward")}  # coast, ocean
NAMES = (
    "coast_vs_c",
    *(f"coast_vs_ocean{stages}{suffix}" for stages in STEPPERS for suffix in ("", "_float64")),
    *(f"coast_gradient_vs_forward{stages}" for stages in STEPPERS),
    *(f"coast_{kind}_scaling_{ranks}" for kind in ("strong", "weak") for ranks in (2, 4)),
)
SIZE = (1000, 1000)
GRAVITY, SPACING, ROUGHNESS, THIN = 9.81, 200.0, 0.025, 1e-3  # of `beach` in cases.py
TILE = (500, 500)  # of weak scaling
GRADIENT_SIZE, STEPS, MOST_OF_GRADIENT = (500, 500), 20, 5.0


def measure(bench):
    try:
        _against_c(bench)
    except NotMeasured as why:
        bench.missing("coast_vs_c", why)
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
            bench.figure(f"coast_vs_ocean{stages}{suffix}", value, size=SIZE)
    for stages, (stepper, _) in STEPPERS.items():
        _gradient(bench, f"coast_gradient_vs_forward{stages}", stepper)
    for ranks in (2, 4):
        _scaling(bench, f"coast_strong_scaling_{ranks}", ranks, SIZE, SIZE)
        _scaling(bench, f"coast_weak_scaling_{ranks}", ranks, TILE, (2 * TILE[0], ranks // 2 * TILE[1]))


def _against_c(bench):
    """ForwardBackwardHancock against coast.c, which has no other form of it."""
    program, bench.workers["compiler"] = bench.native("coast")
    physics = map(repr, (SPACING, SPACING, GRAVITY, F0, BETA, ROUGHNESS, THIN, TIME_STEP))
    options, tail = {"coastal": True, "stepper": "forward_backward_hancock"}, tuple(physics)

    def command(size, state):
        return [program, *size, *tail, state, len(bench.cores)]

    bench.check_native("coast", command, tolerance=1e-4, **options)
    state = bench.folder / "coast.bin"
    sides = {
        "swmodel": partial(bench.steps, "coast", size=SIZE, save=str(state), **options),
        "C": lambda: bench.start("C", command(SIZE, state)),
    }
    times = bench.timed("coast in C", sides)
    bench.figure("coast_vs_c", ratio(times["C"], times["swmodel"]), at_least=0.9, size=SIZE)


def _scaling(bench, name, ranks, alone, shared):
    """What a coastal step gains from ranks over what a step of the ocean gains; 1 is the same gain.

    Args:
        bench: the Bench.
        name: of the figure.
        ranks: how many.
        alone: the cells (nx, ny) of one process, with as many threads as there are cores.
        shared: those of all ranks together.
    """
    sides = {}
    for side, stepper in zip(("coast", "ocean"), STEPPERS["_one_stage"]):
        for count, size in ((1, alone), (ranks, shared)):
            options = {"size": size, "ranks": count, "coastal": side == "coast", "stepper": stepper}
            sides[f"{side} {count}"] = partial(bench.steps, f"{side} on {count}", **options)
    times = bench.timed(name, sides)
    gains = [ratio(times[f"{side} 1"], times[f"{side} {ranks}"]) for side in ("coast", "ocean")]
    bench.figure(name, gains[0] / gains[1], gains=gains, ranks=ranks, cells=shared, cores=bench.cores)


def _gradient(bench, name, stepper):
    """Of the sum of the squared levels at the end by those at the start, all states stored."""

    def side(what):
        options = {"size": GRADIENT_SIZE, "steps": STEPS, "what": what, "coastal": True, "stepper": stepper}
        return bench.start(f"coast {what}", bench.python("adjoint_worker.py", kind="time", **options))

    times = bench.timed(f"coast gradient {stepper}", {what: partial(side, what) for what in ("forward", "gradient")})
    value = ratio(times["gradient"], times["forward"])
    bench.figure(name, value, at_most=MOST_OF_GRADIENT, size=GRADIENT_SIZE, steps=STEPS)
