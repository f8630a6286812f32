"""How often a step is traced before a run begins: tracing is most of what starts and tests of small models cost."""

import jax
import numpy as np
import pytest

import swmodel as sw
from swmodel import adjoint
from swmodel.fields.field import HaloError
from swmodel.stepping.steps import one_step
from tests.selection import later

GRID = sw.CartesianGrid(11, 7, (0.0, 11e3), (0.0, 7e3))  # a shape of its own: nothing of another test is remembered
STEPPERS = {"AB2": sw.AB2, "ForwardBackward": sw.ForwardBackward}


@pytest.fixture
def traces(monkeypatch):
    """The time steps of all steps traced so far, in order."""
    steps = []
    for scheme in (*STEPPERS.values(), sw.ForwardBackwardHancock):

        def counted(self, *arguments, step=scheme.step):
            steps.append(self.dt)
            return step(self, *arguments)

        monkeypatch.setattr(scheme, "step", counted)
    return steps


@pytest.mark.parametrize("scheme, engine, most", [later("AB2", "arrays", 2), ("ForwardBackward", "fused", 3)])
def test_a_step_is_traced_once_for_the_halo_once_for_the_loops_and_once_for_a_run(
    traces, tmp_path, scheme, engine, most
):
    model = sw.ShallowWater(GRID, 100.0, engine=engine)
    simulation = sw.Simulation(model, model.at_rest(), STEPPERS[scheme](5.0))
    simulation.gauges(tmp_path / "gauges.nc", {"A": (5e3, 3e3)}).maxima(tmp_path / "maxima.nc")
    simulation.write(tmp_path / "fields.nc", every=20.0)
    for steps in (1, 2, 11):  # chunks of any length
        simulation.run(steps=steps)
    assert simulation.engine[0] == engine and len(traces) == most


@pytest.mark.verify
def test_a_step_is_traced_once_for_the_programs_that_record_and_pull_back(traces):
    model = sw.ShallowWater(GRID, 100.0, dissipation=sw.Laplacian(10.0), engine="fused")
    cost = adjoint.FinalState(lambda state, equations: (state.eta**2).sum())
    start = model.state(eta=lambda x, y: np.sin(x / 1e3))
    problem = adjoint.Problem(model, sw.AB2(5.0), start, 3, cost, ["initial.eta", "depth"])
    for _ in range(2):
        problem.value_and_gradient()
    assert len(traces) == 3


@pytest.mark.parametrize("wide", (later(5), 6))
def test_one_trace_finds_the_halo_of_a_coast_and_none_narrower_is_enough(traces, wide):
    """With a tracer it is one cell wider."""
    grid, stepper = sw.CartesianGrid(17, 13, (0.0, 17e3), (0.0, 13e3)), sw.ForwardBackwardHancock(1.0)
    options = {"wetting": sw.WettingDrying(), "tracers": (sw.Tracer("dye"),) if wide == 6 else ()}
    model = sw.ShallowWater(grid, lambda x, y: 20.0 - 4e-3 * x, momentum=sw.MomentumConserving(), **options)
    assert model.halo(stepper) == wide and len(traces) == 1
    narrow = stepper.system(model.interval(wide - 1, 0, 1.0))
    with pytest.raises(HaloError, match="reached 1 beyond the halo"):
        jax.eval_shape(lambda: one_step(narrow, stepper, model.at_rest(), (), 0))
