"""The scripts for SLURM, under one that is made of four small programs on PATH."""

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import netCDF4
import numpy as np
import pytest

from swmodel.runtime import launch
from tests.restarts import read_restart
from tests.scripts import script
from tests.studies import BOX

pytestmark = pytest.mark.verify  # tests of the repository, and not of the model

SLURM = Path(__file__).resolve().parents[2] / "scripts" / "slurm"
SCRIPTS = sorted([*SLURM.glob("*.sh"), *SLURM.glob("*.sbatch"), *SLURM.glob("machines/*.sh")])
MACHINES = [path.stem for path in SLURM.glob("machines/*.sh")]

# srun runs one task as this very process, more under mpirun; scancel finds it by its number.
PROGRAMS = {
    "srun": """
tasks=1
while [ "${1#-}" != "$1" ]; do
    case $1 in --ntasks=*) tasks=${1#*=} ;; esac
    shift
done
echo $$ >"$FAKE/step"
[ "$tasks" = 1 ] && SLURM_LOCALID=0 exec "$@"
exec $MPIRUN -n "$tasks" "$@"
""",
    "scancel": """
echo "$*" >>"$FAKE/scancel"
kill -s "${1#--signal=}" "$(cat "$FAKE/step")"
""",
    "scontrol": 'echo "$*" >>"$FAKE/scontrol"',
    "sbatch": """
echo "$*" >>"$FAKE/sbatch"
[ -n "$PRETEND" ] && exit
while [ "${1#-}" != "$1" ]; do
    case $1 in --output=*) log=${1#*=} ;; esac
    shift
done
bash "$@" >"$log" 2>&1
""",
    "swmodel": """exec "$PYTHON" -c 'from swmodel.__main__ import main; main()' "$@" """,
}

CASE = (
    BOX
    + """\
stepper = {type = "rk4", dt = 60}
output.fields = [{file = "fields.nc", variables = ["eta"], every = "10 day"}]
"""
)
RESTART = 'output.restart = {file = "restart.nc", every = "1 year"}\n'


def write_case(folder, until, more=RESTART):
    (folder / "case.toml").write_text(f'{CASE}run.until = "{until}"\n{more}')


@pytest.fixture
def cluster(tmp_path):
    """The environment of a job: the programs above on PATH, their arguments in files of its FAKE."""
    programs = tmp_path / "bin"
    programs.mkdir()
    for name, text in PROGRAMS.items():
        (programs / name).write_text(f"#!/bin/bash\n{text.strip()}\n")
        (programs / name).chmod(0o755)
    environment = {**launch.mpirun_environment(), "FAKE": str(tmp_path), "PYTHON": sys.executable, "PRETEND": ""}
    environment |= {"PATH": f"{programs}:{environment['PATH']}", "PYTHONPATH": os.pathsep.join(sys.path)}
    environment |= {"SWMODEL_SLURM": str(SLURM), "MACHINE": "cpu", "SLURM_JOB_ID": "7", "JAX_PLATFORMS": "cpu"}
    if launch.mpi_installed():
        environment["MPIRUN"] = launch.mpirun(1)[0]
    return environment


def calls_of(cluster, program):
    """The arguments of a program, a list of lines."""
    file = Path(cluster["FAKE"]) / program
    return file.read_text().splitlines() if file.exists() else []


def job(cluster, tmp_path, log):
    """A batch job that runs the case in `tmp_path`, as a process."""
    command = ["bash", SLURM / "run.sbatch", tmp_path / "case.toml", tmp_path / "out"]
    with open(tmp_path / log, "w") as file:
        return subprocess.Popen(list(map(str, command)), env=cluster, stdout=file, stderr=subprocess.STDOUT, text=True)


def until(condition, patience=120.0):
    end = time.monotonic() + patience
    while not condition():
        assert time.monotonic() < end, "it did not come"
        time.sleep(0.05)


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.name)
def test_bash_can_read_every_script(script):
    done = subprocess.run(["bash", "-n", str(script)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_a_job_whose_time_is_nearly_over_leaves_a_restart_is_queued_again_and_goes_on(cluster, tmp_path):
    write_case(tmp_path, "100 year")
    first = job(cluster, tmp_path, "first.log")
    until(lambda: "model time" in (tmp_path / "first.log").read_text())
    first.send_signal(signal.SIGUSR1)
    log = lambda name: (tmp_path / name).read_text()  # noqa: E731
    assert first.wait(120) == 0, log("first.log")
    assert calls_of(cluster, "scancel") == ["--signal=TERM 7.0"] and calls_of(cluster, "scontrol") == ["requeue 7"]
    step = read_restart(tmp_path / "out" / "restart.nc").scalars["step"]
    end = f"{60 * step + 86400 * 20} s"
    second = job({**cluster, "SLURM_RESTART_COUNT": "1", "UNTIL": end}, tmp_path, "second.log")
    assert second.wait(120) == 0, log("second.log")
    assert "swmodel resume" in log("second.log") and len(calls_of(cluster, "scontrol")) == 1
    with netCDF4.Dataset(tmp_path / "out" / "fields.nc") as file:
        times = np.asarray(file["time"][:])
    assert times[0] == 0 and (np.diff(times)[:-1] == 86400 * 10).all(), "every record is there once"
    assert times[-1] == 60 * step + 86400 * 20


@pytest.mark.parametrize(
    ("starts", "restarts", "said"),
    [
        ("0", True, "to start from the beginning"),
        ("3", True, "ended 3 times before the first restart"),
        ("0", False, "has no [output.restart]"),
    ],
)
def test_a_job_that_is_ended_before_its_first_step_starts_again_but_not_for_ever(
    cluster, tmp_path, starts, restarts, said
):
    write_case(tmp_path, "100 year", RESTART if restarts else "")
    first = job({**cluster, "SLURM_RESTART_COUNT": starts}, tmp_path, "log")
    until((tmp_path / "step").exists)
    first.send_signal(signal.SIGUSR1)
    queued = starts == "0" and restarts
    assert first.wait(120) == (0 if queued else 143), (tmp_path / "log").read_text()
    assert calls_of(cluster, "scontrol") == ["requeue 7"] * queued and said in (tmp_path / "log").read_text()
    assert not (tmp_path / "out" / "restart.nc").exists()


@pytest.mark.parametrize(("end", "status"), [("1 hour", 0), ("never", 2)])
def test_a_run_that_ends_by_itself_is_not_queued_again(cluster, tmp_path, end, status):
    write_case(tmp_path, end)
    assert job(cluster, tmp_path, "log").wait(120) == status, (tmp_path / "log").read_text()
    assert calls_of(cluster, "scontrol") == calls_of(cluster, "scancel") == []


@pytest.mark.verify
def test_a_job_does_not_go_on_from_the_restart_of_another_experiment(cluster, tmp_path):
    """One that stands where its own would be, of a run before somebody edited the file."""
    write_case(tmp_path, "1 hour")
    assert job(cluster, tmp_path, "first.log").wait(120) == 0, (tmp_path / "first.log").read_text()
    write_case(tmp_path, "2 hour", RESTART + "model.gravity = 9.7\n")
    assert job(cluster, tmp_path, "second.log").wait(120) == 2
    assert "gravity is 9.81 in the restart and 9.7 in the experiment" in (tmp_path / "second.log").read_text()
    forced = job({**cluster, "FORCE": "gravity"}, tmp_path, "third.log")
    assert forced.wait(120) == 0, (tmp_path / "third.log").read_text()
    assert read_restart(tmp_path / "out" / "restart.nc").scalars["step"] == 120


def test_each_rank_of_a_node_gets_the_gpu_next_to_its_cores():
    seen = []
    for rank in range(6):
        environment = {**os.environ, "GPU_ORDER": "3 2 1 0", "SLURM_LOCALID": str(rank)}
        show = ["bash", str(SLURM / "bind_gpu.sh"), "sh", "-c", "echo $CUDA_VISIBLE_DEVICES"]
        seen.append(subprocess.run(show, env=environment, capture_output=True, text=True).stdout.strip())
    assert seen == ["3", "2", "1", "0", "3", "2"]


@pytest.mark.parametrize(("machine", "per_node"), [("perlmutter", 4), ("dgx", 8), ("cpu", 16)])
def test_a_run_is_submitted_with_a_rank_for_each_gpu_or_core(cluster, machine, per_node):
    environment = {**cluster, "PRETEND": "1", "CORES": "16"}
    command = ["bash", str(SLURM / "submit.sh"), machine, "3", "case.toml", "out", "--time=02:00:00"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    (line,) = calls_of(cluster, "sbatch")
    for part in ("--nodes=3", f"--ntasks-per-node={per_node}", "--time=02:00:00", "run.sbatch case.toml out"):
        assert part in line, line


def test_a_machine_that_nobody_described_is_told_the_known_ones(cluster):
    for name, rest in (("submit.sh", ["1", "a", "b"]), ("scaling.sh", ["strong"])):
        command = ["bash", str(SLURM / name), "cray-1", *rest]
        done = subprocess.run(command, env=cluster, capture_output=True, text=True)
        assert done.returncode == 2 and all(name in done.stderr for name in ("cray-1", *MACHINES))
    assert calls_of(cluster, "sbatch") == []


def test_weak_scaling_keeps_the_cells_of_a_rank_and_strong_scaling_those_of_all(cluster, tmp_path):
    for kind in ("weak", "strong"):
        options = ["-s", "100x60", "-r", "8 1 6", "-o", str(tmp_path), "--account=a"]
        command = ["bash", str(SLURM / "scaling.sh"), "perlmutter", kind, *options]
        done = subprocess.run(command, env={**cluster, "PRETEND": "1"}, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
    line = re.compile(r"--nodes=(\d+) .*--account=a .*scaling.sbatch (.*)$")
    ends = [line.search(told_line).groups() for told_line in calls_of(cluster, "sbatch")]
    assert ends == [
        ("1", "weak 1 100x60 1x1"),
        ("2", "weak 6 300x120 2x3"),
        ("2", "weak 8 400x120 2x4"),
        ("1", "strong 1 100x60 1x1"),
        ("2", "strong 6 100x60 2x3"),
        ("2", "strong 8 100x60 2x4"),
    ]


@pytest.mark.verify
@pytest.mark.skipif(not launch.mpi_installed(), reason="needs mpi4py and mpi4jax")
def test_a_study_of_one_and_two_ranks_becomes_a_table_and_a_figure(cluster, tmp_path):
    options = ["-s", "32x24", "-r", "1 2", "-o", str(tmp_path / "logs")]
    command = ["bash", str(SLURM / "scaling.sh"), "cpu", "weak", *options]
    done = subprocess.run(command, env={**cluster, "CORES": "2"}, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    logs = sorted((tmp_path / "logs").glob("*.log"))
    points, missing = figure().read(logs)
    assert missing == [] and set(points["weak"]) == {1, 2}, [log.read_text() for log in logs]
    assert points["weak"][2]["nx"] == "64" and points["weak"][2]["messages"] == "1"
    pytest.importorskip("matplotlib")
    figure().main([*map(str, logs), "-o", str(tmp_path / "scaling.png")])
    assert (tmp_path / "scaling.png").stat().st_size > 10_000


def figure():
    return script("scripts/slurm/scaling_figure.py")


def test_efficiency_is_speed_up_over_ranks_and_unfinished_logs_are_named(tmp_path, capsys):
    def log(ranks, rate, ran=None):
        file = tmp_path / f"strong-{ranks}.log"
        lines = [f"scaling kind=strong machine=x ranks={ranks}"]
        for cells in rate:
            lines.append(
                f"bench ranks={ran or ranks} hosts=1 nx=8 ny=8 cells_per_second={cells} fraction_of_bandwidth=0.5 "
                "messages=4 bytes=96"
            )
        file.write_text("\n".join(lines) + "\n")
        return file

    files = [log(2, [1e6]), log(4, [1.0, 1.6e6]), log(8, []), log(16, [1e6], ran=1)]
    points, missing = figure().read(files)
    rows = figure().efficiencies("strong", points["strong"])
    assert [(row[0], row[3], row[4]) for row in rows] == [(2, 1.0, 1.0), (4, 1.6, 0.8)]
    assert "strong-8.log holds no finished bench" in missing[0] and "was to run 16 ranks, and 1 ran" in missing[1]
    figure().main(list(map(str, files)))
    assert "| strong | 4 | 1 | 8 x 8 | 1.6 | 1.60 | 0.80 | 0.50 | 4 | 96 |" in capsys.readouterr().out
