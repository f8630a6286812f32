"""Costs and maps on many ranks: those of one rank, whichever tile a gauge, a section or a box lies in."""

import numpy as np
import pytest

import swmodel as sw
from swmodel.adjoint import Problem
from swmodel.adjoint.costs import costs
from swmodel.adjoint.sensitivity import forward_check, sensitivities
from swmodel.adjoint.verification.verification import DOT_PRODUCT, Directions, Probe, dot_products
from swmodel.fields.pytrees import pytree
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
    grid = cases.plane("x")
    model = sw.ShallowWater(
        grid, cases.sea_floor(), coriolis=sw.FPlane(1e-4), communicator=communicator, engine="arrays"
    )
    parts = tuple((weight, part.on_tile(model, STEPPER.dt, 0, STEPS)) for weight, part in PARTS)
    return Problem(model, STEPPER, cases.start(model), STEPS, Together(parts), ("initial.eta", "initial.v", "depth"))


@pytest.mark.parametrize("layout", cases.LAYOUTS[:1], ids=str)
def test_maps_of_gauges_sections_and_boxes_equal_those_of_one_rank(layout):
    ours = problem(make_communicator("auto", (cases.NY, cases.NX), layout))
    J, gradient = ours.value_and_gradient()
    maps = {name: one.value for name, one in sensitivities(ours, gradient, "m").items()}
    check = forward_check(ours, J, gradient, "initial.eta", 1e-4)
    assert check.predicted > 0 and check.found == pytest.approx(check.predicted, rel=1e-3)

    def of_one():
        alone = problem(SerialCommunicator())
        value, slopes = alone.value_and_gradient()
        return value, {name: one.value for name, one in sensitivities(alone, slopes, "m").items()}

    value, whole = cases.from_root(of_one)
    assert J == pytest.approx(float(value), rel=1e-12)
    assert maps or not ours.communicator.is_root
    for name in maps:
        size = np.abs(whole[name]).max()
        assert size > 0
        np.testing.assert_allclose(maps[name], whole[name], rtol=0, atol=1e-11 * size)


def probed(communicator):
    """(a Problem whose cost is a Probe, Directions in its controls)."""
    model = problem(communicator).model
    names = ("initial.eta", "depth")
    made = Problem(model, STEPPER, cases.start(model), STEPS, Probe.of(model), names)
    return made, Directions(made, {"initial.eta": 0.1, "depth": 10.0})


@pytest.mark.parametrize("layout", cases.LAYOUTS[:1], ids=str)
def test_the_dot_product_holds_on_any_number_of_ranks(layout):
    """Every state is read everywhere, by a Probe that is the same on any number of ranks; so are the directions."""
    if cases.RANKS > 2:
        pytest.skip("compiles as long on every rank, and holds on 4 where it does on 2")
    probe, directions = probed(make_communicator("auto", (cases.NY, cases.NX), layout))
    found = dot_products(probe, directions)
    assert set(found) == {"initial.eta", "depth"} and max(found.values()) < DOT_PRODUCT
    tile = np.asarray(directions.along("depth", smooth=True)["depth"])
    whole = cases.from_root(lambda: probed(SerialCommunicator())[1].along("depth", smooth=True)["depth"])
    np.testing.assert_array_equal(tile, whole[probe.model.tile.slices])
