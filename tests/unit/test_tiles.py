"""No rank holds or reads the whole grid: bytes of one tile of 10,000, and windows that equal the whole."""

import tracemalloc

import dask.array  # noqa: F401  and xarray's: the memory of modules is not counted
import jax
import jax.numpy as jnp
import netCDF4
import numpy as np
import pytest
import xarray.backends  # noqa: F401

import swmodel as sw
from swmodel import adjoint
from swmodel.adjoint.examination import moving_state
from swmodel.cli.starting import model_and_state
from swmodel.config import Override, read
from swmodel.config.assembly import assemble
from swmodel.dynamics.terms import Series
from swmodel.grids.bathymetry import depth_on, elevation_on
from swmodel.grids.regrid import field_records, read_field_onto
from swmodel.grids.remapping import Remapping
from swmodel.grids.water import bodies, label_bodies
from swmodel.grids.windows import Formula, GridRecords, GridValues, Stored, TileRecords
from swmodel.models.ensemble import _same
from swmodel.output.zarr_store import ZarrStore
from swmodel.parallel import OneTileCommunicator
from swmodel.parallel.decomposition import Decomposition
from swmodel.performance.timing import Program
from swmodel.stepping.stability import limits
from tests.gridded import write_axes
from tests.stacked import AllTiles

NX, NY, LAYOUT, RANK = 43_200, 21_600, (100, 100), 4321
CELLS = NX // LAYOUT[1] * (NY // LAYOUT[0])  # of a tile: 93,312
BYTES = 8 * CELLS

EXPERIMENT = """\
grid = {type = "spherical", nx = 43200, ny = 21600, longitude = [-180.0, 180.0], latitude = [-85.0, 85.0]}
bathymetry = {type = "file", file = "depth.nc"}
coriolis = {type = "rotating_sphere"}
model = {precision = "float64"}
initial = {type = "formula", eta = "0.1 * exp(-((longitude - 30) / 10)^2 - (latitude / 10)^2)"}
stepper = {type = "ab2"}
run = {until = "1 h"}
dissipation = [{type = "linear_drag", rate = 1e-6}]
forcing = [{type = "wind_file", file = "wind.nc"}]
boundary = [{type = "sponge", sides = ["south", "north"], width = "300 km", rate = 1e-4}]
[output.gauges.positions]
here = [-150.0, 0.0]
"""


def bathymetry_file(path, nx=10_800, ny=5_400, chunk=540):
    """Elevations of 2 arc-minutes, most of which no chunk holds: they have the default, 3276.7 m of depth."""
    with netCDF4.Dataset(path, "w") as file:
        lat, lon = (first + 360.0 / nx * (np.arange(n) + 0.5) for first, n in ((-90.0, ny), (-180.0, nx)))
        write_axes(file, {"lat": ("degrees_north", lat), "lon": ("degrees_east", lon)})
        z = file.createVariable("elevation", "i2", ("lat", "lon"), chunksizes=(chunk, chunk), zlib=True)
        z.scale_factor, z.units = 0.1, "m"
        z[2700:2760, 5400:5500] = -5000


def wind_file(path):
    lon, lat, times = np.arange(-180.0, 181.0, 2.5), np.arange(-90.0, 91.0, 2.5), np.arange(0.0, 7201.0, 600.0)
    with netCDF4.Dataset(path, "w") as file:
        write_axes(file, {"time": ("s", times), "lat": ("degrees_north", lat), "lon": ("degrees_east", lon)})
        for name in ("u10", "v10"):
            wind = file.createVariable(name, "f4", ("time", "lat", "lon"))
            wind.units = "m s-1"
            wind[:] = 5.0 + np.cos(np.deg2rad(lat))[:, None] * np.ones((times.size, 1, lon.size))


@pytest.fixture(scope="module")
def experiment(tmp_path_factory):
    folder = tmp_path_factory.mktemp("globe")
    bathymetry_file(folder / "depth.nc")
    wind_file(folder / "wind.nc")
    path = folder / "globe.toml"
    path.write_text(EXPERIMENT)
    return path


@pytest.fixture
def count(monkeypatch):
    """{"read": bytes that are read from files}."""
    counted, original = {"read": 0}, Remapping.read

    def counting(self, field, rows=None):
        values = original(self, field, rows)
        counted["read"] += values.nbytes
        return values

    monkeypatch.setattr(Remapping, "read", counting)
    return counted


def peak_of(function):
    """(what a function returns, the peak of host memory in it [bytes]); device arrays that stay count as well."""
    tracemalloc.start()
    before = {id(x) for x in jax.live_arrays()}
    result = function()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return result, peak + sum(x.nbytes for x in jax.live_arrays() if id(x) not in before)


@pytest.mark.verify
def test_a_rank_of_10000_sets_up_with_the_memory_and_the_bytes_of_its_tile(experiment, count, monkeypatch):
    """Model, state, forcing and time step of one tile of 30 arc-seconds; the whole grid is 10,000 times as large."""
    monkeypatch.setattr("swmodel.runtime.launchers.launched_ranks", lambda: 10_000)

    def set_up():
        made = assemble(read(str(experiment), []), 10_000)
        model, state = model_and_state(made, made.experiment(), OneTileCommunicator(LAYOUT, RANK), LAYOUT, "arrays")
        return model, state, limits(model, sw.AB2(1.0), state)

    (model, state, found), peak = peak_of(set_up)
    assert state.eta.shape == (216, 432) and found
    assert peak < 60 * BYTES, peak / BYTES
    assert count["read"] < 4 * BYTES, count["read"] / BYTES
    before = count["read"]
    _, peak = peak_of(lambda: model.interval(2, 0, 10.0))
    assert peak < 30 * BYTES and count["read"] - before < BYTES, (peak / BYTES, (count["read"] - before) / BYTES)


@pytest.mark.verify
def test_a_step_a_snapshot_and_a_restart_of_a_rank_of_10000_take_the_memory_of_its_tile(
    experiment, tmp_path, monkeypatch
):
    monkeypatch.setattr("swmodel.runtime.launchers.launched_ranks", lambda: 10_000)
    made = assemble(read(str(experiment), []), 10_000)
    model, state = model_and_state(made, made.experiment(), OneTileCommunicator(LAYOUT, RANK), LAYOUT, "arrays")

    def run():
        simulation = sw.Simulation(model, state, sw.AB2(0.5)).write(tmp_path / "fields.zarr", ("eta", "u"), every=0.5)
        return simulation.restart(tmp_path / "restart.zarr").run(steps=1)

    def resume():
        simulation = sw.Simulation(model, state, sw.AB2(0.5))
        simulation.resume(tmp_path / "restart.zarr")
        return simulation.state

    last, peak = peak_of(run)
    assert peak < 40 * BYTES, peak / BYTES
    assert Program(model, state, sw.AB2(0.5), 1).memory().arrays < 30  # with the temporaries of the compiled program
    original, read_from_chunks = ZarrStore.read_chunk, []

    def counting(self, name, array, index):
        values = original(self, name, array, index)
        read_from_chunks.append(values.nbytes)
        return values

    monkeypatch.setattr(ZarrStore, "read_chunk", counting)
    found, peak = peak_of(resume)
    assert peak < 20 * BYTES, peak / BYTES
    assert 0 < sum(read_from_chunks) < 20 * BYTES, sum(read_from_chunks) / BYTES
    np.testing.assert_array_equal(found.eta, last.eta)
    chunks = [path for path in (tmp_path / "fields.zarr" / "eta" / "c").rglob("*") if path.is_file()]
    assert sorted(str(path.relative_to(tmp_path)) for path in chunks) == [
        f"fields.zarr/eta/c/{k}/{RANK // 100}/{RANK % 100}" for k in (0, 1)
    ]
    assert sum(path.stat().st_size for path in (tmp_path / "fields.zarr").rglob("*")) < 4 * BYTES


@pytest.mark.verify
def test_a_gradient_of_a_rank_of_10000_takes_the_memory_of_its_tile(experiment, monkeypatch):
    """With respect to the first state, the depth and a number."""
    monkeypatch.setattr("swmodel.runtime.launchers.launched_ranks", lambda: 10_000)
    made = assemble(read(str(experiment), []), 10_000)
    model, state = model_and_state(made, made.experiment(), OneTileCommunicator(LAYOUT, RANK), LAYOUT, "arrays")

    def gradient():
        cost = adjoint.FinalState(lambda final, equations: equations.communicator.sum(jnp.sum(final.eta**2)))
        controls = ["initial.eta", "depth", "dissipation.0.rate"]
        problem = adjoint.Problem(model, sw.AB2(0.5), state, 2, cost, controls)
        return problem.needs, problem.value_and_gradient(problem.values)[1]

    (needs, found), peak = peak_of(gradient)
    assert float(np.abs(found["initial.eta"]).max()) > 0 and float(np.abs(found["depth"]).max()) > 0
    assert peak < 80 * BYTES, peak / BYTES
    assert needs.base < 70 * BYTES and needs.step < 4 * BYTES, needs  # with the temporaries of compiled programs


@pytest.mark.verify
def test_the_state_that_a_verification_starts_from_takes_the_memory_of_its_tile(experiment, monkeypatch):
    monkeypatch.setattr("swmodel.runtime.launchers.launched_ranks", lambda: 10_000)
    draft = read(str(experiment), [Override("--set", ("initial",), {"type": "rest"})])
    made = assemble(draft, 10_000)
    model, state = model_and_state(made, made.experiment(), OneTileCommunicator(LAYOUT, RANK), LAYOUT, "arrays")
    moving, peak = peak_of(lambda: moving_state(model, state))
    assert float(np.abs(moving.u).max()) > 0 and peak < 30 * BYTES, peak / BYTES


@pytest.mark.verify
def test_check_of_a_grid_of_30_arc_seconds_looks_at_some_tiles(experiment, count, capsys):
    from swmodel.cli.checks import check_experiment

    _, peak = peak_of(lambda: check_experiment(str(experiment), [], 10_000))
    text = capsys.readouterr().out
    assert "9 of 10,000 tiles were examined" in text and "no mistakes found" in text
    assert peak < 300 * BYTES and count["read"] < 40 * BYTES, (peak / BYTES, count["read"] / BYTES)


@pytest.mark.verify
def test_check_of_implicit_steps_on_a_grid_of_30_arc_seconds_takes_no_whole_grid(experiment, capsys):
    from swmodel.cli.checks import check_experiment

    implicit = Override("--set", ("stepper",), {"type": "semi_implicit", "dt": 60})
    check_experiment(str(experiment), [implicit], 10_000)
    assert "9 of 10,000 tiles were examined" in capsys.readouterr().out


# -- windows equal the whole -------------------------------------------------------------------------------------------


def test_windows_of_a_file_have_the_bits_of_the_whole(tmp_path, monkeypatch):
    """Averages of a file and interpolated records, tile by tile, across the seam of the file and in blocks of rows."""
    monkeypatch.setattr("swmodel.grids.remapping.ROWS_AT_ONCE", 7 * 90)
    rng = np.random.default_rng(0)
    with netCDF4.Dataset(tmp_path / "file.nc", "w") as file:
        for name, n, first in (("lat", 45, -88.0), ("lon", 90, 2.0)):
            file.createDimension(name, n)
            file.createVariable(name, "f8", name)[:] = first + 4.0 * np.arange(n)
        file.createVariable("elevation", "f4", ("lat", "lon"))[:] = 1000.0 * rng.standard_normal((45, 90)) - 500.0
    grid = sw.SphericalGrid(23, 17, (-100.0, 130.0), (-60.0, 70.0))
    tiles = [Decomposition(grid.shape, (3, 4)).tile(rank) for rank in range(12)]
    for method in ("average", "interpolate"):
        whole = elevation_on(tmp_path / "file.nc", grid, method)
        depth, wet = np.asarray(whole.depth), np.asarray(whole.wet)
        for tile in tiles:
            part = elevation_on(tmp_path / "file.nc", grid, method)
            np.testing.assert_array_equal(part.depth.block(*tile.slices), depth[tile.slices])
            np.testing.assert_array_equal(part.wet.block(*tile.slices), wet[tile.slices])
    values = read_field_onto(tmp_path / "file.nc", "elevation", grid, "u").values[0]
    records = field_records(tmp_path / "file.nc", "elevation", grid, "u").values
    for tile in tiles:
        np.testing.assert_array_equal(records[0].block(*tile.slices), values[tile.slices])


class Summed(OneTileCommunicator):
    """A tile whose sums are those of all tiles, once each of them has been asked."""

    parts: dict[int, np.ndarray] = {}

    def host_sum(self, array):
        self.parts[self.rank] = array
        return sum(self.parts.values()) if len(self.parts) == self.size else array


@pytest.mark.parametrize("coriolis", (None, sw.RotatingSphere()))
def test_a_verification_starts_from_the_same_state_on_any_tiles(coriolis, monkeypatch):
    """A field that is smooth over much of the domain, and its velocities, across the seams of tiles."""
    monkeypatch.setattr(Summed, "parts", {})
    grid = sw.SphericalGrid(24, 18, (0.0, 360.0), (-40.0, 50.0))
    depth = lambda x, y: np.where(np.hypot(x - 100.0, y) < 30.0, 0.0, 3000.0)  # noqa: E731
    whole = sw.ShallowWater(grid, depth, coriolis=coriolis, communicator="serial", engine="arrays")
    expected, parts = moving_state(whole, whole.at_rest(), seed=3), Decomposition(grid.shape, (2, 3))
    for rank in (*range(6), *range(6)):  # first to collect the sums
        ocean = sw.ShallowWater(grid, depth, coriolis=coriolis, communicator=Summed((2, 3), rank), engine="arrays")
        found = moving_state(ocean, ocean.at_rest(), seed=3)
        if len(Summed.parts) == 6:
            for name in ("u", "v", "eta"):
                wanted = expected[name][parts.tile(rank).slices]
                np.testing.assert_allclose(found[name], wanted, rtol=1e-10, atol=1e-14)
    speed = np.sqrt(np.mean(np.asarray(expected.u) ** 2 + np.asarray(expected.v) ** 2))
    assert 1e-3 < speed < 1.0 and not np.asarray(expected.u)[np.asarray(whole.faces("u")) == 0].any()


@pytest.mark.parametrize("modes", [("wrap", "edge"), (0, ("edge", 7.0)), ("edge", "wrap")])
def test_a_tile_of_a_formula_has_the_halo_of_an_array(modes):
    grid = sw.CartesianGrid(13, 11, (0.0, 13.0), (0.0, 11.0))
    formula = Formula(lambda x, y: np.sin(x) * y, grid, "u")
    whole, decomposition = np.asarray(formula), Decomposition(grid.shape, (2, 3))
    for tile in map(decomposition.tile, range(6)):
        np.testing.assert_array_equal(tile.cut(formula, 2, *modes), tile.cut(whole, 2, *modes))


@pytest.mark.parametrize("periodic", ("", "x", "xy"))
@pytest.mark.parametrize("layout", ((1, 1), (3, 2), (4, 5)))
def test_water_bodies_of_tiles_are_those_of_the_whole(periodic, layout):
    grid = sw.CartesianGrid(19, 14, (0.0, 19.0), (0.0, 14.0), periodic)
    for seed in range(6):
        wet = np.random.default_rng(seed).random(grid.shape) < 0.6
        found, whole = label_bodies(Stored(wet, grid.shape), grid, AllTiles(layout)), bodies(wet, grid)
        parts = Decomposition(grid.shape, layout)
        for rank, numbers in found.tiles.items():
            np.testing.assert_array_equal(numbers, whole[parts.tile(rank).slices])
        np.testing.assert_array_equal(found.cells, np.bincount(whole.ravel())[1:])
        for k, edge in enumerate((whole[:, 0], whole[:, -1], whole[0], whole[-1])):
            assert set(np.flatnonzero(found.touches[:, k]) + 1) == set(edge) - {0}


@pytest.mark.parametrize("periodic", ("", "x", "xy"))
def test_lakes_straits_and_channels_of_tiles_are_those_of_the_whole(periodic):
    grid = sw.CartesianGrid(19, 14, (0.0, 19.0), (0.0, 14.0), periodic)
    for seed in range(4):
        random = np.random.default_rng(seed)
        depth = np.where(random.random(grid.shape) < 0.6, 100.0 * random.random(grid.shape), 0.0)
        whole = depth_on(depth, grid, minimum_depth=5.0, fill_lakes=True).surveyed(AllTiles((1, 1)))
        cut = depth_on(depth, grid, minimum_depth=5.0, fill_lakes=True).surveyed(AllTiles((3, 4)))
        assert whole.report == cut.report and len(whole.report) >= 3
        np.testing.assert_array_equal(np.asarray(whole.depth), np.asarray(cut.depth))
        np.testing.assert_array_equal(np.asarray(whole.wet), np.asarray(cut.wet))
        assert bodies(np.asarray(cut.wet), grid).max() == 1
        model = sw.ShallowWater(grid, cut, communicator="serial", engine="arrays")
        assert model.sea_floor.report == cut.report and any("filled" in line for line in cut.report)


def test_one_process_fails_on_all_ranks_where_a_value_of_one_tile_is_refused():
    """`Domain.together` raises what any rank has raised."""
    from swmodel.dynamics.domain import Domain

    class Two(OneTileCommunicator):
        def host_gather(self, value):
            return [value, ValueError("of the other rank")]

    grid = sw.CartesianGrid(8, 6, (0.0, 8.0), (0.0, 6.0))
    with pytest.raises(ValueError, match="of the other rank"):
        Domain(grid, Two((1, 2), 0), np.dtype(float)).together(lambda: 1)


def test_functions_of_a_model_are_evaluated_once():
    """Depth, masks and statistics look at the same window again and again."""
    counts = {"depth": 0, "stress": 0}

    def counted(name):
        def function(x, y):
            counts[name] += 1
            return 100.0 + 0.0 * (x + y)

        return function

    grid = sw.CartesianGrid(8, 6, (0.0, 8e3), (0.0, 6e3))
    wind = sw.WindStress(x=counted("stress"))
    model = sw.ShallowWater(grid, counted("depth"), forcing=(wind,), communicator="serial", engine="arrays")
    sw.Simulation(model, model.at_rest(), sw.SemiImplicit(10.0))
    assert counts == {"depth": 1, "stress": 1} and model.sea_floor.wet_cells == 48


def test_records_of_a_file_are_not_read_to_compare_members():
    class Unread(GridValues):
        shape = (6, 8)

        def block(self, rows, columns):
            raise AssertionError("a record was read")

    records = GridRecords([Unread(), Unread()])
    one, other = (Series(np.arange(2.0), {0: TileRecords(records, np.asarray)}) for _ in range(2))
    assert _same(one, other)
    assert not _same(one, Series(np.arange(2.0), {0: TileRecords(GridRecords([Unread(), Unread()]), np.asarray)}))
