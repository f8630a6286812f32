"""How long commands take to start: `--help`, `check`, and a run of the Tohoku experiment up to its first step.

The first time nothing is kept of earlier runs (XDG_CACHE_HOME is an empty folder): loops, programs of JAX and the
source are compiled and computed. Then they are loaded. All run on as many ranks as there are cores, two at most.
The time of a gradient is that of the whole command, after a run that has computed the source.
"""

import re
import statistics
import subprocess
import sys
import time

from harness import ROOT, NotMeasured

NAMES = (
    "seconds_to_first_step_first_time",
    "seconds_to_first_step",
    "seconds_of_gradient_first_time",
    "seconds_of_gradient",
    "seconds_demo",
    "seconds_of_check",
    "seconds_of_help",
)
EXPERIMENT = ROOT / "experiments" / "tohoku_2011" / "tohoku.toml"
SENSITIVITY = EXPERIMENT.with_name("sensitivity.toml")
RANKS = 2
AGAIN = 3


def measure(bench):
    environment, cache = _environment(bench)
    subprocess.run(["rm", "-rf", str(cache)], check=True)

    def first_step(*more):
        return run_of_experiment(bench, *more)

    bench.figure("seconds_to_first_step_first_time", first_step("--until", "10min")[0], at_most=10.0)
    again = [first_step("--until", "10min")[0] for _ in range(AGAIN)]
    bench.figure("seconds_to_first_step", statistics.median(again), at_most=5.0, each=again)
    gradients = [timed(_gradient(bench), environment)[1] for _ in range(1 + AGAIN)]
    bench.figure("seconds_of_gradient_first_time", gradients[0], at_most=10.0)
    bench.figure("seconds_of_gradient", statistics.median(gradients[1:]), at_most=5.0, each=gradients[1:])
    bench.figure("seconds_demo", first_step("--plot")[1], at_most=15.0)
    for name, arguments, most in (("check", ["check", str(EXPERIMENT)], 3.0), ("help", ["--help"], 0.2)):
        times = [timed([sys.executable, "-m", "swmodel", *arguments], environment)[1] for _ in range(AGAIN)]
        bench.figure(f"seconds_of_{name}", statistics.median(times), at_most=most, each=times)


def run_of_experiment(bench, *more):
    """(seconds to the first step, seconds of the whole command) of a run of the Tohoku experiment.

    Args:
        bench: the Bench.
        more: further arguments of `swmodel run`.
    """
    command = [*bench.mpirun(RANKS), sys.executable, "-m", "swmodel", "run", str(EXPERIMENT), "--overwrite"]
    said, seconds = timed([*command, "--output", str(folder_of_run(bench)), *more], _environment(bench)[0])
    found = re.search(r"the first step was taken after ([\d.]+) s", said)
    if found is None:
        raise NotMeasured(f"the run did not print when its first step was taken: {said[-200:]}")
    return float(found[1]), seconds


def folder_of_run(bench):
    """The folder with the files of `run_of_experiment`."""
    return bench.folder / "start"


def _environment(bench):
    """(the environment of the commands, the folder in which they keep what they compile)."""
    cache = bench.folder / "cache_of_start"
    return bench.environment(RANKS, XDG_CACHE_HOME=str(cache)), cache


def _gradient(bench):
    """The command of a gradient of ten minutes of that run, with respect to the uplift and the depth."""
    command = [*bench.mpirun(RANKS), sys.executable, "-m", "swmodel", "adjoint", str(SENSITIVITY), "--no-check"]
    window = ["--until", "10min", "--set", 'adjoint.cost.window=["8 min", "10 min"]']
    return [*command, *window, "--overwrite", "--output", str(bench.folder / "gradient")]


def timed(command, environment):
    """(the output of a command, the seconds that it takes)."""
    begun = time.perf_counter()
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=600)
    if done.returncode:
        raise NotMeasured(f"{' '.join(command[:6])} ended with status {done.returncode}: {done.stderr[-200:]}")
    return done.stdout + done.stderr, time.perf_counter() - begun
