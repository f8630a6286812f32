"""Tracers and their gradients on any number of ranks and devices are those of one, in arrays and in fused loops."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import swmodel as sw
from swmodel import adjoint
from swmodel.dynamics.clock import Time
from swmodel.parallel import SerialCommunicator, make_communicator
from swmodel.parallel.sharded import ShardedCommunicator
from swmodel.stencils.native import why_not

from . import cases

STEPS = 5
WITH_COMPILER = pytest.mark.skipif(why_not() is not None, reason="no compiler")


class Records:
    """A concentration outside in time records."""

    cycle = None
    times = np.array([0.0, 20.0, 100.0])
    values = 1.0 + 0.1 * np.stack([cases.random(seed) for seed in (7, 8, 9)])


def tracers():
    return (
        sw.Tracer("dye", diffusivity=lambda x, y: 5.0 + 0 * x, outside=Records(), source=1e-6),
        sw.Tracer("ink", scheme=sw.Centred(), diffusivity=10.0, flux=1e-3),
    )


def model_of(case, communicator, engine="arrays"):
    """Islands and uneven tiles, periodic in both directions or with open sides and a sponge."""
    options = {"periodic": {}, "open": {"boundaries": (sw.Flather(), sw.Sponge("east", width=3e4, rate=1e-4))}}[case]
    grid = cases.plane("xy" if case == "periodic" else "")
    return cases.sea(grid, tracers=tracers(), communicator=communicator, engine=engine, **options)


def start(model):
    c = {"dye": 1.0 + 0.2 * cases.random(11), "ink": cases.random(12)}
    return model.state(u=0.5 * cases.random(4), v=0.5 * cases.random(5), eta=cases.random(6), **c)


def final(case, communicator, engine, stepper):
    """{name: whole field} at the end of a run, on the root."""
    model = model_of(case, communicator, engine)
    state = sw.Simulation(model, start(model), stepper).run(steps=STEPS)
    return {name: model.gather(x) for name, x in state}


def communicators():
    """The communicators that are compared with one rank."""
    if cases.RANKS > 1:
        return [make_communicator("auto", (cases.NY, cases.NX), layout) for layout in cases.LAYOUTS[:1]]
    return [SerialCommunicator(), ShardedCommunicator((2, 3))]


@functools.cache
def reference(case, stepper):
    """On one rank, on arrays."""
    one = functools.partial(final, case, SerialCommunicator(), "arrays", stepper)
    return cases.from_root(one)


@pytest.mark.parametrize(
    "case, stepper, engine",
    [
        ("periodic", sw.SSPRK3(30.0), "arrays"),
        pytest.param("open", sw.ForwardBackward(30.0), "fused", marks=[WITH_COMPILER, pytest.mark.verify]),
    ],
)
def test_every_rank_and_engine_gives_the_same(case, stepper, engine):
    expected = reference(case, stepper)
    for communicator in communicators():
        if engine == "fused" and len(communicator.ranks) > 1:
            continue
        got = final(case, communicator, engine, stepper)
        if communicator.is_root:
            for name, wanted in expected.items():
                np.testing.assert_allclose(got[name], wanted, rtol=0, atol=1e-12 * np.abs(wanted).max(), err_msg=name)


def square(state, equations):
    shown = equations.shown(state, Time(STEPS))
    return jnp.sum(shown.dye**2) + jnp.sum(shown.ink**3)


def gradient(communicator):
    model = model_of("open", communicator, "auto")
    controls = [*(f"initial.{name}" for name in ("dye", "ink", "eta")), "tracer.0.diffusivity", "tracer.1.diffusivity"]
    controls += ["tracer.0.source", "tracer.1.flux", "tracer.0.outside"]
    cost = adjoint.FinalState(square)
    problem = adjoint.Problem(model, sw.ForwardBackward(30.0), start(model), STEPS, cost, controls)
    J, found = problem.value_and_gradient()
    return J, jax.tree.map(lambda x: model.gather(x) if np.ndim(x) >= 2 else np.asarray(x), found)


@pytest.mark.verify  # test_transposes.py has the transposes of messages, test_ranks_agree.py gradients of whole runs
def test_gradients_are_those_of_one_rank():
    expected = cases.from_root(lambda: gradient(SerialCommunicator()))
    for communicator in communicators()[-1:]:
        got = gradient(communicator)
        if communicator.is_root:
            pairs = zip(jax.tree_util.tree_leaves_with_path(got), jax.tree.leaves(expected))
            for (path, x), wanted in pairs:
                assert np.abs(wanted).max() > 0, path
                most = 1e-11 * np.abs(wanted).max()
                np.testing.assert_allclose(np.asarray(x), wanted, rtol=0, atol=most, err_msg=str(path))
