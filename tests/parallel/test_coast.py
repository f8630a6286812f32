"""A shore on any number of ranks: the same steps and gradients as on one, and as many grams of water."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import swmodel as sw
from swmodel.parallel import SerialCommunicator
from swmodel.runtime.compilation import jit

from . import cases

pytestmark = cases.MORE_THAN_FOUR
BED = np.random.default_rng(3).uniform(-3.0, 3.0, (18, 24))


GRIDS = {
    "plane": sw.CartesianGrid(24, 18, (0.0, 240.0), (0.0, 180.0), periodic="y"),
    "sphere": sw.SphericalGrid(24, 18, (10.0, 34.0), (30.0, 66.0)),
}


def shore(place="plane", depth=BED, **options):
    return sw.ShallowWater(
        GRIDS[place],
        depth,
        momentum=sw.MomentumConserving(),
        wetting=sw.WettingDrying(),
        coriolis=sw.FPlane(1e-2) if place == "plane" else sw.RotatingSphere(),
        dissipation=sw.ManningDrag(0.03),
        tracers=sw.Tracer("dye", initial=lambda x, y: np.cos(0.1 * x) ** 2 * np.sin(0.2 * y) ** 2),
        dtype="float64",
        **options,
    )


def run(steps, stepper, **options):
    model = shore(**options)
    return model, sw.Simulation(model, start(model), stepper).run(steps=steps)


def start(model):
    u, v, eta = (np.random.default_rng(k).uniform(-size, size, BED.shape) for k, size in enumerate((1.0, 1.0, 3.0)))
    return model.state(u=u, v=v, eta=eta)


def volume(model, state):
    """The water of all ranks [m3]."""
    area = np.broadcast_to(model.grid.area_h, BED.shape)[model.tile.slices]
    own = np.sum(area * (BED[model.tile.slices] + np.asarray(state.eta)))
    return model.communicator.host_sum(np.array([own]))[0]


MAKER = sw.WaveMaker(sides="west", elevation=sw.Record([0.0, 1.0, 2.0], [0.0, 0.5, 0.2]), until=1.0, total=True)
LEVEES = {
    "plane": sw.Levee(((30.0, -10.0), (90.0, 100.0), (200.0, 190.0)), (1.0, 2.0, 0.5)),
    "sphere": sw.Levee(((13.0, 28.0), (19.0, 50.0), (30.0, 68.0)), (1.0, 2.0, 0.5)),
}
SIDES = {
    "open": lambda place: {"boundaries": (MAKER, sw.Flather("east"))},
    "a levee": lambda place: {"levees": LEVEES[place]},
    "finer beds": lambda place: {"depth": sw.topography(FINE, GRIDS[place], subgrid=2)},
}
FINE = np.kron(BED, np.ones((2, 2))) + np.kron(np.ones(BED.shape), [[0.7, -0.2], [-0.9, 0.4]])
STEPPERS = {"three stages": sw.SSPRK3, "one stage": sw.ForwardBackwardHancock}
STEPS = {("plane", "three stages"): 0.3, ("plane", "one stage"): 0.2, ("sphere", "three stages"): 1500.0}  # [s]
STEPS["sphere", "one stage"] = 600.0
# Each takes half a minute of each rank to compile: two ranks have the first in `make test`, and six the second.
FIRST, SECOND = ("plane", "open", "one stage"), ("sphere", "a levee", "one stage")
QUICK = {1: (FIRST, SECOND), 2: (FIRST,), 4: ()}.get(cases.RANKS, (SECOND,))
CASES = [
    pytest.param(*case, marks=[] if case in QUICK else pytest.mark.verify)
    for case in itertools.product(GRIDS, SIDES, STEPPERS)
    if case[:2] != ("sphere", "open") and case[1:] != ("finer beds", "three stages")
]


def stepper_of(place, name):
    return STEPPERS[name](STEPS[place, name])


@pytest.mark.parametrize("place, sides, stepper", CASES)
def test_fused_steps_over_a_shore_equal_those_on_arrays_of_one_rank_and_lose_no_water(place, sides, stepper):
    options = {"place": place, **SIDES[sides](place)}
    stepper = stepper_of(place, stepper)
    model, ours = run(4, stepper, layout=cases.LAYOUTS[0], **options)
    alone = {"communicator": SerialCommunicator(), "engine": "arrays"}
    whole = cases.from_root(lambda: run(4, stepper, **options, **alone)[1])
    for name in ("u", "v", "eta", "dye"):
        expected = np.asarray(whole[name])
        assert np.isfinite(expected).all()
        np.testing.assert_allclose(np.asarray(ours[name]), expected[model.tile.slices], rtol=0, atol=1e-12)
    tile = model.tile.slices
    before, after = (model.depth[tile] + np.asarray(state.eta) for state in (start(model), ours))
    assert (after >= 0).all()
    moved = np.sum((before > 1e-4) != (after > 1e-4))
    assert model.communicator.host_sum(np.array([float(moved)]))[0] > 0  # the shore
    if sides != "open":
        assert volume(model, ours) == pytest.approx(volume(model, start(model)), rel=1e-13)


def differentiable(model):
    """{name: 1 where a cost has a derivative in it, else 0}: h = max(H + eta, 0) has none in dry cells.

    A velocity that is 0, as all are that lead out of dry cells, has a cell upstream on either side.
    """
    first = start(model)
    wet = np.asarray(first.eta) + BED[model.tile.slices] > 0
    moving = {name: (np.asarray(first[name]) != 0.0).astype(float) for name in "uv"}
    return moving | dict.fromkeys(("eta", "dye"), wet.astype(float))


def derivatives(place, stepper, **options):
    """(model, the gradient of a weighted sum of the state after 3 steps, its slope along a direction, <g, d>)."""
    model = shore(place, **options)
    stepper, first = stepper_of(place, stepper), start(model)
    dynamics = model.dynamics(stepper)
    names = ("u", "v", "eta", "dye")
    fields = {name: np.random.default_rng(k).uniform(-1.0, 1.0, (2, *BED.shape)) for k, name in enumerate(names, 7)}
    weights, smooth = {name: model.scatter(x[0]) for name, x in fields.items()}, differentiable(model)
    moved = {name: model.scatter(x[1]) * smooth[name] for name, x in fields.items()}

    def cost(state):
        end, _ = sw.integrate(dynamics, stepper, state, 3)
        own = sum(jnp.sum(weights[name] * end[name]) for name in names) + jnp.sum(end.eta * end.u)
        return model.communicator.sum(own)

    @jit
    def found(state, direction):
        return jax.grad(cost)(state), jax.jvp(cost, (state,), (direction,))[1]

    direction = (0.0 * first).replace(**moved)
    gradient, slope = found(first, direction)
    own = sum(float(jnp.sum(gradient[name] * direction[name])) for name in names)
    return model, gradient, float(slope), model.communicator.host_sum(np.array([own]))[0]


@pytest.mark.verify  # minutes of compiling
@pytest.mark.skipif(cases.RANKS not in (2, 4), reason="two and four ranks show what six would, and one has tests")
@pytest.mark.parametrize(
    "place, stepper, finer",
    [("plane", "three stages", False), ("sphere", "one stage", False), ("plane", "one stage", True)],
)
def test_the_gradient_of_a_moving_shore_is_that_of_one_rank_and_of_the_tangent(place, stepper, finer):
    floor = SIDES["finer beds"](place) if finer else {}
    model, ours, slope, product = derivatives(place, stepper, layout=cases.LAYOUTS[0], **floor)
    assert product == pytest.approx(slope, rel=1e-11)
    alone = {"communicator": SerialCommunicator(), "engine": "arrays"} | floor
    whole = cases.from_root(lambda: derivatives(place, stepper, **alone)[1:3])
    assert slope == pytest.approx(whole[1], rel=1e-11)
    for name, share in differentiable(model).items():
        found, expected = np.asarray(ours[name]), np.asarray(whole[0][name])
        assert np.isfinite(expected).all() and np.abs(expected).max() > 0
        tile = expected[model.tile.slices]
        np.testing.assert_allclose(found * share, tile * share, rtol=0, atol=1e-11 * np.abs(expected).max())
