"""Steady wind-driven gyres: Stommel (1948) and Munk (1950), linear, over a flat bottom, against exact solutions.

The transport (U, V) = (-d psi/dy, d psi/dx) of a steady state has no divergence. The curl of the momentum equation is

    beta d psi/dx = - d tau_x/dy / rho - r laplacian(psi) + A laplacian^2(psi),   tau_x = - T cos(pi y / L)

With psi = sin(pi y / L) phi(x) this is an equation with constant coefficients in x. It is of order 2 for Stommel's
gyre, and of order 4 for Munk's gyre between free-slip walls, where phi = phi'' = 0. The exact solution is a sum of
exponentials.
"""

import dataclasses
import functools

import numpy as np

from ...dynamics.dissipation import Laplacian, LinearDrag, NoSlip
from ...dynamics.forcing import WindStress
from ...dynamics.momentum import BetaPlane
from ...grids.grid import CartesianGrid
from ...models.shallow_water import ShallowWater
from ...simulation.simulation import Simulation
from ...stepping.explicit import RK4
from ...stepping.forward_backward import ForwardBackward
from ...units import day
from ..case import Case, Mark, Outcome, Panel, Twin, convergence, run_until

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

    def model(self, n: int) -> ShallowWater:
        """The model on n x n cells. Its waves are slow (30 m/s), which does not change the steady state."""
        friction = (LinearDrag(self.drag), *((Laplacian(self.viscosity),) if self.viscosity else ()))
        wind = WindStress(x=lambda x, y: -STRESS * np.cos(np.pi * y / L) + 0.0 * x, density=RHO)
        return ShallowWater(
            CartesianGrid(n, n, (0.0, L), (0.0, L)),
            H,
            gravity=G,
            coriolis=BetaPlane(5e-5, BETA),
            linear=True,
            forcing=wind,
            dissipation=friction,
            communicator="serial",
        )

    def error(self, n: int) -> tuple[float, Panel]:
        """The error of (u, v) in the steady state, and a map of its streamfunction."""
        model, dt = self.model(n), 0.7 * L / n / np.sqrt(G * H)
        final = run_until(model, RK4, model.at_rest(), 18.0 / self.drag, dt)
        found, grid = (np.asarray(final.u), np.asarray(final.v)), model.grid
        exact = [self.velocity(*grid.coordinates(at))[k] for k, at in enumerate("uv")]
        squared = sum(np.sum((a - b)[:-1, :-1] ** 2) for a, b in zip(found, exact))
        size = sum(np.sum(b[:-1, :-1] ** 2) for b in exact)
        psi = np.cumsum(H * found[1] * L / n, axis=1) / SV
        panel = Panel(
            "streamfunction", "map", psi, grid.x_edges[1:] / 1e3, grid.y_edges[1:] / 1e3, ("x [km]", "y [km]"), "Sv"
        )
        return float(np.sqrt(squared / size)), panel

    def twin(self) -> Twin:
        """A small form of the case, on 8 x 8 cells."""
        model = self.model(8)
        bump = model.state(eta=lambda x, y: np.sin(np.pi * x / L) * np.sin(np.pi * y / L))
        return Twin(model, RK4(1500.0), bump)


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
    resolutions=(32, 64, 128),
    quick=(16, 32),
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
    model = ShallowWater(
        CartesianGrid(n, n, (0.0, SIZE), (0.0, SIZE)),
        1000.0,
        gravity=1.0,
        coriolis=BetaPlane(7e-5, BETA),
        linear=True,
        forcing=WindStress(x=lambda x, y: -STRESS * np.cos(2 * np.pi * y / SIZE) + 0.0 * x, density=RHO),
        dissipation=Laplacian(VISCOSITY),
        side=NoSlip(),
        communicator="serial",
    )
    dt = 250.0 * 128 / n
    simulation = Simulation(model, model.at_rest(), ForwardBackward(dt))
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
    resolutions=(32, 64, 128),
    quick=(16, 32),
    norm="l2 of u and v, relative, in the steady state between free-slip walls with a weak drag",
    twin=MUNK.twin,
)
