"""Green's functions by sweeps of the transposed linear model are those of runs, whatever the stepper and the engine."""

import numpy as np
import pytest

import swmodel as sw
from swmodel.adjoint import Misfit, Problem
from swmodel.adjoint.assimilation.departures import Green, only_patch
from swmodel.adjoint.assimilation.linear_model import LinearModel
from swmodel.errors import ConfigError

from . import test_assimilation as patch

EVERY = 3


def problem(stepper, engine="arrays", **options):
    """A patch in a corner beside an open side, with gauges at the coast and in the corner."""
    depth = np.where(np.random.default_rng(2).random((patch.NY, patch.NX)) < 0.05, 0.0, 100.0)
    grid = sw.CartesianGrid(patch.NX, patch.NY, (0.0, 1e4 * patch.NX), (0.0, 1e4 * patch.NY))
    options = {"boundaries": sw.ChapmanFlather("east"), "engine": engine, "communicator": "serial"} | options
    model = sw.ShallowWater(grid, depth, coriolis=sw.FPlane(1e-4), dissipation=sw.QuadraticDrag(2.5e-3), **options)
    return Problem(model, stepper, model.at_rest(), patch.STEPS, Misfit(patch.records()), [patch.patch(model)])


@pytest.mark.verify
@pytest.mark.parametrize(
    ("stepper", "engine"),
    [(sw.ForwardBackward(patch.DT), "arrays"), (sw.AB3(patch.DT), "fused")],
    ids=["forward_backward", "ab3"],
)
def test_sweeps_give_the_readings_of_runs(stepper, engine):
    given = problem(stepper, engine)
    _, sources, target = only_patch(given)
    linear = LinearModel(given)
    runs = linear.run_each(sources, target, EVERY)
    assert np.abs(linear.swept(sources, target, EVERY) - runs).max() < 1e-14 * np.abs(runs).max()
    with pytest.raises(ConfigError, match="differ by .* from a run: the model changes with time"):
        linear.check_swept(1.001 * runs, sources, target, EVERY)


@pytest.mark.verify
def test_fewer_gauges_than_sources_are_swept(monkeypatch):
    given = problem(sw.AB2(patch.DT))
    runs = Green.of(given)
    monkeypatch.setattr(LinearModel, "cost_of_sweep", staticmethod(lambda every=1: 1.0))
    called = []
    swept = Green.of(given, progress=lambda done, all: called.append((done, all)))
    assert called == [(1, 3), (2, 3), (3, 3)]
    assert np.allclose(swept.columns, runs.columns, rtol=0, atol=1e-14)
    monkeypatch.setattr(LinearModel, "swept", lambda *arguments, **options: _changing())
    assert np.array_equal(Green.of(given).columns, runs.columns)


def _changing():
    raise ConfigError("the model changes with time")
