"""Models that the parallel tests run on one rank and on all: small, uneven, with islands."""

import jax
import numpy as np
import pytest

import swmodel as sw
from swmodel.adjoint import Problem
from swmodel.adjoint.costs.readers import everywhere
from swmodel.adjoint.costs.tile_costs import Weighted
from swmodel.adjoint.examination import PROBES, Probe
from swmodel.adjoint.verification import verify
from swmodel.fields.variables import layer_of
from swmodel.parallel import SerialCommunicator, make_communicator
from swmodel.parallel.traffic import traffic
from swmodel.runtime.compilation import jit
from swmodel.runtime.launchers import launched_ranks
from swmodel.simulation.program import Health, advance, start_carry
from swmodel.stepping.loop import pack_state

NX, NY = 13, 11
RANKS = launched_ranks()
LAYOUTS = {1: [(1, 1)], 2: [(1, 2), (2, 1)], 4: [(2, 2), (4, 1)], 6: [(2, 3), (3, 2)]}[RANKS]
# For a fixture: a mesh of both axes is enough, and of one axis `make test` has the first.
MESHES = LAYOUTS[:1] if RANKS > 2 else [LAYOUTS[0], *(pytest.param(x, marks=pytest.mark.verify) for x in LAYOUTS[1:])]
EACH = LAYOUTS if RANKS < 6 else LAYOUTS[:1]  # for what takes long to compile on a third of a core
# What 2 and 4 ranks show already, for 6, each of which compiles on a third of a core: `pytestmark` of a module.
MORE_THAN_FOUR = [pytest.mark.verify] if RANKS > 4 else []
run = jit(sw.integrate, static_argnums=3)


def in_turn(names, later=()):
    """`parametrize` values (name, layout) of all layouts, of which `make test` gives each name one, in turn.

    None to those that are for later.
    """
    return [
        pytest.param(name, layout, marks=pytest.mark.verify if k != number % len(EACH) or name in later else [])
        for number, name in enumerate(names)
        for k, layout in enumerate(EACH)
    ]


def neighbours(layout):
    """How many a tile in the middle has; of two tiles along an axis each has the other one alone."""
    return sum(min(n, 3) - 1 for n in layout)


def random(seed):
    return np.random.default_rng(seed).standard_normal((NY, NX))


def sea_floor(islands=True):
    """(NY, NX) depths of 500 to 1500 m, a tenth of them land."""
    depth = 1000.0 + 500.0 * np.tanh(random(1))
    return np.where(np.random.default_rng(2).random((NY, NX)) < 0.1, 0.0, depth) if islands else depth


def plane(periodic=""):
    return sw.CartesianGrid(NX, NY, (0.0, 1.3e5), (0.0, 1.1e5), periodic)


def sphere():
    return sw.SphericalGrid(NX, NY, (120.0, 180.0), (15.0, 60.0))


def cyclone():
    """A storm over `sphere`."""
    pressure = {"central_pressure": (94000.0, 96000.0), "radius": 6e5, "b": (1.2, 1.6)}
    return sw.Cyclone((0.0, 600.0), x=(148.0, 152.0), y=(35.0, 37.0), **pressure)


def tide(size, *names, ramp=0.0):
    """A Tide whose amplitudes and phase lags vary along the sides of `plane`."""
    pairs = {name: (size * (1.0 + 0.1 * random(k)), 40.0 * random(k + 9)) for k, name in enumerate(names)}
    return sw.Tide(pairs, ramp=ramp)


def globe():
    return sw.SphericalGrid(NX, NY, (-180.0, 180.0), (-90.0, 90.0))


def sea(grid, **options):
    """A ShallowWater over `sea_floor`, on an f-plane or the rotating sphere."""
    earth = sw.RotatingSphere() if grid.spherical else sw.FPlane(1e-4)
    return sw.ShallowWater(grid, sea_floor(), **{"coriolis": earth, **options})


def loaded(**options):
    """A sea whose water and air load the sea floor."""
    grid = sw.SphericalGrid(NX, NY, (-180.0, 180.0), (-70.0, 84.0))
    air = sw.AirPressure(lambda x, y: 1e5 - 2000.0 * np.exp(-(((x - 20.0) / 60.0) ** 2) - (y / 40.0) ** 2))
    return sea(grid, forcing=(sw.SelfAttractionLoading(degree=5, every=120.0), air), **options)


LAYERS = sw.Layers(thickness=(100.0, 150.0), densities=(1000.0, 1005.0, 1010.0))
CASES = {
    "walls and islands": lambda **o: (
        sea(
            plane(),
            side=sw.NoSlip(),
            dissipation=(sw.Laplacian(100.0), sw.QuadraticDrag(2.5e-3)),
            forcing=(sw.WindStress(x=lambda x, y: 0.1 * np.cos(y / 2e4)),),
            **o,
        ),
        sw.AB2(10.0),
    ),
    "doubly periodic": lambda **o: (
        sea(plane("xy"), momentum=sw.ArakawaLamb(), dissipation=(sw.Biharmonic(1e9),), **o),
        sw.AB3(10.0),
    ),
    "open sides of a sphere": lambda **o: (
        sea(
            sphere(),
            momentum=sw.EnstrophyConserving(),
            boundaries=(sw.Flather(), sw.Sponge(width=8e5, rate=1e-4)),
            dissipation=(sw.ManningDrag(0.025),),
            source=sw.BottomMotion([0.0, 300.0], np.stack([0.0 * random(3), random(3)])),
            **o,
        ),
        sw.ForwardBackward(60.0),
    ),
    "three layers": lambda **o: (
        sea(
            plane("x"),
            coriolis=sw.BetaPlane(1e-4, 2e-11),
            layers=LAYERS,
            forcing=(sw.WindStress(x=0.1),),
            dissipation=(sw.Laplacian(100.0), sw.InterfacialFriction(1e-3), sw.QuadraticDrag(2.5e-3)),
            tracers=sw.Tracer("dye", initial=1.0, diffusivity=10.0),
            **{"boundaries": (sw.Flather("south"), sw.Sponge("south", width=3e4, rate=1e-4)), **o},
        ),
        sw.ForwardBackward(10.0),
    ),
    "substeps": lambda **o: (
        sea(plane("x"), layers=LAYERS, boundaries=sw.Flather("south"), **o),
        sw.SplitExplicit(100.0, substeps=8),
    ),
    "both poles": lambda **o: (sea(globe(), **o), sw.SSPRK3(200.0)),
}


def start(model):
    """A State in motion."""
    lower = [row.name for row in model.variables if layer_of(row.name)[1]]
    return model.state(
        u=0.1 * random(4), v=0.1 * random(5), eta=random(6), **{x: 0.1 * random(7 + k) for k, x in enumerate(lower)}
    )


def alone(case):
    """(model, stepper) of a case on this rank alone, whatever was started."""
    return CASES[case](communicator=SerialCommunicator())


def together(case, layout, **options):
    """(model, stepper) of a case on all ranks."""
    model, stepper = CASES[case](communicator=make_communicator("auto", (NY, NX), layout), **options)
    assert model.communicator.size == RANKS
    return model, stepper


def steps(model, stepper, number):
    """The State after `number` steps from `start`."""
    dynamics = model.dynamics(stepper, steps=number)
    return run(dynamics, stepper, start(model), number)[0]


def sent(model, state, stepper):
    """The Count of the messages of one step."""
    run, dt = sw.Simulation(model, state, stepper), float(stepper.dt)
    dynamics, monitors = model.interval(run.halo, 0, dt), (Health.of(model, dt), {})
    carry = start_carry(run, pack_state(dynamics, run.stepper, (run.state, run.history)))
    four, five = (traffic(advance, dynamics, run.stepper, carry, monitors, np.int32(0), np.int32(n)) for n in (4, 5))
    return (five - four).total


def all_ranks():
    """The communicator of all ranks."""
    return make_communicator("auto", (NY, NX), LAYOUTS[0])


def assert_derivatives(model, stepper, steps, controls):
    """Gradients of a model's runs pass dot products and Taylor tests.

    The cost weights the readings of the dot products, so that both tests have the same programs, which take long to
    compile.
    """
    weights = everywhere(model, np.random.default_rng(5).standard_normal((steps, PROBES)))
    assert_verified(Problem(model, stepper, start(model), steps, Weighted(Probe.of(model), weights, 1), controls))


def assert_verified(problem):
    """The gradient of an adjoint.Problem passes its dot products and Taylor tests."""
    wrong = [str(verdict) for verdict in verify(problem, second=False) if not verdict.passed]
    assert not wrong, "\n".join(wrong)


def from_root(make):
    """`make()`, a pytree of arrays, on every rank as numpy arrays:
    what one rank can compute is compiled on one only."""
    ranks = make_communicator("auto", (NY, NX))
    return ranks.from_root(lambda: jax.tree.map(np.asarray, make()))
