"""What is forced is forced at the right time within every step, from the first step on.

A body of water without gradients obeys du/dt = a t - r u under a wind that grows steadily and a linear drag, and its
surface the same equation under a sponge whose level rises. Both have solutions in closed form, and a stage that sees
the force of another time costs a scheme its order.
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import swmodel as sw
from swmodel.runtime.compilation import jit
from swmodel.stepping.steps import one_step
from tests.selection import later, now

GRID = sw.CartesianGrid(4, 3, (0.0, 4e4), (0.0, 3e4), "xy")
DEPTH, LENGTH, RATE, END = 100.0, 1000.0, 2e-3, 0.5  # [m], [s], of the drag [s-1], acceleration at the end [m s-2]
ORDERS = {sw.AB2: 2, sw.AB3: 2, sw.SSPRK3: 3, sw.RK4: 4, sw.ForwardBackward: 2}  # AB3 starts with a step of Euler


def growing(value):
    """A record of zeros at the start, and one of `value` at LENGTH."""
    return sw.Records(np.array([0.0, LENGTH]), np.stack([np.zeros(GRID.shape), np.full(GRID.shape, value)]))


def stepper_of(kind, dt):
    """Steppers whose explicit part is AB2 without its damping, which is of first order."""
    return kind(dt, epsilon=0.0) if kind in (sw.AB2, sw.SemiImplicit, sw.RigidLid) else kind(dt)


@jit
def _one(dynamics, stepper, state, history, k):
    return one_step(stepper.system(dynamics), stepper, state, history, k)


def advanced(model, stepper, steps, state=None, first=0):
    """[the State after each of `steps` time steps], in one window of the records; one program for any time step."""
    dynamics = model.interval(model.halo(stepper), 0, stepper.dt)
    state = model.at_rest() if state is None else state
    stepper, states = jax.tree.map(lambda x: jnp.asarray(x, model.dtype), stepper), []
    history = stepper.history(state)
    for k in range(first, first + steps):
        state, history = _one(dynamics, stepper, state, history, jnp.asarray(float(k)))
        states.append(state)
    return states


def blown(drag, end=END, **options):
    """Water under a wind that grows to `end` [m s-2], along x and against y, with a linear drag."""
    stress = end * DEPTH * 1000.0
    wind = sw.WindStress(x=growing(stress), y=growing(-stress), density=1000.0)
    return sw.ShallowWater(GRID, DEPTH, forcing=(wind,), dissipation=(sw.LinearDrag(drag),), engine="arrays", **options)


def lifted():
    """Water whose surface follows, at RATE, a level that rises to 1 m."""
    sponge = sw.Sponge("west", width=1e30, rate=RATE, elevation=growing(1.0))
    grid = sw.CartesianGrid(4, 3, (0.0, 4e4), (0.0, 3e4))
    return sw.ShallowWater(grid, DEPTH, boundaries=(sponge,), engine="arrays")


def relaxing(t, slope):
    """The solution of dx/dt = slope t - RATE x from 0."""
    return slope / RATE * (t - (1.0 - np.exp(-RATE * t)) / RATE)


@pytest.mark.parametrize("kind", (sw.SSPRK3, sw.RK4, sw.ForwardBackward), ids=lambda kind: kind.__name__)
def test_a_force_that_grows_steadily_is_integrated_exactly(kind):
    """u = a t^2 / 2: stages of right weights at right times, or the force in the middle of the step, leave no error."""
    dt = LENGTH / 4
    for k, state in enumerate(advanced(blown(0.0), stepper_of(kind, dt), 4), start=1):
        wanted = END / LENGTH * (k * dt) ** 2 / 2
        np.testing.assert_allclose(state.u, wanted, rtol=1e-12)
        np.testing.assert_allclose(state.v, -wanted, rtol=1e-12)


def test_exact_waves_are_forced_at_the_times_of_their_stages():
    """The mean flow is no wave: its integrating factor is 1, and the four stages integrate a growing force exactly."""
    model, dt = blown(0.0, core=sw.PseudoSpectral()), LENGTH / 4
    for k, state in enumerate(advanced(model, sw.IntegratingFactorRK4(dt), 4), start=1):
        wanted = END / LENGTH * (k * dt) ** 2 / 2
        np.testing.assert_allclose(state.u, wanted, rtol=1e-11)
        np.testing.assert_allclose(state.v, -wanted, rtol=1e-11)


@pytest.mark.parametrize("kind", (sw.AB2, sw.AB3, sw.SemiImplicit, later(sw.RigidLid)), ids=lambda kind: kind.__name__)
def test_adams_bashforth_misses_the_first_step_of_a_growing_force_alone(kind):
    """It takes the force at the beginning of its first step, and extrapolates exactly from there on."""
    dt = LENGTH / 5
    speeds = np.array([float(state.u[0, 0]) for state in advanced(blown(0.0), stepper_of(kind, dt), 5)])
    times = dt * np.arange(1, 6)
    lost = END / LENGTH * dt**2 / 2
    np.testing.assert_allclose(speeds, END / LENGTH * times**2 / 2 - lost, rtol=1e-12, atol=1e-12)


LEVELS = [("level", kind) for kind in ORDERS]


@pytest.mark.parametrize(
    "which, kind",
    [*(("wind", kind) for kind in ORDERS), *now(LEVELS, ("level", sw.ForwardBackward))],
)
def test_a_scheme_keeps_its_order_under_a_force_that_changes(kind, which):
    model = blown(RATE) if which == "wind" else lifted()
    wrong = []
    for steps in (20, 40):
        end = advanced(model, stepper_of(kind, LENGTH / steps), steps)[-1]
        found, slope = (end.u, END / LENGTH) if which == "wind" else (end.eta, 1.0 / LENGTH * RATE)
        wrong.append(float(np.abs(np.asarray(found) - relaxing(LENGTH, slope)).max()))
    assert ORDERS[kind] - 0.3 < np.log2(wrong[0] / wrong[1]) < ORDERS[kind] + 0.5


def over_a_rising_floor():
    """Linear water without gravity over a floor that rises by 40 m in LENGTH, more in the west than in the east."""
    rise = np.broadcast_to(np.array([40.0, 30.0, 20.0, 10.0]), GRID.shape)
    source = sw.BottomMotion((0.0, LENGTH), np.stack([0.0 * rise, rise]))
    return sw.ShallowWater(GRID, DEPTH, gravity=1e-30, linear=True, source=source, engine="arrays"), rise


@pytest.mark.parametrize("kind", (later(sw.SSPRK3), sw.RK4, sw.ForwardBackward), ids=lambda kind: kind.__name__)
def test_water_flows_over_the_depth_that_a_rising_floor_leaves_at_each_time(kind):
    """eta = b - integral of div (H - b) u, whose integrand is linear in time where u is steady and b grows steadily."""
    model, rise = over_a_rising_floor()
    u = np.broadcast_to(np.array([0.5, -0.2, 0.7, 0.1]), GRID.shape)
    dt = LENGTH / 4
    for k, state in enumerate(advanced(model, stepper_of(kind, dt), 4, model.state(u=u)), start=1):
        t = k * dt
        depth = DEPTH * t - rise / LENGTH * t**2 / 2  # its integral in time
        flux = 0.5 * (depth + np.roll(depth, -1, axis=1)) * u
        wanted = rise * t / LENGTH - (flux - np.roll(flux, 1, axis=1)) / 1e4
        np.testing.assert_allclose(state.eta, wanted, rtol=1e-12, atol=1e-12)


def test_forward_backward_sees_the_level_outside_in_the_middle_of_the_step():
    """From rest a step lets in dt sqrt(g H) eta_ext (Flather 1976) through the open side, and nothing elsewhere."""
    grid = sw.CartesianGrid(4, 3, (0.0, 4e4), (0.0, 3e4))
    model = sw.ShallowWater(
        grid, DEPTH, linear=True, boundaries=(sw.Flather("west", elevation=growing(1.0)),), engine="arrays"
    )
    stepper = sw.ForwardBackward(10.0)
    for step in (0, 3):
        (state,) = advanced(model, stepper, 1, first=step)
        outside = (step + 0.5) * stepper.dt / LENGTH
        wanted = np.zeros(grid.shape)
        wanted[:, 0] = stepper.dt * np.sqrt(9.81 * DEPTH) * outside / 1e4
        np.testing.assert_allclose(state.eta, wanted, rtol=1e-12, atol=1e-18)


# -- the first steps ---------------------------------------------------------------------------------------------------


def decaying(kind, steps):
    """u after `steps` of du/dt = - r u from 1, with r dt = 0.2."""
    model = blown(RATE, 0.0)
    state = advanced(model, stepper_of(kind, 0.2 / RATE), steps, model.state(u=1.0, v=-1.0))[-1]
    np.testing.assert_allclose(state.v, -state.u, rtol=1e-14)
    return float(state.u[0, 0])


def test_the_second_step_of_ab3_is_one_of_ab2_and_the_third_its_own():
    """Of u' = - r u with z = r dt: u1 = 1 - z, u2 = u1 - z (3 u1 - u0) / 2, u3 = u2 - z (23 u2 - 16 u1 + 5 u0) / 12."""
    z, u = 0.2, [1.0]
    u.append(u[0] - z * u[0])
    u.append(u[1] - z * (3 * u[1] - u[0]) / 2)
    u.append(u[2] - z * (23 * u[2] - 16 * u[1] + 5 * u[0]) / 12)
    for steps in (1, 2, 3):
        np.testing.assert_allclose(decaying(sw.AB3, steps), u[steps], rtol=1e-13)
    np.testing.assert_allclose(decaying(sw.AB2, 2), u[2], rtol=1e-13)


def test_the_second_step_of_forward_backward_extrapolates_from_two_states_and_the_third_from_three():
    """u' = - r u at the middle: u, then (3 u1 - u0) / 2, then (3/2 + b) u2 - (1/2 + 2 b) u1 + b u0."""
    z, b, u = 0.2, 0.281105, [1.0]
    u.append(u[0] - z * u[0])
    u.append(u[1] - z * (3 * u[1] - u[0]) / 2)
    u.append(u[2] - z * ((1.5 + b) * u[2] - (0.5 + 2 * b) * u[1] + b * u[0]))
    for steps in (1, 2, 3):
        np.testing.assert_allclose(decaying(sw.ForwardBackward, steps), u[steps], rtol=1e-13)


@pytest.mark.parametrize("kind, order", ((sw.SSPRK3, 3), (sw.RK4, 4)), ids=("SSPRK3", "RK4"))
def test_a_runge_kutta_step_is_the_exponentials_series_up_to_its_order(kind, order):
    wanted = sum((-0.2) ** k / float(np.prod(np.arange(1, k + 1))) for k in range(order + 1))
    np.testing.assert_allclose(decaying(kind, 1), wanted, rtol=1e-13)


@pytest.mark.parametrize("kind, earlier", ((sw.AB2, 1), (sw.AB3, 2), (sw.ForwardBackward, 2), (sw.RK4, 0)))
def test_a_history_holds_as_many_earlier_levels_as_the_formula_has_and_counts_them(kind, earlier):
    """Restarts carry it: a level more would be stored for nothing."""
    model = blown(0.0)
    history = kind(10.0).history(model.at_rest())
    assert len(jax.tree.leaves(history)) == (3 * earlier + 1 if earlier else 0)
    for known in range(1, earlier + 2 if earlier else 0):
        history = history.push(model.at_rest())
        assert int(history.count) == min(known, earlier)
