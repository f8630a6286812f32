"""Random fields with Gaussian statistics, for ensembles and background covariances, and the filter that they come from.

White noise w of unit variance, smoothed by a symmetric filter G with G(k)^2 proportional to the spectrum of

    <f(x) f(y)> = sigma^2 exp(-|x - y|^2 / 2 L^2),      so that G(k) ~ exp(-k^2 L^2 / 4),

is a field f = sigma G w whose covariance is sigma^2 G G'. The noise of a point depends on the seed and the point alone,
so that fields are the same on any number of ranks, to the rounding of transforms. The kinds of transforms determine the
boundary conditions: fields are periodic, or even or odd about walls, where the covariance with a point's mirror images
is added or subtracted. The variance is sigma^2 everywhere on a torus, and in the mean between walls. Everything is
linear in the noise.

Smooth random fields of which a rank computes the window that it needs.

    SmoothNoise   of an exact variance at each cell: the noise of ensemble members
    RandomWaves   of a few waves, smooth over any radius without memory of that size: fields to test with

SmoothNoise smooths white noise w by a Gaussian along y and then along x, and divides it by its standard deviation:

    noise(j, i) = sum over d, e of g_y(d) g_x(e) w(j + d, i + e) / sqrt(V_y(j) V_x(i)),
    g_x(e) ~ exp(-(e dx / radius)^2 / 2), and g_y(d) likewise.

Beyond a wall w continues as its mirror image, beyond a periodic side as the grid does. V is the variance of the sum
over one direction. With a(l) = sum over d of g(d) g(d + l), it is the sum of a(l) over the distances l between a cell
and its own images. These are q n on a periodic axis of n cells, and otherwise 2 q n and 2 i + 1 + 2 q n, for all whole
numbers q. The noise therefore has variance 1 at each cell.

The white noise is drawn in blocks of cells, each with a generator of its own.

A random flow in geostrophic balance: vortices of about one size, an initial state for turbulence.

    psi = sum over k of a(k) exp(i k x) / |k|,   a random, of the size exp(-((|k| - k0) / (k0 / 4))^2 / 2)
    u = - ddy psi,   v = ddx psi,   eta = f psi / g,   k0 = 2 pi / length

The noise of a point depends on the seed and the point alone, so that the flow is the same on any number of ranks, and
for any core. Along walls psi is constant, so that nothing flows through them.
"""

import dataclasses
import functools
import math
import numbers
import operator
from collections.abc import Callable, Sequence
from typing import Any, cast

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer
from numpy.typing import DTypeLike

from ..dynamics.series import Series, scaled
from ..errors import ConfigError
from ..fields.parameters import refuse
from ..fields.state import State
from ..grids.grid import CartesianGrid, Grid
from ..grids.windows import GridValues
from ..parallel import fft
from .shallow_water import ShallowWater

__all__ = ["GaussianCovariance", "RandomWaves", "SmoothNoise", "filtered", "random_vortices", "white_noise"]


SIDE = 64  # cells along the sides of a block of white noise
REACH = 4.0  # standard deviations after which the Gaussian ends


class SmoothNoise(GridValues):
    """Noise of variance 1 at cell centres, correlated over a radius; the same numbers in any window.

    Args:
        grid: the Grid.
        radius: standard deviation of the Gaussian [m]; in each direction it is at most the length of the grid.
        seed: whole numbers that choose the noise.
    """

    def __init__(self, grid: Grid, radius: float, seed: tuple[int, ...]):
        self.grid, self.seed, self.shape = grid, seed, grid.shape
        sides = grid.metrics(np.arange(grid.ny))
        dx, dy = (np.broadcast_to(sides[name], (grid.ny, 1))[:, 0] for name in ("dx_h", "dy_h"))
        self._along_y = min(radius / float(dy.mean()), float(grid.ny))  # in cells
        self._along_x = np.minimum(radius / dx, grid.nx)  # likewise, in each row

    def block(self, rows: slice, columns: slice) -> np.ndarray:
        """The noise (rows, columns)."""
        kernels = [_gaussian(float(deviation)) for deviation in self._along_x[rows]]
        wide = max(weights.size for weights in kernels) // 2
        i = _continued(np.arange(columns.start - wide, columns.stop + wide), self.shape[1], self.grid.periodic_x)
        smooth, at = self._smooth_along_y(rows, i), np.arange(columns.start, columns.stop)
        weights = np.stack([np.pad(own, wide - own.size // 2) for own in kernels])
        variance = np.stack([_variance(own, at, self.shape[1], self.grid.periodic_x) for own in kernels])
        return _summed(weights, smooth.T, at.size).T / np.sqrt(variance)

    def _smooth_along_y(self, rows, i):
        """(rows, len(i)): sums over rows at the columns i, divided by their standard deviation."""
        weights = _gaussian(self._along_y)
        wide, count = weights.size // 2, rows.stop - rows.start
        j = _continued(np.arange(rows.start - wide, rows.stop + wide), self.shape[0], self.grid.periodic_y)
        white = self._white(j, i)
        total = _summed(weights, white, count)
        at = np.arange(rows.start, rows.stop)
        return total / np.sqrt(_variance(weights, at, self.shape[0], self.grid.periodic_y))[:, None]

    def _white(self, j, i):
        """White noise at rows j and columns i, which may repeat, in any order."""
        found = np.empty((j.size, i.size))
        of_rows, of_columns = j // SIDE, i // SIDE
        for row in np.unique(of_rows):
            for column in np.unique(of_columns):
                block = np.random.default_rng((*self.seed, int(row), int(column))).standard_normal((SIDE, SIDE))
                here = np.ix_(np.flatnonzero(of_rows == row), np.flatnonzero(of_columns == column))
                found[here] = block[np.ix_(j[of_rows == row] % SIDE, i[of_columns == column] % SIDE)]
        return found


class RandomWaves(GridValues):
    """A sum of waves that are periodic over the grid, with random amplitudes whose spectrum is Gaussian:

        psi(j, i) = Re sum over m, n of c(m, n) exp(2 pi i (m j / ny + n i / nx)),
        E |c(m, n)|^2 ~ exp(-(m / M)^2 - (n / N)^2),   M = length / (2 pi radius) along y, N along x, 1 or more.

    A window takes memory in proportion to its own cells whatever the radius. The mean is 0 and the variance about 1.

    Args:
        grid: the Grid.
        radius: over which the field is smooth [m].
        seed: whole numbers that choose the amplitudes.
    """

    def __init__(self, grid: Grid, radius: float, seed: tuple[int, ...]):
        self.shape = grid.shape
        sides = grid.metrics(np.arange(grid.ny))
        lengths = (float(np.mean(sides[name])) * n for name, n in (("dy_h", grid.ny), ("dx_h", grid.nx)))
        widths = [max(length / (2 * np.pi * radius), 1.0) for length in lengths]
        self._m, self._n = (np.arange(-int(3 * width), int(3 * width) + 1) for width in widths)
        decay = np.exp(-0.5 * ((self._m / widths[0])[:, None] ** 2 + (self._n / widths[1]) ** 2))
        decay[self._m.size // 2, self._n.size // 2] = 0.0  # the mean
        random = np.random.default_rng(seed)
        drawn = random.standard_normal(decay.shape) + 1j * random.standard_normal(decay.shape)
        self._amplitudes = decay / np.sqrt(np.sum(decay**2)) * drawn

    def block(self, rows: slice, columns: slice) -> np.ndarray:
        """The field (rows, columns)."""
        return self.at_cells(np.arange(rows.start, rows.stop), np.arange(columns.start, columns.stop))

    def at_cells(self, j: np.ndarray, i: np.ndarray) -> np.ndarray:
        """The field (len(j), len(i)) at rows j and columns i, which may lie beyond the grid."""
        ny, nx = self.shape
        along_y = np.exp(2j * np.pi / ny * np.outer(j, self._m))
        along_x = np.exp(2j * np.pi / nx * np.outer(self._n, i))
        return (along_y @ self._amplitudes @ along_x).real


def _summed(weights, values, count):
    """(count, ...): sums over d of weights (..., d) times values (count + d, ...), in the same order for any window."""
    total = np.zeros((count, *values.shape[1:]))
    for d in range(weights.shape[-1]):
        total += weights[..., d] * values[d : d + count]
    return total


def _continued(k, n, periodic):
    """The cells whose values stand at the places k of an axis of n cells, within the grid or beyond its ends."""
    if periodic:
        return k % n
    k = k % (2 * n)
    return np.where(k < n, k, 2 * n - 1 - k)


@functools.lru_cache(maxsize=4096)
def _gaussian(deviation):
    """Weights of a Gaussian with a standard deviation in cells; their sum is 1."""
    wide = int(REACH * deviation + 0.5)
    weights = np.exp(-0.5 * (np.arange(-wide, wide + 1) / max(deviation, 1e-12)) ** 2)
    return weights / weights.sum()


def _variance(weights: np.ndarray, at: np.ndarray, n: int, periodic: bool) -> np.ndarray:
    """The variance of the weighted sum at the places `at` of an axis of n cells."""
    product = np.convolve(weights, weights)  # a(l) at l = -(size - 1) to size - 1
    most = weights.size - 1

    def summed(first, step):
        """The sum of a(first + q step) over all whole q."""
        distances = first[:, None] + step * np.arange(-(most // step) - 2, most // step + 3)
        inside = np.abs(distances) <= most
        return np.where(inside, product[np.where(inside, distances + most, 0)], 0.0).sum(axis=1)

    if periodic:
        return summed(np.zeros(at.size, int), n)
    return summed(np.zeros(at.size, int), 2 * n) + summed(2 * at + 1, 2 * n)


def white_noise(seed: int, plan: fft.Plan, dtype: DTypeLike = float) -> jax.Array:
    """Tile arrays of independent standard normal numbers, one for each point of a plan's field, on any ranks.

    Each row (plane) of the first axis has a generator of its own. A process draws the rows that its tiles need.

    Raises:
        ValueError: for a seed that is not a whole number from 0 on.
    """
    try:
        number = operator.index(seed)
    except TypeError:
        number = -1
    if number < 0:
        raise ValueError(f"white_noise: seed = {seed!r} is not a whole number from 0 on; give one, as 1.")
    _check_plan("white_noise", plan)
    row = lambda j: np.random.default_rng((number, j)).standard_normal(plan.shape[1:])  # noqa: E731
    parts = plan.communicator.decomposition(plan.shape[:2])

    def make(rank):
        box, tile = parts.box(rank), parts.tile(rank)
        rows, columns = box.shape
        noise = np.zeros((rows, columns, *plan.shape[2:]), dtype)
        pad_rows, pad_columns = tile.j0 - box.j0, tile.i0 - box.i0
        for j in range(tile.j0, tile.j1):
            noise[pad_rows + j - tile.j0, pad_columns:] = row(j)[tile.i0 : tile.i1]
        return noise

    return plan.communicator.place(make)


def _check_plan(who, plan):
    if not isinstance(plan, fft.Plan):
        refuse(who, "plan", plan, "is not a plan of transforms", "one, as fft.Plan(communicator, (ny, nx))")


def filtered(
    plan: fft.Plan,
    x: jax.Array,
    response: Callable[[jax.Array], jax.Array],
    spacing: float | Sequence[float] | None = None,
) -> jax.Array:
    """x with each mode multiplied by `response(|k|^2)`; inside `communicator.spmd`.

    Args:
        plan: an fft.Plan of the field.
        x: a tile of it.
        response: of the squared wavenumber, to numbers.
        spacing: between points along each axis.
    """
    modes = plan.forward(x)
    return plan.inverse(modes * response(plan.waves(spacing, x.real.dtype).squared).astype(modes.dtype))


@dataclasses.dataclass(frozen=True)
class GaussianCovariance:
    """sigma^2 exp(-r^2 / 2 L^2) between points r apart, as an operator and its square root.

    Args:
        plan: an fft.Plan of the fields, of kinds that keep a sum of squares.
        spacing: between points along each axis, in its order [m].
        length: L [m].
        deviation: sigma [the field's units].

    Raises:
        ValueError: for a length, deviation or spacing that is not positive, or a kind that conserves no sum of squares.
    """

    plan: Any
    spacing: tuple
    length: float
    deviation: float = 1.0

    def __post_init__(self):
        _check_plan("GaussianCovariance", self.plan)
        for name in ("length", "deviation"):
            value: Any = getattr(self, name)
            if isinstance(value, Tracer):
                continue
            is_number = isinstance(value, (numbers.Real, jax.Array))
            if not is_number or not 0 < value < math.inf:  # pyright: ignore[reportOperatorIssue]
                raise ValueError(f"GaussianCovariance: {name} = {value!r} is not positive; give a positive number.")
        object.__setattr__(self, "spacing", self.plan.spacing(self.spacing))
        for kind, n in zip(self.plan.kinds, self.plan.shape):
            kind.weight(np.arange(kind.modes(n)), n)  # or it keeps no sum of squares

    def root(self, noise: jax.Array) -> jax.Array:
        """A field with this covariance of white noise, tile arrays; inside `communicator.spmd`. It is self-adjoint."""
        return filtered(self.plan, noise, lambda k2: self._scale() * jnp.exp(-0.25 * self.length**2 * k2), self.spacing)

    def apply(self, x: jax.Array) -> jax.Array:
        """The covariance times x."""
        return self.root(self.root(x))

    def sample(self, seed: int, dtype: DTypeLike = float) -> jax.Array:
        """A random field, placed tile arrays, the same on any number of ranks. It is called on the host."""
        return jax.jit(self.plan.communicator.spmd(self.root))(white_noise(seed, self.plan, dtype))

    def _scale(self):
        """sigma over the root mean square of G on the grid's modes, so that variances are exact in the mean."""
        total = 1.0
        for kind, n, step in zip(self.plan.kinds, self.plan.shape, self.spacing):
            i = jnp.arange(kind.modes(n), dtype=float)
            power = jnp.exp(-0.5 * (self.length * kind.phase(i, n) / step) ** 2)
            pairs = jnp.where((i == 0) | (2 * i == n), 1.0, 2.0) if isinstance(kind, fft.RealFourier) else 1.0
            total = total * jnp.sum(power * pairs) / n
        return self.deviation / jnp.sqrt(total)


def random_vortices(model: ShallowWater, speed: float, length: float, seed: int = 0) -> State:
    """A State of random vortices in geostrophic balance with the elevation.

    Args:
        model: a ShallowWater on a CartesianGrid; land stays at rest.
        speed: root mean square of the velocity [m s-1].
        length: the central wavelength of their spectrum [m].
        seed: a whole number; each seed gives another flow.

    Raises:
        ConfigError: on the sphere, or for a wavelength that the grid does not hold.
    """
    grid = model.grid
    _check(grid, length)
    series = Series.on(cast(CartesianGrid, grid), model.communicator, 2 / 3)
    f = 0.0 if model.coriolis is None else model.coriolis.at(grid, np.arange(grid.ny) - 0.5)
    per_g = model.scatter(np.broadcast_to(f / model.gravity, grid.shape))
    made = jax.jit(model.communicator.spmd(lambda *tiles: _balanced(series, length, speed, *tiles)))
    masks = [model.scatter(mask) for mask in map(model.sea_floor.mask, "uvh")]
    flow = made(white_noise(seed, series.plan("q"), model.dtype), per_g, *masks)
    whole = model.state(u=flow.u, v=flow.v, eta=flow.eta)  # with tracers, and what open sides remember of the flow
    if model.core.halos:
        return whole
    return whole.replace(u=flow.u, v=flow.v, eta=flow.eta)  # which a spectral core has rounded once more


def _balanced(series, length, speed, noise, per_g, *masks):
    held = series.modes(noise.dtype)
    k, k0 = jnp.sqrt(jnp.where(held.squared > 0, held.squared, 1.0)), 2 * np.pi / length
    size = jnp.where(held.squared > 0, jnp.exp(-0.5 * ((k - k0) / (0.25 * k0)) ** 2) / k, 0.0)
    (psi,) = held.forward((noise, "q", True))
    psi = scaled(size, psi)
    u, v, psi = held.inverse((-held.ddy(psi, "q"), "u", False), (held.ddx(psi, "q"), "v", False), (psi, "q", True))
    u, v, psi = (x * mask for x, mask in zip((u, v, psi), masks))
    communicator, count = series.communicator, np.prod(series.shape).item()
    square = communicator.replicated(communicator.sum(jnp.sum(u * u + v * v))) / count
    scale = speed / jnp.sqrt(square)
    return State(scale * u, scale * v, scale * per_g * psi)


def _check(grid, length):
    if grid.spherical:
        raise ConfigError(
            "random_vortices: they are made of waves on a plane, and the grid is spherical; use another state."
        )
    sides = grid.y[1] - grid.y[0], grid.x[1] - grid.x[0]
    shortest, longest = 3 * max(side / n for side, n in zip(sides, grid.shape)), max(sides)
    if shortest > longest:
        raise ConfigError(f"random_vortices: {grid.nx} x {grid.ny} cells hold no wave; give 4 or more each way.")
    if not shortest <= length <= longest:
        raise ConfigError(
            f"random_vortices: a wavelength of {length:g} m does not fit the grid; give {shortest:g} m (three cells) "
            f"to {longest:g} m (its longer side)."
        )
