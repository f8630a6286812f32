"""Signed topography and roughness from files, with wetting: heights of land are kept, and what cannot be is refused."""

from pathlib import Path

import numpy as np
import pytest
import xarray as xr

import swmodel as sw
from swmodel.config import read
from swmodel.config.assembly import assemble, model_of
from swmodel.errors import ConfigError, DataError
from swmodel.grids.bathymetry import elevation_on
from swmodel.grids.topography import topography

GRID = sw.CartesianGrid(10, 6, (0.0, 100.0), (0.0, 60.0))

EXPERIMENT = """\
run = {until = 4, engine = "arrays"}  # these tests are of what a model is made of, and not of its loops
grid = {type = "cartesian", nx = 10, ny = 6, x = [0, 100], y = [0, 60]}
bathymetry = {type = "file", file = "beach.nc"}
initial = {type = "gaussian", amplitude = 0.3, centre = [30, 30], radius = 10}
stepper = {type = "ssprk3"}
dissipation = [{type = "manning_drag", roughness = {file = "land_use.nc", variable = "n"}}]
[model]
momentum = "momentum_conserving"
wetting = {thin = "1 mm"}
precision = "float64"

[output]
fields = [{file = "fields.nc", every = 2, variables = ["eta"]}]
gauges = {positions = {a = [30, 20], b = [45, 30]}}
"""


def field(values, name, **attrs):
    """A field on nodes every 5 m, over more than the grid."""
    x, y = np.arange(-5.0, 106.0, 5.0), np.arange(-5.0, 66.0, 5.0)
    values = np.broadcast_to(values(x, y[:, None]), (y.size, x.size)).copy()
    axes = {"y": ("y", y, {"units": "m"}), "x": ("x", x, {"units": "m"})}
    return xr.DataArray(values, dims=("y", "x"), coords=axes, name=name, attrs=attrs)


def beach(x, y):
    """The height of a slope with the shore at x = 60 [m]."""
    return (x - 60.0) / 20.0 + 0.0 * y


@pytest.fixture
def folder(tmp_path, monkeypatch):
    field(beach, "elevation").to_netcdf(tmp_path / "beach.nc")
    field(lambda x, y: np.where(x > 60, 0.05, 0.02) + 0 * y, "n").to_netcdf(tmp_path / "land_use.nc")
    (tmp_path / "run.toml").write_text(EXPERIMENT)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("method", ("average", "interpolate"))
def test_a_slope_keeps_its_heights_over_land_whichever_way_up_the_file_is(method, tmp_path):
    field(lambda x, y: -beach(x, y), "bed", positive="down").to_netcdf(tmp_path / "down.nc")
    expected = np.broadcast_to(-beach(GRID.x_centres, 0.0), GRID.shape)
    for found in (topography(field(beach, "elevation"), GRID, method), topography(tmp_path / "down.nc", GRID, method)):
        np.testing.assert_allclose(np.asarray(found.depth), expected, atol=1e-12)
        model = sw.ShallowWater(GRID, found, momentum=sw.MomentumConserving(), wetting=sw.WettingDrying())
        np.testing.assert_allclose(model.depth, expected, atol=1e-12)
        np.testing.assert_allclose(np.asarray(found.depth.block(slice(2, 4), slice(3, 9))), expected[2:4, 3:9])
    assert "positive down" in found.report[0]
    with pytest.raises(ConfigError, match="need wetting"):
        sw.ShallowWater(GRID, found)


def test_topography_that_cannot_be_right_is_refused_in_a_sentence():
    holes = field(beach, "elevation")
    holes[5, 7] = np.nan
    filled = holes.fillna(-9999.0)
    for wrong, why in (
        (holes, r"1 missing value on the grid, one at \(30, 20\)"),
        (filled, "an elevation of -9999 m at 1 node: a missing value that the file does not declare"),
        (field(beach, "bathymetry"), "may be positive up or down"),
        (field(lambda x, y: 32000.0 + 0 * x * y, "elevation"), "an elevation of 32000 m.*such as feet"),
        (field(lambda x, y: -32000.0 + 0 * x * y, "elevation"), "an elevation of -32000 m.*such as feet"),
        (field(beach, "elevation", units="ft"), "is in ft; convert it to metres"),
        (field(beach, "elevation", units="US survey foot"), "is in us survey foot; convert it to metres"),
    ):
        with pytest.raises(DataError, match=why):
            np.asarray(topography(wrong, GRID).depth)


def test_levels_of_water_and_of_land_may_differ_from_the_zero_of_the_file():
    """At the x of cells, -2.75, -2.25, ..., 1.75 m; the shore at x = 60 is between two nodes of a cell's edges."""
    z = beach(GRID.x_centres, 0.0)
    high = np.asarray(topography(field(beach, "elevation"), GRID, datum=1.2).depth)
    np.testing.assert_allclose(high, np.broadcast_to(1.2 - z, GRID.shape), atol=1e-12)
    raised = np.asarray(topography(field(beach, "elevation"), GRID, "interpolate", datum=1.2, land_datum=0.5).depth)
    np.testing.assert_allclose(raised[:, z < -0.3], (1.2 - np.broadcast_to(z, GRID.shape))[:, z < -0.3], atol=1e-12)
    np.testing.assert_allclose(raised[:, z > 0.3], (0.7 - np.broadcast_to(z, GRID.shape))[:, z > 0.3], atol=1e-12)
    sea = elevation_on(field(beach, "elevation"), GRID, minimum_depth=0.0, datum=1.0).whole()
    np.testing.assert_allclose(sea.depth[0, z < 0.6], (1.0 - z)[z < 0.6], atol=1e-12)
    np.testing.assert_array_equal(sea.wet[0], z < 1.0)


def test_cells_outside_a_mask_are_land_for_the_whole_run(tmp_path):
    x, y = GRID.coordinates("h")
    mask = (x < 80.0) & (y > 10.0)
    for source in (field(beach, "elevation"), lambda x, y: -beach(x, y)):
        found = topography(source, GRID, mask=mask)
        model = sw.ShallowWater(
            GRID, found, momentum=sw.MomentumConserving(), wetting=sw.WettingDrying(highest=0.5), communicator="serial"
        )
        np.testing.assert_array_equal(model.wet, mask & (beach(x, y) <= 0.5))
    high = field(beach, "elevation").to_dataset(name="elevation")
    high["sea"] = (high.elevation < 0.0).astype(float).assign_attrs(standard_name="sea_binary_mask")
    high.to_netcdf(tmp_path / "masked.nc")
    every = np.ones(GRID.shape, bool)  # a mask takes the place of that of the file, also for finer beds
    found = [np.asarray(topography(tmp_path / "masked.nc", GRID, mask=every, subgrid=n).depth) for n in (None, 2)]
    np.testing.assert_allclose(*found, atol=1e-6)
    with pytest.raises(ConfigError, match=r"mask has shape \(2, 2\)"):
        topography(field(beach, "elevation"), GRID, mask=np.ones((2, 2)))
    nothing = topography(field(beach, "elevation"), GRID, mask=np.zeros(GRID.shape))
    with pytest.raises(ValueError, match="no cell may be wet"):
        sw.ShallowWater(GRID, nothing, momentum=sw.MomentumConserving(), wetting=sw.WettingDrying())


@pytest.mark.parametrize("wetting", (True, False))
def test_an_experiment_has_the_mask_the_datum_and_the_least_thickness_of_its_file(folder, command, wetting):
    field(lambda x, y: np.where((x < 80) & (y > 10), 1.0, np.nan) + 0 * y, "sea").to_netcdf("mask.nc")
    text = EXPERIMENT.replace(
        '"beach.nc"', '"beach.nc", mask = {file = "mask.nc", variable = "sea"}, datum = "1.3 m"'
    ).replace("[model]", '[model]\nleast_thickness = "2 mm"')
    if not wetting:
        text = text.replace('wetting = {thin = "1 mm"}\n', "").replace('"beach.nc"', '"beach.nc", minimum_depth = 0.1')
        text = text.replace('roughness = {file = "land_use.nc", variable = "n"}', "roughness = 0.02")
    (folder / "run.toml").write_text(text)
    code, _, err = command("check", "run.toml")
    assert code == 0, err
    model = model_of(assemble(read("run.toml")), "serial")
    assert model.least_thickness == 0.002
    x, y = GRID.coordinates("h")
    here = (x < 80.0) & (y > 10.0)
    np.testing.assert_array_equal(model.wet, here)
    expected = np.broadcast_to(1.3 - beach(x, 0.0), GRID.shape)  # more than 0.1 m in every cell of the mask
    np.testing.assert_allclose(model.depth[here], expected[here], atol=1e-12)


def test_an_experiment_has_the_land_of_a_file_and_a_map_of_roughness(folder, command):
    code, out, err = command("check", "run.toml")
    assert code == 0, err
    assert "36 of 60 cells under water at rest (60 %), 24 that may be flooded" in out
    made = assemble(read("run.toml"))
    model = model_of(made, "serial")
    assert (
        model.wetting == sw.WettingDrying(thin=1e-3) and made.bathymetry.depth.block(slice(0, 1), slice(9, 10)) == -1.75
    )
    np.testing.assert_allclose(np.asarray(model.terms[0].roughness)[0, [0, 9]], [0.02, 0.05])
    assert np.asarray(model.at_rest().eta)[0, 9] == 1.75  # no surface lies below the bed


@pytest.mark.parametrize(
    "change, why",
    [
        ("model.momentum=energy_conserving", "wetting needs momentum = 'momentum_conserving'"),
        ("bathymetry.minimum_depth=20", "wetting keeps the topography as it is"),
        ("bathymetry.sound_speed=1500", "wetting keeps the topography as it is"),
        ("bathymetry.method=harmonic", "heights of land have no harmonic mean"),
        ("dissipation.0.roughness=0", "is 0 on land"),
        ("dissipation.0.roughness.variable=bare", "the roughness is 0 in cells of land"),
        ("dissipation.0.roughness.variable=minus", "is -0.02 somewhere, which is negative"),
        ("bathymetry.file=feet.nc", "such as feet"),
        ("bathymetry.file=holes.nc", "missing value on the grid"),
        ("bathymetry.file=unknown.nc", "positive = 'up' or 'down'"),
        ("model.wetting.thin=0", "thin"),
    ],
)
def test_check_refuses_in_one_sentence(folder, command, change, why):
    land_use = field(lambda x, y: np.where(x > 60, 0.0, 0.02) + 0 * y, "bare").to_dataset()
    land_use.assign(minus=-land_use.bare, n=land_use.bare).to_netcdf("land_use.nc")
    field(lambda x, y: 30000.0 + 0 * x * y, "elevation").to_netcdf("feet.nc")
    holes = field(beach, "elevation")
    holes[5, 7] = np.nan
    holes.to_netcdf("holes.nc")
    field(beach, "bathymetry").to_netcdf("unknown.nc")
    more = () if "dissipation" in change else ("--set", "dissipation.0.roughness=0.02")
    code, _, said = command("check", "run.toml", "--set", change, *more)
    assert code == 2 and why in said and said.strip().count("\n") == 0, said
    if "unknown" in change:
        assert command("check", "run.toml", "--set", change, *more, "--set", "bathymetry.positive=up")[0] == 0


def test_land_that_no_water_reaches_may_have_no_roughness(folder, command):
    field(lambda x, y: np.where(x > 60, 0.0, 0.02) + 0 * y, "n").to_netcdf("land_use.nc")
    assert "the roughness is 0 in cells of land" in command("check", "run.toml")[2]
    assert (
        "the roughness is 0 in cells of land" in command("check", "run.toml", "--set", "model.wetting.highest=0.5")[2]
    )
    assert command("check", "run.toml", "--set", "model.wetting.highest=0.1")[0] == 0


def test_the_values_of_a_record_at_a_side_are_a_control(folder, command):
    Path("wave.csv").write_text("time_s,elevation_m\n0,0\n2,0.1\n10,0\n")
    sides = ("--set", 'boundary=[{type="wave_maker", sides="west", elevation={file="wave.csv"}}]')
    cost = 'cost={type="gauge_elevation", gauges="a", time=3}'
    for control, code in (("boundary.0.elevation.values", 0), ("boundary.0.elevation.height", 2)):
        study = ("--set", f'adjoint={{controls=["{control}"], {cost}}}')
        found, _, said = command("check", "run.toml", *sides, *study, "--set", "dissipation.0.roughness=0.02")
        assert found == code and (code == 0 or "there is no control" in said), said
