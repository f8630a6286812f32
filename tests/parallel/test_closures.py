"""Viscosities that follow from the flow, on several ranks: steps and gradients in fused loops as on arrays of one."""

import jax.numpy as jnp
import numpy as np
import pytest

import swmodel as sw
from swmodel import adjoint
from swmodel.parallel import SerialCommunicator

from . import cases

CLOSURES = sw.Smagorinsky(3.0), sw.Leith(2.0), sw.BiharmonicSmagorinsky(3.0), sw.BiharmonicLeith(2.0)
STEPS = 2


def sea(**options):
    closed = {"side": sw.NoSlip(), "dissipation": CLOSURES, "dtype": "float64"}
    return sw.ShallowWater(cases.plane("x"), cases.sea_floor(), **closed, **options)


def run(communicator, engine):
    """(model, State after some steps)."""
    model = sea(communicator=communicator, engine=engine)
    return model, sw.Simulation(model, cases.start(model), sw.AB3(10.0)).run(steps=STEPS)


def test_fused_steps_equal_those_on_arrays_of_one_rank():
    cases.assert_runs_equal(run, cases.all_ranks(), "fused")


def problem(**options):
    model = sea(**options)
    start = model.state(u=cases.random(4), v=cases.random(5), eta=cases.random(6))
    cost = adjoint.FinalState(lambda state, equations: jnp.sum(state.u**2 + state.v**2))
    names = ["initial.u", "initial.v", "depth", *(f"dissipation.{k}.coefficient" for k in range(len(CLOSURES)))]
    return adjoint.Problem(model, sw.AB3(10.0), start, STEPS, cost, names)


@pytest.mark.verify
def test_values_and_gradients_of_fused_steps_equal_those_on_arrays_of_one_rank():
    ours = problem(layout=cases.LAYOUTS[0])
    value, found = ours.value_and_gradient()

    def alone():
        one = problem(communicator=SerialCommunicator(), engine="arrays")
        value, found = one.value_and_gradient()
        return value, {name: np.asarray(x) for name, x in found.items()}

    expected, gradient = cases.from_root(alone)
    assert abs(value - expected) <= 1e-12 * abs(expected)
    for name, x in found.items():
        x = np.asarray(x) if np.ndim(x) < 2 else ours.model.gather(x)
        if ours.model.communicator.is_root:
            scale = np.abs(gradient[name]).max()
            assert scale > 0, name
            np.testing.assert_allclose(x, gradient[name], rtol=0, atol=1e-10 * scale, err_msg=name)
