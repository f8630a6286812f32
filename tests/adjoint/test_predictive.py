"""The spread of gauges: that of the linear theory, and the actual error wherever the truth is one of the controls'."""

from types import SimpleNamespace

import numpy as np
import pytest

from swmodel.adjoint.assimilation.minimise import Space
from swmodel.adjoint.assimilation.posterior import Consistency, members, spread
from swmodel.parallel import SerialCommunicator

MODEL, SPACE = SimpleNamespace(dtype=np.float64), Space(SerialCommunicator())
NOISE = np.random.default_rng(3)
USED, WITHHELD = NOISE.standard_normal((12, 6)), NOISE.standard_normal((5, 6))  # of six parameters; errors are 1
VALUES, VECTORS = np.linalg.eigh(USED.T @ USED)
EIGENPAIRS = VALUES, [{"p": vector} for vector in VECTORS.T]
START = {"p": np.zeros(6)}


def readings(parameters):
    return np.atleast_2d(WITHHELD @ np.asarray(parameters["p"]))


def estimated(eigenpairs=((), ()), count=400):
    return spread(readings, START, members(count, START, MODEL, SPACE, eigenpairs), SPACE)[0]


@pytest.mark.parametrize(
    "eigenpairs, covariance",
    [(((), ()), np.eye(6)), (EIGENPAIRS, np.linalg.inv(np.eye(6) + USED.T @ USED))],
    ids=["background", "analysis"],
)
def test_the_spread_is_that_of_the_linear_theory(eigenpairs, covariance):
    expected = np.sqrt(np.diag(WITHHELD @ covariance @ WITHHELD.T))
    assert estimated(eigenpairs) == pytest.approx(expected, rel=0.12)


def test_members_without_a_finite_run_do_not_count():
    def blows_up(parameters):
        values = readings(parameters)
        return np.where(np.asarray(parameters["p"])[0] > 1.0, np.nan, values)

    found = spread(blows_up, START, members(50, START, MODEL, SPACE), SPACE)
    assert np.isfinite(found).all()
    assert np.isnan(spread(lambda p: np.nan * readings(p), START, members(3, START, MODEL, SPACE), SPACE)).all()


def errors_of_twins(outside, count=300):
    """r.m.s. of the actual errors at withheld points, of truths with so much that the controls cannot make."""
    noise, squares = np.random.default_rng(5), np.zeros(5)
    beyond = [noise.standard_normal((rows, 6)) for rows in (12, 5)]
    for _ in range(count):
        p, q = noise.standard_normal(6), outside * noise.standard_normal(6)
        observed = USED @ p + beyond[0] @ q + noise.standard_normal(12)
        analysis = np.linalg.solve(np.eye(6) + USED.T @ USED, USED.T @ observed)
        squares += (WITHHELD @ analysis - WITHHELD @ p - beyond[1] @ q) ** 2
    return np.sqrt(squares / count)


def test_actual_errors_at_withheld_points_are_the_spread_where_the_controls_can_make_the_truth():
    assert errors_of_twins(0.0) == pytest.approx(estimated(EIGENPAIRS), rel=0.2)


def test_what_the_controls_cannot_make_is_not_in_the_spread():
    """It is in the error of the observations, or nowhere: the spread is then too small, as the docs say."""
    assert np.all(errors_of_twins(0.7) > 1.8 * estimated(EIGENPAIRS))


@pytest.mark.parametrize(
    "first, last, before, after",
    [
        (50.0, 10.0, None, None),
        (2e9, 1e7, "further from", "does not follow"),
        (1.5, 1.0, "nearer to", "more closely"),
        (50.0, 24.0, None, None),
        (50.0, 30.0, None, "does not follow"),
    ],
)
def test_a_cost_far_from_its_expectation_is_a_warning(first, last, before, after):
    found = Consistency(40, 20.0, first, last, 50.0)
    for warning, part in ((found.warning_before(), before), (found.warning_after(), after)):
        assert warning is None if part is None else part in warning
    assert Consistency(40, 20.0, first, last, np.nan).warning_before() is None
