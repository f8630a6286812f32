"""Rivers, rain, evaporation and infiltration: every litre is found again, and bad input is refused in a sentence."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import swmodel as sw
from swmodel.config.assembly import assemble, model_of
from swmodel.config.experiment import read_text
from swmodel.dynamics.clock import Time
from swmodel.dynamics.waters import with_waters
from swmodel.errors import ConfigError
from swmodel.fields.state import replace
from swmodel.output.fingerprint import fingerprint
from swmodel.runtime.compilation import jit
from swmodel.verification import all_cases
from tests.derivatives import linearised
from tests.selection import now

GRID = sw.CartesianGrid(12, 9, (0.0, 1200.0), (0.0, 900.0))
AREA, CELLS = 1e4, 108
FLOOD = sw.Record([0.0, 7.3, 33.1, 50.0, 1e3], [10.0, 30.0, 5.0, 20.0, 40.0])  # not at whole steps


def total(model, values):
    """The integral of a field over the grid."""
    return float(np.sum(np.asarray(model.gather(values)), dtype=float)) * AREA


def integral(record, until):
    """The integral of a Record from 0 to `until`."""
    moments = np.append(record.times[record.times < until], until)
    return np.trapezoid(np.interp(moments, record.times, record.values), moments)


def basin(*waters, **options):
    """A model of 20 m of water between walls."""
    return sw.ShallowWater(GRID, 20.0, forcing=waters, **{"dtype": "float64", "communicator": "serial", **options})


def beach(*waters, **options):
    """A model of a beach, whose upper two thirds are land."""
    options = {"dtype": "float64", "communicator": "serial", "dissipation": sw.ManningDrag(0.03), **options}
    form = {"momentum": sw.MomentumConserving(), "wetting": sw.WettingDrying(1e-4)}
    return sw.ShallowWater(GRID, lambda x, y: 3.0 - 0.01 * x + 0.0 * y, forcing=waters, **form, **options)


def after(model, stepper, seconds, eta=0.0):
    return sw.Simulation(model, model.state(eta=eta), stepper).run(until=seconds)


STEPPERS = {
    "ab3": sw.AB3(1.0),
    "forward_backward": sw.ForwardBackward(1.0),
    "ssprk3": sw.SSPRK3(1.0),
    "semi_implicit": sw.SemiImplicit(1.0),
}
ENGINES = now([("ab3", "fused"), *((name, "arrays") for name in STEPPERS)], ("ab3", "fused"))


@pytest.mark.parametrize("name, engine", ENGINES)
def test_records_of_discharge_and_of_fields_of_rain_bring_their_integrals_and_their_tracers(name, engine):
    tracers = [sw.Tracer("dye"), sw.Tracer("salt", initial=lambda x, y: 35.0 + 0.01 * x)]
    river = sw.River(FLOOD, (50.0, 450.0), velocity_x=1.0, concentrations={"dye": 2.0})
    rates = np.array([0.0, 2e-5, 0.0, 0.0])[:, None, None] * np.ones((4, *GRID.shape))
    rain = sw.Rain(sw.Records([0.0, 10.0, 40.0, 60.0], rates), concentrations={"dye": 0.5})
    sun = sw.Evaporation(3e-6)
    model = basin(river, rain, sun, tracers=tracers, engine=engine)
    state = after(model, STEPPERS[name], 60.0)
    brought, fallen, dried = integral(FLOOD, 60.0), 2e-5 * 20.0 * AREA * CELLS, 3e-6 * 60.0 * AREA * CELLS
    assert model.engine == engine
    assert total(model, state.eta) == pytest.approx(brought + fallen - dried, rel=1e-12)
    assert total(model, state["dye"]) == pytest.approx(2.0 * brought + 0.5 * fallen, rel=1e-12)
    assert total(model, state["salt"]) == pytest.approx(total(model, model.at_rest()["salt"]), rel=1e-14)
    assert np.asarray(state.u)[4, 0] > 0


@pytest.mark.verify
def test_layers_and_series_take_the_water_at_the_top():
    waters, layers = (sw.River(5.0, (50.0, 450.0)), sw.Rain(1e-5)), sw.Layers((5.0,), densities=(1020.0, 1025.0))
    wanted = 300.0 + 1e-5 * 60.0 * AREA * CELLS
    model = basin(*waters, layers=layers, engine="arrays")
    state = after(model, sw.ForwardBackward(1.0), 60.0)
    assert total(model, state.eta) == pytest.approx(wanted, rel=1e-12)
    assert abs(total(model, state["eta_2"])) < 1e-9
    model = basin(*waters, core=sw.PseudoSpectral())
    assert total(model, after(model, sw.RK4(1.0), 60.0).eta) == pytest.approx(wanted, rel=1e-12)


def test_members_of_an_ensemble_have_rivers_of_their_own():
    models = [basin(sw.River(q, (50.0, 450.0)), engine="arrays") for q in (1.0, 2.0)]
    ensemble = sw.Ensemble(models, [model.at_rest() for model in models])
    state = sw.Simulation(ensemble, ensemble.initial, sw.AB2(1.0)).run(until=60.0)
    np.testing.assert_allclose(np.asarray(state.eta).sum((1, 2)) * AREA, [60.0, 120.0], rtol=1e-12)


def test_a_river_gives_its_cell_the_momentum_of_its_water():
    """(h u)' = h u + W u_W dt on the face of a cell, half of which is in the next one; the pressure acts later."""
    model = basin(sw.River(200.0, (550.0, 450.0), velocity_x=2.0), engine="arrays")
    state = sw.Simulation(model, model.at_rest(), sw.SSPRK3(1e-3)).run(steps=1)
    assert float(np.asarray(state.u)[4, 5]) == pytest.approx(0.5 * (200.0 / AREA) * 2.0 * 1e-3 / 20.0, rel=1e-3)
    still = basin(sw.River(200.0, (550.0, 450.0)), engine="arrays").state(u=0.1)
    slower = sw.Simulation(model, still, sw.SSPRK3(1e-3)).run(steps=1)
    assert np.isfinite(np.asarray(slower.u)).all()


# -- on land -----------------------------------------------------------------------------------------------------------

SHOWER = sw.Record([0.0, 30.0, 60.0, 200.0], [0.0, 3e-5, 0.0, 0.0])


@pytest.mark.parametrize(
    "stepper",
    [pytest.param(sw.SSPRK3(0.5), marks=pytest.mark.verify), sw.ForwardBackwardHancock(0.5)],
    ids=["three stages", "one stage"],
)
def test_rain_on_land_is_there_or_in_the_soil_and_no_cell_gives_more_than_it_has(stepper):
    waters = (
        sw.Infiltration(1e-6, suction=0.1, deficit=0.3),
        sw.Rain(SHOWER, concentrations={"dye": 1.5}),
        sw.River(5.0, [(1050.0, 450.0), (1050.0, 550.0)], velocity_x=-1.0, concentrations={"salt": 3.0}),
        sw.River(-2.0, (50.0, 50.0)),
    )
    tracers = [sw.Tracer("dye"), sw.Tracer("salt", initial=1.0), sw.Tracer("one", initial=1.0)]
    model = beach(*waters, tracers=tracers, engine="arrays")
    state = after(model, stepper, 100.0)
    h = model.depth + np.asarray(state.eta)
    gained = total(model, state.eta) - total(model, model.at_rest().eta)
    soaked = np.asarray(state["infiltrated"])
    assert h.min() == 0.0 and np.isfinite(np.asarray(state.u)).all()
    assert gained + total(model, soaked) == pytest.approx(integral(SHOWER, 100.0) * AREA * CELLS + 300.0, rel=1e-9)
    assert (soaked[:, :3] == 0).all() and soaked[:, 3:].max() > soaked[:, 3:].min() > 0
    assert total(model, state["dye"]) < 1.5 * integral(SHOWER, 100.0) * AREA * CELLS
    assert all((np.asarray(state[name]) >= -1e-15).all() for name in ("dye", "salt", "one"))


@pytest.mark.verify
def test_water_that_evaporates_leaves_its_salt_and_no_cell_is_drained_below_its_bed():
    model = beach(sw.Evaporation(1e-3), tracers=sw.Tracer("salt", initial=35.0), engine="arrays")
    start, end = model.at_rest(), after(model, sw.ForwardBackwardHancock(0.5), 600.0)
    h = model.depth + np.asarray(end.eta)
    assert h.min() == 0.0 and (h == 0).sum() > (model.depth <= 0).sum()
    assert total(model, end["salt"]) == pytest.approx(total(model, start["salt"]), rel=1e-12)


@jit
def _with_waters(dynamics, state, steps):
    """The State after steps of 1 s that the waters alone take."""
    equations = dynamics.prepare()
    one = lambda k, state: with_waters(equations, state, Time(k, 0.0, jnp.asarray(1.0), 1.0))  # noqa: E731
    return jax.lax.fori_loop(0, steps, one, state)


def soaked(seconds, *soil):
    """The depth [m] that has infiltrated under ponded water."""
    model = beach(sw.Infiltration(*soil), engine="arrays", dissipation=())
    state = model.state(eta=lambda x, y: np.maximum(-3.0 + 0.01 * x, 0.0) + 0.5 + 0.0 * y)
    state = _with_waters(model.dynamics(sw.ForwardBackwardHancock(1.0)), state, jnp.int32(seconds))
    return float(np.asarray(state["infiltrated"])[4, 8])


def test_infiltration_is_that_of_green_and_ampt():
    """K t is the integral of F / (F + (psi + h) theta) over F, with h = 0.5 m - F."""
    conductivity, suction, deficit = 3e-6, 0.1, 0.3
    assert soaked(600, conductivity, 0.0, 0.0) == pytest.approx(conductivity * 600.0, rel=1e-12)
    found = soaked(3600, conductivity, suction, deficit)
    depth = (np.arange(10000) + 0.5) / 10000 * found
    passed = np.mean(depth / (depth + (suction + 0.5 - depth) * deficit)) * found
    assert found > 5 * conductivity * 3600.0 and passed == pytest.approx(conductivity * 3600.0, rel=1e-3)


# -- derivatives -------------------------------------------------------------------------------------------------------


def test_gradients_in_discharge_rain_and_soil_are_those_of_the_tangent():
    """Of the waters alone: a step over a shore takes a minute to compile. parallel/test_waters.py has whole steps."""
    waters = (sw.River(FLOOD, (250.0, 450.0), velocity_x=1.0), sw.Rain(2e-4), sw.Evaporation(1e-6))
    waters = (*waters, sw.Infiltration(1e-6, 0.01, 0.01))
    model, dt = beach(*waters, engine="arrays"), 0.5
    dynamics, first = model.dynamics(sw.ForwardBackwardHancock(dt)), model.at_rest()
    weight = model.scatter(np.random.default_rng(1).uniform(-1.0, 1.0, GRID.shape))

    def cost(parameters):
        river, rain, sun, soil, *others = dynamics.terms
        replaced = (
            replace(river, discharge=replace(river.discharge, values=parameters[0])),
            replace(rain, rate=parameters[1]),
            replace(sun, rate=parameters[2]),
            replace(soil, conductivity=parameters[3]),
        )
        equations = replace(dynamics, terms=(*replaced, *others)).prepare()
        add = lambda state, k: (with_waters(equations, state, Time(k, 0.0, jnp.asarray(dt), dt)), None)  # noqa: E731
        end, _ = jax.lax.scan(add, first, jnp.arange(20))
        return jnp.sum(weight * (end.eta + end.u + 3.0 * end["infiltrated"]))

    values = (jnp.asarray(FLOOD.values), jnp.asarray(2e-4), jnp.asarray(1e-6), jnp.asarray(1e-6))
    along = (jnp.cos(jnp.arange(5.0)), jnp.asarray(1e-6), jnp.asarray(2e-7), jnp.asarray(3e-7))
    program = jit(lambda x, d: linearised(cost, x, d))
    _, gradient, slope = program(values, along)
    assert all(np.abs(np.asarray(x)).max() > 0 for x in gradient)
    product = sum(float(np.sum(a * b)) for a, b in zip(gradient, along))
    assert product == pytest.approx(float(slope), rel=1e-12)
    step = 1e-4
    ahead, back = (program(tuple(x + s * step * d for x, d in zip(values, along)), along)[0] for s in (1.0, -1.0))
    assert float(ahead - back) / (2.0 * step) == pytest.approx(float(slope), rel=1e-4)


# -- bad input ---------------------------------------------------------------------------------------------------------

REFUSED = [
    (lambda: basin(sw.River(1.0, (-50.0, 5.0))), r"position \(-50, 5\) is outside the grid"),
    (
        lambda: after(beach(sw.Rain(1e-5), dtype="float32", engine="arrays"), sw.SSPRK3(0.1), 1.0),
        "in a step of 0.1 s would get lost.*; compute in float64",
    ),
    (
        lambda: after(basin(sw.Evaporation(5e-8), dtype="float32", engine="arrays"), sw.SSPRK3(1.0), 1.0, eta=5.0),
        "Evaporation: up to 100% of what comes or goes in a step of 1 s would get lost",
    ),
    (lambda: basin(sw.Infiltration(1e-6)), "where the shore is fixed no land is ever wet"),
    (lambda: basin(sw.River(1.0, (50.0, 5.0), concentrations={"mud": 1.0})), "tracers of the model are none"),
    (lambda: sw.River(lambda x, y: x, (1.0, 2.0)), "varies in space"),
    (lambda: sw.River(1.0, "Lisbon"), "is not a point"),
    (lambda: sw.River(1.0, (1.0, 2.0), concentrations=3.0), "is no dict of concentrations"),
    (lambda: sw.Rain(-1e-5), "is negative"),
    (lambda: sw.Rain(10.0), "is greater than 0.001"),
    (lambda: basin(sw.Rain(sw.Record([0.0, 60.0], [1e-5, -1e-5]))), "which is negative"),
    (lambda: after(basin(sw.River(sw.Record([0.0, 9.0], [1.0, 1.0]), (50.0, 5.0))), sw.AB2(1.0), 60.0), "ends at 9 s"),
    (lambda: after(basin(sw.Rain(1e-5)), sw.RigidLid(1.0), 1.0), "Rain needs a surface that moves"),
]


@pytest.mark.parametrize("make, why", REFUSED, ids=[why for _, why in REFUSED])
def test_what_cannot_be_right_is_refused_in_a_sentence(make, why):
    with pytest.raises(ConfigError, match=why) as error:
        make()
    assert str(error.value).count("\n") == 0


def test_a_mouth_on_land_is_at_the_nearest_water_and_far_from_it_refused():
    wet = np.ones(GRID.shape)
    wet[:, :4], wet[2, 3] = 0.0, 1.0
    model = sw.ShallowWater(
        GRID, 20.0 * wet, communicator="serial", forcing=sw.River(1.0, [(250.0, 350.0), (9.0, 850.0)])
    )
    (river,) = model.terms
    assert river.cells(GRID, model.sea_floor.wet) == [(2, 3), (8, 4)]
    far = np.ones(GRID.shape)
    far[:, :8] = 0.0
    with pytest.raises(ConfigError, match="is on land, and no water is within 5 cells"):
        sw.ShallowWater(GRID, 20.0 * far, communicator="serial", forcing=sw.River(1.0, (50.0, 50.0)))
    one, other = (fingerprint(basin(sw.River(1.0, (x, 50.0))), 0, 1.0) for x in (50.0, 250.0))
    assert one != other


FILE = """\
run = {until = "1 hour"}
grid = {type = "cartesian", nx = 12, ny = 9, x = [0, "1200 m"], y = [0, "900 m"]}
bathymetry = {type = "formula", depth = "where(x < 300, -1.0, 20.0)"}
stepper = {type = "ab2"}
tracer = [{name = "dye"}]
[[forcing]]
type = "river"
discharge = {file = "q.csv", variable = "q_m3_s"}
positions = ["250 m", "450 m"]
velocity_x = "0.5 m s-1"
concentrations = {dye = 1.0}
[[forcing]]
type = "rain"
rate = "36 mm h-1"
"""
IN_FILE = {
    "forcing.0.positions=[9e3, 5.0]": "position (9000, 5) is outside the grid",
    'bathymetry.depth="where(x < 1000, -1.0, 20.0)"': "is on land, and no water is within 5 cells",
    'run.until="3 hour"': "ends at 7200 s, and the run needs it until 10800 s",
    "forcing.1.rate=-1.0": "-1.0 is negative; give a number in m s-1, 0 or more",
    'forcing.0.discharge="20 + 0.1 * x"': "discharge",
    'forcing.1.rate="10 mm/fortnight"': "unknown unit 'fortnight'",
    "forcing.0.concentrations={mud = 1.0}": "the tracers of the model are dye",
    "forcing.0.positions=[]": "is not a point; give (x, y), or several of them",
}


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "q.csv").write_text("time_s,q_m3_s\n0,1\n7200,3\n")
    return tmp_path


def made_of(folder, *overrides):
    return assemble(read_text(FILE, "river.toml", folder, overrides))


def test_a_file_describes_a_river_whose_volume_is_said(folder):
    made = made_of(folder)
    model = model_of(made, "serial")
    river, rain = model.terms
    assert river.summary(model, 3600.0) == "5400 m3 in the run, at (350, 450)"
    assert rain.summary(model, 3600.0) == "2.916e+04 m3 in the run, on 0.81 km2"
    assert river.concentrations == (("dye", 1.0),) and river.velocity == (0.5, 0.0) and rain.rate == pytest.approx(1e-5)


def test_files_and_gauges_hold_the_water_that_has_infiltrated(folder):
    shore = '[model]\nmomentum = "momentum_conserving"\nwetting = {}\n[[forcing]]\ntype = "infiltration"\n'
    shore += 'conductivity = "6 mm h-1"\n[[output.fields]]\nfile = "out.nc"\nvariables = ["infiltrated"]\n'
    shore += 'every = "1 hour"\n[output.gauges]\nvariables = ["infiltrated"]\npositions = {land = ["50 m", "50 m"]}\n'
    text = FILE.replace("ab2", "ssprk3").replace("[[forcing]]", shore + "[[forcing]]", 1)
    assert not assemble(read_text(text, "river.toml", folder)).sentences()
    (mistake,) = assemble(
        read_text(text.replace('"infiltration"', '"rain"').replace("conductivity", "rate"), "river.toml", folder)
    ).sentences()[:1]
    assert "unknown variable 'infiltrated'" in mistake


@pytest.mark.parametrize("override", IN_FILE)
def test_a_mistake_in_a_file_is_one_sentence(override, folder):
    try:
        made = made_of(folder, override)
        model_of(made, "serial")
        found = made.sentences()
    except ConfigError as error:
        found = [str(error)]
    assert len(found) == 1 and IN_FILE[override] in found[0]


@pytest.mark.verify
@pytest.mark.parametrize("name", ["rain_plane", "river_plume"])
def test_the_short_forms_of_the_cases_meet_their_marks(name):
    case = all_cases()[name]
    values = case.measure(case.quick).values
    assert all(mark.passes(values[mark.name], quick=True) for mark in case.marks)
