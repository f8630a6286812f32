"""Volume, energy and potential enstrophy of a State, summed over the whole grid as the discrete equations keep them."""

import functools
from collections.abc import Callable

import jax
import jax.numpy as jnp

from ..defaults import WATER_DENSITY
from ..diagnostics import derived
from ..dynamics.clock import Time
from ..dynamics.layer import LayerFlow
from ..dynamics.system import System
from ..errors import ConfigError
from ..fields.parameters import Number, Part, check_arguments
from ..fields.state import State
from ..runtime.compilation import jit
from .shallow_water import ShallowWater

_RULES = {
    "model": Part(("interval", "check_state"), "ShallowWater(grid, depth)"),
    "state": Part(("names", "map"), "model.at_rest()"),
    "time": Number(None, "s", minimum=0.0, optional=True),
}
HALO = 2  # cells: potential vorticity at the corners of all cells needs two


def volume(model: ShallowWater, state: State, time: float | None = None) -> float:
    """The volume of the water above rest, sum of area (eta - b) over all wet cells [m3]; collective.

    b is the height of land that may be flooded, and 0 elsewhere. It is constant in a domain without open sides whose
    sea floor does not move.

    Args:
        model: a ShallowWater.
        state: its State.
        time: of the state [s], which a model needs whose sea floor moves.

    Raises:
        ConfigError: without a time where the sea floor moves.
    """
    return _total(model, state, time, derived.volume)


def energy(model: ShallowWater, state: State, density: float = WATER_DENSITY, time: float | None = None) -> float:
    """The energy, density times the sum of area (h K + g (eta^2 - b^2) / 2) over all wet cells [J]; collective.

    b is the height of land that may be flooded, and 0 elsewhere: water at rest and dry land above it have no energy. K
    is the mean of u^2 / 2 and v^2 / 2 at a cell's faces, with which the energy-conserving form keeps this sum
    (Sadourny 1975, doi:10.1175/1520-0469(1975)032<0680:TDOFDM>2.0.CO;2). Arguments and errors are those of `volume`.
    """
    return density * _total(model, state, time, derived.energy)


def potential_enstrophy(model: ShallowWater, state: State, time: float | None = None) -> float:
    """The potential enstrophy, sum of area h q^2 / 2 over all cells, with q = (f + zeta) / h [m s-2]; collective.

    q^2 is the mean of the four corners of a cell, so that each corner counts with the water around it, those on coasts
    and walls, too. Without coasts the forms that promise it keep this sum; at coasts, where the slip sets zeta, no form
    does. Arguments and errors are those of `volume`.
    """
    return _total(model, state, time, derived.potential_enstrophy)


def _total(model, state, time, function):
    name = function.__name__
    check_arguments(name, _RULES, {"model": model, "state": state, "time": time})
    model.check_state(name, state)
    if time is None and model.uplift is not None:
        raise ConfigError(f"{name}: the sea floor of this model moves; give the time of the state, as simulation.time.")
    step, dt = (1, float(time)) if time else (0, 1.0)
    return float(_program(function)(model.interval(HALO, step, dt), state, jnp.int32(step)))


@functools.cache
def _program(function: Callable[[LayerFlow], jax.Array]) -> Callable[..., jax.Array]:
    @jit
    def program(dynamics: System, state: State, step: jax.Array) -> jax.Array:
        sums = dynamics.communicator.spmd(lambda d, s, n: function(d.prepare().flow(s, Time(n))))
        return sums(dynamics, state, step)

    return program
