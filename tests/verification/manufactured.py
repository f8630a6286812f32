"""A smooth manufactured solution of the nonlinear equations over a rough bottom, held in place by its sources.

python -m tests.verification.manufactured     prints how far both cores carry it away (docs/pseudo_spectral.md)
"""

import jax
import jax.numpy as jnp
import numpy as np

import swmodel as sw
from swmodel.parallel import SerialCommunicator
from swmodel.runtime.compilation import jit

L, H, G = 1.0e6, 1000.0, 9.81
DT, STEPS = 60.0, 10
run = jit(sw.integrate, static_argnums=3)


def smooth(walls=""):
    """u, v, eta and depth, functions of (x, y) whose series never end, even or odd about the walls there are."""
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


def rates(fields, f):
    """{name: function of (x, y)}: the tendencies of these fields, by automatic differentiation."""
    ddx = lambda q: lambda x, y: jax.jvp(lambda x: q(x, y), (x,), (jnp.ones_like(x),))[1]  # noqa: E731
    ddy = lambda q: lambda x, y: jax.jvp(lambda y: q(x, y), (y,), (jnp.ones_like(y),))[1]  # noqa: E731
    u, v, eta, depth = fields.values()
    head = lambda x, y: G * eta(x, y) + 0.5 * (u(x, y) ** 2 + v(x, y) ** 2)  # noqa: E731
    turning = lambda x, y: f + ddx(v)(x, y) - ddy(u)(x, y)  # noqa: E731
    h = lambda x, y: depth(x, y) + eta(x, y)  # noqa: E731
    return {
        "u": lambda x, y: turning(x, y) * v(x, y) - ddx(head)(x, y),
        "v": lambda x, y: -turning(x, y) * u(x, y) - ddy(head)(x, y),
        "eta": lambda x, y: -ddx(lambda x, y: h(x, y) * u(x, y))(x, y) - ddy(lambda x, y: h(x, y) * v(x, y))(x, y),
    }


class Source(sw.Term):
    """What keeps a manufactured solution as it is."""

    u: jax.Array = sw.parameter("u", "m s-2")
    v: jax.Array = sw.parameter("v", "m s-2")
    eta: jax.Array = sw.parameter("h", "m s-1")

    def __call__(self, flow, step):
        return self.u, self.v

    def continuity(self, flow, step):
        return self.eta


def drift(n, periodic, f, core):
    """How far ten steps, ten minutes, carry the solution away; of the largest value of each field."""
    grid = sw.CartesianGrid(n, n, (0.0, L), (0.0, L), periodic)
    fields = smooth([axis for axis in "xy" if axis not in periodic])
    points = {
        name: [jnp.broadcast_to(c, grid.shape) for c in grid.coordinates("h" if name == "eta" else name)]
        for name in ("u", "v", "eta")
    }
    exact = sw.State(*(fields[name](*at) for name, at in points.items()))
    source = Source(*(-rate(*points[name]) for name, rate in rates(fields, f).items()))
    model = sw.ShallowWater(
        grid, fields["depth"], coriolis=sw.FPlane(f), forcing=(source,), core=core, communicator=SerialCommunicator(),
        engine="arrays",
    )  # fmt: skip
    stepper = sw.RK4(DT)
    final, _ = run(model.dynamics(stepper), stepper, exact, STEPS)
    return max(float(jnp.abs(a - b).max() / jnp.abs(b).max()) for a, b in zip(*map(jax.tree.leaves, (final, exact))))


def main():
    jax.config.update("jax_enable_x64", True)
    print("| cells | finite differences | doubly periodic | channel | closed box |\n|---|---|---|---|---|")
    for n in (8, 12, 16, 24, 32, 48):
        row = [drift(n, "xy", 1e-4, sw.FiniteDifferences())]
        row += [drift(n, sides, 1e-4 if sides == "xy" else 0.0, sw.PseudoSpectral()) for sides in ("xy", "x", "")]
        print(f"| {n}² | " + " | ".join(f"{value:.1e}" for value in row) + " |", flush=True)


if __name__ == "__main__":
    main()
