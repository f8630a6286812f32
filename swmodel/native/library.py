"""Compiling C++ with the machine's own compiler, once, and handing it to XLA: the runtime, and fused loops for it.

What was compiled is kept in $XDG_CACHE_HOME/swmodel (or ~/.cache/swmodel) under a name made of the text, the compiler,
its options and the processor, so that the next run starts at once and ranks on different processors do not meet. CXX
names another compiler; what CXXFLAGS holds comes after the options of loops.
"""

import contextlib
import ctypes
import fcntl
import functools
import hashlib
import os
import platform
import shutil
import subprocess
import tempfile
from pathlib import Path

import jax
import jaxlib

from ..errors import SwmodelError
from ..heap import keep_memory

__all__ = ["CompileError", "find_compiler", "loop_name", "register_shift", "usable"]

TARGET, STORE, FETCH, VACANT = "swmodel_fused_loop", "swmodel_store", "swmodel_fetch", "swmodel_vacant"
PASTE, CUT, AFTER, MOVE = "swmodel_paste", "swmodel_cut", "swmodel_after", "swmodel_move"
SHIFT = "swmodel_shift"
RUNTIME = ("threads.cpp", "arrays.cpp", "loops.cpp", "blocks.cpp", "messages.cpp")  # one text
RUNTIME_OPTIONS = ("-std=c++17", "-O2", "-shared", "-fPIC", "-w")
# Factors that do not vary along a row may be put together, and products and sums contracted; see source.py.
ALGEBRA = ("-fno-math-errno", "-fno-trapping-math", "-fno-signed-zeros", "-fassociative-math", "-ffp-contract=fast")
# Where a processor has long vectors some compilers take half of them unless told, and loops are slower.
WIDEST = ("-mprefer-vector-width=512",) if platform.machine() in ("x86_64", "AMD64") else ()
LOOP_OPTIONS = ("-std=c++17", "-O3", "-march=native", *WIDEST, *ALGEBRA, "-shared", "-fPIC", "-w")


class CompileError(SwmodelError):
    """The C++ compiler refused what it was given."""


@functools.cache
def find_compiler():
    """The path of the C++ compiler: $CXX, else c++ or g++ on PATH; None where there is none."""
    names = filter(None, [os.environ.get("CXX"), "c++", "g++"])
    return next((path for path in map(shutil.which, names) if path), None)


@functools.cache
def usable():
    """Whether fused loops can be compiled and loaded here; the runtime is, to find out."""
    try:
        _runtime()
    except (CompileError, OSError):
        return False
    return True


@functools.cache
def loop_name(source):
    """Compile the C++ text of a loop, make it known to the runtime, and return the name by which it is called there."""
    path = _compiled(source, (*LOOP_OPTIONS, *os.environ.get("CXXFLAGS", "").split()))
    library = ctypes.CDLL(str(path))
    functions = (ctypes.cast(function, ctypes.c_void_p) for function in (library.row, library.kept_bytes))
    _runtime().swmodel_register(path.stem.encode(), *functions)
    return path.stem


@functools.cache
def _runtime():
    text = "".join(Path(__file__).with_name(name).read_text() for name in RUNTIME)
    library = ctypes.CDLL(
        str(_compiled(text, (*RUNTIME_OPTIONS, "-isystem", jax.ffi.include_dir()), jaxlib.__version__))
    )
    for target in (TARGET, STORE, FETCH, VACANT, PASTE, CUT, AFTER, MOVE):
        jax.ffi.register_ffi_target(target, jax.ffi.pycapsule(library[target]), platform="cpu")
    keep_memory()
    library.swmodel_register.argtypes = ctypes.c_char_p, ctypes.c_void_p, ctypes.c_void_p
    return library


@functools.cache
def register_shift():
    """Make SHIFT known, which keeps something at each place of a program; JAX takes such a one once it has devices."""
    library, about = _runtime(), {}
    for part in ("id", "info"):
        tell = library[f"swmodel_office_{part}"]
        tell.restype = ctypes.c_void_p
        about[f"type_{part}"] = jax.ffi.pycapsule(tell())
    jax.ffi.register_ffi_type("swmodel_office", about, platform="cpu")
    stages = {"instantiate": library["swmodel_open_office"], "execute": library[SHIFT]}
    stages = {stage: jax.ffi.pycapsule(function) for stage, function in stages.items()}
    jax.ffi.register_ffi_target(SHIFT, stages, platform="cpu")


def _compiled(text, options, version=""):
    """The shared library made of `text`."""
    if find_compiler() is None:
        raise CompileError("no C++ compiler was found; install g++, or name one in CXX.")
    key = "\0".join([text, *options, version, _compiler_version(), _processor()])
    path = _cache_folder() / f"{hashlib.sha256(key.encode()).hexdigest()[:24]}.so"
    if not path.exists():
        with _lock(path):
            if not path.exists():
                _compile(text, options, path)
    return path


@contextlib.contextmanager
def _lock(path):
    """Ranks of a host want the same loop at the same time; where the file system has no locks, each compiles it."""
    name = path.with_suffix(".lock")
    try:
        with name.open("w") as lock:
            with contextlib.suppress(OSError):
                fcntl.flock(lock, fcntl.LOCK_EX)
            yield
    finally:
        name.unlink(missing_ok=True)


def _compile(text, options, path):
    """Into a temporary name first: nobody must see half of it."""
    with tempfile.TemporaryDirectory(dir=path.parent) as folder:
        source, library = Path(folder, "source.cpp"), Path(folder, path.name)
        source.write_text(text)
        done = subprocess.run(
            [find_compiler(), *options, "-o", str(library), str(source)],
            capture_output=True,
            text=True,
            errors="replace",
        )
        if done.returncode:
            first = next((line for line in done.stderr.splitlines() if "error" in line), done.stderr.strip()[:200])
            raise CompileError(
                f"{find_compiler()} could not compile a fused loop ({first}); choose another compiler with CXX, or do "
                "without fused loops: engine = 'arrays'."
            )
        library.replace(path)


@functools.cache
def _cache_folder():
    """A folder of this user's that can be written."""
    home = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    folder = Path(home, "swmodel")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            return folder
    except OSError:
        return Path(tempfile.mkdtemp(prefix="swmodel-"))


@functools.cache
def _compiler_version():
    return subprocess.run([find_compiler(), "--version"], capture_output=True, text=True).stdout


@functools.cache
def _processor():
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    return "\n".join(dict.fromkeys(line for line in lines if line.startswith(("model name", "flags", "Features"))))
