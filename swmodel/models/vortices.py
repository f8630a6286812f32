"""A random flow in geostrophic balance: vortices of about one size, an initial state for turbulence.

    psi = sum over k of a(k) exp(i k x) / |k|,   a random, of the size exp(-((|k| - k0) / (k0 / 4))^2 / 2)
    u = - ddy psi,   v = ddx psi,   eta = f psi / g,   k0 = 2 pi / length

The noise of a point depends on the seed and the point alone, so that the flow is the same on any number of ranks, and
for any core. Along walls psi is constant, so that nothing flows through them.
"""

from typing import cast

import jax
import jax.numpy as jnp
import numpy as np

from ..dynamics.spectral.series import Series, scaled
from ..errors import ConfigError
from ..fields.state import State
from ..grids.grid import CartesianGrid
from .random_fields import white_noise
from .shallow_water import ShallowWater

__all__ = ["random_vortices"]


def random_vortices(model: ShallowWater, speed: float, length: float, seed: int = 0) -> State:
    """A State of random vortices in geostrophic balance with the elevation.

    Args:
        model: a ShallowWater on a CartesianGrid; land stays at rest.
        speed: root mean square of the velocity [m s-1].
        length: the central wavelength of their spectrum [m].
        seed: a whole number; each seed gives another flow.

    Raises:
        ConfigError: on the sphere, or for a wavelength that the grid does not hold.
    """
    grid = model.grid
    _check(grid, length)
    series = Series.on(cast(CartesianGrid, grid), model.communicator, 2 / 3)
    f = 0.0 if model.coriolis is None else model.coriolis.at(grid, np.arange(grid.ny) - 0.5)
    per_g = model.scatter(np.broadcast_to(f / model.gravity, grid.shape))
    made = jax.jit(model.communicator.spmd(lambda *tiles: _balanced(series, length, speed, *tiles)))
    masks = [model.scatter(mask) for mask in map(model.sea_floor.mask, "uvh")]
    flow = made(white_noise(seed, series.plan("q"), model.dtype), per_g, *masks)
    whole = model.state(u=flow.u, v=flow.v, eta=flow.eta)  # with tracers, and what open sides remember of the flow
    if model.core.halos:
        return whole
    return whole.replace(u=flow.u, v=flow.v, eta=flow.eta)  # which a spectral core has rounded once more


def _balanced(series, length, speed, noise, per_g, *masks):
    held = series.modes(noise.dtype)
    k, k0 = jnp.sqrt(jnp.where(held.squared > 0, held.squared, 1.0)), 2 * np.pi / length
    size = jnp.where(held.squared > 0, jnp.exp(-0.5 * ((k - k0) / (0.25 * k0)) ** 2) / k, 0.0)
    (psi,) = held.forward((noise, "q", True))
    psi = scaled(size, psi)
    u, v, psi = held.inverse((-held.ddy(psi, "q"), "u", False), (held.ddx(psi, "q"), "v", False), (psi, "q", True))
    u, v, psi = (x * mask for x, mask in zip((u, v, psi), masks))
    communicator, count = series.communicator, np.prod(series.shape).item()
    square = communicator.replicated(communicator.sum(jnp.sum(u * u + v * v))) / count
    scale = speed / jnp.sqrt(square)
    return State(scale * u, scale * v, scale * per_g * psi)


def _check(grid, length):
    if grid.spherical:
        raise ConfigError(
            "random_vortices: they are made of waves on a plane, and the grid is spherical; use another state."
        )
    sides = grid.y[1] - grid.y[0], grid.x[1] - grid.x[0]
    shortest, longest = 3 * max(side / n for side, n in zip(sides, grid.shape)), max(sides)
    if shortest > longest:
        raise ConfigError(f"random_vortices: {grid.nx} x {grid.ny} cells hold no wave; give 4 or more each way.")
    if not shortest <= length <= longest:
        raise ConfigError(
            f"random_vortices: a wavelength of {length:g} m does not fit the grid; give {shortest:g} m (three cells) "
            f"to {longest:g} m (its longer side)."
        )
