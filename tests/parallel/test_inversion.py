"""Inversions on many ranks: one path of the minimisation, and the same transforms and analyses as on one."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import swmodel as sw
from swmodel import sources
from swmodel.adjoint import Misfit, Problem
from swmodel.adjoint.assimilation.assimilation import FourDVar, Rules, incremental
from swmodel.adjoint.assimilation.departures import departures_of
from swmodel.adjoint.assimilation.diffusion import Smooth
from swmodel.adjoint.assimilation.minimise import Space, Stop, minimise
from swmodel.adjoint.assimilation.posterior import entered, noise_like
from swmodel.adjoint.assimilation.restarts import Identity, read_inversion_restart, write_inversion_restart
from swmodel.adjoint.assimilation.tidal_priors import ByClass, SideTide
from swmodel.adjoint.controls.seafloor import FaultSource, UnitSources
from swmodel.adjoint.controls.transforms import Around, Balanced, Correlated, joined
from swmodel.adjoint.costs.records import Record
from swmodel.errors import SwmodelError
from swmodel.output import restart
from swmodel.parallel import SerialCommunicator, make_communicator
from swmodel.runtime.compilation import jit

from .cases import LAYOUTS, NX, NY, RANKS, from_root, random, sea_floor

ON_MANY = pytest.mark.skipif(RANKS == 1, reason="one rank is what many are compared with")

GRID = sw.SphericalGrid(NX, NY, (138.0, 144.5), (33.0, 38.5))
DT, STEPS = 60.0, 8


def ocean(communicator):
    return sw.ShallowWater(GRID, sea_floor(), coriolis=sw.RotatingSphere(), engine="arrays", communicator=communicator)


def both():
    """(the model on this rank alone, that on all ranks)."""
    return ocean(SerialCommunicator()), ocean(make_communicator("auto", (NY, NX), LAYOUTS[0]))


def everywhere(model, array):
    """The whole array on every rank."""
    return model.communicator.host_broadcast(model.gather(array))


# -- minimisation ------------------------------------------------------------------------------------------------------

TRUE = random(1), np.random.default_rng(2).standard_normal(3)
STIFF = 10.0 ** np.random.default_rng(3).uniform(0, 2, (NY, NX))


def descent(model):
    """Of 1/2 sum a (x + r_0 - t)^2 + 1/2 |r - s|^2 over a field x and numbers r."""
    target, stiffness = model.scatter(TRUE[0]), model.scatter(STIFF)
    space = Space(model.communicator)

    def cost(values):
        field, numbers = values["field"], np.asarray(values["numbers"])
        away = field + jnp.asarray(numbers[0]) - target
        pull = stiffness * away
        total = space.dot({"x": pull}, {"x": jnp.ones_like(away)})
        gradient = numbers - TRUE[1]
        gradient[0] += total
        value = 0.5 * space.dot({"x": pull}, {"x": away}) + 0.5 * float(np.sum((numbers - TRUE[1]) ** 2))
        return value, {"field": pull, "numbers": gradient}

    start = {"field": model.scatter(np.zeros((NY, NX))), "numbers": np.zeros(3)}
    return minimise(cost, start, space, Stop(iterations=25, gradient=1e-12))


def test_the_path_of_a_minimisation_is_that_of_one_rank():
    alone, model = both()
    right = descent(alone)
    found = descent(model)
    assert len(found.history) == len(right.history)
    for ours, theirs in zip(found.history[:12], right.history[:12]):  # later ones see what rounding became
        assert ours.value == pytest.approx(theirs.value, rel=1e-7)
        assert ours.evaluations == theirs.evaluations
    assert np.allclose(everywhere(model, found.values["field"]), np.asarray(right.values["field"]), atol=1e-6)
    everyone = model.communicator.host_gather([i.value for i in found.history])
    assert all(values == everyone[0] for values in everyone)


# -- the restart of an inversion ---------------------------------------------------------------------------------------


def identity():
    times = np.arange(4.0)
    return Identity({"gravity": 9.81}, {"here": Record((141.0, 36.0), times, times**2, 0.1)})


def test_a_restart_is_gathered_in_blocks_and_read_by_tiles_with_every_bit(tmp_path, monkeypatch):
    model, path = both()[1], tmp_path / "inversion.restart.nc"
    vector = {"field": model.scatter(random(6)), "numbers": np.array([0.3, -0.4]), "number": np.array(0.7)}
    other = {name: -value for name, value in vector.items()}
    refused = lambda *_: pytest.fail("the whole grid was gathered")  # noqa: E731
    monkeypatch.setattr(model.communicator, "gather_to_root", refused)
    rows, read, original = np.arange(6.0).reshape(3, 2), [], restart.StoredArray.__getitem__
    write_inversion_restart(path, model, {"values": vector, "s0": other}, {"iterations": rows}, identity())
    model.communicator.barrier()

    def counting(self, where):
        values = original(self, where)
        read.append(values.size)
        return values

    monkeypatch.setattr(restart.StoredArray, "__getitem__", counting)
    vectors, arrays, found = read_inversion_restart(path, model, vector, identity())
    assert not found and list(arrays) == ["iterations"] and np.array_equal(arrays["iterations"], rows)
    for name, expected in (("values", vector), ("s0", other)):
        assert vectors[name].keys() == expected.keys()
        for part, value in expected.items():
            assert vectors[name][part].dtype == value.dtype and vectors[name][part].shape == value.shape
            assert np.asarray(vectors[name][part]).tobytes() == np.asarray(value).tobytes()
    assert max(read) == np.prod(model.tile.shape)
    model.communicator.barrier()


def test_an_error_of_the_restart_is_raised_on_every_rank(tmp_path):
    model = both()[1]
    if model.communicator.is_root:
        (tmp_path / "file").write_text("")
    model.communicator.barrier()
    with pytest.raises(SwmodelError, match="could not be written"):
        write_inversion_restart(
            tmp_path / "file" / "r.nc", model, {"v": {"x": model.scatter(random(6))}}, {}, identity()
        )
    model.communicator.barrier()


# -- transforms --------------------------------------------------------------------------------------------------------


def test_smooth_fields_are_those_of_one_rank_and_the_transpose_is_exact():
    alone, model = both()
    x, y = random(4), random(5)
    right = np.asarray(jit(lambda U, x: U(x))(Smooth.of(alone, "u", 1.2e5, 2.0), jnp.asarray(x)))
    U = Smooth.of(model, "u", 1.2e5, 2.0)

    def forth_and_back(U, x, y):
        return U(x), jax.linear_transpose(U, x)(y)[0]

    x_tile, y_tile = model.scatter(x), model.scatter(y)
    Ux, Uy = jit(model.communicator.spmd(forth_and_back))(U, x_tile, y_tile)
    assert np.allclose(everywhere(model, Ux), right, rtol=0, atol=1e-12)
    space = Space(model.communicator)
    assert space.dot({"x": Ux}, {"x": y_tile}) == pytest.approx(space.dot({"x": x_tile}, {"x": Uy}), rel=1e-12)


def transforms(model):
    """Unit sources, faults (to whose derivative it takes long to compile) and balanced states, with parameters."""
    patch = UnitSources.on(model, (139.0, 143.0), (34.0, 38.0), 1.0, 1.5, 1e5, 0.3)
    source = sources.Source([sources.Fault(141.0, 36.0, 2e4, 2e5, 8e4, 200.0, 12.0, 90.0, 10.0)])
    surface = sources.SeaSurface.of(GRID, model.depth, refinement=1, horizontal=False, kajiura=False)
    fault = FaultSource.of(model, surface, source, {"slip": 0.5, "strike": 10.0})
    balanced = Balanced.of(model, model.at_rest(), Smooth.of(model, "h", 1e5))
    return {
        "patch": ({"p": np.linspace(-1, 1, len(patch.cells))}, joined({"p": ("initial.eta", patch)}, model)),
        "fault": ({"p": np.array([0.3, -0.4])}, joined({"p": ("initial.eta", fault)}, model), False),
        "balanced": ({"p": model.scatter(random(6))}, joined({"p": (None, balanced)}, model)),
        **tidal_transforms(model),
    }


def tidal_transforms(model):
    """A tide along three sides, around islands, and a field that changes by classes of depth."""
    size, lag = model.scatter(1.0 + 0.1 * random(7)), model.scatter(40.0 * random(8))
    names, sides = (("boundary.0.elevation.amplitude.M2", "boundary.0.elevation.phase.M2"),), ("south", "west", "north")
    side = SideTide.on(model, sides, {"M2": (size, lag)}, names, 0.2, 2e5)
    classes = (model.scatter(sea_floor()) > np.median(sea_floor())).astype(np.int32)
    by_class = ByClass(model.scatter(2.0 + random(9)), classes, np.asarray(0.3), 2)
    p = np.sin(np.arange(side.zero(model).size))
    moments = np.array([0.0, 100.0, 250.0, 400.0])
    level = model.communicator.place(lambda rank: np.sin(moments / 90.0))
    series = Around(level, Correlated.in_time(model, moments, 150.0, 0.4))
    return {
        "series": ({"p": np.cos(np.arange(4.0))}, joined({"p": ("boundary.0.elevation.values", series)}, model)),
        "side": ({"p": p}, joined({"p": (None, side)}, model)),
        "class": ({"p": np.array([0.4, -0.7])}, joined({"p": ("depth", by_class)}, model)),
    }


def fields_and_gradient(model, parameters, transformed, differentiated=True):
    """({control: x}, X* x), X the tangent of x: the gradient of x . x / 2 over all controls."""
    communicator = model.communicator

    def run(function, p):
        def cost(p):
            inside = {k: x if jnp.ndim(x) >= 2 else communicator.replicated(x) for k, x in p.items()}
            values = function(inside).values()  # every rank holds the whole of a vector
            return communicator.sum(
                sum(0.5 * jnp.sum(x * x) / (1 if jnp.ndim(x) >= 2 else communicator.size) for x in values)
            )

        return function(p), jax.grad(cost)(p) if differentiated else p

    fields, gradient = jit(communicator.spmd(run))(transformed.function, entered(parameters, communicator))
    fields = {name: everywhere(model, x) if np.ndim(x) >= 2 else own(communicator, x) for name, x in fields.items()}
    (bar,) = gradient.values()
    return fields, everywhere(model, bar) if np.ndim(bar) >= 2 else own(communicator, bar)


def own(communicator, vector):
    """This rank's copy of a vector that all ranks hold."""
    return np.asarray(next(iter(communicator.tiles(vector).values())))


@ON_MANY
def test_sources_and_states_and_their_gradients_are_those_of_one_rank():
    alone, model = both()
    right = from_root(lambda: {name: fields_and_gradient(alone, *given) for name, given in transforms(alone).items()})
    for name, given in transforms(model).items():
        fields, gradient = fields_and_gradient(model, *given)
        for control, field in right[name][0].items():
            assert np.allclose(fields[control], field, rtol=0, atol=1e-11), (name, control)
        assert np.allclose(gradient, right[name][1], rtol=1e-10, atol=1e-12), name


# -- an analysis -------------------------------------------------------------------------------------------------------


def analysis(model):
    """Of the initial elevation, a field, and of the gravity of three gauges' world."""
    time = np.arange(2, STEPS + 1) * DT
    places = {"a": (139.3, 34.2), "b": (142.1, 36.7), "c": (143.9, 37.9)}
    noise = np.random.default_rng(7)
    records = {name: Record(place, time, noise.standard_normal(time.size), 0.5) for name, place in places.items()}
    field = Around(model.at_rest().eta, Smooth.of(model, "h", 1e5, 0.5))
    gravity = Around(np.asarray(9.81), np.asarray(0.1))
    controls = joined({"eta": ("initial.eta", field), "g": ("gravity", gravity)}, model)
    problem = Problem(model, sw.AB2(DT), model.state(eta=0.1 * random(8)), STEPS, Misfit(records), [controls])
    variational = FourDVar(problem)
    found = incremental(variational, departures_of(problem.cost, model.communicator), Rules(1, 3))
    history = np.array([loop.value for loop in found.history])
    return history, everywhere(model, found.parameters["eta"]), found.parameters["g"]


@pytest.mark.verify
@pytest.mark.skipif(RANKS != 2, reason="gradients are compared on more ranks elsewhere; this takes long to compile")
def test_an_analysis_is_that_of_one_rank():
    alone, model = both()
    history, field, gravity = from_root(lambda: analysis(alone))
    found = analysis(model)
    assert found[0] == pytest.approx(history, rel=1e-8)
    assert np.allclose(found[1], field, rtol=0, atol=1e-7)
    assert float(found[2]) == pytest.approx(float(gravity), abs=1e-7)


def test_noise_does_not_depend_on_the_ranks():
    alone, model = both()
    values = lambda model: {"field": model.scatter(np.zeros((NY, NX))), "numbers": np.zeros(3)}  # noqa: E731
    right = noise_like(values(alone), alone, 5)
    found = noise_like(values(model), model, 5)
    assert np.array_equal(everywhere(model, found["field"]), np.asarray(right["field"]))
    assert np.array_equal(found["numbers"], right["numbers"])
