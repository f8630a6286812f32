"""Linear waves with closed solutions: Kelvin, inertia-gravity, and the adjustment of a bump to geostrophic balance.

    du/dt = + f v - g ddx(eta),   dv/dt = - f u - g ddy(eta),   deta/dt = - H (ddx(u) + ddy(v))

Bishnu et al. (2024), doi:10.1029/2022MS003545, describe the waves; Gill (1982), Atmosphere-Ocean Dynamics, sections
7.2 and 7.3, the adjustment.

Rossby waves of a channel, over a variable f or a variable depth, as eigenmodes that are exact in y.

    (u, v, eta) = Re [(U(y), V(y), E(y)) exp(i (k x - omega t))],   V = 0 at the walls

    - i omega U = f V - i k g E,   - i omega V = - f U - g E',   - i omega E = - i k H U - (H V)'

Bishnu et al. (2024), doi:10.1029/2022MS003545, give the leading order, which is not divergent. Its error does not
decrease with the resolution. The modes are therefore computed here by collocation at Chebyshev points, where V vanishes
at both ends (Trefethen 2000, Spectral Methods in MATLAB, chapter 6).
"""

import dataclasses
import functools
from typing import Any

import numpy as np
from scipy.interpolate import BarycentricInterpolator

import swmodel as sw

from .case import SQUARES, Case, Flow, Mark, Outcome, convergence, of_functions

F, G, H, L = 1e-4, 10.0, 1000.0, 5e6  # [s-1], [m s-2], [m], [m]
C = np.sqrt(G * H)
RADIUS = C / F
BISHNU = {"group": "planar", "source": "Bishnu et al. (2024)", "doi": "10.1029/2022MS003545"}
SECOND = "order 2: finite volumes of TRiSK, Bishnu et al. (2024)"


def wave_marks(name: str, most: float, quick: float, published: str = SECOND) -> tuple[Mark, ...]:
    """The marks of a smooth case: an error at the highest resolution, `quick` in the short form, and order 1.9."""
    return (
        Mark(f"{name}_l2", "relative error in the norm of energy, at the highest resolution", most=most, quick=quick),
        Mark(f"{name}_order", "order of convergence in space and time", least=1.9, published=published),
    )


def _model(n, periodic):
    grid = sw.CartesianGrid(n, n, (0.0, L), (0.0, L), periodic)
    return sw.ShallowWater(grid, H, gravity=G, coriolis=sw.FPlane(F), linear=True, communicator="serial")


def _case(name, periodic, exact, end, map_title, **declared):
    """Register the case of a solution exact(x, y, t) -> (u, v, eta), whose error is that at the time `end` [s]."""
    flow = Flow(lambda n: _model(n, periodic), of_functions(exact), end, 0.5 * L / C, map_title, 600.0)
    measure = lambda resolutions: convergence(name, resolutions, flow.error)  # noqa: E731
    Case(name=name, measure=measure, **SQUARES, twin=flow.twin, **declared)


# -- coastal Kelvin wave ----------------------------------------------------------------------------------------------


def kelvin(x: np.ndarray, y: np.ndarray, t: float) -> tuple:
    """Two Kelvin waves of lengths L and L / 2 that travel south along the coast x = 0, which is on their right."""
    eta = sum(np.cos(2 * np.pi * m * (y + C * t) / L) for m in (1, 2)) * np.exp(-x / RADIUS)
    return 0.0 * eta, -C / H * eta, eta


_case(
    "kelvin",
    "y",
    kelvin,
    0.5 * L / C,
    "elevation after half a period",
    title="Coastal Kelvin wave",
    tests="pressure gradient against the Coriolis force at a wall",
    **BISHNU,
    equation="eta = sum_m cos(2 pi m (y + c t) / L) exp(-x f / c),  v = - c eta / H,  u = 0;  c^2 = g H",
    marks=wave_marks("kelvin", 5e-3, 0.035),
    norm="energy, relative, at half a period",
)


# -- inertia-gravity wave ---------------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class PlaneWave:
    """A wave of amplitude 1 m on a square of a length [m], over a flat bottom and f = F."""

    length: float = L
    gravity: float = G
    celerity: float = C

    @property
    def wavenumbers(self) -> tuple[float, float]:
        return 2 * np.pi / self.length, 4 * np.pi / self.length

    @property
    def omega(self) -> float:
        """The frequency [s-1]."""
        return np.sqrt(F**2 + self.celerity**2 * sum(k**2 for k in self.wavenumbers))

    def fields(self, x: np.ndarray, y: np.ndarray, t: float) -> tuple:
        """(u, v, eta)."""
        (k, l), omega = self.wavenumbers, self.omega
        phase, size = k * x + l * y - omega * t, self.gravity / (omega**2 - F**2)
        u = size * (omega * k * np.cos(phase) - F * l * np.sin(phase))
        v = size * (omega * l * np.cos(phase) + F * k * np.sin(phase))
        return u, v, np.cos(phase)


_case(
    "inertia_gravity",
    "xy",
    PlaneWave().fields,
    2 * np.pi / PlaneWave().omega,
    "elevation after a period",
    title="Inertia-gravity wave",
    tests="dispersion by rotation, doubly periodic",
    **BISHNU,
    equation="omega^2 = f^2 + g H (k^2 + l^2),  eta = cos(k x + l y - omega t)",
    marks=wave_marks("inertia_gravity", 1.5e-2, 0.055),
    norm="energy, relative, after a period",
)


# -- geostrophic adjustment -------------------------------------------------------------------------------------------


def ridge(x: np.ndarray, y: np.ndarray, t: float, celerity: float, length: float, width: float) -> tuple:
    """(u, v, eta), for a gravity of 1, of a Gaussian ridge along y, 1 high and at rest at t = 0.

    It stands in the middle of a periodic interval of a length [m]. Each of its Fourier modes keeps its potential
    vorticity and radiates the rest.
    """
    wavenumbers = 2 * np.pi * np.arange(40) / length
    sizes = width * np.sqrt(2 * np.pi) / length * np.exp(-0.5 * (wavenumbers * width) ** 2)
    u = v = eta = 0.0 * (x + y)
    for k, size in zip(wavenumbers, np.where(wavenumbers > 0, 2.0, 1.0) * sizes):
        omega = np.sqrt(F**2 + (celerity * k) ** 2)
        cos, sin = np.cos(k * (x - 0.5 * length)), np.sin(k * (x - 0.5 * length))
        eta = eta + size * cos * (F**2 + (celerity * k) ** 2 * np.cos(omega * t)) / omega**2
        u = u + size * sin * k * np.sin(omega * t) / omega
        v = v - size * sin * k * F * (1 - np.cos(omega * t)) / omega**2
    return u, v, eta


def adjustment(x: np.ndarray, y: np.ndarray, t: float) -> tuple:
    """The ridge in one layer."""
    u, v, eta = ridge(x, y, t, C, L, 0.08 * L)
    return G * u, G * v, eta


_case(
    "adjustment",
    "xy",
    adjustment,
    0.4 * L / C,
    "elevation as the waves leave",
    group="planar",
    title="Geostrophic adjustment of a ridge",
    tests="conservation of potential vorticity in a disturbance, and the waves that radiate from it",
    source="Gill (1982), sections 7.2 and 7.3",
    equation="eta_k(t) = eta_k(0) [f^2 + g H k^2 cos(omega t)] / omega^2,  omega^2 = f^2 + g H k^2",
    marks=wave_marks("adjustment", 5e-3, 0.055, ""),
    norm="energy, relative, after 0.4 L / c",
)


def chebyshev(n: int) -> tuple[np.ndarray, np.ndarray]:
    """(points in [-1, 1] (n + 1,), the matrix of the first derivative at them), increasing."""
    points = -np.cos(np.pi * np.arange(n + 1) / n)
    scale = np.where((np.arange(n + 1) == 0) | (np.arange(n + 1) == n), 2.0, 1.0) * (-1.0) ** np.arange(n + 1)
    gaps = points[:, None] - points[None, :] + np.eye(n + 1)
    matrix = np.outer(scale, 1.0 / scale) / gaps
    return points, matrix - np.diag(matrix.sum(axis=1))


def channel_modes(
    k: float, d: np.ndarray, f: np.ndarray, heights: np.ndarray, velocities: np.ndarray, pressure: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """(omega [s-1] (modes,), u, i v and h of each layer at points across a channel (3 n layers, modes)).

    Args:
        k: wavenumber along the channel [m-1].
        d: the matrix of the derivative across it [m-1].
        f: the Coriolis parameter at the points [s-1], (n,).
        heights: of the layers there [m], (layers, n).
        velocities: of their steady flow [m s-1].
        pressure: of each layer per height of each [m s-2], (layers, layers).
    """
    n, layers = f.size, len(heights)
    eye, zero = np.eye(n), np.zeros((n, n))
    blocks = [[zero] * 3 * layers for _ in range(3 * layers)]  # of omega (u, w, h) with v = i w: they are real
    for a in range(layers):
        u, w, h = 3 * a, 3 * a + 1, 3 * a + 2
        for own in (u, w, h):
            blocks[own][own] = k * velocities[a] * eye
        blocks[u][w] = blocks[w][u] = -np.diag(f)
        blocks[h][u], blocks[h][w] = k * np.diag(heights[a]), d @ np.diag(heights[a])
        for b in range(layers):
            blocks[u][3 * b + 2] = k * pressure[a, b] * eye
            blocks[w][3 * b + 2] = -pressure[a, b] * d
    inner = np.ones((3 * layers, n), bool)
    inner[1::3, [0, -1]] = False  # v on the walls
    kept = np.flatnonzero(inner)
    values, vectors = np.linalg.eig(np.block(blocks)[np.ix_(kept, kept)])
    whole = np.zeros((inner.size, values.size), complex)
    whole[kept] = vectors
    return values, whole


@dataclasses.dataclass(frozen=True)
class ChannelMode:
    """The slowest wave of a channel with one half-wave across it.

    Args:
        length, width: the size of the channel [m]; its length is one wavelength.
        f0, beta: the Coriolis parameter is f0 + beta y [s-1], [m-1 s-1].
        depth, slope: the depth is depth + slope y [m], [1].
        gravity: [m s-2].
    """

    length: float = 1e7
    width: float = 5e6
    f0: float = 1e-4
    beta: float = 0.0
    depth: float = 1000.0
    slope: float = 0.0
    gravity: float = G

    @property
    def k(self) -> float:
        """The wavenumber along the channel [m-1]."""
        return 2 * np.pi / self.length

    @functools.cached_property
    def solution(self) -> tuple[float, Any]:
        """(omega [s-1], the interpolator of (U, i V, E) over y)."""
        points, d = chebyshev(40)
        y, d = 0.5 * self.width * (points + 1), d * 2 / self.width
        n, f, h = y.size, self.f0 + self.beta * y, self.depth + self.slope * y
        values, vectors = channel_modes(self.k, d, f, h[None], np.zeros(1), np.array([[self.gravity]]))
        whole = np.real(vectors)
        number = self._one_half_wave(values, whole, n)
        fields = whole[:, number].reshape(3, n) / np.abs(whole[2 * n :, number]).max()
        return float(values[number].real), BarycentricInterpolator(y, fields.T)

    def _one_half_wave(self, values, vectors, n):
        """The index of the Rossby mode whose V has no zero within the channel: the fastest of the slow modes."""
        slow = np.flatnonzero((np.abs(values.imag) < 1e-12) & (np.abs(values) < 0.3 * self.f0) & (values != 0))
        single = [j for j in slow if np.ptp(np.sign(vectors[n + 2 : 2 * n - 2, j])) == 0]
        return max(single, key=lambda j: abs(values[j]))

    def fields(self, x: np.ndarray, y: np.ndarray, t: float) -> tuple:
        """(u, v, eta) at points that broadcast to a grid."""
        omega, across = self.solution
        of = across(np.ravel(y)).T.reshape(3, *np.shape(y))
        phase = self.k * x - omega * t
        return of[0] * np.cos(phase), -of[1] * np.sin(phase), of[2] * np.cos(phase)

    def model(self, n: int) -> sw.ShallowWater:
        """The model on n x n cells."""
        grid = sw.CartesianGrid(n, n, (0.0, self.length), (0.0, self.width), "x")
        rotation = sw.BetaPlane(self.f0, self.beta) if self.beta else sw.FPlane(self.f0)
        depth = lambda x, y: self.depth + self.slope * y + 0.0 * x  # noqa: E731
        return sw.ShallowWater(grid, depth, gravity=self.gravity, coriolis=rotation, linear=True, communicator="serial")

    def flow(self) -> Flow:
        """Its run during a quarter of the period."""
        end = 0.5 * np.pi / abs(self.solution[0])
        longest = 0.7 * self.width / np.sqrt(self.gravity * (self.depth + max(self.slope, 0.0) * self.width))
        title = "elevation after a quarter of a period"
        return Flow(self.model, of_functions(self.fields), end, longest, title, 1000.0)


PLANETARY = ChannelMode(beta=2e-11)
TOPOGRAPHIC = ChannelMode(slope=-1e-4)


def _leading_order(mode: ChannelMode, drift: float) -> float:
    """- drift k / (k^2 + l^2 + f^2 / g H) with f and H in the middle of the channel [s-1]."""
    depth, f = mode.depth + 0.5 * mode.slope * mode.width, mode.f0 + 0.5 * mode.beta * mode.width
    return -drift * mode.k / (mode.k**2 + (np.pi / mode.width) ** 2 + f**2 / (mode.gravity * depth))


def _case_of_mode(name, title, tests, equation, mode, drift):
    def measure(resolutions: tuple) -> Outcome:
        found = convergence(name, resolutions, mode.flow().error)
        ratio = mode.solution[0] / _leading_order(mode, drift)
        return dataclasses.replace(found, values={**found.values, f"{name}_leading_order": ratio - 1.0})

    meaning = "frequency of the exact mode over that of the quasi-geostrophic leading order, less 1"
    Case(
        name=name,
        title=title,
        tests=tests,
        **BISHNU,
        equation=equation,
        measure=measure,
        marks=(*wave_marks(name, 5e-3, 0.012), Mark(f"{name}_leading_order", meaning)),
        **SQUARES,
        norm="energy, relative, after a quarter of a period; against the eigenmode, exact in y",
        twin=lambda: mode.flow().twin(),
    )


_case_of_mode(
    "planetary_rossby",
    "Planetary Rossby wave in a channel",
    "the variable Coriolis parameter",
    "omega = - beta k / (k^2 + l^2 + f^2 / g H) to leading order;  f = f0 + beta y",
    PLANETARY,
    PLANETARY.beta,
)
_case_of_mode(
    "topographic_rossby",
    "Topographic Rossby wave in a channel",
    "the variable depth in the continuity equation",
    "omega = + f H' k / H / (k^2 + l^2 + f^2 / g H) to leading order;  H = H0 + H' y",
    TOPOGRAPHIC,
    -TOPOGRAPHIC.f0 * TOPOGRAPHIC.slope / (TOPOGRAPHIC.depth + 0.5 * TOPOGRAPHIC.slope * TOPOGRAPHIC.width),
)
