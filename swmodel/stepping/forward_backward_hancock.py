"""The stepper of one stage for MomentumConserving: forward-backward in waves, and Hancock's predictor in advection.

    eta' = eta - dt div(F)(eta_half, u),     V' u' = V u - dt [ sum of Q u_side(u_half) + g V' ddx(eta') ]

conserving.py has the discrete form. In a wave at rest with c k = w and a level that decays at the rate d, a step
multiplies (eta, u) by a matrix with the determinant 1 - d dt and the trace 2 - d dt - (w dt)^2. It is stable while

    (w dt)^2 + 2 d dt <= 4

On a C-grid w^2 = 4 c^2 (1/dx^2 + 1/dy^2) for the shortest wave, and the damping of MomentumConserving is
d = 2 damping c (1/dx + 1/dy) for it. With s = c dt sqrt(1/dx^2 + 1/dy^2), and (1/dx + 1/dy) at most sqrt(2) times the
root, this is s^2 + sqrt(2) damping s <= 1. So s is at most 0.52 with damping = 1, 0.71 with 0.5 and 1 without damping.
"""

from typing import Any

import numpy as np

from ..fields.pytrees import pytree
from ..fields.state import State
from .explicit import TimeStepper, time_step

__all__ = ["ForwardBackwardHancock"]

ROTATION = 0.1  # the largest f dt: an inertial oscillation then grows by (f dt)^4 / 8, about 1e-5, in a step


@pytree
class ForwardBackwardHancock(TimeStepper):
    """One stage for MomentumConserving: a third of the cost of SSPRK3 in a step, of which it needs 1.7 times as many.

    Waves and advection are of second order, apart from an offset: the level is that of half a step earlier than the
    velocity. Rates of terms, tracers and friction are of first order in time.

    Args:
        dt: [s].
    """

    dt: Any = time_step()

    references = "Mesinger and Arakawa (1976), GARP 17; van Leer (1984), doi:10.1137/0905001"
    order = 1
    conserves_momentum = True
    needs_momentum_form = True

    def stable_interval(self, axis: str) -> float:
        return {"wave": self.wave_interval(0.0), "imaginary": ROTATION, "carried": 1.0, "real": 2.0}[axis]

    def wave_interval(self, damping: float) -> float:
        return float(np.sqrt(2.0 * damping**2 + 4.0) - np.sqrt(2.0) * damping)

    def step(self, equations: Any, state: State, history: Any, time: Any) -> tuple[State, Any]:
        return equations.forward_backward(state, self.dt, time), history
