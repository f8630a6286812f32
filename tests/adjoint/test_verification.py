"""The tests of derivatives accept right derivatives, and report wrong ones with their size and place."""

import dataclasses
import math
import types

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import swmodel as sw
from swmodel import adjoint
from swmodel.adjoint import examination, verification
from swmodel.adjoint.examination import DotProducts
from swmodel.adjoint.verification import Directions, Taylor, best_rate, nonlinearities, taylor_test
from swmodel.errors import ConfigError
from swmodel.fields.linear import linear_pair
from swmodel.fields.state import State
from swmodel.parallel import SerialCommunicator
from swmodel.runtime.compilation import jit

RANDOM = np.random.default_rng(0)
MIX = {"a": RANDOM.standard_normal((6, 4)), "b": RANDOM.standard_normal(6)}


@dataclasses.dataclass
class Toy:
    """A Problem of a vector and a number whose readings are r = m + m^2 / 4 + m^3 / 8, m = A a + B b; J is their sum.

    `wrong` {"gradient", "hessian" or "adjoint": factor} spoils a derivative.
    """

    wrong: dict = dataclasses.field(default_factory=dict)
    scale: float = 1.0

    model = types.SimpleNamespace(dtype=np.dtype(float))
    communicator, steps = SerialCommunicator(), 3
    values = {"a": np.array([0.3, -0.2, 0.5, 0.1]), "b": np.asarray(0.4)}

    def _readings(self, values):
        m = MIX["a"] @ values["a"] + MIX["b"] * values["b"]
        return (m + self.scale * (0.25 * m**2 + 0.125 * m**3)).reshape(3, 2)

    def _J(self, values):
        return jnp.sum(self._readings(values))

    def _times(self, name, tree):
        return jax.tree.map(lambda x: self.wrong.get(name, 1.0) * np.asarray(x), tree)

    def value(self, values):
        return float(self._J(values))

    def value_and_gradient(self, values):
        return self.value(values), self._times("gradient", jax.grad(self._J)(values))

    def _completed(self, directions):
        return jax.tree.map(np.zeros_like, self.values) | directions

    def hessian_product(self, values, directions):
        return self._times("hessian", jax.jvp(jax.grad(self._J), (values,), (self._completed(directions),))[1])

    def observed(self, values):
        return np.asarray(self._readings(values))

    def observed_tangent(self, values, directions):
        return jax.tree.map(np.asarray, jax.jvp(self._readings, (values,), (self._completed(directions),)))

    def observed_adjoint(self, values, readings):
        return self._times("adjoint", jax.vjp(self._readings, values)[1](jnp.asarray(readings))[0])


def directions(problem, size=0.1):
    return Directions(problem, {"a": size, "b": size})


def test_right_derivatives_pass_with_rates_of_two_and_three():
    for name in ("a", "b"):
        found = taylor_test(Toy(), directions(Toy()), name)
        assert found.rate == pytest.approx(2.0, abs=0.02) and found.rate_second == pytest.approx(3.0, abs=0.02)
        assert DotProducts(Toy(), directions(Toy())).errors[name] < 1e-15


@pytest.mark.parametrize("error", [1.01, 0.99, -1.0])
def test_a_wrong_gradient_loses_the_second_order(error):
    toy = Toy({"gradient": error})
    assert taylor_test(toy, directions(toy), "a").rate < verification.RATE - 0.3


@pytest.mark.parametrize("error", [1.01, 0.9])
def test_a_wrong_hessian_loses_the_third_order_alone(error):
    toy = Toy({"hessian": error})
    found = taylor_test(toy, directions(toy), "a")
    assert found.rate >= verification.RATE and found.rate_second < verification.RATE_SECOND - 0.3


@pytest.mark.parametrize("what", ["gradient", "hessian"])
def test_a_derivative_that_is_no_number_fails(what):
    toy = Toy({what: math.nan})
    assert not taylor_test(toy, directions(toy), "a").converged


@pytest.mark.parametrize("size", [1e-6, 1e-3, 1.0, 30.0])
def test_no_amplitude_is_too_small_or_too_large_to_tell(size):
    """Residuals that rounding hides at first, and steps at which the higher orders count most."""
    right = taylor_test(Toy(), directions(Toy(), size), "a")
    assert right.rate >= verification.RATE and right.rate_second >= verification.RATE_SECOND
    wrong = Toy({"gradient": 0.99})
    assert taylor_test(wrong, directions(wrong, size), "a").rate < verification.RATE


def test_a_wrong_adjoint_fails_the_dot_product():
    toy = Toy({"adjoint": 1.0 + 1e-10})
    assert min(DotProducts(toy, directions(toy)).errors.values()) > verification.DOT_PRODUCT


def test_a_linear_cost_is_exact_at_any_order_and_a_wrong_one_is_not():
    linear = Toy(scale=0.0)
    found = taylor_test(linear, directions(linear), "a")
    assert found.rate == math.inf and found.rate_second == math.inf
    wrong = Toy({"gradient": 1.01}, scale=0.0)
    assert taylor_test(wrong, directions(wrong), "a").rate < 1.1


def test_a_cost_on_which_nothing_depends_is_exact():
    still = Toy()
    still._J = lambda values: 0.0 * jnp.sum(values["a"]) * values["b"]
    found = taylor_test(still, directions(still), "a")
    assert found.rate == math.inf and found.rate_second == math.inf


def test_nonlinearity_is_the_share_of_the_perturbation_that_the_tangent_lacks():
    toy = Toy()
    found = [nonlinearities(toy, directions(toy, size))["b"] for size in (1e-4, 1e-3, 1.0)]
    assert found[0] < 1e-3 and found[1] == pytest.approx(10.0 * found[0], rel=0.05)
    assert found[2] > verification.NONLINEARITY


def test_a_rate_is_that_of_the_best_pair_above_rounding():
    floor = (1e-10,) * 9
    quadratic = [2.0 ** (-2 * k) for k in range(9)]
    assert best_rate(quadratic, floor) == pytest.approx(2.0)
    hidden = [0.01 * 2.0**-k + 2.0 ** (-2 * k) for k in range(9)]  # what is wrong shows in the end alone
    assert best_rate(hidden, floor) < 1.7
    by_chance = [1.0, 0.5, 0.25, 0.12, 0.06, 0.03, 0.0001, 0.0075, 0.004]  # one residual cancels
    assert best_rate(by_chance, floor) < 1.1
    assert best_rate([*quadratic[:4], *[1e-11] * 5], floor) == pytest.approx(2.0)
    assert best_rate([1e-12] * 9, floor) == math.inf
    assert best_rate([1e-11, 1e-11, *[1.0] * 7], floor) <= 0.0  # grows: wrong, not exact
    assert Taylor((1.0,), (1.0,), None, (0.0,)).rate_second is math.nan


def test_verification_wants_double_precision():
    with pytest.raises(ConfigError, match="float64"):
        verification.check_precision(types.SimpleNamespace(dtype=np.dtype(np.float32)))


# -- what it is done in ------------------------------------------------------------------------------------------------

GRID = sw.CartesianGrid(16, 12, (0.0, 3.2e6), (0.0, 2.4e6))


def model(coriolis=None, grid=GRID, **options):
    where = {"communicator": SerialCommunicator(), "engine": "arrays"}
    return sw.ShallowWater(grid, 1000.0, coriolis=coriolis, **where, **options)


def test_a_state_at_rest_is_set_in_balanced_motion_and_a_moving_one_left_alone():
    ocean = model(sw.FPlane(1e-4), grid=sw.CartesianGrid(64, 48, (0.0, 3.2e6), (0.0, 2.4e6)), linear=True)
    state = examination.moving_state(ocean, ocean.at_rest())
    tendency = jit(lambda dynamics, state: dynamics.prepare().tendency(state, 0.0))(ocean.interval(2, 0, 1.0), state)
    inner = slice(2, -2), slice(2, -2)  # the walls know of no balance
    turning = 1e-4 * float(jnp.sqrt(jnp.mean(state.v[inner] ** 2)))
    assert 0 < turning and float(jnp.sqrt(jnp.mean(tendency.u[inner] ** 2))) < 0.15 * turning
    assert 1e-3 < float(np.abs(state.eta).max()) < 10.0
    again = examination.moving_state(ocean, state)
    assert again is state
    still = model()
    assert float(np.abs(examination.moving_state(still, still.at_rest()).eta).max()) > 1e-3


def test_a_gravity_wave_crosses_the_longer_side():
    assert examination.crossing_steps(model(), 100.0) == math.ceil(3.2e6 / math.sqrt(9.81 * 1000.0) / 100.0)
    assert examination.crossing_steps(model(), 1e4) == 200


@pytest.mark.verify
def test_every_term_has_its_own_transpose_and_a_wrong_one_is_named(monkeypatch):
    ocean = model(sw.FPlane(1e-4), dissipation=(sw.QuadraticDrag(2.5e-3),), boundaries=sw.Flather(("west",)))
    stepper = sw.AB2(100.0)
    state = examination.moving_state(ocean, ocean.at_rest())
    double, _ = linear_pair("test_double", lambda x: 2.0 * x, lambda y: 2.1 * y)
    known = examination.pieces

    def with_a_wrong_one(dynamics, stepper):
        some = ("vorticity flux", "QuadraticDrag (term 0)")
        right = {name: piece for name, piece in known(dynamics, stepper).items() if name in some}
        return right | {"wrong": lambda e, s, flow: double(flow.eta.interior)}

    monkeypatch.setattr(examination, "pieces", with_a_wrong_one)
    found = examination.term_by_term(ocean, stepper, state)
    assert found.pop("wrong") > 1e-6
    assert len(found) == 2 and max(found.values()) < 1e-15


def test_a_probe_reads_the_same_of_any_state_as_its_weights_say():
    ocean = model()
    probe = verification.Probe.of(ocean, seed=3)
    fields = [RANDOM.standard_normal(GRID.shape) for _ in range(3)]
    read = probe.read(State(*map(jnp.asarray, fields)), None, 0.0)
    wanted = sum(np.einsum("kji,ji->k", np.asarray(w), x) for w, x in zip(jax.tree.leaves(probe.weights), fields))
    np.testing.assert_allclose(read, wanted, rtol=1e-12)


class OfTwoRuns:
    """A Problem of one number, whose adjoint is that of another run from reading number `until` on."""

    steps, communicator = 16, SerialCommunicator()

    def __init__(self, until):
        self.weights = np.random.default_rng(2).standard_normal((self.steps, 2))
        self.others = np.where(np.arange(self.steps)[:, None] < until, self.weights, 2.0 * self.weights)

    def observed_tangent(self, values, x):
        return None, float(x["a"]) * self.weights

    def observed_adjoint(self, values, y):
        return {"a": jnp.sum(self.others * y)}


class OneDirection:
    names, values = ("a",), {"a": jnp.ones(())}

    def along(self, name, smooth):
        return {"a": jnp.asarray(3.0)}


@pytest.mark.parametrize("until, agreed", [(16, {}), (15, {"a": 8}), (5, {"a": 4}), (1, {"a": 1}), (0, {"a": 0})])
def test_the_steps_before_a_branch_is_another_one_are_found(until, agreed):
    products = DotProducts(OfTwoRuns(until), OneDirection())
    assert products.agreed_steps() == agreed


@pytest.mark.parametrize("kinks, agreed, passed", [(True, 4, True), (True, 0, False), (False, 4, False)])
def test_a_dot_product_that_holds_over_no_steps_or_without_kinks_is_wrong(kinks, agreed, passed):
    taylor = Taylor((1.0, 0.5, 0.25), (1.0, 0.25, 0.0625), None, (0.0, 0.0, 0.0))
    assert verification.Verdict("a", "m", 1.0, 1e-3, taylor, 0.0, kinks, agreed).passed == passed


@pytest.mark.verify
@pytest.mark.parametrize(
    "part", (sw.QuadraticDrag(0.05), pytest.param(sw.Smagorinsky(0.5), marks=pytest.mark.verify)), ids=str
)
def test_where_second_derivatives_jump_gradients_are_judged_alone(part):
    """Water next to a wave is at rest, where |u| u has no second derivative: right derivatives were called wrong."""
    grid = sw.CartesianGrid(8, 6, (0.0, 8e4), (0.0, 6e4))
    options = {"communicator": "serial", "dtype": "float64", "engine": "arrays"}
    model = sw.ShallowWater(grid, 20.0, dissipation=part, **options)
    hump = lambda x, y: np.exp(-((x - 4e4) ** 2 + (y - 3e4) ** 2) / 1e4**2)  # noqa: E731
    cost = adjoint.FinalState(lambda state, equations: jnp.sum(state.eta**2 + state.u**2))
    problem = adjoint.Problem(model, sw.ForwardBackward(100.0), model.state(eta=hump), 20, cost, ["initial.u"])
    (verdict,) = verification.verify(problem)
    assert verdict.passed and verdict.taylor.second is None and not verdict.kinks
    directions = Directions(problem, {"initial.u": verdict.amplitude})
    assert not taylor_test(problem, directions, "initial.u").converged  # with a Hessian product
    J, gradient = problem.value_and_gradient(directions.values)
    assert not taylor_test(
        problem, directions, "initial.u", (J, {"initial.u": 1.01 * gradient["initial.u"]}), False
    ).converged
