"""Bores and shores: what rests stays at rest, no water is made or taken, and exact solutions are met.

Three stages take several times as long to compile as one. `make test` has each stepper, each engine and each precision
of a claim at least once where they matter, and `make verify` all combinations.
"""

import functools
import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import swmodel as sw
from swmodel.adjoint.costs.readers import SectionReader
from swmodel.dynamics.clock import Time
from swmodel.errors import BlowUp, ConfigError
from swmodel.runtime.compilation import jit
from swmodel.verification import shores as coast
from swmodel.verification.exact_flows import DamBreak, PlanarBowl, RadialBowl
from swmodel.verification.suite import all_cases
from tests.selection import later

from .cases import by_engine, take_steps
from .measures import measured

BOTH = pytest.mark.parametrize("stepper", (sw.SSPRK3, sw.ForwardBackwardHancock), ids=lambda kind: kind.__name__)
THREE_STAGES = pytest.param(sw.SSPRK3, marks=pytest.mark.verify)
ONE_QUICKLY = pytest.mark.parametrize("stepper", (THREE_STAGES, sw.ForwardBackwardHancock), ids=("SSPRK3", "one stage"))


def combinations(names, quick, *values):
    """`parametrize` with the product of `values`, of which `make test` runs those of `quick`."""
    each = [pytest.param(*x, marks=[] if x in quick else pytest.mark.verify) for x in itertools.product(*values)]
    return pytest.mark.parametrize(names, each, ids=lambda x: getattr(x, "__name__", str(x)))


STEPPER_AND_ENGINE = combinations(
    "stepper, engine",
    {(sw.ForwardBackwardHancock, "auto")},
    (sw.SSPRK3, sw.ForwardBackwardHancock),
    ("auto", "arrays"),
)


def shore(grid=None, dtype="float64", bed=None, **options):
    """A model on random topography between 3 m under and 3 m over the level."""
    grid = grid or sw.CartesianGrid(12, 10, (0.0, 120.0), (0.0, 100.0))
    bed = np.random.default_rng(3).uniform(-3.0, 3.0, grid.shape) if bed is None else bed
    return coast.model_of(grid, bed, 1e-3, dtype=dtype, communicator="serial", **options)


def wild(model, seed=0, speed=20.0):
    """Random levels and velocities, far over what a time step can follow."""
    rng = np.random.default_rng(seed)
    u, v, eta = (rng.uniform(-size, size, model.grid.shape) for size in (speed, speed, 3.0))
    return model.state(u=u, v=v, eta=eta)


LAKES = {(sw.ForwardBackwardHancock, "auto")}


@combinations("stepper, engine", LAKES, (sw.SSPRK3, sw.ForwardBackwardHancock), ("auto", "arrays"))
def test_lakes_at_rest_between_islands_and_cliffs_stay_at_rest_in_single_precision(engine, stepper):
    """The steps on the sphere, 500 s, are over the limit of ForwardBackwardHancock, too."""
    made = lambda dt: stepper(0.5 * dt)  # noqa: E731
    found = coast.rest(steps=8, dtypes=("float32",), stepper=made, communicator="serial", engine=engine)
    assert found["rest_error"] == 0.0


@combinations(
    "dtype, engine, stepper",
    {("float32", "arrays", sw.ForwardBackwardHancock)},
    ("float32", "float64"),
    ("auto", "arrays"),
    (sw.SSPRK3, sw.ForwardBackwardHancock),
)
def test_no_thickness_is_ever_negative_and_no_water_is_lost_however_long_the_step(dtype, engine, stepper):
    """On arrays of a sphere, to 80 degrees, and in fused loops of a plane."""
    grid = sw.SphericalGrid(12, 10, (0.0, 120.0), (-20.0, 80.0), radius=60.0) if engine == "arrays" else None
    model = shore(grid, dtype, dissipation=sw.ManningDrag(0.03), engine=engine)
    state, area = wild(model), np.broadcast_to(model.grid.area_h, model.grid.shape)
    thickness = lambda state: np.asarray(model.scatter(model.depth) + state.eta)  # noqa: E731
    before = thickness(state).astype(float)
    for _ in range(6):
        state = by_engine(model, stepper(3.0), state, 1)
        h = thickness(state)
        assert (h >= 0).all() and np.isfinite(np.asarray(state.u)).all()
    assert (before == 0).any() and (h < 1e-2).any()
    assert abs((area * h).sum() / (area * before).sum() - 1) < (1e-13 if dtype == "float64" else 1e-5)
    rest = model.at_rest()
    still = by_engine(model, stepper(3.0), rest, 1)
    assert all(np.array_equal(still[name], x) for name, x in rest)


def momentum_gained(stepper, dt, engine, u, v, eta):
    """The change of the mean of h_u u and of h_v v in 3 s on a periodic flat bottom of 2 m, and how far u has moved."""
    grid = sw.CartesianGrid(16, 12, (0.0, 160.0), (0.0, 120.0), periodic="xy")
    model = sw.ShallowWater(grid, 2.0, momentum=sw.MomentumConserving(), communicator="serial", engine=engine)
    state = model.state(u=u, v=v, eta=eta)

    def momentum(state):
        u, v, h = np.asarray(state.u), np.asarray(state.v), 2.0 + np.asarray(state.eta)
        return np.array([(0.5 * (h + np.roll(h, -1, 1)) * u).mean(), (0.5 * (h + np.roll(h, -1, 0)) * v).mean()])

    end, _ = take_steps(model, stepper(dt), state, round(3.0 / dt))
    return momentum(end) - momentum(state), np.abs(np.asarray(end.u - state.u)).max()


@STEPPER_AND_ENGINE
def test_the_sum_of_momentum_over_a_flat_bottom_is_kept(engine, stepper):
    """To rounding where no water falls, as in a shear flow that is carried across itself; else to first order in dt."""
    rng, shape = np.random.default_rng(0), (12, 16)
    shear = rng.uniform(-1.0, 1.0, (12, 1)) * np.ones(shape)
    gained, moved = momentum_gained(stepper, 0.3, engine, shear, 2.0, 0.0)
    assert moved > 0.1 and np.abs(gained).max() < 1e-14
    rough = rng.uniform(-1.0, 1.0, (3, *shape))
    coarse, fine = (np.abs(momentum_gained(stepper, dt, engine, *rough)[0]).max() for dt in (0.15, 0.075))
    assert fine < 1e-3 and coarse / fine > 1.8


@ONE_QUICKLY
def test_what_water_carries_over_a_shore_is_conserved_and_makes_no_new_extrema(stepper):
    """Cells empty within a step; a concentration of 1 stays 1, and one that was between 0 and 1 stays there."""
    step = sw.Tracer("step", initial=lambda x, y: np.where(x < 60.0, 1.0, 0.0) + 0.0 * y, diffusivity=0.5)
    model = shore(tracers=(sw.Tracer("one", initial=1.0), step), dissipation=sw.ManningDrag(0.03))
    start = wild(model, speed=5.0)
    end, _ = take_steps(model, stepper(1.0), start, 20)
    h = model.depth + np.asarray(end.eta)
    covered = h > model.wetting.thin
    assert 0 < covered.sum() < h.size
    for name in ("one", "step"):
        content = np.asarray(end[name])
        assert content.sum() == pytest.approx(np.asarray(start[name]).sum(), rel=1e-13) and content.min() > -1e-15
    np.testing.assert_allclose(np.asarray(end["one"])[covered] / h[covered], 1.0, rtol=0, atol=1e-10)
    assert -1e-12 < (np.asarray(end["step"])[covered] / h[covered]).min() < 0.9
    assert (np.asarray(end["step"])[covered] / h[covered]).max() < 1 + 1e-10


@pytest.mark.parametrize(
    "stepper",
    (
        pytest.param(coast.STEPPERS[""], id="three stages", marks=pytest.mark.verify),
        pytest.param(coast.one_stage, id="one stage"),
    ),
)
def test_a_bore_over_a_tenth_of_its_depth_has_the_speed_of_stoker(stepper):
    flow, (early, late) = DamBreak(), (10.0, 30.0)
    profiles = coast.dam_break(flow, 100, (early, late), stepper=stepper, communicator="serial")
    middle, speed = flow.middle
    fronts = [coast.front(x, h, 0.5 * (middle + flow.right)) for x, h in profiles]
    assert (fronts[1] - fronts[0]) / (late - early) == pytest.approx(speed, rel=0.03)  # half a cell is 2.5 %
    x, h = profiles[1]
    exact = flow.thickness(x, late)
    assert np.abs(h - exact).sum() < 0.01 * exact.sum()


@pytest.mark.verify
@pytest.mark.parametrize("flow, limit", ((PlanarBowl(), 0.06), (RadialBowl(), 0.04)), ids=("planar", "radial"))
@pytest.mark.parametrize("stepper", (sw.SSPRK3, coast.one_stage), ids=("three stages", "one stage"))
def test_water_that_swings_in_a_bowl_is_back_after_a_period(flow, limit, stepper):
    error, mass, least = coast.bowl(flow, 40, stepper=stepper, communicator="serial")
    assert error < limit and abs(mass) < 1e-13 and least >= 0


def level_in_a_channel(eta, steps, momentum, u=0.0, dt=15.0):
    """The level along a periodic channel of square cells of 7.4 km over a depth of 5.5 km, after some steps [m]."""
    size = 7.4e3
    grid = sw.CartesianGrid(len(eta), 6, (0.0, size * len(eta)), (0.0, 6 * size), periodic="xy")
    model = sw.ShallowWater(grid, 5.5e3, momentum=momentum, communicator="serial", engine="arrays")
    start = model.state(eta=np.tile(eta, (6, 1)), u=u * np.ones(grid.shape))
    state, _ = take_steps(model, sw.SSPRK3(dt), start, steps)
    return np.asarray(state.eta)[0]


@pytest.mark.verify
def test_the_crest_of_a_wave_keeps_its_height_on_the_way_to_a_buoy():
    """A Gaussian of 100 km between its feet, on a path of 380 km; without damping dispersion takes 1.2 % of it."""
    x = 7.4e3 * (np.arange(160) + 0.5)
    pulse = lambda x: np.exp(-0.5 * ((x - 3e5) / 25e3) ** 2)  # noqa: E731
    to_the_right = np.sqrt(9.81 / 5.5e3) * pulse(x + 3.7e3)
    level, free = (
        level_in_a_channel(pulse(x), 110, sw.MomentumConserving(damping=damping), to_the_right).max()
        for damping in (1.0, 0.0)
    )
    assert 0.99 * free < level < free < 1.0


def test_waves_that_the_grid_does_not_resolve_are_damped_and_no_damping_adds_energy():
    """Two cells a wave: gone after 40 steps. Any level at rest: its potential energy falls in a first stage."""
    alternating = np.tile([1.0, -1.0], 8)
    assert np.abs(level_in_a_channel(alternating, 40, sw.MomentumConserving())).max() < 1e-3
    assert np.abs(level_in_a_channel(alternating, 40, sw.MomentumConserving(damping=0.0))).max() > 0.1
    for seed in range(4):
        rough = np.random.default_rng(seed).uniform(-1.0, 1.0, 16)
        assert (rough * (level_in_a_channel(rough, 1, sw.MomentumConserving(), dt=1e-3) - rough)).sum() < 0


@ONE_QUICKLY
def test_friction_slows_thin_water_down_and_never_turns_it_round(stepper):
    model = shore(bed=np.full((10, 12), 2e-3), dissipation=sw.ManningDrag(0.1))
    inside = np.pad(np.ones((10, 11)), ((0, 0), (0, 1)))
    state, _ = take_steps(model, stepper(5.0), model.state(u=inside), 1)
    assert (np.asarray(state.u) >= 0).all() and np.asarray(state.u).max() < 0.45


def test_wetting_names_what_it_needs():
    grid = sw.CartesianGrid(12, 10, (0.0, 120.0), (0.0, 100.0))
    centred, conserving = sw.Tracer("dye", scheme=sw.Centred()), {"momentum": sw.MomentumConserving()}
    ocean = functools.partial(sw.ShallowWater, grid, 1.0)
    runs = lambda model, stepper: sw.Simulation(model, model.at_rest(), stepper)  # noqa: E731
    one_stage = sw.ForwardBackwardHancock(0.1)
    for said, made in (
        ("momentum=MomentumConserving", lambda: ocean(wetting=sw.WettingDrying())),
        ("tracer dye.*give scheme=FluxLimited", lambda: shore(tracers=centred)),
        ("RK4.*use ForwardBackwardHancock or SSPRK3", lambda: runs(shore(), sw.RK4(0.1))),
        ("give momentum=MomentumConserving", lambda: runs(ocean(), one_stage)),
        (
            "SelfAttraction acts.*use SSPRK3",
            lambda: runs(ocean(forcing=sw.SelfAttraction(0.09), **conserving), one_stage),
        ),
        ("tracer dye.*give scheme=FluxLimited", lambda: runs(ocean(tracers=centred, **conserving), one_stage)),
        ("not linear", lambda: ocean(linear=True, **conserving)),
        (
            r"Clamped computes the flow.*use WaveMaker\(total=True\)",
            lambda: ocean(boundaries=(sw.Clamped("west", 0.0),), **conserving),
        ),
        ("thin", lambda: sw.WettingDrying(thin=0.0)),
    ):
        with pytest.raises(ConfigError, match=said):
            made()


def test_a_run_stops_at_the_least_thickness_that_was_chosen():
    grid = sw.CartesianGrid(12, 10, (0.0, 120.0), (0.0, 100.0))
    model = sw.ShallowWater(grid, 0.5, least_thickness=0.2, communicator="serial")
    sw.Simulation(model, model.at_rest(), sw.AB2(0.5)).run(steps=2)
    shallow = sw.ShallowWater(grid, 0.1, least_thickness=0.2, communicator="serial")
    with pytest.raises(BlowUp, match=r"less than 0\.2 m"):
        sw.Simulation(shallow, shallow.at_rest(), sw.AB2(0.5)).run(steps=2)
    beach = shore(least_thickness=0.2)
    with pytest.raises(BlowUp, match=r"less than 0\.2 m ends a run with this least_thickness; leave it out"):
        sw.Simulation(beach, beach.at_rest(), sw.ForwardBackwardHancock(0.1)).run(steps=2)


@pytest.mark.verify
@pytest.mark.parametrize(
    "case",
    [case for case in all_cases().values() if case.measure.__module__ == coast.__name__],
    ids=lambda case: case.name,
)
def test_marks_are_within_their_ranges(case):
    for name in (mark.name for mark in case.marks):
        mark, value = measured(name)
        assert mark.passes(value), f"{name} = {value}, wanted {mark.limits()}"


@pytest.mark.verify  # a minute of compiling
@BOTH
@pytest.mark.parametrize("engine", ("auto", "arrays"))
@pytest.mark.parametrize("dry", (True, False), ids=("dry cells", "water everywhere"))
def test_tangent_and_adjoint_agree_over_a_shore_and_with_differences(engine, dry, stepper):
    """Away from kinks; where there are dry cells, some are flooded and others fall dry on the way."""
    bed = np.random.default_rng(3).uniform(*((-3.0, 3.0) if dry else (4.0, 6.0)), (10, 12))
    model = shore(bed=bed, dissipation=sw.ManningDrag(0.03), engine=engine)
    check_derivatives(model, stepper(0.4), lambda end: end.eta + end.u * end.v)


@pytest.mark.verify  # a minute of compiling
@BOTH
@pytest.mark.parametrize("engine", ("auto", "arrays"))
def test_tangent_and_adjoint_of_a_tracer_agree_over_a_shore_and_with_differences(engine, stepper):
    """The content that the water carries through cells that are flooded and fall dry, by all of the state."""
    dye = sw.Tracer("dye", initial=lambda x, y: 0.5 + 0.4 * np.sin(0.07 * x) * np.cos(0.09 * y), diffusivity=0.5)
    model = shore(dissipation=sw.ManningDrag(0.03), engine=engine, tracers=(dye,))
    check_derivatives(model, stepper(0.4), lambda end: end["dye"], "dye")


def check_derivatives(model, stepper, observed, *carried):
    """Raise AssertionError unless the gradient of a weighted sum of what is `observed` of the third state is that of
    the tangent, and the rest of Taylor's series falls as the square of the step.

    Args:
        observed: a function of a State.
        carried: the names of tracers, whose contents are changed along with u, v and eta.
    """
    start = wild(model, speed=1.0)
    dynamics = model.dynamics(stepper)
    rng = np.random.default_rng(7)
    direction = model.state(*(rng.uniform(-1.0, 1.0, model.grid.shape) for _ in range(3)))
    wet = np.asarray(start.eta) + model.depth > 0
    changes = {name: jnp.asarray(rng.uniform(-1.0, 1.0, model.grid.shape) * wet) for name in ("eta", *carried)}
    changes |= {name: jnp.where(start[name] == 0.0, 0.0, direction[name]) for name in "uv"}  # 0 by dry cells: a kink
    direction = direction.replace(**changes)
    weights = jnp.asarray(rng.uniform(-1.0, 1.0, model.grid.shape))

    @jit
    def cost(size):
        end, _ = sw.integrate(dynamics, stepper, start + size * direction, 3)
        return jnp.sum(weights * observed(end))

    slope = jax.jvp(cost, (0.0,), (1.0,))[1]
    assert float(jax.grad(cost)(0.0)) == pytest.approx(float(slope), rel=1e-12)
    differences = [abs(cost(size) - cost(0.0) - size * slope) for size in (4e-5, 2e-5, 1e-5)]
    assert differences[2] < 0.3 * differences[1] < 0.09 * differences[0]


@ONE_QUICKLY
def test_a_sea_floor_that_sinks_under_a_shore_makes_no_water(stepper):
    """What leaves a cell is no more than is there before the floor and the surface sink together."""
    sinking = sw.BottomMotion((0.0, 0.9), np.random.default_rng(5).uniform(-2.0, 2.0, (2, 10, 12)) * [[[0.0]], [[1.0]]])
    model = shore(source=sinking)
    start = wild(model, speed=5.0)
    volume = lambda depth, state: float(np.sum(depth + np.asarray(state.eta)))  # noqa: E731
    before = volume(model.depth, start)
    state = sw.Simulation(model, start, stepper(0.3)).run(steps=3)
    assert volume(model.depth - sinking.uplift[1], state) == pytest.approx(before, rel=1e-13)
    assert (model.depth - sinking.uplift[1] + np.asarray(state.eta)).min() > -1e-13


@pytest.mark.parametrize("engine", ("auto", later("arrays")))
def test_land_that_is_never_flooded_has_no_level_when_the_sea_floor_moves(engine):
    bed = np.random.default_rng(3).uniform(-3.0, 3.0, (10, 12))
    grid = sw.CartesianGrid(12, 10, (0.0, 120.0), (0.0, 100.0))
    model = sw.ShallowWater(
        grid,
        -bed,
        momentum=sw.MomentumConserving(),
        wetting=sw.WettingDrying(highest=1.0),
        source=sw.BottomMotion((0.0, 0.9), np.multiply.outer((0.0, 0.1), np.ones(bed.shape))),
        communicator="serial",
        engine=engine,
    )
    eta = np.asarray(sw.Simulation(model, model.at_rest(), sw.ForwardBackwardHancock(0.3)).run(steps=3).eta)
    assert (eta[bed > 1.0] == 0.0).all() and 0.05 < np.abs(eta).max() < 2.0


def test_the_transport_over_a_shore_may_be_a_cost():
    """Fluxes are limited by what a step leaves in a cell, so that its length must be known outside a step, too."""
    model = shore()
    section = SectionReader.between((60.0, 0.0), (60.0, 100.0), model)
    dynamics = model.dynamics(sw.SSPRK3(0.1))
    found = jax.eval_shape(lambda state: section.read(state, dynamics.prepare(), Time(1)), model.at_rest())
    assert found.shape == (1,)


@pytest.mark.parametrize(("name", "sign"), [("u", 1.0), ("v", -1.0)])
def test_an_initial_current_lifts_no_water_onto_a_cliff_and_leaves_no_dry_cell(name, sign):
    grid = sw.CartesianGrid(12, 12, (0.0, 120.0), (0.0, 120.0))
    bed = np.full(grid.shape, -10.0)  # under water, between cliffs on all sides
    bed[:3], bed[-3:], bed[:, :3], bed[:, -3:] = (10.0,) * 4
    bed[5, 5] = 0.05  # a step that the current can climb
    model = coast.model_of(grid, -bed, 1e-3, dtype="float64", communicator="serial")
    state = model.state(**{name: 2.0 * sign})
    run = sw.Simulation(model, state, sw.ForwardBackwardHancock(0.2)).run(steps=1)
    assert (np.asarray(run.eta + model.depth)[bed > 5.0] == 0.0).all()
    given = np.asarray(state[name])
    assert np.count_nonzero(given) == np.count_nonzero(given == 2.0 * sign) == 6 * 5 - 1  # not those out of the step


def test_a_model_may_be_dry_at_rest():
    floor = shore(bed=np.full((10, 12), -0.5)).sea_floor
    assert floor.wet_cells == 120 and floor.depths == (0.0, 0.0, 0.0) and floor.typical_depth == 1.0
