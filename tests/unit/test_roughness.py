"""The roughness of the sea floor for the drag by internal waves: by hand, by windows, round the Earth."""

import netCDF4
import numpy as np
import pytest

import swmodel as sw
from swmodel.config.assembly import assemble, model_of
from swmodel.config.experiment import read_text
from swmodel.errors import ConfigError, DataError
from swmodel.forcing.potential import deviation_from_plane, rough_bottom
from swmodel.grids import stored
from tests.gridded import write_axes

LON, LAT = np.arange(-179.0, 180.0, 2.0), np.arange(-89.0, 90.0, 2.0)
GRID = sw.SphericalGrid(90, 40, (-180.0, 180.0), (-80.0, 80.0))


def test_the_roughness_is_the_deviation_from_the_best_plane():
    """By hand: a plane has none; one node of 9 that is 9 m off a flat floor has 8^1/2 m; else least squares."""
    y, x = np.mgrid[0:7, 0:9].astype(float)
    np.testing.assert_allclose(deviation_from_plane(4000.0 + 30.0 * x - 20.0 * y, 1), 0.0, atol=1e-3)
    bump = np.full((3, 3), 100.0)
    bump[1, 1] = 109.0  # the mean is 1 m higher, and the plane is level: (8 * 1 + 64) / 9 = 8 m2
    assert deviation_from_plane(bump, 1)[0, 0] == pytest.approx(np.sqrt(8.0), rel=1e-10)
    corner = np.zeros((3, 3))
    corner[2, 2] = 9.0  # of 81 / 9 = 9 m2 the mean explains 1, and each slope of 1.5 m a node 2 / 3 * 2.25
    assert deviation_from_plane(corner, 1)[0, 0] == pytest.approx(np.sqrt(9.0 - 1.0 - 2 * 1.5), rel=1e-10)
    values = np.random.default_rng(1).uniform(1000.0, 5000.0, (9, 11))
    found = deviation_from_plane(values, 2)
    assert found.shape == (5, 7)
    b, a = (k.ravel() - 2.0 for k in np.mgrid[0:5, 0:5])
    for j, i in np.ndindex(found.shape):
        z = values[j : j + 5, i : i + 5].ravel()
        plane = np.stack([np.ones(25), a, b], 1)
        off = z - plane @ np.linalg.lstsq(plane, z, rcond=None)[0]
        assert found[j, i] == pytest.approx(np.sqrt(np.mean(off**2)), rel=1e-9)


@pytest.fixture
def file(tmp_path):
    """A global file of elevations: a rough floor, a shelf in the north, and land."""
    z = -4000.0 + 800.0 * np.random.default_rng(2).standard_normal((LAT.size, LON.size))
    z[LAT > 60] = -200.0
    z[:, np.abs(LON - 50) < 20] = 300.0
    with netCDF4.Dataset(tmp_path / "floor.nc", "w") as data:
        write_axes(data, {"lat": ("degrees_north", LAT), "lon": ("degrees_east", LON)})
        data.createVariable("elevation", "f8", ("lat", "lon"))[:] = z
        data["elevation"].units = "m"
    return tmp_path / "floor.nc", np.where(z < 0, -z, 0.0)


def test_a_cell_has_the_mean_of_the_drag_of_its_nodes(file):
    """r^2 N and N are the means of those of its four nodes by area, at the seam of the file, too; 0 on a shelf."""
    path, depth = file
    wide = np.pad(np.pad(depth, ((0, 0), (2, 2)), "wrap"), ((2, 2), (0, 0)), "edge")
    r, n = deviation_from_plane(wide, 2), np.where(depth > 500.0, 5.24e-3 * np.exp(-depth / 1300.0), 0.0)
    roughness, buoyancy = (np.asarray(values) for values in rough_bottom(path, GRID))
    for j, i in ((20, 0), (20, 45), (10, 89)):  # next to the seam of the file, too
        rows = np.flatnonzero((LAT > GRID.y_edges[j]) & (LAT < GRID.y_edges[j + 1]))
        columns = np.flatnonzero((LON > GRID.x_edges[i]) & (LON < GRID.x_edges[i + 1]))
        area = np.cos(np.deg2rad(LAT[rows]))[:, None] * np.ones(columns.size)
        share = area / area.sum()
        of_n = np.sum(share * n[np.ix_(rows, columns)])
        of_drag = np.sum(share * (r**2 * n)[np.ix_(rows, columns)])
        assert buoyancy[j, i] == pytest.approx(of_n, rel=1e-6)
        assert roughness[j, i] == pytest.approx(np.sqrt(of_drag / of_n), rel=1e-6)
    assert not roughness[GRID.y_edges[:-1] > 62.0].any() and not buoyancy[GRID.y_edges[:-1] > 62.0].any()
    assert not roughness[:, (GRID.x_edges[:-1] > 32.0) & (GRID.x_edges[1:] < 68.0)].any()


def test_windows_have_the_values_of_the_whole_and_read_the_nodes_around_them_only(file, monkeypatch):
    path, _ = file
    whole = [np.asarray(values) for values in rough_bottom(path, GRID)]
    read, original = [], stored.StoredField.read

    def counted(self, window):
        found = original(self, window)
        read.append(found.size)
        return found

    monkeypatch.setattr(stored.StoredField, "read", counted)
    for rows, columns in ((slice(12, 20), slice(0, 8)), (slice(0, 40), slice(80, 90)), (slice(33, 40), slice(40, 50))):
        read.clear()
        parts = rough_bottom(path, GRID)
        for values, all_of in zip(parts, whole):
            np.testing.assert_array_equal(values.block(rows, columns), all_of[rows, columns])
        cells = (rows.stop - rows.start + 8) * (columns.stop - columns.start + 8)  # the block and what is cached around
        assert 0 < sum(read) < 4 * cells + 2000 < LON.size * LAT.size


def test_its_values_are_the_arguments_of_the_drag(file):
    path, depth = file
    roughness, buoyancy = rough_bottom(path, GRID)
    drag = sw.InternalWaveDrag(roughness, buoyancy)
    model = sw.ShallowWater(GRID, 4000.0, coriolis=sw.RotatingSphere(), dissipation=drag, communicator="serial")
    (placed,) = model.terms
    np.testing.assert_allclose(np.asarray(placed.roughness), np.asarray(roughness), rtol=1e-5)
    np.testing.assert_allclose(np.asarray(placed.buoyancy), np.asarray(buoyancy), rtol=1e-5)


def test_what_cannot_be_is_refused(file):
    path, _ = file
    with pytest.raises(ConfigError, match="reach = 0 is not a whole number"):
        rough_bottom(path, GRID, reach=0)
    with pytest.raises(ConfigError, match="scale = 0.0 m is not positive"):
        rough_bottom(path, GRID, scale=0.0)
    with pytest.raises(DataError, match="which a SphericalGrid needs|longitudes and latitudes"):
        rough_bottom(path, sw.CartesianGrid(4, 4, (0.0, 1e3), (0.0, 1e3)))


def test_missing_values_and_other_units_are_refused(file):
    path, _ = file
    for value, why in ((np.nan, "1 missing values"), (-4e6, "an elevation of -4e.06 m")):
        with netCDF4.Dataset(path, "a") as data:
            data["elevation"][20, 30] = value
        with pytest.raises(DataError, match=why):
            np.asarray(rough_bottom(path, GRID)[0])


EXPERIMENT = """
grid = {type = "spherical", nx = 90, ny = 40, longitude = [-180, 180], latitude = [-80, 80]}
bathymetry = {type = "flat", depth = "4 km"}
coriolis = {type = "rotating_sphere"}
stepper = {type = "forward_backward"}
run = {until = "1 h"}

[[dissipation]]
type = "internal_wave_drag"
"""


def test_an_experiment_file_names_the_elevations(file):
    path, _ = file
    text = EXPERIMENT + 'rough_bottom = {file = "floor.nc", reach = 1, shallow = "1 km"}\n'
    made = assemble(read_text(text, "drag.toml", path.parent))
    assert made.sentences() == []
    (term,) = model_of(made, "serial").terms
    for found, values in zip((term.roughness, term.buoyancy), rough_bottom(path, GRID, reach=1, shallow=1000.0)):
        np.testing.assert_allclose(np.asarray(found), np.asarray(values), rtol=1e-5)


@pytest.mark.parametrize(
    "keys, said",
    [
        ("", "the roughness must be known, and once; give either roughness or rough_bottom"),
        ('roughness = 100\nrough_bottom = {file = "floor.nc"}', "the roughness must be known, and once"),
        ('buoyancy = 1e-3\nrough_bottom = {file = "floor.nc"}', "buoyancy follows from rough_bottom; leave one"),
        ('rough_bottom = {file = "floor.nc", reach = 0}', "rough_bottom.reach: "),
        ('rough_bottom = {file = "floor.nc", shallow = "20 km"}', "is rough below 20000 m on this grid; give a finer"),
        ('rough_bottom = {file = "floor.nc", variable = "z"}', "has no variable 'z'"),
    ],
)
def test_mistakes_of_rough_bottoms_are_told(file, keys, said):
    path, _ = file
    (sentence,) = assemble(read_text(EXPERIMENT + keys + "\n", "drag.toml", path.parent)).sentences()
    assert "dissipation[0]" in sentence and said in sentence
