"""Nested grids: rest, volume, tracers, waves through borders, restarts, gradients, and what is refused."""

import datetime
import functools
import re
import types
from typing import Any

import jax
import jax.numpy as jnp
import netCDF4
import numpy as np
import pytest

import swmodel as sw
from swmodel.adjoint.controls.controls import controls_of
from swmodel.dynamics.cores import Discretisation
from swmodel.dynamics.forcing import WaterForcing
from swmodel.errors import BlowUp, ConfigError, DataError
from swmodel.fields.field import mean_x
from swmodel.fields.state import replace
from swmodel.nests.border import OuterValues
from swmodel.nests.edges import Edges, coarse, sums_along
from swmodel.nests.interpolation import interpolated
from swmodel.nests.nest import Place
from swmodel.nests.start import state_from_outer
from swmodel.nests.steps import FamilyLoop, integrate
from swmodel.output import earlier
from swmodel.output.resuming import opened
from swmodel.output.running import RestartOutput
from swmodel.output.zarr_store import ZarrStore
from swmodel.parallel.boxes import Boxes, Part
from swmodel.parallel.decomposition import Tile
from swmodel.stencils.expressions import cells_of
from swmodel.stencils.native import why_not
from swmodel.stepping.loop import step_loop
from tests.selection import later

from .. import nested
from ..transported import Content

WITH_COMPILER = pytest.mark.skipif(why_not() is not None, reason="no compiler")
FB = sw.ForwardBackward(dt=8.0)
WET = {"wetting": sw.WettingDrying(), "momentum": sw.MomentumConserving(), "coriolis": None}
TRACERS = nested.tracers()
EVERYWHERE = np.ones(nested.GRID.shape)
BASIN = ((12e3, 11e3), (15e3, 11e3), (15e3, 14e3), (12e3, 14e3), (12e3, 11e3))  # in the nest
LEVEES = sw.Levee(BASIN, 1.0), sw.Levee(((2e3, 0.0), (2e3, 30e3)), -1.0)  # the second one outside of it
SPONGE = sw.Sponge(("west",), width=12e3, rate=1e-3)


def largest(states, name):
    return max(float(np.abs(state[name]).max()) for state in states.values())


@pytest.mark.parametrize(
    "stepper, engine, tracers",
    [
        later(FB, "arrays", TRACERS),
        pytest.param(FB, "fused", TRACERS, marks=WITH_COMPILER),
        later(sw.AB2(dt=3.0), "arrays", ()),
        later(sw.AB2(dt=3.0), "arrays", TRACERS),
    ],
)
def test_volume_and_content_are_conserved_and_what_is_level_stays_over_random_depth_and_coasts(
    stepper, engine, tracers
):
    """A level surface stays level, a constant concentration constant, also where water passes gates."""
    family = nested.family(engine=engine, tracers=tracers, forcing=nested.GATES)
    simulation = sw.NestedSimulation(family, family.states(), stepper)
    simulation.run(steps=20)
    assert largest(simulation.states, "eta") == largest(simulation.states, "u") == 0.0
    for name, state in family.states(eta=nested.bump).items():
        simulation[name].state = state
    before, level = family.volume(simulation.states), largest(simulation.states, "eta")
    contents = {tracer.name: family.content(tracer.name, simulation.states) for tracer in tracers}
    simulation.run(steps=40)
    after = simulation.states
    assert 0.05 * level < largest(after, "eta") < level
    assert abs(family.volume(after) - before) < 1e-13 * abs(before)
    for name, content in contents.items():
        assert abs(family.content(name, after) - content) < 1e-13 * content
    assert not tracers or nested.largest_difference_from_one(family, after) < 1e-13


@pytest.mark.parametrize(
    "stepper, uplift, tracers, levees",
    [
        later(sw.SSPRK3(dt=20.0), 2.0, (), ()),
        (sw.ForwardBackwardHancock(dt=12.0), 2.0, (), ()),
        later(sw.ForwardBackwardHancock(dt=12.0), None, TRACERS[1:], LEVEES),
    ],
    ids=("stages", "one", "with a tracer, and water behind a levee"),
)
def test_water_at_rest_stays_on_shores_across_the_border_and_volume_is_conserved_but_for_cells_that_fall_dry(
    stepper, uplift, tracers, levees
):
    """Also while the bed rises: each grid, its frame and what it gives back have it at their own times."""
    slope = lambda x, y: 4.0 - 5.5 * x / 30e3 + np.sin(y / 2e3) * 0.5  # noqa: E731
    nest, times = sw.Nest("harbour", depth=slope, **nested.HARBOUR), stepper.dt * np.array([0.0, 5.0, 10.0])
    motion = None if uplift is None else sw.BottomMotion(times, np.multiply.outer([0.0, uplift, 0.0], EVERYWHERE))
    family = nested.family([nest], depth=slope, tracers=tracers, levees=levees, source=motion, **WET)
    assert [len(model.sea_floor.levees) for model in family.models.values()] == ([2, 1] if levees else [0, 0])
    simulation = sw.NestedSimulation(family, family.states(), stepper)
    start = simulation.states
    if uplift is not None:
        simulation.run(steps=3)
        for name, state in simulation.states.items():
            np.testing.assert_allclose(state.eta - start[name].eta, uplift * 3 / 5, rtol=0, atol=1e-9)
        assert largest(simulation.states, "u") < 1e-9
        simulation.run(steps=7)
        for name, state in start.items():  # the bed is where it was, and stays there
            simulation[name].state = state
    simulation.run(steps=10)
    for name, state in start.items():
        wet = np.asarray(state.eta + np.asarray(family.models[name].sea_floor.water)) > 1e-3
        assert np.abs(np.asarray(simulation.states[name].eta - state.eta)[wet]).max() < 1e-12
    assert largest(simulation.states, "u") < 1e-12
    for name, state in family.states(eta=lambda x, y: 0.3 * nested.bump(x, y)).items():
        simulation[name].state = state
    before = family.volume(simulation.states)
    x, y = family.models["harbour"].grid.coordinates("h")
    basin = (12e3 < x) & (x < 15e3) & (11e3 < y) & (y < 14e3)
    held = np.sum(np.asarray(simulation.states["harbour"].eta)[basin])
    simulation.run(steps=30)
    now = np.sum(np.asarray(simulation.states["harbour"].eta)[basin])
    assert abs(now - held) < 1e-12 * held if levees else abs(now - held) > 0.1 * held
    assert largest(simulation.states, "u") > 0.05
    # outer cells along the border that would give more than they have fall dry, which adds what was missing
    assert 0 <= family.volume(simulation.states) - before < 1e-6 * abs(before)
    assert not tracers or nested.largest_difference_from_one(family, simulation.states, 1e-3) < 1e-10


@WITH_COMPILER
def test_a_floor_that_rises_lifts_the_water_of_all_grids_and_leaves_it_at_rest_with_what_it_carries():
    """Each grid, its frame and what it gives back have the floor, and the thickness over it, at their own times."""
    times, rise = FB.dt * np.array([0.0, 5.0, 10.0]), np.array([0.0, 2.0, 7.0])
    motion = sw.BottomMotion(times, np.multiply.outer(rise, EVERYWHERE))
    family = nested.family(engine="fused", tracers=TRACERS[1:], source=motion)
    simulation = sw.NestedSimulation(family, family.states(), FB)
    for steps in (4, 3):
        simulation.run(steps=steps)
        for name, model in family.models.items():
            state, lifted = simulation.states[name], np.interp(simulation.time, times, rise)
            np.testing.assert_allclose(state.eta, lifted * model.wet, rtol=0, atol=1e-11)
            np.testing.assert_allclose(state.one, model.wet * model.sea_floor.water, rtol=1e-13)
        assert largest(simulation.states, "u") < 1e-11


@pytest.mark.verify
@pytest.mark.parametrize("engine", ["arrays", pytest.param("fused", marks=WITH_COMPILER)])
def test_layers_stay_at_rest_over_random_depth_and_each_keeps_its_volume_and_its_content(engine):
    """Also in a nest that starts later."""
    layers = sw.Layers((20.0,), (1020.0, 1025.0))
    nests = [sw.Nest("harbour", **nested.HARBOUR), sw.Nest("quay", start=80.0, **nested.QUAY)]
    family = nested.family(nests, layers=layers, tracers=TRACERS, engine=engine)
    level = {"eta": 0.37, "eta_2": -0.21}
    simulation = sw.NestedSimulation(family, family.states(**level), FB)
    simulation.run(steps=20)
    assert max(largest(simulation.states, name) for name in ("u", "v", "u_2", "v_2")) < 1e-12
    for name, state in simulation.states.items():
        for field, height in level.items():
            wet = family.models[name].wet
            np.testing.assert_allclose(np.asarray(state[field])[wet], height, rtol=0, atol=1e-12)
    moving = sw.NestedSimulation(family, family.states(eta=nested.bump, eta_2=lambda x, y: -5 * nested.bump(x, y)), FB)
    before = [family.volume(moving.states, layer) for layer in (0, 1)]
    moving.run(steps=9)
    assert "quay" not in moving.states
    moving.run(steps=30)
    after = moving.states
    assert largest(after, "u") > 0.01 and largest(after, "u_2") > 1e-3
    for layer, volume in enumerate(before):
        assert abs(family.volume(after, layer) - volume) < 1e-13 * abs(volume)
    columns = {
        name: family.models[name].system.columns(family.models[name].sea_floor.water, s) for name, s in after.items()
    }
    for name, state in after.items():
        wet = family.models[name].wet
        for (rest, excess), field in zip(columns[name], ("one", "one_2"), strict=True):
            concentration = np.asarray(state[field])[wet] / np.asarray(rest + excess)[wet]
            np.testing.assert_allclose(concentration, 1.0, rtol=0, atol=1e-12)
    contents = [family.content(name, after) for name in ("dye", "dye_2")]
    moving.run(steps=20)
    for name, content in zip(("dye", "dye_2"), contents, strict=True):
        assert abs(family.content(name, moving.states) - content) < 1e-13 * content


def test_the_frame_of_a_long_box_is_all_of_its_edge():
    place = Place((11, 15), (8, 22), 3, 3)
    (ny, nx), width, covered = place.nest_shape, place.width, np.zeros(place.nest_shape)
    tile = types.SimpleNamespace(j0=0, j1=ny, i0=0, i1=nx)
    for part in Edges(place, tile, tile).frame("h").here:
        covered[part.slices] = 1.0
    assert covered.sum() == ny * nx - (ny - 2 * width) * (nx - 2 * width) < ny * nx
    assert not covered[width:-width, width:-width].any()


@pytest.mark.parametrize("engine", ("arrays", "fused"))
@pytest.mark.parametrize("options, most", [({}, 1e-13), (WET, 2e-7)], ids=("fixed", "wetting"))
def test_a_symmetric_flow_stays_symmetric_in_a_nest(options, most, engine):
    """The normal velocity on the western and southern border alone was that of the outer grid: 6 % of asymmetry.

    The scheme of a moving shore is asymmetric by 1.7e-7 here without a nest, too.
    """
    grid = sw.CartesianGrid(24, 24, (0.0, 24e3), (0.0, 24e3))
    nest = sw.Nest("harbour", x=(8e3, 16e3), y=(8e3, 16e3), ratio=3)
    family = sw.Family(grid, 20.0, [nest], engine=engine, dtype="float64", communicator="serial", **options)
    starts = family.states(eta=lambda x, y: np.exp(-(np.hypot(x - 12e3, y - 12e3) ** 2) / 3e3**2))
    for state in sw.NestedSimulation(family, starts, FB if not options else sw.SSPRK3(dt=20.0)).run(steps=20).values():
        eta = np.asarray(state.eta)
        for turned in (eta[::-1], eta[:, ::-1], eta.T):
            np.testing.assert_allclose(turned, eta, rtol=0, atol=most)


@pytest.mark.parametrize("row, column", [(5, 7), (6, 6), (7, 11), (3, 20)])
def test_sums_along_a_border_are_those_of_one_tile_where_tiles_cut_outer_cells(row, column):
    """Of tiles that meet at any row and column of the nest, some of which have nothing of a side."""
    sides = [((2, 3), (1, 12)), ((11, 3), (1, 12)), ((3, 2), (9, 1)), ((3, 14), (9, 1))]
    ratios = 2 * [(1, 3)] + 2 * [(3, 1)]
    rows, columns = ((0, row), (row, 14)), ((0, column), (column, 17))
    tiles = [Tile(*down, *across) for down in rows for across in columns]
    boxes = [Boxes(tuple((Part.of(*side, tile),) for side in sides)) for tile in tiles]
    values = jnp.asarray(np.random.default_rng(0).standard_normal((2, 42)))
    parts = [coarse(each, ratios).whole(sums_along(each.of_tile(values), each, 3)) for each in boxes]
    np.testing.assert_allclose(sum(parts), values.reshape(2, 14, 3).sum(2), rtol=0, atol=1e-14)


@pytest.mark.parametrize("ratio", (later(2), 3, 6))
def test_frames_take_linear_fields_exactly(ratio):
    """At the western and southern ends of the frame velocities were those of the next outer face."""
    family = nested.family([sw.Nest("harbour", **nested.HARBOUR | {"ratio": ratio})], stages=1)
    (border,), place = family.borders, family.places["harbour"]

    def fields(shape, cells, corner=(0, 0)):
        """{position: a field that is linear in the outer grid's coordinates, there in a grid of these cells}."""
        y, x = (np.arange(1.0, n + 1) / cells + first for n, first in zip(shape, corner, strict=True))
        shifts = {"h": (0.5, 0.5), "u": (0.5, 0.0), "v": (0.0, 0.5)}
        return {at: jnp.add.outer(2.0 * (y - dy / cells), 3.0 * (x - dx / cells)) for at, (dy, dx) in shifts.items()}

    outer, nest = fields(nested.GRID.shape, 1), fields(place.nest_shape, ratio, place.corner)
    flow = OuterValues(cells_of(jnp.stack([*outer.values()]), border.edges.ring.strips), None)
    (found,) = replace(border, factors=jnp.ones_like(border.factors)).in_frame(flow)
    expected = [cells_of(nest[at], border.edges.frame(at).strips) for at in "huv"]
    np.testing.assert_allclose(found, np.concatenate(expected), rtol=1e-12)


@pytest.mark.parametrize("engine", (later("arrays"), "fused"))
def test_files_of_a_nest_have_outer_values_in_the_frame(engine, tmp_path):
    """Each step leaves errors there, as the nest has no sides; the largest elevations of all steps had them, too."""
    nest = sw.Nest("harbour", two_way=False, **nested.HARBOUR)
    family = nested.family([nest], depth=100.0, engine=engine, coriolis=None)
    simulation = sw.NestedSimulation(family, family.states(eta=nested.bump), FB)
    simulation["harbour"].maxima(tmp_path / "maxima.nc")
    highest, place = 0.0, family.places["harbour"]
    (j, i), (ny, nx), ratio = place.corner, place.shape, place.ratio
    for _ in range(12):
        states = simulation.run(steps=1)
        around = np.asarray(states[""].eta)[j - 1 : j + ny + 1, i - 1 : i + nx + 1]
        expected = interpolated(around, ratio)[ratio:-ratio, ratio:-ratio]
        found, frame = np.asarray(states["harbour"].eta), np.kron(~place.covered, np.ones((ratio, ratio))) > 0
        np.testing.assert_allclose(found[frame], expected[frame], rtol=0, atol=1e-14)
        highest = np.maximum(highest, found)
    with netCDF4.Dataset(tmp_path / "maxima.nc") as file:
        largest = np.ma.filled(file["maximum_elevation"][:], 0.0)
    assert np.abs(largest - highest)[frame].max() < 0.02 * highest[frame].max()  # it has the steps in between, too


@pytest.mark.verify
@pytest.mark.parametrize(
    "options, stepper, frames", [(WET, sw.ForwardBackwardHancock, [5, 2]), ({}, sw.ForwardBackward, [2, 1])]
)
def test_a_frame_for_steps_of_one_stage_is_narrower_and_the_flow_is_the_same(options, stepper, frames):
    """Cells of the frame that no step reads change nothing; steps of three stages read more than it has."""
    wide, narrow = (nested.family([sw.Nest("harbour", **nested.HARBOUR)], stages=n, **options) for n in (3, 1))
    assert [one.places["harbour"].frame for one in (wide, narrow)] == frames
    ends = [nested.final(one, stepper(dt=4.0), 8, eta=nested.bump) for one in (wide, narrow)]
    for grid in ends[0]:
        boxes = [((0, None),) * 2 if not grid else one.places[grid].nest_box for one in (wide, narrow)]
        inside = [
            np.asarray(end[grid].eta)[slice(*rows), slice(*columns)]
            for (rows, columns), end in zip(boxes, ends, strict=True)
        ]
        np.testing.assert_allclose(*inside, rtol=0, atol=1e-12)
    if options:
        reads = "reads 15 cells around each in the nest 'harbour', and its frame is 6 cells"
        with pytest.raises(ConfigError, match=reads):
            nested.final(narrow, sw.SSPRK3(dt=4.0), 1)


class Wide(sw.Term):
    """A term that reads four cells on either side."""

    rate: Any = sw.parameter("h", "s-1", minimum=0.1, maximum=0.5)

    def __call__(self, flow, time):
        far = functools.reduce(lambda x, _: mean_x(x), range(8), flow.u)
        return -sw.to_u(self.rate) * (flow.u - far), 0.0


@pytest.mark.parametrize(
    "stepper, options, width",
    [
        (sw.SSPRK3(dt=4.0), {"dissipation": sw.BiharmonicSmagorinsky(2.0)}, 9),
        later(sw.SSPRK3(dt=4.0), {"dissipation": Wide(lambda x, y: 0.2 + 0.0 * x * y)}, 12),
        later(sw.RK4(dt=4.0), {"momentum": sw.ArakawaLamb(), "tracers": TRACERS[1:]}, 9),
        (FB, {"forcing": Wide(0.1)}, 6),
        later(sw.RK4(dt=4.0), {"dissipation": sw.BiharmonicLeith(2.0)}, 12),
    ],
)
def test_the_frame_has_the_cells_that_terms_and_stages_read(stepper, options, width):
    """More cells change nothing in the box, and fewer would, as a nest of more stages than it was made for."""
    nest = sw.Nest("harbour", **nested.HARBOUR)
    family, wider = (nested.family([nest], stages=stepper.stages + n, depth=100.0, **options) for n in (0, 1))
    assert family.places["harbour"].width == width < wider.places["harbour"].width
    ends = [nested.final(one, stepper, 4, eta=nested.bump) for one in (family, wider)]
    inside = [
        np.asarray(end["harbour"].u)[slice(*rows), slice(*columns)]
        for end, (rows, columns) in ((end, one.places["harbour"].nest_box) for end, one in zip(ends, (family, wider)))
    ]
    assert np.abs(inside[0]).max() > 1e-3
    np.testing.assert_allclose(*inside, rtol=0, atol=1e-13)


@pytest.mark.parametrize(
    "engine, stepper",
    [
        ("arrays", FB),
        pytest.param("fused", sw.AB2(dt=2.0), marks=WITH_COMPILER),
        later("arrays", sw.AB2(dt=2.0)),
        pytest.param("fused", FB, marks=[WITH_COMPILER, pytest.mark.verify]),
    ],
)
def test_what_passes_the_faces_along_a_border_changes_the_elevation_there(engine, stepper):
    """In each cell on the border by minus its divergence; the second step of AB2 takes part of the first one's."""
    family = nested.family([sw.Nest("harbour", **nested.HARBOUR)], engine=engine)
    model, place = family.outer, family.places["harbour"]
    (south, north), (west, east) = place.rows, place.columns
    dynamics, state = model.interval(model.halo(stepper), 0, 2.0), model.state(eta=nested.bump)

    def two_steps(state):
        loop = step_loop(dynamics, stepper)
        carry, _ = loop.counted_step(loop.start(state), 0)
        after, passed = loop.counted_step(carry, 1)
        return loop.get_state(carry), loop.get_state(after), passed

    before, after, passed = jax.jit(two_steps)(state)
    assert after.names == model.at_rest().names
    along_x = np.split(np.asarray(passed["passed-x-0"]), 2)
    along_y = np.split(np.asarray(passed["passed-y-0"]), 2)
    metrics = model.grid.metrics(np.arange(1))
    dx, dy = (float(np.ravel(metrics[name])[0]) for name in ("dx_v", "dy_u"))
    gained = (along_x[0].sum() - along_x[1].sum()) * dy + (along_y[0].sum() - along_y[1].sum()) * dx
    rise = np.asarray(after.eta - before.eta)[south:north, west:east].sum() * dx * dy
    assert abs(gained) > 1.0 and gained == pytest.approx(rise, rel=1e-11)


def test_a_nest_that_is_not_two_way_leaves_the_outer_grid_alone():
    """Also below a wind that changes at records, with which each interval of steps begins."""
    gusts = sw.FunctionOfTime(lambda x, y, t: 0.3 * np.sin(0.1 * t) + 0.0 * (x + y), 20 * FB.dt, every=2 * FB.dt)
    options = {"coriolis": sw.FPlane(1e-4), "engine": "arrays", "forcing": sw.WindStress(x=gusts)}
    alone = sw.ShallowWater(nested.GRID, nested.depth(), **options)
    expected = sw.Simulation(alone, alone.state(eta=nested.bump), FB).run(steps=20)
    family = nested.family([sw.Nest("harbour", two_way=False, **nested.HARBOUR)], **options)
    after = nested.final(family, FB, 20, eta=nested.bump)
    for name, field in expected:
        np.testing.assert_allclose(after[""][name], field, rtol=0, atol=1e-15)
    coarse = np.asarray(after["harbour"].eta).reshape(14, 3, 15, 3).mean((1, 3))
    box, wet = (slice(6, 20), slice(7, 22)), nested.depth()[6:20, 7:22] > 0
    both = np.corrcoef(coarse[wet], np.asarray(expected.eta)[box][wet])[0, 1]
    assert both > 0.9


@pytest.mark.verify
def test_waves_cross_the_border_and_little_is_reflected():
    """A wave of 16 cells leaves a nest over a flat bottom; what differs from the run without a nest is small, though
    not 0, since the finer grid carries waves more exactly."""
    wave = lambda x, y: np.exp(-(((x - 15e3) ** 2 + (y - 13e3) ** 2) / 4e3**2))  # noqa: E731
    nest = sw.Nest("harbour", **nested.HARBOUR)
    family = nested.family([nest], depth=100.0, coriolis=None)
    after = nested.final(family, FB, 40, eta=wave)[""].eta
    alone = sw.ShallowWater(nested.GRID, 100.0, engine="arrays")
    expected = sw.Simulation(alone, alone.state(eta=wave), FB).run(steps=40).eta
    outside = np.ones(expected.shape, bool)
    outside[8:18, 9:20] = False
    assert np.abs(np.asarray(after - expected))[outside].max() < 0.04 * np.abs(np.asarray(expected)).max()
    assert np.abs(np.asarray(after - expected)).max() > 0


@pytest.fixture(scope="module")
def with_dye():
    return nested.family([sw.Nest("harbour", **nested.HARBOUR)], tracers=TRACERS[:1])


def with_files(family, stepper, folder):
    """A NestedSimulation whose grids have restarts, gauges, and fields every 6 and 9 outer steps and in between."""
    simulation = sw.NestedSimulation(family, family.states(eta=nested.bump), stepper, overwrite=True)
    for name in family.names:
        own, total = simulation[name], family.total_steps(name)
        own.restart(folder / f"restart_{name}.nc")
        for every in (6 * total, 9 * total, *([total + 1] if name else [])):
            own.write(folder / f"fields_{name}_{every}.nc", ("eta",), every=every * own.dt)
    simulation["harbour"].gauges(folder / "gauges.nc", {"inside": (13.2e3, 13.1e3)}, variables=("eta", "dye"))
    return simulation


AB2 = sw.AB2(dt=2.0)


@pytest.mark.parametrize("stepper", [later(FB), AB2], ids=("states", "tendencies"))
def test_a_restart_continues_bit_for_bit(with_dye, stepper, tmp_path):
    """Also where the history holds what has passed the borders in the step before."""
    paths = {name: tmp_path / f"restart_{name}.nc" for name in with_dye.names}

    def run(steps, resumed=None):
        simulation = with_files(with_dye, stepper, tmp_path)
        if resumed:
            simulation.resume(paths)
        return simulation.run(steps=steps)

    simulation = sw.NestedSimulation(with_dye, with_dye.states(), stepper)
    for named, message in (({"harbour": "a.nc"}, "the outermost grid, '', has no"), ({"bay": "a.nc"}, "no grid 'bay'")):
        with pytest.raises(ConfigError, match=message):
            simulation.resume(named)
    whole = run(12)
    run(6)
    before = {name: path.read_bytes() for name, path in paths.items()}
    run(3, resumed=True)
    paths[""].write_bytes(before[""])  # as after a kill between the restarts of nests and this one
    earlier(paths["harbour"]).write_bytes(before["harbour"])
    resumed = run(6, resumed=True)
    for name, state in whole.items():
        for field, values in state:
            np.testing.assert_array_equal(values, resumed[name][field])
    with netCDF4.Dataset(tmp_path / "gauges.nc") as file:
        np.testing.assert_allclose(np.diff(file["time"][:]), stepper.dt / with_dye.total_steps("harbour"))
        assert 0.5 < file["dye"][:].min() < file["dye"][:].max() < 1.0  # concentrations, near the top of the bump


class Killed(BaseException):
    """In the place of SIGKILL."""


@pytest.mark.parametrize("killed_at, kind", [(4, "zarr"), (6, "nc"), later(4, "nc"), later(6, "zarr")])
def test_a_run_killed_between_the_restarts_of_two_grids_continues_from_those_of_one_time(
    with_dye, kind, killed_at, tmp_path, monkeypatch
):
    """Before the second or the third restart of the outermost grid, when that of the nest has been written."""
    paths = {name: tmp_path / f"restart_{name}.{kind}" for name in with_dye.names}

    def run(until, resumed=False):
        simulation = sw.NestedSimulation(with_dye, with_dye.states(eta=nested.bump), AB2, overwrite=True)
        for name, path in paths.items():
            simulation[name].restart(path, every=4.0)
        if resumed:
            simulation.resume(paths)
            assert simulation.outer.step == killed_at - 2
        return simulation.run(until=until)

    whole, write = run(16.0), RestartOutput.write

    def killing(output, simulation):
        if not simulation.nest and simulation.step == killed_at:
            raise Killed
        write(output, simulation)

    with monkeypatch.context() as patched:
        patched.setattr(RestartOutput, "write", killing)
        with pytest.raises(Killed):
            run(16.0)
    assert opened(paths["harbour"]).scalars["step"] == killed_at * with_dye.total_steps("harbour")
    assert earlier(paths["harbour"]).exists()
    resumed = run(16.0, resumed=True)
    assert not list(tmp_path.glob(".*")), "a run that ends as it should leaves no restart of an earlier time"
    for name, state in whole.items():
        for field, values in state:
            np.testing.assert_array_equal(values, resumed[name][field])


@pytest.mark.parametrize(
    "make, message",
    [
        (lambda nest: sw.Family(nested.GRID, 100.0, nest), "nests = .* is not a list"),
        (lambda nest: sw.Family(nested.GRID, 100.0, (each for each in [nest])), "nests = .* is not a list"),
        (lambda nest: sw.Family(nested.GRID, 100.0, ["harbour"]), r"nests\[0\] = 'harbour' is a name"),
        (lambda nest: sw.Family(nested.GRID, 100.0, [nest], stages=0), "stages = 0 is less than 1"),
        (lambda nest: sw.Nest("harbour", start=datetime.timedelta(minutes=1), **nested.HARBOUR), "is not a number"),
        (lambda nest: sw.Nest("harbour", options=[1], **nested.HARBOUR), r"options = \[1\] is not a dict"),
        (
            lambda nest: nested.family([sw.Nest("harbour", options={"depth": 1.0}, **nested.HARBOUR)]),
            "depth = 1.0 in the nest 'harbour': depth is an argument of its own",
        ),
    ],
)
def test_arguments_of_other_types_are_refused_in_a_sentence(make, message):
    with pytest.raises(ConfigError, match=message):
        make(sw.Nest("harbour", **nested.HARBOUR))


def test_grids_of_a_family_are_run_and_resumed_together_alone(with_dye, tmp_path):
    states = with_dye.states()
    for wrong in ({"": states[""]}, states[""], states | {"bay": states[""]}):
        with pytest.raises(ValueError, match="NestedSimulation: state is not a dict of one State for each grid"):
            sw.NestedSimulation(with_dye, wrong, AB2)
    with pytest.raises(ConfigError, match=r"family = .* give an object, as Family\(grid, depth, nests\)"):
        sw.NestedSimulation(with_dye.outer, states, AB2)
    simulation = sw.NestedSimulation(with_dye, states, AB2)
    for name in with_dye.names:
        with pytest.raises(ConfigError, match="one of several nested grids; call NestedSimulation.run"):
            simulation[name].run(steps=1)
    with pytest.raises(ConfigError, match="is not a dict of one restart for each grid"):
        simulation.resume("sea.nc")
    simulation[""].restart(tmp_path / "sea.nc")
    simulation.run(steps=1)
    again = sw.NestedSimulation(with_dye, states, AB2)
    again.outer.resume(tmp_path / "sea.nc")
    with pytest.raises(ConfigError, match="the nest 'harbour' is at 0 s, and the outermost grid at 2 s"):
        again.run(steps=1)


def test_a_depth_that_a_small_box_never_reaches_is_warned_of(caplog):
    for x, warned in (((9e3, 15e3), True), ((9e3, 16e3), False)):
        caplog.clear()
        nested.family([sw.Nest("harbour", depth=30.0, **nested.HARBOUR | {"x": x})], depth=100.0)
        assert ("has its own depth in no outer cell of its box of 6 x 10" in caplog.text) == warned


@pytest.mark.verify
def test_a_run_killed_before_the_first_restart_of_a_nest_replaces_its_files(tmp_path, monkeypatch):
    """They are computed again, unless the run ends before them or has changed."""
    family = nested.family([sw.Nest("harbour", start=8.0, **nested.HARBOUR)])
    paths = {name: tmp_path / f"restart_{name}.nc" for name in family.names}

    def simulation(stepper=AB2, **options):
        simulation = sw.NestedSimulation(family, family.states(eta=nested.bump), stepper, **options)
        for name, path in paths.items():
            simulation[name].restart(path, every=8.0)
        simulation["harbour"].write(tmp_path / "harbour.nc", ("eta",), every=2.0)
        return simulation

    def killing(output, simulation):
        if not simulation.nest and simulation.step == 8:
            raise Killed
        write(output, simulation)

    write = RestartOutput.write
    with monkeypatch.context() as patched:
        patched.setattr(RestartOutput, "write", killing)
        with pytest.raises(Killed):
            simulation().run(steps=12)
    assert paths["harbour"].exists()
    for options, steps in (({}, 2), ({"stepper": sw.AB2(dt=1.0)}, 12)):
        again = simulation(**options)
        again.resume({"": paths[""]})
        with pytest.raises(DataError, match="harbour.nc exists already, and would be lost when the nest 'harbour'"):
            again.run(steps=steps)
    again = simulation(overwrite=False)
    again.resume({"": paths[""]})
    again.run(steps=8)
    with netCDF4.Dataset(tmp_path / "harbour.nc") as file:
        np.testing.assert_allclose(file["time"][:], np.arange(8.0, 25.0, 2.0))


def test_a_nest_that_was_two_way_continues_as_another_by_force_alone(with_dye, tmp_path):
    simulation = with_files(with_dye, AB2, tmp_path)
    simulation.run(steps=1)
    paths = {name: tmp_path / f"restart_{name}.nc" for name in with_dye.names}
    other = nested.family([sw.Nest("harbour", two_way=False, **nested.HARBOUR)], tracers=TRACERS[:1])
    again = sw.NestedSimulation(other, other.states(), AB2)
    with pytest.raises(ConfigError, match="nest.two_way is True in the restart and False in the experiment"):
        again.resume(paths)
    again.resume(paths, force="nest.two_way")


def test_a_nest_continues_with_another_start_or_not_at_all_by_force_alone(with_dye, tmp_path):
    """It would have been ignored, and its restart lost, if the start were moved beyond the restart."""
    with_files(with_dye, AB2, tmp_path).run(steps=1)
    paths = {name: tmp_path / f"restart_{name}.nc" for name in with_dye.names}
    for nests, message in (
        ([sw.Nest("harbour", start=600.0, **nested.HARBOUR)], "is 0 in the restart and 600 in the experiment"),
        ([], r"\(0\) is in the restart and not in the experiment"),
    ):
        other = nested.family(nests, tracers=TRACERS[:1])
        again = sw.NestedSimulation(other, other.states(), AB2)
        there = {name: paths[name] for name in other.names}
        with pytest.raises(DataError, match=f"nest.harbour.start {message}"):
            again.resume(there)
        again.resume(there, force="nest.harbour.start")
    other = nested.family([sw.Nest("quay", **nested.HARBOUR)], tracers=TRACERS[:1])
    with pytest.raises(ConfigError, match="'quay' has no restart, and .* is of 2 s, after its start; name one of each"):
        sw.NestedSimulation(other, other.states(), AB2).resume({"": paths[""]}, force="nest")


def test_records_are_the_states_of_their_steps_on_every_grid(with_dye, tmp_path):
    """Records of two grids, 6 and 9 outer steps apart, end parts of one chunk; others are within steps of the nest."""
    run, parts = with_files(with_dye, AB2, tmp_path), tmp_path / "parts"
    run.outer.pace.steps = 19  # all in one chunk
    run.run(steps=19)
    parts.mkdir()
    again = with_files(with_dye, AB2, parts)
    states = {0: again.states} | {step: again.run(steps=3) for step in range(3, 19, 3)}
    records = 0
    for path in tmp_path.glob("fields_*.nc"):
        _, name, _ = path.stem.split("_")
        with netCDF4.Dataset(path) as dataset:
            time, eta = dataset["time"][:] / AB2.dt, dataset["eta"][:]
        for k in np.flatnonzero(np.abs(time / 3 - np.round(time / 3)) < 1e-9):
            expected = np.asarray(states[round(time[k])][name].eta)
            np.testing.assert_array_equal(eta[k].filled(0), expected.astype(eta.dtype), err_msg=path.name)
            records += 1
    assert records > 12


@pytest.mark.parametrize("grid", [later(""), "harbour"])
def test_all_grids_write_what_was_before_a_blow_up_in_one_of_them(grid, tmp_path):
    """A storm that blows over one grid drives its water from a coast, within a chunk of steps."""
    storm = {"forcing": sw.WindStress(x=6e3)}
    nest = sw.Nest("harbour", two_way=False, options={"forcing": ()} if not grid else storm, **nested.HARBOUR)
    family = nested.family([nest], **({} if grid else storm))
    simulation = sw.NestedSimulation(family, family.states(), FB)
    for name in family.names:
        simulation[name].gauges(tmp_path / f"gauges_{name}.nc", {"inside": (13.2e3, 13.1e3)})
        simulation[name].write(tmp_path / f"fields_{name}.nc", ("eta",), every=2 * FB.dt)
    simulation.outer.pace.steps = 200  # all in one chunk
    with pytest.raises(
        BlowUp, match="In the nest 'harbour': The run stopped at" if grid else "^The run stopped"
    ) as stop:
        simulation.run(steps=200)
    valid = int(str(stop.value).split("stopped at step ")[1].split()[0]) - 1
    for name in family.names:
        last, dt = valid * family.total_steps(name) // family.total_steps(grid), simulation[name].dt
        with netCDF4.Dataset(tmp_path / f"gauges_{name}.nc") as gauges:
            np.testing.assert_allclose(gauges["time"][:], dt * np.arange(last + 1))
            assert np.isfinite(gauges["eta"][:]).all()
        with netCDF4.Dataset(tmp_path / f"fields_{name}.nc") as fields:
            np.testing.assert_allclose(fields["time"][:], np.arange(0.0, dt * last + 1e-6, 2 * FB.dt))


@pytest.mark.parametrize("steps", [40, 200])
def test_a_file_of_a_nest_that_cannot_be_written_leaves_those_of_the_other_grids_complete(steps, with_dye, tmp_path):
    """Its disk is full at the end of the first of two chunks, or at the end of the run."""
    simulation = with_files(with_dye, AB2, tmp_path)
    simulation[""].gauges(tmp_path / "outer.nc", {"inside": (3.2e3, 3.1e3)})
    gauges = next(x for x in simulation["harbour"].outputs if x.path.name == "gauges.nc")

    def full(*_):
        raise DataError("the disk is full.")

    at_end, gauges.flush = steps == 40, lambda: None
    setattr(gauges, "finish" if at_end else "chunk", lambda one, *_: gauges.submit(full))
    with pytest.raises(DataError, match="the disk is full"):
        simulation.run(steps=steps)
    last = simulation.outer.step
    assert (last == steps) == at_end
    with netCDF4.Dataset(tmp_path / "outer.nc") as file:
        np.testing.assert_allclose(file["time"][:], AB2.dt * np.arange(last + 1))
    again = sw.NestedSimulation(with_dye, with_dye.states(), AB2)
    again.resume({name: tmp_path / f"restart_{name}.nc" for name in with_dye.names})
    assert again.outer.step == last


@pytest.mark.verify
@WITH_COMPILER
@pytest.mark.usefixtures("large_tiles")
def test_steps_of_a_nest_in_fused_loops_copy_no_field():
    """But for what the loops themselves overwrite, from one step in which all buffers have their roles to the next."""
    family = nested.family([sw.Nest("harbour", **nested.HARBOUR)], engine="fused")
    dynamics, states = family.dynamics(FB), tuple(family.states(eta=nested.bump).values())

    def period(dynamics, carry):
        loop = FamilyLoop(dynamics, FB)
        return loop.steps(carry, jnp.int32(0), loop.period)[0]

    carry = jax.eval_shape(lambda dynamics, states: FamilyLoop(dynamics, FB).start(states), dynamics, states)
    text = jax.jit(period, donate_argnums=1).lower(dynamics, carry).compile().as_text()
    for state, history in carry:
        assert state.names == history.values[0].names == ("u", "v", "eta")
        shape = ",".join(map(str, state.eta.shape))
        assert f"f64[{shape}]" in text
        assert not re.findall(rf"f64\[{shape}\]\S* copy\(", text)


def test_derivatives_of_integrate():
    """Adjoint and tangent agree, and the cost's remainder falls with the square of the perturbation."""
    family = nested.family([sw.Nest("harbour", **nested.HARBOUR)])
    states = tuple(family.states(eta=nested.bump).values())
    dynamics = family.dynamics(FB)
    random = np.random.default_rng(1)
    weights = [jnp.asarray(random.standard_normal(state.eta.shape)) for state in states]
    change = tuple(state.map(lambda x: jnp.asarray(random.standard_normal(x.shape))) for state in states)
    change = tuple(
        c.replace(**{name: x * masks_of(model)[c.positions[name]] for name, x in c})
        for c, model in zip(change, family.models.values())
    )

    def cost(states):
        after = integrate(dynamics, states, 4)
        return sum(jnp.sum(w * s.eta**2) for w, s in zip(weights, after))

    def at(h):
        """The cost and its slope, `h` times the change away."""
        return jax.jvp(lambda h: cost(jax.tree.map(lambda x, d: x + h * d, states, change)), (h,), (1.0,))

    gradient, at = jax.jit(jax.grad(cost))(states), jax.jit(at)
    along = sum(float(jnp.vdot(a, b)) for a, b in zip(jax.tree.leaves(gradient), jax.tree.leaves(change)))
    value, forward = map(float, at(0.0))
    assert abs(along - forward) < 1e-11 * abs(along)
    first, second = (abs(float(at(h)[0]) - value - h * along) for h in (1e-3, 5e-4))
    assert 3.5 < first / second < 4.5


def test_a_box_may_have_longitudes_of_the_other_convention():
    pacific = sw.SphericalGrid(40, 40, (170.0, 210.0), (-20.0, 20.0))
    box = sw.Nest("n", (178.0, 187.0), (-4.0, 4.0))
    assert sw.Nest("n", (-182.0, -173.0), (-4.0, 4.0)).place(pacific, 6) == box.place(pacific, 6)
    with pytest.raises(ConfigError, match="the nest 'n' reaches across the ends of the grid's longitudes, 170 and 210"):
        sw.Nest("n", (-160.0, 178.0), (-4.0, 4.0)).place(pacific, 6)


@pytest.mark.parametrize("engine", [later("arrays"), pytest.param("fused", marks=WITH_COMPILER)])
def test_a_nest_across_the_seam_of_a_globe_is_that_on_a_globe_which_begins_elsewhere(engine, tmp_path):
    """With a source, a river, tracers, functions of longitude, and a nest in the nest that starts later."""
    ends = {}
    for west in (-180.0, 0.0):
        family = nested.globe(west, engine=engine)
        assert [family.finest((x, 1.0)) for x in (1.0, 359.0, -18.0, 100.0)] == ["inner", "inner", "outer", ""]
        simulation = sw.NestedSimulation(family, family.states(eta=nested.hump), sw.ForwardBackward(dt=300.0))
        simulation["outer"].gauges(tmp_path / f"{west}.nc", {"east": (12.0, -13.0), "west": (-12.0, 13.0)})
        before = [family.volume(simulation.states), family.content("dye", simulation.states)]
        simulation.run(steps=3)
        after = [family.volume(simulation.states), family.content("dye", simulation.states)]
        ends[west] = simulation.run(steps=3)
        assert after[0] - before[0] == pytest.approx(900.0 * 1e3, rel=1e-3)  # of the river
        assert after[1] == pytest.approx(before[1], rel=1e-12)
    for name, state in ends[0.0].items():
        for field, values in state:
            expected = np.asarray(ends[-180.0][name][field])
            turned = np.roll(values, 24 * (not name), axis=1)
            np.testing.assert_allclose(turned, expected, rtol=0, atol=1e-13 * np.abs(expected).max(), err_msg=field)
    assert set(ends[0.0]) == {"", "outer", "inner"} and float(ends[0.0]["inner"].eta.max()) > 0.3
    series = [netCDF4.Dataset(tmp_path / f"{west}.nc")["eta"][:] for west in ends]
    np.testing.assert_allclose(*series, rtol=0, atol=1e-12)
    with pytest.raises(ConfigError, match="must leave 8 cells of the outer grid's circle; shrink it"):
        sw.Nest("belt", (0.0, 340.0), (-20.0, 20.0)).place(family.outer.grid, 9)


class Still(Discretisation):
    """A core of one's own, under which nothing changes; what passes borders is not counted."""

    def tendency(self, equations, state, time):
        return state.map(jnp.zeros_like)

    def not_called(self, *_):
        raise AssertionError

    parts = describe = check_parts = modes = not_called


def masks_of(model):
    return {at: np.asarray(model.sea_floor.mask(at), float) for at in "uvh"}


@pytest.mark.parametrize(
    "nests, options, message",
    [
        ([{"x": (1e3, 20e3)}], {}, "must keep 3 cells away from the ends"),
        ([{"x": (9e3, 11e3)}], {}, "make the box wider"),
        ([{}, {"name": "other"}], {}, "overlap, or lie next to each other"),
        ([{}, {}], {}, "two nests have the name 'harbour'"),
        ([{"inside": "bay"}], {}, "no nest before it has this name"),
        ([{}], {"depth": lambda x, y: np.where(x < 8e3, 10.0, 0.0)}, "lies on land alone"),
        ([{"options": {"boundaries": sw.Flather()}}], {}, "in the nest 'harbour': all grids have that"),
        ([{}], {"core": sw.PseudoSpectral()}, "nests have finite differences alone"),
        ([{}], {"core": Still()}, "nests have finite differences alone"),
        ([{}], {"dissipation": SPONGE}, "nests would have it along sides of their own; give it in boundaries"),
        ([{}], {"forcing": sw.Flather()}, "nests would have it along sides of their own; give it in boundaries"),
        (  # an array that fits the nest as well
            [{}, {"name": "alike", "x": (2e3, 8e3), "y": (19e3, 23e3), "ratio": 3}],
            {"dissipation": sw.LinearDrag(1e-5 * EVERYWHERE)},
            "LinearDrag.rate is an array of the outermost grid's 26 x 30 cells, and the nest 'harbour' has others",
        ),
        ([{}], {"forcing": sw.WindStress(x=sw.Records([0.0, 9.0], np.stack([EVERYWHERE] * 2)))}, "WindStress.x is an"),
        (
            [{"options": {"tracers": ()}}],
            {"tracers": sw.Tracer("dye")},
            "are none, and those of the outermost grid dye",
        ),
        ([{}], {"tracers": Content()}, "Content has no method `fluxes`, which nests need"),
        (
            [{}],
            {**WET, "levees": sw.Levee(((5e3, 10e3), (15e3, 10.5e3)), 1.0, "dike")},
            "'dike' comes nearer than a cell of the outer grid to the border of the nest 'harbour'",
        ),
        (
            [{"options": {"layers": sw.Layers((9.0,), (1.0, 2.0))}}],
            {},
            "layers = .* in the nest 'harbour': all grids have that of the outermost one",
        ),
        *(
            ([{"options": {key: value}}], {}, f"{key} = .* in the nest 'harbour': all grids have that of the outermost")
            for key, value in (("gravity", 1.0), ("linear", True), ("coriolis", sw.FPlane(2e-4)), ("layout", (1, 1)))
        ),
        (
            [{}],
            {"forcing": (sw.Rain(1e-6), sw.Pump((15.5e3, 9.5e3), (25.5e3, 9.5e3), 1.0))},
            "forcing.1, Pump: some of its cells are in the box of the nest 'harbour' and others are not",
        ),
        (  # the nest's nearest water is in its frame
            [{"depth": lambda x, y: np.where((9e3 < x) & (x < 10e3), 0.0, 10.0)}],
            {"forcing": sw.River(1.0, (9.2e3, 12.5e3)), "depth": 10.0},
            "forcing.0, River: some of its cells are in the box of the nest 'harbour' and others are not",
        ),
    ],
)
def test_what_a_family_cannot_be_is_refused(nests, options, message):
    made = [sw.Nest(**({"name": "harbour"} | nested.HARBOUR | nest)) for nest in nests]
    with pytest.raises(ConfigError, match=message):
        nested.family(made, **options)


def test_a_nest_has_the_gates_and_rivers_that_lie_in_it_under_their_numbers():
    """So a control changes the same gate in all grids."""
    sea, mouths = sw.River(1.0, (2.5e3, 3.5e3)), sw.River(1.0, [(12.5e3, 12.5e3), (13.5e3, 12.5e3)])
    family = nested.family(forcing=(*nested.GATES, sea, sw.Rain(1e-6), mouths), depth=100.0)
    assert family.models["quay"].part_names == family.outer.part_names
    every = [f"forcing.{k}" for k in range(7)]
    water = {
        name: [k for k, x in model.named_parts("terms") if isinstance(x, WaterForcing)]
        for name, model in family.models.items()
    }
    inside = [every[k] for k in (1, 2, 5, 6)]
    assert water == {"": every, "harbour": inside, "quay": inside[1:]}
    controls = controls_of(family, ["forcing.0.width", "forcing.1.width", "forcing.2.width"])
    assert [[n is not None for n in c.nests] for c in controls] == [[False, False], [True, False], [True, True]]


def test_what_a_run_of_nests_cannot_have_is_refused(tmp_path):
    family = nested.family([sw.Nest("harbour", **nested.HARBOUR)])
    with pytest.raises(
        ConfigError, match="in the nest 'harbour', with 1 of its steps in one of the outermost grid: the time step"
    ):
        sw.NestedSimulation(
            nested.family([sw.Nest("harbour", steps=1, **nested.HARBOUR)]), family.states(), sw.RK4(dt=11.0)
        )
    with pytest.raises(ConfigError, match="solves an equation of a whole grid"):
        sw.NestedSimulation(family, family.states(), sw.SemiImplicit(dt=8.0))
    wide = nested.family([sw.Nest("harbour", **nested.HARBOUR)], dissipation=(sw.Biharmonic(1e3),))
    with pytest.raises(
        ConfigError, match=r"RK4 reads 8 cells around.* fewer cells, or give the Family stages=4 \(now 3"
    ):
        sw.NestedSimulation(wide, wide.states(), sw.RK4(dt=2.0))
    simulation = sw.NestedSimulation(family, family.states(), FB)
    simulation["harbour"].restart(tmp_path / "restart.nc", every=20.0)
    with pytest.raises(ConfigError, match="no multiple of the outermost grid's time step"):
        simulation.run(steps=2)
    with pytest.raises(ValueError, match="is above 10|at most 10|10 or less"):
        sw.Nest("harbour", x=(0, 1), y=(0, 1), ratio=11)


@pytest.mark.parametrize(
    "depth, said", [(120.0, ""), (140.0, "differs from that of the outer grid along its border by")]
)
def test_depths_that_disagree_along_the_border_are_said(depth, said, caplog):
    grid = sw.CartesianGrid(16, 16, (0.0, 16e3), (0.0, 16e3))
    for two_way in (True, False):
        caplog.clear()
        box = {"x": (4e3, 11e3), "y": (4e3, 11e3), "ratio": 2, "depth": depth, "two_way": two_way}
        family = sw.Family(grid, 100.0, [sw.Nest("harbour", blend=0, **box)])
        assert (said in caplog.text) if said and two_way else not caplog.text
        assert family.differences == {"harbour": pytest.approx(depth / 100.0 - 1.0)}
    caplog.clear()
    blended = sw.Family(grid, 100.0, [sw.Nest("harbour", **box | {"two_way": True})])
    assert not caplog.text
    profile = blended.models["harbour"].depth[13]  # a frame of 3 outer cells, and 7 in the box
    expected = 100.0 + (depth - 100.0) * np.array([0, 0, 0, 0, 1 / 3, 2 / 3, 1])
    np.testing.assert_allclose(profile[:14], np.repeat(expected, 2), rtol=1e-6)


def test_with_overwrite_files_of_a_nest_that_starts_later_are_removed_at_the_beginning(tmp_path):
    """They stayed until it started, next to those of the new run, and for ever if the run ended before."""
    family = nested.family([sw.Nest("harbour", start=80.0, **nested.HARBOUR)])
    late = sw.NestedSimulation(family, family.states(), FB, overwrite=True)
    harbour = late["harbour"].write(tmp_path / "eta.zarr", ("eta",), every=8.0).restart(tmp_path / "harbour.nc")
    ZarrStore(tmp_path / "eta.zarr").create({}, {})
    for name in ("eta.maps.png", "harbour.nc", earlier(tmp_path / "harbour.nc").name, "other.nc"):
        (tmp_path / name).touch()
    late.run(steps=1)
    assert [path.name for path in tmp_path.iterdir()] == ["other.nc"] and harbour.time == 0.0


@pytest.mark.verify
def test_a_nest_that_starts_later_takes_the_outer_flow_and_keeps_the_volume(tmp_path):
    nests = [sw.Nest("harbour", start=80.0, **nested.HARBOUR), sw.Nest("quay", start=40.0, **nested.QUAY)]
    family = nested.family(nests, tracers=TRACERS[:1])
    simulation = sw.NestedSimulation(family, family.states(eta=nested.bump), FB)
    assert set(simulation.states) == {""}
    before = family.volume(simulation.states)
    simulation.run(steps=10)
    assert set(simulation.states) == {""}
    outer = simulation.states[""]
    simulation.run(steps=1)
    assert set(simulation.states) == {"", "harbour", "quay"} and simulation["quay"].time == 88.0
    assert abs(family.volume(simulation.states) - before) < 1e-13 * before
    start = state_from_outer(family.borders[0], family.outer, family.models["harbour"], outer)
    place = family.places["harbour"]
    here = tuple(slice(first, first + n) for first, n in zip(place.corner, place.shape))  # box and frame
    box = np.asarray(outer.eta)[here]
    means = lambda x: np.asarray(x).reshape(14, 3, 15, 3).mean((1, 3))  # noqa: E731
    np.testing.assert_allclose(means(start.eta), box, rtol=0, atol=1e-15)
    around, wet, water = (
        np.asarray(x)[here] for x in (outer.dye, family.outer.wet, outer.eta + np.asarray(family.outer.sea_floor.water))
    )
    thickness = start.eta + np.asarray(family.models["harbour"].sea_floor.water)
    np.testing.assert_allclose((means(start.dye)[wet] / means(thickness)[wet]), (around[wet] / water[wet]), rtol=1e-12)
    along = np.asarray(start.u)[1::3, 2::3], np.asarray(outer.u)[here]
    assert np.abs(along[1]).max() > 0.01
    np.testing.assert_allclose(along[0][1:-1, 1:-1], along[1][1:-1, 1:-1], rtol=0, atol=1e-12)
    late = sw.NestedSimulation(family, family.states(), FB, overwrite=False)
    (tmp_path / "gauges.nc").touch()
    late["quay"].gauges(tmp_path / "gauges.nc", {"inside": (13.2e3, 13.1e3)})
    with pytest.raises(ConfigError, match="would be lost when the nest 'quay' starts"):
        late.run(steps=11)
    assert late.time == 0.0
    with pytest.raises(ConfigError, match="the nest 'harbour' starts after 80 s, and one function steps all grids"):
        family.dynamics(FB)


@pytest.mark.parametrize("engine", [later("arrays"), pytest.param("fused", marks=WITH_COMPILER)])
def test_a_nest_goes_on_with_what_terms_keep_and_gives_back_its_means(engine):
    """Water that has infiltrated, into soil that differs along x, before the nest starts and after; the rest is dry."""
    grid = sw.CartesianGrid(nx=14, ny=14, x=(0.0, 1400.0), y=(0.0, 1400.0))
    soil = sw.Infiltration(conductivity=1e-4, suction=0.3, deficit=lambda x, y: 0.1 + x / 2e3 + 0.0 * y)
    nest = sw.Nest("field", x=(400.0, 1000.0), y=(400.0, 1000.0), ratio=2, start=50.0)
    wet = WET | {"forcing": soil, "engine": engine, "dtype": "float64"}
    family = sw.Family(grid, lambda x, y: -1.0 - (y > 700.0), [nest], stages=1, **wet)
    simulation = sw.NestedSimulation(family, family.states(eta=1.2), sw.ForwardBackwardHancock(dt=5.0))
    simulation.run(steps=10)
    before = np.asarray(simulation.states[""].infiltrated)
    simulation.run(steps=10)
    box = np.s_[4:10, 4:10]
    after, fine = (np.asarray(simulation.states[name].infiltrated) for name in ("", "field"))
    own = fine[family.borders[0].edges.box.here[0].slices].reshape(6, 2, 6, 2).mean((1, 3))
    np.testing.assert_allclose(after[box], own, rtol=0, atol=1e-15)
    grown = after[4:6, 4:10] / before[4:6, 4:10]  # where the nest's bed is the outer one
    assert before[4:7].min() > 0.01 and before[7:].max() == 0.0
    np.testing.assert_allclose(grown, np.broadcast_to(after[1, 4:10] / before[1, 4:10], grown.shape), rtol=1e-3)


@pytest.mark.verify
@pytest.mark.parametrize("engine", ["arrays", pytest.param("fused", marks=WITH_COMPILER)])
def test_members_of_an_ensemble_are_the_runs_of_their_families(engine, tmp_path):
    """Over different sea floors, winds and uplifts; the nest in the nest starts later."""
    families, starts = nested.members(engine=engine)
    family, states = sw.family_of_members(families, starts, {"wind": [0.0, 0.1]})
    simulation = sw.NestedSimulation(family, states, FB)
    simulation["quay"].gauges(tmp_path / "quay.nc", {"inside": (13.2e3, 13.1e3)})
    both = simulation.run(steps=6)
    for k, own in enumerate(families):
        for name, state in sw.NestedSimulation(own, starts[k], FB).run(steps=6).items():
            for field, x in state:
                np.testing.assert_allclose(both[name][field][k], x, rtol=0, atol=1e-12 * np.abs(x).max(), err_msg=field)
    with netCDF4.Dataset(tmp_path / "quay.nc") as file:
        assert file["eta"].dimensions == ("member", "gauge", "time") and list(file["wind"][:]) == [0.0, 0.1]
        assert abs(file["eta"][1, 0, -1] - file["eta"][0, 0, -1]) > 0.1
    one_way = nested.family([sw.Nest("harbour", two_way=False, **nested.HARBOUR)])
    with pytest.raises(ConfigError, match="member 1 of the ensemble has other nests than member 0"):
        sw.family_of_members([families[0], one_way], [starts[0], one_way.states()])


@pytest.mark.verify
def test_a_nest_that_starts_over_a_floor_that_has_sunk_keeps_its_land_dry():
    slope = lambda x, y: 4.0 - 9.0 * x / 30e3  # noqa: E731
    motion = sw.BottomMotion([0.0, 20.0], np.array([0.0, -0.5])[:, None, None] * EVERYWHERE)
    options = {"wetting": sw.WettingDrying(), "momentum": sw.MomentumConserving(), "coriolis": None, "source": motion}
    family = nested.family([sw.Nest("harbour", start=60.0, **nested.HARBOUR)], depth=slope, **options)
    simulation = sw.NestedSimulation(family, family.states(), sw.SSPRK3(dt=20.0))
    simulation.run(steps=4)
    depth = np.asarray(family.models["harbour"].sea_floor.water)  # before the floor sank; so does the sea, by as much
    thickness = np.asarray(simulation.states["harbour"].eta) + depth + 0.5
    assert (depth < -1.0).any() and np.abs(thickness - np.maximum(depth, 0.0))[6:-6, 6:-6].max() < 0.2
