"""A spectral solver of the shallow-water equations on the sphere, as an independent reference: spherical harmonics.

It shares no line with the model, and has no grid at which an error of second order could arise. In the form of
vorticity and divergence (Williamson et al. 1992, doi:10.1016/S0021-9991(05)80016-6, section 2), with F = (zeta + f) v:

    d zeta / dt  = - div F
    d delta / dt =   k . curl F - lap(g (h + b) + |v|^2 / 2)
    dh / dt      = - div(h v)

h is the depth of the fluid and b the height of the ground. Coefficients are triangular, n <= N and 0 <= m <= n;
the Gaussian grid represents products of two fields without aliasing, and time steps are those of the Runge-Kutta scheme
of order 4. There is no diffusion.
"""

import dataclasses
import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from .globe import OMEGA, RADIUS, G

Function = Callable[[Any, Any], Any]


@dataclasses.dataclass(frozen=True)
class Harmonics:
    """Transforms between the Gaussian grid and the coefficients of harmonics up to the total wavenumber `largest`.

    Coefficients are complex, (m, n, fields) with m, n <= largest; values on the grid (rows, columns, fields). The
    functions P_n^m have the norm 1 over sin(latitude) from -1 to 1.

    Args:
        largest: N, the truncation.
        repeats: how often the fields repeat along a parallel; the zonal wavenumbers are multiples of it.
    """

    largest: int
    repeats: int = 1

    @functools.cached_property
    def shape(self) -> tuple[int, int]:
        """(rows, columns) of the Gaussian grid: at least (3 N + 1) / 2 and, over one repeat, (3 N + 1) / repeats."""
        rows = 8 * int(np.ceil((3 * self.largest + 1) / 16))
        return rows, 2 * rows // self.repeats

    @functools.cached_property
    def nodes(self) -> tuple[np.ndarray, np.ndarray]:
        """(sin of the latitude, weight) of each row."""
        return np.polynomial.legendre.leggauss(self.shape[0])

    @property
    def coordinates(self) -> tuple[np.ndarray, np.ndarray]:
        """The longitudes (columns,) and latitudes (rows, 1) [degrees]."""
        columns = np.arange(self.shape[1]) * 360.0 / (self.shape[1] * self.repeats)
        return columns, np.rad2deg(np.arcsin(self.nodes[0]))[:, None]

    @functools.cached_property
    def tables(self) -> tuple[np.ndarray, np.ndarray]:
        """P and cos^2(latitude) dP / d sin(latitude) at the rows."""
        return legendre(self.m.ravel(), self.largest, self.nodes[0])

    @property
    def m(self) -> np.ndarray:
        """The zonal wavenumbers, (m, 1, 1)."""
        return np.arange(0, self.largest + 1, self.repeats)[:, None, None]

    @property
    def laplacian(self) -> np.ndarray:
        """The eigenvalues - n (n + 1) / a^2 [m-2], (n, 1)."""
        n = np.arange(self.largest + 1)[:, None]
        return -n * (n + 1) / RADIUS**2

    def values(self, waves: np.ndarray) -> np.ndarray:
        """The values at the columns, from Fourier coefficients (m, rows, fields)."""
        columns = self.shape[1]
        return np.fft.irfft(np.moveaxis(waves, 0, 1), columns, axis=1) * columns

    def waves(self, values: np.ndarray) -> np.ndarray:
        """The Fourier coefficients (m, rows, fields) of values."""
        return np.moveaxis(np.fft.rfft(values, axis=1)[:, : self.m.size], 1, 0) / self.shape[1]

    def project(self, waves: np.ndarray, table: np.ndarray, power: int = 0) -> np.ndarray:
        """The coefficients: the integral over sin(latitude) of waves times `table` / cos^(2 power)(latitude)."""
        sine, weight = self.nodes
        return apply(table, waves * (weight / (1.0 - sine**2) ** power)[:, None])

    def coefficients(self, function: Function) -> np.ndarray:
        """The coefficients (m, n) of a function of longitude and latitude [degrees]."""
        values = function(*self.coordinates) + np.zeros(self.shape)
        return self.project(self.waves(values[..., None]), self.tables[0])[..., 0]

    def at(self, coefficients: np.ndarray, longitude: np.ndarray, latitude: np.ndarray) -> np.ndarray:
        """The values at longitudes (nx,) and latitudes (ny,) [degrees] of coefficients (m, n), (ny, nx)."""
        table, _ = legendre(self.m.ravel(), self.largest, np.sin(np.deg2rad(latitude)))
        waves = np.einsum("mnj,mn->mj", table, coefficients) * np.where(self.m[..., 0] > 0, 2.0, 1.0)
        phases = np.exp(1j * self.m[..., 0] * np.deg2rad(longitude))
        return np.real(waves.T @ phases)


def legendre(orders: np.ndarray, largest: int, sine: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """P_n^m and cos^2 dP_n^m / d sine of the orders m, each (m, n, rows), by recurrence in n."""
    m, n = orders[:, None], np.arange(largest + 2)
    ratio = np.sqrt(np.maximum(n**2 - m**2, 0) / np.maximum(4.0 * n**2 - 1.0, 1.0))
    table = np.zeros((orders.size, largest + 3, sine.size))
    for k, order in enumerate(orders):
        lower = np.arange(1, order + 1)
        table[k, order] = np.sqrt(0.5 * np.prod((2 * lower + 1) / (2 * lower))) * (1.0 - sine**2) ** (order / 2)
        for j in range(order, largest + 1):
            below = ratio[k, j] * table[k, j - 1] if j > order else 0.0
            table[k, j + 1] = (sine * table[k, j] - below) / ratio[k, j + 1]
    n, below = n[:-1, None], np.roll(table, 1, axis=1)[:, : largest + 1]
    slope = (n + 1) * ratio[:, :-1, None] * below - n * ratio[:, 1:, None] * table[:, 1 : largest + 2]
    return table[:, : largest + 1], slope


def apply(table: np.ndarray, values: np.ndarray) -> np.ndarray:
    """A real matrix for each m, times complex columns."""
    both = np.ascontiguousarray(values).view(float)
    return np.matmul(table, both).view(complex)


@dataclasses.dataclass(frozen=True)
class Spectral:
    """The equations at a truncation.

    Args:
        harmonics: the transforms.
        ground: the coefficients (m, n) of the height of the ground [m].
        coriolis: f [s-1] of longitude and latitude [degrees].
    """

    harmonics: Harmonics
    ground: Any = 0.0
    coriolis: Function = lambda x, y: 2.0 * OMEGA * np.sin(np.deg2rad(y))

    @functools.cached_property
    def f(self) -> np.ndarray:
        """f on the Gaussian grid [s-1]."""
        return self.coriolis(*self.harmonics.coordinates)

    def start(self, vorticity: Function, surface: Function) -> np.ndarray:
        """The coefficients of zeta, delta and h, (m, n, 3), of a flow without divergence."""
        zeta, level = self.harmonics.coefficients(vorticity), self.harmonics.coefficients(surface)
        return np.stack([zeta, 0.0 * zeta, level - self.ground], axis=-1)

    def tendency(self, state: np.ndarray) -> np.ndarray:
        """The rate of change of the coefficients of zeta, delta and h."""
        space = self.harmonics
        (table, slope), m, sine = space.tables, space.m, space.nodes[0][:, None]
        laplacian = np.where(space.laplacian < 0, space.laplacian, np.inf)
        psi, chi = state[..., :1] / laplacian, state[..., 1:2] / laplacian
        along = np.concatenate([state[..., ::2], 1j * m * chi / RADIUS, 1j * m * psi / RADIUS], axis=-1)
        waves = apply(table.swapaxes(1, 2), along)
        waves[..., 2:] += apply(slope.swapaxes(1, 2), np.concatenate([-psi, chi], axis=-1) / RADIUS)
        zeta, h, u, v = np.moveaxis(space.values(waves), -1, 0)  # u and v times the cosine of the latitude
        absolute = zeta + self.f
        energy = 0.5 * (u**2 + v**2) / (1.0 - sine**2)
        waves = space.waves(np.stack([absolute * u, absolute * v, h * u, h * v, energy], axis=-1))
        across = space.project(1j * m * waves[..., :4], table, 1) / RADIUS
        up = space.project(waves[..., :4], slope, 1) / RADIUS
        head = space.project(waves[..., 4:], table)[..., 0] + G * (state[..., 2] + self.ground)
        return np.stack(
            [
                up[..., 1] - across[..., 0],
                across[..., 1] + up[..., 0] - space.laplacian[:, 0] * head,
                up[..., 3] - across[..., 2],
            ],
            axis=-1,
        )


def advance(equations: Spectral, state: np.ndarray, seconds: float, dt: float) -> np.ndarray:
    """The coefficients `seconds` later, by the Runge-Kutta scheme of order 4 with equal steps of at most `dt` [s]."""
    steps = int(np.ceil(seconds / dt - 1e-9))
    dt = seconds / steps
    for _ in range(steps):
        a = equations.tendency(state)
        b = equations.tendency(state + 0.5 * dt * a)
        c = equations.tendency(state + 0.5 * dt * b)
        d = equations.tendency(state + dt * c)
        state = state + dt / 6.0 * (a + 2.0 * (b + c) + d)
    return state
