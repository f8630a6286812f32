"""Winds in records that repeat: where a cycle begins, how long it is in steps, and that terms add up."""

import jax.numpy as jnp
import numpy as np
import pytest

import swmodel as sw
from swmodel.dynamics.terms import Series
from swmodel.runtime.compilation import jit

GRID = sw.CartesianGrid(4, 3, (0.0, 4e4), (0.0, 3e4), "xy")
DT = 10.0


class Records:
    """Uniform values at times, repeated every `cycle` [s]."""

    def __init__(self, times, values, cycle):
        self.times, self.cycle = np.array(times), cycle
        self.values = np.array(values)[:, None, None] * np.ones((1, *GRID.shape))


@jit
def _tendency(dynamics, state, step):
    return dynamics.prepare().tendency(state, step)


def stresses(records, steps):
    """The wind stress at each of these steps, each in the Dynamics of its own interval."""
    wind = sw.WindStress(x=records, density=1000.0)
    model = sw.ShallowWater(GRID, 100.0, forcing=(wind,), engine="arrays")
    rates = [_tendency(model.interval(1, k, DT), model.at_rest(), jnp.asarray(float(k))).u for k in steps]
    return 1e5 * np.array([float(np.asarray(rate)[0, 0]) for rate in rates])


@pytest.mark.parametrize("late", (0.0, 100.0, 270.0))
def test_a_cycle_is_the_same_whenever_its_first_record_comes(late):
    """Records at 0 and 40 s that repeat every 50 s: up in four steps, down in one; all of it `late` seconds later."""
    found = stresses(Records([late, late + 40.0], [1.0, 5.0], 50.0), range(30))
    wanted = np.interp(DT * np.arange(30) - late, [0.0, 40.0, 50.0], [1.0, 5.0, 1.0], period=50.0)
    np.testing.assert_allclose(found, wanted, rtol=1e-13)


def test_a_cycle_that_ends_within_a_step_of_its_last_record_takes_one_step_back():
    """45 s are 4 steps to the nearest even number, as many as from the first record to the last: it is made 5."""
    found = stresses(Records([0.0, 40.0], [1.0, 5.0], 45.0), range(11))
    np.testing.assert_allclose(found, [1.0, 2.0, 3.0, 4.0, 5.0, 1.0, 2.0, 3.0, 4.0, 5.0, 1.0], rtol=1e-13)


@pytest.mark.parametrize("late", (0.0, 100.0))
def test_a_cycle_as_short_as_its_records_span_is_refused_and_a_longer_one_is_not(late):
    with pytest.raises(ValueError, match="give a longer cycle"):
        stresses(Records([late, late + 40.0], [1.0, 5.0], 40.0), ())
    stresses(Records([late, late + 40.0], [1.0, 5.0], 41.0), ())


def test_the_tendency_is_the_sum_of_what_its_terms_give_alone():
    """With a wind, drags, viscosities and a sponge together, u, v and eta change by the sum of what each one adds."""
    rng = np.random.default_rng(0)
    grid = sw.CartesianGrid(6, 5, (0.0, 6e4), (0.0, 5e4))
    groups = [
        {"forcing": (sw.WindStress(x=0.1, y=-0.2),)},
        {"dissipation": (sw.QuadraticDrag(2.5e-3),)},
        {"dissipation": (sw.Laplacian(1e3),)},
        {"boundaries": (sw.Sponge("west", 3e4, 1e-3, 0.7),)},
        {"boundaries": (sw.Sponge("north", 3e4, 2e-3),)},
    ]

    def rates(**terms):
        model = sw.ShallowWater(grid, 100.0, coriolis=sw.FPlane(1e-4), engine="arrays", **terms)
        state = model.state(*(rng_fields[k] for k in range(3)))
        found = _tendency(model.interval(1, 0, DT), state, jnp.asarray(0.0))
        return np.stack([np.asarray(found.u), np.asarray(found.v), np.asarray(found.eta)])

    rng_fields = rng.standard_normal((3, *grid.shape))
    bare = rates()
    together = {}
    for group in groups:
        for name, terms in group.items():
            together[name] = (*together.get(name, ()), *terms)
    added = sum(rates(**group) - bare for group in groups)
    np.testing.assert_allclose(rates(**together), bare + added, rtol=0, atol=1e-13 * np.abs(bare).max())
    level = rates(**groups[3])[2] - bare[2]  # the sponge alone: - r (1 - d / width)^3 (eta - 0.7)
    shape = np.clip(1.0 - (np.arange(6) + 0.5) / 3.0, 0.0, 1.0) ** 3
    eta = rng_fields[2]
    np.testing.assert_allclose(level, -1e-3 * shape[None, :] * (eta - 0.7), rtol=0, atol=1e-13 * np.abs(bare).max())


def test_of_records_closer_than_steps_each_step_has_the_nearest():
    """The last of them was used, half a step late, and a run that ended there had another one."""
    dt, every = 1000.0, 45.0
    whole, part = (Series(times, times) for times in (np.arange(0.0, 24031.0, every), np.arange(0.0, 12016.0, every)))
    for step in range(25):
        first, _, since, _ = whole.bracket(step, dt)
        assert since == 0 and abs(whole.times[first] - step * dt) <= every / 2
        assert step > 12 or part.bracket(step, dt)[0] == first
    late = Series(np.array([0.0, 1000.0, 1010.0, 1400.0]), None)  # the last is always used, one step later
    assert [late.bracket(step, dt)[0] for step in range(4)] == [0, 1, 3, 3]
    assert late.bracket(1, dt)[1:] == (3, 0, 1)
