"""The pseudo-spectral core on any number of ranks, and of devices, is that of one: steps and gradients."""
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import swmodel as sw
from swmodel.compilation import jit
from swmodel.parallel import SerialCommunicator, make_communicator
from swmodel.parallel.sharded import ShardedCommunicator
from swmodel.pytrees import replace

from . import cases

STEPPERS = {"xy": sw.IntegratingFactorRK4(60.0), "": sw.RK4(20.0)}


def model(communicator, periodic):
    """Uneven tiles over a rough bottom, with wind, drag, hyperviscosity and a filter."""
    depth = 1000.0 + 50.0 * np.tanh(cases.random(1))
    core = sw.PseudoSpectral(sw.HyperViscosity(1e-5, order=2), sw.ExponentialFilter(strength=2.0, order=4))
    return sw.ShallowWater(
        cases.plane(periodic), depth, coriolis=sw.FPlane(1e-4) if periodic else sw.BetaPlane(1e-4, 2e-11),
        forcing=(sw.WindStress(x=lambda x, y: 0.1 * np.cos(y / 2e4)),), dissipation=(sw.QuadraticDrag(2.5e-3),),
        communicator=communicator, core=core,
    )  # fmt: skip


def cost(state, dynamics, depth, viscosity, stepper, gauge):
    communicator = dynamics.communicator
    smooth = replace(dynamics.core.hyperviscosity, rate=communicator.replicated(viscosity))
    dynamics = replace(dynamics, depth=depth, core=replace(dynamics.core, hyperviscosity=smooth))
    final, _ = sw.integrate(dynamics, stepper, state, 4)
    return communicator.sum(jnp.sum(gauge * final.eta) + jnp.sum(gauge * final.u * final.v)), final


def outcome(communicator, periodic):
    """(the state after three steps, gradients of a gauge in the first state and the depth), whole; and in viscosity."""
    own, stepper = model(communicator, periodic), STEPPERS[periodic]
    dynamics = own.dynamics(own.halo(stepper), 0, stepper.dt)
    gauge = np.zeros((cases.NY, cases.NX))
    gauge[2, 3] = 1.0
    local = communicator.spmd(
        lambda *a: jax.value_and_grad(cost, argnums=(0, 2, 3), has_aux=True)(a[0], a[1], a[1].depth, *a[2:])
    )
    viscosity = own.scatter(1e-5)
    (_, final), found = jit(local)(cases.start(own), dynamics, viscosity, stepper, own.scatter(gauge))
    whole = jax.tree.map(own.gather, (final, found[:2]))
    return *jax.tree.leaves(whole), np.asarray(next(iter(communicator.tiles(found[2]).values())))


def check(ours, one):
    for got, wanted in zip(ours, one, strict=True):
        assert np.isfinite(wanted).all() and np.abs(wanted).max() > 0
        np.testing.assert_allclose(np.asarray(got), wanted, rtol=0, atol=1e-11 * np.abs(wanted).max())


@pytest.mark.skipif(cases.RANKS == 1, reason="that is the one")
@pytest.mark.parametrize("periodic", STEPPERS)
def test_steps_and_gradients_on_ranks_are_those_of_one_rank(periodic):
    layout = cases.LAYOUTS[bool(periodic)]
    communicator = make_communicator("auto", (cases.NY, cases.NX), layout)
    assert communicator.size == cases.RANKS
    ours = outcome(communicator, periodic)
    communicator.from_root(lambda: check(ours, outcome(SerialCommunicator(), periodic)))


@pytest.mark.skipif(cases.RANKS > 1, reason="devices of one process")
@pytest.mark.parametrize("periodic", STEPPERS)
def test_steps_and_gradients_on_devices_are_those_of_one(periodic):
    """Of padded tiles."""
    check(outcome(ShardedCommunicator((2, 3)), periodic), outcome(SerialCommunicator(), periodic))
