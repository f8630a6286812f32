"""The adjoint on any number of ranks, and of devices, is that of one: of a gauge that lies on one rank."""
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import swmodel as sw
from swmodel import adjoint
from swmodel.parallel import SerialCommunicator, make_communicator
from swmodel.parallel.sharded import ShardedCommunicator

from . import cases

STEPS = 6
GAUGE = {"tide gauge": (3.3e4, 4.2e4)}


class Records:
    """Wind in time records."""

    cycle = None
    times = np.array([0.0, 20.0, 100.0])
    values = 0.1 * np.stack([cases.random(seed) for seed in (7, 8, 9)])


def products(basis, parameters):
    """Controls from parameters that every rank holds: a field, and a number."""
    return {
        "initial.v": jnp.tensordot(jnp.exp(parameters["slip"]), basis, 1),
        "dissipation.0.coefficient": 1e-3 * parameters["slip"][0] * parameters["root"] * parameters["root"],
    }


def problem(communicator, periodic="x"):
    """Islands, walls along x, uneven tiles, a gauge's crest; fields, records, and numbers that every rank holds."""
    model = sw.ShallowWater(
        cases.plane(periodic), cases.sea_floor(), coriolis=sw.FPlane(1e-4), forcing=(sw.WindStress(x=Records()),),
        dissipation=(sw.QuadraticDrag(2.5e-3),), communicator=communicator,
    )  # fmt: skip
    basis = model.scatter(np.stack([0.1 * cases.random(seed) for seed in (10, 11)]))
    own = adjoint.Transformed({"slip": np.array([0.3, -0.2]), "root": 1.5}, jax.tree_util.Partial(products, basis))
    controls = ["initial.eta", "depth", "gravity", "forcing.0.x", own]
    return adjoint.Problem(
        model, sw.AB2(10.0), cases.start(model), STEPS, adjoint.GaugeMaximum(GAUGE), controls,
        checkpoints=adjoint.Nested(lengths=(2, 3)),
    )  # fmt: skip


def derivatives(problem):
    """(J, the gradient, of whole fields, on the root; <gradient, gradient>)."""
    J, gradient = problem.value_and_gradient()
    square = adjoint.dot(gradient, gradient, problem.communicator)
    return J, jax.tree.map(lambda x: problem.model.gather(x) if np.ndim(x) >= 2 else x, gradient), square


def check(ours, one):
    for (path, got), wanted in zip(jax.tree_util.tree_leaves_with_path(ours), jax.tree.leaves(one)):
        wanted = np.asarray(wanted)
        assert np.isfinite(wanted).all() and np.abs(wanted).max() > 0, path
        most = 1e-11 * np.abs(wanted).max()
        np.testing.assert_allclose(np.asarray(got), wanted, rtol=0, atol=most, err_msg=str(path))


@pytest.mark.skipif(cases.RANKS == 1, reason="that is the one")
def test_gradients_on_ranks_are_those_of_one_rank():
    communicator = make_communicator("auto", (cases.NY, cases.NX), cases.LAYOUTS[0])
    assert communicator.size == cases.RANKS
    ours = derivatives(problem(communicator))
    communicator.from_root(lambda: check(ours, derivatives(problem(SerialCommunicator()))))


@pytest.mark.skipif(cases.RANKS > 1, reason="devices of one process")
def test_gradients_on_devices_are_those_of_one():
    """Of padded tiles, doubly periodic."""
    check(derivatives(problem(ShardedCommunicator((2, 3)), "xy")), derivatives(problem(SerialCommunicator(), "xy")))
