"""Tides at open sides: the same on any number of ranks, in both engines, with their gradients."""

import pytest

import swmodel as sw
from swmodel import adjoint
from swmodel.parallel import SerialCommunicator, make_communicator

from . import cases

STEPS = 6


def tide(size, *names, ramp=0.0):
    pairs = {name: (size * (1.0 + 0.1 * cases.random(k)), 40.0 * cases.random(k + 9)) for k, name in enumerate(names)}
    return sw.Tide(pairs, ramp=ramp)


def ocean(communicator, engine):
    return sw.ShallowWater(
        cases.plane(),
        cases.sea_floor(),
        coriolis=sw.FPlane(1e-4),
        communicator=communicator,
        engine=engine,
        boundaries=(
            sw.Clamped("west", tide(0.5, "M2", "O1")),
            sw.Flather(("south", "east"), elevation=tide(0.2, "K1"), incoming=tide(0.3, "M2", ramp=100.0)),
            sw.Sponge("north", width=4e4, rate=1e-4, elevation=tide(0.4, "S2")),
        ),
    )


def run(communicator, engine, stages=1):
    """(model, State after some steps)."""
    model = ocean(communicator, engine)
    simulation = sw.Simulation(model, cases.start(model), sw.ForwardBackward(10.0), stages_per_exchange=stages)
    state = simulation.run(steps=STEPS)
    assert simulation.engine[0] == engine
    return model, state


@pytest.fixture(scope="module")
def alone():
    return cases.from_root(lambda: cases.fields_of(run(SerialCommunicator(), "arrays")[1]))


@pytest.mark.parametrize("engine, stages", [("arrays", 1), ("fused", 1), ("fused", 2)])
def test_runs_equal_those_of_one_rank_on_arrays(engine, stages, alone):
    if cases.RANKS > 2 and stages > 1:
        pytest.skip("tiles are too thin")
    model, ours = run(cases.all_ranks(), engine, stages)
    cases.assert_tiles_equal(model, ours, alone)


@pytest.mark.parametrize("layout", cases.LAYOUTS[-1:], ids=str)
def test_a_clamped_side_that_is_cut_equals_that_of_one_rank(layout):
    """Cells next to the side read the flow through their faces across it, so that one more ghost cell is needed."""

    def end(communicator):
        model = sw.ShallowWater(
            cases.plane(),
            100.0,
            communicator=communicator,
            linear=True,
            engine="arrays",
            coriolis=sw.FPlane(1e-3),
            boundaries=(sw.Clamped(("west", "south"), tide(0.5, "M2")),),
        )
        return model, sw.Simulation(model, cases.start(model), sw.SSPRK3(10.0)).run(steps=2)

    alone = cases.from_root(lambda: cases.fields_of(end(SerialCommunicator())[1]))
    cases.assert_tiles_equal(*end(make_communicator("auto", (cases.NY, cases.NX), layout)), alone)


@pytest.mark.verify
@pytest.mark.skipif(cases.RANKS > 2, reason="two ranks show what more would")
def test_gradients_pass_dot_products_and_taylor_tests():
    model = ocean(cases.all_ranks(), "fused")
    controls = ["boundary.0.elevation.amplitude.M2", "boundary.1.incoming.phase.M2"]
    assert set(controls) < set(adjoint.names_of(model))
    cases.assert_derivatives(model, sw.ForwardBackward(10.0), STEPS, controls)
