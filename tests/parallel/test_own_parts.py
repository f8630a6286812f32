"""Parts of a user's own, those of docs/own_parts.md: the same on any number of ranks, and their gradients."""

import functools

import jax.numpy as jnp
import numpy as np
import pytest

import swmodel as sw
from swmodel import adjoint, elliptic
from swmodel.adjoint.verification.verification import verify
from swmodel.parallel import SerialCommunicator, make_communicator
from tests import own_parts

from . import cases

pytestmark = pytest.mark.skipif(cases.RANKS > 2, reason="two ranks show what more would")

OWN = own_parts.everything()
STEPS = 4
PERIOD = 12.42 * 3600.0


def ocean(communicator, engine):
    return sw.ShallowWater(
        cases.plane(), cases.sea_floor(), coriolis=sw.FPlane(1e-4), communicator=communicator, engine=engine,
        forcing=(OWN.TidalForce(1e-5 * cases.random(3), PERIOD),),
        dissipation=(sw.LinearDrag(1e-6), OWN.Relaxation(np.abs(1e-4 * cases.random(4)), 0.1)),
        boundaries=(OWN.TidalOpening(0.5 + 0.1 * cases.random(5), PERIOD, sides=("west", "south")),),
    )  # fmt: skip


def run(communicator, engine):
    """(model, State after some steps, what they ran as)."""
    model = ocean(communicator, engine)
    simulation = sw.Simulation(model, cases.start(model), OWN.Ralston(10.0))
    return model, simulation.run(steps=STEPS), simulation.engine


def together():
    return make_communicator("auto", (cases.NY, cases.NX), cases.LAYOUTS[0])


@pytest.mark.parametrize("engine", ["arrays", "fused"])
def test_runs_equal_those_of_one_rank_on_arrays(engine):
    model, ours, ran = run(together(), engine)
    assert ran == (engine, None if engine == "fused" else "engine = 'arrays' was chosen")

    def of_one():
        return {name: np.asarray(getattr(run(SerialCommunicator(), "arrays")[1], name)) for name in ("u", "v", "eta")}

    for name, whole in cases.from_root(of_one).items():
        tile = np.asarray(getattr(ours, name))
        np.testing.assert_allclose(tile, whole[model.tile.slices], rtol=0, atol=1e-12 * np.abs(whole).max())


def test_gradients_pass_dot_products_and_taylor_tests():
    model, controls = ocean(together(), "fused"), ["forcing.0.strength", "dissipation.1.rate", "boundary.0.amplitude"]
    assert set(controls) < set(adjoint.names_of(model)) and "dissipation.2.rate" not in adjoint.names_of(model)
    problem = adjoint.Problem(model, OWN.Ralston(10.0), cases.start(model), STEPS, OWN.Unrest(), controls)
    wrong = [str(verdict) for verdict in verify(problem, second=False) if not verdict.passed]
    assert not wrong, "\n".join(wrong)


def test_a_control_and_a_cost_give_the_gradient_of_the_model():
    model = ocean(together(), "arrays")
    start, stepper = cases.start(model), OWN.Ralston(10.0)
    control = sw.Transformed({"log_rate": np.log(2e-6)}, lambda p: {"dissipation.0.rate": jnp.exp(p["log_rate"])})
    problem = functools.partial(adjoint.Problem, model, stepper, start, STEPS, OWN.Unrest())
    _, of_log = problem([control]).value_and_gradient()
    _, of_rate = problem(["dissipation.0.rate"]).value_and_gradient({"dissipation.0.rate": 2e-6})
    assert float(of_log["log_rate"]) == pytest.approx(2e-6 * float(of_rate["dissipation.0.rate"]), rel=1e-9)
    assert OWN.log_rate(0.0).function({"log_rate": 0.0})["dissipation.0.rate"] == 1.0


def test_a_solver_solves_and_its_gradient_is_one_more_solution():
    grid, communicator = cases.plane(), together()
    domain = elliptic.Domain.of(grid, communicator, np.ones(grid.shape, bool))
    screened = elliptic.Coefficients(1.0, 1e-7)
    b = communicator.place(lambda rank: communicator.decomposition(grid.shape).cut(cases.random(7), rank).astype(float))
    ours, _ = elliptic.solve(OWN.Jacobi(), domain, screened, b)
    exact, _ = elliptic.solve(elliptic.ConjugateGradients(tolerance=1e-13), domain, screened, b)
    np.testing.assert_allclose(ours, exact, rtol=0, atol=1e-9 * float(jnp.abs(exact).max()))
