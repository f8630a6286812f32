"""Exact linear waves: an integrating factor in front of a Runge-Kutta scheme.

    dU/dt = L U + N(U),    U = exp(L t) W,    dW/dt = exp(-L t) N(exp(L t) W)

with W stepped by the classical scheme of fourth order (Cox & Matthews 2002, doi:10.1006/jcph.2002.6995). L holds the
inertia-gravity waves of a flat bottom of the mean depth, and hyperviscosity; N is what is left: advection, the
elevation's share of the thickness, f and H apart from their means, forcing and drag. L is diagonal in wavenumbers but
for the three fields of each, whose exponential is known (PseudoSpectral.carried): a linear wave is exact, whatever dt.
"""

from typing import Any

from .dynamics.series import scaled
from .pytrees import pytree
from .time_steppers import TimeStepper

__all__ = ["IntegratingFactorRK4"]


@pytree
class IntegratingFactorRK4(TimeStepper):
    """Four stages, fourth order, for a core with modes (PseudoSpectral); free of the limit of linear waves.

    From modes to modes, so that a step takes four times nine transforms, and six more at its ends. What is forced
    steadily, or balanced by N, is off by the order of (w dt)^4 for waves of the frequency w.

    Args:
        dt: [s].
    """

    dt: Any

    stages = 4
    order = 4
    exact_waves = True

    def step(self, equations, state, history, step):
        core = equations.core.modes()
        start = core.to_modes(state)

        def halfway(modes):
            return core.carried(equations, modes, 0.5 * self.dt)

        def slope(modes, at, known=None):
            rates = core.rates(equations, modes, step + at, known, waves=False)
            return [scaled(self.dt, x) for x in rates]

        a = slope(start, 0.0, state)
        middle, a = halfway(start), halfway(a)
        b = slope(_plus(middle, a, 0.5), 0.5)
        c = slope(_plus(middle, b, 0.5), 0.5)
        end, late = halfway(middle), halfway(c)
        d = slope(_plus(end, late), 1.0)
        total = _plus(halfway(_plus(a, b, 2.0)), late, 2.0)
        return core.to_tile(_plus(end, _plus(total, d), 1 / 6)), history


def _plus(modes, more, share=1.0):
    return [x + share * y for x, y in zip(modes, more)]
