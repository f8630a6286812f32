"""INT, TERM and USR1 at random moments of a run, from its first second on: while it starts, compiles, computes, writes.

INT and TERM end it within END_WITHIN seconds, with status 130 or 143 and one sentence on what is kept and how to go on;
no process, lock or half-written file is left, and the next trial goes on from what is. USR1 leaves a restart, and the
run goes on.
"""

import contextlib
import dataclasses
import os
import random
import re
import signal
import time

from swmodel.runtime import launch

from .harness import Budget, Started, foreign, unreadable, write_case

EACH = 20  # of every signal to every target
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGUSR1)
TARGETS = ("mpirun", "rank", "serial") if launch.mpi_installed() else ("serial",)
END_WITHIN = 10.0  # [s] from the signal to the end
FIRST, LAST = 1.0, 10.0  # [s] after the start between which a signal comes
APPEARS = 60.0  # [s] by which a restart that was asked for is there, start-up included
RANKS = 2


@dataclasses.dataclass
class Tally:
    signals: int = 0
    wrong: list = dataclasses.field(default_factory=list)
    slowest: float = 0.0  # [s] from INT or TERM to the end
    restarts: int = 0  # of runs that were ended after their first step


def signals(each, folder, seconds=3600.0, seed=0, kinds=SIGNALS, targets=TARGETS, last=LAST):
    """`each` of the signals `kinds` to each of the `targets`; returns the Tally."""
    rng, tally = random.Random(seed), Tally()
    pairs = [(number, target) for number in kinds for target in targets] * each
    rng.shuffle(pairs)
    cases = {target: _case(folder / target) for target in targets}
    for trial in Budget("signals", len(pairs), seconds).trials():
        number, target = pairs[trial]
        wrong = _trial(cases[target], number, target, rng, tally, last)
        tally.signals += 1
        tally.wrong += [f"{number.name} to {target}, trial {trial}: {what}" for what in wrong]
        if trial % 4 == 3:  # a run from the beginning, now and then
            for path in (folder / target / "output").glob("*"):
                path.unlink()
    return tally


def _case(folder):
    """A run without end that writes a restart only when a signal asks for one."""
    folder.mkdir(parents=True)
    return write_case(folder, until="100000 day", fields="1 day", restart="100000 day")


def _trial(case, number, target, rng, tally, last):
    output = case.parent / "output"
    restart = output / "restart.nc"
    command = ("resume", restart, "-q") if restart.exists() else ("run", case, "-q", "--overwrite")
    run = Started(*command, ranks=1 if target == "serial" else RANKS)
    receiver = _receiver(run, target, rng)
    if receiver is None:
        return [f"there was no {target} to send it to: {run.wait(0.0).text[-500:]}"]
    when = rng.uniform(FIRST, last)
    time.sleep(when)
    if number != signal.SIGUSR1:
        return [f"{when:.1f} s after the start: {what}" for what in _ended(run, receiver, number, output, tally)]
    before = _changed(restart)
    wrong = _sent(receiver, number) or _restart_appears(run, restart, before)
    if wrong:
        return [f"{when:.1f} s after the start: {what}; {run.wait(0.0).text[-500:]}" for what in wrong]
    return [
        f"{when:.1f} s after the start, the TERM after it: {what}"
        for what in _ended(run, receiver, signal.SIGTERM, output, tally)
    ]


def _receiver(run, target, rng):
    """The process id of the target, once it is there."""
    if target != "rank":
        return run.process.pid
    number = rng.randrange(RANKS)
    while run.alive() and run.seconds < APPEARS:
        if (found := run.rank(number)) is not None:
            return found
        time.sleep(0.02)
    return None


def _sent(receiver, number):
    try:
        os.kill(receiver, number)
    except ProcessLookupError:
        return ["it had ended before"]
    return []


def _changed(path):
    with contextlib.suppress(FileNotFoundError):
        return path.stat().st_mtime_ns


def _restart_appears(run, restart, before):
    """What is wrong with a run after USR1, or nothing once its restart is there."""
    since = time.monotonic()
    while time.monotonic() - since < APPEARS:
        if not run.alive():
            return ["the run ended"]
        if _changed(restart) not in (None, before):
            return unreadable(restart.parent, once=("restart.nc",), only="restart.nc")
        time.sleep(0.02)
    return [f"no restart within {APPEARS:.0f} s"]


def _ended(run, receiver, number, output, tally):
    """Send INT or TERM; what is wrong with the end."""
    wrong, since = _sent(receiver, number), run.seconds
    if wrong:
        return [*wrong, run.wait(0.0).text[-500:]]
    ended = run.wait(END_WITHIN + 20.0)
    took = ended.seconds - since
    tally.slowest = max(tally.slowest, took)
    if ended.status is None or took > END_WITHIN:
        wrong.append(f"the end came after {took:.1f} s")
    if ended.status != 128 + number:
        wrong.append(f"the status was {ended.status}")
    if run.left:
        wrong.append(f"{len(run.left)} processes were alive 5 s after the end")
    wrong += _said(ended.text, number, output, tally) + unreadable(output)
    wrong += [f"{path.name} was left" for path in output.glob(".*")]
    return wrong + ([ended.text[-1000:]] if wrong else [])


def _said(text, number, output, tally):
    """What is wrong with what a run that INT or TERM ended has printed."""
    sentences = [line for line in text.splitlines() if f"{number.name} stopped" in line]
    if word := foreign(text):
        return [f"it printed {word!r}"]
    if len(sentences) != 1:
        return [f"it printed {len(sentences)} sentences"]
    restart = output / "restart.nc"
    if re.search(rf"swmodel resume \S*{re.escape(str(restart))}", sentences[0]):
        tally.restarts += 1
        return [] if restart.exists() else ["the restart that it names is not there"]
    return [] if "tart again with" in sentences[0] else ["the sentence does not say how to go on"]
