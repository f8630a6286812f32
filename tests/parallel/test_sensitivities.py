"""Costs and maps on many ranks: those of one rank, whichever tile a gauge, a section or a box lies in."""

import datetime

import jax.numpy as jnp
import numpy as np
import pytest

import swmodel as sw
from swmodel.adjoint import HarmonicConstants, HarmonicMisfit, Problem
from swmodel.adjoint.costs import costs
from swmodel.adjoint.costs.marks import Mark, MarkMisfit
from swmodel.adjoint.costs.misfits import Current, SectionRecord, TransportMisfit, VelocityMisfit
from swmodel.adjoint.costs.readers import GaugeReader, everywhere
from swmodel.adjoint.costs.records import TrackMisfit, Tracks
from swmodel.adjoint.costs.tile_costs import SquaresOfSums
from swmodel.adjoint.examination import DOT_PRODUCT, DotProducts, Probe
from swmodel.adjoint.sensitivity import forward_check, sensitivities
from swmodel.adjoint.verification import Directions
from swmodel.fields.state import pytree, static
from swmodel.parallel import SerialCommunicator, make_communicator

from . import cases

STEPPER, STEPS = sw.AB2(10.0), 6
PARTS = (
    (1.0, costs.GaugeElevation({"in the middle": (6.1e4, 4.7e4), "by a corner": (1.0e3, 1.0e3)})),
    (1e-6, costs.SectionTransport((7e4, 0.0), (7e4, 1.1e5))),
    (1e-12, costs.BoxEnergy(x=(2e4, 9e4))),
)


@pytree
class Together(costs.TileCost):
    """The sum of costs of the last state."""

    parts: tuple

    def final(self, state, equations, step):
        return sum(weight * part.final(state, equations, step) for weight, part in self.parts)


def problem(communicator):
    model = cases.sea(cases.plane("x"), communicator=communicator, engine="arrays")
    parts = tuple((weight, part.on_tile(model, STEPPER.dt, 0, STEPS)) for weight, part in PARTS)
    return Problem(model, STEPPER, cases.start(model), STEPS, Together(parts), ("initial.eta", "initial.v", "depth"))


def maps_of(problem):
    """(J, its gradient, {control: map} on the root)."""
    J, gradient = problem.value_and_gradient()
    return float(J), gradient, {name: one.value for name, one in sensitivities(problem, gradient, "m").items()}


def assert_maps_are_those_of_one_rank(make, error_of_value, error):
    """Returns (the Problem on all ranks, J, its gradient)."""
    ours = make(cases.all_ranks())
    J, gradient, maps = maps_of(ours)
    value, whole = cases.from_root(lambda: maps_of(make(SerialCommunicator()))[::2])
    assert pytest.approx(float(value), rel=error_of_value) == J
    assert set(maps) == (set(whole) if ours.communicator.is_root else set())
    for name, found in maps.items():
        size = np.abs(whole[name]).max()
        assert size > 0
        np.testing.assert_allclose(found, whole[name], rtol=0, atol=error * size, err_msg=name)
    return ours, J, gradient


def test_maps_of_gauges_sections_and_boxes_equal_those_of_one_rank():
    ours, J, gradient = assert_maps_are_those_of_one_rank(problem, 1e-12, 1e-11)
    check = forward_check(ours, J, gradient, "initial.eta", 1e-4)
    assert check.predicted > 0 and check.found == pytest.approx(check.predicted, rel=1e-3)


def probed(communicator):
    """(a Problem whose cost is a Probe, Directions in its controls)."""
    model = problem(communicator).model
    names = ("initial.eta", "depth")
    made = Problem(model, STEPPER, cases.start(model), STEPS, Probe.of(model), names)
    return made, Directions(made, {"initial.eta": 0.1, "depth": 10.0})


@pytest.mark.verify
@pytest.mark.parametrize("layout", cases.LAYOUTS[:1], ids=str)
def test_the_dot_product_holds_on_any_number_of_ranks(layout):
    """Every state is read everywhere, by a Probe that is the same on any number of ranks; so are the directions."""
    if cases.RANKS > 2:
        pytest.skip("compiles as long on every rank, and holds on 4 where it does on 2")
    probe, directions = probed(make_communicator("auto", (cases.NY, cases.NX), layout))
    found = DotProducts(probe, directions).errors
    assert set(found) == {"initial.eta", "depth"} and max(found.values()) < DOT_PRODUCT
    tile = np.asarray(directions.along("depth", smooth=True)["depth"])
    whole = cases.from_root(lambda: probed(SerialCommunicator())[1].along("depth", smooth=True)["depth"])
    np.testing.assert_array_equal(tile, whole[probe.model.tile.slices])


OBSERVED = np.arange(12.0, 60.0, 7.0)
POINTS = np.array([[3e4, 6.1e4, 9e4], [2e4, 4.7e4, 8e4], [12.0, 33.0, 60.0], [1.0, 0.5, -1.0], [0.1, 0.2, 0.3]])
MISFITS = (
    VelocityMisfit({"a": Current((6.1e4, 4.7e4), OBSERVED, np.sin(OBSERVED), np.cos(OBSERVED), 0.1)}),
    TransportMisfit({"a": SectionRecord((7e4, 0.0), (7e4, 1.1e5), OBSERVED, 1e6 * OBSERVED, 1e6)}),
    TrackMisfit(Tracks(*POINTS)),
    MarkMisfit({"a": Mark((6.1e4, 4.7e4), 0.5), "b": Mark((3e4, 2e4), 0.4, 0.2)}),
)


@pytree
class InSum(costs.TileCost):
    """The sum of costs that read along the run, `counts` numbers each."""

    parts: tuple
    counts: tuple = static()

    def read(self, state, equations, time):
        return jnp.concatenate([part.read(state, equations, time) for part in self.parts])

    def start(self):
        return tuple(part.start() for part in self.parts)

    def update(self, acc, readings, first_step):
        own = jnp.split(readings, np.cumsum(self.counts)[:-1], axis=1)
        return tuple(part.update(a, r, first_step) for part, a, r in zip(self.parts, acc, own))

    def value(self, acc, final):
        return sum(part.value(a, None) for part, a in zip(self.parts, acc))


def observing(communicator):
    """A problem with misfits of velocities, transports, tracks, marks and weighted sums, as harmonic constants are."""
    model = problem(communicator).model
    parts = [cost.on_tile(model, STEPPER.dt, 0, STEPS) for cost in MISFITS]
    weights, observed = cases.random(8)[:STEPS, :4], cases.random(9)[:4, :2]
    reader = GaugeReader.at({"in the middle": (6.1e4, 4.7e4), "by a corner": (1.0e3, 1.0e3)}, model)
    parts.append(SquaresOfSums(reader, *(everywhere(model, x) for x in (weights, observed, np.ones((4, 2)))), 1))
    names = ("initial.eta", "initial.v", "depth")
    return Problem(model, STEPPER, cases.start(model), STEPS, InSum(tuple(parts), (2, 1, 3, 2, 2)), names)


@pytest.mark.verify
def test_misfits_to_currents_transports_tracks_and_sums_equal_those_of_one_rank():
    """With their gradients on 2 ranks; on more, the gradient would compile as long on every rank."""
    if cases.RANKS <= 2:
        assert_maps_are_those_of_one_rank(observing, 1e-11, 1e-10)
        return
    value = observing(cases.all_ranks()).value()
    assert value == pytest.approx(cases.from_root(lambda: observing(SerialCommunicator()).value()), rel=1e-11)


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
    cost = HarmonicMisfit({name: HarmonicConstants(*each) for name, each in CONSTANTS.items()})
    controls = ["initial.eta", "dissipation.0.coefficient", "boundary.0.incoming.phase.M8"]
    steps = int(np.ceil(PERIODS / SHALLOW.dt)) + 1
    return Problem(model, SHALLOW, model.at_rest(), steps, cost, controls)


@pytest.mark.verify
@pytest.mark.skipif(cases.RANKS > 2, reason="two ranks show what more would")
def test_the_misfit_of_harmonic_constants_and_its_gradient_are_those_of_one_rank():
    assert assert_maps_are_those_of_one_rank(fitted, 1e-11, 1e-10)[1] > 1.0
