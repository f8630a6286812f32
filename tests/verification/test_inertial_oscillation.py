"""An inertial oscillation goes on for a hundred days: the Coriolis force neither feeds nor eats it."""

import numpy as np
import pytest

import swmodel as sw
from tests.selection import now

from .cases import take_steps

F, DAYS = 1e-4, 100
STEPPERS = (sw.AB2(200.0), sw.AB3(200.0), sw.SSPRK3(200.0), sw.RK4(200.0), sw.ForwardBackward(200.0))


def _ocean():
    return sw.ShallowWater(sw.CartesianGrid(3, 3, (0.0, 3e6), (0.0, 3e6), "xy"), 1000.0, coriolis=sw.FPlane(F))


@pytest.mark.parametrize("stepper", now(STEPPERS, STEPPERS[0], *STEPPERS[3:]), ids=lambda s: type(s).__name__)
def test_an_inertial_oscillation_is_kept_for_a_hundred_days(stepper):
    """Of 1 m/s, it turns by f dt a step and keeps its speed to 1 %; AB2's epsilon takes its share."""
    model = _ocean()
    steps = round(DAYS * 86400 / 200.0)
    state, _ = take_steps(model, stepper, model.state(u=1.0), steps)
    kept = stepper.amplification(1j * F * 200.0) ** steps
    speed, phase = np.hypot(state.u, state.v), np.arctan2(-np.asarray(state.v), np.asarray(state.u))
    np.testing.assert_allclose(speed, kept, rtol=2e-3)  # the first, lower-order steps are in it
    assert isinstance(stepper, sw.AB2) or abs(kept - 1) < 0.01
    error = (phase - F * DAYS * 86400 + np.pi) % (2 * np.pi) - np.pi
    assert np.abs(error).max() < (F * 200.0) ** 2 * F * DAYS * 86400
    assert np.abs(state.eta).max() < 1e-12


def test_ab2_damps_an_oscillation_by_its_epsilon():
    """epsilon (f dt)^2 a step, as its documentation says."""
    stepper = sw.AB2(200.0, epsilon=0.01)
    model = _ocean()
    state, _ = take_steps(model, stepper, model.state(u=1.0), 4320)
    lost = 1 - np.hypot(state.u, state.v)
    np.testing.assert_allclose(lost, 1 - np.exp(-0.01 * (F * 200.0) ** 2 * 4320), rtol=0.05)
