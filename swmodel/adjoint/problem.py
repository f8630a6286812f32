"""A cost as a function of controls: its value, gradient, tangent and Hessian products.

A cost is a frozen dataclass pytree (pytrees.pytree), `place`d where it holds tile arrays, with

    read(state, equations) -> (n,)      this tile's share of what is read of the state after each step: the sum over ranks is what
                                        is read. `equations` are dynamics.shallow_water.Equations: their fields have halos
                                        (equations.depth.interior, equations.geometry.area_h, ...). None: nothing is read.
    start() -> acc                      a pytree of float arrays that every rank holds
    update(acc, readings, first_step)   acc after (count, n) more readings, the same on every rank; row k is of the state
                                        `first_step + k` steps after step 0 of the model's clock. The initial state is not read.
    final(state, equations) -> shares   optional: this tile's share (a number or vector) of a term of the last state
    value(acc, final) -> J              a number; `final` is the sum of the shares over ranks, or None

all differentiable. `FinalState(function)` is a user's own function of the last state.
"""
import dataclasses
import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ..compilation import jit
from ..integration import ArrayMarch
from ..pytrees import pytree, static
from .controls import controls_of, masks_of, tidy
from .schedules import StoreAll

__all__ = ["Problem", "FinalState", "dot"]


@pytree
class FinalState:
    """A function of the last state.

    Args:
        function: `function(state, equations) -> share`, this tile's share, a number, of the cost; sums over `state`'s own
            cells: ranks are added up.
    """

    function: Any = static()

    read = None

    def start(self):
        return ()

    def update(self, acc, readings, first_step):
        return acc

    def final(self, state, equations):
        return self.function(state, equations)

    def value(self, acc, final):
        return final


def dot(a, b, communicator):
    """The inner product of two dicts of controls over all ranks; what every rank holds counts once."""
    total = distributed = 0.0
    for x, y in zip(jax.tree.leaves(a), jax.tree.leaves(b)):
        if np.ndim(x) >= 2:
            distributed += float(np.sum(np.asarray(x, float) * np.asarray(y, float)))
        else:
            total += float(np.sum(np.asarray(x, float) * np.asarray(y, float)))
    return total + float(communicator.host_sum(np.asarray(distributed)))


class Problem:
    """A cost of a run of `steps` steps as a function of controls.

    `values`, gradients and directions are dicts {name: value}: tile arrays for what is distributed, whole numpy arrays on
    every rank for what is replicated, {record: value} for time records.

    Args:
        model: a ShallowWater.
        stepper: a TimeStepper.
        state: the State to start from.
        steps: how many.
        cost: see the module's docstring.
        controls: names of controls (controls.py), and Transformed.
        first_step: number of the step at which the state is.
        checkpoints: StoreAll(), Nested(...), Revolve(...) or Tiered(...).
    """

    def __init__(self, model, stepper, state, steps, cost, controls, first_step=0, checkpoints=StoreAll()):
        self.model, self.state, self.steps, self.cost = model, state, int(steps), cost
        self.communicator, self.first_step, self.checkpoints = model.communicator, int(first_step), checkpoints
        self.dt = float(stepper.dt)
        self.stepper = self.communicator.place(lambda rank: jax.tree.map(lambda x: np.asarray(x, model.dtype), stepper))
        self.controls = controls_of(model, controls)
        self.halo = model.halo(self.stepper)
        self.masks = masks_of(model)
        self.dynamics = model.dynamics(self.halo, self.first_step, self.dt)

    @property
    def values(self):
        """The controls as they are now."""
        return {c.name: self._leave(c.get(self.dynamics, self.state), c) for c in self.controls}

    def value(self, values=None):
        """The cost."""
        return self.value_and_gradient(values)[0]

    def value_and_gradient(self, values=None):
        """(J, {name: dJ/dvalue}); distributed entries tile by tile, replicated ones whole on every rank."""
        given = self._enter(self.values if values is None else values)
        J, gradient = self._gradient(self.dynamics, self.stepper, self.state, self.cost, self.masks, given)
        return float(next(iter(self.communicator.tiles(J).values()))), {
            c.name: self._leave(gradient[c.name], c) for c in self.controls
        }

    def _enter(self, values):
        return {k: jnp.asarray(v, self.model.dtype) for k, v in values.items()}

    def _leave(self, x, control):
        return x if control.distributed else np.asarray(next(iter(self.communicator.tiles(x).values())))

    @functools.cached_property
    def _gradient(self):
        def run(dynamics, stepper, state, cost, masks, values):
            return jax.value_and_grad(functools.partial(self._cost, dynamics, stepper, state, cost, masks))(values)

        return jit(self.communicator.spmd(run))

    def _cost(self, dynamics, stepper, state, cost, masks, values):
        sides = dynamics.tile.sides
        for control in self.controls:
            value = values[control.name]
            value = tidy(control, value, sides) if control.distributed else self.communicator.replicated(value)
            if control.of_state:
                value = value * masks[control.position]
            dynamics, state = control.put(dynamics, state, value)
        way = ArrayMarch(dynamics, stepper)

        def body(carry, k):
            watch = (lambda step, see, seen: seen) if cost.read is None else (lambda step, see, seen: cost.read(see(), way.arrays))
            return way.steps(carry, k, 1, watch, jnp.zeros(0))

        carry = way.start(state, stepper.history(state))
        carry, shares = jax.lax.scan(body, carry, jnp.arange(self.steps, dtype=jnp.int32))
        acc = cost.start()
        if cost.read is not None:
            acc = cost.update(acc, self.communicator.sum(shares), jnp.int32(self.first_step + 1))
        final = None
        if getattr(cost, "final", None) is not None:
            final = self.communicator.sum(cost.final(way.state(carry), way.arrays))
        return cost.value(acc, final)
