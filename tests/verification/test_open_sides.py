"""Waves leave through open sides, and what lies outside comes in."""

import jax.numpy as jnp
import numpy as np
import pytest

import swmodel as sw
from swmodel.parallel.halo import SIDES
from swmodel.runtime.compilation import jit
from tests.selection import later

from .cases import plane, random_state, rough, take_steps

H, G, DX, N = 1000.0, 9.81, 1e4, 60
C = np.sqrt(G * H)
FLATHER = lambda *sides: (sw.Flather(sides=sides),)  # noqa: E731
SPONGE = lambda *sides, rate: sw.Sponge(sides=sides, width=15 * DX, rate=rate * C / (15 * DX))  # noqa: E731


def returned(side, boundaries, stepper):
    """The share of a pulse, 8 cells wide, that comes back from `side` at normal incidence."""
    along_x, sign = side in ("west", "east"), 1.0 if side in ("east", "north") else -1.0
    shape = (N, 4) if along_x else (4, N)
    grid = sw.CartesianGrid(*shape, (0.0, shape[0] * DX), (0.0, shape[1] * DX), "y" if along_x else "x")
    model = sw.ShallowWater(grid, H, gravity=G, boundaries=boundaries)
    pulse = lambda x, y: 0.1 * np.exp(-((((x if along_x else y) / DX - N / 2) / 8) ** 2)) + 0 * (x + y)  # noqa: E731
    flow = lambda x, y: sign * C / H * pulse(x, y)  # noqa: E731
    start = model.state(eta=pulse, **{"u" if along_x else "v": flow})
    steps = round(0.95 * N * DX / C / stepper.dt)  # there and almost back
    state, _ = take_steps(model, stepper, start, steps)
    return float(np.abs(state.eta).max()) / 0.1


@pytest.mark.parametrize("sides", (("west", "east"), ("north", "south")))
def test_little_comes_back_from_flathers_condition_from_sponges_and_from_both(sides):
    """From the first side before a wall or alone, and from the second, with both; a wall sends everything back."""
    stepper = sw.ForwardBackward(50.0)
    assert returned(sides[0], FLATHER(*sides), stepper) < 0.03
    assert returned(sides[0], (SPONGE(*sides, rate=10.0),), stepper) < 0.02
    assert returned(sides[1], (*FLATHER(*sides), SPONGE(*sides, rate=5.0)), stepper) < 0.02
    assert returned(sides[1], (), stepper) > 0.9


@pytest.mark.parametrize("stepper", (sw.AB2(20.0), sw.RK4(80.0)), ids=lambda s: type(s).__name__)
def test_every_stepper_lets_waves_out(stepper):
    assert returned("east", FLATHER("west", "east"), stepper) < 0.05


def test_a_basin_fills_to_the_level_outside():
    grid = plane(12, 10)
    model = sw.ShallowWater(
        grid,
        rough(grid),
        boundaries=(sw.Flather(elevation=0.5), sw.Sponge(sides="west", width=4e4, rate=1e-3, elevation=0.5)),
        dissipation=(sw.LinearDrag(1e-4),),
    )
    state, _ = take_steps(model, sw.ForwardBackward(60.0), model.at_rest(), 3000)
    np.testing.assert_allclose(state.eta, 0.5 * model.wet, atol=1e-3)


@pytest.mark.parametrize("axis, sides", (("x", ("west", "east")), later("y", ("south", "north"))))
def test_a_flow_from_outside_passes_through(axis, sides):
    """Into the west (south) and out of the east (north) side: velocities count towards the outside."""
    grid = plane(8, 8, "y" if axis == "x" else "x")
    along = lambda x, y: np.where((x if axis == "x" else y) < 4e4, -0.3, 0.3) + 0 * (x + y)  # noqa: E731
    flather, drag = sw.Flather(sides=sides, velocity=along), sw.LinearDrag(1e-5)
    model = sw.ShallowWater(grid, 100.0, boundaries=(flather,), dissipation=(drag,))
    state, _ = take_steps(model, sw.ForwardBackward(100.0), model.at_rest(), 2000)
    flow = np.asarray(state.u)[:, :-1] if axis == "x" else np.asarray(state.v)[:-1]
    np.testing.assert_allclose(flow, 0.3, rtol=0.02)


@pytest.mark.parametrize(
    "stepper",
    (later(sw.AB2(1.0)), later(sw.AB3(1.0)), later(sw.SSPRK3(1.0)), later(sw.RK4(1.0)), sw.ForwardBackward(1.0)),
    ids=lambda s: type(s).__name__,
)
def test_corners_that_radiate_both_ways_stay_bounded_at_the_limit(stepper):
    import dataclasses

    grid = plane()
    model = sw.ShallowWater(grid, H, linear=True, boundaries=(sw.Flather(), sw.Sponge(width=4e4, rate=5e-3)))
    longest = sw.limits(model, stepper)[0]
    assert longest.name == "open sides"
    state, _ = take_steps(model, dataclasses.replace(stepper, dt=longest.dt), random_state(model), 1000)
    assert np.abs(state.eta).max() < 0.1


@pytest.mark.parametrize("side", SIDES)
def test_outflow_is_that_of_the_depth_that_an_uplift_leaves(side):
    """u = sqrt(g / (H - uplift)) eta (Flather 1976): a sea floor 1000 m deep that rises by 640 m in 10 steps."""
    grid, eta, steps = plane(5, 4), 0.3, 10
    risen = np.stack([np.zeros(grid.shape), np.full(grid.shape, 640.0)])
    model = sw.ShallowWater(
        grid,
        H,
        gravity=G,
        source=sw.BottomMotion((0.0, 10.0 * steps), risen),
        boundaries=(sw.Flather(side),),
        engine="arrays",
    )
    out = 1.0 if side in ("east", "north") else -1.0

    @jit
    def outflow(dynamics, step):
        flow = dynamics.prepare().flow(sw.State(*(jnp.full(grid.shape, x) for x in (0.0, 0.0, eta))), step)
        return (flow.u if side in ("west", "east") else flow.v).crop((1, 0, 1, 0)).data

    for step in (0.0, 5.0, 10.0):
        found = np.asarray(outflow(model.interval(1, 0, 10.0), step))
        edge = {"west": found[1:, 0], "east": found[1:, -1], "south": found[0, 1:], "north": found[-1, 1:]}[side]
        np.testing.assert_allclose(edge, out * np.sqrt(G / (H - 64.0 * step)) * eta, rtol=1e-12)
