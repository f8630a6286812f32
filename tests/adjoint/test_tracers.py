"""Derivatives with tracers: products of tangents and gradients, and Taylor tests."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import swmodel as sw
from swmodel import adjoint
from swmodel.adjoint.verification import has_kinks, verify
from swmodel.dynamics.clock import Time
from swmodel.stencils.native import why_not
from tests.selection import later

NX, NY, STEPS = 10, 8, 4
GRID = sw.CartesianGrid(NX, NY, (0.0, NX * 1e3), (0.0, NY * 1e3))
DEPTH = np.full((NY, NX), 80.0) + 10.0 * np.random.default_rng(1).random((NY, NX))
DEPTH[3:5, 4:6] = 0.0
CONTROLS = ["initial.dye", "initial.eta", "initial.u", "depth", "tracer.0.diffusivity"]
WITH_COMPILER = pytest.mark.skipif(why_not() is not None, reason="no compiler")


def wavy(x, y):
    return 2.0 + np.sin(x / 1.7e3) + 0.5 * np.cos((x + 2 * y) / 2.3e3)


def problem_of(scheme, engine, controls, cost=None, dye=wavy, stepper=sw.AB2):
    tracer = sw.Tracer("dye", scheme=scheme, diffusivity=5.0)
    model = sw.ShallowWater(GRID, DEPTH, coriolis=sw.FPlane(1e-4), tracers=tracer, engine=engine, communicator="serial")
    state = model.state(
        u=lambda x, y: 0.3 * np.sin(y / 2e3),
        v=lambda x, y: 0.2 * np.cos(x / 3e3),
        eta=lambda x, y: np.sin(x / 2e3),
        dye=dye,
    )
    square = adjoint.FinalState(lambda state, equations: jnp.sum(equations.shown(state, Time(STEPS)).dye ** 2))
    cost = square if cost is None else cost
    return adjoint.Problem(model, stepper(5.0), state, STEPS, cost, controls)


@pytest.mark.parametrize(
    "scheme, engine, stepper",
    [
        later(sw.Centred(), "arrays", sw.AB2),
        later(sw.Centred(), "arrays", sw.SemiImplicit),
        later(sw.FluxLimited(), "arrays", sw.ForwardBackward),
        pytest.param(sw.FluxLimited(sw.Koren()), "fused", sw.AB2, marks=WITH_COMPILER),
    ],
)
def test_the_gradient_is_the_transpose_of_the_tangent(scheme, engine, stepper):
    problem = problem_of(scheme, engine, CONTROLS, stepper=stepper)
    random = np.random.default_rng(3)
    directions = {name: random.standard_normal((NY, NX)) * (DEPTH > 0) for name in CONTROLS[:-1]}
    directions["tracer.0.diffusivity"] = 0.7
    gradient = problem.value_and_gradient()[1]
    products = {name: float(np.sum(np.asarray(gradient[name]) * d)) for name, d in directions.items()}
    slope = problem.tangent(None, directions)[1]
    assert abs(sum(products.values()) - slope) < 1e-12 * sum(map(abs, products.values()))
    assert all(products.values())


@pytest.mark.verify
def test_branches_of_a_limiter_leave_the_judgement_to_the_dot_product():
    """Beside a front the concentration is uniform, a kink of the limiter: no step is too short to cross it."""
    problem = problem_of(sw.FluxLimited(), "arrays", ["initial.dye"], dye=lambda x, y: np.where(x > 5e3, 2.0, 1.0))
    (verdict,) = verify(problem, {"initial.dye": 0.01}, second=False)
    assert verdict.kinks and not verdict.taylor.converged and verdict.passed and not verdict.judged_by_rate


@pytest.mark.parametrize(
    ("parts", "kinks"),
    [
        ({}, False),
        ({"tracers": sw.Tracer("dye", scheme=sw.Centred())}, False),
        ({"tracers": sw.Tracer("dye")}, True),
        ({"tracers": sw.Tracer("dye", scheme=sw.Centred()), "boundaries": sw.Flather("west")}, True),
        ({"boundaries": sw.Flather("west")}, False),
        ({"boundaries": (sw.RadiationNudging("west"), sw.Flather("east"))}, True),
        ({"boundaries": sw.WaveMaker("west", elevation=0.1, total=True)}, True),
        ({"momentum": sw.MomentumConserving()}, True),
    ],
)
def test_parts_that_choose_among_branches_say_so(parts, kinks):
    assert has_kinks(sw.ShallowWater(GRID, 80.0, communicator="serial", **parts)) is kinks


def test_at_an_extremum_the_derivative_is_that_of_the_branch_taken():
    """Behind a maximum a limiter is 0 for whatever small change: the scheme is the one upstream there."""
    limited = [sw.VanLeer(), sw.MinMod(), sw.MonotonizedCentral(), sw.Koren(), sw.Superbee()]
    at = jnp.array([-1.0, 2.0, 2.0 + 1e-6, 2.0 - 1e-6]), jnp.array([0.5, 0.1, 0.1, 0.1])
    along = jnp.ones(4), jnp.zeros(4)
    for values, slopes in jax.jit(lambda: [jax.jvp(limiter, at, along) for limiter in limited])():
        assert slopes[0] == 0.0
        np.testing.assert_allclose(slopes[1], (values[2] - values[3]) / 2e-6, atol=1e-6)


@pytest.mark.verify
def test_costs_read_the_concentration_and_the_content():
    """At centres of cells c itself, in the whole domain the sum of area h c, which does not change."""
    at = {"a": (2.5e3, 1.5e3), "b": (7.5e3, 6.5e3)}
    problem = problem_of(sw.FluxLimited(), "arrays", ["initial.dye"], adjoint.GaugeConcentration("dye", at))
    last = sw.Simulation(problem.model, problem.state, problem.stepper).run(steps=STEPS)
    c = np.asarray(last.dye) / np.where(DEPTH > 0, DEPTH + np.asarray(last.eta), 1.0)
    assert problem.value_and_gradient()[0] == pytest.approx(c[1, 2] + c[6, 7], rel=1e-12)

    amount = problem_of(sw.Centred(), "arrays", ["initial.dye"], adjoint.BoxContent("dye"))
    J, gradient = amount.value_and_gradient()
    content = 1e6 * np.asarray(problem.state.dye)
    assert J == pytest.approx(content.sum(), rel=1e-12)
    thickness = np.where(DEPTH > 0, DEPTH + np.asarray(problem.state.eta), 0.0)
    np.testing.assert_allclose(gradient["initial.dye"], 1e6 * thickness, rtol=1e-11)
