"""Nests on any number of ranks are those of one rank, and boxes between unlike tiles have their transposes."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import swmodel as sw
from swmodel import adjoint
from swmodel.parallel import SerialCommunicator, make_communicator
from swmodel.parallel.boxes import Boxes, Part, collect
from swmodel.stencils.expressions import cells_of
from swmodel.stencils.native import why_not
from tests.selection import later

from .. import nested
from . import cases

COMPILED = pytest.mark.skipif(why_not() is not None, reason="no compiler")


def assert_close(family, states, expected):
    """Every field of every grid is, on the root, to rounding that of one rank."""
    for name, state in states.items():
        for field, values in state:
            whole = family.models[name].gather(values)
            if whole is not None:
                scale = np.abs(np.asarray(expected[name][field])).max()
                np.testing.assert_allclose(whole, expected[name][field], rtol=0, atol=1e-12 * scale, err_msg=field)


@pytest.mark.skipif(cases.RANKS == 1, reason="compares ranks")
@pytest.mark.verify
@pytest.mark.parametrize(
    "engine, layers",
    [("arrays", None), pytest.param("fused", None, marks=COMPILED), ("arrays", sw.Layers((20.0,), (1020.0, 1025.0)))],
    ids=("arrays", "fused", "layers"),
)
def test_a_run_on_several_ranks_is_that_of_one(engine, layers):
    """With gates, tracers, and a nest that starts later over a sea floor that rises meanwhile."""
    nests = [sw.Nest("harbour", start=24.0, **nested.HARBOUR)]
    uplift = nested.bump(*nested.GRID.coordinates("h"))
    source = sw.BottomMotion([0.0, 30.0], np.stack([0.0 * uplift, uplift]))
    options: dict = {
        "engine": engine,
        "source": None if layers else source,
        "tracers": nested.tracers(),
        "layers": layers,
        "forcing": () if layers else nested.GATES,
    }
    stepper = sw.ForwardBackward(dt=8.0)
    alone = nested.family(nests, communicator=SerialCommunicator(), **options)
    expected = nested.final(alone, stepper, 10, eta=nested.bump)
    family = nested.family(nests, **options)
    assert_close(family, nested.final(family, stepper, 10, eta=nested.bump), expected)


@pytest.mark.skipif(cases.RANKS == 1, reason="compares ranks")
@pytest.mark.verify
@pytest.mark.parametrize("engine", ["arrays", pytest.param("fused", marks=COMPILED)])
def test_a_nest_across_the_seam_of_a_globe_is_that_of_one_rank(engine):
    stepper = sw.ForwardBackward(dt=300.0)
    alone = nested.globe(0.0, communicator=SerialCommunicator(), engine=engine)
    family = nested.globe(0.0, engine=engine)
    assert_close(family, nested.final(family, stepper, 5), nested.final(alone, stepper, 5))


@pytest.mark.skipif(cases.RANKS == 1, reason="compares ranks")
@pytest.mark.verify
def test_members_on_several_ranks_are_those_of_one():
    stepper = sw.ForwardBackward(dt=8.0)
    alone = sw.family_of_members(*nested.members(SerialCommunicator()))
    expected = sw.NestedSimulation(*alone, stepper).run(steps=5)
    family, states = sw.family_of_members(*nested.members())
    assert_close(family, sw.NestedSimulation(family, states, stepper).run(steps=5), expected)


@pytest.mark.skipif(cases.RANKS == 1, reason="compares ranks")
@pytest.mark.parametrize("derivatives", [False, later(True)], ids=("value", "gradient"))
def test_a_cost_and_its_gradient_on_several_ranks_are_those_of_one(derivatives):
    """Of a gauge on each grid, with respect to fields and a number that act on both, over two records of an uplift."""
    uplift = nested.bump(*nested.GRID.coordinates("h"))
    source = sw.BottomMotion([0.0, 30.0], np.stack([0.0 * uplift, uplift]))

    def outcome(communicator, engine):
        options = {"communicator": communicator, "engine": engine, "source": source}
        family = nested.family([sw.Nest("harbour", **nested.HARBOUR)], **options)
        seams = {"by a column": (14.6e3, 9.2e3), "by a row": (10.2e3, 12.9e3)}  # next to the frame, where ranks meet
        cost = adjoint.GaugeElevation({"sea": (7.2e3, 7.4e3), **seams})
        controls = ["initial.eta", "uplift", "depth", "gravity"]
        states = family.states(eta=nested.bump)
        problem = adjoint.Problem(family, sw.ForwardBackward(dt=8.0), states, 6, cost, controls)
        return *(problem.value_and_gradient() if derivatives else (problem.value(problem.values), {})), family.outer

    one, expected = cases.from_root(lambda: outcome(SerialCommunicator(), "arrays")[:2])
    J, found, model = outcome("auto", "auto")
    assert abs(one) > 1e-3 and abs(J - one) < 1e-13
    for name, bars in expected.items():
        for ours, whole in zip(jax.tree.leaves(found[name]), jax.tree.leaves(bars), strict=True):
            gathered = ours if np.ndim(ours) < 2 else model.gather(ours)
            if gathered is not None:
                scale = np.abs(np.asarray(whole)).max()
                assert scale > 0
                np.testing.assert_allclose(gathered, whole, rtol=0, atol=1e-12 * scale, err_msg=name)


def test_boxes_between_tiles_have_their_transposes():
    """Of two boxes at once, of which some ranks hold nothing; each rank has cotangents of its own."""
    shape, places = (cases.NY, cases.NX), [((2, 3), (5, 6)), ((0, 1), (cases.NY, 2))]
    communicator = make_communicator("auto", shape)
    tile = communicator.decomposition(shape).tile(communicator.rank)
    each = [Boxes(((Part.of(corner, box, tile),),)) for corner, box in places]
    random = np.random.default_rng(3)
    whole = random.standard_normal((2, *shape))
    x = jnp.asarray(whole[(slice(None), *tile.slices)])
    own = np.random.default_rng(communicator.rank)
    bars = [jnp.asarray(own.standard_normal((2, box[0] * box[1]))) for _, box in places]

    def boxes(x):
        return collect([(one, cells_of(x, one.strips)) for one in each], communicator)

    for (corner, box), found, one in zip(places, boxes(x), each, strict=True):
        inside = whole[:, corner[0] : corner[0] + box[0], corner[1] : corner[1] + box[1]]
        np.testing.assert_array_equal(found, inside.reshape(2, -1))
        np.testing.assert_array_equal(one.of_tile(found), cells_of(x, one.strips))
    (back,) = jax.linear_transpose(boxes, x)(bars)
    products = sum(float(jnp.vdot(box, bar)) for box, bar in zip(boxes(x), bars, strict=True)), float(jnp.vdot(x, back))
    forward, reverse = communicator.host_sum(np.array(products))
    np.testing.assert_allclose(forward, reverse, rtol=1e-13)
