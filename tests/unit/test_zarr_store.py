"""A Zarr store is complete under its name whenever its writer is killed, and is continued by its own run alone."""

import datetime
import os
import shutil
import socket

import numpy as np
import pytest

import swmodel as sw
from swmodel.errors import DataError
from swmodel.output import earlier
from swmodel.output.running import RestartOutput
from swmodel.output.zarr_store import ZarrStore, array_metadata
from swmodel.runtime.paths import remove

GRID = sw.CartesianGrid(6, 5, (0.0, 6e3), (0.0, 5e3))
ARRAY = array_metadata((3,), (3,), "f8", ("x",), {})


class Killed(BaseException):
    """In the place of SIGKILL."""


def store(path, value):
    made = ZarrStore(path)
    made.create({"a": ARRAY}, {"value": value})
    return made


@pytest.mark.parametrize("calls", range(6))
def test_whenever_it_is_killed_while_one_takes_the_place_of_another_one_of_them_is_there(tmp_path, monkeypatch, calls):
    """Before each of the calls that change the folder."""
    path, count = tmp_path / "r.zarr", [0]
    old = store(path, "old")
    new = old.next_to_it({"a": ARRAY})
    new.commit({"a": ARRAY}, {"value": "new"})

    def killing(function):
        def call(*arguments, **options):
            if count[0] == calls:
                raise Killed
            count[0] += 1
            return function(*arguments, **options)

        return call

    with monkeypatch.context() as patched:
        for module, name in ((os, "rename"), (os, "replace"), (shutil, "rmtree")):
            patched.setattr(module, name, killing(getattr(module, name)))
        try:
            old.replace_by(new)
        except Killed:
            pass
    found = ZarrStore(path)
    found.recover()
    assert found.description()[1]["value"] == ("old" if calls < 2 else "new")
    for left in (found.aside, earlier(path)):
        remove(left)
    assert [entry.name for entry in tmp_path.iterdir()] == ["r.zarr"]


def test_chunks_of_restarts_are_on_disk_before_the_store_says_that_they_are(tmp_path, monkeypatch):
    order, fsync, replace = [], os.fsync, os.replace
    monkeypatch.setattr(os, "fsync", lambda fd: (order.append(os.readlink(f"/proc/self/fd/{fd}")), fsync(fd)))
    monkeypatch.setattr(os, "replace", lambda a, b: (order.append(str(b)), replace(a, b)))
    model = sw.ShallowWater(GRID, 50.0, linear=True, engine="arrays")
    sw.Simulation(model, model.at_rest(), sw.ForwardBackward(10.0)).restart(tmp_path / "r.zarr").run(steps=1)
    part = f"{socket.gethostname()}.{os.getpid()}.part"
    chunk = next(k for k, name in enumerate(order) if "/state_u/c/" in name and name.endswith(f"/.0.{part}"))
    described = next(k for k, name in enumerate(order) if name.endswith(".r.zarr.new/zarr.json"))
    assert chunk < described


def test_a_new_run_does_not_take_what_a_killed_one_left_for_its_restart(tmp_path, monkeypatch):
    path = tmp_path / "r.zarr"
    store(ZarrStore(path).aside, "complete")

    def killed(output, simulation):
        raise Killed

    monkeypatch.setattr(RestartOutput, "finish", killed)
    model = sw.ShallowWater(GRID, 50.0, linear=True, engine="arrays")
    with pytest.raises(Killed):
        sw.Simulation(model, model.at_rest(), sw.ForwardBackward(10.0)).restart(path).run(steps=1)
    assert not path.exists() and not ZarrStore(path).aside.exists()


def test_what_has_not_changed_is_not_described_again(tmp_path):
    made = store(tmp_path / "s.zarr", 1)
    before = (made.path / "a" / "zarr.json").stat()
    made.commit({"a": ARRAY}, {"value": 2})
    assert (made.path / "a" / "zarr.json").stat().st_ino == before.st_ino and made.description()[1]["value"] == 2


DEPTH = np.where(np.arange(6) == 2, 0.0, np.full((5, 6), 50.0))
OTHERS = {
    "its wet is not this run's": (GRID, np.where(np.arange(6) == 3, 0.0, DEPTH), 10.0),
    "its depth is not this run's": (GRID, DEPTH + (np.arange(6) == 4), 10.0),
    "its xh is not this run's": (sw.CartesianGrid(6, 5, (0.0, 7e3), (0.0, 5e3)), DEPTH, 10.0),
    "the units of its time is seconds since 2000-01-01": (GRID, DEPTH, None),
}


@pytest.mark.parametrize("said", OTHERS)
def test_a_store_of_another_run_is_not_continued(tmp_path, said):
    def made(grid, depth, start):
        model = sw.ShallowWater(grid, depth, linear=True, engine="arrays")
        date = datetime.datetime(2011, 3, 11) if start is None else None
        run = sw.Simulation(model, model.at_rest(), sw.ForwardBackward(10.0), start=date)
        return run.write(tmp_path / "s.zarr", ("eta",), every=10.0)

    made(GRID, DEPTH, 0.0).restart(tmp_path / "r.nc").run(steps=2)
    before = (tmp_path / "s.zarr" / "zarr.json").read_bytes()
    other = made(*OTHERS[said])
    other.resumed_at = other.step = 2  # as a resume with --force
    with pytest.raises(DataError, match=said):
        other.run(steps=1)
    assert (tmp_path / "s.zarr" / "zarr.json").read_bytes() == before
    goes_on = made(GRID, DEPTH, 0.0)
    goes_on.resume(tmp_path / "r.nc")
    goes_on.run(steps=1)


@pytest.mark.parametrize("key", ["attributes", "shape", "data_type", "chunk_shape", "metadata"])
def test_a_store_whose_description_is_damaged_is_not_continued(tmp_path, key):
    """One flipped bit in a key; it was a bare KeyError."""
    arrays = {"eta": array_metadata((0, 6, 8), (1, 6, 8), "f4", ("time", "yh", "xh"), {})}
    store = ZarrStore(tmp_path / "s.zarr")
    store.create(arrays, {"title": "A bump"})
    assert store.description() == (arrays, {"title": "A bump"})
    text = (store.path / "zarr.json").read_text()
    first, last = text.split(f'"{key}"')[0], text.split(f'"{key}"', 1)[1]
    (store.path / "zarr.json").write_text(f'{first}"{chr(ord(key[0]) ^ 2)}{key[1:]}"{last}')
    with pytest.raises(DataError, match="s.zarr cannot be continued: it is no Zarr store of a run, or damaged"):
        store.description()


@pytest.mark.verify
def test_a_store_is_read_and_plotted_while_the_run_goes_on(tmp_path, command):
    """Whole records alone, as dask's arrays of one chunk a tile, that later records leave as they were."""
    xarray = pytest.importorskip("xarray")
    pytest.importorskip("zarr")
    store, seen = tmp_path / "fields.zarr", []
    model = sw.ShallowWater(sw.CartesianGrid(8, 6, (0.0, 8e3), (0.0, 6e3)), 50.0, engine="arrays")
    run = sw.Simulation(model, model.state(eta=lambda x, y: np.cos(x / 2e3)), sw.AB2(5.0))
    run.write(store, ("eta",), every=5.0)

    def look(*_):
        if store.exists():
            with xarray.open_zarr(store, decode_times=False) as found:
                assert found.eta.chunks is not None  # of dask: nothing is read before it is used
                seen.append(found.eta.values)

    for _ in range(4):
        run.run(steps=2, progress=look)
        look()
    with xarray.open_zarr(store, decode_times=False) as found:
        whole = found.eta.values
    assert len(whole) == 9 and len({len(x) for x in seen}) > 2
    for values in seen:
        np.testing.assert_array_equal(values, whole[: len(values)])
    pytest.importorskip("matplotlib")
    status, _, _ = command("plot", store, "--output", tmp_path / "map.png")
    assert status in (None, 0) and (tmp_path / "map.png").stat().st_size > 1000
