"""Gradients and inversions on any number of ranks, and of devices, are those of one: of gauges that lie on one rank."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import swmodel as sw
from swmodel import adjoint
from swmodel.adjoint.assimilation import priors
from swmodel.adjoint.assimilation.assimilation import FourDVar, Rules, incremental
from swmodel.adjoint.assimilation.departures import Green, departures_of
from swmodel.adjoint.controls.seafloor import UnitSources
from swmodel.adjoint.controls.transforms import joined
from swmodel.forecast import Bank
from swmodel.parallel import SerialCommunicator, make_communicator
from swmodel.parallel.sharded import ShardedCommunicator

from . import cases

STEPS = 6
GAUGE = {"tide gauge": (3.3e4, 4.2e4)}


WIND = sw.Records([0.0, 20.0, 100.0], 0.1 * np.stack([cases.random(seed) for seed in (7, 8, 9)]))


def products(basis, parameters):
    """Controls from parameters that every rank holds: a field, and a number."""
    return {
        "initial.v": jnp.tensordot(jnp.exp(parameters["slip"]), basis, 1),
        "dissipation.0.coefficient": 1e-3 * parameters["slip"][0] * parameters["root"] * parameters["root"],
    }


def problem(communicator, periodic="x"):
    """Islands, walls along x, uneven tiles, a gauge's crest; fields, records, and numbers that every rank holds."""
    terms = {"forcing": sw.WindStress(x=WIND), "dissipation": sw.QuadraticDrag(2.5e-3)}
    model = cases.sea(cases.plane(periodic), communicator=communicator, **terms)
    basis = model.scatter(np.stack([0.1 * cases.random(seed) for seed in (10, 11)]))
    own = adjoint.Transformed({"slip": np.array([0.3, -0.2]), "root": 1.5}, jax.tree_util.Partial(products, basis))
    controls = ["initial.eta", "depth", "gravity", "forcing.0.x", own]
    return adjoint.Problem(
        model,
        sw.AB2(10.0),
        cases.start(model),
        STEPS,
        adjoint.GaugeMaximum(GAUGE),
        controls,
        checkpoints=adjoint.Nested(lengths=(3,)),
    )


def derivatives(problem):
    """(J, the gradient, of whole fields, on the root; <gradient, gradient>)."""
    J, gradient = problem.value_and_gradient()
    square = adjoint.dot(gradient, gradient, problem.communicator)
    return J, jax.tree.map(lambda x: problem.model.gather(x) if np.ndim(x) >= 2 else x, gradient), square


def check(ours, one):
    for (path, got), wanted in zip(jax.tree_util.tree_leaves_with_path(ours), jax.tree.leaves(one)):
        wanted = np.asarray(wanted)
        assert np.isfinite(wanted).all() and np.abs(wanted).max() > 0, path
        most = 1e-11 * np.abs(wanted).max()
        np.testing.assert_allclose(np.asarray(got), wanted, rtol=0, atol=most, err_msg=str(path))


@pytest.mark.skipif(cases.RANKS <= 2, reason="four ranks show it; two have gradients of nests, maps and parameters")
def test_gradients_on_ranks_are_those_of_one_rank():
    communicator = make_communicator("auto", (cases.NY, cases.NX), cases.LAYOUTS[0])
    assert communicator.size == cases.RANKS
    ours = derivatives(problem(communicator))
    communicator.from_root(lambda: check(ours, derivatives(problem(SerialCommunicator()))))


@pytest.mark.skipif(cases.RANKS > 1, reason="devices of one process")
def test_gradients_on_devices_are_those_of_one():
    """Of padded tiles, doubly periodic."""
    check(derivatives(problem(ShardedCommunicator((2, 3)), "xy")), derivatives(problem(SerialCommunicator(), "xy")))


# -- an inversion ------------------------------------------------------------------------------------------------------

GRID = sw.SphericalGrid(cases.NX, cases.NY, (138.0, 144.5), (33.0, 38.5))
GAUGES = {"west": (138.6, 35.2), "middle": (141.4, 35.9), "east": (143.8, 36.3), "south": (141.1, 33.6)}
DT, LENGTH = 60.0, 20


def misfit(values):
    """To elevations (steps, gauges)."""
    time, places = DT * np.arange(3, LENGTH + 1), enumerate(GAUGES.items())
    return adjoint.Misfit({name: adjoint.Record(place, time, values[2:, k], 0.02) for k, (name, place) in places})


def of_sources(communicator, values):
    """A Problem of the unit sources of a patch, which only rise, from elevations (steps, gauges)."""
    floor, earth = cases.sea_floor(), sw.RotatingSphere()
    model = sw.ShallowWater(GRID, floor, coriolis=earth, engine="arrays", communicator=communicator)
    patch = UnitSources.on(model, (139.0, 143.0), (34.0, 37.5), 1.0, 1.0, 8e4, 0.5)
    found = joined({"patch": ("initial.eta", patch)}, model)
    return adjoint.Problem(model, sw.AB2(DT), model.at_rest(), LENGTH, misfit(values), [found])


def inverted(problem):
    """(J of each outer loop, parameters, readings) by Green's functions, the nonlinear model in the outer loop."""
    departures = departures_of(problem.cost, problem.communicator)
    linearised = Green.of(problem).linearised(problem)
    found = incremental(FourDVar(problem), departures, Rules(loops=4), linearised=linearised)
    return np.array([loop.value for loop in found.history]), np.asarray(found.parameters["patch"]), found.readings


def of_a_twin():
    """(what the gauges of a twin saw, what is found of it): on this rank alone."""
    problem = of_sources(SerialCommunicator(), np.zeros((LENGTH, len(GAUGES))))
    count = problem.values["patch"].size
    truth = np.asarray(problem.observed({"patch": 1.5 * np.sin(np.arange(count))}))
    seen = truth + 0.02 * np.random.default_rng(3).standard_normal(truth.shape)
    problem.cost = misfit(seen).on_tile(problem.model, DT, 0, LENGTH)  # compiled once
    return seen, inverted(problem)


@pytest.mark.verify
@pytest.mark.skipif(cases.RANKS == 1, reason="that is the one")
def test_an_inversion_on_ranks_is_that_of_one_rank():
    communicator = make_communicator("auto", (cases.NY, cases.NX), cases.LAYOUTS[0])
    seen, (history, parameters, readings) = communicator.from_root(of_a_twin)
    ours = inverted(of_sources(communicator, seen))
    assert history.size > 2 and history[-1] < 0.1 * history[0]
    np.testing.assert_allclose(ours[0], history, rtol=1e-9)
    np.testing.assert_allclose(ours[1], parameters, rtol=0, atol=1e-8)
    np.testing.assert_allclose(ours[2], readings, rtol=0, atol=1e-9 * np.abs(readings).max())
    assert all(np.array_equal(ours[1], others) for others in communicator.host_gather(ours[1]))


def bank(communicator):
    """The Bank of all gauges over the patch, by sweeps, every five minutes."""
    model = sw.ShallowWater(GRID, cases.sea_floor(), coriolis=sw.RotatingSphere(), communicator=communicator)
    sources = priors.UnitSources((139.0, 143.0), (34.0, 37.5), 1.0, 1.0)
    return Bank.of(model, sw.ForwardBackward(DT), GAUGES, sources, LENGTH * DT, 5 * DT)


@pytest.mark.verify
@pytest.mark.skipif(cases.RANKS == 1, reason="that is the one")
def test_a_bank_on_ranks_is_that_of_one_rank():
    communicator = make_communicator("auto", (cases.NY, cases.NX), cases.LAYOUTS[0])
    whole = communicator.from_root(lambda: bank(SerialCommunicator()).responses)
    ours = bank(communicator).responses
    assert whole.shape[0] == len(GAUGES) and np.abs(whole).max() > 0
    np.testing.assert_allclose(ours, whole, rtol=0, atol=1e-12 * np.abs(whole).max())
    assert all(np.array_equal(ours, others) for others in communicator.host_gather(ours))
