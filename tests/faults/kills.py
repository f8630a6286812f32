"""SIGKILL at random moments, those of writing among them: after any number of kills a run resumes to the same bits.

A chain is one run that is killed a few times, each time resumed from its newest restart (begun anew where there was
none yet), and then left to end. Its outputs must be those of a run that nobody disturbed: every bit of every variable.
"""

import contextlib
import dataclasses
import os
import random
import signal
import time

from swmodel.errors import SwmodelError
from swmodel.runtime import launch
from tests.restarts import read_restart

from .harness import Budget, Started, differences, foreign, straight, unreadable, write_case
from .harness import contents as contents_of

RANKS = 2 if launch.mpi_installed() else 1
KILLS_PER_CHAIN = 5
STEPS, RESTARTS, FIELDS = 4000, 20, 10  # steps of a run, and between two restarts or snapshots
DT = 15.0  # [s]
VICTIMS = ("all", "all", "rank 0", "rank 1", "mpirun")
LINGER = 5.0  # [s] by which a rank may outlive its mpirun
MOMENTS = ("restart", "restart", "record", "record", "any", "start")
PATIENCE = 120.0  # [s] for what should take a few


@dataclasses.dataclass
class Tally:
    kills: int = 0
    lost: list = dataclasses.field(default_factory=list)
    inside: int = 0  # kills while a restart was half-written


def prepared(folder, steps=STEPS):
    """(the case, contents of the outputs of a run that nobody disturbs)."""
    folder.mkdir(parents=True)
    case = write_case(folder, f"{steps * DT} s", fields=f"{FIELDS * DT} s", restart=f"{RESTARTS * DT} s")
    ended = straight("run", case, "-q", ranks=RANKS, timeout=300)
    if ended.status:
        raise RuntimeError(f"the undisturbed run ended with status {ended.status}: {ended.text[-2000:]}")
    return case, contents_of(folder / "output")


def kills(count, folder, seconds=3600.0, seed=0, steps=STEPS):
    """`count` kills; returns the Tally."""
    rng, tally = random.Random(seed), Tally()
    _, expected = prepared(folder / "undisturbed", steps)
    budget = Budget("kills", 2 * count, seconds)  # a run may end before the moment of its kill has come
    trials, number = budget.trials(), 0
    while tally.kills < count:
        chain = folder / f"chain-{number}"
        chain.mkdir()
        case = write_case(chain, f"{steps * DT} s", fields=f"{FIELDS * DT} s", restart=f"{RESTARTS * DT} s")
        before = tally.kills
        wrong = _chain(case, trials, min(KILLS_PER_CHAIN, count - tally.kills), expected, rng, tally, steps)
        tally.lost += [f"chain {number}: {what}" for what in wrong]
        number += 1
        if tally.kills == before and number > count:
            break
    return tally


def _chain(case, trials, most, expected, rng, tally, steps):
    """Kill and resume one run up to `most` times, then let it end; what was lost, in words."""
    output, once, wrong = case.parent / "output", set(), []
    while most and next(trials, None) is not None:
        command = _command(case, output)
        if command[0] == "run":  # which replaces what is there
            once.clear()
        run = Started(*command, ranks=RANKS)
        killed = _kill_somewhere(run, output, rng, tally, steps)
        tally.kills += killed
        most -= killed
        wrong += _after(run, output, once)
        if not killed:  # it had ended before its moment came
            break
    if (output / "restart.nc").exists() and _at_end(output, steps):
        return wrong + differences(output, expected)
    ended = straight(*_command(case, output), ranks=RANKS, timeout=PATIENCE)
    if ended.status or foreign(ended.text):
        return [*wrong, f"resuming ended with status {ended.status}: {ended.text[-500:]}"]
    return wrong + differences(output, expected)


def _at_end(output, steps):
    try:
        return read_restart(output / "restart.nc").scalars["step"] == steps
    except SwmodelError:  # resuming says so as well
        return False


def _command(case, output):
    restart = output / "restart.nc"
    return ("resume", restart, "-q") if restart.exists() else ("run", case, "-q", "--overwrite")


def _kill_somewhere(run, output, rng, tally, steps):
    """Wait for a random moment and kill; False if the run had ended by then."""
    moment, victim = rng.choice(MOMENTS), rng.choice(VICTIMS)
    if not _wait_for(moment, run, output, rng, steps):
        run.wait(PATIENCE)
        return False
    tally.inside += bool(list(output.glob(".restart.nc.*.part")))
    processes = run.processes()
    chosen = {
        "all": list(processes),
        "mpirun": [run.process.pid],
        "rank 0": [p for p, rank in processes.items() if rank == 0],
        "rank 1": [p for p, rank in processes.items() if rank == 1],
    }[victim] or list(processes)
    for process in chosen:
        with contextlib.suppress(ProcessLookupError):
            os.kill(process, signal.SIGKILL)
    run.victim = f"{victim} killed at a moment of kind {moment!r}"
    return True


def _wait_for(moment, run, output, rng, steps):
    """Whether the run was alive when the moment came."""
    if moment == "start":
        time.sleep(rng.uniform(0.0, 6.0))
        return run.alive()
    writes = rng.randint(1, steps // RESTARTS // KILLS_PER_CHAIN)
    if moment == "any":
        return _writes(run, output, "restart.nc", writes) and _pause(rng.uniform(0.0, 0.2), run)
    if moment == "restart":
        return (
            _writes(run, output, "restart.nc", writes)
            and _half_written(run, output)
            and _pause(rng.uniform(0.0, 0.01), run)
        )
    return (
        _writes(run, output, "restart.nc", writes)
        and _writes(run, output, "fields.nc", 1)
        and _pause(rng.uniform(0.0, 0.003), run)
    )


def _pause(seconds, run):
    time.sleep(seconds)
    return run.alive()


def _writes(run, output, name, count):
    """Wait until a file has changed so many times; False if the run ends first."""
    path, last, checked = output / name, None, time.monotonic()
    with contextlib.suppress(FileNotFoundError):
        last = path.stat().st_mtime_ns
    while count:
        with contextlib.suppress(FileNotFoundError):
            now = path.stat().st_mtime_ns
            if now != last:
                last, count = now, count - 1
        if time.monotonic() - checked > 0.1:
            checked = time.monotonic()
            if not run.alive() or run.seconds > PATIENCE:
                return False
        time.sleep(0.0002)
    return True


def _half_written(run, output):
    """Wait until a restart is being written."""
    while run.alive() and run.seconds < PATIENCE:
        if any(name.startswith(".restart.nc.") and name.endswith(".part") for name in os.listdir(output)):
            return True
        time.sleep(0.0001)
    return False


def _after(run, output, once):
    """What is wrong once the run is over: processes left, files lost or unreadable."""
    victim = getattr(run, "victim", None)
    if victim is None:
        return []
    ended, wrong = run.wait(30.0, LINGER), []
    if ended.status is None:
        wrong.append(f"{victim}: the run had not ended 30 s later")
    elif run.left:
        wrong.append(f"{victim}: {len(run.left)} processes were alive {LINGER:.0f} s after the end")
    wrong += [f"{victim}: {what}" for what in unreadable(output, once)]
    once |= {path.name for path in output.glob("*.nc")}
    return wrong
