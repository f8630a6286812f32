"""What parts of a model compute on any number of ranks, in both engines, is what arrays compute on one; with gradients.

Potential, attraction, loading, storms, winds of files, open sides with tides and with memory, closures, tracers, rivers
and exchanges, and parts of a user's own. test_parameters.py and test_transposes.py have more gradients.
"""

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import netCDF4
import numpy as np
import pytest

import swmodel as sw
from swmodel import adjoint
from swmodel.dynamics.clock import Time
from swmodel.parallel import SerialCommunicator, make_communicator
from swmodel.parallel.sharded import ShardedCommunicator
from tests.gridded import write_axes
from tests.selection import later, now
from tests.transported import Content

from . import cases, test_own_parts, test_waters

pytestmark = cases.MORE_THAN_FOUR
CLOSURES = sw.Smagorinsky(3.0), sw.Leith(2.0), sw.BiharmonicSmagorinsky(3.0), sw.BiharmonicLeith(2.0)


class Part(NamedTuple):
    """A model, from (a file of winds, communicator=, engine=), and the run that is compared."""

    model: Callable[..., Any]
    stepper: Any
    steps: int
    start: Callable[[Any], Any] = cases.start


OUTSIDE = sw.Records([0.0, 20.0, 100.0], 1.0 + 0.1 * np.stack([cases.random(seed) for seed in (7, 8, 9)]))


@pytest.fixture(scope="module")
def winds(tmp_path_factory):
    """A file of winds every two steps, over all of the sphere of the cases."""
    path, random = tmp_path_factory.mktemp("winds") / "winds.nc", np.random.default_rng(9)
    axes = {"time": ("seconds", 120.0 * np.arange(4)), "lat": ("degrees_north", np.arange(10.0, 66.0, 5.0))}
    axes["lon"] = "degrees_east", np.arange(115.0, 186.0, 5.0)
    with netCDF4.Dataset(path, "w") as file:
        write_axes(file, axes)
        wind = file.createVariable("u10", "f4", tuple(axes))
        wind.units, wind[:] = "m s-1", 10.0 + random.standard_normal(wind.shape)
    return path


def forced(winds, **options):
    gusts = sw.FunctionOfTime(lambda x, y, t: 3.0 + np.sin(0.1 * x + 0.01 * t) * np.cos(0.2 * y), 600.0, every=120.0)
    wind = sw.Wind(x=sw.FileRecords(winds, "u10"), y=gusts)
    return cases.sea(
        cases.sphere(),
        forcing=(sw.TidalPotential(), sw.SelfAttraction(0.09), cases.cyclone(), wind),
        dissipation=(sw.InternalWaveDrag(np.abs(50.0 * cases.random(8))),),
        boundaries=(sw.Flather(("west", "south"), elevation=sw.InverseBarometer(0.1)),),
        **options,
    )


def in_wind(winds, **options):
    """The file is read by every rank for its own tile, beside a tide, which depends on the place of the tile too."""
    tide = sw.Tide({"M2": (lambda x, y: 0.5 + 0.01 * x - 0.02 * y, 40.0)})
    sides = sw.Flather(("west", "north"), incoming=tide)
    wind = sw.Wind(x=sw.FileRecords(winds, "u10"), y=3.0)
    return cases.sea(cases.sphere(), forcing=wind, coriolis=None, boundaries=sides, **options)


def tidal(winds, **options):
    sides = (
        sw.Clamped("west", cases.tide(0.5, "M2", "O1")),
        sw.Flather(("south", "east"), elevation=cases.tide(0.2, "K1"), incoming=cases.tide(0.3, "M2", ramp=100.0)),
        sw.Sponge("north", width=4e4, rate=1e-4, elevation=cases.tide(0.4, "S2")),
    )
    return cases.sea(cases.plane(), boundaries=sides, **options)


def clamped(winds, **options):
    """Cells next to the side read the flow through their faces across it, so that one more ghost cell is needed."""
    sides = sw.Clamped(("west", "south"), cases.tide(0.5, "M2"))
    return sw.ShallowWater(cases.plane(), 100.0, boundaries=sides, linear=True, coriolis=sw.FPlane(1e-3), **options)


def radiating(winds, **options):
    sides = (
        sw.ChapmanFlather(("west", "north"), incoming=cases.tide(0.5, "M2")),
        sw.RadiationNudging(("east", "south"), incoming=cases.tide(0.3, "K1"), inward=600.0),
    )
    return cases.sea(cases.plane(), boundaries=sides, **options)


def with_closures(winds, **options):
    closed = {"side": sw.NoSlip(), "dissipation": CLOSURES, "dtype": "float64"}
    return sw.ShallowWater(cases.plane("x"), cases.sea_floor(), **closed, **options)


def with_tracers(winds, periodic="", **options):
    tracers = (
        sw.Tracer("dye", diffusivity=lambda x, y: 5.0 + 0 * x, outside=OUTSIDE, source=1e-6),
        sw.Tracer("ink", scheme=sw.Centred(), diffusivity=10.0, flux=1e-3),
    )
    sides = () if periodic else (sw.Flather(), sw.Sponge("east", width=3e4, rate=1e-4))
    return cases.sea(cases.plane(periodic), tracers=tracers, boundaries=sides, **options)


def dyed(model):
    c = {"dye": 1.0 + 0.2 * cases.random(11), "ink": cases.random(12)}
    return model.state(u=0.5 * cases.random(4), v=0.5 * cases.random(5), eta=cases.random(6), **c)


PARTS = {
    "forcing": Part(forced, sw.ForwardBackward(60.0), 4),
    "winds of a file": Part(in_wind, sw.ForwardBackward(60.0), 4),
    "loading": Part(lambda winds, **options: cases.loaded(**options), sw.ForwardBackward(60.0), 6),
    "tides": Part(tidal, sw.ForwardBackward(10.0), 6),
    "a side that is cut": Part(clamped, sw.SSPRK3(10.0), 2),
    "radiation": Part(radiating, sw.ForwardBackward(10.0), 5),
    "closures": Part(with_closures, sw.AB3(10.0), 2),
    "tracers": Part(with_tracers, sw.ForwardBackward(30.0), 5, dyed),
    "tracers, periodic": Part(functools.partial(with_tracers, periodic="xy"), sw.SSPRK3(30.0), 5, dyed),
    "waters": Part(
        lambda winds, **options: test_waters.shore(**options),
        sw.ForwardBackwardHancock(0.2),
        6,
        lambda model: model.at_rest(),
    ),
    "parts of one's own": Part(
        lambda winds, **options: test_own_parts.ocean(**options), test_own_parts.OWN.Ralston(10.0), 4
    ),
}
ON_ARRAYS = "winds of a file", "a side that is cut", "tracers, periodic"
ENGINES = [(name, "fused") for name in PARTS if name not in ON_ARRAYS] + [(name, "arrays") for name in PARTS]
NOW = [
    *((name, "fused") for name in "forcing loading tides".split()),
    *((name, "arrays") for name in ON_ARRAYS if name != "a side that is cut"),
]


def layout_of(engine):
    """Of tiles that are cut along the other axis for the other engine; four would be too thin for it."""
    return cases.LAYOUTS[0 if engine == "arrays" or cases.RANKS > 2 else -1]


def final(name, winds, communicator, engine, **options):
    """(model, its State after some steps, what they ran as)."""
    part = PARTS[name]
    model = part.model(winds, communicator=communicator, engine=engine)
    simulation = sw.Simulation(model, part.start(model), part.stepper, **options)
    return model, simulation.run(steps=part.steps), simulation.engine[0]


def assert_as_on_one_rank(name, winds, communicator, engine, **options):
    whole = cases.from_root(lambda: dict(final(name, winds, SerialCommunicator(), "arrays")[1]))
    model, state, ran = final(name, winds, communicator, engine, **options)
    assert ran == engine
    for field, expected in whole.items():
        assert np.isfinite(expected).all(), field
        found = model.gather(state[field])
        if model.communicator.is_root:
            most = 1e-12 * np.abs(expected).max()
            np.testing.assert_allclose(found, expected, rtol=0, atol=most, err_msg=field)


@pytest.mark.parametrize("name, engine", now(ENGINES, *NOW))
def test_runs_equal_those_of_one_rank_on_arrays(name, engine, winds):
    shape = test_waters.BED.shape if name == "waters" else (cases.NY, cases.NX)
    assert_as_on_one_rank(name, winds, make_communicator("auto", shape, layout_of(engine)), engine)


@pytest.mark.verify
@pytest.mark.skipif(cases.RANKS > 2, reason="tiles are too thin")
def test_runs_with_an_exchange_every_second_stage_equal_those_of_one_rank(winds):
    assert_as_on_one_rank("tides", winds, cases.all_ranks(), "fused", stages_per_exchange=2)


@pytest.mark.skipif(cases.RANKS > 1, reason="devices of one process")
@pytest.mark.parametrize("name", ["tracers, periodic", later("winds of a file")])
def test_runs_on_devices_equal_those_of_one(name, winds):
    assert_as_on_one_rank(name, winds, ShardedCommunicator((2, 3)), "arrays")


@pytest.mark.verify
@pytest.mark.skipif(cases.RANKS != 2, reason="two ranks show what more would")
@pytest.mark.parametrize(
    "name, engine, controls",
    [
        ("loading", "fused", ["initial.eta"]),
        ("radiation", "arrays", ["boundary.0.incoming.amplitude.M2", "initial.outer_velocity_x"]),
    ],
)
def test_gradients_pass_dot_products_and_taylor_tests(name, engine, controls, winds):
    part = PARTS[name]
    model = part.model(winds, communicator=cases.all_ranks(), engine=engine)
    cases.assert_derivatives(model, part.stepper, 3, controls)


OF_TRACERS = [*(f"initial.{name}" for name in ("dye", "ink", "eta")), "tracer.0.diffusivity", "tracer.1.diffusivity"]
OF_TRACERS += ["tracer.0.source", "tracer.1.flux", "tracer.0.outside"]
OF_CLOSURES = ["initial.u", "initial.v", "depth", *(f"dissipation.{k}.coefficient" for k in range(len(CLOSURES)))]


def cost_of_tracers(state, equations):
    shown = equations.shown(state, Time(PARTS["tracers"].steps))
    return jnp.sum(shown.dye**2) + jnp.sum(shown.ink**3)


def gradient(name, controls, cost, winds, communicator, engine):
    """(J, {control: its gradient on the whole grid})."""
    part = PARTS[name]
    model = part.model(winds, communicator=communicator, engine=engine)
    state = dyed(model) if name == "tracers" else model.state(*(cases.random(seed) for seed in (4, 5, 6)))
    problem = adjoint.Problem(model, part.stepper, state, part.steps, adjoint.FinalState(cost), controls)
    J, found = problem.value_and_gradient()
    return J, jax.tree.map(lambda x: model.gather(x) if np.ndim(x) >= 2 else np.asarray(x), found)


@pytest.mark.verify  # test_transposes.py has the transposes of messages, test_ranks_agree.py gradients of whole runs
@pytest.mark.parametrize(
    "name, controls, cost",
    [
        ("tracers", OF_TRACERS, cost_of_tracers),
        ("closures", OF_CLOSURES, lambda state, equations: jnp.sum(state.u**2 + state.v**2)),
    ],
)
def test_gradients_in_fused_loops_equal_those_on_arrays_of_one_rank(name, controls, cost, winds):
    of = functools.partial(gradient, name, controls, cost, winds)
    expected, whole = cases.from_root(lambda: of(SerialCommunicator(), "arrays"))
    J, found = of(cases.all_ranks(), "fused")
    assert abs(J - expected) <= 1e-12 * abs(expected)
    pairs = zip(jax.tree_util.tree_leaves_with_path(whole), jax.tree.leaves(found), strict=True)
    for (key, wanted), ours in pairs if cases.all_ranks().is_root else ():
        size = np.abs(wanted).max()
        assert size > 0, key
        np.testing.assert_allclose(ours, wanted, rtol=0, atol=1e-11 * size, err_msg=str(key))


# -- messages ----------------------------------------------------------------------------------------------------------

DT = 10.0


@pytest.fixture(scope="module", params=["auto"] + ["sharded"] * (cases.RANKS == 1))
def ranks(request):
    layout = (1, 2) if request.param == "sharded" else cases.LAYOUTS[0]
    return make_communicator(request.param, (cases.NY, cases.NX), layout)


def model(communicator, tracers=True):
    tracers = (Content(decay=1e-3),) if tracers else ()
    floor, open_side = cases.sea_floor(), (sw.Flather("west"),)
    return sw.ShallowWater(cases.plane(), floor, communicator=communicator, boundaries=open_side, tracers=tracers)


def start(ocean):
    dye = {"dye": 2.0 + np.sin(np.arange(cases.NX))[None] + 0.0 * cases.random(3)} if ocean.tracers else {}
    return ocean.state(u=0.1 * cases.random(4), v=0.1 * cases.random(5), eta=cases.random(6), **dye)


def test_it_travels_in_the_messages_of_the_others(ranks):
    """A step has as many messages with it as without it, a third longer."""
    oceans = model(ranks, tracers=False), model(ranks)
    alone, carried = (cases.sent(ocean, start(ocean), sw.AB2(DT)) for ocean in oceans)
    assert carried.messages == alone.messages == cases.neighbours(ranks.layout)
    assert 3 * carried.bytes == 4 * alone.bytes
