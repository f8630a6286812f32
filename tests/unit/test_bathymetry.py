"""Depth and land mask: which cells are wet, how deep they are, and what is said about lakes and channels."""

import pathlib

import numpy as np
import pytest
import xarray as xr

from swmodel.errors import ConfigError, DataError
from swmodel.grids.bathymetry import Bathymetry, as_bathymetry, from_depth, onto_grid
from swmodel.grids.elevation import read_elevation
from swmodel.grids.grid import CartesianGrid, SphericalGrid
from swmodel.grids.undeclared import impossible

PLANE = CartesianGrid(8, 6, (0, 8e3), (0, 6e3))
ETOPO5 = {
    kind: next(pathlib.Path(__file__).parents[2].glob(f"experiments/**/etopo5_{kind}.nc"), None)
    for kind in ("northwest_pacific", "global_15min")
}


def elevation_on(lon, lat, z, **attrs):
    axes = {
        "lat": ("lat", np.asarray(lat, float), {"units": "degrees_north"}),
        "lon": ("lon", np.asarray(lon, float), {"units": "degrees_east"}),
    }
    return xr.DataArray(z, dims=("lat", "lon"), coords=axes, name="elevation", attrs=attrs)


def depth_of(picture, depth=100.0):
    """A depth array from rows of text, north at the top: '.' is water, '#' is land."""
    rows = [[depth if cell == "." else 0.0 for cell in row] for row in picture.split()]
    return np.array(rows)[::-1]


def box(picture, periodic=""):
    depth = depth_of(picture)
    ny, nx = depth.shape
    return depth, CartesianGrid(nx, ny, (0, 1e3 * nx), (0, 1e3 * ny), periodic=periodic)


# --- the rule


@pytest.mark.parametrize("wet_nodes, wet", [(4, True), (3, True), (2, True), (1, False), (0, False)])
def test_a_cell_is_wet_if_half_of_its_nodes_are_and_as_deep_as_the_mean_of_these(wet_nodes, wet):
    z = np.full((2, 4), -700.0)
    z[:, :2] = np.where(np.arange(4) < wet_nodes, [-100.0, -200.0, -300.0, -400.0], 900.0).reshape(2, 2)
    lat = 0.5 * np.array([-0.5, 0.5])
    result = onto_grid(elevation_on([0.25, 0.75, 1.25, 1.75], lat, z), SphericalGrid(2, 1, (0, 2), (-0.5, 0.5)))
    assert bool(result.wet[0, 0]) is wet
    expected = np.mean([100.0, 200.0, 300.0, 400.0][:wet_nodes]) if wet else 0.0
    assert result.depth[0, 0] == pytest.approx(expected, rel=1e-12) and result.depth[0, 1] == pytest.approx(700.0)


def test_interpolation_takes_the_wet_nodes_only_so_that_mountains_do_not_lift_the_sea_floor():
    z = np.array([[-100.0, -300.0, 4000.0], [-100.0, -300.0, 4000.0]])
    grid = SphericalGrid(2, 1, (0.0, 1.4), (0.25, 0.75))  # centres at 0.35 and 1.05
    result = onto_grid(elevation_on([0, 0.7, 1.4], [0, 1], z), grid, method="interpolate")
    np.testing.assert_allclose(result.depth, [[200.0, 300.0]], rtol=1e-12)


@pytest.mark.parametrize("value", [0.0, np.nan, 5.0])
def test_nodes_of_no_height_or_no_value_are_land(value):
    z = np.full((2, 4), -50.0)
    z[:, :2] = value
    field = elevation_on([0.25, 0.75, 1.25, 1.75], [-0.25, 0.25], z)
    result = onto_grid(field, SphericalGrid(2, 1, (0, 2), (-0.5, 0.5)))
    np.testing.assert_array_equal(result.wet, [[False, True]])
    np.testing.assert_array_equal(result.depth, [[0.0, 50.0]])


def test_shallow_water_is_deepened_to_the_minimum_depth_and_land_is_not():
    z = np.array([[-5.0, -19.0, -21.0, 3.0]] * 2)
    field, grid = elevation_on([0.5, 1.5, 2.5, 3.5], [0.25, 0.75], z), SphericalGrid(4, 1, (0, 4), (0, 1))
    result = onto_grid(field, grid, minimum_depth=20.0)
    np.testing.assert_allclose(result.depth, [[20.0, 20.0, 21.0, 0.0]])
    assert "2 cells shallower than 20 m deepened to it." in result.report
    np.testing.assert_allclose(onto_grid(field, grid, minimum_depth=0.0).depth, [[5.0, 19.0, 21.0, 0.0]])


def test_the_volume_of_an_ocean_without_coasts_is_kept():
    rng = np.random.default_rng(4)
    z = -rng.uniform(1000, 5000, size=(60, 120))
    lon, lat = -178.5 + 3 * np.arange(120), -88.5 + 3 * np.arange(60)
    grid = SphericalGrid(70, 37, (0, 360), (-90, 90))
    fine = SphericalGrid(120, 60, (-180, 180), (-90, 90))
    result = onto_grid(elevation_on(lon, lat, z), grid)
    assert (result.depth * grid.area_h).sum() == pytest.approx((-z * fine.area_h).sum(), rel=1e-12)


def test_the_harmonic_mean_is_over_wet_nodes_that_are_at_least_as_deep_as_the_minimum():
    z = np.array([[-1.0, -400.0, 900.0, 900.0, -50.0, -50.0], [-100.0, 30.0, 900.0, 900.0, -50.0, -50.0]])
    field, grid = elevation_on([0.5, 1.5, 2.5, 3.5, 4.5, 5.5], [-0.5, 0.5], z), SphericalGrid(3, 1, (0, 6), (-1, 1))
    result = onto_grid(field, grid, method="harmonic", minimum_depth=10.0)
    expected = [[3.0 / (1 / 10.0 + 1 / 400.0 + 1 / 100.0), 0.0, 50.0]]
    np.testing.assert_allclose(result.depth, expected, rtol=1e-12)
    np.testing.assert_array_equal(result.wet, onto_grid(field, grid).wet)
    with pytest.raises(ConfigError, match="harmonic mean of depths needs a minimum_depth above 0"):
        onto_grid(field, grid, method="harmonic", minimum_depth=0.0)


def test_a_depth_of_9999_m_is_one_where_others_are_as_large():
    assert impossible(np.array([[-9999.0, -4000.0, np.nan]])) == -9999.0
    assert impossible(np.array([[-9999.0, -9950.0, np.nan, 8800.0]])) is None
    assert impossible(np.array([[-9999.0, -9999.0], [-9999.0, np.nan]])) == -9999.0
    assert impossible(np.array([[-9998.0, -20.0]])) is None
    assert impossible(np.array([[-9999.0, -50.0, -9500.0]])) == -9999.0  # a trench elsewhere does not count


def test_compressible_water_has_the_depth_with_which_its_waves_travel_slower():
    slower = np.sqrt(from_depth(4000.0, PLANE, sound_speed=1500.0).depth / 4000.0)
    np.testing.assert_allclose(1.0 - slower, 0.0044, atol=5e-5)  # Watada (2013), for 4 km of water
    deepened = from_depth(1.0, PLANE, minimum_depth=20.0, sound_speed=1500.0)
    np.testing.assert_allclose(deepened.depth, 20.0 * (1.0 - 9.81 * 20.0 / (2 * 1500.0**2)), rtol=1e-12)
    for wrong in (1.5, -1500.0, np.nan):
        with pytest.raises(ConfigError, match="give a number in m s-1, 1000 or more, at most 2000, as of sea water"):
            from_depth(4000.0, PLANE, sound_speed=wrong)


def test_the_users_mask_replaces_the_rule():
    z = np.array([[-50.0, -50.0, 30.0]] * 2)
    field, grid = elevation_on([0.5, 1.5, 2.5], [0.25, 0.75], z), SphericalGrid(3, 1, (0, 3), (0, 1))
    result = onto_grid(field, grid, mask=[[False, True, True]])
    np.testing.assert_allclose(result.depth, [[0.0, 50.0, 20.0]])
    with pytest.raises(ConfigError, match="without any depth"):
        onto_grid(field, grid, mask=[[False, True, True]], minimum_depth=0.0)
    with pytest.raises(ConfigError, match=r"mask has shape \(2, 3\)"):
        onto_grid(field, grid, mask=np.ones((2, 3), bool))
    with pytest.raises(ConfigError, match="minimum_depth = -1"):
        onto_grid(field, grid, minimum_depth=-1.0)


def test_blocks_of_rows_give_what_one_reading_gives(monkeypatch):
    rng = np.random.default_rng(5)
    field = elevation_on(np.arange(0, 40, 0.5), np.arange(0, 30, 0.5), rng.normal(-100, 300, size=(60, 80)))
    grid = SphericalGrid(17, 13, (2, 38), (1, 28))
    for method in ("average", "harmonic", "interpolate"):
        monkeypatch.undo()
        whole = onto_grid(field, grid, method=method)
        monkeypatch.setattr("swmodel.grids.remapping.ROWS_AT_ONCE", 7 * 80)
        blocks = onto_grid(field, grid, method=method)
        np.testing.assert_allclose(blocks.depth, whole.depth, rtol=1e-12)
        np.testing.assert_array_equal(blocks.wet, whole.wet)


# --- files

SEA = np.linspace(-4000.0, 500.0, 20)[None, :] + np.linspace(0.0, 300.0, 12)[:, None]
LON, LAT = 140.25 + 0.5 * np.arange(20), 30.25 + 0.5 * np.arange(12)
SEA_GRID = SphericalGrid(10, 6, (140, 150), (30, 36))


@pytest.mark.parametrize("name", "elevation z topo ROSE Band1 bath bathymetry altitude".split())
def test_the_usual_names_are_found_among_other_variables(tmp_path, name):
    dataset = (
        elevation_on(LON, LAT, SEA)
        .rename(name)
        .to_dataset()
        .assign(
            tid=(("lat", "lon"), np.zeros(SEA.shape, "i2")), crs=((), 1), lat_bnds=(("lat", "nv"), np.zeros((12, 2)))
        )
    )
    dataset.to_netcdf(tmp_path / "file.nc")
    result = read_elevation(tmp_path / "file.nc")
    assert result.dims == ("lat", "lon")
    np.testing.assert_array_equal(result.values, SEA)


def test_the_standard_name_goes_before_the_name_and_the_user_before_both(tmp_path):
    field = elevation_on(LON, LAT, SEA)
    dataset = xr.Dataset({"z": field - 1, "v1": field.assign_attrs(standard_name="height_above_mean_sea_level")})
    dataset.to_netcdf(tmp_path / "file.nc")
    np.testing.assert_array_equal(read_elevation(tmp_path / "file.nc").values, SEA)
    np.testing.assert_array_equal(read_elevation(tmp_path / "file.nc", "z").values, SEA - 1)
    with pytest.raises(DataError, match="no variable 'w'; it has z, v1"):
        read_elevation(tmp_path / "file.nc", "w")


def test_several_fields_that_could_be_meant_are_listed(tmp_path):
    field = elevation_on(LON, LAT, SEA)
    xr.Dataset({"surface": field, "bedrock": field}).to_netcdf(tmp_path / "file.nc")
    with pytest.raises(DataError, match="several fields, surface, bedrock; choose one with variable="):
        read_elevation(tmp_path / "file.nc")


@pytest.mark.parametrize(
    "name, attrs", [("depth", {}), ("h", {}), ("a", {"positive": "down"}), ("z", {"standard_name": "sea_floor_depth"})]
)
def test_a_depth_positive_down_is_turned_over(tmp_path, name, attrs):
    dataset = elevation_on(LON, LAT, -SEA, **attrs).rename(name).to_dataset()
    packed = {name: {"dtype": "i2", "scale_factor": 0.5, "add_offset": 100.0, "_FillValue": -32768}}
    for encoding in ({}, packed):
        dataset.to_netcdf(tmp_path / "file.nc", encoding=encoding)
        np.testing.assert_allclose(read_elevation(tmp_path / "file.nc").values, SEA, atol=0.3)
        result = onto_grid(tmp_path / "file.nc", SEA_GRID)
        assert any("read as depth, positive down" in line for line in result.report)
    np.testing.assert_array_equal(onto_grid(dataset[name], SEA_GRID).wet, result.wet)


def test_a_variable_named_depth_that_says_up_is_an_elevation(tmp_path):
    elevation_on(LON, LAT, SEA, positive="up").rename("depth").to_netcdf(tmp_path / "file.nc")
    np.testing.assert_array_equal(read_elevation(tmp_path / "file.nc").values, SEA)


def test_opening_a_file_reads_no_elevation(tmp_path):
    elevation_on(LON, LAT[::-1], SEA[::-1], positive="down").to_netcdf(tmp_path / "file.nc")
    with read_elevation(tmp_path / "file.nc") as elevation:
        assert not elevation.variable._in_memory
        np.testing.assert_array_equal(elevation.values, -SEA)


def test_files_that_cannot_serve_are_refused_with_a_reason(tmp_path):
    with pytest.raises(DataError, match="there is no file .*missing.nc"):
        onto_grid(tmp_path / "missing.nc", SEA_GRID)
    xr.Dataset({"a": ("x", np.arange(3.0))}).to_netcdf(tmp_path / "line.nc")
    with pytest.raises(DataError, match="no field on longitudes and latitudes"):
        onto_grid(tmp_path / "line.nc", SEA_GRID)
    with pytest.raises(DataError, match="no water on the grid"):
        onto_grid(elevation_on(LON, LAT, np.full(SEA.shape, 100.0)), SEA_GRID)
    with pytest.raises(DataError, match="elevation of -32768 m at 240 nodes: a missing value"):
        onto_grid(elevation_on(LON, LAT, np.full(SEA.shape, -32768, "i2")), SEA_GRID)
    stack = elevation_on(LON, LAT, SEA).expand_dims(time=2)
    with pytest.raises(DataError, match="select one field"):
        onto_grid(stack, SEA_GRID)
    with pytest.raises(DataError, match=r"covers longitude 140.25 to 149.75.* needs longitude 120.00 to 150.00"):
        onto_grid(elevation_on(LON, LAT, SEA), SphericalGrid(10, 6, (120, 150), (30, 36)))


# --- numbers, functions, arrays


def test_a_number_a_function_and_an_array_say_the_same():
    x, y = PLANE.coordinates("h")
    number, array = from_depth(500.0, PLANE), from_depth(np.full(PLANE.shape, 500.0), PLANE)
    np.testing.assert_array_equal(number.depth, array.depth)
    assert number.wet.all() and number.report == ()
    sloping = from_depth(lambda x, y: 0.1 * x - 200.0 + 0 * y, PLANE)
    np.testing.assert_allclose(sloping.depth, np.maximum(0.1 * x - 200.0 + 0 * y, 0.0))
    np.testing.assert_array_equal(sloping.wet, (0.1 * x - 200.0 + 0 * y) > 0)
    np.testing.assert_array_equal(from_depth(lambda x, y: 0.1 * x - 200.0, PLANE).depth, sloping.depth)


def test_shallow_idealised_depths_are_left_alone_unless_asked():
    assert from_depth(0.5, PLANE).depth.max() == 0.5
    assert from_depth(0.5, PLANE, minimum_depth=2.0).depth.max() == 2.0


def test_depths_of_a_wrong_shape_or_sign_are_refused():
    with pytest.raises(ConfigError, match=r"shape \(8, 6\) and the grid needs \(ny, nx\) = \(6, 8\)"):
        from_depth(np.ones((8, 6)), PLANE)
    with pytest.raises(ConfigError, match="function returns shape"):
        from_depth(lambda x, y: np.ones(3), PLANE)
    with pytest.raises(ConfigError, match="nowhere above 0"):
        from_depth(-4000.0, PLANE)
    with pytest.raises(ConfigError, match="infinite"):
        from_depth(np.inf, PLANE)


def test_anything_that_describes_a_sea_floor_is_taken(tmp_path):
    field = elevation_on(LON, LAT, SEA)
    field.to_netcdf(tmp_path / "sea.nc")
    reference = onto_grid(field, SEA_GRID)
    for source in (tmp_path / "sea.nc", str(tmp_path / "sea.nc"), field, reference, reference.depth):
        np.testing.assert_allclose(as_bathymetry(source, SEA_GRID).depth, reference.depth)
    assert as_bathymetry(12.0, PLANE).depth.min() == 12.0
    with pytest.raises(ConfigError, match="make it for this grid"):
        as_bathymetry(Bathymetry(np.ones((2, 2)), np.ones((2, 2), bool)), PLANE)


# --- checks

LAKES = """
........#
.######.#
.#.##.#.#
.######.#
.##..##..
.######..
"""


def test_lakes_are_counted_placed_and_filled_on_request():
    depth, grid = box(LAKES)
    depth[1, 4] = 300.0
    kept = from_depth(depth, grid)
    assert kept.report[0].startswith("3 lakes of 4 cells not connected to the largest water body, kept")
    assert "2 cells at x = 4.5 km, y = 1.5 km" in kept.report[0]
    assert kept.report[1] == "2 isolated wet cells, one at x = 2.5 km, y = 3.5 km."
    np.testing.assert_array_equal(kept.wet, depth > 0)
    filled = from_depth(depth, grid, fill_lakes=True)
    assert "filled" in filled.report[0]
    assert filled.wet.sum() == kept.wet.sum() - 4 and not filled.depth[~filled.wet].any()


def test_the_largest_water_body_is_the_one_of_largest_area_not_of_most_cells():
    depth = np.full((18, 36), 100.0)
    depth[:, 4] = 0.0
    depth[13:15] = 0.0
    grid = SphericalGrid(36, 18, (0, 360), (-90, 90), periodic="")
    filled = from_depth(depth, grid, fill_lakes=True)
    assert filled.wet[0, 10] and not filled.wet[17, 10] and not filled.wet[0, 0]
    few_large = np.zeros((18, 36))
    few_large[8:10, :6], few_large[16:, :8] = 100.0, 100.0
    filled = from_depth(few_large, grid, fill_lakes=True)
    assert filled.wet[8, 0] and not filled.wet[17, 0]


def test_water_joined_through_a_periodic_side_is_one_body():
    picture = """
    ..###..
    ..###..
    #######
    ..#.###
    """
    depth, closed = box(picture)
    assert from_depth(depth, closed).report[0].startswith("3 lakes of 7 cells")
    assert from_depth(depth, box(picture, "x")[1]).report[0].startswith("2 lakes of 3 cells")
    assert from_depth(depth, box(picture, "xy")[1]).report[0].startswith("1 lake of 1 cell ")
    both_ways = """
    .#.#.
    #####
    .###.
    #####
    .#.#.
    """
    depth, torus = box(both_ways, "xy")
    filled = from_depth(depth, torus, fill_lakes=True)
    assert filled.report[0].startswith("2 lakes of 4 cells") and filled.wet.sum() == 4


def test_a_strait_that_is_closed_at_a_corner_is_named():
    depth, grid = box("""
    ....####
    ....####
    ####....
    ####....
    """)
    report = from_depth(depth, grid).report
    assert any(line.startswith("1 strait closed") and "x = 4.5 km, y = 1.5 km" in line for line in report)
    report = from_depth(depth[:, ::-1], grid).report
    assert any(line.startswith("1 strait closed") and "x = 3.5 km, y = 1.5 km" in line for line in report)
    open_water, grid = box("""
    ....####
    ........
    ####....
    """)
    assert not any("strait" in line for line in from_depth(open_water, grid).report)


def test_corners_of_one_and_the_same_body_are_no_strait():
    depth, grid = box("""
    ......
    ..#...
    ...#..
    ......
    """)
    assert from_depth(depth, grid).report == ()
    depth, grid = box("""
    .......
    ..#....
    ...#...
    .....##
    .....#.
    """)
    assert [line.split()[1] for line in from_depth(depth, grid).report] == ["lake", "isolated"]


def test_channels_one_cell_wide_are_counted_and_placed():
    depth, grid = box("""
    ...####...
    ..........
    ...####...
    ...####...
    """)
    report = from_depth(depth, grid).report
    assert len(report) == 1
    assert report[0].startswith("4 cells in 1 channel one cell wide, the longest of 4 cells at x = 3.5 km, y = 2.5 km")


def test_water_along_the_side_of_the_domain_is_no_channel():
    depth, grid = box("""
    ######
    ......
    """)
    assert from_depth(depth, grid).report == ()
    assert "6 cells in 1 channel" in from_depth(depth, box("######\n......", "y")[1]).report[0]


def test_places_on_the_sphere_are_written_east_west_north_south():
    grid = SphericalGrid(10, 10, (170, 190), (-10, 10))
    depth = np.full(grid.shape, 100.0)
    depth[:, 7:] = 0.0
    depth[2, 8] = 100.0
    assert "1 cell at 173.00 W 5.00 S" in from_depth(depth, grid).report[0].replace("1 lake of 1 cell ", "")


# --- real files


@pytest.mark.skipif(ETOPO5["global_15min"] is None, reason="the experiments' ETOPO5 file is not there")
def test_etopo5_holds_the_volume_of_the_ocean():
    grid = SphericalGrid(360, 180, (20, 380), (-90, 90))
    result = onto_grid(ETOPO5["global_15min"], grid, fill_lakes=True)
    volume = (result.depth * grid.area_h).sum()
    assert volume == pytest.approx(1.335e18, rel=0.01)  # Charette & Smith (2010), doi:10.5670/oceanog.2010.51


def test_a_grid_without_land_is_not_searched_for_lakes(monkeypatch):
    monkeypatch.setattr("swmodel.grids.bathymetry.survey", None)
    assert from_depth(100.0, PLANE).wet.all()
    with pytest.raises(TypeError):
        from_depth(lambda x, y: np.where(x < 1e3, -1.0, 100.0) + 0.0 * y, PLANE)
