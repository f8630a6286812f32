"""The equatorial Rossby soliton of Boyd (1980), doi:10.1175/1520-0485(1980)010<1699:ESWPIE>2.0.CO;2: its speed.

Lengths are in equatorial radii, f = y, g = H = 1. To first order the soliton of half-width 1 / B moves west at
1 / 3 + 0.395 B^2. Cells have the length 0.25. Each mark is the mean speed of the crest from t = 10 to t = 40. The waves
that the first state radiates have left the soliton by t = 10.
"""

from typing import Any

import numpy as np

from ...dynamics.momentum import ArakawaLamb, BetaPlane, EnergyConserving, EnstrophyConserving
from ...dynamics.pseudo_spectral import PseudoSpectral
from ...grids.grid import CartesianGrid
from ...models.shallow_water import ShallowWater
from ...simulation.simulation import Simulation
from ...stepping.explicit import RK4
from ..case import Case, Mark, Outcome, Panel, Twin, on_points

B = 0.394
CELL, DT, FIRST, LAST = 0.25, 0.1, 10.0, 40.0
THEORY = 1 / 3 + 0.395 * B**2
FORMS: dict[str, dict[str, Any]] = {
    "energy": {"momentum": EnergyConserving()},
    "arakawa_lamb": {"momentum": ArakawaLamb()},
    "enstrophy": {"momentum": EnstrophyConserving()},
    "spectral": {"core": PseudoSpectral()},
}


def start(x: np.ndarray, y: np.ndarray) -> tuple:
    """(u, v, eta) of the solution of order zero, with its crest at x = 0."""
    height = 0.771 * B**2 / np.cosh(B * x) ** 2
    slope = -2 * B * np.tanh(B * x) * height
    decay = np.exp(-(y**2) / 2)
    return height * (6 * y**2 - 9) / 4 * decay, 2 * y * slope * decay, height * (6 * y**2 + 3) / 4 * decay


def crest(eta: np.ndarray, x: np.ndarray) -> float:
    """The x at which eta, summed over y, is largest, by a parabola through the largest value and its neighbours."""
    profile = np.asarray(eta).sum(axis=0)
    k = int(np.argmax(profile))
    west, top, east = profile[[k - 1, k, (k + 1) % x.size]]
    return x[k] + CELL * 0.5 * (west - east) / (west - 2 * top + east)


def _model(nx, ny, **options):
    grid = CartesianGrid(nx, ny, (-0.5 * CELL * nx, 0.5 * CELL * nx), (-0.5 * CELL * ny, 0.5 * CELL * ny), "x")
    return ShallowWater(
        grid,
        1.0,
        gravity=1.0,
        coriolis=BetaPlane(0.0, 1.0),
        least_thickness=0.0,
        communicator="serial",
        **options,
    )


def speed(**options: Any) -> tuple[float, Panel]:
    """The speed of the crest to the west, and a map at the end."""
    model = _model(192, 64, **options)
    x, places = model.grid.x_centres, []
    simulation = Simulation(model, on_points(model, start), RK4(DT))
    for duration in (FIRST, LAST - FIRST):
        state = simulation.run(steps=round(duration / DT))
        places.append(crest(state.eta, x))
    labels = ("x [equatorial radii]", "y [equatorial radii]")
    panel = Panel("elevation at t = 40", "map", np.asarray(state.eta), x, model.grid.y_centres, labels, "1")
    return float((places[0] - places[1]) % 48.0 / (LAST - FIRST)), panel


def _measure(forms: tuple) -> Outcome:
    found, panels = {}, []
    for name in forms:
        found[f"soliton_speed_{name}"], panel = speed(**FORMS[name])
        panels.append(panel)
    return Outcome(found, panels[:1])


def _twin():
    model = _model(32, 16)
    return Twin(model, RK4(DT), on_points(model, start))


Case(
    name="soliton",
    group="planar",
    title="Equatorial Rossby soliton",
    tests="nonlinear steepening against dispersion on the equatorial beta-plane",
    source="Boyd (1980)",
    doi="10.1175/1520-0485(1980)010<1699:ESWPIE>2.0.CO;2",
    equation=f"speed to the west 1 / 3 + 0.395 B^2 = {THEORY:.4f} to first order, in sqrt(g H);  B = {B}",
    measure=_measure,
    marks=tuple(
        Mark(
            f"soliton_speed_{name}",
            f"mean speed of the crest from t = 10 to 40, {name.replace('_', ' ')}",
            least=0.95 * THEORY,
            most=1.05 * THEORY,
            published=f"speed {THEORY:.4f}: theory of first order, Boyd (1980)",
        )
        for name in FORMS
    ),
    resolutions=tuple(FORMS),
    quick=("energy",),
    norm="speed of the crest on cells of 0.25 equatorial radii",
    twin=_twin,
)
