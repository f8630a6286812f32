"""Test 1 of Williamson et al. (1992): advection of a cosine bell once round the sphere, over both poles.

The flow is a rigid rotation about an axis at an angle alpha to that of the grid. It crosses the poles for 90 degrees,
and follows the equator for 0:

    psi = - a u0 (sin(phi) cos(alpha) - cos(lambda) cos(phi) sin(alpha)),   u0 = 2 pi a / (12 days)

The bell, 1000 [1 - ...] with half-width a / 3, is a passive tracer with the centred scheme. The flow is constant in
time.
"""

import dataclasses
from typing import Any, cast

import numpy as np

from ...dynamics.clock import Time
from ...dynamics.system import System
from ...dynamics.tracers import Centred, Tracer
from ...fields.state import State, pytree
from ...models.shallow_water import ShallowWater
from ...stepping.explicit import RK4
from ...stepping.steps import History
from ..case import Case, Mark, Outcome, Twin, convergence, run_until
from .globe import DAY, RADIUS, WILLIAMSON, map_of, sphere_model, weighted_l2

CENTRED = "the scheme is centred, of order 2; one that does not move has no error"
RANGE: dict[str, Any] = {"least": 0.1, "most": 0.35, "quick": 1.2}  # of errors
U0, HEIGHT, WIDTH = 2 * np.pi * RADIUS / (12 * DAY), 1000.0, RADIUS / 3


@pytree
class GivenFlow(RK4):
    """RK4 for the tracers alone, in the flow of the first state."""

    def step(self, equations: System, state: State, history: History, time: Time) -> tuple:
        """(state, history) one dt later; u, v and eta stay as they are."""
        return RK4.step(self, cast(System, _Frozen(equations)), state, history, time)

    def amplification(self, z: np.ndarray) -> np.ndarray | float:
        """The amplification factor of RK4."""
        return RK4(1.0).amplification(z)


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


def _start(n, alpha=0.5 * np.pi) -> tuple[ShallowWater, State]:
    name: Any = "bell"
    model = sphere_model(n, 1.0, linear=True, tracers=Tracer(name, initial=bell, scheme=Centred()))
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


def _twin():
    model, state = _start(16)
    return Twin(model, GivenFlow(600.0), state)


Case(
    name="w1",
    group="sphere",
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
    twin=_twin,
)
