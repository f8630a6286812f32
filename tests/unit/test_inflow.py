"""What flows in through open sides: its energy, its start from the state of a run, and dry cells that it floods."""

import collections
import functools

import jax.numpy as jnp
import numpy as np
import pytest

import swmodel as sw
from swmodel.adjoint import FinalState, Problem
from swmodel.dynamics import near_sides
from swmodel.dynamics.clock import Time
from swmodel.errors import ConfigError
from swmodel.fields.field import Field
from swmodel.parallel.halo import EAST, NORTH, SIDES, SOUTH, WEST
from swmodel.runtime.compilation import jit
from tests.selection import later, now

TIDE = sw.Tide({"M2": (1.0, 0.0)}, ramp=6 * 3600.0)
SHORE = {"momentum": sw.MomentumConserving(), "wetting": sw.WettingDrying(1e-3), "communicator": "serial"}


def fastest(side, f=1e-4, depths=(20.0, 100.0), **options):
    """The largest speed [m s-1] after 36 hours of a tide of 1 m at a side along which the depth changes."""
    shape, size = (19, 16), (1.2e5, 1e5)
    if side == "north":  # the basin turned by 90 degrees
        shape, size = shape[::-1], size[::-1]
    grid = sw.CartesianGrid(*shape, (0.0, size[0]), (0.0, size[1]))
    share = (grid.coordinates("h")[side == "west"] / 1e5) * np.ones(grid.shape)
    model = sw.ShallowWater(
        grid,
        depths[0] + (depths[1] - depths[0]) * share,
        coriolis=sw.FPlane(f),
        boundaries=sw.Clamped(side, TIDE, **options),
        dissipation=sw.QuadraticDrag(1e-3),
        communicator="serial",
    )
    state = sw.Simulation(model, model.at_rest(), sw.ForwardBackward(80.0)).run(until=36 * 3600.0)
    return max(float(np.abs(x).max()) for x in (state.u, state.v))


@pytest.mark.verify
def test_a_tide_that_is_given_along_a_slope_makes_no_current_that_grows_on_a_rotating_earth():
    """Where what flows in is not from water at rest, the speed is 5 m/s, and the run ends 5 hours later."""
    assert fastest("west", rest_outside=False) > 3.0
    assert fastest("west") < 1.2 and fastest("north") < 1.2
    assert fastest("west", -1e-4, (100.0, 20.0)) == pytest.approx(fastest("west"), rel=1e-3)  # in a mirror


@pytest.mark.verify
def test_a_gauge_at_the_mouth_of_a_basin_in_resonance_keeps_its_level():
    """The exact amplitude at the head is 6 times that at the mouth, in water of 1 m with a level of 2 cm."""
    grid, omega = sw.CartesianGrid(20, 6, (0.0, 40.0), (0.0, 12.0), periodic="y"), 1.5 * np.sqrt(9.81) / 40.0
    times = np.linspace(0.0, 12 * np.pi / omega, 2000)
    level = 0.02 * np.sin(omega * times) * np.minimum(omega * times / (6 * np.pi), 1.0)
    maker = sw.WaveMaker("west", elevation=sw.Record(times, level), total=True)
    drag = sw.LinearDrag(0.2 * omega)
    model = sw.ShallowWater(
        grid, 1.0, momentum=sw.MomentumConserving(), boundaries=maker, dissipation=drag, least_thickness=0.0
    )
    dt = 2 * np.pi / omega / 280
    simulation = sw.Simulation(model, model.at_rest(), sw.ForwardBackwardHancock(dt))
    simulation.run(steps=5 * 280 - 70)
    found = []
    for _ in range(4):
        found.append(float(np.asarray(simulation.run(steps=70).eta)[0, 0]))
    amplitude = np.hypot(found[0] - found[2], found[1] - found[3]) / 2
    assert amplitude == pytest.approx(0.02, rel=0.045)  # 0.0185 if what flows in at resonance had lost head


def test_dry_land_at_an_open_side_is_flooded_from_a_higher_level_outside_and_falls_dry_again():
    """A plain 1 m over level 0; the water outside is at 3 m, until the end of the flood."""
    grid = sw.CartesianGrid(20, 6, (0.0, 200.0), (0.0, 60.0))
    flood = sw.Record([0.0, 200.0, 201.0, 1e4], [3.0, 3.0, -2.0, -2.0])
    bed = -np.ones(grid.shape)
    bed[:, -1] = 1.0  # some water on the other side
    model = sw.ShallowWater(grid, bed, boundaries=sw.Flather("west", flood), **SHORE)
    simulation = sw.Simulation(model, model.at_rest(), sw.ForwardBackwardHancock(0.5))
    level = np.asarray(simulation.run(until=200.0).eta)
    np.testing.assert_allclose(level, 3.0, atol=0.1)
    u = np.asarray(simulation.run(until=221.0).u)[0, 0]  # in the simple wave of a dam break, 10 m inside
    assert u == pytest.approx(-2.0 / 3.0 * (np.sqrt(2 * 9.81) - 10.0 / 20.5), rel=0.08)
    assert np.asarray(simulation.run(until=1000.0).eta)[:, :10].max() < 1.1


ONTO_LAND = [*((sw.Flather, side) for side in SIDES), (sw.WaveMaker, "north")]


@pytest.mark.parametrize("condition, side", now(ONTO_LAND, (sw.Flather, "west"), (sw.WaveMaker, "north")))
def test_the_flow_onto_dry_land_and_off_it_is_critical(condition, side):
    """Of water 2 m deep outside, 4/9 of that thickness at 2/3 of its wave speed; of 1.5 m inside, its wave speed."""
    grid = sw.CartesianGrid(6, 6, (0.0, 6.0), (0.0, 6.0))
    for level, inside, thickness, speed in (
        (3.0, 0.0, 8 / 9, -2 / 3 * np.sqrt(2 * 9.81)),
        (0.0, 1.5, 1.5, np.sqrt(1.5 * 9.81)),
    ):
        model = sw.ShallowWater(grid, -1.0, boundaries=condition(side, level), **SHORE)
        flow = flow_of(model.dynamics(sw.SSPRK3(0.01)), model.state(eta=1.0 + inside))
        normal, low = (flow.u if side in ("west", "east") else flow.v), side in ("west", "south")
        halo = normal.halo[SIDES.index(side)]
        beyond = {
            "west": np.s_[halo + 3, halo - 1],
            "south": np.s_[halo - 1, halo + 3],
            "east": np.s_[halo + 3, -halo - 1],
            "north": np.s_[-halo - 1, halo + 3],
        }
        ghost = {
            "west": np.s_[halo + 3, halo - 1],
            "south": np.s_[halo - 1, halo + 3],
            "east": np.s_[halo + 3, -halo],
            "north": np.s_[-halo, halo + 3],
        }
        assert (-1 if low else 1) * float(normal.data[beyond[side]]) == pytest.approx(speed, rel=1e-6)
        assert float(flow.eta.data[ghost[side]]) - 1.0 == pytest.approx(thickness, rel=1e-6)


@jit
def flow_of(dynamics, state):
    """(normal velocities and elevations with their ghosts) as a namespace of a LayerFlow's fields."""
    flow = dynamics.prepare().flow(state, 0.0)
    return Fields(flow.u, flow.v, flow.eta)


Fields = collections.namedtuple("Fields", "u v eta")


KEEPING = {
    "chapman": (sw.ChapmanFlather("west", elevation=0.3), sw.Flather("east", elevation=0.3)),
    "radiation": (sw.RadiationNudging(("west", "east"), velocity=lambda x, y: np.where(x < 5e4, -0.5, 0.5) + 0 * y),),
}


def channel_beside(kind):
    grid = sw.CartesianGrid(10, 4, (0.0, 1e5), (0.0, 4e4), periodic="y")
    sponge = (sw.Sponge(("west", "east"), width=1e4, rate=1e-6),) if kind == "radiation" else ()
    return sw.ShallowWater(grid, 100.0, boundaries=(*KEEPING[kind], *sponge), communicator="serial", engine="arrays")


@pytest.mark.parametrize("kind", KEEPING)
def test_sides_that_keep_values_start_from_the_state(kind):
    """A sea at rest at the level outside, and a current that goes on outside, stay as they are."""
    model = channel_beside(kind)
    start = model.state(eta=0.3) if kind == "chapman" else model.state(u=0.5, v=0.1)
    end = sw.Simulation(model, start, sw.ForwardBackward(100.0)).run(steps=20)
    np.testing.assert_allclose(np.asarray(end.eta), np.asarray(start.eta), atol=1e-3)
    given = model.state(eta=0.3, **{name: 0.7 * np.ones(model.grid.shape) for name in start.others})
    assert all(float(np.abs(given[name]).max()) == pytest.approx(0.7) for name in start.others)


@pytest.mark.verify
def test_where_nothing_changes_radiation_has_finite_derivatives():
    """A phase speed is a quotient, of 0 by 0 in a current that goes on outside."""
    model = channel_beside("radiation")
    cost = FinalState(lambda s, e: (s.eta**2).sum() + 100.0 * (s.u**2).sum())
    start = model.state(u=0.5, v=0.1)
    slope = Problem(model, sw.ForwardBackward(100.0), start, 5, cost, ["initial.u"]).value_and_gradient()[1]
    assert np.abs(np.asarray(slope["initial.u"])).max() < 1e4


@pytest.mark.parametrize("linear", [False, True])
def test_sides_without_memory_are_left_out_of_the_start(linear):
    grid = sw.CartesianGrid(6, 4, (0.0, 6e4), (0.0, 4e4))
    chapman, still = sw.ChapmanFlather("east"), sw.Clamped("west", 0.1, rest_outside=linear)
    first = (still,) if linear else (still, sw.WaveMaker("west"), sw.WaveMaker("west"))
    for west, east in zip(first, (chapman, chapman, sw.Clamped("east", 0.1))):
        model = sw.ShallowWater(grid, 50.0, boundaries=(west, east), linear=linear, communicator="serial")
        state = model.state(u=0.4, eta=0.2)
        assert not model._tiled  # whose metrics would stay in memory beside those of the run
        (name,) = state.others
        expected = np.zeros(grid.shape)
        expected[:, -1] = 0.2 if east is chapman else 0.4
        np.testing.assert_allclose(np.asarray(state[name]), expected, rtol=1e-6)


def test_sides_of_tiles_of_two_cells_start_as_those_of_one_tile():
    grid, starts = sw.CartesianGrid(6, 4, (0.0, 6e4), (0.0, 4e4)), []
    for where in ({"communicator": "serial"}, {"communicator": "sharded", "layout": (2, 3)}):
        model = sw.ShallowWater(
            grid,
            50.0,
            boundaries=(sw.RadiationNudging(("east", "north")), sw.Flather("west")),
            engine="arrays",
            **where,
        )
        state = model.state(u=lambda x, y: x / 1e5 + y / 1e6, v=lambda x, y: y / 1e5)
        starts.append({name: model.gather(state[name]) for name in state.others})
    for name, values in starts[0].items():
        assert np.abs(values).max() > 0.1
        np.testing.assert_array_equal(starts[1][name], values)


def test_sides_start_from_the_flow_that_controls_change():
    """J is that of a run from model.state; in a linear model a centred difference of it is the exact derivative."""
    grid, rng = sw.CartesianGrid(8, 4, (0.0, 8e4), (0.0, 4e4)), np.random.default_rng(3)
    model = sw.ShallowWater(
        grid, 50.0, boundaries=(sw.ChapmanFlather("west"), sw.Flather("east")), linear=True, engine="arrays"
    )
    x, d = rng.standard_normal((2, *grid.shape))
    cost, stepper = FinalState(lambda s, e: (s.eta**2).sum()), sw.ForwardBackward(200.0)
    problem = Problem(model, stepper, model.at_rest(), 5, cost, ["initial.eta"])
    J, slope = problem.value_and_gradient({"initial.eta": model.scatter(x)})
    end = sw.Simulation(model, model.state(eta=x), stepper).run(steps=5)
    assert float(J) == pytest.approx(float((end.eta**2).sum()), rel=1e-12)
    costs = (problem.value_and_gradient({"initial.eta": model.scatter(x + h * d)})[0] for h in (1.0, -1.0))
    high, low = map(float, costs)
    assert float((slope["initial.eta"] * d).sum()) == pytest.approx((high - low) / 2, rel=1e-11)


def test_sides_that_leave_the_level_free_are_refused_without_one_that_holds_it():
    grid = sw.CartesianGrid(6, 6, (0.0, 6e4), (0.0, 6e4))
    with pytest.raises(ConfigError, match="RadiationNudging: no open side holds the level.*add a Sponge, or give one"):
        sw.ShallowWater(grid, 50.0, boundaries=sw.RadiationNudging("west", incoming=TIDE))


# -- what is near a side -----------------------------------------------------------------------------------------------

HALO = (5, 3, 2, 4)  # west, east, south, north


def flow():
    """(u, v, eta) of a tile of 9 x 7 cells."""
    numbers = np.random.default_rng(1).standard_normal((3, 7 + 6, 9 + 8))
    return [Field(jnp.asarray(x), position, HALO) for x, position in zip(numbers, ("u", "v", "h"))]


@pytest.mark.parametrize("side", [WEST, later(EAST), later(SOUTH), NORTH])
def test_windows_hold_the_cells_and_velocities_of_the_tile(side):
    whole, near = near_sides.windows(flow(), side)
    for given, same, part in zip(flow(), whole, near):
        np.testing.assert_array_equal(same.data, given.data)
        assert part.data.size < given.data.size
        inside = near_sides.cells_inside(part, side)
        np.testing.assert_array_equal(inside.data, near_sides.cells_inside(given, side).data)
    found = near_sides.next_velocity(side, near)
    np.testing.assert_array_equal(found.data, near_sides.next_velocity(side, whole).data)
    np.testing.assert_array_equal(found.data, near_sides.normal_velocity(side, *near[:2], 1).data)
    for k in range(near_sides.INSIDE):
        found = near_sides.normal_velocity(side, *near[:2], k)
        np.testing.assert_array_equal(found.data, near_sides.normal_velocity(side, *whole[:2], k).data)


@pytest.mark.parametrize("k", [-1, 4])
def test_a_velocity_too_far_inside_is_one_sentence(k):
    with pytest.raises(ConfigError, match=rf"reads the velocity {k} cells inside its side; read 0 to 3\."):
        near_sides.normal_velocity(WEST, *flow()[:2], k)


@functools.partial(jit, static_argnums=2)
def passing(dynamics, state, side, velocity):
    """What passes a side of a sea at rest where both velocities are `velocity` everywhere [m s-1]."""
    equations = dynamics.prepare()
    flow = equations.flow(state, Time(0, dt=0.01, exact_dt=0.01)).state
    flow = [flow[name].map(jnp.zeros_like) + (velocity if name != "eta" else 0.0) for name in ("u", "v", "eta")]
    column = near_sides.cells_inside(equations.depth, side)
    return near_sides.passing_velocity(side, column, flow, equations, None).data


@pytest.mark.parametrize("side", [WEST, EAST, SOUTH, NORTH])
def test_what_passes_is_the_transport_of_the_next_faces_within_bounds(side):
    """Of a steady transport between two depths; outflow is bounded by waves, inflow by the velocity inside."""
    grid = sw.CartesianGrid(6, 6, (0.0, 6.0), (0.0, 6.0))
    out = -1.0 if side in (WEST, SOUTH) else 1.0
    place = {WEST: np.s_[:, 0], EAST: np.s_[:, -1], SOUTH: np.s_[0], NORTH: np.s_[-1]}[side]
    for at_side, velocity, expected in (
        (2.0, 0.2, 0.2 * 3.0 / 2.0),
        (8.0, 0.2, 0.2 * 6.0 / 8.0),
        (8.0, -0.2, -0.2 * 6.0 / 8.0),
        (2.0, -0.2, -0.2),
        (0.01, 0.2, np.sqrt(9.81 * 0.01)),
    ):
        depth = np.full((6, 6), 4.0)
        depth[place] = at_side
        model = sw.ShallowWater(grid, depth, communicator="serial", boundaries=sw.Flather(), least_thickness=0.0)
        found = passing(model.dynamics(sw.AB2(0.01)), model.at_rest(), side, out * velocity)
        np.testing.assert_allclose(np.asarray(found).ravel()[2:-2], expected, rtol=1e-6)


@pytest.mark.parametrize("side, longer", [(SOUTH, -1), (NORTH, 1)])
def test_what_passes_a_side_of_the_sphere_is_the_volume_through_faces_of_other_lengths(side, longer):
    grid = sw.SphericalGrid(6, 6, (0.0, 6.0), (40.0, 46.0))
    model = sw.ShallowWater(grid, 4.0, communicator="serial", boundaries=sw.Flather(), least_thickness=0.0)
    found = np.asarray(passing(model.dynamics(sw.AB2(0.01)), model.at_rest(), side, 0.2 * longer)).ravel()[2:-2]
    inner, outer = np.cos(np.deg2rad({SOUTH: (41.0, 40.0), NORTH: (45.0, 46.0)}[side]))
    np.testing.assert_allclose(found, 0.2 * inner / outer, rtol=1e-6)
