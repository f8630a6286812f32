"""An elliptic solver of your own, registered by its name: Chebyshev's semi-iteration, without global sums.

A solver has two methods. `prepare` is called once for an equation; `invert` solves A x = r on this rank's tile.
The base class provides derivatives, null spaces and areas. An installed package needs no call of `register`: its
solver is an entry point of the group "swmodel.elliptic".

Golub & Varga 1961, doi:10.1007/BF01386013.
"""

import dataclasses

from swmodel.runtime import launch

launch.configure_process("float64")

import jax.numpy as jnp  # noqa: E402
import numpy as np  # noqa: E402
from jax import lax  # noqa: E402

import swmodel as sw  # noqa: E402
from swmodel import elliptic  # noqa: E402
from swmodel.parallel import make_communicator  # noqa: E402


@dataclasses.dataclass(frozen=True)
class Chebyshev(elliptic.Solver):
    """Jacobi sweeps with Chebyshev's weights, for eigenvalues of D^-1 (-A) between `lowest` and 2."""

    lowest: float = 0.02
    sweeps: int = 150

    def prepare(self, domain, coefficients, stencil):
        return jnp.where(stencil.area > 0, 1.0 / jnp.where(stencil.diagonal > 0, stencil.diagonal, 1.0), 0.0)

    def invert(self, plan, r):
        centre, radius = (2.0 + self.lowest) / 2, (2.0 - self.lowest) / 2

        def sweep(_, loop):
            x, step, rho = loop
            residual = plan.prepared * (plan.stencil.apply_in_loop(x) - r)
            following = 1.0 / (2.0 * centre / radius - rho)
            step = following * rho * step + 2.0 * following / radius * residual
            return x + step, step, following

        first = -plan.prepared * r / centre
        x, _, _ = lax.fori_loop(0, self.sweeps, sweep, (first, first, radius / centre))
        return x, elliptic.Report(jnp.asarray(self.sweeps), jnp.zeros((), r.dtype), jnp.ones((), bool))


elliptic.register("chebyshev", Chebyshev)


def main():
    grid = sw.CartesianGrid(96, 64, (0.0, 96.0), (0.0, 64.0))
    communicator = make_communicator("auto", grid.shape)
    x, y = grid.coordinates("h")
    wet = np.hypot(x - 40.0, y - 30.0) > 8.0  # an island
    parts = communicator.decomposition(grid.shape)
    b = communicator.place(lambda rank: parts.cut(np.where(wet, np.sin(x / 9) * np.cos(y / 7), 0.0), rank))
    domain, coefficients = elliptic.Domain.of(grid, communicator, wet), elliptic.Coefficients(5.0, 1.0)
    found = {}
    for solver in (elliptic.named("chebyshev"), elliptic.named("conjugate_gradients", tolerance=1e-12)):
        phi, report = elliptic.solve(solver, domain, coefficients, b)
        found[type(solver).__name__] = communicator.gather_to_root(phi, grid.shape)
        if communicator.is_root:
            print(f"{type(solver).__name__:20s} {int(report.iterations):4d} iterations")
    if communicator.is_root:
        one, other = found.values()
        print(f"they differ by {np.abs(one - other).max() / np.abs(other).max():.1e}")


if __name__ == "__main__":
    main()
