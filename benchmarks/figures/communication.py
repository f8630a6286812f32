"""What a rank sends in a step, counted, and its share of the time; and the compilation of the full nonlinear step."""

import statistics

from harness import ratio

SIDES = (256, 512, 1024, 2048)  # of the grids on which two ranks exchange halos
NAMES = ("messages_per_step", "compile_seconds", *(f"exchange_share_{side}" for side in SIDES))
LAYOUT = (2, 2)


def measure(bench):
    with bench.start("compile", bench.python("worker.py", kind="compile", size=(360, 180))) as worker:
        times = [worker.run(1) for _ in range(bench.repeats)]
        bench.raw["compile"] = {"seconds": times, "first": worker.info["first"]}
        bench.figure("compile_seconds", max(statistics.median(times), worker.info["first"]), at_most=10, times=times)
    with bench.steps("layout 2x2", bench.small, ranks=LAYOUT[0] * LAYOUT[1], layout=LAYOUT) as worker:
        details = {key: worker.info[key] for key in ("messages", "bytes", "reductions", "layout")}
        total = details["messages"] + details["reductions"]
        bench.figure("messages_per_step", total, at_most=4, stepper="ab2", **details)
    for side in SIDES:
        exchange_share(bench, side)


def exchange_share(bench, side):
    """The time of a step's exchange over that of the step, on two ranks: the most that their overlap could gain."""
    options = {"size": (side, side), "communicator": "mpi"}
    command = [*bench.mpirun(2), *bench.python("worker.py", kind="exchange", **options)]
    with bench.steps(f"step {side}", (side, side), ranks=2) as step:
        with bench.start(f"exchange {side}", command, bench.environment(2)) as exchange:
            times = bench.interleave(f"exchange {side}", {"step": step, "exchange": exchange}, seconds=0.5)
    bench.figure(f"exchange_share_{side}", ratio(times["exchange"], times["step"]), ranks=2, stepper="ab2")
