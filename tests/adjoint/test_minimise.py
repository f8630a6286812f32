"""L-BFGS and Lanczos with a global inner product: minima, eigenpairs, stopping rules, going on, and what misleads."""

import dataclasses

import numpy as np
import pytest

from swmodel.adjoint.assimilation.minimise import Space, Stop, lanczos, minimise
from swmodel.parallel import SerialCommunicator

SPACE = Space(SerialCommunicator())
RANDOM = np.random.default_rng(0)
TRUE = {"field": RANDOM.standard_normal((5, 7)), "numbers": RANDOM.standard_normal(4)}
START = {name: np.zeros_like(value) for name, value in TRUE.items()}
STIFF = {"field": 10.0 ** RANDOM.uniform(0, 2, (5, 7)), "numbers": 10.0 ** RANDOM.uniform(0, 2, 4)}


def quadratic(values):
    """1/2 sum a (x - t)^2 with a from 1 to 100."""
    away = {name: np.asarray(values[name]) - TRUE[name] for name in TRUE}
    gradient = {name: STIFF[name] * away[name] for name in TRUE}
    return 0.5 * sum(float(np.sum(gradient[name] * away[name])) for name in TRUE), gradient


def rosenbrock(values):
    x, y = np.asarray(values["xy"])
    gradient = np.array([-2 * (1 - x) - 400 * x * (y - x * x), 200 * (y - x * x)])
    return float((1 - x) ** 2 + 100 * (y - x * x) ** 2), {"xy": gradient}


def test_the_minimum_of_a_quadratic_is_found():
    found = minimise(quadratic, START, SPACE, Stop(gradient=1e-9))
    assert "gradient" in found.reason
    assert all(np.allclose(found.values[name], TRUE[name], atol=1e-8) for name in TRUE)
    assert all(b.value < a.value for a, b in zip(found.history, found.history[1:]))


def test_a_curved_valley_is_followed_to_its_end():
    found = minimise(rosenbrock, {"xy": np.array([-1.2, 1.0])}, SPACE, Stop(gradient=1e-9))
    assert np.allclose(found.values["xy"], 1.0, atol=1e-7)
    assert found.history[-1].evaluations < 60


def test_it_goes_on_from_where_it_was_as_if_it_had_not_stopped():
    whole = minimise(quadratic, START, SPACE, Stop(iterations=12))
    half = minimise(quadratic, START, SPACE, Stop(iterations=5))
    rest = minimise(quadratic, dataclasses.replace(half, reason=None), SPACE, Stop(iterations=12))
    assert rest.history == whole.history
    assert all(np.array_equal(rest.values[name], whole.values[name]) for name in TRUE)


@pytest.mark.parametrize(
    "stop, reason",
    [
        (Stop(iterations=3), "3 iterations"),
        (Stop(value=1.0), "down to 1"),
        (Stop(decrease=0.5), "less than 0.5"),
        (Stop(seconds=0.0), "0 s have passed"),
    ],
)
def test_each_rule_ends_it_and_says_so(stop, reason):
    assert reason in minimise(quadratic, START, SPACE, stop).reason


def test_where_the_model_blows_up_steps_become_shorter():
    blown_up = []

    def walled(values):
        """The quadratic of 20 x: a first step of length 1 is much too long."""
        value, gradient = quadratic(SPACE.scale(20.0, values))
        beyond = max(float(np.abs(20.0 * x).max()) for x in values.values()) > 3.5
        blown_up.extend([True] * beyond)
        return (float("nan") if beyond else value), SPACE.scale(20.0, gradient)

    assert max(float(np.abs(x).max()) for x in TRUE.values()) < 3.5
    found = minimise(walled, START, SPACE, Stop(gradient=1e-8))
    assert blown_up
    assert all(np.allclose(20.0 * found.values[name], TRUE[name], atol=1e-6) for name in TRUE)


def test_a_wrong_gradient_ends_it_with_a_sentence():
    found = minimise(lambda v: (quadratic(v)[0], SPACE.scale(-1.0, quadratic(v)[1])), START, SPACE)
    assert "a gradient that is not J's" in found.reason
    assert found.values is START


def test_a_start_that_is_not_finite_is_refused():
    with pytest.raises(ValueError, match="J is nan at the start"):
        minimise(lambda v: (float("nan"), v), START, SPACE)


# -- Lanczos -----------------------------------------------------------------------------------------------------------

SIZE = 12
ROOT = np.linalg.qr(RANDOM.standard_normal((SIZE, SIZE)))[0]
VALUES = np.concatenate([[300.0, 80.0, 20.0, 5.0], np.zeros(SIZE - 4)])
MATRIX = (ROOT * VALUES) @ ROOT.T
B = {"p": RANDOM.standard_normal(SIZE)}


def product(v):
    return {"p": MATRIX @ np.asarray(v["p"])}


def test_the_inner_problem_is_solved_and_its_residual_true():
    basis = lanczos(product, B, SPACE, SIZE, residual=1e-10)
    x = np.asarray(basis.solution()["p"])
    assert np.allclose(x, np.linalg.solve(np.eye(SIZE) + MATRIX, B["p"]), atol=1e-9)
    assert basis.products <= 6  # four eigenvalues and zero
    early = lanczos(product, B, SPACE, 3)
    x = np.asarray(early.solution()["p"])
    true = np.linalg.norm(B["p"] - x - MATRIX @ x) / np.linalg.norm(B["p"])
    assert early.residual == pytest.approx(true, rel=1e-6)


@pytest.mark.parametrize("products", [10, 20, 30])
def test_what_eigenpairs_leave_of_the_variance_is_too_much_in_every_direction(products):
    """Of eigenvalues from 1000 to 0.002, of which the least have not converged."""
    noise = np.random.default_rng(products)
    vectors = np.linalg.qr(noise.standard_normal((60, 60)))[0]
    matrix = (vectors * (1000.0 * 0.8 ** np.arange(60))) @ vectors.T
    basis = lanczos(lambda x: {"x": matrix @ np.asarray(x["x"])}, {"x": noise.standard_normal(60)}, SPACE, products)
    values, found = basis.eigenpairs()
    found = np.stack([np.asarray(w["x"]) for w in found], axis=1)
    estimate = np.eye(60) - (found * (values / (1.0 + values))) @ found.T
    assert 0 < values.size < products
    assert np.linalg.eigvalsh(estimate - np.linalg.inv(np.eye(60) + matrix)).min() > -0.01


def test_leading_eigenpairs_are_those_of_the_matrix():
    values, vectors = lanczos(product, B, SPACE, 8).eigenpairs(1e-8)
    assert np.allclose(values[:4], VALUES[:4], rtol=1e-8)
    for k in range(4):
        assert abs(np.asarray(vectors[k]["p"]) @ ROOT[:, k]) == pytest.approx(1.0, abs=1e-6)
