"""Generalised forward-backward, AB3-AM4: Shchepetkin & McWilliams (2005), doi:10.1016/j.ocemod.2004.08.002.

The stepper of one stage for MomentumConserving: forward-backward in waves, and Hancock's predictor in advection.

    eta' = eta - dt div(F)(eta_half, u_half)
    V' u' = V u - dt [ sum of Q u_side(u_half) + g (V ddx(eta) + V' ddx(eta')) / 2 ] + ...

conserving.py has the discrete form. In linear waves this is the forward-backward scheme (Mesinger and Arakawa 1976)
with u at the time of eta, known as the scheme of Stoermer and Verlet. The level of a wave of
frequency w decays at the rate d. A step multiplies (eta, u) by a matrix with the determinant 1 - d dt and the trace
2 - d dt - (w dt)^2. It is stable while

    (w dt)^2 + 2 d dt <= 4

On a C-grid w^2 = 4 c^2 (1/dx^2 + 1/dy^2) for the shortest wave, and the damping of MomentumConserving is
d = 2 damping c (1/dx + 1/dy) for it. With s = c dt sqrt(1/dx^2 + 1/dy^2), and (1/dx + 1/dy) at most sqrt(2) times the
root, this is s^2 + sqrt(2) damping s <= 1. So s is at most 0.52 with damping = 1, 0.71 with 0.5 and 1 without damping.
"""

from typing import TYPE_CHECKING, Any

import jax.numpy as jnp
import numpy as np

from ..dynamics.clock import Time
from ..dynamics.conserving import ShoreSystem
from ..fields.state import State, like, pytree
from .explicit import Past, TimeStepper, time_step
from .stability import largest_root
from .steps import History

if TYPE_CHECKING:
    from ..dynamics.system import System


__all__ = ["ForwardBackward", "ForwardBackwardHancock"]

WEIGHTS = 0.281105, 0.088, 0.614, 0.013  # b, c, d, e of ForwardBackward


@pytree
class ForwardBackward(TimeStepper):
    """Generalised forward-backward (AB3-AM4): twice AB2's time step for the price of one exchange.

    The continuity equation, Coriolis force and advection are evaluated with states extrapolated to the middle of the
    step. The pressure gradient is that of a mean elevation, which contains the new one:

        x_{n+1/2} = (3/2 + b) x_n - (1/2 + 2 b) x_{n-1} + b x_{n-2}
        eta_p     = d eta_{n+1} + (1 - d - c - e) eta_n + c eta_{n-1} + e eta_{n-2}

    with the weights of the paper's section 2.3, WEIGHTS. eta_{n+1} is computed one cell beyond the tile, so that a step
    needs one exchange. Open boundary conditions read eta_n, which lies half a cell inside and half a step before the
    new velocity: where an outgoing wave was at that time. With the extrapolated elevation they would halve the stable
    time step.

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
        b, *_ = WEIGHTS
        return largest_root([1, -1 - (1.5 + b) * z, (0.5 + 2 * b) * z, -b * z])

    def wave_amplification(self, angle: float | np.ndarray) -> np.ndarray:
        b, c, d, e = WEIGHTS
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
        held, now = {name: state[name] for name in equations.constant_names}, state.only(history.values[0].names)
        middle = state.replace(**dict(now.map(lambda *x: _weighted(extrapolate, x), *history.values))).replace(**held)
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
        return new.replace(**{name: state[name] + new[name] for name in changes}), history.push(now)

    @staticmethod
    def _weights(count):
        """(for the middle, for the pressure), chosen by how many earlier states there are."""
        b, c, d, e = WEIGHTS
        middle = jnp.array([[1.0, 0.0, 0.0], [1.5, -0.5, 0.0], [1.5 + b, -0.5 - 2 * b, b]])
        pressure = jnp.array([[1.0, 0.0, 0.0, 0.0], [1.0, 0.0, 0.0, 0.0], [d, 1 - d - c - e, c, e]])
        return middle[count], pressure[count]


def _weighted(weights, arrays):
    return sum(weight.astype(x.dtype) * x for weight, x in zip(weights, arrays))


ROTATION = 0.1  # the largest f dt: an inertial oscillation then grows by (f dt)^4 / 8, about 1e-5, in a step


@pytree
class ForwardBackwardHancock(TimeStepper):
    """One stage for MomentumConserving. A step costs 0.4 of one of SSPRK3; its longest is 0.6 of that.

    It is of second order in waves, currents and rotation. Of first order in time are the terms, such as wind and
    friction, the damping of the level, what open sides give, and tracers in flow across the axes.

    Args:
        dt: [s].
    """

    dt: Any = time_step()

    references = "Mesinger and Arakawa (1976), GARP 17; van Leer (1984), doi:10.1137/0905001"
    order = 2
    conserves_momentum = True
    needs_momentum_form = True

    def stable_interval(self, axis: str) -> float:
        return {"wave": self.wave_interval(0.0), "imaginary": ROTATION, "carried": 1.0, "real": 2.0}[axis]

    def wave_interval(self, damping: float) -> float:
        return float(np.sqrt(2.0 * damping**2 + 4.0) - np.sqrt(2.0) * damping)

    def step(self, equations: ShoreSystem, state: State, history: History, time: Time) -> tuple[State, History]:
        return equations.forward_backward(state, self.dt, time), history
