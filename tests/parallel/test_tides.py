"""Tides at open sides: the same on any number of ranks, in both engines, with their gradients."""

import datetime

import numpy as np
import pytest

import swmodel as sw
from swmodel import adjoint
from swmodel.adjoint.sensitivity import sensitivities
from swmodel.parallel import SerialCommunicator, make_communicator
from tests.selection import now

from . import cases

STEPS = 6


def tide(size, *names, ramp=0.0):
    pairs = {name: (size * (1.0 + 0.1 * cases.random(k)), 40.0 * cases.random(k + 9)) for k, name in enumerate(names)}
    return sw.Tide(pairs, ramp=ramp)


def ocean(communicator, engine):
    sides = (
        sw.Clamped("west", tide(0.5, "M2", "O1")),
        sw.Flather(("south", "east"), elevation=tide(0.2, "K1"), incoming=tide(0.3, "M2", ramp=100.0)),
        sw.Sponge("north", width=4e4, rate=1e-4, elevation=tide(0.4, "S2")),
    )
    return cases.sea(cases.plane(), communicator=communicator, engine=engine, boundaries=sides)


def run(communicator, engine, stages=1):
    """(model, State after some steps)."""
    model = ocean(communicator, engine)
    simulation = sw.Simulation(model, cases.start(model), sw.ForwardBackward(10.0), stages_per_exchange=stages)
    state = simulation.run(steps=STEPS)
    assert simulation.engine[0] == engine
    return model, state


@pytest.mark.parametrize("engine, stages", now([("arrays", 1), ("fused", 1), ("fused", 2)], ("fused", 1)))
def test_runs_equal_those_of_one_rank_on_arrays(engine, stages):
    if cases.RANKS > 2 and stages > 1:
        pytest.skip("tiles are too thin")
    many = cases.all_ranks()
    cases.assert_runs_equal(lambda c, engine: run(c, engine, stages if c is many else 1), many, engine)


@pytest.mark.parametrize("layout", cases.LAYOUTS[-1:], ids=str)
def test_a_clamped_side_that_is_cut_equals_that_of_one_rank(layout):
    """Cells next to the side read the flow through their faces across it, so that one more ghost cell is needed."""

    def end(communicator, engine):
        options = {"communicator": communicator, "linear": True, "engine": engine, "coriolis": sw.FPlane(1e-3)}
        sides = sw.Clamped(("west", "south"), tide(0.5, "M2"))
        model = sw.ShallowWater(cases.plane(), 100.0, boundaries=sides, **options)
        return model, sw.Simulation(model, cases.start(model), sw.SSPRK3(10.0)).run(steps=2)

    cases.assert_runs_equal(end, make_communicator("auto", (cases.NY, cases.NX), layout), "arrays")


@pytest.mark.verify
@pytest.mark.skipif(cases.RANKS > 2, reason="two ranks show what more would")
def test_gradients_pass_dot_products_and_taylor_tests():
    model = ocean(cases.all_ranks(), "fused")
    controls = ["boundary.0.elevation.amplitude.M2", "boundary.1.incoming.phase.M2"]
    assert set(controls) < set(adjoint.names_of(model))
    cases.assert_derivatives(model, sw.ForwardBackward(10.0), STEPS, controls)


SHALLOW, PERIODS = sw.ForwardBackward(300.0), 22357.082  # [s], of M4, from which M8 is separate after as long
CONSTANTS = {
    "in the middle": ((6.1e4, 4.7e4), {"M4": (0.2, 40.0), "M8": (np.nan, np.nan)}, 0.05),
    "by a corner": ((1.1e4, 1.0e4), {"M4": (0.1, 310.0), "M8": (0.3, 10.0)}, 0.1),
    "opposite": ((1.16e5, 9.8e4), {"M4": (0.25, 90.0), "M8": (0.1, 200.0)}, 0.05),
}


def fitted(communicator):
    """A Problem of the misfit of harmonic constants, in a shallow sea with a tide."""
    pair = lambda k: (0.2 + 0.01 * cases.random(k), 40.0 * cases.random(k + 9))  # noqa: E731
    tides = sw.Tide({"M4": pair(1), "M8": pair(2)}, start=datetime.datetime(2008, 9, 8))
    model = sw.ShallowWater(
        cases.plane(),
        20.0 + 0.01 * cases.sea_floor(islands=False),
        coriolis=sw.FPlane(1e-4),
        communicator=communicator,
        engine="arrays",
        dissipation=(sw.QuadraticDrag(2.5e-3),),
        boundaries=(sw.Flather(("west", "south"), incoming=tides),),
    )
    cost = adjoint.HarmonicMisfit({name: adjoint.HarmonicConstants(*each) for name, each in CONSTANTS.items()})
    controls = ["initial.eta", "dissipation.0.coefficient", "boundary.0.incoming.phase.M8"]
    steps = int(np.ceil(PERIODS / SHALLOW.dt)) + 1
    return adjoint.Problem(model, SHALLOW, model.at_rest(), steps, cost, controls)


def value_and_maps(problem):
    value, gradient = problem.value_and_gradient()
    return value, {name: one.value for name, one in sensitivities(problem, gradient).items()}


@pytest.mark.verify
@pytest.mark.skipif(cases.RANKS > 2, reason="two ranks show what more would")
def test_the_misfit_of_harmonic_constants_and_its_gradient_are_those_of_one_rank():
    ours = fitted(cases.all_ranks())
    J, maps = value_and_maps(ours)
    value, whole = cases.from_root(lambda: value_and_maps(fitted(SerialCommunicator())))
    assert J == pytest.approx(float(value), rel=1e-11) and J > 1.0
    assert set(maps) == (set(whole) if ours.communicator.is_root else set())
    for name, found in maps.items():
        size = np.abs(whole[name]).max()
        assert size > 0
        np.testing.assert_allclose(found, whole[name], rtol=0, atol=1e-10 * size, err_msg=name)
