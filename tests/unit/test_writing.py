"""Files are written by one thread while the run goes on: complete, in order, of the state that was due."""

import functools
import signal
import threading
import time
import tracemalloc

import netCDF4
import numpy as np
import pytest

import swmodel as sw
from swmodel.errors import SwmodelError
from swmodel.output import records, running
from swmodel.output.products import snapshots
from swmodel.output.restart import write_restart_parts
from swmodel.output.running import Run
from swmodel.output.schedule import Writer
from swmodel.runtime.signals import LOCK, ExitGuard
from swmodel.simulation.driver import LONGEST_CHUNK, SHARE, Pace
from swmodel.simulation.simulation import Simulation
from tests.restarts import read_restart
from tests.selection import later

GRID = sw.CartesianGrid(8, 6, (0.0, 8e4), (0.0, 6e4))
PATIENCE = 20.0  # [s] after which a test gives up


def started(function, done, count):
    """A thread that calls `function`, which has put `count` things into `done` and waits."""
    thread, until = threading.Thread(target=function), time.monotonic() + PATIENCE
    thread.start()
    while len(done) < count and time.monotonic() < until:
        time.sleep(0.01)
    time.sleep(0.1)
    return thread


class File:
    """An Output for the Writer alone."""

    def __init__(self):
        self.closed = 0

    def close(self):
        self.closed += 1


def test_writes_are_made_in_order_by_one_other_thread():
    writer, done = Writer(), []
    for k in range(20):
        writer.submit(File(), lambda k=k: done.append((k, threading.current_thread().name)))
    writer.wait()
    assert done == [(k, "writer") for k in range(20)]
    writer.close()
    assert "writer" not in [thread.name for thread in threading.enumerate()]


@pytest.mark.parametrize(
    ("limit", "sizes"), [({"most_bytes": 100}, (1000, 60, 40, 1)), ({"most_writes": 2}, (0, 0, 0, 0))]
)
def test_only_so_many_bytes_wait_or_one_larger_record_and_so_many_writes(limit, sizes):
    writer, may_write, submitted = Writer(**limit), threading.Event(), []

    def submit_all():
        for k, size in enumerate(sizes):  # the first is being written, two wait, the last must not
            writer.submit(File(), lambda: may_write.wait(PATIENCE), size)
            submitted.append(k)

    thread = started(submit_all, submitted, 3)
    assert submitted == [0, 1, 2]
    may_write.set()
    thread.join(PATIENCE)
    writer.close()
    assert submitted == [0, 1, 2, 3]


def test_an_error_of_a_file_ends_its_writing_and_no_other():
    writer, broken, sound, done = Writer(), File(), File(), []

    def fails():
        raise SwmodelError("the disk is full")

    for output, write in (
        (broken, fails),
        (broken, lambda: done.append("more")),
        (sound, lambda: done.append("sound")),
    ):
        writer.submit(output, write)
    writer.close()
    assert done == ["sound"] and (broken.closed, sound.closed) == (1, 0)
    assert str(writer.failed[broken]) == "the disk is full" and list(writer.failed) == [broken]


def test_an_error_of_the_program_itself_is_raised_by_the_next_call():
    for call in (Writer.wait, Writer.close, lambda writer: writer.submit(File(), lambda: None)):
        writer = Writer()
        writer.submit(File(), lambda: 1 // 0)
        while writer._jobs or writer._busy:
            time.sleep(0.01)
        with pytest.raises(ZeroDivisionError):
            call(writer)
        writer.close()


def test_parts_of_a_stream_come_in_order_and_few_of_them_wait():
    writer, taken, waiting, may_take = Writer(most_bytes=100), [], [], threading.Event()

    def write(parts):
        may_take.wait(PATIENCE)
        taken.extend((part, threading.current_thread().name) for part in parts)

    def put_all():
        with writer.stream(File(), write) as put:
            for k in range(20):
                put(k, 40)
                waiting.append(writer._waiting_bytes)

    thread = started(put_all, waiting, 2)
    assert waiting == [40, 80]
    may_take.set()
    thread.join(PATIENCE)
    writer.close()
    assert taken == [(k, "writer") for k in range(20)] and max(waiting) <= 100 and writer._waiting_bytes == 0


@pytest.mark.parametrize("after", [0, 3])
def test_parts_are_dropped_after_an_error_of_the_file(after):
    writer, broken = Writer(most_bytes=100), File()

    def fails(parts):
        for _ in range(after):
            next(parts)
        raise SwmodelError("the disk is full")

    for _ in range(2):  # the second write is never begun
        with writer.stream(broken, fails) as put:
            for k in range(20):
                put(k, 60)
    writer.close()
    assert str(writer.failed[broken]) == "the disk is full" and writer._waiting_bytes == 0


def test_an_error_between_parts_ends_the_write_and_not_as_if_it_were_complete():
    writer, output, done = Writer(), File(), []
    with pytest.raises(KeyError), writer.stream(output, lambda parts: done.append(list(parts))) as put:
        put(1, 1)
        raise KeyError
    writer.close()
    assert not done and "ended before all parts" in str(writer.failed[output])


class Exited(BaseException):
    pass


@pytest.mark.parametrize("way", ["write", "open", "close"])
def test_a_signal_ends_the_process_after_a_record_and_not_within_it(tmp_path, monkeypatch, way):
    """A file that HDF5 is cut off in may be unreadable."""
    within, done, order = threading.Event(), threading.Event(), []
    original = {"write": records.FieldFile.append, "open": records.FieldFile.__init__, "close": records.FieldFile.close}

    def slow(*arguments, **options):
        within.set()
        done.wait(PATIENCE)
        order.append("written")
        return original[way](*arguments, **options)

    def ended(status):
        order.append(status)
        raise Exited

    name = {"write": "append", "open": "__init__", "close": "close"}[way]
    monkeypatch.setattr(records.FieldFile, name, slow)
    monkeypatch.setattr("os._exit", ended)
    run = simulation(tmp_path, "arrays")
    run.outputs = run.outputs[:1]
    thread = threading.Thread(target=lambda: run.run(steps=1))
    thread.start()
    assert within.wait(PATIENCE)
    threading.Timer(0.1, done.set).start()
    guard = ExitGuard()
    guard.be_silent()
    with pytest.raises(Exited):
        try:
            guard._end(signal.SIGTERM)
        finally:
            LOCK.release()
    thread.join(PATIENCE)
    assert order[:2] == ["written", 128 + signal.SIGTERM]


# -- runs -------------------------------------------------------------------------------------------------------------


def simulation(folder, engine="auto", stepper=None, every=20.0):
    model = sw.ShallowWater(GRID, 500.0, engine=engine)
    hump = model.state(eta=lambda x, y: 0.5 * np.exp(-((x - 4e4) ** 2 + (y - 3e4) ** 2) / 4e8))
    run = Simulation(model, hump, stepper or sw.AB2(10.0)).write(folder / "fields.nc", ("eta", "u"), every=every)
    if stepper is None:
        run.maxima(folder / "maxima.nc")
    return run.gauges(folder / "gauges.nc", {"a": (3e4, 3e4)}).restart(folder / "restart.nc", every=40.0)


def content(folder):
    found = {}
    for name in ("fields", "gauges", "maxima"):
        with netCDF4.Dataset(folder / f"{name}.nc") as dataset:
            found |= {(name, v): np.ma.filled(dataset[v][:]) for v in dataset.variables if dataset[v].dtype.kind == "f"}
    restart = read_restart(folder / "restart.nc")
    return found | restart.arrays | restart.scalars


@pytest.mark.parametrize("engine", ["arrays", later("auto")])
def test_steps_go_on_while_a_record_is_written_which_is_of_the_state_that_was_due(tmp_path, monkeypatch, engine):
    simulation(tmp_path / "plain", engine).run(steps=8)
    reached, overlapped = threading.Semaphore(0), []

    def late(function):
        def write(*arguments, **options):
            assert threading.current_thread().name == "writer"
            overlapped.append(reached.acquire(timeout=PATIENCE))  # until another chunk of steps is computed
            return function(*arguments, **options)

        return write

    def progress(step, last, *_):
        reached.release(100 if step == last else 1)

    progress.reads_files = False
    monkeypatch.setattr(records.FieldFile, "append", late(records.FieldFile.append))
    monkeypatch.setattr("swmodel.output.running.write_restart_parts", late(write_restart_parts))
    simulation(tmp_path / "late", engine).run(steps=8, progress=progress)
    assert len(overlapped) == 7 and all(overlapped)
    plain, delayed = content(tmp_path / "plain"), content(tmp_path / "late")
    assert plain.keys() == delayed.keys()
    for name, values in plain.items():
        assert np.array_equal(values, delayed[name], equal_nan=np.ndim(values) > 0), name


@pytest.mark.verify
def test_a_restart_takes_the_memory_of_few_fields(tmp_path, monkeypatch):
    """AB3 has nine fields of state and history; the depth is made for the file."""
    monkeypatch.setattr("swmodel.output.running.Writer", functools.partial(Writer, 1 << 18))
    monkeypatch.setattr("swmodel.output.restart.PART", 1 << 16)
    grid = sw.CartesianGrid(400, 300, (0.0, 4e6), (0.0, 3e6))
    field = 8 * 400 * 300
    model = sw.ShallowWater(grid, 500.0, dtype="float64")
    run = Simulation(model, model.state(eta=lambda x, y: np.exp(-((x - 2e6) ** 2) / 1e12) + 0 * y), sw.AB3(10.0))
    run.restart(tmp_path / "restart.nc").run(steps=3)
    output = run.outputs[0]
    output.tried = None
    tracemalloc.start()
    with Run.opened(run, run.outputs, run.step) as files:
        files.write_restart(run)
        files.wait()
        peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    restart = read_restart(tmp_path / "restart.nc")
    assert sum(array.nbytes for array in restart.arrays.values()) == 10 * field
    np.testing.assert_array_equal(restart.arrays["state_eta"], run.state.eta)
    assert peak < 3.5 * field, peak / field


def test_a_function_of_the_users_finds_the_files_complete(tmp_path, monkeypatch):
    append, found = records.FieldFile.append, []

    def slow(*arguments):
        time.sleep(0.1)
        append(*arguments)

    def progress(step, *_):
        with netCDF4.Dataset(tmp_path / "fields.nc") as dataset:
            found.append((step, len(dataset["time"])))

    monkeypatch.setattr(records.FieldFile, "append", slow)
    simulation(tmp_path, "arrays").run(steps=6, progress=progress)
    assert found == [(step, step // 2 + 1) for step in (0, 4, 6)]  # a restart is due at step 4


@pytest.mark.parametrize("stepper", [None, sw.RigidLid(10.0)], ids=["surface", "lid"])
def test_records_show_no_memory_of_the_state(tmp_path, stepper):
    run = simulation(tmp_path, "arrays", stepper)
    record = dict(snapshots.gathered_fields(run.model, snapshots.fields_of_tiles(run, ("eta", "u"))))
    assert {name: array.shape for name, array in record.items()} == {"eta": (6, 8), "u": (6, 9)}
    mine = [np.asarray(x) for x in (run.state.eta, run.state.u)]
    assert not any(np.shares_memory(array, other) for array in record.values() for other in mine)
    array = np.arange(4.0)
    assert running.owned(array) is array and running.owned(None) is None
    assert not np.shares_memory(running.owned(array[1:]), array)


# -- how long chunks are -----------------------------------------------------------------------------------------------


def test_neither_one_slow_chunk_nor_short_ones_make_the_next_ones_short():
    pace = Pace()
    pace.measure(8, 30.0)  # compiles
    for _ in range(8):
        pace.steps = pace.measure(pace.steps, pace.steps * 1e-3)
    assert pace.steps in (1000, 2000)  # every sixth chunk is longer, which shows a fixed cost
    pace.steps = pace.measure(1000, 500.0)  # the machine slept
    assert pace.steps in (500, 1000, 2000)
    for _ in range(20):  # something is due at every step
        pace.steps = pace.measure(1, 2e-3)
    assert pace.steps == 500
    for _ in range(8):
        pace.steps = pace.measure(1, 3.0)
    assert pace.steps <= 2
    for _ in range(20):
        pace.steps = pace.measure(pace.steps, pace.steps * 1e-9)
    assert pace.steps == LONGEST_CHUNK


@pytest.mark.parametrize("slow", [None, 1, 2, 3])
@pytest.mark.parametrize(("fixed", "step"), [(0.0, 1e-2), (0.3, 1e-2), (0.9, 2e-3), (1.0, 2e-3), (1.2, 0.03)])
def test_a_fixed_cost_of_each_chunk_takes_about_a_fifth_of_the_time(fixed, step, slow):
    """Chunks of a second were 12 times as slow as their steps with 0.9 s, and 100 times with 1 s.

    One chunk that another program delays by a second does not keep them so: it did if it was the second one.
    """
    pace, taken = Pace(), []
    for k in range(24):
        count, took = pace.steps, fixed + pace.steps * step
        pace.steps = pace.measure(count, took + (k == slow))
        taken.append(took)
    assert 12 * fixed <= 1.1 * SHARE * sum(taken[-12:]) and max(taken[-12:]) < 1.03 * fixed + 5.1


def test_chunks_are_short_again_when_their_fixed_cost_has_gone():
    pace, taken = Pace(), []
    for k in range(60):
        taken.append((0.9 if k < 30 else 0.0) + pace.steps * 2e-3)
        pace.steps = pace.measure(pace.steps, taken[-1])
    assert max(taken[20:30]) > 4.0 and max(taken[-10:]) < 2.1
