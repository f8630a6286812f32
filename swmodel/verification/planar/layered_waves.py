"""Linear motions of two layers with closed solutions: an internal Kelvin wave, and the adjustment of an interface.

The equations of layers separate into their vertical modes (dynamics/layers.py). In mode m layer k has the velocity
phi_mk u, the pressure over density phi_mk P and the thickness H_k (1 + phi_mk P / c_m^2). (u, v, P / g) is a solution
of the equations of one layer of the depth c_m^2 / g.
"""

from collections.abc import Callable

import numpy as np

from ...dynamics.layers import Layers
from ...dynamics.momentum import FPlane
from ...dynamics.vertical_modes import modes
from ...fields.state import State
from ...fields.variables import in_layer
from ...grids.grid import CartesianGrid
from ...models.shallow_water import ShallowWater
from ...stepping.explicit import RK4
from ..case import Case, Outcome, Panel, Twin, convergence, energy_norm, run_until
from .waves import wave_marks

F, G, L = 1e-4, 9.8, 6e5  # [s-1], [m s-2], [m]
THICKNESS = np.array([300.0, 700.0])  # [m]
LAYERS = Layers(thickness=(300.0,), densities=(1000.0, 1060.0))
MODES = modes(np.asarray(LAYERS.gravities(G), float), THICKNESS)  # speeds, and velocities by layer and mode
GILL = {"source": "Gill (1982), sections 6.2, 7.2 and 10.4", "doi": ""}


def _model(n, periodic):
    grid = CartesianGrid(n, n, (0.0, L), (0.0, L), periodic)
    return ShallowWater(
        grid, THICKNESS.sum(), gravity=G, layers=LAYERS, coriolis=FPlane(F), linear=True, communicator="serial"
    )


def _state(model: ShallowWater, solution: Callable) -> State:
    """The State of sum over modes of `solution(m, x, y) -> (u, v, P)`, each at its own C-grid position."""
    fields = {}
    for at, name in enumerate(("u", "v", "eta")):
        x, y = model.grid.coordinates("uvh"[at])
        parts = [solution(m, x, y)[at] + np.zeros(model.grid.shape) for m in range(THICKNESS.size)]
        speeds, shapes = MODES
        of_layers = [sum(part * shape for part, shape in zip(parts, shapes[k])) for k in range(THICKNESS.size)]
        if name == "eta":
            heights = [
                H * sum(part * shape / c**2 for part, shape, c in zip(parts, shapes[k], speeds))
                for k, H in enumerate(THICKNESS)
            ]
            of_layers = LAYERS.sums(heights)
        fields |= {in_layer(name, k): x for k, x in enumerate(of_layers)}
    return model.state(**fields)


def _error(n, periodic, exact, end, title):
    """The error at time `end` of the solution exact(m, x, y, t), and a map of the interface there."""
    model = _model(n, periodic)
    final = run_until(model, RK4, _state(model, lambda m, x, y: exact(m, x, y, 0.0)), end, 0.5 * L / n / MODES[0][0])
    x, y = model.grid.x_centres / 1e3, model.grid.y_centres / 1e3
    panel = Panel(title, "map", np.asarray(final.eta_2), x, y, ("x [km]", "y [km]"), "m")
    return energy_norm(model, final, _state(model, lambda m, x, y: exact(m, x, y, end))), panel


def _twin(periodic, exact):
    def make():
        model = _model(8, periodic)
        return Twin(model, RK4(200.0), _state(model, lambda m, x, y: exact(m, x, y, 0.0)))

    return make


# -- internal Kelvin wave ----------------------------------------------------------------------------------------------

SLOW = MODES[0][1]  # the speed of the internal mode [m s-1]
SIZE = 1.0 / MODES[1][0, 1]  # so that the velocity of the mode is 1 in the top layer


def internal_kelvin(m: int, x: np.ndarray, y: np.ndarray, t: float) -> tuple:
    """A wave of the internal mode that travels south along the coast x = 0, which is on its right."""
    wave = SIZE * np.cos(2 * np.pi * (y + SLOW * t) / L) * np.exp(-x * F / SLOW) * (m == 1)
    return 0.0 * wave, -wave / SLOW, wave


def _kelvin(resolutions: tuple) -> Outcome:
    end = 0.25 * L / SLOW
    title = "interface after a quarter of a period"
    return convergence("internal_kelvin", resolutions, lambda n: _error(n, "y", internal_kelvin, end, title))


Case(
    name="internal_kelvin",
    group="planar",
    title="Internal Kelvin wave of two layers",
    tests="pressure of an interface against the Coriolis force at a wall",
    **GILL,
    equation="P = cos(2 pi (y + c t) / L) exp(-x f / c),  v = - P / c,  u = 0;  c of the internal mode",
    measure=_kelvin,
    marks=wave_marks("internal_kelvin", 5e-3, 5e-3, ""),
    resolutions=(32, 64, 128),
    quick=(16, 32),
    norm="energy of all layers, relative, after a quarter of a period",
    twin=_twin("y", internal_kelvin),
)


# -- geostrophic adjustment --------------------------------------------------------------------------------------------

WIDTH = 0.1 * L


def layer_adjustment(m: int, x: np.ndarray, y: np.ndarray, t: float) -> tuple:
    """A ridge of the interface at rest under a level surface at t = 0, in the periodic interval L.

    Each Fourier and vertical mode keeps its potential vorticity and radiates the rest.
    """
    c, shape = MODES[0][m], MODES[1][:, m]
    own = shape[1] - shape[0]  # P / c^2 of heights (-1, 1): the sum of H phi^2 is 1
    u = v = pressure = 0.0 * (x + y)
    for number in range(40):
        k = 2 * np.pi * number / L
        size = WIDTH * np.sqrt(2 * np.pi) / L * np.exp(-0.5 * (k * WIDTH) ** 2) * (2.0 if number else 1.0)
        size, omega = size * own * c**2, np.sqrt(F**2 + (c * k) ** 2)
        cos, sin = np.cos(k * (x - 0.5 * L)), np.sin(k * (x - 0.5 * L))
        pressure = pressure + size * cos * (F**2 + (c * k) ** 2 * np.cos(omega * t)) / omega**2
        u = u + size * sin * k * np.sin(omega * t) / omega
        v = v - size * sin * k * F * (1 - np.cos(omega * t)) / omega**2
    return u, v, pressure


def _adjustment(resolutions: tuple) -> Outcome:
    end, title = 0.2 * L / SLOW, "interface as the waves leave"
    return convergence("layer_adjustment", resolutions, lambda n: _error(n, "xy", layer_adjustment, end, title))


Case(
    name="layer_adjustment",
    group="planar",
    title="Geostrophic adjustment of the interface of two layers",
    tests="potential vorticity of each layer in a disturbance, and the waves of both modes that radiate from it",
    **GILL,
    equation="P_k(t) = P_k(0) [f^2 + c^2 k^2 cos(omega t)] / omega^2,  omega^2 = f^2 + c^2 k^2,  of both modes",
    measure=_adjustment,
    marks=wave_marks("layer_adjustment", 1e-2, 0.012, ""),
    resolutions=(32, 64, 128),
    quick=(24, 48),
    norm="energy of all layers, relative, after 0.2 L / c",
    twin=_twin("xy", layer_adjustment),
)
