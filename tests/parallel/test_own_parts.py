"""Parts of a user's own, those of docs/guide/own_parts.md: the same on any number of ranks, and their gradients."""

import functools
from pathlib import Path

import jax
import jax.numpy as jnp
import netCDF4
import numpy as np
import pytest

import swmodel as sw
from swmodel import adjoint, elliptic
from swmodel.parallel import SerialCommunicator
from tests import own_parts

from . import cases

pytestmark = pytest.mark.skipif(cases.RANKS > 2, reason="two ranks show what more would")

OWN = own_parts.everything()
NAMES = ("whole", "resumed", "alone")
STEPS = 4
PERIOD = 12.42 * 3600.0


def ocean(**options):
    return cases.sea(
        cases.plane(),
        forcing=(OWN.TidalForce(1e-5 * cases.random(3), PERIOD),),
        dissipation=(sw.LinearDrag(1e-6), OWN.Relaxation(np.abs(1e-4 * cases.random(4)), 0.1)),
        boundaries=(OWN.TidalOpening(0.5 + 0.1 * cases.random(5), PERIOD, sides=("west", "south")),),
        **options,
    )


def read_energy(path):
    """{name: array} of the fields of a product's file."""
    with netCDF4.Dataset(path) as dataset:
        return {name: np.ma.filled(dataset[name][:], -1.0) for name in ("maximum_energy", "time_over")}


@pytest.mark.verify
def test_a_product_is_continued_bit_for_bit_and_is_the_same_on_all_ranks(tmp_path):
    folder = Path(str(cases.from_root(lambda: str(tmp_path))))

    def made(communicator, name):
        model = ocean(communicator=communicator, engine="arrays")
        run = sw.Simulation(model, cases.start(model), OWN.Ralston(10.0), overwrite=True)
        return run.product(folder / f"{name}.nc", OWN.WaveEnergy(50.0, every=20.0))

    made(cases.all_ranks(), "whole").run(steps=7)
    made(cases.all_ranks(), "resumed").restart(folder / "restart.nc").run(steps=4)
    again = made(cases.all_ranks(), "resumed")
    again.resume(folder / "restart.nc")
    again.run(steps=3)
    cases.from_root(lambda: made(SerialCommunicator(), "alone").run(steps=7))
    whole, resumed, alone = (cases.from_root(lambda name=name: read_energy(folder / f"{name}.nc")) for name in NAMES)
    for name, values in whole.items():
        np.testing.assert_array_equal(resumed[name], values, err_msg=name)
        np.testing.assert_allclose(alone[name], values, rtol=1e-12, err_msg=name)
    assert whole["maximum_energy"].max() > 0
    assert set(np.unique(whole["time_over"])) <= {-1.0, 0.0, 20.0, 40.0, 60.0}  # -1 on land
    other = sw.Simulation(
        ocean(communicator=cases.all_ranks(), engine="arrays"), again.state, OWN.Ralston(10.0), overwrite=True
    )
    other.product(folder / "other.nc", OWN.WaveEnergy(60.0, every=20.0)).resume(folder / "restart.nc")
    assert int(np.asarray(other.outputs[0].arrays["since"])) == 4  # of another level: it begins anew


@pytest.mark.verify
def test_a_control_and_a_cost_give_the_gradient_of_the_model():
    model = ocean(communicator=cases.all_ranks(), engine="arrays")
    start, stepper = cases.start(model), OWN.Ralston(10.0)
    control = sw.Transformed({"log_rate": np.log(2e-6)}, lambda p: {"dissipation.0.rate": jnp.exp(p["log_rate"])})
    problem = functools.partial(adjoint.Problem, model, stepper, start, STEPS, OWN.Unrest())
    _, of_log = problem([control]).value_and_gradient()
    _, of_rate = problem(["dissipation.0.rate"]).value_and_gradient({"dissipation.0.rate": 2e-6})
    assert float(of_log["log_rate"]) == pytest.approx(2e-6 * float(of_rate["dissipation.0.rate"]), rel=1e-9)
    assert OWN.log_rate(0.0).function({"log_rate": 0.0})["dissipation.0.rate"] == 1.0


@pytest.mark.verify
def test_a_solver_solves_and_its_gradient_is_one_more_solution():
    grid, communicator = cases.plane(), cases.all_ranks()
    domain = elliptic.Domain.of(grid, communicator, np.ones(grid.shape, bool))
    screened = elliptic.Coefficients(1.0, 1e-7)
    b = communicator.place(lambda rank: communicator.decomposition(grid.shape).cut(cases.random(7), rank).astype(float))
    ours, _ = elliptic.solve(OWN.Jacobi(), domain, screened, b)
    exact, _ = elliptic.solve(elliptic.ConjugateGradients(tolerance=1e-13), domain, screened, b)
    np.testing.assert_allclose(ours, exact, rtol=0, atol=1e-9 * float(jnp.abs(exact).max()))

    def gradient(solver):
        """dJ/dc and dJ/db of J = sum of phi^2."""

        def program(domain, c, b):
            def cost(c, b):
                plan = solver.plan(domain, elliptic.Coefficients(communicator.replicated(c), 1e-7))
                return communicator.sum(jnp.sum(solver.solve(plan, b) ** 2))

            return jax.grad(cost, argnums=(0, 1))(c, b)

        return jax.jit(communicator.spmd(program))(domain, np.float64(1.0), b)

    for found, expected in zip(gradient(OWN.Jacobi()), gradient(elliptic.ConjugateGradients(tolerance=1e-13))):
        assert float(jnp.abs(expected).max()) > 0
        np.testing.assert_allclose(found, expected, rtol=0, atol=1e-8 * float(jnp.abs(expected).max()))
