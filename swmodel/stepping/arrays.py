"""One time step, and the step loop on arrays, in which XLA fuses the operations."""

import functools
from typing import TYPE_CHECKING, Any, cast

import jax
import jax.numpy as jnp

from ..dynamics.clock import Time
from ..dynamics.replicated import mark_numbers
from ..dynamics.waters import with_waters
from ..fields.field import AbstractField, Count, Field
from ..fields.operators import pointwise
from ..fields.state import State, each_state, fields_of
from ..parallel.halo import exchange, without_open_faces, without_padding
from .base import Carry, History, Monitor, StepLoop, Tree, no_monitor

if TYPE_CHECKING:
    from ..dynamics.system import System
    from .explicit import TimeStepper

__all__ = ["one_step", "ArrayStepLoop"]


def one_step(
    equations: "System", stepper: "TimeStepper", state: State, history: History, step: Count
) -> tuple[State, History]:
    """(state, history) after step number `step` of the model.

    The rise of the sea floor during the step is added to the surface at its end, a splitting of first order in dt
    (sources/bottom_motion.py). Then comes the water of rain, rivers and the like (dynamics/waters.py).
    """
    dtype = state.eta.dtype
    time = Time(jnp.asarray(step, jnp.int32), jnp.zeros((), dtype), jnp.asarray(stepper.dt, dtype), equations.dt)
    state, history = stepper.step(equations, equations.renewed(state, time), history, time)
    state = equations.core.finished(equations, state)
    if equations.uplift is not None:
        rise = equations.uplift_during(time)
        eta = state.eta + (rise if isinstance(state.eta, AbstractField) else cast(Field, rise).interior)
        if equations.wetting is not None:  # rounded, a dry bed may rise by more than its depth falls
            bed = -(equations.depth_at(time + 1.0) * equations.geometry.wet)  # 0 on land that never falls under water
            eta = pointwise(jnp.maximum, eta, bed) if isinstance(eta, AbstractField) else jnp.maximum(eta, bed.interior)
        state = state.replace(eta=eta)
    return with_waters(equations, state, time), history


class ArrayStepLoop(StepLoop):
    """The step loop on tile arrays; its carry is (state, history).

    Where the halo is several times as wide as one stage needs, as many stages share one exchange.

    Args:
        dynamics: a System.
        stepper: a TimeStepper.
        prepared: False skips the preparation that only `steps` needs.
    """

    name = "arrays"

    @classmethod
    def obstacle(cls, dynamics: "System", stepper: "TimeStepper") -> str | None:
        return None

    def __init__(self, dynamics: "System", stepper: "TimeStepper", prepared: bool = True):
        self.sides = dynamics.tile.sides
        if not prepared:
            return
        self.equations = dynamics.prepare()
        self.stepper = mark_numbers(stepper, dynamics.communicator).prepare(self.equations)
        shared = 1 if stepper.is_implicit else dynamics.tile.halo // (self.equations.reach * stepper.stages)
        self.period = shared or 1
        self.wide = dynamics.tile.halo >= 2 * self.equations.reach

    def pack_state(self, state: State, history: History) -> Carry:
        """The carry; what `state` has on open faces is dropped, since it is no part of a State."""
        own = state.map(lambda x, position: without_open_faces(x, position, self.sides), state.positions)
        return own, history

    def unpack_state(self, carry: Carry) -> tuple[State, History]:
        return carry

    def get_state(self, carry: Carry) -> State:
        return carry[0]

    def steps(
        self, carry: Carry, first: Count, count: int, monitor: Monitor = no_monitor, monitored: Tree = ()
    ) -> tuple[Carry, Any]:
        if self.period == 1:
            for k in range(count):
                state, history = self._widened(carry)
                carry = self._own(one_step(self.equations, self.stepper, state, history, first + k))
                monitored = monitor(first + k, functools.partial(self.get_state, carry), monitored)
            return carry, monitored

        def body(k, carries):
            (state, history), monitored = carries
            new = one_step(self.equations, self.stepper, state, history, first + k)
            get_state = functools.partial(self._own, new[0])
            return each_state(self._filled_up, new), monitor(first + k, get_state, monitored)

        # If this loop were unrolled, XLA would recompute each step for every neighbour that the next step reads.
        carry, monitored = jax.lax.fori_loop(0, count, body, (self._widened(carry), monitored))
        return self._own(carry), monitored

    def _widened(self, carry: Carry) -> Carry:
        """All States of a carry as Fields with the whole halo filled, by one exchange.

        The carry is unchanged where a single stage uses up the halo.
        """
        if not self.wide:
            return carry
        tile = self.equations.geometry.tile
        arrays = fields_of(carry)
        wide = iter(exchange(arrays, tile.halo, tile.sides, self.equations.communicator))
        return each_state(lambda s: s.map(lambda _, at: Field(next(wide), at, (tile.halo,) * 4), s.positions), carry)

    def _filled_up(self, state):
        """A State of Fields padded with zeros to the full halo, which a step has used up. No later step reads them."""
        halo = self.equations.geometry.tile.halo

        def fill(field):
            west, east, south, north = (halo - n for n in field.halo)
            return Field(jnp.pad(field.data, ((south, north), (west, east))), field.position, (halo,) * 4)

        return state.map(fill)

    def _own(self, tree):
        """States as arrays of the tile's own cells; padding is zero, so that sums leave it out."""
        sides = self.equations.geometry.tile.sides

        def own(x):
            return without_padding(x.interior if isinstance(x, Field) else x, sides)

        return each_state(lambda state: state.map(own), tree)
