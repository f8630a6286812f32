"""What JAX compiles is kept from process to process: loaded again, never loaded damaged, and left alone on request."""

import os
import subprocess
import sys
import textwrap
from concurrent.futures import ThreadPoolExecutor

import jax
import numpy as np
import pytest

import swmodel as sw
from swmodel.adjoint import BoxEnergy, Nested, Problem
from swmodel.adjoint.core import runs
from swmodel.grids.windows import LazyRecords, Stored
from swmodel.runtime import cache, compilation, paths
from swmodel.simulation.program import compile_ahead

PROGRAM = textwrap.dedent("""
    import jax, jax.numpy as jnp
    from jax._src import monitoring
    from swmodel.runtime.launch import configure_process

    events = []
    monitoring.register_event_listener(lambda name, **more: events.append(name))
    configure_process("float64", "serial")
    print(float(jax.jit(lambda x: jnp.sin(x) @ x)(jnp.arange(7.0))))
    print(sum(name.endswith("cache_hits") for name in events), sum(name.endswith("cache_misses") for name in events))
""")


def run(folder, **settings):
    """(the result, hits, misses) of a process that compiles two programs or more."""
    environment = {k: v for k, v in os.environ.items() if not k.startswith("JAX_COMPILATION")}
    environment |= {"XDG_CACHE_HOME": str(folder), **settings}
    done = subprocess.run([sys.executable, "-c", PROGRAM], env=environment, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    result, counts = done.stdout.splitlines()
    return (result, *map(int, counts.split()))


def test_a_second_process_compiles_damaged_entries_again_and_nothing_else(tmp_path):
    first, hits, misses = run(tmp_path)
    assert hits == 0 and misses > 0
    kept = sorted((tmp_path / "swmodel").glob("*.program"))
    assert len(kept) == misses > 1
    for path in kept[::2]:
        content = bytearray(path.read_bytes())
        content[len(content) // 2] ^= 0x10
        path.write_bytes(content)
    assert run(tmp_path) == (first, len(kept[1::2]), len(kept[::2]))


@pytest.mark.verify
def test_settings_of_jax_come_first(tmp_path):
    mine = tmp_path / "mine"
    run(tmp_path, JAX_COMPILATION_CACHE_DIR=str(mine))
    assert not list((tmp_path / "swmodel").glob("*.program"))
    run(tmp_path, JAX_ENABLE_COMPILATION_CACHE="false")
    assert not list((tmp_path / "swmodel").glob("*.program"))


@pytest.fixture
def kept(tmp_path, monkeypatch):
    monkeypatch.setattr(cache, "folder", lambda: tmp_path)
    return compilation._VerifiedCache(decompress=lambda value: value)


def test_programs_that_hold_addresses_of_mpi_are_not_kept(kept, tmp_path):
    kept.put("a", b"calls mpi_sendrecv_ffi at 0x7f00")
    assert kept.get("a") is None
    kept.put("b", b"calls nothing")
    assert kept.get("b") == b"calls nothing"
    assert len(list(tmp_path.glob("*.program"))) == 1


def test_a_program_of_another_processor_is_not_found(kept, monkeypatch):
    kept.put("a", b"code")
    monkeypatch.setattr(cache, "instructions", lambda: "another")
    assert kept.get("a") is None


def test_a_full_disk_does_not_end_a_run(kept, monkeypatch):
    def full(*arguments):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(compilation, "_write", full)
    kept.put("a", b"code")
    assert kept.get("a") is None


def test_a_file_that_is_used_is_the_last_to_be_removed(tmp_path, monkeypatch):
    monkeypatch.setattr(cache, "folder", lambda: tmp_path)
    for name in ("first", "second"):
        os.utime(cache.keep(name, "jax", lambda path: path.write_bytes(bytes(100)), "program"), (1, 1))
    assert cache.find("first", "jax", "program") is not None
    cache.prune("program", 150.0)
    assert [path.name.split(".")[0] for path in tmp_path.iterdir()] == ["first"]


def test_what_can_be_made_again_is_not_waited_for_until_it_is_on_disk(tmp_path, monkeypatch):
    synced = []
    monkeypatch.setattr(cache, "folder", lambda: tmp_path)
    monkeypatch.setattr(paths, "to_disk", synced.append)
    cache.keep("a", "jax", lambda path: path.write_bytes(b"code"), "program")
    assert not synced
    cache.make("b", "cpp", lambda path: path.write_bytes(b"code"))
    assert len(synced) == 1


@pytest.fixture
def shared(tmp_path, monkeypatch):
    """The cache of a rank among several, and an Executor whose thread stands for another rank."""
    monkeypatch.setattr(cache, "folder", lambda: tmp_path)
    with ThreadPoolExecutor(1) as other:
        yield compilation._VerifiedCache(decompress=lambda value: value, shared=True), other


def test_a_rank_waits_for_the_program_that_another_one_compiles(shared, tmp_path):
    kept, other = shared
    assert kept.get("a") is None, "this rank compiles it"
    waiting = other.submit(kept.get, "a")
    with pytest.raises(TimeoutError):
        waiting.result(0.2)
    kept.put("a", b"code")
    assert waiting.result(10) == b"code" and not list(tmp_path.glob("*.lock"))


def test_a_program_that_failed_is_given_up_when_the_next_one_is_asked_for(shared, monkeypatch):
    kept, other = shared
    monkeypatch.setattr(compilation, "COURTESY", 0.2)
    assert kept.get("a") is None
    waiting = other.submit(kept.get, "a")
    assert kept.get("b") is None and waiting.result(10) is None


def test_a_program_that_is_not_kept_is_compiled_by_each_rank(shared):
    kept, other = shared
    assert kept.get("a") is None
    waiting = other.submit(kept.get, "a")
    kept.put("a", b"calls mpi_sendrecv_ffi at 0x7f00")
    assert waiting.result(10) is None


def test_a_rank_loses_patience_with_one_that_compiles_for_ever(shared, monkeypatch):
    kept, other = shared
    monkeypatch.setattr(compilation, "PATIENCE", 0.1)
    assert kept.get("a") is None
    assert other.submit(kept.get, "a").result(10) is None


def test_the_lock_of_a_rank_that_was_killed_is_free(shared, tmp_path):
    kept, _ = shared
    code = textwrap.dedent(f"""
        import os, sys
        from pathlib import Path
        from swmodel.runtime import cache, compilation
        cache.folder = lambda: Path({str(tmp_path)!r})
        kept = compilation._VerifiedCache(decompress=lambda value: value, shared=True)
        assert kept.get("a") is None
        print("compiling", flush=True)
        sys.stdin.read()
    """)
    command = [sys.executable, "-c", code]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout.readline() == "compiling\n"
        process.kill()
    assert kept.get("a") is None and list(tmp_path.glob("*.lock")), "it compiles the program itself"


def test_a_rank_that_compiles_a_program_leaves_the_next_one_to_others(shared):
    kept, thread = shared
    assert kept.get("a") is None, "this rank compiles it"
    waiting = thread.submit(kept.get, "b")
    another = compilation._VerifiedCache(decompress=lambda value: value, shared=True)
    assert another.get("b") is None, "another rank takes it"
    another.put("b", b"code")
    assert waiting.result(10) == b"code"


# -- programs compiled ahead -------------------------------------------------------------------------------------------

SHAPE = (12, 16)


class Later:
    """A source whose records are counted when they are read."""

    def __init__(self):
        self.read = []

    def series(self, domain):
        def record(k):
            self.read.append(k)
            return Stored(np.full(SHAPE, 0.1 * k), SHAPE)

        return domain.series(np.array([0.0, 60.0]), LazyRecords(record, (2, *SHAPE)))


def model_of(source, engine):
    grid = sw.CartesianGrid(nx=SHAPE[1], ny=SHAPE[0], x=(0.0, 160e3), y=(0.0, 120e3))
    return sw.ShallowWater(
        grid, 100.0, boundaries=sw.Flather(), source=source, engine=engine, communicator="serial", dtype="float32"
    )


def simulation_of(source, tmp_path, engine):
    model = model_of(source, engine)
    simulation = sw.Simulation(model, model.at_rest(), sw.ForwardBackward(dt=20.0))
    simulation.write(tmp_path / "fields.nc", ("eta", "u"), every=60.0)
    simulation.gauges(tmp_path / "gauges.nc", {"a": (80e3, 60e3)})
    simulation.maxima(tmp_path / "maxima.nc")
    return simulation


@pytest.fixture(scope="module")
def compiled():
    """The names of the programs that JAX compiles or loads from here on."""
    names = []

    def note(event, seconds, **about):
        if event.endswith("backend_compile_duration"):
            names.append(about["fun_name"])

    jax.monitoring.register_event_duration_secs_listener(note)
    return names


@pytest.mark.verify
@pytest.mark.parametrize("engine", ["auto", pytest.param("arrays", marks=pytest.mark.verify)])
def test_the_run_compiles_none_of_them_again(tmp_path, engine, compiled):
    source = Later()
    simulation = simulation_of(source, tmp_path, engine)
    compiled.clear()
    compile_ahead(simulation)
    assert not source.read, "the uplift is not known yet"
    assert sum("_diagnose" in name for name in compiled) == 1
    assert sum("program" in name for name in compiled) == 2, "the first arrays of the step loop, and the steps"
    before = simulation.engine
    compiled.clear()
    simulation.run(steps=9)
    assert source.read and simulation.engine == before
    assert not any("_diagnose" in name for name in compiled)
    assert sum("program" in name for name in compiled) <= 2, "gauges at the start, and the state at the end of the loop"


PROGRAMS = {"_start", "_forward", "_record", "_finish", "_pull", "_to_start"}


def programs_of_gradients(names):
    return sorted(name for program in PROGRAMS for name in names if f"({program})" in name)


@pytest.mark.verify
def test_a_gradient_compiles_none_of_them_again(compiled):
    source = Later()
    model, controls = model_of(source, "auto"), ["uplift", "depth", "initial.eta"]
    given = model, sw.ForwardBackward(dt=20.0), model.at_rest(), 9, BoxEnergy(), controls
    problem = Problem(*given, checkpoints=Nested(lengths=(2, 2)))
    compiled.clear()
    runs.compile_ahead(problem)
    assert not source.read, "the uplift is not known yet"
    assert programs_of_gradients(compiled) == sorted(f"jit({name})" for name in PROGRAMS)
    compiled.clear()
    problem.value_and_gradient()
    assert source.read and not programs_of_gradients(compiled)
