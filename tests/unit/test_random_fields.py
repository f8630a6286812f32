"""Random fields do not depend on the decomposition, and have the requested covariance."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import swmodel as sw
from swmodel.models.random_fields import GaussianCovariance, filtered, white_noise
from swmodel.parallel import SerialCommunicator, fft, make_communicator
from tests.selection import later


def covariance(communicator, shape=(16, 13)):
    return GaussianCovariance(fft.Plan(communicator, shape), (1.0, 2.0), length=3.0, deviation=2.0)


def test_a_field_is_the_same_on_one_device_and_on_six_given_a_seed():
    alone, six = (covariance(c) for c in (SerialCommunicator(), make_communicator("sharded", (16, 13), (2, 3))))
    fields = [of.plan.gather(of.sample(7)) for of in (alone, six)]
    np.testing.assert_allclose(fields[1], fields[0], rtol=0, atol=1e-13)
    assert np.abs(alone.plan.gather(alone.sample(8)) - fields[0]).max() > 0.1
    cube = [fft.Plan(of.plan.communicator, (6, 5, 4)) for of in (alone, six)]
    np.testing.assert_array_equal(*(plan.gather(white_noise(3, plan)) for plan in cube))


def test_covariances_are_the_gaussian_of_the_distance():
    """The operator on a unit impulse is sigma^2 exp(-r^2 / 2 L^2) with r the distance round the torus, to what the grid
    resolves; variances are sigma^2 exactly; and the sample's mean square tends there."""
    of = covariance(SerialCommunicator(), (40, 36))
    impulse = np.zeros((40, 36))
    impulse[5, 7] = 1.0
    found = np.asarray(jax.jit(of.apply)(jnp.asarray(impulse)))
    y, x = ((np.arange(n) - k + n // 2) % n - n // 2 for n, k in ((40, 5), (36, 7)))
    expected = 4.0 * np.exp(-(y[:, None] ** 2 + (2.0 * x[None]) ** 2) / (2 * 3.0**2))
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-4)
    np.testing.assert_allclose(found[5, 7], 4.0, rtol=1e-13)
    draw = jax.jit(jax.vmap(of.root))
    many = draw(jnp.asarray(np.random.default_rng(1).standard_normal((200, 40, 36))))
    independent = 200 * 40 * 72 / (4 * np.pi * 3.0**2)  # areas over which squares are correlated
    assert abs(float(jnp.mean(many**2)) / 4.0 - 1.0) < 4 * np.sqrt(2 / independent)


def test_the_filter_keeps_what_it_lets_through():
    plan = fft.Plan(SerialCommunicator(), (16, 12))
    x = np.cos(2 * np.pi * 2 * np.arange(16) / 16)[:, None] + np.cos(2 * np.pi * 5 * np.arange(12) / 12)[None]
    low = jax.jit(lambda x: filtered(plan, x, lambda k2: (k2 < 1.0).astype(float)))(x)
    np.testing.assert_allclose(low, np.broadcast_to(np.cos(np.pi * np.arange(16) / 4)[:, None], x.shape), atol=1e-14)


@pytest.mark.parametrize("nx, layout", [(13, None), (13, (2, 3)), later(12, (2, 2))])
def test_a_random_field_is_a_state(nx, layout):
    """So is an array of the whole grid on one of several devices, whatever its shape."""
    communicator = SerialCommunicator() if layout is None else make_communicator("sharded", (16, nx), layout)
    grid = sw.CartesianGrid(nx, 16, (0.0, 26.0), (0.0, 16.0), "xy")
    model, of = sw.ShallowWater(grid, 100.0, communicator=communicator), covariance(communicator, (16, nx))
    whole = of.plan.gather(of.sample(7))
    np.testing.assert_array_equal(model.gather(model.state(eta=of.sample(7)).eta), whole)
    state = model.state(eta=jax.device_put(whole, jax.devices()[0]))
    assert state.eta.sharding == state.u.sharding
    np.testing.assert_array_equal(model.gather(state.eta), whole)


def test_what_is_no_covariance_is_refused_in_a_sentence():
    plan = fft.Plan(SerialCommunicator(), (6, 5))
    for options in ({"length": 0.0}, {"length": 1.0, "deviation": -1.0}):
        with pytest.raises(ValueError, match="is not positive; give a positive number"):
            GaussianCovariance(plan, (1.0, 1.0), **options)
    with pytest.raises(ValueError, match="for 2 axes"):
        GaussianCovariance(plan, 1.0, 3.0)
    with pytest.raises(ValueError, match="does not conserve the sum of squares"):
        GaussianCovariance(fft.Plan(SerialCommunicator(), (6, 5), (fft.Cosine(1), fft.Cosine(2))), (1.0, 1.0), 3.0)
    for seed in (-1, 0.5, "one"):
        with pytest.raises(ValueError, match="is not a whole number from 0 on"):
            white_noise(seed, plan)


@pytest.mark.parametrize("kind, at_wall", [(fft.Cosine(2), 2.0), (fft.Sine(2), 0.0)])
def test_beside_a_wall_a_mirror_image_is_added_or_taken_off(kind, at_wall):
    """The variance there over that inside; it falls off within a length, and has the mean that was asked for."""
    ny, length = 64, 6.0
    of = GaussianCovariance(fft.Plan(SerialCommunicator(), (ny, 4), (kind, fft.RealFourier())), (1.0, 1.0), length, 3.0)
    impulses = jnp.zeros((ny, ny, 4)).at[jnp.arange(ny), jnp.arange(ny), 0].set(1.0)
    variance = np.asarray(jax.jit(jax.vmap(of.apply))(impulses)[jnp.arange(ny), jnp.arange(ny), 0])
    np.testing.assert_allclose(variance.mean(), 9.0, rtol=1e-12)
    np.testing.assert_allclose(variance[0] / variance[ny // 2], at_wall, atol=0.02)
    np.testing.assert_allclose(variance[int(4 * length)], variance[ny // 2], rtol=1e-3)
