"""What the parts share: a small experiment, runs of it as processes of their own, and what is left of them.

Every process of a run carries a mark in its environment, so that those which outlive their mpirun are found as well.
"""

import contextlib
import dataclasses
import os
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import netCDF4
import numpy as np

from swmodel.errors import SwmodelError
from swmodel.runtime import launch

from ..studies import BOX
from .flips import read

ROOT = Path(__file__).resolve().parents[2]
MARK = "SWMODEL_FAULTS"
STOPPED = threading.Event()  # set by INT and TERM: parts end after the trial under way, and print their figures
FOREIGN = ("Traceback", "--debug to see", "Segmentation", "Bus error", "core dumped")

CASE = """\
run = {{title = "A bump in a box", until = "{until}"}}
stepper = {{type = "ab2", dt = 15}}
output.folder = "{folder}"
output.fields = [{{file = "fields.nc", variables = ["eta", "u", "v"], every = "{fields}"}}]
output.gauges = {{file = "gauges.nc", positions.A = [120e3, 80e3]}}
output.maxima = {{file = "maxima.nc"}}
output.restart = {{file = "restart.nc", every = "{restart}"}}
"""
OUTPUTS = ("fields.nc", "gauges.nc", "maxima.nc", "restart.nc")


def write_case(folder, until="1000 day", fields="10 min", restart="5 min"):
    """The experiment's file, with outputs in folder/output."""
    path = Path(folder) / "case.toml"
    path.write_text(BOX + CASE.format(folder=path.parent / "output", until=until, fields=fields, restart=restart))
    return path


@dataclasses.dataclass
class Ended:
    """How a run ended: as a shell would say its status, and all that it has printed."""

    status: int
    text: str
    seconds: float


class Started:
    """`swmodel ARGUMENTS` as a process of its own, under mpirun for more ranks than one."""

    def __init__(self, *arguments, ranks=1, **options):
        self.mark = f"{os.getpid()}-{random.getrandbits(48):x}"
        program = [sys.executable, "-m", "swmodel", *map(str, arguments)]
        environment = {**launch.mpirun_environment(), "JAX_PLATFORMS": "cpu", "PYTHONPATH": str(ROOT), MARK: self.mark}
        self.output = tempfile.TemporaryFile()
        self.began = time.monotonic()
        self.process = subprocess.Popen(
            [*(launch.mpirun(ranks) if ranks > 1 else []), *program],
            env=environment,
            cwd=ROOT,
            stdin=subprocess.DEVNULL,
            stdout=self.output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            **options,
        )

    @property
    def seconds(self):
        return time.monotonic() - self.began

    def so_far(self):
        """All that was printed until now, as bytes."""
        return os.pread(self.output.fileno(), 1_000_000, 0)

    def alive(self):
        return self.process.poll() is None

    def processes(self):
        """{process id: rank, or None of what is no rank} of all that carry this run's mark."""
        found, mark = {}, f"{MARK}={self.mark}".encode()
        for entry in os.listdir("/proc"):
            if entry.isdecimal():
                with contextlib.suppress(OSError):
                    variables = Path("/proc", entry, "environ").read_bytes().split(b"\0")
                    if mark in variables:
                        ranks = [v.split(b"=")[1] for v in variables if v.startswith(b"OMPI_COMM_WORLD_RANK=")]
                        found[int(entry)] = int(ranks[0]) if ranks else None
        return found

    def rank(self, number):
        """The process id of a rank; None while it is not there."""
        return next((process for process, rank in self.processes().items() if rank == number), None)

    def wait(self, timeout, linger=5.0):
        """The Ended; after `timeout` seconds everything is killed, and the status is None.

        Processes may outlive the run by `linger` seconds; what does longer is in `left`, and killed.
        """
        try:
            status = self.process.wait(timeout)
        except subprocess.TimeoutExpired:
            status = None
        ended = self.seconds
        left = self.gone_within(linger if status is not None else 0.0)
        self.kill()
        self.output.seek(0)
        text = self.output.read().decode(errors="replace")
        self.output.close()
        if left and status is not None:
            text += f"\n[{len(left)} processes were alive {linger:.0f} s after the end]"
        self.left = left
        return Ended(status if status is None or status >= 0 else 128 - status, text, ended)

    def gone_within(self, seconds):
        """What is still alive after so many seconds."""
        deadline = time.monotonic() + seconds
        while (left := self.processes()) and time.monotonic() < deadline:
            time.sleep(0.05)
        return left

    def kill(self):
        """SIGKILL to everything at once."""
        for process in self.processes():
            with contextlib.suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)
        self.process.wait()
        launch.remove_session(self.process.pid)


def straight(*arguments, ranks=1, timeout=300, **options):
    """Run a command to its end."""
    return Started(*arguments, ranks=ranks, **options).wait(timeout)


def contents(folder):
    """{(file, variable): bits} of every variable of the outputs in `folder`; the restart is checked as a run does."""
    found = {}
    restart = read(folder / "restart.nc")
    found |= {("restart.nc", name): array.tobytes() for name, array in restart.arrays.items()}
    found |= {("restart.nc", name): value for name, value in restart.scalars.items()}
    for file in ("fields.nc", "gauges.nc", "maxima.nc"):
        with netCDF4.Dataset(folder / file) as dataset:
            dataset.set_auto_maskandscale(False)
            found |= {(file, name): np.asarray(variable[...]).tobytes() for name, variable in dataset.variables.items()}
    return found


def unreadable(folder, once=(), only="*.nc"):
    """What is wrong with the files that a run has left, a sentence each; `once` names what must be there.

    `only` chooses among the files: while a run writes on, its restart can be read at any moment, the others cannot.
    """
    wrong = [f"{name} is gone" for name in once if not (folder / name).exists()]
    for path in [*folder.glob(only), *folder.glob("restart.zarr")]:
        try:
            if path.stem == "restart":
                read(path)
                continue
            with netCDF4.Dataset(path) as dataset:
                times = np.atleast_1d(dataset["time"][...])
                if (np.diff(times) <= 0).any() or np.ma.is_masked(times):
                    wrong.append(f"{path.name} has the times {times}")
                for variable in dataset.variables.values():
                    variable[...]
        except (OSError, RuntimeError, IndexError, SwmodelError) as error:
            wrong.append(f"{path.name} cannot be read: {error}")
    return wrong


def differences(folder, expected):
    """What two runs' contents differ in, in words; empty if in nothing."""
    try:
        found = contents(folder)
    except (OSError, RuntimeError, IndexError, SwmodelError) as error:
        return [f"the outputs cannot be read: {error}"]
    return [
        f"{file}: {name}"
        for file, name in sorted({*found, *expected})
        if found.get((file, name)) != expected.get((file, name))
    ]


def foreign(text):
    """The first word of a traceback or crash in what a run printed, or None."""
    return next((word for word in FOREIGN if word in text), None)


def sources():
    """What tells one state of the model's sources from another: no two are to be compared bit for bit."""
    files = [*ROOT.glob("swmodel/**/*.py"), *ROOT.glob("swmodel/**/*.cpp")]
    return {str(path): (path.stat().st_mtime_ns, path.stat().st_size) for path in files}


class Budget:
    """Wall-clock time that a part may take, and its progress, printed in place or a line now and then."""

    def __init__(self, name, count, seconds):
        self.name, self.count, self.seconds = name, count, seconds
        self.began, self.said = time.monotonic(), 0.0

    def trials(self):
        """Numbers of trials, until all are done, the time is up or a signal stops them."""
        for number in range(self.count):
            spent = time.monotonic() - self.began
            if spent > self.seconds or STOPPED.is_set():
                why = "stopped" if STOPPED.is_set() else "the time is up"
                print(f"{self.name}: {why} after {number} of {self.count}", flush=True)
                return
            if time.monotonic() - self.said > 15.0:
                self.said = time.monotonic()
                print(f"{self.name}: {number} of {self.count}, {spent:.0f} s", flush=True)
            yield number
