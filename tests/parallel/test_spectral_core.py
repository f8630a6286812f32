"""The pseudo-spectral core on any number of ranks, and of devices, is that of one: steps and gradients."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import swmodel as sw
from swmodel.fields.state import replace
from swmodel.parallel import SerialCommunicator, make_communicator
from swmodel.parallel.sharded import ShardedCommunicator
from swmodel.runtime.compilation import jit
from tests.selection import now

from . import cases

STEPPER = sw.IntegratingFactorRK4(60.0)
SIDES = ["xy", ""]


def model(communicator, periodic):
    """Uneven tiles over a rough bottom, with hyperviscosity; periodic ones with a filter, a box with drag."""
    depth = 1000.0 + 50.0 * np.tanh(cases.random(1))
    smooth = sw.ExponentialFilter(strength=2.0, order=4) if periodic else None
    core = sw.PseudoSpectral(sw.HyperViscosity(1e-5, order=2), smooth)
    return sw.ShallowWater(
        cases.plane(periodic),
        depth,
        coriolis=sw.FPlane(1e-4) if periodic else sw.BetaPlane(1e-4, 2e-11),
        dissipation=() if periodic else (sw.QuadraticDrag(2.5e-3),),
        communicator=communicator,
        core=core,
    )


def cost(state, dynamics, depth, viscosity, gauge):
    communicator = dynamics.communicator
    smooth = replace(dynamics.core.hyperviscosity, rate=viscosity)
    dynamics = replace(dynamics, depth=depth, core=replace(dynamics.core, hyperviscosity=smooth))
    final, _ = sw.integrate(dynamics, STEPPER, state, 2)
    return communicator.sum(jnp.sum(gauge * final.eta) + jnp.sum(gauge * final.u * final.v)), final


def gradients(state, dynamics, viscosity, gauge):
    """The state after two steps, and derivatives of a gauge in the first state and the depth, and in the viscosity."""
    both = jax.value_and_grad(cost, argnums=(0, 2, 3), has_aux=True)
    (_, final), (*fields, number) = both(state, dynamics, dynamics.depth, viscosity, gauge)
    return (final, fields), number


def tendencies(state, dynamics, viscosity, gauge):
    return dynamics.prepare().tendency(state, 0.0), viscosity


def outcome(communicator, periodic):
    """Whole arrays, and a number, that ranks must share: gradients on the periodic plane, tendencies between walls."""
    own = model(communicator, periodic)
    gauge = np.zeros((cases.NY, cases.NX))
    gauge[2, 3] = 1.0
    local = jit(communicator.spmd(gradients if periodic else tendencies))
    dynamics = own.dynamics(STEPPER)
    tiles, number = local(cases.start(own), dynamics, own.scatter(1e-5), own.scatter(gauge))
    return *jax.tree.leaves(jax.tree.map(own.gather, tiles)), next(iter(communicator.tiles(number).values()))


def check(ours, one):
    for got, wanted in zip(ours, one, strict=True):
        assert np.isfinite(wanted).all() and np.abs(wanted).max() > 0
        np.testing.assert_allclose(np.asarray(got), wanted, rtol=0, atol=1e-11 * np.abs(wanted).max())


@pytest.mark.skipif(cases.RANKS == 1, reason="that is the one")
@pytest.mark.parametrize("periodic", now(SIDES, ""))
def test_steps_and_gradients_on_ranks_are_those_of_one_rank(periodic):
    layout = cases.LAYOUTS[bool(periodic)]
    communicator = make_communicator("auto", (cases.NY, cases.NX), layout)
    assert communicator.size == cases.RANKS
    ours = outcome(communicator, periodic)
    communicator.from_root(lambda: check(ours, outcome(SerialCommunicator(), periodic)))


@pytest.mark.skipif(cases.RANKS > 1, reason="devices of one process")
@pytest.mark.parametrize("periodic", SIDES)
def test_steps_and_gradients_on_devices_are_those_of_one(periodic):
    """Of padded tiles."""
    check(outcome(ShardedCommunicator((2, 3)), periodic), outcome(SerialCommunicator(), periodic))
