"""A run: whole whatever it is cut into, stopped in time and with a reason, and gone on with bit for bit."""

import os
import signal

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import xarray as xr

import swmodel as sw
from swmodel.errors import BlowUp, ConfigError, Interrupted
from swmodel.fields.state import replace
from swmodel.output.products.base import ProductOutput
from swmodel.simulation.simulation import Simulation
from tests.restarts import read_restart
from tests.selection import now

NX, NY = 8, 6
GRID = sw.CartesianGrid(NX, NY, (0.0, NX * 1e4), (0.0, NY * 1e4))
RNG = np.random.default_rng(5)
DEPTH = np.where(RNG.random(GRID.shape) < 0.1, 0.0, 800.0 + 200.0 * RNG.random(GRID.shape))
UPLIFT = RNG.random(GRID.shape)
GAUGES = {"one": (3.3e4, 2.1e4), "two": (6.1e4, 4.7e4)}
STEPPERS = (sw.AB3(10.0), sw.SSPRK3(10.0), sw.ForwardBackward(10.0))


WIND = sw.Records((0.0, 230.0, 410.0), np.random.default_rng(6).standard_normal((3, NY, NX)), 500.0)


def forced():
    return sw.ShallowWater(
        GRID,
        DEPTH,
        coriolis=sw.FPlane(1e-4),
        forcing=(sw.WindStress(x=WIND, y=0.1),),
        source=sw.BottomMotion((0.0, 37.0, 95.0), np.multiply.outer((0.0, 0.7, 1.0), UPLIFT)),
    )


FORCED, CALM = forced(), sw.ShallowWater(GRID, 100.0)  # programs are compiled once for each


def simulation(folder, model=FORCED, stepper=STEPPERS[0], every=50.0, state=None, threshold=0.3, **options):
    """A Simulation that writes all it can into `folder`."""
    state = model.at_rest() if state is None else state
    run = Simulation(model, state, stepper, title="test", **options)
    run.write(folder / "fields.nc", ("eta", "u", "v"), every=every).gauges(folder / "gauges.nc", GAUGES)
    return run.maxima(folder / "maxima.nc", threshold=threshold).restart(folder / "restart.nc", every=every)


def maxima_of(run):
    """{name: array} of the maxima until now."""
    return next(output.arrays for output in run.outputs if isinstance(output, ProductOutput))


def open_all(folder):
    names = ("fields", "gauges", "maxima")
    return {name: xr.open_dataset(folder / f"{name}.nc", decode_times=False).load() for name in names}


def assert_same(a, b):
    for x, y in zip(*map(jax.tree.leaves, (a, b))):
        np.testing.assert_array_equal(x, y)


@pytest.fixture(scope="module")
def every_step(tmp_path_factory):
    """(the run, its files) with an output at every one of 60 steps."""
    folder = tmp_path_factory.mktemp("every_step")
    run = simulation(folder, every=10.0)
    run.run(steps=60)
    return run, open_all(folder)


# -- how it is cut does not matter -------------------------------------------------------------------------------------


def test_a_run_in_parts_equals_one_of_single_steps_bit_for_bit_and_goes_on_with_the_same_files(every_step, tmp_path):
    """Over the records of a wind that comes again and of a sea floor that rises off the steps."""
    run = simulation(tmp_path, every=1e9)
    for until in (130.0, 200.0, 600.0):
        run.run(until=until)
    single, whole = every_step
    assert_same((run.state, run.history, maxima_of(run)), (single.state, single.history, maxima_of(single)))
    found = open_all(tmp_path)
    np.testing.assert_allclose(found["gauges"].time, whole["gauges"].time)
    np.testing.assert_array_equal(found["gauges"].eta, whole["gauges"].eta)
    np.testing.assert_array_equal(found["maxima"].maximum_elevation, whole["maxima"].maximum_elevation)
    wanted = [0.0, 130.0, 200.0, 600.0]  # the end of a run is written too
    np.testing.assert_allclose(found["fields"].time, wanted)
    np.testing.assert_array_equal(found["fields"].eta, whole["fields"].eta.sel(time=wanted))


def test_maxima_and_arrivals_are_those_of_every_step(every_step):
    files = every_step[1]
    eta = files["fields"].eta
    np.testing.assert_allclose(files["maxima"].maximum_elevation.squeeze(), eta.max("time"), rtol=1e-6)
    above = np.abs(eta) > 0.3
    first = xr.where(above.any("time"), eta.time[above.argmax("time")].drop_vars("time"), np.nan)
    np.testing.assert_array_equal(files["maxima"].arrival_time.squeeze(), first)
    assert 0 < int(above.any("time").sum()) and float(first.max()) > float(first.min())


# -- restarts ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("stepper", now(STEPPERS, STEPPERS[0]), ids=lambda s: type(s).__name__)
def test_a_restart_goes_on_bit_for_bit(stepper, tmp_path):
    whole = simulation(tmp_path / "whole", stepper=stepper, every=1e9)
    whole.run(steps=40)
    simulation(tmp_path / "parts", stepper=stepper, every=1e9).run(steps=13)
    resumed = simulation(tmp_path / "parts", stepper=stepper, every=1e9)
    restart = tmp_path / "parts" / "restart.nc"
    assert resumed.resume(restart) == f"resumed {restart} at step 13 (130 s)."
    assert resumed.time == 130.0
    resumed.run(steps=27)
    assert_same((resumed.state, resumed.history, maxima_of(resumed)), (whole.state, whole.history, maxima_of(whole)))
    a, b = open_all(tmp_path / "whole"), open_all(tmp_path / "parts")
    np.testing.assert_array_equal(a["gauges"].eta, b["gauges"].eta)
    np.testing.assert_allclose(b["gauges"].time, 10.0 * np.arange(41))
    np.testing.assert_array_equal(a["maxima"].arrival_time, b["maxima"].arrival_time)


def test_another_time_step_or_stepper_starts_its_history_anew_and_says_so(tmp_path):
    first = simulation(tmp_path, every=1e9, threshold=0.05)
    first.run(steps=20)
    arrived = open_all(tmp_path)["maxima"].arrival_time
    for stepper, step in ((sw.AB3(5.0), 40), (sw.AB2(10.0), 20)):
        run = simulation(tmp_path, stepper=stepper, every=1e9, threshold=0.05)
        message = run.resume(tmp_path / "restart.nc")
        assert "written by AB3 with dt = 10 s, so the time stepper's history starts anew" in message
        assert run.step == step and run.time == 200.0 and int(run.history.count) == 0
        assert_same(run.state, first.state)
        steps = np.asarray(maxima_of(run)["arrival"])
        seconds = np.where(steps >= 0, steps * stepper.dt, np.nan)
        np.testing.assert_allclose(seconds, arrived.squeeze())


def test_maxima_that_an_earlier_run_did_not_watch_start_with_the_restart(tmp_path):
    hump = CALM.state(eta=lambda x, y: 0.5 * np.exp(-((x - 4e4) ** 2 + (y - 3e4) ** 2) / 4e8))
    plain = Simulation(CALM, hump, STEPPERS[0]).restart(tmp_path / "restart.nc")
    plain.run(steps=30)
    run = simulation(tmp_path, model=CALM, every=1e9, state=CALM.state(eta=9.0))
    run.resume(tmp_path / "restart.nc")
    np.testing.assert_array_equal(maxima_of(run)["maximum"], plain.state.eta)


# -- safety ------------------------------------------------------------------------------------------------------------


def test_a_run_that_is_no_longer_finite_writes_nothing_of_it(tmp_path):
    """Also where it fell ill between two looks and outputs were due at once."""
    run = simulation(tmp_path, model=CALM, every=30.0, state=CALM.state(u=0.1))
    run.run(steps=3)
    healthy = read_restart(tmp_path / "restart.nc", GRID)
    run.state = replace(run.state, v=run.state.v.at[2, 3].set(np.nan))
    with pytest.raises(BlowUp) as stopped:
        Simulation.run(run, steps=40)
    text = str(stopped.value)
    assert "stopped at step 6 (60 s)" in text and "the elevation or the velocity is not finite" in text
    assert "use a shorter time step" in text
    assert f"The newest restart is {tmp_path / 'restart.nc'}, of step 3: swmodel resume" in text
    kept = read_restart(tmp_path / "restart.nc", GRID)
    assert kept.scalars["step"] == healthy.scalars["step"] == 3
    np.testing.assert_array_equal(kept.arrays["state_u"], healthy.arrays["state_u"])
    assert float(open_all(tmp_path)["fields"].time.max()) <= 30.0
    assert np.isnan(run.state.eta).any()  # what it was is there to look at


@pytest.mark.parametrize(
    "fields, sentences",
    [
        ({"eta": -99.5}, ("is only 0.50 m deep", "raise the minimum depth")),
        ({"u": 1500.0, "v": 10.0}, ("crosses", "cells a step", "use a shorter time step")),
    ],
)
def test_a_run_stops_where_it_runs_dry_or_too_fast(fields, sentences, tmp_path):
    mask = np.zeros(GRID.shape)
    mask[3, 5] = 1.0
    model = sw.ShallowWater(GRID, 100.0, gravity=1e-6)
    state = model.state(**{name: x * mask for name, x in fields.items()})
    run = simulation(tmp_path, model=model, stepper=sw.SSPRK3(10.0), every=10.0, state=state)
    with pytest.raises(BlowUp, match=r"stopped at step 1 \(10 s\): in the cell at \(55000, 35000\)") as stopped:
        run.run(steps=20)
    assert all(sentence in str(stopped.value) for sentence in sentences)
    assert stopped.value.exit_code == 3 and "No restart was written." in str(stopped.value)


def test_parts_of_ones_own_that_are_not_finite_are_named():
    class Pull(sw.Term):
        def __call__(self, flow, time):
            return (0.0 * flow.u).map(lambda u: u / u), 0.0

    class Opening(sw.OpenBoundary):
        def outflow(self, inside, time):
            return inside.eta.map(lambda eta: np.nan * eta)

    class Calm(sw.Term):
        def __call__(self, flow, time):
            drag = 1e-7 * time.dt + 0.0 * time.phase(600.0)  # as parts with records and tides do
            return -drag * flow.u, -drag * flow.v

    model = sw.ShallowWater(
        GRID, 100.0, dissipation=(Calm(), Pull()), boundaries=Opening(sides="west"), engine="arrays"
    )
    with pytest.raises(BlowUp, match=r"values of \S+Opening and \S+Pull are not finite .*; correct its code"):
        Simulation(model, model.at_rest(), sw.AB2(10.0)).run(steps=2)


def test_usr1_asks_for_a_restart_and_the_run_goes_on(tmp_path):
    run = simulation(tmp_path, model=CALM, every=1e9)
    seen = []

    def progress(step, *rest):
        if step and not seen:
            seen.append(step)
            os.kill(os.getpid(), signal.SIGUSR1)
        elif step and len(seen) == 1 and (tmp_path / "restart.nc").exists():
            seen.append(read_restart(tmp_path / "restart.nc", GRID).scalars["step"])

    run.run(steps=60, progress=progress)
    assert run.step == 60 and seen[0] < seen[1] < 60


@pytest.mark.parametrize("number", (pytest.param(signal.SIGINT, marks=pytest.mark.verify), signal.SIGTERM))
def test_int_and_term_write_a_restart_and_end_the_run(number, tmp_path):
    run, before = simulation(tmp_path, model=CALM, every=1e9), signal.getsignal(number)

    def progress(step, *rest):
        if step == 8:
            os.kill(os.getpid(), number)

    sentence = rf"{number.name} stopped the run at step \d+ .*of step \d+: swmodel resume"
    with pytest.raises(Interrupted, match=sentence) as stopped:
        run.run(steps=1000, progress=progress)
    assert stopped.value.exit_code == 128 + number
    assert read_restart(tmp_path / "restart.nc", GRID).scalars["step"] == run.step < 1000
    assert signal.getsignal(number) is before
    run.run(steps=2)  # and it can go on
    assert read_restart(tmp_path / "restart.nc", GRID).scalars["step"] == run.step


# -- small things ------------------------------------------------------------------------------------------------------


def test_outputs_more_frequent_than_steps_and_unknown_variables_are_refused(tmp_path):
    run = Simulation(CALM, CALM.at_rest(), STEPPERS[0])
    with pytest.raises(ConfigError, match="is to be written every 5 s, and a step takes 10 s"):
        run.write(tmp_path / "a.nc", ("eta",), every=5.0)
    with pytest.raises(ConfigError, match="no variable 'etta'; choose from"):
        run.write(tmp_path / "a.nc", ("etta",), every=50.0)


def test_a_run_has_one_file_of_gauges_and_one_end(tmp_path):
    run = simulation(tmp_path, model=CALM, every=1e9)
    with pytest.raises(ConfigError, match="gauges are written to .*gauges.nc already; ask for all of them at once"):
        run.gauges(tmp_path / "more.nc", {"three": (1e4, 1e4)})
    for ends in ({}, {"until": 10.0, "steps": 1}):
        with pytest.raises(ConfigError, match="give one of until, in seconds of model time, and steps"):
            run.run(**ends)


def test_a_run_cannot_go_back(tmp_path):
    run = simulation(tmp_path, model=CALM, every=1e9)
    run.run(until=100.0)
    with pytest.raises(ConfigError, match="is at 100 s already, and cannot end at 50 s"):
        run.run(until=50.0)


def test_an_interval_that_is_no_multiple_of_the_step_is_met_at_the_nearest(tmp_path):
    run = simulation(tmp_path, model=CALM, every=25.0)
    run.run(until=200.0)
    times = open_all(tmp_path)["fields"].time.values
    assert times[0] == 0 and times[-1] == 200 and np.abs(times - 25.0 * np.arange(times.size)).max() <= 5.0


def test_the_state_that_was_given_is_left_as_it_was(tmp_path):
    start = CALM.state(u=0.1)
    run = simulation(tmp_path, model=CALM, every=1e9, state=start)
    run.run(steps=5)
    np.testing.assert_array_equal(start.u, CALM.state(u=0.1).u)
    assert isinstance(run.state.u, jnp.ndarray) and not np.array_equal(run.state.u, start.u)


def test_a_signal_is_obeyed_before_anything_waits_for_files(tmp_path, monkeypatch):
    """The time that a signal leaves may be less than a file takes."""
    from swmodel.output.running import Run
    from swmodel.runtime.signals import PROCESS, SignalMonitor

    order, original = [], Run.wait
    monkeypatch.setattr(PROCESS, "take_over", lambda: order.append("taken over"))
    monkeypatch.setattr(SignalMonitor, "take", lambda self: 3 if run.step else 0)
    monkeypatch.setattr(Run, "wait", lambda self: (order.append("waited") if run.step else None, original(self)))
    run = simulation(tmp_path, every=230.0)  # when a record of the forcing is due, too
    with pytest.raises(Interrupted):
        run.run(until=600.0, progress=lambda *news: None)
    assert order[0] == "taken over"
