"""Generalised forward-backward, AB3-AM4: Shchepetkin & McWilliams (2005), doi:10.1016/j.ocemod.2004.08.002."""

from typing import TYPE_CHECKING, Any

import jax.numpy as jnp
import numpy as np

from ..dynamics.clock import Time
from ..fields.pytrees import pytree
from ..fields.state import State, like
from .amplification import largest_root
from .explicit import Past, TimeStepper, time_step
from .steps import History

if TYPE_CHECKING:
    from ..dynamics.system import System

__all__ = ["ForwardBackward"]


@pytree
class ForwardBackward(TimeStepper):
    """Generalised forward-backward (AB3-AM4): twice AB2's time step for the price of one exchange.

    The continuity equation, Coriolis force and advection are evaluated with states extrapolated to the middle of the
    step. The pressure gradient is that of a mean elevation, which contains the new one:

        x_{n+1/2} = (3/2 + b) x_n - (1/2 + 2 b) x_{n-1} + b x_{n-2}
        eta_p     = d eta_{n+1} + (1 - d - c - e) eta_n + c eta_{n-1} + e eta_{n-2}

    with the weights of the paper's section 2.3: b = 0.281105, c = 0.088, d = 0.614, e = 0.013. eta_{n+1} is computed
    one cell beyond the tile, so that a step needs one exchange. Open boundary conditions read eta_n, which lies half
    a cell inside and half a step before the new velocity: where an outgoing wave was at that time. With the
    extrapolated elevation they would halve the stable time step.

    Args:
        dt: [s].
    """

    dt: Any = time_step()

    references = "Shchepetkin and McWilliams (2005), doi:10.1016/j.ocemod.2004.08.002"
    order = 2
    needs_parts = True
    history_kind = "states"
    states_kept = 3
    buffer_cycle = 3

    def amplification(self, z: complex | np.ndarray) -> np.ndarray:
        b = 0.281105
        return largest_root([1, -1 - (1.5 + b) * z, (0.5 + 2 * b) * z, -b * z])

    def wave_amplification(self, angle: float | np.ndarray) -> np.ndarray:
        b, c, d, e = 0.281105, 0.088, 0.614, 0.013
        # (G - 1) eta = -i a E u and (G - 1) u = -i a P eta, with E and P polynomials in 1/G; times G^6.
        extrapolate = np.array([0, 1.5 + b, -0.5 - 2 * b, b])
        pressure = np.array([d, 1 - d - c - e, c, e])
        wave = [1.0, -2.0, 1.0, 0.0, 0.0, 0.0, 0.0]
        return largest_root([a + angle**2 * c for a, c in zip(wave, np.convolve(extrapolate, pressure))])

    def history(self, state: State) -> History:
        return Past.empty(state, 2)

    def step(self, equations: "System", state: State, history: Past, time: Time) -> tuple[State, Past]:
        extrapolate, pressure = self._weights(history.count)
        past, at = (state, *history.values), time + 0.5
        held = {name: state[name] for name in equations.constant_names}
        middle = state.map(lambda *x: _weighted(extrapolate, x), *history.values).replace(**held)
        names = [eta for *_, eta in equations.names_of_layers]
        known = [_weighted(pressure[1:], [s[name] for s in past]) for name in names]
        begun = [state[name] for name in names]
        flow = equations.flow(middle, at, known, outside=begun, newest=(extrapolate[0], state))
        rates = equations.level_rates(flow, at)
        eta = {name: old + self.dt * rates[name] for name, old in zip(names, flow.outside)}
        levels = [pressure[0].astype(x.dtype) * new + x for new, x in zip(eta.values(), flow.more)]
        flow.level = levels[0]
        rates = {**equations.accelerations(flow, levels, at), **equations.transported(flow, at)}
        changes = {name: self.dt * rate for name, rate in rates.items() if name not in held}
        new = like(state, flow.state.replace(**eta, **changes)).replace(**held)
        return new.replace(**{name: state[name] + new[name] for name in changes}), history.push(state)

    @staticmethod
    def _weights(count):
        """(for the middle, for the pressure), chosen by how many earlier states there are."""
        b, c, d, e = 0.281105, 0.088, 0.614, 0.013
        middle = jnp.array([[1.0, 0.0, 0.0], [1.5, -0.5, 0.0], [1.5 + b, -0.5 - 2 * b, b]])
        pressure = jnp.array([[1.0, 0.0, 0.0, 0.0], [1.0, 0.0, 0.0, 0.0], [d, 1 - d - c - e, c, e]])
        return middle[count], pressure[count]


def _weighted(weights, arrays):
    return sum(weight.astype(x.dtype) * x for weight, x in zip(weights, arrays))
