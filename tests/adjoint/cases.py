"""A small model with everything that a control can be, and a problem of it; made once."""

import functools

import numpy as np

import swmodel as sw
from swmodel import adjoint

NX, NY = 7, 6
TIDE = np.array([0.1, 0.3])[:, None, None] * np.ones((2, NY, NX))
GAUGES = {"a": (2.3e4, 3.1e4), "b": (5.2e4, 4.4e4)}


def random(seed, *shape):
    return np.random.default_rng(seed).standard_normal(shape or (NY, NX))


def sea_floor():
    return np.where(np.random.default_rng(2).random((NY, NX)) < 0.15, 0.0, 1000.0 + 100.0 * random(1))


def small(engine, **terms):
    grid, uplift = sw.CartesianGrid(NX, NY, (0.0, 7e4), (0.0, 6e4)), sw.BottomMotion([0.0], random(6, 1, NY, NX))
    options = {"coriolis": sw.FPlane(1e-4), "engine": engine, "source": uplift, "communicator": "serial"}
    return sw.ShallowWater(grid, sea_floor(), **options, **terms)


@functools.cache
def everything(engine="arrays"):
    """Islands, an open side, wind and tide in time records at uneven times, an uplift, drag and viscosity."""
    return small(
        engine,
        forcing=(sw.WindStress(x=sw.Records([0.0, 52.0, 60.0, 400.0], random(3, 4, NY, NX)), y=0.1),),
        dissipation=(sw.QuadraticDrag(2.5e-3), sw.Laplacian(100.0)),
        boundaries=(sw.Sponge("east", width=2e4, rate=1e-4), sw.Flather("west", elevation=sw.Records([0, 300], TIDE))),
    )


@functools.cache
def basin(engine="arrays"):
    """Islands, wind in time records at uneven times, an uplift, drag: little to compile."""
    wind = sw.WindStress(x=sw.Records([0.0, 52.0, 60.0, 400.0], random(3, 4, NY, NX)))
    return small(engine, forcing=(wind,), dissipation=(sw.QuadraticDrag(2.5e-3),))


def moving(model):
    """A State in motion."""
    return model.state(u=0.1 * random(4), v=0.1 * random(5), eta=random(7))


NAMES = ("initial.u", "initial.eta", "depth", "forcing.0.x", "uplift", "dissipation.0.coefficient")
STEPS = 14


@functools.cache
def problem():
    """The sum of two gauges' crests in 14 steps, of every kind of control."""
    model = basin()
    return adjoint.Problem(model, sw.AB2(10.0), moving(model), STEPS, adjoint.GaugeMaximum(GAUGES), NAMES)


def along(values, seed=11):
    """A random direction in the space of controls."""
    import jax

    def one(path, x):
        return random([seed, len(path)], *np.shape(x)) if np.ndim(x) else 1e-3 * random([seed, len(path)], 1)[0]

    return jax.tree_util.tree_map_with_path(one, values)
