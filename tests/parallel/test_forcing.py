"""Potential, attraction, drag by internal waves and cyclones: the same on any number of ranks, with their gradients."""

import numpy as np
import pytest

import swmodel as sw
from swmodel import adjoint
from swmodel.parallel import SerialCommunicator
from tests import own_parts

from . import cases

pytestmark = pytest.mark.skipif(cases.RANKS > 2, reason="two ranks show what more would")

STEPS = 4


def ocean(communicator, engine):
    cyclone = sw.Cyclone(
        (0.0, 600.0), x=(148.0, 152.0), y=(35.0, 37.0), central_pressure=(94000.0, 96000.0), radius=6e5, b=(1.2, 1.6)
    )
    return sw.ShallowWater(
        cases.sphere(),
        cases.sea_floor(),
        coriolis=sw.RotatingSphere(),
        communicator=communicator,
        engine=engine,
        forcing=(sw.TidalPotential(), sw.SelfAttraction(0.09), cyclone, sw.Wind(x=10.0 + cases.random(7), y=3.0)),
        dissipation=(sw.InternalWaveDrag(np.abs(50.0 * cases.random(8))),),
    )


def run(communicator, engine):
    """(model, State after some steps)."""
    model = ocean(communicator, engine)
    simulation = sw.Simulation(model, cases.start(model), sw.ForwardBackward(60.0))
    state = simulation.run(steps=STEPS)
    assert simulation.engine[0] == engine
    return model, state


@pytest.mark.parametrize("engine", ["arrays", "fused"])
def test_runs_equal_those_of_one_rank_on_arrays(engine):
    model, ours = run(cases.all_ranks(), engine)

    alone = cases.from_root(lambda: cases.fields_of(run(SerialCommunicator(), "arrays")[1]))
    cases.assert_tiles_equal(model, ours, alone)


def test_gradients_pass_dot_products_and_taylor_tests():
    model = ocean(cases.all_ranks(), "fused")
    controls = ["forcing.2.x", "forcing.2.central_pressure", "forcing.1.fraction", "dissipation.0.roughness"]
    cost = own_parts.everything().Unrest()
    problem = adjoint.Problem(model, sw.ForwardBackward(60.0), cases.start(model), STEPS, cost, controls)
    cases.assert_verified(problem)
