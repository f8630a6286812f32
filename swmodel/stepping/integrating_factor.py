"""Exact linear waves: an integrating factor in front of a Runge-Kutta scheme.

    dU/dt = L U + N(U),    U = exp(L t) W,    dW/dt = exp(-L t) N(exp(L t) W)

with W stepped by the classical scheme of fourth order (Cox & Matthews 2002, doi:10.1006/jcph.2002.6995). L contains the
inertia-gravity waves over a flat bottom of the mean depth, and hyperviscosity. N contains the rest: advection, the
elevation's share of the thickness, the deviations of f and H from their means, forcing and drag. For each wavenumber L
is a 3 x 3 matrix of u, v and eta, whose exponential is known (PseudoSpectral.propagator). So linear waves are exact.
"""

from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp

from ..dynamics.clock import Time
from ..dynamics.series import scaled
from ..fields.state import State, pytree
from .explicit import RK4, TimeStepper, time_step
from .steps import History

if TYPE_CHECKING:
    from ..dynamics.system import System

__all__ = ["IntegratingFactorRK4"]


@pytree
class IntegratingFactorRK4(TimeStepper):
    """Four stages, fourth order, for a core with modes (PseudoSpectral); free of the limit of linear waves.

    Stages are computed in modes: a step takes four times nine transforms, and six more at its ends. A steady state that
    forcing or N balances has an error of the order of (w dt)^4, with w the frequency of its waves.

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

    def prepare(self, equations: "System") -> "IntegratingFactorStep":
        return IntegratingFactorStep(self.dt, equations.core.modes().propagator(equations, 0.5 * self.dt))

    def step(self, equations: "System", state: State, history: History, time: Time) -> tuple[State, History]:
        return self.prepare(equations).step(equations, state, history, time)


@pytree
class IntegratingFactorStep:
    """IntegratingFactorRK4 with its factors, which are computed once for all steps.

    Attributes:
        dt: [s].
        halfway: the propagator of half a step.
    """

    dt: Any
    halfway: Any

    def step(self, equations: "System", state: State, history: History, time: Time) -> tuple[State, History]:
        """Two halves of two stages. The propagator carries the state and the first slope of a half to its end."""
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
