"""Wrong arguments in Python: one sentence that names function and argument, and no exception of Python's own."""

import math
import re

import jax
import numpy as np
import pytest

import swmodel as sw
from swmodel import adjoint, elliptic
from swmodel.errors import ConfigError, SwmodelError
from swmodel.fields import parameters
from swmodel.models.random_fields import GaussianCovariance, white_noise
from swmodel.parallel import SerialCommunicator, fft
from swmodel.simulation.outputs import SECONDS
from tests.faults.inputs import FOREIGN

GRID = sw.CartesianGrid(6, 5, (0.0, 6e4), (0.0, 5e4))
ONE = SerialCommunicator()
PLAN = fft.Plan(ONE, (5, 6))


def model(depth=100.0, grid=GRID, **options):
    return sw.ShallowWater(grid, depth, communicator="serial", engine="arrays", **options)


@pytest.fixture(scope="module")
def simulation():
    ocean = model()
    return lambda **options: sw.Simulation(ocean, ocean.at_rest(), sw.RK4(10.0), **options)


MODELS = {
    "momentum='energy_conserving'": lambda: model(momentum="energy_conserving"),
    "momentum=ArakawaLamb": lambda: model(momentum=sw.ArakawaLamb),
    "coriolis=1e-4": lambda: model(coriolis=1e-4),
    "side='no_slip'": lambda: model(side="no_slip"),
    "core='pseudo_spectral'": lambda: model(core="pseudo_spectral"),
    "linear='no'": lambda: model(linear="no"),
    "gravity=nan": lambda: model(gravity=math.nan),
    "gravity=1e-300": lambda: model(gravity=1e-300),
    "dtype='double!'": lambda: model(dtype="double!"),
    "forcing=(1,)": lambda: model(forcing=(1,)),
    "dissipation=(LinearDrag,)": lambda: model(dissipation=(sw.LinearDrag,)),
    "boundaries='west'": lambda: model(boundaries="west"),
    "source=uplift": lambda: model(source=np.zeros((5, 6))),
    "grid=(5, 6)": lambda: model(grid=(5, 6)),
    "depth='deep'": lambda: model("deep"),
    "depth=[[1, 2], [3]]": lambda: model([[1, 2], [3]]),
    "layout='2x2'": lambda: model(layout="2x2"),
    "engine=None": lambda: sw.ShallowWater(GRID, 100.0, communicator="serial", engine=None),
    "communicator=3": lambda: sw.ShallowWater(GRID, 100.0, communicator=3),
    "state(eta='1')": lambda: model().state(eta="1"),
    "state(eta=wrong shape)": lambda: model().state(eta=np.zeros((2, 2))),
}
PARTS = {
    "RK4('auto')": lambda: sw.RK4(dt="auto"),
    "RK4(RK4)": lambda: sw.RK4(sw.RK4),
    "AB2(epsilon=-1)": lambda: sw.AB2(1.0, -1),
    "SemiImplicit(epsilon=-1)": lambda: sw.SemiImplicit(10.0, epsilon=-1),
    "SemiImplicit(theta=0.4)": lambda: sw.SemiImplicit(10.0, theta=0.4).check(),
    "SemiImplicit(solver='spectral')": lambda: sw.SemiImplicit(10.0, solver="spectral").check(),
    "LinearDrag(-1)": lambda: sw.LinearDrag(-1e-6),
    "Laplacian(array)": lambda: sw.Laplacian(np.full((5, 6), -1.0)),
    "Laplacian(text)": lambda: sw.Laplacian(np.full((5, 6), "a")),
    "ManningDrag(None)": lambda: sw.ManningDrag(None),
    "WindStress(density=0)": lambda: sw.WindStress(0.1, 0.0, density=0),
    "Flather(3)": lambda: sw.Flather(3),
    "Sponge(width='w')": lambda: sw.Sponge("west", width="300 km", rate=1e-4),
    "FPlane('1e-4')": lambda: sw.FPlane("1e-4"),
    "BetaPlane(1, None)": lambda: sw.BetaPlane(1e-4, None),
    "RotatingSphere(inf)": lambda: sw.RotatingSphere(math.inf),
    "PseudoSpectral(1e-4)": lambda: sw.PseudoSpectral(1e-4),
    "HyperViscosity('1')": lambda: sw.HyperViscosity("1"),
    "ExponentialFilter(order='x')": lambda: sw.ExponentialFilter(order="x"),
    "CartesianGrid(8.5)": lambda: sw.CartesianGrid(8.5, 8, (0, 1), (0, 1)),
    "CartesianGrid(10**5000)": lambda: sw.CartesianGrid(10**5000, 8, (0, 1), (0, 1)),
    "CartesianGrid(x=1)": lambda: sw.CartesianGrid(8, 8, 1, (0, 1)),
    "CartesianGrid(x=(0, '1'))": lambda: sw.CartesianGrid(8, 8, (0, "1"), (0, 1)),
    "CartesianGrid(periodic=True)": lambda: sw.CartesianGrid(8, 8, (0, 1), (0, 1), True),
    "SphericalGrid(radius=0)": lambda: sw.SphericalGrid(8, 8, (0, 10), (0, 10), radius=0),
    "SphericalGrid(latitude=95)": lambda: sw.SphericalGrid(8, 8, (0, 10), (0, 95)),
    "BottomMotion": lambda: model(source=sw.BottomMotion([0.0, "a"], np.zeros((2, 5, 6)))),
    "BottomMotion(times=nan)": lambda: model(source=sw.BottomMotion([0.0, np.nan], np.zeros((2, 5, 6)))),
    "Ensemble(model, state)": lambda: sw.Ensemble(model(), model().at_rest()),
    "Spectra(None)": lambda: sw.Spectra(None),
    "limits('model')": lambda: sw.limits("model", sw.RK4(1.0)),
    "limits(stepper='rk4')": lambda: sw.limits(model(), "rk4"),
}
SOLVERS = {
    "named('x')": lambda: elliptic.named("x"),
    "c='1'": lambda: solved(elliptic.Coefficients("1")),
    "Plan('serial', ..)": lambda: fft.Plan("serial", (5, 6)),
    "Plan(kinds='x')": lambda: fft.Plan(ONE, (5, 6), "xy"),
    "white_noise(plan)": lambda: white_noise(1, (5, 6)),
    "GaussianCovariance('x')": lambda: GaussianCovariance(PLAN, (1e4, 1e4), "x"),
    "Problem(steps='10')": lambda: problem(steps="10"),
    "Problem(cost)": lambda: problem(cost=adjoint.BoxEnergy),
    "Problem(controls)": lambda: problem(controls=["initial.zeta"]),
    "Problem(checkpoints)": lambda: problem(checkpoints="all"),
}
RUNS = {
    "run()": lambda s: s().run(),
    "run(steps=0.9)": lambda s: s().run(steps=0.9),
    "run(steps=-1)": lambda s: s().run(steps=-1),
    "run(until=nan)": lambda s: s().run(until=math.nan),
    "run(until=1e20)": lambda s: s().run(until=1e20),
    "write(3)": lambda s: s().write(3),
    "write('a\\0b')": lambda s: s().write("a\0b.nc"),
    "write(variables='eta')": lambda s: s().write("a.nc", "eta"),
    "write(variables=[1])": lambda s: s().write("a.nc", [1]),
    "write(variables=['zeta'])": lambda s: s().write("a.nc", ["zeta"]).run(steps=1),
    "write(every=0)": lambda s: s().write("a.nc", every=0),
    "gauges(list)": lambda s: s().gauges("g.nc", [(1.0, 2.0)]),
    "gauges(text)": lambda s: s().gauges("g.nc", {"A": ("1", "2")}),
    "gauges(outside)": lambda s: s().gauges("g.nc", {"A": (1e9, 0.0)}),
    "maxima(threshold='x')": lambda s: s().maxima("m.nc", "x"),
    "restart(every=-1)": lambda s: s().restart("r.nc", every=-1.0),
    "spectra(transfers='no')": lambda s: s().spectra("s.nc", transfers="no"),
    "start='2000'": lambda s: s(start="2000-01-01"),
    "overwrite='no'": lambda s: s(overwrite="no"),
    "stages=0": lambda s: s(stages_per_exchange=0),
    "stepper=RK4": lambda s: sw.Simulation(model(), model().at_rest(), sw.RK4),
    "state=None": lambda s: sw.Simulation(model(), None, sw.RK4(1.0)),
    "model=ShallowWater": lambda s: sw.Simulation(sw.ShallowWater, None, sw.RK4(1.0)),
    "resume(nowhere)": lambda s: s().resume("nowhere.nc"),
}


def solved(coefficients):
    domain = elliptic.Domain.of(GRID, ONE, np.ones(GRID.shape, bool))
    return elliptic.solve(elliptic.Spectral(), domain, coefficients, np.zeros(GRID.shape))


def problem(steps=10, cost=None, controls=("initial.eta",), **options):
    ocean, cost = model(), adjoint.BoxEnergy() if cost is None else cost
    return adjoint.Problem(ocean, sw.RK4(10.0), ocean.at_rest(), steps, cost, controls, **options)


CALLS = MODELS | PARTS | SOLVERS


@pytest.mark.parametrize("call", CALLS.values(), ids=list(CALLS))
def test_a_wrong_argument_is_refused_in_one_sentence(call):
    with pytest.raises((SwmodelError, ValueError)) as refused:
        call()
    check_sentence(str(refused.value))


@pytest.mark.parametrize("call", RUNS.values(), ids=list(RUNS))
def test_a_simulation_refuses_wrong_arguments_in_one_sentence(call, simulation, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises((SwmodelError, ValueError)) as refused:
        call(simulation)
    check_sentence(str(refused.value))


def check_sentence(text):
    assert "\n" not in text and not FOREIGN.search(text.replace("dtype = ", "")), text
    assert text.endswith(".") and len(text) < 500, text


def test_whole_steps_move_the_clock_by_whole_steps(simulation):
    run = simulation()
    run.run(steps=3.0)
    assert (run.step, run.time) == (3, 30.0)
    assert isinstance(run.step, int)


def test_what_programs_put_in_the_place_of_numbers_is_let_through():
    drag = sw.LinearDrag(1e-6)
    assert jax.tree.map(lambda _: "any leaf", drag).rate == "any leaf"  # JAX rebuilds pytrees from whatever it likes
    assert jax.grad(lambda d: d.rate**2)(drag).rate == pytest.approx(2e-6)
    assert jax.grad(lambda rate: sw.LinearDrag(rate).rate ** 2)(1e-6) == pytest.approx(2e-6)
    with pytest.raises(SwmodelError):
        sw.LinearDrag("any leaf")
    np.testing.assert_array_equal(jax.vmap(lambda r: sw.LinearDrag(r).rate)(np.arange(3.0)), np.arange(3.0))


def test_limits_are_named_in_the_remedy():
    rule = parameters.Number("h", "m2 s-1", minimum=0.0, below=9.0, hint=" (or so)")
    assert rule.wanted() == (
        "a number in m2 s-1, 0 or more, less than 9, or a function of (x, y), an (ny, nx) array or time records of "
        "such numbers (or so)"
    )


@pytest.mark.parametrize(
    "text, product", [("1 day", "1 * sw.units.day"), ("2.5 h", "2.5 * sw.units.hour"), ("3 km", "3 * sw.units.km")]
)
def test_a_quantity_as_text_is_refused_with_its_form_in_python(text, product):
    with pytest.raises(
        ConfigError, match=re.escape(f"until = '{text}' is not a number; give a number in s, or None, as {product}.")
    ):
        SECONDS.check("Simulation.run", "until", text)
    with pytest.raises(ConfigError, match="give a number in s, or None.$"):
        SECONDS.check("Simulation.run", "until", "3 m")  # of any dimension
