"""Break runs on purpose and count what went wrong: what docs/developers/reliability.md reports.

    python -m tests.faults.run [--only PART ...] [--count N] [--scale 0.1] [--minutes 120] [--seed 0]

Progress and everything that went wrong are printed as they come, and at the end a line name=value for each figure. The
exit status is 0 if nothing went wrong, and nothing was left out by a signal. A part whose share of the time is up ends
early, with the number it came to. So does a part that gets INT or TERM, after the trial under way; the parts after it
are left out, and a second signal ends all at once. `--seed 300 --count 100` of combinations are draws 300 to 399: their
500 can be divided into such runs.
"""

import argparse
import json
import resource
import signal
import sys
import tempfile
import time
from pathlib import Path

from . import branches, checked, combinations, endurance, files, flips, harness, kills, signals

GROWTH = 0.01  # of resident memory between 10 % and 100 % of the steps, that is allowed
MASS = 1e-12  # change of the volume, relative, that is allowed
STARTED = time.monotonic()


def run_flips(count, folder, seconds, seed):
    """Half of them in a netCDF file, half in a Zarr store."""
    case, found = harness.write_case(folder, until="30 min"), []
    for kind in ("nc", "zarr"):
        output = folder / kind
        ended = harness.straight("run", case, "-q", "-o", output, "--set", f"output.restart.file=restart.{kind}")
        if ended.status:
            raise RuntimeError(f"the run that writes a restart ended with status {ended.status}: {ended.text}")
        found.append(flips.measure(output / f"restart.{kind}", -(-count // 2), seed, timeout=seconds / 2))
    wrong = sum((one["wrong"] for one in found), [])
    counts = {f"flips_{name}": sum(one[name] for one in found) for name in ("noticed", "harmless")}
    return {"flips": sum(one["flips"] for one in found), "flips_unnoticed": len(wrong)} | counts, wrong


def run_endurance(count, folder, seconds, seed):
    found = endurance.measure(folder, count, timeout=seconds)
    figures = {
        "endurance_steps": found["steps"],
        "endurance_growth": f"{found['growth']:.5f}",
        "endurance_mass": f"{found['mass']:.1e}",
        "endurance_megabytes": round(found["samples"][-1][1]),
    }
    print(f"endurance: [step, MB] {json.dumps(found['samples'][:: max(len(found['samples']) // 10, 1)])}")
    wrong = [f"memory grew by {found['growth']:.2%}"] * (abs(found["growth"]) > GROWTH)
    return figures, wrong + [f"the volume changed by {found['mass']:.1e} of it"] * (found["mass"] > MASS)


def run_files(count, folder, seconds, seed):
    tally = files.files(count, folder, seconds, seed)
    for kind, why in tally.skipped.items():
        print(f"files: {kind} is left out: {why}")
    return {"files": tally.files, "files_wrong": len(tally.wrong)}, tally.wrong


def run_signals(count, folder, seconds, seed):
    tally = signals.signals(count, folder, seconds, seed)
    figures = {
        "signals": tally.signals,
        "signals_wrong": len(tally.wrong),
        "signals_slowest_seconds": f"{tally.slowest:.1f}",
        "signals_restarts": tally.restarts,
    }
    return figures, tally.wrong


def run_kills(count, folder, seconds, seed):
    tally = kills.kills(count, folder, seconds, seed)
    figures = {"kills": tally.kills, "kills_lost": len(tally.lost), "kills_while_writing": tally.inside}
    return figures, tally.lost


def run_branches(count, folder, seconds, seed):
    tally = branches.branches(count, folder, seconds, seed)
    figures = {"branches": tally.branches, "branches_wrong": len(tally.wrong), "branches_refused": tally.refused}
    return figures, tally.wrong


def run_inputs(count, folder, seconds, seed):
    tally = checked.inputs(count, folder, seconds, seed, runs=max(count // 25, 1))
    figures = {
        "inputs": tally.inputs,
        "inputs_unclear": len(tally.unclear),
        "inputs_accepted": tally.accepted,
        "inputs_run": tally.runs,
    }
    return figures, tally.unclear


def run_combinations(count, folder, seconds, seed):
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    tally = combinations.combinations(range(seed, seed + count), folder, seconds)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    took = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    print("combinations: " + ", ".join(f"{kind} {number}" for kind, number in sorted(tally.kinds.items())))
    figures = {
        "combinations": tally.draws,
        "combinations_wrong": len({what.partition(":")[0] for what in tally.wrong}),
        "combinations_refused": tally.refused,
        "combinations_stopped": tally.stopped,
        "combinations_on_two": tally.on_two,
        "combinations_kinds": len(tally.kinds),
        "combinations_pairs": len(tally.pairs),
        "combinations_cpu_seconds_each": f"{took / max(tally.draws, 1):.1f}",
    }
    return figures, tally.wrong


# {part: (what runs it, how many trials, its share of the time)}
PARTS = {
    "flips": (run_flips, 1000, 2),
    "endurance": (run_endurance, 1_000_000, 4),
    "files": (run_files, 32, 10),
    "signals": (run_signals, signals.EACH, 40),
    "kills": (run_kills, 100, 35),
    "branches": (run_branches, 60, 8),
    "inputs": (run_inputs, 5000, 30),
    "combinations": (run_combinations, 500, 60),
}


def run_part(name, count, seconds, seed):
    """(figures, what went wrong) of one part; an error of the part itself counts as wrong."""
    print(f"\n{name}: {count}, at most {seconds / 60:.0f} min", flush=True)
    since, before = time.monotonic(), harness.sources()
    with tempfile.TemporaryDirectory(prefix=f"swmodel-{name}-", ignore_cleanup_errors=True) as folder:
        figures, wrong = PARTS[name][0](count, Path(folder), seconds, seed)
    if harness.sources() != before:
        wrong = [f"swmodel/ was edited while {name} ran, so that runs differ; use a checkout nobody edits.", *wrong]
    for number, what in enumerate(wrong[:20], 1):
        print(f"{name}: wrong ({number} of {len(wrong)}): {what}", flush=True)
    return {**figures, f"{name}_seconds": round(time.monotonic() - since)}, wrong


def _stop(number, _):
    """Let the trial under way end, and print the figures; the second time, end at once."""
    if harness.STOPPED.is_set():
        raise KeyboardInterrupt
    harness.STOPPED.set()
    print(f"{signal.Signals(number).name}: stops after the trial under way", flush=True)


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", nargs="+", choices=PARTS, default=list(PARTS), metavar="PART", help=", ".join(PARTS))
    parser.add_argument("--count", type=int, help="trials of each part; of signals, of each to each target")
    parser.add_argument("--scale", type=float, default=1.0, help="share of the trials of each part")
    parser.add_argument("--minutes", type=float, default=120.0, help="for all parts together")
    parser.add_argument("--seed", type=int, default=0)
    chosen = parser.parse_args(arguments)
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, _stop)
    figures, broken = {}, False
    names = [name for name in PARTS if name in chosen.only]
    for k, name in enumerate(names):
        if harness.STOPPED.is_set():
            break
        left = 60.0 * chosen.minutes - (time.monotonic() - STARTED)
        share = PARTS[name][2] / sum(PARTS[other][2] for other in names[k:])
        count = chosen.count or max(round(chosen.scale * PARTS[name][1]), 1)
        found, wrong = run_part(name, count, max(left * share, 30.0), chosen.seed)
        figures |= found
        broken = broken or bool(wrong)
    print()
    for name, value in figures.items():
        print(f"{name}={value}")
    return 1 if broken or harness.STOPPED.is_set() else 0


if __name__ == "__main__":
    sys.exit(main())
