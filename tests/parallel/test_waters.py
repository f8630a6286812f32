"""Rivers, rain, infiltration, gates and pumps in fused loops on any number of ranks: as on arrays of one rank."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import swmodel as sw
from swmodel.fields.state import replace
from swmodel.parallel import SerialCommunicator
from swmodel.runtime.compilation import jit
from tests.selection import later

from . import cases

pytestmark = cases.MORE_THAN_FOUR
GRID = sw.CartesianGrid(24, 18, (0.0, 240.0), (0.0, 180.0), periodic="y")
BED = np.random.default_rng(3).uniform(-3.0, 1.0, (18, 24))
ALONE = {"communicator": SerialCommunicator(), "engine": "arrays"}


def shore(**options):
    waters = (
        sw.River(sw.Record([0.0, 0.7, 5.0], [3.0, 9.0, 1.0]), [(115.0, 95.0), (125.0, 95.0)], velocity_y=0.5),
        sw.River(-1.0, (5.0, 5.0)),
        sw.Rain(lambda x, y: 1e-4 * (1.0 + np.sin(0.1 * x + 0.0 * y)), concentrations={"dye": 2.0}),
        sw.Infiltration(2e-6, suction=0.01, deficit=0.05),
        sw.Evaporation(1e-5),
        sw.Gate((55.0, 45.0), (235.0, 175.0), width=3.0, sill=-1.0, opening=0.5),
        sw.Culvert((15.0, 15.0), (235.0, 175.0), width=1.0, sill=-1.0, opening=0.5, length=200.0),
        sw.Pump((125.0, 95.0), (15.0, 165.0), 4.0),
    )
    return sw.ShallowWater(
        GRID,
        BED,
        momentum=sw.MomentumConserving(),
        wetting=sw.WettingDrying(),
        dissipation=sw.ManningDrag(0.03),
        forcing=waters,
        tracers=sw.Tracer("dye"),
        dtype="float64",
        **options,
    )


def outcome(derivatives, **options):
    """J, a weighted sum of the state after whole steps, or dJ/d(discharge, rain, evaporation, a gate, a pump).

    In a basin without wetting, which compiles sooner.
    """
    river = sw.River(sw.Record([0.0, 0.7, 5.0], [3.0, 9.0, 1.0]), [(115.0, 95.0), (125.0, 95.0)], velocity_y=0.5)
    gate = sw.Gate((15.0, 15.0), (235.0, 175.0), width=3.0, sill=-2.0)
    waters = river, sw.Rain(1e-4), sw.Evaporation(1e-5), gate, sw.Pump((235.0, 175.0), (15.0, 95.0), 4.0)
    model = sw.ShallowWater(GRID, 3.0 - BED, forcing=waters, dtype="float64", **options)
    stepper, weight = sw.AB2(0.2), model.scatter(np.random.default_rng(1).uniform(-1.0, 1.0, BED.shape))
    dynamics = model.dynamics(stepper)

    def cost(values):
        river, rain, sun, gate, pump = dynamics.terms
        river = replace(river, discharge=replace(river.discharge, values=values[0]))
        terms = river, replace(rain, rate=values[1]), replace(sun, rate=values[2])
        terms = *terms, replace(gate, width=values[3], sill=values[4]), replace(pump, discharge=values[5])
        end, _ = sw.integrate(replace(dynamics, terms=terms), stepper, model.at_rest(), 6)
        return model.communicator.sum(jnp.sum(weight * (end.eta + end.v)))

    start = model.terms[0].discharge.values, *map(jnp.asarray, (1e-4, 1e-5, 3.0, -2.0, 4.0))
    return jax.tree.map(np.asarray, jit(jax.grad(cost) if derivatives else cost)(start))


@pytest.mark.skipif(cases.RANKS == 1, reason="compares ranks")
@pytest.mark.parametrize("derivatives", [False, later(True)], ids=("value", "gradient"))
def test_a_sum_and_its_gradient_in_every_water_are_those_of_one_rank(derivatives):
    whole = jax.tree.leaves(cases.from_root(lambda: outcome(derivatives, **ALONE)))
    for ours, expected in zip(jax.tree.leaves(outcome(derivatives, layout=cases.LAYOUTS[0])), whole, strict=True):
        np.testing.assert_allclose(ours, expected, rtol=1e-12)
    assert (np.abs(whole[0].ravel()[:2]) > 0).all() and all(np.abs(x) > 0 for x in whole[1:])
