"""Whole runs on many ranks: files, restarts on another number of ranks, and ends that all ranks share."""

import threading

import jax
import numpy as np
import pytest
import xarray as xr

from swmodel.dynamics.domain import floor_of
from swmodel.errors import BlowUp, DataError, TileError
from swmodel.output.fingerprint import fingerprint
from swmodel.parallel import make_communicator
from swmodel.simulation.simulation import Simulation

from . import cases

CASE, LAYOUT = "walls and islands", cases.LAYOUTS[0]
BOX = (2.0e4, 9.0e4, 1.5e4, 7.5e4)  # across the tiles
GAUGES = {"in the middle": (6.1e4, 4.7e4), "by a corner": (1.0e3, 1.0e3)}


def simulation(model, stepper):
    return Simulation(model, cases.start(model), stepper)


@pytest.fixture(scope="module")
def models():
    """(model, stepper) on all ranks, and on this one alone."""
    return cases.together(CASE, LAYOUT), cases.alone(CASE)


def test_files_of_many_ranks_hold_what_one_rank_would_write(models, tmp_path):
    """Snapshots, also of blocks in a box, gauges and maxima, faces on the west and south edge included."""
    for name, (model, stepper) in zip(("all", "one"), models):
        if name == "one" and not models[0][0].communicator.is_root:
            continue
        run = simulation(model, stepper)
        run.write(tmp_path / f"{name}.nc", ("eta", "u", "v", "vorticity", "thickness", "speed"), every=100.0)
        run.write(tmp_path / f"{name}-box.nc", ("eta", "u"), every=100.0, box=BOX, coarsen=2)
        run.gauges(tmp_path / f"{name}-gauges.nc", GAUGES, variables=("eta", "u", "v")).maxima(
            tmp_path / f"{name}-maxima.nc", threshold=0.5
        )
        run.run(until=300.0)
    if models[0][0].communicator.is_root:
        for kind in ("", "-box", "-gauges", "-maxima"):
            with (
                xr.open_dataset(tmp_path / f"all{kind}.nc") as ours,
                xr.open_dataset(tmp_path / f"one{kind}.nc") as one,
            ):
                xr.testing.assert_allclose(ours, one, rtol=1e-6, atol=1e-9)
    models[0][0].communicator.barrier()


def test_only_the_main_thread_sends_messages_and_only_the_root_starts_a_thread_that_writes(models, tmp_path):
    model, stepper = models[0]
    communicator, senders, writers = model.communicator, set(), set()
    if communicator.size == 1:
        pytest.skip("one rank sends no messages")

    def watched(verb):
        def call(*arguments, **options):
            senders.add(threading.current_thread())
            writers.update(thread.name for thread in threading.enumerate() if thread.name == "writer")
            return verb(*arguments, **options)

        return call

    verbs = ("gather_to_root", "_rows", "host_sum", "host_maximum", "host_broadcast", "host_gather", "barrier")
    run = simulation(model, stepper).write(tmp_path / "fields.nc", ("eta", "u"), every=2 * stepper.dt)
    run.gauges(tmp_path / "gauges.nc", GAUGES).maxima(tmp_path / "maxima.nc").restart(tmp_path / "restart.nc", 50.0)
    with pytest.MonkeyPatch.context() as patch:
        for verb in verbs:
            patch.setattr(communicator, verb, watched(getattr(communicator, verb)))
        run.run(steps=9)
    assert senders == {threading.main_thread()}
    assert bool(writers) == communicator.is_root


def test_a_restart_goes_on_bit_for_bit_on_the_same_ranks_and_to_rounding_on_one(models, tmp_path):
    (model, stepper), (whole, _) = models
    straight = simulation(model, stepper)
    straight.run(steps=40)
    first = simulation(model, stepper).restart(tmp_path / "restart.nc")
    first.run(steps=25)
    again = simulation(model, stepper)
    again.resume(tmp_path / "restart.nc")
    again.run(steps=15)
    for ours, expected in zip(jax.tree.leaves(again.state), jax.tree.leaves(straight.state)):
        np.testing.assert_array_equal(ours, expected)
    alone = simulation(whole, stepper)
    alone.resume(tmp_path / "restart.nc")
    alone.run(steps=15)
    for ours, expected in zip(jax.tree.leaves(again.state), jax.tree.leaves(alone.state)):
        expected = np.asarray(expected)
        np.testing.assert_allclose(ours, expected[model.tile.slices], rtol=0, atol=1e-12 * np.abs(expected).max())
    model.communicator.barrier()


def test_all_ranks_stop_when_the_flow_of_one_passes_the_cfl_limit(models):
    (model, stepper), _ = models
    u = np.zeros((cases.NY, cases.NX))
    u[5, 6] = 2000.0
    run = Simulation(model, model.state(eta=0.0), stepper)
    run.state = model.state(u=u * model.faces("u"))
    with pytest.raises(BlowUp, match="in the cell at .*shorter time step"):
        run.run(steps=30)


def test_all_ranks_are_told_of_a_folder_that_cannot_be_made(models, tmp_path):
    (model, stepper), _ = models
    if model.communicator.is_root:
        (tmp_path / "file").write_text("")
    model.communicator.barrier()
    run = simulation(model, stepper).write(tmp_path / "file" / "out.nc", ("eta",), every=100.0)
    with pytest.raises(Exception, match="file"):
        run.run(steps=2)
    model.communicator.barrier()


def test_a_layout_for_another_number_of_ranks_is_refused():
    if cases.RANKS == 1:
        pytest.skip("one rank has no layout")
    with pytest.raises(TileError, match="were started"):
        make_communicator("mpi", (64, 64), (5, 7))


def test_the_fingerprint_of_a_restart_does_not_depend_on_the_ranks_and_all_of_them_refuse_another(models, tmp_path):
    (model, stepper), (whole, _) = models
    assert fingerprint(model, 0, 10.0) == fingerprint(whole, 0, 10.0)
    simulation(model, stepper).restart(tmp_path / "restart.nc").run(steps=2)
    shallower = cases.together(CASE, LAYOUT)[0]
    depth = np.where(np.indices(shallower.depth.shape).sum(0) == 0, 100.0, shallower.depth)
    shallower.sea_floor = floor_of(depth, shallower.domain)
    with pytest.raises(DataError, match="the depth differs in 1 cell, by up to"):
        simulation(shallower, stepper).resume(tmp_path / "restart.nc")
    model.communicator.barrier()
