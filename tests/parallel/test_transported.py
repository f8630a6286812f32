"""A variable that the flow transports, on several ranks: the run and gradient of one rank, in the messages of eta."""

import jax.numpy as jnp
import numpy as np
import pytest

import swmodel as sw
from swmodel import adjoint
from swmodel.dynamics.clock import Time
from swmodel.parallel import SerialCommunicator, make_communicator
from tests.parallel import cases
from tests.transported import Content

STEPS, DT = 6, 10.0


@pytest.fixture(scope="module", params=["auto"] + ["sharded"] * (cases.RANKS == 1))
def ranks(request):
    layout = (1, 2) if request.param == "sharded" else cases.LAYOUTS[0]
    return make_communicator(request.param, (cases.NY, cases.NX), layout)


def model(communicator, tracers=True):
    tracers = (Content(decay=1e-3),) if tracers else ()
    floor, open_side = cases.sea_floor(), (sw.Flather("west"),)
    return sw.ShallowWater(cases.plane(), floor, communicator=communicator, boundaries=open_side, tracers=tracers)


def start(ocean):
    dye = {"dye": 2.0 + np.sin(np.arange(cases.NX))[None] + 0.0 * cases.random(3)} if ocean.tracers else {}
    return ocean.state(u=0.1 * cases.random(4), v=0.1 * cases.random(5), eta=cases.random(6), **dye)


@pytest.mark.verify  # test_tracers.py runs those of the package
@pytest.mark.parametrize("stepper", [sw.ForwardBackward, sw.SemiImplicit], ids=lambda s: s.__name__)
def test_the_run_is_that_of_one_rank(ranks, stepper, tmp_path):
    def of_one():
        one = model(SerialCommunicator())
        return dict(sw.Simulation(one, start(one), stepper(DT)).run(steps=STEPS))

    expected = cases.from_root(of_one)
    ocean = model(ranks)
    run = sw.Simulation(ocean, start(ocean), stepper(DT))
    run.gauges(tmp_path / f"{cases.RANKS}.nc", {"a": (6.1e4, 4.7e4)}, variables=("dye",))
    for name, x in run.run(steps=STEPS):
        found = ocean.gather(x)
        if ranks.is_root:
            scale = np.abs(expected[name]).max()
            np.testing.assert_allclose(found, expected[name], rtol=0, atol=1e-9 * scale, err_msg=name)


@pytest.mark.verify
def test_the_gradient_is_that_of_one_rank(ranks):
    def gradient(communicator):
        ocean = model(communicator)
        cost = adjoint.FinalState(lambda state, equations: jnp.sum(equations.shown(state, Time(STEPS)).dye ** 2))
        names = ["initial.dye", "depth", "tracer.0.decay"]
        problem = adjoint.Problem(ocean, sw.AB2(DT), start(ocean), STEPS, cost, names)
        found = problem.value_and_gradient()[1]
        return {name: x if np.ndim(x) < 2 else ocean.gather(x) for name, x in found.items()}

    expected, found = cases.from_root(lambda: gradient(SerialCommunicator())), gradient(ranks)
    for name, x in found.items() if ranks.is_root else ():
        np.testing.assert_allclose(x, expected[name], rtol=1e-9, atol=1e-12, err_msg=name)


def test_it_travels_in_the_messages_of_the_others(ranks):
    """A step has as many messages with it as without it, a third longer."""
    oceans = model(ranks, tracers=False), model(ranks)
    alone, carried = (cases.sent(ocean, start(ocean), sw.AB2(DT)) for ocean in oceans)
    assert carried.messages == alone.messages == cases.neighbours(ranks.layout)
    assert 3 * carried.bytes == 4 * alone.bytes
