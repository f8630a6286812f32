"""Thousands of experiment files with mistakes through all of `swmodel check`, and what it accepts through some steps.

    python -m tests.faults.checked FOLDER FIRST COUNT STRIDE RUNS

goes through the seeds FIRST, FIRST + STRIDE, ..., COUNT of them, runs the first RUNS that are accepted, and prints a
line of JSON for each file, before and after: whoever reads them knows which file a process died of.
"""

import contextlib
import dataclasses
import io
import json
import os
import re
import resource
import selectors
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import jaxlib.version

from .harness import Budget, foreign

ROOT = Path(__file__).resolve().parents[2]
CHECK_SECONDS, RUN_SECONDS, STEPS = 60, 120, 5
MEMORY = 16 << 30  # [bytes] of addresses; JAX reserves some
MOST_CELLS = 100_000  # of an accepted file that is run
PROCESSES = 2
# Compiling takes most of the time of an accepted file, whose loops and programs are used for five steps. Only jaxlib
# 0.10 has the last of these options, which compiles fusions in a third of the time.
XLA_FLAGS = ["--xla_backend_optimization_level=0", "--xla_cpu_parallel_codegen_split_count=1"]
XLA_FLAGS += ["--xla_cpu_use_fusion_emitters=false"] * (jaxlib.version.__version_info__ < (0, 11))
QUICKLY = {"SWMODEL_CXXFLAGS": "-O0", "XLA_FLAGS": " ".join(XLA_FLAGS)}


@dataclasses.dataclass
class Tally:
    inputs: int = 0
    accepted: int = 0
    runs: int = 0
    unclear: list = dataclasses.field(default_factory=list)


# -- in a process of its own -------------------------------------------------------------------------------------------


def work(folder, first, count, stride, runs):
    """See the module."""
    from .inputs import experiments, mutated, outcome

    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    texts = list(experiments(folder).values())
    path = folder / f"case-{first}.toml"
    for seed in range(first, first + stride * count, stride):
        say(seed=seed, begun="check")
        path.write_text(mutated(texts[seed % len(texts)], seed), errors="surrogatepass")
        kind, message = outcome(path, CHECK_SECONDS)
        say(seed=seed, kind=kind, why=message[:600] if kind == "unclear" else "")
        if kind == "accepted" and runs and _small(message):
            runs -= 1
            say(seed=seed, begun="run")
            say(seed=seed, ran=steps_of(path, folder / f"output-{first}"))


def say(**what):
    print(json.dumps(what), file=sys.__stdout__, flush=True)


def _small(message):
    cells = re.search(r"([\d,]+) x ([\d,]+) cells", message)
    numbers = [int(number.replace(",", "")) for number in cells.groups()] if cells else [1]
    members = re.search(r"(\d+) members", message)
    size = int(members[1]) if members else 1
    for number in numbers:
        size *= number
    return size <= MOST_CELLS


def steps_of(path, output):
    """What is unclear about a few steps of an accepted experiment; None if nothing is."""
    from swmodel.simulation.simulation import Simulation

    from .inputs import Hung, at_most, status_of

    whole = Simulation.run
    text, before = io.StringIO(), os.getcwd()
    Simulation.run = lambda self, until=None, progress=None: whole(
        self, steps=max(1, min(STEPS, round(until / self.dt) - self.step)), progress=progress
    )
    try:
        with at_most(RUN_SECONDS), contextlib.redirect_stdout(text), contextlib.redirect_stderr(text):
            status = status_of(["run", str(path), "-o", str(output), "--overwrite", "-q"])
    except Hung:
        return f"a run of {STEPS} steps had not ended after {RUN_SECONDS} s"
    finally:
        Simulation.run = whole
        os.chdir(before)
    return _unclear(status, text.getvalue())


def _unclear(status, text):
    if word := foreign(text):
        return f"it printed {word!r}: {text[-500:]}"
    if status not in (0, 1, 2, 3):
        return f"it ended with status {status}: {text[-500:]}"
    if status and not re.search(r"^error: ", text, re.M):
        return f"it ended with status {status} and no sentence: {text[-500:]}"
    return None


# -- and the one that starts them --------------------------------------------------------------------------------------


def inputs(count, folder, seconds=3600.0, seed=0, runs=200):
    """`count` mutated files, from seed number `seed` on; returns the Tally."""
    tally, budget = Tally(), Budget("inputs", count, seconds)
    trials, watched = budget.trials(), selectors.DefaultSelector()
    for k in range(PROCESSES):
        share, part = (whole // PROCESSES + (k < whole % PROCESSES) for whole in (count, runs))
        _start(watched, folder / f"{k}", (seed + k, share, part))
    try:
        while watched.get_map():
            for key, _ in watched.select(timeout=1.0):
                _take(key, watched, tally, folder, trials)
            if time.monotonic() - budget.began > seconds:
                break
    finally:
        for key in list(watched.get_map().values()):
            key.data["process"].kill()
            key.data["process"].wait()
    return tally


def interpreter():
    """The command that does `work`."""
    return [sys.executable, "-m", "tests.faults.checked"]


def _start(watched, folder, task):
    first, count, runs = task
    folder.mkdir(parents=True, exist_ok=True)
    command = [*interpreter(), *map(str, (folder, first, count, PROCESSES, runs))]
    environment = {
        **os.environ,
        **QUICKLY,
        "JAX_PLATFORMS": "cpu",
        "PYTHONPATH": str(ROOT),
        "XDG_CACHE_HOME": str(folder.parent / "cache"),
    }
    errors = tempfile.TemporaryFile()
    process = subprocess.Popen(command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, stderr=errors, text=True)
    state = {"process": process, "errors": errors, "folder": folder, "task": task, "seed": None, "begun": None}
    watched.register(process.stdout, selectors.EVENT_READ, state)


def _take(key, watched, tally, folder, trials):
    """A line of one process, or its end."""
    state, line = key.data, key.fileobj.readline()
    if not line:
        return _died(key, watched, tally)
    entry = json.loads(line)
    state["seed"] = entry["seed"]
    if "begun" in entry:
        state["begun"] = entry["begun"]
    elif "kind" in entry:
        state["begun"] = None
        next(trials, None)
        tally.inputs += 1
        tally.accepted += entry["kind"] == "accepted"
        if entry["kind"] == "unclear":
            tally.unclear.append(f"seed {entry['seed']}: {entry['why']}")
    else:
        state["begun"] = None
        tally.runs += 1
        if entry["ran"]:
            tally.unclear.append(f"seed {entry['seed']}, run: {entry['ran']}")


def _died(key, watched, tally):
    """A process has ended: by itself, or of a file, which counts; then another one goes on from the next."""
    state = key.data
    watched.unregister(key.fileobj)
    status = state["process"].wait()
    if status == 0:
        return
    state["errors"].seek(0)
    text = state["errors"].read().decode(errors="replace")[-800:]
    first, count, runs = state["task"]
    if state["seed"] is None:
        raise RuntimeError(f"the process that checks files ended with status {status}: {text}")
    tally.inputs += state["begun"] == "check"
    tally.unclear.append(f"seed {state['seed']}: the process ended with status {status} in a {state['begun']}: {text}")
    done = (state["seed"] - first) // PROCESSES + 1
    if done < count:
        _start(watched, state["folder"], (state["seed"] + PROCESSES, count - done, runs))


if __name__ == "__main__":
    work(Path(sys.argv[1]), *map(int, sys.argv[2:6]))
