"""Timings and fits, the prediction from them, and what `swmodel bench` and `check` print."""

import dataclasses
import json
import math
import os
import re
import subprocess
import sys
from types import SimpleNamespace

import jax
import numpy as np
import pytest

import swmodel as sw
from swmodel.config.parts import Shipped
from swmodel.errors import ConfigError, DataError
from swmodel.parallel import SerialCommunicator
from swmodel.performance import prediction
from swmodel.performance.prediction import (
    Compute,
    Link,
    Machine,
    fit_compute,
    fit_link,
    machines_of,
    measure_compute,
    predict,
    signature,
    triad_bandwidth,
)
from swmodel.performance.timing import STEPPERS, OneOfMany, Program, basin, batch_of, stepper_named
from swmodel.runtime import launch
from swmodel.stepping.explicit import TimeStepper

NX, NY = 48, 36
needs_mpi = pytest.mark.skipif(not launch.mpi_installed(), reason="needs mpi4py and mpi4jax")


@pytest.fixture(scope="module")
def sea():
    return basin(NX, NY, "float64", SerialCommunicator())


@pytest.fixture(scope="module")
def program(sea):
    return Program(*sea, stepper_named("ab2"), 3)


# -- programs ---------------------------------------------------------------------------------------------------------


def test_a_program_takes_the_steps_that_integrate_takes_and_leaves_the_callers_state(sea, program):
    (model, state), stepper = sea, stepper_named("ab2")
    assert program.run(2) > 0
    expected, _ = sw.integrate(model.dynamics(stepper), stepper, state, 6)
    for ours, whole in zip(jax.tree.leaves(program.state), jax.tree.leaves(expected)):
        np.testing.assert_allclose(ours, whole, rtol=0, atol=1e-12 * np.abs(whole).max())


def test_the_time_step_of_the_benchmarks_is_stable_for_every_stepper():
    model, state = basin(NX, NY, "float64", SerialCommunicator())
    for name in ("ab2", "ab3", "ssprk3", "rk4", "forward_backward"):
        stepper = stepper_named(name)
        assert stepper.dt < sw.largest_time_step(sw.limits(model, stepper, state)), name


def test_memory_counts_what_the_program_is_given_and_needs_beside(program):
    memory = program.memory()
    assert memory.tile == 8 * NX * NY
    assert memory.shared >= 6 * memory.tile, "state and tendencies are stepped in the buffers that came in"
    assert 7 < memory.arrays < 40  # u, v, eta, their tendencies and H at least


def test_bytes_moved_are_state_and_tendencies_read_and_written_once(program):
    assert program.bytes_moved(1) == 12 * 8


def test_one_rank_sends_nothing_and_one_of_four_sends_its_edges_to_two_neighbours():
    stepper = stepper_named("ab2")
    alone = Program(*basin(NX, NY, "float64", SerialCommunicator()), stepper, 1, compiled=False)
    assert alone.traffic() == (0, 0, 0)
    model, state = basin(NX, NY, "float64", OneOfMany((2, 2)))
    messages, size, reductions = Program(model, state, stepper, 1, compiled=False).traffic()
    halo, edges = model.halo(stepper), NX // 2 + NY // 2
    least = 8 * 3 * 2 * halo * edges
    assert (messages, reductions) == (2, 0)
    assert least <= size <= least + 8 * 3 * 8 * halo * halo, "the corners are all that comes on top"


def test_a_batch_takes_about_a_second_at_any_size():
    assert batch_of(10) == 2048 and batch_of(10**12) == 8
    assert batch_of(2e6) == 200


# -- fits -------------------------------------------------------------------------------------------------------------


def test_a_link_is_found_from_the_times_of_its_messages():
    sizes = [16, 1024, 65536, 4 << 20]
    link = fit_link(sizes, [2e-6 + n / 5e9 for n in sizes])
    assert link.latency == pytest.approx(2e-6) and link.bandwidth == pytest.approx(5e9)
    noise = np.random.default_rng(0).uniform(0.9, 1.1, 40)
    sizes = np.tile(sizes, 10)
    link = fit_link(sizes, noise * (2e-6 + sizes / 5e9))
    assert link.latency == pytest.approx(2e-6, rel=0.15) and link.bandwidth == pytest.approx(5e9, rel=0.15)


def test_a_link_without_latency_gets_none_below_zero():
    sizes = [16, 1024, 65536]
    link = fit_link(sizes, [1e-6, 1e-6 + 1e-7, 60e-6])
    assert link.latency >= 0 and link.bandwidth > 0


@pytest.mark.parametrize(("latency", "bandwidth"), [(-1e-6, 1e9), (1e-6, 0.0), (math.nan, 1e9)])
def test_an_impossible_link_is_refused(latency, bandwidth):
    with pytest.raises(ConfigError, match="no link"):
        Link(latency, bandwidth)


def test_the_cost_of_a_step_and_of_a_cell_are_found_and_the_cache_with_them():
    cells = np.array([1e4, 1e5, 1e6, 4e6, 16e6])
    truth = Compute(2e-5, 2e-9, beyond=1e-9, knee=1e6)
    found = fit_compute(cells, [truth.seconds(n) for n in cells])
    assert (found.overhead, found.per_cell) == pytest.approx((2e-5, 2e-9))
    assert (found.beyond, found.knee) == pytest.approx((1e-9, 1e6))


def test_two_sizes_give_a_line_and_one_the_cost_of_a_cell():
    line = fit_compute([1e4, 1e6], [1e-5 + 2e-5, 1e-5 + 2e-3])
    assert line.overhead == pytest.approx(1e-5) and line.per_cell == pytest.approx(2e-9)
    assert fit_compute([1e6], [2e-3]).seconds(5e5) == pytest.approx(1e-3)


def test_no_fitted_cost_is_negative():
    found = fit_compute([1e4, 1e5, 1e6, 1e7], [1e-4, 0.9e-4, 1e-3, 0.5e-2])
    assert min(found.overhead, found.per_cell, found.beyond) >= 0


@pytest.mark.verify
def test_the_cost_of_the_models_own_program_is_measured_at_two_sizes():
    stepper = stepper_named("ab2")

    def make(communicator):
        return basin(2 * NX, 2 * NY, "float64", communicator)

    found = measure_compute(make, (2 * NY, 2 * NX), stepper, cuts=(1, 2), repeats=1)
    assert found.signature == "AB2, float64, cartesian, EnergyConserving, Laplacian"
    assert 0 < found.seconds(4 * NX * NY) < 1.0


def test_a_signature_tells_physics_apart():
    model, _ = basin(8, 8, "float64", SerialCommunicator())
    sphere = sw.SphericalGrid(8, 8, (0.0, 40.0), (0.0, 40.0))
    linear = sw.ShallowWater(sphere, 100.0, linear=True, boundaries=sw.Flather(), communicator="serial")
    printed = {signature(m, s) for m in (model, linear) for s in (sw.AB2(1.0), sw.RK4(1.0))}
    assert len(printed) == 4 and "RK4, float64, spherical, linear, Flather" in printed
    grid, depth = model.grid, 100.0
    layers = sw.Layers(thickness=(50.0,), densities=(1025.0, 1028.0))
    coast = {"momentum": sw.MomentumConserving(), "wetting": sw.WettingDrying()}
    parts = {}, {"layers": layers}, {"tracers": sw.Tracer("dye")}, {"engine": "arrays"}, coast
    models = [sw.ShallowWater(grid, depth, communicator="serial", **each) for each in parts]
    assert len({signature(m, sw.AB2(1.0)) for m in models}) == len(parts)


def test_the_triad_counts_three_arrays_a_pass_in_the_best_of_its_times(monkeypatch):
    clock = iter([0.0, 3.0, 10.0, 11.0, 20.0, 22.0])  # the begin and the end of each turn [s]
    monkeypatch.setattr(prediction, "time", SimpleNamespace(perf_counter=lambda: next(clock)))
    assert triad_bandwidth(1000, repeats=2) == pytest.approx(12.0 * 1000 * prediction.PASSES)


# -- predictions ------------------------------------------------------------------------------------------------------

LINE = Compute(overhead=1e-5, per_cell=1e-9)
SHARED = Machine(cores=4, shared=Link(1e-6, 1e9))


def test_ranks_of_one_machine_share_it():
    """All its cores and its memory work on all cells, whatever the number of ranks; more ranks than cores wait."""
    one, four, eight = (predict(SHARED, LINE, 1e6, ranks) for ranks in (1, 4, 8))
    assert one.compute == four.compute == pytest.approx(1e-5 + 1e-3)
    assert eight.compute == pytest.approx(2e-5 + 1e-3)
    assert one.exchange == 0 and one.machines == eight.machines == 1


def test_messages_come_on_top_and_reductions_take_a_round_for_each_doubling():
    found = predict(SHARED, LINE, 1e6, 4, (4, 8000, 1))
    assert found.exchange == pytest.approx(4e-6 + 8e-6 + 2e-6) and found.seconds == found.compute + found.exchange
    assert predict(SHARED, LINE, 1e6, 1, (4, 8000, 1)).exchange == 0


def test_with_a_network_ranks_fill_machines_and_their_messages_take_it():
    both = SHARED.merge(Machine(network=Link(1e-4, 1e8)))
    assert [machines_of(both, ranks) for ranks in (1, 4, 5, 64)] == [1, 1, 2, 16]
    assert machines_of(SHARED, 64) == 1 and machines_of(SHARED, 64, 8) == 8
    found = predict(both, LINE, 64e6, 64, (4, 8000, 0))
    assert found.machines == 16 and found.link == both.network
    assert found.compute == pytest.approx(1e-5 + 4e-3)
    assert predict(both, LINE, 1e6, 4, (4, 8000, 0)).link == both.shared


@pytest.mark.parametrize(("per_machine", "said"), [(None, "between ranks"), (2, "between machines")])
def test_a_link_that_nobody_measured_is_asked_for(per_machine, said):
    with pytest.raises(ConfigError, match=said):
        predict(Machine(cores=4), LINE, 1e6, 4, (4, 8000, 0), per_machine)


def test_a_machine_is_kept_in_a_file_and_completed(tmp_path):
    file = tmp_path / "machine.json"
    machine = Machine("A", 4, 1e10, (dataclasses.replace(LINE, signature="a"),), Link(1e-6, 1e9))
    machine.save(file)
    assert Machine.load(file) == machine
    newer = machine.merge(Machine(compute=(Compute(1.0, 2.0, signature="b"),), network=Link(1e-4, 1e8)))
    assert newer.compute_of("a") == machine.compute[0] and newer.compute_of("b").overhead == 1.0
    assert (newer.cores, newer.shared, newer.processor) == (4, machine.shared, "A")
    again = newer.merge(Machine(compute=(Compute(3.0, 2.0, signature="b"),)))
    assert again.compute_of("b").overhead == 3.0 and len(again.compute) == 2 and again.compute_of("c") is None


@pytest.mark.parametrize("text", ["", "[]", '{"cores": 2}', '{"compute": 3, "shared": null, "network": null}'])
def test_a_file_that_holds_no_machine_is_named(tmp_path, text):
    file = tmp_path / "machine.json"
    file.write_text(text)
    with pytest.raises(DataError, match=r"machine\.json is no file of `swmodel bench --save`"):
        Machine.load(file)
    with pytest.raises(DataError, match="there is no file"):
        Machine.load(tmp_path / "none.json")


# -- commands ---------------------------------------------------------------------------------------------------------

CASE = """\
run = {until = "1 hour"}
grid = {type = "cartesian", nx = 48, ny = 36, x = [0, "240 km"], y = [0, "180 km"]}
bathymetry = {type = "flat", depth = "4000 m"}
model = {precision = "float32"}
coriolis = {type = "beta_plane", f0 = 1e-4, beta = 4e-12}
initial = {type = "gaussian", amplitude = 1, centre = ["100 km", "90 km"], radius = "50 km"}
stepper = {type = "ab2", epsilon = 0.1, dt = 2}
dissipation = [{type = "laplacian", viscosity = 1000}]
"""


@pytest.fixture
def untimed():
    """Here `check` times steps."""


@pytest.fixture
def case(tmp_path):
    path = tmp_path / "case.toml"
    path.write_text(CASE)
    return path


def record(out):
    return dict(word.split("=") for word in re.search(r"^bench (.*)$", out, re.M)[1].split())


@pytest.mark.verify
def test_bench_tells_times_bandwidth_messages_memory_and_keeps_what_check_uses(command, tmp_path, monkeypatch, case):
    monkeypatch.setattr("swmodel.performance.prediction.last_cache", lambda: 1 << 20)  # a server's takes long to fill
    monkeypatch.setattr("swmodel.performance.prediction.batch_of", lambda cells: 8)  # in place of a second of steps
    file = tmp_path / "machine.json"
    out, _ = command.ok("bench", case, "--steps", 4, "--repeats", 2, "--save", file)
    printed = record(out)
    assert (printed["nx"], printed["ny"], printed["ranks"], printed["precision"]) == ("48", "36", "1", "float32")
    share = 48 * float(printed["cells_per_second"]) / float(printed["bandwidth"])
    assert float(printed["fraction_of_bandwidth"]) == pytest.approx(share, rel=1e-3)
    for part in ("million cells a second", "of its bandwidth", "0 a step and rank", "arrays", "compiled", "fitted:"):
        assert part in out, part
    kept = Machine.load(file)
    assert kept.cores == launch.threads_per_rank()
    assert kept.bandwidth == pytest.approx(float(printed["bandwidth"]), rel=1e-4)
    slow = dataclasses.replace(kept.compute[0], overhead=1.0, per_cell=0.0, beyond=0.0)
    dataclasses.replace(kept, compute=(slow,)).save(file)
    status, out, err = command("check", case, "--machine", file)
    assert status == 0 and "about 1e+03 ms a step\n" in out and "1,800 steps in about 30 min" in out, out + err
    network = "--latency", 1e-3, "--bandwidth", 1e9, "--per-machine", 8
    assert "8 machines" in command.ok("check", case, "--ranks", 64, "--machine", file, *network)[0]
    assert 4.0 <= float(re.search(r"and (\S+) ms in 4 messages of", out)[1]) < 4.1


@pytest.mark.verify
@needs_mpi
def test_check_measures_here_what_no_file_tells(command, case):
    out, _ = command.ok("check", case, "--ranks", 2)
    assert "shared memory only" in out
    found = re.search(r"about (\S+) ms a step: (\S+) ms of arithmetic and (\S+) ms in a message of", out)
    total, arithmetic, exchange = map(float, found.groups())
    assert total == pytest.approx(arithmetic + exchange, rel=0.02) and exchange > 0


@pytest.mark.verify
def test_check_says_what_a_file_does_not_tell(command, tmp_path, monkeypatch, case):
    monkeypatch.setattr("swmodel.performance.prediction.batch_of", lambda cells: 8)  # in place of a second of steps
    file = tmp_path / "machine.json"
    Machine(cores=2, compute=(dataclasses.replace(LINE, signature="other physics"),)).save(file)
    out, _ = command.ok("check", case, "--ranks", 2, "--machine", file)
    assert f"{file} was not made with this physics, so its cost was measured here" in out
    assert f"messages are left out: {file} has no timing of messages" in out


@pytest.mark.verify
def test_check_without_mpi_says_that_messages_are_left_out(command, monkeypatch, case):
    monkeypatch.setattr(launch, "mpi_installed", lambda: False)
    out, _ = command.ok("check", case, "--ranks", 2)
    assert (
        "ms a step; shared memory only" in out and "messages are left out: messages cannot be timed without MPI" in out
    )


def test_plain_check_measures_nothing(command, case):
    assert "ms a step" not in command.ok("check", case)[0]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["bench", "--size", "300"], "--size 300 is not a size"),
        (["bench", "--size", "0x5"], "--size 0x5 is not a size"),
        (["bench", "--layout", "two"], "--layout two is not a layout"),
        (["bench", "--stepper", "euler"], "give one of"),
        (["bench", "--size", "8x8", "--network"], "mpirun -n 2 swmodel bench --network"),
        (["bench", "none.toml"], "there is no experiment file"),
    ],
)
def test_a_bench_that_cannot_be_is_one_sentence(command, arguments, said):
    status, out, err = command(*arguments)
    assert status in (1, 2) and out == ""
    assert said in err and err.startswith("error: ")


def test_a_latency_without_a_bandwidth_is_refused(command, case):
    status, _, err = command("check", case, "--ranks", 2, "--latency", 1e-6)
    assert status == 2 and "--latency and --bandwidth belong together" in err


def test_a_profile_of_a_run_holds_a_trace_and_its_memory_and_tells_how_to_open_them(command, tmp_path, case):
    out, _ = command.ok("run", case, "--until", "1 min", "--profile", tmp_path / "profile", "-o", tmp_path)
    trace = re.search(r"profile: drop (\S+) on https://ui.perfetto.dev", out)[1]
    assert os.path.getsize(trace) > 100 and (tmp_path / "profile" / "memory.prof").stat().st_size > 10
    assert "pprof" in out


@pytest.mark.verify
@needs_mpi
def test_two_ranks_measure_the_memory_that_they_share(tmp_path):
    file = tmp_path / "machine.json"
    program = [sys.executable, "-m", "swmodel", "bench", "--network", "--save", str(file)]
    environment = {**launch.mpirun_environment(), "JAX_PLATFORMS": "cpu", "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run([*launch.mpirun(2), *program], capture_output=True, text=True, env=environment, timeout=300)
    assert done.returncode == 0, done.stderr
    assert "shared memory only" in done.stdout and "fitted" in done.stdout
    found = json.loads(file.read_text())
    assert found["network"] is None and 0 <= found["shared"]["latency"] < 0.1 and found["shared"]["bandwidth"] > 1e6


def test_every_explicit_stepper_that_ships_can_be_timed_by_name():
    explicit = {name for name, one in Shipped(TimeStepper).items() if not (one.is_implicit or one.needs_modes)}
    assert set(STEPPERS) == explicit
    assert isinstance(stepper_named("forward_backward"), sw.ForwardBackward)
