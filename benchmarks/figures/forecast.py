"""Forecasts of Tohoku: a bank of 16 points on 5 arc-minutes, an update by three buoys, 10,000 scenarios of a hazard."""

import resource
import statistics
import subprocess
import sys
import time

from harness import ROOT, NotMeasured

EXPERIMENT = ROOT / "experiments" / "tohoku_2011"
MORE = {f"P{k}": (146.0 + 2.0 * k, 34.0 + 1.5 * k) for k in range(7)}  # beside the nine points of forecast.toml
HAZARD = {"points": 50, "scenarios": 10_000}
NAMES = ("forecast_bank_minutes", "forecast_update_seconds", "forecast_hazard_seconds")


def measure(bench):
    path, minutes, processor = make_bank(bench)
    bench.figure("forecast_bank_minutes", minutes, at_most=4.0, processor_seconds=processor)
    from_bank(bench, path)


def make_bank(bench):
    """(the bank's file, minutes that the command `swmodel green` took, processor time of it [s])."""
    out, log, more = bench.folder / "forecast", bench.folder / "forecast.log", []
    for name, (x, y) in MORE.items():
        more += ["--set", f"output.gauges.positions.{name}=[{x},{y}]"]
    main, file = "from swmodel.__main__ import main; main()", str(EXPERIMENT / "forecast.toml")
    command = [sys.executable, "-c", main, "green", file, "--overwrite", "--output", str(out), *more]
    begun, before = time.monotonic(), processor_time()
    with open(log, "w") as output:
        done = subprocess.run(command, cwd=ROOT, env=bench.environment(), stdout=output, stderr=output)
    if done.returncode:
        raise NotMeasured(f"the bank ended with status {done.returncode} (see {log})")
    return out / "bank.nc", (time.monotonic() - begun) / 60, processor_time() - before


def processor_time():
    """Of all programs that have ended, in user and system mode [s]."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def from_bank(bench, path):
    """The figures that follow from the bank; an update is the median of `repeats` after a first one."""
    given = bench.python("forecast_worker.py", bank=str(path), records=str(EXPERIMENT / "records"))
    with bench.start("forecast worker", given, bench.environment(OPENBLAS_NUM_THREADS="1")) as worker:
        _, *seconds = (float(worker.ask("update", "took")) for _ in range(1 + bench.repeats))
        bench.raw["forecast_update"] = seconds
        bench.figure("forecast_update_seconds", statistics.median(seconds), at_most=1.0, **worker.info)
        took = float(worker.ask(" ".join(map(str, ("hazard", *HAZARD.values()))), "took"))
    bench.figure("forecast_hazard_seconds", took, at_most=60.0, **HAZARD)
