"""One time step, and the plain way of making many: on arrays, whose fusion is left to XLA.

A march has a carry (state and history, as it likes to keep them): `start` makes it, `steps` takes it some steps
further, `state` and `history` look into it. `kernels.FusedEngine` is the other march.
"""

import functools

import jax
import jax.numpy as jnp

from ..dynamics.clock import Time
from ..dynamics.replicated import numbers_entered
from ..fields.field import AbstractField, Field
from ..fields.state import each_state, fields_of
from ..parallel.halo import exchange, without_padding

__all__ = ["one_step", "unwatched", "ArrayMarch"]


def one_step(equations, stepper, state, history, step):
    """(state, history) after step number `step` of the model.

    The rise of the sea floor during the step is added to the surface at its end, a splitting of first order in dt (see
    BottomMotion).
    """
    dtype = state.eta.dtype
    time = Time(jnp.asarray(step, jnp.int32), jnp.zeros((), dtype), jnp.asarray(stepper.dt, dtype), equations.dt)
    state, history = stepper.step(equations, state, history, time)
    state = equations.core.finished(equations, state)
    if equations.uplift is not None:
        rise = equations.uplift_during(time)
        state = state.replace(eta=state.eta + (rise if isinstance(state.eta, AbstractField) else rise.interior))
    return state, history


def unwatched(step, see, seen):
    return seen


class ArrayMarch:
    """Steps on tile arrays. Where the halo is k times what a stage needs, k stages go without a message.

    Args:
        dynamics: a Dynamics.
        stepper: a TimeStepper.
        prepared: False leaves out what `steps` needs.

    Attributes:
        period: steps that `steps` should take at once.
    """

    def __init__(self, dynamics, stepper, prepared=True):
        if not prepared:
            return
        self.arrays = dynamics.prepare()
        self.stepper = numbers_entered(stepper, dynamics.communicator).prepare(self.arrays)
        ahead = 1 if stepper.solves else dynamics.tile.halo // (self.arrays.reach * stepper.stages)
        self.period = ahead or 1
        self.wide = dynamics.tile.halo >= 2 * self.arrays.reach

    def start(self, state, history):
        return state, history

    def steps(self, carry, first, count, watch=unwatched, seen=()):
        """`count` steps from number `first` of the model on,
        and what `watch(step, see, seen)` made of the State `see()` after each."""
        if self.period == 1:
            for k in range(count):
                carry = self._own(one_step(self.arrays, self.stepper, *self._widened(carry), first + k))
                seen = watch(first + k, functools.partial(self.state, carry), seen)
            return carry, seen

        def body(k, both):
            carry, seen = both
            new = one_step(self.arrays, self.stepper, *carry, first + k)
            return each_state(self._filled_up, new), watch(first + k, functools.partial(self._own, new[0]), seen)

        # A loop, with Fields of one size, or XLA would compute each step again for every neighbour of the next one.
        carry, seen = jax.lax.fori_loop(0, count, body, (self._widened(carry), seen))
        return self._own(carry), seen

    def state(self, carry):
        return carry[0]

    def history(self, carry):
        return carry[1]

    def _widened(self, carry):
        """All States of a carry as Fields with all the halo there is, from one exchange;
        unchanged if one stage needs it."""
        if not self.wide:
            return carry
        tile = self.arrays.geometry.tile
        arrays = fields_of(carry)
        wide = iter(exchange(arrays, tile.halo, tile.sides, self.arrays.communicator))
        return each_state(lambda s: s.map(lambda _, at: Field(next(wide), at, (tile.halo,) * 4), s.positions), carry)

    def _filled_up(self, state):
        """A State of Fields with zeros for the halo that a step used up;
        each step makes them wider, and none reads them."""
        halo = self.arrays.geometry.tile.halo

        def fill(field):
            west, east, south, north = (halo - n for n in field.halo)
            return Field(jnp.pad(field.data, ((south, north), (west, east))), field.position, (halo,) * 4)

        return state.map(fill)

    def _own(self, tree):
        """States as those of the tile's own cells, arrays; padding is zero, so that sums leave it out."""
        sides = self.arrays.geometry.tile.sides

        def own(x):
            return without_padding(x.interior if isinstance(x, AbstractField) else x, sides)

        return each_state(lambda state: state.map(own), tree)
