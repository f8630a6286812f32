"""SIGINT, SIGTERM and SIGUSR1 at a few moments of commands: how they end, what they say, and what is left of them.

`make faults` sends them at random moments (signals.py)."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from swmodel.runtime import launch
from tests.restarts import read_restart
from tests.selection import now

from . import signals
from .harness import ROOT, Started, straight, write_case

needs_mpi = pytest.mark.skipif(not launch.mpi_installed(), reason="MPI is not installed")
PATIENCE = 90.0  # [s]
ADJOINT = """
[adjoint]
controls = ["initial.eta"]
[adjoint.cost]
type = "gauge_elevation"
gauges = "A"
"""


def until(condition, process):
    end = time.monotonic() + PATIENCE
    while not condition():
        assert process.alive() and time.monotonic() < end, "it did not come so far"
        time.sleep(0.02)


def catches_signals(process):
    """Whether a process has a handler for SIGTERM."""
    try:
        with open(f"/proc/{process}/status") as status:
            caught = next(int(line.split()[1], 16) for line in status if line.startswith("SigCgt"))
    except (OSError, TypeError):
        return False
    return bool(caught >> (signal.SIGTERM - 1) & 1)


def ended_by(process, number, whom=None):
    """The Ended of a process that got a signal, itself or another one of its: within 10 s, in one sentence."""
    target = process.process.pid if whom is None else whom
    subprocess.run(["kill", f"-{int(number)}", str(target)], check=True)
    sent = process.seconds
    ended = process.wait(PATIENCE)
    assert ended.status == 128 + number, ended.text
    assert ended.seconds - sent < 12.0 and not process.left
    assert ended.text.count("error:") == 1 and f"{number.name} stopped" in ended.text, ended.text
    return ended.text


def no_locks(folder):
    return not [path for path in folder.rglob(".*") if path.is_file()]


def test_usr1_kills_no_command_and_term_ends_it_before_anything_is_imported(tmp_path):
    process = Started("run", write_case(tmp_path))
    until(lambda: catches_signals(process.process.pid), process)
    process.process.send_signal(signal.SIGUSR1)
    time.sleep(0.2)
    text = ended_by(process, signal.SIGTERM)
    assert f"Start again with: swmodel run {tmp_path}/case.toml\n" in text
    assert not (tmp_path / "output").exists()


@pytest.mark.verify
def test_a_run_leaves_a_restart_and_the_command_to_go_on(tmp_path):
    process = Started("run", write_case(tmp_path, restart="1000 day"))
    until(lambda: (tmp_path / "output" / "fields.nc").exists(), process)
    text = ended_by(process, signal.SIGINT)
    restart = tmp_path / "output" / "restart.nc"
    assert f"swmodel resume {restart}\n" in text and no_locks(tmp_path)
    assert f"of step {read_restart(restart).scalars['step']}" in text


@pytest.mark.verify
@pytest.mark.parametrize("command", ["adjoint"])
def test_a_study_says_how_to_start_again(tmp_path, command):
    case = write_case(tmp_path, until="1 day")
    case.write_text(case.read_text() + ADJOINT)
    process = Started(command, case)
    until(lambda: b"gradient" in process.so_far(), process)
    text = ended_by(process, signal.SIGTERM)
    assert f"Start again with: swmodel {command} {case}\n" in text and no_locks(tmp_path)


INVERSION = """
[inversion]
loops = 1000
residual = 1e-9
decrease = 1e-12
method = "descent"
[[inversion.controls]]
type = "field"
name = "initial.eta"
deviation = 0.3
length = "30 km"
[inversion.observations]
type = "gauges"
window = ["1 min", "1 hour"]
[inversion.twin.truth]
"initial.amplitude" = "20 cm"
"""


@pytest.mark.verify
def test_an_inversion_goes_on_from_its_restart_after_a_signal(tmp_path):
    case = write_case(tmp_path, until="1 hour")
    case.write_text(case.read_text() + INVERSION)
    process = Started("invert", case)
    until(lambda: b"iteration 1:" in process.so_far(), process)
    text = ended_by(process, signal.SIGINT)
    restart = tmp_path / "output" / "inversion.restart.nc"
    assert restart.exists() and f"continue with: swmodel invert {case} --resume\n" in text and no_locks(tmp_path)
    done = straight("invert", case, "--resume", "--set", "inversion.loops=1", "--set", "inversion.products=2")
    assert done.status == 0 and "resumed after" in done.text, done.text


@pytest.mark.verify
def test_a_resumed_run_says_how_to_go_on_from_the_restart_that_it_went_on_from(tmp_path):
    case = write_case(tmp_path, fields="1 day", restart="1000 day")
    assert straight("run", case, "--until", "10 min", "-q").status == 0
    restart = tmp_path / "output" / "restart.nc"
    process = Started("resume", restart, "--until", "1000 day")
    until(lambda: b"model time" in process.so_far(), process)
    text = ended_by(process, signal.SIGTERM)
    assert f"swmodel resume {restart}\n" in text and no_locks(tmp_path)
    assert f"of step {read_restart(restart).scalars['step']}" in text and read_restart(restart).scalars["step"] > 40


@pytest.mark.verify
def test_a_run_on_several_devices_leaves_a_restart_on_usr1_and_on_term(tmp_path):
    case = write_case(tmp_path, fields="1 day", restart="1000 day")
    process = Started("run", case, "--communicator", "sharded", "--devices", "2")
    until(lambda: b"model time" in process.so_far(), process)
    leaves_a_restart_on_usr1(process, process.process.pid, tmp_path / "output" / "restart.nc")
    text = ended_by(process, signal.SIGTERM)
    assert f"swmodel resume {tmp_path}/output/restart.nc\n" in text and no_locks(tmp_path)


def leaves_a_restart_on_usr1(process, whom, restart):
    """A run that was asked for a restart by USR1 writes one, and goes on."""
    assert not restart.exists()
    subprocess.run(["kill", f"-{int(signal.SIGUSR1)}", str(whom)], check=True)
    until(restart.exists, process)
    step = read_restart(restart).scalars["step"]
    assert step > 0
    time.sleep(0.3)
    assert process.alive()


@needs_mpi
@pytest.mark.parametrize("whom", [None, pytest.param(1, marks=pytest.mark.verify)])
def test_ranks_leave_a_restart_on_usr1_and_go_on(tmp_path, whom):
    """USR1 to mpirun, or to one rank."""
    process = Started("run", write_case(tmp_path, fields="1 day", restart="1000 day"), ranks=2)
    until(lambda: b"model time" in process.so_far(), process)
    receiver = process.process.pid if whom is None else process.rank(whom)
    restart = tmp_path / "output" / "restart.nc"
    leaves_a_restart_on_usr1(process, receiver, restart)
    text = ended_by(process, signal.SIGTERM)
    assert f"swmodel resume {restart}\n" in text.replace("\r", "") and no_locks(tmp_path)


@pytest.mark.verify
@needs_mpi
@pytest.mark.parametrize(("number", "whom"), [(signal.SIGTERM, None), (signal.SIGINT, 1)])
def test_ranks_end_together_after_a_restart(tmp_path, number, whom):
    """A signal to mpirun, or to one rank."""
    process = Started("run", write_case(tmp_path, fields="1 day", restart="2 hour"), ranks=2)
    until(lambda: (tmp_path / "output" / "restart.nc").exists(), process)
    text = ended_by(process, number, whom and process.rank(whom))
    assert f"swmodel resume {tmp_path}/output/restart.nc\n" in text.replace("\r", "") and no_locks(tmp_path)


@needs_mpi
def test_mpirun_is_ended_while_its_ranks_are_being_set_up(tmp_path):
    process = Started("run", write_case(tmp_path), ranks=2)
    until(lambda: all(catches_signals(process.rank(rank)) for rank in range(2)), process)
    text = ended_by(process, signal.SIGTERM)
    assert "before it had computed anything" in text


STUCK = """
import ctypes, time
from swmodel.runtime.signals import PROCESS
PROCESS.start()
libc, end = ctypes.CDLL(None), time.monotonic() + 30
tidy = lambda: print("tidied", flush=True)
with PROCESS.ending_with(lambda name: f"{name} stopped it; see b."), PROCESS.cleanup(tidy):
    with PROCESS.graceful(1.0):
        print("here", flush=True)
        while time.monotonic() < end:
            libc.poll(None, 0, 30000)
"""


@pytest.mark.parametrize("twice", [False, True])
def test_a_main_thread_in_native_code_is_ended_when_its_time_is_over_or_a_second_signal_comes(twice):
    program = STUCK if not twice else STUCK.replace("graceful(1.0)", "graceful(60.0)")
    process = subprocess.Popen(
        [sys.executable, "-c", program], cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stdout.readline() == "here\n"
    for _ in range(1 + twice):
        process.send_signal(signal.SIGTERM)
        time.sleep(0.3)
    began = time.monotonic()
    out, err = process.communicate(timeout=20)
    assert (process.returncode, out, err) == (143, "tidied\n", "error: SIGTERM stopped it; see b.\n")
    assert time.monotonic() - began < 5.0


LAUNCHER = """
import subprocess, sys, time
process = subprocess.Popen([sys.executable, "-c", sys.argv[1]], stdout=1, stderr=2)
time.sleep(60)
"""


@pytest.mark.parametrize("rank", [True, False])
def test_ranks_end_when_their_launcher_is_killed_whatever_they_are_doing(rank):
    """A rank in native code ends at once when its parent does; a process that is no rank goes on."""
    program = STUCK.replace("+ 30", "+ 3" if rank else "+ 1").replace("30000", "200")
    environment = {**os.environ, "OMPI_COMM_WORLD_RANK": "0"} if rank else dict(os.environ)
    launcher = subprocess.Popen(
        [sys.executable, "-c", LAUNCHER, program + "print('done')"],
        cwd=ROOT,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    assert launcher.stdout.readline() == "here\n"
    launcher.kill()
    launcher.wait()
    said = "tidied\nerror: rank 0: the command has ended, because its launcher has.\n"
    assert launcher.stdout.read() == (said if rank else "done\n")


def test_a_rank_whose_launcher_was_killed_before_it_began_ends(tmp_path):
    """A shell with the number that the name of the job holds starts the rank and ends at once."""
    (tmp_path / "rank.py").write_text("import os, time\nwhile os.getppid() == LAUNCHER: time.sleep(0.01)\n" + STUCK)
    job = f"export OMPI_COMM_WORLD_RANK=1 PMIX_NAMESPACE=prterun-{os.uname().nodename}-$$@1"
    rank = f"{sys.executable} -c \"LAUNCHER = $$; exec(open('{tmp_path}/rank.py').read())\""
    command = ["bash", "-c", f"{job}; {rank} >&2 & echo $!"]
    with open(tmp_path / "said", "w") as said:
        shell = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=said)
    number = int(shell.stdout)
    end = time.monotonic() + 20
    while Path(f"/proc/{number}").exists() and time.monotonic() < end:
        time.sleep(0.05)
    assert "because its launcher has" in (tmp_path / "said").read_text()


@pytest.mark.parametrize(
    "redirection", now(["> /dev/full", ">&-", "| head -1", "> /dev/full 2>&1"], "> /dev/full", ">&-")
)
def test_standard_output_that_takes_nothing_ends_no_command(redirection):
    command = f"set -o pipefail; {sys.executable} -m swmodel new {redirection}"
    done = subprocess.run(["bash", "-c", command], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0 and "Traceback" not in done.stderr
    assert ("No space left" in done.stderr) == (redirection == "> /dev/full")


CLOSED = """
import os
os.close(1)
from swmodel.runtime.signals import PROCESS
PROCESS.start()
assert os.fstat(1).st_rdev == os.stat(os.devnull).st_rdev
"""


def test_the_signals_do_not_come_through_a_standard_descriptor_that_was_closed():
    done = subprocess.run([sys.executable, "-c", CLOSED], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


PRINTING = """
import sys, time
from swmodel.runtime import launch
from swmodel.cli.logs import protect_streams
protect_streams()
for line in range(30):
    if launch.launcher().rank == 0:
        print(line, flush=True)
    time.sleep(0.05)
open(sys.argv[1] + str(launch.launcher().rank), "w").close()
"""


@needs_mpi
def test_mpirun_whose_output_nobody_reads_runs_to_the_end(tmp_path):
    """Open MPI's mpirun ends its ranks when it has failed to write a few times."""
    (tmp_path / "printing.py").write_text(PRINTING)
    program = [*launch.mpirun(2), sys.executable, str(tmp_path / "printing.py"), str(tmp_path / "done")]
    done = subprocess.run(
        ["bash", "-c", f"set -o pipefail; {' '.join(program)} | head -1"],
        cwd=ROOT,
        text=True,
        capture_output=True,
        env={**launch.mpirun_environment(), "PYTHONPATH": str(ROOT)},
        timeout=PATIENCE,
    )
    assert (done.returncode, done.stdout) == (0, "0\n"), done.stderr
    assert (tmp_path / "done0").exists() and (tmp_path / "done1").exists()


# -- random moments ----------------------------------------------------------------------------------------------------


@pytest.mark.verify
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGUSR1])
def test_a_signal_at_a_random_moment_of_a_serial_run(number, tmp_path):
    tally = signals.signals(1, tmp_path, seed=2, kinds=(number,), targets=("serial",), last=5.0)
    assert tally.signals == 1 and not tally.wrong, tally.wrong
    assert 0.0 < tally.slowest < signals.END_WITHIN


def test_ends_without_a_sentence_or_a_restart_are_wrong(tmp_path):
    tally = signals.Tally()
    again = "SIGTERM stopped the command before it had computed anything. Start again with: swmodel run case.toml"
    restart = f"SIGTERM stopped the run at step 5 (75 s). swmodel resume {tmp_path / 'restart.nc'}"
    said = {
        text: signals._said(text, signal.SIGTERM, tmp_path, tally)
        for text in (again, restart, "", f"{again}\n{again}", "SIGTERM stopped the run.", f"Traceback\n{again}")
    }
    assert list(said.values()) == [
        [],
        ["the restart that it names is not there"],
        ["it printed 0 sentences"],
        ["it printed 2 sentences"],
        ["the sentence does not say how to go on"],
        ["it printed 'Traceback'"],
    ]
    (tmp_path / "restart.nc").touch()
    assert signals._said(restart, signal.SIGTERM, tmp_path, tally) == []
