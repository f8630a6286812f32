"""A smooth manufactured solution of the nonlinear equations over a rough bottom, kept steady by its sources.

python -m swmodel.verification.planar.manufactured     prints the drift with both cores (docs/pseudo_spectral.md)
"""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ...dynamics.clock import Time
from ...dynamics.cores import Discretisation, FiniteDifferences
from ...dynamics.layer import LayerFlow
from ...dynamics.momentum import FPlane
from ...dynamics.pseudo_spectral import PseudoSpectral
from ...dynamics.terms import Term
from ...fields.field import Value
from ...fields.parameters import parameter
from ...fields.state import State
from ...grids.grid import CartesianGrid
from ...models.shallow_water import ShallowWater
from ...parallel import SerialCommunicator
from ...runtime.compilation import jit
from ...stepping.explicit import RK4
from ...stepping.loop import integrate
from ..case import Case, Panel, Twin, convergence, energy_norm, run_until
from .waves import BISHNU, wave_marks

L, H, G = 1.0e6, 1000.0, 9.81
DT, STEPS = 60.0, 10
run = jit(integrate, static_argnums=3)


def smooth(walls: str = "") -> dict[str, Callable]:
    """u, v, eta and depth: functions of (x, y) with infinite Fourier series, even or odd about the walls."""
    kx, ky = ((1 if axis in walls else 2) * np.pi / L for axis in "xy")
    size = 1.0 if walls else 0.5

    def wave(a, b):
        a, b = (0.0 if axis in walls else phase for axis, phase in zip("xy", (a, b)))
        return lambda x, y: jnp.exp(size * (jnp.cos(kx * x - a) + jnp.cos(ky * y - b)))

    def odd(axis, x, k):
        return jnp.sin(k * x) if axis in walls else 1.0

    u, v, eta, depth = wave(0.3, 1.1), wave(2.0, 0.7), wave(1.5, 2.5), wave(0.9, 0.2)
    return {
        "u": lambda x, y: 2.0 * odd("x", x, kx) * u(x, y),
        "v": lambda x, y: -3.0 * odd("y", y, ky) * v(x, y),
        "eta": lambda x, y: 20.0 * eta(x, y),
        "depth": lambda x, y: H + 100.0 * depth(x, y),
    }


def rates(fields: dict[str, Callable], f: float) -> dict[str, Callable]:
    """{name: function of (x, y)}: the tendencies of these fields, by automatic differentiation."""
    ddx = lambda q: lambda x, y: jax.jvp(lambda x: q(x, y), (x,), (jnp.ones_like(x),))[1]  # noqa: E731
    ddy = lambda q: lambda x, y: jax.jvp(lambda y: q(x, y), (y,), (jnp.ones_like(y),))[1]  # noqa: E731
    u, v, eta, depth = fields.values()
    head = lambda x, y: G * eta(x, y) + 0.5 * (u(x, y) ** 2 + v(x, y) ** 2)  # noqa: E731
    absolute_vorticity = lambda x, y: f + ddx(v)(x, y) - ddy(u)(x, y)  # noqa: E731
    h = lambda x, y: depth(x, y) + eta(x, y)  # noqa: E731
    return {
        "u": lambda x, y: absolute_vorticity(x, y) * v(x, y) - ddx(head)(x, y),
        "v": lambda x, y: -absolute_vorticity(x, y) * u(x, y) - ddy(head)(x, y),
        "eta": lambda x, y: -ddx(lambda x, y: h(x, y) * u(x, y))(x, y) - ddy(lambda x, y: h(x, y) * v(x, y))(x, y),
    }


class Source(Term):
    """The sources that keep a manufactured solution steady."""

    u: jax.Array = parameter("u", "m s-2")
    v: jax.Array = parameter("v", "m s-2")
    eta: jax.Array = parameter("h", "m s-1")

    def __call__(self, flow: LayerFlow, time: Time) -> tuple:
        return self.u, self.v

    def continuity(self, flow: LayerFlow, time: Time) -> Value:
        return self.eta


def steady_model(n: int, periodic: str, f: float, core: Discretisation, **options: Any) -> tuple[ShallowWater, State]:
    """(the model with the sources, the State that they keep steady)."""
    grid = CartesianGrid(n, n, (0.0, L), (0.0, L), periodic)
    fields = smooth("".join(axis for axis in "xy" if axis not in periodic))
    points = {
        name: [jnp.broadcast_to(c, grid.shape) for c in grid.coordinates("h" if name == "eta" else name)]
        for name in ("u", "v", "eta")
    }
    exact = State(*(fields[name](*at) for name, at in points.items()))
    source = Source(*(-rate(*points[name]) for name, rate in rates(fields, f).items()))
    model = ShallowWater(
        grid,
        fields["depth"],
        coriolis=FPlane(f),
        forcing=(source,),
        core=core,
        communicator=SerialCommunicator(),
        **options,
    )
    return model, exact


def drift(n: int, periodic: str, f: float, core: Discretisation) -> float:
    """The change of the solution in ten steps, which are ten minutes, relative to the largest value of each field."""
    model, exact = steady_model(n, periodic, f, core, engine="arrays")
    stepper = RK4(DT)
    final, _ = run(model.dynamics(stepper), stepper, exact, STEPS)
    return max(float(jnp.abs(a - b).max() / jnp.abs(b).max()) for a, b in zip(*map(jax.tree.leaves, (final, exact))))


def _error(n):
    """The error after an hour and a half, in which a wave crosses half of the square, and a map."""
    model, exact = steady_model(n, "xy", 1e-4, FiniteDifferences())
    final = run_until(model, RK4, exact, 0.5 * L / np.sqrt(G * H), 0.4 * L / n / np.sqrt(1.3 * G * H))
    x, y = model.grid.x_centres / 1e3, model.grid.y_centres / 1e3
    panel = Panel("elevation", "map", np.asarray(final.eta), x, y, ("x [km]", "y [km]"), "m")
    return energy_norm(model, final, exact), panel


def _twin():
    model, exact = steady_model(8, "xy", 1e-4, FiniteDifferences())
    return Twin(model, RK4(300.0), exact)


Case(
    name="manufactured",
    group="planar",
    title="Manufactured nonlinear solution",
    tests="every term of the nonlinear equations, over a variable depth",
    **BISHNU,
    equation="u, v, eta and H of the form a exp(b [cos(2 pi x / L - p) + cos(2 pi y / L - q)]); sources keep them "
    "steady",
    measure=lambda resolutions: convergence("manufactured", resolutions, _error),
    marks=wave_marks("manufactured", 5e-3, 5e-3),
    resolutions=(32, 64, 128),
    quick=(16, 32),
    norm="energy, relative, when a wave has crossed half of the square",
    twin=_twin,
)


def main() -> None:
    jax.config.update("jax_enable_x64", True)
    print("| cells | finite differences | doubly periodic | channel | closed box |\n|---|---|---|---|---|")
    for n in (8, 12, 16, 24, 32, 48):
        row = [drift(n, "xy", 1e-4, FiniteDifferences())]
        row += [drift(n, sides, 1e-4 if sides == "xy" else 0.0, PseudoSpectral()) for sides in ("xy", "x", "")]
        print(f"| {n}² | " + " | ".join(f"{value:.1e}" for value in row) + " |", flush=True)


if __name__ == "__main__":
    main()
