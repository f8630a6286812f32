"""Elevations are read without xarray, with the values that xarray would give, bit for bit."""

import itertools
import subprocess
import sys

import netCDF4
import numpy as np
import pytest
import scipy.ndimage

import swmodel as sw
from swmodel.errors import DataError
from swmodel.grids.bathymetry import onto_grid
from swmodel.grids.elevation import open_elevation, read_elevation
from swmodel.grids.stored import StoredField, open_stored
from swmodel.grids.water import components
from tests.selection import now

NUMBERS = np.random.default_rng(3).integers(-120, 120, (7, 9))
TYPES = ("i1", "i2", "i4", "i8", "u2", "f4", "f8", ">i2", ">f4")
pytestmark = pytest.mark.filterwarnings("ignore:variable .* has multiple fill values", "ignore:endian-ness of dtype")
FILLS = {
    "none": {},
    "value": {"_FillValue": 7},
    "both": {"_FillValue": 7, "missing_value": 8},
    "NaN": {"_FillValue": np.nan},
}
PACKINGS = {
    "none": {},
    "single": {"scale_factor": np.float32(0.1)},
    "double": {"scale_factor": np.float64(0.1)},
    "offset": {"add_offset": np.float32(100.3)},
    "both": {"scale_factor": np.float32(0.1), "add_offset": np.float32(3.3)},
    "mixed": {"scale_factor": np.float32(0.1), "add_offset": np.float64(3.3)},
}
WINDOWS = ({}, {0: slice(2, 5)}, {1: slice(1, 4)}, {0: slice(0, 1), 1: slice(5, 9)})


def write(path, numbers, dtype="f8", attrs=None, lon=None, lat=None, dims=("lat", "lon"), name="z", more=()):
    attrs = dict(attrs or {})
    sizes = {"lat": 7, "lon": 9, **dict.fromkeys(more, 1)}
    with netCDF4.Dataset(path, "w") as file:
        for dim, n in sizes.items():
            file.createDimension(dim, n)
        axes = {
            "lat": (np.linspace(30.0, 36.0, 7) if lat is None else lat, "degrees_north"),
            "lon": (np.linspace(140.0, 148.0, 9) if lon is None else lon, "degrees_east"),
        }
        for dim, (values, units) in axes.items():
            axis = file.createVariable(dim, "f8", (dim,))
            axis.units, axis[:] = units, values
        file.createVariable("crs", "S1", ())
        endian = {">": "big"}.get(dtype[0], "native")
        fill = attrs.pop("_FillValue", None)
        fill = None if fill is None else np.asarray(fill, dtype)
        field = file.createVariable(name, dtype.lstrip(">"), (*more, *dims), fill_value=fill, endian=endian)
        field.set_auto_maskandscale(False)
        field.setncatts(attrs)
        values = numbers if dims == ("lat", "lon") else numbers.T
        field[...] = values.astype(dtype).reshape(*[1] * len(more), *values.shape)


def agree(path, variable=None, positive=None):
    """Compare windows of the file by both ways; returns the StoredField."""
    with open_elevation(path, variable, positive) as stored, read_elevation(path, variable, positive) as reference:
        assert isinstance(stored, StoredField)
        assert stored.dims == reference.dims and stored.shape == reference.shape
        assert {k: stored.attrs[k] for k in reference.attrs} == reference.attrs
        for dim in stored.dims:
            np.testing.assert_array_equal(stored[dim].values, reference[dim].values)
            assert stored[dim].attrs == reference[dim].attrs
        for window in WINDOWS:
            named = {stored.dims[axis]: part for axis, part in window.items()}
            mine, theirs = stored.isel(named).values, reference.isel(named).values
            assert mine.dtype == theirs.dtype and mine.tobytes() == theirs.tobytes()
        return stored


STORED = now(
    list(itertools.product(FILLS, PACKINGS, ("up", "down"))),
    ("none", "none", "up"),
    ("value", "both", "up"),
    ("both", "mixed", "up"),
    ("NaN", "single", "up"),
    ("value", "double", "down"),
    ("both", "offset", "down"),
    ("NaN", "mixed", "down"),
)


@pytest.mark.parametrize(("fills", "packing", "positive"), STORED)
def test_values_are_decoded_with_the_bits_of_xarray(tmp_path, fills, packing, positive):
    for k, dtype in enumerate(TYPES):
        if fills == "NaN" and np.dtype(dtype).kind != "f":
            continue
        path = tmp_path / f"{k}.nc"
        numbers = np.where(NUMBERS == NUMBERS[0, 0], 7, np.abs(NUMBERS) if "u" in dtype else NUMBERS)
        attrs = {key: np.asarray(fill, dtype)[()] for key, fill in FILLS[fills].items()} | PACKINGS[packing]
        write(path, numbers, dtype, attrs)
        agree(path, "z", positive)


ORDERS = list(itertools.product([("lat", "lon"), ("lon", "lat")], [(), ("time",), ("time", "level")]))


@pytest.mark.parametrize(("dims", "more"), now(ORDERS, ORDERS[2], ORDERS[3]))
def test_axes_of_any_order_and_direction_ascend(tmp_path, dims, more):
    longitudes = (None, np.linspace(148.0, 140.0, 9), np.array([176, 177, 178, 179, 180, -179, -178, -177, -176.0]),
                  np.array([-4, -3, -2, -1, 0, 1, 2, 3, 4.0]) % 360.0, np.linspace(0.0, 360.0, 9))  # fmt: skip
    for k, lon in enumerate(longitudes):
        for lat in (None, np.linspace(36.0, 30.0, 7)):
            path = tmp_path / f"{k}.nc"
            write(path, NUMBERS, "i2", lon=lon, lat=lat, dims=dims, more=more)
            agree(path)


def test_a_depth_is_turned_over_by_its_attribute_or_its_name(tmp_path):
    write(tmp_path / "a.nc", NUMBERS, "i2", {"positive": "down"})
    write(tmp_path / "b.nc", NUMBERS, "i2", name="depth")
    assert agree(tmp_path / "a.nc").attrs["turned_over"] and agree(tmp_path / "b.nc").attrs["turned_over"]


@pytest.mark.parametrize(
    "attrs",
    [{"_Unsigned": "true"}, {"_FillValue": 3, "missing_value": np.array([4, 5], "i2")}, {"scale_factor": np.int16(2)}],
)
def test_what_needs_more_than_fill_values_and_packing_is_left_to_xarray(tmp_path, attrs):
    write(tmp_path / "a.nc", NUMBERS, "i2", attrs)
    assert open_stored(tmp_path / "a.nc") is None
    with open_elevation(tmp_path / "a.nc") as found, read_elevation(tmp_path / "a.nc") as reference:
        np.testing.assert_array_equal(found.values, reference.values)


def test_errors_are_those_of_the_other_way(tmp_path):
    write(tmp_path / "a.nc", NUMBERS, "i2", {"units": "km"})
    write(tmp_path / "b.nc", NUMBERS, "i2", name="a")
    (tmp_path / "c.nc").write_text("no netCDF")
    for call in (
        ("none.nc",), ("a.nc",), ("b.nc", "w"), ("b.nc", "a", "as given"), ("c.nc",),
    ):  # fmt: skip
        messages = []
        for opening in (open_elevation, read_elevation):
            with pytest.raises(DataError) as caught:
                opening(tmp_path / call[0], *call[1:])
            messages.append(str(caught.value))
        assert messages[0] == messages[1]


def test_a_sea_floor_is_the_same_from_a_file_and_from_a_data_array(tmp_path):
    write(tmp_path / "a.nc", 10 * NUMBERS - 300, "i2", lat=np.linspace(36.0, 30.0, 7))
    grid = sw.SphericalGrid(21, 15, (141.0, 147.0), (31.0, 35.0))
    mine = onto_grid(tmp_path / "a.nc", grid)
    with read_elevation(tmp_path / "a.nc") as elevation:
        theirs = onto_grid(elevation, grid)
    np.testing.assert_array_equal(mine.depth, theirs.depth)
    np.testing.assert_array_equal(mine.wet, theirs.wet)


@pytest.mark.verify
def test_a_run_is_set_up_without_what_takes_long_to_import(tmp_path):
    """Neither xarray (with pandas) nor the parts of scipy that import much."""
    write(tmp_path / "a.nc", np.where(NUMBERS > 90, 10, -300 + NUMBERS), "i2")
    (tmp_path / "case.toml").write_text(
        '[run]\nuntil = 60\n[grid]\ntype = "spherical"\nnx = 21\nny = 15\nlongitude = [141, 147]\nlatitude = [31, 35]\n'
        '[bathymetry]\ntype = "file"\nfile = "a.nc"\nfill_lakes = true\n[stepper]\ntype = "rk4"\ndt = 1\n'
    )
    program = (
        "import sys\nfrom swmodel.cli.checks import check_experiment\n"
        f"check_experiment({str(tmp_path / 'case.toml')!r}, [], 1)\n"
        "print(*sorted({'xarray', 'pandas', 'scipy.ndimage', 'scipy.special', 'scipy.spatial'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == ""


@pytest.mark.parametrize("share", [0.3, 0.5, 0.6, 0.7, 1.0])
def test_components_of_a_mask_are_those_of_scipy(share):
    random = np.random.default_rng(5)
    for shape in ((1, 1), (1, 9), (9, 1), (40, 30)):
        mask = random.random(shape) < share
        labels, count = components(mask)
        reference, number = scipy.ndimage.label(mask)
        assert count == number
        np.testing.assert_array_equal(labels, reference)


def test_a_spiral_is_one_component():
    """The worst case of joining: its runs form one long chain."""
    mask = np.zeros((101, 101), bool)
    y, x, dy, dx = 0, 0, 0, 1
    for length in [100, *np.repeat(np.arange(100, 0, -2), 2)]:
        for _ in range(length):
            mask[y, x] = True
            y, x = y + dy, x + dx
        dy, dx = dx, -dy
    labels, count = components(mask)
    assert count == scipy.ndimage.label(mask)[1]
    np.testing.assert_array_equal(labels, scipy.ndimage.label(mask)[0])


def test_a_file_that_was_read_is_not_kept_open(tmp_path):
    """HDF5 lets no program write to a file that is open."""
    path = tmp_path / "depth.nc"
    for depth in (1.0, 2.0):
        with netCDF4.Dataset(path, "w") as file:
            file.createDimension("x", 3)
            file.createVariable("z", "f4", ("x",))[:] = depth
        stored = open_stored(path)
        np.testing.assert_array_equal(stored["z"].values, [depth] * 3)
