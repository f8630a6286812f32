"""The free inertial gyre of Fofonoff (1954), for the nonlinear equations without approximation.

A steady flow h (u, v) = (-d psi/dy, d psi/dx) without forcing or friction satisfies q h (v, -u) = grad(B). The
potential vorticity q and the Bernoulli head B are then functions of psi, with dB/dpsi = q. Fofonoff's choice is linear:

    (f + zeta) / h = f_m / H + lambda psi,     g eta + (u^2 + v^2) / 2 = f_m psi / H + lambda psi^2 / 2

and psi = 0 on walls.

The first equation is solved for psi at Chebyshev points, and the second one gives h, alternately until convergence.
Fofonoff, N. P. (1954), Steady flow in a frictionless homogeneous ocean, Journal of Marine Research 13, 254-262.
"""

import functools

import numpy as np
from scipy.interpolate import BarycentricInterpolator

from ...dynamics.momentum import BetaPlane
from ...grids.grid import CartesianGrid
from ...models.shallow_water import ShallowWater
from ...stepping.explicit import RK4
from ...units import day
from ..case import Case, Mark, Panel, Twin, convergence, energy_norm, on_points, run_until
from .modes import chebyshev

F0 = 8e-5  # [s-1]
MIDDLE = F0 + 0.5 * BETA * L  # f_m
WIDTH = L / 8  # of the boundary layers; lambda = 1 / (H WIDTH)^2
LAMBDA = 1.0 / (H * WIDTH) ** 2


@functools.cache
def exact_gyre(n: int = 36) -> tuple:
    """(points (n + 1,), u, v, eta at them (n + 1, n + 1)), converged to rounding."""
    points, d = chebyshev(n)
    points, d = 0.5 * L * (points + 1), d * 2 / L
    eye, inner = np.eye(n + 1), slice(1, -1)
    ddx, ddy = np.kron(eye, d), np.kron(d, eye)
    inside = np.zeros((n + 1, n + 1), bool)
    inside[inner, inner] = True
    inside, f = inside.ravel(), (F0 + BETA * points[:, None] + 0.0 * points).ravel()
    h, psi = np.full(f.size, H), np.zeros(f.size)
    for _ in range(60):
        operator = ddx @ (ddx / h[:, None]) + ddy @ (ddy / h[:, None]) - np.diag(LAMBDA * h)
        new = np.zeros(f.size)
        new[inside] = np.linalg.solve(operator[np.ix_(inside, inside)], (h * MIDDLE / H - f)[inside])
        u, v = -(ddy @ new) / h, (ddx @ new) / h
        h = H + (MIDDLE * new / H + 0.5 * LAMBDA * new**2 - 0.5 * (u**2 + v**2)) / G
        change, psi = np.abs(new - psi).max() / np.abs(new).max(), new
        if change < 1e-13:
            break
    shape = (n + 1, n + 1)
    return points, u.reshape(shape), v.reshape(shape), (h - H).reshape(shape)


def fields(x: np.ndarray, y: np.ndarray) -> tuple:
    """(u, v, eta) on the product of points x (1, nx) and y (ny, 1)."""
    points, *values = exact_gyre()

    def at(field):
        rows = BarycentricInterpolator(points, field)(np.ravel(y))
        return BarycentricInterpolator(points, rows.T)(np.ravel(x)).T

    return tuple(at(field) for field in values)


def _model(n):
    grid = CartesianGrid(n, n, (0.0, L), (0.0, L))
    return ShallowWater(grid, H, gravity=G, coriolis=BetaPlane(F0, BETA), communicator="serial")


def _error(n):
    model = _model(n)
    start = on_points(model, fields)
    final = run_until(model, RK4, start, 10 * day, 0.6 * L / n / np.sqrt(G * H))
    x, y = model.grid.x_centres / 1e3, model.grid.y_centres / 1e3
    panel = Panel("elevation after 10 days", "map", np.asarray(final.eta), x, y, ("x [km]", "y [km]"), "m")
    return energy_norm(model, final, start), panel


def _twin():
    model = _model(8)
    return Twin(model, RK4(1500.0), on_points(model, fields))


Case(
    name="fofonoff",
    group="planar",
    title="Fofonoff's free gyre",
    tests="nonlinear advection and rotation in balance, with inertial boundary layers",
    source="Fofonoff (1954)",
    doi="",
    equation="(f + zeta) / h = f_m / H + lambda psi,  g eta + (u^2 + v^2) / 2 = f_m psi / H + lambda psi^2 / 2",
    measure=lambda resolutions: convergence("fofonoff", resolutions, _error),
    marks=(
        Mark("fofonoff_l2", "relative change in 10 days in the norm of energy", most=1e-2),
        Mark("fofonoff_order", "order of convergence of this change", least=1.9),
    ),
    resolutions=(32, 64, 128),
    quick=(24, 48),
    norm="energy, relative; the steady flow after 10 days against that at the start",
    twin=_twin,
)
