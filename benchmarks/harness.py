"""Shared parts of all figures: workers that time steps on request, alternately, and a record of all timings.

A worker is a process that lives as long as its figure: it prints `ready {json}` once it is compiled and warm, and
answers `run N` by `took SECONDS` for N steps. While it waits it uses no core, so that the sides of a ratio can be timed
in turn, minutes after they were compiled, under mpirun too. `{json}` holds `batch`, of which N must be a multiple.
"""

import contextlib
import dataclasses
import json
import math
import os
import queue
import re
import shutil
import statistics
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parent.parent
HERE = ROOT / "benchmarks"
sys.path.insert(0, str(ROOT))

from swmodel.runtime import launch  # noqa: E402

OPTIMISED = ["-O3", "-march=native", "-fopenmp", "-fno-math-errno", "-fno-trapping-math", "-Wall"]
CHECK_SIZE, CHECK_STEPS = (403, 211), 20


class NotMeasured(Exception):
    """The reason why a figure cannot be measured here, in one sentence."""


class Worker:
    """A process that answers commands; use it in a `with`.

    Args:
        name: for messages and its log.
        command: what to start.
        environment: of the process.
        log: a file for its other output.
        patience: seconds that it may take to start.
    """

    def __init__(self, name, command, environment, log, patience=600.0):
        self.name, self.log = name, log
        self._log = open(log, "w")
        self.process = subprocess.Popen(
            command,
            cwd=ROOT,
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            text=True,
            bufsize=1,
            start_new_session=True,
        )
        self._lines = queue.Queue()
        threading.Thread(target=self._read, daemon=True).start()
        try:
            self.info = json.loads(self._answer("ready", patience))
        except BaseException:
            launch.stop(self.process)  # it does not read commands yet
            self.stop()
            raise
        self.batch = int(self.info.get("batch", 1))

    def _read(self):
        for line in self.process.stdout:
            self._lines.put(line)
        self._lines.put(None)

    def _answer(self, word, patience):
        """The rest of the next line that begins with `word`; other lines are printed by libraries and go to the log."""
        until = time.monotonic() + patience
        while True:
            try:
                line = self._lines.get(timeout=max(until - time.monotonic(), 0.0))
            except queue.Empty:
                raise NotMeasured(f"{self.name} did not answer within {patience:g} s (see {self.log})") from None
            if line is None:
                raise NotMeasured(self._last_words())
            if line.startswith(word):
                return line[len(word) :].strip()
            self._log.write(line)

    def _last_words(self):
        self._log.flush()
        lines = [line.strip() for line in Path(self.log).read_text(errors="replace").splitlines() if line.strip()]
        errors = [line for line in lines if re.search(r"[Ee]rror: ", line)] or lines
        return f"{self.name} ended: {errors[-1] if errors else 'it printed nothing'} (see {self.log})"

    def ask(self, command, word, patience=600.0):
        try:
            self.process.stdin.write(command + "\n")
            self.process.stdin.flush()
        except BrokenPipeError:
            raise NotMeasured(self._last_words()) from None
        return self._answer(word, patience)

    def run(self, steps):
        """Seconds that so many steps took; a multiple of `batch`."""
        return float(self.ask(f"run {steps}", "took"))

    def stop(self):
        with contextlib.suppress(OSError):
            self.process.stdin.write("quit\n")  # mpirun keeps the end of its input to itself
            self.process.stdin.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(10)
        if self.process.poll() is None:
            launch.stop(self.process)
        self._log.close()

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        self.stop()


@dataclasses.dataclass
class Figure:
    """One line of the result; `value` is None if it was not measured, and `why` gives the reason."""

    name: str
    value: float | None
    why: str = ""
    at_least: float | None = None
    at_most: float | None = None
    details: dict = dataclasses.field(default_factory=dict)

    def __str__(self):
        return f"{self.name}={self.value:.4g}" if self.value is not None else f"{self.name}=not measured ({self.why})"

    @property
    def mark(self):
        """The requirement, and whether it is met."""
        if self.at_least is None and self.at_most is None:
            return ""
        required = f"at least {self.at_least:g}" if self.at_least is not None else f"at most {self.at_most:g}"
        if self.value is None:
            return required
        met = self.value >= self.at_least if self.at_least is not None else self.value <= self.at_most
        return f"{required}: {'met' if met else 'MISSED'}"


class Bench:
    """One run of the benchmarks: its options, its cores, its figures and the raw times behind them.

    Args:
        size: (nx, ny) cells of the large case.
        small: (nx, ny) of the small one, where messages cost as much as arithmetic.
        repeats: timings of each side of a ratio.
        cores: CPUs on which everything runs.
        folder: for programs, logs and downloads.
    """

    def __init__(self, size, small, repeats, cores, folder):
        self.size, self.small, self.repeats, self.cores = tuple(size), tuple(small), repeats, list(cores)
        self.folder = Path(folder)
        self.folder.mkdir(parents=True, exist_ok=True)
        self.figures, self.raw, self.workers = {}, {}, {}

    # -- figures ------------------------------------------------------------------------------------------------------

    def figure(self, name, value, at_least=None, at_most=None, **details):
        """Record a figure; `details` are added to it in bench.json."""
        value = None if value is None or not math.isfinite(value) else float(value)
        why = "" if value is not None else "not a number"
        self.figures[name] = Figure(name, value, why, at_least, at_most, details)
        self.say(f"  {self.figures[name]}  {self.figures[name].mark}")

    def missing(self, name, why):
        self.figures[name] = Figure(name, None, str(why).splitlines()[0])
        self.say(f"  {self.figures[name]}")

    def say(self, text):
        print(text, file=sys.stderr, flush=True)

    # -- workers ------------------------------------------------------------------------------------------------------

    def environment(self, ranks=1, **more):
        """The environment of a worker on the CPU: mpirun may run as root; ranks with a core each do not yield."""
        environment = {**launch.mpirun_environment(), "JAX_PLATFORMS": "cpu", **more}
        environment.pop("PYTHONDONTWRITEBYTECODE", None)  # installed packages have bytecode
        if ranks <= len(self.cores):
            environment.pop("OMPI_MCA_mpi_yield_when_idle", None)
        return environment

    def start(self, name, command, environment=None):
        """A Worker, ready."""
        log = self.folder / f"{name.replace(' ', '_')}.log"
        worker = Worker(name, [str(part) for part in command], environment or self.environment(), log)
        self.workers[name] = {"command": " ".join(map(str, command)), **worker.info}
        return worker

    @contextlib.contextmanager
    def together(self):
        """A dict for the Workers of a figure, which are stopped at the end of the `with`."""
        workers = {}
        try:
            yield workers
        finally:
            for worker in workers.values():
                worker.stop()

    def mpirun(self, ranks, bound=True):
        """The command that starts `ranks` ranks, each bound to a core of its own or all free to use all of them."""
        if not launch.mpi_installed():
            raise NotMeasured("this environment has no MPI: make setup MPI=bundled")
        if not bound or ranks > len(self.cores):
            return [*launch.mpirun(ranks), "--bind-to", "none"]
        if len(self.cores) == os.cpu_count():
            return [*launch.mpirun(ranks), "--bind-to", "core"]
        listed = ",".join(map(str, self.cores))  # Open MPI counts from the first core of the machine otherwise
        return [*launch.mpirun(ranks), "--map-by", f"pe-list={listed}:ordered", "--bind-to", "core"]

    def python(self, script, **options):
        """The command of a worker written in Python, of this folder."""
        return [sys.executable, HERE / script, json.dumps(options)]

    def steps(self, name, size=None, ranks=1, **options):
        """A worker that steps the model's basin; `options` as in worker.py."""
        options = {"size": size or self.size, **options}
        if ranks == 1:
            return self.start(name, self.python("worker.py", kind="step", **options))
        command = [*self.mpirun(ranks), *self.python("worker.py", kind="step", communicator="mpi", **options)]
        return self.start(name, command, self.environment(ranks))

    def native(self, name):
        """The path of benchmarks/NAME.c, compiled; and how wide its vectors are [bytes]."""
        compiler = os.environ.get("CC") or shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
        if compiler is None:
            raise NotMeasured("there is no C compiler on PATH: install gcc, or set CC")
        program, source = self.folder / name, HERE / f"{name}.c"
        for wide in (["-mprefer-vector-width=512", "-fopt-info-vec"], ["-fopt-info-vec"], []):
            command = [compiler, *OPTIMISED, *wide, str(source), "-o", str(program)]
            done = subprocess.run(command, capture_output=True, text=True)
            if done.returncode == 0:
                lines = [line for line in done.stderr.splitlines() if "loop vectorized using" in line]
                widths = [int(line.split("using")[1].split()[0]) for line in lines]
                version = subprocess.run([compiler, "--version"], capture_output=True, text=True).stdout
                return program, {
                    "compiler": " ".join(command[:-3]),
                    "version": version.partition("\n")[0],
                    "vector_bytes": max(widths, default=None),
                }
        raise NotMeasured(f"{compiler} does not compile {source.name}: {done.stderr.strip().splitlines()[-1]}")

    def check_native(self, name, command, tolerance=1e-5, **options):
        """A program in C comes to swmodel's state in float32, to rounding, from the same start; else NotMeasured.

        Args:
            name: of swmodel's worker.
            command: a function from the size and the file of the state to the program's command line.
            tolerance: relative to the largest value of u, v and eta.
            options: of `steps`.
        """
        files = {side: self.folder / f"check-{side}.bin" for side in ("start", "model", "c")}
        with self.steps(name, size=CHECK_SIZE, batch=CHECK_STEPS, save=str(files["start"]), **options) as model:
            with self.start("C", command(CHECK_SIZE, files["start"])) as c:
                for worker, asked, side in ((model, "state", "model"), (c, "save", "c")):
                    worker.run(CHECK_STEPS)
                    worker.ask(f"{asked} {files[side]}", "saved")
        fields = [np.fromfile(file, np.float32).reshape(-1, CHECK_SIZE[0] * CHECK_SIZE[1]) for file in files.values()]
        start, ours, theirs = fields[0][1:], *fields[1:]
        error, moved = (np.abs(a - ours).max(axis=1) / np.abs(ours).max(axis=1) for a in (theirs, start))
        details = {"relative_error_u_v_eta": error.tolist(), "moved_u_v_eta": moved.tolist(), "steps": CHECK_STEPS}
        self.raw[f"check of C: {name}"] = details
        if not (error < tolerance).all() or not (moved > 100 * tolerance).all():
            raise NotMeasured(
                f"C and swmodel differ by {error.max():.2g} of the largest value after {CHECK_STEPS} steps "
                f"(moved: {moved.min():.2g}), so that it is no yardstick"
            )
        self.say(f"    C is {name} after {CHECK_STEPS} steps to {error.max():.1e}")

    # -- timing -------------------------------------------------------------------------------------------------------

    def interleave(self, what, workers, seconds=1.0):
        """Time all workers in turn, `repeats` times after a round to warm up: {name: [seconds a step]}.

        Args:
            what: the key of these times in bench.json.
            workers: {name: Worker}.
            seconds: about how long each timing takes; at least one batch.
        """
        counts = {name: self._count(worker, seconds) for name, worker in workers.items()}
        times = {name: [] for name in workers}
        for turn in range(self.repeats):
            for name in workers if turn % 2 == 0 else reversed(workers):
                times[name].append(workers[name].run(counts[name]) / counts[name])
        self.raw[what] = {"seconds_per_step": times, "steps": counts}
        for name, each in times.items():
            self.say(f"    {name:28s} {1e3 * statistics.median(each):10.4f} ms a step, {counts[name]} steps a timing")
        return times

    def timed(self, what, starts, seconds=1.0):
        """The times of `interleave` of workers that are started for them, and stopped afterwards.

        Args:
            what, seconds: as for `interleave`.
            starts: {name: function that starts a Worker}.
        """
        with self.together() as workers:
            for name, start in starts.items():
                workers[name] = start()
            return self.interleave(what, workers, seconds)

    @staticmethod
    def _count(worker, seconds):
        worker.run(worker.batch)  # warms up
        once = min(worker.run(worker.batch) for _ in range(2))
        return worker.batch * max(1, round(seconds / max(once, 1e-9)))


def ratio(above, below):
    """The median of the ratios of two sides that were timed in turn."""
    return statistics.median(a / b for a, b in zip(above, below))
