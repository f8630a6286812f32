"""Exact linear waves: an integrating factor in front of a Runge-Kutta scheme.

    dU/dt = L U + N(U),    U = exp(L t) W,    dW/dt = exp(-L t) N(exp(L t) W)

with W stepped by the classical scheme of fourth order (Cox & Matthews 2002, doi:10.1006/jcph.2002.6995). L holds the
inertia-gravity waves of a flat bottom of the mean depth, and hyperviscosity; N is what is left: advection, the
elevation's share of the thickness, f and H apart from their means, forcing and drag. L is diagonal in wavenumbers but
for the three fields of each, whose exponential is known (PseudoSpectral.propagator): linear waves are exact.
"""

from typing import Any

import jax
import jax.numpy as jnp

from ..dynamics.spectral.series import scaled
from ..fields.pytrees import pytree
from ..fields.state import State
from .explicit import RK4, TimeStepper, time_step

__all__ = ["IntegratingFactorRK4"]


@pytree
class IntegratingFactorRK4(TimeStepper):
    """Four stages, fourth order, for a core with modes (PseudoSpectral); free of the limit of linear waves.

    Stages go from modes to modes: a step takes four times nine transforms, and six more at its ends. What is forced
    steadily, or balanced by N, is off by the order of (w dt)^4 for waves of the frequency w.

    Args:
        dt: [s].
    """

    dt: Any = time_step()

    stages = 4
    order = 4
    exact_waves = True
    amplification = RK4.amplification
    needs_modes = True
    references = "Cox and Matthews (2002), doi:10.1006/jcph.2002.6995"

    def prepare(self, equations: Any) -> Any:
        return IntegratingFactorStep(self.dt, equations.core.modes().propagator(equations, 0.5 * self.dt))

    def step(self, equations: Any, state: Any, history: Any, time: Any) -> tuple[State, Any]:
        return self.prepare(equations).step(equations, state, history, time)


@pytree
class IntegratingFactorStep:
    """IntegratingFactorRK4 with its factors, made once for all steps.

    Attributes:
        dt: [s].
        halfway: the propagator of half a step.
    """

    dt: Any
    halfway: Any

    def step(self, equations: Any, state: Any, history: Any, time: Any) -> tuple[State, Any]:
        """Two halves of two stages; what a half begins with is carried to its end, and so is its first slope."""
        core = equations.core.modes()

        def slope(modes, at):
            return [scaled(self.dt, x) for x in core.rates(equations, modes, time + at, waves=False)]

        def half(carry, weights):
            base, total, now = carry
            early, first, reach, late, second, onward = weights
            move = [core.carried(equations, x, self.halfway) for x in (base, total, slope(now, early))]
            base, total, change = move
            total = _plus(total, change, first)
            change = slope(_plus(base, change, reach), late)
            return (base, _plus(total, change, second), _plus(base, change, onward)), None

        start = core.to_modes(state)
        table = [[0.0, 1.0, 0.5, 0.5, 2.0, 0.5], [0.5, 2.0, 1.0, 1.0, 1.0, 0.0]]
        carry = start, [jnp.zeros_like(x) for x in start], start
        (base, total, _), _ = jax.lax.scan(half, carry, jnp.asarray(table, state.eta.dtype))
        return core.to_tile(_plus(base, total, 1 / 6)), history


def _plus(modes, more, share):
    return [x + scaled(share, y) for x, y in zip(modes, more)]
