"""Levees on faces: they are watertight, hold water back up to their crest, and let a weir's discharge over it."""

import functools
import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import xarray as xr

import swmodel as sw
from swmodel.config import read
from swmodel.config.assembly import assemble, model_of
from swmodel.errors import ConfigError, DataError
from swmodel.fields.state import replace
from swmodel.grids.levees import NO_CREST, CrestDepths, Levee, read_levees
from swmodel.runtime.compilation import jit
from tests.selection import later

SLOW = pytest.param(sw.SSPRK3, marks=pytest.mark.verify)  # three stages take a minute to compile
ONE_QUICKLY = pytest.mark.parametrize("stepper", (sw.ForwardBackwardHancock, SLOW), ids=("one stage", "three stages"))
CHANNEL = sw.CartesianGrid(40, 6, (0.0, 400.0), (0.0, 60.0))
ACROSS = Levee(((200.0, -5.0), (200.0, 65.0)), 2.0)


PARTS = dict(momentum=sw.MomentumConserving(), wetting=sw.WettingDrying(), communicator="serial", dtype="float64")


def channel(levee=ACROSS, bed=0.0, **options):
    """A model of a flat channel with a bed at level 0 and a levee across its middle."""
    return sw.ShallowWater(CHANNEL, -bed, levees=(levee,), **PARTS | options)


@functools.cache
def dragged(engine):
    """A model whose programs several tests run."""
    return channel(engine=engine, dissipation=sw.ManningDrag(0.5))


def held_back(model):
    """A state with more water on the western side of the levee, on both sides below its crest."""
    return model.state(eta=lambda x, y: np.where(x < 200.0, 1.9, 0.4) + 0.0 * y)


def reached(grid, levees, start):
    """(ny, nx) bool: the cells that a path over faces without a levee joins to a cell (j, i)."""
    closed = [np.asarray(CrestDepths(levees, grid, position)) < NO_CREST for position in "uv"]
    found, waiting = np.zeros(grid.shape, bool), [start]
    while waiting:
        j, i = waiting.pop()
        if found[j, i]:
            continue
        found[j, i] = True
        for dj, di, face in ((0, 1, closed[0][j, i]), (1, 0, closed[1][j, i])):
            if not face:
                waiting.append((j + dj, i + di))
        for dj, di, k in ((0, -1, 0), (-1, 0, 1)):
            if (j + dj >= 0) and (i + di >= 0 or grid.periodic_x) and not closed[k][j + dj, i + di]:
                waiting.append((j + dj, (i + di) % grid.nx))
        waiting = [(j, i % grid.nx) for j, i in waiting if 0 <= j < grid.ny and (grid.periodic_x or 0 <= i < grid.nx)]
    return found


@pytest.mark.parametrize("snapped", (later(False), True), ids=("anywhere", "through centres of cells"))
def test_a_closed_levee_of_any_shape_is_watertight(snapped):
    grid, rng = sw.CartesianGrid(30, 30, (0.0, 30.0), (0.0, 30.0)), np.random.default_rng(4)
    for _ in range(6):
        angles, radii = np.sort(rng.uniform(0, 2 * np.pi, 12)), rng.uniform(6.0, 12.0, 12)
        points = np.stack([15.5 + radii * np.cos(angles), 15.5 + radii * np.sin(angles)], axis=1)
        points = np.floor(points) + 0.5 if snapped else points
        levee = Levee(np.append(points, points[:1], axis=0), 1.0)
        inside = reached(grid, [levee], (0, 0))
        assert inside.any() and not inside[15, 15]


def test_a_levee_across_the_seam_of_a_periodic_grid_is_watertight():
    grid = sw.SphericalGrid(36, 20, (0.0, 360.0), (-50.0, 50.0))
    ring = Levee(((-40.0, -22.0), (35.0, -22.0), (35.0, 22.0), (-40.0, 22.0), (-40.0, -22.0)), 1.0)
    sea = reached(grid, [ring], (0, 0))
    assert not sea[10, 1] and not sea[10, 34] and sea[10, 18]


@pytest.mark.parametrize("turn", (0.0, 360.0, -360.0))
def test_levees_cross_the_date_line_the_shorter_way_in_any_count_of_longitudes(turn):
    regional = sw.SphericalGrid(20, 10, (170.0, 190.0), (-5.0, 5.0))
    for east in (-175.0, 185.0):
        levee = Levee(((175.0 + turn, 0.3), (east + turn, 0.3)), 2.0)
        faces = np.argwhere(np.asarray(CrestDepths([levee], regional, "v")) < NO_CREST)
        assert set(faces[:, 1]) == set(range(5, 15)) and len(faces) == 10
    globe = sw.SphericalGrid(36, 18, (-180.0, 180.0), (-80.0, 80.0))
    crests = np.asarray(CrestDepths([Levee(((170.0 + turn, 3.0), (-170.0 + turn, 3.0)), 1.0)], globe, "v"))
    assert set(np.argwhere(crests < NO_CREST)[:, 1]) == {0, 35}


@pytest.mark.verify
def test_a_levee_next_to_an_open_side_does_not_close_it():
    """A wave comes in at the west, and rises in front of a levee on the first face inside."""
    maker = sw.WaveMaker(sides="west", elevation=sw.SolitaryWave(height=0.5, depth=5.0, peak=6.0))
    model = channel(Levee(((8.0, -5.0), (8.0, 65.0)), 3.0), bed=-5.0, boundaries=maker)
    end = sw.Simulation(model, model.at_rest(), sw.ForwardBackwardHancock(0.3)).run(steps=20)
    eta = np.asarray(end.eta)
    assert eta[:, 0].min() > 0.5 and not eta[:, 1:].any()


def test_windows_of_crests_are_parts_of_the_whole_and_the_higher_levee_counts():
    low, high = Levee(((12.0, 3.0), (388.0, 56.0)), (1.0, 3.0)), Levee(((100.0, 0.0), (120.0, 60.0)), 5.0)
    for position in "uv":
        crests = CrestDepths([low, high], CHANNEL, position)
        whole = np.asarray(crests)
        assert (whole < NO_CREST).any() and -whole[whole < NO_CREST].max() >= 1.0
        np.testing.assert_array_equal(crests.block(slice(1, 3), slice(5, 33)), whole[1:3, 5:33])
    assert -np.asarray(CrestDepths([low, high], CHANNEL, "u")).min() == 5.0


@ONE_QUICKLY
@pytest.mark.parametrize("engine", ("auto", pytest.param("arrays", marks=pytest.mark.verify)))
def test_water_below_the_crest_stays_where_it_is(engine, stepper):
    model = dragged(engine)
    state = held_back(model)
    end = sw.Simulation(model, state, stepper(0.5)).run(steps=50)
    np.testing.assert_array_equal(np.asarray(end.eta), np.asarray(state.eta))
    assert not np.asarray(end.u).any()


@pytest.mark.parametrize("stepper", (sw.ForwardBackwardHancock, later(sw.SSPRK3)))
def test_a_force_that_is_known_on_its_own_faces_alone_acts_beside_a_levee(stepper):
    """The velocity over a crest was limited by the new one upstream, and the halo for that was looked for in vain."""
    stress = np.broadcast_to(np.linspace(0.1, 0.2, CHANNEL.nx), CHANNEL.shape)
    records = sw.Records([0.0, 60.0], np.stack([stress, 2.0 * stress]))
    models = [channel(forcing=sw.WindStress(x=x, y=stress)) for x in (0.1, records)]
    assert len({model.halo(stepper(0.5)) for model in models}) == 1


@ONE_QUICKLY
def test_a_free_overfall_has_the_discharge_of_a_broad_crested_weir(stepper):
    """q = sqrt(g) (2 E / 3)^(3/2), measured by the water behind the levee while the level upstream sinks slowly."""
    grid = sw.CartesianGrid(200, 6, (0.0, 10000.0), (0.0, 300.0))
    depth = lambda x, y: np.where(x < 9000.0, 10.0, 14.0) + 0 * y  # noqa: E731
    levee = Levee(((9000.0, 0.0), (9000.0, 300.0)), -2.0)
    model = sw.ShallowWater(grid, depth, levees=(levee,), **PARTS)
    state = model.state(eta=lambda x, y: np.where(x < 9000.0, -1.0, -13.0) + 0 * y)
    simulation = sw.Simulation(model, state, stepper(1.5))
    volume = lambda state: 50.0 * np.asarray(state.eta)[0, 180:].sum()  # noqa: E731
    first = simulation.run(steps=200)
    last = simulation.run(steps=200)
    discharge = (volume(last) - volume(first)) / (200 * 1.5)
    head = 0.5 * sum(np.asarray(state.eta)[0, 179] + 2.0 for state in (first, last))
    assert discharge == pytest.approx(np.sqrt(9.81) * (2 * head / 3) ** 1.5, rel=0.03)


@ONE_QUICKLY
def test_water_over_a_drowned_levee_comes_to_one_level_and_none_is_lost(stepper):
    model = dragged("auto")
    state = model.state(eta=lambda x, y: np.where(x < 200.0, 3.2, 2.6) + 0.0 * y)
    end = sw.Simulation(model, state, stepper(0.5)).run(steps=1000)
    assert np.asarray(end.eta).sum() == pytest.approx(np.asarray(state.eta).sum(), rel=1e-13)
    np.testing.assert_allclose(np.asarray(end.eta), 2.9, atol=0.02)


@pytest.mark.verify
@ONE_QUICKLY
@pytest.mark.parametrize("engine", ("auto", pytest.param("arrays", marks=pytest.mark.verify)))
def test_derivatives_over_a_levee_agree_with_differences_also_by_the_height_of_the_crest(engine, stepper):
    made, model = stepper(0.5), channel(engine=engine)
    state = model.state(eta=lambda x, y: np.where(x < 200.0, 2.7 + 0.01 * np.sin(x / 30), 0.6) + 0.0 * y)
    dynamics = model.dynamics(made)
    on_levee = jnp.where(dynamics.crests[0] < NO_CREST, 1.0, 0.0)

    def cost(raised, size):
        crests = dynamics.crests[0] - raised * on_levee, dynamics.crests[1]
        start = state.replace(eta=state.eta * (1.0 + size))
        end, _ = sw.integrate(replace(dynamics, crests=crests), made, start, 6)
        return jnp.sum(end.eta[:, 20:24])

    exact, cost = jit(jax.grad(cost, (0, 1)))(0.0, 0.0), jit(cost)
    for k in range(2):
        ahead, behind = (cost(*(sign * 1e-5 * (n == k) for n in range(2))) for sign in (1.0, -1.0))
        assert float(exact[k]) == pytest.approx(float(ahead - behind) / 2e-5, rel=1e-6)
    assert float(exact[0]) < 0 < float(exact[1])


@pytest.mark.verify
def test_a_moving_sea_floor_takes_its_levee_along():
    rising = sw.BottomMotion((0.0, 1.0), np.array([np.zeros(CHANNEL.shape), np.full(CHANNEL.shape, 1.0)]))
    model = channel(source=rising)
    state = model.state(eta=lambda x, y: np.where(x < 200.0, 1.9, 0.4) + 0.0 * y)
    end = sw.Simulation(model, state, sw.ForwardBackwardHancock(0.5)).run(steps=20)
    np.testing.assert_allclose(np.asarray(end.eta), np.asarray(state.eta) + 1.0, atol=1e-12)


@pytest.mark.verify
def test_a_tracer_does_not_pass_a_levee_that_holds_the_water_back():
    dye = sw.Tracer("dye", initial=lambda x, y: np.where(x < 200.0, 1.0, 0.0) + 0.0 * y, diffusivity=5.0)
    model = channel(tracers=(dye,))
    state = model.state(eta=lambda x, y: np.where(x < 200.0, 1.9, 0.4) + 0.0 * y)
    end = sw.Simulation(model, state, sw.ForwardBackwardHancock(0.5)).run(steps=20)
    assert not np.asarray(end["dye"])[:, 20:].any()


EXPERIMENT = """\
grid = {type = "cartesian", nx = 40, ny = 6, x = [0, 400], y = [0, 60]}
model = {momentum = "momentum_conserving", wetting = {thin = "1 mm"}}
stepper = {type = "forward_backward_hancock"}
run = {until = 4, engine = "arrays"}
[bathymetry]
type = "formula"
depth = "0.01 * (200 - x)"
levees = "levees.csv"
"""
TABLE = "levee,x,y,crest_m\nsea wall,100,-1,2.0\nsea wall,100,61,2.5\n"


def test_an_experiment_reads_levees_from_a_table(tmp_path, monkeypatch, command):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "levees.csv").write_text(TABLE)
    (tmp_path / "run.toml").write_text(EXPERIMENT)
    code, out, err = command("check", "run.toml")
    assert code == 0 and "1 levee" in out, err
    model = model_of(assemble(read("run.toml")), "serial")
    crests = -np.asarray(model.sea_floor.crests[0])[:, 9]
    np.testing.assert_allclose(crests, 2.0 + 0.5 * (np.arange(5.0, 60.0, 10.0) + 1.0) / 62.0, rtol=1e-6)


def test_crests_count_from_the_zero_of_the_land_and_the_tide_leaves_them_where_they_are(tmp_path, monkeypatch):
    """A tide of 1.3 m covers as much of the wall as of the land, whose zero is 0.2 m below that of depths."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "levees.csv").write_text(TABLE)
    x, y = np.arange(-5.0, 406.0, 5.0), np.arange(-5.0, 66.0, 5.0)
    axes = {"y": ("y", y, {"units": "m"}), "x": ("x", x, {"units": "m"})}
    bed = xr.DataArray(np.full((y.size, x.size), -4.0), axes, ("y", "x"), "elevation", {"units": "m"})
    bed.to_netcdf(tmp_path / "bed.nc")
    first, last = EXPERIMENT.index("[bathymetry]"), EXPERIMENT.index("levees =")
    file = '[bathymetry]\ntype = "file"\nfile = "bed.nc"\ndatum = 1.3\nland_datum = -0.2\n'
    (tmp_path / "run.toml").write_text(EXPERIMENT[:first] + file + EXPERIMENT[last:])
    model = model_of(assemble(read("run.toml")), "serial")
    crests = -np.asarray(model.sea_floor.crests[0])[:, 9]
    np.testing.assert_allclose(crests, 0.5 + 0.5 * (np.arange(5.0, 60.0, 10.0) + 1.0) / 62.0, rtol=1e-6)


@pytest.mark.parametrize(
    "change, table, why",
    [
        ((', wetting = {thin = "1 mm"}', ""), TABLE, "needs model.wetting"),
        (("", ""), TABLE.replace("crest_m", "height"), "lacks the column crest_m"),
        (("", ""), TABLE.replace("2.5", "tall"), "line 3: 'tall' in crest_m is not a number"),
        (("", ""), TABLE.rsplit("\n", 2)[0], "levee 'sea wall': points must be two or more"),
        (("", ""), TABLE.replace("100", "141.2"), None),
        (("", ""), TABLE.replace("100", "1000"), "levee 'sea wall' crosses no line.*outside the grid.*metres"),
        (("", ""), TABLE.replace("2.5", "2,5"), "line 3 has 5 cells and the header 4; .* write decimal points"),
        (("", ""), TABLE.replace("crest_m", "crest_m,crest_m"), "has the column 'crest_m' twice"),
    ],
)
def test_a_table_of_levees_that_cannot_be_right_is_refused(change, table, why, tmp_path, monkeypatch, command):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "levees.csv").write_text(table)
    (tmp_path / "run.toml").write_text(EXPERIMENT.replace(*change) if change[0] else EXPERIMENT)
    code, out, err = command("check", "run.toml")
    if why is None:
        assert code == 0, err
    else:
        assert code and re.search(why, err.replace("\n", " ")), err
        assert err.count("levees.csv") <= 1, err


def test_levees_need_wetting_and_two_points():
    with pytest.raises(ConfigError, match="only with wetting"):
        sw.ShallowWater(CHANNEL, 1.0, levees=(ACROSS,), communicator="serial")
    with pytest.raises(ConfigError, match="levee 1 crosses no line"):
        channel(Levee(((-9.0, 1.0), (-5.0, 1.0)), 1.0))
    with pytest.raises(ConfigError, match="two or more pairs"):
        Levee(((1.0, 2.0),), 3.0)
    with pytest.raises(ConfigError, match="one for each of 2 points"):
        Levee(((1.0, 2.0), (3.0, 4.0)), (3.0, 1.0, 2.0))
    with pytest.raises(DataError, match="cannot be read"):
        read_levees("there_is_no.csv")
