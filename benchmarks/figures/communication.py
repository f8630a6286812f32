"""What a rank sends in a step, counted; and how long the full nonlinear step takes to compile."""

import statistics

NAMES = ("messages_per_step", "compile_seconds")
LAYOUT = (2, 2)


def measure(bench):
    with bench.start("compile", bench.python("worker.py", kind="compile", size=(360, 180))) as worker:
        times = [worker.run(1) for _ in range(bench.repeats)]
        bench.raw["compile"] = {"seconds": times, "first": worker.info["first"]}
        bench.figure("compile_seconds", max(statistics.median(times), worker.info["first"]), at_most=10, times=times)
    with bench.steps("layout 2x2", bench.small, ranks=LAYOUT[0] * LAYOUT[1], layout=LAYOUT) as worker:
        told = {key: worker.info[key] for key in ("messages", "bytes", "reductions", "layout")}
        bench.figure("messages_per_step", told["messages"] + told["reductions"], at_most=4, stepper="ab2", **told)
