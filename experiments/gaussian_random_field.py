"""A 3-D Gaussian random field, its gravitational potential, and the gradient of a statistic with respect to the noise.

As particle-mesh codes of cosmology need it: a density contrast delta of spectrum k^n exp(-k^2 L^2)
is filtered white noise; its potential fulfils laplacian(phi) = delta. The summary statistic is the skewness
of delta after some growth of second order, 5/7 delta^2 and 2/7 of the source of second-order Lagrangian perturbation
theory, sum phi_aa phi_bb - phi_ab^2 (Bouchet et al. 1995, arXiv:astro-ph/9406013). Its gradient with respect to the
noise of every cell is one reverse pass through all transforms. On a pencil mesh of as many ranks as you like:

    mpirun -n 4 python experiments/gaussian_random_field.py 64 --layout 2x2
"""

import argparse

from swmodel.runtime import launch

launch.configure_process("float64")

import jax  # noqa: E402
import jax.numpy as jnp  # noqa: E402

from swmodel.models.random_fields import filtered, white_noise  # noqa: E402
from swmodel.parallel import fft, make_communicator  # noqa: E402


def layout(text):
    """(ranks along z, along y) of "2x2"."""
    along_z, along_y = map(int, text.split("x"))
    return along_z, along_y


about = argparse.ArgumentParser(description="Skewness of a Gaussian random field that has grown, and its gradient.")
about.add_argument("cells", nargs="?", type=int, default=64, help="along an edge; 64")
about.add_argument("--layout", metavar="PZxPY", type=layout, help="ranks along z and y, as 2x2 for pencils")
options = about.parse_args()
if options.cells < 4:
    about.error(f"{options.cells} cells hold no waves; give 4 or more.")

N, LAYOUT = options.cells, options.layout
BOX, LENGTH, INDEX = 100.0, 4.0, -1.0  # edge [Mpc], smoothing length [Mpc], slope of the spectrum
SPACING = (BOX / N,) * 3

communicator = make_communicator("auto", (N, N), LAYOUT)  # z over "y" of the mesh, y over its "x": pencils along x
plan = fft.Plan(communicator, (N, N, N))


def density(noise):
    """delta: the root of the spectrum times the noise's modes; no mean."""

    def root(k2):
        return jnp.where(k2 > 0, jnp.where(k2 > 0, k2, 1.0) ** (INDEX / 4), 0.0) * jnp.exp(-k2 * LENGTH**2 / 2)

    return filtered(plan, noise, root, SPACING)


def potential_modes(delta):
    """-delta / k^2."""
    k2, modes = plan.waves(SPACING).squared, plan.forward(delta)
    return modes * jnp.where(k2 > 0, -1.0 / jnp.where(k2 > 0, k2, 1.0), 0.0).astype(modes.dtype)


def second_order(delta):
    """The sum over pairs of axes of phi_aa phi_bb - phi_ab^2."""
    modes, k = potential_modes(delta), plan.waves(SPACING).k
    bent = {(a, b): plan.inverse(-modes * (k[a] * k[b]).astype(modes.dtype)) for a in range(3) for b in range(a, 3)}
    return sum(bent[a, a] * bent[b, b] - bent[a, b] ** 2 for a in range(3) for b in range(a + 1, 3))


def skewness(noise):
    """<d^3> / <d^2>^(3/2) over all cells of all ranks, of what delta, scaled to unit variance, has become."""
    delta = density(noise)
    delta = delta / communicator.replicated(jnp.sqrt(mean(delta**2)))  # a number that all ranks hold meets tile arrays
    evolved = delta + 5 / 7 * delta**2 + 2 / 7 * second_order(delta)
    evolved = evolved - communicator.replicated(mean(evolved))
    return mean(evolved**3) / mean(evolved**2) ** 1.5


def mean(x):
    """Of all cells, on every rank."""
    return communicator.sum(jnp.sum(x)) / N**3


def study(noise, direction):
    """The potential, the statistic, its gradient, and its slope along a direction, forwards and by the gradient."""
    gradient = jax.grad(skewness)(noise)
    value, slope = jax.jvp(skewness, (noise,), (direction,))
    potential = plan.inverse(potential_modes(density(noise)))
    return potential, value, gradient, slope, communicator.sum(jnp.sum(gradient * direction))


def main():
    noise, direction = white_noise(1, plan), white_noise(2, plan)
    potential, value, gradient, slope, by_gradient = jax.jit(communicator.spmd(study))(noise, direction)
    largest = communicator.host_maximum(max(float(abs(x).max()) for x in communicator.tiles(gradient).values()))
    deepest = -communicator.host_maximum(max(float(-x.min()) for x in communicator.tiles(potential).values()))
    if communicator.is_root:
        print(f"{N}^3 cells on {communicator.layout[0]} x {communicator.layout[1]} ranks")
        print(f"deepest potential        {deepest:.12g}")
        print(f"skewness                 {float(value):.12f}")
        print(f"largest gradient         {largest:.12g} per unit of noise in a cell")
        print(f"slope along a direction  {float(slope):.12g} forwards, {float(by_gradient):.12g} by the gradient")


if __name__ == "__main__":
    main()
