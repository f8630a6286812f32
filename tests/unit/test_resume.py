"""A run goes on from a restart only where it is the same experiment, or where what differs was named."""

import datetime
import json

import jax
import netCDF4
import numpy as np
import pytest

import swmodel as sw
from swmodel.errors import ConfigError, DataError
from swmodel.forcing.tracks import Track, cyclone_of
from swmodel.output.fingerprint import describe, differences, fingerprint, hash_of_cells
from swmodel.output.restart import tiles_and_scalars_of
from swmodel.parallel.decomposition import Decomposition
from swmodel.simulation.simulation import Simulation
from tests.gridded import write_axes
from tests.restarts import read_restart, write_restart
from tests.selection import later

NX, NY = 8, 6
GRID = sw.CartesianGrid(NX, NY, (0.0, NX * 1e4), (0.0, NY * 1e4))
DEPTH = 800.0 + 200.0 * np.random.default_rng(5).random(GRID.shape)
DEPTH[2, 3] = 0.0
DRAGS = (sw.Laplacian(30.0), sw.LinearDrag(1e-6))
OPEN = (sw.Flather(("east", "north")), sw.Sponge("west", 2e4, 1e-4))
STEPPER = sw.AB2(10.0)


WIND = sw.Records((0.0, 230.0, 410.0), np.random.default_rng(6).standard_normal((3, NY, NX)), 500.0)
OTHER = sw.Records(WIND.times, 1.001 * WIND.values, WIND.cycle)
LATER = sw.Records((*WIND.times, 600.0), np.concatenate([WIND.values, np.ones((1, NY, NX))]))  # the same until 410 s
PARTS = {
    "coriolis": sw.FPlane(1e-4),
    "forcing": (sw.WindStress(x=WIND, y=lambda x, y: 1e-6 * x),),
    "dissipation": DRAGS,
    "boundaries": OPEN,
}


def model_with(depth=DEPTH, **parts):
    return sw.ShallowWater(GRID, depth, **{**PARTS, **parts})


def changed(*cells, by=130.0):
    """The depth with other values in these cells."""
    depth = DEPTH.copy()
    for cell in cells:
        depth[cell] += by
    return depth


def hump(model):
    return model.state(eta=lambda x, y: 0.5 * np.exp(-((x - 4e4) ** 2 + (y - 3e4) ** 2) / 4e8))


def resumed(model, path, stepper=STEPPER, force=()):
    simulation = Simulation(model, model.at_rest(), stepper)
    return simulation, simulation.resume(path, force)


@pytest.fixture(scope="module")
def first(tmp_path_factory):
    """(a model, the restart of a run of it)."""
    model, path = model_with(), tmp_path_factory.mktemp("first") / "restart.nc"
    Simulation(model, hump(model), STEPPER).restart(path).run(steps=7)
    return model, path


# -- what is refused ---------------------------------------------------------------------------------------------------

REFUSED = {
    "coast": (
        {"depth": np.where(np.arange(NX) == 4, 0.0, DEPTH)},
        "coast differs (6 cells are water in the restart and land in the experiment)",
    ),
    "depth": ({"depth": changed((0, 0), (5, 7))}, "depth differs in 2 cells, by up to 130 m"),
    "gravity": ({"gravity": 9.8}, "gravity is 9.81 in the restart and 9.8 in the experiment"),
    "linear": ({"linear": True}, "linear is False in the restart and True in the experiment"),
    "momentum": ({"momentum": sw.ArakawaLamb()}, "momentum is EnergyConserving() in the restart and ArakawaLamb() in"),
    "side": ({"side": sw.NoSlip()}, "side is FreeSlip() in the restart and NoSlip() in the experiment"),
    "coriolis.f0": ({"coriolis": sw.FPlane(2e-4)}, "coriolis.f0 is 0.0001 in the restart and 0.0002 in the experiment"),
    "coriolis": ({"coriolis": sw.BetaPlane(1e-4, 1e-11)}, "coriolis is FPlane in the restart and BetaPlane in"),
    "dissipation.0.viscosity": ({"dissipation": (sw.Laplacian(31.0), DRAGS[1])}, "viscosity is 30 in the restart"),
    "dissipation.1": ({"dissipation": DRAGS[:1]}, "dissipation.1 (LinearDrag) is in the restart and not in the"),
    "forcing.0.x": ({"forcing": (sw.WindStress(x=OTHER, y=lambda x, y: 1e-6 * x),)}, "forcing.0.x at 0 s is"),
    "forcing.0.y": (
        {"forcing": (sw.WindStress(x=WIND, y=lambda x, y: 1e-6 * y),)},
        "forcing.0.y is a field of 0.005 to 0.075 in the restart and a field of 0.01 to 0.06 in the exp",
    ),
    "boundary.0.sides": ({"boundaries": (sw.Flather(("east",)), OPEN[1])}, "boundary.0.sides is east, north in the"),
    "boundary.1.rate": ({"boundaries": (OPEN[0], sw.Sponge("west", 2e4, 2e-4))}, "boundary.1.rate is a field of 0 to"),
    "source": ({"source": sw.BottomMotion((0.0, 50.0), np.ones((2, NY, NX)))}, "source is none in the restart and"),
    "precision": ({"dtype": "float32"}, "precision is float64 in the restart and float32 in the experiment"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_restart_of_another_experiment_is_refused_with_what_differs_unless_that_is_named(first, name):
    parts, said = REFUSED[name]
    model = model_with(**parts)
    simulation = Simulation(model, model.at_rest(), STEPPER)
    with pytest.raises(DataError) as refusal:
        simulation.resume(first[1])
    text = str(refusal.value)
    assert said in text and f"--force {name}" in text and "\n" not in text
    assert simulation.step == 0 and not np.asarray(simulation.state.eta).any(), "it was left as it was"
    message = simulation.resume(first[1], force=name)
    assert simulation.step == 7 and said in message and "As requested, it continues although" in message
    starts_anew = "history starts anew" in message
    assert starts_anew == (name != "precision") and (int(simulation.history.count) == 0) == starts_anew


@pytest.mark.parametrize("force", ["all", "coast,depth,physics", ["physics", "coast", "depth"], "coriolis,depth,coast"])
def test_differences_are_named_by_groups_or_entries(first, force):
    other = model_with(depth=np.where(np.arange(NX) == 4, 0.0, changed((0, 0))), coriolis=None)
    with pytest.raises(DataError, match="coast differs.*depth differs in 1 cell, by up to 130 m; coriolis is FPlane"):
        resumed(other, first[1])
    for part in ("coast,depth", ("physics",), "coriolis.f0,coast,depth"):
        with pytest.raises(DataError):
            resumed(other, first[1], force=part)
    assert resumed(other, first[1], force=force)[0].step == 7


@pytest.mark.parametrize("force", [True, 3, (1, 2), None])
def test_force_is_given_as_names(first, force):
    with pytest.raises(ConfigError, match="names nothing; give 'all', or some of coast, depth, precision, physics"):
        resumed(first[0], first[1], force=force)


def test_the_same_experiment_made_again_goes_on_even_if_its_wind_lasts_longer(first):
    simulation, message = resumed(model_with(), first[1])
    assert message == f"resumed {first[1]} at step 7 (70 s)."
    longer = (sw.WindStress(x=LATER, y=lambda x, y: 1e-6 * x),)
    with pytest.raises(DataError, match="forcing.0.x repeats every 500.0 s in the restart and every None s"):
        resumed(model_with(forcing=longer), first[1])

    until_now = sw.Records(LATER.times[:2], LATER.values[:2])
    model, path = model_with(forcing=(sw.WindStress(x=until_now),)), first[1].with_name("until.nc")
    Simulation(model, model.at_rest(), STEPPER).restart(path).run(steps=23)
    assert resumed(model_with(forcing=(sw.WindStress(x=LATER),)), path)[0].time == 230.0


def test_rounding_is_no_difference(first):
    """Formulas give other last digits on other machines, and float32 keeps seven."""
    noisy = DEPTH * (1.0 + 1e-7 * np.random.default_rng(1).standard_normal(DEPTH.shape))
    assert resumed(model_with(depth=noisy, gravity=9.81 * (1.0 + 1e-9)), first[1])[0].step == 7
    assert resumed(model_with(dtype="float32"), first[1], force="precision")[0].step == 7


def test_another_parameter_of_the_time_stepper_is_said(first):
    simulation, message = resumed(first[0], first[1], stepper=sw.AB2(10.0, epsilon=0.05))
    assert "written by AB2(dt=10, epsilon=0.1), and the run continues with AB2(dt=10, epsilon=0.05)" in message
    assert int(simulation.history.count) == 1


def test_an_older_restart_is_read_with_a_warning_but_not_in_another_precision(first, tmp_path, caplog):
    restart = read_restart(first[1])
    older = {name: text for name, text in restart.attributes.items() if name != "fingerprint"}
    arrays = {name: array for name, array in restart.arrays.items() if name != "depth"}
    write_restart(tmp_path / "old.nc", GRID, arrays, restart.scalars, older)
    with caplog.at_level("WARNING", "swmodel"):
        assert resumed(model_with(gravity=1.0), tmp_path / "old.nc")[0].step == 7
    assert "did not record depth, coast and physics of its run" in caplog.text
    with pytest.raises(DataError, match="precision is float64 in the restart and float32"):
        resumed(model_with(dtype="float32"), tmp_path / "old.nc")


def coast_with(hill=30.0, **parts):
    """A model with a dry hill, and its depth below 0 there."""
    depth = np.where(DEPTH > 0.0, DEPTH, -hill)
    wetting = sw.WettingDrying(**parts)
    return sw.ShallowWater(GRID, depth, momentum=sw.MomentumConserving(), wetting=wetting)


def test_with_wetting_heights_of_land_and_its_numbers_are_compared(tmp_path):
    model, path, stepper = coast_with(), tmp_path / "wet.nc", sw.ForwardBackwardHancock(10.0)
    tiles, scalars = tiles_and_scalars_of(Simulation(model, model.at_rest(), stepper))
    arrays = {name: model.gather(tile) for name, tile in tiles.items()}
    attributes = {"fingerprint": json.dumps(fingerprint(model, 0, 10.0)), "time_stepper": describe(stepper)}
    write_restart(path, GRID, arrays, scalars, attributes)
    assert "at step 0" in resumed(coast_with(), path, stepper)[1]
    dry = sw.ShallowWater(GRID, np.maximum(DEPTH, 0.0), momentum=sw.MomentumConserving())
    changes = {
        "the depth differs in 1 cell, by up to 10 m": coast_with(hill=40.0),
        "wetting.thin is 0.001 in the restart and 0.1": coast_with(thin=0.1),
        r"wetting \(WettingDrying\) is in the restart and not in the experiment": dry,
    }
    for said, other in changes.items():
        with pytest.raises(DataError, match=said):
            resumed(other, path, stepper)


def test_a_wind_law_of_ones_own_is_compared_by_its_values():
    def entries(coefficient):
        law = lambda speed: coefficient + 1e-5 * speed  # noqa: E731
        return fingerprint(model_with(forcing=(sw.Wind(1.0, 2.0, drag=law),)), 0, 10.0)

    assert not differences(entries(1e-3), entries(1e-3))
    (found,) = differences(entries(1e-3), entries(2e-3))
    assert found.name == "forcing.0.drag"


def test_a_cyclone_goes_on_where_a_longer_run_needs_more_of_its_track():
    """Of a track, a run keeps the points that it reaches."""
    grid = sw.SphericalGrid(8, 6, (-90.0, -82.0), (22.0, 28.0))
    start = datetime.datetime(2008, 9, 8)

    def entries(until, pressure=96000.0, like=None):
        line = np.arange(5.0)
        track = Track(
            tuple(start + datetime.timedelta(hours=6 * k) for k in range(5)),
            -84.0 - line,
            24.0 + 0.5 * line,
            np.array([96500.0, pressure, 95000.0, 95500.0, 97000.0]),
            np.full(5, 4e4),
            np.full(5, 40.0),
        )
        cyclone = cyclone_of(track, start, until)
        model = sw.ShallowWater(grid, 50.0, forcing=(cyclone,))
        return fingerprint(model, 36, 600.0, like=like)

    was = entries(21600.0)
    assert not differences(was, entries(86400.0, like=was))
    found = {difference.name for difference in differences(was, entries(86400.0, 95000.0, like=was))}
    assert found >= {"forcing.0.central_pressure"}


def test_a_record_goes_on_where_measurements_were_added():
    def entries(values, like=None):
        record = sw.Record(100.0 * np.arange(len(values)), values)
        return fingerprint(model_with(boundaries=(sw.Flather("west", elevation=record),)), 15, 10.0, like=like)

    was = entries([0.0, 0.1, 0.2])
    assert not differences(was, entries([0.0, 0.1, 0.2, 0.3], was))
    (found,) = differences(was, entries([0.0, 0.15, 0.2], was))
    assert "boundary.0.elevation.values at 100 s is 0.1 in the restart and 0.15" in found.text


def test_a_jump_of_the_clock_is_said(first, caplog):
    with caplog.at_level("WARNING", "swmodel"):
        assert resumed(first[0], first[1], stepper=sw.AB2(14.0))[0].time == 70.0
        assert not caplog.text
        assert resumed(first[0], first[1], stepper=sw.AB2(15.0))[0].time == 75.0
    assert "is of 70 s, which is not a multiple of dt = 15 s: the run continues at 75 s" in caplog.text


# -- what is continued -------------------------------------------------------------------------------------------------


def test_on_another_coast_nothing_moves_on_land_or_through_closed_faces(first, tmp_path):
    """Whatever stands there in the file: a value that is no number, times 0, would stay none."""
    restart = read_restart(first[1])
    arrays = {name: array.copy() for name, array in restart.arrays.items()}
    for name in ("state_u", "state_v", "state_eta"):
        arrays[name][2, 3] = np.nan
    write_restart(tmp_path / "nan.nc", GRID, arrays, restart.scalars, restart.attributes)
    depth = np.where(np.arange(NX) == 4, 0.0, DEPTH)
    model = model_with(depth=depth)
    simulation, _ = resumed(model, tmp_path / "nan.nc", force="coast")
    state = jax.tree.map(np.asarray, simulation.state)
    assert not state.eta[~model.wet].any() and state.eta[model.wet].all()
    closed = ~model.faces("u")
    closed[:, -1] &= ~model.wet[:, -1]  # the open side
    assert not state.u[closed].any() and state.u[model.faces("u")].all()
    assert not state.v[:-1][~model.faces("v")[:-1]].any() and np.isfinite(state.v).all()


def test_of_an_ensemble_each_member_is_compared(tmp_path):
    models = [sw.ShallowWater(GRID, DEPTH, dissipation=(sw.Laplacian(nu),)) for nu in (10.0, 20.0)]

    def simulation(viscosities):
        models = [
            sw.ShallowWater(GRID, DEPTH, dissipation=(sw.Laplacian(nu),), communicator=shared) for nu in viscosities
        ]
        members = sw.Ensemble(models, [model.at_rest() for model in models])
        return Simulation(members, members.initial, STEPPER)

    shared = models[0].communicator
    simulation((10.0, 20.0)).restart(tmp_path / "r.nc").run(steps=2)
    assert simulation((10.0, 20.0)).resume(tmp_path / "r.nc").endswith("at step 2 (20 s).")
    printed = "dissipation.0.viscosity of member 1 is 20 in the restart and 30 in the experiment"
    with pytest.raises(DataError, match=printed):
        simulation((10.0, 30.0)).resume(tmp_path / "r.nc")
    assert printed in simulation((10.0, 30.0)).resume(tmp_path / "r.nc", force="dissipation")


# -- the fingerprint ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("layout", [(1, 2), (2, 2), (3, 2), (6, 8)])
def test_the_hash_of_a_field_does_not_depend_on_how_it_is_cut(layout):
    numbers, parts = np.arange(DEPTH.size).reshape(DEPTH.shape), Decomposition(DEPTH.shape, layout)
    tiles = [parts.tile(rank).slices for rank in range(parts.size)]
    found = sum(hash_of_cells(DEPTH[tile], numbers[tile]) for tile in tiles)
    assert found % 2**64 == hash_of_cells(DEPTH, numbers)


def test_on_devices_the_fingerprint_is_that_of_one_tile():
    """Tiles are padded there: 6 x 8 cells on 2 x 3."""
    sharded = model_with(communicator="sharded", layout=(2, 3))
    assert sharded.decomposition.uneven
    assert fingerprint(sharded, 3, 10.0) == fingerprint(model_with(communicator="serial"), 3, 10.0)


def test_values_that_change_places_change_the_hash():
    numbers, values = np.arange(4), np.array([0.0, -0.0, 1.0, np.nan])
    assert hash_of_cells(values, numbers) == hash_of_cells(values.astype("float32") + 0.0, numbers)
    assert len({hash_of_cells(np.roll(values, k), numbers) for k in (0, 2, 3)}) == 3


def test_a_known_fingerprint_is_completed_with_the_records_of_another_moment(first):
    model = first[0]
    early = fingerprint(model, 7, 10.0)
    late = fingerprint(model, 30, 10.0, known=early)
    assert late == fingerprint(model, 30, 10.0) != early
    assert [time for time, _ in late["forcing.0.x"]["records"]] == [230.0, 410.0]
    assert json.loads(json.dumps(late)) == late


# -- the command line --------------------------------------------------------------------------------------------------

BOX = """\
run = {until = "20 min"}
grid = {type = "cartesian", nx = 12, ny = 10, x = [0, "120 km"], y = [0, "100 km"]}
bathymetry = {type = "file", file = "depth.nc", minimum_depth = 20}
stepper = {type = "rk4", dt = 60}
dissipation = [{type = "laplacian", viscosity = 1000}]
model = {precision = "float64"}
initial = {type = "gaussian", amplitude = "1 m", centre = ["50 km", "40 km"], radius = "30 km"}
[output.restart]
every = "10 min"
"""


def write_depth(path, shallower=0.0):
    """Elevation of 1 km below the surface in and around the box, an island, and a shoal."""
    with netCDF4.Dataset(path, "w") as dataset:
        write_axes(dataset, dict.fromkeys("xy", ("m", np.linspace(-1e4, 1.4e5, 16))))
        elevation = np.full((16, 16), -1000.0)
        elevation[6, 6], elevation[3, 9] = 500.0, -1000.0 + shallower
        dataset.createVariable("elevation", "f8", ("y", "x"))[:] = elevation


@pytest.fixture
def box(command, tmp_path):
    """(swmodel, the file, the folder of a run of it that ended after 10 min)."""
    write_depth(tmp_path / "depth.nc")
    (tmp_path / "box.toml").write_text(BOX)
    assert command("run", tmp_path / "box.toml", "-o", tmp_path / "out", "--until", "10 min", "-q")[0] == 0
    return command, tmp_path / "box.toml", tmp_path / "out" / "restart.nc"


def test_a_bathymetry_that_has_changed_since_is_refused_and_forced(box):
    command, file, restart = box
    write_depth(file.with_name("depth.nc"), shallower=700.0)
    status, _, err = command("resume", restart, "--until", "20 min")
    assert status == 2 and err.count("error:") == 1 and "--force depth" in err
    assert "the depth differs in " in err and "by up to " in err
    status, out, err = command("resume", restart, "--until", "20 min", "--force", "depth")
    assert status == 0 and "it continues although the depth differs" in out, err


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ("dissipation.0.viscosity=500", "viscosity is 1000 in the restart and 500"),
        later("model.gravity=9.7", "gravity is 9.81"),
        ("bathymetry.minimum_depth=1500", "the depth differs in"),
        later("model.precision=float32", "precision is float64"),
    ],
)
def test_what_set_changes_may_differ(box, change, said):
    command, _, restart = box
    assert said in command.ok("resume", restart, "--until", "11 min", "--set", change)[0]


def test_set_explains_what_it_changes_and_nothing_else(box):
    command, file, restart = box
    write_depth(file.with_name("depth.nc"), shallower=700.0)
    status, _, err = command("resume", restart, "--until", "20 min", "--set", "dissipation.0.viscosity=500")
    assert status == 2 and "depth differs" in err and "viscosity" not in err


def test_a_run_goes_on_as_a_file_says_if_it_is_the_same_run(box):
    command, file, restart = box
    file.write_text(BOX.replace('"20 min"', '"15 min"') + '[output.gauges.positions]\na = ["50 km", "50 km"]\n')
    assert "gauges.nc" in command.ok("resume", restart, "--experiment", file)[0]
    file.write_text(BOX.replace("viscosity = 1000", "viscosity = 10"))
    status, _, err = command("resume", restart, "--experiment", file)
    assert status == 2 and "viscosity is 1000 in the restart and 10 in the experiment" in err
    file.write_text(BOX.replace('"1 m"', '"2 m"'))
    status, _, err = command("resume", restart, "--experiment", file)
    assert status == 2 and "their [initial] sections differ" in err and "--force initial" in err
    assert command("resume", restart, "--experiment", file, "--force", "initial")[0] == 0


def test_a_run_whose_flow_has_become_too_fast_for_its_step_goes_on_with_a_warning_and_not_with_another_step(
    tmp_path, caplog
):
    """An implicit step carries the dye with a flow that the wind sets in motion; at rest it has no limit."""
    grid, stepper = sw.CartesianGrid(12, 10, (0.0, 1.2e4), (0.0, 1e4), periodic="x"), sw.SemiImplicit(200.0)
    options = {"forcing": sw.WindStress(x=40.0), "tracers": sw.Tracer("dye"), "linear": True, "dtype": "float64"}

    def made(stepper):
        model = sw.ShallowWater(grid, 20.0, communicator="serial", **options)
        return sw.Simulation(model, model.at_rest(), stepper)

    made(stepper).restart(tmp_path / "restart.nc").run(steps=20)
    straight = made(stepper).run(steps=22)
    again = made(stepper)
    again.resume(tmp_path / "restart.nc")
    assert "continued with its own time step, although the flow has become too fast for it: the time" in caplog.text
    for name, values in again.run(steps=2):
        np.testing.assert_array_equal(np.asarray(values), np.asarray(straight[name]))
    with pytest.raises(ConfigError, match="100 s is over the limit of SemiImplicit: dye"):
        made(sw.SemiImplicit(100.0)).resume(tmp_path / "restart.nc")
