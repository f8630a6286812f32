"""Fused loops and wide halos give what arrays and one exchange a stage give, on any number of ranks."""

import jax
import numpy as np
import pytest

import swmodel as sw
from swmodel.fields.state import replace
from swmodel.runtime import launchers
from swmodel.simulation.simulation import Simulation
from swmodel.stencils.native.library import CompileError
from swmodel.stepping import loop
from swmodel.stepping.fused import FusedStepLoop
from swmodel.stepping.steps import ArrayStepLoop

from . import cases

pytestmark = pytest.mark.usefixtures("optimised_loops")

STEPS = 23  # no multiple of any number of steps that is made at once


# In `make test` each case has one engine and halo.
LATER = {
    ("three layers", "fused", 2),
    ("three layers", "arrays", 2),
    ("walls and islands", "arrays", 1),
    ("walls and islands", "arrays", 2),
    ("doubly periodic", "arrays", 1),
    ("doubly periodic", "fused", 2),
    ("doubly periodic", "arrays", 2),
    ("three layers", "arrays", 1),
    ("open sides of a sphere", "arrays", 1),
    ("open sides of a sphere", "arrays", 2),
}
if cases.RANKS > 1:  # half a minute of compiling: one rank shows its halos, and test_ranks_agree.py its messages
    LATER.add(("open sides of a sphere", "fused", 2))
COMBINATIONS = [
    pytest.param(case, engine, stages, marks=[pytest.mark.verify] if (case, engine, stages) in LATER else [])
    for case in cases.CASES
    for engine, stages in (("fused", 2), ("arrays", 1), ("arrays", 2))  # test_ranks_agree has the fused one, 1
    if case != "both poles" or (engine, stages) == ("arrays", 2)  # which fused loops leave to arrays
    if case != "substeps"  # whose steps share no exchange
]


LOOPS = {"fused": FusedStepLoop, "arrays": ArrayStepLoop}


@pytest.fixture(scope="module")
def expected():
    """The State after STEPS steps on arrays on one rank, by case."""
    made = {}

    def reference(case):
        model, stepper = cases.alone(case)
        dynamics = replace(model.dynamics(stepper, steps=STEPS), step_loop=ArrayStepLoop)
        return cases.run(dynamics, stepper, cases.start(model), STEPS)[0]

    def of(case):
        if case not in made:
            made[case] = cases.from_root(lambda: reference(case))
        return made[case]

    return of


def difference(model, dynamics, stepper, whole):
    state, _ = cases.run(dynamics, stepper, cases.start(model), STEPS)
    sizes = [np.abs(np.asarray(x)).max() for x in jax.tree.leaves(whole)]
    pairs = zip(jax.tree.leaves(state), jax.tree.leaves(whole), sizes)
    return max(np.abs(np.asarray(tile) - np.asarray(x)[model.tile.slices]).max() / size for tile, x, size in pairs)


@pytest.mark.parametrize("case, engine, stages", COMBINATIONS)
def test_every_engine_and_halo_gives_the_same(case, engine, stages, expected):
    model, stepper = cases.together(case, cases.LAYOUTS[0])
    dynamics = replace(model.dynamics(stepper, steps=STEPS, stages=stages), step_loop=LOOPS[engine])
    assert difference(model, dynamics, stepper, expected(case)) < 1e-12


@pytest.mark.verify
def test_a_run_finds_the_number_of_stages_an_exchange_by_itself():
    """Measured on all ranks, which then agree, and give what one exchange a stage gives."""
    model, stepper = cases.together("walls and islands", cases.LAYOUTS[0])
    measured = Simulation(model, cases.start(model), stepper, stages_per_exchange="auto")
    plain = Simulation(model, cases.start(model), stepper)
    assert measured.stages in ((1,) if model.communicator.size == 1 else (1, 2, 3, 4, 6, 8))
    for a, b in zip(*(jax.tree.leaves(run.run(steps=5)) for run in (measured, plain))):
        np.testing.assert_allclose(a, b, rtol=0, atol=1e-12 * np.abs(b).max())


@pytest.mark.parametrize("sharded", [False, True], ids=["ranks", "devices"])
def test_where_one_rank_cannot_compile_a_loop_all_run_on_arrays(monkeypatch, sharded):
    """And give what arrays give, instead of waiting for each other."""
    if sharded and launchers.launched_ranks() > 1:
        pytest.skip("devices of one process")
    options = {"communicator": "sharded"} if sharded else {}
    model = sw.ShallowWater(sw.CartesianGrid(21, 17, (0.0, 2.1e4), (0.0, 1.7e4)), 100.0, **options)
    if model.engine != "fused":
        pytest.skip("no C++ compiler here")
    ranks = model.communicator.ranks

    def refuse(graph, dtypes):
        raise CompileError("the compiler gave up")

    monkeypatch.setattr(loop, "_OBSTACLES", {})
    if model.communicator.size - 1 in ranks:
        monkeypatch.setattr("swmodel.stencils.compiled.compile_loop", refuse)
    state = model.state(eta=lambda x, y: 1e-3 * np.sin(x / 4e3))
    simulation = sw.Simulation(model, state, sw.SSPRK3(10.0))
    simulation.run(steps=4)
    assert simulation.engine == ("arrays", "the compiler gave up")
    arrays = sw.ShallowWater(model.grid, 100.0, engine="arrays", **options)
    expected = sw.Simulation(arrays, state, sw.SSPRK3(10.0)).run(steps=4)
    for ours, theirs in zip(jax.tree.leaves(simulation.state), jax.tree.leaves(expected)):
        np.testing.assert_array_equal(ours, theirs)
