"""A bell that is advected over the poles, an unstable jet, and what all cases on the sphere share.

The planet of Williamson et al. (1992), doi:10.1016/S0021-9991(05)80016-6, its grids, and norms over it. A resolution n
means n x n / 2 cells. f varies with latitude alone, so that the rotated forms of test 2 (alpha > 0) are not available.
The prescribed flow of test 1 crosses the poles.

Test 1 of Williamson et al. (1992): advection of a cosine bell once round the sphere, over both poles.

The flow is a rigid rotation about an axis at an angle alpha to that of the grid. It crosses the poles for 90 degrees,
and follows the equator for 0:

    psi = - a u0 (sin(phi) cos(alpha) - cos(lambda) cos(phi) sin(alpha)),   u0 = 2 pi a / (12 days)

The bell, 1000 [1 - ...] with half-width a / 3, is a passive tracer with the centred scheme. The flow is constant in
time.

The barotropically unstable jet of Galewsky, Scott and Polvani (2004), doi:10.3402/tellusa.v56i5.14436.

    u = (u_max / e_n) exp(1 / ((phi - phi_0) (phi - phi_1))) between phi_0 = pi / 7 and phi_1 = pi / 2 - phi_0,
    g h = g h_0 - integral of a u (f + tan(phi) u / a) dphi

The balanced jet is steady. With a bump of 120 m in h at 45 N it rolls up within six days. Without viscosity the
filaments of the roll-up become thinner without end, and the paper gives a viscosity of 1e5 m2/s for tests of
convergence. Here it acts on momentum alone, and in the paper on h, too.
"""

import dataclasses
import functools
from typing import Any, cast

import numpy as np

import swmodel as sw

from ..dynamics.clock import Time
from ..dynamics.system import System
from ..grids.windows import FieldLike
from ..stepping.stability import largest_time_step
from ..stepping.steps import History
from ..units import day
from .case import Case, Mark, Outcome, Panel, Twin, convergence, order, relative_l2, run_until

RADIUS, OMEGA, G = 6.37122e6, 7.292e-5, 9.80616
WILLIAMSON: Any = {"group": "sphere", "source": "Williamson et al. (1992)", "doi": "10.1016/S0021-9991(05)80016-6"}
DAY = day
FILTERED_FROM = 60.0  # [degrees]
DEGREES = "longitude [degrees]", "latitude [degrees]"


def globe(n: int, around: int | None = None) -> sw.SphericalGrid:
    """n x n / 2 cells from pole to pole, or `around` x n / 2, of flows that do not depend on longitude."""
    return sw.SphericalGrid(around or n, n // 2, (0.0, 360.0), (-90.0, 90.0), radius=RADIUS)


def sphere_model(n: int, depth: FieldLike, around: int | None = None, **options: Any) -> sw.ShallowWater:
    """The model of a resolution and a depth; `around` as of `globe`."""
    given: Any = {"gravity": G, "coriolis": sw.RotatingSphere(OMEGA), "core": sw.FilteredDifferences(FILTERED_FROM)}
    return sw.ShallowWater(globe(n, around), depth, communicator="serial", **given, **options)


def advanced(model: sw.ShallowWater, state: sw.State, seconds: float, fraction: float = 0.9) -> sw.State:
    """The State `seconds` later, by RK4 at a fraction of its longest step."""
    return run_until(model, sw.RK4, state, seconds, fraction * largest_time_step(model, sw.RK4(1.0), state))


def weighted_l2(model: sw.ShallowWater, found: np.ndarray, exact: np.ndarray) -> float:
    """Williamson's l2: sqrt(I[(found - exact)^2] / I[exact^2]), I the mean over the sphere of values at centres."""
    area = model.grid.metrics(np.arange(model.grid.ny))["area_h"] * np.ones(model.grid.shape)
    return relative_l2(found, exact, area)


def map_of(title: str, model: sw.ShallowWater, values: np.ndarray, unit: str) -> Panel:
    """A map of values at centres."""
    return Panel(title, "map", np.asarray(values), model.grid.x_centres, model.grid.y_centres, DEGREES, unit)


CENTRED = "the scheme is centred, of order 2; one that does not move has no error"
RANGE: dict[str, Any] = {"least": 0.1, "most": 0.35, "quick": 1.2}  # of errors
U0, HEIGHT, WIDTH = 2 * np.pi * RADIUS / (12 * DAY), 1000.0, RADIUS / 3


@sw.pytree
class GivenFlow(sw.RK4):
    """RK4 for the tracers alone, in the flow of the first state."""

    def step(self, equations: System, state: sw.State, history: History, time: Time) -> tuple:
        """(state, history) one dt later; u, v and eta stay as they are."""
        return sw.RK4.step(self, cast(System, _Frozen(equations)), state, history, time)

    def amplification(self, z: np.ndarray) -> np.ndarray | float:
        """The amplification factor of RK4."""
        return sw.RK4(1.0).amplification(z)


class _Frozen:
    """Equations whose u, v and eta do not change."""

    def __init__(self, equations):
        self.equations, self.evaluation = equations, equations.evaluation

    def tendency(self, state, time):
        rate = self.equations.tendency(state, time)
        return rate.replace(**{name: 0.0 * getattr(rate, name) for name in ("u", "v", "eta")})


def bell(longitude: np.ndarray, latitude: np.ndarray) -> np.ndarray:
    """The bell at 270 degrees east on the equator."""
    x, y = np.deg2rad(longitude), np.deg2rad(latitude)
    distance = RADIUS * np.arccos(np.clip(np.cos(y) * np.cos(x - 1.5 * np.pi), -1.0, 1.0))
    return np.where(distance < WIDTH, 0.5 * HEIGHT * (1.0 + np.cos(np.pi * distance / WIDTH)), 0.0)


def _start(n, alpha=0.5 * np.pi) -> tuple[sw.ShallowWater, sw.State]:
    name: Any = "bell"
    model = sphere_model(n, 1.0, linear=True, tracers=sw.Tracer(name, initial=bell, scheme=sw.Centred()))
    grid = model.grid
    longitude, latitude = np.deg2rad(grid.x_edges), np.deg2rad(grid.y_edges)[:, None]
    along, over = np.cos(alpha) * np.sin(latitude), np.sin(alpha) * np.cos(longitude) * np.cos(latitude)
    psi = -RADIUS * U0 * (along - over)
    metrics = grid.metrics(np.arange(grid.ny))
    u = -np.diff(psi, axis=0)[:, 1:] / metrics["dy_u"]
    with np.errstate(divide="ignore", invalid="ignore"):
        v = np.where(np.arange(grid.ny)[:, None] < grid.ny - 1, np.diff(psi, axis=1)[1:] / metrics["dx_v"], 0.0)
    return model, model.state(u=u, v=v)


def _error(n, alpha=0.5 * np.pi):
    model, state = _start(n, alpha)
    start = np.asarray(state["bell"])
    final = run_until(model, GivenFlow, state, 12 * DAY, 12 * DAY / (4.5 * n))
    return weighted_l2(model, final["bell"], start), map_of("bell after 12 days", model, final["bell"], "m")


def _measure(resolutions: tuple) -> Outcome:
    found = convergence("w1", resolutions, _error)
    equator, _ = _error(resolutions[-1], 0.0)
    values = {**found.values, "w1_equator_l2": equator, "w1_pole_ratio": found.values["w1_l2"] / equator}
    return dataclasses.replace(found, values=values)


Case(
    name="w1",
    title="Cosine bell over the poles",
    tests="advection across the poles, and the zonal filter there",
    **WILLIAMSON,
    equation="dc/dt + u . grad(c) = 0,  alpha = 90 degrees, 12 days",
    measure=_measure,
    marks=(
        Mark("w1_l2", f"l2 error of the bell after a revolution over the poles; {CENTRED}", **RANGE),
        Mark("w1_order", "order of convergence; the bell's second derivative is not continuous"),
        Mark("w1_equator_l2", f"l2 error of the bell after a revolution along the equator; {CENTRED}", **RANGE),
        Mark("w1_pole_ratio", "error over the poles by that along the equator", most=1.5),
    ),
    resolutions=(72, 144, 288),
    quick=(36, 72),
    norm="l2 of the bell, relative, after one revolution",
    twin=lambda: Twin(*_start(16), GivenFlow(600.0)),
)


GALEWSKY: Any = {"group": "sphere", "source": "Galewsky et al. (2004)", "doi": "10.3402/tellusa.v56i5.14436"}
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
) -> tuple[sw.ShallowWater, sw.State]:
    """The model and the jet, with a bump of a height [m].

    Args:
        n: cells round the equator, twice as many as from pole to pole.
        bump: 120 in the published test.
        around: cells round the equator, if these are not n.
        viscosity: [m2 s-1].
    """
    closure = (sw.Laplacian(viscosity),) if viscosity else ()
    model = sphere_model(n, MEAN_DEPTH, around, momentum=sw.ArakawaLamb(), dissipation=closure)

    def level(longitude, latitude):
        x, y = np.deg2rad((longitude + 180.0) % 360.0 - 180.0), np.deg2rad(latitude)
        raised = bump * np.cos(y) * np.exp(-((3 * x) ** 2) - (15 * (np.pi / 4 - y)) ** 2)
        return np.interp(y, *_level()) + raised

    return model, model.state(u=lambda x, y: speed(np.deg2rad(y)) + 0.0 * x, eta=level)


def vorticity(model: sw.ShallowWater, state: sw.State) -> np.ndarray:
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


def _roll_up(resolutions: tuple) -> Outcome:
    """The least and the most vorticity at three resolutions, each finer than the one before by the same factor."""
    starts = [balanced_jet(n, bump=120.0, viscosity=VISCOSITY) for n in resolutions]
    found = [vorticity(model, advanced(model, state, 6 * DAY)) for model, state in starts]
    ranges, grid = [(-extreme(-x), extreme(x)) for x in found], starts[-1][0].grid
    north = slice(grid.ny // 2, None)
    x, y = grid.x_edges[1:], grid.y_edges[1:-1][north]
    panel = Panel("vorticity on day 6", "map", found[-1][north], x, y, DEGREES, "s-1")
    changes = np.abs(np.diff(ranges, axis=0) / ranges[-1]).max(axis=1)
    values = {
        "jet_vorticity_least": ranges[-1][0],
        "jet_vorticity_most": ranges[-1][1],
        "jet_vorticity_change": float(changes[-1]),
        "jet_vorticity_order": order(resolutions, changes),
    }
    return Outcome(values, [panel])


Case(
    name="jet_balance",
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
    twin=lambda: Twin(*balanced_jet(16, bump=120.0), sw.RK4(600.0)),
)
Case(
    name="jet_roll_up",
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
