"""Model time: exact however late it is, the same wherever a run was cut, and what a term of one's own gets."""

import fractions
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import swmodel as sw
from swmodel import adjoint
from swmodel.dynamics.clock import Moments, Time
from swmodel.dynamics.terms import Term
from swmodel.fields.state import pytree, replace, static
from swmodel.runtime.compilation import jit
from swmodel.simulation.simulation import Simulation
from tests.selection import later

M2 = 12.4206012 * 3600.0  # [s]
LATE = 300_000_000  # steps: ninety years of 10 s, of which float32 knows no second
GRID = sw.CartesianGrid(8, 6, (0.0, 8e4), (0.0, 6e4), "xy")


@pytree
class RotatingForce(Term):
    """A force [m s-2] of one strength everywhere that turns once in a `period` [s]."""

    strength: Any
    period: float = static()

    def __call__(self, flow, time):
        angle = time.phase(self.period)
        return self.strength * jnp.cos(angle), self.strength * jnp.sin(angle)


def basin(dtype="float64", engine="arrays", period=900.0, **options):
    return sw.ShallowWater(
        GRID,
        1000.0,
        dissipation=(RotatingForce(jnp.asarray(1e-5, dtype), period),),
        dtype=dtype,
        engine=engine,
        **options,
    )


def turned(fractions_of_dt, dt, period):
    """t / period modulo 1, between -1/2 and 1/2, in exact arithmetic."""
    share = fractions.Fraction(fractions_of_dt) * fractions.Fraction(dt) / fractions.Fraction(period) % 1
    return float(share - (share >= fractions.Fraction(1, 2)))


@pytest.mark.parametrize("dtype, error", ((np.float32, 3e-7), (np.float64, 1e-14)))
@pytest.mark.parametrize("dt", (10.0, 0.1, 14.41863, 1e5))
def test_a_phase_is_exact_after_any_number_of_steps(dtype, error, dt):
    for step in (0, 1, 77, 65_536, 12_345_678, LATE, 2**31 - 1):
        for fraction in (0.0, 0.5, 1.0):
            time = Time(jnp.int32(step), jnp.asarray(fraction, dtype), jnp.asarray(dt, dtype), dt)
            for period in (M2, 86_400.0, 17.0):
                off = float(time.cycles(period)) - turned(step + fractions.Fraction(fraction), dt, period)
                assert abs(off - round(off)) < error * max(1.0, dt / period)


def test_phases_of_many_periods_come_at_once_and_those_that_a_program_is_given_have_a_derivative():
    time = Time(jnp.int32(1000), 0.5, jnp.asarray(10.0), 10.0)
    both = time.phase(np.array([M2, 86_400.0]))
    np.testing.assert_allclose(both, [time.phase(M2), time.phase(86_400.0)], rtol=1e-14)
    slope = jax.grad(lambda period: time.phase(period))(jnp.asarray(M2))
    assert float(slope) == pytest.approx(-2 * np.pi * 10_005.0 / M2**2, rel=1e-12)
    slope = jax.grad(lambda dt: replace(time, dt=dt).phase(M2))(jnp.asarray(10.0))
    assert float(slope) == pytest.approx(2 * np.pi * 1000.5 / M2, rel=1e-12)
    given = replace(time, step=jnp.int32(LATE), exact_dt=None).phase(jnp.asarray(900.0))
    assert float(given) == pytest.approx(2 * np.pi * turned(LATE + fractions.Fraction(1, 2), 10, 900), abs=1e-6)


def test_seconds_are_counted_from_any_moment():
    time = Time(jnp.int32(LATE), jnp.float32(0.5), jnp.float32(0.1), 0.1)
    moment = 0.1 * (LATE - 7) + 0.03
    assert float(time.since(moment)) == pytest.approx(0.72, abs=1e-6)
    assert float(time.seconds) == pytest.approx(0.1 * LATE, rel=1e-6)


def test_a_time_without_a_step_says_so():
    with pytest.raises(ValueError, match="this Time has no dt"):
        _ = Time(3).seconds
    with pytest.raises(ValueError, match="this Time has no exact_dt"):
        Time(3, dt=jnp.asarray(10.0)).since(5.0)


@pytest.mark.parametrize("moment", [1e29, -1e29])
def test_a_moment_that_no_run_reaches_is_before_or_after_all_steps(moment):
    assert float(Time(3, dt=jnp.asarray(10.0), exact_dt=10.0).since(moment)) == pytest.approx(-moment)


def run(model, stepper, pieces, first):
    simulation = Simulation(model, model.at_rest(), stepper)
    simulation.step = first
    for steps in pieces:
        state = simulation.run(steps=steps)
    return state


@pytest.mark.parametrize(
    "dtype, error, engine",
    [
        ("float32", 1e-6, "fused"),
        ("float64", 5e-9, "arrays"),
        later("float32", 1e-6, "arrays"),
        later("float64", 5e-9, "fused"),
    ],
)
def test_a_rotating_force_gives_the_same_bits_whatever_the_outputs_and_the_flow_of_theory(dtype, error, engine):
    """u = A / w (sin wt - sin wt_0), v = - A / w (cos wt - cos wt_0), also where t is of no use in float32.

    RK4 is Simpson's rule here, and 3e-9 off.
    """
    model, strength, w = basin(dtype, engine), 1e-5, 2 * np.pi / 900.0
    for first in (0, LATE):
        whole, cut = (run(model, sw.RK4(10.0), pieces, first) for pieces in ((101,), (1, 8, 41, 51)))
        for a, b in zip(jax.tree.leaves(whole), jax.tree.leaves(cut)):
            np.testing.assert_array_equal(a, b)
        start, end = (2 * np.pi * turned(first + n, 10, 900) for n in (0, 101))
        size = 2 * strength / w
        assert np.abs(np.asarray(whole.u, float) - strength / w * (np.sin(end) - np.sin(start))).max() < error * size
        assert np.abs(np.asarray(whole.v, float) + strength / w * (np.cos(end) - np.cos(start))).max() < error * size


@pytest.mark.verify
@pytest.mark.parametrize(
    "checkpoints", [adjoint.Nested(lengths=(3, 3, 3)), later(adjoint.StoreAll()), later(adjoint.Revolve(2, steps=4))]
)
def test_gradients_see_the_force_at_the_times_of_the_run(checkpoints):
    """Of a run that starts at a step of its own, in segments and intervals; the same as JAX's through integrate."""
    stepper, model = sw.AB2(10.0), basin()
    start, first, steps = model.state(u=0.01), 37, 23
    weights = jnp.asarray(np.random.default_rng(1).standard_normal(GRID.shape))
    cost = adjoint.FinalState(lambda state, equations, w: jnp.sum(w * state.u * state.u), (weights,))
    dynamics = model.dynamics(stepper, first)

    def by_hand(integrate, strength):
        changed = replace(dynamics, terms=(replace(dynamics.terms[0], strength=strength),))
        return jnp.sum(weights * integrate(changed, stepper, start, steps)[0].u ** 2)

    wanted = [
        jit(jax.value_and_grad(lambda x, f=f: by_hand(f, x)))(jnp.asarray(1e-5))
        for f in (sw.integrate, adjoint.integrate)
    ]
    options = {"first_step": first, "checkpoints": checkpoints}
    problem = adjoint.Problem(model, stepper, start, steps, cost, ("dissipation.0.strength",), **options)
    J, gradient = problem.value_and_gradient()
    for value, slope in wanted:
        assert float(value) == pytest.approx(J, rel=1e-12)
        assert float(slope) == pytest.approx(float(gradient["dissipation.0.strength"]), rel=1e-11)
    simulation = Simulation(model, start, stepper)
    simulation.step = first
    assert float(np.sum(weights * simulation.run(steps=steps).u ** 2)) == pytest.approx(J, rel=1e-12)


@pytest.mark.parametrize("first, interval", [(9e8, 3600.0), (0.0, 0.05), (-9.15e8, 3600.0)])
def test_a_series_of_decades_is_interpolated_in_single_precision(first, interval):
    """A record of hours thirty years after the start, one of waves, and one that began thirty years before."""
    times = np.append(first, interval * np.arange(1, 50) + max(first, 0.0))
    moments = Moments.of(times, lambda x: jnp.asarray(x, jnp.float32 if x.dtype.kind == "f" else None))
    dt = interval / 180.6
    np.testing.assert_allclose(moments.seconds(np.asarray), times, atol=1e-6 * interval)
    for seconds in (times[3], times[17] + 0.4 * dt, times[-2] + 77.0 * dt, times[-1] + 1e3 * dt):
        step = int(seconds / dt)
        k, weight = moments.bracket(Time(jnp.asarray(step), 0.5, jnp.float32(dt), dt))
        assert int(k) + float(weight) == pytest.approx(
            np.interp((step + 0.5) * dt, times, np.arange(times.size)), abs=3e-6
        )
