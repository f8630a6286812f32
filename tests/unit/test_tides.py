"""A Tide is what UTide and its formula say, in both engines; mistakes in it are told in a sentence."""

import contextlib
import datetime
import itertools
import re
from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import xarray as xr

import swmodel as sw
from swmodel.adjoint import FinalState, Problem, names_of
from swmodel.adjoint.verification import verify
from swmodel.cli.facts import _drifts, _high_tides, _solar
from swmodel.cli.starting import inputs_of
from swmodel.config.adjoint import known_controls
from swmodel.config.assembly import assemble, model_of
from swmodel.config.experiment import read_text
from swmodel.dynamics.clock import Time
from swmodel.dynamics.terms import value_at
from swmodel.errors import ConfigError, DataError
from swmodel.forcing import constituents
from swmodel.forcing.tides import middle_latitude
from swmodel.runtime.compilation import jit
from tests.selection import later

START = datetime.datetime(2008, 9, 8, 6, 0)
PAIRS = {"M2": (1.0, 40.0), "O1": (0.2, 200.0)}
SIDES = ("west", "east", "south", "north")
EIGHT = ("M2", "S2", "N2", "K2", "K1", "O1", "P1", "Q1")


def plane(nx=6, ny=5):
    return sw.CartesianGrid(nx, ny, (0.0, nx * 1e4), (0.0, ny * 1e4))


def model_with(boundary, **options):
    return sw.ShallowWater(plane(), 100.0, boundaries=(boundary,), **options)


def at(model, seconds, field="elevation"):
    """The value of a boundary's parameter, from the Harmonics that the model holds."""
    time = Time(0, seconds / 60.0, jnp.asarray(60.0, model.dtype), 60.0)
    return np.asarray(value_at(getattr(model.open_boundaries[0], field), time))


def test_a_tide_is_the_one_that_utide_predicts():
    """Its reconstruction takes nodal factors of every moment; those of the start differ by less than 1e-4 in a day."""
    from utide import reconstruct, ut_constants
    from utide._ut_constants import constit_index_dict
    from utide.utilities import Bunch

    amplitude, phase = np.linspace(0.2, 1.0, 8), np.linspace(0.0, 315.0, 8)
    pairs = dict(zip(EIGHT, zip(amplitude, phase)))
    model = model_with(sw.Flather(elevation=sw.Tide(pairs, start=START, latitude=50.0)))
    numbers = np.array([constit_index_dict[name] for name in EIGHT])
    middle = START.toordinal() + 0.25
    opt = Bunch(epoch="python", twodim=False, prefilt=[], notrend=True, nodiagn=True, order_constit=None)
    opt.update(dict.fromkeys(("nodsatlint", "nodsatnone", "gwchlint", "gwchnone"), 0))
    aux = Bunch(reftime=middle, frq=ut_constants.const.freq[numbers], lat=50.0, opt=opt, lind=numbers)
    coef = Bunch(name=np.array(EIGHT), A=amplitude, g=phase, aux=aux, mean=0.0, slope=0.0)
    hours = np.arange(0.0, 24.0, 1.7)
    theirs = reconstruct(middle + hours / 24.0, coef, epoch="python", verbose=False, constit=list(EIGHT)).h
    ours = [float(at(model, 3600.0 * hour)) for hour in hours]
    np.testing.assert_allclose(ours, theirs, atol=2e-4 * amplitude.sum())


def test_the_formula_holds_with_a_ramp_and_without_a_date():
    lag = lambda x, y: 30.0 + x / 1e4 + 0.0 * y  # noqa: E731
    model = model_with(sw.Flather(elevation=sw.Tide({"m2": (2.0, lag)}, ramp=7200.0)))
    x, _ = model.grid.coordinates("h")
    omega = 2 * np.pi / constituents.period("M2")
    for seconds, share in ((0.0, 0.0), (3600.0, 0.5), (9000.0, 1.0)):
        expected = share * 2.0 * np.cos(omega * seconds - np.deg2rad(30.0 + x / 1e4))
        np.testing.assert_allclose(at(model, seconds), np.broadcast_to(expected, (5, 6)), atol=1e-12)


@pytest.mark.parametrize("shape", [(5, 1), (5,), (1, 6), (6,), (5, 6)])
def test_amplitudes_may_lie_along_a_side(shape):
    values = 0.5 + 0.5 * np.arange(np.prod(shape)).reshape(shape)
    model = model_with(sw.Flather(elevation=sw.Tide({"M2": (values, 0.0)})))
    line = values[:, None] if shape == (5,) else values
    np.testing.assert_allclose(at(model, 0.0), np.broadcast_to(line, (5, 6)))


@pytest.mark.parametrize(
    "stepper, engines",
    [later(sw.RK4(60.0), ("arrays", "fused"), id="rk4"), pytest.param(sw.ForwardBackward(60.0), ("fused",), id="fb")],
)
def test_a_clamped_side_has_the_elevation_that_was_given(stepper, engines):
    """In both engines; the volume comes through the side, so that a dye of 1 stays 1."""
    states = []
    for engine in engines:
        tide = sw.Tide({"M2": (lambda x, y: 0.5 + y / 1e5 + 0 * x, 0.0)}, ramp=3600.0)
        model = sw.ShallowWater(
            plane(),
            50.0,
            boundaries=(sw.Clamped("west", tide, rest_outside=False), sw.Flather("north")),
            engine=engine,
            dissipation=(sw.LinearDrag(1e-5),),
            tracers=(sw.Tracer("dye", initial=1.0, outside=1.0),),
        )
        simulation = sw.Simulation(model, model.at_rest(), stepper)
        states.append(simulation.run(steps=200))
        elevation = at(model, simulation.time)
        np.testing.assert_allclose(np.asarray(states[-1].eta)[:, 0], elevation[:, 0], atol=2e-4)
        np.testing.assert_allclose(np.asarray(simulation.shown()["dye"]), 1.0, atol=1e-12)
    np.testing.assert_allclose(states[0].eta, states[-1].eta, atol=1e-12)


@pytest.mark.parametrize("stepper", [later(sw.RK4(60.0), id="rk4"), pytest.param(sw.ForwardBackward(60.0), id="fb")])
def test_a_clamped_side_follows_records_at_every_step_without_lag(stepper):
    """The rate at the beginning and at the end of an interval is the slope of that interval, not a part of it."""
    times = np.arange(0.0, 1801.0, 600.0)
    values = np.array([0.0, 0.4, -0.2, 0.3])[:, None, None] * np.ones((1, 5, 6))
    model = model_with(sw.Clamped("west", SimpleNamespace(times=times, values=values, cycle=None)), linear=True)
    simulation = sw.Simulation(model, model.at_rest(), stepper)
    for steps in (7, 3, 11, 9):
        state = simulation.run(steps=steps)
        exact = np.interp(simulation.time, times, values[:, 0, 0])
        np.testing.assert_allclose(np.asarray(state.eta)[:, 0], exact, atol=1e-13)


@pytest.mark.parametrize("ramp", [0.0, 7200.0])
def test_the_rate_of_a_tide_is_its_derivative(ramp):
    tide = model_with(sw.Clamped(elevation=sw.Tide(PAIRS, start=START, ramp=ramp))).open_boundaries[0].elevation
    for seconds in (1800.0, 9000.0):
        before, now, after = (Time(0, (seconds + k) / 60.0, jnp.asarray(60.0), 60.0) for k in (-1.0, 0.0, 1.0))
        assert float(tide.rate(now)) == pytest.approx(float(tide.at(after) - tide.at(before)) / 2.0, rel=1e-5)


def test_nodal_factors_of_long_periods_are_those_of_schureman():
    """The moon's node was at 180 degrees in 1997 and at 0 in 2006 (Schureman 1958, table 14)."""
    for year, fortnightly, monthly in ((1997, 0.632, 1.129), (2006, 1.457, 0.870)):
        moment = datetime.datetime(year, 7, 1)
        assert constituents.nodal("MF", moment, 45.0)[0] == pytest.approx(fortnightly, abs=5e-3)
        assert constituents.nodal("MM", moment, 45.0)[0] == pytest.approx(monthly, abs=5e-3)
    (_, at_node), (_, later) = (constituents.nodal("MF", datetime.datetime(2000, 1, day), 45.0) for day in (1, 14))
    turned = np.rad2deg(later - at_node) % 360.0  # in 13 of the 13.66 days of its period
    assert turned == pytest.approx(360.0 * 13.0 / 13.6608, abs=0.5)


def test_nodal_factors_at_a_latitude_are_those_of_utide_to_the_last_bit():
    from utide.harmonics import FUV

    for name, year in itertools.product(EIGHT, (1990, 2011, 2024)):
        moment, number = datetime.datetime(year, 3, 11), np.array([constituents._table()[name][0]])
        days = float(moment.toordinal())
        f, u, v = (part.item() for part in FUV(np.array([days]), days, number, 38.0, [0, 0, 0, 0]))
        angle = (2.0 * np.pi * u + 2.0 * np.pi * v) % (2.0 * np.pi)
        assert constituents.nodal(name, moment, 38.0) == (f, angle)


def test_nodal_factors_at_the_equator_are_those_of_five_degrees():
    """UTide divides by the sine of the latitude; grids that are symmetric about the equator have 0 in the middle."""
    grid = sw.SphericalGrid(6, 4, (0.0, 6.0), (-2.0, 2.0))
    model = sw.ShallowWater(grid, 100.0, boundaries=(sw.Flather("west", elevation=sw.Tide(PAIRS, start=START)),))
    assert np.isfinite(at(model, 3600.0)).all()
    for name in EIGHT:
        assert constituents.nodal(name, START, 0.0) == constituents.nodal(name, START, 2.0)
        assert constituents.nodal(name, START, -0.5) == constituents.nodal(name, START, -5.0)


def test_a_run_and_its_tides_have_one_start():
    later = START + datetime.timedelta(hours=1)
    model = model_with(sw.Flather(elevation=sw.Tide(PAIRS, start=START)))
    assert sw.Simulation(model, model.at_rest(), sw.RK4(60.0)).start == START
    sw.Simulation(model, model.at_rest(), sw.RK4(60.0), start=START.replace(tzinfo=datetime.UTC))
    with pytest.raises(
        ConfigError, match="start = 2008-09-08 07:00.*the tide of boundary.0.elevation counts from .* 06:00"
    ):
        sw.Simulation(model, model.at_rest(), sw.RK4(60.0), start=later)
    with pytest.raises(ConfigError, match=r"forcing.0.pressure starts on .*, and boundary.0.elevation on .*give one"):
        model_with(
            sw.Flather(elevation=sw.Tide(PAIRS, start=START)), forcing=sw.AirPressure(sw.Tide(PAIRS, start=later))
        )
    with pytest.raises(
        ConfigError, match=r"boundary.0.elevation has tides without a start.* forcing.0.pressure starts"
    ):
        model_with(
            sw.Flather(elevation=sw.InverseBarometer(sw.Tide(PAIRS))), forcing=sw.AirPressure(sw.Tide(PAIRS, START))
        )


def test_a_wave_that_comes_in_enters_whole_and_an_elevation_lets_in_half():
    found, run = [], jit(sw.integrate, static_argnums=3)
    west = lambda x, y: np.where(x < 1e5, 0.1, 0.0) + 0 * y  # noqa: E731
    none = lambda x, y: 0.0 * x + 0.0 * y  # noqa: E731
    for incoming, elevation in ((west, none), (none, west)):
        grid = sw.CartesianGrid(40, 2, (0.0, 4e5), (0.0, 2e4), "y")
        sides = sw.Flather(("west", "east"), elevation=elevation, incoming=incoming)
        model, stepper = sw.ShallowWater(grid, 100.0, linear=True, boundaries=sides), sw.ForwardBackward(150.0)
        state, _ = run(model.dynamics(stepper, steps=60), stepper, model.at_rest(), 60)
        found.append(float(np.asarray(state.eta)[0, 10]) / 0.1)
    assert found == pytest.approx([1.0, 0.5], abs=0.02)


@pytest.mark.parametrize(
    "given, said",
    [
        ({"M9X": (1.0, 0.0)}, "there is no tidal constituent 'M9X'; known are M2, S2, N2"),
        ({}, "constituents must be named"),
        ({"M2": 1.0}, r"M2 must be a pair; give \(amplitude"),
        ({"M2": (1.0, 0.0), "m2": (1.0, 0.0)}, "M2 is given twice"),
        ({"M2": ("big", 0.0)}, "amplitude of M2 = 'big' is not a number"),
        ({"M2": (-0.5, 0.0)}, "the amplitude of M2 is negative, -0.5 somewhere; give the positive one"),
        ({"M2": (np.array([0.1] * 4 + [-0.1]), 0.0)}, "the amplitude of M2 is negative, -0.1 somewhere"),
        ({"M2": (lambda x, y: x - 2e4, 0.0)}, "elevation: amplitude of M2, somewhere, = -.* is negative"),
        ({"M2": (50.0, 0.0)}, "elevation: the amplitude of M2 reaches 50 m, more than the 20 m that are possible"),
        ({"M2": (lambda x, y: 50.0 + 0 * x, 0.0)}, "elevation: amplitude of M2, somewhere, = 50.0 is greater than 20"),
        ({"M2": (1.0, 9999.0)}, "the phase lag of M2 reaches 9999 degrees, more than two turns"),
        ({"M2": (1.0, np.array([0.0] * 4 + [-9999.0]))}, "the phase lag of M2 reaches 9999 degrees"),
        ({"M2": (1.0, lambda x, y: 9999.0 + 0 * x)}, "elevation: phase of M2, somewhere, = 9999.0 is greater than 720"),
        ({"M2": (lambda x, y: np.log(x - 2e4), 0.0)}, "amplitude of M2 is not finite in"),
        ({"M2": (lambda x, y: np.ones(3), 0.0)}, "amplitude of M2"),
        ({"M2": (np.ones(4), 0.0)}, "does not cover the side; give 5 values"),
    ],
)
def test_mistakes_in_a_tide_are_told(given, said):
    with pytest.raises(ValueError, match=said):  # ConfigError is one
        model_with(sw.Flather(elevation=sw.Tide(given)))


def test_a_level_beside_tides_that_is_impossible_is_refused():
    with pytest.raises(ValueError, match="elevation: the level reaches 32 m, more than the 20 m that are possible"):
        model_with(sw.Flather(elevation=sw.Tide({"M2": (1.0, 0.0)}, level=32.0)))


def test_the_velocity_outside_counts_positive_out_of_the_domain():
    grid, stepper = sw.CartesianGrid(8, 8, (0.0, 8e3), (0.0, 8e3)), sw.ForwardBackward(10.0)
    run = jit(sw.integrate, static_argnums=3)
    for side, velocity in itertools.product(SIDES, (0.1, -0.1)):
        open_sides = [sw.Flather(each, velocity=velocity * (each == side)) for each in SIDES]
        model = sw.ShallowWater(grid, 50.0, boundaries=open_sides)
        end, _ = run(model.dynamics(stepper, steps=5), stepper, model.at_rest(), 5)
        assert float(np.asarray(end.eta).sum()) / velocity < -1.0, side


LAND = "Flather: the west side is open, and every cell along it is land; leave it"
DRY = "Sponge: the layer of 1500 m along the west side is land alone; leave the side out, or make"
NARROW = "Sponge: the layer of 300 m along the east side holds no cell; make it wider than half a cell"


@pytest.mark.parametrize(
    "condition, said",
    [
        (sw.Flather("west", elevation=1.0), LAND),
        (sw.Flather(("west", "east"), elevation=1.0), LAND),
        (sw.Flather("east", elevation=1.0), None),
        (sw.Flather(elevation=1.0), None),
        (sw.Sponge("west", width=1.5e3, rate=1e-3), DRY),
        (sw.Sponge("east", width=300.0, rate=1e-3), NARROW),
        (sw.Sponge("west", width=3e3, rate=1e-3), None),
        (sw.Sponge(SIDES, width=1.5e3, rate=1e-3), None),
    ],
)
def test_a_side_of_land_alone_cannot_be_open_and_a_sponge_needs_water(condition, said):
    """Two columns of land in the west. Of all four sides, which a condition has unless some are named, one needs
    water."""
    grid = sw.CartesianGrid(8, 5, (0.0, 8e3), (0.0, 5e3))
    depth = np.where(grid.coordinates("h")[0] < 2e3, 0.0, 50.0) * np.ones(grid.shape)
    with pytest.raises(ConfigError, match=re.escape(said)) if said else contextlib.nullcontext():
        sw.ShallowWater(grid, depth, boundaries=(condition,))


def test_steps_and_their_transposes_get_the_tide_of_the_cells_next_to_the_sides_alone():
    """What a program holds of amplitudes and phase lags grows with the length of the sides, not with the grid."""
    wave = lambda x, y: 0.1 + 1e-7 * x + 2e-7 * y  # noqa: E731
    model = model_with(sw.Flather(("west", "north"), incoming=sw.Tide({"M2": (wave, wave)})))
    stepper = sw.ForwardBackward(60.0)
    prepare = jit(lambda dynamics: dynamics.prepare())
    dynamics = model.dynamics(stepper)
    equations = prepare(dynamics)
    ny, nx = model.grid.shape
    longest = max(ny, nx) + 2 * model.halo(stepper)
    sizes = [x.size for x in jax.tree.leaves(equations.open_boundaries)]
    assert longest - 2 <= max(sizes) <= longest
    program = str(jax.make_jaxpr(prepare)(dynamics))
    of_cosines = [
        np.prod([int(n) for n in found.split(",")]) for found in re.findall(r"f\d+\[([\d,]+)\] = cos", program)
    ]
    assert of_cosines and max(of_cosines) <= longest


def test_a_rate_cannot_be_a_tide():
    with pytest.raises(ConfigError, match="rate cannot be a Tide"):
        sw.Sponge(width=1e4, rate=sw.Tide({"M2": (1.0, 0.0)}))


def test_an_implicit_scheme_refuses_a_clamped_side():
    model = model_with(sw.Clamped("west", 0.1))
    with pytest.raises(ConfigError, match="Clamped computes the flow"):
        model.ready_for(sw.SemiImplicit(600.0))


FILE = """
grid = {type = "cartesian", nx = 6, ny = 5, x = ["0 km", "60 km"], y = ["0 km", "50 km"]}
bathymetry = {type = "flat", depth = 100.0}
stepper = {type = "rk4"}
run = {until = "1 h", start = 2008-09-08T06:00:00Z}
[[boundary]]
type = "flather"
sides = "west"
[boundary.elevation]
ramp = "1 h"
constituents.m2 = {amplitude = "10 cm", phase = "30 degree"}
constituents.S2 = {amplitude = "0.4 * exp(-y / 200e3)", phase = 75}
"""


@pytest.mark.parametrize(
    ("sides", "numbers", "said"),
    [
        ('"west"', "[0.1, 0.2, 0.3, 0.4, 0.5]", None),
        ('["west", "east"]', '["10 cm", 0.2, 0.3, 0.4, "500 mm"]', None),
        ('"south"', "[0.1, 0.2, 0.3, 0.4, 0.5, 0.6]", None),
        ('"west"', "[0.1, 0.2]", "amplitude of M2 has 2 values, and the west side has 5 cells; give as many"),
        ('["west", "south"]', "[0.1, 0.2]", "which lies along open sides, all in x or all in y; give a formula"),
        ('"west"', '["10 s"]', "'10 s' is a time; expected a length in m"),
    ],
)
def test_amplitudes_along_a_side_may_be_a_list_in_a_file(sides, numbers, said):
    text = FILE[: FILE.index("constituents.m2")].replace('sides = "west"', f"sides = {sides}")
    made = assemble(read_text(text + f"constituents.M2 = {{amplitude = {numbers}, phase = 0}}\n", "tide.toml", "."))
    if said is not None:
        assert said in " ".join(made.sentences())
        return
    assert made.sentences() == []
    line = 0.1 * (1.0 + np.arange(6 if "south" in sides else 5))
    found = model_of(made, "serial").open_boundaries[0].elevation.amplitude["M2"]
    np.testing.assert_allclose(found, np.broadcast_to(line if "south" in sides else line[:, None], (5, 6)))


@pytest.mark.parametrize(
    ("part", "said"),
    [
        ('type = "quadratic_drag"\ncoefficient = "2e-3 + y / 50e6"', None),
        ('type = "internal_wave_drag"\nroughness = "2e-3 + y / 50e6"', None),
        (
            'type = "quadratic_drag"\ncoefficient = "y - 20e3"',
            "the formula 'y - 20e3' is -15000 somewhere, which is neg",
        ),
        ('type = "internal_wave_drag"\nroughness = -1', "-1 is negative; give a number in m, 0 or more"),
    ],
)
def test_drag_of_an_experiment_file_may_be_a_formula(part, said):
    """As inversions need it for depth_classes and for a smooth map, without a file of a constant."""
    made = assemble(read_text(FILE + f"[[dissipation]]\n{part}\n", "tide.toml", "."))
    if said is not None:
        assert said in " ".join(made.sentences())
        return
    assert made.sentences() == []
    (drag,) = model_of(made, "serial").terms
    found = drag.coefficient if hasattr(drag, "coefficient") else drag.roughness
    expected = np.broadcast_to(2e-3 + plane().coordinates("h")[1] / 50e6, (5, 6))
    np.testing.assert_allclose(getattr(found, "interior", found), expected, rtol=1e-6)


def test_a_tide_of_an_experiment_file_is_that_of_python():
    made = assemble(read_text(FILE, "tide.toml", "."))
    assert made.sentences() == []
    decay = lambda x, y: 0.4 * np.exp(-y / 200e3) + 0.0 * x  # noqa: E731
    tide = sw.Tide({"M2": (0.1, 30.0), "S2": (decay, 75.0)}, start=START, ramp=3600.0)
    other = sw.ShallowWater(plane(), 100.0, boundaries=(sw.Flather("west", tide),), dtype="float32")
    np.testing.assert_allclose(at(model_of(made), 2e4), at(other, 2e4), rtol=1e-6)


def test_amplitudes_and_phases_of_a_file_are_controls_of_its_adjoint():
    wanted = ["boundary.0.elevation.amplitude.M2", "boundary.0.elevation.phase.S2"]
    draft = read_text(f"{FILE}\n[adjoint]\ncontrols = {wanted}\n[adjoint.cost]\ntype = 'box_energy'\n", "a.toml", ".")
    assert draft.sentences() == []
    known = known_controls(draft.sections)
    assert set(wanted) < set(known) and set(known) == set(names_of(model_of(assemble(draft))))


@pytest.mark.parametrize(
    "before, after, said",
    [
        ("constituents.S2", "constituents.M2", "the tidal constituent M2 is given twice"),
        ("constituents.m2", "constituents.M9X", "elevation.constituents: there is no tidal constituent 'M9X'"),
        (", start = 2008-09-08T06:00:00Z", "", "boundary[0].elevation: a tide needs the date of the start"),
        ('"0.4 * exp(-y / 200e3)"', '"0.1 - y / 200e3"', "the amplitude of S2 is negative"),
        (
            "stepper =",
            'output.harmonics = {constituents = ["M2"], begin = "2 h"}\nstepper =',
            "7200 s is after the end of the run; begin earlier",
        ),
        ("constituents.m2 =", "m2 =", "elevation.m2: unknown key"),
    ],
)
def test_mistakes_in_a_file_are_told_with_their_place(before, after, said):
    assert said in "\n".join(assemble(read_text(FILE.replace(before, after), "tide.toml", ".")).sentences())


def test_self_attraction_is_a_reduced_gravity_at_every_step_of_forward_backward():
    grid = sw.CartesianGrid(12, 9, (0.0, 12e3), (0.0, 9e3))
    eta = lambda x, y: np.exp(-((x - 5e3) ** 2 + (y - 4e3) ** 2) / 4e6)  # noqa: E731
    free = sw.ShallowWater(grid, 100.0, gravity=9.0, forcing=sw.SelfAttraction(0.0))
    attracted = sw.ShallowWater(grid, 100.0, gravity=10.0, forcing=sw.SelfAttraction(0.1))
    stepper = sw.ForwardBackward(0.95 * sw.largest_time_step(attracted, sw.ForwardBackward(1.0)))
    found = []
    for model in (free, attracted):
        simulation = sw.Simulation(model, model.state(eta=eta), stepper)
        simulation.run(steps=200)
        found.append(np.asarray(simulation.state.eta))
    np.testing.assert_allclose(found[1], found[0], atol=1e-11)


# -- from files --------------------------------------------------------------------------------------------------------


def atlas(path, lon=(-6.0, -3.5), units="m"):
    """M2 near longitude -5: amplitudes that rise with the latitude, lags around 0, and NaN on land in the north."""
    x, y = np.linspace(*lon, 6), np.linspace(48.0, 54.0, 13)
    size, lag = np.meshgrid(0.5 + 0.1 * (y - 50.0), (20.0 * x + 100.0) % 360.0, indexing="ij")
    size[-3:] = np.nan
    data = {"eta_amplitude_M2": (("lat", "lon"), size, {"units": units})}
    data |= {"lag": (("lat", "lon"), lag, {"units": "degree"})}
    data |= {"eta_phase_M2": data["lag"], "low": (("lat", "lon"), -size, {"units": units})}
    xr.Dataset(data, {"lon": x, "lat": y}).to_netcdf(path)
    return path


def sphere():
    return sw.SphericalGrid(8, 6, (-5.0, 3.0), (49.0, 52.0))


def test_amplitude_and_phase_along_a_side_come_from_a_file_that_covers_no_more(tmp_path):
    """Bilinear in A cos g and A sin g: lags of 359 and 1 degree have 0 between them."""
    file = atlas(tmp_path / "atlas.nc")
    ((size, lag),) = sw.harmonic_constants(file, ("m2",), sphere(), sides="west").values()
    found = np.asarray(size) * np.exp(1j * np.deg2rad(np.asarray(lag)))
    nodes = np.linspace(-6.0, -3.5, 6)
    at_nodes = np.exp(1j * np.deg2rad(20.0 * nodes + 100.0))
    turn = np.interp(-4.5, nodes, at_nodes.real) + 1j * np.interp(-4.5, nodes, at_nodes.imag)
    np.testing.assert_allclose(found[:, 0], (0.5 + 0.1 * (sphere().y_centres - 50.0)) * turn, rtol=1e-12)
    assert np.abs(np.angle(turn, deg=True) - 10.0) < 0.1 and not found[:, 1:].any()
    np.testing.assert_array_equal(size.block(slice(2, 4), slice(0, 3)), np.asarray(size)[2:4, :3])


@pytest.mark.parametrize(("units", "degrees"), [("arcmin", 1.0 / 60.0), ("radian", 180.0 / np.pi), ("minutes", None)])
def test_phase_lags_in_minutes_of_arc_or_radians_are_converted(tmp_path, units, degrees):
    known = xr.open_dataset(atlas(tmp_path / "atlas.nc")).load()
    other = known.assign(eta_phase_M2=known.eta_phase_M2 / (degrees or 1.0))
    other.eta_phase_M2.attrs["units"] = units
    other.to_netcdf(tmp_path / "other.nc")
    if degrees is None:
        with pytest.raises(DataError, match=f"eta_phase_M2 in .*other.nc is in '{units}'; give it in 'degree'"):
            sw.harmonic_constants(tmp_path / "other.nc", ("M2",), sphere(), sides="west")
        return
    both = [
        sw.harmonic_constants(tmp_path / name, ("M2",), sphere(), sides="west") for name in ("atlas.nc", "other.nc")
    ]
    np.testing.assert_allclose(*(np.asarray(found["M2"][1]) for found in both), atol=1e-9)


def test_missing_values_of_an_atlas_take_the_nearest_ones(tmp_path):
    grid = sw.SphericalGrid(4, 4, (-5.0, -4.0), (51.5, 53.5))
    ((size, _),) = sw.harmonic_constants(atlas(tmp_path / "atlas.nc"), ("M2",), grid, sides="west").values()
    rise = lambda y: 0.5 + 0.1 * (np.minimum(y, 52.5) - 50.0)  # noqa: E731
    shrunk = np.asarray(size)[:, 0] / rise(grid.y_centres)
    np.testing.assert_allclose(shrunk, shrunk[0], rtol=1e-12)


def test_zeros_of_an_atlas_on_land_are_missing_values(tmp_path):
    grid = sw.SphericalGrid(4, 4, (-5.0, -4.0), (51.5, 53.5))
    known = xr.open_dataset(atlas(tmp_path / "atlas.nc", units="millimeters")).load()
    land = np.isnan(known.eta_amplitude_M2)
    known.assign(eta_amplitude_M2=known.eta_amplitude_M2.fillna(0.0)).where(~land, 0.0).to_netcdf(tmp_path / "zeros.nc")
    of_gaps, of_zeros = (
        sw.harmonic_constants(tmp_path / name, ("M2",), grid, sides="west")["M2"] for name in ("atlas.nc", "zeros.nc")
    )
    for one, other in zip(of_gaps, of_zeros):
        np.testing.assert_array_equal(np.asarray(one), np.asarray(other))
    assert 6e-4 < np.asarray(of_zeros[0])[:, 0].min() < np.asarray(of_zeros[0]).max() < 8e-4
    nowhere = sw.SphericalGrid(4, 4, (-5.0, -4.0), (53.6, 53.9))
    zero = sw.harmonic_constants(tmp_path / "zeros.nc", ("M2",), nowhere, sides="west")["M2"]  # and nothing else
    assert not np.any([np.asarray(part) for part in zero])
    some = xr.open_dataset(tmp_path / "zeros.nc").load()
    some.eta_amplitude_M2[-1] = np.nan
    some.to_netcdf(tmp_path / "some.nc")
    with pytest.raises(DataError, match="no valid value along the west side, where all are missing, or 0 with a phase"):
        np.asarray(sw.harmonic_constants(tmp_path / "some.nc", ("M2",), nowhere, sides="west")["M2"][0])


@pytest.mark.parametrize(
    "change, said",
    [
        ({"eta_amplitude_M2": (9999.0, "cm")}, "a value of 99.99 m, and no amplitude of a tide is over 20 m; mark"),
        ({"eta_phase_M2": (-9999.0, "degree")}, "a value of 9999 degrees, and no phase lag of a tide is over 720 deg"),
        ({"eta_phase_M2": (1.5, None)}, r"has no units; .*, or state them by `units`, as \['cm', 'degree'\]"),
        ({"eta_amplitude_M2": (0.5, None)}, "eta_amplitude_M2 in .*other.nc has no units"),
    ],
)
def test_what_is_no_tide_in_a_file_is_refused(tmp_path, change, said):
    other = xr.open_dataset(atlas(tmp_path / "atlas.nc")).load()
    for name, (value, units) in change.items():
        other[name][:4] = value
        other[name].attrs = {} if units is None else {"units": units}
    other.to_netcdf(tmp_path / "other.nc")
    stated = ("m", "degree") if any(units is None for _, units in change.values()) else None
    for known in {None, stated}:
        with contextlib.nullcontext() if known else pytest.raises(DataError, match=said):
            constants = sw.harmonic_constants(tmp_path / "other.nc", ("M2",), sphere(), sides="west", stated=known)
            np.asarray(constants["M2"][0])


def test_a_tide_higher_than_any_that_is_known_is_remarked():
    remarked = list(_high_tides(model_with(sw.Flather("west", sw.Tide({"M2": (12.0, 0.0), "S2": (9.0, 0.0)})))))
    assert remarked == ["boundary.0.elevation: the amplitude of M2 is 12 m, higher than any on Earth; check its units."]


@pytest.mark.parametrize(
    "lon, units, table, said",
    [
        ((-6.0, -3.5), "m", 'file = "atlas.nc", phase = "lag"', None),
        ((-4.0, -1.0), "m", 'file = "atlas.nc"', "along the west side .*atlas.nc covers longitude -4.00 to -1.00"),
        ((-6.0, -3.5), "ft", 'file = "atlas.nc"', "eta_amplitude_M2 in .*atlas.nc is in 'ft'; give it in 'm'"),
        ((-6.0, -3.5), "m", 'file = "atlas.nc", phase = "hp"', "has no variable 'hp'"),
        ((-6.0, -3.5), "m", 'file = "none.nc"', "none.nc"),
        ((-6.0, -3.5), "m", 'file = "atlas.nc", amplitude = "low"', "low is an amplitude, and is negative, -"),
    ],
)
def test_a_file_of_an_experiment_covers_its_sides_or_is_refused_at_check(tmp_path, lon, units, table, said):
    atlas(tmp_path / "atlas.nc", lon, units)
    text = FILE[: FILE.index("constituents.m2")] + f"constituents.M2 = {{{table}}}\n"
    sphere_grid = 'grid = {type = "spherical", nx = 8, ny = 6, longitude = [-5.0, 3.0], latitude = [49.0, 52.0]}'
    text = re.sub("grid = .*", sphere_grid, text)
    made = assemble(read_text(text, "tide.toml", tmp_path))
    if said is not None:
        assert re.search(said, " ".join(made.sentences()))
        return
    assert made.sentences() == []
    constants = sw.harmonic_constants(tmp_path / "atlas.nc", ("M2",), sphere(), sides="west")
    tide = sw.Tide(constants, start=START, ramp=3600.0)
    other = sw.ShallowWater(sphere(), 100.0, boundaries=(sw.Flather("west", tide),), dtype="float32")
    np.testing.assert_allclose(at(model_of(made), 2e4), at(other, 2e4), rtol=1e-6)


M2 = 44714.164  # [s]


def through(side):
    """(the pair of sides that a wave from `side` passes, a grid of `cells` along its way from `first` [m] on)."""
    along_x = side in SIDES[:2]

    def grid(cells, first):
        way, across = (first, first + 1e4 * cells), (0.0, 4e4)
        size, extent = ((cells, 4), (way, across)) if along_x else ((4, cells), (across, way))
        return sw.CartesianGrid(*size, *extent, periodic="y" if along_x else "x")

    return SIDES[:2] if along_x else SIDES[2:], grid


@pytest.fixture
def own_tides(tmp_path, request):
    """The side and the file of harmonic constants of a run, in which a wave comes in there and leaves opposite it."""
    sides, grid = through(request.param)
    (other,) = set(sides) - {request.param}
    tide = sw.Tide({"M2": (0.1, 30.0)}, START)
    boundaries = sw.Flather(request.param, incoming=tide), sw.Flather(other)
    model = sw.ShallowWater(grid(20, 0.0), 10.0, boundaries=boundaries, engine="arrays", linear=True)
    simulation = sw.Simulation(model, model.at_rest(), sw.ForwardBackward(500.0))
    simulation.harmonics(tmp_path / "own.nc", ("M2",), variables=("eta", "u", "v"), begin=2 * M2)
    simulation.run(until=3.02 * M2)
    return request.param, tmp_path / "own.nc"


@pytest.mark.verify
@pytest.mark.parametrize("own_tides", SIDES, indirect=True)
def test_currents_of_a_run_of_ones_own_bring_its_tide_into_a_part_of_it_at_every_side(own_tides, tmp_path):
    """Elevation and velocity outside are those of the wave, which then enters whole, whatever its direction."""
    side, file = own_tides
    sides, grid = through(side)
    plan = grid(8, 6e4)
    x, y = (edges[[0, -1]].tolist() for edges in (plan.x_edges, plan.y_edges))
    text = f"""
grid = {{type = "cartesian", nx = {plan.nx}, ny = {plan.ny}, x = {x}, y = {y}, periodic = "{plan.periodic}"}}
bathymetry = {{type = "flat", depth = 10.0}}
model = {{linear = true}}
stepper = {{type = "forward_backward"}}
run = {{until = "1 h", start = 2008-09-08T06:00:00Z}}
[[boundary]]
type = "flather"
sides = {list(sides)}
elevation = {{constituents.M2 = {{file = "{file}"}}}}
velocity = {{constituents.M2 = {{file = "{file}"}}}}
"""
    made = assemble(read_text(text, "part.toml", tmp_path))
    assert made.sentences() == []
    model = model_of(made, "serial", None, "arrays")
    simulation = sw.Simulation(model, model.at_rest(), sw.ForwardBackward(500.0))
    simulation.harmonics(tmp_path / "part.nc", ("M2",), begin=M2).run(until=2.02 * M2)
    waves = []
    for path in (file, tmp_path / "part.nc"):
        with xr.open_dataset(path) as data:
            waves.append((data.eta_amplitude_M2 * np.exp(1j * np.deg2rad(data.eta_phase_M2))).load())
    whole, part = xr.align(*waves, join="inner")
    np.testing.assert_allclose(part, whole, atol=5e-3)  # velocities are taken half a cell inside: 3.5 % of 0.1 m


def test_files_of_constituents_are_inputs_which_no_output_may_replace(tmp_path):
    (tmp_path / "m2.nc").touch()
    text = FILE.replace('{amplitude = "10 cm", phase = "30 degree"}', '{file = "m2.nc"}')
    draft = read_text(text, "tide.toml", tmp_path)
    assert not draft.mistakes
    assert ("boundary.0.elevation.constituents.M2.file", (tmp_path / "m2.nc").resolve()) in inputs_of(draft)


def test_velocities_from_files_have_the_sign_that_the_condition_gives_them(tmp_path):
    u = {"u_amplitude_M2": (("y", "x"), np.full((3, 3), 0.2), {"units": "m s-1"})}
    file = tmp_path / "u.nc"
    axis = np.linspace(0.0, 6e4, 3)
    data = u | {"u_phase_M2": (("y", "x"), np.full((3, 3), 40.0), {"units": "degree"})}
    xr.Dataset(data, {"x": ("x", axis, {"units": "m"}), "y": ("y", axis, {"units": "m"})}).to_netcdf(file)
    options = {"sides": ("west", "east"), "units": "m s-1"}
    for velocity, lags in (("outward", (220.0, 40.0)), ("inward", (40.0, 220.0))):
        ((size, lag),) = sw.harmonic_constants(file, ("M2",), plane(), velocity=velocity, **options).values()
        np.testing.assert_allclose(np.asarray(size)[:, [0, -1]], 0.2)
        np.testing.assert_allclose(np.asarray(lag)[:, [0, -1]], np.broadcast_to(lags, (5, 2)))
    ((_, lag),) = sw.harmonic_constants(file, ("M2",), plane(), units="m s-1", position="u").values()
    np.testing.assert_allclose(lag, 40.0)  # of a sponge, towards +x
    for wrong, said in (
        ({"sides": ("west", "north")}, "share the cells in the corners; give these pairs of sides"),
        ({"sides": None}, "a velocity goes through open sides"),
        ({"velocity": "east"}, "velocity = 'east' is unknown; give 'outward' or 'inward'"),
    ):
        with pytest.raises(ConfigError, match=said):
            sw.harmonic_constants(file, ("M2",), plane(), **options | {"velocity": "outward"} | wrong)
    assert sw.WaveMaker.velocity_counts == "inward" and sw.Flather.velocity_counts == "outward"


def test_nodal_factors_of_the_potential_have_no_latitude_and_their_change_in_a_long_run_is_remarked():
    """Without the satellites of third degree, which have other patterns; a grid of the world has no latitude either."""
    start = datetime.datetime(2024, 1, 1)
    (f, angle), (north, _), (south, _) = (constituents.nodal("Q1", start, latitude) for latitude in (None, 5.0, -5.0))
    assert north > 1.05 * f and south < 0.96 * f and f == pytest.approx(1.1712, abs=1e-4)
    world = sw.SphericalGrid(16, 12, (-180.0, 180.0), (-60.0, 60.0))
    model = sw.ShallowWater(world, 3000.0, forcing=sw.TidalPotential(("Q1", "S2"), start=start), engine="arrays")
    (term,) = model.terms
    assert float(term.amplitudes[0]) == pytest.approx(f * np.prod(constituents.EQUILIBRIUM["Q1"]))
    assert float(term.arguments[0]) == pytest.approx(angle) and middle_latitude(world) is None
    year = 365 * 86400.0
    assert constituents.drift("Q1", start, year, None) == pytest.approx(0.0473, abs=2e-3)
    (said,) = _drifts(SimpleNamespace(start=start, until=year), model)
    assert said.startswith(
        "forcing.0: nodal factors and angles are those of the start, and those of Q1 change by 4.7 %"
    )
    assert not list(_drifts(SimpleNamespace(start=start, until=year / 12), model))


def test_the_two_definitions_of_s1_and_sa_are_remarked_and_converted():
    """By the IHO (and NOAA) V is 15 t + 180 for S1, and the mean longitude of the sun for SA; neither has f or u."""
    start = datetime.datetime(2011, 3, 11, 5, 46, 23)
    sun = {"SA": 349.0, "S1": 15.0 * (5 + 46 / 60 + 23 / 3600) + 180.0}  # [degrees] on this day
    tide = {name: (0.1, 30.0) for name in ("M2", "SA", "S1")}
    for name, argument in sun.items():
        size, turn = constituents.from_iho(name, start, 45.0)
        f, angle = constituents.nodal(name, start, 45.0)
        assert size * f == pytest.approx(1.0)
        assert np.cos(angle - np.deg2rad(30.0 + turn)) == pytest.approx(np.cos(np.deg2rad(argument - 30.0)), abs=0.01)
    assert constituents.from_iho("M2", start, 45.0) is None
    model = sw.ShallowWater(plane(), 100.0, boundaries=sw.Clamped("west", sw.Tide(tide, start=start)))
    (said,) = _solar(SimpleNamespace(start=start), model)
    assert "multiply amplitudes of SA by 1 and add 77 degrees to its lags, multiply amplitudes of S1 by 1.4" in said
    assert not list(_solar(SimpleNamespace(start=None), model))


# -- a level beside the tide -------------------------------------------------------------------------------------------

SPRING = {"M2": (0.5, 40.0), "O1": (0.2, 200.0)}
TIMES = np.array([0.0, 900.0, 3600.0])
VALUES = np.array([0.0, 0.3, -0.2])
COST = FinalState(lambda state, equations: (state.eta * state.eta + state.u * state.u).sum())


def level(x, y):
    return 0.3 + y / 1e6 + 0.0 * x


def clamped_by(tide, engine="arrays", **options):
    sides = (sw.Clamped("west", tide),)
    return sw.ShallowWater(plane(), 100.0, boundaries=sides, linear=True, engine=engine, **options)


@pytest.mark.parametrize("engine", [later("arrays"), "fused"])
def test_a_clamped_side_has_the_tide_the_level_and_the_anomaly_together(engine):
    records = SimpleNamespace(times=TIMES, values=VALUES[:, None, None] * np.ones((1, 5, 6)), cycle=None)
    alone = clamped_by(sw.Tide(SPRING, START)).open_boundaries[0].elevation

    def tide(seconds):
        return float(alone.at(Time(0, seconds / 60.0, np.float64(60.0), 60.0)))

    model = clamped_by(sw.Tide(SPRING, START, level=level, anomaly=records), engine)
    simulation = sw.Simulation(model, model.state(eta=lambda x, y: tide(0.0) + level(x, y)), sw.ForwardBackward(60.0))
    for steps in (7, 20):
        state = simulation.run(steps=steps)
        expected = tide(simulation.time) + level(0.0, plane().y_centres) + np.interp(simulation.time, TIMES, VALUES)
        np.testing.assert_allclose(np.asarray(state.eta)[:, 0], expected, atol=2e-4)


@pytest.mark.verify
def test_the_level_is_a_control_with_the_right_gradient():
    model = clamped_by(sw.Tide(SPRING, START, level=level, anomaly=0.1))
    controls = ["boundary.0.elevation.level"]
    verdicts = verify(Problem(model, sw.ForwardBackward(60.0), model.at_rest(), 9, COST, controls), second=False)
    assert verdicts and not [str(verdict) for verdict in verdicts if not verdict.passed]


LEVELLED = """\
constituents.M2 = {amplitude = "0.5 m", phase = 40}
level = "30 cm"
anomaly = {file = "surge.csv"}
[adjoint]
controls = ["boundary.0.elevation.level"]
[adjoint.cost]
type = "box_energy"
"""


def test_a_file_gives_both_and_the_level_as_a_control(tmp_path):
    lines = [f"{time:g},{value:g}" for time, value in zip(TIMES, VALUES)]
    (tmp_path / "surge.csv").write_text("time_s,eta_m\n" + "\n".join(lines) + "\n")
    draft = read_text(FILE[: FILE.index("ramp")] + LEVELLED, "tide.toml", str(tmp_path))
    assert draft.sentences() == []
    made = assemble(draft)
    assert made.sentences() == []
    model = model_of(made, "serial")
    assert "boundary.0.elevation.level" in known_controls(draft.sections)
    assert set(known_controls(draft.sections)) == set(names_of(model))
    side = model.open_boundaries[0].elevation
    expected = clamped_by(sw.Tide({"M2": (0.5, 40.0)}, START), dtype="float32").open_boundaries[0].elevation
    for seconds in (0.0, 1800.0, 3600.0):
        time = Time(0, seconds / 60.0, np.float32(60.0), 60.0)
        total = float(expected.at(time)) + 0.3 + np.interp(seconds, TIMES, VALUES)
        assert float(side.at(time)) == pytest.approx(total, abs=1e-6)
    (tmp_path / "surge.csv").write_text("time_s,eta_m\n0,0\n1800,0.2\n")
    (sentence,) = assemble(read_text(FILE[: FILE.index("ramp")] + LEVELLED, "tide.toml", str(tmp_path))).sentences()
    assert "surge.csv ends at 1800 s, and the run needs it until 3600 s" in sentence, sentence
