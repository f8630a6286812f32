"""Snapshots every few steps stay on the device until a chunk of steps is complete, and files are as without that."""

import netCDF4
import numpy as np
import pytest

import swmodel as sw
from swmodel.errors import BlowUp
from swmodel.output.products import snapshots
from swmodel.output.products.snapshots import MOST_RECORDS
from swmodel.simulation import driver

pytestmark = pytest.mark.usefixtures("large_tiles")

GRID = sw.CartesianGrid(8, 6, (0.0, 8e4), (0.0, 6e4))
DT = 10.0  # [s]
NAMES = ("eta", "u", "v", "vorticity", "dye")


def simulation(**options):
    model = sw.ShallowWater(GRID, lambda x, y: 500.0 + 100.0 * np.cos(x / 2e4), **options)
    hump = model.state(eta=lambda x, y: 0.5 * np.exp(-((x - 4e4) ** 2 + (y - 3e4) ** 2) / 4e8))
    return sw.Simulation(model, hump, sw.AB2(DT))


def content(path):
    with netCDF4.Dataset(path) as dataset:
        dataset.set_auto_maskandscale(False)
        return {name: dataset[name][:] for name in ("time", *NAMES) if name in dataset.variables}


def counted(monkeypatch):
    """The lengths of all chunks of steps from now on."""
    counts, advance = [], driver.advance

    def call(*arguments):
        counts.append(int(arguments[-1]))
        return advance(*arguments)

    monkeypatch.setattr(driver, "advance", call)
    return counts


def test_a_chunk_holds_many_records_and_no_more_than_there_are_slots(tmp_path, monkeypatch):
    run, counts = simulation().write(tmp_path / "fields.nc", ("eta",), every=2 * DT), counted(monkeypatch)
    run.run(steps=200)
    assert max(counts) == 2 * MOST_RECORDS
    assert len(counts) < 200 / 2 / 4
    assert content(tmp_path / "fields.nc")["time"].tolist() == [2 * DT * k for k in range(101)]


@pytest.mark.parametrize("kind, most, slots", [(sw.AB2, 7, 7), (sw.ForwardBackward, 7, 6), (sw.ForwardBackward, 2, 2)])
def test_chunks_that_snapshots_end_are_whole_cycles_of_the_steppers_buffers(monkeypatch, kind, most, slots):
    monkeypatch.setattr(snapshots, "MOST_BYTES", most * 1000)
    run = simulation()
    run = sw.Simulation(run.model, run.state, kind(DT))
    fields = snapshots.Fields.of(run, ("eta",))
    assert snapshots.Snapshots.of(run, fields, 2 * DT, 1000).capacity == slots


def test_records_are_the_states_of_their_steps_wherever_the_parts_of_a_chunk_end(tmp_path):
    """Samples 9 and 27 steps apart are taken between parts, others within the loop, whose buffers have three roles."""
    intervals, steps = (27, 2, 12, 9), 61
    model = sw.ShallowWater(GRID, 500.0, forcing=(sw.WindStress(0.1, 0.0),))
    start = model.state(eta=lambda x, y: np.cos(x / 2e4) + 0.0 * y)
    run, alone = (sw.Simulation(model, start, sw.ForwardBackward(DT)) for _ in range(2))
    for every in intervals:
        run.write(tmp_path / f"{every}.nc", ("eta",), every=every * DT)
    run.pace.steps = steps  # all in one chunk
    run.run(steps=steps)
    states = [np.asarray(alone.state.eta)] + [np.asarray(alone.run(steps=1).eta) for _ in range(steps)]
    for every in intervals:
        records = content(tmp_path / f"{every}.nc")
        np.testing.assert_array_equal(records["time"], DT * np.array([*range(0, steps, every), steps]))
        wet = np.array([states[round(time / DT)] for time in records["time"]])
        np.testing.assert_array_equal(records["eta"], wet.astype(records["eta"].dtype), err_msg=str(every))


def test_a_resumed_run_continues_its_file(tmp_path):
    whole = simulation().write(tmp_path / "whole.nc", ("eta",), every=2 * DT)
    whole.run(steps=50)
    first = simulation().write(tmp_path / "parts.nc", ("eta",), every=2 * DT).restart(tmp_path / "restart.nc")
    first.run(steps=21)
    second = simulation().write(tmp_path / "parts.nc", ("eta",), every=2 * DT)
    second.resume(tmp_path / "restart.nc")
    second.run(steps=29)
    whole, parts = content(tmp_path / "whole.nc"), content(tmp_path / "parts.nc")
    kept = [k for k, seconds in enumerate(parts["time"]) if seconds != 21 * DT]  # where the first part ended
    for name, values in whole.items():
        np.testing.assert_array_equal(values, parts[name][kept], err_msg=name)


def test_a_state_that_replaces_that_of_a_record_is_in_the_file(tmp_path):
    run = simulation().write(tmp_path / "fields.nc", ("eta",), every=2 * DT)
    run.run(steps=6)
    run.state = run.state.replace(eta=0.0 * run.state.eta)
    run.run(steps=4)
    found = content(tmp_path / "fields.nc")
    assert found["time"].tolist() == [2 * DT * k for k in range(6)]
    assert np.abs(found["eta"]).max(axis=(1, 2)).argmin() == 3


def test_records_before_an_invalid_state_are_written_and_none_after_it(tmp_path):
    """A storm drives the water away from a wall until the bottom is dry there, within a chunk of steps."""
    model = sw.ShallowWater(GRID, 100.0, gravity=1e-6, forcing=(sw.WindStress(1000.0, 0.0),))
    run = sw.Simulation(model, model.at_rest(), sw.AB2(DT)).write(tmp_path / "fields.nc", ("eta",), every=3 * DT)
    run.gauges(tmp_path / "gauges.nc", {"pier": tuple(model.grid.x_edges[:1] + 1.0) * 2})
    with pytest.raises(BlowUp, match=r"stopped at step \d+ .* is only -?0.* m deep") as caught:
        run.run(steps=400)
    step = int(str(caught.value).split("stopped at step ")[1].split()[0])
    assert run.step > step, "the chunk went on"
    found = content(tmp_path / "fields.nc")
    assert found["time"].tolist() == [3 * DT * k for k in range((step - 1) // 3 + 1)]
    assert found["eta"].min() > -99.0 and found["eta"].min() < -90.0
    series = content(tmp_path / "gauges.nc")
    assert series["time"].tolist() == [DT * k for k in range(step)]
    assert np.isfinite(series["eta"]).all()


def test_the_last_state_of_a_chunk_is_checked_though_it_follows_a_record_closely(tmp_path):
    """Step 30 is the first invalid one, 30 steps are whole periods of the buffers, and step 29 is a record."""
    model = sw.ShallowWater(GRID, 100.0, gravity=1e-6, forcing=(sw.WindStress(35e3, 0.0),))
    alone, run = (sw.Simulation(model, model.at_rest(), sw.ForwardBackward(DT)) for _ in range(2))
    alone.run(steps=29)
    with pytest.raises(BlowUp, match="stopped at step 30 "):
        alone.run(steps=1)
    run.pace.steps = 30  # all in one chunk
    with pytest.raises(BlowUp, match="stopped at step 30 "):
        run.write(tmp_path / "fields.nc", ("eta",), every=29 * DT).run(steps=30)


@pytest.mark.parametrize("every", [None, 65 * DT, 2.5 * DT])
def test_other_records_end_a_chunk(tmp_path, every):
    assert not simulation().write(tmp_path / "fields.nc", ("eta",), every=every).outputs[0].watcher


def test_large_records_end_a_chunk(tmp_path, monkeypatch):
    monkeypatch.setattr(snapshots, "MOST_BYTES", 2 * 6 * 8 * 4 - 1)
    assert not simulation(dtype="float32").write(tmp_path / "fields.nc", ("eta",), every=DT).outputs[0].watcher
    monkeypatch.setattr(snapshots, "MOST_BYTES", 2 * 6 * 8 * 4)
    assert (
        simulation(dtype="float32").write(tmp_path / "fields.nc", ("eta",), every=DT).outputs[0].watcher.capacity == 2
    )
