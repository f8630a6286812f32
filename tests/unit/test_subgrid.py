"""Beds finer than the grid: volume and level of cells, lakes at rest, rain, cells with even beds, derivatives, maps."""

import re
import shutil

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import xarray as xr

import swmodel as sw
from swmodel.adjoint.costs.marks import marks_in, marks_in_water
from swmodel.config import read
from swmodel.config.assembly import assemble, model_of
from swmodel.dynamics.subgrid import changed_level
from swmodel.errors import ConfigError, DataError, PlotError
from swmodel.fields.field import X, Y
from swmodel.grids.subgrid import line_shares
from swmodel.postprocess import export, marks
from swmodel.postprocess.budgets import budgets
from swmodel.postprocess.files import open_output
from swmodel.postprocess.series import read_gauges
from swmodel.runtime.compilation import jit
from swmodel.units import hour

RATIO, SHAPE = 3, (8, 10)
GRID = sw.CartesianGrid(10, 8, (0.0, 1000.0), (0.0, 800.0))
RANDOM = np.random.default_rng(5)
FINE = RANDOM.uniform(-4.0, 3.0, (8 * RATIO, 10 * RATIO))  # depths: some cells are dry at level 0, most in part
PARTS = dict(momentum=sw.MomentumConserving(), wetting=sw.WettingDrying(), communicator="serial", dtype="float64")
STEPPER = sw.ForwardBackwardHancock(2.0)


def model_over(depth, **options):
    return sw.ShallowWater(GRID, depth, dissipation=sw.ManningDrag(0.03), **PARTS | options)


def model_of_rain(rate):
    return model_over(sw.topography(FINE, GRID, subgrid=RATIO), forcing=sw.Rain(rate))


def of_cells(fine, function, ratio=RATIO):
    ny, nx = fine.shape[0] // ratio, fine.shape[1] // ratio
    return function(fine.reshape(ny, ratio, nx, ratio), axis=(1, 3))


def level_of(model, state):
    return np.asarray(changed_level("shown", state.eta, model.sea_floor))


@pytest.mark.parametrize("ratio, error", [(2, 1e-14), (4, 1e-14), (8, 0.012)])
def test_the_volume_of_a_cell_is_the_sum_over_its_fine_cells_and_gives_the_level_back(ratio, error):
    """To 1 % of the range of the bed where the table has fewer lines than there are fine cells, and never more."""
    fine = np.random.default_rng(ratio).uniform(-1.0, 1.0, (8 * ratio, 10 * ratio))
    model = model_over(sw.topography(fine, GRID, subgrid=ratio))
    assert len(line_shares(ratio)) == min(ratio**2, 17)
    for level in (-0.9, -0.3, 0.4, 1.5):
        state = model.state(eta=level)
        lowest = of_cells(-fine, np.min, ratio)
        excess = model.depth + np.asarray(state.eta) - of_cells(np.maximum(level + fine, 0.0), np.mean, ratio)
        assert -error <= excess.min() and excess.max() <= 1e-14
        np.testing.assert_allclose(level_of(model, state), np.maximum(level, lowest), rtol=0, atol=1e-14)


def test_faces_have_the_area_and_the_conveyance_of_their_strips():
    model = model_over(sw.topography(FINE, GRID, subgrid=RATIO))

    @jit
    def sections(dynamics, state):
        flow = dynamics.prepare().flow(state, 0)
        levels = ((axis, 0.0 * velocity + 0.5) for axis, velocity in ((X, flow.u), (Y, flow.v)))
        return [[x.interior for x in flow.sections.of_water(axis, level, level)] for axis, level in levels]

    both = sections(model.dynamics(STEPPER), model.state(eta=0.5))
    for found, fine, turn in zip(both, (FINE, FINE.T), (np.asarray, np.transpose)):
        area, depth = (turn(np.asarray(x))[:, :-1] for x in found)
        sills = np.minimum(fine[:, RATIO - 1 : -1 : RATIO], fine[:, RATIO::RATIO])
        h = np.maximum(sills.reshape(-1, RATIO, sills.shape[1]) + 0.5, 0.0)
        conveyed = (h ** (5 / 3)).mean(axis=1)
        np.testing.assert_allclose(area, h.mean(axis=1), rtol=0, atol=1e-14)
        np.testing.assert_allclose(area * depth ** (2 / 3), conveyed, rtol=0, atol=1e-13)


def test_a_lake_over_any_bed_stays_at_rest_and_rain_on_it_is_kept_to_rounding():
    still, wet = model_of_rain(0.0), model_of_rain(50e-3 / hour)
    state = still.state(eta=0.0)
    dry = of_cells(np.maximum(FINE, 0.0), np.max) == 0.0
    assert 0 < np.count_nonzero(dry) < 20
    end = sw.Simulation(still, state, STEPPER).run(steps=50)
    assert max(np.abs(np.asarray(end[name])).max() for name in ("u", "v")) < 1e-12
    np.testing.assert_allclose(level_of(still, end)[~dry], 0.0, rtol=0, atol=1e-12)

    state = wet.state(eta=lambda x, y: 1.5 * np.exp(-((x - 400.0) ** 2) / 200.0**2) + 0.0 * y)
    simulation = sw.Simulation(wet, state, STEPPER)
    end = simulation.run(steps=300)
    water = wet.depth + np.asarray(end.eta)
    fallen = 50e-3 / hour * 600.0 * water.size
    assert water.min() >= 0 and np.abs(np.asarray(end.u)).max() > 0.1
    gained = water.sum() - (wet.depth + np.asarray(state.eta)).sum()
    assert gained == pytest.approx(fallen, abs=1e-12 * water.sum())
    np.testing.assert_allclose(np.asarray(simulation.shown().eta), level_of(wet, end), rtol=0, atol=1e-14)


def test_a_run_continues_bit_for_bit_from_its_restart_and_not_over_another_bed(tmp_path):
    state = model_of_rain(0.0).state(eta=lambda x, y: 1.0 + 0.001 * x + 0.0 * y)
    first = sw.Simulation(model_of_rain(0.0), state, STEPPER)
    first.restart(tmp_path / "restart.nc")
    first.run(steps=10)
    shutil.copy(tmp_path / "restart.nc", tmp_path / "middle.nc")
    end = first.run(steps=5)
    again = sw.Simulation(model_of_rain(0.0), state, STEPPER)
    again.resume(tmp_path / "middle.nc")
    for name, values in again.run(steps=5):
        np.testing.assert_array_equal(np.asarray(values), np.asarray(end[name]))
    mirrored = FINE.reshape(8, RATIO, 10, RATIO)[:, ::-1].reshape(FINE.shape)  # of the same mean depths
    other = sw.Simulation(
        model_over(sw.topography(mirrored, GRID, subgrid=RATIO), forcing=sw.Rain(0.0)), state, STEPPER
    )
    with pytest.raises(ConfigError, match="subgrid"):
        other.resume(tmp_path / "middle.nc")


@pytest.mark.verify  # two programs
def test_cells_with_an_even_bed_run_as_without_tables():
    depth = np.random.default_rng(6).uniform(-2.0, 3.0, SHAPE)
    even = np.kron(depth, np.ones((RATIO, RATIO)))
    ends = []
    for floor in (depth, sw.topography(even, GRID, subgrid=RATIO)):
        model = model_over(floor)
        state = model.state(eta=lambda x, y: 0.3 + 1.5 * np.exp(-((x - 400.0) ** 2) / 200.0**2) + 0.0 * y)
        ends.append(sw.Simulation(model, state, STEPPER).run(steps=60))
    for name, values in ends[0]:
        np.testing.assert_allclose(np.asarray(ends[1][name]), np.asarray(values), rtol=0, atol=1e-12)


@pytest.mark.verify  # the adjoint takes a minute to compile
@pytest.mark.parametrize("stepper", (STEPPER, sw.SSPRK3(2.0)), ids=("one stage", "three stages"))
def test_derivatives_pass_the_taylor_test_and_that_of_the_dot_product_also_by_the_tables(stepper):
    model = model_over(sw.topography(0.3 * FINE, GRID, subgrid=RATIO))
    state = model.state(eta=lambda x, y: 0.9 + 0.3 * np.sin(x / 230.0 + y / 170.0))
    dynamics = model.dynamics(stepper)
    along = [np.random.default_rng(k).uniform(-1.0, 1.0, SHAPE) for k in range(2)]
    covered = (model.depth + np.asarray(state.eta) > 0.05).astype(float)

    def cost(size):
        start = state.replace(eta=state.eta + size[0] * along[0] * covered)
        cells = tuple(x + size[1] * 0.1 * x for x in dynamics.subgrid.cells)
        tables = sw.fields.state.replace(dynamics.subgrid, cells=cells)
        end, _ = sw.integrate(sw.fields.state.replace(dynamics, subgrid=tables), stepper, start, 5)
        return jnp.sum(along[1] * end.eta) + jnp.sum(end.u * end.u)

    at, run = jnp.zeros(2), jit(cost)
    gradient = np.asarray(jit(jax.grad(cost))(at))
    assert np.abs(gradient).min() > 1e-3
    for k in range(2):
        step = np.eye(2)[k]
        slope = float(jit(lambda d: jax.jvp(cost, (at,), (d,))[1])(jnp.asarray(step)))
        assert slope == pytest.approx(gradient[k], rel=1e-12)
        first = float(run(at))
        left = [abs(float(run(at + size * step)) - first - size * slope) for size in (2e-5, 1e-5)]
        assert 3.5 < left[0] / left[1] < 4.5


EXPERIMENT = """\
grid = {type = "cartesian", nx = 10, ny = 8, x = [0, 1000], y = [0, 800]}
bathymetry = {type = "formula", depth = "1 - 2 * sin(x / 60) * cos(y / 50)", subgrid = 4}
stepper = {type = "forward_backward_hancock", dt = 2}
run = {until = 4}
[model]
momentum = "momentum_conserving"
wetting = {thin = "1 mm"}
"""


def test_an_experiment_file_names_the_ratio_and_is_told_what_is_wrong_with_it(tmp_path, monkeypatch, command):
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "valley.toml"
    path.write_text(EXPERIMENT)
    model = model_of(assemble(read(path)), "serial")
    x, y = (np.linspace(0.0, end, 4 * n + 1)[:-1] + end / (8 * n) for end, n in ((1000.0, 10), (800.0, 8)))
    fine = 1.0 - 2.0 * np.sin(x / 60.0) * np.cos(y[:, None] / 50.0)
    np.testing.assert_allclose(model.depth, of_cells(fine, np.mean, 4), rtol=1e-6)
    first = sw.Simulation(model, model.at_rest(), sw.ForwardBackwardHancock(0.1)).restart(tmp_path / "restart.nc")
    first.run(steps=1)
    path.write_text('initial = {type = "file", file = "restart.nc"}\n' + EXPERIMENT)
    made = assemble(read(path))
    with pytest.raises(DataError, match="levels over beds finer than the cells .* start from a record of fields"):
        made.experiment().initial.state(model)
    for change, why in (
        (("subgrid = 4", "subgrid = 1"), "1 is less than 2; give a whole number, 2 or more"),
        (("wetting", "# wetting"), "subgrid.*needs model.wetting"),
    ):
        path.write_text(EXPERIMENT.replace(*change))
        code, out, err = command("check", "valley.toml")
        assert code and re.search(why, err.replace("\n", " ")), err


def test_what_has_no_tables_refuses_them():
    floor = sw.topography(FINE, GRID, subgrid=RATIO)
    with pytest.raises(ConfigError, match="Gate reads the levels of cells with an even bed.*leave one out"):
        model_over(floor, forcing=sw.Gate((150.0, 150.0), (450.0, 450.0), 5.0, -1.0))
    with pytest.raises(ConfigError, match="subgrid = 2.5 is not a whole number; give .* 2 or more, at most 16"):
        sw.topography(FINE, GRID, subgrid=2.5)
    model = model_over(floor)
    with pytest.raises(ConfigError, match="finer than its cells.*leave subgrid out"):
        sw.Ensemble(model, [model.at_rest()])
    with pytest.raises(ConfigError, match="nested grids .* leave subgrid"):
        grid = sw.CartesianGrid(24, 24, (0.0, 2400.0), (0.0, 2400.0))
        uneven = sw.topography(lambda x, y: 1.0 + np.sin(x / 70.0) * np.cos(y / 50.0), grid, subgrid=2)
        sw.Family(grid, uneven, [sw.Nest("inner", (900.0, 1500.0), (900.0, 1500.0), 3)], **PARTS)


def test_a_flood_is_mapped_over_a_finer_bed(tmp_path):
    rasterio = pytest.importorskip("rasterio")
    x, y, at = 50.0 + 100.0 * np.arange(4), 50.0 + 100.0 * np.arange(3), ("yh", "xh")
    level = np.array([[1.0, 1.2, 1.4, 0.0]] * 3)  # a plane, and dry cells in the east
    fields = {"depth": -0.5 * np.ones((3, 4)), "maximum_elevation": level, "maximum_thickness": 0.2 * (level > 0)}
    coordinates = {"xh": ("xh", x, {"units": "m"}), "yh": ("yh", y, {"units": "m"})}
    data = {name: (at, values, {"units": "m"}) for name, values in fields.items()} | {"wet": (at, np.ones((3, 4)))}
    xr.Dataset(data, coordinates).to_netcdf(tmp_path / "maxima.nc")
    fine_x, fine_y = 12.5 + 25.0 * np.arange(16), 12.5 + 25.0 * np.arange(12)
    ground = np.where(fine_y[:, None] < 150.0, 0.6, 1.3) + 0.0 * fine_x
    bed = xr.Dataset(
        {"elevation": (("y", "x"), ground + 2.0, {"units": "m", "positive": "up"})},
        {"x": ("x", fine_x, {"units": "m"}), "y": ("y", fine_y, {"units": "m"})},
    )
    bed.to_netcdf(tmp_path / "bed.nc")
    export(tmp_path / "maxima.nc", tmp_path / "flood.tif", bed=tmp_path / "bed.nc", datum=2.0)
    with rasterio.open(tmp_path / "flood.tif") as file:
        depth = np.nan_to_num(file.read(1)[::-1])
        assert (file.bounds.left, file.bounds.top, file.width) == (0.0, 300.0, 16)
    surface = np.clip(1.0 + 0.002 * (fine_x - 50.0), 1.0, 1.4)
    np.testing.assert_allclose(depth, np.maximum(surface - ground, 0.0) * (fine_x < 300.0), atol=1e-6)


def test_volume_and_energy_of_a_lake_are_those_of_its_fine_cells():
    model = model_over(sw.topography(FINE, GRID, subgrid=RATIO))
    rest = model.state(eta=0.0)
    assert sw.volume(model, rest) == pytest.approx(0.0, abs=1e-6) == sw.energy(model, rest)
    for level in (-0.8, 0.7):
        state = model.state(eta=level)
        area = 1e4 / RATIO**2
        water = np.maximum(level + FINE, 0.0) - np.maximum(FINE, 0.0)
        assert sw.volume(model, state) == pytest.approx(area * water.sum())
        top = np.maximum(level, -FINE)
        lowest = np.kron(of_cells(-FINE, np.min), np.ones((RATIO, RATIO)))
        energy = 0.5 * (np.maximum(top, lowest) ** 2 - np.maximum(-FINE, 0.0) ** 2)
        assert sw.energy(model, state, 1e3) == pytest.approx(1e3 * model.gravity * area * energy.sum())


@pytest.fixture(scope="module")
def lake(tmp_path_factory):
    """The folder of the files of a lake at rest over the fine bed, with gauges at two fine cells of one cell."""
    folder = tmp_path_factory.mktemp("lake")
    model = model_of_rain(0.0)
    made = sw.Simulation(model, model.state(eta=0.0), STEPPER)
    made.write(folder / "fields.nc", ("eta", "u", "v"), every=4.0).maxima(folder / "maxima.nc", threshold=0.05)
    made.extremes(folder / "extremes.nc", threshold=0.05).gauges(folder / "gauges.nc", PLACES).run(steps=4)
    return folder


def in_fine_cell(row, column):
    return (column + 0.5) * 100.0 / RATIO, (row + 0.5) * 100.0 / RATIO


LAND, SEA = (list(map(int, np.argwhere(FINE == at)[0])) for at in (FINE[4:20, 4:20].min(), FINE[4:20, 4:20].max()))
PLACES = {"land": in_fine_cell(*LAND), "sea": in_fine_cell(*SEA)}


def test_no_wave_arrives_in_a_lake_at_rest(lake):
    for name, variable in (("maxima.nc", "arrival_time"), ("extremes.nc", "time_over_threshold")):
        with open_output(lake / name) as file:
            assert not np.nan_to_num(file[variable].values).any()


def test_files_of_levels_hold_the_water_too(lake):
    with open_output(lake / "fields.nc") as file:
        assert file.attrs["subgrid"] == RATIO
        sums = budgets(file, 9.81)
        np.testing.assert_allclose(sums.volume, 1e4 / RATIO**2 * np.maximum(FINE, 0.0).sum(), rtol=1e-6)
        assert "potential_energy" not in sums


def test_the_depth_of_a_gauge_is_that_of_its_fine_cell(lake):
    with open_output(lake / "gauges.nc") as file:
        np.testing.assert_allclose(file.depth.values, [FINE[tuple(LAND)], FINE[tuple(SEA)]])
        land, sea = read_gauges(file)
    assert land.ground == pytest.approx(-FINE[tuple(LAND)]) and not land.value.any()
    np.testing.assert_allclose(sea.value, 0.0, atol=1e-12)


def test_depths_of_marks_count_from_the_finer_bed_as_in_the_misfit(lake, tmp_path):
    """Both take the fine cell next to the mark: one 0.4 m under water, and the land beside it, which stays dry."""
    x, y = ((np.arange(n) + 0.5) * 100.0 / RATIO for n in FINE.shape[::-1])
    axes = {"x": ("x", x, {"units": "m"}), "y": ("y", y, {"units": "m"})}
    heights = {"elevation": (("y", "x"), 2.0 - FINE, {"units": "m", "positive": "up"})}
    xr.Dataset(heights, axes).to_netcdf(tmp_path / "bed.nc")
    rows = [f"{name},{x},{y},0.4" for name, (x, y) in PLACES.items()]
    (tmp_path / "marks.csv").write_text("\n".join(["name,x,y,depth_m", *rows]))
    files = lake / "maxima.nc", tmp_path / "marks.csv"
    with pytest.raises(PlotError, match="cells of .* have beds finer than they are.*--bed"):
        marks(*files)
    land, sea = marks(*files, bed=tmp_path / "bed.nc", datum=2.0).marks
    assert np.isnan(land.modelled) and sea.modelled == pytest.approx(FINE[tuple(SEA)], abs=1e-6)
    misfit, _ = marks_in_water(marks_in(tmp_path / "marks.csv", 0.1), model_of_rain(0.0))
    levels = [mark.height for mark in misfit.values()]
    np.testing.assert_allclose(levels, [0.4 - FINE[tuple(LAND)], 0.4 - FINE[tuple(SEA)]])
    (tmp_path / "marks.csv").write_text("name,x,y,depth_m\nbeyond,999.9,799.9,1")
    xr.Dataset(heights, axes).isel(x=slice(0, 20)).to_netcdf(tmp_path / "part.nc")
    with pytest.raises(PlotError, match="has no height next to 1 of 1 marks; give a bed that holds them"):
        marks(*files, bed=tmp_path / "part.nc")


def test_a_flow_depth_over_a_finer_bed_that_moves_is_0_where_the_cell_is_dry(lake):
    with open_output(lake / "gauges.nc") as file:
        for thickness, depth in ((0.0, 0.0), (0.5, 1.25)):
            data = file.load().assign(thickness=(file.eta.dims, np.full(file.eta.shape, thickness)))
            level = 1.25 - float(file.depth[0])
            land, _ = read_gauges(data.assign(eta=file.eta * 0 + level))
            np.testing.assert_allclose(land.value, depth)
