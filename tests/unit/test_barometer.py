"""The inverse barometer at open sides: a sea in balance stays so, and derivatives in a track include the sides."""

import jax
import numpy as np
import pytest

import swmodel as sw
from swmodel.adjoint import FinalState, Problem, names_of
from swmodel.adjoint.verification import verify
from swmodel.config.assembly import assemble, model_of
from swmodel.config.experiment import read_text
from swmodel.defaults import WATER_DENSITY
from swmodel.errors import ConfigError
from swmodel.forcing.atmosphere import STANDARD_PRESSURE
from swmodel.forcing.tides import Harmonics
from swmodel.forcing.waves import Sech, Table
from tests.selection import later

GRID = sw.CartesianGrid(12, 10, (0.0, 6e5), (0.0, 5e5))
COST = FinalState(lambda state, equations: (state.eta * state.eta + state.u * state.u).sum())


def pressure(x, y):
    return STANDARD_PRESSURE - 5000.0 * np.exp(-((x - 1e5) ** 2 + (y - 2e5) ** 2) / 2e5**2)


def balanced(x, y):
    return sw.inverse_barometer(pressure(x, y))


def cyclone():
    return sw.Cyclone((0.0, 3600.0), x=(1e5, 2e5), y=(0.0, 1e5), central_pressure=(95e3, 94e3), radius=8e4)


@pytest.mark.parametrize(
    "boundary, others, engine", [(sw.Flather, (), "fused"), later(sw.Clamped, (sw.SelfAttraction(0.1),), "arrays")]
)
def test_a_sea_in_balance_with_the_pressure_stays_at_rest_through_open_sides(boundary, others, engine):
    """Also with self-attraction: the air loads as much as the water that it displaces."""
    sides, forcing = boundary(("west", "south", "east"), elevation=sw.InverseBarometer()), sw.AirPressure(pressure)
    model = sw.ShallowWater(GRID, 100.0, forcing=(forcing, *others), boundaries=(sides,), engine=engine)
    state = sw.Simulation(model, model.state(eta=balanced), sw.ForwardBackward(300.0)).run(steps=20)
    assert np.abs(state.u).max() < 1e-11 and np.abs(state.v).max() < 1e-11
    x, y = GRID.coordinates("h")
    np.testing.assert_allclose(state.eta, balanced(x, y), atol=1e-11)


@pytest.mark.verify
def test_derivatives_in_the_track_pass_dot_product_and_taylor_tests():
    sides = sw.Flather(("west", "south"), elevation=sw.InverseBarometer())
    model = sw.ShallowWater(GRID, 100.0, forcing=(cyclone(),), boundaries=(sides,), engine="arrays")
    controls = ["forcing.0.x", "forcing.0.central_pressure"]
    verdicts = verify(Problem(model, sw.ForwardBackward(300.0), model.at_rest(), 5, COST, controls), second=False)
    assert verdicts and not [str(verdict) for verdict in verdicts if not verdict.passed]


def departure(x, y):
    return pressure(x, y) - STANDARD_PRESSURE


RECORDS = sw.Records([0.0, 7200.0], np.full((2, *GRID.shape), -500.0))
M2 = sw.Tide({"M2": (50.0, 30.0)})


@pytest.mark.parametrize(
    "condition, given", [*((sw.Flather, given) for given in (departure, -500.0, RECORDS, M2)), (sw.Sponge, departure)]
)
def test_departures_from_a_mean_need_the_reference_0(given, condition):
    def model(reference):
        layer = {"width": 1e5, "rate": 1e-4} if condition is sw.Sponge else {}
        side = condition("west", elevation=sw.InverseBarometer(reference=reference), **layer)
        return sw.ShallowWater(GRID, 100.0, forcing=(sw.AirPressure(given),), boundaries=(side,), engine="arrays")

    with pytest.raises(ConfigError, match="reference = 101325 Pa differs .* everywhere; give 0 if the pressure is the"):
        model(STANDARD_PRESSURE)
    model(0.0)


def test_a_whole_pressure_needs_a_reference_near_it():
    side = sw.Flather("west", elevation=sw.InverseBarometer(reference=0.0))
    with pytest.raises(ConfigError, match="reference = 0 Pa differs .* give that of the pressure, such as 101325"):
        sw.ShallowWater(GRID, 100.0, forcing=(sw.AirPressure(pressure),), boundaries=(side,), engine="arrays")
    with pytest.raises(ConfigError, match="reference = 1013.25 is less than 50000; give"):
        sw.InverseBarometer(reference=1013.25)


def test_without_an_air_pressure_there_is_no_inverse_barometer():
    sides = sw.Flather("west", elevation=sw.InverseBarometer())
    with pytest.raises(ConfigError, match="no forcing of the model has an air pressure"):
        sw.ShallowWater(GRID, 100.0, boundaries=(sides,), engine="arrays")
    with pytest.raises(ConfigError, match="InverseBarometer: plus = 'high' is not a number; give a number in m, or a"):
        sw.InverseBarometer("high")


@pytest.mark.verify
def test_whatever_an_elevation_may_be_is_added_to_the_inverse_barometer_and_remains_a_control():
    """Under a uniform pressure the sea of a linear model is the sea without it, raised by the inverse barometer."""
    times, shape = np.array([0.0, 700.0, 3600.0]), GRID.shape
    records = sw.Records(times, np.stack([np.full(shape, 0.1), np.full(shape, 0.2), np.zeros(shape)]))
    elevations = {
        "west": (sw.Flather, sw.Tide({"M2": (0.2, 30.0)})),
        "east": (sw.Clamped, records),
        "south": (sw.Flather, sw.Record(times, [0.0, 0.3, 0.1])),
        "north": (sw.Clamped, sw.SolitaryWave(0.2, 100.0, 600.0)),
    }
    raised = sw.inverse_barometer(-2000.0, reference=0.0)

    def above(level):
        return FinalState(lambda state, equations, level: ((state.eta - level) ** 2).sum(), (level,))

    def problem(forcing, elevation_of, level):
        sides = tuple(kind(side, elevation=elevation_of(plus)) for side, (kind, plus) in elevations.items())
        model = sw.ShallowWater(GRID, 100.0, linear=True, forcing=forcing, boundaries=sides, engine="arrays")
        controls = [name for name in names_of(model) if ".elevation" in name]
        return Problem(
            model, sw.ForwardBackward(200.0), model.state(eta=level), 8, above(np.full(shape, level)), controls
        )

    expected, slope = problem((), lambda plus: plus, 0.0).value_and_gradient()
    with_air = problem(sw.AirPressure(-2000.0), lambda plus: sw.InverseBarometer(plus, reference=0.0), raised)
    found, gradient = with_air.value_and_gradient()
    assert found == pytest.approx(expected, rel=1e-11) and expected > 1e-3
    assert set(gradient) == set(slope) >= {"boundary.0.elevation.phase.M2", "boundary.2.elevation.values"}
    for one, other in zip(jax.tree.leaves(slope), jax.tree.leaves(gradient)):
        np.testing.assert_allclose(other, one, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize(
    "arguments, said",
    [
        ((1013.0,), "pressure = 1013.0 is not between 50000 and 120000 Pa, and looks like hPa; give it in Pa"),
        ((np.array([101325.0, 1013.25]),), "pressure = 1013.25 is not"),
        ((101.3,), "pressure = 101.3 is not between 50000 and 120000 Pa; give"),
        ((101325.0, 1013.25), "reference = 1013.25 is not between 50000 and 120000 Pa, and looks like hPa"),
        ((101325.0, 0.0), "pressure = 101325.0 is not between -20000 and 20000 Pa; give departures in Pa"),
    ],
)
def test_pressures_that_are_not_in_pascals_have_no_elevation(arguments, said):
    with pytest.raises(ConfigError, match=said):
        sw.inverse_barometer(*arguments)


def test_departures_from_the_reference_have_the_elevation_of_the_whole_pressure():
    assert sw.inverse_barometer(-500.0, reference=0.0) == sw.inverse_barometer(STANDARD_PRESSURE - 500.0)
    assert float(jax.grad(sw.inverse_barometer)(1e5)) == pytest.approx(-1.0 / (WATER_DENSITY * 9.81))


LEVELS = {
    "constituents.M2 = {amplitude = 0.5, phase = 30}": Harmonics,
    'file = "level.csv"': Table,
    'wave = "solitary"\nheight = 1\ndepth = 100\npeak = "10 min"': Sech,
    "": jax.Array,
}


def in_file(level, folder, unit="elevation"):
    (folder / "level.csv").write_text("time_s,level_m\n0,0.1\n7200,0.3\n")
    return read_text(TEXT.replace("boundary.elevation", f"boundary.{unit}") + level, "sides.toml", folder)


@pytest.mark.parametrize("level", LEVELS)
def test_an_experiment_file_adds_a_tide_records_or_a_wave_to_it(tmp_path, level):
    model = model_of(assemble(in_file(level, tmp_path)), "serial", None, "arrays")
    elevation = model.open_boundaries[0].elevation
    assert elevation.reference == 101000.0 and isinstance(elevation.plus, LEVELS[level])


def test_what_cannot_be_added_to_it_is_refused(tmp_path):
    (two,) = in_file("\n".join(LEVELS), tmp_path).mistakes
    assert two.text.startswith("constituents and file and wave exclude one another; give a tide, records, a formula or")
    (speed,) = in_file("", tmp_path, unit="velocity").mistakes
    assert speed.text == "inverse_barometer = true is an elevation, and this is none; leave it out"


TEXT = """\
grid = {type = "cartesian", nx = 12, ny = 10, x = [0, 6e5], y = [0, 5e5]}
bathymetry = {type = "flat", depth = 100.0}
coriolis = {type = "none"}
stepper = {type = "forward_backward"}
run = {until = "1 h", start = 2008-09-10T00:00:00Z}
forcing = [{type = "air_pressure", pressure = "101000 - 1e-3 * x"}]
[[boundary]]
type = "flather"
sides = "west"
[boundary.elevation]
inverse_barometer = true
reference = "1010 hPa"
"""
