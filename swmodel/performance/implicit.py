"""Implicit steps for timings: how many iterations an equation takes, and steps that always take so many.

The first rank of many that runs alone has wrong numbers (cases.OneOfMany), with which conjugate gradients would take
any number of iterations. It is therefore timed with the number that the whole grid, or a coarser one, needs.
"""

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp

from ..elliptic.base import Plan, Report, Solver
from ..elliptic.operator import Coefficients, Stencil
from ..fields.pytrees import replace
from ..fields.state import State
from ..models.shallow_water import ShallowWater
from ..stepping.explicit import TimeStepper
from ..stepping.loop import pack_state, scan_steps, step_loop, unpack_state

__all__ = ["iterations_of", "solver_of", "with_rounds"]

TRIED = 4  # steps whose iterations are counted


@dataclasses.dataclass(frozen=True)
class Counted(Solver):
    """Another solver, that reports its iterations as the residual of an equation which it did not solve."""

    of: Any

    def plan(self, domain: Any, coefficients: Coefficients) -> Plan:
        return self.of.plan(domain, coefficients)

    def prepare(self, domain: Any, coefficients: Coefficients, stencil: Stencil) -> object:
        return self.of.prepare(domain, coefficients, stencil)

    def invert(self, plan: Plan, r: jax.Array) -> tuple[jax.Array, Report]:
        return self.of.invert(plan, r)

    def solve_and_report(self, plan: Plan, b: jax.Array) -> tuple[jax.Array, Report]:
        phi, report = self.of.solve_and_report(plan, b)
        return phi, Report(report.iterations, report.iterations.astype(phi.dtype), jnp.zeros((), bool))


def solver_of(model: ShallowWater, stepper: TimeStepper) -> Any:
    """The elliptic.Solver of an implicit stepper for a model: its own, or the one that it chooses."""
    found = []

    def look(dynamics, stepper):
        found.append(stepper.prepare(stepper.system(dynamics)).surface.solver)
        return jnp.zeros(())

    scheme: Any = stepper
    jax.eval_shape(model.communicator.spmd(look), model.interval(model.halo(stepper), 0, scheme.dt), stepper)
    return found[0]


def iterations_of(model: ShallowWater, state: State, stepper: TimeStepper) -> int:
    """The most iterations that a step from `state` takes; 0 of a solver that is direct.

    Water at rest with nothing to move it takes none, and gets waves of one wavelength along each direction.
    """
    if not stepper.has_solver:
        return 0
    scheme: Any = replace(stepper, solver=Counted(solver_of(model, stepper)))
    dynamics = model.interval(model.halo(scheme), 0, scheme.dt)

    def steps(dynamics, stepper, carry):
        return scan_steps(step_loop(dynamics, stepper), carry, TRIED)

    for start in (state, _with_waves(state)):
        carry = pack_state(dynamics, scheme, (start, scheme.history(start)))
        carry = jax.jit(model.communicator.spmd(steps))(dynamics, scheme, carry)
        _, history = unpack_state(dynamics, scheme, carry)
        if (count := int(history.residual)) > 0:
            return count
    return 0


def with_rounds(model: ShallowWater, stepper: TimeStepper, iterations: int) -> TimeStepper:
    """The stepper with a solver that takes so many iterations, whatever its equation; unchanged without iterations."""
    if not iterations:
        return stepper
    return replace(stepper, solver=solver_of(model, stepper).with_iterations(iterations))


def _with_waves(state):
    rows, columns = (jnp.arange(n) / n for n in state.eta.shape[-2:])
    wave = jnp.cos(2 * jnp.pi * rows)[:, None] * jnp.cos(2 * jnp.pi * columns)[None, :]
    return state.replace(eta=state.eta + 0.01 * wave.astype(state.eta.dtype))
