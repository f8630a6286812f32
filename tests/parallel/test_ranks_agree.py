"""Any number of ranks gives the result of one: forwards, and in its gradient."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import swmodel as sw
from swmodel import elliptic
from swmodel.fields.pytrees import replace
from swmodel.parallel import SerialCommunicator, make_communicator
from swmodel.runtime.compilation import jit

from . import cases


@pytest.fixture(scope="module")
def reference():
    """State after 100 steps on one rank, by case, made when first asked for."""
    made = {}

    def of(case):
        if case not in made:
            made[case] = cases.from_root(lambda: cases.steps(*cases.alone(case), 100))
        return made[case]

    return of


@pytest.mark.parametrize("layout", cases.EACH, ids=str)
@pytest.mark.parametrize("case", cases.CASES)
def test_a_hundred_steps_equal_those_of_one_rank(case, layout, reference):
    model, stepper = cases.together(case, layout)
    ours, whole = cases.steps(model, stepper, 100), reference(case)
    for name in ("u", "v", "eta"):
        tile, expected = np.asarray(getattr(ours, name)), getattr(whole, name)
        assert np.isfinite(expected).all()
        np.testing.assert_allclose(tile, expected[model.tile.slices], rtol=0, atol=1e-12 * np.abs(expected).max())


def cost(state, dynamics, depth, viscosity, stepper, weights):
    """A weighted elevation after ten steps, of a drag coefficient that every rank holds and a field that none does."""
    communicator = dynamics.communicator
    terms = (sw.Laplacian(viscosity), *dynamics.terms[1:])
    dynamics = replace(dynamics, depth=depth, terms=terms)
    final, _ = sw.integrate(dynamics, stepper, state, 10)
    return communicator.sum(jnp.sum(weights * final.eta) + jnp.sum(weights * final.u * final.v))


gradient = jit(jax.grad(cost, argnums=(0, 2, 3)))


def gradients(model, stepper):
    dynamics = model.dynamics(stepper)
    gauge = np.zeros((cases.NY, cases.NX))
    gauge[2, 3] = 1.0
    weights = jnp.asarray(gauge[model.tile.slices])
    return gradient(cases.start(model), dynamics, dynamics.depth, jnp.asarray(100.0), stepper, weights)


@pytest.mark.parametrize("layout", cases.EACH, ids=str)
def test_the_gradient_of_a_gauge_on_one_rank_equals_that_of_one_rank(layout):
    model, stepper = cases.together("walls and islands", layout)
    ours = gradients(model, stepper)
    whole = cases.from_root(lambda: gradients(*cases.alone("walls and islands")))
    for tile, expected in zip(jax.tree.leaves(ours), jax.tree.leaves(whole)):
        expected = np.asarray(expected)
        mine = expected[model.tile.slices] if expected.ndim else expected
        assert np.isfinite(expected).all() and np.abs(expected).max() > 0
        np.testing.assert_allclose(np.asarray(tile), mine, rtol=0, atol=1e-11 * np.abs(expected).max())


LAND = elliptic.ConjugateGradients(elliptic.Diagonal(), 1e-13)
IMPLICIT = {
    "free surface, islands and open sides": (
        lambda **o: sw.ShallowWater(
            cases.plane(), cases.sea_floor(), coriolis=sw.FPlane(1e-4), boundaries=(sw.Flather(("east", "north")),), **o
        ),
        sw.SemiImplicit(500.0, solver=LAND),
    ),
    "free surface, islands and lakes between walls": (
        lambda **o: sw.ShallowWater(cases.plane("x"), cases.sea_floor(), coriolis=sw.FPlane(1e-4), **o),
        sw.SemiImplicit(500.0, solver=LAND),
    ),
    "rigid lid, lakes and islands": (
        lambda **o: sw.ShallowWater(cases.plane("x"), cases.sea_floor(), coriolis=sw.FPlane(1e-4), **o),
        sw.RigidLid(500.0, solver=LAND),
    ),
    "flat and doubly periodic": (
        lambda **o: sw.ShallowWater(cases.plane("xy"), 1000.0, coriolis=sw.FPlane(1e-4), **o),
        sw.SemiImplicit(500.0),
    ),
}


def implicit_run(model, stepper):
    """The State after 3 steps, and the gradient of a weighted elevation then in (State, depth, gravity)."""
    dynamics = model.dynamics(stepper)
    weights = model.scatter(cases.random(9))
    run = jit(jax.value_and_grad(implicit_cost, argnums=(0, 2, 3), has_aux=True))
    (_, end), gradient = run(cases.start(model), dynamics, dynamics.depth, dynamics.gravity, stepper, weights)
    return end, gradient


def implicit_cost(state, dynamics, depth, gravity, stepper, weights):
    communicator = dynamics.communicator
    dynamics = replace(dynamics, depth=depth, gravity=gravity)
    end, _ = sw.integrate(dynamics, stepper, state, 3)
    return communicator.sum(jnp.sum(weights * (end.eta + end.u * end.v))), end


@pytest.mark.parametrize("case", list(IMPLICIT)[cases.RANKS > 2 :])  # which takes long to compile on a part of a core
def test_implicit_steps_and_their_gradient_equal_those_of_one_rank(case):
    make, stepper = IMPLICIT[case]
    model = make(communicator=make_communicator("auto", (cases.NY, cases.NX), cases.LAYOUTS[-1]))
    assert model.communicator.size == cases.RANKS
    ours = implicit_run(model, stepper)
    whole = cases.from_root(lambda: implicit_run(make(communicator=SerialCommunicator()), stepper))
    for tile, expected in zip(jax.tree.leaves(ours), jax.tree.leaves(whole)):
        expected = np.asarray(expected)
        mine = expected[model.tile.slices] if expected.ndim else expected
        assert np.isfinite(expected).all() and np.abs(expected).max() > 0
        np.testing.assert_allclose(np.asarray(tile), mine, rtol=0, atol=1e-10 * np.abs(expected).max())
