"""Damaged restarts: no flipped bit gets into a run, wherever it is, and none crashes the reader."""

import json

import numpy as np
import pytest

from swmodel.grids.grid import CartesianGrid
from swmodel.output import restart
from swmodel.output.metadata import describe_grid
from swmodel.output.zarr_store import STORE_FORMAT, ZarrStore, array_metadata, checksum_of
from tests.restarts import write_restart

from . import flips

GRID = CartesianGrid(24, 16, (0.0, 1.0), (0.0, 1.0))
RNG = np.random.default_rng(0)
ARRAYS = {name: RNG.standard_normal(GRID.shape) for name in ("state_u", "state_v", "state_eta", "history_0")}
SCALARS = {"step": 1234, "dt": 15.0, "stepper": "AB2", "history_count": 2}
ABOUT = {"config": "[run]\n" * 50, "title": "A bump"}


@pytest.fixture
def path(tmp_path):
    write_restart(tmp_path / "restart.nc", GRID, ARRAYS, SCALARS, ABOUT)
    return tmp_path / "restart.nc"


@pytest.fixture
def store(tmp_path):
    """A Zarr store of the same restart, whose second slot is valid."""
    store, dimensions = ZarrStore(tmp_path / "restart.zarr"), ("slot", "yh", "xh")
    arrays = {name: array_metadata((2, *GRID.shape), (1, 8, 12), "f8", dimensions, {}) for name in ARRAYS}
    own = {"restart_format": STORE_FORMAT, "restart_slot": 1, "restart_scalars": SCALARS}
    about = ABOUT | own | {"grid_description": describe_grid(GRID)}
    store.create(arrays, about | {"checksum": checksum_of(arrays, about)})
    for name, values in ARRAYS.items():
        for j, i in np.ndindex(2, 2):
            chunk = values[8 * j : 8 * j + 8, 12 * i : 12 * i + 12]
            store.write_chunk(name, arrays[name], (1, j, i), chunk)
    return store.path


@pytest.mark.verify
@pytest.mark.parametrize("kind", ["path", "store"])
def test_sixty_flipped_bits_are_noticed_or_change_nothing(kind, request):
    found = flips.measure(request.getfixturevalue(kind), 60)
    assert not found["wrong"], found["wrong"]
    assert found["flips"] == found["noticed"] + found["harmless"] == 60 and 10 < found["in_data"] < 50
    assert found["noticed"] >= found["in_data"] - (kind == "store")  # gzip's headers have bytes that nobody reads


def test_each_bit_of_the_numbers_in_a_store_is_noticed(store):
    """The step of a run was taken as 15181 in place of 15180, without a word."""
    whole, expected = (store / "zarr.json").read_bytes(), flips.taken(flips.read(store))
    place = whole.index(b'"step": 1234') + len(b'"step": 123')
    for bit in range(8):
        broken = bytearray(whole)
        broken[place] ^= 1 << bit
        (store / "zarr.json").write_bytes(broken)
        status, why = flips.judged(store, expected)
        assert status == flips.NOTICED and "resume from an" in why
    (store / "zarr.json").write_bytes(whole)
    assert flips.judged(store, expected)[0] == flips.HARMLESS


def test_a_store_of_an_older_version_needs_no_checksum_and_is_read_with_a_warning(store, caplog):
    described, expected = json.loads((store / "zarr.json").read_text()), flips.taken(flips.read(store))
    about = described["attributes"]
    digest, about["restart_format"] = about.pop("checksum"), 1
    (store / "zarr.json").write_text(json.dumps(described))
    assert flips.taken(flips.read(store))[:2] == expected[:2] and "of an older swmodel, whose stores" in caplog.text
    for damaged in ({"restart_format": 2}, {"cheaksum": digest}, {"checksum": digest}):  # and format 1
        (store / "zarr.json").write_text(json.dumps(described | {"attributes": about | damaged}))
        assert flips.judged(store, expected)[0] == flips.NOTICED


@pytest.mark.parametrize("word", ["restart_format", "checksum", "2"])
def test_each_bit_of_what_decides_on_the_checksum_is_noticed(store, word):
    whole, expected = (store / "zarr.json").read_bytes(), flips.taken(flips.read(store))
    begin = whole.index(b'"restart_format": 2') + 18 if word == "2" else whole.index(word.encode())
    for bit in range(8 * len(word)):
        broken = bytearray(whole)
        broken[begin + bit // 8] ^= 1 << bit % 8
        (store / "zarr.json").write_bytes(broken)
        assert flips.judged(store, expected)[0] == flips.NOTICED, bit


def test_a_restart_without_a_checksum_would_be_caught_here(path, monkeypatch):
    """That what this counts can fail: flips in the data go unnoticed by a reader that compares no checksums."""
    monkeypatch.setattr(restart, "_checksum", lambda *arguments: restart.netCDF4.Dataset(path).checksum)
    expected, whole = flips.taken(flips.read(path)), path.read_bytes()
    begin, end = flips.regions_of(whole, flips.read(path))[0]
    broken = bytearray(whole)
    broken[(begin + end) // 2] ^= 4
    damaged = path.with_name("damaged.nc")
    damaged.write_bytes(broken)
    assert flips.judged(damaged, expected) == (flips.UNNOTICED, "the content differs")
