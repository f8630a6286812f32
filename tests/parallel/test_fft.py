"""Distributed transforms are those of the whole field, with exact derivatives and wavenumbers that belong to them."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from swmodel.errors import TileError
from swmodel.parallel import fft, make_communicator
from swmodel.parallel.fft import transposition
from tests.selection import later

from . import cases
from .test_communicator import quick

# even, odd, prime and powers of two; fewer modes than ranks; one point along an axis that is whole
SIZES = {2: [(13, 11), (16, 8), (6, 9), (7, 6)], 3: [(7, 8, 5), (8, 8, 4), (6, 7, 1)]}
DIFFERENTIATED = [(9, 8), (7, 6, 5), *([(8, 7), (6, 6, 8)] if cases.RANKS == 1 else [])]  # even and odd half spectra
TOLERANCE = 1e-13


@pytest.fixture(scope="module", params=cases.MESHES, ids=str)
def ranks(request):
    return make_communicator("auto", (cases.NY, cases.NX), request.param)


def field(shape, seed=1, dtype=float):
    """A whole field, the same on every rank."""
    random = np.random.default_rng((seed, *shape))
    x = random.standard_normal(shape)
    return x + 1j * random.standard_normal(shape) if dtype is complex else x


def numpys(whole, kinds):
    """What numpy.fft makes of a whole field (..., *shape)."""
    for axis, kind in zip(range(-1, -len(kinds) - 1, -1), kinds[::-1]):
        whole = (np.fft.rfft if isinstance(kind, fft.RealFourier) else np.fft.fft)(whole, axis=axis)
    return whole


def same(communicator, found, expected):
    """On the root: equal to rounding, relative to the largest."""
    if communicator.is_root:
        assert found.shape == expected.shape
        np.testing.assert_allclose(found, expected, rtol=0, atol=TOLERANCE * np.abs(expected).max())


def run(communicator, function, *arguments):
    return quick(communicator.spmd(function))(*arguments)


# -- values -----------------------------------------------------------------------------------------------------------


def check_values(communicator, dimensions, transposed):
    """Real and complex fields of all sizes, in one program: modes, the way back, and Parseval's sum."""
    plans, wholes = [], []
    for shape in SIZES[dimensions]:
        if min(n < p for n, p in zip(shape, communicator.layout)):
            continue
        for kinds, dtype in ((None, float), ((fft.Fourier(),) * dimensions, complex)):
            plans.append(fft.Plan(communicator, shape, kinds, transposed))
            wholes.append(np.stack([field(shape, seed, dtype) for seed in (1, 2)]))

    def program(tiles):
        results = []
        for plan, tile in zip(plans, tiles):
            modes = plan.forward(tile)
            assert modes.shape == (2, *plan.mode_shape) and modes.dtype == plan.mode_dtype(tile.dtype)
            squares = communicator.sum(jnp.sum(plan.waves().weight[None] * jnp.abs(modes) ** 2))
            results.append((modes, plan.inverse(modes), squares))
        return results

    tiles = [plan.place(whole) for plan, whole in zip(plans, wholes)]
    for plan, whole, (modes, back, squares) in zip(plans, wholes, run(communicator, program, tiles)):
        same(communicator, plan.gather_modes(modes), numpys(whole, plan.kinds))
        same(communicator, plan.gather(back), whole)
        assert abs(float(squares) / np.sum(np.abs(whole) ** 2) - 1) < TOLERANCE


@pytest.mark.parametrize("dimensions", SIZES)
def test_modes_are_numpys_and_the_way_back_and_parseval_hold(ranks, dimensions):
    check_values(ranks, dimensions, transposed=True)


@pytest.mark.parametrize("dimensions", SIZES)
def test_modes_can_be_where_the_points_were(ranks, dimensions):
    check_values(ranks, dimensions, transposed=False)


@pytest.mark.parametrize("shape", [(12, 10), (6, 7, 4)])
def test_a_wave_is_one_mode_at_its_own_wavenumber(ranks, shape):
    """cos(k x) with k = (2, ..., 1) turns a circle, whose mode alone is there; its Laplacian is -|k|^2 of it."""
    plan, d = fft.Plan(ranks, shape), len(shape)
    waves = (-2, 3, 1)[-d:]
    spacing = tuple(2 * np.pi / n for n in shape)
    whole = np.cos(
        sum(
            k * x
            for k, x in zip(waves, np.meshgrid(*(np.arange(n) * h for n, h in zip(shape, spacing)), indexing="ij"))
        )
    )

    def program(x):
        modes, held = plan.forward(x), plan.waves(spacing)
        there = [jnp.sum(jnp.where(jnp.abs(modes) > 1e-9, k, 0.0)) for k in held.k]
        count = jnp.sum(jnp.abs(modes) > 1e-9)
        return plan.inverse(-held.squared.astype(modes.dtype) * modes), [ranks.sum(k) for k in there], ranks.sum(count)

    laplacian, there, count = run(ranks, program, plan.place(whole))
    assert int(count) == 1
    np.testing.assert_allclose(np.array(there, float), waves, rtol=1e-13)
    same(ranks, plan.gather(laplacian), -sum(k * k for k in waves) * whole)


# -- derivatives ------------------------------------------------------------------------------------------------------


def check_derivatives(communicator, shape, transposed):
    """Of real fields. <F x, Y> = <x, F' Y>, its real part without conjugation, and so the way back; sum w |X|^2 / 2 is
    |x|^2 / 2, whose gradient is x and whose Hessian is the identity; and of sum (G x)^3 with a self-adjoint filter G
    the gradient is G 3 (G x)^2 and the Hessian times t is G 6 (G x) (G t)."""
    plan = fft.Plan(communicator, shape, None, transposed)

    def filtered(x):
        modes = plan.forward(x)
        return plan.inverse(modes * jnp.exp(-plan.waves().squared).astype(modes.dtype))

    def squares(x):
        modes = plan.forward(x)
        return 0.5 * jnp.sum(plan.waves().weight * (modes * modes.conj()).real)

    def program(x, t):
        modes, back = plan.forward(x), jax.linear_transpose(plan.forward, x)
        pair = plan.forward(t) * (1.0 + 0.5j)  # any modes
        again = jax.linear_transpose(plan.inverse, modes)(t)[0]
        products = [(modes * pair, x * back(pair)[0]), (plan.inverse(pair) * t, pair * again)]
        cube = jax.grad(lambda x: jnp.sum(filtered(x) ** 3))
        return (
            [[communicator.sum(jnp.sum(side.real)) for side in sides] for sides in products],
            jax.jvp(jax.grad(squares), (x,), (t,)),
            jax.jvp(cube, (x,), (t,)),
            (filtered(3 * filtered(x) ** 2), filtered(6 * filtered(x) * filtered(t))),
            jax.vmap(jax.grad(squares), in_axes=1)(jnp.stack([x, t], axis=1)),
        )

    wholes = field(shape, 1), field(shape, 2)
    products, identity, cube, expected, batch = run(communicator, program, *map(plan.place, wholes))
    for left, right in products:
        assert abs(left - right) < TOLERANCE * abs(left) * np.sqrt(np.prod(shape)), (left, right)
    for found, whole in zip(identity, wholes):
        same(communicator, plan.gather(found), whole)
    for found, known in zip(cube, expected):
        same(communicator, plan.gather(found), plan.gather(known))
    same(communicator, plan.gather(batch), np.stack(wholes))


@pytest.mark.parametrize("shape", DIFFERENTIATED, ids=str)
def test_derivatives_are_exact_for_even_and_odd_sizes(ranks, shape):
    check_derivatives(ranks, shape, transposed=len(shape) == 2 or shape[-1] == 5)


@pytest.mark.parametrize("shape", [(24, 22), later((6, 7, 6))], ids=str)
def test_what_a_cache_does_not_hold_goes_in_pieces_with_the_same_values_and_derivatives(ranks, shape, monkeypatch):
    monkeypatch.setattr(transposition, "BYTES_AT_ONCE", 300)
    plan, whole = fft.Plan(ranks, shape), field(shape)
    forward = quick(ranks.spmd(plan.forward))
    loops = forward.lower(plan.place(whole)).as_text().count("stablehlo.while")
    assert loops > 0 or ranks.size == 1 and len(shape) == 2  # where nothing is put together
    same(ranks, plan.gather_modes(forward(plan.place(whole))), numpys(whole, plan.kinds))
    if cases.RANKS < 4:
        check_derivatives(ranks, shape, transposed=True)


# -- what cannot be ---------------------------------------------------------------------------------------------------


def test_what_cannot_be_transformed_is_refused_in_a_sentence(ranks):
    plan = fft.Plan(ranks, (13, 11))
    with pytest.raises(fft.LayoutError, match="forward: got an array of shape .* where a rank of this plan has"):
        plan.forward(jnp.zeros((plan.tile_shape[0] + 1, plan.tile_shape[1])))
    with pytest.raises(fft.LayoutError, match="its block of modes"):
        plan.inverse(jnp.zeros((3, 2), complex))
    with pytest.raises(fft.LayoutError, match="takes real ones"):
        plan.forward(jnp.zeros(plan.tile_shape, complex))
    with pytest.raises(fft.LayoutError, match="got int64 numbers"):
        plan.forward(jnp.zeros(plan.tile_shape, int))
    with pytest.raises(fft.LayoutError, match="give the whole field"):
        plan.place(np.zeros((4, 4)))
    plan = fft.Plan(ranks, (13, 13), (fft.Cosine(2), fft.Cosine(2)))
    with pytest.raises(fft.LayoutError, match="gather: (got an|another rank's) array"):  # on all ranks, if on one
        plan.gather(jnp.zeros(plan.tile_shape if ranks.rank else (1, *plan.tile_shape[1:])))
    with pytest.raises(ValueError, match="2 or 3 whole numbers"):
        fft.Plan(ranks, (4,))
    with pytest.raises(ValueError, match="one Kind for each"):
        fft.Plan(ranks, (13, 11), (fft.Fourier(),))
    with pytest.raises(ValueError, match="RealFourier needs real numbers"):
        fft.Plan(ranks, (13, 11), (fft.RealFourier(), fft.RealFourier()))
    if ranks.size > 1:
        with pytest.raises(TileError, match="tiles along"):
            fft.Plan(ranks, (1, 1))
