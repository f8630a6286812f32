"""Devices and processes of a sharded run: what is asked for, what cannot be, and two processes that make one run."""

import os
import socket
import subprocess
import sys

import numpy as np
import pytest
import xarray as xr

from swmodel.runtime import devices, launch
from swmodel.runtime.devices import Hosts, hosts_of
from swmodel.simulation.simulation import Simulation
from tests.parallel import cases
from tests.unit.test_sharded import gradients

SRUN = {"SLURM_STEP_ID": "0", "SLURM_STEP_NUM_TASKS": "3", "SLURM_PROCID": "2", "SLURM_LOCALID": "0"}
ENVIRONMENT = {"SWMODEL_COORDINATOR": "node1:9000", "SWMODEL_NUM_PROCESSES": "2", "SWMODEL_PROCESS_ID": "1"}


# -- who takes part ---------------------------------------------------------------------------------------------------


def test_a_process_by_itself_has_no_hosts():
    assert hosts_of(environment={}) is None
    assert hosts_of(environment=SRUN) is None


def test_hosts_come_from_options_then_the_environment_then_the_launcher():
    assert hosts_of("a:1", 4, 0, {}) == Hosts("a:1", 4, 0)
    assert hosts_of(environment=ENVIRONMENT) == Hosts("node1:9000", 2, 1)
    assert hosts_of("a:1", process=0, environment=ENVIRONMENT) == Hosts("a:1", 2, 0)
    assert hosts_of("a:1", environment=SRUN) == Hosts("a:1", 3, 2)


@pytest.mark.parametrize(
    "given, environment, why",
    [
        ((None, 2, 0), {}, "needs --coordinator"),
        (("a:1", None, None), {}, "these are None and None; add --num-processes"),
        (("a:1", 2, 2), {}, "process 2 of 2.*cannot be"),
        (("a", 2, 0), {}, "HOST:PORT"),
        (("a:1", 2, 0), SRUN, "srun started 3 processes, and --num-processes is 2"),
    ],
)
def test_hosts_that_cannot_be_are_told(given, environment, why):
    with pytest.raises(launch.LaunchError, match=why):
        hosts_of(*given, environment)


def test_the_coordinator_listens_at_its_address_alone(monkeypatch):
    assert devices._listening_address("localhost:9000") in ("127.0.0.1:9000", "[::1]:9000")
    assert devices._listening_address("[::1]:9000") in ("[::1]:9000", None)  # None on a host without IPv6
    assert devices._listening_address("192.0.2.1:9000") is None  # of another host
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: [(socket.AF_INET, 1, 6, "", ("127.0.1.1", 9000))])
    assert devices._listening_address("node1:9000") is None


def test_devices_are_for_the_sharded_communicator_alone(monkeypatch):
    with pytest.raises(launch.LaunchError, match="not serial"):
        launch.configure_process(communicator="serial", devices=2)


def test_the_first_gpus_are_taken_and_more_than_there_are_refused(monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "3,5,6")
    with pytest.raises(launch.LaunchError, match="devices = 4, and this process can use 3 GPUs; give 3 or fewer"):
        devices._choose_gpus(4, ["3", "5", "6"])
    devices._choose_gpus(2, ["3", "5", "6"])
    assert os.environ["CUDA_VISIBLE_DEVICES"] == "3,5"


def test_devices_cannot_be_made_once_jax_has_started():
    np.asarray(cases.alone("both poles")[0].at_rest().u)
    with pytest.raises(launch.LaunchError, match="before JAX is first used"):
        devices.start_devices(3)


# -- programs of their own --------------------------------------------------------------------------------------------

CLI = "from swmodel.__main__ import main; main()"
EXPERIMENT = """
run = {until = "10 min"}
grid = {type = "cartesian", nx = 13, ny = 11, x = ["0 km", "130 km"], y = ["0 km", "110 km"]}
bathymetry = {type = "flat", depth = "100 m"}
coriolis = {type = "f_plane", f0 = 1e-4}
model = {precision = "float64"}
initial = {type = "gaussian", amplitude = "1 m", centre = ["60 km", "50 km"], radius = "20 km"}
stepper = {type = "ab2", dt = 10}
[output]
gauges = {positions = {middle = ["60 km", "40 km"]}}
maxima = {}
restart = {every = "5 min"}
fields = [{file = "fields.nc", variables = ["eta", "u", "v"], every = "5 min"}]
"""


def start(code, *arguments, **variables):
    environment = {**os.environ, "PYTHONPATH": os.getcwd(), "JAX_PLATFORMS": "cpu", **variables}
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    return subprocess.Popen([sys.executable, "-c", code, *map(str, arguments)], env=environment, **pipes)


def ended(*processes):
    """[(status, standard output, standard error)]; none is left behind."""
    try:
        answers = [process.communicate(timeout=240) for process in processes]
        return [(process.returncode, *answer) for process, answer in zip(processes, answers)]
    finally:
        for process in processes:
            process.kill()


def free_port():
    with socket.socket() as s:
        s.bind(("localhost", 0))
        return s.getsockname()[1]


def two(code, *arguments):
    """What two processes that meet at a port of this machine ended with."""
    where = f"localhost:{free_port()}"
    each = [
        start(code, *arguments, SWMODEL_COORDINATOR=where, SWMODEL_NUM_PROCESSES="2", SWMODEL_PROCESS_ID=str(k))
        for k in range(2)
    ]
    return ended(*each)


def same_files(ours, theirs):
    for name in ("fields.nc", "gauges.nc", "maxima.nc"):
        with xr.open_dataset(ours / name) as one, xr.open_dataset(theirs / name) as other:
            xr.testing.assert_allclose(one, other, rtol=1e-6, atol=1e-9)


@pytest.fixture(scope="module")
def experiment(tmp_path_factory):
    """(the file, the folder that a run on one rank filled)."""
    folder = tmp_path_factory.mktemp("sharded")
    (folder / "bump.toml").write_text(EXPERIMENT)
    ((status, _, errors),) = ended(start(CLI, "run", folder / "bump.toml", "-q", "-o", folder / "serial"))
    assert status == 0, errors
    return folder / "bump.toml", folder / "serial"


@pytest.mark.verify
def test_the_command_line_runs_and_resumes_on_devices(experiment):
    file, serial = experiment
    folder = file.parent / "devices"
    sharded = ("--communicator", "sharded", "-o", folder)
    short = start(CLI, "run", file, *sharded, "--devices", 6, "--until", "5min")
    ((status, out, errors),) = ended(short)
    assert status == 0, errors
    assert "6, 2 x 3 tiles (y x x)" in out + errors
    resumed = start(CLI, "resume", folder / "restart.nc", *sharded, "--devices", 4, "--until", "10min", "-q")
    ((status, _, errors),) = ended(resumed)
    assert status == 0, errors
    same_files(folder, serial)


@pytest.mark.verify
def test_two_processes_make_one_run_whose_first_one_writes(experiment):
    file, serial = experiment
    folder = file.parent / "processes"
    both = two(CLI, "run", file, "--communicator", "sharded", "--devices", 2, "-o", folder)
    assert [status for status, _, _ in both] == [0, 0], both
    assert "4, 2 x 2 tiles" in both[0][1] + both[0][2] and "tiles" not in both[1][1] + both[1][2]
    same_files(folder, serial)


@pytest.mark.verify
def test_two_processes_that_fail_alike_end_with_the_same_status(experiment):
    file, _ = experiment
    arguments = "--communicator", "sharded", "--devices", 1, "--set", "initial.amplitude=-150", "-q"
    both = two(CLI, "run", file, *arguments, "-o", file.parent / "blown")
    assert [status for status, _, _ in both] == [3, 3], both
    assert "less than 1 m" in both[0][2]


STUDY = """
import sys, numpy as np
import swmodel as sw
from swmodel.runtime import launch
from swmodel.runtime.devices import hosts_of
launch.configure_process("float64", "sharded", devices=3, hosts=hosts_of())
import jax
from swmodel.simulation.simulation import Simulation
from swmodel.parallel import make_communicator
from tests.parallel import cases
from tests.unit.test_sharded import SHAPE, GAUGES, gradients, run
mesh = make_communicator("sharded", SHAPE, (2, 3))
model, stepper = cases.CASES["walls and islands"](communicator=mesh, engine="arrays")
arrays, numbers = {}, {}
if "gradients" in sys.argv:
    state, (by_state, by_depth, by_viscosity) = run(model, stepper), gradients(model, stepper)
    arrays = {"u": state.u, "v": state.v, "eta": state.eta, "by_eta": by_state.eta, "by_depth": by_depth}
    numbers = {"by_viscosity": np.asarray(by_viscosity)}
arrays = {name: model.gather(tiles) for name, tiles in arrays.items()}
total = mesh.host_sum(np.full(500, mesh.rank + 1.0))
answers = mesh.host_maximum(mesh.rank), mesh.host_broadcast("of %d" % mesh.rank), mesh.host_gather(mesh.rank)
assert (total == 3.0).all() and answers == (1.0, "of 0", [0, 1]), answers
assert mesh.ranks == ((0, 1, 2), (3, 4, 5))[mesh.rank]
simulation = Simulation(model, cases.start(model), stepper).gauges(sys.argv[1] + "/gauges.nc", GAUGES)
simulation.restart(sys.argv[1] + "/restart.nc").run(steps=25)
again = Simulation(model, cases.start(model), stepper)
again.resume(sys.argv[1] + "/restart.nc")
again.run(steps=15)
arrays["after"] = model.gather(again.state.eta)
if mesh.is_root:
    np.savez(sys.argv[1] + "/found.npz", **numbers, **arrays)
mesh.barrier()
"""

FAILS_ALONE = """
import sys
from swmodel.runtime import launch
from swmodel.runtime.devices import hosts_of
launch.configure_process("float64", "sharded", devices=1, hosts=hosts_of())
from swmodel.parallel import make_communicator
mesh = make_communicator("sharded", (4, 4))
mesh.barrier()
if mesh.rank == int(sys.argv[1]):
    raise OSError("no such file")
mesh.barrier()
"""


def studied(folder, *more):
    """What two processes found, each with three devices."""
    both = two(STUDY, folder, *more)
    assert [status for status, _, _ in both] == [0, 0], both
    return dict(np.load(folder / "found.npz"))


@pytest.mark.verify
def test_two_processes_find_the_steps_and_gradients_of_one_rank(tmp_path):
    from tests.unit.test_sharded import run

    study, (model, stepper) = studied(tmp_path, "gradients"), cases.alone("walls and islands")
    state, (by_state, by_depth, by_viscosity) = run(model, stepper), gradients(model, stepper)
    for name in ("u", "v", "eta"):
        expected = np.asarray(getattr(state, name))
        np.testing.assert_allclose(study[name], expected, rtol=0, atol=1e-12 * np.abs(expected).max())
    wanted = {"by_eta": by_state.eta, "by_depth": by_depth, "by_viscosity": by_viscosity}
    for name, expected in wanted.items():
        np.testing.assert_allclose(study[name], expected, rtol=0, atol=1e-11 * np.abs(expected).max())


@pytest.mark.verify
def test_two_processes_resume_what_they_wrote(tmp_path):
    study = studied(tmp_path)
    model, stepper = cases.alone("walls and islands")
    straight = Simulation(model, cases.start(model), stepper)
    straight.run(steps=40)
    expected = np.asarray(straight.state.eta)
    np.testing.assert_allclose(study["after"], expected, rtol=0, atol=1e-12 * np.abs(expected).max())


@pytest.mark.verify
def test_a_process_that_fails_alone_ends_the_others():
    waiting, failed = two(FAILS_ALONE, 1)
    assert failed[0] == 1 and "no such file" in failed[2]
    assert waiting[0] != 0
