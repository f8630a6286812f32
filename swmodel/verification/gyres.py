"""Gyres of a basin, driven by wind or free.

Steady wind-driven gyres: Stommel (1948) and Munk (1950), linear, over a flat bottom, against exact solutions.

The transport (U, V) = (-d psi/dy, d psi/dx) of a steady state has no divergence. The curl of the momentum equation is

    beta d psi/dx = - d tau_x/dy / rho - r laplacian(psi) + A laplacian^2(psi),   tau_x = - T cos(pi y / L)

With psi = sin(pi y / L) phi(x) this is an equation with constant coefficients in x. It is of order 2 for Stommel's
gyre, and of order 4 for Munk's gyre between free-slip walls, where phi = phi'' = 0. The exact solution is a sum of
exponentials.

The free inertial gyre of Fofonoff (1954), for the nonlinear equations without approximation.

A steady flow h (u, v) = (-d psi/dy, d psi/dx) without forcing or friction satisfies q h (v, -u) = grad(B). The
potential vorticity q and the Bernoulli head B are then functions of psi, with dB/dpsi = q. Fofonoff's choice is linear:

    (f + zeta) / h = f_m / H + lambda psi,     g eta + (u^2 + v^2) / 2 = f_m psi / H + lambda psi^2 / 2

and psi = 0 on walls.

The first equation is solved for psi at Chebyshev points, and the second one gives h, alternately until convergence.
Fofonoff, N. P. (1954), Steady flow in a frictionless homogeneous ocean, Journal of Marine Research 13, 254-262.

MITgcm's wind-driven gyre in a closed basin, "tutorial_barotropic_gyre", against the output that MITgcm publishes.

The basin has 60 x 60 cells of 20 km, is 5000 m deep, and lies on a beta plane. It starts from rest under a wind stress
-0.1 cos(pi y / L) N m-2, with a viscosity of 400 m2 s-1 and no slip. MITgcm takes steps of 20 minutes with its implicit
free surface: the surface is implicit (theta = 1), all else is by Adams-Bashforth with epsilon = 0.01. Its output has
the range and the standard deviation of the elevation, and the range of the velocities, after each of 10 steps.
These are the dynstat_* of its monitor in verification/tutorial_barotropic_gyre/results/output.txt of
https://github.com/MITgcm/MITgcm, commit 1827555eb3ab527c3c300e5642540b0ceba44ef3 (MIT licence), written by
checkpoint67e. MITgcm's solver stops at a residual of 1e-7, which limits the possible agreement.

MITgcm averages the Coriolis force like the enstrophy-conserving form here. The energy-conserving form differs by 2e-5
within these steps. The advection of momentum, of the size 1e-6, agrees with the energy-conserving form.
"""

import dataclasses
import functools

import numpy as np
from scipy.interpolate import BarycentricInterpolator

import swmodel as sw

from ..units import day
from .case import SQUARES, Case, Flow, Mark, Outcome, Panel, Twin, convergence, map_in_km, on_points, run_until
from .waves import chebyshev

L, H, G, RHO, STRESS, BETA = 1e6, 1000.0, 0.9, 1025.0, 0.1, 2e-11
SV = 1e6  # [m3 s-1]


@dataclasses.dataclass(frozen=True)
class Gyre:
    """A gyre in a square basin with linear drag [s-1] and viscosity [m2 s-1]."""

    drag: float
    viscosity: float = 0.0

    @functools.cached_property
    def _exponentials(self):
        """(exponents, coefficients) of phi [m3 s-1], the particular solution among them with exponent 0."""
        l, a, r = np.pi / L, self.viscosity, self.drag
        forcing = -STRESS * l / RHO
        powers = [-a, 0.0, 2 * a * l**2 + r, BETA, -a * l**4 - r * l**2] if a else [r, BETA, -r * l**2]
        roots = np.roots(powers)
        particular = forcing / powers[-1]
        shift = np.exp(-np.maximum(roots.real, 0.0) * L)  # each exponential is at most 1 in the basin
        rows, wanted = [], []
        for x in (0.0, L):
            value = np.exp(roots * x) * shift
            rows += [value, roots**2 * value / l**2] if a else [value]
            wanted += [-particular, 0.0] if a else [-particular]
        sizes = np.linalg.solve(np.array(rows), np.array(wanted, complex)) * shift
        return np.append(roots, 0.0), np.append(sizes, particular)

    def phi(self, x: np.ndarray, derivative: int = 0) -> np.ndarray:
        """phi(x), or its derivative."""
        roots, sizes = self._exponentials
        return sum((c * s**derivative * np.exp(s * x) for s, c in zip(roots, sizes)), 0.0 * x).real

    def psi(self, x: np.ndarray, y: np.ndarray) -> np.ndarray:
        """The transport's streamfunction [m3 s-1]."""
        return np.sin(np.pi * y / L) * self.phi(x)

    def velocity(self, x: np.ndarray, y: np.ndarray) -> tuple:
        """(u, v) [m s-1]."""
        l = np.pi / L
        return -l * np.cos(l * y) * self.phi(x) / H, np.sin(l * y) * self.phi(x, 1) / H

    def model(self, n: int) -> sw.ShallowWater:
        """The model on n x n cells. Its waves are slow (30 m/s), which does not change the steady state."""
        friction = (sw.LinearDrag(self.drag), *((sw.Laplacian(self.viscosity),) if self.viscosity else ()))
        wind = sw.WindStress(x=lambda x, y: -STRESS * np.cos(np.pi * y / L) + 0.0 * x, density=RHO)
        return sw.ShallowWater(
            sw.CartesianGrid(n, n, (0.0, L), (0.0, L)),
            H,
            gravity=G,
            coriolis=sw.BetaPlane(5e-5, BETA),
            linear=True,
            forcing=wind,
            dissipation=friction,
            communicator="serial",
        )

    def error(self, n: int) -> tuple[float, Panel]:
        """The error of (u, v) in the steady state, and a map of its streamfunction."""
        model, dt = self.model(n), 0.7 * L / n / np.sqrt(G * H)
        final = run_until(model, sw.RK4, model.at_rest(), 18.0 / self.drag, dt)
        found, grid = (np.asarray(final.u), np.asarray(final.v)), model.grid
        exact = [self.velocity(*grid.coordinates(at))[k] for k, at in enumerate("uv")]
        squared = sum(np.sum((a - b)[:-1, :-1] ** 2) for a, b in zip(found, exact))
        size = sum(np.sum(b[:-1, :-1] ** 2) for b in exact)
        psi = np.cumsum(H * found[1] * L / n, axis=1) / SV
        panel = map_in_km("streamfunction", grid.x_edges[1:], grid.y_edges[1:], psi, "Sv")
        return float(np.sqrt(squared / size)), panel

    def twin(self) -> Twin:
        """A small form of the case, on 8 x 8 cells."""
        model = self.model(8)
        bump = model.state(eta=lambda x, y: np.sin(np.pi * x / L) * np.sin(np.pi * y / L))
        return Twin(model, bump, sw.RK4(1500.0))


def _marks(name):
    return (
        Mark(f"{name}_l2", "relative l2 error of u and v in the steady state", most=1e-2),
        Mark(f"{name}_order", "order of convergence", least=1.9),
    )


STOMMEL, MUNK = Gyre(2e-6), Gyre(1e-6, 4000.0)

Case(
    name="stommel",
    group="planar",
    title="Stommel's gyre",
    tests="wind, drag and beta in the steady state",
    source="Stommel (1948)",
    doi="10.1029/TR029i002p00202",
    equation="r laplacian(psi) + beta d psi/dx = - d tau_x/dy / rho,  psi = 0 on walls",
    measure=lambda resolutions: convergence("stommel", resolutions, STOMMEL.error),
    marks=_marks("stommel"),
    **SQUARES,
    norm="l2 of u and v, relative, in the steady state",
    twin=STOMMEL.twin,
)


# -- Munk's western boundary current ----------------------------------------------------------------------------------

SIZE, VISCOSITY = 2e6, 1000.0


def munk_transport() -> float:
    """max psi [m3 s-1] of Munk's solution for tau_x = -STRESS cos(2 pi y / SIZE), his equations 12 to 14."""
    k, r = (BETA / VISCOSITY) ** (1 / 3), SIZE
    x = np.linspace(0.0, r, 20001)
    amplitude = 2 / np.sqrt(3) - np.sqrt(3) / (k * r)
    western = amplitude * np.exp(-k * x / 2) * np.cos(np.sqrt(3) / 2 * k * x + np.sqrt(3) / (2 * k * r) - np.pi / 6)
    shape = 1.0 - western - (k * x - np.exp(-k * (r - x)) - 1.0) / (k * r)
    curl = 2 * np.pi / SIZE * STRESS / RHO
    return r / BETA * curl * shape.max()


def transport_error(n: int) -> float:
    """The transport of the western boundary current of a double gyre between no-slip walls over Munk's, less 1.

    A larger reduced gravity does not change the steady state, which is then reached sooner. A mean over some days
    filters out free waves.
    """
    model = sw.ShallowWater(
        sw.CartesianGrid(n, n, (0.0, SIZE), (0.0, SIZE)),
        1000.0,
        gravity=1.0,
        coriolis=sw.BetaPlane(7e-5, BETA),
        linear=True,
        forcing=sw.WindStress(x=lambda x, y: -STRESS * np.cos(2 * np.pi * y / SIZE) + 0.0 * x, density=RHO),
        dissipation=sw.Laplacian(VISCOSITY),
        side=sw.NoSlip(),
        communicator="serial",
    )
    dt = 250.0 * 128 / n
    simulation = sw.Simulation(model, model.at_rest(), sw.ForwardBackward(dt))
    simulation.run(until=70 * day)
    transports = []
    for _ in range(8):
        state = simulation.run(steps=round(1e5 / dt))
        transports.append(np.cumsum(1000.0 * np.asarray(state.v) * SIZE / n, axis=1))
    return float(np.abs(np.mean(transports, axis=0)).max() / munk_transport() - 1.0)


def _munk(resolutions: tuple) -> Outcome:
    found = convergence("munk", resolutions, MUNK.error)
    values = {**found.values, "munk_transport_error": transport_error(2 * resolutions[-2])}
    return dataclasses.replace(found, values=values)


Case(
    name="munk",
    group="planar",
    title="Munk's gyre",
    tests="viscosity at the western boundary",
    source="Munk (1950)",
    doi="10.1175/1520-0469(1950)007<0080:OTWDOC>2.0.CO;2",
    equation="A laplacian^2(psi) - r laplacian(psi) - beta d psi/dx = d tau_x/dy / rho,  psi = laplacian(psi) = 0 on "
    "walls; transport between no-slip walls: his equations 12 to 14",
    measure=_munk,
    marks=(
        *_marks("munk"),
        Mark("munk_transport_error", "transport of the western boundary current over Munk's, less 1", most=0.05),
    ),
    **SQUARES,
    norm="l2 of u and v, relative, in the steady state between free-slip walls with a weak drag",
    twin=MUNK.twin,
)


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
    grid = sw.CartesianGrid(n, n, (0.0, L), (0.0, L))
    return sw.ShallowWater(grid, H, gravity=G, coriolis=sw.BetaPlane(F0, BETA), communicator="serial")


def _start(model, t):
    return on_points(model, fields)


FOFONOFF = Flow(_model, _start, 10 * day, 0.6 * L / np.sqrt(G * H), "elevation after 10 days", 1500.0)

Case(
    name="fofonoff",
    group="planar",
    title="Fofonoff's free gyre",
    tests="nonlinear advection and rotation in balance, with inertial boundary layers",
    source="Fofonoff (1954)",
    equation="(f + zeta) / h = f_m / H + lambda psi,  g eta + (u^2 + v^2) / 2 = f_m psi / H + lambda psi^2 / 2",
    measure=lambda resolutions: convergence("fofonoff", resolutions, FOFONOFF.error),
    marks=(
        Mark("fofonoff_l2", "relative change in 10 days in the norm of energy", most=1e-2),
        Mark("fofonoff_order", "order of convergence of this change", least=1.9),
    ),
    resolutions=(32, 64, 128),
    quick=(24, 48),
    norm="energy, relative; the steady flow after 10 days against that at the start",
    twin=FOFONOFF.twin,
)


MITGCM_SIDE, CELLS, LINEAR_STEPS = 1.2e6, 60, 4  # [m]; in 4 steps the effect of advection stays below 2e-7

# After 1 to 10 steps: the largest and the smallest elevation and its standard deviation [m]; the largest and smallest
# u; the largest and smallest v [m s-1].
_ROWS = """
 4.210859552e-04 -4.210859552e-04  1.304403940e-04  2.093450661e-05 -2.093450661e-05  1.298042380e-05 -1.298042380e-05
 6.775838441e-04 -7.338194755e-04  2.539531468e-04  3.619084855e-05 -3.618696807e-05  3.466049813e-05 -3.464138399e-05
 7.654843668e-04 -8.881431003e-04  3.173595630e-04  4.729445067e-05 -4.729380770e-05  5.995213572e-05 -5.982773782e-05
 7.329460156e-04 -9.177506889e-04  3.215883516e-04  5.779656871e-05 -5.779222063e-05  8.513033068e-05 -8.477366275e-05
 6.460186334e-04 -8.851480878e-04  2.966694692e-04  6.998205540e-05 -6.996952935e-05  1.084357191e-04 -1.077287527e-04
 5.601707178e-04 -8.491188292e-04  2.727168699e-04  8.413515490e-05 -8.411052917e-05  1.298279194e-04 -1.286833796e-04
 5.032554637e-04 -8.417747388e-04  2.643627042e-04  9.937184016e-05 -9.936053676e-05  1.501775058e-04 -1.485314138e-04
 4.762815927e-04 -8.659502502e-04  2.712778172e-04  1.147125208e-04 -1.147111550e-04  1.704232846e-04 -1.682183321e-04
 4.657041622e-04 -9.077092967e-04  2.862618430e-04  1.296139102e-04 -1.296120854e-04  1.910907906e-04 -1.882648649e-04
 4.567673386e-04 -9.513142145e-04  3.023179903e-04  1.440161654e-04 -1.440169902e-04  2.122385760e-04 -2.087218197e-04
"""
PUBLISHED = np.array(_ROWS.split(), float).reshape(10, 7)


def gyre(coriolis_form: sw.EnergyConserving | sw.EnstrophyConserving, linear: bool = False) -> sw.ShallowWater:
    """The model of the basin; advection, where there is any, is energy-conserving."""
    wind = sw.WindStress(x=lambda x, y: -0.1 * np.cos(np.pi * y / MITGCM_SIDE) + 0.0 * x, density=1000.0)
    return sw.ShallowWater(
        sw.CartesianGrid(CELLS, CELLS, (0.0, MITGCM_SIDE), (0.0, MITGCM_SIDE)),
        5000.0,
        gravity=9.81,
        coriolis=sw.BetaPlane(1e-4, 1e-11),
        coriolis_form=coriolis_form,
        linear=linear,
        forcing=wind,
        dissipation=sw.Laplacian(400.0),
        side=sw.NoSlip(),
        communicator="serial",
    )


def _statistics(state: sw.State) -> list[float]:
    u, v, eta = (np.asarray(x, float) for x in (state.u, state.v, state.eta))
    return [eta.max(), eta.min(), eta.std(), u.max(), u.min(), v.max(), v.min()]


def differences(model: sw.ShallowWater, steps: int = len(PUBLISHED)) -> float:
    """The largest relative difference of any statistic after any of the first `steps` steps."""
    simulation = sw.Simulation(model, model.at_rest(), sw.SemiImplicit(1200.0, theta=1.0, epsilon=0.01))
    found = np.array([_statistics(simulation.run(steps=1)) for _ in range(steps)])
    return float(np.abs(found / PUBLISHED[:steps] - 1.0).max())


def _measure(resolutions: tuple) -> Outcome:
    values = {
        "mitgcm_gyre_nonlinear": differences(gyre(sw.EnstrophyConserving())),
        "mitgcm_gyre_linear": differences(gyre(sw.EnstrophyConserving(), linear=True), LINEAR_STEPS),
        "mitgcm_gyre_energy_form": differences(gyre(sw.EnergyConserving())),
    }
    return Outcome(values)


Case(
    name="mitgcm_gyre",
    group="planar",
    title="MITgcm's barotropic gyre",
    tests="the implicit surface, Adams-Bashforth, the Coriolis force, viscosity and no slip, against another model",
    source="MITgcm, tutorial_barotropic_gyre",
    equation="statistics of eta, u and v after each of 10 steps from rest, against MITgcm's published output",
    measure=_measure,
    marks=(
        Mark("mitgcm_gyre_nonlinear", "largest relative difference of any statistic in 10 steps", most=2e-7),
        Mark("mitgcm_gyre_linear", "the same without advection, in the first 4 steps", most=2e-7),
        Mark(
            "mitgcm_gyre_energy_form",
            "that in 10 steps with the energy-conserving form of the Coriolis force, which MITgcm does not use",
            least=1e-6,
        ),
    ),
)
