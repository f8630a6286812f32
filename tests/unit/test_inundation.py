"""Inundation: run-up line and height, flow depth, and the maps and pages of runs that flood land."""

import re

import numpy as np
import pytest

xr = pytest.importorskip("xarray")
pytest.importorskip("matplotlib")

import swmodel as sw  # noqa: E402
from swmodel.errors import ConfigError, PlotError  # noqa: E402
from swmodel.postprocess import files, gauges, maps, maxima, scores, statistics, style  # noqa: E402
from swmodel.postprocess.budgets import budgets  # noqa: E402
from swmodel.postprocess.cli import plot  # noqa: E402
from swmodel.postprocess.inundation import FILM, Inundation, ground, inundation, may_flood, under_water  # noqa: E402
from swmodel.postprocess.mesh import Mesh  # noqa: E402
from swmodel.postprocess.series import read_gauges  # noqa: E402

SLOPE, CELL, SHORE = 0.1, 10.0, 100.0  # of the beach; [m]; the place of the shoreline at rest [m]


def beach(reach, thickness=0.5, ny=6, nx=20, **attributes):
    """A file of extremes: a beach that rises to the east, wet up to x = `reach` [m] (a number for each row)."""
    x, y = CELL * (np.arange(nx) + 0.5), CELL * (np.arange(ny) + 0.5)
    bed = np.tile(SLOPE * (x - SHORE), (ny, 1))
    wet = x < np.broadcast_to(reach, (ny,))[:, None]
    level = np.where(wet, np.maximum(bed, 0.0) + thickness, np.maximum(bed, 0.0))
    at = ("yh", "xh")
    fields = {"depth": -bed, "maximum_elevation": level, "maximum_thickness": level - bed, "wet": np.ones(bed.shape)}
    about = {"units": "m", "long_name": "a height"}
    return xr.Dataset(
        {name: (at, values, about) for name, values in fields.items()},
        {"xh": ("xh", x, {"units": "m"}), "yh": ("yh", y, {"units": "m"})},
        attributes,
    )


def wave_on_a_beach(**options):
    """(a ShallowWater with a shore, its state with a wave)."""
    grid, options = sw.CartesianGrid(24, 8, (0.0, 240.0), (0.0, 80.0)), {"wetting": sw.WettingDrying(), **options}
    bed = lambda x, y: 4.0 - 0.03 * x + 0.0 * y  # noqa: E731
    model = sw.ShallowWater(grid, bed, momentum=sw.MomentumConserving(), **options)
    return model, model.state(eta=lambda x, y: np.exp(-(((x - 60.0) / 30.0) ** 2)) + 0.0 * y)


@pytest.fixture(scope="module")
def flood(tmp_path_factory):
    """The folder of all files of a run over a beach, with two files of fields."""
    folder = tmp_path_factory.mktemp("flood")
    model, state = wave_on_a_beach()
    made = sw.Simulation(model, state, sw.ForwardBackwardHancock(0.4), title="A beach")
    made.write(folder / "fields.nc", ("eta", "u", "v"), every=8.0).write(folder / "a_speed.nc", ("speed",), every=16.0)
    made.maxima(folder / "maxima.nc", threshold=0.05).extremes(folder / "extremes.nc", threshold=0.05)
    made.means(folder / "means.nc", ("eta", "speed")).gauges(folder / "gauges.nc", {"A": (50.0, 40.0)})
    made.restart(folder / "restart.nc").run(steps=100)
    return folder


def test_the_run_up_is_the_highest_ground_that_was_wet_and_its_place():
    reach = np.array([120.0, 130.0, 160.0, 130.0, 120.0, 120.0])
    found = inundation(beach(reach))
    run_up = found.run_up()
    assert (run_up.x, run_up.y) == (155.0, 25.0)
    assert run_up.height == pytest.approx(SLOPE * 55.0) and run_up.level == pytest.approx(SLOPE * 55.0 + 0.5)
    assert found.run_up(np.arange(6)[:, None] > 3).height == pytest.approx(SLOPE * 15.0)
    np.testing.assert_array_equal(found.flooded.sum(1), [2, 3, 6, 3, 2, 2])
    assert np.isnan(found.flow_depth[0, 12:]).all() and np.isnan(found.flow_depth[:, :10]).all()
    np.testing.assert_allclose(found.flow_depth[0, 10:12], 0.5)


def test_the_run_up_line_is_the_last_wet_cells_of_each_row_and_those_beside_dry_land():
    found = inundation(beach(np.array([120.0, 130.0, 160.0, 130.0, 120.0, 120.0])))
    expected = np.zeros((6, 20), bool)
    expected[range(6), [11, 12, 15, 12, 11, 11]] = True
    expected[2, 13:15] = True  # beside dry land in the north and the south
    np.testing.assert_array_equal(found.edge, expected)
    np.testing.assert_allclose(found.run_up_height[2, 13:16], SLOPE * np.array([35.0, 45.0, 55.0]))
    np.testing.assert_allclose(found.run_up_level[5, 11], SLOPE * 15.0 + 0.5)
    assert np.isnan(found.run_up_height[~expected]).all()


def test_the_inundation_line_runs_between_wet_cells_and_dry_land():
    (line,) = inundation(beach(140.0)).line()
    np.testing.assert_allclose(line[:, 0], 140.0)
    assert (line[:, 1].min(), line[:, 1].max()) == (5.0, 55.0)
    assert inundation(beach(1e3)).line() == []  # all is wet


def test_where_no_land_was_flooded_the_run_up_is_that_of_the_sea_at_the_shore():
    found = inundation(beach(SHORE))
    run_up = found.run_up()
    assert run_up.height == 0.0 and np.isnan(run_up.x) and run_up.level == pytest.approx(0.5)
    np.testing.assert_allclose(found.run_up_height[:, 9], 0.0)
    assert not found.flooded.any()


@pytest.mark.parametrize("periodic", [True, False])
def test_a_cell_beside_dry_land_across_a_periodic_side_is_on_the_run_up_line(periodic):
    data = beach(np.array([160.0, 160.0, 160.0, 160.0, 160.0, 120.0]))
    faces = data.yh.values + 0.5 * CELL
    data = data.assign_coords(yq=("yq", faces if periodic else np.append(0.0, faces)))
    assert inundation(data).edge[0, 13] == periodic


def test_films_count_as_dry():
    assert not inundation(beach(160.0, thickness=0.9 * FILM)).flooded.any()
    assert inundation(beach(160.0, thickness=0.9 * FILM, film_thickness=1e-4)).flooded.any()
    assert not inundation(beach(160.0, thickness=0.5), film=0.6).flooded.any()


def test_a_file_of_maxima_has_the_same_flood_where_the_sea_floor_rests(flood):
    found = [inundation(files.open_output(flood / name)) for name in ("maxima.nc", "extremes.nc")]
    assert found[0].flooded.sum() > 10
    np.testing.assert_array_equal(found[0].flooded, found[1].flooded)
    np.testing.assert_allclose(found[0].flow_depth, found[1].flow_depth, atol=1e-6)
    assert found[0].run_up() == found[1].run_up()
    assert files.open_output(flood / "maxima.nc").attrs["film_thickness"] == sw.WettingDrying().thin


def globe_of(level, first):
    """The Inundation of a row of three rows of cells round the Earth, whose longitudes begin at `first`."""
    nx = level.size
    x, y = first + (np.arange(nx) + 0.5) * 360.0 / nx, np.array([-10.0, 0.0, 10.0])
    mesh = Mesh(x, y, 360.0 / nx, 10.0, True, True, False)
    return Inundation(mesh, np.ones((3, nx)), np.tile(level, (3, 1)), np.ones((3, nx)))


def test_a_finer_bed_lies_at_its_place_in_either_convention_of_longitude_and_across_the_seam():
    level = np.array([2.0, 3.0, 4.0, 5.0, 6.0, 5.0, 4.0, 3.0])
    x, y = np.arange(-179.0, 180.0, 2.0), np.array([-5.0, 5.0])
    bed = np.zeros((2, x.size))
    depth = globe_of(level, 0.0).depth_over(x, y, bed)
    np.testing.assert_allclose(depth[:, x == 1.0], 2.0 + 21.5 / 45.0)
    np.testing.assert_allclose(depth, globe_of(np.roll(level, 4), -180.0).depth_over(x, y, bed), rtol=1e-12)
    np.testing.assert_allclose(depth, globe_of(level, 0.0).depth_over(x + 360.0, y, bed), rtol=1e-12)
    with pytest.raises(PlotError, match="the bed covers x from 1 to 5 .* they do not meet; give a bed of"):
        globe_of(level, 0.0).depth_over(np.array([1.0, 5.0]), y + 60.0, np.zeros((2, 2)))


def test_dry_land_counts_neither_in_the_mean_elevation_nor_in_the_energy(flood):
    data = files.open_output(flood / "fields.nc")
    eta, depth, sums = data.eta.values.astype(float), data.depth.values.astype(float), budgets(data, 9.81, density=1e3)
    wet = eta + depth > sw.WettingDrying().thin
    assert 0 < (wet & (depth < 0)).sum() and (~wet).any()
    mean = [level[water].mean() for level, water in zip(eta, wet)]
    np.testing.assert_allclose(sums["mean_elevation"], mean, rtol=1e-6)
    above = np.where(depth < 0, eta**2 - depth**2, eta**2)  # of columns over ground above 0 and below it
    energy = 0.5 * 1e3 * 9.81 * 100.0 * above.sum((1, 2))
    np.testing.assert_allclose(sums["potential_energy"], energy, rtol=1e-6)
    at_rest = budgets(data.assign(eta=0.0 * data.eta + np.maximum(-depth, 0.0)), 9.81)
    np.testing.assert_allclose(at_rest["potential_energy"], 0.0, atol=1e-6 * energy.max())
    np.testing.assert_allclose(at_rest["mean_elevation"], 0.0, atol=1e-6)


def test_volume_and_energy_of_a_state_are_those_above_the_water_at_rest(flood):
    model, state = wave_on_a_beach()
    rest, data = model.state(eta=0.0), files.open_output(flood / "fields.nc")
    assert sw.volume(model, rest) == sw.energy(model, rest) == 0.0
    assert sw.energy(model, state, 1e3) == pytest.approx(float(budgets(data, 9.81, density=1e3).potential_energy[0]))
    above = data.eta[0] - np.maximum(-data.depth, 0.0)
    assert sw.volume(model, state) == pytest.approx(100.0 * float(above.sum()), rel=1e-5)


def test_volume_and_energy_over_a_floor_that_has_risen_are_those_above_the_water_at_rest_there():
    """The beach has risen by 2 m: what was land and has risen is dry, and what was sea is under 2 m less water."""
    lifted = sw.BottomMotion((0.0, 0.4), np.array([0.0, 2.0])[:, None, None] * np.ones((2, 8, 24)))
    model, _ = wave_on_a_beach(source=lifted)
    bed = 2.0 - np.asarray(model.depth)
    rest = model.state(eta=0.0).replace(eta=np.maximum(bed, 0.0).astype(model.dtype))
    assert abs(sw.volume(model, rest, time=4.0)) < 1e-3 and abs(sw.energy(model, rest, 1.0, time=4.0)) < 1e-3
    assert sw.volume(model, rest, time=0.2) == pytest.approx(100.0 * np.clip(bed, 0.0, 1.0).sum(), rel=1e-6)
    moving = rest.replace(u=np.full(rest.u.shape, 0.5, model.dtype))
    kinetic = 0.125 * 100.0 * np.maximum(-bed, 0.0)
    found = sw.energy(model, moving, 1.0, time=4.0)
    assert kinetic[:, 1:-1].sum() < found < kinetic.sum()
    with pytest.raises(ConfigError, match="volume: the sea floor of this model moves; give the time of the state"):
        sw.volume(model, rest)


def test_products_are_a_file_with_cf_metadata(tmp_path):
    found = inundation(beach(140.0))
    found.dataset().to_netcdf(tmp_path / "inundation.nc")
    with xr.open_dataset(tmp_path / "inundation.nc") as read:
        np.testing.assert_array_equal(read.inundated, found.flooded)
        np.testing.assert_allclose(read.flow_depth, found.flow_depth)
        np.testing.assert_allclose(read.run_up_height, found.run_up_height)
        assert read.flow_depth.standard_name == "flood_water_thickness" and read.flow_depth.units == "m"
        assert read.largest_run_up_height == found.run_up().height
        line = read[read.inundation_line.node_coordinates.split()[0]]
        assert int(read[read.inundation_line.node_count].sum()) == line.size
        np.testing.assert_allclose(line, 140.0)


def test_files_without_heights_or_levels_are_refused():
    with pytest.raises(PlotError, match="no depth on the grid"):
        inundation(beach(140.0).drop_vars("depth"))
    with pytest.raises(PlotError, match="no maximum_elevation; give the one"):
        inundation(beach(140.0).drop_vars("maximum_elevation"))
    assert not may_flood(beach(140.0).drop_vars("wet"))  # of another model: its land is no topography
    dry = beach(140.0)
    dry["wet"] = dry["depth"] > -5.0
    assert np.isnan(ground(dry)[:, 15:]).all() and np.isfinite(ground(dry)[:, :14]).all()


# -- maps -------------------------------------------------------------------------------------------------------------


def drawn(axes, cells):
    """{zorder: image array} of the fields on axes."""
    return {image.get_zorder(): image.get_array() for image in axes.images if image.get_array().shape[:2] == cells}


def test_a_map_of_maxima_has_flow_depth_on_land_and_levels_at_sea_and_leaves_dry_land_to_its_relief():
    data = beach(140.0)
    axes = style.new_figure(6, 4).add_axes((0, 0, 1, 1))
    images = maxima.draw_maximum(axes, data)
    assert [text for _, text in images] == ["Flow depth on land [m]", "Maximum elevation at sea [m]"]
    depth, level = (np.ma.filled(np.ma.masked_invalid(image.get_array()), np.nan) for image, _ in images)
    np.testing.assert_array_equal(np.isfinite(depth).sum(1), 4)  # x from 100 to 140 m
    np.testing.assert_array_equal(np.isfinite(level).sum(1), 10)
    assert not (np.isfinite(depth) & np.isfinite(level)).any()
    assert level[np.isfinite(level)].max() <= 0.5 < ground(data).max()  # dry land does not set the colours
    relief = next(image for image in axes.images if image.get_zorder() < 1).get_array()
    assert relief.shape == (6, 20, 4) and relief[..., 3].all()
    line = next(one for one in axes.lines if one.get_color() == style.VERMILLION and len(one.get_xdata()))
    np.testing.assert_allclose(line.get_xdata(), 140.0)
    assert "ground 3.5 m,\nwater 4 m" in axes.get_legend().get_texts()[-1].get_text()
    assert axes.get_xlabel() == "x [m]"


def test_slopes_that_face_the_light_in_the_north_west_are_bright():
    x, y = np.meshgrid(np.arange(30.0), np.arange(30.0))
    data = beach(0.0, ny=30, nx=30)
    cone = 20.0 - np.hypot(x - 14.5, y - 14.5)
    data["depth"] = (("yh", "xh"), -cone, {"units": "m"})
    axes = style.new_figure(4, 4).add_axes((0, 0, 1, 1))
    maps.draw_surroundings(axes, data)
    shade = axes.images[0].get_array()[..., 0]
    assert axes.images[0].origin == "lower" and shade[20, 9] > 1.2 * shade[9, 20]  # north is the last row


def test_dry_land_stays_empty_on_maps_of_fields(flood):
    data = files.open_output(flood / "fields.nc")
    mesh = files.mesh_of(data)
    eta, u = (maps.drawable(data, mesh, name, 0) for name in ("eta", "u"))
    dry = ground(data) > 0
    np.testing.assert_array_equal(np.isnan(eta), dry)
    assert np.isnan(u[:, 15:]).all() and np.isfinite(u[:, :14]).all()
    assert np.isfinite(maps.drawable(data, mesh, "depth", None)).all()


def test_small_basins_and_short_runs_have_metres_and_seconds(flood):
    data = files.open_output(flood / "maxima.nc")
    assert files.mesh_of(data).unit == "m" and files.mesh_of(data).scale == 1.0
    assert maxima.heading_of(data).endswith("first |η| > 0.05 m, s after the start")
    assert files.stamp(2.25, None, 40.0) == "2.25 s" and files.stamp(600.0) == "T+00:10"
    axes = style.new_figure(6, 4).add_axes((0, 0, 1, 1))
    maxima.draw_maximum(axes, data)
    numbers = [text.get_text() for text in axes.texts if text.get_text()]
    assert numbers and all(float(number) < 41 for number in numbers)


def test_the_thickness_of_a_file_is_nowhere_negative_in_single_precision(tmp_path):
    """The height of land of a cell has no number of single precision."""
    model = sw.ShallowWater(
        sw.CartesianGrid(12, 8, (0.0, 120.0), (0.0, 40.0)),
        lambda x, y: 4.0 - 7.1234567 * x + 0.3333333 * y,
        dtype="float32",
        momentum=sw.MomentumConserving(),
        wetting=sw.WettingDrying(),
    )
    sw.Simulation(model, model.at_rest(), sw.ForwardBackwardHancock(0.2)).write(tmp_path / "fields.nc", ("eta",)).run(
        steps=2
    )
    with xr.open_dataset(tmp_path / "fields.nc") as fields:
        assert fields["depth"].dtype == float and float((fields["depth"] + fields["eta"]).min()) >= 0


def rising(folder):
    """A run over a beach that rises by 2 m at once, while a wave comes in."""
    lifted = sw.BottomMotion((0.0, 0.4), np.array([0.0, 2.0])[:, None, None] * np.ones((2, 8, 24)))
    model, state = wave_on_a_beach(source=lifted)
    run = sw.Simulation(model, state, sw.ForwardBackwardHancock(0.2))
    run.write(folder / "fields.nc", ("eta",), every=4.0).extremes(folder / "extremes.nc")
    return run.maxima(folder / "maxima.nc", threshold=0.05).restart(folder / "restart.nc")


def test_dry_land_that_rises_is_flooded_neither_in_maxima_nor_on_maps_of_fields(tmp_path):
    places = {"sea": (45.0, 40.0), "land": (235.0, 40.0)}
    rising(tmp_path).gauges(tmp_path / "gauges.nc", places).run(steps=60)
    sea, land = read_gauges(files.open_output(tmp_path / "gauges.nc"))
    assert np.isnan(sea.ground) and land.ground == pytest.approx(3.05) and land.value.max() == 0.0
    found, expected = (inundation(files.open_output(tmp_path / f"{name}.nc")) for name in ("maxima", "extremes"))
    np.testing.assert_array_equal(found.flooded, expected.flooded)
    assert found.run_up().height == expected.run_up().height < 2.0
    assert files.kind_of(files.open_output(tmp_path / "maxima.nc")) == "maxima"
    fields = files.open_output(tmp_path / "fields.nc")
    assert fields["depth"].dims == fields["eta"].dims
    assert not under_water(fields, -1)[:, -4:].any() and under_water(fields, -1)[:, 4].all()


def test_gauges_of_laboratories_keep_the_digits_of_small_waves_and_short_runs():
    row = scores.Score("A", arrival=15.02, maximum=0.0351, window=(0.0, 22.5))
    assert re.search(r"15\.0 +0\.035 +0 to 22\.5$", scores.table([row]), re.M)
    axes = style.new_figure(6, 4).add_axes((0, 0, 1, 1))
    times = np.linspace(0.0, 22.5, 46)
    gauges.draw_series(axes, scores.Series("A", times, 0.0351 * np.exp(-(((times - 16.0) / 2.0) ** 2))))
    assert axes.texts[-1].get_text().endswith("s, max. 0.035 m")


# -- files ------------------------------------------------------------------------------------------------------------


@pytest.mark.verify
def test_all_files_of_a_run_are_drawn_together(flood, capsys):
    pages = plot(sorted(flood.glob("*.nc")))
    assert {page.name for page in pages} == {"fields.tsunami.png", "extremes.png", "means.png", "a_speed.maps.png"}
    assert all(page.stat().st_size > 10_000 for page in pages)
    for path in sorted(flood.glob("*.nc")):
        if path.name != "restart.nc":
            assert plot(path)[0].exists()


@pytest.mark.verify
def test_pages_with_a_name_of_the_user_have_names_of_their_own(flood, tmp_path):
    pages = plot(sorted(flood.glob("*.nc")), tmp_path / "page.png")
    names = ["page.png", "page.extremes.png", "page.means.png", "page.a_speed.png"]
    assert sorted(page.name for page in pages) == sorted(names)


def test_a_variable_is_drawn_from_the_file_that_has_it(flood):
    paths = sorted(flood.glob("*.nc"))
    assert [page.name for page in plot(paths, variable="maximum_momentum_flux")] == ["extremes.png"]
    assert [page.name for page in plot(paths, variable="speed")] == ["a_speed.maps.png"]
    assert [page.name for page in plot(flood / "means.nc", variable="mean_eta")] == ["means.png"]
    with pytest.raises(PlotError, match="no field 'salt'; it has maximum_elevation, minimum_elevation"):
        plot(flood / "extremes.nc", variable="salt")


def test_extremes_have_a_panel_each_and_the_flow_depth_is_on_that_of_the_level(flood):
    data = files.open_output(flood / "extremes.nc")
    names = ["maximum_elevation", "minimum_elevation", "maximum_speed", "maximum_momentum_flux", "time_over_threshold"]
    assert statistics.names_of(data) == names
    page = statistics.figure(data)
    titles = [axes.get_title(loc="left") for axes in page.axes if axes.get_title(loc="left")]
    assert titles[0] == "Maximum elevation, and flow depth on land" and len(titles) == 5
    lowest = np.ma.filled(np.ma.masked_invalid(page.axes[3].images[0].get_array()), np.nan)
    assert np.isnan(lowest[ground(data) > 0]).all()  # land has been dry


def test_land_that_stays_dry_is_empty_on_maps_of_means(flood):
    data = files.open_output(flood / "means.nc")
    (shown,) = (one for one in statistics.figure(data, "mean_eta").axes[0].images if one.get_zorder() == 1)
    wet = inundation(files.open_output(flood / "extremes.nc")).wet
    drawn = np.isfinite(np.ma.filled(shown.get_array(), np.nan))
    assert not wet.all() and not drawn[~wet].any()
    assert drawn[ground(data) < 0].all() and drawn[ground(data) > 0].any()  # but for a cell that is wet for a moment


def test_harmonic_constants_have_their_phases_as_lines_on_the_map_of_their_amplitude(tmp_path):
    data = beach(0.0)[["wet", "depth"]]
    data["depth"] = data["depth"] + 50.0
    x = data.xh.values[None, :] + 0 * data.yh.values[:, None]
    for name, values in {"eta_mean": 0 * x, "eta_amplitude_M2": 1 + x / 200, "eta_phase_M2": 1.7 * x}.items():
        data[name] = (("yh", "xh"), values, {"units": "degree" if "phase" in name else "m", "long_name": name})
    data.to_netcdf(tmp_path / "harmonics.nc")
    assert plot(tmp_path / "harmonics.nc") == [tmp_path / "harmonics.png"]
    assert statistics.names_of(data) == ["eta_amplitude_M2", "eta_mean"]
    page = statistics.figure(data, "eta_amplitude_M2")
    assert page.axes[0].get_title(loc="left") == "Amplitude of M2 in eta, and phase lags every 30° (thick: 0°)"
    lines = [path.vertices[0, 0] for one in page.axes[0].collections for path in one.get_paths() if len(path.vertices)]
    np.testing.assert_allclose(sorted(lines), np.arange(30, 331, 30) / 1.7, atol=0.05)  # [m], in cells of 10 m
