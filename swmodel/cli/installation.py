"""`swmodel doctor`: what is installed, which MPI each part uses, and whether two ranks can exchange messages.

Each probe is a separate process, since MPI starts only once in a process and JAX keeps its devices.
Under a launcher (`srun -n 4 swmodel doctor`) the ranks that it started make the exchange instead.
"""

import dataclasses
import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ..runtime import launch, memory
from ..runtime.launchers import crowding, cuda_aware, loaded_mpi, placement
from ..runtime.packages import versions

if TYPE_CHECKING:
    from rich.console import Console


SECTIONS = ("versions", "devices", "launcher", "MPI", "binding", "exchange")
MARK = "swmodel-doctor:"  # before the answer of a probe, since MPI libraries may print other lines
SIGNALS = "PRTE_MCA_ess_base_forward_signals"
ADVICE = "`make setup` in a checkout builds both for one MPI (MPI=system for your own)"


@dataclasses.dataclass
class Report:
    """Rows (section, name, text), remarks, and problems; each problem is a sentence with its remedy."""

    rows: list = dataclasses.field(default_factory=list)
    remarks: list = dataclasses.field(default_factory=list)
    problems: list = dataclasses.field(default_factory=list)

    def add(self, section: str, name: str, text: object) -> None:
        self.rows.append((section, name, str(text)))


def run(ranks: int = 2, timeout: float = 120.0, console: "Console | None" = None) -> int:
    """Print the report; return the exit status: 0, or 1 if something that is installed does not work."""
    started = launch.launcher()
    if started is None or started.size == 1:
        report = examine(ranks, timeout)
    else:
        report = _examine_launched(started)
        if started.rank:
            return 1 if report.problems else 0
    _show(report, console)
    return 1 if report.problems else 0


def examine(ranks: int = 2, timeout: float = 120.0) -> Report:
    """A Report on this installation, with one mpi4jax exchange on `ranks` ranks if MPI is installed."""
    report = Report()
    _add_versions(report)
    _add_devices(report, timeout)
    if not launch.mpi_installed():
        report.add("MPI", "MPI", f"not installed; the serial model works; {launch.HOW_TO_ADD_MPI}")
        return report
    libraries = _libraries(timeout)
    exchanged = _exchange_with_mpirun(report, ranks, timeout)
    _add_libraries(report, libraries, exchanged)
    return report


def _examine_launched(started):
    """The Report of one of the ranks that a launcher started."""
    report = Report()
    _add_versions(report)
    report.add("launcher", started.name, f"{started.size} ranks")
    try:
        answers = _exchange()
    except launch.LaunchError as error:
        report.problems.append(str(error))
        return report
    _add_exchange(report, answers)
    version, path = loaded_mpi()
    report.add("MPI", "mpi4py", f"{version}, {path}")
    return report


# -- versions and devices -------------------------------------------------------------------------------------------


def _add_versions(report):
    for name, version in versions().items():
        report.add("versions", name, version)
    if importlib.util.find_spec("netCDF4") is not None:
        import netCDF4

        report.add("versions", "netCDF library", netCDF4.__netcdf4libversion__)
        report.add("versions", "HDF5 library", netCDF4.__hdf5libversion__)


def _add_devices(report, timeout):
    code = (
        "import jax; memory = lambda device: (device.memory_stats() or {}).get('bytes_limit')\n"
        "answer([(f'{d.platform}: {d.device_kind} (id {d.id})', memory(d)) for d in jax.devices()])"
    )
    try:
        devices = _probe(code, timeout)
    except ProbeError as error:
        report.problems.append(f"JAX finds no device to run on ({error}); reinstall jax, or set JAX_PLATFORMS=cpu.")
        return
    for device, most in devices:
        report.add("devices", "device", f"{device}, {memory.size(most)} of memory" if most else device)
    report.add("devices", "memory", f"{memory.size(memory.available())} available on this machine")
    report.add("devices", "cores", f"{os.cpu_count()}, of which this process may use {launch.threads_per_rank()}")
    _add_engine(report)
    if shutil.which("nvidia-smi") and not any(device.startswith(("cuda", "gpu")) for device, _ in devices):
        report.remarks.append(
            "a GPU driver is here, and JAX uses the CPU: `make setup GPU=yes` installs JAX with CUDA, and "
            "JAX_PLATFORMS=cpu, if set, keeps it from the GPU."
        )


def _add_engine(report):
    """Add whether steps run as fused loops on the CPU, and which compiler makes them."""
    from ..stencils.native.library import find_compiler, why_not

    compiler, why = find_compiler(), why_not()
    if why is None:
        made = f"compiled by {compiler[0]}" if compiler else "compiled earlier; there is no C++ compiler here"
        report.add("devices", "engine", f"fused loops, {made}")
        return
    report.add("devices", "engine", "arrays")
    report.remarks.append(why)


# -- which MPI ------------------------------------------------------------------------------------------------------

MPI4PY = """
import mpi4py
mpi4py.rc.initialize = False
from mpi4py import MPI
answer([library_name(MPI.Get_library_version()), loaded_library('libmpi')])
"""
MPI4JAX = """
import ctypes, glob, importlib.util, os
folder = os.path.join(importlib.util.find_spec('mpi4jax').submodule_search_locations[0], '_src', 'xla_bridge')
ctypes.CDLL(glob.glob(os.path.join(folder, 'mpi_xla_bridge_cpu*.so'))[0])
library = ctypes.CDLL(loaded_library('libmpi'))
text, length = ctypes.create_string_buffer(8192), ctypes.c_int()
library.MPI_Get_library_version(text, ctypes.byref(length))
answer([library_name(text.value.decode()), loaded_library('libmpi'),
        bool(glob.glob(os.path.join(folder, 'mpi_xla_bridge_cuda*.so')))])
"""


def _libraries(timeout):
    """{"mpi4py": (version, path), "mpi4jax": ..., "mpirun": ...}; an exception's text in place of a version."""
    found = {}
    for name, code in (("mpi4py", MPI4PY), ("mpi4jax", MPI4JAX)):
        try:
            found[name] = _probe(code, timeout)
        except ProbeError as error:
            found[name] = [None, str(error)]
    try:
        command = launch.mpirun(1)[0]
        found["mpirun"] = [_mpirun_version(command), os.path.realpath(command)]
    except launch.LaunchError as error:
        found["mpirun"] = [None, str(error)]
    return found


def _mpirun_version(command):
    try:
        answer = subprocess.run([command, "--version"], capture_output=True, text=True, timeout=30)
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"unknown ({type(error).__name__})"
    return mpirun_name(answer.stdout + answer.stderr)


def mpirun_name(text: str) -> str:
    """ "Open MPI 5.0.11" from "mpirun (Open MPI) 5.0.11", "MPICH 4.3.2" from Hydra's details, else the first line."""
    open_mpi = re.search(r"\(Open MPI\)\s+(\S+)", text)
    hydra = re.search(r"HYDRA.*?Version:\s+(\S+)", text, re.DOTALL)
    if open_mpi:
        return f"Open MPI {open_mpi[1]}"
    return f"MPICH {hydra[1]}" if hydra else (text.strip().splitlines() or ["unknown"])[0]


def _add_libraries(report, libraries, exchanged):
    for name, (version, path, *_) in libraries.items():
        report.add("MPI", name, f"{version}, {path}" if version else path)
    on_path = shutil.which("mpirun")
    if on_path and _mpirun_version(on_path) != libraries["mpirun"][0]:
        report.remarks.append(
            f"the mpirun first on PATH is {on_path}, not this environment's {libraries['mpirun'][1]}; activate the "
            f"environment (. {os.path.dirname(sys.executable)}/activate) before `mpirun -n 4 swmodel run`."
        )
    starter = on_path or libraries["mpirun"][1]
    if remark := signal_warning(starter, _mpirun_version(starter) if on_path else libraries["mpirun"][0]):
        report.remarks.append(remark)
    problems = disagreements(libraries, exchanged)
    report.add("MPI", "are they one", "no" if problems else "yes")
    report.problems.extend(problems)
    if len(libraries["mpi4jax"]) > 2:
        report.add("MPI", "mpi4jax on GPUs", "compiled in" if libraries["mpi4jax"][2] else "not compiled in")


def signal_warning(starter: str, version: str | None) -> str | None:
    """A sentence if this mpirun kills its ranks at INT and TERM, instead of forwarding them; None otherwise.

    Open MPI 5 forwards them if the variable SIGNALS, or a parameter file of PRRTE, lists them.
    """
    if not (release := re.match(r"Open MPI (\d+)", version or "")) or int(release[1]) < 5:
        return None
    own = Path(os.path.realpath(starter)).parents[1] / "etc" / "prte-mca-params.conf"
    settings = [os.environ.get(SIGNALS, ""), *map(_settings, (own, Path.home() / ".prte" / "mca-params.conf"))]
    forwarded = any({"2", "15"} <= set(re.split("[, ]+", text.strip())) for text in settings)
    if forwarded or _is_script_with(starter, SIGNALS):
        return None
    return (
        f"{starter} ({version}) kills its ranks half a second after it gets INT or TERM and ends with status 1, before "
        f"they have written a restart; let it hand these signals on: export {SIGNALS}={launch.FORWARDED} or, for "
        f"everybody who uses it, write `ess_base_forward_signals = {launch.FORWARDED}` into {own}."
    )


def _settings(file):
    """The value of ess_base_forward_signals in a parameter file of PRRTE; "" if it is not set."""
    try:
        found = re.findall(r"^\s*ess_base_forward_signals\s*=(.*)$", file.read_text(), re.MULTILINE)
    except (OSError, UnicodeDecodeError):
        return ""
    return found[-1] if found else ""


def _is_script_with(file, word):
    """Whether a file is a script that contains a word, as the mpirun of `make setup MPI=system` is."""
    try:
        with open(file, "rb") as opened:
            text = opened.read(4096)
    except OSError:
        return False
    return text.startswith(b"#!") and word.encode() in text


def disagreements(libraries: Mapping[str, Sequence[str | None]], exchanged: bool) -> list[str]:
    """Sentences on which of mpi4py, mpi4jax and mpirun cannot be loaded or belong to another MPI.

    An mpirun of another release is accepted if its ranks `exchanged` messages.
    """
    broken = [name for name, (version, *_) in libraries.items() if version is None]
    if broken:
        return [f"{name} does not work ({libraries[name][1]}); {ADVICE}." for name in broken]
    problems = []
    ours, compiled, starter = libraries["mpi4py"], libraries["mpi4jax"], libraries["mpirun"]
    if ours[1] != compiled[1]:
        problems.append(
            f"mpi4py loads {ours[0]} ({ours[1]}) and mpi4jax {compiled[0]} ({compiled[1]}), and messages between them "
            f"crash; {ADVICE}."
        )
    if starter[0] != ours[0] and not exchanged:
        problems.append(
            f"mpirun is of {starter[0]} ({starter[1]}) and mpi4py loads {ours[0]} ({ours[1]}); ranks started by "
            f"another MPI can each believe they are alone; start with that of {ours[0]}, or {ADVICE}."
        )
    return problems


# -- one exchange ---------------------------------------------------------------------------------------------------


def _exchange():
    """Send this rank's number to the next rank by mpi4jax, in a jitted program; returns the answers of all ranks."""
    launch.configure_process(precision="float64", communicator="mpi")
    world = launch.load_mpi().COMM_WORLD
    launch.check_world(world.size)
    import jax
    import jax.numpy as jnp
    import mpi4jax

    before, after = (world.rank - 1) % world.size, (world.rank + 1) % world.size
    number = jnp.full(1000, float(world.rank))
    received = jax.jit(lambda x: mpi4jax.sendrecv(x, x, before, after, comm=world))(number)
    host, cores = placement()
    answer = {
        "right": bool((received == before).all()),
        "device": str(jax.devices()[0]),
        "gpu": jax.devices()[0].platform != "cpu",
        "cuda_aware": cuda_aware(os.environ),
        "host": host,
        "cores": cores,
    }
    return world.allgather(answer)


def _exchange_with_mpirun(report, ranks, timeout):
    """Make an exchange with mpirun, and add its rows and problems; returns whether it worked."""
    code = "from swmodel.cli.installation import _exchange, launch\nanswers = _exchange()\n"
    code += "launch.launcher().rank or answer(answers)"
    try:
        answers = _probe(code, timeout, launch.mpirun(ranks))
    except (ProbeError, launch.LaunchError) as error:
        report.problems.append(f"the exchange on {ranks} ranks failed ({error}); {ADVICE}.")
        report.add("exchange", f"on {ranks} ranks", "failed")
        return False
    return _add_exchange(report, answers)


def _add_exchange(report, answers):
    right = all(answer["right"] for answer in answers)
    report.add("exchange", f"on {len(answers)} ranks", "passed" if right else "failed")
    if not right:
        report.problems.append(f"messages between ranks arrive wrong; {ADVICE}.")
    aware = answers[0]["cuda_aware"]
    report.add("MPI", "CUDA-aware", "yes" if aware else "no, messages between GPUs go through the host")
    for rank, answer in enumerate(answers):
        cores = answer["cores"]
        threads = "" if answer["gpu"] else f", {len(cores)} thread{'s' * (len(cores) > 1)}"
        report.add("binding", f"rank {rank}", f"{answer['device']}{threads}, cores {ranges(cores)} of {answer['host']}")
    crowded = crowding([(answer["host"], answer["cores"]) for answer in answers if not answer["gpu"]])
    if crowded:
        report.remarks.append(crowded)
    return right


def ranges(numbers: Iterable[int]) -> str:
    """ "0-3,6" from (0, 1, 2, 3, 6)."""
    groups = []
    for number in sorted(numbers):
        if groups and number == groups[-1][1] + 1:
            groups[-1][1] = number
        else:
            groups.append([number, number])
    return ",".join(str(first) if first == last else f"{first}-{last}" for first, last in groups)


# -- probes and print -----------------------------------------------------------------------------------------------


class ProbeError(Exception):
    """A probe failed; the message is its last line."""


def _probe(code, timeout, starter=()):
    """The argument with which `code`, run in a new process, has called `answer(...)`."""
    prelude = (
        "import json\nfrom swmodel.runtime.launchers import library_name, loaded_library\n"
        f"def answer(value): print('{MARK}' + json.dumps(value), flush=True)\n"
    )
    command = [*starter, sys.executable, "-c", prelude + code]
    try:
        output, status = launch.output_of(command, launch.mpirun_environment(), timeout)
    except subprocess.TimeoutExpired:
        raise ProbeError(f"it did not end within {timeout:g} s") from None
    found = re.findall(rf"{MARK}(.*)", output)
    if status or not found:
        raise ProbeError(_last_error(output) or f"it ended with status {status}")
    return json.loads(found[-1])


def _last_error(output):
    """The last line with the name of an exception, else the last one with words."""
    lines = [line.strip() for line in output.replace("\0", "").splitlines() if re.search(r"[a-zA-Z]{3}", line)]
    errors = [line for line in lines if re.match(r"[\w.]*(Error|Exception)\b", line)]
    return (errors or lines or [""])[-1].rstrip(".")


def _show(report, console):
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    console = console or Console(highlight=False)
    table = Table(box=None, show_header=False, padding=(0, 2, 0, 0))
    section = None
    for row in sorted(report.rows, key=lambda row: SECTIONS.index(row[0])):
        if row[0] != section and section is not None:
            table.add_row()
        table.add_row(f"[bold]{row[0]}[/]" if row[0] != section else "", *map(escape, row[1:]))
        section = row[0]
    console.print(table)
    for remark in report.remarks:
        console.print(f"\n[yellow]remark[/] {escape(remark)}", soft_wrap=True)
    for problem in report.problems:
        console.print(f"\n[red]problem[/] {escape(problem)}", soft_wrap=True)
    console.print("\n[green]all that is installed works[/]" if not report.problems else "")
