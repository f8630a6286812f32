"""The library of loops: the interface between Python, the runtime (*.cpp) and loops, and the compiler that makes both.

Python passes lists of integers to C++: the plan of a loop, or the blocks of an array that are moved. Each kind of
record in these lists is a class below. The runtime calls a loop once for each row of its results, with a `RowCall`.
`header()` returns the C++ declarations of all of them. The runtime and every generated loop begin with this text, so
that each layout and each constant is written in one place.

The machine's own C++ compiler makes the runtime and the fused loops, once, and XLA calls them. Compiled libraries are
kept on disk (runtime/cache.py) under a name made of the text, our options and the processor. So the next run starts at
once, and ranks on different processors use different files. CXX names another compiler. CXXFLAGS come before the
options of loops, which therefore win; SWMODEL_CXXFLAGS come after them.

`why_not` returns one sentence on why loops cannot be compiled on this machine. Steps then run on arrays.
"""

import contextlib
import ctypes
import dataclasses
import enum
import functools
import os
import platform
import re
import shlex
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import jax
import jaxlib

from ...errors import SwmodelError
from ...runtime import cache
from ...runtime.memory import keep_memory
from ...runtime.signals import PROCESS

VECTOR = 16  # [elements] rows of arrays begin at multiples of it, and vectors are not longer
AXES = 4  # of a block that is moved


class When(enum.IntEnum):
    """When a row of results may overwrite the row of an operand.

    AT_ONCE: the operand is read only at the cell of the result.
    UNLESS_SHARED: the operand is read in other rows, too. Rows that the chunk of another thread reads are written after
        all chunks are done.
    LATER: a later cell or row of the same chunk reads the old value, too.
    IN_STRIPS: the row overwrites nothing. The cells of strips are copied out of it.
    """

    AT_ONCE = 0
    UNLESS_SHARED = 1
    LATER = 2
    IN_STRIPS = 3


def _integer(doc, count=1):
    """A field of a record: one int64, or an array of `count` of them."""
    return dataclasses.field(metadata={"doc": doc, "count": count})


@dataclasses.dataclass(frozen=True)
class LoopPlan:
    """The head of a loop's plan. After it come `sources` SourcePlans, `scalars` ScalarPlans, a ResultPlan for each
    result, the StripPlans of all results, and the indices of the sources that are copied into a slot."""

    rows: int = _integer("rows of the tile")
    columns: int = _integer("columns of the tile")
    ghosts: int = _integer("ghost rows of each result, at each end")
    west: int = _integer("elements of a result's row before the tile's first column")
    margin: int = _integer("cells around the tile that are computed, too")
    early: int = _integer("number of rows before the first row of results at which the passes begin")
    sharers: int = _integer("devices that share the threads of this process")
    sources: int = _integer("number of arrays that are read")
    scalars: int = _integer("number of scalars that are read")
    pushed: int = _integer("number of sources that are copied into a slot before they are overwritten")


@dataclasses.dataclass(frozen=True)
class SourcePlan:
    """One array that a loop reads."""

    slot: int = _integer("index of the operand that holds the slot to read, or -1 if the array has no slots")
    row: int = _integer("row of the array that holds the tile's cell (0, 0)")
    column: int = _integer("column of the array that holds the tile's cell (0, 0)")
    is_column: int = _integer("1 if the array has one column, because its values do not vary along x")
    ahead: int = _integer("first row that one round of all passes reads, relative to the row of results")
    below: int = _integer("first row that a row of results depends on, relative to it, early rounds included")
    above: int = _integer("last row that a row of results depends on, relative to it")


@dataclasses.dataclass(frozen=True)
class ScalarPlan:
    """One number that a loop reads."""

    operand: int = _integer("index of the operand that holds it")
    place: int = _integer("its place among the numbers of this operand that belong to one member")


@dataclasses.dataclass(frozen=True)
class ResultPlan:
    """One array that a loop writes."""

    over: int = _integer("index of the operand that it overwrites, or -1")
    when: int = _integer("a When")
    strips: int = _integer("number of its strips")


@dataclasses.dataclass(frozen=True)
class StripPlan:
    """Cells of the tile that a result consists of, row by row, after those of its earlier strips."""

    row: int = _integer("row of the tile")
    column: int = _integer("column of the tile")
    rows: int = _integer("number of rows")
    columns: int = _integer("number of columns")


@dataclasses.dataclass(frozen=True)
class MovedBlock:
    """A block of one array and its place in another one, with `sizes` elements along four axes."""

    source: int = _integer("index of its first element in the source, or -1 for zeros")
    target: int = _integer("index of its first element in the target")
    sizes: tuple = _integer("elements along each axis", AXES)
    source_strides: tuple = _integer("elements between neighbours along each axis of the source", AXES)
    target_strides: tuple = _integer("elements between neighbours along each axis of the target", AXES)


@dataclasses.dataclass(frozen=True)
class StripOfArray:
    """A strip of an array, whose cells lie among the values of several strips."""

    array: int = _integer("number of the array")
    values: int = _integer("number of the values")
    first: int = _integer("number of cells of the values before it")
    rows: int = _integer("number of rows")
    columns: int = _integer("number of columns")


RECORDS = LoopPlan, SourcePlan, ScalarPlan, ResultPlan, StripPlan, MovedBlock, StripOfArray

ROW_CALL = """// The arguments of a loop for one row of its results.
struct RowCall {
  const void* const* in;       // of each source: address of the element at the row's first cell
  const int64_t* stride;       // of each source: elements from one row to the next
  const int64_t* limits;       // of each source: first and last row and column, relative to the region's first cell
  const void* const* scalars;  // addresses of the scalars
  void* const* out;            // of each result: address of the element at the row's first cell; null in early rounds
  int64_t lead;                // elements between the start of the first vector and the row's first cell
  int64_t cells;               // number of cells of a row that are computed
  int64_t rows;                // number of rows that are computed in all
  int64_t j;                   // this row, counted from the first computed row
  int64_t since;               // this row, counted from the first row of the chunk; negative in early rounds
  char* kept;                  // memory for the rolling rows of intermediate values
};
"""


def numbers(record: Any) -> list[int]:
    """The integers of a record, in the order in which C++ reads them."""
    values = (getattr(record, field.name) for field in dataclasses.fields(record))
    return [int(n) for value in values for n in (value if isinstance(value, (tuple, list)) else [value])]


def _struct(record):
    lines, size = [], 0
    for field in dataclasses.fields(record):
        count = field.metadata["count"]
        lines.append(f"  int64_t {field.name}{'' if count == 1 else f'[{count}]'};  // {field.metadata['doc']}\n")
        size += count
    doc = "\n".join(f"// {line.strip()}" for line in record.__doc__.splitlines())
    return (
        f"{doc}\nstruct {record.__name__} {{\n{''.join(lines)}}};\n"
        f'static_assert(sizeof({record.__name__}) == {size} * sizeof(int64_t), "{record.__name__} has no gaps");\n'
    )


def header() -> str:
    """The C++ text with which the runtime and every loop begin."""
    whens = ", ".join(f"{when.name} = {when.value}" for when in When)
    constants = f"constexpr int64_t kVector = {VECTOR}, kAxes = {AXES};\nenum When : int64_t {{ {whens} }};\n"
    structs = "\n".join(map(_struct, RECORDS))
    return f"// Written by stencils/native/library.py.\n#include <stdint.h>\n\n{constants}\n{ROW_CALL}\n{structs}\n"


TARGET, PUSH_SLOT, READ_SLOT, EMPTY = "swmodel_fused_loop", "swmodel_push_slot", "swmodel_read_slot", "swmodel_empty"
PASTE, CUT, READ, ADD = "swmodel_paste", "swmodel_cut", "swmodel_read_strips", "swmodel_add_strips"
DEPENDS_ON, MOVE, INTERPOLATE = "swmodel_depends_on", "swmodel_move", "swmodel_interpolate"
BLOCK_SUMS, ADD_TO_BLOCKS = "swmodel_block_sums", "swmodel_add_to_blocks"
RUNTIME = (  # one text
    *("call.cpp", "threads.cpp", "arrays.cpp", "loops.cpp"),
    *("blocks.cpp", "refinement.cpp", "handles.cpp"),
)
RUNTIME_OPTIONS = ("-std=c++17", "-O2", "-shared", "-fPIC", "-w")
# The compiler may reorder factors that do not vary along a row, and contract products and sums; see source.py. It may
# not reorder a loop that compares rounded values, which would then take other branches than the same operations on
# arrays.
ALGEBRA = ("-fno-math-errno", "-fno-trapping-math", "-fno-signed-zeros", "-fassociative-math", "-ffp-contract=fast")
# Some compilers use half of a processor's vector length by default, which makes loops slower.
WIDEST = ("-mtune=native", "-mprefer-vector-width=512") if platform.machine() in ("x86_64", "AMD64") else ()
IN_ORDER = ("-fno-associative-math",)
LOOP_OPTIONS = ("-std=c++17", "-O3", "-march=native", *WIDEST, *ALGEBRA, "-shared", "-fPIC", "-w")


class CompileError(SwmodelError):
    """The C++ compiler failed."""


@functools.cache
def find_compiler() -> tuple[str, ...] | None:
    """The command of the C++ compiler: $CXX, else c++ or g++ on PATH; None where there is none."""
    named = shlex.split(os.environ.get("CXX", ""))
    for name, *options in [named] if named else [["c++"], ["g++"]]:
        if path := shutil.which(name):
            return path, *options
    return None


@functools.cache
def why_not() -> str | None:
    """One sentence on why fused loops cannot be compiled or loaded on this machine, or None where they can.

    The test compiles the runtime and a small loop, or loads what an earlier process has compiled.
    """
    try:
        _load_loop(Path(__file__).with_name("probe.cpp").read_text())
    except (CompileError, OSError) as error:
        return f"steps run on arrays, several times slower than in fused loops: {error}"
    return None


def usable() -> bool:
    """Whether fused loops can be compiled and loaded on this machine."""
    return why_not() is None


@functools.cache
def loop_name(source: str, in_order: bool = False) -> str:
    """Compile the C++ text of a loop, register it with the runtime, and return its name there.

    Args:
        source: the text.
        in_order: whether sums are computed in the order in which they are written.
    """
    return _load_loop(source, in_order)


LOADING: dict[tuple[str, bool], str] = {}
"""{(source, in_order): name} of the loops that a thread of `load_meanwhile` compiles."""


@contextlib.contextmanager
def load_meanwhile(loops: Sequence[tuple[str, bool]]) -> Iterator[None]:
    """A block during which a thread compiles and registers loops, so that programs with their names can be compiled.

    After the block all are there.

    Args:
        loops: the arguments of `loop_name` of each.

    Raises:
        CompileError: after the block, if the compiler fails.
    """
    with ThreadPoolExecutor(1, "loops") as thread:
        LOADING.update({loop: _what(loop[0], _options(loop[1])) for loop in loops})
        try:
            done = thread.submit(lambda: [loop_name(*loop) for loop in loops])
            yield
        finally:
            LOADING.clear()
        done.result()


def _options(in_order):
    return (*LOOP_OPTIONS, *(IN_ORDER if in_order else ()))


def _load_loop(source, in_order=False):
    flags = [shlex.split(os.environ.get(name, "")) for name in ("CXXFLAGS", "SWMODEL_CXXFLAGS")]
    path = _compiled(source, _options(in_order), before=flags[0], behind=flags[1])
    library = ctypes.CDLL(str(path))
    functions = (ctypes.cast(function, ctypes.c_void_p) for function in (library.row, library.kept_bytes))
    name = path.name.split(".")[0]
    _runtime().swmodel_register(name.encode(), *functions)
    return name


@functools.cache
def _runtime():
    text = header() + "".join(Path(__file__).with_name(name).read_text() for name in RUNTIME)
    options = (*RUNTIME_OPTIONS, "-isystem", jax.ffi.include_dir())
    library = ctypes.CDLL(str(_compiled(text, options, version=jaxlib.version.__version__)))
    for target in re.findall(r"^SWMODEL_FUNCTION\((\w+),", text, re.MULTILINE):
        jax.ffi.register_ffi_target(target, jax.ffi.pycapsule(library[target]), platform="cpu")
    keep_memory()
    library.swmodel_register.argtypes = ctypes.c_char_p, ctypes.c_void_p, ctypes.c_void_p
    return library


def forwarded(k: int, original: int) -> ctypes.c_void_p:
    """The function that looks up the handles of an FFI call and calls `original`, an address; see handles.cpp.

    Args:
        k: its number, from 0 on, of all that are forwarded.
        original: the address of the FFI call.
    """
    function = _runtime().swmodel_forward
    function.argtypes, function.restype = (ctypes.c_int64, ctypes.c_void_p), ctypes.c_void_p
    return ctypes.c_void_p(function(k, original))


def set_handle(number: int, handle: int) -> None:
    """Let `number` stand for an MPI handle in the calls that are forwarded."""
    function = _runtime().swmodel_set_handle
    function.argtypes, function.restype = (ctypes.c_int64, ctypes.c_int64), None
    function(number, handle)


def _compiled(text, options, before=(), behind=(), version=""):
    """The shared library made of `text`: one that an earlier process has kept, or a new one.

    Without a compiler, a library for this processor that any compiler with any flags has made is used: a login node may
    have compiled it.
    """
    what, compiler = _what(text, options, version), find_compiler()
    if compiler is None:
        found = cache.find(what, "*")
        if found is None:
            raise CompileError(_no_compiler())
        return found
    how = cache.digest(*compiler, _identity(compiler[0]), *before, *behind)[:8]
    return cache.find(what, how) or cache.make(
        what, how, lambda target: _compile(compiler, text, [*before, *options, *behind], target)
    )


def _what(text, options, version=""):
    """The first part of the name of the library made of `text`, which is that of a loop in the runtime."""
    # The path of the include directory differs between environments; its content depends on `version` alone.
    ours = [option for option in options if not option.startswith("/")]
    return cache.digest(text, *ours, version, cache.instructions())


def _no_compiler():
    named = os.environ.get("CXX")
    if named:
        return f"CXX = {named} names no program; correct it, or unset it to use g++."
    return "no C++ compiler was found; install g++, or name one in CXX."


def _compile(compiler, text, options, target):
    """Compile `text` to the file `target`."""
    source = target.with_name("source.cpp")
    source.write_text(text)
    command = [*compiler, *options, "-o", str(target), str(source)]
    try:
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    except OSError as error:
        raise CompileError(f"{compiler[0]} cannot be run ({error.strerror}); name another compiler in CXX.") from error
    with PROCESS.cleanup(process.kill), process:
        _, said = process.communicate()
    if process.returncode == 0 and target.exists():
        return
    PROCESS.hold_if_ending()  # the signal that ends this process may have ended the compiler
    said = said.decode(errors="replace")
    first = next((line for line in said.splitlines() if "error" in line), said.strip()[:200])
    why = first or f"it ended with status {process.returncode}"
    raise CompileError(
        f"{compiler[0]} could not compile a fused loop ({why}); choose another compiler with CXX, or do without fused "
        "loops: engine = 'arrays'."
    )


def _identity(program):
    """A text that changes when another compiler is installed under this name, without starting it."""
    found = os.stat(program)
    return f"{os.path.realpath(program)} {found.st_size} {found.st_mtime_ns}"
