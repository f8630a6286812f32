"""The step on a GPU against the bandwidth of a copy there."""

import statistics

from harness import NotMeasured, ratio

from swmodel.performance.timing import batch_of

NAMES = ("gpu_fraction_of_copy_bandwidth",)
SIZE = (8192, 8192)
BYTES = 12 * 4  # as in step.py
COPY_CELLS = 1 << 28


def measure(bench):
    environment = bench.environment(JAX_PLATFORMS="cuda", XLA_PYTHON_CLIENT_PREALLOCATE="false")
    with bench.together() as workers:
        copy = bench.python("worker.py", kind="copy", cells=COPY_CELLS)
        try:
            workers["copy"] = bench.start("copy on GPU", copy, environment)
        except NotMeasured as why:
            raise NotMeasured("JAX finds no GPU here") from why
        options = {"kind": "step", "size": SIZE, "batch": batch_of(SIZE[0] * SIZE[1])}
        workers["step"] = bench.start("step on GPU", bench.python("worker.py", **options), environment)
        times = bench.interleave("gpu", workers)
    cells = SIZE[0] * SIZE[1]
    share = ratio(times["copy"], times["step"]) * (BYTES * cells) / (8.0 * COPY_CELLS)
    details = {"device": workers["copy"].info["device"], "size": SIZE, "precision": "float32"}
    details["copy_bytes_per_second"] = 8.0 * COPY_CELLS / statistics.median(times["copy"])
    details["million_cell_steps_per_second"] = cells / statistics.median(times["step"]) / 1e6
    bench.figure(NAMES[0], share, at_least=0.5, **details)
