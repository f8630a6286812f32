"""Open sides that keep values from step to step: the same on any number of ranks, with their gradients."""

import pytest

import swmodel as sw
from swmodel.parallel import make_communicator

from . import cases
from .test_tides import tide

pytestmark = pytest.mark.verify  # test_tides.py and test_engines.py have the messages of open sides
STEPPER = sw.ForwardBackward(10.0)


def ocean(communicator, engine):
    sides = (
        sw.ChapmanFlather(("west", "north"), incoming=tide(0.5, "M2")),
        sw.RadiationNudging(("east", "south"), incoming=tide(0.3, "K1"), inward=600.0),
    )
    return cases.sea(cases.plane(), communicator=communicator, engine=engine, boundaries=sides)


def run(communicator, engine):
    """(model, State after some steps)."""
    model = ocean(communicator, engine)
    return model, sw.Simulation(model, cases.start(model), STEPPER).run(steps=5)


@pytest.mark.parametrize("engine", ["arrays", "fused"])
def test_runs_equal_those_of_one_rank_on_arrays(engine):
    layout = cases.LAYOUTS[0 if engine == "arrays" or cases.RANKS > 2 else -1]  # tiles of 2 rows are too thin
    cases.assert_runs_equal(run, make_communicator("auto", (cases.NY, cases.NX), layout), engine, dict)


@pytest.mark.skipif(cases.RANKS != 2, reason="two ranks show what more would")
def test_the_gradient_passes_dot_products_and_taylor_tests():
    controls = ["boundary.0.incoming.amplitude.M2", "initial.outer_velocity_x"]
    cases.assert_derivatives(ocean(cases.all_ranks(), "arrays"), STEPPER, 3, controls)
