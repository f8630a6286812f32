"""Claims about restart files: they give back every bit, are whole or absent, and say what is wrong with them."""

import os
import shutil

import netCDF4
import numpy as np
import pytest

from swmodel.errors import DataError, SwmodelError
from swmodel.grids.grid import CartesianGrid, SphericalGrid
from swmodel.output import replacing
from swmodel.output import restart as module
from swmodel.output.restart import Layout, write_restart_parts
from swmodel.parallel.decomposition import row_blocks
from tests.restarts import read_restart, write_restart

GRID = SphericalGrid(13, 11, (120.0, 180.0), (15.0, 60.0))
SCALARS = {"step": 2**40 + 1, "dt": 0.1, "stepper": "AB3", "linear": True, "start": "2011-03-11", "none": ""}
ATTRIBUTES = {"config": '[grid]\nname = "Tōhoku"\n', "ranks": np.int32(4), "third": np.float64(1 / 3), "title": "T"}


def arrays_of(dtype, seed=0):
    """A state with history, maxima and an edge strip, with every kind of value that arithmetic can leave."""
    rng = np.random.default_rng(seed)
    fields = {name: rng.standard_normal(GRID.shape).astype(dtype) for name in ("state_u", "state_v", "state_eta")}
    tiny = np.finfo(dtype).smallest_subnormal
    fields["state_u"].flat[:6] = [-0.0, np.inf, -np.inf, np.nan, tiny, 9.969209968386869e36]  # the last: netCDF's fill
    payload = np.array([0x7FF0DEADBEEF1234], np.uint64).view(np.float64)
    fields["state_v"].flat[0] = payload[0] if dtype == "float64" else np.float32(np.nan)
    return fields | {
        "history_tendencies": rng.standard_normal((2, 3, *GRID.shape)).astype(dtype),
        "maxima_arrival": rng.integers(-1, 1000, GRID.shape).astype(np.int32),
        "wet": rng.integers(0, 2, GRID.shape).astype(bool),
        "edge_west": rng.standard_normal(GRID.shape[0]).astype(dtype),
    }


@pytest.fixture
def path(tmp_path):
    write_restart(tmp_path / "run.restart.nc", GRID, arrays_of("float64"), SCALARS, ATTRIBUTES)
    return tmp_path / "run.restart.nc"


def same_bits(a, b):
    return sorted(a) == sorted(b) and all(
        a[name].dtype == b[name].dtype and a[name].shape == b[name].shape and a[name].tobytes() == b[name].tobytes()
        for name in a
    )


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_a_restart_gives_back_every_bit(tmp_path, dtype):
    arrays = arrays_of(dtype)
    write_restart(tmp_path / "r.nc", GRID, arrays, SCALARS, ATTRIBUTES)
    restart = read_restart(tmp_path / "r.nc", GRID)
    assert same_bits(restart.arrays, arrays)
    assert restart.scalars == SCALARS and {k: type(v) for k, v in restart.scalars.items()} == {
        k: type(v) for k, v in SCALARS.items()
    }
    assert restart.attributes == ATTRIBUTES


def blocks_of(arrays, most):
    """The parts that `write_restart_parts` takes, of two rows or so."""
    for name in sorted(arrays):
        if arrays[name].ndim < 2:
            yield name, ..., arrays[name]
            continue
        for where in row_blocks(arrays[name].shape, arrays[name].dtype.itemsize, most):
            yield name, where, arrays[name][where].copy()


def test_a_restart_in_blocks_is_the_same_file(path):
    arrays, whole = arrays_of("float64"), path.read_bytes()
    layout = {name: Layout(array.shape, array.dtype) for name, array in arrays.items()}
    write_restart_parts(path, GRID, layout, blocks_of(arrays, 2 * 13 * 8), SCALARS, ATTRIBUTES)
    assert path.read_bytes() == whole and same_bits(read_restart(path, GRID).arrays, arrays)


@pytest.mark.parametrize("missing", [-1, 0, slice(2, None)])
def test_parts_that_are_missing_leave_the_older_restart(path, missing):
    before, arrays = path.read_bytes(), arrays_of("float64", seed=1)
    layout = {name: Layout(array.shape, array.dtype) for name, array in arrays.items()}
    parts = list(blocks_of(arrays, 500))
    del parts[missing]
    with pytest.raises(ValueError, match="bytes of the arrays .* are missing"):
        write_restart_parts(path, GRID, layout, parts, SCALARS, ATTRIBUTES)
    assert path.read_bytes() == before and os.listdir(path.parent) == [path.name]


def test_a_restart_can_be_inspected(path):
    with netCDF4.Dataset(path) as dataset:
        assert dataset["state_eta"].dimensions == ("y", "x")
        assert dataset["history_tendencies"].dimensions == ("n2", "n3", "y", "x")
        assert dataset["scalars"].step == SCALARS["step"] and dataset["scalars"].dt == 0.1
        assert dataset.config == ATTRIBUTES["config"] and '"type": "SphericalGrid"' in dataset.grid_description


def test_a_missing_restart_is_named(tmp_path):
    with pytest.raises(DataError, match="there is no restart file .*nowhere.nc; give the path"):
        read_restart(tmp_path / "nowhere.nc")


@pytest.mark.parametrize("part", [0.0, 0.01, 0.3, 0.9, 0.999])
def test_a_truncated_restart_is_damaged(path, part):
    with open(path, "r+b") as file:
        file.truncate(int(part * path.stat().st_size))
    with pytest.raises(DataError, match="is damaged or cut short .*; resume from an older restart"):
        read_restart(path)


def test_no_flipped_bit_gets_into_a_run(path):
    """Wherever it is: the answer is an error, or (in a byte that nothing reads) what was written."""
    whole, arrays, rng = path.read_bytes(), arrays_of("float64"), np.random.default_rng(1)
    start = whole.index(arrays["state_eta"].tobytes())
    places = [start, start + 500, *rng.integers(start, len(whole), 60)]
    caught = 0
    for place in places:
        broken = bytearray(whole)
        broken[place] ^= 1 << int(rng.integers(8))
        path.write_bytes(broken)
        try:
            restart = read_restart(path, GRID)
        except DataError as error:
            caught += "damaged" in str(error)
        else:
            assert same_bits(restart.arrays, arrays) and restart.scalars == SCALARS
    assert caught > 40


def test_changed_numbers_are_noticed_too(path):
    with netCDF4.Dataset(path, "a") as dataset:
        dataset["scalars"].step = 7
    with pytest.raises(DataError, match="does not match its checksum"):
        read_restart(path)


@pytest.mark.parametrize(
    "grid, difference",
    [
        (SphericalGrid(13, 11, (120.0, 180.0), (15.0, 61.0)), r"latitude was \[15.0, 60.0\] and is \[15.0, 61.0\]"),
        (SphericalGrid(14, 11, (120.0, 180.0), (15.0, 60.0)), "nx was 13 and is 14"),
        (SphericalGrid(13, 11, (120.0, 180.0), (15.0, 60.0), radius=6.4e6), "radius was 6371000.0 and is 6400000.0"),
        (CartesianGrid(13, 11, (120.0, 180.0), (15.0, 60.0)), "type was SphericalGrid and is CartesianGrid"),
    ],
)
def test_a_restart_of_another_grid_names_the_difference(path, grid, difference):
    with pytest.raises(DataError, match=f"belongs to another grid: .*{difference}"):
        read_restart(path, grid)


def test_a_restart_of_a_newer_swmodel_asks_for_it(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "FORMAT", module.FORMAT + 1)
    write_restart(tmp_path / "r.nc", GRID, {}, {})
    monkeypatch.undo()
    with pytest.raises(DataError, match="has restart format 2, .* reads up to 1; install the newer one"):
        read_restart(tmp_path / "r.nc")


def test_other_files_are_no_restarts(tmp_path):
    netCDF4.Dataset(tmp_path / "other.nc", "w").close()
    with pytest.raises(DataError, match="is not a restart of swmodel"):
        read_restart(tmp_path / "other.nc")
    (tmp_path / "text").write_text("text")
    with pytest.raises(DataError, match="is damaged or cut short"):
        read_restart(tmp_path / "text")


@pytest.mark.parametrize(
    "arrays, scalars",
    [({"a/b": np.zeros(2)}, {}), ({"z": np.zeros(2, complex)}, {}), ({"s": np.array(["x"])}, {}), ({}, {"t": None})],
)
def test_what_cannot_be_stored_exactly_is_refused_by_name(tmp_path, arrays, scalars):
    with pytest.raises(ValueError, match=f"write_restart: {(list(arrays) + list(scalars))[0]!r} .*cannot be stored"):
        write_restart(tmp_path / "r.nc", GRID, arrays, scalars)
    assert os.listdir(tmp_path) == []


def test_a_write_that_fails_leaves_the_older_restart(path, monkeypatch):
    before = path.read_bytes()

    def failing(*arguments):
        raise OSError("No space left on device")

    monkeypatch.setattr(module, "_write_parts", failing)
    with pytest.raises(SwmodelError, match="could not be written: No space left on device; free space"):
        write_restart(path, GRID, arrays_of("float64", seed=1), SCALARS)
    assert path.read_bytes() == before and os.listdir(path.parent) == [path.name]


@pytest.mark.parametrize("written", [False, True])
@pytest.mark.parametrize("remove", ["folder", "file"])
def test_a_folder_that_is_removed_under_a_writer_is_no_full_disk(tmp_path, remove, written):
    """netCDF4 says that permission was denied where there is no folder."""
    folder = tmp_path / "output"
    with pytest.raises(SwmodelError, match="output.* was removed while the run was writing it"):
        with replacing(folder / "r.nc") as temporary:
            if written:
                temporary.touch()
            if remove == "folder":
                shutil.rmtree(folder)
            else:
                temporary.unlink(missing_ok=True)
            if not written and remove == "folder":
                netCDF4.Dataset(temporary, "x")
    assert not (folder / "r.nc").exists()
