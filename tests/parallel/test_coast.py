"""A shore on any number of ranks: the same steps as on one, and as many grams of water."""

import numpy as np
import pytest

import swmodel as sw
from swmodel.parallel import SerialCommunicator

from . import cases

BED = np.random.default_rng(3).uniform(-3.0, 3.0, (12, 16))


def run(steps, **options):
    grid = sw.CartesianGrid(16, 12, (0.0, 160.0), (0.0, 120.0), periodic="y")
    model = sw.ShallowWater(
        grid, BED, momentum=sw.MomentumConserving(), wetting=sw.WettingDrying(), coriolis=sw.FPlane(1e-2),
        dissipation=sw.ManningDrag(0.03), boundaries=sw.Flather(("west",)), dtype="float64", **options,
    )  # fmt: skip
    u, v, eta = (np.random.default_rng(k).uniform(-size, size, BED.shape) for k, size in enumerate((1.0, 1.0, 3.0)))
    return model, sw.Simulation(model, model.state(u=u, v=v, eta=eta), sw.SSPRK3(0.3)).run(steps=steps)


@pytest.mark.parametrize("layout", cases.LAYOUTS[:1], ids=str)
def test_steps_over_a_shore_equal_those_of_one_rank(layout):
    model, ours = run(4, layout=layout)
    whole = cases.from_root(lambda: run(4, communicator=SerialCommunicator())[1])
    for name in ("u", "v", "eta"):
        expected = np.asarray(whole[name])
        assert np.isfinite(expected).all()
        np.testing.assert_allclose(np.asarray(ours[name]), expected[model.tile.slices], rtol=0, atol=1e-12)
