"""Time steppers: their orders, their first steps, and their formulas, on one small nonlinear flow."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import swmodel as sw
from swmodel.stepping.explicit import Past
from tests.selection import now
from tests.verification.cases import march, tendency

GRID = sw.CartesianGrid(6, 5, (0.0, 6e4), (0.0, 5e4), "xy")
MODEL = sw.ShallowWater(GRID, lambda x, y: 100.0 + 20.0 * np.cos(2 * np.pi * x / 6e4) + 0 * y, coriolis=sw.FPlane(2e-4))
START = MODEL.state(
    u=lambda x, y: np.sin(2 * np.pi * y / 5e4) + 0 * x,
    v=lambda x, y: 0.5 * np.cos(2 * np.pi * x / 6e4) + 0 * y,
    eta=lambda x, y: np.sin(2 * np.pi * x / 6e4) * np.cos(2 * np.pi * y / 5e4),
)
DYNAMICS = MODEL.interval(2, 0, 1.0)
LENGTH = 1920.0  # [s]
ORDERS = {sw.AB2: 2, sw.AB3: 3, sw.SSPRK3: 3, sw.RK4: 4, sw.ForwardBackward: 2}
EACH = pytest.mark.parametrize("kind", ORDERS, ids=lambda kind: kind.__name__)


def stepper_of(kind, dt):
    """AB2 without its damping, which is of first order."""
    return jax.tree.map(jnp.asarray, kind(dt, epsilon=0.0) if kind is sw.AB2 else kind(dt))


def take_steps(stepper, steps, state=START, history=None):
    return march(DYNAMICS, stepper, state, stepper.history(state) if history is None else history, jnp.int32(steps))


@pytest.fixture(scope="module")
def exact():
    """The state after `t` seconds (also before the start): RK4 with steps of 5 s."""
    return lambda t: take_steps(sw.RK4(jnp.asarray(5.0 * np.sign(t))), round(abs(t) / 5.0))[0]


def primed(kind, dt, exact):
    """The history of a scheme that has been running."""
    before = [exact(-dt), exact(-2 * dt)]
    if kind is sw.ForwardBackward:
        return Past(jnp.int32(2), tuple(before))
    slopes = tuple(tendency(MODEL, state) for state in before)
    return {sw.AB2: Past(jnp.int32(1), slopes[:1]), sw.AB3: Past(jnp.int32(2), slopes)}.get(kind, ())


def error(state, wanted):
    pieces = [np.asarray(a - b).ravel() for a, b in zip(*map(jax.tree.leaves, (state, wanted)))]
    return np.sqrt(np.mean(np.concatenate(pieces) ** 2))


@pytest.mark.parametrize("kind", (sw.AB2, sw.AB3, sw.ForwardBackward), ids=lambda kind: kind.__name__)
def test_the_first_steps_leave_second_order(kind, exact):
    """What a fresh start changes of the end, against one with a history."""
    left = []
    for n in (96, 192):
        stepper = stepper_of(kind, LENGTH / n)
        fresh, running = take_steps(stepper, n)[0], take_steps(stepper, n, START, primed(kind, LENGTH / n, exact))[0]
        left.append(error(fresh, running))
    assert 1.8 < np.log2(left[0] / left[1]) < 2.2


@EACH
def test_the_first_step_is_that_of_euler_or_complete(kind):
    """A history that is empty is not used, whatever it holds."""
    stepper = stepper_of(kind, 10.0)
    history = jax.tree.map(lambda x: x + 7.0 if x.ndim == 2 else x, stepper.history(START))
    (clean, _), (dirty, _) = take_steps(stepper, 1), take_steps(stepper, 1, START, history)
    for a, b in zip(*map(jax.tree.leaves, (clean, dirty))):
        np.testing.assert_array_equal(a, b)
    if kind in (sw.AB2, sw.AB3):
        slope = tendency(MODEL, START)
        np.testing.assert_allclose(clean.u, START.u + 10.0 * slope.u, rtol=1e-13)


@pytest.mark.parametrize("kind", now(list(ORDERS), sw.ForwardBackward), ids=lambda kind: kind.__name__)
def test_what_does_not_change_is_kept_in_single_precision(kind):
    """A raised lake at rest: the weights of a scheme's stages add up to 1, or water would come in at every step."""
    lake = sw.ShallowWater(GRID, 100.0, dtype="float32", communicator="serial", engine="arrays")
    last = sw.Simulation(lake, lake.state(eta=1.0), kind(10.0)).run(steps=1000)
    np.testing.assert_allclose(last.eta, 1.0, rtol=0, atol=1e-6)


def test_forward_backward_presses_with_the_new_elevation():
    """AB3-AM4 of Shchepetkin & McWilliams (2005): the pressure in a flow at rest, three levels of elevation deep."""
    rng, dt, g = np.random.default_rng(0), 10.0, 9.81
    model = sw.ShallowWater(GRID, 100.0, gravity=g, linear=True)
    eta = [rng.standard_normal(GRID.shape) for _ in range(3)]
    now, *before = (model.state(eta=e) for e in eta)
    stepper = sw.ForwardBackward(jnp.asarray(dt))
    state, _ = march(model.interval(2, 0, 1.0), stepper, now, Past(jnp.int32(2), tuple(before)), jnp.int32(1))
    seen = (0.614 + 1 - 0.614 - 0.088 - 0.013) * eta[0] + 0.088 * eta[1] + 0.013 * eta[2]
    np.testing.assert_allclose(state.eta, eta[0], rtol=1e-13)
    np.testing.assert_allclose(state.u, -g * dt * (np.roll(seen, -1, axis=1) - seen) / 1e4, rtol=1e-10, atol=1e-15)
    np.testing.assert_allclose(state.v, -g * dt * (np.roll(seen, -1, axis=0) - seen) / 1e4, rtol=1e-10, atol=1e-15)
    moving = [model.state(u=rng.standard_normal(GRID.shape)) for _ in range(3)]
    dynamics, past = model.interval(2, 0, 1.0), Past(jnp.int32(2), tuple(moving[1:]))
    state, _ = march(dynamics, stepper, moving[0], past, jnp.int32(1))
    b = 0.281105
    u = (1.5 + b) * moving[0].u - (0.5 + 2 * b) * moving[1].u + b * moving[2].u
    np.testing.assert_allclose(state.eta, -100.0 * dt * (u - np.roll(u, 1, axis=1)) / 1e4, rtol=1e-10, atol=1e-13)


def test_derivatives_go_through_the_time_step():
    """The state's derivative in dt is the tendency, for one step of Euler."""
    of = lambda dt: take_steps(sw.AB3(dt), 1)[0].eta  # noqa: E731
    slope = jax.jit(lambda dt: jax.jvp(of, (dt,), (1.0,))[1])(10.0)
    np.testing.assert_allclose(slope, tendency(MODEL, START).eta, rtol=1e-10, atol=1e-15)


@EACH
@pytest.mark.parametrize("dt", (0.0, -5.0, float("nan")))
def test_a_time_step_that_is_none_is_refused(kind, dt):
    with pytest.raises(ValueError, match=f"{kind.__name__}: dt = .* is not (positive|a finite number)"):
        kind(dt).check()
