"""The zonal filter near the poles: its factors, its adjoint, what it conserves, the time step, and what it refuses."""

import numpy as np
import pytest

import swmodel as sw
from swmodel.errors import ConfigError
from swmodel.parallel import SerialCommunicator, make_communicator
from swmodel.runtime.compilation import jit
from tests.selection import later

NX, NY, LATITUDE = 18, 10, 50.0
LAYOUTS = (None, later((1, 3)), (2, 3), later((3, 1)))


def model_of(layout=None, depth=1000.0, grid=None, **options):
    grid = grid or sw.SphericalGrid(NX, NY, (0.0, 360.0), (-90.0, 90.0))
    communicator = SerialCommunicator() if layout is None else make_communicator("sharded", grid.shape, layout)
    core = sw.FilteredDifferences(LATITUDE)
    return sw.ShallowWater(grid, depth, coriolis=sw.RotatingSphere(), core=core, communicator=communicator, **options)


def random_fields(seed, number=3):
    return [np.random.default_rng(seed + k).standard_normal((NY, NX)) for k in range(number)]


def filtered(model, fields):
    """F of u, v, eta, arrays of the whole grid."""

    def program(dynamics, arrays):
        return dynamics.prepare().core.filtered(arrays, ["u", "v", "h"])

    placed = [model.domain.cut(field) for field in fields]
    found = jit(model.communicator.spmd(program))(model.interval(2, 0, 100.0), placed)
    return [np.asarray(model.gather(x)) for x in found]


def test_each_mode_of_a_row_is_multiplied_by_its_factor_and_others_are_left_as_they_are():
    model, fields = model_of(), random_fields(1)
    m, found = np.arange(NX // 2 + 1), filtered(model, random_fields(1))
    for position, before, after in zip("uvh", fields, found):
        latitudes = np.deg2rad(model.grid.y_edges[1:] if position == "v" else model.grid.y_centres)
        for row, latitude in enumerate(latitudes):
            with np.errstate(divide="ignore"):
                factor = np.cos(latitude) / np.cos(np.deg2rad(LATITUDE)) / np.sin(np.pi * m / NX)
            factor = np.minimum(factor, 1.0) if abs(latitude) > np.deg2rad(LATITUDE) else np.ones(m.size)
            np.testing.assert_allclose(after[row], np.fft.irfft(factor * np.fft.rfft(before[row]), NX), atol=1e-12)
            assert (abs(latitude) > np.deg2rad(LATITUDE)) or (after[row] == before[row]).all()


@pytest.mark.parametrize("layout", LAYOUTS, ids=str)
def test_the_filter_is_self_adjoint_and_the_same_on_any_tiles(layout):
    x, y = random_fields(1), random_fields(11)
    fx, fy = (filtered(model_of(layout), fields) for fields in (x, y))
    dot = lambda a, b: sum(float(np.vdot(p, q)) for p, q in zip(a, b))  # noqa: E731
    assert dot(fx, y) == pytest.approx(dot(x, fy), rel=1e-12)
    assert dot(fx, x) > 0
    for one, other in zip(fx, filtered(model_of(), x)):
        np.testing.assert_allclose(one, other, rtol=0, atol=1e-13)


@pytest.fixture(scope="module")
def noise():
    """(the model, a state of noise, the state 200 steps of 0.95 of the limit later)."""
    model = model_of()
    u, v, eta = random_fields(3)
    state = model.state(u=0.01 * u, v=0.01 * v, eta=eta)
    dt = 0.95 * sw.largest_time_step(model, sw.RK4(1.0), state)
    return model, state, sw.Simulation(model, state, sw.RK4(dt)).run(steps=200)


def test_steps_of_mid_latitudes_are_stable_and_keep_mass(noise):
    model, state, final = noise
    plain = sw.ShallowWater(model.grid, 1000.0, coriolis=sw.RotatingSphere(), communicator="serial")
    ratio = sw.largest_time_step(model, sw.RK4(1.0)) / sw.largest_time_step(plain, sw.RK4(1.0))
    assert ratio > 2.0
    assert np.abs(np.asarray(final.eta)).max() < 2 * np.abs(np.asarray(state.eta)).max()
    assert sw.energy(model, final) < sw.energy(model, state)  # RK4 damps short waves
    assert sw.volume(model, final) == pytest.approx(sw.volume(model, state), rel=1e-13)
    with pytest.raises(ConfigError, match="over the limit"):
        sw.Simulation(plain, plain.at_rest(), sw.RK4(0.95 * sw.largest_time_step(model, sw.RK4(1.0))))


@pytest.mark.parametrize("term, power", ((sw.Laplacian, 2), later(sw.Biharmonic, 4)))
def test_the_limit_of_viscosity_takes_the_filter_into_account(term, power):
    """Of viscosity alone: the noise decays in steps of 0.95 of the limit."""
    grid = model_of().grid
    spacing = float(np.asarray(grid.metrics(np.arange(grid.ny))["dy_h"]).min())
    viscosity = (term(spacing**power / 500.0),)
    options = {"coriolis": None, "gravity": 1e-9, "dissipation": viscosity, "communicator": "serial"}
    model = sw.ShallowWater(grid, 1000.0, core=sw.FilteredDifferences(60.0), **options)
    plain = sw.ShallowWater(grid, 1000.0, **options)
    longest = sw.largest_time_step(model, sw.RK4(1.0))
    assert longest > 2.0 * sw.largest_time_step(plain, sw.RK4(1.0))
    u, v, _ = random_fields(5)
    state = model.state(u=1e-3 * u, v=1e-3 * v)
    final = sw.Simulation(model, state, sw.RK4(0.95 * longest)).run(steps=100)
    assert float(np.abs(final.u).max()) < float(np.abs(state.u).max())


def test_coasts_across_a_filtered_row_and_planes_are_refused():
    depth = np.full((NY, NX), 1000.0)
    depth[0] = 0.0  # a whole row of land is none
    depth[4, 3:6] = 0.0  # nor is land nearer the equator
    model_of(depth=depth)
    depth[-1, 3:6] = 0.0
    with pytest.raises(ConfigError, match="a coast interrupts the parallel of 81 degrees; give a latitude of more"):
        model_of(depth=depth)
    for grid in (sw.CartesianGrid(8, 8, (0.0, 1e5), (0.0, 1e5)), sw.SphericalGrid(8, 8, (0.0, 90.0), (40.0, 80.0))):
        with pytest.raises(ConfigError, match="whole parallels"):
            sw.ShallowWater(grid, 100.0, core=sw.FilteredDifferences())
    with pytest.raises(ValueError, match="latitude"):
        sw.FilteredDifferences(95.0)
    with pytest.raises(ConfigError, match="this run needs their parts"):
        model = model_of()
        sw.Simulation(model, model.at_rest(), sw.ForwardBackward(100.0)).run(steps=1)
    with pytest.raises(ValueError, match="FilteredDifferences has none"):
        model_of(engine="fused")


EXPERIMENT = """\
grid = {type = "spherical", nx = 18, ny = 10, longitude = [0.0, 360.0], latitude = [-90.0, 90.0]}
bathymetry = {type = "flat", depth = 1000.0}
coriolis = {type = "rotating_sphere"}
stepper = {type = "rk4"}
initial = {type = "gaussian", centre = [90.0, 80.0], radius = 1e6, amplitude = 1.0}
run = {until = 3600.0}
[model]
core = "filtered_differences"
polar_filter.latitude = 50.0
"""


def test_an_experiment_file_has_the_filter_and_what_does_not_fit_it_is_named(tmp_path):
    from swmodel.config import read
    from swmodel.config.assembly import assemble
    from swmodel.config.assembly import model_of as model_in

    file = tmp_path / "globe.toml"
    file.write_text(EXPERIMENT)
    assert model_in(assemble(read(str(file)))).core.latitude == 50.0
    file.write_text(EXPERIMENT.replace('stepper = {type = "rk4"}\n', ""))
    assert assemble(read(str(file))).experiment().stepper.type == "rk4"
    for old, new, message in (
        ("rk4", "forward_backward", "needs parts of a tendency"),
        ("until = 3600.0", 'until = 3600.0, engine = "fused"', "'filtered_differences' has none"),
        ("latitude = 50.0", "latitude = 90.0", "less than 90"),
    ):
        file.write_text(EXPERIMENT.replace(old, new))
        with pytest.raises(ConfigError, match=message):
            assemble(read(str(file))).experiment()
