"""Any number of ranks gives the result of one: forwards, and in its gradient."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import xarray as xr

import swmodel as sw
from swmodel import elliptic
from swmodel.fields.state import replace
from swmodel.parallel import SerialCommunicator, make_communicator
from swmodel.runtime.compilation import jit

from . import cases

pytestmark = pytest.mark.usefixtures("large_tiles")


@pytest.fixture(scope="module")
def reference():
    """State after 100 steps on one rank, by case, made when first asked for."""
    made = {}

    def of(case):
        if case not in made:
            made[case] = cases.from_root(lambda: cases.steps(*cases.alone(case), 100))
        return made[case]

    return of


# `make test` has a coast, seams and layers on two ranks, a coast and both poles on four, and implicit steps open sides.
LATER = {
    2: ("open sides of a sphere", "three layers", "both poles"),
    4: ("doubly periodic", "open sides of a sphere", "three layers", "substeps"),
}


@pytest.mark.parametrize("case, layout", cases.in_turn(cases.CASES, LATER.get(cases.RANKS, ())), ids=str)
def test_a_hundred_steps_equal_those_of_one_rank(case, layout, reference):
    model, stepper = cases.together(case, layout)
    ours, whole = cases.steps(model, stepper, 100), reference(case)
    for name, tile in ours:
        expected = whole[name]
        assert np.isfinite(expected).all()
        np.testing.assert_allclose(tile, expected[model.tile.slices], rtol=0, atol=1e-12 * np.abs(expected).max())


def write_products(folder, communicator, engine):
    """Run one period of M12 in a channel with islands, and write every product that a run sums up to `folder`."""
    model = cases.sea(cases.plane("x"), linear=True, communicator=communicator, engine=engine)
    made = sw.Simulation(model, cases.start(model), sw.ForwardBackward(30.0))
    made.harmonics(folder / "harmonics.nc", ("M12",), variables=("eta", "u", "v"))
    made.means(
        folder / "means.nc",
        ("eta", "u", "u eta", "speed", "v thickness", "vorticity", "potential_vorticity eta"),
        begin=600.0,
        every=90.0,
    )
    made.extremes(folder / "extremes.nc", threshold=0.1, begin=60.0)
    places = {f"at {x:g}": (x * model.grid.x_edges[-1], 0.55 * model.grid.y_edges[-1]) for x in (0.1, 0.5, 0.9)}
    made.gauges(folder / "gauges.nc", places, variables=("eta", "speed", "vorticity"), every=90.0)
    made.run(steps=250)


@pytest.fixture(scope="module")
def products(tmp_path_factory):
    """The folder of the products of one rank, which the root alone reads."""
    folder = tmp_path_factory.mktemp("products")
    cases.from_root(lambda: write_products(folder, SerialCommunicator(), "arrays"))
    return folder


@pytest.mark.verify  # sums of a tile alone; test_runs.py and test_drifters.py gather files
@pytest.mark.parametrize("engine", ["arrays", "fused"])
def test_means_extremes_and_harmonic_constants_are_those_of_one_rank(engine, products, tmp_path):
    ours = make_communicator("auto", (cases.NY, cases.NX), cases.LAYOUTS[-1])
    write_products(tmp_path, ours, engine)
    for name in ("harmonics", "means", "extremes", "gauges") if ours.is_root else ():
        with (
            xr.open_dataset(tmp_path / f"{name}.nc", decode_timedelta=False) as found,
            xr.open_dataset(products / f"{name}.nc", decode_timedelta=False) as one,
        ):
            assert all(np.isfinite(x).any() for x in one.data_vars.values())
            xr.testing.assert_allclose(found, one, rtol=1e-9, atol=1e-9)


def cost(state, dynamics, depth, viscosity, stepper, weights):
    """A weighted elevation after ten steps, of a drag coefficient that every rank holds and a field that none does."""
    communicator = dynamics.communicator
    terms = (sw.Laplacian(viscosity), *dynamics.terms[1:])
    dynamics = replace(dynamics, depth=depth, terms=terms)
    final, _ = sw.integrate(dynamics, stepper, state, 10)
    return communicator.sum(jnp.sum(weights * final.eta) + jnp.sum(weights * final.u * final.v))


gradient = jit(jax.grad(cost, argnums=(0, 2, 3)))


def gradients(model, stepper):
    dynamics = model.dynamics(stepper)
    gauge = np.zeros((cases.NY, cases.NX))
    gauge[2, 3] = 1.0
    weights = jnp.asarray(gauge[model.tile.slices])
    return gradient(cases.start(model), dynamics, dynamics.depth, jnp.asarray(100.0), stepper, weights)


COAST = ["walls and islands"]


# On four ranks test_adjoint.py has gradients.
@pytest.mark.parametrize("name, layout", cases.in_turn(COAST, COAST * (cases.RANKS == 4)), ids=str)
def test_the_gradient_of_a_gauge_on_one_rank_equals_that_of_one_rank(name, layout):
    model, stepper = cases.together(name, layout)
    ours = gradients(model, stepper)
    whole = cases.from_root(lambda: gradients(*cases.alone(name)))
    for tile, expected in zip(jax.tree.leaves(ours), jax.tree.leaves(whole)):
        expected = np.asarray(expected)
        mine = expected[model.tile.slices] if expected.ndim else expected
        assert np.isfinite(expected).all() and np.abs(expected).max() > 0
        np.testing.assert_allclose(np.asarray(tile), mine, rtol=0, atol=1e-11 * np.abs(expected).max())


LAND = elliptic.ConjugateGradients(elliptic.Diagonal(), 1e-13)


def channel(**options):
    return cases.sea(cases.plane("x"), **options)


def open_layers(**options):
    return channel(boundaries=sw.Flather("north"), layers=cases.LAYERS, **options)


IMPLICIT = {
    "free surface, islands and open sides": (
        lambda **o: cases.sea(cases.plane(), boundaries=sw.Flather(("east", "north")), **o),
        sw.SemiImplicit(500.0, solver=LAND),
    ),
    "free surface, islands and lakes between walls": (channel, sw.SemiImplicit(500.0, solver=LAND)),
    "rigid lid, lakes and islands": (channel, sw.RigidLid(500.0, solver=LAND)),
    "layers under a free surface with an open side": (open_layers, sw.SemiImplicit(200.0, solver=LAND)),
    "layers under a rigid lid": (lambda **o: channel(layers=cases.LAYERS, **o), sw.RigidLid(200.0, solver=LAND)),
    "flat and doubly periodic": (
        lambda **o: sw.ShallowWater(cases.plane("xy"), 1000.0, coriolis=sw.FPlane(1e-4), **o),
        sw.SemiImplicit(500.0),
    ),
    "layers under a surface of substeps with an open side": (open_layers, sw.SplitExplicit(200.0, substeps=8)),
}


def implicit_run(model, stepper, derivatives):
    """The State after 3 steps, a weighted elevation then, and its gradient in (State, depth, gravity)."""
    dynamics = model.dynamics(stepper)
    given = cases.start(model), dynamics, dynamics.depth, dynamics.gravity, stepper, model.scatter(cases.random(9))
    of = jax.value_and_grad(implicit_cost, argnums=(0, 2, 3), has_aux=True) if derivatives else implicit_cost
    return jit(of)(*given)


def implicit_cost(state, dynamics, depth, gravity, stepper, weights):
    communicator = dynamics.communicator
    dynamics = replace(dynamics, depth=depth, gravity=gravity)
    end, _ = sw.integrate(dynamics, stepper, state, 3)
    return communicator.sum(jnp.sum(weights * (end.eta + end.u * end.v))), end


# They take long to compile on a part of a core. Two ranks have steps of a free surface, four a lid and its gradient.
NOW = {2: (), 4: (2,), 6: (2, 5, 6)}.get(cases.RANKS, (0, 2, 4, 6))


@pytest.mark.parametrize(
    "case, derivatives",
    [(next(iter(IMPLICIT)), False)] * (cases.RANKS == 2)
    + [
        pytest.param(case, True, marks=[] if k in NOW else pytest.mark.verify)
        for k, case in enumerate(IMPLICIT)
        if k or cases.RANKS <= 2
    ],
)
def test_implicit_steps_and_their_gradient_equal_those_of_one_rank(case, derivatives):
    make, stepper = IMPLICIT[case]
    model = make(communicator=make_communicator("auto", (cases.NY, cases.NX), cases.LAYOUTS[-1]))
    assert model.communicator.size == cases.RANKS
    ours = implicit_run(model, stepper, derivatives)
    whole = cases.from_root(lambda: implicit_run(make(communicator=SerialCommunicator()), stepper, derivatives))
    for tile, expected in zip(jax.tree.leaves(ours), jax.tree.leaves(whole)):
        expected = np.asarray(expected)
        mine = expected[model.tile.slices] if expected.ndim else expected
        assert np.isfinite(expected).all() and np.abs(expected).max() > 0
        np.testing.assert_allclose(np.asarray(tile), mine, rtol=0, atol=1e-10 * np.abs(expected).max())
