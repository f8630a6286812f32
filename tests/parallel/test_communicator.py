"""The verbs do what they say, and each transpose is one: <f(x), y> = <x, f'(y)> over all ranks."""

import ctypes
import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from swmodel.errors import TileError
from swmodel.grids.windows import Stored
from swmodel.parallel import make_communicator
from swmodel.parallel.halo import Sides, exchange
from swmodel.parallel.traffic import Count, traffic
from swmodel.runtime.compilation import compiler_options

from . import cases

SHAPE = (cases.NY, cases.NX)
TYPES = ("float32", "float64", "complex64", "complex128")


@pytest.fixture(scope="module", params=cases.MESHES, ids=str)
def ranks(request):
    return make_communicator("auto", SHAPE, request.param)


def quick(function):
    """`jax.jit`, compiled fast: these programs run once."""
    return jax.jit(function, compiler_options={**(compiler_options() or {}), "xla_backend_optimization_level": 0})


def mine(ranks, shape, seed, dtype=float, same=()):
    """Numbers that differ on every rank, but not between ranks along the mesh axes `same`."""
    place = [0 if axis in same else k for axis, k in zip("yx", ranks.coordinates)]
    random = np.random.default_rng((seed, *place))
    x = random.standard_normal(shape)
    return (x + 1j * random.standard_normal(shape) if np.dtype(dtype).kind == "c" else x).astype(dtype)


def over_ranks(ranks, x, same=()):
    """The sum over ranks; of a value that is the same along some axes, once."""
    copies = np.prod([ranks.along(axis) for axis in same])
    return complex(ranks.host_sum(np.atleast_1d(np.asarray(x, complex).sum()))[0]) / copies


def tile_shape(ranks):
    return (2, *ranks.decomposition(SHAPE).tile(ranks.rank).shape)


# name: (the verb, the shape of its operand, mesh axes along which the operand and the result are the same)
VERBS = {
    "shift x": (lambda ranks: lambda x: ranks.shift(x, "x", +1), lambda ranks: (4, 3), "", ""),
    "shift y": (lambda ranks: lambda x: ranks.shift(x, "y", -1), lambda ranks: (4, 3), "", ""),
    "all_to_all x": (lambda ranks: lambda x: ranks.all_to_all(x, "x"), lambda ranks: (2, ranks.along("x"), 3), "", ""),
    "all_to_all y": (lambda ranks: lambda x: ranks.all_to_all(x, "y"), lambda ranks: (ranks.along("y"), 3), "", ""),
    "sum": (lambda ranks: ranks.sum, lambda ranks: (4, 3), "", "yx"),
    "sum x": (lambda ranks: lambda x: ranks.sum(x, "x"), lambda ranks: (4, 3), "", "x"),
    "ordered sum": (lambda ranks: lambda x: ranks.sum(x, ordered=True), lambda ranks: (4, 3), "", "yx"),
    "ordered sum y": (lambda ranks: lambda x: ranks.sum(x, "y", ordered=True), lambda ranks: (4, 3), "", "y"),
    "replicated": (lambda ranks: ranks.replicated, lambda ranks: (4, 3), "yx", ""),
    "replicated y": (lambda ranks: lambda x: ranks.replicated(x, "y"), lambda ranks: (4, 3), "y", ""),
    "broadcast": (lambda ranks: ranks.broadcast, lambda ranks: (4, 3), "", ""),
    "gather": (lambda ranks: lambda x: ranks.gather(x, SHAPE), tile_shape, "", ""),
    "scatter": (lambda ranks: ranks.scatter, lambda ranks: (2, *SHAPE), "", ""),
}


# In `make test` two ranks, of one row, have all but those along columns, and four have these.
LATER = {2: [verb for verb in VERBS if verb[-1] == "y"], 4: [verb for verb in VERBS if verb[-1] != "y"]}


def of_verbs(*names):
    """`parametrize` with verbs."""
    later = LATER.get(cases.RANKS, ())
    each = [pytest.param(verb, marks=pytest.mark.verify if verb in later else []) for verb in names]
    return pytest.mark.parametrize("verb", each)


def pair(ranks, verb, dtype):
    """The verb, two operands and two cotangents."""
    f, shape, same_in, same_out = VERBS[verb]
    f, shape = f(ranks), shape(ranks)
    xs = [mine(ranks, shape, seed, dtype, same_in) for seed in (1, 2)]
    return f, xs, [mine(ranks, jax.eval_shape(f, xs[0]).shape, seed, dtype, same_out) for seed in (3, 4)]


def assert_transposed(ranks, verb, x, y, out, back):
    """<f(x), y> = <x, f'(y)> over all ranks, without conjugation: JAX's transpose of complex functions."""
    *_, same_in, same_out = VERBS[verb]
    assert out.dtype == back.dtype == x.dtype
    left, right = over_ranks(ranks, out * y, same_out), over_ranks(ranks, x * back, same_in)
    assert abs(left - right) <= np.finfo(x.dtype).eps * 8 * np.sqrt(x.size * y.size * ranks.size), (left, right)


@of_verbs(*VERBS)
def test_verbs_have_exact_transposes_in_every_precision_real_and_complex(ranks, verb):
    f, pairs = VERBS[verb][0](ranks), [pair(ranks, verb, dtype)[1:] for dtype in TYPES]

    @quick
    def program(pairs):
        return [(f(xs[0]), jax.linear_transpose(f, xs[0])(ys[0])[0]) for xs, ys in pairs]

    for (xs, ys), (out, back), dtype in zip(pairs, jax.device_get(program(pairs)), TYPES):
        assert out.dtype == dtype
        assert_transposed(ranks, verb, xs[0], ys[0], out, back)


@of_verbs(*VERBS)
def test_verbs_have_tangents_and_cotangents_in_batches_too(ranks, verb):
    f, xs, ys = pair(ranks, verb, complex)

    @quick
    def program(xs, ys):
        backs = [jax.linear_transpose(f, x)(y)[0] for x, y in zip(xs, ys)]
        batched = jax.vmap(f, in_axes=1, out_axes=1)(jnp.stack(xs, axis=1))
        pulled = jax.vmap(lambda x, y: jax.vjp(f, x)[1](y)[0])(jnp.stack(xs), jnp.stack(ys))
        pushed = jax.vmap(lambda x, t: jax.jvp(f, (x,), (t,)))(jnp.stack(xs), jnp.stack(xs[::-1]))
        return [f(x) for x in xs], backs, batched, pulled, pushed

    outs, backs, batched, pulled, pushed = jax.device_get(program(xs, ys))
    np.testing.assert_array_equal(batched, np.stack(outs, axis=1))
    np.testing.assert_array_equal(pulled, np.stack(backs))
    np.testing.assert_array_equal(pushed[0], np.stack(outs))
    np.testing.assert_array_equal(pushed[1], np.stack(outs[::-1]))
    for k in range(2):
        assert_transposed(ranks, verb, xs[k], ys[k], outs[k], pulled[k])


@of_verbs(*VERBS)
def test_verbs_differentiate_twice(ranks, verb):
    """Of J = sum f(x)^3 over ranks, the Hessian times t is f'(6 f(x) f(t)), forward over reverse and reverse twice."""
    f, shape, same_in, same_out = VERBS[verb]
    f, shape = f(ranks), shape(ranks)
    x, t = (mine(ranks, shape, seed, float, same_in) for seed in (1, 2))

    @quick
    def products(x, t):
        gradient = jax.grad(lambda x: jnp.sum(f(x) ** 3))
        forward = jax.jvp(gradient, (x,), (t,))[1]
        reverse = jax.vjp(gradient, x)[1](t)[0]
        return forward, reverse, jax.linear_transpose(f, x)(6.0 * f(x) * f(t))[0]

    forward, reverse, expected = jax.device_get(products(x, t))
    np.testing.assert_allclose(forward, expected, rtol=1e-12, atol=1e-13)
    if same_in == same_out:  # else a cotangent of one kind would be taken for one of the other
        np.testing.assert_allclose(reverse, expected, rtol=1e-12, atol=1e-13)


ROUND = (lambda ranks: lambda x: ranks.scatter(ranks.gather(x, SHAPE)), tile_shape, "", "")


@of_verbs(*(v for v in VERBS if v not in ("gather", "scatter")), "to the root and back")
def test_verbs_work_inside_scan_and_while_and_both_in_batches(ranks, verb):
    f, shape, same, _ = VERBS.get(verb, ROUND)
    f, shape = f(ranks), shape(ranks)
    g = lambda x: f(0.5 * x * x)  # noqa: E731
    x = np.stack([mine(ranks, shape, seed, float, same) for seed in (1, 2)])
    thrice = lambda x: g(g(g(x)))  # noqa: E731
    scanned = lambda x: jax.lax.scan(lambda c, _: (g(c), None), x, None, length=3)[0]  # noqa: E731
    body = lambda c: (c[0] + 1, g(c[1]))  # noqa: E731
    looped = lambda x, n: jax.lax.while_loop(lambda c: c[0] < n, body, (0, x))[1]  # noqa: E731

    @quick
    def program(x, n):
        pull = lambda h: jax.vmap(jax.grad(lambda x: jnp.sum(h(x) ** 2)))(x)  # noqa: E731
        values = [*(jax.vmap(h)(x) for h in (thrice, scanned, lambda x: looped(x, n))), looped(x[0], n)[None]]
        return values, [pull(thrice), pull(scanned)]

    (plain, *values), gradients = jax.device_get(program(x, 3))
    for value in values:
        np.testing.assert_allclose(value, plain[: len(value)], rtol=1e-14)
    np.testing.assert_allclose(gradients[1], gradients[0], rtol=1e-12, atol=1e-300)


def test_an_unused_result_still_sends_what_the_others_wait_for(ranks):
    """A symbolic zero cotangent on one rank must not skip a message."""
    f = lambda x: (ranks.shift(x, "x", 1), ranks.shift(x, "y", 1))  # noqa: E731
    x = mine(ranks, (3,), 1)
    gradient = jax.jit(jax.grad(lambda x: jnp.sum(f(x)[ranks.rank % 2])))(x)
    assert gradient.shape == x.shape and np.isfinite(gradient).all()


def test_whole_numbers_are_sent_too(ranks):
    x = jnp.arange(4) + ranks.rank
    assert ranks.sum(x).tolist() == [ranks.size * k + sum(range(ranks.size)) for k in range(4)]
    assert ranks.broadcast(x).tolist() == [0, 1, 2, 3]
    assert ranks.maximum(x).tolist() == [k + ranks.size - 1 for k in range(4)]


def test_gather_puts_tiles_where_they_belong_and_scatter_cuts_them_again(ranks):
    whole = np.stack([cases.random(11), cases.random(12)])
    tile = ranks.decomposition(SHAPE).tile(ranks.rank)
    gathered = ranks.gather(jnp.asarray(whole[(..., *tile.slices)]), SHAPE)
    np.testing.assert_array_equal(gathered, whole if ranks.is_root else 0.0 * whole)
    on_root = jnp.asarray(whole) if ranks.is_root else jnp.full(whole.shape, np.nan)  # theirs is not looked at
    np.testing.assert_array_equal(ranks.scatter(on_root), whole[(..., *tile.slices)])


def test_what_cannot_be_sent_is_refused_in_a_sentence(ranks):
    with pytest.raises(ValueError, match="without halo"):
        ranks.gather(jnp.zeros((cases.NY + 4, cases.NX)), SHAPE)
    with pytest.raises(ValueError, match="one block a rank"):
        ranks.all_to_all(jnp.zeros((ranks.along("x") + 1, 2)), "x")
    with pytest.raises(TypeError, match="no order"):
        ranks.maximum(jnp.zeros(3, complex))
    with pytest.raises(ValueError, match="'z' is not an axis of the mesh"):
        ranks.shift(jnp.zeros(3), "z", 1)
    with pytest.raises(ValueError, match="whole grid's"):
        ranks.scatter(jnp.zeros(3))
    if ranks.size > 1:
        with pytest.raises(TileError):
            ranks.scatter(jnp.zeros((1, 1)))


def test_sum_is_replicated_and_replicated_sums_its_cotangents(ranks):
    x = mine(ranks, (5,), 3)
    total = ranks.sum(x)
    np.testing.assert_allclose(total, ranks.host_sum(np.asarray(x)), rtol=1e-13)
    # The mean of all cells leaves every cell: the gradient of sum (x - mean)^2 / 2 is x - mean.
    mean = lambda x: ranks.replicated(ranks.sum(jnp.sum(x))) / (5 * ranks.size)  # noqa: E731
    gradient = quick(jax.grad(lambda x: ranks.sum(0.5 * jnp.sum((x - mean(x)) ** 2))))(x)
    np.testing.assert_allclose(gradient, x - np.asarray(mean(x)), rtol=0, atol=1e-13)


@pytest.mark.parametrize("axis", [None, "x", "y"])
def test_an_ordered_sum_adds_rank_after_rank(ranks, axis):
    """Bit for bit: the same on every rank, and what a loop over ranks would give."""
    x = np.asarray(mine(ranks, (7,), 4) * 10.0 ** mine(ranks, (7,), 5))
    total = np.asarray(ranks.sum(jnp.asarray(x), axis, ordered=True))
    iy, ix = ranks.coordinates
    line = {
        None: range(ranks.size),
        "x": [iy * ranks.layout[1] + k for k in range(ranks.layout[1])],
        "y": [k * ranks.layout[1] + ix for k in range(ranks.layout[0])],
    }[axis]
    everyone = ranks.host_gather(x)
    expected = everyone[line[0]]
    for rank in line[1:]:
        expected = expected + everyone[rank]
    assert total.tobytes() == expected.tobytes()


def test_sums_along_an_axis_add_that_axis_alone(ranks):
    iy, ix = ranks.coordinates
    assert ranks.sum(jnp.array(10.0 * iy + ix), axis="x") == sum(10.0 * iy + k for k in range(ranks.along("x")))


@pytest.mark.parametrize("dtype", ["float32", "float64", "int32"])
def test_maximum_is_of_all_ranks_in_batches_too(ranks, dtype):
    x = jnp.asarray(10 * mine(ranks, (4, 3), 5), dtype)
    expected = np.max(ranks.host_gather(np.asarray(x)), axis=0)
    looped = lambda x: jax.lax.scan(lambda c, _: (ranks.maximum(c), None), x, None, length=2)[0]  # noqa: E731
    for found in (ranks.maximum(x), jax.vmap(ranks.maximum, 1, 1)(x), jax.jit(jax.vmap(looped))(x)):
        assert found.dtype == dtype
        np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_maximum_orders_all_floats_and_keeps_what_is_not_a_number(ranks, dtype):
    special = np.array([-np.inf, -1.5, -0.0, 1e-300, 2.5, np.inf], dtype)
    x = np.roll(special, ranks.rank)
    x[5] = np.nan if ranks.rank == ranks.size - 1 else x[5]
    everyone = np.array(ranks.host_gather(x))
    np.testing.assert_array_equal(ranks.maximum(jnp.asarray(x)), np.max(everyone, axis=0))
    assert np.isnan(ranks.maximum(jnp.asarray(x))[5])


def test_maximum_has_no_tangent(ranks):
    value, tangent = jax.jvp(ranks.maximum, (jnp.array(float(ranks.rank)),), (jnp.array(1.0),))
    assert value == ranks.size - 1 and tangent == 0
    assert jax.grad(lambda x: x * ranks.maximum(x))(jnp.array(2.0)) == 2.0  # only the factor outside


@pytest.mark.parametrize("periodic", ["", "x", "y", "xy"])
@pytest.mark.parametrize("open_sides", [(), ("east", "south")], ids=["walls", "open"])
def test_the_halo_holds_the_neighbours_cells(ranks, periodic, open_sides):
    open_sides = tuple(side for side in open_sides if {"east": "x", "south": "y"}[side] not in periodic)
    grid, whole = cases.plane(periodic), cases.random(7)
    tile, width = ranks.decomposition(SHAPE).tile(ranks.rank), min(2, SHAPE[1] // ranks.along("x"))
    sides = Sides.of(grid, ranks, open_sides, float)
    (padded,) = quick(lambda x: exchange([x], width, sides, ranks))(whole[tile.slices])
    mode = lambda side, axis: "wrap" if axis in periodic else "edge" if side in open_sides else 0  # noqa: E731
    expected = tile.cut(whole, width, (mode("south", "y"), mode("north", "y")), (mode("west", "x"), mode("east", "x")))
    np.testing.assert_array_equal(padded, expected)


@pytest.mark.parametrize("periodic", ["", "xy"])
def test_the_transposed_exchange_adds_ghosts_into_the_cells_they_came_from(ranks, periodic):
    sides = Sides.of(cases.plane(periodic), ranks, () if periodic else ("west",), float)
    shape = ranks.decomposition(SHAPE).tile(ranks.rank).shape
    f = lambda u, v: exchange([u, v], 2, sides, ranks)  # noqa: E731
    u, v = mine(ranks, shape, 8), mine(ranks, shape, 9)
    y = [mine(ranks, a.shape, 10 + k) for k, a in enumerate(jax.eval_shape(f, u, v))]
    out, back = quick(lambda u, v, y: (f(u, v), jax.linear_transpose(f, u, v)(y)))(u, v, y)
    left = over_ranks(ranks, sum((a * b).sum() for a, b in zip(out, y)))
    right = over_ranks(ranks, (u * back[0]).sum() + (v * back[1]).sum())
    assert abs(left - right) <= 1e-12 * abs(left) + 1e-12


# -- messages in pieces, and what is sent ------------------------------------------------------------------------------

LIMIT = 1000  # elements; below, operands have some 4,000
WIDE = {
    "shift x": (4, 1001),
    "shift y": (2001,),
    "all_to_all x": 700,
    "all_to_all y": 700,
    "sum": (3333,),
    "sum x": (4, 999),
    "ordered sum": (2500,),
    "ordered sum y": (2001,),
    "replicated": (2, 1500),
    "replicated y": (2500,),
    "broadcast": (5, 901),
}
CALLS = {
    "MPI_Sendrecv": "shift",
    "MPI_Alltoall": "all_to_all",
    "MPI_Allreduce": "sum",
    "MPI_Allgather": "sum",
    "MPI_Bcast": "broadcast",
    "MPI_Reduce": "broadcast",
    "MPI_Gather": "gather",
    "MPI_Scatter": "scatter",
}


@pytest.fixture(scope="module")
def short(ranks):
    """The same mesh of ranks, whose messages carry at most LIMIT elements."""
    if ranks.size == 1:
        return ranks
    from swmodel.parallel.mpi import MPICommunicator

    return MPICommunicator(ranks.layout, most_elements=LIMIT)


@pytest.fixture
def messages(capfd):
    """messages() is what MPI was called for since the last time: [(call, elements handed over)] of this rank."""
    if cases.RANKS == 1:
        yield lambda: []
        return
    from mpi4jax._src.xla_bridge import set_logging

    def since():
        jax.effects_barrier()
        ctypes.CDLL(None).fflush(None)
        return [(c, int(n)) for c, n in re.findall(r"(MPI_[A-Z][a-z]+) [^\n]*?(\d+) items", capfd.readouterr().out)]

    capfd.readouterr()
    set_logging(True)
    yield since
    set_logging(False)


def sent(calls, itemsize, ranks):
    """{verb: Count} of MPI's own record, by the rules of `traffic`: collectives as messages to each of the others."""
    found = {}
    for call, items in calls:
        verb, others = CALLS[call], 1
        if verb in ("all_to_all", "gather", "scatter") or call == "MPI_Bcast":
            others = ranks - 1
        reduces = call in ("MPI_Allreduce", "MPI_Allgather", "MPI_Reduce")
        count = Count(0, items * itemsize, 1) if reduces else Count(others, others * items * itemsize, 0)
        found[verb] = found.get(verb, Count()) + count
    return found


@of_verbs(*VERBS)
def test_long_messages_go_in_pieces_and_arrive_as_one(ranks, short, messages, verb):
    make, shape, same_in, _ = VERBS[verb]
    shape = WIDE.get(verb, (30, *shape(ranks)[1:]))
    shape = (ranks.along(verb[-1]), shape) if isinstance(shape, int) else shape
    x = np.round(100 * mine(ranks, shape, 1, "float32", same_in))  # whole numbers: sums are exact in any order
    both = lambda on: lambda x: (make(on)(x), jax.vjp(make(on), x)[1](make(on)(x))[0])  # noqa: E731
    expected = quick(both(ranks))(x)
    messages()
    found = quick(both(short))(x)
    for a, b in zip(found, expected):
        np.testing.assert_array_equal(a, b)
    calls = messages()
    line = ranks.along(verb[-1]) if verb[-1] in "xy" else ranks.size
    per_call = {"MPI_Alltoall": line, "MPI_Allgather": line, "MPI_Gather": ranks.size, "MPI_Scatter": ranks.size}
    assert all(items * per_call.get(call, 1) <= LIMIT for call, items in calls)
    counted = traffic(both(short), x)
    together = sum(sent(calls, 4, line).values(), Count())
    assert counted.total == together
    assert traffic(both(ranks), x).total.bytes == together.bytes
    whole = [call for call, items in calls if items == LIMIT // per_call.get(call, 1)]
    assert not calls or whole  # and at least one was full


def test_a_limit_in_bytes_splits_by_the_size_of_a_number(ranks):
    if ranks.size == 1:
        assert ranks.pieces(10**12, "float64") == 1
        return
    from swmodel.parallel.mpi import MPICommunicator

    assert [ranks.pieces(n, "int8") for n in (2**31 - 1, 2**31)] == [1, 2]
    assert [ranks.pieces(n, "float64") for n in (2**28 - 1, 2**28)] == [1, 2]
    assert ranks.pieces(2**28, "complex64", ranks=4) == 5
    short = MPICommunicator(ranks.layout, most_bytes=800)
    assert [short.pieces(150, dtype) for dtype in ("float32", "float64", "complex128")] == [1, 2, 3]
    x = mine(ranks, (150,), 1)
    np.testing.assert_array_equal(short.shift(x, "x", 1), ranks.shift(x, "x", 1))


def test_a_step_sends_a_message_to_each_neighbour_and_no_reductions(ranks, messages):
    """Of AB2: three fields, `halo` cells wide at each side, along y corners included."""
    model, stepper = cases.together("walls and islands", ranks.layout)
    halo, (my, mx), (py, px) = model.halo(stepper), model.tile.shape, ranks.layout
    dynamics, state = model.dynamics(stepper), cases.start(model)
    one, two, seven = (traffic(lambda d, s, n=n: cases.run(d, stepper, s, n), dynamics, state) for n in (1, 2, 7))
    step = two - one  # a program also sends the depth, once
    across, along = 3 * halo * my * 8, 3 * halo * (mx + 2 * halo) * 8
    size = 2 * (px > 1) * across + 2 * (py > 1) * along
    assert step.total == Count(cases.neighbours(ranks.layout), size, 0)
    assert seven.total == (one + step * 6).total
    messages()
    jax.block_until_ready(cases.run(dynamics, stepper, state, 7))
    counted = {verb: count for verb, count in seven.by_verb.items() if count != Count()}  # numbers enter for nothing
    assert sent(messages(), 8, ranks.size) == counted


@pytest.mark.parametrize("rows", [1, 3, cases.NY])
@pytest.mark.parametrize("dtype", [np.float64, np.float32, bool])
def test_blocks_of_rows_reach_the_root_in_the_order_of_memory(ranks, rows, dtype):
    whole = np.stack([cases.random(k) for k in range(6)]).reshape(2, 3, *SHAPE).astype(dtype)
    whole[0, 0].flat[:3] = [-0.0, 1, 0]
    tile = jnp.asarray(whole[(..., *ranks.decomposition(SHAPE).tile(ranks.rank).slices)])
    most, found = rows * cases.NX * np.dtype(dtype).itemsize, np.zeros_like(whole)
    wheres, blocks = zip(*ranks.rows_to_root(tile, SHAPE, most))
    assert len(wheres) == 6 * -(-cases.NY // rows)
    assert {block is None for block in blocks} == {not ranks.is_root}
    if ranks.is_root:
        assert max(block.nbytes for block in blocks) == most
        for where, block in zip(wheres, blocks):
            found[where] = block
        assert found.tobytes() == whole.tobytes()
        assert np.concatenate([block.ravel() for block in blocks]).tobytes() == whole.tobytes()


def test_tiles_are_scattered_from_an_array_that_is_read_by_windows(ranks):
    whole, read = cases.random(12), []
    values = Stored(whole, SHAPE)

    class Windows:
        shape, dtype, ndim = SHAPE, whole.dtype, 2

        def block(self, rows, columns):
            read.append((rows.stop - rows.start) * (columns.stop - columns.start))
            return values.block(rows, columns)

    tiles = ranks.decomposition(SHAPE)
    found = ranks.scatter_from_root(Windows() if ranks.is_root else None, SHAPE)
    np.testing.assert_array_equal(found, whole[tiles.tile(ranks.rank).slices])
    assert len(read) == (ranks.size if ranks.is_root else 0) and max(read, default=0) <= np.prod(tiles.tile(0).shape)


def test_an_error_on_the_root_is_raised_on_every_rank(ranks):
    def fails():
        raise OSError("no such file")

    with pytest.raises(OSError, match="no such file"):
        ranks.from_root(fails)
    assert ranks.from_root(lambda: 42) == 42
