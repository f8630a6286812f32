"""Self-attraction and loading: the same on any number of ranks, in both engines, with its gradient."""

import numpy as np
import pytest

import swmodel as sw
from swmodel.parallel import make_communicator

from . import cases

pytestmark = cases.MORE_THAN_FOUR


def run(communicator, engine):
    """(model, State after three evaluations)."""
    model = ocean(communicator, engine)
    return model, sw.Simulation(model, cases.start(model), sw.ForwardBackward(60.0)).run(steps=6)


def pressure(x, y):
    """It loads the sea floor as water does [Pa]."""
    return 1e5 - 2000.0 * np.exp(-(((x - 20.0) / 60.0) ** 2) - (y / 40.0) ** 2)


def ocean(communicator, engine):
    grid = sw.SphericalGrid(cases.NX, cases.NY, (-180.0, 180.0), (-70.0, 84.0))
    forcing = sw.SelfAttractionLoading(degree=5, every=120.0), sw.AirPressure(pressure)
    return cases.sea(grid, communicator=communicator, engine=engine, forcing=forcing)


def fields_of(state):
    return cases.fields_of(state) | {"self_attraction": state.self_attraction}


@pytest.mark.parametrize("engine", cases.ENGINES)
def test_runs_equal_those_of_one_rank_on_arrays(engine):
    """On uneven tiles, cut in both directions where there are four."""
    layout = cases.LAYOUTS[0 if cases.RANKS > 2 or engine == "arrays" else -1]
    cases.assert_runs_equal(run, make_communicator("auto", (cases.NY, cases.NX), layout), engine, fields_of)


@pytest.mark.verify
@pytest.mark.skipif(cases.RANKS != 2, reason="two ranks show what more would")
def test_the_gradient_passes_dot_products_and_taylor_tests():
    cases.assert_derivatives(ocean(cases.all_ranks(), "fused"), sw.ForwardBackward(60.0), 3, ["initial.eta"])
