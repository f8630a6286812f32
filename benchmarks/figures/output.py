"""What output costs: the Tohoku experiment on two ranks with a snapshot each model minute, over the run without.

The time is that from the first step to the end of the command. As records fall on steps, `dt = "auto"` makes steps of
12 s in the place of 11.8 s for them (`output_overhead`); the other figures have the same dt on both sides.

Both cores are busy with steps, so that the processor time of a record is added to that of the run. The least that this
can be is `output_overhead_bare`: a program that only writes the same numbers by netCDF4 takes its processor time on the
core of the root. `output_overhead_uncompressed` and `output_overhead_bare_uncompressed` are without compression.
"""

import statistics
import time

import netCDF4
import numpy as np
from figures.start import AGAIN, folder_of_run, run_of_experiment
from harness import ratio

from swmodel.output.products.snapshots import has_zstd

NAMES = (
    "output_overhead",
    "output_overhead_same_dt",
    "output_overhead_uncompressed",
    "output_overhead_bare",
    "output_overhead_bare_uncompressed",
)
DT_OF_RECORDS = 12.0  # [s] that "auto" chooses for a record every minute
SAMPLE = 60  # records that a bare write repeats


def measure(bench):
    often, never = ["--set", "output.fields.0.every='1 minute'"], ["--set", "output.fields=[]"]
    sides = {
        "never": never,
        "never_same_dt": [*never, "--set", f"stepper.dt={DT_OF_RECORDS}"],
        "uncompressed": [*often, "--set", "output.fields.0.compression='none'"],
        "often": often,
    }
    run_of_experiment(bench, *often, "--until", "10min")  # compiles
    took = {side: [] for side in sides}
    for _ in range(AGAIN):
        for side, settings in sides.items():
            first, whole = run_of_experiment(bench, *settings)
            took[side].append(whole - first)
    bench.figure("output_overhead", ratio(took["often"], took["never"]), at_most=1.10, **took)
    for name, side in (("same_dt", "often"), ("uncompressed", "uncompressed")):
        bench.figure(f"output_overhead_{name}", ratio(took[side], took["never_same_dt"]))
    steps = statistics.median(took["never_same_dt"])
    with netCDF4.Dataset(folder_of_run(bench) / "fields.nc") as file:  # that of the last run, which is compressed
        fields, count = records(file), file.dimensions["time"].size
    for name, compression in (("bare", "zstd" if has_zstd() else "zlib"), ("bare_uncompressed", None)):
        each = min(bare_write(bench.folder / "bare.nc", fields, compression) for _ in range(AGAIN))
        bench.say(f"    {name}: {1e3 * each:.2f} ms of processor time a record, {1e3 * steps / count:.2f} ms of steps")
        bench.figure(f"output_overhead_{name}", 1.0 + count * each / steps, milliseconds_of_record=1e3 * each)


def records(file):
    """{name: (dimensions, shape of a chunk, values)} of the fields of a run's file, of its last SAMPLE records."""
    file.set_auto_maskandscale(False)
    fields = {name: x for name, x in file.variables.items() if x.ndim == 3 and x.dimensions[0] == "time"}
    first = max(0, file.dimensions["time"].size - SAMPLE)
    return {name: (x.dimensions, x.chunking(), np.asarray(x[first:])) for name, x in fields.items()}


def bare_write(path, fields, compression):
    """Seconds of processor time for each record of a file that holds these fields and nothing else.

    Each record is in the file before the next one comes, as in a run.
    """
    count = min(len(values) for _, _, values in fields.values())
    with netCDF4.Dataset(path, "w") as file:
        variables = []
        for name, (dimensions, chunks, values) in fields.items():
            for dimension, size in zip(dimensions, (None, *values.shape[1:])):
                if dimension not in file.dimensions:
                    file.createDimension(dimension, size)
            variable = file.createVariable(
                name,
                values.dtype,
                dimensions,
                chunksizes=chunks,
                fill_value=False,
                compression=compression,
                complevel=1,
            )
            variable.set_auto_maskandscale(False)
            variables.append((variable, values))
        begun = time.process_time()
        for k in range(count):
            for variable, values in variables:
                variable[k] = values[k]
            file.sync()
        return (time.process_time() - begun) / count
