"""Several files of elevations on one grid: priority, blending over a margin, and reading every n-th node."""

import json
from types import SimpleNamespace

import numpy as np
import pytest
import xarray as xr

import swmodel as sw
from swmodel.config import read
from swmodel.config.assembly import assemble
from swmodel.errors import ConfigError, DataError
from swmodel.grids.bathymetry import elevation_on, onto_grid
from swmodel.grids.elevation import open_elevation
from swmodel.grids.patches import overlay
from swmodel.grids.topography import topography

GRID = sw.CartesianGrid(20, 12, (0.0, 2000.0), (0.0, 1200.0))  # cells of 100 m


def plane(slope, x=(0.0, 2000.0), y=(0.0, 1200.0), step=50.0):
    """z = slope - x / 100 at the centres of pixels."""
    x, y = (np.arange(low + step / 2, high, step) for low, high in (x, y))
    z = slope - np.broadcast_to(x / 100.0, (y.size, x.size))
    attrs = {"units": "m"}
    return xr.DataArray(z, {"y": ("y", y, attrs), "x": ("x", x, attrs)}, name="elevation", attrs={"positive": "up"})


def depths(*files, grid=GRID, **options):
    return np.asarray(onto_grid(files[-1], grid, minimum_depth=0.0, patches=files[:-1], **options).depth)


BASE, BAY = plane(-100.0), plane(-40.0, (450.0, 1250.0), (350.0, 850.0))  # the bay has whole cells 5 to 11, 4 to 7
INSIDE = np.zeros(GRID.shape, bool)
INSIDE[4:8, 5:12] = True
X = (np.arange(20) + 0.5)[None]


def test_a_patch_counts_in_cells_that_lie_wholly_within_it():
    expected = np.where(INSIDE, 40.0, 100.0) + X
    for patch in (BAY, sw.Patch(BAY), sw.Patch(BAY.assign_attrs(positive="up"), datum=0.0)):
        np.testing.assert_allclose(depths(patch, BASE), expected, rtol=1e-12)
    signed = topography(BASE, GRID, patches=[BAY])
    np.testing.assert_allclose(np.asarray(signed.depth), expected, rtol=1e-12)


def test_a_patch_blends_into_what_lies_under_it_over_the_margin():
    found = depths(BAY, BASE, margin=2)
    d = np.minimum.outer(np.array([1, 2, 2, 1]), np.array([1, 2, 3, 3, 3, 2, 1]))
    share = np.zeros(GRID.shape)
    share[4:8, 5:12] = d / 3.0
    expected = share * 40.0 + (1.0 - share) * 100.0 + X
    np.testing.assert_allclose(found, expected, rtol=1e-12)
    np.testing.assert_allclose(np.asarray(topography(BASE, GRID, patches=[BAY], margin=2).depth), expected, rtol=1e-12)


def test_a_cell_of_which_a_file_has_a_part_blends_by_what_it_has():
    """The base of 6 m lacks 40 % of each cell; the patch of 10 m passes into it over a cell."""
    plan = SimpleNamespace(inside=lambda rows, columns: np.ones((1, 4), bool))
    lacks = [np.array([[1.0, 0.0, 0.0, 0.0]]), np.full((1, 4), 0.4)]
    sums = [lambda rows, columns, z=z, gaps=gaps: ((1.0 - gaps) * z, gaps) for z, gaps in zip((10.0, 6.0), lacks)]
    depth, gaps = overlay(sums, [plan, plan], (1, 4), margin=1)(slice(0, 1), slice(0, 4))
    share = np.array([[0.0, 0.5, 1.0, 1.0]])
    np.testing.assert_allclose(gaps, 0.4 * (1.0 - share), atol=1e-15)
    np.testing.assert_allclose(
        depth / (1.0 - gaps), (10.0 * share + 3.6 * (1.0 - share)) / (share + 0.6 * (1.0 - share))
    )


def test_windows_of_a_blended_sea_floor_do_not_depend_on_how_the_grid_is_cut():
    whole = elevation_on(BASE, GRID, minimum_depth=0.0, patches=[BAY], margin=3)
    expected = np.asarray(whole.depth)
    for rows, columns in ((slice(0, 5), slice(0, 7)), (slice(5, 12), slice(7, 20)), (slice(6, 7), slice(6, 7))):
        again = elevation_on(BASE, GRID, minimum_depth=0.0, patches=[BAY], margin=3)
        np.testing.assert_array_equal(again.depth.block(rows, columns), expected[rows, columns])


def test_files_that_together_cover_the_grid_suffice_and_the_first_one_goes_before_the_others():
    west, east, harbour = plane(-70.0, (0.0, 1000.0)), plane(-90.0, (1000.0, 2000.0)), plane(-5.0, (600.0, 1400.0))
    found = depths(west, east) - X
    np.testing.assert_allclose(found, np.where(X < 10, 70.0, 90.0) + 0 * found, rtol=1e-12)
    found = depths(harbour, west, east, margin=1) - X
    expected = np.select([(X > 7) & (X < 13), (X > 6) & (X < 7)], [5.0, 37.5], np.where(X < 10, 70.0, 90.0))
    expected = np.where((X > 13) & (X < 14), 47.5, expected)  # half of the harbour, half of the file under it
    np.testing.assert_allclose(found, expected + 0 * found, rtol=1e-12)


def test_a_cell_where_a_patch_lacks_a_node_takes_the_file_below_it():
    holes = BAY.copy()
    holes[5, 7] = np.nan  # in the cell (6, 8): y 600 to 650, x 800 to 850
    expected = np.where(INSIDE, 40.0, 100.0) + X
    row, column = int(holes.y[5] // 100), int(holes.x[7] // 100)
    expected[row, column] = 100.0 + X[0, column]
    np.testing.assert_allclose(depths(holes, BASE), expected, rtol=1e-12)


def test_cells_that_no_file_has_are_land_and_said_and_refused_with_wetting():
    west = plane(-70.0, (0.0, 1000.0))
    found = onto_grid(west, GRID, minimum_depth=0.0, patches=[BAY])
    assert (found.wet == (X < 10) | INSIDE).all()
    assert any("112 cells without a value" in line for line in found.report), found.report
    with pytest.raises(DataError, match=r"no value in \d+ cells, one at .* fill them, or add a patch"):
        np.asarray(topography(west, GRID, patches=[BAY]).depth)


def test_a_file_whose_outermost_nodes_lie_within_the_grid_covers_it_with_patches_too():
    base = plane(-100.0, (-25.0, 1975.0))  # nodes from 0 to 1950 m
    alone, found = depths(base), depths(BAY, base)
    assert (alone > 0).all()
    np.testing.assert_allclose(found[~INSIDE], alone[~INSIDE], rtol=1e-12)


def test_levels_and_signs_are_those_of_each_file():
    turned = (-BAY).rename("bed")
    found = depths(sw.Patch(turned, positive="down", datum=2.5), BASE, datum=-1.0) - X
    np.testing.assert_allclose(found, np.where(INSIDE, 42.5, 99.0), rtol=1e-12)


def test_a_patch_lies_at_any_meridian_and_one_away_from_the_grid_is_refused():
    grid = sw.SphericalGrid(36, 8, (-180.0, 180.0), (-20.0, 20.0))

    def sea(depth, x, y=(-20.0, 20.0)):
        x, y = (np.arange(low + 1.0, high, 2.0) for low, high in (x, y))
        axes = {"lat": ("lat", y, {"units": "degrees_north"}), "lon": ("lon", x, {"units": "degrees_east"})}
        return xr.DataArray(np.full((y.size, x.size), -depth), axes, name="elevation")

    found = depths(sea(10.0, (340.0, 370.0), (-10.0, 10.0)), sea(50.0, (0.0, 360.0)), grid=grid)
    expected = np.full(grid.shape, 50.0)
    expected[2:6, 16:19] = 10.0
    np.testing.assert_allclose(found, expected, rtol=1e-12)
    with pytest.raises(DataError, match="covers longitude .* and the grid needs"):
        depths(sea(10.0, (0.0, 20.0), (40.0, 60.0)), sea(50.0, (0.0, 360.0)), grid=grid)
    with pytest.raises(DataError, match="reaches across the ends of the grid's longitudes"):
        depths(sea(10.0, (170.0, 190.0)), sea(50.0, (0.0, 360.0)), grid=grid)
    most = sw.SphericalGrid(35, 8, (0.0, 350.0), (-20.0, 20.0))  # the file is at both ends, and one would be lost
    with pytest.raises(DataError, match="reaches across the ends of the grid's longitudes, 0 and 350"):
        depths(sea(10.0, (340.0, 380.0)), sea(50.0, (0.0, 360.0)), grid=most)
    with pytest.raises(ConfigError, match="margin = -1 is not a number of cells"):
        depths(BAY, BASE, margin=-1)


def test_every_nth_node_is_read_of_any_file(tmp_path):
    BASE.to_netcdf(tmp_path / "base.nc")
    for path in (tmp_path / "base.nc",):
        fine, thin = open_elevation(path), open_elevation(path, coarsen=3)
        expected = fine.read({})[::3, ::3]
        np.testing.assert_array_equal(thin.read({}), expected)
        np.testing.assert_array_equal(thin.read({"y": slice(2, 5), "x": slice(1, 9)}), expected[2:5, 1:9])
        np.testing.assert_array_equal(thin["x"].values, fine["x"].values[::3])
    found = depths(sw.Patch(tmp_path / "base.nc", coarsen=2), BASE)
    np.testing.assert_allclose(found, 100.0 + X + 0 * found, atol=0.6)  # [m], half of what changes between nodes
    np.testing.assert_array_equal(depths(sw.Patch(BASE, coarsen=2), BASE), found)
    with pytest.raises(DataError, match="of 24 points along y, coarsen = 30 leaves one"):
        open_elevation(tmp_path / "base.nc", coarsen=30)
    with pytest.raises(DataError, match="of 24 points along y, coarsen = 30 leaves one"):
        depths(sw.Patch(BASE, coarsen=30), BASE)
    with pytest.raises(ConfigError, match="Patch: coarsen = 0 is less than 1"):
        sw.Patch(BASE, coarsen=0)


def test_edges_that_are_equal_but_for_rounding_are_one():
    """The sine of 36 degrees, as an edge of the file's cells, is by rounding more than that of the grid's."""
    x, y = np.arange(139.05, 145.0, 0.1), np.arange(35.05, 40.0, 0.1)
    axes = {"lat": ("lat", y, {"units": "degrees_north"}), "lon": ("lon", x, {"units": "degrees_east"})}
    field = xr.DataArray(-np.add.outer(y, x), axes, name="elevation")
    found = onto_grid(field, sw.SphericalGrid(40, 30, (140.0, 144.0), (36.0, 39.0)), minimum_depth=0.0)
    np.testing.assert_allclose(found.depth, -field.values[10:40, 10:50], rtol=1e-9)


EXPERIMENT = """\
grid = {type = "cartesian", nx = 20, ny = 12, x = [0, 2000], y = [0, 1200]}
stepper = {type = "ab2"}
run = {until = 10}
[bathymetry]
type = "file"
file = "base.nc"
margin = 2
patches = [{file = "bay.nc", datum = "1 m"}]
mask = {polygons = "island.geojson"}
"""


def test_an_experiment_has_patches_and_an_island_and_files_are_shown(tmp_path, monkeypatch, command):
    monkeypatch.chdir(tmp_path)
    spoilt = BASE.copy()
    spoilt[3, 30] += 900.0  # a node that stands out, at (1525, 175)
    spoilt.to_netcdf("base.nc")
    BAY.to_netcdf("bay.nc")
    ring = [[1e3, 0.0], [1.4e3, 0.0], [1.4e3, 700.0], [1e3, 700.0], [1e3, 0.0]]
    features = [{"type": "Feature", "properties": {}, "geometry": {"type": "Polygon", "coordinates": [ring]}}]
    (tmp_path / "island.geojson").write_text(json.dumps({"type": "FeatureCollection", "features": features}))
    (tmp_path / "run.toml").write_text(EXPERIMENT)
    made = assemble(read(tmp_path / "run.toml"))
    expected = depths(sw.Patch(BAY, datum=1.0), spoilt, margin=2)
    expected[:7, 10:14] = 0.0
    np.testing.assert_array_equal(np.asarray(made.bathymetry.depth), expected)
    code, out, err = command("bathymetry", "bay.nc", "base.nc", "--margin", "2", "-o", "look.png")
    assert code == 0, err
    assert "its nodes in the box: 40 x 24" in out and "1 node far outside of the range around it" in out
    assert "1525, 175: 784.75 m" in out and out.rstrip().endswith("look.png")
    assert (tmp_path / "look.png").stat().st_size > 10_000
    code, _, err = command("bathymetry", "base.nc", "--box", "3000", "4000", "0", "1000")
    assert code == 2 and "covers x 25 to 1975 m" in err, err
