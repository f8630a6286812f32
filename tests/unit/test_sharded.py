"""Tiles on the devices of one process: verbs, halos, steps, gradients and runs are those of one rank."""

import functools
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import xarray as xr

import swmodel as sw
from swmodel.diagnostics import derived as diagnostics
from swmodel.errors import BlowUp, TileError
from swmodel.fields.state import replace
from swmodel.grids.windows import Stored
from swmodel.parallel import Decomposition, make_communicator
from swmodel.parallel.halo import Sides, exchange, without_padding
from swmodel.parallel.sharded import ShardedCommunicator
from swmodel.runtime.compilation import jit
from swmodel.runtime.launch import LaunchError
from swmodel.simulation.program import Health, advance, start_carry
from swmodel.simulation.simulation import Simulation
from swmodel.stepping.loop import pack_state
from tests.parallel import cases
from tests.parallel.test_drifters import written
from tests.parallel.test_ranks_agree import cost
from tests.selection import later, now

SHAPE = (cases.NY, cases.NX)
# Of 13 x 11 cells: even along y, uneven along x, uneven along both.
LAYOUTS = [*(pytest.param(layout, marks=pytest.mark.verify) for layout in ((1, 2), (2, 2))), (2, 3)]
GAUGES = {"in the middle": (6.1e4, 4.7e4), "by a corner": (1.0e3, 1.0e3)}  # test_devices.py has them


@pytest.fixture(scope="module", params=LAYOUTS, ids=str)
def mesh(request):
    return make_communicator("sharded", SHAPE, request.param)


def blocks(mesh, shape, seed, dtype=float):
    """{rank: numbers}, another on every device."""
    random = {rank: np.random.default_rng((seed, rank)) for rank in range(mesh.size)}
    imaginary = {rank: 1j * r.standard_normal(shape) if dtype is complex else 0.0 for rank, r in random.items()}
    return {rank: r.standard_normal(shape) + imaginary[rank] for rank, r in random.items()}


def placed(mesh, tiles):
    return mesh.place(lambda rank: tiles[rank])


def on_tiles(mesh, function, *arguments):
    """{rank: result} of `function` on every tile."""
    return mesh.tiles(jit(mesh.spmd(function))(*arguments))


def dot(one, other):
    return sum((np.asarray(one[rank]) * np.asarray(other[rank])).sum() for rank in one)


# -- verbs ------------------------------------------------------------------------------------------------------------

VERBS = {
    "shift x": lambda mesh: lambda x: mesh.shift(x, "x", +1),
    "shift y": lambda mesh: lambda x: mesh.shift(x, "y", -1),
    "all_to_all": lambda mesh: lambda x: mesh.all_to_all(x[..., : mesh.along("x"), :], "x"),
    "broadcast": lambda mesh: mesh.broadcast,
    "gather": lambda mesh: lambda x: mesh.gather(x[: mesh.tile_shape(SHAPE)[0], : mesh.tile_shape(SHAPE)[1]], SHAPE),
    "scatter": lambda mesh: lambda x: mesh.scatter(x),
}


@pytest.mark.parametrize("verb", VERBS)
def test_verbs_that_move_values_have_exact_transposes(mesh, verb):
    f, shape = VERBS[verb](mesh), SHAPE if verb in ("scatter", "gather") else (8, 3)
    x = blocks(mesh, shape, 1, complex)
    forward = on_tiles(mesh, f, placed(mesh, x))
    y = blocks(mesh, forward[0].shape, 2, complex)
    back = on_tiles(mesh, lambda x, y: jax.linear_transpose(f, x)(y)[0], placed(mesh, x), placed(mesh, y))
    left, right = dot(forward, y), dot(x, back)
    assert abs(left - right) <= 1e-13 * max(1.0, abs(left))


def test_runs_that_nobody_waits_for_get_their_own_messages(mesh):
    """Several of one program at once, whose shifts wait neither for each other nor for the sums, on few cores."""

    def mixed(x):
        def once(_, both):
            x, total = both
            shifted = mesh.shift(x, "x", 1) + mesh.shift(x, "y", -1) + mesh.shift(x, "x", -1)
            return shifted / 3, total + mesh.sum(jnp.sum(x))

        x, total = jax.lax.fori_loop(0, 30, once, (x, jnp.zeros(())))
        return x, total[None]

    program = jit(mesh.spmd(mixed))
    starts = [blocks(mesh, (3, 2), seed) for seed in range(8)]
    ends = [program(placed(mesh, x)) for x in starts]
    for x, end in zip(starts, ends):
        whole, total = np.stack([x[rank] for rank in range(mesh.size)]).reshape(*mesh.layout, 3, 2), 0.0
        for _ in range(30):
            total += whole.sum()
            whole = (np.roll(whole, 1, 1) + np.roll(whole, -1, 0) + np.roll(whole, -1, 1)) / 3
        for rank, (tile, ours) in mesh.tiles(end).items():
            np.testing.assert_allclose(tile, whole[divmod(rank, mesh.layout[1])], rtol=0, atol=1e-14)
            assert ours == pytest.approx(total, rel=1e-12)


def test_any_number_of_runs_may_be_asked_for_before_one_is_waited_for(mesh):
    """JAX itself stops for good at 32 of them on one device."""
    program = jit(mesh.spmd(lambda x: jax.lax.fori_loop(0, 20, lambda _, x: mesh.shift(x, "x", 1), x)))
    tiles = blocks(mesh, (3, 2), 1)
    x = placed(mesh, tiles)
    for _ in range(100):
        x = program(x)
    for rank, tile in mesh.tiles(x).items():
        row, column = divmod(rank, mesh.layout[1])
        np.testing.assert_array_equal(tile, tiles[row * mesh.layout[1] + (column - 2000) % mesh.layout[1]])


def test_gather_and_scatter_keep_every_cell_once(mesh):
    whole, parts = cases.random(3), mesh.decomposition(SHAPE)
    tiles = on_tiles(mesh, lambda x: mesh.scatter(x), placed(mesh, dict.fromkeys(range(mesh.size), whole)))
    for rank, tile in tiles.items():
        np.testing.assert_array_equal(tile, parts.cut(whole, rank))
    together = on_tiles(mesh, lambda x: mesh.gather(x, SHAPE), placed(mesh, tiles))
    np.testing.assert_array_equal(together[0], whole)
    assert not any(together[rank].any() for rank in range(1, mesh.size))


def test_sum_and_maximum_are_the_same_on_every_device(mesh):
    x = blocks(mesh, (5,), 3)
    both = lambda x: (mesh.sum(x)[None], mesh.maximum(x)[None], mesh.sum(x, axis="x")[None])  # noqa: E731
    parts = mesh.decomposition(SHAPE)
    for rank, (total, largest, along) in on_tiles(mesh, both, placed(mesh, x)).items():
        np.testing.assert_allclose(total[0], sum(x.values()), rtol=1e-13)
        np.testing.assert_array_equal(largest[0], np.max(list(x.values()), axis=0))
        row = [x[r] for r in x if parts.coordinates(r)[0] == parts.coordinates(rank)[0]]
        np.testing.assert_allclose(along[0], sum(row), rtol=1e-13)


def test_an_ordered_sum_adds_rank_after_rank_bit_for_bit(mesh):
    x = blocks(mesh, (1000,), 4)
    one_after_another = functools.reduce(np.add, [x[rank] for rank in range(mesh.size)])
    for total in on_tiles(mesh, lambda x: mesh.sum(x, ordered=True)[None], placed(mesh, x)).values():
        assert total[0].tobytes() == one_after_another.tobytes()


def test_a_gradient_through_a_mean_has_no_factor_of_the_number_of_devices(mesh):
    """The mean leaves every cell: the gradient of sum (x - mean)^2 / 2 is x - mean, and so is its Hessian times x."""
    x, n = blocks(mesh, (5,), 5), 5 * mesh.size
    mean = sum(x.values()).sum() / n

    def half_square(x, weight):
        rest = x - mesh.replicated(mesh.sum(jnp.sum(x))) / n
        return mesh.sum(0.5 * mesh.replicated(weight) * jnp.sum(rest**2))

    def derivatives(x, weight):
        by_x, by_weight = jax.grad(half_square, argnums=(0, 1))(x, weight)
        return by_x, by_weight[None], jax.jvp(jax.grad(half_square), (x, weight), (x, 0.0 * weight))[1]

    found = on_tiles(mesh, derivatives, placed(mesh, x), jnp.asarray(1.0))
    for rank, (by_x, by_weight, hessian) in found.items():
        np.testing.assert_allclose(by_x, x[rank] - mean, rtol=0, atol=1e-13)
        np.testing.assert_allclose(hessian, x[rank] - mean, rtol=0, atol=1e-13)
        np.testing.assert_allclose(by_weight, sum(((y - mean) ** 2).sum() for y in x.values()) / 2, rtol=1e-13)


def test_a_verb_outside_of_spmd_says_what_to_do(mesh):
    with pytest.raises(RuntimeError, match="wrap the function .*communicator.spmd"):
        jax.jit(lambda x: mesh.shift(x, "x", +1))(jnp.zeros(3))


def test_an_array_of_the_whole_grid_is_not_taken_for_a_tile(mesh):
    with pytest.raises(ValueError, match=r"shape \(11, 13\) has no equal blocks.*model.scatter"):
        mesh.spmd(lambda x: x)(jnp.zeros(SHAPE))


# -- halos of uneven tiles --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("periodic, open_sides", [later("", ()), ("xy", ()), ("x", ("south",))], ids=str)
def test_the_halo_lies_behind_the_padding_and_its_transpose_gives_back(mesh, periodic, open_sides):
    grid, whole, parts, width = cases.plane(periodic), cases.random(7), mesh.decomposition(SHAPE), 2
    sides = mesh.place(lambda rank: Sides.of(grid, mesh, open_sides, float, rank))
    mode = lambda side, axis: "wrap" if axis in periodic else "edge" if side in open_sides else 0  # noqa: E731
    modes = (mode("south", "y"), mode("north", "y")), (mode("west", "x"), mode("east", "x"))
    tiles = mesh.place(lambda rank: parts.cut(whole, rank))

    def filled(sides, tile):
        return exchange([tile, 2.0 * tile], width, sides, mesh)

    padded = on_tiles(mesh, filled, sides, tiles)
    for rank, (one, two) in padded.items():
        rows, columns = parts.padding(rank)
        expected = parts.tile(rank).cut(whole, width, *modes)
        np.testing.assert_array_equal(one[rows:, columns:], expected)
        np.testing.assert_array_equal(two[rows:, columns:], 2.0 * expected)
    y = blocks(mesh, padded[0][0].shape, 8)
    x = {rank: parts.cut(cases.random(9), rank) for rank in range(mesh.size)}
    f = lambda sides, x: filled(sides, without_padding(x, sides))[0]  # noqa: E731
    transposed = lambda sides, x, y: jax.linear_transpose(functools.partial(f, sides), x)(y)[0]  # noqa: E731
    back = on_tiles(mesh, transposed, sides, placed(mesh, x), placed(mesh, y))
    left, right = dot(on_tiles(mesh, f, sides, placed(mesh, x)), y), dot(x, back)
    assert abs(left - right) <= 1e-12 * abs(left)


def test_what_is_cut_and_put_together_is_the_whole():
    whole = np.arange(2.0 * 11 * 13).reshape(2, 11, 13)
    for layout in [(1, 1), (3, 4), (5, 2), (11, 13)]:
        parts = Decomposition(SHAPE, layout, padded=True)
        cut = {rank: parts.cut(whole, rank) for rank in range(parts.size)}
        assert len({tile.shape for tile in cut.values()}) == 1
        assert sum(tile.sum() for tile in cut.values()) == whole.sum()
        np.testing.assert_array_equal(parts.assemble(cut), whole)
        assert not any(parts.padding(rank)[0] for rank in range(layout[1]))


# -- the model --------------------------------------------------------------------------------------------------------


def hundred(dynamics, stepper, state):
    return sw.integrate(dynamics, stepper, state, 100)[0]


def run(model, stepper, function=hundred, stages=1):
    dynamics = model.dynamics(stepper, steps=100, stages=stages)
    return jit(model.communicator.spmd(function))(dynamics, stepper, cases.start(model))


@pytest.fixture(scope="module")
def alone():
    """case -> the State after a hundred steps on one rank."""
    return functools.cache(lambda case: jax.tree.map(np.asarray, run(*cases.alone(case))))


WAYS = ((1, 2), "arrays", 1), ((2, 2), "arrays", 2), ((2, 3), "arrays", 1), ((2, 3), "auto", 1)
HUNDRED = now([(case, *way) for case in cases.CASES for way in WAYS], ("walls and islands", (2, 3), "auto", 1))


@pytest.mark.parametrize("case, layout, engine, stages", HUNDRED, ids=str)
def test_a_hundred_steps_equal_those_of_one_rank(layout, engine, stages, case, alone):
    """Also where one exchange does for two stages."""
    model, stepper = cases.CASES[case](communicator=make_communicator("sharded", SHAPE, layout), engine=engine)
    ours, whole = run(model, stepper, stages=stages), alone(case)
    for name in ("u", "v", "eta"):
        tiles, expected = getattr(ours, name), getattr(whole, name)
        assert np.isfinite(expected).all()
        np.testing.assert_allclose(model.gather(tiles), expected, rtol=0, atol=1e-12 * np.abs(expected).max())
        assert np.abs(tiles).sum() == pytest.approx(np.abs(model.gather(tiles)).sum(), rel=1e-14)  # padding is zero


def test_a_simulation_of_layers_is_that_of_one_rank():
    """Its programs are prepared outside of tiles, where one array holds the thickness of layers for each device."""
    layers, ends = sw.Layers(thickness=(100.0,), densities=(1000.0, 1005.0)), []
    for communicator in (make_communicator("serial", SHAPE, None), make_communicator("sharded", SHAPE, (1, 2))):
        model = sw.ShallowWater(cases.plane(), 1000.0, layers=layers, communicator=communicator, engine="arrays")
        simulation = Simulation(model, cases.start(model), sw.AB2(10.0))
        simulation.run(steps=3)
        ends.append({name: model.gather(x) for name, x in simulation.state})
    alone, ours = ends
    assert alone.keys() == ours.keys() and "eta_2" in ours
    for name, expected in alone.items():
        np.testing.assert_allclose(ours[name], expected, rtol=0, atol=1e-13 * np.abs(expected).max())


def gradients(model, stepper):
    """The gradient of a gauge in the start, the depth and the viscosity."""
    gauge = np.zeros(SHAPE)
    gauge[2, 3] = 1.0
    dynamics = model.dynamics(stepper)
    gradient = jit(model.communicator.spmd(jax.grad(cost, argnums=(0, 2, 3))))
    return gradient(cases.start(model), dynamics, dynamics.depth, jnp.asarray(100.0), stepper, model.scatter(gauge))


def test_invariants_count_no_padding(mesh):
    def invariants(dynamics, stepper, state):
        flow = dynamics.prepare().flow(state, jnp.zeros(()))
        return diagnostics.volume(flow), diagnostics.energy(flow), diagnostics.potential_enstrophy(flow)

    model, stepper = cases.CASES["both poles"](communicator=mesh)
    np.testing.assert_allclose(run(model, stepper, invariants), run(*cases.alone("both poles"), invariants), rtol=1e-13)


def test_arrays_lie_on_their_devices_and_the_loop_works_in_place(mesh):
    model, stepper = cases.CASES["walls and islands"](communicator=mesh, engine="arrays")
    simulation = Simulation(model, cases.start(model), stepper)
    monitors = (Health.of(model, stepper.dt), {})
    dynamics = model.interval(simulation.halo, 0, stepper.dt)
    state, history = packed = pack_state(dynamics, simulation.stepper, (simulation.state, simulation.history))
    carry = start_carry(simulation, packed)
    rows, columns = (-(-n // p) for n, p in zip(SHAPE, mesh.layout))
    for array in (dynamics.depth, state.u, *(p.eta for p in history.values)):
        assert {(s.device, s.data.shape) for s in array.addressable_shards} == {
            (device, (rows, columns)) for device in mesh.mesh.devices.flat
        }
    program = advance.lower(dynamics, simulation.stepper, carry, monitors, jnp.int32(0), jnp.int32(3)).compile()
    leaves = jax.tree.leaves(carry)
    on_each = sum(math.prod(leaf.sharding.shard_shape(leaf.shape)) * leaf.dtype.itemsize for leaf in leaves)
    assert program.memory_analysis().alias_size_in_bytes == on_each
    after = program(dynamics, simulation.stepper, carry, monitors, jnp.int32(0), jnp.int32(3))
    assert all(leaf.is_deleted() for leaf in jax.tree.leaves(carry.packed))
    assert after.packed[0].eta.sharding.is_equivalent_to(model.at_rest().eta.sharding, 2)


# -- runs -------------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def both():
    """(model, stepper) on the most uneven tiles, and on one rank."""
    mesh = make_communicator("sharded", SHAPE, (2, 3))
    return cases.CASES["walls and islands"](communicator=mesh), cases.alone("walls and islands")


@pytest.mark.verify
def test_drifters_cross_tiles_as_they_cross_those_of_ranks(mesh, tmp_path):
    for name, communicator in (("one", make_communicator("serial", SHAPE)), ("mesh", mesh)):
        (tmp_path / name).mkdir()
        written(tmp_path / name, communicator, resumed=name == "mesh")
    with xr.open_dataset(tmp_path / "one/d.nc") as one, xr.open_dataset(tmp_path / "mesh/d.nc") as found:
        assert np.isfinite(one["x"].values).any()
        for name in "xy":
            np.testing.assert_array_equal(found[name].values, one[name].values)


@pytest.mark.verify
def test_a_resumed_run_with_another_time_step_counts_arrivals_in_its_own(both, tmp_path):
    (model, stepper), _ = both
    first = Simulation(model, cases.start(model), stepper).restart(tmp_path / "restart.nc")
    first.maxima(tmp_path / "maxima.nc", threshold=0.5).run(steps=10)
    again = Simulation(model, cases.start(model), replace(stepper, dt=5.0)).maxima(tmp_path / "again.nc", threshold=0.5)
    again.resume(tmp_path / "restart.nc")
    was, counted = (model.gather(s.outputs[-1].arrays["arrival"]) for s in (first, again))
    np.testing.assert_array_equal(counted, np.where(was < 0, -1, 2 * was))


@pytest.mark.parametrize("place", [later((5, 6)), (10, 12)])
def test_a_run_that_blows_up_names_the_same_cell(both, place):
    printed = []
    for model, stepper in both:
        u = np.zeros(SHAPE)
        u[place] = 2000.0
        simulation = Simulation(model, model.at_rest(), stepper)
        simulation.state = sw.State(model.scatter(u), model.at_rest().v, model.at_rest().eta)
        with pytest.raises(BlowUp) as stop:
            simulation.run(steps=30)
        printed.append(str(stop.value))
    assert printed[0] == printed[1]


def test_limits_of_the_time_step_are_those_of_one_rank():
    mesh = make_communicator("sharded", SHAPE, (2, 3))
    for case in cases.CASES:
        (model, stepper), (whole, _) = cases.CASES[case](communicator=mesh), cases.alone(case)
        ours, one = (sw.limits(m, stepper, cases.start(m)) for m in (model, whole))
        assert [(limit.name, limit.place) for limit in ours] == [(limit.name, limit.place) for limit in one]
        np.testing.assert_allclose([limit.dt for limit in ours], [limit.dt for limit in one], rtol=1e-13)


# -- what cannot be ---------------------------------------------------------------------------------------------------


def test_more_devices_than_the_grid_or_the_machine_has_are_refused():
    with pytest.raises(TileError, match="use at most 2 ranks"):
        make_communicator("sharded", (1, 2), devices=6)
    with pytest.raises(LaunchError, match="the run needs 7 devices, and JAX has 6"):
        make_communicator("sharded", SHAPE, devices=7)
    with pytest.raises(TileError, match="needs 4 devices, and there are 2"):
        ShardedCommunicator((2, 2), jax.devices()[:2])


def test_a_tile_thinner_than_the_halo_is_refused():
    grid = sw.CartesianGrid(12, 6, (0.0, 12.0), (0.0, 6.0))
    model = sw.ShallowWater(grid, 1.0, dissipation=(sw.Biharmonic(1.0),), communicator="sharded", layout=(6, 1))
    with pytest.raises(TileError, match="6 devices cut 12 x 6 cells into tiles of 12 x 1 cells, thinner than the halo"):
        model.halo(sw.AB2(1.0))


def test_a_launcher_that_started_several_is_refused(monkeypatch):
    for name, value in (("SIZE", 4), ("RANK", 1), ("LOCAL_RANK", 1), ("LOCAL_SIZE", 4)):
        monkeypatch.setenv(f"OMPI_COMM_WORLD_{name}", str(value))
    with pytest.raises(LaunchError, match="4 processes, and the sharded communicator is one.*choose mpi"):
        make_communicator("sharded", SHAPE)


# -- several processes -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [10, 5000])
def test_a_broadcast_between_processes_sends_the_roots_bytes_once(monkeypatch, size):
    from jax.experimental import multihost_utils

    from swmodel.parallel import sharded

    sent, value = [], {"text": "x" * size}

    def from_root(array):
        sent.append(array.copy())
        return array

    def to_another(array):
        assert not array.any() and array.size == sent[0].size
        return sent.pop(0)

    monkeypatch.setattr(multihost_utils, "process_allgather", None)
    root, other = (sharded.ShardedCommunicator((1, 1)) for _ in range(2))
    root.processes = other.processes = 2
    root.rank, other.rank = 0, 1
    monkeypatch.setattr(multihost_utils, "broadcast_one_to_all", from_root)
    assert root.host_broadcast(value) == value
    assert [array.size for array in sent] == ([1024] if size == 10 else [1024, 8192])
    monkeypatch.setattr(multihost_utils, "broadcast_one_to_all", to_another)
    assert other.host_broadcast(None) == value and not sent


@pytest.fixture
def as_of_two_processes(mesh, monkeypatch):
    """(the mesh as one of two processes sees it, a list of the numbers of each array that leaves a device)."""
    other, moved = make_communicator("sharded", SHAPE, mesh.layout), []
    other.processes, original = 2, other._from_device

    def counting(*arguments):
        part = original(*arguments)
        moved.append(part.size)
        return part

    monkeypatch.setattr(other, "_from_device", counting)
    return other, moved


@pytest.mark.parametrize("dtype", now([np.float32, np.float64, np.int32, bool], np.float32))
def test_processes_gather_tile_by_tile_and_rows_by_rows_with_every_bit(mesh, as_of_two_processes, dtype):
    other, moved = as_of_two_processes
    whole = np.stack([cases.random(k) for k in range(6)]).reshape(2, 3, *SHAPE).astype(dtype)
    whole[0, 0, 0, :3] = [-0.0, 1, 0]
    if np.dtype(dtype).kind == "f":
        whole[1, 2, 4, :2] = [np.nan, np.inf]
    parts, tile = mesh.decomposition(SHAPE), math.prod(mesh.tile_shape(SHAPE))
    placed = mesh.place(lambda rank: parts.cut(whole, rank))
    assert other.gather_to_root(placed, SHAPE).tobytes() == whole.tobytes()
    assert moved == [6 * tile] * mesh.size
    moved.clear()
    blocks = list(other.rows_to_root(placed, SHAPE, 2 * cases.NX * np.dtype(dtype).itemsize))
    assert len(blocks) == 6 * -(-cases.NY // 2) and max(moved) <= 2 * parts.tile(0).shape[1]
    assert np.concatenate([block.ravel() for _, block in blocks]).tobytes() == whole.tobytes()
    for (where, ours), (there, expected) in zip(
        blocks, mesh.rows_to_root(placed, SHAPE, 2 * cases.NX * whole.itemsize)
    ):
        assert where == there and ours.tobytes() == expected.tobytes()


def test_processes_gather_fields_on_faces_at_the_edge_of_the_domain(mesh, as_of_two_processes):
    parts, whole = mesh.decomposition(SHAPE), np.arange(float((cases.NY + 1) * cases.NX)).reshape(cases.NY + 1, -1)

    def with_faces(rank):
        box = parts.box(rank)
        return whole[box.j0 : box.j1 + 1, box.i0 : box.i1]

    placed = mesh.place(with_faces)
    np.testing.assert_array_equal(as_of_two_processes[0].gather_to_root(placed, SHAPE), whole)


def test_processes_receive_one_tile_at_a_time(mesh, as_of_two_processes, monkeypatch):
    other, sent = as_of_two_processes[0], []
    monkeypatch.setattr(other, "host_broadcast", lambda value: sent.append(value.size) or value)
    whole = np.stack([cases.random(k) for k in range(3)])
    found = other.scatter_from_root(Stored(whole[0], SHAPE), SHAPE)
    np.testing.assert_array_equal(mesh.gather_to_root(found, SHAPE), whole[0])
    np.testing.assert_array_equal(mesh.gather_to_root(other.scatter_from_root(whole, SHAPE), SHAPE), whole)
    tile = math.prod(mesh.tile_shape(SHAPE))
    assert sent == [tile] * mesh.size + [3 * tile] * mesh.size


@pytest.mark.verify
def test_self_attraction_on_padded_tiles_is_that_of_one_rank():
    ends = []
    for communicator in (make_communicator("serial", SHAPE), make_communicator("sharded", SHAPE, (2, 3))):
        model = cases.loaded(communicator=communicator, engine="fused")
        state = Simulation(model, cases.start(model), sw.ForwardBackward(60.0)).run(steps=3)
        ends.append({name: model.gather(x) for name, x in state})
    for name, expected in ends[0].items():
        np.testing.assert_allclose(ends[1][name], expected, atol=1e-13 * np.abs(expected).max())
