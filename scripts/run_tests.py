"""Run the tests serially, then those of tests/parallel under mpirun, and sum up.

    python scripts/run_tests.py [--ranks 1,2,4] [--timeout 3600] [what pytest takes: -k halo, tests/parallel, -x ...]
    python scripts/run_tests.py --quick    what a change is most likely to break, on 1 and 2 ranks, in three minutes
    python scripts/run_tests.py --verify   the tests that are marked `verify`, and those of six ranks

All but tests/parallel runs on 1 rank, files side by side on the cores there are, and tests/parallel on 2; on 4 the
verbs, and that steps and gradients equal those of one rank. On 6, which --verify adds, transforms and solvers too.
The files that took longest are listed at the end.
Without MPI, tests/parallel runs on 1 rank. Paths choose among them. The root's output is shown as it comes, another
rank's if it ended and the root printed no reason. The exit status is 0 if no test failed and none hung.
"""

import argparse
import collections
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from swmodel.runtime import launch  # noqa: E402

PARALLEL = ROOT / "tests" / "parallel"
# The files of tests/parallel for more than two ranks, where compilation is slow: those of equality, and on 2 x 2 tiles,
# which show less than 2 x 3, few of them. Parts of a model are local, or sums: 2 ranks show the same.
ON_MORE = {
    4: ("adjoint", "communicator", "ranks_agree", "stratified"),
    6: (
        "adjoint",
        "coast",
        "communicator",
        "elliptic",
        "fft",
        "parameters",
        "parts",
        "ranks_agree",
        "spectra",
        "spectral_core",
        "stratified",
    ),
}
# In this order the last files are short, and both cores are busy to the end.
SERIAL = ("tests/verification", "tests/faults", "tests/adjoint", "tests/formats", "tests/unit")
# Operators, terms, steppers, experiment files, outputs, derivatives, and that two ranks have the steps of one.
QUICK = (
    "tests/unit/test_words.py",
    "tests/unit/test_operators.py",
    "tests/unit/test_linear.py",
    "tests/unit/test_decomposition.py",
    "tests/unit/test_terms.py",
    "tests/unit/test_stage_times.py",
    "tests/unit/test_time_steppers.py",
    "tests/unit/test_step_loops.py",
    "tests/unit/test_stability.py",
    "tests/unit/test_config.py",
    "tests/unit/test_located_mistakes.py",
    "tests/unit/test_restart_file.py",
    "tests/unit/test_zarr_store.py",
    "tests/unit/test_monitors.py",
    "tests/adjoint/test_verification.py",
    "tests/verification/test_rest.py",
    "tests/verification/test_conservation.py",
    "tests/verification/test_walls.py",
)
QUICK_ON_TWO = tuple(
    f"tests/parallel/test_ranks_agree.py::test_{claim}"
    for claim in (
        "a_hundred_steps_equal_those_of_one_rank",
        "the_gradient_of_a_gauge_on_one_rank_equals_that_of_one_rank",
    )
)
COUNTED = ("passed", "failed", "error", "skipped", "xfailed")
NO_TESTS = 5  # pytest's exit status


class Tally:
    """A pytest plugin that writes the numbers of outcomes and the failed tests, also if the process dies or hangs."""

    def __init__(self, folder):
        self.file, self.failures = folder / "tally.json", folder / "rank0.log"
        self.seconds = collections.Counter()

    def pytest_runtest_logreport(self, report):
        self.seconds[report.nodeid.split("::")[0]] += report.duration
        if report.failed:
            with self.failures.open("a") as log:
                log.write(f"FAILED {report.nodeid}\n{report.longreprtext}\n\n")

    def pytest_terminal_summary(self, terminalreporter):
        counts = {outcome: len(terminalreporter.stats.get(outcome, ())) for outcome in COUNTED}
        self.file.write_text(json.dumps({**counts, "longest": self.seconds.most_common(12)}))


def worker(folder, arguments):
    """One rank: run pytest; all but the root write to a log."""
    started = launch.launcher()
    rank = 0 if started is None else started.rank
    if rank:
        log = os.open(folder / f"rank{rank}.log", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        os.dup2(log, 1)
        os.dup2(log, 2)
        arguments = [*arguments, "-v"]
    import pytest

    sys.exit(pytest.main(arguments, plugins=[Tally(folder)] if rank == 0 else []))


def run(ranks, arguments, timeout):
    """Run pytest on so many ranks; return its tally, with an additional error if it died or hung."""
    print(f"\nranks={ranks}  pytest {' '.join(arguments)}", flush=True)
    begin = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="swmodel-tests-") as name:
        folder = Path(name)
        color = "--color=yes" if sys.stdout.isatty() else "--color=no"
        command = [sys.executable, "-u", __file__, "--worker", name, color, *arguments]
        if ranks > 1:
            command = [*launch.mpirun(ranks), *command]
        elif launch.threads_per_rank() > 1:
            # Most of the time goes into compiling, on one core. Files in their own order: by default those with few
            # tests come last, and among these are the longest.
            command += ["-n", str(min(launch.threads_per_rank(), 4)), "--dist", "loadfile", "--no-loadscope-reorder"]
        environment = {**launch.mpirun_environment(), "PYTHONHASHSEED": "0"}
        environment.pop("PYTHONDONTWRITEBYTECODE", None)  # workers, ranks and commands share what is compiled
        if "verify" in arguments:
            environment.setdefault("SWMODEL_CXXFLAGS", "")  # loops as users compile them
        status = _wait(command, environment, timeout)
        file = folder / "tally.json"
        tally = json.loads(file.read_text()) if file.exists() else {**dict.fromkeys(COUNTED, 0), "longest": []}
        broken = status not in (0, NO_TESTS) and not (tally["failed"] or tally["error"])
        if broken:
            _show_logs(folder, status, timeout)
            tally["error"] += 1
    return {**tally, "seconds": time.monotonic() - begin, "none": status == NO_TESTS}


def _wait(command, environment, timeout):
    """The exit status; None for a group of processes that was stopped because its time was up."""
    process = subprocess.Popen(command, cwd=ROOT, env=environment, start_new_session=True)
    try:
        return process.wait(timeout)
    except subprocess.TimeoutExpired:
        return None
    finally:
        if process.poll() is None:
            launch.stop(process)


def _show_logs(folder, status, timeout):
    for log in sorted(folder.glob("rank*.log")):
        lines = log.read_text(errors="replace").splitlines()[-60:]
        print(f"\n-- {'what failed before' if log.stem == 'rank0' else f'the end of {log.stem}'}", *lines, sep="\n")
    why = f"was stopped after {timeout:g} s" if status is None else f"ended with status {status} and no summary"
    print(f"\npytest {why}", flush=True)


def split(arguments, several):
    """(arguments on 1 rank, arguments under mpirun or None) from what the user gave.

    several: whether tests/parallel, unless it was named, is left to a run on several ranks.
    """
    paths = [argument for argument in arguments if Path(ROOT, argument.split("::")[0]).exists()]
    options = [argument for argument in arguments if argument not in paths]
    if not paths:
        folder = str(PARALLEL.relative_to(ROOT))
        return [*options, *SERIAL, *([] if several else [folder])], [*options, folder]
    parallel = [
        path
        for path in paths
        if PARALLEL in (resolved := Path(ROOT, path.split("::")[0]).resolve()).parents or resolved == PARALLEL
    ]
    return arguments, [*options, *parallel] if parallel else None


def sum_up(tallies):
    print()
    for ranks, tally in tallies:
        counts = ", ".join(f"{tally[outcome]} {outcome}" for outcome in COUNTED if tally[outcome]) or "no tests"
        print(f"ranks={ranks}  {counts} in {tally['seconds']:.0f} s")
        print("  longest:", ", ".join(f"{Path(file).stem} {seconds:.0f} s" for file, seconds in tally["longest"]))
    passed = sum(tally["passed"] for _, tally in tallies)
    failed = sum(tally["failed"] + tally["error"] for _, tally in tallies)
    print(f"{passed} passed, {failed} failed", flush=True)
    return passed, failed


def rounds(chosen, rest):
    """(number of ranks, arguments of pytest) of one run after the other; arguments are None where it has no tests."""
    numbers = [int(ranks) for ranks in chosen.ranks.split(",")]
    asked = [(ranks, rest) for ranks in numbers]
    if chosen.verify:
        asked = [(ranks, ["-m", "verify", *rest]) for ranks in (1, 2, 4, 6)] + [(6, rest)]
    for ranks, arguments in asked:
        # Of those marked `verify`, tests/parallel has some for 1 rank too.
        several = max(numbers) > 1 and "verify" not in arguments
        serial, parallel = split(arguments, several and launch.mpi_installed())
        found = serial if ranks == 1 else parallel
        if ranks in ON_MORE and found and found[-1] == str(PARALLEL.relative_to(ROOT)):
            found = [*found[:-1], *(f"tests/parallel/test_{name}.py" for name in ON_MORE[ranks])]
        yield ranks, found


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0], allow_abbrev=False)
    parser.add_argument("--ranks", default="1,2,4", help="on how many ranks, separated by commas")
    parser.add_argument("--quick", action="store_true", help="some files, on 1 and 2 ranks")
    parser.add_argument("--verify", action="store_true", help="what is marked `verify`, and all for 6 ranks")
    parser.add_argument("--timeout", type=float, help="seconds for each run of pytest; 3600, with --verify 4 hours")
    chosen, rest = parser.parse_known_args()
    timeout = chosen.timeout or (14400.0 if chosen.verify else 3600.0)
    planned = [(1, [*rest, *QUICK]), (2, [*rest, *QUICK_ON_TWO])] if chosen.quick else rounds(chosen, rest)
    tallies = []
    for ranks, arguments in planned:
        if arguments is None:
            continue
        if ranks > 1 and not launch.mpi_installed():
            print(f"\nranks={ranks}  left out: this environment has no MPI (`make setup MPI=bundled`)")
            continue
        tallies.append((ranks, run(ranks, arguments, timeout)))
    passed, failed = sum_up(tallies)
    if any(tally["none"] for _, tally in tallies) and not rest:
        sys.exit("run_tests: a part of the suite held no tests")
    sys.exit(1 if failed or not passed else 0)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--worker"]:
        worker(Path(sys.argv[2]), sys.argv[3:])
    else:
        for number in (signal.SIGINT, signal.SIGTERM):  # the ranks are in a session of their own and must be ended too
            signal.signal(number, lambda number, frame: sys.exit(128 + number))
        main()
