"""Waves through the border of a nest: the part of them that is sent back, and the error inside the nest.

A wave changes its speed where the cells change their size, on a C-grid as omega = 2 c / dx sin(k dx / 2). So a part of
it is sent back even where both grids exchange their values exactly. The reflections measured here contain that part.

A vortex that an inertial oscillation carries through a nest, out and in again, along a known track.

    dU/dt + f k x U = 0,   dX/dt = U,   u = U(t) + u'(x - X),   eta = eta'(x - X)

solves the nonlinear equations over a flat bottom on the f-plane, where (u', eta') is a steady vortex: in the frame that
moves with U the equations are the same. The vortex is in gradient-wind balance, f v + v^2 / r = g d eta/dr:

    v = V (r / R) E,   eta = -(f V R / g) E - V^2 / (2 g) E^2,   E = exp((1 - r^2 / R^2) / 2)

In half a period the centre runs round half a circle of radius |U| / f. It begins and ends on the western side of the
nest, so that half of the vortex is on the outer grid then.
"""

from typing import Any

import numpy as np

import swmodel as sw

from .case import Case, Mark, Outcome, Panel, convergence, map_in_km, relative_l2
from .waves import F, PlaneWave

BERGER: Any = {"group": "nests", "source": "Berger and Colella (1989)", "doi": "10.1016/0021-9991(89)90035-1"}
G, H = 9.81, 100.0
C = np.sqrt(G * H)

# -- reflection --------------------------------------------------------------------------------------------------------

DX, COURANT = 1000.0, 0.5
START, WEST, EAST = 200, 260, 340  # the middle of the wave, and the sides of the box, in cells
ROWS = 48  # of a periodic grid, of which the box covers 32
IN, OUT = 120, 260  # cells that the wave has run: past the first side, past the second one
RATIOS = (3, 5)


def _packet(length):
    """(eta, u) of a wave of `length` cells in a packet that runs east."""

    def eta(x, y):
        cells = x / DX - START
        return np.cos(2 * np.pi * cells / length) * np.exp(-((cells / length) ** 2)) + 0.0 * y

    return {"eta": eta, "u": lambda x, y: C / H * eta(x, y)}


def sent_back(ratio: int, length: int = 20) -> tuple[float, float, Panel]:
    """The amplitudes sent back by the side where a wave enters a nest, and by that where it leaves, over its own.

    The wave in a run without a nest is subtracted. It is the same up to the border, so that what is left on the
    incoming side after the wave has passed comes from the nest alone, from its corners as well.

    Args:
        ratio: of the nest.
        length: of the wave, in outer cells.

    Returns:
        Both amplitudes, and a Panel of the difference when the wave has left.
    """
    grid = sw.CartesianGrid(520, ROWS, (0.0, 520 * DX), (0.0, ROWS * DX), "y")
    nest = sw.Nest("box", x=(WEST * DX, EAST * DX), y=(8 * DX, 40 * DX), ratio=ratio)
    options = {"gravity": G, "linear": True, "communicator": "serial", "dtype": "float64"}
    stepper, wave = sw.ForwardBackward(COURANT * DX / C), _packet(length)
    family, alone = sw.Family(grid, H, [nest], **options), sw.ShallowWater(grid, H, **options)
    nested = sw.NestedSimulation(family, family.states(**wave), stepper)
    single = sw.Simulation(alone, alone.state(**wave), stepper)
    found, difference = [], np.zeros(grid.shape)
    for run, (west, east) in ((IN, (START - 50, WEST - 5)), (OUT, (WEST - 90, WEST - 5))):
        steps = round(run / COURANT) - single.step
        difference = np.asarray(nested.run(steps=steps)[""].eta - single.run(steps=steps).eta)
        found.append(float(np.abs(difference[:, west:east]).max()))
    lines = {f"ratio {ratio}": (np.arange(WEST), np.abs(difference).max(axis=0)[:WEST])}
    panel = Panel("sent back, over the amplitude", "lines", lines, labels=("cells", ""))
    return found[0], found[1], panel


def _reflection(resolutions: tuple) -> Outcome:
    values, panels = {}, []
    for ratio in RATIOS:
        values[f"nest_reflection_in_{ratio}"], values[f"nest_reflection_out_{ratio}"], panel = sent_back(
            ratio, *resolutions
        )
        panels.append(panel)
    return Outcome(values, panels)


Case(
    name="nest_reflection",
    title="A wave through the borders of a nest",
    tests="waves through the border, in and out",
    **BERGER,
    equation="eta = cos(k (x - c t)) exp(-((x - c t) / L)^2),  k = 2 pi / L,  L of 20 outer cells",
    measure=_reflection,
    marks=tuple(
        Mark(f"nest_reflection_{side}_{ratio}", f"amplitude sent back where the wave {verb}, ratio {ratio}", most=0.01)
        for ratio in RATIOS
        for side, verb in (("in", "enters"), ("out", "leaves"))
    ),
    resolutions=(20,),
    quick=(20,),
    norm="largest elevation on the incoming side less that of a run without the nest, over the amplitude",
)

# -- order of convergence ----------------------------------------------------------------------------------------------

SIDE = 1e6  # of the periodic square [m]
WAVE = PlaneWave(SIDE, G, C)
WEIGHTS = {"u": np.sqrt(H), "v": np.sqrt(H), "eta": np.sqrt(G)}  # squared, those of energy


def inside_error(n: int) -> tuple[float, Panel]:
    """The error in the box of a nest of ratio 3 after a period, in the norm of energy, on n x n outer cells."""
    grid = sw.CartesianGrid(n, n, (0.0, SIDE), (0.0, SIDE), "xy")
    nest = sw.Nest("box", x=(0.375 * SIDE, 0.625 * SIDE), y=(0.375 * SIDE, 0.625 * SIDE), ratio=3)
    options = {"gravity": G, "coriolis": sw.FPlane(F), "linear": True, "communicator": "serial", "dtype": "float64"}
    family = sw.Family(grid, H, [nest], **options)

    def states(t):
        return family.states(**{name: lambda x, y, k=k: WAVE.fields(x, y, t)[k] for k, name in enumerate(WEIGHTS)})

    period = 2 * np.pi / WAVE.omega
    steps = int(np.ceil(period * C * n / (0.5 * SIDE)))
    end = sw.NestedSimulation(family, states(0.0), sw.RK4(period / steps)).run(steps=steps)["box"]
    width = family.places["box"].width
    box = slice(width, -width), slice(width, -width)
    stacked = [
        np.concatenate([weight * np.asarray(state[name], float)[box].ravel() for name, weight in WEIGHTS.items()])
        for state in (end, states(period)["box"])
    ]
    grid = family.models["box"].grid
    x, y = (centres[width:-width] for centres in (grid.x_centres, grid.y_centres))
    return relative_l2(*stacked), map_in_km("elevation after a period", x, y, np.asarray(end.eta)[box])


Case(
    name="nest_order",
    group="nests",
    title="An inertia-gravity wave in a nest",
    tests="interpolation in space and time, means and fluxes at the border",
    source="Bishnu et al. (2024), in a nest",
    doi="10.1029/2022MS003545",
    equation="omega^2 = f^2 + g H (k^2 + l^2),  eta = cos(k x + l y - omega t),  in a box of a periodic plane",
    measure=lambda resolutions: convergence("nest_wave", resolutions, inside_error),
    marks=(
        Mark("nest_wave_l2", "relative error in the box of the nest, at the highest resolution", most=5e-3, quick=0.05),
        Mark("nest_wave_order", "order of convergence where both grids are refined, their ratio being 3", least=1.9),
    ),
    resolutions=(32, 64, 128),
    quick=(32, 64),
    norm="energy in the box of the nest, relative, after a period",
)


CURRENT, SPEED, RADIUS = 10.0, 1.0, 40e3  # |U| and V [m s-1], R [m]
VORTEX_SIDE = 720e3  # of the periodic square [m]
VORTEX_START = np.array([310e3, 460e3])
BOX = (310e3, 520e3), (200e3, 520e3)
TIMES = 8  # at which the vortex is measured
HALF_PERIOD = np.pi / F
VORTEX_COURANT = 0.4


def _current(t):
    return CURRENT * np.array([np.cos(F * t), -np.sin(F * t)])


def _centre(t):
    return VORTEX_START + CURRENT / F * np.array([np.sin(F * t), np.cos(F * t) - 1.0])


def _depression(x, y, centre):
    """eta' [m] of the vortex at rest in `centre`."""
    e = np.exp(0.5 * (1.0 - ((x - centre[0]) ** 2 + (y - centre[1]) ** 2) / RADIUS**2))
    return -(F * SPEED * RADIUS / G) * e - SPEED**2 / (2.0 * G) * e * e


def _start() -> dict[str, Any]:
    """{name: function of (x, y)} at the beginning."""

    def turning(x, y):
        dx, dy = x - VORTEX_START[0], y - VORTEX_START[1]
        return dx, dy, SPEED / RADIUS * np.exp(0.5 * (1.0 - (dx * dx + dy * dy) / RADIUS**2))

    def u(x, y):
        _, dy, rate = turning(x, y)
        return _current(0.0)[0] - dy * rate

    def v(x, y):
        dx, _, rate = turning(x, y)
        return _current(0.0)[1] + dx * rate

    return {"u": u, "v": v, "eta": lambda x, y: _depression(x, y, VORTEX_START)}


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


def vortex_errors(n: int, ratio: int | None = None) -> tuple[np.ndarray, np.ndarray, tuple[np.ndarray, ...]]:
    """(the distances of the centre from its track [m], strength - 1, at all times; x, y and eta in the box at the end).

    Args:
        n: the number of (outer) cells along a side.
        ratio: of the nest; None for a run without a nest, of which eta is that of all cells.
    """
    grid = sw.CartesianGrid(n, n, (0.0, VORTEX_SIDE), (0.0, VORTEX_SIDE), "xy")
    longest = VORTEX_COURANT * VORTEX_SIDE / n / (np.sqrt(G * H) + CURRENT)
    steps = int(np.ceil(HALF_PERIOD / TIMES / longest))
    stepper = sw.ForwardBackward(HALF_PERIOD / TIMES / steps)
    options: dict[str, Any] = {"gravity": G, "coriolis": sw.FPlane(F), "communicator": "serial", "dtype": "float64"}
    run: Any
    family: Any = None
    if ratio is None:
        model = sw.ShallowWater(grid, H, **options)
        run, models = sw.Simulation(model, model.state(**_start()), stepper), {"": model}
        weights = {"": grid.area_h + np.zeros(grid.shape)}
    else:
        family = sw.Family(grid, H, [sw.Nest("box", x=BOX[0], y=BOX[1], ratio=ratio)], **options)
        run, models = sw.NestedSimulation(family, family.states(**_start()), stepper), family.models
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
    runs = {"nested": vortex_errors(n, ratio), "fine": vortex_errors(n * ratio), "coarse": vortex_errors(n)}
    sizes = {name: [float(np.sqrt(np.mean(each**2))) for each in run[:2]] for name, run in runs.items()}
    values = {
        f"nest_vortex_{what}": sizes["nested"][k] / sizes["fine"][k] for k, what in enumerate(("track", "strength"))
    }
    hours = np.arange(1, TIMES + 1) * HALF_PERIOD / TIMES / 3600.0
    lines = {name: (hours, run[0]) for name, run in runs.items()}
    x, y, eta = runs["nested"][2]
    panels = [
        Panel("distance from the track", "lines", lines, labels=("hours", "m")),
        map_in_km("elevation in the nest at the end", x, y, eta),
    ]
    return Outcome(values, panels)


Case(
    name="nest_vortex",
    group="nests",
    title="A vortex through a nest",
    tests="the border in rotating, nonlinear flow: the track and the strength of a vortex",
    source="inertial oscillation of a vortex in gradient-wind balance",
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
