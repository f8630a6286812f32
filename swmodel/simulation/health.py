"""Health: the first step at which a run was invalid: not finite, a column too thin, or over the CFL limit."""

import functools
import operator
from collections.abc import Callable
from typing import Any, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np

from ..defaults import LEAST_THICKNESS
from ..dynamics.system import System
from ..fields.state import State, pytree, static
from ..fields.variables import in_layer
from ..models.ensemble import Ensemble
from ..models.shallow_water import ShallowWater

HEALTH_INTERVAL = 20  # steps between two checks, each of which takes a fifth of a step or less


Assessment: TypeAlias = tuple[jax.Array, ...]
"""The arrays of Health.start."""
GetState: TypeAlias = Callable[[], State]
GetUplift: TypeAlias = Callable[[], jax.Array | None]


@pytree
class Health:
    """A check of the state every HEALTH_INTERVAL steps, at snapshots, and at the end of a chunk of steps.

    So every state is checked before it is written.

    Attributes:
        dt_per_dx, dt_per_dy: dt over the sides of the cells at u and v [s m-1].
        linear: whether the model is linear.
        least: the smallest thickness with which a run continues [m].
        also: the state is also checked at multiples of these numbers of steps.
    """

    dt_per_dx: Any
    dt_per_dy: Any
    linear: bool = static()
    least: float = static(default=LEAST_THICKNESS)
    also: tuple[int, ...] = static(default=())

    @staticmethod
    def of(model: ShallowWater | Ensemble, dt: float, also: tuple[int, ...] = ()) -> "Health":
        """The Health of a model's tiles for steps of `dt` [s]."""

        def make(rank):
            box = model.decomposition.box(rank)
            metrics = model.grid.metrics(np.arange(box.j0, box.j1))
            share = model.core.zonal_share(model.grid.y_centres[box.j0 : box.j1, None])
            per_x, per_y = (dt / np.maximum(metrics[name], 1e-30) for name in ("dx_u", "dy_v"))
            per_x, per_y = (np.asarray(x, model.dtype) for x in (per_x * share, per_y))
            return Health(per_x, per_y, model.linear, model.least_thickness, also)

        return model.communicator.place(make)

    def _is_due(self, step):
        return functools.reduce(operator.or_, [step % n == 0 for n in (HEALTH_INTERVAL, *self.also)])

    @staticmethod
    def start() -> Assessment:
        """(first invalid step or -1, flat index of layer and cell, h [m] and CFL number there), each of shape (1,)."""
        return jnp.full(1, -1, jnp.int32), jnp.zeros(1, jnp.int32), jnp.zeros(1), jnp.zeros(1)

    def update(
        self, carry: Assessment, get_state: GetState, dynamics: System, uplift: GetUplift, step: jax.Array
    ) -> Assessment:
        """The arrays of `start` after a check, if one is due, of the State `get_state()` over the uplift `uplift()`."""
        return jax.lax.cond(
            self._is_due(step), lambda: self.assess(carry, get_state, dynamics, uplift, step), lambda: carry
        )

    def finish(
        self, carry: Assessment, get_state: GetState, dynamics: System, uplift: GetUplift, step: jax.Array
    ) -> Assessment:
        """The arrays of `start` after a check at the end of a chunk, unless `update` has checked this step."""
        return jax.lax.cond(
            self._is_due(step), lambda: carry, lambda: self.assess(carry, get_state, dynamics, uplift, step)
        )

    def assess(
        self, carry: Assessment, get_state: GetState, dynamics: System, uplift: GetUplift, step: jax.Array
    ) -> Assessment:
        """The arrays of `start` after a check of the State; the first invalid step is kept.

        Args:
            carry: the arrays so far.
            get_state: returns the State. It is called a second time to locate an invalid cell, because an array that is
                passed to that branch would be copied in each check.
            dynamics: the System on tiles, of which H at rest is 0 on land that is never wet.
            uplift: returns the rise of the sea floor [m], or None.
            step: the number of the step.
        """

        def cell_values():
            state, rise = get_state(), uplift()
            layers, count = dynamics.layers, dynamics.layer_count
            bottom = dynamics.depth - (0.0 if rise is None else rise)
            u, v, eta = ([state[in_layer(name, k)] for k in range(count)] for name in ("u", "v", "eta"))
            heights, excess = ([bottom], eta) if layers is None else (layers.rest(bottom), layers.excess(eta))
            thickness = [jnp.where(dynamics.depth != 0, a + b, jnp.inf) for a, b in zip(heights, excess)]
            courant = [jnp.abs(a) * self.dt_per_dx + jnp.abs(b) * self.dt_per_dy for a, b in zip(u, v)]
            finite = [jnp.isfinite(sum((state[name] for name in state.others), x + state.eta)) for x in courant]
            joined = (x[0] if count == 1 else jnp.stack(x) for x in (finite, thickness, courant))
            valid, thickness, courant = joined
            if not self.linear:  # a linear model's amplitudes are arbitrary
                valid = valid & (thickness >= self.least) & (courant <= 1.0)
            return valid, thickness, courant

        def is_valid():  # XLA vectorises sums along columns and shares them among threads, but not logical operations
            valid, _, courant = cell_values()
            return jnp.all(jnp.sum(jnp.where(valid, 0.0, 1.0).astype(courant.dtype), axis=-2) == 0.0)

        def diagnosis():
            valid, thickness, courant = cell_values()
            place = jnp.argmin(valid.reshape(-1))[None].astype(jnp.int32)
            values = (x.reshape(-1)[place].astype(old.dtype) for x, old in zip((thickness, courant), carry[2:]))
            return jnp.full_like(carry[0], step), place, *values

        # The cell is located only in an invalid state, since that takes ten times as long as the check.
        return jax.lax.cond(~is_valid() & (carry[0][0] < 0), diagnosis, lambda: carry)
