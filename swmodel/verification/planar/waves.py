"""Linear waves with closed solutions: Kelvin, inertia-gravity, and the adjustment of a bump to geostrophic balance.

    du/dt = + f v - g ddx(eta),   dv/dt = - f u - g ddy(eta),   deta/dt = - H (ddx(u) + ddy(v))

Bishnu et al. (2024), doi:10.1029/2022MS003545, describe the waves; Gill (1982), Atmosphere-Ocean Dynamics, sections
7.2 and 7.3, the adjustment.
"""

import numpy as np

from ...dynamics.momentum import FPlane
from ...grids.grid import CartesianGrid
from ...models.shallow_water import ShallowWater
from ...stepping.explicit import RK4
from ..case import Case, Mark, Outcome, Panel, Twin, convergence, energy_norm, on_points, run_until

F, G, H, L = 1e-4, 10.0, 1000.0, 5e6  # [s-1], [m s-2], [m], [m]
C = np.sqrt(G * H)
RADIUS = C / F
BISHNU = {"source": "Bishnu et al. (2024)", "doi": "10.1029/2022MS003545"}
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


def _error(n, periodic, exact, end, title):
    """The error at time `end` of the solution exact(x, y, t) -> (u, v, eta), and a map of eta there."""
    model = _model(n, periodic)
    state = on_points(model, lambda x, y: exact(x, y, 0.0))
    final = run_until(model, RK4, state, end, 0.5 * L / n / C)
    wanted = on_points(model, lambda x, y: exact(x, y, end))
    x, y = model.grid.x_centres / 1e3, model.grid.y_centres / 1e3
    panel = Panel(title, "map", np.asarray(final.eta), x, y, ("x [km]", "y [km]"), "m")
    return energy_norm(model, final, wanted), panel


def _twin(periodic, exact):
    def make():
        model = _model(8, periodic)
        return Twin(model, RK4(600.0), on_points(model, lambda x, y: exact(x, y, 0.0)))

    return make


# -- coastal Kelvin wave ----------------------------------------------------------------------------------------------


def kelvin(x: np.ndarray, y: np.ndarray, t: float) -> tuple:
    """Two Kelvin waves of lengths L and L / 2 that travel south along the coast x = 0, which is on their right."""
    eta = sum(np.cos(2 * np.pi * m * (y + C * t) / L) for m in (1, 2)) * np.exp(-x / RADIUS)
    return 0.0 * eta, -C / H * eta, eta


def _kelvin(resolutions: tuple) -> Outcome:
    one = lambda n: _error(n, "y", kelvin, 0.5 * L / C, "elevation after half a period")  # noqa: E731
    return convergence("kelvin", resolutions, one)


Case(
    name="kelvin",
    group="planar",
    title="Coastal Kelvin wave",
    tests="pressure gradient against the Coriolis force at a wall",
    **BISHNU,
    equation="eta = sum_m cos(2 pi m (y + c t) / L) exp(-x f / c),  v = - c eta / H,  u = 0;  c^2 = g H",
    measure=_kelvin,
    marks=wave_marks("kelvin", 5e-3, 0.035),
    resolutions=(32, 64, 128),
    quick=(16, 32),
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


def _inertia_gravity(resolutions: tuple) -> Outcome:
    end = 2 * np.pi / OMEGA
    one = lambda n: _error(n, "xy", inertia_gravity, end, "elevation after a period")  # noqa: E731
    return convergence("inertia_gravity", resolutions, one)


Case(
    name="inertia_gravity",
    group="planar",
    title="Inertia-gravity wave",
    tests="dispersion by rotation, doubly periodic",
    **BISHNU,
    equation="omega^2 = f^2 + g H (k^2 + l^2),  eta = cos(k x + l y - omega t)",
    measure=_inertia_gravity,
    marks=wave_marks("inertia_gravity", 1.5e-2, 0.055),
    resolutions=(32, 64, 128),
    quick=(16, 32),
    norm="energy, relative, after a period",
    twin=_twin("xy", inertia_gravity),
)


# -- geostrophic adjustment -------------------------------------------------------------------------------------------

WIDTH = 0.08 * L


def _bump_modes(modes=40):
    """(k_m, eta_m) of a Gaussian ridge along y, centred in the periodic interval L."""
    k = 2 * np.pi * np.arange(modes) / L
    size = WIDTH * np.sqrt(2 * np.pi) / L * np.exp(-0.5 * (k * WIDTH) ** 2)
    return k, np.where(k > 0, 2.0, 1.0) * size


def adjustment(x: np.ndarray, y: np.ndarray, t: float) -> tuple:
    """A ridge at rest at t = 0: each Fourier mode keeps its potential vorticity and radiates the rest."""
    u = v = eta = 0.0 * (x + y)
    for k, size in zip(*_bump_modes()):
        omega = np.sqrt(F**2 + (C * k) ** 2)
        cos, sin = np.cos(k * (x - 0.5 * L)), np.sin(k * (x - 0.5 * L))
        eta = eta + size * cos * (F**2 + (C * k) ** 2 * np.cos(omega * t)) / omega**2
        u = u + size * sin * G * k * np.sin(omega * t) / omega
        v = v - size * sin * G * k * F * (1 - np.cos(omega * t)) / omega**2
    return u, v, eta


def _adjustment(resolutions: tuple) -> Outcome:
    end = 0.4 * L / C
    return convergence(
        "adjustment", resolutions, lambda n: _error(n, "xy", adjustment, end, "elevation as the waves leave")
    )


Case(
    name="adjustment",
    group="planar",
    title="Geostrophic adjustment of a ridge",
    tests="conservation of potential vorticity in a disturbance, and the waves that radiate from it",
    source="Gill (1982), sections 7.2 and 7.3",
    doi="",
    equation="eta_k(t) = eta_k(0) [f^2 + g H k^2 cos(omega t)] / omega^2,  omega^2 = f^2 + g H k^2",
    measure=_adjustment,
    marks=wave_marks("adjustment", 5e-3, 0.055, ""),
    resolutions=(32, 64, 128),
    quick=(16, 32),
    norm="energy, relative, after 0.4 L / c",
    twin=_twin("xy", adjustment),
)
