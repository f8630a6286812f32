"""A shore on any number of ranks: the same steps as on one, and as many grams of water."""

import numpy as np
import pytest

import swmodel as sw
from swmodel.parallel import SerialCommunicator

from . import cases

pytestmark = cases.MORE_THAN_FOUR
BED = np.random.default_rng(3).uniform(-3.0, 3.0, (18, 24))


def run(steps, stepper, **options):
    grid = sw.CartesianGrid(24, 18, (0.0, 240.0), (0.0, 180.0), periodic="y")
    model = sw.ShallowWater(
        grid,
        BED,
        momentum=sw.MomentumConserving(),
        wetting=sw.WettingDrying(),
        coriolis=sw.FPlane(1e-2),
        dissipation=sw.ManningDrag(0.03),
        tracers=sw.Tracer("dye", initial=lambda x, y: x / 240.0 + 0.0 * y),
        dtype="float64",
        **options,
    )
    return model, sw.Simulation(model, start(model), stepper).run(steps=steps)


def start(model):
    u, v, eta = (np.random.default_rng(k).uniform(-size, size, BED.shape) for k, size in enumerate((1.0, 1.0, 3.0)))
    return model.state(u=u, v=v, eta=eta)


def volume(model, state):
    """The water of all ranks over an area of 1 m2 a cell [m3]."""
    own = np.sum(BED[model.tile.slices] + np.asarray(state.eta))
    return model.communicator.host_sum(np.array([own]))[0]


MAKER = sw.WaveMaker(sides="west", elevation=sw.Record([0.0, 1.0, 2.0], [0.0, 0.5, 0.2]), until=1.0, total=True)
LEVEE = sw.Levee(((30.0, -10.0), (90.0, 100.0), (200.0, 190.0)), (1.0, 2.0, 0.5))
SIDES = {"open": {"boundaries": (MAKER, sw.Flather("east"))}, "with a levee": {"levees": (LEVEE,)}}
STEPPERS = {"three stages": sw.SSPRK3(0.3), "one stage": sw.ForwardBackwardHancock(0.2)}
QUICK = {("open", "three stages"), ("with a levee", "one stage")}
CASES = [
    pytest.param(sides, stepper, marks=[] if (sides, stepper) in QUICK else pytest.mark.verify)
    for sides in SIDES
    for stepper in STEPPERS
]


@pytest.mark.parametrize("sides, stepper", CASES)
def test_fused_steps_over_a_shore_equal_those_on_arrays_of_one_rank_and_lose_no_water(sides, stepper):
    parts, stepper = SIDES[sides], STEPPERS[stepper]
    model, ours = run(4, stepper, layout=cases.LAYOUTS[0], **parts)
    alone = {"communicator": SerialCommunicator(), "engine": "arrays"}
    whole = cases.from_root(lambda: run(4, stepper, **parts, **alone)[1])
    for name in ("u", "v", "eta", "dye"):
        expected = np.asarray(whole[name])
        assert np.isfinite(expected).all()
        np.testing.assert_allclose(np.asarray(ours[name]), expected[model.tile.slices], rtol=0, atol=1e-12)
    if "levees" in parts:
        assert volume(model, ours) == pytest.approx(volume(model, start(model)), rel=1e-13)
