"""`swmodel plan`: costs of a run and its gradient on many ranks, from those of a tile and the messages of a program."""

import json
import math
from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import swmodel as sw
from swmodel.adjoint.core.schedules import Needs
from swmodel.cli.planning import files_of, measure_gradient, ranks_of, segments
from swmodel.config import scenario
from swmodel.elliptic import ConjugateGradients
from swmodel.errors import ConfigError
from swmodel.parallel import SerialCommunicator
from swmodel.parallel.decomposition import TileError
from swmodel.parallel.traffic import Count, Traffic, traffic
from swmodel.performance.planning import Gradient, Plan, Subject, tree
from swmodel.performance.prediction import Compute, Link, Machine
from swmodel.performance.timing import OneOfMany, Program, basin, iterations_of, solver_of, stepper_named, with_rounds
from swmodel.runtime import memory

NODE = Machine(cores=4, shared=Link(1e-6, 1e10), network=Link(1e-5, 1e9))
LINE = Compute(overhead=1e-5, per_cell=1e-9)
NX, NY = 64, 48


def subject(stepper=None, shape=(NY, NX), **more):
    make = lambda communicator: basin(shape[1], shape[0], "float64", communicator, engine="arrays")  # noqa: E731
    stepper = stepper or stepper_named("ab2")
    return Subject(make, shape, stepper, 100, 2, more.pop("iterations", 0), LINE, lambda n: 8.0 * n, **more)


def test_a_row_has_the_tile_the_machines_and_the_messages_of_so_many_ranks():
    plan = Plan(subject(), NODE)
    one, four, many = map(plan.row, (1, 4, 64))
    assert (one.messages, one.exchange, one.machines, one.tile) == (0, 0, 1, (NY, NX))
    assert one.run == pytest.approx(100 * LINE.seconds(NX * NY)) and one.memory == 8 * NX * NY
    assert (four.machines, many.machines) == (1, 16)
    for row, link in ((four, NODE.shared), (many, NODE.network)):
        model, state = subject().make(OneOfMany(row.layout))
        sent = Program(model, state, stepper_named("ab2"), 1, compiled=False).traffic()
        assert row.messages == pytest.approx(sent[0], abs=1e-2) and row.size == pytest.approx(sent[1], rel=0.2)
        assert row.exchange == pytest.approx(link.seconds(row.messages, row.size))


def test_bytes_of_tiles_too_large_to_be_traced_grow_with_their_edges(monkeypatch):
    exact = Plan(subject(), NODE).row(16)
    monkeypatch.setattr("swmodel.performance.planning.MOST_TRACED", 64)
    coarse = Plan(subject(), NODE).row(16)
    assert coarse.messages == pytest.approx(exact.messages, abs=1e-2)
    assert coarse.size == pytest.approx(exact.size, rel=0.3)


def test_ranks_into_which_the_grid_cannot_be_cut_are_refused():
    with pytest.raises(TileError, match="use at most"):
        Plan(subject(), NODE).row(10_000)


def test_rounds_of_loops_whose_length_is_not_known_count_each():
    ranks = OneOfMany((1, 4))

    def solve(x):
        found = jax.lax.while_loop(lambda x: x[0, 0] > 0, lambda x: ranks.shift(x, "x", 1) - 1.0, x)
        return ranks.shift(found, "x", 1)

    found = traffic(solve, jnp.ones((2, 3)))
    assert (found.open_loops, found.messages, found.with_rounds(10).messages) == (1, 2, 11)
    assert (found * 3).with_rounds(10).messages == 33


def test_collectives_with_the_root_take_a_message_for_each_doubling_of_ranks():
    sent = Traffic({"shift": Count(4, 100), "gather": Count(2 * 15, 15 * 8), "sum": Count(0, 8, 3)})
    found = tree(sent, 16, 1024)
    assert (found.messages, found.reductions) == (4 + 2 * 10, 3)
    assert found.bytes == pytest.approx(100 + 1023 * 8 + 8)


@pytest.mark.verify
def test_a_tile_of_an_implicit_step_takes_as_many_iterations_as_the_whole_grid():
    """Its numbers are wrong, and would take any; each iteration sends its messages."""
    stepper = sw.SemiImplicit(60.0, solver=ConjugateGradients(tolerance=1e-3))
    tile, alone = basin(12, 8, "float64", OneOfMany((2, 2)))
    fixed = with_rounds(tile, stepper, 17)
    assert iterations_of(tile, alone, fixed) == 17
    row = Plan(subject(fixed, (8, 12), iterations=17), NODE).row(4)
    assert row.messages > 4 * 17, "an exchange and two sums in each"
    assert iterations_of(tile, alone, stepper_named("ab2")) == 0


@pytest.mark.verify
def test_the_iterations_of_a_grid_are_counted_from_rest_too():
    model, state = basin(20, 16, "float64", SerialCommunicator())
    counts = [iterations_of(model, start, sw.SemiImplicit(60.0)) for start in (state, model.at_rest())]
    assert all(1 < count < 50 for count in counts)


@pytest.mark.verify
@pytest.mark.parametrize("layout", [(1, 2), (4, 4), (16, 16)])
def test_multigrid_cycles_of_a_tile_are_traced_with_their_messages(layout):
    """Also where levels are gathered on the root: (16, 16) are more ranks than the coarsest grid has cells."""
    stepper = sw.SemiImplicit(60.0)
    found = Program(*basin(64, 48, "float64", OneOfMany(layout)), stepper, 1, compiled=False).traffic_by_verb()
    assert found.with_rounds(5).messages > 2 * found.messages > 0 and found.by_verb["gather"].messages > 0


def test_a_gradient_takes_the_fewest_levels_that_fit():
    needs = Needs(base=10.0, step=20.0, point=6.0)
    whole = segments(needs, 100, 1000, 1e9)
    assert whole == (1, needs.bytes((1000,), 1) * 100)
    levels, size = segments(needs, 100, 1000, whole[1] / 10)
    assert levels == 2 and size <= whole[1] / 10
    assert segments(needs, 100, 1000, 0.0)[1] < size, "the one that needs least where nothing fits"
    gradient = Gradient(3.0, 50, lambda cells, memory: (2, 1e3))
    row = Plan(subject(gradient=gradient), NODE).row(4)
    assert row.gradient == pytest.approx(50 * (4.0 * row.compute + 3.0 * row.exchange))
    assert row.gradient_memory == row.memory + 1e3


@pytest.mark.verify
def test_the_cost_of_a_gradient_is_measured():
    make = lambda communicator: basin(16, 12, "float64", communicator)  # noqa: E731
    found = measure_gradient(make, (12, 16), stepper_named("ab2"), 1000)
    assert found.ratio >= 2 and found.segments(192, 1e9)[1] > 1000 * 3 * 8 * 192


def test_a_netcdf_file_is_one_and_a_store_has_files_for_each_tile():
    fields = {"file": "a.nc", "variables": ("eta", "u"), "every": 10.0}

    def files(output, **options):
        experiment = SimpleNamespace(output=scenario.Output.read(output), run=SimpleNamespace(until=100.0))
        model, _ = basin(8, 8, "float64", SerialCommunicator(), engine="arrays", **options)
        return files_of(experiment, model, (1,) * 6, 1.0, 50, 16)

    assert files({"fields": [fields]}) == (1, 4 * 50 * 11 * 2)
    shore = {"wetting": sw.WettingDrying(), "momentum": sw.MomentumConserving()}
    motion = sw.BottomMotion((0.0, 1.0), np.zeros((2, 8, 8)))
    assert files({"fields": [fields]}, source=motion, **shore) == (1, 4 * 50 * 11 * 3)  # and the depth
    layers = sw.Layers(thickness=(50.0,), densities=(1025.0, 1028.0))
    assert files({"fields": [fields]}, layers=layers) == (1, 4 * 50 * 11 * 4)
    output = {"fields": [fields | {"file": "a.zarr"}], "restart": {"file": "b.nc", "every": 10.0}}
    assert files(output) == (2 * (11 * 16 + 1) + 1 + 1, 4 * 50 * 11 * 2 + 6 * 8 * 50)


@pytest.mark.verify
def test_the_planned_files_of_a_store_are_those_that_a_run_leaves(command, tmp_path):
    """One restart, which has taken the place of the one before, with the depth and the sums of products."""
    from tests.unit.test_performance import CASE

    case, machine = tmp_path / "case.toml", tmp_path / "machine.json"
    restart = '[output]\nrestart = {file = "a.zarr", every = 20}\n'
    case.write_text(CASE.replace('"1 hour"', "60") + restart + "maxima = {}\n")
    kept = Compute(1e-5, 1e-9, signature="AB2, float32, cartesian, EnergyConserving, Laplacian")
    Machine("A", 4, 1e10, (kept,)).save(machine)
    out, _ = command.ok("plan", case, "--ranks", "1", "--machine", machine)
    command.ok("run", case, "-o", tmp_path / "out", "-q")
    files = [path for path in (tmp_path / "out").rglob("*") if path.is_file() and path.name != "timing.json"]
    arrays = json.loads((tmp_path / "out" / "a.zarr" / "zarr.json").read_text())["consolidated_metadata"]["metadata"]
    size = sum(4 * math.prod(array["shape"]) for array in arrays.values())
    sums = sum(math.prod(array["shape"]) for name, array in arrays.items() if name.startswith("products"))
    assert f"{len(files)}, {memory.size(size + 4 * sums)}" in out, out  # the file of maxima is as large as its sums


@pytest.mark.parametrize("text", ["0", "2,-1", "four", "", "1e3", "2000000"])
def test_what_is_no_list_of_ranks_is_refused_in_one_sentence(text):
    with pytest.raises(ConfigError, match="is not a list of numbers of ranks"):
        ranks_of(text)
    assert ranks_of("4,1,4") == [1, 4] and ranks_of(None)[-1] == 10_000


def test_the_command_prints_a_row_for_each_number_of_ranks(command, tmp_path):
    from tests.unit.test_performance import CASE

    case, file = tmp_path / "case.toml", tmp_path / "machine.json"
    case.write_text(CASE)
    kept = Compute(1e-5, 1e-9, signature="AB2, float32, cartesian, EnergyConserving, Laplacian")
    Machine("A", 4, 1e10, (kept,), Link(1e-6, 1e10), Link(1e-5, 1e9)).save(file)
    out, _ = command.ok("plan", case, "--ranks", "1,16", "--machine", file)
    header, one, many = [line.split() for line in out.splitlines() if line.lstrip()[:5] in ("ranks", "1    ", "16   ")]
    assert header[:3] == ["ranks", "machines", "tile"]
    assert one[:5] == ["1", "1", "48", "x", "36"] and many[:2] == ["16", "4"]
    assert "assumed" not in out and "gradient" not in out
    status, out, err = command("plan", case, "--ranks", "1,5000", "--machine", file)
    assert status == 2 and "use at most" in err and "ms" not in out


@pytest.mark.parametrize("layout", [(1, 2), (8, 8)])
def test_a_rank_of_many_has_the_solver_of_the_whole_grid(layout):
    """A basin without land has the solver by transforms, however small the tile is that is looked at."""
    grid, stepper = sw.CartesianGrid(64, 64, (0.0, 1e6), (0.0, 1e6)), sw.SemiImplicit(2000.0)
    kinds = {
        type(solver_of(sw.ShallowWater(grid, 4000.0, communicator=ranks), stepper)).__name__
        for ranks in ("serial", OneOfMany(layout))
    }
    assert kinds == {"Spectral"}


@pytest.mark.verify
def test_rows_of_implicit_steps_do_not_depend_on_the_other_rows():
    direct = subject(sw.SemiImplicit(200.0))
    alone, among = Plan(direct, NODE), Plan(direct, NODE)
    among.row(4)
    assert alone.row(16) == among.row(16)
