"""The gradient in every parameter of a model and a stepper is that of one rank: numbers, columns and tiles alike.

The leaves of Dynamics and steppers are looked up, so that a new one is tested without being named here.
"""

import functools
import inspect

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import swmodel as sw
from swmodel.adjoint.core.leaves import Floats
from swmodel.dynamics import boundaries, dissipation, forcing, sponge
from swmodel.dynamics.terms import TiledPart
from swmodel.parallel import SerialCommunicator, make_communicator
from swmodel.runtime.compilation import jit
from tests.derivatives import linearised

from . import cases

STEPS = 3


def every_term():
    """One of every term that there is; each parameter is a number where it may be one."""
    known = {
        "WindStress": sw.WindStress(x=0.1, y=sw.Records([0.0, 20.0, 40.0], np.array([0.1, -0.2, 0.3]))),
        "LinearDrag": sw.LinearDrag(1e-5),
        "QuadraticDrag": sw.QuadraticDrag(2.5e-3),
        "ManningDrag": sw.ManningDrag(0.025),
        "Laplacian": sw.Laplacian(100.0),
        "Biharmonic": sw.Biharmonic(1e9),
        "Sponge": sw.Sponge("west", 3e4, 1e-4, elevation=0.1),
        "Flather": sw.Flather("east", elevation=0.2, velocity=0.1),
        "Clamped": sw.Clamped("north", elevation=0.2),
    }
    there = {
        name: kind
        for module in (boundaries, dissipation, forcing, sponge)
        for name, kind in vars(module).items()
        if inspect.isclass(kind) and issubclass(kind, TiledPart) and kind.kind and not inspect.isabstract(kind)
        if not getattr(kind, "between_layers", False)  # verification/ and parallel/test_stratified.py have these
    }
    assert set(there) == set(known), "a term that this test does not have: add it to `known`"
    return tuple(known.values())


def on_plane(**options):
    terms, moving = every_term(), np.stack([0.0 * cases.random(3), cases.random(3)])
    model = cases.sea(
        cases.plane(),
        coriolis=sw.BetaPlane(1e-4, 2e-10),
        dissipation=terms[1:-3],
        forcing=terms[:1],
        boundaries=terms[-3:],
        source=sw.BottomMotion([0.0, 30.0], moving),
        **options,
    )
    return model, sw.AB2(10.0)


def small(**options):
    """What compiles in a moment: numbers, and columns of the Coriolis parameter."""
    terms = {"dissipation": sw.LinearDrag(1e-5), "forcing": sw.WindStress(x=0.1)}
    model = cases.sea(cases.plane(), coriolis=sw.BetaPlane(1e-4, 2e-10), linear=True, **terms, **options)
    return model, sw.AB2(10.0)


def on_sphere(**options):
    terms = {"dissipation": sw.Laplacian(100.0), "boundaries": sw.Flather("east")}
    return cases.sea(cases.sphere(), **terms, **options), sw.SemiImplicit(500.0)


def spectral(engine, **options):
    core = sw.PseudoSpectral(sw.HyperViscosity(1e-4, 2), sw.ExponentialFilter(3.0, 4))
    model = sw.ShallowWater(
        cases.plane("xy"),
        1000.0,
        coriolis=sw.FPlane(1e-4),
        dissipation=(sw.LinearDrag(1e-5),),
        core=core,
        engine="auto",
        **options,
    )
    return model, sw.IntegratingFactorRK4(20.0)


def tides(**options):
    """Tides at open sides, the potential, attraction, a storm with its inverse barometer, and internal waves."""
    tide = cases.tide(0.3, "M2", "K1")
    model = cases.sea(
        cases.sphere(),
        forcing=(sw.TidalPotential(), sw.SelfAttraction(0.09), cases.cyclone()),
        dissipation=(sw.InternalWaveDrag(np.abs(50.0 * cases.random(8))), sw.QuadraticDrag(2.5e-3)),
        boundaries=(
            sw.Flather("west", incoming=tide),
            sw.Clamped("east", tide),
            sw.Flather("south", elevation=sw.InverseBarometer(0.1)),
        ),
        **options,
    )
    return model, sw.ForwardBackward(60.0)


def shore(**options):
    """Water that moves over a shore, with waves made at a side."""
    record = sw.Record([0.0, 1.0, 2.0], [0.0, 0.5, 0.2])
    model = sw.ShallowWater(
        sw.CartesianGrid(cases.NX, cases.NY, (0.0, float(cases.NX)), (0.0, float(cases.NY))),
        1.0 - 0.06 * np.arange(cases.NX) + 0.05 * cases.random(4),
        momentum=sw.MomentumConserving(),
        wetting=sw.WettingDrying(1e-3),
        dissipation=(sw.ManningDrag(0.03),),
        boundaries=(sw.WaveMaker("west", elevation=record, total=True),),
        **options,
    )
    return model, sw.SSPRK3(0.05)


MODELS = {"plane": on_plane, "small": small, "sphere": on_sphere, "spectral": spectral, "tides": tides, "shore": shore}


def derivatives(dynamics, stepper, state, weights):
    """(the gradient of a weighted elevation in all real leaves, its slope along relative changes of all, <g, d>)."""
    tree = Floats((dynamics, stepper))
    leaves = jax.tree.leaves((dynamics, stepper))
    communicator = dynamics.communicator

    def cost(floats):
        final, _ = sw.integrate(*tree.tree(tree.merged(leaves, floats)), state, STEPS)
        return communicator.sum(jnp.sum(weights * (final.eta + final.u * final.v)))

    floats = tree.floats(leaves)
    numbers = [x if x.ndim == 0 else jnp.zeros_like(x) for x in floats]
    _, gradient, slope = linearised(cost, floats, numbers)
    return gradient, slope, sum(jnp.sum(g * d) for g, d in zip(gradient, numbers))


@jit
def program(dynamics, stepper, state, weights):
    return dynamics.communicator.spmd(derivatives)(dynamics, stepper, state, weights)


def found(make, communicator, engine):
    """({rank: {name of a parameter: its gradient}}, the slope, <g, d>, the model)."""
    model, stepper = make(communicator=communicator, engine=engine)
    dynamics = model.dynamics(stepper, steps=STEPS)
    stepper = communicator.place(lambda rank: jax.tree.map(lambda x: np.asarray(x, model.dtype), stepper))
    paths = jax.tree_util.tree_flatten_with_path((dynamics, stepper))[0]
    names = [jax.tree_util.keystr(path) for path, x in paths if jnp.issubdtype(jnp.result_type(x), jnp.floating)]
    weights = np.random.default_rng(7).standard_normal((cases.NY, cases.NX))
    gradient, *slopes = program(dynamics, stepper, cases.start(model), model.scatter(weights))
    mine = {
        rank: {name: np.asarray(x) for name, x in zip(names, tiles, strict=True) if ".sides." not in name}
        for rank, tiles in communicator.tiles(gradient).items()
    }  # which sides a tile has is no parameter
    everyone = {rank: tiles for part in communicator.host_gather(mine) for rank, tiles in part.items()}
    return everyone, *(float(x) for x in slopes), model


def assemble(model, everyone, name, halo):
    """The gradient of the whole grid in a parameter: numbers as each rank has them, columns and tiles as one."""
    first = everyone[0][name]
    if first.ndim < 2:
        return [tiles[name] for tiles in everyone.values()]
    parts = model.decomposition
    if first.shape[-1] == 1:  # a column of the tile's rows and ghosts, the same on all ranks along x
        whole = np.zeros((cases.NY + 2 * halo, 1))
        for rank, tiles in everyone.items():
            box, (_, ix) = parts.box(rank), parts.coordinates(rank)
            np.testing.assert_allclose(tiles[name], everyone[rank - ix][name], rtol=1e-12)
            if ix == 0:
                whole[box.j0 : box.j1 + 2 * halo] += tiles[name]
        return [whole]
    return [parts.assemble({rank: tiles[name] for rank, tiles in everyone.items()})]


@functools.cache
def alone(name, engine):
    """The same on one rank, on arrays where there are two engines."""

    def of_one():
        everyone, slope, _, _ = found(MODELS[name], SerialCommunicator(), engine)
        return everyone[0], slope

    return cases.from_root(of_one)


KIND, LAYOUTS = ("sharded", [(2, 3), (2, 2)]) if cases.RANKS == 1 else ("auto", cases.LAYOUTS)
# Programs take long to compile: `make test` has a small model on two ranks, and on six, which has two neighbours along
# an axis; test_transposes.py has fields of all terms. Tiles of six are thinner than the halo over a shore.
NOW = {ranks: [("small", "arrays", LAYOUTS[0])] for ranks in (2, 6)}
PLANE = "plane", "fused", LAYOUTS[0]
LATER = {
    1: [PLANE] + [(name, "arrays", LAYOUTS[-1]) for name in ("plane", "sphere", "shore")],
    2: [PLANE] + [(name, "arrays", LAYOUTS[-1]) for name in ("plane", "sphere", "shore")],
    4: [("small", "arrays", LAYOUTS[0]), ("shore", "arrays", LAYOUTS[-1])],
}.get(cases.RANKS, [])
LATER += [("tides", "arrays", LAYOUTS[0]), *([("spectral", "auto", LAYOUTS[0])] if cases.RANKS < 4 else [])]
COMBINATIONS = [*NOW.get(cases.RANKS, []), *(pytest.param(*each, marks=pytest.mark.verify) for each in LATER)]


@pytest.mark.parametrize("name, engine, layout", COMBINATIONS, ids=str)
def test_the_gradient_in_every_parameter_is_that_of_one_rank(name, engine, layout):
    communicator = make_communicator(KIND, (cases.NY, cases.NX), layout)
    everyone, slope, product, model = found(MODELS[name], communicator, engine)
    wanted, wanted_slope = alone(name, "arrays" if engine == "fused" else engine)
    assert set(everyone[0]) == set(wanted)
    halo = model.halo(MODELS[name](communicator=communicator, engine=engine)[1])
    for leaf, expected in wanted.items():
        for whole in assemble(model, everyone, leaf, halo):
            scale = max(np.abs(expected).max(), 1e-300)
            np.testing.assert_allclose(whole, expected, rtol=0, atol=1e-9 * scale, err_msg=leaf)
    assert abs(slope - wanted_slope) <= 1e-10 * abs(wanted_slope) and abs(slope - product) <= 1e-10 * abs(slope)


@pytest.mark.skipif(cases.RANKS > 2, reason="the comparisons on two ranks show it")
@pytest.mark.parametrize("name", ["small", pytest.param("plane", marks=pytest.mark.verify)])
def test_most_parameters_matter(name):
    """Or the comparisons above would be of zeros. The linear model reads no widths of cells at centres and corners."""
    still = {leaf for leaf, x in alone(name, "arrays")[0].items() if x.ndim < 2 and not np.abs(x).max() > 0}
    assert still == ({f"[0].tile.metrics['d{x}_{at}']" for x in "xy" for at in "hq"} if name == "small" else set())


def test_a_system_is_prepared_once():
    model, stepper = small(communicator=make_communicator("auto", (cases.NY, cases.NX)), engine="arrays")
    dynamics = model.dynamics(stepper, steps=STEPS)
    with pytest.raises(ValueError, match="prepared already; a second time its gradients would be too large"):
        jax.eval_shape(lambda d: d.prepare().prepare(), dynamics)
