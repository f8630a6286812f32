"""A network as an eddy viscosity (experiments/learned_closure): its values, its gradients, and a short training."""

import importlib
import sys

import jax.numpy as jnp
import numpy as np
import pytest

import swmodel as sw
from swmodel import adjoint
from swmodel.adjoint.verification import verify
from swmodel.errors import ConfigError
from swmodel.runtime.compilation import jit
from swmodel.runtime.paths import experiments

from .cases import plane, random_state, rough

pytest.importorskip("equinox", reason="`make setup` installs equinox")
pytest.importorskip("optax", reason="`make setup` installs optax")


@pytest.fixture
def study(a_users_process, monkeypatch):
    """(the module network_viscosity, the module learned_closure), as a user's process imports them."""
    monkeypatch.syspath_prepend(experiments() / "learned_closure")
    yield importlib.import_module("network_viscosity"), importlib.import_module("learned_closure")
    for name in ("network_viscosity", "learned_closure"):
        sys.modules.pop(name)


def viscosity(grid, term, u):
    """nu of a term for a velocity u along x."""
    model = sw.ShallowWater(grid, 100.0, dissipation=(term,), engine="arrays")

    def found(dynamics, state):
        return term.viscosity(dynamics.prepare().flow(state, 0.0)).interior

    return np.asarray(jit(found)(model.interval(4, 0, 1.0), model.state(u=u)))


@pytest.mark.verify
def test_the_first_network_is_a_multiple_of_the_strain_and_no_network_gives_less_than_nothing(study):
    network, _ = study
    n, spacing, rate = 8, 1e4, 1e-5
    grid = sw.CartesianGrid(n, n, (0.0, n * spacing), (0.0, n * spacing), "xy")
    u = rate * spacing * np.sin(2 * np.pi * np.arange(n) / n)[:, None] * np.ones(n)
    first = network.weights_of(network.network(first=0.3))
    shear = (np.roll(u, -1, axis=0) - u) / spacing  # at corners: the strain is |shear|, the vorticity - shear
    squares = 0.5 * (shear**2 + np.roll(shear, 1, axis=0) ** 2), 0.25 * (shear + np.roll(shear, 1, axis=0)) ** 2
    wanted = sum(np.roll(x, k, axis=0) for x in squares for k in (-1, 0, 1)) * 3 / 9
    found = viscosity(grid, network.NetworkViscosity(first), u)
    np.testing.assert_allclose(found, 0.3 * spacing**2 * np.sqrt(wanted), rtol=1e-6)
    wild = jnp.asarray(np.random.default_rng(1).standard_normal(first.shape))
    found = viscosity(grid, network.NetworkViscosity(wild), u * np.random.default_rng(2).standard_normal((n, n)))
    assert (found >= 0).all() and np.ptp(found / found.mean()) > 0.1


@pytest.mark.verify
def test_the_gradient_in_the_weights_passes_dot_products_and_taylor_tests(study):
    network, _ = study
    weights = network.weights_of(network.network(first=0.3))
    weights = weights + 0.3 * jnp.asarray(np.random.default_rng(3).standard_normal(weights.shape))
    grid = plane(7, 6)
    options = {"side": sw.NoSlip(), "dissipation": network.NetworkViscosity(weights)}
    model = sw.ShallowWater(grid, rough(grid, 2, islands=0.2), engine="arrays", **options)
    cost = adjoint.FinalState(lambda state, equations: jnp.sum(state.u**2 + state.v**2))
    controls = ["dissipation.0.weights"]
    problem = adjoint.Problem(model, sw.AB2(20.0), random_state(model), 2, cost, controls)
    for verdict in verify(problem, second=False):
        assert verdict.passed, str(verdict)
    fused = sw.ShallowWater(grid, 100.0, engine="fused", **options)
    with pytest.raises(ConfigError, match='give the model engine="arrays"'):
        sw.Simulation(fused, fused.at_rest(), sw.AB2(20.0)).run(steps=1)


@pytest.mark.verify
def test_training_decreases_the_error_of_forecasts_and_the_search_finds_the_least(study):
    network, closure = study
    small = closure.QUICK
    states = closure.truth(small)
    windows = closure.windows_of(states, small.starts, small.leads)
    searched = closure.Forecasts(small, sw.Smagorinsky(3.0), "coefficient")
    best = closure.best_smagorinsky(searched, windows)
    errors = [float(searched.error(jnp.asarray(c), windows)) for c in (0.8 * best, best, 1.25 * best)]
    assert errors[1] == min(errors)
    first = network.weights_of(network.network(first=0.5))
    learned = closure.Forecasts(small, network.NetworkViscosity(first), "weights")
    weights, _ = closure.trained(learned, windows, first, small)
    assert float(learned.error(weights, windows)) < float(learned.error(first, windows))


@pytest.mark.verify
def test_the_network_forecasts_unseen_years_as_well_as_the_best_smagorinsky(study, tmp_path):
    """docs/guide/learned_closure.md has the values: the ratio is 0.999, and no more than a tie is claimed."""
    _, closure = study
    values = closure.main(closure.Study(), tmp_path)
    assert values["closure_training_ratio"] < 1.0 and values["closure_forecast_ratio"] < 1.02
    assert values["closure_forecast_network"] < 0.8
    assert (tmp_path / "learned_closure.png").stat().st_size > 20_000
