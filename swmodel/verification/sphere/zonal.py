"""Test 2 of Williamson et al. (1992): a steady zonal flow in geostrophic balance.

u = u0 cos(phi),   g h = g h0 - (a Omega u0 + u0^2 / 2) sin^2(phi),   u0 = 2 pi a / (12 days)
"""

import numpy as np

from ...stepping.explicit import RK4
from ..case import Case, Mark, Outcome, Twin
from ..norms import convergence
from .globe import DAY, OMEGA, RADIUS, WILLIAMSON, G, advanced, map_of, sphere_model, weighted_l2

__all__: list[str] = []

U0, H0 = 2 * np.pi * RADIUS / (12 * DAY), 2.94e4 / G


def _start(n):
    model = sphere_model(n, H0)
    level = lambda x, y: -(RADIUS * OMEGA * U0 + U0**2 / 2) / G * np.sin(np.deg2rad(y)) ** 2 + 0.0 * x  # noqa: E731
    return model, model.state(u=lambda x, y: U0 * np.cos(np.deg2rad(y)) + 0.0 * x, eta=level)


def _error(n):
    model, state = _start(n)
    final = advanced(model, state, 5 * DAY)
    found, exact = np.asarray(final.eta) + H0, np.asarray(state.eta) + H0
    return weighted_l2(model, found, exact), map_of("error of h after 5 days", model, found - exact, "m")


def _measure(resolutions: tuple) -> Outcome:
    return convergence("w2", resolutions, _error)


def _twin():
    model, state = _start(16)
    return Twin(model, RK4(1200.0), state)


Case(
    name="w2",
    group="sphere",
    title="Steady zonal flow",
    tests="geostrophic balance from pole to pole; along the grid (alpha = 0)",
    **WILLIAMSON,
    equation="u = u0 cos(phi),  g h = g h0 - (a Omega u0 + u0^2 / 2) sin^2(phi)",
    measure=_measure,
    marks=(
        Mark("w2_l2", "l2 error of h after 5 days, at 1.5 degrees", most=1e-3),
        Mark("w2_order", "order of convergence", least=1.9),
    ),
    resolutions=(60, 120, 240),
    quick=(60, 120),
    norm="l2 of h, relative, after 5 days",
    twin=_twin,
)
