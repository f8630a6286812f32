"""Who started this process, what it may use, and that n processes never take themselves for one."""

import glob
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from swmodel.errors import ConfigError
from swmodel.runtime import launch, launchers
from swmodel.runtime.launchers import physical_cores
from tests.selection import later

OPEN_MPI = {
    "OMPI_COMM_WORLD_SIZE": "8",
    "OMPI_COMM_WORLD_RANK": "5",
    "OMPI_COMM_WORLD_LOCAL_RANK": "1",
    "OMPI_COMM_WORLD_LOCAL_SIZE": "4",
    "OMPI_VERSION": "5.0.11",
}
HYDRA = {"PMI_SIZE": "4", "PMI_RANK": "3", "MPI_LOCALRANKID": "1", "MPI_LOCALNRANKS": "2"}
SRUN = {
    "SLURM_JOB_ID": "7",
    "SLURM_STEP_ID": "0",
    "SLURM_NTASKS": "7",
    "SLURM_STEP_NUM_TASKS": "7",
    "SLURM_PROCID": "4",
    "SLURM_LOCALID": "0",
    "SLURM_NODEID": "1",
    "SLURM_STEP_TASKS_PER_NODE": "4,3",
}
MVAPICH = {
    "MV2_COMM_WORLD_SIZE": "8",
    "MV2_COMM_WORLD_RANK": "5",
    "MV2_COMM_WORLD_LOCAL_RANK": "1",
    "MV2_COMM_WORLD_LOCAL_SIZE": "4",
}
PALS = {"PMI_SIZE": "8", "PMI_RANK": "5", "PALS_RANKID": "5", "PALS_LOCAL_RANKID": "1", "PALS_LOCAL_SIZE": "4"}
PMI = {"PMI_SIZE": "4", "PMI_RANK": "3"}
CRAY_PMI = {"PMI_SIZE": "8", "PMI_RANK": "5", "PMI_LOCAL_RANK": "1", "PMI_LOCAL_SIZE": "4"}
OLDER_PALS = {"PALS_RANKID": "5", "PALS_LOCAL_RANKID": "1"}
VARIABLES = {*OPEN_MPI, *HYDRA, *SRUN, *MVAPICH, *PALS, "CUDA_VISIBLE_DEVICES", "JAX_PLATFORMS"}
VARIABLES |= {"XLA_PYTHON_CLIENT_PREALLOCATE"}

needs_mpi = pytest.mark.skipif(not launch.mpi_installed(), reason="MPI is not installed")


@pytest.fixture
def started(monkeypatch):
    """Sets the environment that a launcher would have given."""

    def start(environment):
        for name in VARIABLES:
            monkeypatch.delenv(name, raising=False)
        for name, value in environment.items():
            monkeypatch.setenv(name, value)

    start({})
    return start


@pytest.mark.parametrize(
    "variables, name, ranks",
    [
        (OPEN_MPI, "Open MPI's mpirun 5.0.11", (8, 5, 1, 4)),
        (SRUN | OPEN_MPI, "Open MPI's mpirun 5.0.11", (8, 5, 1, 4)),  # its daemons are a job step
        (HYDRA, "Hydra's mpirun (MPICH, Intel MPI)", (4, 3, 1, 2)),
        (MVAPICH, "MVAPICH's mpirun", (8, 5, 1, 4)),
        ({key.replace("MV2", "MVP"): number for key, number in MVAPICH.items()}, "MVAPICH's mpirun", (8, 5, 1, 4)),
        (PALS, "Cray's mpiexec (PALS)", (8, 5, 1, 4)),
        (PALS | {"PALS_LOCAL_SIZE": ""}, "Cray's mpiexec (PALS)", (8, 5, 1, None)),
        (CRAY_PMI, "a PMI launcher", (8, 5, 1, 4)),  # else all ranks of a host take its first GPU
        (CRAY_PMI | OLDER_PALS, "Cray's mpiexec (PALS)", (8, 5, 1, 4)),
        (PMI, "a PMI launcher", (4, 3, 0, None)),
        (PMI | {"MPI_LOCALRANKID": "1"}, "a PMI launcher", (4, 3, 1, None)),
        (SRUN, "Slurm's srun", (7, 4, 0, 3)),
        (SRUN | {"PMI_SIZE": "7", "PMI_RANK": "4"}, "Slurm's srun", (7, 4, 0, 3)),
    ],
)
def test_launchers_are_recognised_with_the_ranks_of_the_host(variables, name, ranks):
    assert launch.launcher(variables) == launch.Launcher(name, *ranks)


def test_ranks_of_pals_whose_number_nothing_gives_are_refused():
    """Else each rank runs the whole domain."""
    with pytest.raises(launch.LaunchError, match="as number 5, and no variable has the number.*or set PMI_SIZE"):
        launch.launcher(OLDER_PALS)


SCRIPT = """
import os
{first}
import swmodel as sw
model = sw.ShallowWater(sw.CartesianGrid(8, 6, (0.0, 8e3), (0.0, 6e3)), 100.0)
cores = os.sched_getaffinity(0)
threads = [os.sched_getaffinity(int(thread)) for thread in os.listdir("/proc/self/task")]
assert all(found == cores for found in threads if found), threads
everyone = model.communicator.host_gather(cores)
if model.communicator.is_root:
    print([sorted(found) for found in everyone])
"""


@pytest.mark.verify
@needs_mpi
@pytest.mark.skipif(os.cpu_count() < 2 or len(os.sched_getaffinity(0)) < os.cpu_count(), reason="needs all of 2 cores")
@pytest.mark.parametrize("first", [later(""), "import jax.numpy as jnp; jnp.ones(3).sum()"])
def test_ranks_of_a_script_get_cores_of_their_own(tmp_path, first):
    """Also where JAX has started its threads before."""
    (tmp_path / "script.py").write_text(SCRIPT.format(first=first))
    environment = {**launch.mpirun_environment(), "PYTHONPATH": os.pathsep.join(sys.path), "JAX_PLATFORMS": "cpu"}
    command = [*launch.mpirun(2), "--bind-to", "none", sys.executable, tmp_path / "script.py"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    one, two = eval(done.stdout)
    assert one and two and not set(one) & set(two)


def test_a_script_that_used_jax_before_its_ranks_got_gpus_is_told_what_to_call(started, monkeypatch):
    started(OPEN_MPI)
    monkeypatch.setattr(launch, "usable_gpus", lambda environment: ["0", "1", "2", "3"])
    monkeypatch.setattr(launch, "_bound", set())
    monkeypatch.setattr(launch, "backends_are_initialized", lambda: True)
    with pytest.raises(launch.LaunchError, match="rank 5 cannot be given .*configure_process\\(\\)"):
        launch.bind_rank()
    monkeypatch.setattr(launch, "backends_are_initialized", lambda: False)
    launch.bind_rank()
    assert os.environ["CUDA_VISIBLE_DEVICES"] == "1"
    launch.bind_rank()  # once
    assert os.environ["CUDA_VISIBLE_DEVICES"] == "1"


@pytest.mark.parametrize(("tasks", "node", "count"), [("4(x2),3", "1", 4), ("4(x2),3", "2", 3), ("", "0", None)])
def test_tasks_per_node_are_read_as_slurm_writes_them(tasks, node, count):
    assert launch.launcher({**SRUN, "SLURM_STEP_TASKS_PER_NODE": tasks, "SLURM_NODEID": node}).local_size == count


@pytest.mark.parametrize(
    "variables",
    [
        {name: value for name, value in SRUN.items() if "STEP" not in name},  # of a batch script
        *(SRUN | {"SLURM_STEP_ID": step} for step in ("4294967291", "4294967290")),  # batch and interactive steps
        *(OPEN_MPI | {"OMPI_COMM_WORLD_SIZE": size} for size in ("", "many", "-1")),
    ],
)
def test_batch_scripts_and_sizes_that_are_no_numbers_are_one_process(variables):
    assert launch.launcher(variables) is None


# -- the world ------------------------------------------------------------------------------------------------------


def test_a_smaller_world_stops_in_one_sentence_that_names_both_mpis(started, monkeypatch):
    started(HYDRA)
    monkeypatch.setattr(launch, "loaded_mpi", lambda: ("Open MPI 5.0.11", "/opt/lib/libmpi.so.40"))
    with pytest.raises(launch.LaunchError) as stop:
        launch.check_world(1)
    text = str(stop.value)
    assert "Hydra's mpirun (MPICH, Intel MPI) started 4 processes" in text
    assert "Open MPI 5.0.11 (/opt/lib/libmpi.so.40), counts 1" in text
    assert "\n" not in text and text.endswith(".")


def test_serial_runs_are_not_started_several_times(started):
    started(SRUN)
    for communicator in ("serial", "sharded"):
        with pytest.raises(launch.LaunchError, match="7 processes.*overwrite"):
            launch.configure_process(communicator=communicator)


def test_several_ranks_without_mpi_stop(started, monkeypatch):
    started(OPEN_MPI)
    monkeypatch.setattr(launch, "mpi_installed", lambda: False)
    for attempt in (launch.configure_process, launch.load_mpi):
        with pytest.raises(launch.LaunchError, match="8 processes.*not installed.*make setup"):
            attempt()


def test_mpi_asked_for_without_mpi_stops(started, monkeypatch):
    monkeypatch.setattr(launch, "mpi_installed", lambda: False)
    with pytest.raises(launch.LaunchError, match="the communicator is mpi.*not installed"):
        launch.configure_process(communicator="mpi")


def test_unknown_communicator_and_precision_are_refused(started):
    with pytest.raises(launch.LaunchError, match="'carrier pigeon'"):
        launch.configure_process(communicator="carrier pigeon")
    with pytest.raises(ConfigError, match="'float16'"):
        launch.configure_process(precision="float16")


def test_auto_is_serial_for_one_process(started):
    process = launch.configure_process()
    assert (process.communicator, process.launcher, process.gpu) == ("serial", None, None)
    assert process.threads == len(os.sched_getaffinity(0))


# -- GPUs -----------------------------------------------------------------------------------------------------------


@pytest.fixture
def with_gpus(monkeypatch):
    """JAX's CUDA plugin seems installed, on a host with so many GPUs."""
    real = launch.importlib.util.find_spec
    monkeypatch.setattr(launch.importlib.util, "find_spec", lambda name: name if "cuda" in name else real(name))
    return lambda count: monkeypatch.setattr(glob, "glob", lambda pattern: ["/dev/nvidia0"] * count)


VISIBLE, SHARED = "CUDA_VISIBLE_DEVICES", {"XLA_PYTHON_CLIENT_PREALLOCATE": "false"}  # not all memory for one rank


@pytest.mark.parametrize(
    "count, environment, ranks, gpu, after",
    [
        (4, {}, (8, 5, 1, 4), "1", {VISIBLE: "1"}),
        (2, {}, (4, 3, 3, 4), "1", {VISIBLE: "1", **SHARED}),
        (8, {VISIBLE: "6, MIG-a1"}, (2, 1, 1, 2), "MIG-a1", {VISIBLE: "MIG-a1"}),
        (8, {VISIBLE: "6"}, (2, 1, 1, 2), "6", {VISIBLE: "6", **SHARED}),
        (2, {"JAX_PLATFORMS": "cpu"}, (2, 1, 1, 2), None, {"JAX_PLATFORMS": "cpu"}),
        (2, {VISIBLE: ""}, (2, 1, 1, 2), None, {VISIBLE: ""}),
    ],
)
def test_local_ranks_get_gpus_in_turn_out_of_those_that_are_visible(with_gpus, count, environment, ranks, gpu, after):
    """Those that share one go round, and where none is wanted none is bound."""
    with_gpus(count)
    environment = dict(environment)
    assert launch._bind_gpu(environment, launch.Launcher("x", *ranks)) == gpu and environment == after


# -- cores ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("ranks", [1, 2, 3, 5, 8])
def test_shares_of_cores_are_even_disjoint_and_complete(ranks):
    cores = [{core, core + 8} for core in range(8)]  # two hardware threads each
    shares = [launchers.share(cores, rank, ranks) for rank in range(ranks)]
    assert set().union(*shares) == set(range(16))
    assert sum(map(len, shares)) == 16
    assert max(map(len, shares)) - min(map(len, shares)) <= 2
    assert all((core + 8) % 16 in share for share in shares for core in share)


def test_more_ranks_than_cores_take_turns():
    shares = [launchers.share([{0}, {1}], rank, 6) for rank in range(6)]
    assert shares == [{0}, {1}] * 3


def test_hardware_threads_of_a_core_are_found():
    cores = physical_cores(os.sched_getaffinity(0))
    assert set().union(*cores) == os.sched_getaffinity(0)
    assert sum(map(len, cores)) == len(os.sched_getaffinity(0))


def test_ranks_that_share_cores_are_warned_of():
    apart = [("a", (0, 1)), ("a", (2, 3)), ("b", (0, 1))]
    assert launchers.crowding(apart) is None
    together = [("a", (0,)), ("b", (0, 1)), ("b", (0, 1))]
    assert "2 ranks with 4 threads share 2 cores of host b" in launchers.crowding(together)


# -- MPI's names and mpirun -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("Open MPI v5.0.11, package: Open MPI user@host Distribution, ident: 5.0.11\0", "Open MPI 5.0.11"),
        ("MPICH Version:      4.3.2\nMPICH Release date: ...", "MPICH 4.3.2"),
        ("MVAPICH2 Version      :\t2.3.7\nMVAPICH2 Release date", "MVAPICH2 2.3.7"),
        ("Intel(R) MPI Library 2021.11 for Linux* OS\n", "Intel(R) MPI Library 2021.11 for Linux* OS"),
        ("MVAPICH Version      :\t4.0\n", "MVAPICH 4.0"),
    ],
)
def test_mpi_libraries_are_named_shortly(text, name):
    assert launchers.library_name(text) == name


# -- messages from GPU to GPU: only where the MPI says so -------------------------------------------------------------

OMPI, MPICH = "Open MPI v5.0.11, package: ...", "MPICH Version:      4.3.2\nMPICH Release date: ..."
CRAY = "MPI VERSION    : CRAY MPICH version 8.1.26.26 (ANL base 3.4a2)\nMPI BUILD INFO : ...\n"
MVAPICH2, MVAPICH = "MVAPICH2 Version      :\t2.3.7\n", "MVAPICH Version      :\t4.0\n"
YES, NO = "int MPIX_Query_cuda_support(void) { return 1; }", "int MPIX_Query_cuda_support(void) { return 0; }"
GPU_YES, GPU_NO, GPU_FAILS = (
    f"int MPIX_GPU_query_support(int kind, int *is) {{ *is = {on} && kind == 0; return {error}; }}"
    for on, error in ((1, 0), (0, 0), (1, 5))
)
SILENT = "int MPI_Init(int *argc, char ***argv) { return 0; }"
ON, GTL = {"MPICH_GPU_SUPPORT_ENABLED": "1", "MV2_USE_CUDA": "1"}, "/opt/cray/lib64/libmpi_gtl_cuda.so.0"


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    """library(source, name) is the path of that source, compiled."""
    if shutil.which("g++") is None:
        pytest.skip("g++ is not installed")

    def build(source, name="libmpi.so.40"):
        path = tmp_path_factory.mktemp("mpi") / name
        command = ["g++", "-shared", "-fPIC", "-x", "c++", "-", "-o", str(path)]
        subprocess.run(command, input=f'extern "C" {source}', text=True, check=True, timeout=60)
        return str(path)

    return build


@pytest.mark.parametrize(
    ("version", "source", "environment", "aware"),
    [
        (OMPI, YES, {}, True),
        (OMPI, NO, {}, False),
        (OMPI, SILENT, {}, False),
        (OMPI, NO, ON, False),  # another MPI's variable, left in somebody's shell, would be a segmentation fault
        (OMPI, SILENT, ON, False),
        (MPICH, GPU_YES, {}, True),
        (MPICH, GPU_NO, ON, False),
        (MPICH, GPU_FAILS, {}, False),
        (MVAPICH2, SILENT, ON, True),
        (MVAPICH2, YES, {}, False),
        (MVAPICH2, NO, ON, False),
        (MVAPICH, GPU_YES, {}, True),
        (MVAPICH, GPU_YES, {"MVP_USE_CUDA": "0"}, False),
    ],
)
def test_an_mpi_takes_gpu_pointers_only_if_it_says_so(library, version, source, environment, aware):
    assert launchers.cuda_aware(environment, [library(source)], version) is aware


def test_cray_mpich_takes_gpu_pointers_if_told_to_and_linked_to_its_transport(library):
    cray = library(SILENT, "libmpi_gnu_91.so.12")
    assert launchers.cuda_aware(ON, [cray, GTL], CRAY)
    assert not launchers.cuda_aware({}, [cray, GTL], CRAY)
    assert not launchers.cuda_aware(ON, [cray], CRAY)


def test_two_mpis_in_one_process_must_both_say_so(library):
    """mpi4py's wheel may bring another one than mpi4jax was built with."""
    one, other = library(YES), library(NO, "libmpi-1f2e.so.12")
    assert not launchers.cuda_aware({}, [one, other], OMPI)
    assert launchers.cuda_aware({}, [one, library(YES, "libmpich.so.12")], OMPI)
    assert not launchers.cuda_aware({}, ["/usr/lib/libm.so.6"], OMPI)


STAGING = (
    "import os\nfrom swmodel.runtime import launch; from swmodel.runtime import launchers\n"
    "launch.configure_process()\nlaunch.load_mpi()\n"
    "print('answer', os.environ['MPI4JAX_USE_CUDA_MPI'], int(launchers.cuda_aware(os.environ)))\n"
)


@pytest.mark.verify
@needs_mpi
def test_messages_are_staged_as_this_mpi_says_unless_the_user_does(monkeypatch):
    monkeypatch.delenv("MPI4JAX_USE_CUDA_MPI", raising=False)
    ended = _python(STAGING)
    _, staged, aware = ended.stdout.split()[-3:]
    assert staged == aware, ended.stderr
    monkeypatch.setenv("MPI4JAX_USE_CUDA_MPI", "1")
    assert _python(STAGING).stdout.split()[-2] == "1"


@pytest.mark.parametrize(
    ("hosts", "chosen", "found"), [(1, None, "^ofi"), (2, None, None), (1, "tcp,self", "tcp,self")]
)
def test_on_one_host_open_mpi_does_not_look_for_networks_unless_it_is_asked_to(
    started, monkeypatch, hosts, chosen, found
):
    started(OPEN_MPI | {"OMPI_COMM_WORLD_LOCAL_SIZE": str(8 // hosts)})
    monkeypatch.setenv("MPI4JAX_USE_CUDA_MPI", "0")
    monkeypatch.setenv("OMPI_MCA_btl", chosen or "")
    if chosen is None:
        monkeypatch.delenv("OMPI_MCA_btl")
    at_start = []
    monkeypatch.setattr(launch, "mpi_installed", lambda: True)
    monkeypatch.setattr(launch.importlib, "import_module", lambda name: at_start.append(os.environ.get("OMPI_MCA_btl")))
    launch.load_mpi()
    assert at_start == [found, found]


# -- mpirun -----------------------------------------------------------------------------------------------------------


def test_mpirun_of_this_environment_comes_before_that_on_path(tmp_path, monkeypatch):
    ours, theirs = tmp_path / "ours", tmp_path / "theirs"
    for folder in (ours, theirs):
        folder.mkdir()
        (folder / "mpirun").write_text("#!/bin/sh\n")
        (folder / "mpirun").chmod(0o755)
    monkeypatch.setenv("PATH", str(theirs))
    monkeypatch.setattr(sys, "executable", str(ours / "python"))
    assert launch.mpirun(3) == [str(ours / "mpirun"), "-n", "3"]
    (ours / "mpirun").unlink()
    assert launch.mpirun(3) == [str(theirs / "mpirun"), "-n", "3"]
    (theirs / "mpirun").unlink()
    with pytest.raises(launch.LaunchError, match="no mpirun"):
        launch.mpirun(3)


def test_what_a_launcher_set_does_not_reach_the_next_one(started):
    started({**OPEN_MPI, **HYDRA})
    environment = launch.mpirun_environment()
    assert launch.launcher(environment) is None
    assert environment["PATH"] == os.environ["PATH"]


WORLD = (
    "from swmodel.runtime import launch, launchers\n"
    "process = launch.configure_process()\n"
    "world = launch.load_mpi().COMM_WORLD\n"
    "launch.check_world(world.size)\n"
    "print('answer', launchers.launched_ranks(), world.size, process.communicator, launchers.binding_warning(world))\n"
)


def _python(code, *starter):
    environment = {**launch.mpirun_environment(), "JAX_PLATFORMS": "cpu"}
    root = Path(__file__).resolve().parents[2]
    command = [*starter, sys.executable, "-c", code]
    return subprocess.run(command, capture_output=True, text=True, timeout=200, cwd=root, env=environment)


@needs_mpi
def test_mpirun_starts_a_world_whose_ranks_do_not_share_cores():
    ranks = min(2, len(physical_cores(os.sched_getaffinity(0))))
    ended = _python(WORLD, *launch.mpirun(ranks))
    answers = [line for line in ended.stdout.splitlines() if line.startswith("answer")]
    kind = "mpi" if ranks > 1 else "serial"
    assert answers == [f"answer {ranks} {ranks} {kind} None"] * ranks, ended.stderr


@pytest.mark.verify
@needs_mpi
def test_ranks_started_by_a_foreign_launcher_stop(tmp_path):
    """A launcher that MPI does not know, as an mpirun of another MPI is: each process would be rank 0 of 1."""
    foreign = tmp_path / "mpirun"
    each = '"$@" 2>"$0.0" & PMI_RANK=1 "$@" 2>"$0.1"; wait $!; cat "$0.0" "$0.1" >&2'  # else lines of both may mix
    foreign.write_text(f"#!/bin/sh\nexport PMI_SIZE=2 PMI_RANK=0\n{each}\n")
    foreign.chmod(0o755)
    ended = _python("import warnings; warnings.simplefilter('ignore')\n" + WORLD, str(foreign))
    assert "answer" not in ended.stdout
    assert ended.stderr.count("LaunchError: a PMI launcher started 2 processes") == 2, ended.stderr
    version, _ = launchers.loaded_mpi()
    assert version is None or version in ended.stderr


@needs_mpi
def test_a_killed_mpirun_leaves_no_folder_that_stops_a_later_one_with_its_number():
    command = [*launch.mpirun(1), sys.executable, "-c", "import time; print('here', flush=True); time.sleep(60)"]
    process = subprocess.Popen(
        command, env=launch.mpirun_environment(), stdout=subprocess.PIPE, text=True, start_new_session=True
    )
    process.stdout.readline()
    process.kill()
    process.wait()
    launch.stop(process)
    assert not Path(tempfile.gettempdir(), f"ompi.{process.pid}").exists()
