"""Compiled loops on disk: nothing damaged, foreign or half-made is loaded, and no compiler ends no run."""

import ctypes
import logging
import os
import socket
import stat
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

import swmodel as sw
from swmodel.adjoint import BoxEnergy, Problem
from swmodel.adjoint.core.runs import compile_ahead
from swmodel.models import engine as engine_module
from swmodel.runtime import cache
from swmodel.stencils import native
from swmodel.stencils.native import library
from swmodel.stepping import loop
from tests.selection import later

pytestmark = pytest.mark.skipif(not native.usable(), reason="no C++ compiler here")

TEXT = 'extern "C" int answer() { return 42; }\n'
OPTIONS = ("-O0", "-shared", "-fPIC")


@pytest.fixture
def kept(monkeypatch, tmp_path):
    """The folder of compiled libraries, an empty one."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    cache.folder.cache_clear()
    yield tmp_path / "cache" / "swmodel"
    cache.folder.cache_clear()


@pytest.fixture
def compiler(monkeypatch, tmp_path):
    """compiler(script): a shell script that stands in for the compiler; "$CXX" in it is the true one."""
    true = library.find_compiler()[0]

    def put(script):
        path = tmp_path / "compiler"
        path.write_text(f"#!/bin/sh\nCXX={true}\n{script}\n")
        path.chmod(0o755)
        use(str(path))

    def use(name):
        monkeypatch.setenv("CXX", name)
        library.find_compiler.cache_clear()
        library.why_not.cache_clear()

    put.use = use
    yield put
    monkeypatch.undo()
    library.find_compiler.cache_clear()
    library.why_not.cache_clear()


def answer(path):
    return ctypes.CDLL(str(path)).answer()


def compiled(text=TEXT):
    return library._compiled(text, OPTIONS)


@pytest.mark.parametrize("damage", ["empty", "truncated", "flipped", "other"])
def test_a_damaged_library_is_made_anew(kept, damage):
    path = compiled()
    whole = path.read_bytes()
    flipped = bytearray(whole)
    flipped[len(whole) // 2] ^= 1
    path.write_bytes({"empty": b"", "truncated": whole[:-100], "flipped": bytes(flipped), "other": b"text"}[damage])
    again = compiled()
    assert answer(again) == 42 and again.read_bytes() == whole
    assert [path.name for path in kept.iterdir()] == [again.name]


def test_what_was_kept_is_not_compiled_again(kept, compiler):
    compiler('echo . >>"$0.calls"; exec $CXX "$@"')
    with ThreadPoolExecutor(4) as threads:  # flock takes two descriptors of one process for two processes
        paths = list(threads.map(lambda _: compiled(), range(8)))
    assert len(set(paths)) == 1 and answer(paths[0]) == 42
    assert len(open(f"{library.find_compiler()[0]}.calls").readlines()) == 1
    assert stat.S_IMODE(kept.stat().st_mode) == 0o700


@pytest.mark.parametrize("mode", [0o777, 0o775])
def test_a_folder_that_others_can_write_to_is_not_used(kept, mode, caplog):
    compiled()
    kept.chmod(mode)
    cache.folder.cache_clear()
    with caplog.at_level(logging.WARNING, "swmodel"):
        path = compiled("int other() { return 1; }\n")
    assert path.parent != kept and stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    assert len(caplog.messages) == 1 and f"{kept} can be written by others" in caplog.text


@pytest.mark.parametrize(("mode", "is_found"), [(0o755, True), (0o775, False)])
def test_what_make_setup_has_compiled_is_found(kept, compiler, monkeypatch, tmp_path, mode, is_found):
    monkeypatch.setattr(sys, "prefix", str(tmp_path / "environment"))
    monkeypatch.setattr(cache, "folder", lambda: tmp_path / "environment" / "share" / "swmodel")
    cache.folder().mkdir(parents=True)
    compiler('echo . >>"$0.calls"; exec $CXX "$@"')
    first = compiled()
    cache.folder().chmod(mode)
    kept.mkdir(parents=True)
    monkeypatch.setattr(cache, "folder", lambda: kept)
    cache._of_environment.cache_clear()
    try:
        again = compiled()
        assert answer(again) == 42 and (again == first) == is_found
        assert len(open(f"{library.find_compiler()[0]}.calls").readlines()) == 2 - is_found
        compiler.use("/nowhere/c++")
        assert compiled() == again  # without a compiler, too: loops that were cached with one can be loaded
    finally:
        cache._of_environment.cache_clear()


def test_a_folder_of_somebody_else_is_not_used(kept, monkeypatch):
    kept.mkdir(parents=True, mode=0o700)
    monkeypatch.setattr("swmodel.runtime.cache.os.geteuid", lambda: os.getuid() + 1)
    assert cache._unfit(kept) == "belongs to another user"


def test_what_a_killed_process_left_is_removed(kept):
    kept.mkdir(parents=True, mode=0o700)
    gone = subprocess.Popen(["true"])
    gone.wait()
    mine, left = (kept / f".abc.{socket.gethostname()}.{process}.part" for process in (os.getpid(), gone.pid))
    for folder in (mine, left):
        folder.mkdir()
    compiled()
    assert {path.name for path in kept.iterdir() if path.is_dir()} == {mine.name}


def test_without_a_compiler_what_another_node_has_made_is_found(kept, compiler, monkeypatch):
    monkeypatch.setenv("CXXFLAGS", "-g0")
    path = compiled()
    compiler.use("/nowhere/c++")
    assert library.find_compiler() is None and compiled() == path
    with pytest.raises(library.CompileError, match="CXX = /nowhere/c\\+\\+ names no program"):
        compiled("int other() { return 1; }\n")
    monkeypatch.setenv("CXX", "")
    monkeypatch.setenv("PATH", "")
    library.find_compiler.cache_clear()
    with pytest.raises(library.CompileError, match="no C\\+\\+ compiler was found; install g\\+\\+"):
        compiled("int other() { return 1; }\n")


def test_flags_of_the_environment_come_before_ours_and_deliberate_ones_after_them(kept, compiler, monkeypatch):
    compiler('echo "$@" >"$0.called"; exec $CXX "$@"')
    monkeypatch.setenv("CXXFLAGS", "-march=nocona -O2")
    monkeypatch.setenv("SWMODEL_CXXFLAGS", "-O1")
    library._load_loop('extern "C" long kept_bytes(long n) { return n; }\nextern "C" void row(void*) {}\n')
    called = open(f"{library.find_compiler()[0]}.called").read().split()
    assert called.index("-march=nocona") < called.index("-march=native")
    assert called.index("-O2") < called.index("-O3") < called.index("-O1")


@pytest.mark.parametrize(
    ("script", "why"),
    [
        ("exit 1", "it ended with status 1"),
        ('case "$*" in *-O3*) echo "error: no such processor" >&2; exit 1;; esac; exec $CXX "$@"', "no such processor"),
    ],
)
def test_a_compiler_that_makes_no_loops_leaves_steps_on_arrays_and_says_why(kept, compiler, script, why, monkeypatch):
    compiler(script)
    said = []
    monkeypatch.setattr(engine_module, "_warn_once", said.append)
    model = sw.ShallowWater(sw.CartesianGrid(8, 6, (0.0, 8e3), (0.0, 6e3)), 100.0)
    assert model.engine == "arrays"
    assert len(said) == 1 and said[0].startswith("steps run on arrays") and why in said[0]


FAILS_FROM = """n=$(($(cat "$0.n" 2>/dev/null || echo 0) + 1)); echo $n >"$0.n"
[ $n -lt {} ] || {{ echo "error: gave up" >&2; exit 1; }}; exec $CXX "$@"
"""


@pytest.fixture
def no_loops_known():
    """Loops of other tests are forgotten, and those of this one afterwards."""
    library.loop_name.cache_clear()
    loop._OBSTACLES.clear()
    yield
    library.loop_name.cache_clear()
    loop._OBSTACLES.clear()


def small_run(**options):
    model = sw.ShallowWater(sw.CartesianGrid(8, 6, (0.0, 8e3), (0.0, 6e3)), 100.0, **options)
    return model, lambda: sw.Simulation(model, model.state(eta=lambda x, y: 1e-3 * x / 8e3), sw.RK4(10.0))


@pytest.mark.parametrize("call", [later(2), 3])
def test_a_compiler_that_fails_after_the_probe_leaves_steps_on_arrays_and_says_why(
    kept, compiler, no_loops_known, monkeypatch, call
):
    """The first call compiles the probe, the next ones the loops of a step."""
    compiler(FAILS_FROM.format(call))
    said = []
    monkeypatch.setattr(engine_module, "warn_of_arrays", said.append)
    model, simulation = small_run()
    assert model.engine == "fused"
    simulation = simulation()
    state = simulation.run(steps=3)
    assert float(abs(state.u).max()) > 0
    engine, why = simulation.engine
    assert engine == "arrays" and "error: gave up" in why
    assert len(said) == 1 and "could not compile a fused loop (error: gave up)" in said[0]


def test_who_asked_for_loops_gets_an_error_if_one_cannot_be_compiled(kept, compiler, no_loops_known):
    compiler(FAILS_FROM.format(2))
    _, simulation = small_run(engine="fused")
    with pytest.raises(library.CompileError, match="could not compile a fused loop .error: gave up.*engine = 'arrays'"):
        simulation().run(steps=1)


def test_a_thread_compiles_the_loops_of_a_gradient_while_its_programs_are_compiled(kept, compiler, no_loops_known):
    """The runtime then has them by the names in the programs; an error of the compiler comes when these are done."""
    probe = (Path(library.__file__).with_name("probe.cpp").read_text() + "// of a test\n", False)
    with library.load_meanwhile([probe]):
        name = library.LOADING[probe]
    assert library.loop_name(*probe) == name and not library.LOADING
    compiler("echo 'error: gave up' >&2; exit 1")
    done = []
    with pytest.raises(library.CompileError, match="gave up"), library.load_meanwhile([(probe[0] + "//\n", False)]):
        done.append("programs")
    assert done and not library.LOADING


def test_the_loops_that_a_gradient_adds_are_compiled_by_that_thread_alone(kept, no_loops_known, monkeypatch):
    model, _ = small_run(linear=True)
    threads, make = [], library._compile

    def noted(*arguments):
        threads.append(threading.current_thread().name)
        make(*arguments)

    monkeypatch.setattr(library, "_compile", noted)
    state = model.state(eta=lambda x, y: 1e-3 * x / 8e3)
    problem = Problem(model, sw.AB2(5.0), state, 3, BoxEnergy(), ["initial.eta"])
    compile_ahead(problem)
    before = len(threads)
    _, gradient = problem.value_and_gradient()
    assert len(threads) == before
    assert float(abs(gradient["initial.eta"]).max()) > 0
    of_steps = threads.index("loops_0")  # the loops of a step, which decide whether there are loops, come first
    assert of_steps and set(threads[of_steps:]) == {"loops_0"}
