"""Tracers carried by flows with known solutions: orders of convergence, and no new extrema."""

import numpy as np
import pytest

import swmodel as sw
from tests.selection import now
from tests.verification.cases import take_steps
from tests.verification.tracer_flows import Kinematic, carried_by, deforming, rotating


def error(case, n, scheme):
    """The relative error, in the L2 norm, of what comes back to where it began."""
    model, psi, c, end = case(n, tracers=sw.Tracer("dye", scheme=scheme, initial=1.0))
    first = carried_by(model, psi, dye=c)
    steps = 8 * n if case is rotating else 4 * n
    last, _ = take_steps(model, Kinematic(end / steps, end if case is deforming else None), first, steps)
    area = np.broadcast_to(model.grid.metrics(np.arange(model.grid.ny))["area_h"], model.grid.shape)
    wrong = np.asarray(last.dye) - np.asarray(first.dye)
    return float(np.sqrt((area * wrong**2).sum() / (area * np.asarray(first.dye) ** 2).sum()))


@pytest.mark.parametrize(
    "case, scheme, sizes, order",
    [
        (rotating, sw.Centred(), (40, 80), 1.85),
        pytest.param(rotating, sw.FluxLimited(sw.VanLeer()), (40, 80), 1.5, marks=pytest.mark.verify),
        pytest.param(rotating, sw.FluxLimited(sw.Koren()), (40, 80), 1.9, marks=pytest.mark.verify),
        pytest.param(rotating, sw.FluxLimited(sw.MinMod()), (40, 80), 1.1, marks=pytest.mark.verify),
        (deforming, sw.FluxLimited(sw.VanLeer()), (32, 64), 1.6),
    ],
    ids=lambda x: getattr(x, "__name__", None) or (x.describe() if hasattr(x, "describe") else None),
)
def test_schemes_converge_at_their_orders(case, scheme, sizes, order):
    coarse, fine = (error(case, n, scheme) for n in sizes)
    assert np.log2(coarse / fine) > order
    assert fine < 0.35


def concentration(model, state):
    return (np.asarray(state.dye) / np.where(model.wet, model.depth, 1.0))[model.wet]


def random_flow(scheme, steepness):
    """(model, first state, longest step of a scheme, lowest and highest value): among islands, over a rough bottom."""
    grid, rng = sw.CartesianGrid(16, 12, (0.0, 16e3), (0.0, 12e3), "x"), np.random.default_rng(0)
    depth = np.where(rng.random(grid.shape) < 0.12, 0.0, rng.uniform(20.0, 200.0, grid.shape))
    tracer = sw.Tracer("dye", scheme=scheme)
    model = sw.ShallowWater(grid, depth, linear=True, communicator="serial", engine="arrays", tracers=tracer)
    first = carried_by(model, lambda x, y: 1e5 * rng.standard_normal(grid.shape), dye=5.0 + rng.random(grid.shape))
    U, V = (np.asarray(x) * 0.5 * (depth + np.roll(depth, -1, axis)) for x, axis in ((first.u, 1), (first.v, 0)))
    leaving = np.maximum(U, 0) - np.minimum(np.roll(U, 1, 1), 0) + np.maximum(V, 0) - np.minimum(np.roll(V, 1, 0), 0)
    longest = 1.0 / ((leaving * 1e3)[model.wet] / (depth * 1e6)[model.wet]).max() / (1 + 0.5 * steepness)
    c = concentration(model, first)
    return model, first, longest, c.min(), c.max()


@pytest.mark.parametrize("limiter", [sw.VanLeer(), sw.Superbee(), sw.MinMod()], ids=lambda x: type(x).__name__)
def test_ssprk3_makes_no_new_extrema_at_the_limit_of_its_scheme(limiter):
    """In both directions at once, with the longest step that is said to be allowed."""
    model, state, longest, low, high = random_flow(sw.FluxLimited(limiter), limiter.steepness)
    for steps in (1, 5, 30):
        state, _ = take_steps(model, Kinematic(longest), state, steps)
        c = concentration(model, state)
        assert low - 1e-13 <= c.min() and c.max() <= high + 1e-13


def test_the_centred_scheme_makes_new_extrema_in_that_flow():
    model, first, longest, low, high = random_flow(sw.Centred(), 2.0)
    state, _ = take_steps(model, Kinematic(longest), first, 5)
    c = concentration(model, state)
    assert c.min() < low - 1e-2 or c.max() > high + 1e-2


GRIDS = {
    "walls and islands": lambda: sw.CartesianGrid(12, 10, (0.0, 12e4), (0.0, 10e4)),
    "periodic": lambda: sw.CartesianGrid(12, 10, (0.0, 12e4), (0.0, 10e4), "xy"),
    "sphere": lambda: sw.SphericalGrid(12, 10, (160.0, 172.0), (40.0, 50.0)),
    "globe": lambda: sw.SphericalGrid(12, 10, (0.0, 360.0), (-90.0, 90.0)),
}


# Both forms of the equations and three kinds of steppers in `make test`, further pairs in `make verify`.
CASES = [(sw.AB3, "periodic", True), (sw.SSPRK3, "globe", False)]
CASES += [
    pytest.param(stepper, grid, linear, marks=pytest.mark.verify)
    for stepper, grid, linear in (
        (sw.AB2, "walls and islands", False),
        (sw.ForwardBackward, "walls and islands", False),
        (sw.RK4, "globe", False),
        (sw.SSPRK3, "walls and islands", False),
        (sw.SSPRK3, "sphere", True),
        (sw.SemiImplicit, "periodic", False),
        (sw.SemiImplicit, "sphere", False),
    )
]


@pytest.mark.parametrize("stepper, grid, linear", CASES, ids=lambda x: getattr(x, "__name__", str(x)))
def test_the_content_is_kept_and_a_constant_stays_constant(stepper, grid, linear):
    """With advection, diffusion and a wind, at half of the longest time step."""
    grid, rng = GRIDS[grid](), np.random.default_rng(3)
    depth = np.where(rng.random(grid.shape) < 0.15, 0.0, rng.uniform(50.0, 200.0, grid.shape))
    tracers = (
        sw.Tracer("one", initial=1.0, diffusivity=10.0),
        sw.Tracer("flat", initial=1.0, scheme=sw.Centred()),
        sw.Tracer("dye", diffusivity=10.0),
        sw.Tracer("ink", scheme=sw.Centred()),
    )
    model = sw.ShallowWater(
        grid,
        depth,
        coriolis=sw.FPlane(1e-4),
        forcing=sw.WindStress(x=0.1),
        linear=linear,
        tracers=tracers,
        communicator="serial",
        engine="arrays",
    )
    c = {name: rng.random(grid.shape) for name in ("dye", "ink")}
    first = model.state(eta=rng.uniform(-1, 1, grid.shape), **c)
    dt = 0.5 * sw.largest_time_step(sw.limits(model, stepper(1.0), first))
    last, _ = take_steps(model, stepper(min(dt, 600.0)), first, 40)
    area = np.broadcast_to(grid.metrics(np.arange(grid.ny))["area_h"], grid.shape)
    column = np.where(model.wet, depth + np.asarray(last.eta), 0.0)
    assert np.abs(np.asarray(last.eta) - np.asarray(first.eta)).max() > 0.05
    for name in ("one", "flat"):
        assert np.abs(np.asarray(last[name]) - column)[model.wet].max() < 1e-13 * column.max()
    for name in ("one", "flat", "dye", "ink"):
        before, after = ((area * np.asarray(state[name])).sum() for state in (first, last))
        assert abs(after - before) < 1e-13 * before
    assert np.abs(np.asarray(last.dye) - np.asarray(first.dye)).max() > 1e-2


@pytest.mark.parametrize("stepper", now([sw.AB2, sw.SSPRK3], sw.AB2), ids=lambda kind: kind.__name__)
def test_a_constant_stays_constant_while_the_sea_floor_moves(stepper):
    """The sea floor lifts the surface at the end of a step, and H falls with it."""
    grid, rng = GRIDS["walls and islands"](), np.random.default_rng(5)
    depth = np.where(rng.random(grid.shape) < 0.15, 0.0, rng.uniform(50.0, 200.0, grid.shape))
    uplift = np.stack([0.0 * depth, rng.uniform(-5.0, 5.0, grid.shape)])
    model = sw.ShallowWater(
        grid,
        depth,
        source=sw.BottomMotion([0.0, 400.0], uplift),
        tracers=sw.Tracer("one", initial=1.0),
        communicator="serial",
        engine="arrays",
    )
    run = sw.Simulation(model, model.at_rest(), stepper(40.0))
    last = run.run(steps=12)
    column = np.where(model.wet, depth - uplift[1] + np.asarray(last.eta), 0.0)
    assert np.abs(np.asarray(last.u)).max() > 0.01
    np.testing.assert_allclose(last.one, column, rtol=1e-13)
