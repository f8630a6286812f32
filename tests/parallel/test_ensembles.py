"""Members of an ensemble are the runs that they would be alone, on any communicator, in one set of files."""

import datetime

import jax
import numpy as np
import pytest
import xarray as xr

import swmodel as sw
from swmodel.errors import BlowUp, ConfigError, DataError
from swmodel.parallel import SerialCommunicator, make_communicator
from swmodel.parallel.traffic import Count
from swmodel.simulation.simulation import Simulation
from tests.parallel import cases

SHAPE, GAUGES = (cases.NY, cases.NX), {"in the middle": (6.1e4, 4.7e4), "by a corner": (1.0e3, 1.0e3)}
VISCOSITIES, WINDS = (100.0, 200.0, 400.0), (0.1, -0.1, 0.3)
STEPS, ALONE = 24, SerialCommunicator()
KINDS = {"auto": cases.LAYOUTS[0]} | ({"sharded": (1, 2)} if cases.RANKS == 1 else {})


@pytest.fixture(scope="module", params=KINDS)
def ranks(request):
    return make_communicator(request.param, SHAPE, KINDS[request.param])


def member(ranks, k, **other):
    """Model k: of its own viscosity, depth and wind, whose last record alone differs, in value and time."""
    wind = np.stack([0.0 * cases.random(7), 0.2 * cases.random(7), WINDS[k] * cases.random(7)])
    arguments = dict(
        coriolis=sw.FPlane(1e-4),
        side=sw.NoSlip(),
        dissipation=(sw.Laplacian(VISCOSITIES[k]), sw.QuadraticDrag(2.5e-3)),
        forcing=(sw.WindStress(x=sw.Records([0.0, 50.0, 150.0 + 40.0 * k], wind)),),
        communicator=ranks,
    )
    return sw.ShallowWater(cases.plane(), (1.0 + 0.1 * k) * cases.sea_floor(), **(arguments | other))


def start(model, k=0):
    return model.state(u=0.1 * cases.random(4), v=0.1 * cases.random(5), eta=(k + 1) * cases.random(6))


@pytest.fixture(scope="module")
def ensemble(ranks):
    models = [member(ranks, k) for k in range(3)]
    return sw.Ensemble(models, [start(m, k) for k, m in enumerate(models)], {"dissipation[0].viscosity": VISCOSITIES})


def outputs(run, folder, name):
    run.write(folder / f"{name}.nc", ("eta", "u", "vorticity"), every=100.0)
    return run.gauges(folder / f"{name}-gauges.nc", GAUGES).maxima(folder / f"{name}-maxima.nc", threshold=0.5)


def whole(model, state):
    """u, v, eta of the whole grid, on the root."""
    return [model.gather(x) for x in jax.tree.leaves(state)]


def assert_close(found, expected, tolerance=1e-12):
    np.testing.assert_allclose(found, expected, rtol=0, atol=tolerance * np.abs(expected).max())


def test_each_member_is_its_own_run_in_states_and_files(ranks, ensemble, tmp_path):
    stepper = sw.AB2(10.0)
    together = outputs(Simulation(ensemble, ensemble.initial, stepper), tmp_path, "all")
    found = whole(ensemble, together.run(steps=STEPS))
    for k, model in enumerate(ensemble.models):
        alone = outputs(Simulation(model, start(model, k), stepper), tmp_path, f"{k}")
        for own, expected in zip(found or (), whole(model, alone.run(steps=STEPS))):
            if ranks.is_root:
                assert_close(own[k], expected)
    for kind in ("", "-gauges", "-maxima") if ranks.is_root else ():
        with xr.open_dataset(tmp_path / f"all{kind}.nc") as ours:
            assert ours.sizes["member"] == 3
            np.testing.assert_array_equal(ours.coords["dissipation_0_viscosity"], VISCOSITIES)
            for k in range(3):
                with xr.open_dataset(tmp_path / f"{k}{kind}.nc") as one:
                    mine = ours.isel(member=k).drop_vars(["member", "dissipation_0_viscosity"])
                    xr.testing.assert_allclose(mine, one, rtol=1e-6, atol=1e-9)
    ranks.barrier()


@pytest.mark.verify
@pytest.mark.skipif(cases.RANKS > 2, reason="compiles for long, and says on more ranks what it says on two")
def test_members_that_differ_in_their_states_alone_share_a_model(ranks):
    case = "walls and islands" if ranks.name == "sharded" else "open sides of a sphere"
    model, stepper = cases.CASES[case](communicator=ranks)
    states = [model.state(eta=a * cases.random(6)) for a in (0.5, 1.0)]
    ensemble = sw.Ensemble(model, states)
    halo = model.halo(stepper)
    assert all(kind == 0 for kind in ensemble.interval(halo, 0, 10.0).kinds)
    found = whole(ensemble, Simulation(ensemble, ensemble.initial, stepper).run(steps=10))
    for k, state in enumerate(states):
        expected = whole(model, Simulation(model, state, stepper).run(steps=10))
        for own, other in zip(found, expected):
            if ranks.is_root:
                assert_close(own[k], other)


@pytest.mark.verify
@pytest.mark.skipif(cases.RANKS > 2, reason="compiles for long, and says on more ranks what it says on two")
def test_members_have_tracks_records_and_tides_of_their_own():
    """The points of tracks and records are others, and as many or not; the second member's lines come from both."""
    start_of_tides, ranks = datetime.datetime(2024, 3, 1), make_communicator("auto", SHAPE, KINDS["auto"])
    tracks = (
        ([0.0, 600.0], [125.0, 150.0], [20.0, 40.0], 96e3),
        ([-50.0, 70.0, 900.0], [130.0, 131.0, 170.0], [25.0, 26.0, 50.0], 97e3),
    )
    records = ([0.0, 50.0, 700.0], [0.0, 0.1, 0.4]), ([-30.0, 800.0], [0.1, 0.5])

    def one(k):
        times, x, y, pressure = tracks[k]
        tide = sw.Tide({"M2": (0.5, 30.0), "K1": (0.2, 70.0)}, start=start_of_tides, latitude=(20.0, 50.0)[k])
        return sw.ShallowWater(
            cases.sphere(),
            (1.0 + 0.1 * k) * cases.sea_floor(),
            coriolis=sw.RotatingSphere(),
            forcing=(sw.Cyclone(times, x, y, pressure, 2e5, ambient_pressure=101000.0 + 100.0 * k),),
            boundaries=(sw.Flather("west", elevation=sw.Record(*records[k])), sw.Flather("south", elevation=tide)),
            communicator=ranks,
        )

    models, stepper = [one(k) for k in range(2)], sw.ForwardBackward(20.0)
    ensemble = sw.Ensemble(models, [model.at_rest() for model in models])
    found = whole(ensemble, Simulation(ensemble, ensemble.initial, stepper).run(steps=8))
    for k, model in enumerate(models):
        for own, other in zip(found, whole(model, Simulation(model, model.at_rest(), stepper).run(steps=8))):
            if ranks.is_root:
                assert_close(own[k], other)


def test_members_travel_in_the_messages_of_one(ranks, ensemble):
    """An ensemble of three sends as many messages as one run, three times as long."""
    one = cases.sent(ensemble.models[0], start(ensemble.models[0]), sw.AB2(10.0))
    all_three = cases.sent(ensemble, ensemble.initial, sw.AB2(10.0))
    assert all_three == Count(one.messages, 3 * one.bytes, 0)
    assert one.messages == cases.neighbours(ranks.layout)


def test_a_restart_holds_all_members_and_goes_on_bit_for_bit(ranks, ensemble, tmp_path):
    def simulation():
        return Simulation(ensemble, ensemble.initial, sw.AB2(10.0)).restart(tmp_path / "restart.nc")

    straight = Simulation(ensemble, ensemble.initial, sw.AB2(10.0)).run(steps=STEPS)
    simulation().run(steps=STEPS - 9)
    again = simulation()
    again.resume(tmp_path / "restart.nc")
    for ours, expected in zip(whole(ensemble, again.run(steps=9)), whole(ensemble, straight)):
        np.testing.assert_array_equal(ours, expected)
    fewer = sw.Ensemble(ensemble.models[:2], [start(model) for model in ensemble.models[:2]])
    with pytest.raises(DataError, match="holds 3 members and the run has 2"):
        Simulation(fewer, fewer.initial, sw.AB2(10.0)).resume(tmp_path / "restart.nc")
    with pytest.raises(DataError, match="holds 3 members and the run has 1"):
        Simulation(ensemble.models[0], start(ensemble.models[0]), sw.AB2(10.0)).resume(tmp_path / "restart.nc")
    ranks.barrier()


def test_the_member_that_blows_up_is_named(ranks, ensemble):
    u = np.zeros(SHAPE)
    u[5, 6] = 2000.0
    fast = ensemble.models[1].state(u=u * ensemble.models[1].faces("u"))
    states = [start(ensemble.models[0]), fast, start(ensemble.models[2])]
    run = Simulation(ensemble, ensemble.initial, sw.AB2(10.0))
    run.state = sw.Ensemble(ensemble.models, states).initial
    with pytest.raises(BlowUp, match=r"member 1 \(dissipation\[0\].viscosity = 200.0\) .*shorter time step"):
        run.run(steps=20)


def test_a_time_step_too_long_for_one_member_is_refused_with_its_name(ranks, ensemble):
    with pytest.raises(ConfigError, match=r"over the limit of AB2: gravity waves in member 2 \(diss.* = 400.0\)"):
        Simulation(ensemble, ensemble.initial, sw.AB2(70.0))


@pytest.mark.parametrize(
    ("other", "said"),
    [
        ({"dissipation": (sw.Laplacian(1.0),)}, "another set of forcings, drags and viscosities"),
        ({"linear": True, "dissipation": ()}, "another mode"),
        ({"momentum": sw.ArakawaLamb()}, "another momentum scheme"),
        ({"coriolis": sw.BetaPlane(1e-4, 1e-11)}, "another kind of Coriolis force"),
        ({"side": sw.FreeSlip()}, "another slip at walls"),
        ({"boundaries": sw.Flather("west")}, "another set of open sides"),
    ],
)
def test_members_of_another_structure_are_refused(other, said):
    models = [member(ALONE, 0), member(ALONE, 1, **other)]
    with pytest.raises(ConfigError, match=f"member 1 has {said}.* than member 0, and one program steps all"):
        sw.Ensemble(models, [start(model) for model in models])


def test_members_on_other_grids_or_coasts_are_refused():
    first = member(ALONE, 0)
    coarser = sw.ShallowWater(sw.CartesianGrid(12, 11, (0.0, 1.0e5), (0.0, 1.0e5)), 100.0, communicator=ALONE)
    with pytest.raises(ConfigError, match="another grid"):
        sw.Ensemble([first, coarser], [start(first), coarser.at_rest()])
    filled = sw.ShallowWater(
        cases.plane(),
        cases.sea_floor(islands=False),
        coriolis=sw.FPlane(1e-4),
        side=sw.NoSlip(),
        dissipation=(sw.Laplacian(1.0), sw.QuadraticDrag(1e-3)),
        communicator=ALONE,
        forcing=(sw.WindStress(x=sw.Records([0.0, 1.0], np.zeros((2, *SHAPE)))),),
    )
    with pytest.raises(ConfigError, match="other coasts"):
        sw.Ensemble([first, filled], [start(first), start(filled)])
    with pytest.raises(ConfigError, match="2 states and 3 values of amplitude"):
        sw.Ensemble(first, [start(first), start(first)], {"amplitude": [1, 2, 3]})
