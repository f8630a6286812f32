"""The prediction of `swmodel check --ranks N` for the time of a step, against runs of N ranks on this machine."""

import re
import subprocess
import sys

from harness import ROOT, NotMeasured, ratio

RANKS = (1, 2, 4)
NAMES = tuple(f"prediction_error_{ranks}" for ranks in RANKS)
EXPERIMENT = """\
[run]
until = "1 day"
[grid]
type = "cartesian"
nx = {nx}
ny = {ny}
x = [0, {x}]
y = [0, {y}]
[bathymetry]
type = "formula"
depth = "4000 + 1000 * cos(3 * pi * x / {x}) * cos(2 * pi * y / {y})"
[model]
precision = "float32"
[coriolis]
type = "beta_plane"
f0 = 1e-4
beta = 4e-12
[[dissipation]]
type = "laplacian"
viscosity = 1000
[initial]
type = "gaussian"
amplitude = 1
centre = [{x} / 3, {y} / 2]
radius = {x}
[stepper]
type = "ab2"
epsilon = 0.1
dt = 2
"""
CELLS = (4, 9)  # the large case's, divided: a share of it that 4 ranks on 2 cores step a hundred times in a second


def measure(bench):
    nx, ny = (max(n * CELLS[0] // CELLS[1], 8) for n in bench.size)
    file = bench.folder / "prediction.toml"
    text = EXPERIMENT.replace("{x} / 3", f"{nx * 5000 / 3}").replace("{y} / 2", f"{ny * 2500}")
    file.write_text(text.format(nx=nx, ny=ny, x=nx * 5000, y=ny * 5000))
    predicted = {ranks: [] for ranks in RANKS}
    with bench.together() as workers:
        for ranks in RANKS:
            workers[ranks] = bench.steps(f"{ranks} ranks", ranks=ranks, file=str(file), batch=16)
        times = {ranks: [] for ranks in RANKS}
        for _ in range(bench.repeats):
            for ranks, worker in workers.items():
                predicted[ranks].append(check(bench, file, ranks))
                worker.run(worker.batch)  # warms up
                times[ranks].append(worker.run(4 * worker.batch) / (4 * worker.batch))
    bench.raw["prediction"] = {"seconds_per_step": times, "predicted": predicted}
    for name, ranks in zip(NAMES, RANKS):
        # The error of the prediction, not of the timings: these scatter to both sides, and their median does not.
        error = abs(ratio(predicted[ranks], times[ranks]) - 1)
        bench.figure(name, error, at_most=0.2, size=(nx, ny), predicted=predicted[ranks], measured=times[ranks])


def check(bench, file, ranks):
    """The time of a step [s] that `swmodel check` predicts."""
    program = [sys.executable, "-c", "from swmodel.__main__ import main; main()", "check", file, "--ranks", ranks]
    environment = {**bench.environment(), "PYTHONPATH": str(ROOT)}
    done = subprocess.run(list(map(str, program)), capture_output=True, text=True, env=environment)
    found = re.search(r"about (\S+) ms a step", done.stdout)
    if found is None:
        raise NotMeasured(f"swmodel check said {(done.stderr or done.stdout).strip().splitlines()[-1]}")
    return 1e-3 * float(found[1])
