"""Values, gradients, tangents and Hessian products are those of JAX's own differentiation of the plain run."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import swmodel as sw
from swmodel import adjoint
from swmodel.adjoint.costs.tile_costs import TileCost
from swmodel.errors import ConfigError
from swmodel.fields.state import pytree, replace
from swmodel.runtime.compilation import jit
from swmodel.stepping.steps import ArrayStepLoop
from tests.derivatives import linearised

from . import cases


def final_cost(state, equations):
    return jnp.sum(state.eta * state.eta + equations.depth.interior * state.u * state.u)


def own(basis, x):
    """A user's own parameters: the depth from a few amplitudes, a positive drag from its root."""
    return {
        "depth": 1000.0 + jnp.tensordot(x["amplitudes"] * x["amplitudes"], basis, 1),
        "dissipation.0.coefficient": x["root"] * x["root"],
    }


BASIS = np.abs(cases.random(8, 2, cases.NY, cases.NX))
OWN = adjoint.Transformed(
    {"amplitudes": np.array([3.0, 5.0]), "root": 0.05}, jax.tree_util.Partial(own, jnp.asarray(BASIS))
)


def by_jax(model, stepper, steps, twice):
    """`f(values, direction)` -> (J, gradient, (J, tangent), Hessian product) of `final_cost`, on arrays."""
    dynamics, start = replace(model.dynamics(stepper, steps=steps), step_loop=ArrayStepLoop), cases.moving(model)
    stepper = jax.tree.map(jnp.asarray, stepper)
    masks = {"u": model.scatter(model.faces("u")), "eta": model.scatter(model.wet)}

    def cost(values):
        raw = own(jnp.asarray(BASIS), values)
        wind, drag = dynamics.terms
        terms = wind, replace(drag, coefficient=raw["dissipation.0.coefficient"])
        changed = replace(dynamics, depth=raw["depth"], terms=terms)
        state = replace(start, **{k: values[f"initial.{k}"] * mask for k, mask in masks.items()})
        final, _ = sw.integrate(changed, stepper, state, steps)
        return final_cost(final, changed.interval(0).prepare())

    def everything(x, d):
        if not twice:
            J, gradient, slope = linearised(cost, x, d)
            return J, gradient, (J, slope)
        (J, gradient), (slope, hessian) = jax.jvp(jax.value_and_grad(cost), (x,), (d,))
        return J, gradient, (J, slope), hessian

    return jit(everything)


@pytest.mark.parametrize(
    "engine, stepper, twice",
    [
        ("fused", sw.AB2(10.0), False),
        pytest.param("fused", sw.AB2(10.0), True, marks=pytest.mark.verify),
        pytest.param("arrays", sw.ForwardBackward(10.0), False, marks=pytest.mark.verify),
    ],
    ids=str,
)
def test_derivatives_are_those_of_jax_through_a_users_own_parameters(engine, stepper, twice):
    model = cases.basin(engine)
    cost, checkpoints = adjoint.FinalState(final_cost), adjoint.Nested(lengths=(2, 2))
    controls = ["initial.u", "initial.eta", OWN]
    problem = adjoint.Problem(model, stepper, cases.moving(model), 4, cost, controls, checkpoints=checkpoints)
    values = jax.tree.map(jnp.asarray, problem.values)
    direction = jax.tree.map(jnp.asarray, cases.along(values))
    wanted = by_jax(model, stepper, 4, twice)(values, direction)
    got = *problem.value_and_gradient(values), problem.tangent(values, direction)
    got += (problem.hessian_product(values, direction),) if twice else ()
    assert got[1]["amplitudes"].shape == (2,) and got[1]["root"].shape == ()
    for a, b in zip(jax.tree.leaves(got), jax.tree.leaves(wanted), strict=True):
        np.testing.assert_allclose(a, b, rtol=0, atol=1e-11 * np.abs(b).max())


@pytree
class Traced(TileCost):
    """The sum of the squares of all elevations of all steps; counts how often a program was traced with it."""

    traced = []

    def read(self, state, equations, step):
        return jnp.sum(state.eta * state.eta)[None]

    def start(self):
        return jnp.zeros(())

    def update(self, acc, readings, first_step):
        self.traced.append(1)
        return acc + jnp.sum(readings)

    def value(self, acc, final):
        return acc


@pytree
class Begun(Traced):
    """One that begins with an array of its own."""

    first: jnp.ndarray

    def start(self):
        return self.first


def test_what_a_run_writes_over_is_its_own():
    model = cases.basin()
    state, cost = cases.moving(model), Begun(jnp.asarray(2.0))
    problem = adjoint.Problem(model, sw.AB2(10.0), state, 4, cost, ["initial.u"])
    found = [problem.value_and_gradient() for _ in range(2)]
    np.testing.assert_array_equal(*(gradient["initial.u"] for _, gradient in found))
    assert float(cost.first) == 2.0 and all(np.isfinite(x).all() for x in (state.u, state.v, state.eta))


@pytest.mark.verify
def test_more_forcing_records_take_no_more_programs():
    def traces(times):
        wind = sw.WindStress(x=sw.Records(times, 0.1 * np.ones((len(times), cases.NY, cases.NX))))
        model = sw.ShallowWater(cases.basin().grid, 100.0, forcing=(wind,), communicator="serial", engine="arrays")
        problem = adjoint.Problem(model, sw.AB2(10.0), cases.moving(model), 12, Traced(), ["forcing.0.x"])
        Traced.traced.clear()
        gradient = problem.value_and_gradient()[1]["forcing.0.x"]
        return len(Traced.traced), [bool(np.any(x)) for x in gradient.values()]

    once, seen = traces([0.0, 50.0, 1e3, 2e3])
    assert seen == [True, True, True, False]  # a run of 120 s
    # The last step begins on the record at 110 s, and sees nothing of the next.
    assert traces([0.0, 10.0, 40.0, 60.0, 110.0, 1e3]) == (once, [True] * 5 + [False])


@pytree
class Twofold(Traced):
    def value(self, acc, final):
        return jnp.stack([acc, acc])


def test_a_cost_of_two_numbers_is_refused():
    model = cases.basin()
    with pytest.raises(ConfigError, match=r"Twofold.value .* returned an array of shape \(2,\); return one number"):
        adjoint.Problem(model, sw.AB2(10.0), cases.moving(model), 2, Twofold(), ["gravity"])


def test_an_ensemble_is_refused():
    models = [cases.basin(), cases.basin()]
    ensemble = sw.Ensemble(models, [cases.moving(m) for m in models])
    with pytest.raises(ConfigError, match="Ensemble; give one of its members"):
        adjoint.Problem(ensemble, sw.AB2(10.0), None, 2, Traced(), ["gravity"])


def test_what_only_sees_the_last_state_has_no_readings():
    model = cases.basin()
    problem = adjoint.Problem(model, sw.AB2(10.0), cases.moving(model), 2, adjoint.FinalState(final_cost), ["gravity"])
    with pytest.raises(ConfigError, match="reads nothing along the run"):
        problem.observed()


def test_a_time_step_over_the_limit_is_refused_as_a_simulation_refuses_it():
    grid = sw.CartesianGrid(8, 6, (0.0, 8e3), (0.0, 6e3))
    model = sw.ShallowWater(grid, 1000.0)
    state = model.at_rest()
    cost = adjoint.FinalState(lambda state: jnp.sum(state.eta**2))
    longest = sw.limits(model, sw.AB2(1.0), state)[0].dt
    adjoint.Problem(model, sw.AB2(0.99 * longest), state, 10, cost, "initial.eta")
    for make in (
        lambda stepper: adjoint.Problem(model, stepper, state, 10, cost, "initial.eta"),
        lambda stepper: sw.Simulation(model, state, stepper),
    ):
        with pytest.raises(
            ConfigError, match=r"over the limit of AB2: gravity waves: dt <= .* at \(500, 500\); use .* s or less"
        ):
            make(sw.AB2(1.01 * longest))
