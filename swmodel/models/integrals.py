"""Volume, energy and potential enstrophy of a State, summed over the whole grid as the discrete equations keep them."""

import functools
from collections.abc import Callable

import jax
import jax.numpy as jnp

from ..defaults import WATER_DENSITY
from ..diagnostics import derived
from ..dynamics.layer import LayerFlow
from ..dynamics.system import System
from ..fields.parameters import Part, check_arguments
from ..fields.state import State
from ..runtime.compilation import jit
from .shallow_water import ShallowWater

_RULES = {
    "model": Part(("interval", "check_state"), "ShallowWater(grid, depth)"),
    "state": Part(("names", "map"), "model.at_rest()"),
}
HALO = 2  # cells: potential vorticity at the corners of all cells needs two


def volume(model: ShallowWater, state: State) -> float:
    """The volume of the water above rest, sum of area (eta - b) over all wet cells [m3]; collective.

    b is the height of land that may be flooded, and 0 elsewhere. It is constant in a domain without open sides.
    """
    return _total(model, state, derived.volume)


def energy(model: ShallowWater, state: State, density: float = WATER_DENSITY) -> float:
    """The energy, density times the sum of area (h K + g (eta^2 - b^2) / 2) over all wet cells [J]; collective.

    b is the height of land that may be flooded, and 0 elsewhere: water at rest and dry land above it have no energy. K
    is the mean of u^2 / 2 and v^2 / 2 at a cell's faces, with which the energy-conserving form keeps this sum
    (Sadourny 1975, doi:10.1175/1520-0469(1975)032<0680:TDOFDM>2.0.CO;2).
    """
    return density * _total(model, state, derived.energy)


def potential_enstrophy(model: ShallowWater, state: State) -> float:
    """The potential enstrophy, sum of area h q^2 / 2 over all corners, with q = (f + zeta) / h [m s-2]; collective."""
    return _total(model, state, derived.potential_enstrophy)


def _total(model, state, function):
    check_arguments(function.__name__, _RULES, {"model": model, "state": state})
    model.check_state(function.__name__, state)
    return float(_program(function)(model.interval(HALO, 0, 1.0), state))


@functools.cache
def _program(function: Callable[[LayerFlow], jax.Array]) -> Callable[..., jax.Array]:
    @jit
    def program(dynamics: System, state: State) -> jax.Array:
        sums = dynamics.communicator.spmd(lambda d, s: function(d.prepare().flow(s, jnp.zeros((), s.eta.dtype))))
        return sums(dynamics, state)

    return program
