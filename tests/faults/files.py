"""Disks that are full, quotas, folders that cannot be written, outputs that someone removes, replaces or cuts short.

Each run ends by itself, with a status other than 0 and one sentence that names the file; the newest good restart is
kept, and no lock, half-written file or process is left.
"""

import contextlib
import dataclasses
import os
import random
import resource
import shutil
import signal
import subprocess
import tempfile
import time
from pathlib import Path

from swmodel.output import is_store
from swmodel.runtime import launch

from .harness import Budget, Started, foreign, unreadable, write_case

QUOTA = 400_000  # [bytes] a file may have
DISK = "2m"
PATIENCE = 90.0  # [s] in which a run notices what happened to its files
DISTURBED = ("fields.nc", "gauges.nc")


@dataclasses.dataclass
class Tally:
    files: int = 0
    wrong: list = dataclasses.field(default_factory=list)
    skipped: dict = dataclasses.field(default_factory=dict)  # {kind: why}


def files(count, folder, seconds=3600.0, seed=0, kinds=None, ranks=(1, 2)):
    """`count` runs, each disturbed in one way after the other; returns the Tally."""
    rng, tally = random.Random(seed), Tally()
    ranks = ranks if launch.mpi_installed() else (1,)
    kinds = list(KINDS) if kinds is None else list(kinds)
    for kind in ("full disk", "read-only folder"):
        if kind in kinds and not _may_mount():
            kinds.remove(kind)
            tally.skipped[kind] = "file systems cannot be mounted here"
    for trial in Budget("files", count, seconds).trials():
        kind = kinds[trial % len(kinds)]
        many = 1 if kind == "quota" else ranks[trial // len(kinds) % len(ranks)]  # MPI's own files are larger
        place = folder / f"{trial}"
        place.mkdir(parents=True)
        wrong = KINDS[kind](place, many, rng)
        tally.files += 1
        tally.wrong += [f"{kind}, {many} rank{'s' * (many > 1)}: {what}" for what in wrong]
    return tally


# -- what is done to a run ---------------------------------------------------------------------------------------------


def _full_disk(place, ranks, rng):
    """A file system of 2 MB, in part taken by another file."""
    with _mounted(place / "output") as output:
        (output / "other").write_bytes(bytes(rng.randrange(1_400_000)))
        run = _started(place, ranks)
        return _ended(run, output, restart_may_be_missing=True)


def _quota(place, ranks, rng):
    """No file may grow over QUOTA."""
    run = _started(place, ranks, preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (QUOTA, QUOTA)))
    return _ended(run, place / "output")


def _read_only(place, ranks, rng):
    """A folder on a file system that is mounted read-only."""
    with _mounted(place / "output") as output:
        subprocess.run(["mount", "-o", "remount,ro", str(output)], check=True)
        return _ended(_started(place, ranks), output, restart_may_be_missing=True)


def _disturbed(action):
    def disturb(place, ranks, rng):
        run, output = _started(place, ranks), place / "output"
        name = rng.choice(DISTURBED)
        if not _after_restarts(run, output, rng.randint(1, 4)):
            return [f"the run ended early: {run.wait(0.0).text[-500:]}"]
        time.sleep(rng.uniform(0.0, 0.2))
        action(output, name)
        return [f"{name}: {what}" for what in _ended(run, output, named=name)]

    return disturb


def _remove(output, name):
    (output / name).unlink()


def _replace(output, name):
    shutil.copy(output / name, output / "copy")
    os.replace(output / "copy", output / name)


def _cut(output, name):
    """What remains is less than the header, which HDF5 does not write again.

    A fraction of the present length may be more than what the file holds: it is longer for the moment in which
    `swmodel.output.reserve` looks for space.
    """
    os.truncate(output / name, 1000)


def _folder_moved(kind):
    """The whole folder of outputs, fields and restarts in files or stores, is moved away; the restart in it is good."""
    options = "--set", f"output.fields.0.file=fields.{kind}", "--set", f"output.restart.file=restart.{kind}"

    def moved(place, ranks, rng):
        run, output = _started(place, ranks, *options), place / "output"
        if not _after_restarts(run, output, rng.randint(1, 4), f"restart.{kind}"):
            return [f"the run ended early: {run.wait(0.0).text[-500:]}"]
        os.rename(output, place / "away")
        wrong = _ended(run, output, restart_may_be_missing=True)
        wrong += [f"parts of {path} were left" for path in output.glob("fields*.zarr")]
        return wrong + unreadable_restart(place / "away", name=f"restart.{kind}")

    return moved


KINDS = {
    "full disk": _full_disk,
    "quota": _quota,
    "read-only folder": _read_only,
    "removed file": _disturbed(_remove),
    "replaced file": _disturbed(_replace),
    "file cut short": _disturbed(_cut),
    "folder moved away": _folder_moved("nc"),
    "folder of stores moved away": _folder_moved("zarr"),
}


# -- how it ended ------------------------------------------------------------------------------------------------------


def _started(place, ranks, *arguments, **options):
    case = write_case(place, until="100000 day", fields="5 min", restart="1 hour")
    return Started("run", case, "-q", "--overwrite", *arguments, ranks=ranks, **options)


def _after_restarts(run, output, count, name="restart.nc"):
    """Wait for so many restarts; False if the run ends before."""
    last, path = None, output / name / ("zarr.json" if is_store(name) else "")
    while count:
        if not run.alive() or run.seconds > PATIENCE:
            return False
        with contextlib.suppress(FileNotFoundError):
            now = path.stat().st_mtime_ns
            count, last = count - (now != last), now
        time.sleep(0.005)
    return True


def _ended(run, output, named="", restart_may_be_missing=False):
    """What is wrong with the end of a disturbed run."""
    ended, wrong = run.wait(PATIENCE), []
    if ended.status is None:
        return [f"it had not ended after {PATIENCE:.0f} s", *unreadable_restart(output, restart_may_be_missing)]
    if ended.status in (0, 128 + signal.SIGSEGV, 128 + signal.SIGBUS, 128 + signal.SIGABRT, 128 + signal.SIGKILL):
        wrong.append(f"the status was {ended.status}")
    sentences = [line for line in ended.text.splitlines() if "error: " in line]
    if word := foreign(ended.text):
        wrong.append(f"it printed {word!r}")
    elif len(sentences) != 1 or str(output / named) not in sentences[0]:
        wrong.append(f"it printed {len(sentences)} sentences, or none that names {output / named}")
    if run.left:
        wrong.append(f"{len(run.left)} processes were alive 5 s after the end")
    if output.exists():
        wrong += [f"{path.name} was left" for path in output.glob(".*")]
        wrong += unreadable_restart(output, restart_may_be_missing)
    return wrong + ([ended.text[-1000:]] if wrong else [])


def unreadable_restart(output, may_be_missing=False, name="restart.nc"):
    """What is wrong with the restart that is left."""
    wrong = unreadable(output, once=() if may_be_missing else (name,))
    return [what for what in wrong if what.startswith("restart.")]


@contextlib.contextmanager
def _mounted(path):
    """A small file system of its own at `path`."""
    path.mkdir(parents=True)
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={DISK}", "swmodel-faults", str(path)], check=True)
    try:
        yield path
    finally:
        subprocess.run(["umount", "-l", str(path)], check=False)


def _may_mount():
    with tempfile.TemporaryDirectory() as name:
        with contextlib.suppress(OSError, subprocess.CalledProcessError):
            with _quiet_mount(Path(name)):
                return True
    return False


@contextlib.contextmanager
def _quiet_mount(folder):
    command = ["mount", "-t", "tmpfs", "-o", "size=64k", "swmodel-faults", str(folder)]
    subprocess.run(command, check=True, capture_output=True)
    try:
        yield
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=False)
