"""Smooth random fields of which a rank computes the window that it needs.

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
"""

import functools

import numpy as np

from ..grids.grid import Grid
from ..grids.windows import GridValues

__all__ = ["RandomWaves", "SmoothNoise"]

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
