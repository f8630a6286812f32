"""The barotropically unstable jet of Galewsky, Scott and Polvani (2004), doi:10.3402/tellusa.v56i5.14436.

    u = (u_max / e_n) exp(1 / ((phi - phi_0) (phi - phi_1))) between phi_0 = pi / 7 and phi_1 = pi / 2 - phi_0,
    g h = g h_0 - integral of a u (f + tan(phi) u / a) dphi

The balanced jet is steady. With a bump of 120 m in h at 45 N it rolls up within six days. Without viscosity the
filaments of the roll-up become thinner without end, and the paper gives a viscosity of 1e5 m2/s for tests of
convergence. Here it acts on momentum alone, and in the paper on h, too.
"""

import functools
from typing import Any

import numpy as np

from ...dynamics.dissipation import Laplacian
from ...dynamics.momentum import ArakawaLamb
from ...fields.state import State
from ...models.shallow_water import ShallowWater
from ...stepping.explicit import RK4
from ..case import Case, Mark, Outcome, Panel, Twin, convergence
from .globe import DAY, OMEGA, RADIUS, G, advanced, map_of, sphere_model, weighted_l2

GALEWSKY: dict[str, Any] = {"source": "Galewsky et al. (2004)", "doi": "10.3402/tellusa.v56i5.14436"}
FASTEST, SOUTH, MEAN_DEPTH = 80.0, np.pi / 7, 1e4
VISCOSITY = 1e5  # [m2 s-1], of the paper's test of convergence
STRIP = 8  # cells round the equator, for the order of a flow that does not depend on longitude
NORTH = np.pi / 2 - SOUTH


def speed(latitude: np.ndarray) -> np.ndarray:
    """u [m s-1] at latitudes [radians]."""
    inside = (latitude > SOUTH) & (latitude < NORTH)
    product = np.where(inside, (latitude - SOUTH) * (latitude - NORTH), -1.0)
    return np.where(inside, FASTEST * np.exp(4 / (NORTH - SOUTH) ** 2) * np.exp(1 / product), 0.0)


@functools.cache
def _level():
    """(latitudes [radians], h less its mean over the sphere [m]) by Simpson's rule on a fine grid."""
    phi = np.linspace(-np.pi / 2, np.pi / 2, 40001)
    slope = lambda y: -RADIUS / G * speed(y) * (2 * OMEGA * np.sin(y) + np.tan(y) * speed(y) / RADIUS)  # noqa: E731
    middle = 0.5 * (phi[1:] + phi[:-1])
    steps = np.diff(phi) / 6 * (slope(phi[:-1]) + 4 * slope(middle) + slope(phi[1:]))
    level = np.concatenate([[0.0], np.cumsum(steps)])
    mean = np.sum(0.5 * (level[1:] + level[:-1]) * np.cos(middle) * np.diff(phi)) / 2
    return phi, level - mean


def balanced_jet(
    n: int, bump: float = 0.0, around: int | None = None, viscosity: float = 0.0
) -> tuple[ShallowWater, State]:
    """The model and the jet, with a bump of a height [m].

    Args:
        n: cells round the equator, twice as many as from pole to pole.
        bump: 120 in the published test.
        around: cells round the equator, if these are not n.
        viscosity: [m2 s-1].
    """
    closure = (Laplacian(viscosity),) if viscosity else ()
    model = sphere_model(n, MEAN_DEPTH, around, momentum=ArakawaLamb(), dissipation=closure)

    def level(longitude, latitude):
        x, y = np.deg2rad((longitude + 180.0) % 360.0 - 180.0), np.deg2rad(latitude)
        raised = bump * np.cos(y) * np.exp(-((3 * x) ** 2) - (15 * (np.pi / 4 - y)) ** 2)
        return np.interp(y, *_level()) + raised

    return model, model.state(u=lambda x, y: speed(np.deg2rad(y)) + 0.0 * x, eta=level)


def vorticity(model: ShallowWater, state: State) -> np.ndarray:
    """The vorticity at corners between rows of cells [s-1], (ny - 1, nx)."""
    metrics = model.grid.metrics(np.arange(model.grid.ny))
    u, v = np.asarray(state.u), np.asarray(state.v)
    along = u * metrics["dx_u"]
    across = (np.roll(v, -1, axis=1) - v) * metrics["dy_v"]
    return (across[:-1] - np.diff(along, axis=0)) / (metrics["dx_q"] * metrics["dy_q"])[:-1]


def extreme(values: np.ndarray) -> float:
    """The largest value of rows that are periodic, of the paraboloid that fits the nine points around the largest.

    The largest of the points alone would be below that of the field by up to a quarter of its change from cell to cell.
    """
    j, i = np.unravel_index(np.argmax(values), values.shape)
    rows, columns = np.clip([j - 1, j, j + 1], 0, len(values) - 1), np.array([i - 1, i, i + 1]) % values.shape[1]
    y, x = (a.ravel() for a in np.mgrid[-1.0:2.0, -1.0:2.0])
    terms = np.stack([np.ones(9), x, y, x * x, x * y, y * y], axis=1)
    level, along_x, along_y, xx, xy, yy = np.linalg.lstsq(terms, values[np.ix_(rows, columns)].ravel())[0]
    slope = np.array([along_x, along_y])
    return float(level - 0.5 * slope @ np.linalg.solve([[2 * xx, xy], [xy, 2 * yy]], slope))


def _kept(n, around=None):
    model, state = balanced_jet(n, around=around)
    final = advanced(model, state, 5 * DAY)
    found, exact = np.asarray(final.eta) + MEAN_DEPTH, np.asarray(state.eta) + MEAN_DEPTH
    return weighted_l2(model, found, exact), map_of("change of h in 5 days", model, found - exact, "m")


def _balance(resolutions: tuple) -> Outcome:
    found = convergence("jet_balance", resolutions, functools.partial(_kept, around=STRIP))
    error, panel = _kept(resolutions[1])
    return Outcome({**found.values, "jet_balance_l2": error}, [panel, *found.panels[1:]])


def _on_day_six(n):
    """(the grid, the vorticity on day 6)."""
    model, state = balanced_jet(n, bump=120.0, viscosity=VISCOSITY)
    return model.grid, vorticity(model, advanced(model, state, 6 * DAY))


def _roll_up(resolutions: tuple) -> Outcome:
    """The least and the most vorticity at three resolutions, each finer than the one before by the same factor."""
    grids, found = zip(*(_on_day_six(n) for n in resolutions))
    ranges = [(-extreme(-x), extreme(x)) for x in found]
    north, grid = slice(grids[-1].ny // 2, None), grids[-1]
    x, y, labels = grid.x_edges[1:], grid.y_edges[1:-1][north], ("longitude [degrees]", "latitude [degrees]")
    panel = Panel("vorticity on day 6", "map", found[-1][north], x, y, labels, "s-1")
    changes = np.abs(np.diff(ranges, axis=0) / ranges[-1]).max(axis=1)
    return Outcome(
        {
            "jet_vorticity_least": ranges[-1][0],
            "jet_vorticity_most": ranges[-1][1],
            "jet_vorticity_change": float(changes[-1]),
            "jet_vorticity_order": float(np.log(changes[-2] / changes[-1]) / np.log(resolutions[-1] / resolutions[-2])),
        },
        [panel],
    )


def _twin():
    model, state = balanced_jet(16, bump=120.0)
    return Twin(model, RK4(600.0), state)


Case(
    name="jet_balance",
    group="sphere",
    title="Balanced jet",
    tests="that a steady jet in mid-latitudes stays in balance",
    **GALEWSKY,
    equation="g dh/dphi = - a u (f + tan(phi) u / a)",
    measure=_balance,
    marks=(
        Mark("jet_balance_l2", "l2 change of h in 5 days, at the second resolution, on the sphere", 1e-3),
        Mark("jet_balance_order", "order of convergence, with 8 cells around", least=1.9, quick=1.75),
    ),
    resolutions=(144, 288, 576, 1152),
    quick=(72, 144),
    norm="l2 of h, relative, after 5 days",
    twin=_twin,
)
Case(
    name="jet_roll_up",
    group="sphere",
    title="Roll-up of an unstable jet",
    tests="barotropic instability, and filaments of vorticity",
    **GALEWSKY,
    equation="the balanced jet and a bump of 120 m, viscosity 1e5 m2/s; vorticity on day 6",
    measure=_roll_up,
    marks=(
        Mark("jet_vorticity_least", "least vorticity on day 6 [s-1]"),
        Mark("jet_vorticity_most", "largest vorticity on day 6 [s-1]"),
        Mark("jet_vorticity_change", "larger relative change of both by the last refinement", 0.05, quick=0.2),
        Mark("jet_vorticity_order", "order at which these changes decrease", least=1.9, quick=1.7),
    ),
    resolutions=(144, 216, 324),
    quick=(48, 72, 108),
    norm="range of vorticity on day 6",
)
