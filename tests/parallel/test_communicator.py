"""The verbs do what they say, and each transpose is one: <f(x), y> = <x, f'(y)> over all ranks."""
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from swmodel.parallel import make_communicator
from swmodel.parallel.halo import Sides, exchange

from . import cases

SHAPE = (cases.NY, cases.NX)


@pytest.fixture(scope="module", params=cases.LAYOUTS, ids=str)
def ranks(request):
    return make_communicator("auto", SHAPE, request.param)


def mine(ranks, shape, seed, dtype=float):
    """Numbers that differ on every rank."""
    random = np.random.default_rng((seed, ranks.rank))
    x = random.standard_normal(shape)
    return jnp.asarray(x + 1j * random.standard_normal(shape) if dtype is complex else x)


def over_ranks(ranks, x):
    return complex(ranks.host_sum(np.atleast_1d(np.asarray(x).sum()))[0])


VERBS = {
    "shift x": lambda ranks: lambda x: ranks.shift(x, "x", +1),
    "shift y": lambda ranks: lambda x: ranks.shift(x, "y", -1),
    "all_to_all x": lambda ranks: lambda x: ranks.all_to_all(x[..., : ranks.along("x"), :], "x"),
    "all_to_all y": lambda ranks: lambda x: ranks.all_to_all(x[..., : ranks.along("y"), :], "y"),
    "broadcast": lambda ranks: ranks.broadcast,
}


@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize("dtype", [float, complex])
def test_verbs_that_move_values_have_exact_transposes(ranks, verb, dtype):
    f = VERBS[verb](ranks)
    x = mine(ranks, (8, 3), 1, dtype)
    forward = jax.jit(f)(x)
    y = mine(ranks, forward.shape, 2, dtype)
    (back,) = jax.jit(lambda y: jax.linear_transpose(f, x)(y))(y)
    left, right = over_ranks(ranks, forward * y), over_ranks(ranks, x * back)
    assert abs(left - right) <= 1e-13 * max(1.0, abs(left))
    tangent = jax.jvp(f, (x,), (x,))[1]
    np.testing.assert_array_equal(tangent, forward)


def test_shift_brings_what_the_opposite_neighbour_sent(ranks):
    iy, ix = ranks.coordinates
    came = ranks.shift(jnp.array([10.0 * iy + ix]), "x", +1)
    assert came[0] == 10.0 * iy + (ix - 1) % ranks.along("x")


def test_sum_is_replicated_and_replicated_sums_its_cotangents(ranks):
    x = mine(ranks, (5,), 3)
    total = ranks.sum(x)
    np.testing.assert_allclose(total, ranks.host_sum(np.asarray(x)), rtol=1e-13)
    # The mean of all cells leaves every cell: the gradient of sum (x - mean)^2 / 2 is x - mean.
    mean = lambda x: ranks.replicated(ranks.sum(jnp.sum(x))) / (5 * ranks.size)  # noqa: E731
    gradient = jax.grad(lambda x: ranks.sum(0.5 * jnp.sum((x - mean(x)) ** 2)))(x)
    np.testing.assert_allclose(gradient, x - mean(x), rtol=0, atol=1e-13)


def test_an_ordered_sum_is_the_same_on_every_rank_bit_for_bit(ranks):
    total = np.asarray(ranks.sum(mine(ranks, (7,), 4), ordered=True))
    everyone = ranks.host_gather(total.tobytes())
    assert set(everyone) == {total.tobytes()}


def test_sums_along_an_axis_add_that_axis_alone(ranks):
    iy, ix = ranks.coordinates
    assert ranks.sum(jnp.array(10.0 * iy + ix), axis="x") == sum(10.0 * iy + k for k in range(ranks.along("x")))


def test_maximum_has_no_tangent(ranks):
    value, tangent = jax.jvp(ranks.maximum, (jnp.array(float(ranks.rank)),), (jnp.array(1.0),))
    assert value == ranks.size - 1 and tangent == 0


def test_verbs_work_under_vmap_scan_and_while(ranks):
    x = mine(ranks, (4, 3), 5)
    shift = lambda x: ranks.shift(x, "x", +1)  # noqa: E731
    np.testing.assert_array_equal(jax.vmap(shift, in_axes=1, out_axes=1)(x), shift(x))
    around = jax.lax.scan(lambda c, _: (shift(c), None), x, None, length=ranks.along("x"))[0]
    np.testing.assert_array_equal(around, x)
    gradient = jax.grad(lambda x: jnp.sum(jax.lax.fori_loop(0, 3, lambda _, c: shift(c), x) ** 2))(x)
    np.testing.assert_allclose(gradient, 2 * x, rtol=1e-14)
    twice = jax.jvp(jax.grad(lambda x: ranks.sum(jnp.sum(shift(x) ** 3))), (x,), (x,))[1]
    np.testing.assert_allclose(twice, 6 * x * x, rtol=1e-13)


@pytest.mark.parametrize("periodic", ["", "x", "y", "xy"])
@pytest.mark.parametrize("opens", [(), ("east", "south")], ids=["walls", "open"])
def test_the_halo_holds_the_neighbours_cells(ranks, periodic, opens):
    opens = tuple(side for side in opens if not ({"east": "x", "south": "y"}[side] in periodic))
    grid, whole = cases.plane(periodic), cases.random(7)
    tile, width = ranks.decomposition(SHAPE).tile(ranks.rank), min(2, SHAPE[1] // ranks.along("x"))
    sides = Sides.of(grid, ranks, opens, float)
    (padded,) = exchange([jnp.asarray(whole[tile.slices])], width, sides, ranks)
    mode = lambda side, axis: "wrap" if axis in periodic else "edge" if side in opens else 0  # noqa: E731
    expected = tile.cut(whole, width, (mode("south", "y"), mode("north", "y")), (mode("west", "x"), mode("east", "x")))
    np.testing.assert_array_equal(padded, expected)


@pytest.mark.parametrize("periodic", ["", "xy"])
def test_the_transposed_exchange_adds_ghosts_into_the_cells_they_came_from(ranks, periodic):
    sides = Sides.of(cases.plane(periodic), ranks, () if periodic else ("west",), float)
    shape = ranks.decomposition(SHAPE).tile(ranks.rank).shape
    f = lambda u, v: exchange([u, v], 2, sides, ranks)  # noqa: E731
    u, v = mine(ranks, shape, 8), mine(ranks, shape, 9)
    out = f(u, v)
    y = [mine(ranks, a.shape, 10 + k) for k, a in enumerate(out)]
    back = jax.linear_transpose(f, u, v)(y)
    left = over_ranks(ranks, sum((a * b).sum() for a, b in zip(out, y)))
    right = over_ranks(ranks, (u * back[0]).sum() + (v * back[1]).sum())
    assert abs(left - right) <= 1e-12 * abs(left) + 1e-12


def test_one_exchange_takes_four_messages_or_fewer(ranks):
    sides = Sides.of(cases.plane("xy"), ranks, (), float)
    shape = ranks.decomposition(SHAPE).tile(ranks.rank).shape
    arrays = [jnp.zeros(shape)] * 3
    text = str(jax.make_jaxpr(lambda *a: exchange(list(a), 1, sides, ranks))(*arrays))
    assert text.count("= shift[") == 2 * sum(n > 1 for n in ranks.layout)


def test_tiles_gather_and_scatter_to_where_they_were(ranks):
    whole, tile = cases.random(11), ranks.decomposition(SHAPE).tile(ranks.rank)
    np.testing.assert_array_equal(ranks.scatter_from_root(whole if ranks.is_root else None, SHAPE), whole[tile.slices])
    gathered = ranks.gather_to_root(whole[tile.slices])
    assert (gathered is None) != ranks.is_root
    if ranks.is_root:
        np.testing.assert_array_equal(gathered, whole)


def test_an_error_on_the_root_is_raised_on_every_rank(ranks):
    def fails():
        raise OSError("no such file")

    with pytest.raises(OSError, match="no such file"):
        ranks.from_root(fails)
    assert ranks.from_root(lambda: 42) == 42


def conjugate_gradients(ranks, b, k):
    """Eight iterations for (diag + k 1 1^T) x = b: every dot product meets distributed values again."""
    d = 1.0 + jnp.arange(b.size) / b.size
    dot = lambda x, y: ranks.replicated(ranks.sum(jnp.sum(x * y)))  # noqa: E731
    a = lambda x: d * x + k * dot(jnp.ones_like(x), x)  # noqa: E731
    x, r = jnp.zeros_like(b), b
    p = r
    for _ in range(8):
        ap = a(p)
        alpha = dot(r, r) / dot(p, ap)
        x, new = x + alpha * p, r - alpha * ap
        p, r = new + dot(new, new) / dot(r, r) * p, new
    return x


def test_the_gradient_through_distributed_conjugate_gradients_is_that_of_the_solution(ranks):
    b, k = mine(ranks, (4,), 12), jnp.array(0.3)
    d = 1.0 + np.arange(4) / 4

    def cost(b, k):
        x = conjugate_gradients(ranks, b, ranks.replicated(k))
        return ranks.sum(jnp.sum(x * x))

    by_b, by_k = jax.grad(cost, argnums=(0, 1))(b, k)
    diagonal, everyone = np.tile(d, ranks.size), np.concatenate(ranks.host_gather(np.asarray(b)))
    matrix = np.diag(diagonal) + 0.3
    x = np.linalg.solve(matrix, everyone)
    adjoint = np.linalg.solve(matrix, 2 * x)
    np.testing.assert_allclose(by_b, adjoint[4 * ranks.rank : 4 * ranks.rank + 4], rtol=1e-6, atol=1e-8)
    np.testing.assert_allclose(by_k, -(adjoint.sum() * x.sum()), rtol=1e-6)
