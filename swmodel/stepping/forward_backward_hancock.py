"""The stepper of one stage for MomentumConserving: forward-backward in waves, and Hancock's predictor in advection.

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

from typing import Any

import numpy as np

from ..dynamics.clock import Time
from ..dynamics.conserving import ShoreSystem
from ..fields.pytrees import pytree
from ..fields.state import State
from .explicit import TimeStepper, time_step
from .steps import History

__all__ = ["ForwardBackwardHancock"]

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
