"""A vortex that an inertial oscillation carries through a nest, out and in again, along a known track.

    dU/dt + f k x U = 0,   dX/dt = U,   u = U(t) + u'(x - X),   eta = eta'(x - X)

solves the nonlinear equations over a flat bottom on the f-plane, where (u', eta') is a steady vortex: in the frame that
moves with U the equations are the same. The vortex is in gradient-wind balance, f v + v^2 / r = g d eta/dr:

    v = V (r / R) E,   eta = -(f V R / g) E - V^2 / (2 g) E^2,   E = exp((1 - r^2 / R^2) / 2)

In half a period the centre runs round half a circle of radius |U| / f. It begins and ends on the western side of the
nest, so that half of the vortex is on the outer grid then.
"""

from typing import Any

import numpy as np

from ...dynamics.momentum import FPlane
from ...grids.grid import CartesianGrid
from ...models.shallow_water import ShallowWater
from ...nests.family import Family
from ...nests.nest import Nest
from ...simulation.nested import NestedSimulation
from ...simulation.simulation import Simulation
from ...stepping.forward_backward import ForwardBackward
from ..case import Case, Mark, Outcome, Panel

G, H, F = 9.81, 100.0, 1e-4
CURRENT, SPEED, RADIUS = 10.0, 1.0, 40e3  # |U| and V [m s-1], R [m]
SIDE = 720e3  # of the periodic square [m]
START = np.array([310e3, 460e3])
BOX = (310e3, 520e3), (200e3, 520e3)
TIMES = 8  # at which the vortex is measured
HALF_PERIOD = np.pi / F
COURANT = 0.4


def _current(t):
    return CURRENT * np.array([np.cos(F * t), -np.sin(F * t)])


def _centre(t):
    return START + CURRENT / F * np.array([np.sin(F * t), np.cos(F * t) - 1.0])


def _depression(x, y, centre):
    """eta' [m] of the vortex at rest in `centre`."""
    e = np.exp(0.5 * (1.0 - ((x - centre[0]) ** 2 + (y - centre[1]) ** 2) / RADIUS**2))
    return -(F * SPEED * RADIUS / G) * e - SPEED**2 / (2.0 * G) * e * e


def _start() -> dict[str, Any]:
    """{name: function of (x, y)} at the beginning."""

    def turning(x, y):
        dx, dy = x - START[0], y - START[1]
        return dx, dy, SPEED / RADIUS * np.exp(0.5 * (1.0 - (dx * dx + dy * dy) / RADIUS**2))

    def u(x, y):
        _, dy, rate = turning(x, y)
        return _current(0.0)[0] - dy * rate

    def v(x, y):
        dx, _, rate = turning(x, y)
        return _current(0.0)[1] + dx * rate

    return {"u": u, "v": v, "eta": lambda x, y: _depression(x, y, START)}


def _fitted(parts, centre):
    """(centre, strength) of the vortex of the least squares of its elevation, by the method of Gauss and Newton.

    Args:
        parts: (x, y, eta, weight) of each grid.
        centre: where to begin.
    """
    strength, step = 1.0, 1.0  # [1], [m]
    for _ in range(6):
        matrix, right = np.zeros((3, 3)), np.zeros(3)
        for x, y, eta, weight in parts:
            shape = _depression(x, y, centre)
            shifted = [
                (_depression(x, y, centre + e) - _depression(x, y, centre - e)) / (2 * step) for e in step * np.eye(2)
            ]
            slopes = np.stack([shape, *(strength * each for each in shifted)]).reshape(3, -1)
            matrix += (slopes * weight.ravel()) @ slopes.T
            right += (slopes * weight.ravel()) @ (eta - strength * shape).ravel()
        change = np.linalg.solve(matrix, right)
        strength, centre = strength + change[0], centre + change[1:]
    return centre, strength


def errors(n: int, ratio: int | None = None) -> tuple[np.ndarray, np.ndarray, tuple[np.ndarray, ...]]:
    """(the distances of the centre from its track [m], strength - 1, at all times; x, y and eta in the box at the end).

    Args:
        n: the number of (outer) cells along a side.
        ratio: of the nest; None for a run without a nest, of which eta is that of all cells.
    """
    grid = CartesianGrid(n, n, (0.0, SIDE), (0.0, SIDE), "xy")
    longest = COURANT * SIDE / n / (np.sqrt(G * H) + CURRENT)
    steps = int(np.ceil(HALF_PERIOD / TIMES / longest))
    stepper = ForwardBackward(HALF_PERIOD / TIMES / steps)
    options: dict[str, Any] = {"gravity": G, "coriolis": FPlane(F), "communicator": "serial", "dtype": "float64"}
    run: Any
    family: Any = None
    if ratio is None:
        model = ShallowWater(grid, H, **options)
        run, models = Simulation(model, model.state(**_start()), stepper), {"": model}
        weights = {"": grid.area_h + np.zeros(grid.shape)}
    else:
        family = Family(grid, H, [Nest("box", x=BOX[0], y=BOX[1], ratio=ratio)], **options)
        run, models = NestedSimulation(family, family.states(**_start()), stepper), family.models
        weights = {name: model.grid.area_h * family.counted(name) for name, model in models.items()}
    track, strength, states = [], [], {}
    for k in range(1, TIMES + 1):
        found = run.run(steps=steps)
        states = {"": found} if ratio is None else found
        places = {name: model.grid.coordinates("h") for name, model in models.items()}
        parts = [(*places[name], np.asarray(states[name].eta, float), weights[name]) for name in models]
        exact = _centre(HALF_PERIOD * k / TIMES)
        centre, size = _fitted(parts, exact)
        track.append(float(np.hypot(*(centre - exact))))
        strength.append(size - 1.0)
    finest, frame = list(models)[-1], 0 if ratio is None else family.places["box"].width
    inside, (x, y) = slice(frame, -frame or None), (models[finest].grid.x_centres, models[finest].grid.y_centres)
    last = x[inside], y[inside], np.asarray(states[finest].eta, float)[inside, inside]
    return np.array(track), np.array(strength), last


def _measure(resolutions: tuple) -> Outcome:
    n, ratio = resolutions
    runs = {"nested": errors(n, ratio), "fine": errors(n * ratio), "coarse": errors(n)}
    sizes = {name: [float(np.sqrt(np.mean(each**2))) for each in run[:2]] for name, run in runs.items()}
    values = {
        f"nest_vortex_{what}": sizes["nested"][k] / sizes["fine"][k] for k, what in enumerate(("track", "strength"))
    }
    hours = np.arange(1, TIMES + 1) * HALF_PERIOD / TIMES / 3600.0
    lines = {name: (hours, run[0]) for name, run in runs.items()}
    x, y, eta = runs["nested"][2]
    panels = [
        Panel("distance from the track", "lines", lines, labels=("hours", "m")),
        Panel("elevation in the nest at the end", "map", eta, x / 1e3, y / 1e3, ("x [km]", "y [km]"), "m"),
    ]
    return Outcome(values, panels)


Case(
    name="nest_vortex",
    group="nests",
    title="A vortex through a nest",
    tests="the border in rotating, nonlinear flow: the track and the strength of a vortex",
    source="inertial oscillation of a vortex in gradient-wind balance",
    doi="",
    equation="u = U(t) + u'(x - X),  dX/dt = U,  dU/dt + f k x U = 0",
    measure=_measure,
    marks=(
        Mark("nest_vortex_track", "distance from the exact track, over that of a run with fine cells alone", most=1.5),
        Mark("nest_vortex_strength", "error of the fitted elevation, over that of a run with fine cells", most=1.5),
    ),
    resolutions=(90, 2),
    quick=(60, 2),
    norm="root of the mean square over eight times; the resolutions are outer cells along a side, and the ratio",
)
