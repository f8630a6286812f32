"""Zarr stores: every rank writes its chunks, the records are those of netCDF, and a store is readable at any moment."""

import functools
import os
import shutil

import numpy as np
import pytest
import xarray as xr

import swmodel as sw
from swmodel.errors import DataError, SwmodelError
from swmodel.output.zarr_store import ZarrStore
from swmodel.parallel import make_communicator

NX, NY = 13, 11
NAMES = ("eta", "u", "v", "vorticity")


@functools.cache  # whose programs all runs share
def ocean(periodic):
    grid = sw.CartesianGrid(NX, NY, (0.0, 13e3), (0.0, 11e3), periodic)
    depth = np.where(np.random.default_rng(2).random((NY, NX)) < 0.2, 0.0, 100.0)
    return sw.ShallowWater(grid, depth, dtype="float32", engine="arrays")


def simulation(periodic="", **options):
    model = ocean(periodic)
    state = model.state(eta=lambda x, y: np.exp(-((x - 6e3) ** 2 + (y - 5e3) ** 2) / 4e6))
    return sw.Simulation(model, state, sw.AB2(5.0), **options)


def shared(tmp_path):
    """The root's folder, on every rank."""
    return make_communicator("auto", (NY, NX)).host_broadcast(tmp_path)


def same(store, file):
    """The root compares all numbers of a store and of a netCDF file."""
    with xr.open_zarr(store) as found, xr.open_dataset(file) as wanted:
        assert set(found.variables) == set(wanted.variables) and found.sizes == wanted.sizes
        for name, values in wanted.variables.items():
            np.testing.assert_array_equal(found[name].values, values.values, err_msg=name)
            for key, value in values.attrs.items():
                np.testing.assert_array_equal(found[name].attrs[key], value, err_msg=f"{name}.{key}")


@pytest.mark.parametrize(
    "periodic, names", [pytest.param("", NAMES, marks=pytest.mark.verify), ("x", (*NAMES, "depth"))]
)
def test_a_store_holds_what_a_netcdf_file_holds_and_goes_on(periodic, names, tmp_path):
    """The depth is constant, or has records where it is one of the variables."""
    folder = shared(tmp_path)
    for last in (12, 24):
        run = simulation(periodic)
        for file in ("fields.zarr", "fields.nc"):
            run.write(folder / file, names, every=25.0)
        run.restart(folder / "restart.nc")
        if last == 24:
            run.resume(folder / "restart.nc")
        run.run(until=5.0 * last)
        if run.communicator.is_root:
            same(folder / "fields.zarr", folder / "fields.nc")
        run.communicator.barrier()


def test_a_record_that_cannot_be_written_ends_the_run_and_leaves_the_earlier_ones(tmp_path, monkeypatch):
    folder, original = shared(tmp_path), ZarrStore.write_chunk

    def full(self, name, array, index, values):
        if name == "u" and index[0] == 2:
            raise SwmodelError(f"{self.path} could not be written: the disk is full.")
        original(self, name, array, index, values)

    monkeypatch.setattr(ZarrStore, "write_chunk", full)
    run = simulation().write(folder / "fields.zarr", NAMES, every=25.0)
    with pytest.raises(SwmodelError, match="the disk is full"):
        run.run(steps=20)
    if run.communicator.is_root:
        with xr.open_zarr(folder / "fields.zarr") as found:
            assert found.sizes["time"] == 2 and np.isfinite(found.eta.values).any(axis=(1, 2)).all()
    run.communicator.barrier()


def test_a_run_goes_on_from_a_store_with_the_same_bits(tmp_path):
    """Twice: each restart of a store goes into the slot that the one before it has left."""
    folder = shared(tmp_path)
    whole = simulation()
    wanted = [whole.model.gather(whole.run(steps=8).eta) for _ in range(3)][-1]
    simulation().restart(folder / "restart.zarr").run(steps=8)
    for _ in range(2):
        run = simulation()
        run.resume(folder / "restart.zarr")
        state = run.restart(folder / "restart.zarr").run(steps=8)
    found = run.model.gather(state.eta)
    if run.communicator.is_root:
        np.testing.assert_array_equal(found, wanted)


def fill_disk(monkeypatch):
    """Let the disk be full when the chunks of v are written."""
    write_chunk = ZarrStore.write_chunk

    def full(self, name, array, index, values):
        if name == "state_v":
            raise SwmodelError(f"{self.path} could not be written: the disk is full.")
        write_chunk(self, name, array, index, values)

    monkeypatch.setattr(ZarrStore, "write_chunk", full)


def test_a_restart_that_cannot_be_written_leaves_the_one_before(tmp_path, monkeypatch):
    folder = shared(tmp_path)
    simulation().restart(folder / "restart.zarr").run(steps=3)
    run = simulation()
    run.resume(folder / "restart.zarr")
    fill_disk(monkeypatch)
    with pytest.raises(SwmodelError, match="the disk is full"):
        run.restart(folder / "restart.zarr").run(steps=2)
    run = simulation()
    assert "at step 3" in run.resume(folder / "restart.zarr")


@pytest.mark.verify
def test_a_restart_of_other_arrays_that_cannot_be_written_leaves_the_one_before(tmp_path, monkeypatch):
    """With means, the store of the first run does not do, and another one is made next to it."""
    folder = shared(tmp_path)
    simulation().restart(folder / "restart.zarr").run(steps=3)
    run = simulation().means(folder / "means.nc", ("eta",))
    run.resume(folder / "restart.zarr")
    with monkeypatch.context() as patch:
        fill_disk(patch)
        with pytest.raises(SwmodelError, match="the disk is full"):
            run.restart(folder / "restart.zarr").run(steps=2)
    assert "at step 3" in simulation().resume(folder / "restart.zarr")
    run = simulation(overwrite=True).means(folder / "means.nc", ("eta",))
    run.resume(folder / "restart.zarr")
    run.restart(folder / "restart.zarr").run(steps=2)
    assert "at step 5" in simulation().resume(folder / "restart.zarr")
    if run.communicator.is_root:
        assert sorted(path.name for path in folder.iterdir()) == ["means.nc", "restart.zarr"]


def test_a_run_whose_folder_is_removed_ends_with_a_sentence_and_a_restart(tmp_path):
    """No chunks are left of the store that the ranks wrote to; from the restart the run is resumed in that folder."""
    folder, removed = shared(tmp_path) / "output", []

    def remove(*_):
        if not removed:
            removed.append(shutil.rmtree(folder))

    remove.reads_files = False
    run = simulation().write(folder / "fields.zarr", NAMES, every=25.0).restart(folder / "restart.zarr")
    with pytest.raises(SwmodelError, match=r"fields.zarr was removed .* The newest restart is .*restart.zarr"):
        run.run(steps=40, progress=remove)
    if run.communicator.is_root:
        assert [path.name for path in folder.iterdir()] == ["restart.zarr"]
    run.communicator.barrier()
    again = simulation().write(folder / "fields.zarr", NAMES, every=25.0)
    again.resume(folder / "restart.zarr")
    again.run(steps=1)


@pytest.mark.parametrize(
    "array, earlier, between",
    [
        ("v", 1, (1,)),
        ("state_v", 0, (0,)),
        *(
            pytest.param(*x, marks=pytest.mark.verify)
            for x in (("v", 1, ()), ("state_v", 1, (0, 1)), ("state_v", 1, ()))
        ),
    ],
)
def test_a_store_that_is_removed_while_it_is_written_is_named_by_all_ranks(
    tmp_path, monkeypatch, array, earlier, between
):
    """The root removes the folder when all ranks are at this array of a record after so many earlier ones.

    The ranks in `between` have opened the file of their chunk, and cannot rename it. The others make folders anew.
    """
    folder = shared(tmp_path) / "output"
    run, write_chunk, replace = simulation(), ZarrStore.write_chunk, os.replace
    if array == "v":
        run.write(folder / "fields.zarr", NAMES)
    run.restart(folder / "restart.zarr")
    for _ in range(earlier):
        run.run(steps=3)
    before = []

    def remove():
        if not before:
            before.append(run.communicator.barrier())
            if run.communicator.is_root:
                shutil.rmtree(folder)
            run.communicator.barrier()

    def written(self, name, *arguments):
        if name == array and run.communicator.rank not in between:
            remove()
        write_chunk(self, name, *arguments)

    def renamed(source, target):
        if f"/{array}/c/" in str(target):
            remove()
        replace(source, target)

    monkeypatch.setattr(ZarrStore, "write_chunk", written)
    monkeypatch.setattr(os, "replace", renamed)
    if array == "v":
        with pytest.raises(SwmodelError, match=r"fields.zarr was removed .* The newest restart is .*restart.zarr"):
            run.run(steps=3)
        assert "at step 6" in simulation().resume(folder / "restart.zarr")
    else:
        with pytest.raises(SwmodelError, match=r"restart.zarr\S* was removed while .* No restart was"):
            run.run(steps=3)
    if run.communicator.is_root:
        assert sorted(path.name for path in folder.glob("*")) == (["restart.zarr"] if array == "v" else [])
    run.communicator.barrier()


def test_a_damaged_chunk_is_refused(tmp_path):
    folder = shared(tmp_path)
    run = simulation().restart(folder / "restart.zarr")
    run.run(steps=3)
    if run.communicator.is_root:
        for path in (folder / "restart.zarr" / "state_u" / "c").rglob("*"):
            if path.is_file():
                content = bytearray(path.read_bytes())
                content[len(content) // 2] ^= 4
                path.write_bytes(content)
    run.communicator.barrier()
    with pytest.raises(DataError, match="damaged"):
        simulation().resume(folder / "restart.zarr")


def test_a_store_that_is_none_is_refused(tmp_path):
    folder = shared(tmp_path)
    run = simulation()
    if run.communicator.is_root:
        (folder / "fields.zarr").mkdir()
        (folder / "fields.zarr" / "mine.txt").write_text("mine")
    run.communicator.barrier()
    with pytest.raises(SwmodelError, match="holds no Zarr store"):
        run.write(folder / "fields.zarr", NAMES).run(steps=1)
    assert (folder / "fields.zarr" / "mine.txt").exists()
