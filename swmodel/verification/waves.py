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

from ..dynamics.momentum import BetaPlane, FPlane
from ..grids.grid import CartesianGrid
from ..models.shallow_water import ShallowWater
from ..stepping.explicit import RK4
from .case import SQUARES, Case, Mark, Outcome, Panel, Twin, convergence, error_at, on_points

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
    grid = CartesianGrid(n, n, (0.0, L), (0.0, L), periodic)
    return ShallowWater(grid, H, gravity=G, coriolis=FPlane(F), linear=True, communicator="serial")


def _converging(name, periodic, exact, end, title):
    """The function `measure` of a Case: the error at time `end` of exact(x, y, t) -> (u, v, eta), and a map of eta."""

    def error(n):
        model = _model(n, periodic)
        return error_at(end, model, lambda t: on_points(model, lambda x, y: exact(x, y, t)), 0.5 * L / n / C, title)

    return lambda resolutions: convergence(name, resolutions, error)


def _twin(periodic, exact):
    def make():
        model = _model(8, periodic)
        return Twin(model, on_points(model, lambda x, y: exact(x, y, 0.0)), RK4(600.0))

    return make


# -- coastal Kelvin wave ----------------------------------------------------------------------------------------------


def kelvin(x: np.ndarray, y: np.ndarray, t: float) -> tuple:
    """Two Kelvin waves of lengths L and L / 2 that travel south along the coast x = 0, which is on their right."""
    eta = sum(np.cos(2 * np.pi * m * (y + C * t) / L) for m in (1, 2)) * np.exp(-x / RADIUS)
    return 0.0 * eta, -C / H * eta, eta


Case(
    name="kelvin",
    title="Coastal Kelvin wave",
    tests="pressure gradient against the Coriolis force at a wall",
    **BISHNU,
    equation="eta = sum_m cos(2 pi m (y + c t) / L) exp(-x f / c),  v = - c eta / H,  u = 0;  c^2 = g H",
    measure=_converging("kelvin", "y", kelvin, 0.5 * L / C, "elevation after half a period"),
    marks=wave_marks("kelvin", 5e-3, 0.035),
    **SQUARES,
    norm="energy, relative, at half a period",
    twin=_twin("y", kelvin),
)


# -- inertia-gravity wave ---------------------------------------------------------------------------------------------

WAVENUMBERS = (2 * np.pi / L, 4 * np.pi / L)
OMEGA = np.sqrt(F**2 + C**2 * sum(k**2 for k in WAVENUMBERS))


def inertia_gravity(x: np.ndarray, y: np.ndarray, t: float) -> tuple:
    """A plane wave of amplitude 1 m."""
    k, l = WAVENUMBERS
    phase = k * x + l * y - OMEGA * t
    size = G / (OMEGA**2 - F**2)
    u = size * (OMEGA * k * np.cos(phase) - F * l * np.sin(phase))
    v = size * (OMEGA * l * np.cos(phase) + F * k * np.sin(phase))
    return u, v, np.cos(phase)


Case(
    name="inertia_gravity",
    title="Inertia-gravity wave",
    tests="dispersion by rotation, doubly periodic",
    **BISHNU,
    equation="omega^2 = f^2 + g H (k^2 + l^2),  eta = cos(k x + l y - omega t)",
    measure=_converging("inertia_gravity", "xy", inertia_gravity, 2 * np.pi / OMEGA, "elevation after a period"),
    marks=wave_marks("inertia_gravity", 1.5e-2, 0.055),
    **SQUARES,
    norm="energy, relative, after a period",
    twin=_twin("xy", inertia_gravity),
)


# -- geostrophic adjustment -------------------------------------------------------------------------------------------

WIDTH = 0.08 * L


def adjustment(x: np.ndarray, y: np.ndarray, t: float) -> tuple:
    """A Gaussian ridge along y, in the middle of the periodic interval L, at rest at t = 0.

    Each of its Fourier modes keeps its potential vorticity and radiates the rest.
    """
    wavenumbers = 2 * np.pi * np.arange(40) / L
    sizes = WIDTH * np.sqrt(2 * np.pi) / L * np.exp(-0.5 * (wavenumbers * WIDTH) ** 2)
    u = v = eta = 0.0 * (x + y)
    for k, size in zip(wavenumbers, np.where(wavenumbers > 0, 2.0, 1.0) * sizes):
        omega = np.sqrt(F**2 + (C * k) ** 2)
        cos, sin = np.cos(k * (x - 0.5 * L)), np.sin(k * (x - 0.5 * L))
        eta = eta + size * cos * (F**2 + (C * k) ** 2 * np.cos(omega * t)) / omega**2
        u = u + size * sin * G * k * np.sin(omega * t) / omega
        v = v - size * sin * G * k * F * (1 - np.cos(omega * t)) / omega**2
    return u, v, eta


Case(
    name="adjustment",
    group="planar",
    title="Geostrophic adjustment of a ridge",
    tests="conservation of potential vorticity in a disturbance, and the waves that radiate from it",
    source="Gill (1982), sections 7.2 and 7.3",
    equation="eta_k(t) = eta_k(0) [f^2 + g H k^2 cos(omega t)] / omega^2,  omega^2 = f^2 + g H k^2",
    measure=_converging("adjustment", "xy", adjustment, 0.4 * L / C, "elevation as the waves leave"),
    marks=wave_marks("adjustment", 5e-3, 0.055, ""),
    **SQUARES,
    norm="energy, relative, after 0.4 L / c",
    twin=_twin("xy", adjustment),
)


def chebyshev(n: int) -> tuple[np.ndarray, np.ndarray]:
    """(points in [-1, 1] (n + 1,), the matrix of the first derivative at them), increasing."""
    points = -np.cos(np.pi * np.arange(n + 1) / n)
    scale = np.where((np.arange(n + 1) == 0) | (np.arange(n + 1) == n), 2.0, 1.0) * (-1.0) ** np.arange(n + 1)
    gaps = points[:, None] - points[None, :] + np.eye(n + 1)
    matrix = np.outer(scale, 1.0 / scale) / gaps
    return points, matrix - np.diag(matrix.sum(axis=1))


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
        n, inner = y.size, slice(1, -1)
        f, h, eye, zero = (
            np.diag(self.f0 + self.beta * y),
            np.diag(self.depth + self.slope * y),
            np.eye(n),
            np.zeros((n, n)),
        )
        matrix = np.block(  # of omega (U, W, E) with V = i W, so that everything is real
            [
                [zero, -f, self.k * self.gravity * eye],
                [-f, zero, -self.gravity * d],
                [self.k * h, d @ h, zero],
            ]
        )
        kept = np.r_[0:n, n + np.arange(n)[inner], 2 * n : 3 * n]
        values, vectors = np.linalg.eig(matrix[np.ix_(kept, kept)])
        whole = np.zeros((3 * n, values.size))
        whole[kept] = np.real(vectors)
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

    def model(self, n: int) -> ShallowWater:
        """The model on n x n cells."""
        grid = CartesianGrid(n, n, (0.0, self.length), (0.0, self.width), "x")
        rotation = BetaPlane(self.f0, self.beta) if self.beta else FPlane(self.f0)
        depth = lambda x, y: self.depth + self.slope * y + 0.0 * x  # noqa: E731
        return ShallowWater(grid, depth, gravity=self.gravity, coriolis=rotation, linear=True, communicator="serial")

    def error(self, n: int) -> tuple[float, Panel]:
        """The error after a quarter of the period, and a map."""
        model, end = self.model(n), 0.5 * np.pi / abs(self.solution[0])
        exact = lambda t: on_points(model, lambda x, y: self.fields(x, y, t))  # noqa: E731
        fastest = np.sqrt(self.gravity * (self.depth + max(self.slope, 0.0) * self.width))
        return error_at(end, model, exact, 0.7 * self.width / n / fastest, "elevation after a quarter of a period")

    def twin(self) -> Twin:
        """A small form of the case, on 8 x 8 cells."""
        model = self.model(8)
        return Twin(model, on_points(model, lambda x, y: self.fields(x, y, 0.0)), RK4(1000.0))


PLANETARY = ChannelMode(beta=2e-11)
TOPOGRAPHIC = ChannelMode(slope=-1e-4)


def _leading_order(mode: ChannelMode, drift: float) -> float:
    """- drift k / (k^2 + l^2 + f^2 / g H) with f and H in the middle of the channel [s-1]."""
    depth, f = mode.depth + 0.5 * mode.slope * mode.width, mode.f0 + 0.5 * mode.beta * mode.width
    return -drift * mode.k / (mode.k**2 + (np.pi / mode.width) ** 2 + f**2 / (mode.gravity * depth))


def _case(name, title, tests, equation, mode, drift):
    def measure(resolutions: tuple) -> Outcome:
        found = convergence(name, resolutions, mode.error)
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
        twin=mode.twin,
    )


_case(
    "planetary_rossby",
    "Planetary Rossby wave in a channel",
    "the variable Coriolis parameter",
    "omega = - beta k / (k^2 + l^2 + f^2 / g H) to leading order;  f = f0 + beta y",
    PLANETARY,
    PLANETARY.beta,
)
_case(
    "topographic_rossby",
    "Topographic Rossby wave in a channel",
    "the variable depth in the continuity equation",
    "omega = + f H' k / H / (k^2 + l^2 + f^2 / g H) to leading order;  H = H0 + H' y",
    TOPOGRAPHIC,
    -TOPOGRAPHIC.f0 * TOPOGRAPHIC.slope / (TOPOGRAPHIC.depth + 0.5 * TOPOGRAPHIC.slope * TOPOGRAPHIC.width),
)
