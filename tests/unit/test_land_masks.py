"""Land masks beside depths in files, depths of the wrong sign, and missing values that a file does not declare."""

import numpy as np
import pytest
import xarray as xr

from swmodel.errors import DataError
from swmodel.grids import undeclared
from swmodel.grids.bathymetry import elevation_on, onto_grid
from swmodel.grids.elevation import open_elevation, read_elevation
from swmodel.grids.grid import SphericalGrid
from swmodel.grids.topography import topography
from swmodel.grids.undeclared import repeated_far_from_others

GRID = SphericalGrid(12, 8, (0.0, 6.0), (40.0, 44.0))
LAND = np.arange(12) >= 9  # columns
AXES = {
    "lon": ("x", GRID.x_centres, {"units": "degrees_east"}),
    "lat": ("y", GRID.y_centres, {"units": "degrees_north"}),
}


def rough(level, seed=0):
    """Depths around a level that no two nodes have in common."""
    return level * (1 + 0.2 * np.random.default_rng(seed).random(GRID.shape))


def write(path, depth, name="h", attrs=None, **others):
    """A file with a depth and further variables, {name: (dimensions, values, attributes)}."""
    variables = {name: (("y", "x"), depth, {"units": "m", **(attrs or {})}), **others}
    xr.Dataset(variables, coords=AXES).to_netcdf(path)
    return path


def signed(path, grid):
    """The depths of a topography, which are read when they are needed."""
    return np.asarray(topography(path, grid).depth)


def over(*shape, of_land=False):
    """A mask of the grid with leading dimensions of these lengths; below the first level all is land."""
    mask = np.zeros((*shape, *GRID.shape))
    mask[(0,) * len(shape)] = ~LAND
    return 1 - mask if of_land else mask


@pytest.mark.parametrize(
    "name, dims, values, attrs",
    [
        ("mask_rho", "yx", over(), {}),
        ("wet", "yx", over(), {}),
        ("tmask", "tzyx", over(1, 3), {}),
        ("KMT", "yx", 40 * over(), {}),
        ("lsm", "yx", over(of_land=True), {"standard_name": "land_binary_mask"}),
        ("coast", "yx", over(of_land=True), {"flag_values": [0, 1], "flag_meanings": "sea_water land"}),
        ("sea", "yx", over(), {"standard_name": "sea_binary_mask"}),
    ],
)
def test_the_land_mask_of_a_file_is_land(tmp_path, name, dims, values, attrs):
    """Ocean models extend depths under land: here 5 m, which a wet cell would have."""
    depth = np.where(LAND, 5.0, rough(1000.0))
    path = write(tmp_path / "depth.nc", depth, **{name: (tuple(dims), values, attrs)})
    found = onto_grid(path, GRID)
    assert (found.wet == ~LAND).all() and found.wet.sum() == 72
    np.testing.assert_allclose(found.depth[found.wet], depth[found.wet])
    assert any(f"has a land mask, {name}:" in text for text in found.report)
    assert f"24 cells without a value in {path} taken as land." in found.report

    np.testing.assert_array_equal(read_elevation(path, masked=True), np.where(LAND, np.nan, -depth))  # through xarray
    shore = topography(path, GRID)
    assert (np.asarray(shore.wet) == ~LAND).all() and np.isfinite(np.asarray(shore.depth)).all()
    np.testing.assert_allclose(np.asarray(shore.depth)[:, ~LAND], depth[:, ~LAND])

    everywhere = onto_grid(path, GRID, mask=np.ones(GRID.shape, bool))  # the user's mask goes before
    assert everywhere.wet.all() and (everywhere.depth[:, LAND] == 20.0).all()


def test_other_variables_beside_a_depth_are_no_land_mask(tmp_path):
    quality = ("y", "x"), over(), {"flag_values": [0, 1], "flag_meanings": "measured interpolated"}
    path = write(tmp_path / "depth.nc", rough(1000.0), tid=quality, f=(("y", "x"), over(), {}), wet=("x", LAND * 1.0))
    assert onto_grid(path, GRID, "average").wet.all()
    found = onto_grid(write(tmp_path / "mask.nc", rough(1000.0), mask=(("y", "x"), over(), {})), GRID)
    assert found.wet.all() and any("a variable mask, of which it does not say" in text for text in found.report)


def test_a_depth_by_name_that_is_mostly_negative_is_refused_until_its_sign_is_given(tmp_path):
    z = np.where(LAND, 200.0, -rough(1000.0))
    path = write(tmp_path / "depth.nc", z, "depth")
    for read in (onto_grid, signed):
        with pytest.raises(
            DataError, match=r"depth by its name, but 75 % of its values are negative.*positive to 'up'"
        ):
            read(path, GRID)
    assert (onto_grid(open_elevation(path, positive="up"), GRID).wet == ~LAND).all()
    assert (onto_grid(open_elevation(path, positive="down"), GRID).wet == LAND).all()
    stated = onto_grid(write(tmp_path / "stated.nc", z, "depth", {"positive": "down"}), GRID)
    assert (stated.wet == LAND).all() and any(
        "75 % of its values are negative, which are land" in s for s in stated.report
    )


@pytest.mark.parametrize(
    "fill, level", [(-999.0, 50.0), (-999.0, 4000.0), (-99.9, 10.0), (-32767.0, 50.0), (-9999.0, 50.0)]
)
def test_missing_values_that_a_file_does_not_declare_are_no_pits(tmp_path, fill, level):
    z = -rough(level)
    z[2:5, 3:6] = fill
    path = write(tmp_path / "z.nc", z, "elevation")
    for read in (onto_grid, signed):
        with pytest.raises(DataError, match=rf"elevation of {fill:g} m at 9 nodes: a missing value .*_FillValue"):
            read(path, GRID)


@pytest.mark.parametrize("nodes", [2**22, 40], ids=["of the whole box", "of a box that is too large"])
def test_every_tile_comes_to_the_same_verdict(tmp_path, monkeypatch, nodes):
    """Nine nodes of -999 m in the west are refused by tiles in the east, which do not read them."""
    monkeypatch.setattr(undeclared, "NODES", nodes)
    monkeypatch.setattr(undeclared, "IN_BANDS", nodes)
    z = -rough(50.0)
    z[:3, :3] = -999.0
    z[4:, :2] = -700.0
    path, tiles = write(tmp_path / "z.nc", z, "elevation"), (slice(0, 2), slice(6, 8))
    for floor in (elevation_on(path, GRID).depth, topography(path, GRID).depth):
        for columns in (slice(0, 2), slice(10, 12)):
            with pytest.raises(DataError, match="-999 m at 9 nodes"):
                floor.block(tiles[0], columns)


def test_in_a_large_box_missing_values_are_detected_in_bands_of_its_rows(tmp_path, monkeypatch):
    """Of a box over the limit nothing but impossible values was detected, and depths of 999 m were sea."""
    monkeypatch.setattr(undeclared, "NODES", 2000)
    monkeypatch.setattr(undeclared, "IN_BANDS", 2000)
    z = -50.0 * (1 + 0.2 * np.random.default_rng(0).random((400, 24)))
    z[100:180, 3:9] = -999.0
    path = tmp_path / "z.nc"
    axes = {"lat": np.linspace(40.0, 44.0, 400), "lon": np.linspace(0.0, 6.0, 24)}
    attributes = ({"units": f"degrees_{side}"} for side in ("north", "east"))
    coords = {name: (name, values, one) for (name, values), one in zip(axes.items(), attributes)}
    xr.Dataset({"elevation": (tuple(axes), z, {"units": "m"})}, coords).to_netcdf(path)
    elsewhere = slice(6, 8), slice(10, 12)  # a tile without these nodes
    for floor in (elevation_on(path, GRID).depth, topography(path, GRID).depth):
        with pytest.raises(DataError, match="elevation of -999 m at .* nodes"):
            floor.block(*elsewhere)


def test_a_dredged_harbour_and_plains_are_no_missing_values(tmp_path):
    """Of -9.9 m and -11.11 m; plains of 99 m and 1111 m are land of a topography."""
    for level, place in ((-9.9, -100.0), (-11.11, -300.0), (99.0, -2.0), (1111.0, -50.0)):
        z = -rough(-place)
        z[2:5, 3:6] = level
        path = write(tmp_path / f"{level}.nc", z, "elevation")
        np.testing.assert_allclose(signed(path, GRID), -z)
        assert (onto_grid(path, GRID, minimum_depth=1.0).wet == (z < 0)).all()


@pytest.mark.parametrize("fill", [-9999.0, -999.0, 1e20])
def test_land_that_is_a_missing_value_is_counted(tmp_path, fill):
    """In a file of depths -9999 would be a mountain of 9999 m."""
    depth, holes = rough(50.0), np.zeros(GRID.shape, bool)
    holes[2:5, 3:7] = True
    sign = 1.0 if fill < 0 else -1.0
    path = write(tmp_path / "z.nc", np.where(holes, fill, sign * depth), "depth" if fill < 0 else "elevation")
    found = onto_grid(path, GRID)
    assert (found.wet == ~holes).all() and f"12 cells without a value in {path} taken as land." in found.report
    with pytest.raises(DataError, match="at 12 nodes: a missing value"):
        signed(path, GRID)


def test_a_depth_that_is_repeated_far_from_others_is_counted(tmp_path):
    z = -rough(40.0)
    z[2:6, 3:6] = -750.0
    found = onto_grid(write(tmp_path / "z.nc", z, "elevation"), GRID)
    assert found.depth[3, 4] == 750.0
    assert any(text.startswith("12 cells with a depth that") and "_FillValue" in text for text in found.report)


def test_steps_terraces_and_clipped_shallows_are_sea_floors():
    x = np.linspace(0, 1, 60) + np.zeros((40, 1))
    noise = 1 + 0.1 * np.random.default_rng(1).random(x.shape)
    for z in (
        np.where(x < 0.5, -200.0, -4000.0),  # a shelf and an abyss
        -np.ceil(20 * x) * 99.0,  # levels of a z-coordinate
        -np.maximum(4000.0 * x * noise - 400.0, 99.0),  # the smallest depth of a model
        np.where(x < 0.2, 0.0, -3000.0 * noise),  # land of height 0
        -np.round(4000 * x * noise),
    ):
        assert repeated_far_from_others(z) is None
