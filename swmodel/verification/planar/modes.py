"""Rossby waves of a channel, over a variable f or a variable depth, as eigenmodes that are exact in y.

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

from ...dynamics.momentum import BetaPlane, FPlane
from ...grids.grid import CartesianGrid
from ...models.shallow_water import ShallowWater
from ...stepping.explicit import RK4
from ..case import Case, Mark, Outcome, Panel, Twin, convergence, energy_norm, on_points, run_until
from .waves import BISHNU, G, wave_marks


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
        state = on_points(model, lambda x, y: self.fields(x, y, 0.0))
        fastest = np.sqrt(self.gravity * (self.depth + max(self.slope, 0.0) * self.width))
        final = run_until(model, RK4, state, end, 0.7 * self.width / n / fastest)
        x, y = model.grid.x_centres / 1e3, model.grid.y_centres / 1e3
        panel = Panel(
            "elevation after a quarter of a period", "map", np.asarray(final.eta), x, y, ("x [km]", "y [km]"), "m"
        )
        return energy_norm(model, final, on_points(model, lambda x, y: self.fields(x, y, end))), panel

    def twin(self) -> Twin:
        """A small form of the case, on 8 x 8 cells."""
        model = self.model(8)
        return Twin(model, RK4(1000.0), on_points(model, lambda x, y: self.fields(x, y, 0.0)))


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
        group="planar",
        title=title,
        tests=tests,
        **BISHNU,
        equation=equation,
        measure=measure,
        marks=(*wave_marks(name, 5e-3, 0.012), Mark(f"{name}_leading_order", meaning)),
        resolutions=(32, 64, 128),
        quick=(16, 32),
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
