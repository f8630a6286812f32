"""Values, gradients, tangents and Hessian products are those of JAX's own differentiation of the plain run."""
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import swmodel as sw
from swmodel import adjoint
from swmodel.adjoint.tile_costs import TileCost
from swmodel.compilation import jit
from swmodel.errors import ConfigError
from swmodel.pytrees import pytree, replace

from . import cases


def final_cost(state, equations):
    return jnp.sum(state.eta * state.eta + equations.depth.interior * state.u * state.u)


CONTROLS = ("initial.u", "initial.eta", "depth", "dissipation.0.coefficient")


def by_jax(model, stepper, steps):
    """`f(values, direction)` -> (J, gradient, tangent, Hessian product) of `final_cost` in CONTROLS, on arrays."""
    halo, dt = model.halo(stepper), float(stepper.dt)
    dynamics, start = replace(model.dynamics(halo, 0, dt), engine="arrays"), cases.moving(model)
    stepper = jax.tree.map(jnp.asarray, stepper)

    def cost(values):
        wind, drag = dynamics.terms
        drag = replace(drag, coefficient=values["dissipation.0.coefficient"])
        changed = replace(dynamics, depth=values["depth"], terms=(wind, drag))
        masks = {"u": model.scatter(model.faces("u")), "eta": model.scatter(model.wet)}
        state = replace(start, **{k: values[f"initial.{k}"] * mask for k, mask in masks.items()})
        final, _ = sw.integrate(changed, stepper, state, steps)
        return final_cost(final, changed.prepare())

    def everything(x, d):
        (J, slope), (gradient, hessian) = jax.jvp(cost, (x,), (d,)), jax.jvp(jax.grad(cost), (x,), (d,))
        return J, gradient, slope, hessian

    return jit(everything)


@pytest.mark.parametrize("engine, stepper", [("fused", sw.AB2(10.0)), ("arrays", sw.ForwardBackward(10.0))], ids=str)
def test_all_derivatives_are_those_of_jax(engine, stepper):
    model = cases.basin(engine)
    cost, checkpoints = adjoint.FinalState(final_cost), adjoint.Nested(lengths=(2, 2))
    problem = adjoint.Problem(model, stepper, cases.moving(model), 5, cost, CONTROLS, checkpoints=checkpoints)
    values = jax.tree.map(jnp.asarray, problem.values)
    direction = jax.tree.map(jnp.asarray, cases.along(values))
    J, gradient, slope, hessian = by_jax(model, stepper, 5)(values, direction)
    ours = problem.value_and_gradient(values)
    got = ours[0], ours[1], problem.tangent(values, direction), problem.hessian_product(values, direction)
    for a, b in zip(jax.tree.leaves(got), jax.tree.leaves((J, gradient, (J, slope), hessian))):
        np.testing.assert_allclose(a, b, rtol=0, atol=1e-11 * np.abs(b).max())


def test_the_gradient_in_records_of_time_is_that_of_the_tangent():
    problem = cases.problem()
    direction = cases.along(problem.values)
    J, gradient = problem.value_and_gradient()
    again, slope = problem.tangent(problem.values, direction)
    assert again == pytest.approx(J, rel=1e-14)
    assert adjoint.dot(gradient, direction, problem.communicator) == pytest.approx(slope, rel=1e-12)
    assert np.abs(gradient["forcing.0.x"][1]).max() > 0 and np.abs(gradient["forcing.0.x"][3]).max() > 0


@pytree
class Traced(TileCost):
    """The sum of all readings of eta's sum; counts how often a program was traced with it."""

    traced = []

    def read(self, state, equations, step):
        return jnp.sum(state.eta)[None]

    def start(self):
        return jnp.zeros(())

    def update(self, acc, readings, first_step):
        self.traced.append(1)
        return acc + jnp.sum(readings)

    def value(self, acc, final):
        return acc


def test_more_forcing_records_take_no_more_programs():
    def traces(times):
        wind = sw.WindStress(x=cases.Records(times, 0.1 * np.ones((len(times), cases.NY, cases.NX))))
        model = sw.ShallowWater(cases.basin().grid, 100.0, forcing=(wind,), communicator="serial", engine="arrays")
        problem = adjoint.Problem(model, sw.AB2(10.0), cases.moving(model), 12, Traced(), ["forcing.0.x"])
        Traced.traced.clear()
        gradient = problem.value_and_gradient()[1]["forcing.0.x"]
        return len(Traced.traced), [bool(np.any(x)) for x in gradient.values()]

    once, seen = traces([0.0, 50.0, 1e3, 2e3])
    assert seen == [True, True, True, False]  # a run of 120 s
    assert traces([0.0, 10.0, 40.0, 60.0, 110.0, 1e3]) == (once, [True] * 6)


def products(basis, x):
    return {
        "uplift": {1: jnp.tensordot(jnp.exp(x["slip"]), basis, 1)},
        "dissipation.0.coefficient": x["root"] * x["root"],
    }


def test_the_gradient_goes_on_through_a_users_own_parameters():
    """And so does the Hessian product: a central difference of gradients."""
    model = cases.basin()
    basis = jnp.asarray(cases.random(8, 3, cases.NY, cases.NX))
    own = adjoint.Transformed({"slip": 0.1 * cases.random(9, 3), "root": 0.05}, jax.tree_util.Partial(products, basis))
    cost = adjoint.GaugeMaximum(cases.GAUGES)
    problem = adjoint.Problem(model, sw.AB2(10.0), cases.moving(model), 6, cost, [own, "initial.eta"])
    values, direction = problem.values, cases.along(problem.values)
    _, gradient = problem.value_and_gradient()
    assert gradient["slip"].shape == (3,) and gradient["root"].shape == ()
    slope = problem.tangent(values, direction)[1]
    assert adjoint.dot(gradient, direction, problem.communicator) == pytest.approx(slope, rel=1e-12)
    step, ends = 1e-5, []
    for sign in (+1, -1):
        moved = jax.tree.map(lambda x, d: x + sign * step * d, values, direction)  # noqa: B023
        ends.append(problem.value_and_gradient(moved)[1])
    hessian = problem.hessian_product(values, direction)
    for name in values:
        wanted = (np.asarray(ends[0][name]) - np.asarray(ends[1][name])) / (2 * step)
        np.testing.assert_allclose(hessian[name], wanted, rtol=0, atol=1e-6 * np.abs(wanted).max())


@pytree
class Twofold(Traced):
    def value(self, acc, final):
        return jnp.stack([acc, acc])


def test_a_cost_of_two_numbers_is_refused():
    model = cases.basin()
    problem = adjoint.Problem(model, sw.AB2(10.0), cases.moving(model), 2, Twofold(), ["gravity"])
    with pytest.raises(ConfigError, match=r"an array of shape \(2,\), and a cost is one number; sum it up"):
        problem.value()


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
