"""Cosine and sine transforms are scipy's; on the devices of one process transforms are those of the whole field."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.fft

from swmodel.models.random_fields import filtered
from swmodel.parallel import SerialCommunicator, fft, make_communicator
from tests.parallel import test_fft as on_ranks
from tests.parallel.test_communicator import quick
from tests.selection import later, now

SIZES = (1, 2, 3, 5, 8, 13, 100)
KINDS = [kind(type) for kind in (fft.Cosine, fft.Sine) for type in (1, 2, 3, 4)]


def points(n, dtype, seed=0):
    x = np.random.default_rng((n, seed)).standard_normal((2, 2, n))
    return jnp.asarray((x[0] + 1j * x[1] if np.dtype(dtype).kind == "c" else x[0]).astype(dtype))


TYPES = list(itertools.product(("dct", "dst", "idct", "idst"), (1, 2, 3, 4)))


@pytest.mark.parametrize("name, type", now(TYPES, *TYPES[:8], ("idct", 2)))
def test_cosine_and_sine_transforms_are_scipys(name, type):
    least = 2 if type == 1 and name.endswith("ct") else 1
    xs = [points(n, float) for n in SIZES if n >= least]
    xs += [points(7, complex), points(8, complex), points(8, "float32")]
    found = quick(lambda xs: [getattr(fft, name)(x, type) for x in xs])(xs)
    for x, modes in zip(xs, found):
        expected = getattr(scipy.fft, name)(np.asarray(x), type)
        assert modes.dtype == x.dtype
        np.testing.assert_allclose(modes, expected, rtol=0, atol=16 * np.finfo(x.dtype).eps * np.abs(expected).max())


@pytest.mark.parametrize("kind", [*KINDS, fft.Fourier(), fft.RealFourier()], ids=str)
def test_every_kind_comes_back_and_has_an_exact_transpose(kind):
    """<F x, y> = <x, F' y> without conjugation, and so the way back; for real points its real part."""

    def program(x, y):
        n, modes = x.shape[-1], kind.forward(x)
        inverse = lambda modes: kind.inverse(modes, n)  # noqa: E731
        (back,), (again,) = jax.linear_transpose(kind.forward, x)(y), jax.linear_transpose(inverse, y)(x)
        dot = lambda a, b: jnp.sum((a * b).real if kind.takes == "real" else a * b)  # noqa: E731
        return modes, inverse(modes), (dot(modes, y), dot(x, back)), (dot(inverse(y), x), dot(y, again))

    xs = [points(n, complex if kind == fft.Fourier() else float) for n in (2, 7)]
    ys = [points(kind.modes(x.shape[-1]), kind.dtype(x.dtype), 1) for x in xs]
    for x, (modes, back, *products) in zip(xs, quick(lambda xs, ys: [program(*pair) for pair in zip(xs, ys)])(xs, ys)):
        assert modes.shape == (2, kind.modes(x.shape[-1])) and modes.dtype == kind.dtype(x.dtype)
        np.testing.assert_allclose(back, x, rtol=0, atol=1e-13)
        for left, right in products:
            np.testing.assert_allclose(left, right, rtol=0, atol=1e-13 * max(abs(left), 1.0))


GHOSTS = {  # what continues n points at the low and at the high end: (sign, distance of the mirror in points)
    ("Cosine", 1): ((1, 0.0), (1, 0.0)),
    ("Cosine", 2): ((1, 0.5), (1, 0.5)),
    ("Cosine", 3): ((1, 0.0), (-1, 1.0)),
    ("Cosine", 4): ((1, 0.5), (-1, 0.5)),
    ("Sine", 1): ((-1, 1.0), (-1, 1.0)),
    ("Sine", 2): ((-1, 0.5), (-1, 0.5)),
    ("Sine", 3): ((-1, 1.0), (1, 0.0)),
    ("Sine", 4): ((-1, 0.5), (1, 0.5)),
}


@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_each_mode_is_an_eigenvector_of_the_second_difference_between_its_ends(kind):
    """x_(j-1) - 2 x_j + x_(j+1) = (2 cos(phase) - 2) x_j, where ends reflect evenly (Neumann) or oddly (Dirichlet)."""
    n = 6
    modes, phases = quick(lambda: (kind.inverse(jnp.eye(n), n), kind.phase(jnp.arange(1.0 * n), n)))()
    for x, phase in zip(np.asarray(modes), phases):
        (low_sign, low), (high_sign, high) = GHOSTS[type(kind).__name__, kind.type]
        before = 0.0 if (low_sign, low) == (-1, 1.0) else low_sign * x[int(1 - 2 * low)]
        after = 0.0 if (high_sign, high) == (-1, 1.0) else high_sign * x[int(n - 2 + 2 * high)]
        second = np.diff(np.concatenate([[before], x, [after]]), 2)
        np.testing.assert_allclose(second, (2 * np.cos(phase) - 2) * x, atol=1e-14)


def test_a_sum_of_squares_is_kept_where_a_kind_says_so():
    kinds = (fft.Cosine(2), fft.Cosine(4), fft.Sine(1), fft.Sine(2), fft.Sine(4), fft.Fourier(), fft.RealFourier())

    def square(kind, x):
        modes = kind.forward(x)
        return jnp.sum(jnp.abs(modes) ** 2 @ kind.weight(jnp.arange(1.0 * modes.shape[-1]), x.shape[-1]))

    xs = points(7, float), points(8, float)
    for found in quick(lambda xs: [[square(kind, x) for x in xs] for kind in kinds])(xs):
        np.testing.assert_allclose(found, [jnp.sum(x**2) for x in xs], rtol=1e-14)
    with pytest.raises(ValueError, match="does not conserve the sum of squares"):
        fft.Cosine(1).weight(jnp.arange(3.0), 3)


def test_cosines_sines_and_fourier_series_go_together():
    """A channel: periodic along one axis, walls along the other, whichever is transformed first."""
    whole, alone = on_ranks.field((9, 8)), SerialCommunicator()
    kinds = (fft.Sine(2), fft.RealFourier()), (fft.RealFourier(), fft.Cosine(2)), (fft.Sine(4), fft.Cosine(4))
    plans = [fft.Plan(alone, whole.shape, pair) for pair in kinds]
    found = quick(lambda x: [(plan.forward(x), plan.inverse(plan.forward(x))) for plan in plans])(jnp.asarray(whole))
    for kinds, plan, (modes, again) in zip(kinds, plans, found):  # noqa: B020
        steps = {"RealFourier": np.fft.rfft, "Cosine": scipy.fft.dct, "Sine": scipy.fft.dst}
        expected = whole
        for axis, kind in ((1, kinds[1]), (0, kinds[0])):
            options = {} if isinstance(kind, fft.RealFourier) else {"type": kind.type}
            expected = steps[type(kind).__name__](expected, axis=axis, **options)
        np.testing.assert_allclose(plan.gather_modes(modes), expected, rtol=0, atol=1e-13)
        np.testing.assert_allclose(again, whole, rtol=0, atol=1e-14)


@pytest.mark.parametrize("dimensions, transposed", [(2, True), later(2, False), later(3, True), later(3, False)])
def test_devices_of_one_process_have_numpys_modes(dimensions, transposed):
    on_ranks.check_values(make_communicator("sharded", (13, 11), (2, 3)), dimensions, transposed)


@pytest.mark.verify
@pytest.mark.parametrize("shape", [(9, 8), (7, 6, 5)])
def test_devices_of_one_process_have_exact_derivatives(shape):
    on_ranks.check_derivatives(make_communicator("sharded", (13, 11), (2, 3)), shape, transposed=True)


def test_transforms_of_unknown_types_or_too_few_points_are_refused_in_a_sentence():
    with pytest.raises(ValueError, match="type = 5 is unknown"):
        fft.dct(jnp.zeros(3), 5)
    with pytest.raises(ValueError, match="type 1 needs 2 or more points"):
        fft.dct(jnp.zeros(1), 1)
    with pytest.raises(ValueError, match="type = 0 is unknown"):
        fft.Sine(0)
    with pytest.raises(ValueError, match="dst: got int.* numbers"):
        fft.dst([1, 2])
    np.testing.assert_array_equal(fft.dct([1.0, 2.0]), fft.dct(jnp.array([1.0, 2.0])))


@pytest.mark.parametrize("shape", [8, (8.5, 8), (8, 8, 8, 8), (0, 8)])
def test_a_plan_of_no_shape_is_refused_in_a_sentence(shape):
    with pytest.raises(ValueError, match=r"is not \(ny, nx\) or \(nz, ny, nx\); give 2 or 3 whole numbers"):
        fft.Plan(SerialCommunicator(), shape)


@pytest.mark.parametrize("spacing", [(1.0,), 1.0, (1.0, 0.0), (-1.0, 1.0), (1.0, 1.0, 1.0)])
def test_spacings_that_do_not_fit_are_refused_in_a_sentence(spacing):
    with pytest.raises(ValueError, match="for 2 axes; give a positive distance"):
        fft.Plan(SerialCommunicator(), (6, 5)).waves(spacing)


def test_spacings_may_be_differentiated():
    plan, x = fft.Plan(SerialCommunicator(), (6, 5)), jnp.asarray(on_ranks.field((6, 5)))
    loss = lambda d: jnp.sum(filtered(plan, x, lambda k2: jnp.exp(-0.1 * k2), (d, 1.0)) ** 2)  # noqa: E731
    program, step = quick(jax.value_and_grad(loss)), 1e-5
    slope = (program(1.0 + step)[0] - program(1.0 - step)[0]) / (2 * step)
    np.testing.assert_allclose(program(1.0)[1], slope, rtol=1e-7)


def test_tiles_are_not_gathered_as_modes_nor_modes_as_tiles():
    plan = fft.Plan(SerialCommunicator(), (6, 5))
    field = plan.place(np.ones((6, 5)))
    with pytest.raises(fft.LayoutError, match="gather: got an array of shape .* its tile of the field"):
        plan.gather(plan.forward(field))
    with pytest.raises(fft.LayoutError, match="gather_modes: got an array of shape .* its block of modes"):
        plan.gather_modes(field)
